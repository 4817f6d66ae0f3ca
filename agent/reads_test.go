package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// What only reads returns the cause of a ctx that has ended, and what is not there is ErrNotFound.
func TestCallsThatOnlyRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return textResult("answer")
		})
		cfg.Threads.Channels = map[string]agent.ThreadChannel{"t": {}}
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(t.Context()) }()
		chat := rt.Session(badChat)
		_, err = chat.Post(t.Context(), agent.Incoming{Text: "hello"})
		require.NoError(t, err)
		require.NoError(t, chat.Idle(t.Context()))

		errGone := errors.New("gone")
		gone, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		unknown, err := badChat.Child("main", session.NewID())
		require.NoError(t, err)
		receipt := agent.Receipt{Session: unknown, Run: "none"}

		_, err = rt.Bindings(gone)
		require.ErrorIs(t, err, errGone)
		require.NotErrorIs(t, err, agent.ErrNotRecorded)
		_, err = agent.ChildOf[string](gone, chat, receipt)
		require.ErrorIs(t, err, errGone)
		child, err := agent.ChildOf[string](t.Context(), chat, receipt)
		require.NoError(t, err)
		_, err = child.Wait(t.Context())
		require.ErrorIs(t, err, agent.ErrNotFound)
		_, err = rt.Session(unknown).OpenFile(t.Context(), session.File{
			Hash: strings.Repeat("0", 64), Size: 1,
		})
		require.ErrorIs(t, err, agent.ErrNotFound)
		require.ErrorIs(t, err, session.ErrNotFound)

		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-done)
		_, err = agent.ChildOf[string](t.Context(), chat, receipt)
		require.ErrorIs(t, err, agent.ErrShutdown)
	})
}

// A ModelFunc that is nil is not a Model.
func TestOpenWithoutAModel(t *testing.T) {
	for _, model := range []agent.Model{nil, agent.ModelFunc(nil)} {
		_, err := agent.Open(t.Context(), agent.Config{Runner: &agent.Loop{Model: model}})
		require.ErrorContains(t, err, "the Loop has no Model")
	}
}
