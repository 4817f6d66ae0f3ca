package dirstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// compactIfNeeded compacts the log in the background if more than half of it is not needed any
// more.
func (j *journal) compactIfNeeded() {
	j.mu.Lock()
	defer j.mu.Unlock()
	size := j.log.Size()
	if j.compacting || j.closed.Load() || size < j.compactAbove ||
		size <= j.slack+2*j.live+j.lines.weight() {
		return
	}
	j.compacting = true
	j.compactor.Go(func() {
		// The error has no caller. A log that could not be compacted is complete, so the journal
		// goes on. It tries again when the log has grown by slack, and Health returns the error.
		err := j.compact()
		j.mu.Lock()
		defer j.mu.Unlock()
		j.compacting = false
		if j.compactErr = nil; err != nil {
			j.compactErr = fmt.Errorf("dirstore: compact the log: %w", logError(err))
		}
		j.compactAbove = j.log.Size() + j.slack
	})
}

// compact moves the trees that are never due into the idle logs, and writes the others to a new
// log.
func (j *journal) compact() error {
	j.compaction.Lock()
	defer j.compaction.Unlock()
	if err := j.moveIdleTrees(); err != nil {
		return err
	}
	// What cannot be settled is copied, and Health of the transcripts tells why.
	_ = j.settleLines()
	var old map[*treeLog][]batchSpan
	copied := make(map[*treeLog][]batchSpan)
	var lines *lineCopy
	err := j.log.Rewrite(wal.Rewriter{
		Begin: func() {
			old = j.snapshot(func(l *treeLog) bool { return !l.idleOnly })
			lines = j.lines.begin()
		},
		Copy: func(view *wal.View, w *wal.Writer) error {
			if err := lines.copyTo(view, w); err != nil {
				return err
			}
			for l, frames := range old {
				if j.closed.Load() {
					return session.ErrClosed
				}
				spans, err := copyBatches(view, w, frames)
				if err != nil {
					return err
				}
				copied[l] = spans
			}
			return nil
		},
		Switch: func(from, delta int64, swap func()) {
			j.mu.Lock()
			defer j.mu.Unlock()
			swap()
			for _, l := range j.logs {
				l.frames = moveSpans(l.frames, copied[l], from, delta)
			}
			lines.switched(from, delta)
		},
	})
	if err != nil && lines != nil {
		lines.undo()
	}
	return err
}

// snapshot returns the places of the batches of the selected trees. selected is called with mu
// held.
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

// copyBatches copies the batches of one tree to w and returns their new places.
func copyBatches(view *wal.View, w *wal.Writer, frames []batchSpan) ([]batchSpan, error) {
	copied := make([]batchSpan, len(frames))
	for i, f := range frames {
		_, payload, err := view.Read(f.span())
		if err != nil {
			return nil, err
		}
		kind := frameBatch
		if i == 0 {
			kind = frameFirst
		}
		at, err := w.Append(kind, payload)
		if err != nil {
			return nil, err
		}
		copied[i] = f
		copied[i].off = at.Off
	}
	return copied, nil
}

// moveSpans returns the places of frames after a rewrite. Those before the offset from were copied,
// and copied has their new places. The others have moved by delta bytes.
func moveSpans(frames, copied []batchSpan, from, delta int64) []batchSpan {
	moved := make([]batchSpan, 0, len(frames))
	for i, f := range frames {
		if f.off < from {
			f = copied[i]
		} else {
			f.off += delta
		}
		moved = append(moved, f)
	}
	return moved
}

// moveIdleTrees writes the trees that are never due to the idle logs, and removes them from the
// index once they are durable there. Their members are in the index on the disk before. The log
// keeps their frames until it is rewritten. Until then these frames are right too: replay finds the
// same batches in them.
func (j *journal) moveIdleTrees() error {
	view, err := j.log.View()
	if err != nil {
		return err
	}
	defer view.Close() //nolint:errcheck // nothing was written
	trees := j.snapshot(func(l *treeLog) bool {
		return !l.idleOnly && l.busy == nil && l.Due.IsZero() && l.Root.IsValid()
	})
	if err := j.idle.members.add(j.entriesOf(trees)); err != nil {
		return err
	}
	logs := slices.Collect(maps.Keys(trees))
	prepared := severalAtATime(len(logs), 1, func(i int) error {
		return j.idle.prepare(logs[i].Root)
	})
	errs := severalAtATime(len(logs), j.syncs, func(i int) error {
		switch {
		case j.closed.Load():
			return session.ErrClosed
		case prepared[i] != nil:
			return prepared[i]
		}
		return j.idle.write(logs[i].Root, view, trees[logs[i]])
	})
	if j.closed.Load() {
		return session.ErrClosed
	}
	for i, l := range logs {
		if errs[i] != nil {
			delete(trees, l)
		}
	}
	if err := j.idle.sync(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for l, frames := range trees {
		if l.busy != nil || l.Last != frames[len(frames)-1].last() {
			continue // an append has made the idle log out of date, or is about to
		}
		j.due.Remove(&l.Item)
		j.dropMembers(l)
		j.live -= l.liveBytes()
		delete(j.logs, l.Root)
	}
	return errors.Join(errs...)
}
