package agent_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// nilError is an error whose nil pointer cannot be read.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// badError is an error of which one method misbehaves.
type badError struct {
	in  string
	act func()
}

func (e *badError) call(method string) {
	if e.in == method {
		e.act()
	}
}

func (e *badError) Error() string   { e.call("Error"); return "bad" }
func (e *badError) Is(error) bool   { e.call("Is"); return false }
func (e *badError) As(any) bool     { e.call("As"); return false }
func (e *badError) Unwrap() []error { e.call("Unwrap"); return nil }

// endlessError wraps itself.
type endlessError struct{}

func (e endlessError) Error() string { return "bad" }
func (e endlessError) Unwrap() error { return e }

// everyError says that it is every error.
type everyError struct{}

func (everyError) Error() string   { return "bad" }
func (everyError) Is(error) bool   { return true }
func (e everyError) Unwrap() error { return nil }

// badErrors are errors of the caller's that cannot be read, by what a function does that returns
// them: it has panicked, exited or not returned. A hang takes ten minutes.
func badErrors() map[string]map[string]func() error {
	in := func(method string, act func()) func() error {
		return func() error { return &badError{method, act} }
	}
	kinds := map[string]map[string]func() error{
		"panic": {
			"nil pointer": func() error { return (*nilError)(nil) },
			"endless":     func() error { return endlessError{} },
			"every":       func() error { return everyError{} },
			"joined":      func() error { return errors.Join(errBad, everyError{}) },
		},
		"exit": {}, "hang": {},
	}
	for _, method := range []string{"Error", "Is", "As", "Unwrap"} {
		kinds["panic"][method] = in(method, func() { panic("oh no") })
		kinds["exit"][method] = in(method, runtime.Goexit)
		kinds["hang"][method] = func() error {
			var once sync.Once
			return &badError{method, func() { once.Do(func() { time.Sleep(10 * time.Minute) }) }}
		}
	}
	return kinds
}

// An error of the caller's may be a nil pointer, or have methods that panic, end the goroutine or
// hang. A function that returns it has done the same itself, and the field of that function is the
// one that is named.
func TestBadErrorsInATurn(t *testing.T) {
	for how, errs := range badErrors() {
		for kind, bad := range errs {
			for _, c := range callbacks {
				if c.heals && !c.contains {
					continue // its errors become texts, or are not heard
				}
				t.Run(strings.Join([]string{c.name, how, kind}, ", "), func(t *testing.T) {
					t.Parallel()
					want, reason := "Sorry", "agent: "+c.field+": "
					switch {
					case how == "hang":
						want, reason = "", ""
					case c.contains:
						want, reason = "answer", ""
					case how == "exit":
						reason += "it ended its goroutine"
					}
					var log bytes.Buffer
					cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
						return textResult("answer")
					})
					cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
					cfg.Store = session.NewMemory()
					c.set(&cfg, (&badOnce{how: bad}).call)
					misbehaveInATurn(t, cfg, how == "hang", want, reason)
					require.Contains(t, strings.ReplaceAll(log.String(), `\"`, `"`), reason)
				})
			}
		}
	}
}

// A panic with a value that cannot be read is one like any other.
func TestBadPanicValues(t *testing.T) {
	for how, errs := range badErrors() {
		for kind, bad := range errs {
			t.Run(how+", "+kind, func(t *testing.T) {
				t.Parallel()
				want, reason := "Sorry", "agent: Runner: "
				if how == "hang" {
					want, reason = "", ""
				}
				cfg := configWith(nil)
				once := badOnce{how: func() error { panic(bad()) }}
				cfg.Runner = agent.RunnerFunc(func(
					context.Context, *agent.Turn,
				) (agent.Result, error) {
					_ = once.call()
					return textResult("answer")
				})
				misbehaveInATurn(t, cfg, how == "hang", want, reason)
			})
		}
	}
}

