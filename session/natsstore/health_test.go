package natsstore_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// TestHealthOfAServerThatIsSilent asks for the health of a server that was stopped, and takes
// connections without an answer. The ctx of the caller has no end: that of Options.Timeout counts.
func TestHealthOfAServerThatIsSilent(t *testing.T) {
	s := startServer(t)
	for _, process := range []string{"", "a"} {
		store := s.open(t, natsstore.Options{
			Name: "h" + process, Timeout: time.Second, Process: process,
		})
		require.NoError(t, store.Health(t.Context()))
		require.NoError(t, s.Cmd.Process.Signal(syscall.SIGSTOP))
		for range 2 {
			require.ErrorIs(t, store.Health(t.Context()), natsstore.ErrTimeout)
		}
		require.NoError(t, s.Cmd.Process.Signal(syscall.SIGCONT))
		require.Eventually(t, func() bool { return store.Health(t.Context()) == nil }, time.Minute,
			10*time.Millisecond)
	}
}
