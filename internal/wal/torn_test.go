package wal_test

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

const logName = "/00000001.wal"

// logImage returns the bytes of a log with these groups, and the offsets of its frames. It closes
// the log if closed is set.
func logImage(t *testing.T, closed bool, groups ...[]string) (b []byte, starts []int64) {
	t.Helper()
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	for _, texts := range groups {
		notify := func(at []wal.Span, _ error) {
			for _, s := range at {
				starts = append(starts, s.Off)
			}
		}
		require.NoError(t, l.Append(t.Context(), textRecords(texts...), notify))
	}
	if closed {
		require.NoError(t, l.Close())
	}
	return readLog(t, d, l), starts
}

// openBytes opens a log of these bytes and appends to it. It returns the payloads that were
// replayed.
func openBytes(t *testing.T, b []byte) ([]string, error) {
	t.Helper()
	d := disktest.New()
	writeFile(t, d, logName, b)
	l, texts, err := openLog(d, "/")
	if err != nil {
		return nil, err
	}
	appendTexts(t, l, "after")
	require.NoError(t, l.Close())
	_, again := mustOpen(t, d, "/")
	assert.Equal(t, append(slices.Clone(texts), "after"), again)
	return texts, nil
}

// wholeBefore returns the payloads of the groups that end before an offset. The log begins with a
// seal.
func wholeBefore(starts []int64, size, off int64, groups ...[]string) []string {
	whole := []string{}
	frame := 0
	for _, texts := range groups {
		end := size
		if frame += len(texts); frame < len(starts) {
			end = starts[frame]
		}
		if end <= off {
			whole = append(whole, texts...)
		}
	}
	return whole
}

// Open replays exactly the whole groups of a log that is cut at any byte.
func TestOpenReplaysWholeGroupsOfCutLog(t *testing.T) {
	texts := numberedTexts(6)
	b, starts := logImage(t, false, texts[:1], texts[1:4], texts[4:])
	for cut := starts[0]; cut <= int64(len(b)); cut++ {
		got, err := openBytes(t, b[:cut])
		require.NoErrorf(t, err, "cut at %d", cut)
		want := wholeBefore(starts, int64(len(b)), cut, texts[:1], texts[1:4], texts[4:])
		require.Equalf(t, want, append([]string{}, got...), "cut at %d", cut)
	}
	for cut := range 32 { // the header was durable before the file had its name
		_, err := openBytes(t, b[:cut])
		var corrupt *wal.CorruptError
		require.ErrorAsf(t, err, &corrupt, "cut at %d", cut)
		require.Equal(t, logName, corrupt.File)
	}
}

// Any one byte of a log has another value. Open refuses the log if a later frame proves that the
// byte had been durable. A change in the last group ends the log before that group.
func TestOpenNeverReplaysChangedBytes(t *testing.T) {
	texts := numberedTexts(6)
	b, starts := logImage(t, false, texts[:1], texts[1:4], texts[4:])
	lastGroup := starts[4]
	for at := range b {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			flipped := slices.Clone(b)
			flipped[at] ^= flip
			got, err := openBytes(t, flipped)
			if int64(at) < lastGroup {
				requireRefused(t, err, at)
				continue
			}
			require.NoErrorf(t, err, "byte %d", at)
			require.Equalf(t, texts[:4], got, "byte %d", at)
		}
	}
}

func requireRefused(t *testing.T, err error, at int) {
	t.Helper()
	var corrupt *wal.CorruptError
	require.ErrorAsf(t, err, &corrupt, "byte %d", at)
	require.Equal(t, logName, corrupt.File)
	require.LessOrEqual(t, corrupt.Offset, int64(at))
}

// Open refuses every change in a log that was closed, because the seal proves all of it. A change
// in the seal itself loses nothing.
func TestSealProvesWholeLog(t *testing.T) {
	texts := numberedTexts(3)
	b, _ := logImage(t, true, texts)
	seal := len(b) - 40
	for at := range b {
		flipped := slices.Clone(b)
		flipped[at] ^= 0x10
		got, err := openBytes(t, flipped)
		if at < seal {
			requireRefused(t, err, at)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, texts, got)
	}
}

