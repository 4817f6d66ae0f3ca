package wal_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

const markName = "/closed.wal"

// closedLog returns a disk with a log that was closed twice and has the payloads.
func closedLog(t *testing.T) (d *disktest.Disk, texts []string) {
	t.Helper()
	d = disktest.New()
	for life := range 2 {
		l, _ := mustOpen(t, d, "/")
		for i := range 20 {
			more := numberedTexts(4)[:1+i%4]
			more[0] += strings.Repeat("y", i+life)
			appendTexts(t, l, more...)
			texts = append(texts, more...)
		}
		require.NoError(t, l.Close())
	}
	return d, texts
}

// R2: a closed log that is cut at any byte is refused with the file and the offset, except where
// nothing but the last seal is cut.
func TestTruncationOfClosedLogIsRefused(t *testing.T) {
	d, texts := closedLog(t)
	b := readFile(t, d, logName)
	for cut := range b {
		writeFile(t, d, logName, b[:cut])
		_, got, err := openLog(d, "/")
		if cut >= len(b)-40 {
			require.NoError(t, err, cut)
			require.Equal(t, texts, got)
			continue
		}
		var corrupt *wal.CorruptError
		require.ErrorAs(t, err, &corrupt, cut)
		require.Equal(t, logName, corrupt.File)
		require.LessOrEqual(t, corrupt.Offset, int64(cut))
		require.Len(t, readFile(t, d, logName), cut, "the file stays as it is")
	}
}

// R2: any bytes are removed from or inserted into a log that was not closed. The log is
// refused as long as a group follows that was written when the changed place was durable.
func TestMovedFramesAreRefused(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	texts := numberedTexts(30)
	for _, text := range texts {
		appendTexts(t, l, text)
	}
	b := readLog(t, d, l)
	last := bytes.LastIndex(b, []byte(texts[28])) - 40 // the first frame that only one follows
	rng := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		at, n := rng.IntN(last), 1+rng.IntN(200)
		moved := slices.Concat(b[:at], b[min(at+n, last):])
		if at%2 == 0 {
			moved = slices.Concat(b[:at], b[min(at, len(b)-n):][:n], b[at:])
		}
		if len(moved) == len(b) {
			continue
		}
		_, err := openBytes(t, moved)
		requireRefused(t, err, len(moved))
	}
}

// R2: a copy of the log in a payload of a torn group is not taken for frames that were moved,
// wherever the group is torn and whatever its first sector has become.
func TestPayloadThatLooksLikeFrames(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "a")
	appendTexts(t, l, "b", "c")
	own := readLog(t, d, l)
	next := l.Size()
	appendTexts(t, l, string(own), string(own[32:]), string(own[72:]))
	b := readLog(t, d, l)
	for cut := next; cut < int64(len(b)); cut++ {
		for _, lost := range []int64{0, 20, 40, 100} {
			torn := slices.Clone(b[:cut])
			clear(torn[next:min(next+lost, cut)])
			got, err := openBytes(t, torn)
			require.NoError(t, err, cut)
			require.Equal(t, []string{"a", "b", "c"}, got)
		}
	}
}

// R2: a crash after a log was opened again is not taken for a truncation.
func TestMarkHoldsAfterCrash(t *testing.T) {
	d, texts := closedLog(t)
	l, _ := mustOpen(t, d, "/")
	size := l.Size()
	appendTexts(t, l, "under way")
	torn := readLog(t, d, l)
	for cut := size; cut < int64(len(torn)); cut++ {
		d := d.Crash(func(int) bool { return true })
		writeFile(t, d, logName, torn[:cut])
		_, got := mustOpen(t, d, "/")
		require.Equal(t, texts, got)
	}
	require.NoError(t, l.Rewrite(keepTexts("kept")))
	d = d.Crash(func(int) bool { return true }) // the mark is that of the file before
	_, got := mustOpen(t, d, "/")
	assert.Equal(t, []string{"kept"}, got)
}

// R2: a log that was closed and is missing, or is another one, is not begun anew.
func TestMissingClosedLogIsRefused(t *testing.T) {
	d, _ := closedLog(t)
	require.NoError(t, d.Remove(logName))
	_, _, err := openLog(d, "/")
	var corrupt *wal.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, logName, corrupt.File)
	_, _, err = wal.OpenView(d, "/", func() {}, (&replayedFrames{}).frame)
	require.ErrorAs(t, err, &corrupt)
	other, _ := closedLog(t)
	writeFile(t, d, logName, readFile(t, other, logName))
	_, _, err = openLog(d, "/")
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, logName, corrupt.File)
}

// R2: a log without a mark, as an earlier version has left it, opens. So does one whose mark is
// damaged, and the damage can be found.
func TestLogOpensWithoutItsMark(t *testing.T) {
	d, texts := closedLog(t)
	mark := readFile(t, d, markName)
	for at := range mark {
		d := d.Crash(func(int) bool { return true })
		broken := slices.Clone(mark)
		broken[at] ^= 0x20
		writeFile(t, d, markName, broken)
		_, got := mustOpen(t, d, "/")
		require.Equal(t, texts, got)
		name, err := wal.VerifyMark(d, "/")
		require.Error(t, err)
		require.Equal(t, markName, name)
	}
	require.NoError(t, d.Remove(markName))
	l, got := mustOpen(t, d, "/")
	require.Equal(t, texts, got)
	_, err := wal.VerifyMark(d, "/")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Equal(t, mark, withID(readFile(t, d, markName), mark), "the next Close writes it")
}

// withID returns a mark with the id, and what depends on it, of another one.
func withID(b, other []byte) []byte {
	if len(b) != len(other) || !bytes.Equal(b[72:96], other[72:96]) {
		return b
	}
	return other
}

// R2: what Open cuts off is kept in a .torn file, durably and before it is cut. A later
// one does not replace it.
func TestTornTailIsSaved(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "kept")
	size := l.Size()
	appendTexts(t, l, "torn off")
	b := readLog(t, d, l)
	for n, name := range []string{"/00000001.wal.torn.116", "/00000001.wal.torn.116.1"} {
		require.EqualValues(t, 116, size)
		b[size+45] ^= byte(1 + n)
		writeFile(t, d, logName, b)
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpTruncate {
				after := d.Crash(func(int) bool { return false })
				assert.Equal(t, b[size:], readFile(t, after, name))
			}
			return nil
		})
		_, got := mustOpen(t, d, "/")
		d.Hook(nil)
		assert.Equal(t, []string{"kept"}, got)
		assert.Equal(t, b[size:], readFile(t, d, name))
	}
	// What cannot be saved is not cut off.
	writeFile(t, d, logName, b)
	full := errors.New("full")
	d.Hook(failOps(full, disktest.OpCreate))
	_, _, err := openLog(d, "/")
	d.Hook(nil)
	require.ErrorIs(t, err, full)
	assert.Equal(t, b, readFile(t, d, logName))
}
