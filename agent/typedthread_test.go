package agent_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A typed sub-agent answers the people of its thread in words: it is not asked for JSON there, in
// the request or in the prompt, and what it says is not a result.
func TestTypedSubagentAnswersPeopleInWords(t *testing.T) {
	type finding struct{ Claim string }
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			if tn.Schema == nil {
				require.Contains(t, tn.Prompt.String(), "does not hold for this answer")
				return agent.Result{Text: "It is so."}, nil
			}
			require.NotContains(t, tn.Prompt.String(), "Answering People")
			return agent.Result{JSON: json.RawMessage(`{"Claim":"yes"}`)}, nil
		})}
	threadsOn(t, cfg, nil, func(b threadBot) {
		own, err := b.chat.Key(b.general)
		require.NoError(t, err)
		c, err := agent.Spawn[finding](b.Context(), b.Session(own),
			agent.Task{Text: "x", Thread: true})
		require.NoError(t, err)
		value, err := c.Wait(b.Context())
		require.NoError(t, err)
		require.Equal(t, finding{"yes"}, value)
		at := b.chat.Threads()[0]
		receipt := b.write(at, "Is it so?")
		b.Pass(time.Minute)
		require.Equal(t, "It is so.", b.chat.Said(at)[len(b.chat.Said(at))-1])
		answered, err := agent.ChildOf[finding](b.Context(), b.Session(own), receipt)
		require.NoError(t, err)
		_, err = answered.Wait(b.Context())
		var not *agent.ResultError
		require.ErrorAs(t, err, &not)
		require.ErrorContains(t, not, "It is so.")
		follow, err := c.Post(b.Context(), agent.Incoming{Text: "Again, as JSON."})
		require.NoError(t, err)
		value, err = follow.Wait(b.Context())
		require.NoError(t, err)
		require.Equal(t, finding{"yes"}, value)
	})
}
