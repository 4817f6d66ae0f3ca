package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// One main session serves several rooms by the Route of each message. What Rules.Chats say of a
// room holds for each turn that reads what is said there, for what it spawns, and for the turn over
// the end of that, over a crash at every write; and not for the turns of another room.
func TestChatsHoldForTheRoomOfARoute(t *testing.T) {
	cfg := ownedConfig()
	cfg.Rules.Owners, cfg.Tools[1].OwnerOnly = nil, false
	cfg.Rules.Chats = []policy.Chat{
		{
			Channel: "telegram", Peer: "-100", Tools: policy.ToolRules{Deny: []string{"deploy"}},
			Senders: []policy.SenderTools{{
				Person: policy.Person{ID: "bob"}, Tools: policy.ToolRules{Deny: []string{"cron"}},
			}},
		},
		{Channel: "telegram", Peer: "-300", Tools: policy.ToolRules{Allow: []string{"read"}}},
	}
	in := func(h *harness, room, who, text string) {
		h.PostIncoming(topKey, agent.Incoming{
			ID: text, Text: text, From: session.Sender{ID: who},
			Route: session.Route{Channel: "telegram", Account: "a", To: room},
		})
		h.Pass(time.Minute)
	}
	all := []string{"cron", "deploy", "read"}
	steps := script{
		agenttest.Main: {
			startStep("helper"), say("begun"), say("back"), say("1"), say("2"), say("3"), say("4"),
		},
		"helper": {say("done").After(10 * time.Second)},
	}
	agenttest.EveryCrash(t, cfg, steps, func(h *harness) {
		in(h, "-100", "ann", "begin")
		require.Equal(h.T(), []string{"cron", "read"}, offered(h, agenttest.Main))
		for _, run := range h.Runs() {
			require.NotContains(h.T(), run.Tools, "deploy")
			require.Equal(h.T(), "-100", run.Senders[0].Peer)
		}
	})
	agenttest.Run(t, cfg, script{
		agenttest.Main: {say("1"), say("2"), say("3"), call("deploy", `{}`), say("4"), say("5")},
	}, func(h *harness) {
		for _, c := range []struct {
			room, who string
			want      []string
		}{
			{"-100", "bob", []string{"read"}},
			{"-200", "bob", all},
			{"-300", "ann", []string{"read"}},
			{"-100", "ann", []string{"cron", "read"}},
			{"-200", "", all},
		} {
			in(h, c.room, c.who, "in "+c.room+" "+c.who)
			require.Equal(t, c.want, offered(h, agenttest.Main), "%s in %s", c.who, c.room)
		}
		require.True(t, wasTold(h, agenttest.Main, "Config.Rules.Chats[0].Tools.Deny "+
			"(channels.telegram.groups[-100].tools.deny)"))
	})
}
