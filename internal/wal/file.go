package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

const (
	suffix    = ".wal"
	tmpSuffix = ".tmp"
)

// A file is an open file of a log.
type file struct {
	f    disk.File
	name string
	gen  uint64
	id   uint64
}

func fileName(dir string, gen uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%08d%s", gen, suffix))
}

// read returns what is in the frame at s.
func (f *file) read(s Span) (Kind, []byte, error) {
	b := make([]byte, s.Size())
	if n, err := f.f.ReadAt(b, s.Off); n < len(b) {
		return 0, nil, fmt.Errorf("wal: read %s: at byte %d: %w", f.name, s.Off, err)
	}
	h, ok := parseHead(b, f.id, s.Off)
	if !ok || h.length != s.Len || checksum(b[frameLen:]) != h.sum {
		return 0, nil, &CorruptError{File: f.name, Offset: s.Off, Reason: "the frame is broken that was whole when the log was opened"}
	}
	return h.kind, b[frameLen:], nil
}

// generations returns the numbers of the logs in a directory, the lowest first, and the names of rewrites that died.
func generations(fsys disk.FS, dir string) (gens []uint64, dead []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("wal: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, suffix+tmpSuffix) {
			dead = append(dead, filepath.Join(dir, name))
			continue
		}
		number, ok := strings.CutSuffix(name, suffix)
		if gen, err := strconv.ParseUint(number, 10, 64); ok && err == nil && filepath.Base(fileName(dir, gen)) == name {
			gens = append(gens, gen)
		}
	}
	slices.Sort(gens)
	return gens, dead, nil
}

// Exists reports whether a log was begun in a directory that exists.
func Exists(fsys disk.FS, dir string) (bool, error) {
	gens, _, err := generations(fsys, dir)
	return len(gens) > 0, err
}

// A Writer makes a complete file of frames.
type Writer struct {
	f     disk.File
	name  string
	id    uint64
	limit int   // of a payload, in bytes
	off   int64 // of what comes next, buffered bytes included
	buf   []byte
	err   error
}

// create begins a file under a temporary name. One that died is in nobody's way.
func create(fsys disk.FS, name string) (*Writer, error) {
	name += tmpSuffix
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	w := &Writer{f: f, name: name, id: newID(), limit: MaxPayload}
	w.buf = appendFileHead(w.buf, w.id)
	w.off = headLen
	return w, nil
}

// Append adds a frame.
func (w *Writer) Append(kind Kind, payload []byte) (Span, error) {
	if err := checkSize(payload, w.limit); err != nil {
		return Span{}, err
	}
	return w.add(frameHead{version: version, kind: kind, length: uint32(len(payload)), sum: checksum(payload)}, payload)
}

func (w *Writer) add(h frameHead, payload []byte) (Span, error) {
	h.id, h.off = w.id, w.off
	w.buf = append(h.append(w.buf), payload...)
	s := Span{Off: w.off, Len: h.length}
	w.off += s.Size()
	if len(w.buf) >= chunk {
		w.flush()
	}
	return s, w.err
}

func (w *Writer) flush() {
	if w.err != nil || len(w.buf) == 0 {
		return
	}
	if _, err := w.f.WriteAt(w.buf, w.off-int64(len(w.buf))); err != nil {
		w.err = fmt.Errorf("wal: write %s: %w", w.name, err)
	}
	w.buf = w.buf[:0]
}

// sync makes everything so far durable.
func (w *Writer) sync() error {
	w.flush()
	if w.err == nil {
		if err := w.f.Sync(); err != nil {
			w.err = fmt.Errorf("wal: sync %s: %w", w.name, err)
		}
	}
	return w.err
}

// seal ends the file with a proof that everything in it is durable, which it is once it has a name.
func (w *Writer) seal() error {
	if _, err := w.add(frameHead{version: version, kind: seal, synced: w.off}, nil); err != nil {
		return err
	}
	return w.sync()
}

// abandon removes the file again, as far as that is possible.
func (w *Writer) abandon(fsys disk.FS) {
	_ = w.f.Close()
	_ = fsys.Remove(w.name)
}

// WriteFile makes a file of frames that has its name only once it is complete and durable; the name is durable after the next SyncDir
// of its directory. It replaces a file of that name.
func WriteFile(fsys disk.FS, name string, write func(*Writer) error) error {
	w, err := create(fsys, name)
	if err != nil {
		return err
	}
	if err = write(w); err == nil {
		err = w.seal()
	}
	if err != nil {
		w.abandon(fsys)
		return err
	}
	if err := w.f.Close(); err != nil {
		_ = fsys.Remove(w.name)
		return fmt.Errorf("wal: %w", err)
	}
	if err := fsys.Rename(w.name, name); err != nil {
		_ = fsys.Remove(w.name)
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

// ReadFile replays a file that [WriteFile] made. What is not complete is a [CorruptError]. Replay may end it early with [ErrStop].
func ReadFile(fsys disk.FS, name string, replay Replay) (Report, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return Report{}, fmt.Errorf("wal: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	s := &scan{name: name, f: f}
	if s.size, err = f.Size(); err != nil {
		return Report{}, fmt.Errorf("wal: %w", err)
	}
	err = s.run(replay)
	if errors.Is(err, ErrStop) {
		return s.report(), nil
	}
	if err == nil && !s.report().Sealed {
		err = &CorruptError{File: name, Offset: s.end, Reason: "the file is not complete"}
	}
	return s.report(), err
}

// ErrStop is returned by a [Replay] that has seen enough of a file that [ReadFile] reads.
var ErrStop = errors.New("wal: seen enough")

// missing reports whether err says that there is no such file.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
