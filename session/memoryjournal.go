package session

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session/internal/due"
)

// shards is the number of parts of the table of logs. Each part has a lock of its own, which is
// taken for writing only when a log is made, so that trees do not wait for each other.
const shards = 64

// A memoryJournal is a [Journal] in memory.
type memoryJournal struct {
	seed   maphash.Seed
	closed atomic.Bool
	due    due.Index[Key, Seq]
	shards [shards]struct {
		sync.RWMutex
		logs    map[Key]*memoryLog
		members map[Key][]*memoryLog // the logs that have a member; almost always one
	}
}

// A memoryLog is one log. See [memoryBatch] for the sequences of its entries.
type memoryLog struct {
	mu sync.Mutex // taken before the locks of memoryJournal.due and of the shards
	due.Item[Key, Seq]
	batches batchList
	members []Key        // each once
	alone   []*memoryLog // the log itself: what its members lead to, unless to others, too
}

func newMemoryJournal() *memoryJournal {
	j := &memoryJournal{seed: maphash.MakeSeed()}
	for i := range j.shards {
		j.shards[i].logs = make(map[Key]*memoryLog)
		j.shards[i].members = make(map[Key][]*memoryLog)
	}
	return j
}

// Close makes every later call fail with [ErrClosed].
func (j *memoryJournal) Close() error {
	j.closed.Store(true)
	return nil
}

// check returns ErrClosed if j is closed, else the error of ctx.
func (j *memoryJournal) check(ctx context.Context) error {
	if j.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// shardOf returns the number of the part of the table that has a key.
func (j *memoryJournal) shardOf(k Key) uint64 { return maphash.String(j.seed, k.s) % shards }

// log returns the log of root. If there is none, it makes one if create is set, else returns nil.
func (j *memoryJournal) log(root Key, create bool) *memoryLog {
	shard := &j.shards[j.shardOf(root)]
	shard.RLock()
	l := shard.logs[root]
	shard.RUnlock()
	if l != nil || !create {
		return l
	}
	shard.Lock()
	defer shard.Unlock()
	if l = shard.logs[root]; l == nil {
		l = new(memoryLog)
		l.Root, l.Lock, l.alone = root, &l.mu, []*memoryLog{l}
		shard.logs[root] = l
	}
	return l
}

// encodeBuffers are the buffers of checkEncodable.
var encodeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBytes is the capacity of the largest buffer that is pooled.
const maxPooledBytes = 64 << 10

// checkEncodable returns an error that wraps [ErrInvalidBatch] if a payload of b cannot be encoded.
// Otherwise a program that was tested in memory would lose an owner when it keeps its state on a
// disk.
func checkEncodable(b Batch) error {
	buf := encodeBuffers.Get().(*[]byte)
	for i := range b.Entries {
		if c, ok := b.Entries[i].Payload.(jsonChecker); ok {
			if err := c.CheckJSON(); err != nil {
				return invalidEntry(b, i, err)
			}
			continue
		}
		text, err := b.Entries[i].Payload.AppendJSON((*buf)[:0])
		if err == nil && len(text) == 0 {
			err = errEmptyPayload
		}
		if err != nil {
			return invalidEntry(b, i, err)
		}
		if cap(text) <= maxPooledBytes {
			*buf = text
		}
	}
	encodeBuffers.Put(buf)
	return nil
}

// A jsonChecker is a [Payload] that knows whether it can be encoded. CheckJSON returns nil if
// AppendJSON succeeds. A journal in memory asks that first, because encoding takes longer than all
// else that it does.
type jsonChecker interface{ CheckJSON() error }

// invalidEntry returns the error of entry i of a batch.
func invalidEntry(b Batch, i int, err error) error {
	return fmt.Errorf("%w %q: entry %d of %d: %w", ErrInvalidBatch, b.ID, i, len(b.Entries), err)
}

var errEmptyPayload = errors.New("session: the payload is not JSON: it is empty")

func (j *memoryJournal) Append(ctx context.Context, root Key, after Seq, b Batch) (Seq, error) {
	return j.add(ctx, root, after, after+1, b)
}

// add adds a batch whose entries have the sequences from first on.
func (j *memoryJournal) add(
	ctx context.Context, root Key, after, first Seq, b Batch,
) (Seq, error) {
	if root.IsZero() {
		return 0, fmt.Errorf("session: append: root %q: %w", root, ErrInvalidKey)
	}
	err := b.Validate()
	if err == nil {
		err = checkEncodable(b)
	}
	if err != nil {
		return 0, fmt.Errorf("session: append to %q: %w", root, err)
	}
	if err := j.check(ctx); err != nil {
		return 0, fmt.Errorf("session: append to %q: %w", root, err)
	}
	l := j.log(root, after == 0)
	if l == nil {
		return 0, fmt.Errorf("session: append to %q after %d: %w", root, after, ErrConflict)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Last != after {
		return 0, fmt.Errorf("session: append to %q after %d, which ends at %d: %w",
			root, after, l.Last, ErrConflict)
	}
	batch := memoryBatch{first: first, id: b.ID, entries: b.Entries}
	j.addMembers(l, b.Members)
	if b.Reset {
		l.batches = nil
		j.keepMembers(l, b.Members) // only now: no key is lost on the way
	}
	l.batches.add(batch)
	l.Last = first + Seq(len(b.Entries)) - 1
	l.Due = b.Due
	j.due.Schedule(&l.Item)
	return l.Last, nil
}

// addMembers makes keys lead to l, whose lock the caller holds.
func (j *memoryJournal) addMembers(l *memoryLog, members []Key) {
	for _, k := range members {
		shard := &j.shards[j.shardOf(k)]
		shard.Lock()
		if logs := shard.members[k]; !slices.Contains(logs, l) {
			if len(logs) == 0 {
				shard.members[k] = l.alone
			} else {
				shard.members[k] = append(slices.Clip(logs), l)
			}
			l.members = append(l.members, k)
		}
		shard.Unlock()
	}
}

// keepMembers makes all other keys than these lead to l no more. The caller holds the lock of l.
func (j *memoryJournal) keepMembers(l *memoryLog, members []Key) {
	named := make(map[Key]bool, len(members))
	for _, k := range members {
		named[k] = true
	}
	l.members = slices.DeleteFunc(l.members, func(k Key) bool {
		if named[k] {
			return false
		}
		shard := &j.shards[j.shardOf(k)]
		shard.Lock()
		defer shard.Unlock()
		logs := slices.Clone(shard.members[k]) // a reader may have the slice
		logs = slices.DeleteFunc(logs, func(other *memoryLog) bool { return other == l })
		if shard.members[k] = logs; len(logs) == 0 {
			delete(shard.members, k)
		}
		return true
	})
}

// withMember returns the logs that have a member.
func (j *memoryJournal) withMember(k Key) []*memoryLog {
	shard := &j.shards[j.shardOf(k)]
	shard.RLock()
	defer shard.RUnlock()
	return shard.members[k]
}

func (j *memoryJournal) Read(ctx context.Context, root Key, after Seq) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := j.check(ctx); err != nil {
			yield(Entry{}, fmt.Errorf("session: read %q: %w", root, err))
			return
		}
		l := j.log(root, false)
		if l == nil {
			return
		}
		l.mu.Lock()
		pieces := l.batches.since(after)
		l.mu.Unlock()
		for b := range pieces.all() {
			if err := ctx.Err(); err != nil {
				yield(Entry{}, fmt.Errorf("session: read %q: %w", root, err))
				return
			}
			for i, e := range b.entries {
				e.Seq, e.Batch = b.first+Seq(i), b.id
				if e.Seq > after && !yield(e, nil) {
					return
				}
			}
		}
	}
}

