package main

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy/copycommand"
	"github.com/offshoot-sdk/offshoot/session/storecopy/storecopytest"
	"github.com/stretchr/testify/require"
)

// The command copies a directory into streams, and from there into another directory.
func TestCopystore(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		NoLog: true, NoSigs: true, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
		SyncAlways: true,
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	dir, back := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "back")
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	storecopytest.Fill(t, store, 1, 60)
	require.NoError(t, store.Close())
	do := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		code := run(t.Context(), args, &out, &out)
		require.Equal(t, want, code, "%q: %s", args, &out)
		return out.String()
	}
	url, monitor := s.ClientURL(), "-monitor=http://"+s.MonitorAddr().String()
	const same = "everything is the same: "
	require.Contains(t, do(copycommand.ExitOK, "-from", dir, "-to", url, monitor), same)
	text := do(copycommand.ExitOK, "-from", dir, "-to", url, "-trust-sync", "-verify")
	require.Contains(t, text, same)
	text = do(copycommand.ExitOK, "-from", url, "-to", back, monitor)
	require.Contains(t, text, same)
	require.NotContains(t, text, "other sequences")
	require.Contains(t, do(copycommand.ExitOK, "-from", dir, "-to", back, "-verify"), same)
	require.Contains(t, do(copycommand.ExitError, "-from", dir, "-to", url, monitor), "another -name")
	require.Contains(t, do(copycommand.ExitOK, "-from", dir, "-to", url, monitor, "-name", "b"), same)
	require.Contains(t, do(copycommand.ExitError, "-from", dir, "-to", url), "TrustSync")
}
