package command_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/agent/command"
	"github.com/offshoot-sdk/offshoot/session"
)

// A transport that hands a message over again after a crash starts one sub-agent and sends one
// message, wherever the crash was, and the end of the sub-agent is said once, where it was asked
// for.
func TestCommandsEveryCrash(t *testing.T) {
	script := agenttest.Script{
		"job": {agenttest.Say("Done."), agenttest.Say("Again.")},
	}
	at := session.Route{Channel: "irc", To: "ops"}
	key := session.Must(session.ChannelKey("main", "irc", "ops"))
	agenttest.EveryCrash(t, agent.Config{}, script, func(h *agenttest.Harness) {
		say := func(id, said string) (answer command.Answer) {
			require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
				handler, err := command.New(rt, command.Options{})
				require.NoError(h.T(), err)
				m := agent.Incoming{
					ID: id, Text: said, Route: at, From: session.Sender{ID: "ann"},
				}
				a, ok := handler.Handle(h.Context(), key, m)
				require.True(h.T(), ok)
				if failed, ok := a.(command.Failed); ok {
					return failed.Err
				}
				answer = a
				return nil
			}))
			return answer
		}
		spawned, ok := say("1", "/subagents spawn main job").(command.Spawned)
		require.True(h.T(), ok)
		time.Sleep(10 * time.Minute)
		require.Len(h.T(), h.Runs(), 1)
		require.Equal(h.T(), spawned.Run, h.Runs()[0].ID)
		var updates []string
		for _, d := range h.Replies() {
			if strings.HasPrefix(d.Reply.Text, "job ") {
				updates = append(updates, d.Reply.Text)
				require.Equal(h.T(), at, d.Reply.Route)
			}
		}
		require.Len(h.T(), updates, 1)
		for range 2 {
			require.IsType(h.T(), command.Sent{}, say("2", "/subagents send job more"))
			time.Sleep(10 * time.Minute)
		}
		var runs []agent.RunInfo
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) (err error) {
			runs, err = rt.Session(spawned.Session).OwnRuns(h.Context())
			return err
		}))
		begun := runs[1:]
		if begun[0].Status == agent.StatusInterrupted { // its message begins another one then
			begun = begun[1:]
		}
		require.Len(h.T(), begun, 1)
	})
}
