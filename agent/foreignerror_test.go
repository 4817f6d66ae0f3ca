package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A function of the program's may return what another call of the library has said. It says nothing
// of the call that has asked the function: that is not one of the errors of a command.
func TestErrorsOfTheProgramAreNotOurs(t *testing.T) {
	own := errors.New("own")
	commands := []error{
		agent.ErrUnconfirmed, agent.ErrNotRecorded, agent.ErrShutdown, agent.ErrStale,
		agent.ErrNotFound,
	}
	said := errors.Join(append(commands, own)...)
	check := func(t *testing.T, err error) {
		require.ErrorIs(t, err, own)
		for _, not := range commands {
			require.NotErrorIs(t, err, not)
		}
	}
	t.Run("Hooks.Spawning", func(t *testing.T) {
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "x"}, nil
		})
		cfg.Hooks.Spawning = func(context.Context, agent.SpawningHook) error { return said }
		agenttest.Run(t, cfg, nil, func(h *harness) {
			_, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x"})
			var veto *agent.VetoError
			require.ErrorAs(h.T(), err, &veto)
			check(t, err)
		})
	})
	t.Run("ThreadHost.CreateThread", func(t *testing.T) {
		channel := agenttest.NewFakeChannel("fake")
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "x"}, nil
		})
		channel.Connect(&cfg)
		channel.Intercept(func(context.Context, agenttest.FakeCall) error { return said })
		agenttest.Run(t, cfg, nil, func(h *harness) {
			at := channel.At("general", "")
			_, err := h.Main().Spawn(h.Context(),
				agent.Task{Text: "x", Thread: true, Conversation: at})
			check(t, err)
			_, err = h.Runtime().Focus(h.Context(), agent.FocusRequest{
				Conversation: at, Session: h.Main().Key(), By: "a", NewThread: true,
			})
			check(t, err)
		})
	})
	check(t, &agent.CallbackError{Err: said})
	check(t, &agent.VetoError{Err: said})
}

// The zero value of an error has a text, and what is zero refuses and does not panic.
func TestZeroValues(t *testing.T) {
	for _, err := range []error{
		&agent.CallbackError{}, &spawn.CallbackError{}, &spawn.JournalError{}, &agent.VetoError{},
		&agent.RunError{}, &agent.ResultError{}, &agent.JoinError{}, &agent.DirError{},
		&agent.ArgumentError{}, &agent.ConfigError{}, &agent.TargetError{}, &agent.InputError{},
		&agent.StillRunningError{}, &spawn.LimitError{}, &spawn.EndedError{}, &spawn.PanicError{},
		agent.RateLimited{},
	} {
		require.NotEmpty(t, err.Error(), "%T", err)
		require.NotErrorIs(t, err, agent.ErrUnconfirmed, "%T", err)
	}
	var s spawn.Supervisor
	require.ErrorContains(t, s.Run(t.Context()), "does not come from Open")
	require.ErrorContains(t, s.Shutdown(t.Context()), "does not come from Open")
	agent.PresetClawdbot(nil)
	agent.PresetGoClaw(nil)
}
