package spawn_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"runtime"
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

// badStore is a Store of which one method misbehaves in its first calls.
type badStore struct {
	session.Journal
	session.Transcripts

	method string
	act    func()
	left   atomic.Int64
	met    atomic.Int64 // how often the method has misbehaved
}

func (s *badStore) in(method string) {
	if s.method == method && s.left.Add(-1) >= 0 {
		s.met.Add(1)
		s.act()
	}
}

// badSeq misbehaves when a sequence is asked for, or after its first value.
func badSeq[T any](
	s *badStore, method string, seq func() iter.Seq2[T, error],
) iter.Seq2[T, error] {
	s.in(method)
	return func(yield func(T, error) bool) {
		for v, err := range seq() {
			if !yield(v, err) {
				return
			}
			s.in(method + " half way")
		}
		s.in(method + " at the end")
	}
}

type badJournal struct{ *badStore }

func (s badJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	s.in("Append")
	seq, err := s.Journal.Append(ctx, root, after, b)
	s.in("Append that was done")
	return seq, err
}

func (s badJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return badSeq(s.badStore, "Read", func() iter.Seq2[session.Entry, error] {
		return s.Journal.Read(ctx, root, after)
	})
}

func (s badJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return badSeq(s.badStore, "Roots", func() iter.Seq2[session.Head, error] {
		return s.Journal.Roots(ctx, q)
	})
}

func (s badJournal) Health(context.Context) error { s.in("Health"); return nil }

type badTranscripts struct{ *badStore }

func (s badTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	return s.Transcripts.Append(ctx, ref, after, m...)
}

func (s badTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return s.Transcripts.Read(ctx, ref, q)
}

func (s badTranscripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	s.in("Archive")
	return s.Transcripts.Archive(ctx, ref, at)
}

// R9: a method of the store that panics, or ends its goroutine, has failed, and nothing else has:
// Run goes on, no work is lost, and a caller gets an error.
func TestStoresThatMisbehave(t *testing.T) {
	acts := map[string]func(){
		"panics":               func() { panic("disk on fire") },
		"panics with an error": func() { panic(session.ErrConflict) },
		"ends its goroutine":   runtime.Goexit,
	}
	for _, method := range []string{
		"Append", "Append that was done", "Read", "Read half way", "Read at the end",
		"Roots", "Roots half way", "Roots at the end", "Health", "Archive",
	} {
		for how, act := range acts {
			t.Run(method+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testBadStore(t, method, act) })
			})
		}
	}
}

func testBadStore(t *testing.T, method string, act func()) {
	t.Helper()
	memory := session.NewMemory()
	bad := &badStore{
		Journal: memory.Journal, Transcripts: memory.Transcripts, method: method, act: act,
	}
	cfg := spawn.Config{
		Store: &session.Store{Journal: badJournal{bad}, Transcripts: badTranscripts{bad}},
		Rules: policy.Rules{Subagents: policy.Subagents{ArchiveAfter: time.Hour}},
		Runner: runnerFunc(
			func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
				time.Sleep(10 * time.Minute)
				return sayText("done")
			},
		),
	}
	s, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(
		t, errorOf(s.Post(t.Context(), chatKey(1), chatKey(1), spawn.Incoming{Text: "hello"})),
	)
	require.NoError(t, s.Shutdown(t.Context())) // something to look for at the next start

	s = openSupervisor(t, cfg)
	synctest.Wait()
	bad.left.Store(3)
	// A spawn that is not confirmed is sent again under the same key.
	ask := spawn.Request{Task: "work", Key: "k"}
	info, err := s.Spawn(t.Context(), topKey, topKey, ask)
	for errors.Is(err, spawn.ErrUnconfirmed) || errors.Is(err, spawn.ErrNotRecorded) {
		time.Sleep(time.Second)
		info, err = s.Spawn(t.Context(), topKey, topKey, ask)
	}
	require.NoError(t, err)
	infos, err := s.Wait(t.Context(), topKey, refsOf(info.Key), spawn.JoinOptions{})
	require.NoError(t, err)
	require.Equal(t, spawn.StatusOK, infos[0].Status)
	time.Sleep(2 * time.Hour)
	require.NoError(t, s.Idle(t.Context(), chatKey(1)))
	runs, err := s.Runs(t.Context(), topKey, topKey, false)
	require.NoError(t, err)
	require.Empty(t, runs, "it has been archived, in the end")
	require.NotZero(t, bad.met.Load(), "the method was called")
	if bad.left.Load() > 0 { // nothing but a restart reads so often
		require.Contains(t, method, "Read")
	}
}

// A method of the store that ends its goroutine while a caller reads does not end the caller's, and
// one that hangs does not keep a caller whose ctx has ended.
func TestReadsOfAStoreThatExitsOrHangs(t *testing.T) {
	for name, call := range map[string]func(context.Context, *spawn.Supervisor) error{
		"Blocked": func(ctx context.Context, s *spawn.Supervisor) error {
			return errorOf(s.Blocked(ctx))
		},
		"Retry": func(ctx context.Context, s *spawn.Supervisor) error { return s.Retry(ctx, "key") },
		"Usage": func(ctx context.Context, s *spawn.Supervisor) error {
			return errorOf(s.Usage(ctx, spawn.UsageQuery{}))
		},
		"Sessions": func(ctx context.Context, s *spawn.Supervisor) error {
			return errorOf(s.Sessions(ctx, spawn.SessionQuery{}))
		},
		"RootOf": func(ctx context.Context, s *spawn.Supervisor) error {
			child := session.Must(topKey.Child("main", "c9c5b5d1-2f6f-4a1e-9b0a-3f0a4a1c8f11"))
			return errorOf(s.RootOf(ctx, child))
		},
		"Events": func(ctx context.Context, s *spawn.Supervisor) error {
			for _, err := range s.Events(ctx, spawn.EventQuery{Root: topKey}) {
				if err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		},
	} {
		for _, method := range []string{
			"Roots", "Roots half way", "Roots at the end", "Read", "Read half way", "Read at the end",
		} {
			for _, how := range []string{"exits", "hangs"} {
				t.Run(name+" "+method+" "+how, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testRead(t, method, how == "hangs", call) })
				})
			}
		}
	}
}

