package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A sentinelWorld is what commands are sent to.
type sentinelWorld struct {
	s                      *spawn.Supervisor
	ended, alive, archived session.Key
	blocked                string       // the key of a delivery
	file                   session.File // of the transcript of ended
}

var otherRoot = session.Must(session.NamedKey("main", "other"))

// sentinelCommands are the lateCommands, each as one that does something.
var sentinelCommands = map[string]func(context.Context, *sentinelWorld) error{
	"Announce": func(ctx context.Context, w *sentinelWorld) error {
		return errorOf(w.s.Announce(ctx, topKey, spawn.Event{ID: "x", Text: "x"}))
	},
	"Bind": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.Bind(ctx, topKey, w.ended, threadOne)
	},
	"CanBind": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.CanBind(ctx, topKey, w.ended)
	},
	"CancelTurn": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.CancelTurn(ctx, topKey, w.alive)
	},
	"Compact": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.Compact(ctx, topKey, topKey)
	},
	"DeleteSession": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.DeleteSession(ctx, topKey, w.ended, "x")
	},
	"Deposit": func(ctx context.Context, w *sentinelWorld) error {
		q := spawn.Request{Task: "x"}
		return w.s.Deposit(ctx, topKey, topKey, q, func(to spawn.Deposit) error {
			if _, err := to.Put(ctx, strings.NewReader("x")); err != nil {
				return err
			}
			q.ID, q.Files = to.ID, true
			return errorOf(w.s.Spawn(ctx, topKey, topKey, q))
		})
	},
	"Dismiss": func(ctx context.Context, w *sentinelWorld) error { return w.s.Dismiss(ctx, w.blocked) },
	"Post": func(ctx context.Context, w *sentinelWorld) error {
		return errorOf(w.s.Post(ctx, topKey, topKey, spawn.Incoming{Text: "x"}))
	},
	"Post, a follow-up": func(ctx context.Context, w *sentinelWorld) error {
		return errorOf(w.s.Post(ctx, topKey, w.ended, spawn.Incoming{Text: "x"}))
	},
	"Post, bytes": func(ctx context.Context, w *sentinelWorld) error {
		m := spawn.Incoming{Parts: []session.Part{{
			Kind: session.PartFile, MediaType: "text/plain", Data: []byte("x"),
		}}}
		return errorOf(w.s.Post(ctx, topKey, w.ended, m))
	},
	"Post, a file": func(ctx context.Context, w *sentinelWorld) error {
		m := spawn.Incoming{Parts: []session.Part{{
			Kind: session.PartFile, MediaType: "text/plain", File: w.file,
		}}}
		return errorOf(w.s.Post(ctx, topKey, w.ended, m))
	},
	"Post, a new tree": func(ctx context.Context, w *sentinelWorld) error {
		return errorOf(w.s.Post(ctx, otherRoot, otherRoot, spawn.Incoming{Text: "x"}))
	},
	"PostAndWait": func(ctx context.Context, w *sentinelWorld) error {
		_, err := w.s.PostAndWait(ctx, topKey, topKey, spawn.Incoming{Text: "the question"})
		return err
	},
	"Ready": func(ctx context.Context, w *sentinelWorld) error { return w.s.Ready(ctx, topKey) },
	"ResetOnce": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.ResetOnce(ctx, topKey, topKey, "m")
	},
	"Reset": func(ctx context.Context, w *sentinelWorld) error { return w.s.Reset(ctx, topKey, topKey) },
	"Retry": func(ctx context.Context, w *sentinelWorld) error { return w.s.Retry(ctx, w.blocked) },
	"Revive": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.Revive(ctx, w.archived)
	},
	"Revive, in the tree": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.Revive(ctx, w.ended)
	},
	"Send": func(ctx context.Context, w *sentinelWorld) error {
		m := spawn.Incoming{Text: "x"}
		return errorOf(w.s.Send(ctx, topKey, topKey, w.ended, m, spawn.SendOptions{}))
	},
	"Send to another tree": func(ctx context.Context, w *sentinelWorld) error {
		return errorOf(w.s.Send(
			ctx, otherRoot, topKey, otherRoot, spawn.Incoming{Text: "x"},
			spawn.SendOptions{ByModel: true},
		))
	},
	"SendAndWait": func(ctx context.Context, w *sentinelWorld) error {
		_, _, err := w.s.SendAndWait(
			ctx, topKey, w.ended, topKey, spawn.Incoming{Text: "x"}, spawn.SendOptions{},
		)
		return err
	},
	"SendOut": func(ctx context.Context, w *sentinelWorld) error {
		_, _, err := w.s.SendOut(ctx, topKey, topKey, otherTree, spawn.Incoming{Text: "x"}, 0)
		return err
	},
	"SetRoute": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.SetRoute(ctx, topKey, topKey, threadOne)
	},
	"Spawn": func(ctx context.Context, w *sentinelWorld) error {
		return errorOf(w.s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x", Key: "k"}))
	},
	"Steer": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.Steer(ctx, topKey, topKey, refOf(w.alive), spawn.Incoming{Text: "x"})
	},
	"Stop": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.Stop(ctx, topKey, w.alive, "x")
	},
	"Stop, all": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.Stop(ctx, topKey, topKey, "x")
	},
	"StopRun": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.StopRun(ctx, topKey, refOf(w.alive), "x")
	},
	"Unbind": func(ctx context.Context, w *sentinelWorld) error {
		return w.s.Unbind(ctx, topKey, w.ended, threadOne, "x")
	},
}

