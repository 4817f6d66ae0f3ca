//go:build unix

package openclaw_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

// notFiles put something else in the place of a file.
var notFiles = map[string]func(t *testing.T, name string) error{
	"a pipe":      func(_ *testing.T, name string) error { return syscall.Mkfifo(name, 0o600) },
	"a directory": func(_ *testing.T, name string) error { return os.Mkdir(name, 0o700) },
	"a device":    func(_ *testing.T, name string) error { return os.Symlink("/dev/zero", name) },
	"a socket": func(t *testing.T, name string) error {
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", name)
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err
	},
}

// What is in the place of a file and is not one is refused at once, with what it is: by Load, by
// Watch, which goes on with what it had, and where credentials and directories are looked for.
func TestNotAFile(t *testing.T) {
	for what, put := range notFiles {
		t.Run(what, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "oc") //nolint:usetesting // the name of a socket is short
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			file := filepath.Join(dir, "openclaw.json")
			require.NoError(t, put(t, file))
			within(t, func(ctx context.Context) {
				_, err := openclaw.Load(ctx, file, nowhere())
				require.ErrorIs(t, err, openclaw.ErrNotRegular)
				require.EqualError(t, err, "openclaw: not a regular file: "+file+" is "+what)
				_, err = openclaw.LoadFS(ctx, os.DirFS(dir), "openclaw.json", nowhere())
				require.ErrorIs(t, err, openclaw.ErrNotRegular)
			})
			require.NoError(t, os.Remove(file))
			watched(t, file, `{}`, func(r *readings, _ *openclaw.Live, pass func(int)) {
				require.NoError(t, os.Remove(file))
				require.NoError(t, put(t, file))
				pass(3)
				lines := r.take()
				require.Len(t, lines, 1)
				require.Contains(t, lines[0], file+" is "+what)
				require.NoError(t, os.Remove(file))
				overwrite(t, file, `{}`)
				pass(1)
				require.Equal(t, []string{"text:"}, r.take())
			})
			within(t, func(ctx context.Context) {
				profiles := filepath.Join(dir, "agents", "main", "agent")
				require.NoError(t, os.MkdirAll(profiles, 0o700))
				require.NoError(t, put(t, filepath.Join(profiles, "auth-profiles.json")))
				s := openclaw.Store{StateDir: dir}
				_, err := s.Profiles(ctx, "main")
				require.ErrorIs(t, err, openclaw.ErrNotRegular)
			})
			if what == "a directory" {
				return
			}
			within(t, func(ctx context.Context) {
				place := filepath.Join(dir, "workspace")
				require.NoError(t, put(t, place))
				overwrite(t, file, `{agents:{defaults:{workspace:"`+place+`"}}}`)
				_, err := openclaw.Load(ctx, file, openclaw.Options{Home: dir})
				require.ErrorContains(t, err, "want a directory: it is "+what)
			})
		})
	}
}

// within fails the test if f does not return in a few seconds: what hangs would end the whole run.
func within(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(t.Context())
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "it hangs")
	}
}
