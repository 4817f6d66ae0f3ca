package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A talker is a process of a fleet that answers people.
func (f *fleet) talker(name string, change func(*spawn.Config)) *worker {
	w := &worker{fleet: f, name: name, store: f.engine.Open(name), ended: make(chan error, 1)}
	f.mu.Lock()
	if f.stores == nil {
		f.stores = make(map[string]*session.Store)
	}
	f.stores[name] = w.store
	f.mu.Unlock()
	cfg := spawn.Config{
		Store: w.store, Runner: runnerFunc(w.work), Replies: true, Logger: f.log,
		Deliver: func(context.Context, spawn.Delivery) error { return nil },
	}
	if change != nil {
		change(&cfg)
	}
	s, err := spawn.Open(f.t.Context(), cfg)
	require.NoError(f.t, err)
	w.Supervisor = s
	return w
}

// Every command for a tree of another process is done there, and is answered as if it was here.
func TestCommandsReachTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFleet(t, sessiontest.ClusterOptions{}), t.Context()
		a, b := f.talker("a", nil).run(), f.talker("b", nil).run()
		receipt, err := a.Post(ctx, topKey, topKey, spawn.Incoming{ID: "1", Text: "hello"})
		require.NoError(t, err)
		require.False(t, receipt.Existing)
		route := session.Route{Channel: "c", To: "1", Thread: "2"}
		var run spawn.RunInfo
		for _, step := range []struct {
			what string
			do   func() error
			is   error
		}{
			{"Post", func() error {
				got, err := b.Post(ctx, topKey, topKey, spawn.Incoming{ID: "1", Text: "hello"})
				require.True(t, got.Existing)
				return err
			}, nil},
			{"Announce", func() error {
				_, err := b.Announce(ctx, topKey, spawn.Event{ID: "e", Text: "it rains"})
				return err
			}, nil},
			{"Spawn", func() (err error) {
				run, err = b.Spawn(ctx, topKey, topKey, spawn.Request{Task: "task\xff", Label: "L"})
				require.Equal(t, "task\xff", run.Task)
				require.Equal(t, "L", run.Label)
				require.True(t, run.Key.IsSubagent())
				return err
			}, nil},
			{"Steer", func() error {
				return b.Steer(ctx, topKey, topKey, run.Ref(), spawn.Incoming{ID: "s", Text: "left"})
			}, nil},
			{"SetRoute", func() error { return b.SetRoute(ctx, topKey, topKey, route) }, nil},
			{"CanBind", func() error { return b.CanBind(ctx, topKey, run.Key) }, nil},
			{"Bind", func() error { return b.Bind(ctx, topKey, run.Key, route) }, nil},
			{"Unbind", func() error { return b.Unbind(ctx, topKey, run.Key, route, "reset") }, nil},
			{"Ready", func() error { return b.Ready(ctx, topKey) }, nil},
			{"Stop", func() error { return b.Stop(ctx, topKey, run.Key, "no") }, nil},
			{"StopRun", func() error { return b.StopRun(ctx, topKey, run.Ref(), "no") }, nil},
			{"Reset", func() error { return b.Reset(ctx, topKey, topKey) }, nil},
			{"ResetOnce", func() error { return b.ResetOnce(ctx, topKey, topKey, "m") }, nil},
			{"ResetOnce again", func() error { return b.ResetOnce(ctx, topKey, topKey, "m") }, nil},
			{"Compact", func() error { return b.Compact(ctx, topKey, topKey) }, spawn.ErrNothing},
			{"CancelTurn", func() error { return b.CancelTurn(ctx, topKey, topKey) }, nil},
			{"Revive", func() error { return b.Revive(ctx, run.Key) }, nil},
			{"DeleteSession", func() error {
				return b.DeleteSession(ctx, topKey, run.Key, "enough")
			}, nil},
			{"Retry", func() error { return b.Retry(ctx, "x") }, spawn.ErrNotFound},
		} {
			require.ErrorIs(t, step.do(), step.is, step.what)
			require.Equal(t, "a", f.ownerOf(topKey), step.what)
		}
		for _, turn := range f.turns() {
			require.Equal(t, "a ", turn[:2])
		}
	})
}

