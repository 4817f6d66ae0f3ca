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

// keeping rewrites a log to texts and what is appended meanwhile.
func keeping(texts ...string) wal.Rewriter {
	return wal.Rewriter{
		Begin: func() {},
		Copy: func(_ *wal.View, w *wal.Writer) error {
			for _, text := range texts {
				if _, err := w.Append(kind, []byte(text)); err != nil {
					return err
				}
			}
			return nil
		},
		Switch: func(_, _ int64, swap func()) { swap() },
	}
}

func TestRewriteFails(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, "a")
	failed := errors.New("no")
	r := keeping()
	r.Copy = func(*wal.View, *wal.Writer) error { return failed }
	require.ErrorIs(t, l.Rewrite(r), failed)
	add(t, l, "b")
	require.NoError(t, l.Close())
	_, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"a", "b"}, texts)
	require.ErrorIs(t, l.Rewrite(keeping()), wal.ErrClosed)
}

// A rewrite of which it is not known whether its file has its name, or for how long, ends all appends: whoever opens the log next may take
// the other one.
func TestRewriteOfUnclearOutcomeIsFinal(t *testing.T) {
	for _, kind := range []disktest.OpKind{disktest.OpRename, disktest.OpSyncDir, disktest.OpOpen} {
		d := disktest.New()
		l, _ := mustOpen(t, d, "/")
		add(t, l, "a")
		d.Hook(failing(fmt.Errorf("%w: %w", disktest.ErrAfter, syscall.EIO), kind))
		err := l.Rewrite(keeping("a"))
		require.ErrorIs(t, err, wal.ErrSync, kind)
		d.Hook(nil)
		require.ErrorIs(t, l.Append(t.Context(), records("b"), ignore), wal.ErrSync, kind)
		_, texts := mustOpen(t, d, "/")
		require.Equal(t, []string{"a"}, texts)
	}
}

// A rewrite that a Close overtakes leaves the log as it is: somebody else may have it by now.
func TestRewriteAfterClose(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, "a")
	r := keeping("a")
	copied := r.Copy
	r.Copy = func(v *wal.View, w *wal.Writer) error { return errors.Join(l.Close(), copied(v, w)) }
	require.ErrorIs(t, l.Rewrite(r), wal.ErrClosed)
	_, err := d.Lstat("/00000002.wal")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = d.Lstat("/00000002.wal.tmp")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// What was copied by a rewrite proves nothing of the places of the old file.
func TestRewrittenFramesProveNothing(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, strings.Repeat("long ", 2000))
	r := keeping("short")
	copied := r.Copy
	r.Copy = func(v *wal.View, w *wal.Writer) error {
		add(t, l, "meanwhile")
		return copied(v, w)
	}
	require.NoError(t, l.Rewrite(r))
	failSync(t, d, l)
	l, texts := mustOpen(t, d, "/")
	assert.Equal(t, []string{"short", "meanwhile", "unknown"}, texts)
	add(t, l, "after")
	_, texts = mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Equal(t, []string{"short", "meanwhile", "unknown", "after"}, texts)
}

// The log ends where its file does.
func TestSizeAfterRewrite(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, "a")
	require.NoError(t, l.Rewrite(keeping("b")))
	assert.Len(t, contents(t, d, "/00000002.wal"), int(l.Size()))
}
