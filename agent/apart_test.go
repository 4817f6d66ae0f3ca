package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// workerConfig has a session that gives work away when it is told to, and otherwise repeats what it
// is told.
func workerConfig() agent.Config {
	return configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			time.Sleep(30 * time.Second)
			return textResult("done")
		}
		m := tn.Messages[len(tn.Messages)-1]
		switch {
		case m.Internal:
			return textResult("told")
		case strings.HasSuffix(m.Text, "work"):
			_, err := tn.Spawn(ctx, agent.Task{Text: "x", Announce: true})
			return agent.Result{Text: "on it"}, err
		}
		return textResult(m.Text)
	})
}

// What a person writes without saying where is answered where the message before was, also behind
// the end of a sub-agent that is told elsewhere: in a room that was bound and is not any more,
// however that ended, or where the message before the last came from.
func TestEndOfASubagentMovesNoChat(t *testing.T) {
	for name, leave := range map[string]func(h *harness, room session.Route){
		"unfocus": func(h *harness, room session.Route) {
			_, err := h.Runtime().Unfocus(h.Context(),
				agent.UnfocusRequest{Conversation: room, By: "alice"})
			require.NoError(h.T(), err)
		},
		"unfocus and a crash": func(h *harness, room session.Route) {
			_, err := h.Runtime().Unfocus(h.Context(),
				agent.UnfocusRequest{Conversation: room, By: "alice"})
			require.NoError(h.T(), err)
			h.Crash()
		},
		"refocus": func(h *harness, room session.Route) {
			_, err := h.Runtime().Focus(h.Context(), agent.FocusRequest{
				Conversation: room, By: "alice",
				Session: session.Must(session.DirectKey("main", "discord", "carol")),
			})
			require.NoError(h.T(), err)
		},
		"bound all the while": func(*harness, session.Route) {},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := workerConfig()
			c := agenttest.NewFakeChannel("discord")
			c.Connect(&cfg)
			agenttest.Run(t, cfg, nil, func(h *harness) {
				alice := session.Must(session.DirectKey("main", "discord", "alice"))
				room := c.At("room", "")
				own, _ := c.Key(room)
				_, err := h.Runtime().Focus(h.Context(),
					agent.FocusRequest{Conversation: room, Session: alice, By: "alice"})
				require.NoError(t, err)
				_, err = h.Session(own).Post(h.Context(), agent.Incoming{Text: "work", Route: room})
				require.NoError(t, err)
				h.Pass(time.Second)
				leave(h, room)
				h.Pass(time.Minute)
				for range 2 {
					_, err = h.Session(alice).Post(h.Context(), agent.Incoming{Text: "private"})
					require.NoError(t, err)
					h.Pass(time.Minute)
				}
				require.Contains(t, c.Said(room), "told", "where it was asked for")
				require.NotContains(t, c.Said(room), "private")
				require.Equal(t, []string{"private", "private"}, c.Said(alice.Route()))
			})
		})
	}
}

// The same holds without conversations that are bound, and for SetRoute.
func TestEndOfASubagentMovesNoRoute(t *testing.T) {
	cfg := workerConfig()
	var said []string
	cfg.Reply = func(_ context.Context, d agent.Delivery) error {
		said = append(said, d.Reply.Route.To+": "+d.Reply.Text)
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		post := func(text, to string) {
			m := agent.Incoming{Text: text}
			if to != "" {
				m.Route = session.Route{Channel: "x", To: to}
			}
			_, err := h.Main().Post(h.Context(), m)
			require.NoError(t, err)
			h.Pass(time.Second)
		}
		post("work", "room")
		post("hello", "bob")
		h.Pass(time.Minute)
		post("private", "")
		post("work", "room")
		require.NoError(t, h.Main().SetRoute(h.Context(), session.Route{Channel: "x", To: "set"}))
		h.Pass(time.Minute)
		post("here", "")
		require.Equal(t, []string{
			"room: on it", "bob: hello", "room: told", "bob: private", "room: on it", "room: told",
			"set: here",
		}, said)
	})
}