// outside are the functions of a Config that are called outside of turns, and what has them called.
var outside = []struct {
	name string
	// logged is how the log names the function; empty: the error of the spawn does.
	logged string
	// asked says that a spawn asks it, and refuses that the spawn is refused then.
	asked, refuses bool
	// again says that it is called until it succeeds.
	again bool
	set   func(cfg *agent.Config, task *agent.Task, call func() error)
}{
	{"Reply", "Deliver panicked", false, false, true, func(
		cfg *agent.Config, _ *agent.Task, call func() error,
	) {
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			if d.To != badChat {
				return nil
			}
			return call()
		}
	}},
	{"Deliver", "Deliver panicked", false, false, true, func(
		cfg *agent.Config, _ *agent.Task, call func() error,
	) {
		cfg.Deliver = func(context.Context, agent.Delivery) error { return call() }
	}},
	{"Hooks.Ended", "Deliver panicked", false, false, true, func(
		cfg *agent.Config, _ *agent.Task, call func() error,
	) {
		cfg.Hooks.Ended = func(context.Context, agent.EndedHook) error { return call() }
	}},
	{"Farewell", "a farewell failed", false, false, true, func(
		cfg *agent.Config, task *agent.Task, call func() error,
	) {
		setHost(cfg, task, badHost{farewell: call})
	}},
	{"CreateThread", `Threads.Channels["t"].Host`, true, true, false, func(
		cfg *agent.Config, task *agent.Task, call func() error,
	) {
		setHost(cfg, task, badHost{create: call})
	}},
	{"Hooks.Spawning", "function=Spawning", true, true, false, func(
		cfg *agent.Config, _ *agent.Task, call func() error,
	) {
		cfg.Hooks.Spawning = func(context.Context, agent.SpawningHook) error { return call() }
	}},
	{"Route", "Config.Route failed", true, false, false, func(
		cfg *agent.Config, _ *agent.Task, call func() error,
	) {
		cfg.Route = func(context.Context, agent.RouteRequest) (session.Route, error) {
			return session.Route{}, call()
		}
	}},
	{"Reader", "Reader", true, true, false, func(
		_ *agent.Config, task *agent.Task, call func() error,
	) {
		task.Attachments = []agent.Attachment{{Name: "a", Reader: readerFunc(
			func(p []byte) (int, error) { return copy(p, "data"), call() },
		)}}
	}},
}

var (
	badChat  = session.Must(session.DirectKey("main", "t", "bad"))
	goodChat = session.Must(session.DirectKey("main", "t", "good"))
)

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// badHost is a ThreadHost of which one method misbehaves.
type badHost struct{ create, farewell func() error }

func setHost(cfg *agent.Config, task *agent.Task, h badHost) {
	cfg.Threads.Channels = map[string]agent.ThreadChannel{"t": {Host: h}}
	task.Thread, task.Mode = true, agent.TaskModeRun
}

func (h badHost) CreateThread(
	_ context.Context, n agent.NewThread,
) (at session.Route, err error) {
	if h.create != nil {
		err = h.create()
	}
	at = n.In
	at.Thread = "7"
	return at, err
}

func (h badHost) Farewell(context.Context, agent.Farewell) error {
	if h.farewell == nil {
		return nil
	}
	return h.farewell()
}

func (badHost) ProbeThread(context.Context, session.Route) (agent.ThreadState, error) {
	return agent.ThreadUncertain, nil
}

// So it is outside of turns: the process lives, other chats go on, a failed attempt is recorded and
// followed by another one, a spawn obeys its ctx, and no goroutine is left. A bubble ends only when
// all of them have.
func TestBadErrorsOutsideOfTurns(t *testing.T) {
	for how, errs := range badErrors() {
		for kind, bad := range errs {
			for i := range outside {
				t.Run(strings.Join([]string{outside[i].name, how, kind}, ", "), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { misbehaveOutside(t, i, how, bad) })
				})
			}
		}
	}
}

