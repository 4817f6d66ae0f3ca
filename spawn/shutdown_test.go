package spawn_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// shutdowns are the ways in which a function of the caller may call Shutdown.
var shutdowns = map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
	"Background": func(context.Context) (context.Context, context.CancelFunc) {
		return context.WithCancel(context.Background())
	},
	"its ctx": context.WithCancel,
	"with a timeout": func(context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), time.Minute)
	},
	"its ctx with a timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Minute)
	},
}

// quitter calls Shutdown once, from wherever it is called.
type quitter struct {
	sup  *spawn.Supervisor
	with func(ctx context.Context) (context.Context, context.CancelFunc)
	at   string // the callback that calls Shutdown
	done atomic.Bool
	errs chan error
}

// in is what a callback calls, with its ctx if it has one.
func (q *quitter) in(ctx context.Context, at string) {
	if q.at != at || q.done.Swap(true) {
		return
	}
	ctx, cancel := q.with(ctx)
	defer cancel()
	q.errs <- q.sup.Shutdown(ctx)
}

// quittingStore is a Store whose methods are callbacks of a quitter.
type quittingStore struct {
	session.Journal
	session.Transcripts

	q *quitter
}

func (s quittingStore) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	s.q.in(ctx, "Journal.Append")
	return s.Journal.Append(ctx, root, after, b)
}

func (s quittingStore) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	s.q.in(ctx, "Journal.Read")
	return s.Journal.Read(ctx, root, after)
}

func (s quittingStore) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	s.q.in(ctx, "Journal.Roots")
	return s.Journal.Roots(ctx, q)
}

func (s quittingStore) Health(ctx context.Context) error {
	s.q.in(ctx, "Journal.Health")
	return nil
}

// quittingTranscripts are Transcripts whose Archive is a callback of a quitter.
type quittingTranscripts struct {
	session.Transcripts

	q *quitter
}

func (s quittingTranscripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	s.q.in(ctx, "Transcripts.Archive")
	return s.Transcripts.Archive(ctx, ref, at)
}

// callbacks are all functions of the caller that a Supervisor calls. Those that are true are
// called in a turn or a delivery, or in another task that the shutdown knows by the ctx.
var callbacks = map[string]bool{
	"Runner": true, "Deliver": true, "Transcripts.Archive": true, "Journal.Roots": true,
	"Journal.Health": true, "Journal.Append": false, "Journal.Read": false,
	"ValidModel": false, "Sandbox.Decide": false, "Logger": false,
}

// R4: whatever function of the caller calls Shutdown, with whatever ctx: the shutdown comes to an
// end, when the ctx of the call or that of Run ends at the latest.
func TestShutdownFromEveryCallback(t *testing.T) {
	for at, known := range callbacks {
		for name, with := range shutdowns {
			t.Run(at+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					testShutdownFrom(t, at, known, name, with)
				})
			})
		}
	}
}

// runEndsAfter is when the ctx of Run ends in these tests.
const runEndsAfter = 5 * time.Hour