// Errors of the process that has the tree are what they are there.
func TestErrorsOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFleet(t, sessiontest.ClusterOptions{}), t.Context()
		a, b := f.talker("a", nil).run(), f.talker("b", nil).run()
		run, err := a.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x", Key: "k", Name: "n"})
		require.NoError(t, err)
		for _, w := range []*worker{a, b} { // the same here and there
			_, err = w.Spawn(ctx, topKey, topKey, spawn.Request{Task: "y", Key: "k"})
			conflict, ok := errors.AsType[*spawn.KeyConflictError](err)
			require.True(t, ok)
			require.Equal(t, string(run.ID), conflict.Run)
			require.ErrorIs(t, err, spawn.ErrKeyConflict)
			_, err = w.Spawn(ctx, topKey, topKey, spawn.Request{Task: "y", Name: "n"})
			_, ok = errors.AsType[*spawn.NameTakenError](err)
			require.True(t, ok)
			_, err = w.Spawn(ctx, topKey, topKey, spawn.Request{Task: " "})
			_, ok = errors.AsType[*spawn.InputError](err)
			require.True(t, ok)
			err = w.Steer(ctx, topKey, topKey, spawn.RunRef{Session: topKey},
				spawn.Incoming{Text: "x"})
			require.ErrorIs(t, err, spawn.ErrNotFound)
			err = w.Reset(ctx, topKey, topKey)
			_, ok = errors.AsType[*spawn.ChildrenError](err)
			require.True(t, ok)
		}
	})
}

// Who waits for an answer gets it from the process that has the tree, and from the next one if that
// dies in between.
func TestAnswerOfAnotherProcess(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, sessiontest.ClusterOptions{})
			a := f.talker("a", nil).run()
			f.talker("b", nil).run()
			c := f.talker("c", nil).run()
			_, err := a.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "one"})
			require.NoError(t, err)
			time.Sleep(2 * time.Minute)
			var reply spawn.Reply
			answered := make(chan error, 1)
			go func() {
				var err error
				reply, err = c.PostAndWait(t.Context(), topKey, topKey,
					spawn.Incoming{ID: "2", Text: "two\xff"})
				answered <- err
			}()
			time.Sleep(10 * time.Second)
			if dies {
				f.engine.Cut(a.store)
			}
			require.NoError(t, <-answered)
			if dies {
				require.NotEqual(t, "a did it", reply.Text)
				require.Len(t, f.turns(), 3, "the turn is tried again")
			} else {
				require.Equal(t, "a did it", reply.Text)
			}
		})
	}
}

// A lossyOwners is that of a process whose n-th request is lost, or whose answer is.
type lossyOwners struct {
	session.Owners
	lose  func() // in the process that takes it, before its answer
	calls atomic.Int32
}

func (o *lossyOwners) Serve(ctx context.Context, m session.Member) error {
	handle := m.Handle
	m.Handle = func(ctx context.Context, r session.Request) []byte {
		o.calls.Add(1)
		answer := handle(ctx, r)
		if o.lose != nil {
			o.lose()
		}
		return answer
	}
	return o.Owners.Serve(ctx, m)
}

// lossy returns a process that is cut off when it has done what another one has asked for.
func (f *fleet) lossy(name string) *worker {
	return f.talker(name, func(cfg *spawn.Config) {
		store := *cfg.Store
		engine := cfg.Store
		store.Owners = &lossyOwners{Owners: store.Owners, lose: func() { f.engine.Cut(engine) }}
		cfg.Store = &store
	}).run()
}

