package spawn_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// R6: a function of the Config that a spawn asks, and that panics or ends its goroutine, refuses
// that one spawn. The error names the function and keeps the panic for the program: its text does
// not have it. The tree and its other runs go on.
func TestCallbacksOfASpawnThatFail(t *testing.T) {
	bad := map[string]func(){
		"panics":             func() { panic("password: hunter2") },
		"ends its goroutine": runtime.Goexit,
	}
	for _, callback := range []string{"ValidModel", "Rules.Sandbox.Decide"} {
		for how, act := range bad {
			t.Run(callback+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					testCallbackThatFails(t, callback, how, act)
				})
			})
		}
	}
}

func testCallbackThatFails(t *testing.T, callback, how string, act func()) {
	t.Helper()
	fails := false
	call := func(name string) {
		if fails && name == callback {
			act()
		}
	}
	cfg := spawn.Config{
		ValidModel: func(string) bool { call("ValidModel"); return true },
		Rules: policy.Rules{Sandbox: policy.Sandbox{Decide: func(string, session.Key) bool {
			call("Rules.Sandbox.Decide")
			return false
		}}},
		Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				select {
				case <-time.After(time.Hour):
					return sayText("done")
				case <-ctx.Done():
					return spawn.TurnResult{}, context.Cause(ctx)
				}
			},
		),
	}
	s := openSupervisor(t, cfg)
	ask := spawn.Request{Task: "work", Policy: policy.Request{Model: "a/b"}}
	long := mustSpawn(t, s, ask)
	synctest.Wait()
	fails = true
	_, err := s.Spawn(t.Context(), topKey, topKey, ask)
	failed, ok := errors.AsType[*spawn.CallbackError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, callback, failed.Callback)
	require.Contains(t, err.Error(), callback)
	require.NotContains(t, err.Error(), "hunter2")
	if how == "panics" {
		p, ok := errors.AsType[*spawn.PanicError](err)
		require.True(t, ok)
		require.Equal(t, "password: hunter2", p.Value)
		require.NotEmpty(t, p.Stack)
	}
	fails = false
	second := mustSpawn(t, s, ask)
	infos, err := s.Wait(t.Context(), topKey, refsOf(long, second), spawn.JoinOptions{})
	require.NoError(t, err)
	for _, info := range infos {
		require.Equal(t, spawn.StatusOK, info.Status)
	}
	runs, err := s.Runs(t.Context(), topKey, topKey, false)
	require.NoError(t, err)
	require.Len(t, runs, 2, "what was refused does not exist")
}

// R6: such a function may take its time, and may call the Supervisor: it runs beside the tree. A
// caller that does not want to wait for it leaves.
func TestCallbacksOfASpawnMayHangAndCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *spawn.Supervisor
		back := func() {
			_, err := s.Runs(t.Context(), topKey, topKey, true)
			require.NoError(t, err)
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "hello"})),
			)
		}
		s = openSupervisor(t, spawn.Config{
			ValidModel: func(m string) bool {
				back()
				if m == "a/slow" {
					time.Sleep(time.Hour)
				}
				return m != "a/bad"
			},
			Rules: policy.Rules{Sandbox: policy.Sandbox{
				Decide: func(_ string, key session.Key) bool {
					if key.IsSubagent() { // a turn of the main session asks, too
						back()
					}
					return true
				},
			}},
			Runner: runnerFunc(
				func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
					return sayText("done")
				},
			),
		})
		with := func(model string) spawn.Request {
			return spawn.Request{
				Task: "work", Policy: policy.Request{Model: model, RequireSandbox: true},
			}
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.Spawn(soon, topKey, topKey, with("a/slow"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		info, err := s.Spawn(t.Context(), topKey, topKey, with("a/good"))
		require.NoError(t, err)
		require.Equal(t, "a/good", info.Model.Resolved)
		require.True(t, info.Sandboxed)
		info, err = s.Spawn(t.Context(), topKey, topKey, with("a/bad"))
		require.NoError(t, err)
		require.Empty(t, info.Model.Resolved)
		require.NotEmpty(t, info.Warnings)
		time.Sleep(2 * time.Hour)
	})
}
