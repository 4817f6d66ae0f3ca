package wal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// keepTexts returns a Rewriter that keeps the texts, beside what is appended meanwhile.
func keepTexts(texts ...string) wal.Rewriter {
	return wal.Rewriter{
		Begin: func() {},
		Copy: func(_ *wal.View, w *wal.Writer) error {
			for _, text := range texts {
				if _, err := w.Append(testKind, []byte(text)); err != nil {
					return err
				}
			}
			return nil
		},
		Switch: func(_, _ int64, swap func()) { swap() },
	}
}

func TestFailedRewriteChangesNothing(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "a")
	failed := errors.New("no")
	r := keepTexts()
	r.Copy = func(*wal.View, *wal.Writer) error { return failed }
	require.ErrorIs(t, l.Rewrite(r), failed)
	appendTexts(t, l, "b")
	require.NoError(t, l.Close())
	_, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"a", "b"}, texts)
	require.ErrorIs(t, l.Rewrite(keepTexts()), wal.ErrClosed)
}

// A rewrite ends all appends if it is unknown whether its file has its name durably. The next Open
// could take the other file.
func TestRewriteOfUnknownOutcomeEndsAppends(t *testing.T) {
	for _, kind := range []disktest.OpKind{disktest.OpRename, disktest.OpSyncDir, disktest.OpOpen} {
		d := disktest.New()
		l, _ := mustOpen(t, d, "/")
		appendTexts(t, l, "a")
		d.Hook(failOps(fmt.Errorf("%w: %w", disktest.ErrAfter, syscall.EIO), kind))
		err := l.Rewrite(keepTexts("a"))
		require.ErrorIs(t, err, wal.ErrSync, kind)
		d.Hook(nil)
		require.ErrorIs(t, l.Append(t.Context(), textRecords("b"), ignoreResult), wal.ErrSync, kind)
		_, texts := mustOpen(t, d, "/")
		require.Equal(t, []string{"a"}, texts)
	}
}

// A rewrite that Close overtakes leaves the log as it is, because the log may have another owner by
// then.
func TestRewriteAfterCloseChangesNothing(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "a")
	r := keepTexts("a")
	copied := r.Copy
	r.Copy = func(v *wal.View, w *wal.Writer) error { return errors.Join(l.Close(), copied(v, w)) }
	require.ErrorIs(t, l.Rewrite(r), wal.ErrClosed)
	_, err := d.Lstat("/00000002.wal")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = d.Lstat("/00000002.wal.tmp")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// The frames that a rewrite copies prove nothing about offsets of the old file.
func TestRewrittenFramesProveNothing(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, strings.Repeat("long ", 2000))
	r := keepTexts("short")
	copied := r.Copy
	r.Copy = func(v *wal.View, w *wal.Writer) error {
		appendTexts(t, l, "meanwhile")
		return copied(v, w)
	}
	require.NoError(t, l.Rewrite(r))
	failSync(t, d, l)
	l, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"short", "meanwhile", "unknown"}, texts)
	appendTexts(t, l, "after")
	_, texts = mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Equal(t, []string{"short", "meanwhile", "unknown", "after"}, texts)
}

// After a rewrite, Size is the length of the new file.
func TestSizeIsLengthOfFileAfterRewrite(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "a")
	require.NoError(t, l.Rewrite(keepTexts("b")))
	assert.Len(t, readFile(t, d, "/00000002.wal"), int(l.Size()))
}
