package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// turnUser is a bot one of whose turns is used after its end: by a tool's goroutine that outlives
// it, say.
type turnUser struct {
	t     *testing.T
	store *session.Store
	lines atomic.Int32 // appended to transcripts
	rt    *agent.Runtime
	other *agent.Runtime // that took the tree; may be nil
	ran   chan error

	deaf    bool          // the Runner does not heed its context
	down    bool          // the Runtime was shut down while the Runner did not return
	returns bool          // it returns at once
	release chan struct{} // lets deaf Runners return

	turn  *agent.Turn
	child *agent.Child[string]
	calls atomic.Int32 // of the tool read
}

// countedTranscripts count what is appended.
type countedTranscripts struct {
	session.Transcripts
	lines *atomic.Int32
}

func (c countedTranscripts) Append(
	ctx context.Context, r session.Ref, end session.Pos, m ...session.Message,
) (session.Pos, error) {
	c.lines.Add(int32(len(m)))
	return c.Transcripts.Append(ctx, r, end, m...)
}

func newTurnUser(t *testing.T) *turnUser {
	u := &turnUser{t: t, store: session.NewMemory(), release: make(chan struct{})}
	u.store.Transcripts = countedTranscripts{u.store.Transcripts, &u.lines}
	return u
}

func (u *turnUser) open() *agent.Runtime {
	cfg := configWith(u.run)
	cfg.Store, cfg.Rules, cfg.Grace = u.store, rulesForDepth(2), 5*time.Second
	cfg.Rules.SubagentTools.AlsoAllow = []string{
		"sessions_send", "agents_list", "session_status",
	}
	cfg.Tools = []agent.Tool{{
		Name: "read",
		Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
			u.calls.Add(1)
			return "", nil
		}),
	}}
	rt, err := agent.Open(u.t.Context(), cfg)
	require.NoError(u.t, err)
	return rt
}

// start starts the bot, and the turn of its main session or of a sub-agent.
func (u *turnUser) start(top bool) {
	u.rt, u.ran = u.open(), make(chan error, 1)
	go func() { u.ran <- u.rt.Run(u.t.Context()) }()
	if top {
		require.NoError(u.t, errorOf(u.main().Post(u.t.Context(), agent.Incoming{Text: "go"})))
	} else {
		_, err := agent.Spawn[string](u.t.Context(), u.main(),
			agent.Task{Text: "work", Timeout: time.Hour})
		require.NoError(u.t, err)
	}
	synctest.Wait()
	require.NotNil(u.t, u.child)
}

func (u *turnUser) main() *agent.Session { return u.rt.Session(topKey) }

// run is the Runner. The first turn is the one that is used.
func (u *turnUser) run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	if tn.Label == "helper" || u.turn != nil && tn.Run != u.turn.Run {
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	}
	if u.turn != nil {
		return textResult("again")
	}
	u.turn = tn
	var err error
	if u.child, err = tn.Spawn(ctx, agent.Task{Text: "help", Label: "helper"}); err != nil {
		return agent.Result{}, err
	}
	switch {
	case u.deaf:
		<-u.release
	case !u.returns:
		<-ctx.Done()
	}
	return textResult("done")
}

// end lets everything come to its end.
func (u *turnUser) end() {
	close(u.release)
	now, cancel := context.WithCancel(u.t.Context())
	cancel()
	still, ok := errors.AsType[*agent.StillRunningError](u.rt.Shutdown(now))
	require.Equal(u.t, u.down, ok, "%v", still) // a second Shutdown returns what the first did
	var gone *agent.StillRunningError
	if err := <-u.ran; err != nil && !errors.As(err, &gone) {
		u.t.Error(err)
	}
	if u.other != nil {
		require.NoError(u.t, u.other.Shutdown(now))
	}
}

// state says what the store holds. A snapshot in the place of all entries is nothing new.
func (u *turnUser) state() string {
	var last session.Entry
	for e, err := range u.store.Journal.Read(u.t.Context(), topKey, 0) {
		require.NoError(u.t, err)
		last = e
	}
	n := last.Seq
	if text, err := last.Payload.AppendJSON(nil); err == nil &&
		bytes.Contains(text, []byte(`"kind":"snapshot"`)) {
		n--
	}
	return fmt.Sprintf("%d entries, %d lines", n, u.lines.Load())
}

type act = func(ctx context.Context) error

