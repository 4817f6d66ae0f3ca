package openclaw_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/stretchr/testify/require"
)

// Who speaks: the owners, and tools by sender. There the tools of a sender are in place of those of
// the group; here all rules narrow, so that those of the group are the ones of everyone else.
func TestSenders(t *testing.T) {
	r := parse(t, `{
		commands: {ownerAllowFrom: ["telegram:123", 456, "@ann:server", "*"], text: true},
		tools: {ownerOnly: ["cron"], toolsBySender: {"channel:irc:eve": {deny: ["exec"]}}},
		channels: {telegram: {groups: {
			"-100": {tools: {deny: ["exec", "read"]}, toolsBySender: {
				"id:123": {alsoAllow: ["exec"]}, "77": {allow: ["read"], alsoAllow: ["web_*"]},
			}},
			"-200": {tools: {deny: ["exec"]}, toolsBySender: {"*": {deny: ["read"]}}},
		}}},
	}`)
	require.Equal(t, policy.Rules{
		Owners: []policy.Person{
			{Channel: "telegram", ID: "123"}, {ID: "456"}, {ID: "@ann:server"}, {ID: "*"},
		},
		OwnerOnly: []string{"cron"},
		Senders: []policy.SenderTools{{
			Person: policy.Person{Channel: "irc", ID: "eve"},
			Tools:  policy.ToolRules{Deny: []string{"exec"}},
		}},
		Chats: []policy.Chat{{
			Channel: "telegram", Peer: "-100", Senders: []policy.SenderTools{
				{
					Person: policy.Person{ID: "77"},
					Tools:  policy.ToolRules{Allow: []string{"read", "web_*"}},
				},
				{Person: policy.Person{ID: "123"}},
				{Person: policy.Person{ID: "*"}, Tools: policy.ToolRules{Deny: []string{"exec", "read"}}},
			},
		}, {
			Channel: "telegram", Peer: "-200", Senders: []policy.SenderTools{
				{Person: policy.Person{ID: "*"}, Tools: policy.ToolRules{Deny: []string{"read"}}},
			},
		}},
	}, r.Config.Rules)
	require.NoError(t, r.Config.Rules.Validate())

	require.Equal(t, []string{
		`1:29: commands.ownerAllowFrom[0]: it is blank, want the id of a person, or *`,
		`1:73: tools.toolsBySender["username:bob"]: it names people by a username, which they choose; ` +
			"want id:..., channel:<channel>:<id> or *",
	}, mistakes(t, `{commands:{ownerAllowFrom: [" "]},tools:{toolsBySender:{"username:bob": {}}}}`, nowhere()))
}
