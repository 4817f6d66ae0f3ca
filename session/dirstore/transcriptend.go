package dirstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// Where a transcript ends is where its whole lines do. A crash may leave half a line behind them,
// or zeros where the disk has not been written, and behind these whole lines of the same write, for
// a disk writes in any order. Nothing that was acknowledged has a zero in it.
//
// What was acknowledged and has rotted looks the same, except that something was written after it.
// A write begins once everything before it is durable, so a line that begins a write says that what
// stands before it was acknowledged. The other lines of a write begin with a space, which a reader
// of JSON skips; those of the first write need none, because a transcript begins whole or not at
// all.

// continued marks the lines of one write but the first.
func continued(lines []byte) []byte {
	return bytes.ReplaceAll(lines, []byte("\n{"), []byte("\n {")) // JSON has no newline within
}

// begins reports whether a line is whole, without its newline, and the first of a write.
func begins(line []byte) bool {
	var m session.Message
	return !bytes.HasPrefix(line, []byte(" ")) && json.Unmarshal(line, &m) == nil
}

// chunks calls f for what stands between two offsets, piece by piece, until f has seen enough.
func (t *transcriptFile) chunks(from, to int64, f func(off int64, b []byte) (more bool, err error)) error {
	b := make([]byte, min(max(to-from, 0), transcriptChunk))
	for from < to {
		n, err := t.f.ReadAt(b[:min(to-from, transcriptChunk)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil
		}
		if more, err := f(from, b[:n]); err != nil || !more {
			return err
		}
		from += int64(n)
	}
	return nil
}

// intact returns the offset behind the last whole line. If what follows was acknowledged, the error
// is a *[session.CorruptError], and the offset is right nevertheless.
func (t *transcriptFile) intact() (end, size int64, err error) {
	if size, err = t.f.Size(); err != nil {
		return 0, 0, err
	}
	end = t.head
	err = t.chunks(t.head, size, func(off int64, b []byte) (bool, error) {
		whole, _, zero := bytes.Cut(b, []byte{0})
		if last := bytes.LastIndexByte(whole, '\n'); last >= 0 {
			end = off + int64(last) + 1
		}
		return !zero, nil
	})
	if err != nil {
		return 0, 0, err
	}
	acknowledged, err := t.acknowledged(end, size)
	if acknowledged {
		err = &session.CorruptError{File: t.path, Offset: end, Reason: "the line has a zero in it, and was whole when the next one was written"}
	}
	return end, size, err
}

// acknowledged reports whether a write began behind the broken line at from.
func (t *transcriptFile) acknowledged(from, to int64) (yes bool, err error) {
	var line []byte
	whole := false
	err = t.chunks(from, to, func(_ int64, b []byte) (bool, error) {
		for len(b) > 0 && !yes {
			part, rest, ended := bytes.Cut(b, []byte{'\n'})
			if whole = whole && bytes.IndexByte(part, 0) < 0; whole {
				line = append(line, part...)
			}
			if ended {
				yes = whole && begins(line)
				line, whole = line[:0], true
			}
			b = rest
		}
		return !yes, nil
	})
	return yes, err
}

// rewriteLast writes the lines of the last write again, over themselves, and makes them durable.
func (t *transcriptFile) rewriteLast(end int64) error {
	from := end
	for first := false; !first && from > t.head; {
		var err error
		if from, err = t.lastLines(t.head, from, 1); err != nil {
			return err
		}
		var b [1]byte
		if _, err = t.f.ReadAt(b[:], from); err != nil {
			return err
		}
		first = b[0] != ' '
	}
	if err := t.chunks(from, end, func(off int64, b []byte) (bool, error) {
		_, err := t.f.WriteAt(b, off)
		return true, err
	}); err != nil {
		return err
	}
	return t.f.Sync()
}

// repair cuts off what a crash has left beyond the end. If that was more than half a line it is
// kept in a file of its own, for a person: where the last write has rotted, no byte of the rest is
// lost.
func (t *transcriptFile) repair(fsys disk.FS, end int64) error {
	size, err := t.f.Size()
	if err != nil {
		return err
	}
	lines := false
	if err := t.chunks(end, size, func(_ int64, b []byte) (bool, error) {
		lines = bytes.IndexByte(b, '\n') >= 0
		return !lines, nil
	}); err != nil {
		return err
	}
	if lines {
		if err := t.keep(fsys, end, size); err != nil {
			return err
		}
	}
	return t.cut(end)
}

// keep copies what stands between two offsets into a new file, durably.
func (t *transcriptFile) keep(fsys disk.FS, from, to int64) error {
	f, name, err := createTorn(fsys, fmt.Sprintf("%s.torn.%d", t.path, from))
	if err != nil {
		return err
	}
	err = t.chunks(from, to, func(off int64, b []byte) (bool, error) {
		_, err := f.WriteAt(b, off-from)
		return true, err
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = fsys.Remove(name)
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// createTorn makes a file, under another name if there is one already: what was kept before is
// kept.
func createTorn(fsys disk.FS, base string) (f disk.File, name string, err error) {
	name = base
	for n := 1; ; n++ {
		f, err = fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
		name = fmt.Sprintf("%s.%d", base, n)
	}
}

// cut makes the file end at an offset, durably.
func (t *transcriptFile) cut(end int64) error {
	if err := t.f.Truncate(end); err != nil {
		return err
	}
	return t.f.Sync()
}