// acts are all that can be done with a turn, by name. The value nil is for what has no effect, or
// returns no error.
func (u *turnUser) acts() map[string]act {
	tn, c := u.turn, u.child
	s, late := c.Session(), agent.Incoming{Text: "late"}
	children := []*agent.Child[string]{c}
	acts := map[string]act{
		"Turn.Input": nil, "Turn.Delta": nil, "Turn.Retract": nil, "Turn.Yield": nil,
		"Turn.Call": func(ctx context.Context) error {
			_, err := tn.Call(ctx, agent.ToolCall{Name: "read"})
			return err
		},
		"Turn.Call of none": func(ctx context.Context) error {
			_, err := tn.Call(ctx, agent.ToolCall{Name: "none"})
			return err
		},
		"Turn.Hear": func(ctx context.Context) error {
			return tn.Hear(ctx, policy.Sender{ID: "late"})
		},
		"Turn.Inbox": func(ctx context.Context) error { _, err := tn.Inbox(ctx); return err },
		"Turn.Record": func(ctx context.Context) error {
			return tn.Record(ctx, agent.Message{Role: session.MessageAssistant, Text: "late"})
		},
		"Turn.Say":   func(ctx context.Context) error { return tn.Say(ctx, "late") },
		"Turn.SayAs": func(ctx context.Context) error { return tn.SayAs(ctx, "id", "late") },
		"Turn.PutFile": func(ctx context.Context) error {
			_, err := tn.PutFile(ctx, strings.NewReader("late"), agent.Part{Kind: agent.PartFile})
			return err
		},
		"Turn.OpenFile": func(ctx context.Context) error {
			_, err := tn.OpenFile(ctx, session.File{})
			return err
		},
		"Turn.Spawn": func(ctx context.Context) error {
			_, err := tn.Spawn(ctx, agent.Task{Text: "late"})
			return err
		},
		"Spawn": func(ctx context.Context) error {
			_, err := agent.Spawn[int](ctx, tn, agent.Task{Text: "late"})
			return err
		},
		"Turn.Report": func(ctx context.Context) error {
			return tn.Report(ctx, agent.Progress{Text: "late", Milestone: true})
		},
		"Turn.State": nil,
		"Turn.SetState": func(ctx context.Context) error {
			return tn.SetState(ctx, []byte("late"))
		},
		"Turn.Spend": func(ctx context.Context) error { return tn.Spend(ctx, agent.Usage{Input: 1}) },
		"Turn.SpendOn": func(ctx context.Context) error {
			return tn.SpendOn(ctx, "p/x", agent.Usage{Input: 1})
		},
		"Turn.View": func(ctx context.Context) error {
			_, err := tn.View(ctx)
			return err
		},
		"Turn.BeginCall": func(ctx context.Context) error {
			end, err := tn.BeginCall(ctx, "p/x", agent.Usage{Input: 1})
			end()
			return err
		},
		"Turn.Limited": func(context.Context) error {
			return tn.Limited("p/x", agent.RateLimited{After: time.Second})
		},
		"Turn.Wait": func(ctx context.Context) error {
			_, err := tn.Wait(ctx, children, agent.JoinOptions{})
			return err
		},
		"Turn.Wait for none": func(ctx context.Context) error {
			_, err := tn.Wait(ctx, nil, agent.JoinOptions{})
			return err
		},
		"Join": func(ctx context.Context) error {
			_, err := agent.Join(ctx, tn, children, agent.JoinOptions{Rest: agent.RestStop})
			return err
		},
		"Join from a session": func(ctx context.Context) error {
			_, err := agent.Join(ctx, u.main(), children, agent.JoinOptions{Rest: agent.RestStop})
			return err
		},
		"Turn.Steer": func(ctx context.Context) error { return tn.Steer(ctx, c.Key(), "late") },
		"Child.Key":  nil, "Child.ID": nil, "Child.Session": nil,
		"Child.Info":  func(ctx context.Context) error { _, err := c.Info(ctx); return err },
		"Child.Steer": func(ctx context.Context) error { return c.Steer(ctx, "late") },
		"Child.SteerFor": func(ctx context.Context) error {
			return c.SteerFor(ctx, "late", policy.Sender{ID: "bob"})
		},
		"Child.SteerOnce":   func(ctx context.Context) error { return c.SteerOnce(ctx, "m", "late") },
		"Child.Stop":        c.Stop,
		"Child.Post":        func(ctx context.Context) error { return errorOf(c.Post(ctx, late)) },
		"Child.Wait":        func(ctx context.Context) error { _, err := c.Wait(ctx); return err },
		"Session.IsCallers": nil,
		"Session.Key":       nil, "Session.Events": nil, "Session.Tools": nil,
		"Session.ToolsFor": nil, "Session.SendersOf": nil, "Session.IsOwner": nil,
		"Turn.Senders": nil,
		"Session.Post": func(ctx context.Context) error { return errorOf(s.Post(ctx, late)) },
		"Session.PostAndWait": func(ctx context.Context) error {
			_, err := s.PostAndWait(ctx, agent.Incoming{Text: "late"})
			return err
		},
		"Session.SetRoute": func(ctx context.Context) error {
			return s.SetRoute(ctx, session.Route{Channel: "late"})
		},
		"Session.Spawn": func(ctx context.Context) error {
			return errorOf(s.Spawn(ctx, agent.Task{Text: "late"}))
		},
		"Session.OpenFile": func(ctx context.Context) error {
			return errorOf(s.OpenFile(ctx, session.File{}))
		},
		"Session.History": func(ctx context.Context) error {
			return errorOf(s.History(ctx, agent.HistoryQuery{}))
		},
		"Session.Wait": func(ctx context.Context) error {
			return errorOf(s.Wait(ctx, children, agent.JoinOptions{}))
		},
		"Session.Steer":   func(ctx context.Context) error { return s.Steer(ctx, c.Key(), "late") },
		"Session.OwnRuns": func(ctx context.Context) error { return errorOf(s.OwnRuns(ctx)) },
		"Session.FindTarget": func(ctx context.Context) error {
			return errorOf(s.FindTarget(ctx, "a", agent.TargetQuery{}))
		},
		"Session.ListRuns": func(ctx context.Context) error {
			return errorOf(s.ListRuns(ctx, agent.TargetQuery{}))
		},
		"Session.FindRun":    func(ctx context.Context) error { return errorOf(s.FindRun(ctx, "")) },
		"Session.Named":      func(ctx context.Context) error { return errorOf(s.Named(ctx, "a")) },
		"Session.Status":     func(ctx context.Context) error { return errorOf(s.Status(ctx)) },
		"Session.Runs":       func(ctx context.Context) error { return errorOf(s.Runs(ctx)) },
		"Session.Tree":       func(ctx context.Context) error { _, err := s.Tree(ctx); return err },
		"Session.Reset":      s.Reset,
		"Session.ResetOnce":  func(ctx context.Context) error { return s.ResetOnce(ctx, "late") },
		"Session.Compact":    s.Compact,
		"Session.Revive":     s.Revive,
		"Session.Ready":      s.Ready,
		"Session.CancelTurn": s.CancelTurn, "Session.Stop": s.Stop, "Session.Idle": s.Idle,
	}
	maps.Copy(acts, u.toolActs())
	return acts
}

