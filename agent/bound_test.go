package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// 2.5: what a sub-agent says to a bound conversation passes what a reply of a top-level session
// passes, and its model is told whom it answers. A turn that fails says so.
func TestSubagentAnswersAsASessionDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prompts := make(map[string]string)
		rt := runUntilEnd(t, agent.Config{
			Store: session.NewMemory(),
			Reply: func(context.Context, spawn.Delivery) error { return nil },
			Runner: agent.RunnerFunc(
				func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
					text := tn.Messages[len(tn.Messages)-1].Text
					prompts[text] = tn.Prompt.String()
					if text == "fail" {
						return agent.Result{}, errors.New("broken")
					}
					return agent.Result{Text: "<think>no</think>re: " + text}, nil
				}),
		})
		child, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "work"})
		require.NoError(t, err)
		synctest.Wait()
		route := session.Route{Channel: "chat", To: "room", Thread: "1"}
		require.NoError(t, agent.BindSession(t.Context(), rt, topKey, child.Key(), route))
		reply, err := agent.PostBound(t.Context(), rt, topKey, child.Key(), route, "hello")
		require.NoError(t, err)
		require.Equal(t, "re: hello", reply.Text)
		require.Equal(t, child.Key(), reply.From)
		require.Contains(t, prompts["hello"], "## Answering People")
		require.NotContains(t, prompts["work"], "## Answering People")

		reply, err = agent.PostBound(t.Context(), rt, topKey, child.Key(), route, "fail")
		require.NoError(t, err)
		require.True(t, reply.Failed)
		require.Contains(t, reply.Text, "Sorry")
	})
}