// A command whose answer is lost with the process that has done it is repeated by the next one, and
// is done once. One that could be done twice is not repeated, and the caller is told so.
func TestCommandOfAProcessThatDies(t *testing.T) {
	for name, test := range map[string]struct {
		do  func(ctx context.Context, w *worker) error
		is  error
		did func(t *testing.T, f *fleet, w *worker)
	}{
		"post with an ID": {func(ctx context.Context, w *worker) error {
			_, err := w.Post(ctx, topKey, topKey, spawn.Incoming{ID: "2", Text: "two"})
			return err
		}, nil, nil},
		"post": {func(ctx context.Context, w *worker) error {
			_, err := w.Post(ctx, topKey, topKey, spawn.Incoming{Text: "two"})
			return err
		}, nil, nil},
		"spawn with a Key": {func(ctx context.Context, w *worker) error {
			_, err := w.Spawn(ctx, topKey, topKey, spawn.Request{Task: "two", Key: "k"})
			return err
		}, nil, nil},
		"spawn": {func(ctx context.Context, w *worker) error {
			_, err := w.Spawn(ctx, topKey, topKey, spawn.Request{Task: "two"})
			return err
		}, nil, func(t *testing.T, f *fleet, w *worker) {
			list, err := w.Runs(t.Context(), topKey, topKey, true)
			require.NoError(t, err)
			require.Len(t, list, 1)
		}},
		"cancel": {func(ctx context.Context, w *worker) error {
			return w.CancelTurn(ctx, topKey, topKey)
		}, spawn.ErrUnconfirmed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, sessiontest.ClusterOptions{})
				a := f.lossy("a")
				b := f.talker("b", nil).run()
				_, err := a.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "one"})
				require.NoError(t, err)
				time.Sleep(2 * time.Minute)
				begun := time.Now()
				err = test.do(t.Context(), b)
				require.ErrorIs(t, err, test.is)
				require.Greater(t, time.Since(begun), 10*time.Second, "the takeover")
				time.Sleep(5 * time.Minute)
				two := 0
				for _, turn := range f.turns() {
					if turn == "b two" {
						two++
					}
				}
				require.LessOrEqual(t, two, 1, "%v", f.turns())
				if test.did != nil {
					test.did(t, f, b)
				}
				f.settled(topKey)
			})
		})
	}
}

// A command that comes while its tree moves waits for the process that has it then.
func TestCommandInAHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b, c := f.talker("a", nil).run(), f.talker("b", nil).run(), f.talker("c", nil)
		post := func(i int) (spawn.Receipt, error) {
			return c.Post(t.Context(), topKey, topKey, spawn.Incoming{
				ID: fmt.Sprint(i), Text: fmt.Sprint("text ", i),
			})
		}
		_, err := a.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "x", Text: "one"})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			done <- a.Shutdown(ctx)
		}()
		for i := range 100 {
			got, err := post(i)
			require.NoError(t, err)
			require.False(t, got.Existing)
			time.Sleep(time.Millisecond)
		}
		if err := <-done; err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		time.Sleep(9 * time.Minute)
		require.Equal(t, "b", f.ownerOf(topKey))
		for i := range 100 {
			got, err := post(i)
			require.NoError(t, err)
			require.True(t, got.Existing)
		}
		list, err := b.Outbox(t.Context(), topKey)
		require.NoError(t, err)
		require.Empty(t, list)
		f.settled(topKey)
		require.NoError(t, c.Shutdown(t.Context()))
	})
}

// A caller whose ctx ends, or whose process shuts down, while another process is asked does not
// know what became of its command.
func TestCallerThatLeaves(t *testing.T) {
	for _, cause := range []error{context.DeadlineExceeded, spawn.ErrShutdown} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, sessiontest.ClusterOptions{})
			a, b := f.open("a").run(), f.open("b")
			_, err := a.begin(topKey, "one")
			require.NoError(t, err)
			f.engine.Cut(a.store)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if errors.Is(cause, spawn.ErrShutdown) {
				time.AfterFunc(time.Second, func() { _ = b.Shutdown(t.Context()) })
			}
			begun := time.Now()
			_, err = b.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x"})
			require.ErrorIs(t, err, spawn.ErrUnconfirmed)
			require.NotErrorIs(t, err, spawn.ErrNotRecorded)
			require.ErrorIs(t, err, cause)
			require.LessOrEqual(t, time.Since(begun), 5*time.Second)
			require.NoError(t, b.Shutdown(t.Context()))
		})
	}
}

// A message to another tree reaches it also if that is the tree of another process, and the sender
// gets the answer.
func TestMessageToTheTreeOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.talker("a", nil).run(), f.talker("b", nil).run()
		other := session.Must(session.MainKey("other"))
		_, err := a.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "one"})
		require.NoError(t, err)
		_, err = b.Post(t.Context(), other, other, spawn.Incoming{ID: "1", Text: "other"})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		got, reply, err := b.SendOut(t.Context(), other, other, topKey,
			spawn.Incoming{ID: "s", Text: "two"}, 10*time.Minute)
		require.NoError(t, err)
		require.False(t, got.Pending)
		require.Equal(t, "a did it", reply.Text)
		require.Equal(t, "a", f.ownerOf(topKey))
		require.Equal(t, "b", f.ownerOf(other))
		time.Sleep(time.Minute)
		f.settled(topKey)
		f.settled(other)
	})
}

