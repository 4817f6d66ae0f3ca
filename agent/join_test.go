package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// configTimed is a Config whose tasks say how long they take and whether they fail: "3s", "5s
// fail".
func configTimed() agent.Config {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		_, task, _ := strings.Cut(tn.Messages[0].Text, "[Subagent Task]: ")
		word, fail, _ := strings.Cut(task, " ")
		d, err := time.ParseDuration(word)
		if err != nil {
			return agent.Result{}, err
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return agent.Result{Text: "part of " + word}, context.Cause(ctx)
		}
		if fail != "" {
			return agent.Result{}, errors.New(fail)
		}
		return textResult("after " + word)
	})
	cfg.Rules = rulesForDepth(1)
	return cfg
}

func startAll(h *harness, tasks ...string) (children []*agent.Child[string]) {
	h.T().Helper()
	for _, task := range tasks {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: task, Label: task})
		require.NoError(h.T(), err)
		children = append(children, c)
	}
	return children
}

func TestJoin(t *testing.T) {
	good, failed, cancelled, running := spawn.StatusOK, spawn.StatusFailed, spawn.StatusCancelled,
		spawn.StatusRunning
	for _, c := range []struct {
		name  string
		tasks []string
		opt   agent.JoinOptions
		takes time.Duration
		want  []spawn.Status
		join  *agent.JoinError
	}{
		{
			"all",
			[]string{"1s", "3s", "2s"},
			agent.JoinOptions{},
			3 * time.Second,
			[]spawn.Status{good, good, good},
			nil,
		},
		{
			"all, one fails",
			[]string{"1s", "3s fail"},
			agent.JoinOptions{},
			3 * time.Second,
			[]spawn.Status{good, failed},
			&agent.JoinError{OK: 1, Want: 2},
		},
		{
			"two of three",
			[]string{"1s", "3s", "2s"},
			agent.JoinOptions{AtLeast: 2},
			2 * time.Second,
			[]spawn.Status{good, running, good},
			nil,
		},
		{
			"failures do not count",
			[]string{"1s fail", "3s", "2s"},
			agent.JoinOptions{AtLeast: 1},
			2 * time.Second,
			[]spawn.Status{failed, running, good},
			nil,
		},
		{
			"too few can",
			[]string{"1s fail", "2s"},
			agent.JoinOptions{AtLeast: 2},
			2 * time.Second,
			[]spawn.Status{failed, good},
			&agent.JoinError{OK: 1, Want: 2},
		},
		{
			"in time",
			[]string{"1s", "9s"},
			agent.JoinOptions{Within: 4 * time.Second},
			4 * time.Second,
			[]spawn.Status{good, running},
			&agent.JoinError{OK: 1, Want: 2},
		},
		{
			"stop the rest",
			[]string{"1s", "9s"},
			agent.JoinOptions{AtLeast: 1, Rest: agent.RestStop},
			time.Second,
			[]spawn.Status{good, cancelled},
			nil,
		},
		{
			"stop the rest in time",
			[]string{"8s", "9s"},
			agent.JoinOptions{Within: time.Second, Rest: agent.RestStop},
			time.Second,
			[]spawn.Status{cancelled, cancelled},
			&agent.JoinError{OK: 0, Want: 2},
		},
		{
			"more than there are",
			[]string{"1s"},
			agent.JoinOptions{AtLeast: 5},
			time.Second,
			[]spawn.Status{good},
			&agent.JoinError{OK: 1, Want: 5},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			agenttest.Run(t, configTimed(), nil, func(h *harness) {
				children := startAll(h, c.tasks...)
				began := time.Now()
				outcomes, err := agent.Join(h.Context(), h.Main(), children, c.opt)
				require.Equal(t, c.takes, time.Since(began))
				require.Len(t, outcomes, len(c.tasks))
				for i, o := range outcomes {
					require.Equal(t, c.tasks[i], o.Run.Label)
					require.Equal(t, c.want[i], o.Run.Status, c.tasks[i])
					if c.want[i] == good {
						require.NoError(t, o.Err)
						require.Equal(t, "after "+c.tasks[i], o.Value)
						continue
					}
					e, ok := errors.AsType[*agent.RunError](o.Err)
					require.True(t, ok, "%v", o.Err)
					require.Equal(t, o.Run.ID, e.Run.ID)
					if c.want[i] == cancelled {
						require.Contains(t, o.Run.Result.Text, "part of",
							"partial results are kept")
					}
				}
				if c.join == nil {
					require.NoError(t, err)
					return
				}
				e, ok := errors.AsType[*agent.JoinError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, c.join, e)
			})
		})
	}
}

