package dirstore_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A sync fails, and its process dies before it cuts the lines off. Reads show lines that the disk
// does not have. The next process writes them again before its first append.
func TestFirstAppendRewritesTailOfFailedSync(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	dirstore.WriteLinesAtOnce(s)
	ref := testRef("x")
	end := appendTexts(t, s, ref, 0, "first", "second")
	end = appendTexts(t, s, ref, end, "third", "fourth")
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync || op.Kind == disktest.OpTruncate {
			return syscall.EIO
		}
		return nil
	})
	unknown := []string{"unknown", strings.Repeat("x", 2000), strings.Repeat("long ", 30_000), "as well"}
	_, err := s.Transcripts.Append(t.Context(), ref, end, userMessages(unknown...)...)
	require.ErrorIs(t, err, syscall.EIO)
	d.Hook(nil)

	s = openOn(t, d)
	want := append([]string{"first", "second", "third", "fourth"}, unknown...)
	require.Equal(t, want, lineTexts(t, s, ref))
	last := lastPos(t, s, ref)
	var kinds []disktest.OpKind
	failing := true
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync && failing {
			return syscall.EIO
		}
		if op.Changes() {
			kinds = append(kinds, op.Kind)
		}
		return nil
	})
	for range 2 {
		_, err = s.Transcripts.Append(t.Context(), ref, last, userMessages("lost")...)
		require.ErrorIs(t, err, syscall.EIO)
	}
	assert.NotContains(t, kinds, disktest.OpTruncate, "nothing was written behind the tail")
	failing, kinds = false, nil
	last = appendTexts(t, s, ref, last, "after")
	assert.Contains(t, kinds, disktest.OpSyncDir)
	last = appendTexts(t, s, ref, last, "and on")
	kinds = nil
	appendTexts(t, s, ref, last, "and on")
	assert.Equal(t, []disktest.OpKind{disktest.OpWrite, disktest.OpSync}, kinds)
	d.Hook(nil)
	assert.Equal(t, append(want, "after", "and on", "and on"), lineTexts(t, openOn(t, afterCrash(d)), ref))
}

// R17: a transcript that is long costs neither an append nor a reader of its last lines.
func TestAppendAndReadAfterDoNotScan(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	long := slices.Repeat([]string{strings.Repeat("x", 1000)}, 4000)
	end := appendTexts(t, s, ref, 0, long...)
	read := 0
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpRead {
			read += op.Size
		}
		return nil
	})
	appendTexts(t, s, ref, end, "new")
	var texts []string
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{After: end}) {
		require.NoError(t, err)
		texts = append(texts, line.Message.Text)
	}
	require.Equal(t, []string{"new"}, texts)
	require.Less(t, read, 100_000, "of 4,000,000 bytes")
}