// The bytes of a message come into the store before it is brought to the process that has the tree.
func TestPartsForAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		seen := make(chan []session.Part, 1)
		a := f.talker("a", func(cfg *spawn.Config) {
			cfg.Runner = runnerFunc(func(
				_ context.Context, tn *spawn.TurnInput,
			) (r spawn.TurnResult, err error) {
				if tn.Inputs[0].Text == "look" {
					seen <- tn.Inputs[0].Parts
				}
				return r, nil
			})
		}).run()
		b := f.talker("b", nil).run()
		_, err := a.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "one"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		_, err = b.Post(t.Context(), topKey, topKey, spawn.Incoming{
			ID: "2", Text: "look", Parts: []session.Part{{
				Kind: session.PartImage, MediaType: "image/png", Data: []byte("bytes"),
			}},
		})
		require.NoError(t, err)
		parts := <-seen
		require.Len(t, parts, 1)
		ref, _, err := b.Transcript(t.Context(), topKey, topKey)
		require.NoError(t, err)
		data, err := session.ReadFile(t.Context(), f.outside.Files, ref, parts[0].File)
		require.NoError(t, err)
		require.Equal(t, "bytes", string(data))
	})
}

// The functions of the process that has the tree are asked, and not those of the process that asks.
func TestOwnerAnswersQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		var models, sandboxes atomic.Int32
		a := f.talker("a", func(cfg *spawn.Config) {
			cfg.ValidModel = func(string) bool { models.Add(1); return true }
			cfg.Rules.Sandbox.Decide = func(string, session.Key) bool {
				sandboxes.Add(1)
				return false
			}
		}).run()
		b := f.talker("b", func(cfg *spawn.Config) {
			cfg.ValidModel = func(string) bool { panic("b is asked") }
			cfg.Rules.Sandbox.Decide = func(string, session.Key) bool { panic("b is asked") }
		}).run()
		run, err := a.Spawn(t.Context(), topKey, topKey, spawn.Request{
			Task: "one", Thread: true, Session: true, Bind: threadOne,
		})
		require.NoError(t, err)
		models.Store(0)
		_, err = b.Spawn(t.Context(), topKey, topKey, spawn.Request{
			Task: "two", Policy: policy.Request{Model: "p/n", Strict: true},
		})
		require.NoError(t, err)
		require.EqualValues(t, 1, models.Load())
		time.Sleep(5 * time.Minute)
		sandboxes.Store(0)
		_, err = b.Post(t.Context(), topKey, run.Key, spawn.Incoming{
			ID: "1", Text: "more", Route: threadOne, Thread: true,
		})
		require.NoError(t, err)
		require.Positive(t, sandboxes.Load())
	})
}

// A process that is asked for a tree which a third one has says so, and asks no other.
func TestOperationIsNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		var member session.Member
		f.talker("a", func(cfg *spawn.Config) {
			store := *cfg.Store
			store.Owners = memberOwners{store.Owners, &member}
			cfg.Store = &store
		}).run()
		b := f.talker("b", nil).run()
		_, err := b.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "one"})
		require.NoError(t, err)
		for _, op := range []string{
			`"post","args":{"To":"agent:main:main","ID":"2","Text":"x"}`,
			`"reset","args":{"Session":"agent:main:main"}`,
			`"revive","args":{"Session":"agent:main:main"}`,
		} {
			answer := member.Handle(t.Context(), session.Request{
				ID: "x", Root: topKey, Body: []byte(`{"v":1,"op":` + op + `}`),
			})
			require.Contains(t, string(answer), `"session_owned"`, op)
			require.Contains(t, string(answer), `"not_recorded"`, op)
		}
	})
}

// A memberOwners keeps the Member of its process.
type memberOwners struct {
	session.Owners
	member *session.Member
}

func (o memberOwners) Serve(ctx context.Context, m session.Member) error {
	*o.member = m
	return o.Owners.Serve(ctx, m)
}