func misbehaveOutside(t *testing.T, row int, how string, bad func() error) {
	t.Helper()
	c, log := outside[row], &lockedLog{}
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("answer")
	})
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	var good atomic.Int32
	fails := badOnce{how: bad}
	task := agent.Task{Text: "x", Announce: true}
	c.set(&cfg, &task, func() error {
		err := fails.call()
		if err == nil {
			good.Add(1)
		}
		return err
	})
	rt := runUntilEnd(t, cfg)
	post := func(to session.Key) agent.Reply {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, _ := rt.Session(to).PostAndWait(ctx, agent.Incoming{Text: "hello"})
		return r
	}
	post(badChat)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	child, err := rt.Session(badChat).Spawn(ctx, task)
	require.LessOrEqual(t, time.Since(began), 7*time.Second, "the spawn obeys its ctx")
	switch {
	case how == "hang" && c.asked:
		require.Error(t, err)
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	case c.refuses:
		require.Error(t, err)
	default:
		require.NoError(t, err)
		_, err = child.Wait(t.Context())
		require.NoError(t, err)
	}
	time.Sleep(time.Second)
	require.Equal(t, "answer", post(goodChat).Text, "other chats go on")
	if how == "panic" && c.logged != "" && err == nil {
		require.Contains(t, log.String(), c.logged)
	}
	time.Sleep(2 * time.Hour)
	if c.again {
		require.Positive(t, good.Load(), "the attempt is recorded, and there is another one")
		require.NoError(t, errorOf(rt.Blocked(t.Context())))
	}
	require.Equal(t, "answer", post(badChat).Text)
	_, err = rt.Session(badChat).Spawn(t.Context(), agent.Task{Text: "y"})
	require.NoError(t, err)
}

// A function that a spawn asks may hang: the spawn obeys its ctx, and Shutdown names the session.
func TestFunctionsOfASpawnThatHang(t *testing.T) {
	for name, set := range map[string]func(cfg *agent.Config, task *agent.Task, hang func()){
		"Route": func(cfg *agent.Config, _ *agent.Task, hang func()) {
			cfg.Route = func(context.Context, agent.RouteRequest) (session.Route, error) {
				hang()
				return session.Route{}, nil
			}
		},
		"WorkDir": func(cfg *agent.Config, task *agent.Task, hang func()) {
			dir := t.TempDir()
			cfg.WorkDir = func(string) string { hang(); return dir }
			task.Dir = "."
		},
		"WorkDir of attachments": func(cfg *agent.Config, task *agent.Task, hang func()) {
			dir := t.TempDir()
			cfg.WorkDir = func(string) string { hang(); return dir }
			cfg.Rules.Attachments.Enabled = true
			task.Attachments = attaching("a", "1")
		},
		"WorkDir of attachments in a directory": func(
			cfg *agent.Config, task *agent.Task, hang func(),
		) {
			dir, calls := t.TempDir(), 0
			cfg.WorkDir = func(string) string {
				if calls++; calls == 2 { // the first is for Dir
					hang()
				}
				return dir
			}
			cfg.Rules.Attachments.Enabled = true
			task.Dir, task.Attachments = ".", attaching("a", "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
					return textResult("answer")
				})
				release := make(chan struct{})
				task := agent.Task{Text: "x"}
				set(&cfg, &task, func() { <-release })
				rt, err := agent.Open(t.Context(), cfg)
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() { done <- rt.Run(t.Context()) }()
				errGone := errors.New("gone")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errGone) })
				began := time.Now()
				_, err = rt.Session(badChat).Spawn(ctx, task)
				require.ErrorIs(t, err, errGone)
				require.ErrorIs(t, err, agent.ErrNotRecorded)
				require.Equal(t, time.Second, time.Since(began))
				err = rt.Shutdown(t.Context())
				still, ok := errors.AsType[*agent.StillRunningError](err)
				require.True(t, ok, err)
				require.Equal(t, []session.Key{badChat}, still.Sessions)
				close(release)
				if err := <-done; err != nil {
					t.Log(err) // the one of Shutdown, if that has not told it
				}
			})
		})
	}
}
