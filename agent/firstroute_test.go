package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// chatKeys are keys that name a chat.
var chatKeys = []session.Key{
	session.Must(session.DirectKey("main", "irc", "ann")),
	session.Must(session.GroupKey("main", "irc", "room")),
}

// What a chat is told before a person has written there goes to the chat that its key names: what
// the session says over the end of a sub-agent and of an event, and an update.
func TestChatIsToldBeforeItsFirstMessage(t *testing.T) {
	for _, key := range chatKeys {
		for name, tell := range map[string]func(h *harness, rt *agent.Runtime) error{
			"announced": func(h *harness, rt *agent.Runtime) error {
				_, err := rt.Session(key).Spawn(h.Context(), agent.Task{
					Text: "count", Key: "1", Announce: true,
				})
				return err
			},
			"update": func(h *harness, rt *agent.Runtime) error {
				_, err := rt.Session(key).Spawn(h.Context(), agent.Task{
					Text: "count", Key: "1", Update: true,
				})
				return err
			},
			"event": func(h *harness, rt *agent.Runtime) error {
				_, err := rt.Announce(h.Context(), key, "backup-1", backup())
				return err
			},
		} {
			t.Run(name+"/"+key.String(), func(t *testing.T) {
				play := agenttest.Script{
					agenttest.Main: {agenttest.Say("There are 12.")},
					"count":        {agenttest.Say("12")},
				}
				agenttest.Run(t, agent.Config{}, play, func(h *harness) {
					require.NoError(t, h.Do(func(rt *agent.Runtime) error { return tell(h, rt) }))
					h.Pass(time.Minute)
					require.Len(t, h.Replies(), 1)
					require.Equal(t, key.Route(), h.Replies()[0].Reply.Route)
				})
			})
		}
	}
}

// So it is with a session that the caller runs.
func TestDeliveryNamesTheChatOfItsKey(t *testing.T) {
	for _, key := range chatKeys {
		var got []agent.Delivery
		cfg := agent.Config{Deliver: func(_ context.Context, d agent.Delivery) error {
			got = append(got, d)
			return nil
		}}
		play := agenttest.Script{"count": {agenttest.Say("12")}}
		agenttest.Run(t, cfg, play, func(h *harness) {
			require.NoError(t, h.Do(func(rt *agent.Runtime) error {
				_, err := rt.Session(key).Spawn(h.Context(), agent.Task{
					Text: "count", Key: "1", Announce: true,
				})
				return err
			}))
			h.Pass(time.Minute)
			require.Len(t, got, 1)
			require.Equal(t, key.Route(), got[0].Route)
		})
	}
}
