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

// image returns the bytes of a log of some groups, whether it was closed, and where its frames begin.
func image(t *testing.T, closed bool, groups ...[]string) (b []byte, starts []int64) {
	t.Helper()
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	for _, texts := range groups {
		require.NoError(t, l.Append(t.Context(), records(texts...), func(at []wal.Span, _ error) {
			for _, s := range at {
				starts = append(starts, s.Off)
			}
		}))
	}
	if closed {
		require.NoError(t, l.Close())
	}
	return contents(t, d, logName), starts
}

// opened opens a log of these bytes.
func opened(t *testing.T, b []byte) ([]string, error) {
	t.Helper()
	d := disktest.New()
	put(t, d, logName, b)
	l, texts, err := open(d, "/")
	if err != nil {
		return nil, err
	}
	add(t, l, "after")
	require.NoError(t, l.Close())
	_, again := mustOpen(t, d, "/")
	assert.Equal(t, append(slices.Clone(texts), "after"), again)
	return texts, nil
}

// wholeBefore returns what the groups say that lie whole before an offset. The log begins with a seal.
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

// A log that is cut at any byte opens with exactly what is whole.
func TestCutAtEveryByte(t *testing.T) {
	texts := numbered(6)
	b, starts := image(t, false, texts[:1], texts[1:4], texts[4:])
	for cut := starts[0]; cut <= int64(len(b)); cut++ {
		got, err := opened(t, b[:cut])
		require.NoErrorf(t, err, "cut at %d", cut)
		want := wholeBefore(starts, int64(len(b)), cut, texts[:1], texts[1:4], texts[4:])
		require.Equalf(t, want, append([]string{}, got...), "cut at %d", cut)
	}
	for cut := range 32 { // the header was durable before the file had its name
		_, err := opened(t, b[:cut])
		var corrupt *wal.CorruptError
		require.ErrorAsf(t, err, &corrupt, "cut at %d", cut)
		require.Equal(t, logName, corrupt.File)
	}
}

// A log in which any one byte has another value never says anything that was not written. It is refused if a later frame proves that the
// byte had been durable, and else, in the last group, ends before it.
func TestFlipEveryByte(t *testing.T) {
	texts := numbered(6)
	b, starts := image(t, false, texts[:1], texts[1:4], texts[4:])
	lastGroup := starts[4]
	for at := range b {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			flipped := slices.Clone(b)
			flipped[at] ^= flip
			got, err := opened(t, flipped)
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

// After a Close, nothing can be lost: the seal proves all of it, and is itself no loss.
func TestFlipEveryByteOfClosedLog(t *testing.T) {
	texts := numbered(3)
	b, _ := image(t, true, texts)
	seal := len(b) - 40
	for at := range b {
		flipped := slices.Clone(b)
		flipped[at] ^= 0x10
		got, err := opened(t, flipped)
		if at < seal {
			requireRefused(t, err, at)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, texts, got)
	}
}

// Payloads that are whole logs, of this very file and position too, do not pose as frames.
func TestPayloadThatLooksLikeFrames(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	add(t, l, "a", "b")
	own := contents(t, d, logName)
	add(t, l, string(own))
	next := l.Size()
	add(t, l, string(own[72:]))
	b := contents(t, d, logName)
	texts := []string{"a", "b", string(own), string(own[72:])}
	for cut := next; cut <= int64(len(b)); cut++ {
		got, err := opened(t, b[:cut])
		require.NoError(t, err)
		n := 3
		if cut == int64(len(b)) {
			n = 4
		}
		require.Equal(t, texts[:n], got)
	}
}

// checked gives a frame that was changed a checksum that fits.
func checked(b []byte, start int64) []byte {
	binary.LittleEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:start+40], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// What is whole and unknown was written by a newer version. It is not skipped.
func TestUnknown(t *testing.T) {
	b, starts := image(t, true, numbered(3))
	var format *wal.FormatError

	newer := slices.Clone(b)
	newer[starts[1]+4] = 2
	_, err := opened(t, checked(newer, starts[1]))
	require.ErrorAs(t, err, &format)
	assert.Equal(t, wal.FormatError{File: logName, Offset: starts[1], What: "frame version 2"}, *format)

	newer = slices.Clone(b)
	newer[starts[2]+5] = 9
	_, err = opened(t, checked(newer, starts[2]))
	require.ErrorAs(t, err, &format)
	assert.Equal(t, "frame kind 9", format.What)

	newer = slices.Clone(b)
	newer[12] = 2
	binary.LittleEndian.PutUint32(newer[28:], crc32.Checksum(newer[:28], crc32.MakeTable(crc32.Castagnoli)))
	_, err = opened(t, newer)
	require.ErrorAs(t, err, &format)
	assert.Equal(t, "file version 2", format.What)

	d := disktest.New()
	put(t, d, logName, b)
	_, _, err = wal.Open(d, "/", func(wal.Span, wal.Kind, []byte) error { return &wal.FormatError{What: "the caller's"} })
	require.ErrorAs(t, err, &format)
	assert.Equal(t, wal.FormatError{File: logName, Offset: starts[0], What: "the caller's"}, *format)
}

// A great tail of a torn group is gone through once.
func TestGreatTornGroup(t *testing.T) {
	texts := make([]string, 20_000)
	for i := range texts {
		texts[i] = "a payload of some length, the same again and again"
	}
	b, starts := image(t, false, []string{"first"}, texts)
	b[starts[1]+50] ^= 1
	got, err := opened(t, b)
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, got)
	b, starts = image(t, false, []string{"first"}, texts, []string{"last"})
	b[starts[1]+50] ^= 1
	_, err = opened(t, b)
	requireRefused(t, err, int(starts[1]+50))
}

// A frame of a torn group that is whole does not come back behind an append that has the length of the one before it.
func TestTornGroupDoesNotComeBack(t *testing.T) {
	b, starts := image(t, false, []string{"first"}, []string{"lost1", "lost2"})
	b[starts[1]+41] ^= 1
	d := disktest.New()
	put(t, d, logName, b)
	l, texts := mustOpen(t, d, "/")
	require.Equal(t, []string{"first"}, texts)
	add(t, l, "after")
	_, texts = mustOpen(t, d, "/") // without a Close
	assert.Equal(t, []string{"first", "after"}, texts)
}

// The proof is found wherever it stands, also across the pieces in which a file is read.
func TestProofAcrossChunks(t *testing.T) {
	const chunk = 256 << 10
	for _, shift := range []int{-41, -40, -39, -20, -1, 0, 1} {
		// The frame that proves begins at chunk+shift behind the byte after the broken frame's first.
		lost := strings.Repeat("x", chunk+shift+1-40)
		b, starts := image(t, false, []string{lost}, []string{"proof"})
		require.Equal(t, int64(chunk+shift), starts[1]-starts[0]-1)
		b[starts[0]+50] ^= 1
		_, err := opened(t, b)
		var corrupt *wal.CorruptError
		require.ErrorAs(t, err, &corrupt, "shift %d", shift)
	}
}
