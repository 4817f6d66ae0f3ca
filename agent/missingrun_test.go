package agent_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// workCalls are the calls after which a Runtime has work, or waits for the end of it.
var workCalls = map[string]func(ctx context.Context, rt *agent.Runtime) error{
	"Post": func(ctx context.Context, rt *agent.Runtime) error {
		return errorOf(rt.Session(topKey).Post(ctx, agent.Incoming{Text: "hello"}))
	},
	"Spawn": func(ctx context.Context, rt *agent.Runtime) error {
		_, err := agent.Spawn[string](ctx, rt.Session(topKey), agent.Task{Text: "x"})
		return err
	},
	"Idle": func(ctx context.Context, rt *agent.Runtime) error { return rt.Session(topKey).Idle(ctx) },
	"Wait": func(ctx context.Context, rt *agent.Runtime) error {
		c, err := agent.Spawn[string](ctx, rt.Session(topKey), agent.Task{Text: "x", Key: "x"})
		if err != nil {
			return err
		}
		_, err = c.Wait(ctx)
		return err
	},
}

// A6: a Runtime that has work, and whose Run is not called, says so once, and starts nothing that
// is left.
func TestMissingRunIsLogged(t *testing.T) {
	for name, work := range workCalls {
		for when, want := range map[time.Duration]int{0: 0, 4 * time.Second: 0, time.Minute: 1} {
			t.Run(name+", Run after "+when.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testMissingRun(t, work, when, want) })
			})
		}
	}
}

func testMissingRun(
	t *testing.T, work func(ctx context.Context, rt *agent.Runtime) error, when time.Duration,
	want int,
) {
	var log lockedLog
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("done")
	})
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	time.Sleep(time.Hour)
	require.Empty(t, log.String(), "there is no work yet")
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- work(t.Context(), rt) }()
	}
	time.Sleep(when)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- rt.Run(ctx) }()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	time.Sleep(time.Hour)
	said := log.String()
	require.Equal(t, want, strings.Count(said, "Runtime.Run has not been called"), said)
	stop()
	require.NoError(t, <-ran)
}

// A6: a Runtime that is shut down needs no Run, and a Logger that panics harms nothing.
func TestMissingRunAndShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := configWith(nothingToSay)
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, workCalls["Post"](t.Context(), rt))
		require.NoError(t, rt.Shutdown(t.Context()))
		time.Sleep(time.Hour)
		require.Empty(t, log.String())

		cfg.Logger = slog.New(panickingHandler{slog.DiscardHandler})
		rt, err = agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, workCalls["Post"](t.Context(), rt))
		time.Sleep(time.Hour)
		require.NoError(t, rt.Shutdown(t.Context()))
	})
}

// A lockedLog is a text that is written by one goroutine and read by another.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { panic("no log") }
