package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// What a limitCase waits for: the limit of the callback itself, a limit that the caller sets, and
// the end of another turn.
const (
	callbackLimit = 30 * time.Second
	callersLimit  = 10 * time.Second
	otherTurn     = time.Hour
)

// A limitCase is a callback that calls Shutdown while another turn works, until a limit passes.
type limitCase struct {
	at    string // the callback, and how its own limit passes
	with  string // the ctx of the call
	early bool   // the callback returns at once, and the call goes on without it
	deaf  bool   // the other turn ignores its cancellation

	sup   *spawn.Supervisor
	began time.Time
	call  chan limitOutcome
}

// limitOutcome is what a call came to, and when.
type limitOutcome struct {
	err  error
	took time.Duration
}

var (
	limitCallbacks = []string{"Deliver", "Runner timed out", "Runner cancelled", "Runner stopped"}
	limitContexts  = []string{
		"its ctx", "derived", "derived, longer", "derived, shorter", "with a timeout", "Background",
	}
)

// context returns the ctx of the call.
func (c *limitCase) context(ctx context.Context) (context.Context, context.CancelFunc) {
	switch c.with {
	case "derived":
		return context.WithCancel(ctx)
	case "derived, longer":
		return context.WithTimeout(ctx, 2*callbackLimit)
	case "derived, shorter":
		return context.WithTimeout(ctx, callersLimit)
	case "with a timeout":
		return context.WithTimeout(context.Background(), callersLimit)
	case "Background":
		return context.WithCancel(context.Background())
	}
	return ctx, func() {}
}

// quit is what the callback does.
func (c *limitCase) quit(ctx context.Context) {
	shutDown := func() {
		ctx, cancel := c.context(ctx)
		defer cancel()
		err := c.sup.Shutdown(ctx)
		c.call <- limitOutcome{err, time.Since(c.began)}
	}
	if c.early {
		go shutDown()
		return
	}
	shutDown()
}

// runTurn is the Runner.
func (c *limitCase) runTurn(
	ctx context.Context, tn *spawn.TurnInput,
) (spawn.TurnResult, error) {
	switch tn.Inputs[0].Text {
	case "work":
		ends := ctx.Done()
		if c.deaf {
			ends = nil
		}
		select {
		case <-time.After(otherTurn):
			return sayText("done")
		case <-ends:
			return spawn.TurnResult{}, context.Cause(ctx)
		}
	case "quit":
		c.quit(ctx)
	}
	return spawn.TurnResult{Reply: "hi"}, nil
}

// start starts the other turn and has the callback called. It returns the keys of both sessions.
func (c *limitCase) start(t *testing.T) (work, quits session.Key) {
	t.Helper()
	work, quits = mustSpawn(t, c.sup, spawn.Request{Task: "work"}), topKey
	synctest.Wait()
	c.began = time.Now()
	switch c.at {
	case "Deliver":
		require.NoError(
			t, errorOf(c.sup.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "hello"})),
		)
		return work, quits
	case "Runner timed out":
		limit := policy.Request{Timeout: callbackLimit}
		return work, mustSpawn(t, c.sup, spawn.Request{Task: "quit", Policy: limit})
	}
	quits = mustSpawn(t, c.sup, spawn.Request{Task: "quit"})
	ctx := context.WithoutCancel(t.Context())
	time.AfterFunc(callbackLimit, func() {
		if c.at == "Runner cancelled" {
			_ = c.sup.CancelTurn(ctx, topKey, quits)
		} else {
			_ = c.sup.Stop(ctx, topKey, quits, "enough")
		}
	})
	return work, quits
}

// The end of the ctx of a turn or a delivery, for whatever reason, does not end the soft phase; a
// limit that the caller of Shutdown sets does. Whatever still runs in the end is named by an error
// that a call of Shutdown returns, or Run if no call is there.
func TestShutdownUntilALimitPasses(t *testing.T) {
	for _, at := range limitCallbacks {
		for _, with := range limitContexts {
			for how := range 4 {
				c := &limitCase{at: at, with: with, early: how&1 > 0, deaf: how&2 > 0}
				name := fmt.Sprintf("%s/%s/early %v/deaf %v", at, with, c.early, c.deaf)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testLimit(t, c) })
				})
			}
		}
	}
}

