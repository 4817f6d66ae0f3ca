package wal

import (
	"bytes"
	"errors"
	"io"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// A log that is open has room behind its end: zeros, which the next frames replace. To sync bytes
// that a file has already takes a file system less than to sync what makes the file longer, whose
// new length goes through the journal of the file system, with all that other files wait for there.
// The log ends before the zeros.

// A roomSize is how much room a log makes: a quarter of what it has, within these bounds, so that a
// small log stays small.
type roomSize struct{ least, most int64 }

var usualRoom = roomSize{64 << 10, 256 << 10}

// at returns how much room a log makes that ends at an offset.
func (r roomSize) at(end int64) int64 { return min(max(end/4, r.least), r.most) }

// SetRoom sets the least and the most bytes that the log keeps behind its end. Tests have it make
// room often.
func (l *Log) SetRoom(least, most int64) { l.rooms = roomSize{least, most} }

// zeros are what room is made of.
var zeros [64 << 10]byte

// makeRoom writes so many zeros from an offset on, or fewer: a log works without room. It returns
// how many there are. The caller syncs them with what it has written before.
func makeRoom(f disk.File, at, room int64) (made int64) {
	for made < room {
		n, err := f.WriteAt(zeros[:min(room-made, int64(len(zeros)))], at+made)
		made += int64(n)
		if err != nil {
			break
		}
	}
	return made
}

// trimRoom returns the offset behind the last byte of a file that is not zero, or from if there is
// none between from and size.
func trimRoom(f disk.File, name string, from, size int64) (int64, error) {
	b := make([]byte, min(max(size-from, 0), int64(len(zeros))))
	for size > from {
		part := b[:min(size-from, int64(len(zeros)))]
		n, err := f.ReadAt(part, size-int64(len(part)))
		if err != nil && !errors.Is(err, io.EOF) {
			return size, fileError("read", name, err)
		}
		clear(part[n:]) // the file has become shorter meanwhile
		if !bytes.Equal(part, zeros[:len(part)]) {
			kept := len(bytes.TrimRight(part, "\x00"))
			return size - int64(len(part)-kept), nil
		}
		size -= int64(len(part))
	}
	return from, nil
}