func testShutdownFrom(
	t *testing.T, at string, known bool, name string,
	with func(ctx context.Context) (context.Context, context.CancelFunc),
) {
	t.Helper()
	q := &quitter{with: with, at: at, errs: make(chan error, 1)}
	memory := session.NewMemory()
	if at == "Logger" { // something to log
		memory.Journal = spawntest.NewCrashJournal(memory.Journal)
	}
	store := quittingStore{Journal: memory.Journal, q: q}
	cfg := spawn.Config{
		Store: &session.Store{
			Journal: store, Transcripts: quittingTranscripts{memory.Transcripts, q},
		},
		Replies: true, Logger: quittingLogger(q),
		Deliver: func(ctx context.Context, _ spawn.Delivery) error {
			q.in(ctx, "Deliver")
			return nil
		},
		ValidModel: func(string) bool { q.in(context.Background(), "ValidModel"); return true },
		Rules: policy.Rules{
			Subagents: policy.Subagents{ArchiveAfter: time.Minute},
			Sandbox: policy.Sandbox{
				Decide: func(string, session.Key) bool {
					q.in(context.Background(), "Sandbox.Decide")
					return false
				},
			},
		},
		Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				if tn.Session.Depth == 0 {
					q.in(ctx, "Runner")
				}
				return spawn.TurnResult{Reply: "hi"}, nil
			},
		),
	}
	sup, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	q.sup = sup
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), runEndsAfter)
	defer cancel()
	began := time.Now()
	ran := make(chan error, 1)
	go func() { ran <- sup.Run(ctx) }()
	go func() {
		model := spawn.Request{Task: "x", Policy: policy.Request{Model: "a/b"}}
		_, _ = sup.Spawn(ctx, topKey, topKey, model)
		_, _ = sup.Post(ctx, topKey, topKey, spawn.Incoming{Text: "hello"})
		if j, ok := memory.Journal.(*spawntest.CrashJournal); ok {
			j.At(j.Appends()+1, spawntest.FaultFailBefore)
			_, _ = sup.Post(ctx, topKey, topKey, spawn.Incoming{Text: "hello"})
		}
	}()
	err = <-q.errs
	var still *spawn.StillRunningError
	require.True(t, err == nil || errors.As(err, &still) || errors.Is(err, spawn.ErrShuttingDown),
		"%v", err)
	ended := sup.Shutdown(context.WithoutCancel(ctx))
	runErr := <-ran
	took := time.Since(began)
	const slack = 2*time.Minute + spawn.DefaultGrace // a look a minute, an archive after one
	switch {
	case name == "Background", name == "its ctx" && !known:
		require.LessOrEqual(t, took, runEndsAfter+2*spawn.DefaultGrace)
	default:
		require.LessOrEqual(t, took, slack+time.Minute)
	}
	if known && name != "Background" && name != "with a timeout" {
		require.NoError(t, err, "all else has ended")
		require.NoError(t, runErr)
	}
	if runErr != nil {
		require.Equal(t, ended, runErr, "every call has the same answer")
	}
}

// quittingLogger is a Logger whose Handler is a callback of a quitter.
func quittingLogger(q *quitter) *slog.Logger { return slog.New(quittingHandler{q}) }

type quittingHandler struct{ q *quitter }

func (quittingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h quittingHandler) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h quittingHandler) WithGroup(string) slog.Handler          { return h }

func (h quittingHandler) Handle(ctx context.Context, _ slog.Record) error {
	h.q.in(ctx, "Logger")
	return nil
}

// runUntil runs a Supervisor until ctx ends, and returns what Run returns.
func runUntil(ctx context.Context, t *testing.T, cfg spawn.Config) (*spawn.Supervisor, chan error) {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = session.NewMemory()
	}
	s, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	synctest.Wait()
	return s, ran
}

// forADay returns a ctx that ends after a day, or with the test.
func forADay(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 24*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// workOn is a Runner that works until its ctx ends.
func workOn(ctx context.Context, _ *spawn.TurnInput) (spawn.TurnResult, error) {
	<-ctx.Done()
	return spawn.TurnResult{}, context.Cause(ctx)
}

// R4: a Shutdown without an end of its own, and a Runner that works on: the end of Run's ctx ends
// the soft phase.
func TestEndOfRunEndsAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		defer cancel()
		s, ran := runUntil(ctx, t, spawn.Config{Runner: runnerFunc(workOn)})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(context.Background()) }()
		time.Sleep(time.Hour)
		require.Empty(t, down)
		cancel()
		require.NoError(t, <-down)
		require.NoError(t, <-ran)
	})
}

// R4: a second Shutdown obeys its own ctx and says that the shutdown goes on. Its end ends the soft
// phase for all.
func TestSecondShutdownObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
			time.Sleep(2 * time.Hour)
			return spawn.TurnResult{}, nil
		}
		s, ran := runUntil(context.WithoutCancel(t.Context()), t, spawn.Config{
			Runner: runnerFunc(hang),
		})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(context.Background()) }()
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		err := s.Shutdown(soon)
		require.Equal(t, time.Hour, time.Since(began))
		require.ErrorIs(t, err, spawn.ErrShuttingDown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		gone, leave := context.WithCancel(t.Context())
		leave()
		err = s.Shutdown(gone)
		require.ErrorIs(t, err, spawn.ErrShuttingDown)
		require.ErrorIs(t, err, context.Canceled)
		var still *spawn.StillRunningError
		require.ErrorAs(t, <-down, &still)
		require.Equal(t, time.Hour+spawn.DefaultGrace, time.Since(began))
		require.Equal(t, []session.Key{topKey}, still.Sessions)
		require.ErrorAs(t, s.Shutdown(gone), &still, "it is over")
		require.NoError(t, <-ran)
		time.Sleep(2 * time.Hour)
	})
}