func testLimit(t *testing.T, c *limitCase) {
	t.Helper()
	c.call = make(chan limitOutcome, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), runEndsAfter)
	defer cancel()
	store := session.NewMemory()
	sup, err := spawn.Open(t.Context(), spawn.Config{
		Store: store, Replies: true, DeliverTimeout: callbackLimit, Runner: runnerFunc(c.runTurn),
		Rules: policy.Rules{Subagents: policy.Subagents{ArchiveAfter: policy.Off}},
		Deliver: func(ctx context.Context, _ spawn.Delivery) error {
			c.quit(ctx)
			return nil
		},
	})
	require.NoError(t, err)
	c.sup = sup
	ran := make(chan limitOutcome, 1)
	go func() {
		err := sup.Run(ctx)
		ran <- limitOutcome{err, time.Since(c.began)}
	}()
	synctest.Wait()
	work, quits := c.start(t)
	call, run := <-c.call, <-ran
	v, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
	require.NoError(t, err)
	finished := v.Runs[0].Status == spawn.StatusOK
	c.check(t, call, run, finished, work, quits)
	time.Sleep(runEndsAfter) // for what is deaf
}

// check compares what came of a limitCase with what its ctx promises.
func (c *limitCase) check(
	t *testing.T, call, run limitOutcome, finished bool, work, quits session.Key,
) {
	t.Helper()
	const grace = spawn.DefaultGrace
	own := slices.Contains(limitContexts[:3], c.with) || c.early && c.with == "derived, shorter"
	switch {
	case own:
		require.ErrorIs(t, call.err, spawn.ErrShuttingDown)
		if c.early {
			require.Zero(t, call.took)
		} else {
			require.Equal(t, callbackLimit, call.took)
		}
		require.NoError(t, run.err)
		require.Equal(t, otherTurn, run.took)
		require.True(t, finished)
	case c.with == "derived, shorter":
		require.ErrorIs(t, call.err, spawn.ErrShuttingDown)
		require.ErrorIs(t, call.err, context.DeadlineExceeded)
		require.Equal(t, callersLimit, call.took)
		require.False(t, finished)
		if c.deaf {
			requireStill(t, run.err, c, work)
			require.Equal(t, callersLimit+grace, run.took)
		} else {
			require.NoError(t, run.err)
			require.Equal(t, callersLimit, run.took)
		}
	case c.with == "with a timeout":
		require.False(t, finished)
		require.NoError(t, run.err)
		var still []session.Key
		if !c.early {
			still = append(still, quits)
		}
		if c.deaf {
			still = append(still, work)
		}
		requireStill(t, call.err, c, still...)
	case c.early:
		require.NoError(t, call.err)
		require.NoError(t, run.err)
		require.Equal(t, otherTurn, call.took)
	case c.at == "Deliver": // its limit helps
		requireStill(t, call.err, c, quits)
		require.NoError(t, run.err)
		require.Equal(t, otherTurn+grace, call.took)
	default: // only the end of Run's ctx helps
		requireStill(t, call.err, c, quits)
		require.Equal(t, call.err, run.err)
		require.Greater(t, call.took, runEndsAfter-time.Minute)
	}
}

// requireStill checks that err names the sessions that still run, or is nil without any.
func requireStill(t *testing.T, err error, c *limitCase, keys ...session.Key) {
	t.Helper()
	if len(keys) == 0 {
		require.NoError(t, err)
		return
	}
	still, ok := errors.AsType[*spawn.StillRunningError](err)
	require.True(t, ok, "%v", err)
	require.ElementsMatch(t, keys, slices.Concat(still.Sessions, still.Deliveries), "%s", c.at)
}
