package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// readerConfig has sub-agents work for half an hour in their first turn, and answer at once in each
// later one. It notes that a turn has begun to read the question.
func readerConfig(read *atomic.Bool, first error) agent.Config {
	return configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		for _, m := range tn.Messages {
			if strings.Contains(m.Text, "the question") {
				read.Store(true)
				return agent.Result{Text: "the answer"}, nil
			}
		}
		select {
		case <-ctx.Done():
			return agent.Result{}, context.Cause(ctx)
		case <-time.After(30 * time.Minute):
		}
		return agent.Result{Text: "done"}, first
	})
}

var question = agent.Incoming{ID: "m1", Text: "the question"}

// Pain 32: a message that the run has not read when it ends is not taken for a repeat when it comes
// again, however the run has ended: it begins another run, once.
func TestUnreadMessageIsNewWhenItComesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		fails   error
		end     func(h *harness, c *agent.Child[string])
	}{
		"stopped": {end: func(h *harness, c *agent.Child[string]) {
			require.NoError(h.T(), c.Stop(h.Context()))
		}},
		"crashed":   {end: func(h *harness, _ *agent.Child[string]) { h.Crash() }},
		"timed out": {timeout: 20 * time.Minute},
		"failed":    {fails: errors.New("broken")},
	} {
		t.Run(name, func(t *testing.T) {
			read := new(atomic.Bool)
			agenttest.Run(t, readerConfig(read, c.fails), nil, func(h *harness) {
				t := h.T()
				child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
					Text: "work", Timeout: c.timeout,
				})
				require.NoError(t, err)
				h.Pass(time.Minute)
				for _, known := range []bool{false, true} {
					got, err := child.Session().Post(h.Context(), question)
					require.NoError(t, err)
					require.Equal(t, agent.Receipt{
						Session: child.Key(), Run: child.ID(), Existing: known,
					}, got)
				}
				if c.end != nil {
					c.end(h, child)
				}
				h.Pass(40 * time.Minute)
				require.False(t, read.Load())
				again, err := h.Session(child.Key()).Post(h.Context(), question)
				require.NoError(t, err)
				require.True(t, again.Began && !again.Existing, "%+v", again)
				require.NotEqual(t, child.ID(), again.Run)
				h.Pass(time.Minute)
				require.True(t, read.Load())
				known, err := h.Session(child.Key()).Post(h.Context(), question)
				require.NoError(t, err)
				require.Equal(t, agent.Receipt{
					Session: child.Key(), Run: again.Run, Existing: true,
				}, known)
			})
		})
	}
}

// A program that repeats its message until a run has read it loses none, wherever the process dies.
func TestRepeatedMessageIsReadOverEveryCrash(t *testing.T) {
	read := new(atomic.Bool)
	agenttest.EveryCrash(t, readerConfig(read, nil), nil, func(h *harness) {
		read.Store(false)
		var key session.Key
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			child, err := agent.Spawn[string](h.Context(), rt.Session(topKey), agent.Task{
				Text: "work", Key: "work",
			})
			if err == nil {
				key = child.Key()
			}
			return err
		}))
		for range 3 {
			h.PostIncoming(key, question)
			h.Pass(20 * time.Minute)
		}
		require.True(h.T(), read.Load(), "the question was not read")
	})
}