// Who waits for runs of another process is told how they stand, and what is to become of those that
// have not ended is decided there.
func TestWaitForRunsOfAnotherProcess(t *testing.T) {
	for rest, want := range map[spawn.Rest]spawn.Status{
		spawn.RestKeep: spawn.StatusRunning, spawn.RestStop: spawn.StatusCancelled,
		spawn.RestAnnounce: spawn.StatusRunning,
	} {
		t.Run(rest.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, ctx := newFleet(t, sessiontest.ClusterOptions{}), t.Context()
				a, b := f.open("a").run(), f.open("b").run()
				run, err := a.Spawn(ctx, topKey, topKey, spawn.Request{Task: "one"})
				require.NoError(t, err)
				begun := time.Now()
				list, err := b.Wait(ctx, topKey, []spawn.RunRef{{Session: run.Key}},
					spawn.JoinOptions{Within: 20 * time.Second, Rest: rest})
				require.NoError(t, err)
				require.Len(t, list, 1)
				require.Equal(t, want, list[0].Status)
				require.Equal(t, run.ID, list[0].ID)
				require.InDelta(t, 20, time.Since(begun).Seconds(), 1.5)
				list, err = b.Wait(ctx, topKey, []spawn.RunRef{run.Ref()}, spawn.JoinOptions{})
				require.NoError(t, err)
				require.True(t, list[0].Status.Terminal())
				if rest != spawn.RestStop {
					require.Equal(t, "a did it", list[0].Result.Text)
					require.InDelta(t, 60, time.Since(begun).Seconds(), 2)
				}
				require.NoError(t, b.Idle(ctx, topKey))
				require.Equal(t, "a", f.ownerOf(topKey))
				require.Len(t, f.arrived(), map[bool]int{true: 1}[rest == spawn.RestAnnounce])
				_, err = b.Wait(ctx, topKey, []spawn.RunRef{{Session: otherRoot}},
					spawn.JoinOptions{})
				require.ErrorIs(t, err, spawn.ErrNotFound)
				short, cancel := context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
				two, err := a.Spawn(ctx, topKey, topKey, spawn.Request{Task: "two"})
				require.NoError(t, err)
				list, err = b.Wait(short, topKey, []spawn.RunRef{two.Ref()}, spawn.JoinOptions{})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Len(t, list, 1)
			})
		})
	}
}

// Who waits while the tree moves from one process to another, or its owner is killed, waits on.
func TestWaitOverATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFleet(t, sessiontest.ClusterOptions{}), t.Context()
		a, b := f.open("a").run(), f.open("b")
		run, err := a.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(time.Second)
		f.open("c").run()
		f.engine.Cut(a.store)
		list, err := b.Wait(ctx, topKey, []spawn.RunRef{run.Ref()}, spawn.JoinOptions{})
		require.NoError(t, err)
		require.Equal(t, spawn.StatusInterrupted, list[0].Status)
		require.NoError(t, b.Shutdown(ctx))
	})
}

// A watcher sees what happens in a tree of another process, from its journal: all of it, once, in
// order, also when the tree moves to another process, or to its own.
func TestEventsOfTheTreeOfAnotherProcess(t *testing.T) {
	for _, here := range []bool{false, true} { // where the tree moves to
		synctest.Test(t, func(t *testing.T) {
			f, ctx := newFleet(t, sessiontest.ClusterOptions{}), t.Context()
			a := f.open("a").run()
			b := f.open("b")
			if here {
				b.run()
			}
			watching, stop := context.WithTimeout(ctx, 10*time.Minute)
			defer stop()
			var seen []spawn.TreeEvent
			over := make(chan struct{})
			q := spawn.EventQuery{Root: topKey}
			go func() {
				defer close(over)
				for e, err := range b.Events(watching, q) {
					assert.NoError(t, err)
					seen = append(seen, e)
				}
			}()
			time.Sleep(5 * time.Second) // it is not on record yet
			_, err := a.begin(topKey, "one")
			require.NoError(t, err)
			time.Sleep(30 * time.Second)
			if !here {
				f.open("c").run()
			}
			f.engine.Cut(a.store)
			time.Sleep(2 * time.Minute)
			stop()
			<-over
			require.Greater(t, len(seen), 5)
			var snapshots int
			var live, recorded []string
			for _, e := range seen {
				if e.Kind == spawn.EventSnapshot {
					snapshots++
				} else {
					live = append(live, fmt.Sprint(e.Kind, " ", e.Cursor))
				}
			}
			require.Equal(t, 1, snapshots, "%v", seen)
			q.After = []spawn.Cursor{seen[0].Cursor}
			again, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for e, err := range b.Events(again, q) {
				require.NoError(t, err)
				recorded = append(recorded, fmt.Sprint(e.Kind, " ", e.Cursor))
				if len(recorded) == len(live) {
					break
				}
			}
			require.Equal(t, recorded, live)
			require.NoError(t, b.Shutdown(ctx))
		})
	}
}

