package agent_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

const goodFinding = `{"claim":"it works","confidence":0.9}`

// repairable is a Config whose sub-agents answer with the parts of their task, one in each turn
// and the last one again and again. What they were told is in told.
type repairable struct {
	cfg  agent.Config
	told []string
	work time.Duration // of a turn
	mu   sync.Mutex
}

func newRepairable() *repairable {
	r := &repairable{}
	r.cfg = configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if !tn.Session.Key.IsSubagent() {
			return textResult("noted")
		}
		if err := pause(ctx, r.work); err != nil {
			return agent.Result{Text: "cut"}, err
		}
		_, task, _ := strings.Cut(tn.Messages[0].Text, "[Subagent Task]: ")
		if tn.N > 1 {
			r.mu.Lock()
			r.told = append(r.told, tn.Input())
			r.mu.Unlock()
		}
		answers := strings.Split(task, "|")
		return textResult(answers[min(tn.N, len(answers))-1])
	})
	return r
}

// A result that is not valid is answered with what is wrong, where, and the schema, in the same
// session. The requester hears of the run once, when it has ended.
func TestRepair(t *testing.T) {
	r := newRepairable()
	r.cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, r.cfg, nil, func(h *harness) {
		task := agent.Task{Text: `{"claim":"x"}|` + goodFinding, Announce: true}
		c, err := agent.Spawn[finding](h.Context(), h.Main(), task)
		require.NoError(t, err)
		got, err := c.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, finding{"it works", 0.9}, got)
		schema, err := agent.ResultSchema[finding]()
		require.NoError(t, err)
		require.Len(t, r.told, 1)
		require.Contains(t, r.told[0], "[Offshoot] Your report was not accepted.")
		require.Contains(t, r.told[0], "confidence is missing: want a number")
		require.Contains(t, r.told[0], string(schema))
		info, err := c.Info(h.Context())
		require.NoError(t, err)
		require.Equal(t, 2, info.Turns)
		require.Empty(t, info.Refused)
		page, err := c.Session().History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.Len(t, page.Lines, 4, "the session is one")
		time.Sleep(time.Second)
		require.Len(t, h.Deliveries(), 1)
		require.Equal(t, goodFinding, h.Deliveries()[0].Completion.Run.Result.Text)
	})
}

// After two repairs the run has failed. Its text is kept, the requester is told that it failed and
// why, and a wait for one that ends well does not count it.
func TestRepairsThatFail(t *testing.T) {
	r := newRepairable()
	r.cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, r.cfg, nil, func(h *harness) {
		ctx := h.Context()
		bad, err := agent.Spawn[finding](ctx, h.Main(), agent.Task{
			Text: "one|two|three: no idea|" + goodFinding, Announce: true,
		})
		require.NoError(t, err)
		other, err := agent.Spawn[finding](ctx, h.Main(), agent.Task{Text: "[]|" + goodFinding})
		require.NoError(t, err)
		outcomes, err := agent.Join(ctx, h.Main(), []*agent.Child[finding]{bad, other},
			agent.JoinOptions{AtLeast: 1})
		require.NoError(t, err)
		require.NoError(t, outcomes[1].Err)
		_, err = bad.Wait(ctx)
		e, ok := errors.AsType[*agent.ResultError](err)
		require.True(t, ok, "%v", err)
		schema, err := agent.ResultSchema[finding]()
		require.NoError(t, err)
		require.Equal(t, string(schema), string(e.Schema))
		require.Equal(t, spawn.StatusFailed, e.Run.Status)
		require.Equal(t, "three: no idea", e.Run.Result.Text)
		for _, part := range []string{"not JSON", "three: no idea", `{\"type\":\"object\"`} {
			require.ErrorContains(t, e, part)
		}
		_, err = agent.Join(ctx, h.Main(), []*agent.Child[finding]{bad, other},
			agent.JoinOptions{})
		few, ok := errors.AsType[*agent.JoinError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, agent.JoinError{OK: 1, Want: 2}, *few)
		time.Sleep(time.Second)
		require.Len(t, h.Deliveries(), 1)
		event := announce.NewEvent(h.Deliveries()[0].Completion)
		require.Equal(t, "error", event.Outcome())
		require.Contains(t, event.Phrase(), "its answer was refused after 2 repairs: not JSON")
		require.Contains(t, event.ForModel(), "three: no idea")
	})
}

// A later run of a typed sub-agent is typed, too, with repairs of its own, also after a restart.
func TestFollowUpIsRepaired(t *testing.T) {
	r := newRepairable()
	agenttest.Run(t, r.cfg, nil, func(h *harness) {
		ctx := h.Context()
		c, err := agent.Spawn[finding](ctx, h.Main(), agent.Task{
			Text: "a|b|" + goodFinding + "|c|d|" + goodFinding + "|e|f|g",
		})
		require.NoError(t, err)
		_, err = c.Wait(ctx)
		require.NoError(t, err)
		h.Crash()
		receipt, err := h.Session(c.Key()).Post(ctx, agent.Incoming{Text: "again"})
		require.NoError(t, err)
		later, err := agent.ChildOf[finding](ctx, h.Main(), receipt)
		require.NoError(t, err)
		_, err = later.Wait(ctx)
		require.NoError(t, err)
		third, err := later.Post(ctx, agent.Incoming{Text: "and again"})
		require.NoError(t, err)
		_, err = third.Wait(ctx)
		_, ok := errors.AsType[*agent.ResultError](err)
		require.True(t, ok, "%v", err)
		require.Len(t, r.told, 8)
	})
}

// A shade is a value whose schema is that of any text.
type shade string

