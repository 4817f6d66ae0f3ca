//go:build unix

package pgstoretest_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore/pgstoretest"
)

func TestServer(t *testing.T) {
	s, err := pgstoretest.New("fsync=off")
	if errors.Is(err, pgstoretest.ErrMissing) {
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
