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

// A file is the open file of a log.
type file struct {
	f    disk.File
	name string
	gen  uint64 // the number in its name
	id   uint64 // the random id in its header
}

// fileName returns the path of the log with number gen.
func fileName(dir string, gen uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%08d%s", gen, suffix))
}

// read returns the kind and the payload of the frame at s. The error is a [CorruptError] if the
// frame is not intact.
func (f *file) read(s Span) (Kind, []byte, error) {
	b := make([]byte, s.Size())
	if n, err := f.f.ReadAt(b, s.Off); n < len(b) {
		return 0, nil, fileError(fmt.Sprintf("read at byte %d of", s.Off), f.name, err)
	}
	h, ok := parseHead(b, f.id, s.Off)
	if !ok || h.length != s.Len || checksum(b[frameLen:]) != h.sum {
		return 0, nil, &CorruptError{
			File: f.name, Offset: s.Off,
			Reason: "the frame is broken and was intact when the log was opened",
		}
	}
	return h.kind, b[frameLen:], nil
}

// generations returns the numbers of the logs in a directory, the lowest first, and the paths of
// the temporary files that dead processes have left.
func generations(fsys disk.FS, dir string) (gens []uint64, temporary []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("wal: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, suffix+tmpSuffix) {
			temporary = append(temporary, filepath.Join(dir, name))
			continue
		}
		number, ok := strings.CutSuffix(name, suffix)
		gen, err := strconv.ParseUint(number, 10, 64)
		if ok && err == nil && filepath.Base(fileName(dir, gen)) == name {
			gens = append(gens, gen)
		}
	}
	slices.Sort(gens)
	return gens, temporary, nil
}

// Exists reports whether dir has a log. The error is fs.ErrNotExist if dir does not exist.
func Exists(fsys disk.FS, dir string) (bool, error) {
	gens, _, err := generations(fsys, dir)
	return len(gens) > 0, err
}

// Newest returns the name and the length without room of the newest log of a directory, or no name
// if there is none. A log that has changed has another length or another name.
func Newest(fsys disk.FS, dir string) (name string, size int64, err error) {
	gens, _, err := generations(fsys, dir)
	if err != nil || len(gens) == 0 {
		return "", 0, err
	}
	name = fileName(dir, gens[len(gens)-1])
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return "", 0, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if size, err = f.Size(); err == nil {
		size, err = trimRoom(f, name, 0, size)
	}
	return name, size, err
}

// A Writer writes a new file of frames. Its first error is final. It is not safe for concurrent
// use.
type Writer struct {
	f     disk.File
	name  string
	id    uint64
	limit int   // of a payload, in bytes
	off   int64 // of the next frame; the bytes before it may still be in buf
	buf   []byte
	err   error
}

