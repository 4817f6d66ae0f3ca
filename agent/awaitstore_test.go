package agent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// R15: a program that is started while the disk is full does not see its waits end: neither Idle,
// also of a handle on a sub-agent, nor Wait and Join.
func TestWaitsOfAProgramThatStartsWithAFullDisk(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testFullDiskAtTheStart(t, known) })
	}
}

// testFullDiskAtTheStart has the disk be full from the start on, or with known when the program has
// just asked for its sub-agent again.
func testFullDiskAtTheStart(t *testing.T, known bool) {
	var full atomic.Bool
	store := newFaulty(func(int) fault {
		return map[bool]fault{true: faultRefused}[full.Load()]
	}, noFault)
	release := make(chan struct{})
	cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		select {
		case <-ctx.Done():
		case <-release:
		}
		return textResult("done")
	})
	cfg.Store = store
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	s, task := rt.Session(topKey), agent.Task{Text: "x", Key: "a"}
	require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "x"})))
	kid, err := agent.Spawn[string](t.Context(), s, task)
	require.NoError(t, err)
	require.NoError(t, rt.Shutdown(t.Context()))

	rt, err = agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran := make(chan error, 1)
	if known {
		kid, err = agent.Spawn[string](t.Context(), rt.Session(topKey), task)
		require.NoError(t, err)
	}
	full.Store(true)
	go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
	synctest.Wait()
	waits := map[string]func() error{
		"Idle":                func() error { return rt.Session(topKey).Idle(t.Context()) },
		"Idle of a sub-agent": func() error { return rt.Session(kid.Key()).Idle(t.Context()) },
		"PostAndWait": func() error {
			_, err := rt.Session(topKey).PostAndWait(t.Context(), agent.Incoming{Text: "y"})
			return err
		},
	}
	if known {
		waits["Wait"] = func() error { _, err := kid.Wait(t.Context()); return err }
		waits["Join"] = func() error {
			list := []*agent.Child[string]{kid}
			_, err := agent.Join(t.Context(), rt.Session(topKey), list,
				agent.JoinOptions{AtLeast: 1})
			return err
		}
	}
	type ended struct {
		wait string
		err  error
	}
	done := make(chan ended, len(waits))
	for name, wait := range waits {
		go func() { done <- ended{name, wait()} }()
	}
	for range 60 {
		time.Sleep(time.Minute)
		if len(done) > 0 {
			require.Failf(t, "a wait has ended", "%+v", <-done)
		}
	}
	full.Store(false)
	close(release)
	for range waits {
		e := <-done
		require.NoError(t, e.err, e.wait)
	}
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-ran)
}
