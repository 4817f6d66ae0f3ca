package dirstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

func (j *journal) Append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
	if root.IsZero() {
		return 0, fmt.Errorf("dirstore: append: root %q: %w", root, session.ErrInvalidKey)
	}
	last, err := j.append(ctx, root, after, b)
	if err != nil {
		return 0, fmt.Errorf("dirstore: append to %q: %w", root, logError(err))
	}
	j.maybeCompact()
	return last, nil
}

func (j *journal) append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	if err := j.check(ctx); err != nil {
		return 0, err
	}
	if j.log == nil {
		return 0, session.ErrReadOnly
	}
	buf := payloads.Get().(*[]byte)
	payload, err := appendBatch((*buf)[:0], root, after, b, j.maxBatch)
	if err != nil {
		return 0, err
	}
	l, cold, err := j.claim(ctx, root, after)
	if err != nil {
		return 0, err
	}
	stored := storedBatch{root: root, after: after, due: b.Due, reset: b.Reset, n: len(b.Entries)}
	records := make([]wal.Record, 0, 1+len(cold.frames))
	if b.Reset {
		cold = thaw{}
	}
	records = append(append(records, cold.frames...), wal.Record{Kind: frameBatch, Payload: payload})
	if b.Reset && l.cold {
		records[0].Kind = frameImage
	}
	err = j.log.Append(ctx, records, func(at []wal.Span, err error) { j.settle(l, at, cold, stored, err) })
	if err == nil && cap(payload) <= maxPooled { // after an error the log may still use it
		*buf = payload
		payloads.Put(buf)
	}
	return stored.last(), err
}

// payloads are buffers for batches, which the log needs no longer once they are durable.
var payloads = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is how many bytes a buffer may have that is kept.
const maxPooled = 64 << 10

// claim waits until no other append to the log is under way and makes sure that it ends at after.
// Until settle is called no other append begins. If the log is idle, what there is of it must be
// written again before the batch.
func (j *journal) claim(ctx context.Context, root session.Key, after session.Seq) (*treeLog, thaw, error) {
	for {
		j.mu.Lock()
		l := j.logs[root]
		switch {
		case l == nil:
			l = j.newLog(root)
			l.cold, l.busy = true, make(chan struct{})
			j.logs[root] = l
			j.mu.Unlock()
			return j.claimCold(l, after)
		case l.busy != nil:
			busy := l.busy
			j.mu.Unlock()
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return nil, thaw{}, ctx.Err()
			}
		case l.Last != after:
			last := l.Last
			j.mu.Unlock()
			return nil, thaw{}, movedOn(after, last)
		}
		l.busy = make(chan struct{})
		j.mu.Unlock()
		return l, thaw{}, nil
	}
}

func movedOn(after, last session.Seq) error {
	return fmt.Errorf("after %d, but it ends at %d: %w", after, last, session.ErrConflict)
}

func (j *journal) claimCold(l *treeLog, after session.Seq) (*treeLog, thaw, error) {
	cold, err := j.idle.read(l.Root)
	if err == nil && cold.last != after {
		err = movedOn(after, cold.last)
	}
	if err != nil {
		j.settle(l, nil, cold, storedBatch{}, err)
		return nil, thaw{}, err
	}
	return l, cold, nil
}

// settle takes what was appended into the index, or nothing if it was not, and lets the next one at
// the log.
func (j *journal) settle(l *treeLog, at []wal.Span, cold thaw, b storedBatch, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(l.busy)
	l.busy = nil
	if err != nil {
		if l.cold {
			delete(j.logs, l.Root)
		}
		return
	}
	j.live -= l.weight()
	for i := range cold.batches {
		l.add(at[i], cold.batches[i])
	}
	if len(cold.batches) > 0 {
		l.thawed = l.bytes
	}
	l.add(at[len(cold.batches)], b)
	l.cold = false
	j.live += l.weight()
	j.due.Schedule(&l.Item)
}