// createWriter begins a file under a temporary name. It replaces the temporary file of a process
// that died.
func createWriter(fsys disk.FS, name string) (*Writer, error) {
	name += tmpSuffix
	f, err := disk.Create(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	w := &Writer{f: f, name: name, id: newID(), limit: MaxPayload}
	w.buf = appendFileHead(w.buf, w.id)
	w.off = headLen
	return w, nil
}

// Append adds a frame and returns its place. The error is [ErrTooLarge] if the payload has more
// than [MaxPayload] bytes.
func (w *Writer) Append(kind Kind, payload []byte) (Span, error) {
	if err := checkSize(payload, w.limit); err != nil {
		return Span{}, err
	}
	return w.add(payloadHead(kind, payload), payload)
}

// add adds a frame with the head h, whose id and offset it sets.
func (w *Writer) add(h frameHead, payload []byte) (Span, error) {
	h.id, h.off = w.id, w.off
	w.buf = append(h.append(w.buf), payload...)
	s := Span{Off: w.off, Len: h.length}
	w.off += s.Size()
	if len(w.buf) >= chunkSize {
		w.flush()
	}
	return s, w.err
}

// flush writes the buffered bytes.
func (w *Writer) flush() {
	if w.err != nil || len(w.buf) == 0 {
		return
	}
	if _, err := w.f.WriteAt(w.buf, w.off-int64(len(w.buf))); err != nil {
		w.err = fileError("write", w.name, err)
	}
	w.buf = w.buf[:0]
}

// sync makes every frame so far durable.
func (w *Writer) sync() error {
	w.flush()
	if w.err == nil {
		if err := w.f.Sync(); err != nil {
			w.err = fileError("sync", w.name, err)
		}
	}
	return w.err
}

// writeSeal ends the file with a seal and makes it durable. The seal may claim that before the
// sync, because the file gets its name only after it.
func (w *Writer) writeSeal() error {
	h := frameHead{version: version, kind: kindSeal, synced: w.off}
	if _, err := w.add(h, nil); err != nil {
		return err
	}
	return w.sync()
}

// discard closes and removes the file. It ignores errors: the next Open removes the file, or the
// next Writer replaces it.
func (w *Writer) discard(fsys disk.FS) {
	_ = w.f.Close()
	_ = fsys.Remove(w.name)
}

// WriteFile makes a file of frames, and replaces a file of that name. The file gets its name once
// it is complete and durable. The name is durable after the next SyncDir of its directory. After an
// error there is no new file.
func WriteFile(fsys disk.FS, name string, write func(*Writer) error) error {
	w, err := createWriter(fsys, name)
	if err != nil {
		return err
	}
	if err = write(w); err == nil {
		err = w.writeSeal()
	}
	if err != nil {
		w.discard(fsys)
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

// ReadFile replays a file that [WriteFile] made. The error is a [CorruptError] if the file is not
// complete. The Replay ends the reading without an error by returning [ErrStop].
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

// ErrStop is returned by a [Replay] that needs no more frames from [ReadFile].
var ErrStop = errors.New("wal: the replay was stopped")

// isNotExist reports whether err says that a file does not exist.
func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Frames reads single frames of a file that [WriteFile] made, in which the payloads of all frames
// have one size, except that the last one may be shorter. So a frame is found by its number. Its
// methods may be called concurrently.
type Frames struct {
	file *file
	size uint32 // of a payload, in bytes
	last uint32 // of the last payload
	n    int
}

// OpenFrames opens a file of payloads of a size. It reads the header alone: that a frame is intact
// is known when it is read. The error is a [CorruptError] if the file cannot have such frames.
func OpenFrames(fsys disk.FS, name string, size int) (*Frames, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	x := &Frames{file: &file{f: f, name: name}, size: uint32(size)}
	if err := x.measure(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return x, nil
}

// measure reads the header, and finds out how many frames there are. The seal is the last one and
// has no payload.
func (x *Frames) measure() error {
	length, err := x.file.f.Size()
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	head := make([]byte, min(length, headLen))
	if n, err := x.file.f.ReadAt(head, 0); n < len(head) {
		return fileError("read", x.file.name, err)
	}
	if x.file.id, err = fileHead(x.file.name, head); err != nil {
		return err
	}
	frame := Span{Len: x.size}.Size()
	body := length - headLen - frameLen
	full, rest := body/frame, body%frame
	if body < 0 || rest > 0 && rest <= frameLen {
		return &CorruptError{File: x.file.name, Offset: length, Reason: "the file is not complete"}
	}
	x.n, x.last = int(full), x.size
	if rest > 0 {
		x.n, x.last = x.n+1, uint32(rest-frameLen)
	}
	return nil
}

// Len returns the number of frames.
func (x *Frames) Len() int { return x.n }

// Read returns the payload of frame i, from 0. The error is a [CorruptError] if any bit of it has
// changed.
func (x *Frames) Read(i int) ([]byte, error) {
	s := Span{Off: headLen + int64(i)*Span{Len: x.size}.Size(), Len: x.size}
	if i == x.n-1 {
		s.Len = x.last
	}
	_, payload, err := x.file.read(s)
	return payload, err
}

// Close closes the file.
func (x *Frames) Close() error { return x.file.f.Close() }