// A sentinelFault is what the calls of a store, and of Config.Spawning, do; nil: nothing odd.
type sentinelFault struct {
	appends, reads, roots func(ctx context.Context, free <-chan struct{}) error
	// late says that an append happens before.
	late bool

	puts, opens, lines, restores, asks func(ctx context.Context, free <-chan struct{}) error
	// deaf says that turns under way do not hear of the end of their ctx.
	deaf bool
	only string // the commands that meet the fault begin so; "": all may
}

var (
	diskFails = func(context.Context, <-chan struct{}) error { return errDisk }
	diskHangs = func(_ context.Context, free <-chan struct{}) error { <-free; return errDisk }
	diskHears = func(ctx context.Context, free <-chan struct{}) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-free:
			return errDisk
		}
	}
	diskPanics = func(context.Context, <-chan struct{}) error { panic(session.ErrConflict) }
	diskExits  = func(context.Context, <-chan struct{}) error { runtime.Goexit(); return nil }
	diskGone   = func(context.Context, <-chan struct{}) error { return session.ErrSync }
	diskShut   = func(context.Context, <-chan struct{}) error { return session.ErrClosed }
)

// sentinelFaults are the faults of a journal, by their name.
func sentinelFaults() map[string]sentinelFault {
	list := map[string]sentinelFault{}
	for name, act := range map[string]func(context.Context, <-chan struct{}) error{
		"fail": diskFails, "hang": diskHangs, "hang until their ctx ends": diskHears,
		"panic": diskPanics, "end the goroutine": diskExits,
		"say that the disk is gone": diskGone, "say that it is closed": diskShut,
	} {
		list["appends "+name] = sentinelFault{appends: act}
		list["appends are late and "+name] = sentinelFault{appends: act, late: true}
		list["reads "+name] = sentinelFault{reads: act}
		list["roots "+name] = sentinelFault{roots: act}
		list["all "+name] = sentinelFault{appends: act, reads: act, roots: act}
		list["puts "+name] = sentinelFault{puts: act, only: "Post, bytes"}
		list["puts of a deposit "+name] = sentinelFault{puts: act, only: "Deposit"}
		list["opens "+name] = sentinelFault{opens: act, only: "Post, a file"}
		list["opens of a record "+name] = sentinelFault{opens: act, only: "Revive"}
		list["lines "+name] = sentinelFault{lines: act, only: "Revive"}
		list["restores "+name] = sentinelFault{restores: act, only: "Revive"}
		list["questions "+name] = sentinelFault{asks: act, only: "Spawn"}
	}
	for _, command := range []string{
		"Reset", "ResetOnce", "Compact", "Stop", "PostAndWait", "SendAndWait", "DeleteSession",
	} {
		list["deaf turns of "+command] = sentinelFault{deaf: true, only: command}
	}
	return list
}