// toolActs are the calls of the tools of a turn.
func (u *turnUser) toolActs() map[string]act {
	call := func(name, args string) act {
		tool := findTool(u.t, u.turn.Tools, name)
		return func(ctx context.Context) error {
			_, err := tool.Call(ctx,
				agent.ToolCall{ID: session.NewID(), Name: name, Args: json.RawMessage(args)})
			return err
		}
	}
	target := fmt.Sprintf(`"target":%q`, u.child.ID())
	return map[string]act{
		"sessions_yield":   call("sessions_yield", `{}`),
		"subagents":        call("subagents", `{"action":"list"}`),
		"subagents info":   call("subagents", `{"action":"info",`+target+`}`),
		"subagents steer":  call("subagents", `{"action":"steer","message":"late",`+target+`}`),
		"subagents kill":   call("subagents", `{"action":"kill",`+target+`}`),
		"sessions_send":    call("sessions_send", `{"message":"late",`+target+`}`),
		"read":             call("read", `{}`),
		"sessions_spawn":   call("sessions_spawn", `{"task":"late"}`),
		"subagents log":    call("subagents", `{"action":"log",`+target+`}`),
		"subagents send":   call("subagents", `{"action":"send","message":"x",`+target+`}`),
		"agents_list":      call("agents_list", `{}`),
		"sessions_list":    call("sessions_list", `{}`),
		"sessions_history": call("sessions_history", `{}`),
		"session_status":   call("session_status", `{}`),
	}
}

// allLate calls everything after the end of the turn, with a context that does not end with it.
func (u *turnUser) allLate() {
	before, calls := u.state(), u.calls.Load()
	for name, act := range u.acts() {
		if act != nil {
			require.ErrorIs(u.t, act(u.t.Context()), agent.ErrStale, name)
		}
	}
	u.turn.Delta("late")
	u.turn.Yield(agent.JoinOptions{})
	for _, err := range u.child.Session().Events(u.t.Context()) {
		require.ErrorIs(u.t, err, agent.ErrStale, "an event of a turn that is over")
	}
	synctest.Wait()
	require.Equal(u.t, before, u.state())
	require.Equal(u.t, calls, u.calls.Load(), "a tool was called")
}

