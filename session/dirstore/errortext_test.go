package dirstore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// verifyErrorText fails if a line of an error says a path or what was done to it more than once.
func verifyErrorText(t *testing.T, err error, what string) (found bool) {
	t.Helper()
	cut := func(r rune) bool { return strings.ContainsRune(" :\"\n", r) }
	for line := range strings.Lines(err.Error()) {
		words := strings.FieldsFunc(line, cut)
		for i, word := range words {
			if strings.HasPrefix(word, "/") {
				found = true
				require.NotContains(t, words[i+1:], word, "%s: %s", what, line)
			}
		}
		require.LessOrEqual(t, strings.Count(line, errDiskFull.Error()), 1, "%s: %s", what, line)
		require.LessOrEqual(t, strings.Count(line, "wal: "), 2, "%s: %s", what, line)
	}
	return found
}

// failEverywhere runs a program on a disk again and again. Each time another operation fails with a
// full disk. It verifies the text of all errors. Under the race detector some of the operations
// fail, and others each time.
func failEverywhere(t *testing.T, begin *disktest.Disk, run func(*disktest.Disk) []error) {
	t.Helper()
	texts := 0
	for at := onward(0, 8); ; at = onward(at, 8) {
		d := begin.Crash(func(int) bool { return true })
		n, what := 0, ""
		d.Hook(func(op disktest.Op) error {
			if n++; n < at {
				return nil
			}
			if n == at {
				what = string(op.Kind) + " " + op.Name
			}
			return errDiskFull
		})
		for _, err := range run(d) {
			if err != nil && verifyErrorText(t, err, what) {
				texts++
			}
		}
		if n < at {
			break
		}
	}
	require.Greater(t, texts, 5)
}

// Each error names each path once, and says once what was done with it, whichever operation fails.
func TestErrorsNameAPathOnce(t *testing.T) {
	c := newClosedStore(t)
	use := func(d *disktest.Disk) (errs []error) {
		s, err := dirstore.OpenOn(d, "/state")
		if err != nil {
			return []error{err}
		}
		ctx := t.Context()
		for i := range 2 {
			_, err := s.Journal.Append(ctx, treeKey(i), 0, batchOf(time.Time{}, false, "x"))
			errs = append(errs, err, dirstore.Compact(s))
			_, err = readLog(ctx, s.Journal, treeKey(i))
			errs = append(errs, err, s.Health(ctx))
		}
		for _, err := range s.Journal.Roots(ctx, session.RootQuery{}) {
			errs = append(errs, err)
		}
		for range 2 {
			end, err := s.Transcripts.Append(ctx, testRef("x"), 0, userMessages("one")...)
			errs = append(errs, err)
			_, err = s.Transcripts.Append(ctx, testRef("x"), end, userMessages("one")...)
			errs = append(errs, err)
			_, err = readTexts(t, s, testRef("x"), session.LineQuery{})
			errs = append(errs, err)
			_, err = s.Transcripts.Archive(ctx, testRef("x"), testTime)
			errs = append(errs, err)
		}
		return append(errs, s.Close())
	}
	failEverywhere(t, disktest.New(), use)
	failEverywhere(t, c.disk, func(d *disktest.Disk) []error {
		return append(use(d), func() error { _, err := dirstore.ViewOn(d, "/"); return err }())
	})
	failEverywhere(t, damagedStore(t, c), func(d *disktest.Disk) (errs []error) {
		_, _, err := dirstore.ViewIntactOn(d, "/")
		_, repairErr := dirstore.RepairOn(t.Context(), d, "/")
		_, openErr := dirstore.OpenOn(d, "/")
		return []error{err, repairErr, openErr}
	})
}

// The same for what the system says of a path that is wrong.
func TestErrorsOfAPathThatIsWrong(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	closed := filepath.Join(home, "closed")
	require.NoError(t, openDir(t, closed).Close())
	require.NoError(t, os.Remove(filepath.Join(closed, "lock")))
	require.NoError(t, os.Mkdir(filepath.Join(closed, "lock"), 0o700))
	for _, dir := range []string{
		file, filepath.Join(file, "x"), filepath.Join(home, "none"), closed, "/proc/none", "\x00",
	} {
		_, err := dirstore.View(dir)
		_, _, intact := dirstore.ViewIntact(dir)
		_, repaired := dirstore.Repair(t.Context(), dir)
		errs := []error{err, intact, repaired, dirstore.CheckFree(dir)}
		for _, err := range dirstore.Verify(t.Context(), dir) {
			errs = append(errs, err)
		}
		if !strings.HasSuffix(dir, "none") {
			s, err := dirstore.Open(dir)
			require.Nil(t, s)
			require.Error(t, err)
			errs = append(errs, err)
		}
		for _, err := range errs {
			if err == nil {
				continue
			}
			verifyErrorText(t, err, dir)
			var path *fs.PathError
			var refused *dirstore.UnsafeError
			require.True(t, errors.As(err, &path) || errors.As(err, &refused), "%v", err)
		}
	}
}

// A transcript that this process may not use is refused until a person changes that. A disk that
// is full or fails is not.
func TestTranscriptWithoutPermissionIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access is denied there to a file that another program uses")
	}
	for _, fault := range []error{
		syscall.EACCES, syscall.EPERM, syscall.EIO, errDiskFull, errDiskReadOnly,
	} {
		d := disktest.New()
		s := openOn(t, d)
		end := appendTexts(t, s, testRef("x"), 0, "one")
		require.NoError(t, s.Close()) // its file is there then
		s = openOn(t, d)
		d.Hook(func(op disktest.Op) error { return fault })
		_, err := s.Transcripts.Append(t.Context(), testRef("x"), end, userMessages("two")...)
		require.ErrorIs(t, err, fault)
		refused := errors.Is(fault, fs.ErrPermission)
		require.Equal(t, refused, errors.Is(err, session.ErrUnsafe), "%v", err)
		health := s.Health(t.Context())
		require.Equal(t, refused, errors.Is(health, session.ErrUnsafe), "%v", health)
		if refused {
			require.ErrorContains(t, health, "/sessions/main/x.jsonl")
			require.True(t, verifyErrorText(t, err, "append"))
		}
		d.Hook(nil)
		require.NoError(t, s.Health(t.Context()))
		appendTexts(t, s, testRef("x"), end, "two")
		require.NoError(t, s.Close())
	}
}
