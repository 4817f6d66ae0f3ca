package wal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// maxGroup is the most bytes that share one write and one sync, unless a single request has more.
const maxGroup = 8 << 20

// A Record is one frame to write.
type Record struct {
	Kind    Kind
	Payload []byte
}

// A Log is one write-ahead log that is open for writing. Its methods may be called from several
// goroutines at once. Make one with [Open].
type Log struct {
	fs    disk.FS
	dir   string
	limit int // of a payload, in bytes
	rooms roomSize

	// commitMu is held while a group is written, and at the beginning and the end of a rewrite.
	// It guards the fields up to the blank line.
	commitMu sync.Mutex
	buf      []byte // the frames of the group, kept for the next one
	torn     bool   // there may be bytes beyond the end that are not room
	room     int64  // how many zeros there are beyond the end; see makeRoom
	sealed   bool   // the last frame is a seal
	mark     endMark

	// mu guards the fields below it. It is taken after commitMu. file and end change only while
	// both are held.
	mu           sync.Mutex
	file         *file
	pins         map[*file]int // the number of open Views by their file
	end          int64         // every byte before it is durable
	queue        []*request    // the requests that no group has yet
	flushing     bool          // flush is running
	failed       error         // not nil: every Append returns it
	closed       bool          // Close was called
	fileReleased bool          // the last View closes the file
	flushers     sync.WaitGroup
}

// A request is one call of Append.
type request struct {
	records []Record
	heads   []frameHead // with the checksums of the payloads
	size    int64       // of the frames, in bytes
	spans   []Span
	err     error
	notify  func([]Span, error)
	done    chan struct{}
}

// Open opens the log in a directory that exists, and begins one if there is none. It calls replay
// with every frame, cuts off a torn tail, and returns once the rest is durable. The caller must own
// the directory exclusively, because Open removes what a rewrite left there. The error is a
// [CorruptError] or a [FormatError] if the file cannot be relied on, and the file stays as it is.
func Open(fsys disk.FS, dir string, replay Replay) (*Log, Report, error) {
	gens, temporary, err := generations(fsys, dir)
	if err != nil {
		return nil, Report{}, err
	}
	for _, name := range temporary {
		if err := fsys.Remove(name); err != nil && !isNotExist(err) {
			return nil, Report{}, fmt.Errorf("wal: %w", err)
		}
	}
	mark, err := knownMark(fsys, dir)
	if err != nil {
		return nil, Report{}, err
	}
	gen, err := mark.newest(dir, gens)
	if err != nil {
		return nil, Report{}, err
	}
	if gen == 0 {
		gen = 1
		empty := func(*Writer) error { return nil }
		if err := WriteFile(fsys, fileName(dir, gen), empty); err != nil {
			return nil, Report{}, err
		}
	}
	f, err := fsys.OpenFile(fileName(dir, gen), os.O_RDWR)
	if err != nil {
		return nil, Report{}, fmt.Errorf("wal: %w", err)
	}
	l := &Log{
		fs: fsys, dir: dir, limit: MaxPayload, rooms: usualRoom,
		file: &file{f: f, name: fileName(dir, gen), gen: gen}, pins: make(map[*file]int),
		mark: mark,
	}
	report, err := l.restore(replay)
	if err == nil {
		// The name of this file must be durable before the older files are removed.
		if err = fsys.SyncDir(dir); err != nil {
			err = fileError("sync", dir, err)
		}
	}
	if err != nil {
		return nil, report, errors.Join(err, f.Close())
	}
	for _, old := range gens[:max(len(gens)-1, 0)] {
		_ = fsys.Remove(fileName(dir, old)) // the next Open tries again
	}
	return l, report, nil
}

// restore replays the log, cuts off a torn tail, and makes the rest durable.
func (l *Log) restore(replay Replay) (Report, error) {
	f := l.file.f
	size, err := f.Size()
	if err != nil {
		return Report{}, fmt.Errorf("wal: %w", err)
	}
	s := &scan{name: l.file.name, f: f, size: size, gen: l.file.gen, mark: l.mark}
	if err := s.run(replay); err != nil {
		return s.report(), err
	}
	if err := l.cutTorn(s.end, s.size, size); err != nil {
		return s.report(), err
	}
	if err := s.rewriteTail(); err != nil {
		return s.report(), fileError("write again", s.name, err)
	}
	l.file.id, l.end, l.sealed = s.id, s.end, s.sealed
	return s.report(), nil
}