// A sentinelJournal has a fault from the call of arm on.
type sentinelJournal struct {
	session.Journal

	free chan struct{}

	mu    sync.Mutex
	fault sentinelFault
}

func (j *sentinelJournal) arm(fault sentinelFault) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = fault
}

func (j *sentinelJournal) now() sentinelFault {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fault
}

type faultAct = func(ctx context.Context, free <-chan struct{}) error

// in does what the fault says that one of its calls does.
func (j *sentinelJournal) in(
	ctx context.Context, of func(sentinelFault) faultAct,
) error {
	if act := of(j.now()); act != nil {
		return act(ctx, j.free)
	}
	return nil
}

type sentinelFiles struct {
	session.Files
	j *sentinelJournal
}

func (f sentinelFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	if err := f.j.in(ctx, func(x sentinelFault) faultAct { return x.puts }); err != nil {
		return session.File{}, err
	}
	return f.Files.Put(ctx, ref, r, want)
}

func (f sentinelFiles) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	if err := f.j.in(ctx, func(x sentinelFault) faultAct { return x.opens }); err != nil {
		return nil, err
	}
	return f.Files.Open(ctx, ref, hash)
}

type sentinelTranscripts struct {
	session.Transcripts
	j *sentinelJournal
}

func (s sentinelTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		if err := s.j.in(ctx, func(x sentinelFault) faultAct { return x.lines }); err != nil {
			yield(session.Line{}, err)
			return
		}
		s.Transcripts.Read(ctx, ref, q)(yield)
	}
}

func (s sentinelTranscripts) Restore(ctx context.Context, ref session.Ref) error {
	if err := s.j.in(ctx, func(x sentinelFault) faultAct { return x.restores }); err != nil {
		return err
	}
	return s.Transcripts.Restore(ctx, ref)
}

func (j *sentinelJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	fault := j.now()
	if fault.appends == nil || fault.late {
		seq, err := j.Journal.Append(ctx, root, after, b)
		if fault.appends == nil || err != nil {
			return seq, err
		}
	}
	return 0, fault.appends(ctx, j.free)
}

func (j *sentinelJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		if act := j.now().reads; act != nil {
			yield(session.Entry{}, act(ctx, j.free))
			return
		}
		j.Journal.Read(ctx, root, after)(yield)
	}
}

func (j *sentinelJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		if act := j.now().roots; act != nil {
			yield(session.Head{}, act(ctx, j.free))
			return
		}
		j.Journal.Roots(ctx, q)(yield)
	}
}

// Whatever a store does, a hook that is asked, and a turn that is waited for, and whatever ends the
// wait, a command returns an error that says what has become of it: it is exactly one of
// ErrNotRecorded and ErrUnconfirmed, also beside ErrUnreadable, the cause of a ctx, and an
// ErrShutdown that came after the command. What the tree or a hook refuses is neither, and then the
// store has said nothing.
func TestEveryCommandSaysWhatBecameOfIt(t *testing.T) {
	covered := map[string]bool{}
	for name := range sentinelCommands {
		method, _, _ := strings.Cut(name, " ")
		covered[strings.TrimSuffix(method, ",")] = true
	}
	for _, name := range lateCommands {
		switch name {
		case "Files", "Purge": // they are of Files and Transcripts
		default:
			require.True(t, covered[name], name)
		}
	}
	for how, fault := range sentinelFaults() {
		for _, warm := range []bool{true, false} {
			for _, ends := range []string{"ctx", "shutdown"} {
				for name, command := range sentinelCommands {
					if !strings.HasPrefix(name, fault.only) || fault.deaf && !warm {
						continue
					}
					if !playsOneOf(4) {
						continue
					}
					t.Run(fmt.Sprint(how, " ", warm, " ", ends, " ", name), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							testSentinel(t, fault, warm, ends == "shutdown", command)
						})
					})
				}
			}
		}
	}
}

