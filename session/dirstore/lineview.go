package dirstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A lineFS shows the files of transcripts as they are with the lines that are in the log alone. It
// is for reading.
type lineFS struct {
	disk.FS
	lines map[string]viewedLines // by the paths of the files
	log   *logWatch
}

// viewedLines are the lines of a transcript that were in the log.
type viewedLines struct {
	*foundLines
	ref session.Ref
}

// over returns fsys with the lines of the log in the files of transcripts below dir. The watch
// began before the log was read.
func (l *lineLog) over(fsys disk.FS, dir string, watch *logWatch) disk.FS {
	if l == nil || len(l.found) == 0 {
		return fsys
	}
	o := lineFS{FS: fsys, lines: make(map[string]viewedLines), log: watch}
	for ref, f := range l.found {
		path := filepath.Join(dir, agentDir(ref.Key), nameOf(ref, f.second))
		o.lines[path] = viewedLines{f, ref}
	}
	return o
}

// A logWatch knows which lines are in the log of a directory, whose owner goes on.
type logWatch struct {
	fs  disk.FS
	dir string

	mu    sync.Mutex
	name  string // of the log, and its length, when it was looked at last
	size  int64
	found map[session.Ref]*foundLines // by then; nil: it is as it was when it was viewed
	err   error
}

// watchLog begins to watch the log of a directory, which the caller views next.
func watchLog(fsys disk.FS, dir string) *logWatch {
	w := &logWatch{fs: fsys, dir: dir}
	w.name, w.size, w.err = wal.Newest(fsys, dir)
	return w
}

// has reports whether a transcript that the log had whole is still there. It reads the log again if
// that has changed.
func (w *logWatch) has(ref session.Ref) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, size, err := wal.Newest(w.fs, w.dir)
	if err != nil {
		return false
	}
	if w.err != nil || name != w.name || size != w.size {
		w.name, w.size, w.err = name, size, w.read()
	}
	if w.err != nil {
		return false
	}
	f := w.found[ref]
	return w.found == nil || f != nil && f.off == 0
}

// read reads which lines are in the log.
func (w *logWatch) read() error {
	var lines *lineLog
	view, _, err := wal.OpenView(w.fs, w.dir, func() { lines = newLineLog() },
		func(at wal.Span, kind wal.Kind, payload []byte) error {
			_, err := lines.replay(at, kind, payload)
			return err
		})
	if err != nil {
		return err
	}
	w.found = lines.found
	return view.Close()
}

// isNew reports whether the log has a whole transcript whose file is not there yet. An owner that
// has archived the transcript, or removed it, has written that to the log first. One that goes on
// writes the file in a moment.
func (o lineFS) isNew(path string) bool {
	l, ok := o.lines[path]
	return ok && l.off == 0 && !fileExists(o.FS, path) && o.log.has(l.ref)
}

// OpenFile implements disk.FS.
func (o lineFS) OpenFile(name string, flag int) (disk.File, error) {
	lines, ok := o.lines[name]
	if !ok || flag != os.O_RDONLY {
		return o.FS.OpenFile(name, flag)
	}
	f, err := o.FS.OpenFile(name, flag)
	if errors.Is(err, fs.ErrNotExist) {
		if o.isNew(name) {
			return pendingFile{nil, 0, lines.bytes}, nil
		}
		f, err = o.FS.OpenFile(name, flag) // its owner may just have made it
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	if size < lines.off {
		return f, nil
	}
	return coveredFile{f, lines.foundLines}, nil
}

// Lstat implements disk.FS.
func (o lineFS) Lstat(name string) (fs.FileInfo, error) {
	info, err := o.FS.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && o.isNew(name) {
		return newFileInfo{filepath.Base(name), int64(len(o.lines[name].bytes))}, nil
	}
	return info, err
}

// ReadDir implements disk.FS.
func (o lineFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := o.FS.ReadDir(name)
	if err != nil {
		return entries, err
	}
	for path, lines := range o.lines {
		if filepath.Dir(path) == name && o.isNew(path) {
			info := newFileInfo{filepath.Base(path), int64(len(lines.bytes))}
			entries = append(entries, fs.FileInfoToDirEntry(info))
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		return strings.Compare(a.Name(), b.Name())
	})
	return entries, nil
}

// A coveredFile is a file in which the log is right, wherever it has lines.
type coveredFile struct {
	disk.File
	lines *foundLines
}

// ReadAt implements io.ReaderAt.
func (c coveredFile) ReadAt(b []byte, off int64) (n int, err error) {
	if off < c.lines.off {
		n, err = c.File.ReadAt(b[:min(int64(len(b)), c.lines.off-off)], off)
		if err != nil || n == len(b) {
			return n, err
		}
	}
	if at := off + int64(n); at < c.lines.end() {
		n += copy(b[n:], c.lines.bytes[at-c.lines.off:])
	}
	if n == len(b) {
		return n, nil
	}
	more, err := c.File.ReadAt(b[n:], off+int64(n))
	return n + more, err
}

// Size implements disk.File.
func (c coveredFile) Size() (int64, error) {
	size, err := c.File.Size()
	return max(size, c.lines.end()), err
}

// A newFileInfo describes a file that is in the log alone.
type newFileInfo struct {
	name string
	size int64
}

func (i newFileInfo) Name() string     { return i.name }
func (i newFileInfo) Size() int64      { return i.size }
func (newFileInfo) Mode() fs.FileMode  { return disk.FilePerm }
func (newFileInfo) ModTime() time.Time { return time.Time{} }
func (newFileInfo) IsDir() bool        { return false }
func (newFileInfo) Sys() any           { return nil }

// settleFound brings found lines to their files, and makes them durable there. It is for a log that
// takes no more frames.
func (t *transcripts) settleFound() error {
	var errs []error
	for _, ref := range t.lines.unfiled(false) {
		x, _ := t.acquire(nil, ref)
		_, err := t.checkDirs(ref)
		if err == nil {
			_, err = t.restore(ref)
		}
		if err == nil {
			err = t.settle(ref, x)
		}
		t.yield(ref, x)
		errs = append(errs, transcriptError(err))
	}
	return errors.Join(errs...)
}
