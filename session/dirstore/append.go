package dirstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// Append implements [session.Journal]. The error is a *[BatchSizeError] if the batch is too large.
func (j *journal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	return j.add(ctx, root, after, after+1, b)
}

// Import implements [session.JournalImporter].
func (j *journal) Import(
	ctx context.Context, root session.Key, after, first session.Seq, b session.Batch,
) (session.Seq, error) {
	if err := b.ValidateImport(after, first); err != nil {
		return 0, fmt.Errorf("dirstore: import to %q: %w", root, err)
	}
	// What begins a log behind its first entry has replaced the entries before.
	b.Reset = b.Reset || first != after+1
	return j.add(ctx, root, after, first, b)
}

// add adds a batch whose entries have the sequences from first on. A first one that is not the next
// begins the log.
func (j *journal) add(
	ctx context.Context, root session.Key, after, first session.Seq, b session.Batch,
) (session.Seq, error) {
	if root.IsZero() {
		return 0, fmt.Errorf("dirstore: append: root %q: %w", root, session.ErrInvalidKey)
	}
	last, err := j.append(ctx, root, after, first-1, b)
	if err != nil {
		return 0, fmt.Errorf("dirstore: append to %q: %w", root, logError(err))
	}
	j.compactIfNeeded()
	return last, nil
}

// append adds a batch behind the entry after, at the sequences behind before.
func (j *journal) append(
	ctx context.Context, root session.Key, after, before session.Seq, b session.Batch,
) (session.Seq, error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	if err := j.check(ctx); err != nil {
		return 0, err
	}
	if j.log == nil {
		return 0, session.ErrReadOnly
	}
	buf := payloadBuffers.Get().(*[]byte)
	payload, err := appendBatch((*buf)[:0], root, before, b, j.maxBatch)
	if err != nil {
		return 0, err
	}
	l, idle, err := j.claim(ctx, root, after)
	if err != nil {
		return 0, err
	}
	stored := storedBatch{
		root: root, after: before, due: b.Due, reset: b.Reset, n: len(b.Entries),
		members: membersIn(payload, b.Members),
	}
	if b.Reset {
		idle = idleTree{}
	}
	lines := j.lines.ride(root)
	n := lines.len()
	records := make([]wal.Record, 0, n+1+len(idle.frames))
	if n > 0 {
		records = append(records, lines.records...)
	}
	records = append(records, idle.frames...)
	records = append(records, wal.Record{Kind: frameBatch, Payload: payload})
	if b.Reset && l.idleOnly {
		records[n].Kind = frameFirst
	}
	err = j.log.Append(ctx, records, func(at []wal.Span, err error) {
		lines.ended(at, err)
		if err == nil {
			at = at[n:]
		}
		j.endAppend(l, at, idle, stored, err)
	})
	if err == nil && cap(payload) <= maxPooledBytes { // after an error the log may still use it
		*buf = payload
		payloadBuffers.Put(buf)
	}
	return stored.last(), err
}

// payloadBuffers are buffers for encoded batches. The log does not use a buffer after its batch is
// durable.
var payloadBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBytes is the capacity of the largest buffer that is pooled.
const maxPooledBytes = 64 << 10

// claim waits until no other append to the tree is under way, and makes sure that the tree ends at
// after. No other append to the tree begins before the caller calls endAppend. The caller must
// write the idleTree again, before its batch, if it is not empty. The error is
// [session.ErrConflict] if the tree does not end at after.
func (j *journal) claim(
	ctx context.Context, root session.Key, after session.Seq,
) (*treeLog, idleTree, error) {
	for {
		j.mu.Lock()
		l := j.logs[root]
		switch {
		case l == nil:
			l = j.newLog(root)
			l.idleOnly, l.busy = true, make(chan struct{})
			j.logs[root] = l
			j.mu.Unlock()
			return j.claimIdle(ctx, l, after)
		case l.busy != nil:
			busy := l.busy
			j.mu.Unlock()
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return nil, idleTree{}, ctx.Err()
			}
		case l.Last != after:
			last := l.Last
			j.mu.Unlock()
			return nil, idleTree{}, conflictError(after, last)
		}
		l.busy = make(chan struct{})
		j.mu.Unlock()
		return l, idleTree{}, nil
	}
}

// conflictError is the error of an append after the position after to a tree or a transcript that
// ends at last.
func conflictError[T session.Seq | session.Pos](after, last T) error {
	return fmt.Errorf("after %d, but it ends at %d: %w", after, last, session.ErrConflict)
}

// claimIdle reads the idle log of a tree that the index does not have. The tree is empty if it does
// not have one either.
func (j *journal) claimIdle(
	ctx context.Context, l *treeLog, after session.Seq,
) (*treeLog, idleTree, error) {
	idle, err := j.idle.during(ctx).read(l.Root)
	if err == nil && idle.last != after {
		err = conflictError(after, idle.last)
	}
	if err != nil {
		j.endAppend(l, nil, idle, storedBatch{}, err)
		return nil, idleTree{}, err
	}
	return l, idle, nil
}

// endAppend ends what claim began. Without an error it adds the batches that the log has at these
// places to the index: those of the idle tree, then b.
func (j *journal) endAppend(l *treeLog, at []wal.Span, idle idleTree, b storedBatch, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(l.busy)
	l.busy = nil
	if err != nil {
		if l.idleOnly {
			delete(j.logs, l.Root)
		}
		return
	}
	j.live -= l.liveBytes()
	for i := range idle.batches {
		j.addBatch(l, at[i], &idle.batches[i])
	}
	if len(idle.batches) > 0 {
		l.restored = l.bytes
	}
	j.addBatch(l, at[len(idle.batches)], &b)
	l.idleOnly = false
	j.live += l.liveBytes()
	j.due.Schedule(&l.Item)
}