func testSentinel(
	t *testing.T, fault sentinelFault, warm, shutdown bool,
	command func(context.Context, *sentinelWorld) error,
) {
	t.Helper()
	j, w, cfg := makeSentinelWorld(t, fault.deaf)
	if !warm { // another process, which reads the tree for the command
		require.NoError(t, w.s.Shutdown(atOnce(t)))
		var err error
		w.s, err = spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
	}
	j.arm(fault)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if shutdown {
		time.AfterFunc(5*time.Second, func() { _ = w.s.Shutdown(atOnce(t)) })
	} else {
		time.AfterFunc(5*time.Second, func() { cancel(enough) })
	}
	began := time.Now()
	err := command(ctx, w)
	took := time.Since(began)
	require.LessOrEqual(t, took, 5200*time.Millisecond+cfg.Grace, "%v", err)
	not, unclear := errors.Is(err, spawn.ErrNotRecorded), errors.Is(err, spawn.ErrUnconfirmed)
	require.False(t, not && unclear, "%v", err)
	_, refused := errors.AsType[*spawn.VetoError](err) // Spawning has answered, or will not
	_, failed := errors.AsType[*spawn.CallbackError](err)
	for _, of := range []error{
		errDisk, session.ErrSync, session.ErrClosed, session.ErrConflict, enough,
		spawn.ErrUnreadable, spawn.ErrShutdown,
	} {
		if errors.Is(err, of) {
			require.True(t, not || unclear || refused || failed, "%v", err)
		}
	}
	_ = w.s.Shutdown(atOnce(t))
	close(j.free)
	_ = w.s.Shutdown(context.WithoutCancel(t.Context())) // until all calls of it have returned
	synctest.Wait()
}

// atOnce returns a ctx that has ended.
func atOnce(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cancel()
	return ctx
}

// makeSentinelWorld runs a Supervisor with a tree in which every command has something to do.
// Its turns under way may be deaf: then they are not given up while a command waits.
func makeSentinelWorld(
	t *testing.T, deaf bool,
) (*sentinelJournal, *sentinelWorld, spawn.Config) {
	t.Helper()
	store := session.NewMemory()
	j := &sentinelJournal{Journal: store.Journal, free: make(chan struct{})}
	cfg := spawn.Config{
		Store: &session.Store{
			Journal: j, Transcripts: sentinelTranscripts{store.Transcripts, j},
			Files: sentinelFiles{store.Files, j},
		},
		Grace:   time.Second,
		Replies: true,
		Deliver: func(context.Context, spawn.Delivery) error { return spawn.Permanent(errDisk) },
		Runner: runnerFunc(func(
			ctx context.Context, tn *spawn.TurnInput,
		) (spawn.TurnResult, error) {
			isDeaf := deaf && (tn.Run.Task == "alive" || tn.Inputs[0].Text == "work")
			switch {
			case isDeaf:
				<-j.free
			case tn.Run.Task == "alive":
				return workOn(ctx, tn)
			}
			return spawn.TurnResult{Reply: "hello", Result: spawn.Result{Text: "hello"}}, nil
		}),
		Unbind: func(context.Context, spawn.UnbindRequest) error { return nil },
		Spawning: func(ctx context.Context, _ spawn.SpawningRun) error {
			return j.in(ctx, func(x sentinelFault) faultAct { return x.asks })
		},
	}
	if deaf {
		cfg.Grace = 10 * time.Second
	}
	s, _ := runUntil(forADay(t), t, cfg)
	w := &sentinelWorld{s: s}
	w.ended = mustSpawn(t, s, spawn.Request{Task: "ended"})
	w.alive = mustSpawn(t, s, spawn.Request{Task: "alive"})
	w.archived = mustSpawn(t, s, spawn.Request{Task: "archived"})
	synctest.Wait()
	require.NoError(t, s.DeleteSession(t.Context(), topKey, w.archived, "x"))
	require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})))
	synctest.Wait()
	blocked, err := s.Blocked(t.Context())
	require.NoError(t, err)
	require.Len(t, blocked, 1)
	w.blocked = blocked[0].Key
	ref, err := s.Files(t.Context(), topKey, w.ended)
	require.NoError(t, err)
	w.file, err = store.Files.Put(t.Context(), ref, strings.NewReader("x"), session.File{})
	require.NoError(t, err)
	if deaf {
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "work"})))
		synctest.Wait()
	}
	return j, w, cfg
}

