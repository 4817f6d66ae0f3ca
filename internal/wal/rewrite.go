package wal

import (
	"fmt"
	"os"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// catchUp is how many bytes may be left to copy, at most, while appends wait for the end of a rewrite.
const catchUp = 64 << 10

// A Rewriter is what the caller of [Log.Rewrite] decides.
type Rewriter struct {
	// Begin is called while nothing is being written, before anything else: what was settled by now is for Copy, what comes later
	// is copied as it is.
	Begin func()
	// Copy writes what shall be left of it. Places in old are those that were settled.
	Copy func(old *View, w *Writer) error
	// Switch is called while nothing is being written, when the new file is complete. It calls swap, and views of the log are then of
	// the new file: a frame whose place was at from or later is now by delta further on. It must call nothing else of the log.
	Switch func(from, delta int64, swap func())
}

// Rewrite puts a new file in the place of the log, while appends go on. After an error the log is what it was. One rewrite runs at a time.
func (l *Log) Rewrite(r Rewriter) error {
	l.commit.Lock()
	l.mu.Lock()
	if l.closed || l.failed != nil {
		defer l.commit.Unlock()
		defer l.mu.Unlock()
		if l.failed != nil {
			return l.failed
		}
		return ErrClosed
	}
	from, old := l.end, l.view()
	l.mu.Unlock()
	r.Begin()
	l.commit.Unlock()
	defer old.Close() //nolint:errcheck // nothing was written

	w, err := create(l.fs, fileName(l.dir, old.file.gen+1))
	if err != nil {
		return err
	}
	if err := r.Copy(old, w); err != nil {
		w.abandon(l.fs)
		return err
	}
	delta := w.off - from
	at := from
	for err == nil && l.Size()-at > catchUp {
		at, err = w.copyRange(old.file, at, l.Size())
	}
	if err == nil {
		err = w.sync()
	}
	if err != nil {
		w.abandon(l.fs)
		return err
	}
	return l.finish(r, w, old.file, from, at, delta)
}

// finish copies the rest and makes w the log.
func (l *Log) finish(r Rewriter, w *Writer, old *file, from, at, delta int64) error {
	l.commit.Lock()
	defer l.commit.Unlock()
	l.mu.Lock()
	end, closed, failed := l.end, l.closed, l.failed
	l.mu.Unlock()
	err := failed
	if err == nil && closed {
		err = ErrClosed
	}
	if err == nil {
		_, err = w.copyRange(old, at, end)
	}
	if err == nil {
		err = w.seal()
	}
	if err != nil {
		w.abandon(l.fs)
		return err
	}
	f, err := l.install(w, old)
	if err != nil {
		return err
	}
	l.torn, l.sealed = false, true
	r.Switch(from, delta, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.file, l.end = f, w.off
	})
	return nil // the last View of the old file, at least that of Rewrite, removes it
}

// install gives the new file its name. If it may have that name although it should not, nothing is appended to either any more: whoever
// opens the log next would take the one that was not written to.
func (l *Log) install(w *Writer, old *file) (*file, error) {
	name := fileName(l.dir, old.gen+1)
	if err := w.f.Close(); err != nil {
		_ = l.fs.Remove(w.name)
		return nil, fmt.Errorf("wal: %w", err)
	}
	if err := l.fs.Rename(w.name, name); err != nil {
		if _, there := l.fs.Lstat(name); missing(there) {
			_ = l.fs.Remove(w.name)
			return nil, fmt.Errorf("wal: %w", err)
		}
		return nil, l.fail(fmt.Errorf("%w: %w", ErrSync, err))
	}
	var f disk.File
	err := l.fs.SyncDir(l.dir)
	if err == nil {
		f, err = l.fs.OpenFile(name, os.O_RDWR)
	}
	if err != nil {
		return nil, l.fail(fmt.Errorf("%w: %w", ErrSync, err))
	}
	return &file{f: f, name: name, gen: old.gen + 1, id: w.id}, nil
}

// copyRange copies the frames of f between two offsets, at which frames begin, and returns the second. Seals take their place too, so
// that everything moves by the same distance.
func (w *Writer) copyRange(f *file, from, to int64) (int64, error) {
	s := &scan{name: f.name, f: f.f, size: to, id: f.id}
	for off := from; off < to; {
		h, payload, err := s.frame(off)
		if err != nil {
			return off, &CorruptError{File: f.name, Offset: off, Reason: "the frame is broken that was whole when it was written", Err: err}
		}
		h.synced = 0
		span, err := w.add(h, payload)
		if err != nil {
			return off, err
		}
		off += span.Size()
	}
	return to, nil
}