// turnEnds are the ways in which a turn ends for those who use it.
var turnEnds = map[string]func(u *turnUser, top bool){
	"it returned": func(u *turnUser, top bool) { u.returns = true; u.start(top) },
	"it was stopped": func(u *turnUser, top bool) {
		u.start(top)
		require.NoError(u.t, u.rt.Session(u.turn.Session.Key).Stop(u.t.Context()))
	},
	"its session was stopped from above": func(u *turnUser, top bool) {
		u.start(top)
		require.NoError(u.t, u.main().Stop(u.t.Context()))
	},
	"it was given up after a stop": func(u *turnUser, top bool) {
		u.deaf = true
		u.start(top)
		still, ok := errors.AsType[*agent.StillRunningError](u.main().Stop(u.t.Context()))
		require.True(u.t, ok, "%v", still)
	},
	"it was cancelled": func(u *turnUser, top bool) {
		u.start(top)
		require.NoError(u.t, u.rt.Session(u.turn.Session.Key).CancelTurn(u.t.Context()))
		synctest.Wait()
	},
	"it was cancelled and given up": func(u *turnUser, top bool) {
		u.deaf = true
		u.start(top)
		require.NoError(u.t, u.rt.Session(u.turn.Session.Key).CancelTurn(u.t.Context()))
		time.Sleep(time.Minute)
	},
	"its time was over": func(u *turnUser, _ bool) {
		u.deaf = true
		u.start(false)
		time.Sleep(time.Hour + time.Minute)
	},
	"its process was shut down": func(u *turnUser, top bool) {
		u.deaf = true
		u.start(top)
		now, cancel := context.WithCancel(u.t.Context())
		cancel()
		_, ok := errors.AsType[*agent.StillRunningError](u.rt.Shutdown(now))
		require.True(u.t, ok)
		u.down = true
	},
	"another process took the tree": func(u *turnUser, top bool) {
		u.deaf = true
		u.start(top)
		other := u.open()
		require.NoError(
			u.t, errorOf(other.Session(topKey).Post(u.t.Context(), agent.Incoming{Text: "hi"})),
		)
		u.other = other
		// The former owner learns of it when it asks for something.
		require.Error(u.t, errorOf(u.main().Post(u.t.Context(), agent.Incoming{Text: "hello"})))
		synctest.Wait()
	},
}

// R5: what belongs to a turn ends with it, in whatever goroutine, so that nothing new appears after
// Stop returned nil (I4).
func TestNothingOutlivesItsTurn(t *testing.T) {
	for name, end := range turnEnds {
		for _, top := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/top %v", name, top), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u := newTurnUser(t)
					end(u, top)
					u.allLate()
					u.end()
				})
			})
		}
	}
}

// R5: the family is whole: every exported method of what a turn gives is in it.
func TestActsOfATurnAreAllThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newTurnUser(t)
		u.start(true)
		acts := u.acts()
		for name, x := range map[string]reflect.Type{
			"Turn":    reflect.TypeFor[*agent.Turn](),
			"Child":   reflect.TypeFor[*agent.Child[string]](),
			"Session": reflect.TypeFor[*agent.Session](),
		} {
			for m := range x.Methods() {
				require.Contains(t, acts, name+"."+m.Name)
			}
		}
		for _, tool := range u.turn.Tools {
			require.Contains(t, acts, tool.Name)
		}
		u.end()
	})
}

// R5: goroutines use a turn while it is stopped. When Stop has returned nil, nothing more appears.
func TestTurnIsUsedWhileItIsStopped(t *testing.T) {
	for seed := range uint64(40) {
		if !playsOneOf(4) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			u := newTurnUser(t)
			u.start(seed%2 == 0)
			r := rand.New(rand.NewPCG(seed, 5))
			var users sync.WaitGroup
			for name, act := range u.acts() {
				if act == nil {
					continue
				}
				pause := time.Duration(1+r.IntN(3000)) * time.Microsecond
				users.Go(func() {
					for range 100000 {
						if errors.Is(act(u.t.Context()), agent.ErrStale) {
							return
						}
						time.Sleep(pause)
					}
					t.Errorf("%s does not end", name)
				})
			}
			time.Sleep(time.Duration(r.IntN(10000)) * time.Microsecond)
			require.NoError(t, u.main().Stop(t.Context()))
			before := u.state()
			users.Wait()
			time.Sleep(time.Second)
			require.Equal(t, before, u.state(), "seed %d", seed)
			u.end()
		})
	}
}

// R5: the error says why the turn is over.
func TestLateCallsAreToldWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newTurnUser(t)
		u.start(true)
		require.NoError(t, u.main().CancelTurn(t.Context()))
		_, err := u.child.Info(t.Context())
		require.ErrorIs(t, err, agent.ErrStale)
		require.ErrorIs(t, err, agent.ErrTurnCancelled)
		u.end()
	})
}