func TestJoinOfWhatHasEndedOrNeverWas(t *testing.T) {
	agenttest.Run(t, configTimed(), nil, func(h *harness) {
		outcomes, err := agent.Join[string](h.Context(), h.Main(), nil, agent.JoinOptions{})
		require.NoError(t, err)
		require.Empty(t, outcomes)

		children := startAll(h, "1s", "2s")
		time.Sleep(time.Minute)
		began := time.Now()
		_, err = agent.Join(h.Context(), h.Main(), children, agent.JoinOptions{})
		require.NoError(t, err, "nothing is missed that ended before the wait")
		require.Zero(t, time.Since(began))

		other, err := agent.Spawn[string](h.Context(),
			h.Session(session.Must(session.MainKey("other"))), agent.Task{Text: "1s"})
		require.NoError(t, err)
		_, err = agent.Join(h.Context(), h.Main(), append(children, other), agent.JoinOptions{})
		require.ErrorContains(t, err, "another tree than")

		time.Sleep(3 * time.Hour) // archived by now
		outcomes, err = agent.Join(h.Context(), h.Main(), children, agent.JoinOptions{})
		require.ErrorIs(t, err, agent.ErrNotFound)
		require.Len(t, outcomes, 2, "one outcome for each, also beside an error")
		_, err = children[0].Info(h.Context())
		require.ErrorIs(t, err, agent.ErrNotFound)
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	agenttest.Run(t, configTimed(), nil, func(h *harness) {
		children := startAll(h, "1h")
		ctx, cancel := context.WithTimeoutCause(h.Context(), time.Minute,
			errors.New("no more patience"))
		defer cancel()
		outcomes, err := agent.Join(ctx, h.Main(), children,
			agent.JoinOptions{Rest: agent.RestStop})
		require.ErrorContains(t, err, "no more patience")
		require.Len(t, outcomes, 1)
		require.Equal(t, spawn.StatusRunning, outcomes[0].Run.Status,
			"who gives up waiting stops nothing")
		_, err = children[0].Wait(ctx)
		require.Error(t, err)
		got, err := children[0].Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "after 1h", got)
	})
}

// A wait that a crash interrupts says so; asked again under the same keys it goes on.
func TestWaitOverACrash(t *testing.T) {
	agenttest.Run(t, configTimed(), nil, func(h *harness) {
		spawnAll := func() (children []*agent.Child[string]) {
			for _, task := range []string{"1h", "1s"} {
				c, err := agent.Spawn[string](h.Context(), h.Main(),
					agent.Task{Text: task, Label: task, Key: task})
				require.NoError(t, err)
				children = append(children, c)
			}
			return children
		}
		first := spawnAll()
		time.Sleep(time.Minute)
		h.Crash()
		again := spawnAll()
		for i := range first {
			require.Equal(t, first[i].ID(), again[i].ID())
		}
		outcomes, err := agent.Join(h.Context(), h.Main(), again, agent.JoinOptions{})
		require.Equal(t, &agent.JoinError{OK: 1, Want: 2}, err)
		require.Equal(t, spawn.StatusInterrupted, outcomes[0].Run.Status)
		require.Equal(t, "after 1s", outcomes[1].Value)
		synctest.Wait()
	})
}

// Spawn, Join and their short forms take a Session or a Turn, and do the same with either: a typed
// or a plain result, of children that either of them spawned.
func TestSpawnAndJoinFromASessionOrATurn(t *testing.T) {
	for name, from := range map[string]func(h *harness, tn *agent.Turn) agent.Requester{
		"Session": func(h *harness, tn *agent.Turn) agent.Requester {
			return h.Session(tn.Session.Key)
		},
		"Turn": func(_ *harness, tn *agent.Turn) agent.Requester { return tn },
	} {
		for _, spawned := range []string{"Session", "Turn"} {
			t.Run(name+", children of a "+spawned, func(t *testing.T) {
				var h *harness
				cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
					if tn.Label == "number" {
						return textResult(`{"n":7}`)
					}
					if tn.Run != "" {
						return textResult("plain")
					}
					requester := agent.Requester(tn)
					if spawned == "Session" {
						requester = h.Session(tn.Session.Key)
					}
					typed, err := agent.Spawn[struct {
						N int `json:"n"`
					}](ctx, requester, agent.Task{Text: "x", Label: "number"})
					if err != nil {
						return agent.Result{}, err
					}
					plain, err := requester.(interface {
						Spawn(ctx context.Context, t agent.Task) (*agent.Child[string], error)
					}).Spawn(ctx, agent.Task{Text: "x"})
					if err != nil {
						return agent.Result{}, err
					}
					at := from(h, tn)
					numbers, err := agent.Join(ctx, at, append(typedList(typed), typed),
						agent.JoinOptions{AtLeast: 1})
					if err != nil {
						return agent.Result{}, err
					}
					texts, err := at.(interface {
						Wait(
							ctx context.Context, c []*agent.Child[string], o agent.JoinOptions,
						) ([]agent.Outcome[string], error)
					}).Wait(ctx, []*agent.Child[string]{plain}, agent.JoinOptions{})
					if err != nil {
						return agent.Result{}, err
					}
					return textResult(fmt.Sprint(numbers[0].Value.N, texts[0].Value))
				})
				agenttest.Run(t, cfg, nil, func(run *harness) {
					h = run
					h.Post("go")
					h.Replied("7plain")
				})
			})
		}
	}
}

