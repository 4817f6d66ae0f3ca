package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// A dirJournal is a [Journal] in a directory: one write-ahead log for all trees, and an index of where in it each tree's batches are.
// A tree that is never due leaves the log and the index when the log is compacted; see idleLogs.
type dirJournal struct {
	log     *wal.Log // nil: read-only
	view    func() (*wal.View, error)
	idle    idleLogs
	due     dueIndex
	release func() error // once, after Close

	closed     atomic.Bool
	compactor  sync.WaitGroup
	compaction sync.Mutex // held by the one that is under way

	mu         sync.Mutex // taken before that of the wal, and before that of the dueIndex
	logs       map[Key]*dirLog
	live       int64 // bytes of the log that compacting it would keep
	slack      int64 // how many bytes the log may grow beyond twice that
	compacting bool
	resting    int64 // the log is not compacted before it is so large
}

// defaultSlack is how many bytes a log has before anybody thinks of compacting it.
const defaultSlack = 1 << 20

// A dirLog is where one log is. The journal's mu guards it.
type dirLog struct {
	dueItem
	frames []dirFrame    // only ever appended to or replaced, so a reader may keep what it saw
	bytes  int64         // of frames
	thawed int64         // of these, those that were idle before
	busy   chan struct{} // closed when the append that is under way has ended, nil if there is none
	cold   bool          // what there is of the log is idle
}

// A dirFrame is where one batch is.
type dirFrame struct {
	off   int64
	len   uint32
	n     uint32
	first Seq
}

func (f dirFrame) span() wal.Span { return wal.Span{Off: f.off, Len: f.len} }
func (f dirFrame) last() Seq      { return f.first + Seq(f.n) - 1 }

// weight returns how much of l the next compaction keeps, or has to write again because it was taken from the idle logs.
func (l *dirLog) weight() int64 {
	if l.due.IsZero() && l.root.IsValid() {
		return l.thawed
	}
	return l.bytes
}

func newDirJournal(fsys disk.FS, dir string, release func() error) *dirJournal {
	return &dirJournal{idle: newIdleLogs(fsys, dir), release: release, logs: make(map[Key]*dirLog), slack: defaultSlack}
}

func openJournal(fsys disk.FS, dir string, release func() error) (*dirJournal, error) {
	j := newDirJournal(fsys, dir, release)
	begun, err := wal.Exists(fsys, dir)
	if err == nil && !begun {
		err = j.idle.none()
	}
	if err != nil {
		return nil, logError(err)
	}
	if j.log, _, err = wal.Open(fsys, dir, j.replay); err != nil {
		return nil, logError(err)
	}
	j.view = j.log.View
	j.scheduleAll()
	return j, nil
}

// viewJournal returns a journal as it is at the moment, which nobody can append to.
func viewJournal(fsys disk.FS, dir string) (*dirJournal, error) {
	j := newDirJournal(fsys, dir, nil)
	view, _, err := wal.OpenView(fsys, dir, func() { clear(j.logs) }, j.replay)
	if err != nil {
		return nil, logError(err)
	}
	j.release = view.Close
	j.view = func() (*wal.View, error) { return view.Share(), nil }
	j.scheduleAll()
	return j, nil
}

// known returns the root of a name that is likely one of a log that is known.
func (j *dirJournal) known(name string) (Key, error) {
	if l := j.logs[Key{name}]; l != nil {
		return l.root, nil
	}
	return ParseRoot(name)
}

// replay takes a frame of the log into the index.
func (j *dirJournal) replay(at wal.Span, kind wal.Kind, payload []byte) error {
	if kind != frameBatch && kind != frameImage {
		return &wal.FormatError{What: fmt.Sprintf("frame kind %d", kind)}
	}
	b, err := parseBatch(payload, j.known)
	if err != nil {
		return err
	}
	l := j.logs[b.root]
	if l == nil {
		l = j.newLog(b.root)
		j.logs[b.root] = l
	}
	j.live -= l.weight()
	if kind == frameImage {
		l.last, l.frames, l.bytes = b.after, nil, 0
	}
	if l.last != b.after {
		return fmt.Errorf("a batch of %q after entry %d follows entry %d", b.root, b.after, l.last)
	}
	l.add(at, b)
	j.live += l.weight()
	return nil
}

func (j *dirJournal) newLog(root Key) *dirLog {
	return &dirLog{dueItem: dueItem{root: root, lock: &j.mu}}
}

// add puts a batch at the end of l.
func (l *dirLog) add(at wal.Span, b storedBatch) {
	if b.reset {
		l.frames, l.bytes, l.thawed = nil, 0, 0
	}
	l.frames = append(l.frames, dirFrame{off: at.Off, len: at.Len, n: uint32(b.n), first: b.after + 1})
	l.bytes += at.Size()
	l.last, l.due = b.last(), b.due
}

func (j *dirJournal) scheduleAll() {
	for _, l := range j.logs {
		j.due.schedule(&l.dueItem)
	}
}