// Payloads that are whole logs are not taken for frames, even with the id and the offsets of this
// very file.
func TestPayloadIsNeverTakenForFrames(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	appendTexts(t, l, "a", "b")
	own := readLog(t, d, l)
	appendTexts(t, l, string(own))
	next := l.Size()
	appendTexts(t, l, string(own[72:]))
	b := readLog(t, d, l)
	texts := []string{"a", "b", string(own), string(own[72:])}
	for cut := next; cut <= int64(len(b)); cut++ {
		got, err := openBytes(t, b[:cut])
		require.NoError(t, err)
		n := 3
		if cut == int64(len(b)) {
			n = 4
		}
		require.Equal(t, texts[:n], got)
	}
}

// testChecksum returns the checksum that the head of a frame or file has.
func testChecksum(b []byte) uint32 {
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}

// withChecksum corrects the checksum of the frame head at start.
func withChecksum(b []byte, start int64) []byte {
	binary.LittleEndian.PutUint32(b[start:], testChecksum(b[start+4:start+40]))
	return b
}

// Open refuses intact frames and headers that it does not know, and does not skip them. A newer
// version has written them.
func TestOpenRefusesUnknownFormat(t *testing.T) {
	b, starts := logImage(t, true, numberedTexts(3))
	var format *wal.FormatError

	newer := slices.Clone(b)
	newer[starts[1]+4] = 2
	_, err := openBytes(t, withChecksum(newer, starts[1]))
	require.ErrorAs(t, err, &format)
	assert.Equal(t, wal.FormatError{File: logName, Offset: starts[1], What: "frame version 2"}, *format)

	newer = slices.Clone(b)
	newer[starts[2]+5] = 9
	_, err = openBytes(t, withChecksum(newer, starts[2]))
	require.ErrorAs(t, err, &format)
	assert.Equal(t, "frame kind 9", format.What)

	newer = slices.Clone(b)
	newer[12] = 2
	binary.LittleEndian.PutUint32(newer[28:], testChecksum(newer[:28]))
	_, err = openBytes(t, newer)
	require.ErrorAs(t, err, &format)
	assert.Equal(t, "file version 2", format.What)

	d := disktest.New()
	writeFile(t, d, logName, b)
	refuse := func(wal.Span, wal.Kind, []byte) error { return &wal.FormatError{What: "the caller's"} }
	_, _, err = wal.Open(d, "/", refuse)
	require.ErrorAs(t, err, &format)
	assert.Equal(t, wal.FormatError{File: logName, Offset: starts[0], What: "the caller's"}, *format)
}

// Open reads the long tail of a torn group once, and not once for each of its frames.
func TestLongTornGroupIsReadOnce(t *testing.T) {
	texts := make([]string, 20_000)
	for i := range texts {
		texts[i] = "a payload of some length, the same again and again"
	}
	b, starts := logImage(t, false, []string{"first"}, texts)
	b[starts[1]+50] ^= 1
	got, err := openBytes(t, b)
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, got)
	b, starts = logImage(t, false, []string{"first"}, texts, []string{"last"})
	b[starts[1]+50] ^= 1
	_, err = openBytes(t, b)
	requireRefused(t, err, int(starts[1]+50))
}

// The first of two frames of a torn group is broken. The next append has its length. The second
// frame is not replayed behind it.
func TestAppendAfterTornGroupHidesItsFrames(t *testing.T) {
	b, starts := logImage(t, false, []string{"first"}, []string{"lost1", "lost2"})
	b[starts[1]+41] ^= 1
	d := disktest.New()
	writeFile(t, d, logName, b)
	l, texts := mustOpen(t, d, "/")
	require.Equal(t, []string{"first"}, texts)
	appendTexts(t, l, "after")
	_, texts = mustOpen(t, d, "/") // without a Close
	assert.Equal(t, []string{"first", "after"}, texts)
}

// Open finds the proof wherever it stands, also across two chunks of the file.
func TestProofIsFoundAcrossChunks(t *testing.T) {
	const chunk = 256 << 10
	for _, shift := range []int{-41, -40, -39, -20, -1, 0, 1} {
		// The proof begins chunk+shift bytes behind the second byte of the broken frame.
		lost := strings.Repeat("x", chunk+shift+1-40)
		b, starts := logImage(t, false, []string{lost}, []string{"proof"})
		require.Equal(t, int64(chunk+shift), starts[1]-starts[0]-1)
		b[starts[0]+50] ^= 1
		_, err := openBytes(t, b)
		var corrupt *wal.CorruptError
		require.ErrorAs(t, err, &corrupt, "shift %d", shift)
	}
}
