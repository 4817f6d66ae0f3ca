package dirstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/due"
)

// A journal is a [session.Journal] in a directory: one write-ahead log for all trees, and an index
// of where in it each tree's batches are. A tree that is never due leaves the log and the index
// when the log is compacted; see idleLogs.
type journal struct {
	log      *wal.Log // nil: read-only
	view     func() (*wal.View, error)
	idle     idleLogs
	due      due.Index[session.Key, session.Seq]
	maxBatch int          // bytes, as a batch is written
	release  func() error // once, after Close

	closed     atomic.Bool
	compactor  sync.WaitGroup
	compaction sync.Mutex // held by the one that is under way

	mu         sync.Mutex // taken before that of the wal, and before that of the index
	logs       map[session.Key]*treeLog
	replayed   map[string]session.Key // the roots that replay has met, by their text; nil after it
	live       int64                  // bytes of the log that compacting it would keep
	slack      int64                  // how many bytes the log may grow beyond twice that
	compacting bool
	resting    int64 // the log is not compacted before it is so large
	unfit      error // why the log could not be compacted the last time
}

// defaultSlack is how many bytes a log has before it is compacted.
const defaultSlack = 1 << 20

// A treeLog is where one log is. The journal's mu guards it.
type treeLog struct {
	due.Item[session.Key, session.Seq]
	frames []batchSpan   // only ever appended to or replaced, so a reader may keep what it saw
	bytes  int64         // of frames
	thawed int64         // of these, those that were idle before
	busy   chan struct{} // closed when the append that is under way has ended, nil if there is none
	cold   bool          // what there is of the log is idle
}

// A batchSpan is where one batch is.
type batchSpan struct {
	off   int64
	len   uint32
	n     uint32
	first session.Seq
}

func (f batchSpan) span() wal.Span    { return wal.Span{Off: f.off, Len: f.len} }
func (f batchSpan) last() session.Seq { return f.first + session.Seq(f.n) - 1 }

// weight returns how much of l the next compaction keeps, or has to write again because it was
// taken from the idle logs.
func (l *treeLog) weight() int64 {
	if l.Due.IsZero() && l.Root.IsValid() {
		return l.thawed
	}
	return l.bytes
}

func newJournal(fsys disk.FS, dir string, release func() error) *journal {
	return &journal{
		idle: newIdleLogs(fsys, dir), maxBatch: wal.MaxPayload, release: release, logs: make(map[session.Key]*treeLog),
		replayed: make(map[string]session.Key), slack: defaultSlack,
	}
}

func openJournal(fsys disk.FS, dir string, release func() error) (*journal, error) {
	j := newJournal(fsys, dir, release)
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
	j.replayEnded()
	return j, nil
}

// viewJournal returns a journal as it is at the moment, to which nothing can be appended.
func viewJournal(fsys disk.FS, dir string) (*journal, error) {
	j := newJournal(fsys, dir, nil)
	view, _, err := wal.OpenView(fsys, dir, func() { clear(j.logs) }, j.replay)
	if err != nil {
		return nil, logError(err)
	}
	j.release = view.Close
	j.view = func() (*wal.View, error) { return view.Share(), nil }
	j.replayEnded()
	return j, nil
}

// parseRoot returns the root of a name, which replay meets once for each batch of the tree and
// parses once.
func (j *journal) parseRoot(name string) (session.Key, error) {
	if root, ok := j.replayed[name]; ok {
		return root, nil
	}
	root, err := session.ParseRoot(name)
	if err == nil {
		j.replayed[name] = root
	}
	return root, err
}

// replay takes a frame of the log into the index.
func (j *journal) replay(at wal.Span, kind wal.Kind, payload []byte) error {
	if kind != frameBatch && kind != frameImage {
		return &wal.FormatError{What: fmt.Sprintf("frame kind %d", kind)}
	}
	b, err := parseBatch(payload, j.parseRoot)
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
		l.Last, l.frames, l.bytes = b.after, nil, 0
	}
	if l.Last != b.after {
		return fmt.Errorf("a batch of %q after entry %d follows entry %d", b.root, b.after, l.Last)
	}
	l.add(at, b)
	j.live += l.weight()
	return nil
}

func (j *journal) newLog(root session.Key) *treeLog {
	return &treeLog{Item: due.Item[session.Key, session.Seq]{Root: root, Lock: &j.mu}}
}

// add puts a batch at the end of l.
func (l *treeLog) add(at wal.Span, b storedBatch) {
	if b.reset {
		l.frames, l.bytes, l.thawed = nil, 0, 0
	}
	l.frames = append(l.frames, batchSpan{off: at.Off, len: at.Len, n: uint32(b.n), first: b.after + 1})
	l.bytes += at.Size()
	l.Last, l.Due = b.last(), b.due
}

// replayEnded makes the index of what replay has found.
func (j *journal) replayEnded() {
	j.replayed = nil
	for _, l := range j.logs {
		j.due.Schedule(&l.Item)
	}
}

// check says why nothing can be done now.
func (j *journal) check(ctx context.Context) error {
	if j.closed.Load() {
		return session.ErrClosed
	}
	return ctx.Err()
}

// Health returns why nothing can be appended any more, if the journal knows that, or why the log
// could not be compacted, if no caller has asked for that: it grows then, and is otherwise as good
// as before. See [session.Store.Health].
func (j *journal) Health(ctx context.Context) error {
	err := j.check(ctx)
	if err == nil && j.log != nil {
		err = logError(j.log.Err())
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unfit
}

// Close waits for what is being written. Every later call fails with [session.ErrClosed]. What
// compaction has found to be rot, and no caller may have read, is said once more.
func (j *journal) Close() error {
	if !j.shut() {
		return nil
	}
	j.compactor.Wait()
	var err error
	if j.log != nil {
		err = j.log.Close()
	}
	var rot error
	if errors.Is(j.unfit, session.ErrCorrupt) || errors.Is(j.unfit, session.ErrFormat) {
		rot = j.unfit
	}
	return errors.Join(logError(err), rot, j.release())
}

// shut closes the journal to later calls, and reports whether it was open. No compaction begins any
// more.
func (j *journal) shut() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.closed.Swap(true)
}
