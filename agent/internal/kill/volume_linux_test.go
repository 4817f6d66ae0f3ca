package kill

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A volume is a real file system of its own, mounted for a test.
type volume struct {
	dir   string
	image string // of an ext4
}

// runCommand runs a command of the system.
func runCommand(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return errors.New(name + " " + strings.Join(args,
			" ") + ": " + err.Error() + ": " + strings.TrimSpace(string(out)))
	}
	return nil
}

// tmpfs mounts a file system in memory with so much room. The test is skipped where it may not.
func tmpfs(t *testing.T, dir, size string) *volume {
	t.Helper()
	v := &volume{dir: dir}
	v.mount(t, "-t", "tmpfs", "-o", "mode=0700,size="+size, "offshoot-test")
	return v
}

func (v *volume) mount(t *testing.T, args ...string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(v.dir, 0o700))
	if err := runCommand("mount", append(args, v.dir)...); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = runCommand("umount", "-l", v.dir) })
}

// ext4 makes a file system in a file in home and mounts it.
func ext4(t *testing.T, home, dir string) *volume {
	t.Helper()
	v := &volume{dir: dir, image: filepath.Join(home, "image")}
	require.NoError(t, os.WriteFile(v.image, nil, 0o600))
	require.NoError(t, os.Truncate(v.image, 64<<20))
	// What mkfs can leave for later takes no room yet.
	if err := runCommand("mkfs.ext4", "-q", "-F", "-E",
		"lazy_itable_init=1,lazy_journal_init=1,nodiscard", v.image); err != nil {
		t.Skipf("no file system can be made here: %v", err)
	}
	v.mount(t, "-o", "loop", v.image)
	return v
}

// again mounts an ext4 again, which repairs it.
func (v *volume) again(t *testing.T) {
	t.Helper()
	require.NoError(t, runCommand("umount", v.dir))
	v.mount(t, "-o", "loop", v.image)
}

// remount changes options, as soon as no process has a file open that forbids it.
func (v *volume) remount(t *testing.T, options string) {
	t.Helper()
	var err error
	eventually(t, "remount "+options, func() bool {
		err = runCommand("mount", "-o", "remount,"+options, v.dir)
		return err == nil
	})
}

// fill leaves no room on the volume; free gives it back.
func (v *volume) fill(t *testing.T) (free func()) {
	t.Helper()
	name := filepath.Join(v.dir, "ballast")
	f, err := os.Create(name)
	require.NoError(t, err)
	for size := 1 << 20; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			size /= 2
		}
	}
	return func() {
		require.NoError(t, f.Close())
		require.NoError(t, os.Remove(name))
	}
}

// eventually waits for something that other goroutines or processes do.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("in a minute there was no %s", what)
		}
	}
}
