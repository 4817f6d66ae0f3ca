package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// markName is the name of the file with the endMark. An earlier version of this package does not
// take it for a log, because it is not a number.
const markName = "closed" + suffix

// kindMark is the kind of the one frame in the file of an endMark. Its payload has three numbers of
// eight bytes: gen, id and end.
const kindMark = FirstKind

// markLen is the length of the payload of a kindMark, in bytes.
const markLen = 24

// An endMark says how long a log was when it was closed. Only this tells a log whose end was cut
// off from a log that never had it. The log never becomes shorter than that, so the mark stays
// true while the next process appends, and after that process has died. It is void once a rewrite
// has replaced the file.
//
// The zero endMark says nothing. It is that of a log that was not closed yet, or that an earlier
// version has closed.
type endMark struct {
	gen uint64 // the number of the file
	id  uint64 // of the file
	end int64  // offset behind the last frame that is not a seal
}

// readMark returns the endMark of a directory, or the zero endMark if there is none.
func readMark(fsys disk.FS, dir string) (m endMark, err error) {
	name := filepath.Join(dir, markName)
	_, err = ReadFile(fsys, name, func(_ Span, kind Kind, payload []byte) error {
		if kind != kindMark || len(payload) != markLen {
			return &FormatError{What: fmt.Sprintf("mark of kind %d", kind)}
		}
		m = endMark{
			gen: binary.LittleEndian.Uint64(payload),
			id:  binary.LittleEndian.Uint64(payload[8:]),
			end: int64(binary.LittleEndian.Uint64(payload[16:])),
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return endMark{}, nil
	case err != nil:
		return endMark{}, err
	case m == endMark{}:
		return m, &CorruptError{File: name, Reason: "the file is empty"}
	}
	return m, nil
}

// knownMark returns the endMark of a directory. A mark that is damaged is like none: no payload is
// lost with it, and [VerifyMark] returns the damage.
func knownMark(fsys disk.FS, dir string) (endMark, error) {
	m, err := readMark(fsys, dir)
	var corrupt *CorruptError
	var format *FormatError
	if errors.As(err, &corrupt) || errors.As(err, &format) {
		return endMark{}, nil
	}
	return m, err
}

// VerifyMark returns the path of the file that says how long the log was when it was closed, and a
// [CorruptError] or a [FormatError] if the file is damaged. Open and OpenView do without a damaged
// one.
func VerifyMark(fsys disk.FS, dir string) (name string, err error) {
	_, err = readMark(fsys, dir)
	return filepath.Join(dir, markName), err
}

// write replaces the endMark of a directory by m.
func (m endMark) write(fsys disk.FS, dir string) error {
	b := binary.LittleEndian.AppendUint64(nil, m.gen)
	b = binary.LittleEndian.AppendUint64(b, m.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.end))
	err := WriteFile(fsys, filepath.Join(dir, markName), func(w *Writer) error {
		_, err := w.Append(kindMark, b)
		return err
	})
	if err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// newest returns the number of the log that counts, of the numbers of all files in a directory. It
// returns 0 if there is no log. The error is a [CorruptError] if the log that was closed is
// missing.
func (m endMark) newest(dir string, gens []uint64) (gen uint64, err error) {
	if n := len(gens); n > 0 {
		gen = gens[n-1]
	}
	if gen < m.gen {
		return gen, &CorruptError{
			File:   fileName(dir, m.gen),
			Reason: fmt.Sprintf("the log is missing, and had %d bytes when it was closed", m.end),
		}
	}
	return gen, nil
}

// check returns an error if a file does not have what the log with number gen had when it was
// closed. The intact part of the file ends at the offset end, and at is the first byte that is not
// intact.
func (m endMark) check(s *scan, gen uint64, end, at int64) error {
	switch {
	case m == endMark{} || m.gen != gen:
		return nil
	case m.id != s.id:
		return &CorruptError{File: s.name, Reason: "the file is not the log that was closed"}
	case end < m.end:
		return &CorruptError{
			File: s.name, Offset: at,
			Reason: fmt.Sprintf("the log is not intact from here, and had %d bytes when it was closed",
				m.end),
		}
	}
	return nil
}