// R4: a Runner that quits the program under its own ctx, as a /quit command does: the others
// finish, the call returns nil, and the answer of the turn is recorded. Two of them do not wait for
// each other.
func TestQuitFromTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quits := make(chan error, 2)
		var s *spawn.Supervisor
		cfg := spawn.Config{Store: session.NewMemory(), Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				if tn.Inputs[0].Text == "work" {
					time.Sleep(time.Hour)
					return sayText("done")
				}
				time.Sleep(time.Second) // until all of them have begun
				quits <- s.Shutdown(ctx)
				require.NoError(t, ctx.Err(), "the turn goes on to its own end")
				time.Sleep(time.Minute)
				return sayText("bye")
			},
		)}
		var ran chan error
		s, ran = runUntil(forADay(t), t, cfg)
		var keys []session.Key
		for _, task := range []string{"work", "quit", "quit"} {
			keys = append(keys, mustSpawn(t, s, spawn.Request{Task: task}))
		}
		began := time.Now()
		require.NoError(t, <-quits)
		require.NoError(t, <-quits)
		require.Equal(t, time.Hour, time.Since(began))
		require.NoError(t, <-ran)
		require.Equal(t, time.Hour+time.Minute, time.Since(began))
		v, err := spawn.View(topKey, cfg.Store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		for i, want := range []string{"done", "bye", "bye"} {
			require.Equal(t, keys[i], v.Runs[i].Key)
			require.Equal(t, spawn.StatusOK, v.Runs[i].Status)
			require.Equal(t, want, v.Runs[i].Result.Text)
		}
	})
}

// R4: a turn may leave its Shutdown behind. Its ctx ends with the turn, which does not cut the
// others.
func TestQuitThatOutlivesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quit := make(chan error, 1)
		var s *spawn.Supervisor
		cfg := spawn.Config{Store: session.NewMemory(), Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				if tn.Inputs[0].Text == "work" {
					select {
					case <-time.After(time.Hour):
						return sayText("done")
					case <-ctx.Done():
						return spawn.TurnResult{}, ctx.Err()
					}
				}
				time.Sleep(time.Second)
				go func() { quit <- s.Shutdown(ctx) }()
				time.Sleep(time.Second)
				return sayText("bye")
			},
		)}
		var ran chan error
		s, ran = runUntil(forADay(t), t, cfg)
		mustSpawn(t, s, spawn.Request{Task: "work"})
		mustSpawn(t, s, spawn.Request{Task: "quit"})
		require.ErrorIs(t, <-quit, spawn.ErrShuttingDown)
		require.NoError(t, <-ran)
		v, err := spawn.View(topKey, cfg.Store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.Equal(t, "done", v.Runs[0].Result.Text)
		require.Equal(t, "bye", v.Runs[1].Result.Text)
	})
}

// R4: in the soft phase of a shutdown time counts as always: a run whose time is up is cancelled as
// timed out, and a Runner that does not return then is given up.
func TestTimeoutsGoOnDuringAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		never := policy.Rules{Subagents: policy.Subagents{ArchiveAfter: policy.Off}}
		cfg := spawn.Config{Store: store, Rules: never, Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				<-ctx.Done()
				if tn.Inputs[0].Text == "deaf" {
					time.Sleep(time.Hour)
				}
				return spawn.TurnResult{Result: spawn.Result{Text: "part"}}, context.Cause(ctx)
			},
		)}
		s, ran := runUntil(forADay(t), t, cfg)
		short := policy.Request{Timeout: time.Minute}
		heard := mustSpawn(t, s, spawn.Request{Task: "hears", Policy: short})
		deaf := mustSpawn(t, s, spawn.Request{Task: "deaf", Policy: short})
		began := time.Now()
		require.NoError(t, s.Shutdown(forADay(t)))
		require.Equal(t, time.Minute+time.Hour, time.Since(began))
		require.NoError(t, <-ran)
		v, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.Equal(t, heard, v.Runs[0].Key)
		require.Equal(t, spawn.StatusTimedOut, v.Runs[0].Status)
		require.Equal(t, "part", v.Runs[0].Result.Text)
		require.Equal(t, deaf, v.Runs[1].Key)
		require.Equal(t, spawn.StatusTimedOut, v.Runs[1].Status)
		require.Equal(t, began.Add(time.Minute+spawn.DefaultGrace).UnixNano(),
			v.Runs[1].Ended.UnixNano())
	})
}

