package session

import (
	"container/heap"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// shards is how many parts the table of logs has. Only making a log locks a part for writing.
const shards = 64

// A memoryJournal is a [Journal] that lives and dies with the process.
type memoryJournal struct {
	seed   maphash.Seed
	closed atomic.Bool
	due    dueIndex
	shards [shards]struct {
		sync.RWMutex
		logs map[Key]*memoryLog
	}
}

// A memoryLog is one log. Batches are kept as they were given: entry i of a batch has the sequence first+i.
type memoryLog struct {
	root Key
	slot dueSlot // guarded by the dueIndex

	mu      sync.Mutex
	last    Seq
	due     time.Time
	indexed time.Time     // what the dueIndex holds for this log: no later than due, unless due is zero
	batches []memoryBatch // only ever appended to or replaced, so a reader may keep what it saw
}

type memoryBatch struct {
	first   Seq
	id      BatchID
	entries []Entry
}

func newMemoryJournal() *memoryJournal {
	j := &memoryJournal{seed: maphash.MakeSeed()}
	for i := range j.shards {
		j.shards[i].logs = make(map[Key]*memoryLog)
	}
	return j
}

// Close makes every later call fail with [ErrClosed].
func (j *memoryJournal) Close() error {
	j.closed.Store(true)
	return nil
}

// check says why nothing can be done now.
func (j *memoryJournal) check(ctx context.Context) error {
	if j.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// log returns the log of root, nil if there is none and it is not to be made.
func (j *memoryJournal) log(root Key, create bool) *memoryLog {
	shard := &j.shards[maphash.String(j.seed, root.s)%shards]
	shard.RLock()
	l := shard.logs[root]
	shard.RUnlock()
	if l != nil || !create {
		return l
	}
	shard.Lock()
	defer shard.Unlock()
	if l = shard.logs[root]; l == nil {
		l = &memoryLog{root: root, slot: dueSlot{pos: -1}}
		shard.logs[root] = l
	}
	return l
}

func (j *memoryJournal) Append(ctx context.Context, root Key, after Seq, b Batch) (Seq, error) {
	if root.IsZero() {
		return 0, fmt.Errorf("session: append: root %q: %w", root, ErrInvalidKey)
	}
	if err := b.Validate(); err != nil {
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
	if l.last != after {
		return 0, fmt.Errorf("session: append to %q after %d, which ends at %d: %w", root, after, l.last, ErrConflict)
	}
	batch := memoryBatch{first: after + 1, id: b.ID, entries: b.Entries}
	if b.Reset {
		l.batches = []memoryBatch{batch}
	} else {
		l.batches = append(l.batches, batch)
	}
	l.last += Seq(len(b.Entries))
	l.due = b.Due
	if !l.due.IsZero() && (l.indexed.IsZero() || l.due.Before(l.indexed)) {
		l.indexed = l.due
		j.due.set(l, l.due)
	}
	return l.last, nil
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
		for _, b := range l.since(after) {
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

// since returns the batches that reach beyond after.
func (l *memoryLog) since(after Seq) []memoryBatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	low, high := 0, len(l.batches)
	for low < high {
		mid := (low + high) / 2
		if b := &l.batches[mid]; b.first+Seq(len(b.entries)) <= after+1 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return l.batches[low:]
}

func (j *memoryJournal) Roots(ctx context.Context, q RootQuery) iter.Seq2[Head, error] {
	return func(yield func(Head, error) bool) {
		if err := j.check(ctx); err != nil {
			yield(Head{}, fmt.Errorf("session: roots: %w", err))
			return
		}
		if !q.DueBefore.IsZero() {
			j.yieldDue(ctx, q.DueBefore, yield)
			return
		}
		for i := range j.shards {
			for _, l := range j.inShard(i) {
				if !yieldHead(ctx, l.head(), yield) {
					return
				}
			}
		}
	}
}

// yieldDue yields the logs that are due, and mends the index where it was early.
func (j *memoryJournal) yieldDue(ctx context.Context, before time.Time, yield func(Head, error) bool) {
	for _, l := range j.due.before(before) {
		l.mu.Lock()
		h := Head{Root: l.root, Last: l.last, Due: l.due}
		due := !l.due.IsZero() && l.due.Before(before)
		if !due {
			l.indexed = l.due
			j.due.set(l, l.due)
		}
		l.mu.Unlock()
		if due && !yieldHead(ctx, h, yield) {
			return
		}
	}
}

// yieldHead yields h, which is no log if nothing was ever appended to it, or the error of ctx.
func yieldHead(ctx context.Context, h Head, yield func(Head, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(Head{}, fmt.Errorf("session: roots: %w", err))
		return false
	}
	return h.Last == 0 || yield(h, nil)
}

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

func (l *memoryLog) head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Head{Root: l.root, Last: l.last, Due: l.due}
}

// A dueIndex orders logs by a time that is no later than when they are due. A log that moves to a later time or to never stays where
// it is until somebody asks for what is due, so a busy log rarely touches the index. A log's lock is taken before that of the index.
type dueIndex struct {
	mu   sync.Mutex
	logs dueHeap
}

// A dueSlot is the place of a log in the index.
type dueSlot struct {
	at  time.Time
	pos int // -1 if the log is not in the index
}

// set moves l to the time at, or out of the index if that is zero.
func (x *dueIndex) set(l *memoryLog, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l.slot.at = at
	switch in := l.slot.pos >= 0; {
	case in && at.IsZero():
		heap.Remove(&x.logs, l.slot.pos)
	case in:
		heap.Fix(&x.logs, l.slot.pos)
	case !at.IsZero():
		heap.Push(&x.logs, l)
	}
}

// before returns the logs whose indexed time is before t, looking at no more than three times as many.
func (x *dueIndex) before(t time.Time) []*memoryLog {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []*memoryLog
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		if i := queue[0]; i < len(x.logs) && x.logs[i].slot.at.Before(t) {
			found = append(found, x.logs[i])
			queue = append(queue, 2*i+1, 2*i+2)
		}
	}
	return found
}

// dueHeap is a heap of logs for package heap, the earliest first.
type dueHeap []*memoryLog

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].slot.at.Before(h[j].slot.at) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot.pos, h[j].slot.pos = i, j
}

func (h *dueHeap) Push(x any) {
	l := x.(*memoryLog)
	l.slot.pos = len(*h)
	*h = append(*h, l)
}

func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.slot.pos = -1
	return l
}