// check says why nothing can be done now.
func (j *dirJournal) check(ctx context.Context) error {
	if j.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

func (j *dirJournal) Append(ctx context.Context, root Key, after Seq, b Batch) (Seq, error) {
	if root.IsZero() {
		return 0, fmt.Errorf("session: append: root %q: %w", root, ErrInvalidKey)
	}
	last, err := j.append(ctx, root, after, b)
	if err != nil {
		return 0, fmt.Errorf("session: append to %q: %w", root, logError(err))
	}
	j.maybeCompact()
	return last, nil
}

func (j *dirJournal) append(ctx context.Context, root Key, after Seq, b Batch) (Seq, error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	if err := j.check(ctx); err != nil {
		return 0, err
	}
	if j.log == nil {
		return 0, ErrReadOnly
	}
	buf := payloads.Get().(*[]byte)
	payload, err := appendBatch((*buf)[:0], root, after, b)
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
	if err == nil && cap(payload) <= maxPooled { // after an error somebody may still have it
		*buf = payload
		payloads.Put(buf)
	}
	return stored.last(), err
}

// payloads are buffers for batches, which the log needs no longer once they are durable.
var payloads = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is how many bytes a buffer may have that is kept.
const maxPooled = 64 << 10

// claim waits until nobody else appends to the log and makes sure that it ends at after. Until settle is called nobody else can. If the log is
// idle, what there is of it must be written again before the batch.
func (j *dirJournal) claim(ctx context.Context, root Key, after Seq) (*dirLog, thaw, error) {
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
		case l.last != after:
			last := l.last
			j.mu.Unlock()
			return nil, thaw{}, movedOn(after, last)
		}
		l.busy = make(chan struct{})
		j.mu.Unlock()
		return l, thaw{}, nil
	}
}

func movedOn(after, last Seq) error {
	return fmt.Errorf("after %d, but it ends at %d: %w", after, last, ErrConflict)
}

func (j *dirJournal) claimCold(l *dirLog, after Seq) (*dirLog, thaw, error) {
	cold, err := j.idle.read(l.root)
	if err == nil && cold.last != after {
		err = movedOn(after, cold.last)
	}
	if err != nil {
		j.settle(l, nil, cold, storedBatch{}, err)
		return nil, thaw{}, err
	}
	return l, cold, nil
}

// settle takes what was appended into the index, or nothing if it was not, and lets the next one at the log.
func (j *dirJournal) settle(l *dirLog, at []wal.Span, cold thaw, b storedBatch, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(l.busy)
	l.busy = nil
	if err != nil {
		if l.cold {
			delete(j.logs, l.root)
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
	j.due.schedule(&l.dueItem)
}

func (j *dirJournal) Read(ctx context.Context, root Key, after Seq) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := j.read(ctx, root, after, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, fmt.Errorf("session: read %q: %w", root, logError(err)))
		}
	}
}

func (j *dirJournal) read(ctx context.Context, root Key, after Seq, yield func(Entry) bool) error {
	if err := j.check(ctx); err != nil {
		return err
	}
	frames, view, err := j.frames(root)
	if err != nil {
		return err
	}
	if view == nil {
		cold, err := j.idle.read(root)
		if err != nil {
			return err
		}
		for i := range cold.batches {
			if more, err := yieldBatch(&cold.batches[i], after, yield); !more {
				return err
			}
		}
		return nil
	}
	defer view.Close() //nolint:errcheck // nothing was written
	for _, f := range frames[sort.Search(len(frames), func(i int) bool { return frames[i].last() > after }):] {
		if err := j.check(ctx); err != nil {
			return err
		}
		_, payload, err := view.Read(f.span())
		if err != nil {
			return err
		}
		b, err := parseBatch(payload, func(string) (Key, error) { return root, nil })
		if err != nil {
			return err
		}
		if more, err := yieldBatch(&b, after, yield); !more {
			return err
		}
	}
	return nil
}

// frames returns where the batches of a log are, and a view of them, nil if they are not in the write-ahead log.
func (j *dirJournal) frames(root Key) ([]dirFrame, *wal.View, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.logs[root]
	if l == nil || l.cold {
		return nil, nil, nil
	}
	view, err := j.view()
	return l.frames, view, err
}

// yieldBatch yields the entries after a sequence. It returns false if there is nothing more to do.
func yieldBatch(b *storedBatch, after Seq, yield func(Entry) bool) (more bool, err error) {
	more = true
	err = b.each(func(seq Seq, payload Raw) bool {
		more = seq <= after || yield(Entry{Seq: seq, Batch: b.id, Payload: payload})
		return more
	})
	return more && err == nil, err
}

func (j *dirJournal) Roots(ctx context.Context, q RootQuery) iter.Seq2[Head, error] {
	return func(yield func(Head, error) bool) {
		err := j.check(ctx)
		if err == nil && q.DueBefore.IsZero() {
			err = j.all(ctx, func(h Head) bool { return yield(h, nil) })
		} else if err == nil {
			err = j.dueBefore(ctx, q.DueBefore, func(h Head) bool { return yield(h, nil) })
		}
		if err != nil {
			yield(Head{}, fmt.Errorf("session: roots: %w", logError(err)))
		}
	}
}

// dueBefore yields the logs that are due.
func (j *dirJournal) dueBefore(ctx context.Context, before time.Time, yield func(Head) bool) (err error) {
	j.due.due(before, func(h Head) bool {
		err = j.check(ctx)
		return err == nil && yield(h)
	})
	return err
}

// all yields every log: those of the index, then the idle ones that are not among them.
func (j *dirJournal) all(ctx context.Context, yield func(Head) bool) error {
	j.mu.Lock()
	heads := make(map[Key]Head, len(j.logs))
	for root, l := range j.logs {
		if !l.cold {
			heads[root] = l.head()
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
	for h, err := range j.idle.heads() {
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

// Close waits for what is being written. Every later call fails with [ErrClosed].
func (j *dirJournal) Close() error {
	if !j.shut() {
		return nil
	}
	j.compactor.Wait()
	var err error
	if j.log != nil {
		err = j.log.Close()
	}
	return errors.Join(logError(err), j.release())
}

// shut closes the journal to whoever comes, and reports whether it was open. No compaction begins any more.
func (j *dirJournal) shut() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.closed.Swap(true)
}