// R4: a turn that waits for its child when the shutdown begins gets its slot back and finishes.
func TestTurnThatWaitsFinishesDuringAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		cfg := spawn.Config{Store: store, Rules: policy.Rules{
			MaxSessions: 1, Subagents: policy.Subagents{MaxConcurrent: 1, MaxSpawnDepth: 2},
		}}
		cfg.Runner = runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				if tn.Session.Depth == 2 {
					time.Sleep(time.Minute)
					return sayText("below")
				}
				c, err := tn.Spawn(ctx, spawn.Request{Task: "below"})
				if err != nil {
					return spawn.TurnResult{}, err
				}
				infos, err := tn.Wait(ctx, refsOf(c.Key), spawn.JoinOptions{})
				if err != nil {
					return spawn.TurnResult{}, err
				}
				return sayText("above " + infos[0].Result.Text)
			},
		)
		s, ran := runUntil(forADay(t), t, cfg)
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, s.Shutdown(forADay(t)))
		require.Less(t, time.Since(began), time.Minute)
		require.NoError(t, <-ran)
		v, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.Equal(t, "above below", v.Runs[0].Result.Text)
	})
}

// An append that hangs takes the grace period of a shutdown and no longer. Its ctx ends with the
// hard phase, so that it leaves no goroutine behind, and what it has done stays unknown.
func TestShutdownEndsAnAppendThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		journal := spawntest.NewCrashJournal(store.Journal)
		s, ran := runUntil(forADay(t), t, spawn.Config{
			Store: &session.Store{Journal: journal}, Runner: (&spawntest.Runner{}).On(
				"x", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Say("x")},
			),
		})
		mustSpawn(t, s, spawn.Request{Task: "x"})
		synctest.Wait()
		journal.At(journal.Appends()+1, spawntest.FaultHang)
		time.Sleep(2 * time.Minute) // the end of the turn hangs
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := s.Shutdown(soon)
		var still *spawn.StillRunningError
		require.ErrorAs(t, err, &still)
		require.EqualError(t, err, "spawn: the store has not returned, or the Logger")
		require.LessOrEqual(t, time.Since(began), time.Minute+spawn.DefaultGrace+time.Second)
		require.NoError(t, <-ran)
		synctest.Wait()
		next := openSupervisor(t, spawn.Config{Store: store, Runner: runnerFunc(workOn)})
		runs, err := next.Runs(t.Context(), topKey, topKey, false)
		require.NoError(t, err)
		require.Equal(t, spawn.StatusInterrupted, runs[0].Status)
	})
}

// A function of the Config that hangs is named, with the session that it was asked for.
func TestShutdownNamesAFunctionThatHangs(t *testing.T) {
	for _, name := range []string{"ValidModel", "Rules.Sandbox.Decide", "Spawning"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				hang := func(of string) {
					if of == name {
						<-release
					}
				}
				cfg := spawn.Config{
					Runner:     runnerFunc(workOn),
					ValidModel: func(string) bool { hang("ValidModel"); return true },
					Spawning: func(context.Context, spawn.SpawningRun) error {
						hang("Spawning")
						return nil
					},
				}
				cfg.Rules.Sandbox.Decide = func(string, session.Key) bool {
					hang("Rules.Sandbox.Decide")
					return false
				}
				s, ran := runUntil(forADay(t), t, cfg)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				q := spawn.Request{Task: "x", Policy: policy.Request{Model: "a/b"}}
				for range 2 { // a function is named once for a session
					require.ErrorIs(t, errorOf(s.Spawn(ctx, topKey, topKey, q)),
						context.DeadlineExceeded)
				}
				err := s.Shutdown(forADay(t))
				var still *spawn.StillRunningError
				require.ErrorAs(t, err, &still)
				require.Equal(t,
					[]spawn.AskedFunction{{Name: name, Session: topKey}}, still.Functions)
				require.ErrorContains(t, err, "1 function of the Config has not returned: "+name+
					" for "+topKey.String())
				close(release)
				require.ErrorAs(t, <-ran, &still, "Run says it, too")
			})
		})
	}
}
