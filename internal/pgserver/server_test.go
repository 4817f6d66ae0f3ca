//go:build unix

package pgserver_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/pgserver"
)

func TestServer(t *testing.T) {
	s, err := pgserver.New("fsync=off")
	if errors.Is(err, pgserver.ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.NotEmpty(t, s.PIDs())
	s.Kill()
	<-s.Exited()
	require.NoError(t, s.Start(), "with the data that it had")
	s.Stop()
	<-s.Exited()
	require.NoError(t, s.Start())
	pid := s.PIDs()[0]
	s.Remove()
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}