// An answerlessOwners loses the answer to each request, and then cannot claim a tree.
type answerlessOwners struct {
	session.Owners
	lost atomic.Bool
}

func (o *answerlessOwners) Call(ctx context.Context, r session.Request) ([]byte, error) {
	_, err := o.Owners.Call(ctx, r)
	if err != nil {
		return nil, err
	}
	o.lost.Store(true)
	return nil, session.ErrUnanswered
}

func (o *answerlessOwners) Claim(ctx context.Context, root session.Key) (session.Claim, error) {
	if o.lost.Load() {
		return session.Claim{}, errors.New("no space left on device")
	}
	return o.Owners.Claim(ctx, root)
}

// What another process may have done is never said not to be recorded, also if the attempt that
// follows in this process surely is not.
func TestWhatMayBeDoneIsNotUnrecorded(t *testing.T) {
	for name, do := range map[string]func(context.Context, *worker, spawn.RunInfo) error{
		"post": func(ctx context.Context, w *worker, _ spawn.RunInfo) error {
			_, err := w.Post(ctx, topKey, topKey, spawn.Incoming{Text: "x"})
			return err
		},
		"post with an ID": func(ctx context.Context, w *worker, _ spawn.RunInfo) error {
			_, err := w.Post(ctx, topKey, topKey, spawn.Incoming{ID: "1", Text: "x"})
			return err
		},
		"spawn with a key": func(ctx context.Context, w *worker, _ spawn.RunInfo) error {
			_, err := w.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x", Key: "k"})
			return err
		},
		"steer": func(ctx context.Context, w *worker, run spawn.RunInfo) error {
			return w.Steer(ctx, topKey, topKey, run.Ref(), spawn.Incoming{Text: "x"})
		},
		"stop": func(ctx context.Context, w *worker, run spawn.RunInfo) error {
			return w.StopRun(ctx, topKey, run.Ref(), "x")
		},
		"post and wait": func(ctx context.Context, w *worker, _ spawn.RunInfo) error {
			_, err := w.PostAndWait(ctx, topKey, topKey, spawn.Incoming{ID: "2", Text: "x"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, sessiontest.ClusterOptions{})
				a := f.talker("a", nil).run()
				b := f.talker("b", func(cfg *spawn.Config) {
					store := *cfg.Store
					store.Owners = &answerlessOwners{Owners: store.Owners}
					cfg.Store = &store
				}).run()
				run, err := a.begin(topKey, "one")
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err = do(ctx, b, run)
				require.ErrorIs(t, err, spawn.ErrUnconfirmed)
				require.NotErrorIs(t, err, spawn.ErrNotRecorded)
				require.NotContains(t, err.Error(), spawn.ErrNotRecorded.Error())
			})
		})
	}
}

// What a function of the Config returns says nothing of where the tree is: it is called once. What
// it asks of a tree of another process is brought there, whichever process has asked for the spawn.
func TestHookThatMeetsAnotherProcess(t *testing.T) {
	other := session.Must(session.MainKey("other"))
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		var calls atomic.Int32
		var a *worker
		hook := func(ctx context.Context, _ spawn.SpawningRun) error {
			calls.Add(1)
			if _, err := a.Post(ctx, other, other, spawn.Incoming{Text: "from the hook"}); err != nil {
				return err
			}
			return fmt.Errorf("as another call says: %w", session.ErrOwned)
		}
		a = f.talker("a", func(cfg *spawn.Config) { cfg.Spawning = hook }).run()
		b := f.talker("b", nil).run()
		_, err := a.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "one"})
		require.NoError(t, err)
		_, err = b.Post(t.Context(), other, other, spawn.Incoming{Text: "one"})
		require.NoError(t, err)
		for i, w := range []*worker{a, b} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := w.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x"})
			cancel()
			veto, ok := errors.AsType[*spawn.VetoError](err)
			require.True(t, ok, "%v", err)
			require.ErrorContains(t, veto, "as another call says")
			require.EqualValues(t, i+1, calls.Load())
		}
	})
}

