package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// badLines are transcripts of which every call does as the function says, once there is one.
type badLines struct {
	session.Transcripts
	do atomic.Pointer[func(context.Context) error]
}

func (b *badLines) fail(ctx context.Context) error {
	if do := b.do.Load(); do != nil {
		return (*do)(ctx)
	}
	return nil
}

func (b *badLines) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if err := b.fail(ctx); err != nil {
		return after, err
	}
	return b.Transcripts.Append(ctx, ref, after, m...)
}

func (b *badLines) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	if err := b.fail(ctx); err != nil {
		return func(yield func(session.Line, error) bool) { yield(session.Line{}, err) }
	}
	return b.Transcripts.Read(ctx, ref, q)
}

// A lastWrite is a turn whose transcript cannot be written any more when it is to end.
type lastWrite struct {
	t       *testing.T
	lines   *badLines
	rt      *agent.Runtime
	ran     chan error
	hang    chan struct{} // closed at the end of the test
	runner  atomic.Bool   // the Runner is under way
	release chan struct{} // the Runner returns
}

const lastWriteGrace = 500 * time.Millisecond

// waysOfLines are the ways in which transcripts fail.
var waysOfLines = map[string]func(w *lastWrite) func(context.Context) error{
	"fails": func(*lastWrite) func(context.Context) error {
		return func(context.Context) error { return errDisk }
	},
	"is lost": func(*lastWrite) func(context.Context) error {
		return func(context.Context) error { return fmt.Errorf("gone: %w", session.ErrSync) }
	},
	"hangs until its ctx ends": func(*lastWrite) func(context.Context) error {
		return func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	},
	"hangs": func(w *lastWrite) func(context.Context) error {
		return func(context.Context) error { <-w.hang; return errDisk }
	},
}

// phases are where a turn is when it meets transcripts that fail.
var phases = map[string]func(w *lastWrite, ctx context.Context, t *agent.Turn){
	"before the Runner": nil,
	"when the Runner returns before": func(w *lastWrite, _ context.Context, _ *agent.Turn) {
		<-w.release
	},
	"when the Runner is cancelled": func(_ *lastWrite, ctx context.Context, _ *agent.Turn) {
		<-ctx.Done()
	},
	"while the Runner records": func(w *lastWrite, ctx context.Context, t *agent.Turn) {
		<-w.release
		m := agent.Message{Role: session.MessageAssistant, Text: "x"}
		_ = t.Record(context.WithoutCancel(ctx), m)
	},
}

// ends are what ends the turn. Each returns the error that may be a *StillRunningError.
var ends = map[string]func(w *lastWrite) error{
	"Shutdown": func(w *lastWrite) error {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		return w.rt.Shutdown(ctx)
	},
	"Stop":       func(w *lastWrite) error { return w.rt.Session(topKey).Stop(w.t.Context()) },
	"CancelTurn": func(w *lastWrite) error { return w.rt.Session(topKey).CancelTurn(w.t.Context()) },
}

// The list of a StillRunningError names only sessions whose Runner has not returned. A turn that
// waits to try its transcript again does not outlast its grace period, whatever the Runner's ctx
// for a Record is.
func TestTranscriptThatFailsAtTheEndOfATurn(t *testing.T) {
	for how := range waysOfLines {
		for where, runner := range phases {
			for name, end := range ends {
				t.Run(name+" "+where+" "+how, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						testLastWrite(t, how, runner, end)
					})
				})
			}
		}
	}
}

// A tree that is lost does not wait for its transcripts: what the turn did is not accounted for.
func TestLostTreeDoesNotWaitForItsTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		journal := func(int) fault {
			if lost.Load() {
				return faultLost
			}
			return faultNone
		}
		cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
			<-ctx.Done()
			return textResult("x")
		})
		cfg.Grace = lastWriteGrace
		cfg.Store = newFaulty(journal, func(int) fault {
			return map[bool]fault{true: faultRefused}[lost.Load()]
		})
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
		require.NoError(t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})))
		synctest.Wait()
		lost.Store(true)
		began := time.Now()
		require.Error(t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "y"})))
		err = <-ran
		require.ErrorIs(t, err, session.ErrSync)
		var still *agent.StillRunningError
		require.NotErrorAs(t, err, &still)
		require.Zero(t, time.Since(began))
	})
}