// cutTorn cuts off a torn tail, which is between the offsets end and torn, and the room behind it.
// It first saves the tail in a .torn file for a person to look at, unless the tail is too short for
// a payload. So no byte is lost if the last group has rotted in fact.
func (l *Log) cutTorn(end, torn, size int64) error {
	if end >= size {
		return nil
	}
	f := l.file
	if torn-end > frameLen {
		if _, err := disk.SaveTorn(l.fs, f.f, f.name, end, torn); err != nil {
			return fileError("save the torn end of", f.name, err)
		}
	}
	if err := f.f.Truncate(end); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

// rewriteTail writes the part that no frame proves durable once more, a seal at the end included.
// The process before may have failed to sync it, and then the system may show bytes that the disk
// does not have.
func (s *scan) rewriteTail() error {
	for off := s.proved; off < s.end; {
		part, err := s.bytes(off, int(min(chunkSize, s.end-off)))
		if err != nil {
			return err
		}
		if _, err := s.f.WriteAt(part, off); err != nil {
			return err
		}
		off += int64(len(part))
	}
	return s.f.Sync()
}

// Size returns the length of the durable part of the log, in bytes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Append writes the records next to each other, all of them or none, and returns once they are
// durable.
//
// Append calls notify exactly once, with the places of the records or with the error. The calls
// come in the order of the log. notify must not block and must not call the Log. If ctx is done
// meanwhile, Append returns its error at once and may call notify later; it uses the payloads until
// then.
//
// An error, unless ctx was done, means that the log does not have the records. One exception is
// [ErrSync] from the very Append whose sync fails. The other is a write that failed after it had
// written a whole group and that could not be cut off: the next write cuts it off, but an Open
// before that may find it.
func (l *Log) Append(ctx context.Context, records []Record, notify func([]Span, error)) error {
	r, err := l.request(records, notify)
	if err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	if l.withdraw(r) {
		notify(nil, ctx.Err())
		return ctx.Err()
	}
	select {
	case <-r.done:
		return r.err
	default:
		return ctx.Err()
	}
}

// Write is Append for a caller that waits for the outcome, however long the disk takes.
func (l *Log) Write(records []Record, notify func([]Span, error)) error {
	r, err := l.request(records, notify)
	if err != nil {
		return err
	}
	<-r.done
	return r.err
}

// request adds a request to the queue. After an error it has called notify.
func (l *Log) request(records []Record, notify func([]Span, error)) (*request, error) {
	r := &request{
		records: records, heads: make([]frameHead, len(records)),
		notify: notify, done: make(chan struct{}),
	}
	for i, rec := range records {
		if err := checkSize(rec.Payload, l.limit); err != nil {
			notify(nil, err)
			return nil, err
		}
		r.heads[i] = payloadHead(rec.Kind, rec.Payload)
		r.size += frameLen + int64(len(rec.Payload))
	}
	if err := l.enqueue(r); err != nil {
		notify(nil, err)
		return nil, err
	}
	return r, nil
}

// enqueue adds r to the queue, and starts flush if it is not running.
func (l *Log) enqueue(r *request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrClosed
	case l.failed != nil:
		return l.failed
	}
	l.queue = append(l.queue, r)
	if !l.flushing {
		l.flushing = true
		l.flushers.Go(l.flush)
	}
	return nil
}

// withdraw removes r from the queue. It reports false if a group has r already.
func (l *Log) withdraw(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, r)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	return true
}

// flush writes group after group until the queue is empty.
func (l *Log) flush() {
	last := 0
	for {
		group := l.nextGroup(last)
		if len(group) == 0 {
			return
		}
		last = len(group)
		l.commitMu.Lock()
		spans, err := l.write(group)
		for _, r := range group {
			if r.err = err; err == nil {
				r.spans, spans = spans[:len(r.records)], spans[len(r.records):]
			}
			r.notify(r.spans, err)
		}
		l.commitMu.Unlock()
		for _, r := range group {
			close(r.done)
		}
	}
}

