package dirstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/due"
)

// Read implements [session.Journal]. It yields the batches that the tree had when the loop began.
func (j *journal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		err := j.read(ctx, root, after, func(e session.Entry) bool { return yield(e, nil) })
		if err != nil {
			yield(session.Entry{}, fmt.Errorf("dirstore: read %q: %w", root, logError(err)))
		}
	}
}

func (j *journal) read(
	ctx context.Context, root session.Key, after session.Seq, yield func(session.Entry) bool,
) error {
	if err := j.check(ctx); err != nil {
		return err
	}
	frames, view, err := j.frames(root)
	if err != nil {
		return err
	}
	if view == nil {
		return j.readIdle(ctx, root, after, yield)
	}
	defer view.Close() //nolint:errcheck // nothing was written
	first := sort.Search(len(frames), func(i int) bool { return frames[i].last() > after })
	for _, f := range frames[first:] {
		if err := j.check(ctx); err != nil {
			return err
		}
		_, payload, err := view.Read(f.span())
		if err != nil {
			return err
		}
		b, err := parseBatch(payload, func(string) (session.Key, error) { return root, nil })
		if err != nil {
			return err
		}
		if more, err := yieldBatch(&b, after, yield); !more {
			return err
		}
	}
	return nil
}

// readIdle yields the entries of a tree that the index does not have.
func (j *journal) readIdle(
	ctx context.Context, root session.Key, after session.Seq, yield func(session.Entry) bool,
) error {
	idle, err := j.idle.during(ctx).read(root)
	if err != nil {
		return err
	}
	for i := range idle.batches {
		if err := j.check(ctx); err != nil {
			return err
		}
		if more, err := yieldBatch(&idle.batches[i], after, yield); !more {
			return err
		}
	}
	return nil
}

// frames returns the places of the batches of a tree and a view of the log. The view is nil if the
// tree is not in the log.
func (j *journal) frames(root session.Key) ([]batchSpan, *wal.View, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.logs[root]
	if l == nil || l.idleOnly {
		return nil, nil, nil
	}
	view, err := j.view()
	return l.frames, view, err
}

// yieldBatch yields the entries of b after a sequence. more is false if the caller must stop: yield
// returned false, or there is an error.
func yieldBatch(
	b *storedBatch, after session.Seq, yield func(session.Entry) bool,
) (more bool, err error) {
	more = true
	err = b.each(func(seq session.Seq, payload session.Raw) bool {
		more = seq <= after || yield(session.Entry{Seq: seq, Batch: b.id, Payload: payload})
		return more
	})
	return more && err == nil, err
}

// Roots implements [session.Journal].
func (j *journal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		yieldHead := func(h session.Head) bool { return yield(h, nil) }
		err := j.check(ctx)
		if err == nil && !q.Member.IsZero() {
			err = j.withMember(ctx, q, yieldHead)
		} else if err == nil && q.DueBefore.IsZero() {
			err = j.all(ctx, yieldHead)
		} else if err == nil {
			err = j.dueBefore(ctx, q.DueBefore, yieldHead)
		}
		if err != nil {
			yield(session.Head{}, fmt.Errorf("dirstore: roots: %w", logError(err)))
		}
	}
}

// dueBefore yields the trees that are due before a time.
func (j *journal) dueBefore(
	ctx context.Context, before time.Time, yield func(session.Head) bool,
) (err error) {
	j.due.Due(before, func(h due.Head[session.Key, session.Seq]) bool {
		err = j.check(ctx)
		return err == nil && yield(session.Head(h))
	})
	return err
}

// all yields every tree: those of the index, then the idle ones that were not among them.
func (j *journal) all(ctx context.Context, yield func(session.Head) bool) error {
	j.mu.Lock()
	heads := make(map[session.Key]session.Head, len(j.logs))
	for root, l := range j.logs {
		if !l.idleOnly {
			heads[root] = session.Head(l.Head())
		}
	}
	j.mu.Unlock()
	for _, h := range heads {
		if err := j.check(ctx); err != nil {
			return err
		}
		if !yield(h) {
			return nil
		}
	}
	for h, err := range j.idle.during(ctx).heads() {
		if err == nil {
			err = j.check(ctx)
		}
		if err != nil {
			return err
		}
		if _, known := heads[h.Root]; !known && !yield(h) {
			return nil
		}
	}
	return nil
}

// withMember yields the trees that have the member of q and that its DueBefore selects: those of
// the index in memory, then the idle ones.
func (j *journal) withMember(
	ctx context.Context, q session.RootQuery, yield func(session.Head) bool,
) error {
	member := idOf(q.Member)
	j.mu.Lock()
	var heads []session.Head
	for _, l := range j.members[member] {
		heads = append(heads, session.Head(l.Head()))
	}
	j.mu.Unlock()
	yielded := make(map[keyID]bool)
	for _, h := range heads {
		yielded[idOf(h.Root)] = true
		if dueBefore(h.Due, q) && !yield(h) {
			return nil
		}
	}
	idle := j.idle.during(ctx)
	roots, failed := idle.members.find(member)
	for _, root := range roots {
		if yielded[root] {
			continue
		}
		if err := j.check(ctx); err != nil {
			return err
		}
		h, ok, err := idle.lookUpHead(root)
		failed = errors.Join(failed, err)
		if h = j.newest(h); ok && dueBefore(h.Due, q) && !yield(h) {
			return nil
		}
	}
	return failed
}

// newest returns the head of a tree as the index has it, or h if the tree is in the idle logs
// alone.
func (j *journal) newest(h session.Head) session.Head {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l := j.logs[h.Root]; l != nil && !l.idleOnly {
		return session.Head(l.Head())
	}
	return h
}
