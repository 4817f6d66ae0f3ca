package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// docs/threads.md: a message whose session has spent its budget is refused and told to no session.
// The conversation stays bound, and the message does not count as one that was written in it.
func TestMessageAfterTheBudgetOfAThread(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "done", Usage: agent.Usage{Input: 10}}, nil
		})}
	runThreads(t, agenttest.Run, cfg, nil, func(b threadBot) {
		child, at := b.spawnThread(agent.Task{Text: "x", Budget: policy.Budget{Tokens: 10}})
		b.Pass(time.Minute)
		own, err := b.chat.Key(at)
		require.NoError(t, err)
		before := b.bindings()
		for range 2 {
			b.Pass(time.Hour)
			_, err = b.Session(own).Post(b.Context(), agent.Incoming{
				ID: "1", Text: "more", Route: at,
			})
			refused := new(policy.Refusal)
			require.ErrorAs(t, err, &refused)
		}
		require.Equal(t, before, b.bindings())
		require.Equal(t, child.Key(), before[0].Target)
		require.Empty(t, b.chat.Said(at))
		b.Pass(23 * time.Hour)
		require.Empty(t, b.bindings(), "it is idle")
		require.Equal(t, own, b.write(at, "again").Session)
	})
}

// docs/sessions.md: people whose messages a sub-agent has not read when it is deleted are told that
// they get no answer, once in each conversation. What they write then goes where it went before.
func TestDeleteOfASessionWithUnreadMessages(t *testing.T) {
	runThreads(t, agenttest.Run, agent.Config{Runner: agent.RunnerFunc(meetingTurn)}, nil,
		func(b threadBot) {
			child, at := b.spawnThread(agent.Task{Text: "work"})
			second := b.chat.At("lounge", "")
			_, err := b.focus(second, child.Key(), "alice")
			require.NoError(t, err)
			for _, at := range []session.Route{at, second} {
				require.Equal(t, child.Key(), b.write(at, "hello").Session)
				require.Equal(t, child.Key(), b.write(at, "are you there?").Session)
			}
			require.NoError(t, b.Runtime().DeleteSession(b.Context(), child.Key()))
			b.Pass(time.Minute)
			for _, at := range []session.Route{at, second} {
				require.Len(t, b.chat.Said(at), 2, "with the farewell")
				sorry := func(said string) bool { return strings.Contains(said, "Sorry") }
				require.True(t, slices.ContainsFunc(b.chat.Said(at), sorry), "in either order")
				require.Len(t, b.chat.Farewells(at), 1)
				require.NotEqual(t, child.Key(), b.write(at, "again").Session)
			}
		})
}