// The first append of a tree in a process is not tried again: its caller is told at once what has
// become of the command, of which nothing is half done, and asks again. It is done once then.
func TestFirstAppendOfATreeThatFails(t *testing.T) {
	commands := map[string]func(context.Context, *spawn.Supervisor) error{
		"Post": func(ctx context.Context, s *spawn.Supervisor) error {
			m := spawn.Incoming{ID: "1", Text: "the question"}
			return errorOf(s.Post(ctx, topKey, topKey, m))
		},
		"Spawn": func(ctx context.Context, s *spawn.Supervisor) error {
			q := spawn.Request{Task: "the question", Key: "k"}
			return errorOf(s.Spawn(ctx, topKey, topKey, q))
		},
	}
	for how, act := range map[string]func(context.Context, <-chan struct{}) error{
		"fails": diskFails, "panics": diskPanics, "ends the goroutine": diskExits,
	} {
		for i := range 8 {
			late, known, runs := i&1 > 0, i&2 > 0, i&4 > 0
			for name, command := range commands {
				t.Run(fmt.Sprint(how, " ", late, " ", known, " ", runs, " ", name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						fault := sentinelFault{appends: act, late: late}
						testFirstAppend(t, fault, known, runs, command)
					})
				})
			}
		}
	}
}

// testFirstAppend sends a command, to a tree that is known or not, whose first append fails.
func testFirstAppend(
	t *testing.T, fault sentinelFault, known, runs bool,
	command func(context.Context, *spawn.Supervisor) error,
) {
	t.Helper()
	store := session.NewMemory()
	j := &sentinelJournal{Journal: store.Journal}
	var asked atomic.Int32
	cfg := spawn.Config{Store: &session.Store{Journal: j}, Runner: runnerFunc(
		func(_ context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
			if tn.Inputs[len(tn.Inputs)-1].Text == "the question" {
				asked.Add(1)
			}
			return sayText("done")
		},
	)}
	if known {
		first, ran := runUntil(forADay(t), t, cfg)
		mustSpawn(t, first, spawn.Request{Task: "before"})
		synctest.Wait()
		require.NoError(t, first.Shutdown(t.Context()))
		require.NoError(t, <-ran)
	}
	entries := func() (n int) {
		for _, err := range store.Journal.Read(t.Context(), topKey, 0) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	before := entries()
	s, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran := make(chan error, 1)
	if runs {
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
	}
	j.arm(fault)
	began := time.Now()
	err = command(t.Context(), s)
	require.Zero(t, time.Since(began))
	if err != nil {
		require.ErrorIs(t, err, spawn.ErrNotRecorded)
		require.Equal(t, before, entries())
	}
	require.Equal(t, fault.late, err == nil, "what is in the log is found there: %v", err)
	j.arm(sentinelFault{})
	require.NoError(t, command(t.Context(), s))
	if !runs {
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
	}
	time.Sleep(time.Minute)
	require.EqualValues(t, 1, asked.Load())
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-ran)
	_, err = spawntest.Inspect(store.Journal.Read(t.Context(), topKey, 0))
	require.NoError(t, err)
}