// ignoring returns err, unless that is what.
func ignoring(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// worstTexts are texts of n bytes of which JSON makes the most, by what is done to them.
func worstTexts(n int) map[string]string {
	texts := make(map[string]string)
	for kind, one := range map[string]string{
		"HTML": "<", "control": "\x01", "quotes": `"`, "not UTF-8": "\xff", "separators": "\u2028",
		"plain": "a",
	} {
		texts[kind] = "a" + strings.Repeat(one, (n-1)/len(one))
	}
	return texts
}

// What is within the Limits is taken in every process, and what is over one is the same error in
// each.
func TestLimitsOfEveryProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFleet(t, sessiontest.ClusterOptions{}), t.Context()
		limits := func(cfg *spawn.Config) {
			cfg.Limits = spawn.Limits{Message: 900_000, Task: 400_000, Result: 900_000, ID: 50_000}
			cfg.Runner = runnerFunc(func(
				ctx context.Context, tn *spawn.TurnInput,
			) (r spawn.TurnResult, err error) {
				if taskOf(tn) == "wait" {
					<-ctx.Done()
				}
				r.Result.Text = tn.Inputs[0].Text
				return r, nil
			})
		}
		a, b := f.talker("a", limits).run(), f.talker("b", limits).run()
		other := session.Must(session.MainKey("other"))
		_, err := a.Post(ctx, topKey, topKey, spawn.Incoming{ID: "1", Text: "one"})
		require.NoError(t, err)
		_, err = a.Post(ctx, other, other, spawn.Incoming{ID: "1", Text: "one"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		run, err := a.Spawn(ctx, topKey, topKey, spawn.Request{Task: "wait"})
		require.NoError(t, err)
		synctest.Wait() // a steer that comes before its turn would be its first input
		n := 0
		in := func(text string) spawn.Incoming {
			n++
			return spawn.Incoming{ID: fmt.Sprint("m", n), Text: text}
		}
		calls := map[string]struct {
			most int
			do   func(w *worker, text string) error
		}{
			"Post": {900_000, func(w *worker, text string) error {
				_, err := w.Post(ctx, topKey, topKey, in(text))
				return err
			}},
			"Post with an ID": {50_000, func(w *worker, text string) error {
				n++
				id := fmt.Sprintf("%06d", n) + text[min(6, len(text)):]
				if !utf8.ValidString(id) {
					return nil // refused by each
				}
				_, err := w.Post(ctx, topKey, topKey, spawn.Incoming{ID: id, Text: "x"})
				return err
			}},
			"PostAndWait": {900_000, func(w *worker, text string) error {
				_, err := w.PostAndWait(ctx, topKey, topKey, in(text))
				return ignoring(err, spawn.ErrSilent) // that text is none for a person
			}},
			"Announce": {900_000, func(w *worker, text string) error {
				n++
				_, err := w.Announce(ctx, topKey, spawn.Event{ID: fmt.Sprint("e", n), Text: text})
				return err
			}},
			"Spawn": {400_000, func(w *worker, text string) error {
				_, err := w.Spawn(ctx, topKey, topKey, spawn.Request{Task: text})
				return err
			}},
			"Steer": {4_000, func(w *worker, text string) error {
				return w.Steer(ctx, topKey, topKey, run.Ref(), in(text))
			}},
			"SendOut": {900_000, func(w *worker, text string) error {
				_, _, err := w.SendOut(ctx, topKey, topKey, other, in(text), 0)
				return err
			}},
		}
		for name, call := range calls {
			for kind, text := range worstTexts(call.most) {
				for _, w := range []*worker{a, b} {
					require.NoError(t, call.do(w, text), "%s of %s by %s", name, kind, w.name)
					time.Sleep(time.Minute)
				}
			}
			for _, size := range []int{call.most + 9, 12 << 20} {
				for kind, text := range map[string]string{
					"HTML": "a" + strings.Repeat("<", size), "control": "a" + strings.Repeat("\x01", size),
				} {
					var input *spawn.InputError
					var texts []string
					for _, w := range []*worker{a, b} {
						err := call.do(w, text)
						require.ErrorAs(t, err, &input, "%s of %s by %s: %.200v", name, kind, w.name, err)
						texts = append(texts, err.Error())
					}
					require.Equal(t, texts[0], texts[1], "%s of %s", name, kind)
				}
			}
		}
		require.Equal(t, "a", f.ownerOf(topKey))
	})
}
