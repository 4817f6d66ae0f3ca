package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/due"
)

// A journal is a [session.Journal] in a directory. It has one write-ahead log for all trees, and an
// index of the places of each tree's batches in the log. When the log is compacted, a tree that is
// never due moves from the log and the index into idleLogs.
type journal struct {
	log      *wal.Log                  // nil if the journal is read-only
	view     func() (*wal.View, error) // returns a view of the log as it is now
	idle     idleLogs
	due      due.Index[session.Key, session.Seq]
	maxBatch int          // the most bytes of a batch as it is written
	syncs    int          // how many idle logs are written at a time
	hold     *hold        // of the directory; nil if the journal is read-only
	release  func() error // called once, at the end of Close
	lines    *lineLog     // the lines of transcripts in the log

	settleLines func() error // makes the files of transcripts durable, before a compaction
	closeLines  func() error // likewise, before the log is closed

	closed     atomic.Bool
	compactor  sync.WaitGroup // the compaction in the background
	compaction sync.Mutex     // held during a compaction

	mu           sync.Mutex // taken before the mutexes of the log and of due
	logs         map[session.Key]*treeLog
	members      map[keyID][]*treeLog   // the trees that have a member; almost always one
	parsedRoots  map[string]session.Key // by their text, while the log is replayed; nil afterwards
	live         int64                  // bytes of the log that the next compaction keeps
	slack        int64                  // bytes that the log may grow beyond twice live
	compacting   bool                   // a compaction runs in the background
	compactAbove int64                  // bytes of the log before which it is not compacted again
	compactErr   error                  // why the last compaction failed, or nil
}

// defaultSlack is the number of bytes that a log may have before it is compacted at all.
const defaultSlack = 1 << 20

// A treeLog is the index entry of one tree. The journal's mu guards it.
type treeLog struct {
	due.Item[session.Key, session.Seq]
	frames   []batchSpan   // only appended to or replaced, so a reader may keep the slice
	members  []keyID       // each once
	bytes    int64         // of the frames in the log
	restored int64         // of these, bytes that were copied back from the idle logs
	busy     chan struct{} // closed when the append under way ends; nil if there is none
	idleOnly bool          // the tree is in the idle logs alone; an append is under way
}

// A batchSpan is the place of one batch in the log, and the sequences that it has.
type batchSpan struct {
	off   int64
	len   uint32
	n     uint32
	first session.Seq // of its n entries
}

func (f batchSpan) span() wal.Span    { return wal.Span{Off: f.off, Len: f.len} }
func (f batchSpan) last() session.Seq { return f.first + session.Seq(f.n) - 1 }

// liveBytes returns the bytes of l that the next compaction writes again. A tree that is never due
// counts only with what was copied back from the idle logs. The reserved root is never idle.
func (l *treeLog) liveBytes() int64 {
	if l.Due.IsZero() && l.Root.IsValid() {
		return l.restored
	}
	return l.bytes
}

func newJournal(fsys disk.FS, dir string, release func() error) *journal {
	return &journal{
		idle: newIdleLogs(fsys, dir), maxBatch: wal.MaxPayload, release: release,
		syncs:       syncsAtATime,
		logs:        make(map[session.Key]*treeLog),
		members:     make(map[keyID][]*treeLog),
		parsedRoots: make(map[string]session.Key), slack: defaultSlack,
		lines:       newLineLog(),
		settleLines: func() error { return nil },
		closeLines:  func() error { return nil },
	}
}

// openJournal opens the journal in a directory, and begins one if there is none.
func openJournal(fsys disk.FS, dir string, release func() error) (*journal, error) {
	j := newJournal(fsys, dir, release)
	if err := j.idle.checkLog(); err != nil {
		return nil, logError(err)
	}
	var err error
	if j.log, _, err = wal.Open(fsys, dir, j.replay); err != nil {
		return nil, logError(err)
	}
	j.view = j.log.View
	j.lines.finishReplay(j.log)
	j.lines.grown = j.compactIfNeeded
	j.finishReplay()
	return j, nil
}