func testRead(
	t *testing.T, method string, hangs bool,
	call func(context.Context, *spawn.Supervisor) error,
) {
	t.Helper()
	memory := session.NewMemory()
	release := make(chan struct{})
	bad := &badStore{
		Journal: memory.Journal, Transcripts: memory.Transcripts, method: method,
		act: runtime.Goexit,
	}
	if hangs {
		bad.act = func() { <-release }
	}
	cfg := spawn.Config{
		Store:  &session.Store{Journal: badJournal{bad}, Transcripts: badTranscripts{bad}},
		Runner: runnerFunc(workOn),
	}
	first, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t,
		errorOf(first.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "hello"})))
	require.NoError(t, first.Shutdown(t.Context()))
	s, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	bad.left.Store(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		err := errors.New("its goroutine has ended")
		defer func() { returned <- err }()
		err = call(ctx, s)
	}()
	began := time.Now()
	err = <-returned
	require.LessOrEqual(t, time.Since(began), time.Second)
	switch {
	case bad.met.Load() == 0: // it does not ask for that
	case hangs:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	default:
		require.ErrorContains(t, err, "the journal ended its goroutine")
	}
	close(release)
	require.NoError(t, s.Shutdown(t.Context()))
}

// R9: what asks the store on behalf of a caller returns its panics as errors.
func TestPanicsOfTheStoreAreErrorsForCallers(t *testing.T) {
	memory := session.NewMemory()
	bad := &badStore{
		Journal: memory.Journal, Transcripts: memory.Transcripts,
		act: func() { panic("disk on fire") },
	}
	store := &session.Store{Journal: badJournal{bad}, Transcripts: badTranscripts{bad}}
	s, err := spawn.Open(t.Context(), spawn.Config{Store: store, Runner: runnerFunc(workOn)})
	require.NoError(t, err)
	require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "hello"})))
	other, err := spawn.Open(t.Context(), spawn.Config{Store: store, Runner: runnerFunc(workOn)})
	require.NoError(t, err)
	for _, method := range []string{
		"Roots", "Roots half way", "Roots at the end", "Read", "Read half way", "Read at the end",
	} {
		for name, call := range map[string]func() error{
			"Blocked": func() error { _, err := other.Blocked(t.Context()); return err },
			"Retry":   func() error { return other.Retry(t.Context(), "key") },
			"Settle": func() error {
				return spawn.Settle(t.Context(), store, "key", spawn.SettleRetry)
			},
			"View": func() error {
				bad.in("Roots")
				_, err := spawn.View(topKey, badJournal{bad}.Read(t.Context(), topKey, 0))
				return err
			},
		} {
			if name == "View" && method != "Read half way" && method != "Read at the end" {
				continue // the caller asks for the sequence
			}
			bad.method = method
			bad.left.Store(1)
			p, ok := errors.AsType[*spawn.PanicError](call())
			require.True(t, ok, "%s with %s", name, method)
			require.Equal(t, "disk on fire", p.Value)
		}
	}
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, other.Shutdown(t.Context()))
}

// R9: a Logger that panics or ends its goroutine harms nothing, whatever it is told of.
func TestLoggersThatMisbehave(t *testing.T) {
	for how, act := range map[string]func(){
		"panics": func() { panic("disk on fire") }, "ends its goroutine": runtime.Goexit,
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				journal := spawntest.NewCrashJournal(session.NewMemory().Journal)
				s := openSupervisor(t, spawn.Config{
					Store:  &session.Store{Journal: journal},
					Logger: slog.New(badHandler{slog.DiscardHandler, act}),
					Runner: runnerFunc(
						func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
							time.Sleep(time.Minute)
							return sayText("done")
						},
					),
				})
				key := mustSpawn(t, s, spawn.Request{Task: "work"})
				synctest.Wait()
				for n := range 5 {
					journal.Unless(journal.Appends()+1+n, spawntest.FaultFailBefore)
				}
				runs := refsOf(key)
				infos, err := s.Wait(t.Context(), topKey, runs, spawn.JoinOptions{})
				require.NoError(t, err)
				require.Equal(t, spawn.StatusOK, infos[0].Status)
			})
			synctest.Test(t, func(t *testing.T) { testBadLoggerOfDelivery(t, act) })
		})
	}
}

// testBadLoggerOfDelivery has the first deliveries fail, which is logged.
func testBadLoggerOfDelivery(t *testing.T, act func()) {
	t.Helper()
	var calls atomic.Int64
	s := openSupervisor(t, spawn.Config{
		Logger: slog.New(badHandler{slog.DiscardHandler, act}),
		Runner: instantRunner, CallerRun: true,
		Deliver: func(context.Context, spawn.Delivery) error {
			if n := calls.Add(1); n == 1 {
				panic("ouch")
			} else if n == 2 {
				return errors.New("down")
			}
			return nil
		},
	})
	mustSpawn(t, s, spawn.Request{Task: "work", Announce: true})
	time.Sleep(time.Hour)
	require.NoError(t, s.Idle(t.Context(), topKey))
	require.EqualValues(t, 3, calls.Load())
}

type badHandler struct {
	slog.Handler
	act func()
}

func (badHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h badHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h badHandler) WithGroup(string) slog.Handler { return h }

func (h badHandler) Handle(context.Context, slog.Record) error { h.act(); return nil }
