package policy_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// S4: what is denied in a conversation is denied there, or Validate says that there is no such
// conversation. A key may have a peer that is most often not meant: then there is a doubt.
func TestChatsApplyOrAreRefused(t *testing.T) {
	const right, doubtful, wrong = "right", "doubtful", "wrong"
	deny := policy.ToolRules{Deny: []string{"exec"}}
	check := func(c policy.Chat, want, field string) {
		t.Helper()
		c.Tools = deny
		rules := policy.Rules{Chats: []policy.Chat{c}}
		err := rules.Validate()
		if want == wrong {
			bad, ok := errors.AsType[*policy.FieldError](err)
			require.True(t, ok, "%+v: %v", c, err)
			require.Equal(t, "Rules.Chats[0]."+field, bad.Field)
			require.Len(t, err, 1)
			return
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, want == doubtful, len(rules.Doubts([]string{"exec"})) > 0, "%+v", c)
		peer := c.Peer
		if peer == "*" {
			peer = "anyone"
		}
		for _, key := range []session.Key{
			session.Must(session.GroupKey("main", "telegram", peer)),
			session.Must(session.DirectKey("ops", "telegram", peer)),
			session.Must(session.DirectAccountKey("main", "telegram", "acc", peer)),
			session.Must(session.Must(session.ChannelKey("main", "telegram", peer)).Topic("7")),
		} {
			require.NotContains(t, rules.TopAuthority(key, "", []string{"exec"}).Tools, "exec",
				"%+v %s", c, key)
		}
	}
	for channel, want := range map[string]string{
		"telegram": right, "Telegram": right, " TELEGRAM ": right,
		"": wrong, " ": wrong, "*": wrong, "tele*": wrong, "tele gram": wrong, "telegram:acc": wrong,
		"direct": wrong, "dm": wrong, "group": wrong, "Channel": wrong, "main": wrong, "cron": wrong,
		"thread": wrong, "tele\u200bgram": wrong, "télégram": wrong, "#telegram": wrong, ":": wrong,
	} {
		check(policy.Chat{Channel: channel, Peer: "42"}, want, "Channel")
		check(policy.Chat{Channel: channel, Peer: "*"}, want, "Channel")
	}
	for peer, want := range map[string]string{
		"*": right, "42": right, "-100A": right, "Bob": right, "!room:server.org": right, "#a": right,
		"19:abc@thread.tacv2": right, "thread-1": right, "Élise": right,
		"": wrong, " ": wrong, " 42": wrong, "42 ": wrong, "4 2": wrong, "4\t2": wrong, " *": wrong,
		"42:": wrong, ":42": wrong, "4\u200b2": wrong, "4\xff": wrong, "topic": wrong,
		"42:topic:7": wrong, "42:thread:7": wrong, "Subagent": wrong,
		"4*": doubtful, "**": doubtful, "group:42": doubtful, "Group:42": doubtful,
		"direct:42": doubtful, "channel:42": doubtful, "telegram:42": doubtful,
		"Telegram:42": doubtful,
	} {
		check(policy.Chat{Channel: "telegram", Peer: peer}, want, "Peer")
	}
	both := policy.Rules{Chats: []policy.Chat{{Channel: "a b", Peer: " 42"}}}
	require.Len(t, both.Validate(), 2, "both parts are reported")
}

// S4: the texts say what to write instead.
func TestChatsSayWhatToWriteInstead(t *testing.T) {
	rules := policy.Rules{Chats: []policy.Chat{{Channel: "*", Peer: "42"}}}
	require.ErrorContains(t, rules.Validate(),
		`policy: Rules.Chats[0].Channel (channels.*.groups[42].channel) is "*", want one channel, `+
			`as "telegram"; what holds for every channel stands in Rules.Tools (tools)`)
	rules.Chats = []policy.Chat{
		{Channel: "irc", Peer: "4*"}, {Channel: "irc", Peer: "IRC:42"}, {Channel: "IRC", Peer: "4*"},
	}
	require.NoError(t, rules.Validate())
	var got []string
	for _, d := range rules.Doubts(nil) {
		got = append(got, d.String())
		requireGoPath(t, rules, d.Field)
	}
	pattern := `"4*" is not a pattern: it is one peer of that very name; * alone is every one`
	require.Equal(t, []string{
		"Rules.Chats[0].Peer (channels.irc.groups[4*].peer): " + pattern,
		`Rules.Chats[1].Peer (channels.irc.groups[IRC:42].peer): "IRC:42" stands for a peer of that ` +
			`very name; the peer of the key "agent:main:irc:group:42" is "42"`,
		"Rules.Chats[2].Peer (channels.irc.groups[4*].peer): " + pattern,
		"Rules.Chats[2].Peer (channels.irc.groups[4*].peer): it is the conversation of " +
			"Rules.Chats[0], which applies in place of this one",
	}, got)
}
