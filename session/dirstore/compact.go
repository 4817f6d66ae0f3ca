package dirstore

import (
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// maybeCompact compacts the log in the background if more than half of it is of no use.
func (j *journal) maybeCompact() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if size := j.log.Size(); j.compacting || j.closed.Load() || size <= j.slack+2*j.live || size < j.resting {
		return
	}
	j.compacting = true
	j.compactor.Go(func() {
		// No caller has asked for it, and a log that could not be compacted is as good as before:
		// it is tried again when it has grown, and Health says why.
		err := j.compact()
		j.mu.Lock()
		defer j.mu.Unlock()
		j.compacting = false
		if j.unfit = nil; err != nil {
			j.unfit = fmt.Errorf("dirstore: compact the log: %w", logError(err))
		}
		j.resting = j.log.Size() + j.slack
	})
}

// compact puts the trees that are never due where idle trees are kept, and writes the others to a
// new log.
func (j *journal) compact() error {
	j.compaction.Lock()
	defer j.compaction.Unlock()
	if err := j.freeze(); err != nil {
		return err
	}
	var old map[*treeLog][]batchSpan
	carried := make(map[*treeLog][]batchSpan)
	return j.log.Rewrite(wal.Rewriter{
		Begin: func() { old = j.snapshot(func(l *treeLog) bool { return !l.cold }) },
		Copy: func(view *wal.View, w *wal.Writer) error {
			for l, frames := range old {
				if j.closed.Load() {
					return session.ErrClosed
				}
				moved, err := carry(view, w, frames)
				if err != nil {
					return err
				}
				carried[l] = moved
			}
			return nil
		},
		Switch: func(from, delta int64, swap func()) {
			j.mu.Lock()
			defer j.mu.Unlock()
			swap()
			for _, l := range j.logs {
				l.frames = relocated(l.frames, carried[l], from, delta)
			}
		},
	})
}

// snapshot returns the frames of the logs that it is to select.
func (j *journal) snapshot(selected func(*treeLog) bool) map[*treeLog][]batchSpan {
	j.mu.Lock()
	defer j.mu.Unlock()
	frames := make(map[*treeLog][]batchSpan)
	for _, l := range j.logs {
		if selected(l) {
			frames[l] = l.frames
		}
	}
	return frames
}

// carry copies the batches of one tree.
func carry(view *wal.View, w *wal.Writer, frames []batchSpan) ([]batchSpan, error) {
	moved := make([]batchSpan, len(frames))
	for i, f := range frames {
		_, payload, err := view.Read(f.span())
		if err != nil {
			return nil, err
		}
		kind := frameBatch
		if i == 0 {
			kind = frameImage
		}
		at, err := w.Append(kind, payload)
		if err != nil {
			return nil, err
		}
		moved[i] = f
		moved[i].off = at.Off
	}
	return moved, nil
}

// relocated returns where frames are after those before from were carried and the others moved by
// delta.
func relocated(frames, carried []batchSpan, from, delta int64) []batchSpan {
	moved := make([]batchSpan, 0, len(frames))
	for i, f := range frames {
		if f.off < from {
			f = carried[i]
		} else {
			f.off += delta
		}
		moved = append(moved, f)
	}
	return moved
}

// freeze moves trees that are never due out of the index, once they are durable elsewhere. The log
// has them until it is rewritten; as long as it does, it is right.
func (j *journal) freeze() error {
	view, err := j.log.View()
	if err != nil {
		return err
	}
	defer view.Close() //nolint:errcheck // nothing was written
	frozen := j.snapshot(func(l *treeLog) bool {
		return !l.cold && l.busy == nil && l.Due.IsZero() && l.Root.IsValid()
	})
	var errs []error
	for l, frames := range frozen {
		if j.closed.Load() {
			return session.ErrClosed
		}
		if err := j.idle.write(l.Root, view, frames); err != nil {
			errs = append(errs, err)
			delete(frozen, l)
		}
	}
	if err := j.idle.sync(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for l, frames := range frozen {
		if l.busy != nil || l.Last != frames[len(frames)-1].last() {
			continue // an append was made meanwhile, or is about to be
		}
		j.due.Remove(&l.Item)
		j.live -= l.weight()
		delete(j.logs, l.Root)
	}
	return errors.Join(errs...)
}