// viewJournal returns a read-only journal as it is now.
func viewJournal(fsys disk.FS, dir string) (*journal, error) {
	j := newJournal(fsys, dir, nil)
	restart := func() { clear(j.logs); clear(j.members); j.lines.restart() }
	view, _, err := wal.OpenView(fsys, dir, restart, j.replay)
	if errors.Is(err, fs.ErrNotExist) {
		err = missingLog(fsys, filepath.Dir(dir), err)
	}
	if err != nil {
		return nil, logError(err)
	}
	j.release = view.Close
	j.view = func() (*wal.View, error) { return view.Share(), nil }
	j.finishReplay()
	return j, nil
}

// parseRoot parses a root during replay. Replay meets a root once for each batch of the tree, and
// parses it once.
func (j *journal) parseRoot(name string) (session.Key, error) {
	if root, ok := j.parsedRoots[name]; ok {
		return root, nil
	}
	root, err := session.ParseRoot(name)
	if err == nil {
		j.parsedRoots[name] = root
	}
	return root, err
}

// replay adds a frame of the log to the index.
func (j *journal) replay(at wal.Span, kind wal.Kind, payload []byte) error {
	if ok, err := j.lines.replay(at, kind, payload); ok || err != nil {
		return err
	}
	if kind != frameBatch && kind != frameFirst {
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
	j.live -= l.liveBytes()
	if kind == frameFirst {
		if err := b.checkFirst(); err != nil {
			return err
		}
		l.Last, l.frames, l.bytes = b.after, nil, 0
		j.dropMembers(l)
	}
	if l.Last != b.after {
		return fmt.Errorf("a batch of %q after entry %d follows entry %d", b.root, b.after, l.Last)
	}
	j.addBatch(l, at, &b)
	j.live += l.liveBytes()
	return nil
}

func (j *journal) newLog(root session.Key) *treeLog {
	return &treeLog{Item: due.Item[session.Key, session.Seq]{Root: root, Lock: &j.mu}}
}

// addBatch adds a batch to the end of l. The caller holds mu, unless it replays the log.
func (j *journal) addBatch(l *treeLog, at wal.Span, b *storedBatch) {
	j.addMembers(l, b)
	if b.reset {
		l.frames, l.bytes, l.restored = nil, 0, 0
	}
	span := batchSpan{off: at.Off, len: at.Len, n: uint32(b.n), first: b.after + 1}
	l.frames = append(l.frames, span)
	l.bytes += at.Size()
	l.Last, l.Due = b.last(), b.due
}

// finishReplay makes the index of due trees from the replayed ones.
func (j *journal) finishReplay() {
	j.parsedRoots = nil
	for _, l := range j.logs {
		j.due.Schedule(&l.Item)
	}
}

// check returns the error of a call on a closed journal or with a ctx that is done.
func (j *journal) check(ctx context.Context) error {
	if j.closed.Load() {
		return session.ErrClosed
	}
	return ctx.Err()
}

// Health returns the error that all appends get, if the journal knows that already. It looks
// whether the directory is where it was and is still held by this process. Otherwise it returns the
// error of the last compaction in the background, of which no caller was told: the log grows, and
// is complete all the same. See [session.Store.Health].
func (j *journal) Health(ctx context.Context) error {
	err := j.check(ctx)
	if err == nil {
		err = j.hold.check()
	}
	if err == nil && j.log != nil {
		err = logError(j.log.Err())
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.compactErr
}

// Close waits for appends and for the compaction. Every later call fails with [session.ErrClosed].
// Close returns the rot that a compaction has found, because no caller may have read it, and that
// lines which waited for a batch could not be written.
func (j *journal) Close() error {
	if !j.markClosed() {
		return nil
	}
	j.compactor.Wait()
	unwritten := j.closeLines()
	var err error
	if j.log != nil {
		err = j.log.Close()
	}
	var rot error
	if errors.Is(j.compactErr, session.ErrCorrupt) || errors.Is(j.compactErr, session.ErrFormat) {
		rot = j.compactErr
	}
	return errors.Join(unwritten, logError(err), rot, j.release())
}

// markClosed closes the journal to later calls, and reports whether it was open. No compaction
// begins after it.
func (j *journal) markClosed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.closed.Swap(true)
}
