package wal

import (
	"fmt"
	"os"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// maxFinalCopy is the most bytes that a rewrite copies while appends wait for its end.
const maxFinalCopy = 64 << 10

// A Rewriter has the decisions of the caller of [Log.Rewrite]. All fields must be set.
type Rewriter struct {
	// Begin is called first, while no group is being written. Copy takes care of the frames whose
	// places were notified before Begin. Rewrite copies all later frames as they are.
	Begin func()
	// Copy writes the frames that shall be kept of the part before Begin. Old has the frames at the
	// places that were notified.
	Copy func(old *View, w *Writer) error
	// Switch is called last, while no group is being written, when the new file is durable. It must
	// call swap, and no other method of the Log. After swap, Views of the Log read the new file. A
	// frame that stood at the offset from or later then stands delta bytes further on.
	Switch func(from, delta int64, swap func())
}

// Rewrite replaces the file of the log by a new one while appends go on. After an error the log is
// as before, except that [ErrSync] ends all appends. The caller runs one Rewrite at a time.
func (l *Log) Rewrite(r Rewriter) error {
	l.commitMu.Lock()
	l.mu.Lock()
	if l.closed || l.failed != nil {
		defer l.commitMu.Unlock()
		defer l.mu.Unlock()
		if l.failed != nil {
			return l.failed
		}
		return ErrClosed
	}
	from, old := l.end, l.view()
	l.mu.Unlock()
	r.Begin()
	l.commitMu.Unlock()
	defer old.Close() //nolint:errcheck // nothing was written

	w, err := createWriter(l.fs, fileName(l.dir, old.file.gen+1))
	if err != nil {
		return err
	}
	if err := r.Copy(old, w); err != nil {
		w.discard(l.fs)
		return err
	}
	delta := w.off - from
	at := from
	for err == nil && l.Size()-at > maxFinalCopy {
		at, err = w.copyRange(old.file, at, l.Size())
	}
	if err == nil {
		err = w.sync()
	}
	if err != nil {
		w.discard(l.fs)
		return err
	}
	return l.finish(r, w, old.file, from, at, delta)
}

// finish copies the rest while appends wait, and makes w the file of the log.
func (l *Log) finish(r Rewriter, w *Writer, old *file, from, at, delta int64) error {
	l.commitMu.Lock()
	defer l.commitMu.Unlock()
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
		err = w.writeSeal()
	}
	if err != nil {
		w.discard(l.fs)
		return err
	}
	f, err := l.publish(w, old)
	if err != nil {
		return err
	}
	l.torn, l.room, l.sealed = false, 0, true
	r.Switch(from, delta, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.file, l.end = f, w.off
	})
	return nil // the last View of the old file removes it; Rewrite has one
}

// publish gives the new file its name and opens it. If the name may exist although publish fails,
// the Log accepts no more appends: the next Open would take the new file, which those appends would
// not be in.
func (l *Log) publish(w *Writer, old *file) (*file, error) {
	name := fileName(l.dir, old.gen+1)
	if err := w.f.Close(); err != nil {
		_ = l.fs.Remove(w.name)
		return nil, fmt.Errorf("wal: %w", err)
	}
	if err := l.fs.Rename(w.name, name); err != nil {
		if _, statErr := l.fs.Lstat(name); isNotExist(statErr) {
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

// copyRange copies the frames of f between two offsets, at which frames begin, and returns the
// offset where it stopped. It copies seals too, so that all frames move by the same distance. It
// clears synced, which is an offset in the old file.
func (w *Writer) copyRange(f *file, from, to int64) (int64, error) {
	s := &scan{name: f.name, f: f.f, size: to, id: f.id}
	for off := from; off < to; {
		h, payload, err := s.frame(off)
		if err != nil {
			return off, &CorruptError{
				File: f.name, Offset: off, Err: err,
				Reason: "the frame is broken and was intact when it was written",
			}
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
