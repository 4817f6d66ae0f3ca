package dirstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// testTime is the time at which trees are due, unless a test says otherwise.
var testTime = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// treeKey returns the root of tree number i.
func treeKey(i int) session.Key {
	return session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
}

// testRef returns the transcript with this session id of the main session.
func testRef(id string) session.Ref {
	return session.Ref{Key: session.Must(session.MainKey("main")), SessionID: id}
}

// openOn opens the store on a disk.
func openOn(t *testing.T, d *disktest.Disk) *session.Store {
	t.Helper()
	s, err := dirstore.OpenOn(d, "/")
	require.NoError(t, err)
	return s
}

// file writes the lines of a transcript to its file, as the store does in a moment.
func file(t *testing.T, s *session.Store, ref session.Ref) {
	t.Helper()
	require.NotEmpty(t, s.Transcripts.Locate(ref))
}

// openDir opens the store in a directory.
func openDir(t *testing.T, dir string) *session.Store {
	t.Helper()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	return s
}

// afterCrash returns the disk after a loss of power that took everything that was not synced.
func afterCrash(d *disktest.Disk) *disktest.Disk {
	return d.Crash(func(int) bool { return false })
}

// readAll returns the content of a file.
func readAll(t *testing.T, d *disktest.Disk, name string) []byte {
	t.Helper()
	f, err := d.OpenFile(name, os.O_RDONLY)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

// writeAll replaces the content of a file, and makes the file if it does not exist.
func writeAll(t *testing.T, d *disktest.Disk, name string, b []byte) {
	t.Helper()
	f, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
}

// fileExists reports whether a disk has a file of this name.
func fileExists(d *disktest.Disk, name string) bool {
	_, err := d.Lstat(name)
	return err == nil
}

// runApart calls f in a goroutine of its own and waits for it. A failing test ends its goroutine,
// and that of a hook belongs to the store.
func runApart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// verifyLosses installs a hook that loses the power before every operation that changes d. It
// calls verify with up to limit states of the disk after each loss, and counts them in losses.
func verifyLosses(
	t *testing.T, d *disktest.Disk, limit int, verify func(after *disktest.Disk, when string),
) (losses *int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	losses = new(int)
	d.Hook(func(op disktest.Op) error {
		if !op.Changes() {
			return nil
		}
		for keep := range d.Losses(rng, limit) {
			*losses++
			when := fmt.Sprintf("loss %d, before %s %s", *losses, op.Kind, op.Name)
			runApart(func() { verify(d.Crash(keep), when) })
			if t.Failed() {
				return errors.New("the test has failed")
			}
		}
		return nil
	})
	return losses
}

// A faultRun is a program that runs on a disk, and knows what the disk must have afterwards.
type faultRun interface {
	run(t *testing.T, d *disktest.Disk) error
	verify(t *testing.T, d *disktest.Disk, when string)
}

// verifyFaults runs a program again and again. Each time another operation fails, before, after or
// in the middle of its work. The disk is verified with and without a loss of power. Under the race
// detector some of the operations fail, and others each time.
func verifyFaults(t *testing.T, newRun func() faultRun) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, fault := range []error{
		syscall.EIO,
		fmt.Errorf("%w: %w", disktest.ErrAfter, syscall.EIO),
		&disktest.ShortError{Written: 99, Err: errDiskFull},
	} {
		for at := onward(0, 8); ; at = onward(at, 8) {
			d := disktest.New()
			r := newRun()
			ops := 0
			var what string
			d.Hook(func(op disktest.Op) error {
				if ops++; ops != at {
					return nil
				}
				what = fmt.Sprintf("fault %v at operation %d, %s %s", fault, at, op.Kind, op.Name)
				return fault
			})
			err := r.run(t, d)
			d.Hook(nil)
			if ops < at {
				require.NoError(t, err)
				break
			}
			for keep := range d.Losses(rng, 3) {
				r.verify(t, d.Crash(keep), what)
			}
			r.verify(t, d, what)
		}
	}
}

// lastPos returns the position of the last line of a transcript that has lines.
func lastPos(t *testing.T, s *session.Store, ref session.Ref) (last session.Pos) {
	t.Helper()
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{Last: 1}) {
		require.NoError(t, err)
		last = line.Pos
	}
	return last
}