// nextGroup returns the requests that share the next sync, or none if the queue is empty. last is
// the size of the group before. Its callers are about to append again, so nextGroup yields to them
// up to last times. Without that they would share only every second sync.
func (l *Log) nextGroup(last int) []*request {
	for range last {
		l.mu.Lock()
		n := len(l.queue)
		l.mu.Unlock()
		if n >= last {
			break
		}
		runtime.Gosched()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, int64(0)
	for n < len(l.queue) && (n == 0 || size+l.queue[n].size <= maxGroup) {
		size += l.queue[n].size
		n++
	}
	group := slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	l.flushing = n > 0
	return group
}

// write makes a group durable. The caller holds commitMu.
func (l *Log) write(group []*request) ([]Span, error) {
	l.mu.Lock()
	f, end, failed := l.file, l.end, l.failed
	l.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	if err := l.cutTail(f, end); err != nil {
		return nil, err
	}
	var spans []Span
	l.buf = l.buf[:0]
	for _, r := range group {
		for i, h := range r.heads {
			h.id, h.off, h.synced, h.more = f.id, end+int64(len(l.buf)), end, i+1 < len(r.heads)
			l.buf = append(h.append(l.buf), r.records[i].Payload...)
			spans = append(spans, Span{Off: h.off, Len: h.length})
		}
	}
	if err := l.writeDurable(f, end, l.buf, l.rooms.at(end)); err != nil {
		return nil, err
	}
	if cap(l.buf) > maxGroup {
		l.buf = nil
	}
	l.sealed = false
	return spans, nil
}

// writeDurable writes b at the end of the log and syncs it. It makes so many bytes of room if there
// is not enough for b. It cuts off what a failed write has left. The caller holds commitMu.
func (l *Log) writeDurable(f *file, end int64, b []byte, room int64) error {
	if _, err := f.f.WriteAt(b, end); err != nil {
		l.torn = true
		_ = l.cutTail(f, end) // the next write tries again
		return fileError("write", f.name, err)
	}
	if l.room -= int64(len(b)); l.room < 0 {
		l.room = makeRoom(f.f, end+int64(len(b)), room)
	}
	if err := f.f.Sync(); err != nil {
		return l.fail(fmt.Errorf("%w: %w", ErrSync, err))
	}
	l.mu.Lock()
	l.end = end + int64(len(b))
	l.mu.Unlock()
	return nil
}

// cutTail removes what a failed write has left beyond the end. The caller holds commitMu.
func (l *Log) cutTail(f *file, end int64) error {
	if !l.torn {
		return nil
	}
	size, err := f.f.Size()
	if err != nil {
		return fileError("look at", f.name, err)
	}
	if size != end {
		if err := f.f.Truncate(end); err != nil {
			return fileError("cut", f.name, err)
		}
		if err := f.f.Sync(); err != nil {
			return l.fail(fmt.Errorf("%w: %w", ErrSync, err))
		}
	}
	l.torn, l.room = false, 0
	return nil
}

// fail makes every later Append return err, and returns err.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	return err
}

// Err returns the [ErrSync] that every Append returns until the log is opened again, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Close waits for the appends that were called before it, seals the log, and releases the file. The
// last open View closes the file. A second Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.flushers.Wait()
	l.commitMu.Lock()
	defer l.commitMu.Unlock()
	l.mu.Lock()
	f, end, failed := l.file, l.end, l.failed
	l.mu.Unlock()
	if failed == nil && !l.sealed && end > headLen && l.cutTail(f, end) == nil {
		// A seal that cannot be written is not an error: only the proof is missing then.
		seal := frameHead{version: version, kind: kindSeal, id: f.id, off: end, synced: end}
		l.sealed = l.writeDurable(f, end, seal.append(nil), 0) == nil
	}
	if l.sealed {
		l.cutRoom(f)
	}
	l.writeMark(f)
	return l.releaseFile(f)
}

// cutRoom cuts off what there is of room, which may be more than is known: a write that fails may
// have written a part. The next Open does it where cutRoom cannot. The caller holds commitMu.
func (l *Log) cutRoom(f *file) {
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	if size, err := f.f.Size(); err == nil && size > end {
		_ = f.f.Truncate(end)
	}
}

// writeMark records where a log ends that is sealed. The caller holds commitMu. As with the seal,
// only the proof is missing if that fails, and the mark before stays true.
func (l *Log) writeMark(f *file) {
	l.mu.Lock()
	end, failed := l.end-frameLen, l.failed
	l.mu.Unlock()
	m := endMark{gen: f.gen, id: f.id, end: end}
	if failed == nil && l.sealed && end > headLen && m != l.mark && m.write(l.fs, l.dir) == nil {
		l.mark = m
	}
}
