package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// A ctx that has ended before the call has no effect: no thread is created, and nothing recorded.
func TestFocusWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		cfg := agent.Config{Runner: sayOK}
		chat.Connect(&cfg)
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		_, err = rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "x"})
		require.NoError(t, err)
		cause := errors.New("the caller has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		at := chat.At("general", "")
		_, err = rt.Focus(ctx, agent.FocusRequest{
			Conversation: at, Session: topKey, By: "ann", NewThread: true,
		})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		require.ErrorIs(t, err, cause)
		require.Empty(t, chat.Threads())
		_, err = rt.Unfocus(ctx, agent.UnfocusRequest{Conversation: at, By: "ann"})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		_, err = rt.LimitFocus(ctx, at, "ann", binding.Limit{})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		require.NoError(t, rt.Shutdown(t.Context()))
	})
}
