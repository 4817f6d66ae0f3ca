package wal_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// roomOf returns how many bytes the file of a log has behind its end. It fails the test unless all
// of them are zeros.
func roomOf(t *testing.T, d disk.FS, l *wal.Log) int {
	t.Helper()
	room := readFile(t, d, logName)[l.Size():]
	require.Empty(t, bytes.Trim(room, "\x00"))
	return len(room)
}

// A log that is open has room, in which appends do not make the file longer. Close cuts it off, and
// so does the next Open if the process has died; neither takes it for a torn tail.
func TestRoom(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	assert.Zero(t, roomOf(t, d, l), "a log that takes nothing has none")
	texts := numberedTexts(200)
	longer := 0
	for _, text := range texts {
		before := len(readFile(t, d, logName))
		appendTexts(t, l, text)
		if after := len(readFile(t, d, logName)); after > before {
			longer++
			assert.GreaterOrEqual(t, roomOf(t, d, l), 500)
			assert.LessOrEqual(t, roomOf(t, d, l), 1500)
		}
	}
	assert.Less(t, longer, len(texts)/2)

	dead := d.Crash(func(int) bool { return true })
	require.Positive(t, roomOf(t, dead, l))
	var r replayedFrames
	again, report, err := wal.Open(dead, "/", r.frame)
	require.NoError(t, err)
	assert.Equal(t, texts, r.texts)
	assert.Zero(t, report.Torn)
	assert.Zero(t, roomOf(t, dead, again))
	assert.Empty(t, tornNames(t, dead))

	require.NoError(t, l.Close())
	assert.Zero(t, roomOf(t, d, l))
	_, got := mustOpen(t, d, "/")
	assert.Equal(t, texts, got)
}

// tornNames returns the names of the .torn files.
func tornNames(t *testing.T, d disk.FS) (names []string) {
	t.Helper()
	entries, err := d.ReadDir("/")
	require.NoError(t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), ".torn") {
			names = append(names, e.Name())
		}
	}
	return names
}

// A group that a crash has cut within the room, at any byte, is torn: what is there of it is saved,
// and the room is not.
func TestTornGroupInRoom(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "kept")
	end := l.Size()
	appendTexts(t, l, "torn", "group")
	whole := readFile(t, d, logName)
	group := int(l.Size() - end)
	require.Greater(t, len(whole), int(l.Size()), "there is room behind the group")
	for cut := range group {
		for _, lost := range []int{0, 8, 60} { // the first bytes of the group may be missing, too
			torn := slices.Clone(whole)
			clear(torn[int(end)+cut:])
			clear(torn[end:][:min(lost, cut)])
			d := disktest.New()
			writeFile(t, d, logName, torn)
			_, got := mustOpen(t, d, "/")
			require.Equal(t, []string{"kept"}, got, cut)
			left := bytes.TrimRight(torn[end:], "\x00")
			names := tornNames(t, d)
			require.Equal(t, len(left) > 40, len(names) > 0, cut)
			for _, name := range names {
				require.Equal(t, left, readFile(t, d, "/"+name))
			}
		}
	}
}

// A disk that has no place for room has place for a group: the log goes on without room.
func TestNoPlaceForRoom(t *testing.T) {
	for _, written := range []int{0, 1, 200} {
		d := disktest.New()
		l, _ := mustOpen(t, d, "/")
		writes := 0
		d.Hook(func(op disktest.Op) error {
			if op.Kind != disktest.OpWrite {
				return nil
			}
			if writes++; writes%2 == 0 { // the room comes after the group
				return &disktest.ShortError{Written: written, Err: syscall.ENOSPC}
			}
			return nil
		})
		appendTexts(t, l, "first", strings.Repeat("x", 300))
		assert.Equal(t, written, roomOf(t, d, l))
		writes = 0
		appendTexts(t, l, "second", strings.Repeat("x", 300))
		d.Hook(nil)
		_, got := mustOpen(t, d.Crash(func(int) bool { return false }), "/")
		assert.Len(t, got, 4)
	}
}

// A write that fails within the room leaves nothing of itself there, and the next one makes room
// anew.
func TestRoomAfterFailedWrite(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "first")
	require.Positive(t, roomOf(t, d, l))
	d.Hook(failOps(&disktest.ShortError{Written: 45, Err: syscall.EIO}, disktest.OpWrite))
	require.Error(t, l.Append(t.Context(), textRecords("lost"), ignoreResult))
	d.Hook(nil)
	assert.Zero(t, roomOf(t, d, l))
	appendTexts(t, l, "second")
	assert.Positive(t, roomOf(t, d, l))
	_, got := mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Equal(t, []string{"first", "second"}, got)
}

// A reader beside the owner sees a log with room as one without, and each append changes what
// Newest returns.
func TestReadersBesideRoom(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	seen := int64(-1)
	for i := range 30 {
		appendTexts(t, l, strings.Repeat("\x00", i)) // a payload may look like room
		name, size, err := wal.Newest(d, "/")
		require.NoError(t, err)
		assert.Equal(t, logName, name)
		assert.Greater(t, size, seen)
		seen = size
		var r replayedFrames
		v, report, err := wal.OpenView(d, "/", func() { r = replayedFrames{} }, r.frame)
		require.NoError(t, err)
		require.NoError(t, v.Close())
		assert.Len(t, r.texts, i+1)
		assert.Zero(t, report.Torn)
		assert.Equal(t, l.Size(), report.Bytes)
	}
}

// A roughFS has files whose writes of zeros fail when they have written a part, of which they do
// not say how much: so does package os.
type roughFS struct{ disk.FS }

func (x roughFS) OpenFile(name string, flag int) (disk.File, error) {
	f, err := x.FS.OpenFile(name, flag)
	return roughFile{f}, err
}

type roughFile struct{ disk.File }

func (f roughFile) WriteAt(b []byte, off int64) (int, error) {
	if len(bytes.Trim(b, "\x00")) > 0 {
		return f.File.WriteAt(b, off)
	}
	_, err := f.File.WriteAt(b[:len(b)/2], off)
	return 0, errors.Join(err, syscall.ENOSPC)
}

// Room that fits in part is not known to the log, and is cut off all the same.
func TestRoomThatFitsInPart(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, roughFS{d}, "/")
	appendTexts(t, l, "first", "second")
	assert.Positive(t, roomOf(t, d, l))
	require.NoError(t, l.Close())
	assert.Zero(t, roomOf(t, d, l))
	_, got := mustOpen(t, d, "/")
	assert.Equal(t, []string{"first", "second"}, got)
}