// typedList returns an empty list of children like c.
func typedList[T any](*agent.Child[T]) []*agent.Child[T] { return nil }

// A Join from what is not there, or of children of another tree or Runtime, is an error.
func TestJoinFromElsewhere(t *testing.T) {
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		ctx := h.Context()
		c, err := h.Main().Spawn(ctx, agent.Task{Text: "x"})
		require.NoError(t, err)
		children := []*agent.Child[string]{c}
		rt, err := agent.Open(ctx, configAnswering(asText))
		require.NoError(t, err)
		defer func() { require.NoError(t, rt.Shutdown(ctx)) }()
		for name, from := range map[string]agent.Requester{
			"from": nil, "from.Session": (*agent.Session)(nil), "from.Turn": (*agent.Turn)(nil),
			"children[0].tree":    h.Session(session.Must(session.MainKey("other"))),
			"children[0].Runtime": rt.Session(topKey),
		} {
			_, err := agent.Join(ctx, from, children, agent.JoinOptions{})
			bad, ok := errors.AsType[*agent.InputError](err)
			require.True(t, ok, "%s: %v", name, err)
			require.True(t, strings.HasPrefix(name, bad.Field), "%s: %v", name, err)
		}
		_, err = h.Session(childKeyOf(t, topKey)).Wait(ctx, children, agent.JoinOptions{})
		require.ErrorIs(t, err, agent.ErrNotFound)
	})
}

// R12: a Join of what is not there is an error, not a panic.
func TestJoinOfNothing(t *testing.T) {
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		ctx := h.Context()
		good, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		var nothing *agent.Child[string]
		for _, bad := range []*agent.Child[string]{nil, {}} {
			children := []*agent.Child[string]{good, bad}
			_, err := agent.Join(ctx, h.Main(), children, agent.JoinOptions{})
			input, ok := errors.AsType[*agent.InputError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "children[1]", input.Field)
		}
		for _, err := range []error{
			func() error { _, err := nothing.Wait(ctx); return err }(),
			func() error { _, err := nothing.Info(ctx); return err }(),
			nothing.Steer(ctx, "x"), nothing.Stop(ctx),
			func() error {
				_, err := agent.Join(ctx, h.Main(), []*agent.Child[string]{good},
					agent.JoinOptions{AtLeast: -1})
				return err
			}(),
		} {
			_, ok := errors.AsType[*agent.InputError](err)
			require.True(t, ok, "%v", err)
		}
		_, err = agent.Join[string](ctx, h.Main(), nil, agent.JoinOptions{})
		require.NoError(t, err)
		_, err = agent.Join[string](ctx, h.Main(), nil, agent.JoinOptions{AtLeast: 1})
		few, ok := errors.AsType[*agent.JoinError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, agent.JoinError{Want: 1}, *few)
	})
}