func (j *memoryJournal) Roots(ctx context.Context, q RootQuery) iter.Seq2[Head, error] {
	return func(yield func(Head, error) bool) {
		if err := j.check(ctx); err != nil {
			yield(Head{}, fmt.Errorf("session: roots: %w", err))
			return
		}
		if !q.Member.IsZero() {
			yieldLogs(ctx, j.withMember(q.Member), q, yield)
			return
		}
		if !q.DueBefore.IsZero() {
			j.due.Due(q.DueBefore, func(h due.Head[Key, Seq]) bool {
				return yieldHead(ctx, Head(h), yield)
			})
			return
		}
		for i := range j.shards {
			if !yieldLogs(ctx, j.inShard(i), q, yield) {
				return
			}
		}
	}
}

// yieldLogs yields the heads of those of logs whose Due q selects. It reports whether the loop goes
// on.
func yieldLogs(
	ctx context.Context, logs []*memoryLog, q RootQuery, yield func(Head, error) bool,
) bool {
	for _, l := range logs {
		l.mu.Lock()
		h := Head(l.Head())
		l.mu.Unlock()
		if q.selectsDue(h.Due) && !yieldHead(ctx, h, yield) {
			return false
		}
	}
	return true
}

// selectsDue reports whether the DueBefore of q selects a log.
func (q RootQuery) selectsDue(due time.Time) bool {
	return q.DueBefore.IsZero() || !due.IsZero() && due.Before(q.DueBefore)
}

// yieldHead yields the error of ctx if there is one, else h. It skips a log to which nothing was
// ever appended. It reports whether the loop goes on.
func yieldHead(ctx context.Context, h Head, yield func(Head, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(Head{}, fmt.Errorf("session: roots: %w", err))
		return false
	}
	return h.Last == 0 || yield(h, nil)
}

// inShard returns the logs of one part of the table.
func (j *memoryJournal) inShard(i int) []*memoryLog {
	shard := &j.shards[i]
	shard.RLock()
	defer shard.RUnlock()
	logs := make([]*memoryLog, 0, len(shard.logs))
	for _, l := range shard.logs {
		logs = append(logs, l)
	}
	return logs
}