func (s *shade) UnmarshalText(text []byte) error {
	if string(text) != "light" && string(text) != "dark" {
		return fmt.Errorf("%q is not a shade", text)
	}
	*s = shade(text)
	return nil
}

type painted struct {
	Shade shade `json:"shade"`
}

// What fits the schema and not the type is repaired as well, where the program has asked for that
// type. Two types with one name are not told apart, so that the schema alone decides there.
func TestRepairOfWhatCannotBeDecoded(t *testing.T) {
	r := newRepairable()
	agenttest.Run(t, r.cfg, nil, func(h *harness) {
		task := agent.Task{Text: `{"shade":"pink"}|{"shade":"dark"}`}
		c, err := agent.Spawn[painted](h.Context(), h.Main(), task)
		require.NoError(t, err)
		got, err := c.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, painted{"dark"}, got)
		require.Contains(t, r.told[0], `shade cannot be decoded: "pink" is not a shade`)
	})
}

// A stop, the time of the run and its budget end it at a repair as they do elsewhere.
func TestRepairIsWithinLimits(t *testing.T) {
	for name, c := range map[string]struct {
		task agent.Task
		do   func(h *harness, c *agent.Child[finding])
		want spawn.Status
	}{
		"stopped": {do: func(h *harness, c *agent.Child[finding]) {
			time.Sleep(90 * time.Second)
			require.NoError(h.T(), c.Stop(h.Context()))
		}, want: spawn.StatusCancelled},
		"out of time": {task: agent.Task{Timeout: 90 * time.Second}, want: spawn.StatusTimedOut},
		"out of budget": {
			task: agent.Task{Budget: policy.Budget{Turns: 1}}, want: spawn.StatusIncomplete,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepairable()
			r.work = time.Minute
			agenttest.Run(t, r.cfg, nil, func(h *harness) {
				c.task.Text = "bad"
				child, err := agent.Spawn[finding](h.Context(), h.Main(), c.task)
				require.NoError(t, err)
				if c.do != nil {
					c.do(h, child)
				}
				_, err = child.Wait(h.Context())
				e, ok := errors.AsType[*agent.RunError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, c.want, e.Run.Status)
				require.Empty(t, e.Run.Refused)
			})
		})
	}
}

// A shutdown that cuts a repair before it has begun to work leaves it to the next process.
func TestRepairAfterAShutdown(t *testing.T) {
	r := newRepairable()
	r.work = time.Minute
	r.cfg.Store = session.NewMemory()
	agenttest.Run(t, r.cfg, nil, func(h *harness) {
		_, err := agent.Spawn[finding](h.Context(), h.Main(),
			agent.Task{Text: "a|" + goodFinding, Label: "typed"})
		require.NoError(t, err)
		time.Sleep(59 * time.Second)
		ctx, cancel := context.WithTimeout(h.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, h.Runtime().Shutdown(ctx))
		h.Crash()
		time.Sleep(5 * time.Minute)
		require.Equal(t, spawn.StatusOK, h.Child("typed").Status)
		require.Equal(t, goodFinding, h.Child("typed").Result.Text)
		require.Len(t, r.told, 1)
	})
}

// Wherever the process dies: a run has at most two repairs, and never ends well with a result that
// is not valid. What the harness checks at the end of each run is the rest of the test.
func TestRepairOverEveryCrash(t *testing.T) {
	r := newRepairable()
	agenttest.EveryCrash(t, r.cfg, nil, func(h *harness) {
		for _, text := range []string{"bad|" + goodFinding, "bad", "bad|worse|" + goodFinding} {
			err := h.Do(func(rt *agent.Runtime) error {
				task := agent.Task{Text: text, Label: text, Key: text, Announce: true}
				_, err := agent.Spawn[finding](h.Context(), rt.Session(topKey), task)
				return err
			})
			require.NoError(t, err)
		}
		h.Pass(time.Hour)
		for _, run := range h.Runs() {
			require.LessOrEqual(t, run.Turns, 3)
			require.True(t, run.Status.Terminal())
			if run.Status == spawn.StatusOK {
				require.Equal(t, goodFinding, run.Result.Text)
			}
		}
	})
}

// What a Runner gives as typed result and is not JSON is repaired like any other, and is kept.
func TestRepairOfWhatIsNotJSON(t *testing.T) {
	turns := 0
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if turns++; tn.N < 2 || tn.Label == "never" {
			return agent.Result{JSON: []byte(`{"claim":`)}, nil
		}
		return agent.Result{JSON: []byte(goodFinding)}, nil
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[finding](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		got, err := c.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, finding{"it works", 0.9}, got)
		require.Equal(t, 2, turns)
		task := agent.Task{Text: "x", Label: "never"}
		c, err = agent.Spawn[finding](h.Context(), h.Main(), task)
		require.NoError(t, err)
		_, err = c.Wait(h.Context())
		bad, ok := errors.AsType[*agent.ResultError](err)
		require.True(t, ok, "%v", err)
		require.ErrorContains(t, bad, "not JSON: unexpected end of JSON input")
		require.Equal(t, `{"claim":`, bad.Run.Result.Text)
	})
}

// A decoder of a program that ends its goroutine is named as what did it.
func TestDecoderThatExits(t *testing.T) {
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult(`"x"`)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[exiting](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = c.Wait(h.Context())
		require.ErrorContains(t, err, "the type of the result")
		require.NotContains(t, err.Error(), "Store")
	})
}

// An exiting is a type whose decoder ends the goroutine.
type exiting struct{ text string }

func (e *exiting) UnmarshalText(text []byte) error {
	e.text = string(text)
	runtime.Goexit()
	return nil
}

func (e exiting) MarshalText() ([]byte, error) { return []byte(e.text), nil }