func testLastWrite(
	t *testing.T, how string, runner func(*lastWrite, context.Context, *agent.Turn),
	end func(*lastWrite) error,
) {
	hangs := strings.HasPrefix(how, "hangs")
	memory := session.NewMemory()
	w := &lastWrite{
		t: t, lines: &badLines{Transcripts: memory.Transcripts}, ran: make(chan error, 1),
		hang: make(chan struct{}), release: make(chan struct{}),
	}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		w.runner.Store(true)
		defer w.runner.Store(false)
		runner(w, ctx, tn)
		return textResult("x")
	})
	cfg.Grace = lastWriteGrace
	cfg.Store = &session.Store{Journal: memory.Journal, Transcripts: w.lines}
	var err error
	w.rt, err = agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	go func() { w.ran <- w.rt.Run(context.WithoutCancel(t.Context())) }()
	do := waysOfLines[how](w)
	if runner == nil {
		w.lines.do.Store(&do)
	}
	require.NoError(t, errorOf(w.rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})))
	synctest.Wait()
	w.lines.do.Store(&do)
	close(w.release)
	time.Sleep(10 * time.Second) // the pauses are long by now
	if how == "is lost" && !w.runner.Load() {
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.NoError(t, w.rt.Session(topKey).Idle(soon), "it waits for what never comes")
	}

	defer func() {
		w.lines.do.Store(nil)
		close(w.hang)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		_ = w.rt.Shutdown(ctx)
		require.NoError(t, <-w.ran)
	}()
	began := time.Now()
	err = end(w)
	require.LessOrEqual(t, time.Since(began), time.Second+lastWriteGrace)
	if !hangs {
		require.LessOrEqual(t, time.Since(began), time.Second, "a shutdown ends a pause")
	}
	if still, ok := errors.AsType[*agent.StillRunningError](err); ok {
		if !w.runner.Load() {
			require.True(t, hangs, "%v", err)
			require.Empty(t, still.Sessions)
		}
	} else {
		require.NoError(t, err)
	}
	time.Sleep(lastWriteGrace)
	require.True(t, hangs || !w.runner.Load(), "a pause outlasts the turn")
}

// A Store that has lost its directory during a turn ends the program at once: no Runner is named
// that has returned.
func TestDirectoryThatIsLostDuringATurn(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"renamed":             func(dir string) error { return os.Rename(dir, dir+" away") },
		"without its lock":    func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
		"without its journal": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "journal")) },
		"without transcripts": func(dir string) error {
			return os.Rename(filepath.Join(dir, "sessions"), dir+" sessions")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				store, err := dirstore.Open(dir)
				require.NoError(t, err)
				cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
					<-ctx.Done()
					return textResult("x")
				})
				cfg.Store, cfg.Grace = store, lastWriteGrace
				rt, err := agent.Open(t.Context(), cfg)
				require.NoError(t, err)
				ran := make(chan error, 1)
				go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
				s := rt.Session(topKey)
				require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "x"})))
				synctest.Wait()
				if err := lose(dir); err != nil {
					t.Skip(err) // the system does not let an open directory go
				}
				_, _ = s.Post(t.Context(), agent.Incoming{Text: "y"})
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.NoError(t, rt.Shutdown(ctx))
				if name != "without transcripts" {
					require.Less(t, time.Since(began), lastWriteGrace/4)
					require.ErrorIs(t, <-ran, session.ErrSync)
				} else {
					require.NoError(t, <-ran)
				}
				_ = store.Close()
			})
		})
	}
}
