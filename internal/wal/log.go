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

// maxGroup is how many bytes share one write and one sync, unless a single request has more.
const maxGroup = 8 << 20

// A Record is one frame that is to be written.
type Record struct {
	Kind    Kind
	Payload []byte
}

// A Log is one write-ahead log that is open for writing. Its methods may be called from many goroutines at once.
type Log struct {
	fs    disk.FS
	dir   string
	limit int // of a payload, in bytes

	// commit is held while a group is written and at the end of a rewrite. What it guards changes only then.
	commit sync.Mutex
	buf    []byte
	torn   bool // something may stand beyond the end
	sealed bool // the last frame is a seal

	mu       sync.Mutex
	file     *file
	pins     map[*file]int // how many read each file; a file that is not there and not the log's is closed
	end      int64         // everything before is durable
	queue    []*request
	flushing bool
	failed   error // every Append's answer, once it is set
	closed   bool  // takes nothing more
	retired  bool  // has no use for its file any more
	flushers sync.WaitGroup
}

// A request is what one Append wants written.
type request struct {
	records []Record
	heads   []frameHead // with the checksums of the payloads
	size    int64
	spans   []Span
	err     error
	settle  func([]Span, error)
	done    chan struct{}
}

// Open opens the log in a directory that exists, or begins one, and replays it. What is torn is cut off. The directory must be nobody
// else's: Open removes what a rewrite left there.
func Open(fsys disk.FS, dir string, replay Replay) (*Log, Report, error) {
	gens, dead, err := generations(fsys, dir)
	if err != nil {
		return nil, Report{}, err
	}
	for _, name := range dead {
		if err := fsys.Remove(name); err != nil && !missing(err) {
			return nil, Report{}, fmt.Errorf("wal: %w", err)
		}
	}
	gen := uint64(1)
	if len(gens) == 0 {
		if err := WriteFile(fsys, fileName(dir, gen), func(*Writer) error { return nil }); err != nil {
			return nil, Report{}, err
		}
	} else {
		gen = gens[len(gens)-1]
	}
	f, err := fsys.OpenFile(fileName(dir, gen), os.O_RDWR)
	if err != nil {
		return nil, Report{}, fmt.Errorf("wal: %w", err)
	}
	l := &Log{
		fs: fsys, dir: dir, limit: MaxPayload, file: &file{f: f, name: fileName(dir, gen), gen: gen}, pins: make(map[*file]int),
	}
	report, err := l.restore(replay)
	if err == nil {
		// The name of the log must be durable before those before it may go.
		if err = fsys.SyncDir(dir); err != nil {
			err = fmt.Errorf("wal: sync %s: %w", dir, err)
		}
	}
	if err != nil {
		return nil, report, errors.Join(err, f.Close())
	}
	for _, old := range gens[:max(len(gens)-1, 0)] {
		_ = fsys.Remove(fileName(dir, old)) // or the next time
	}
	return l, report, nil
}

// restore replays the log, cuts off what is torn, and makes the rest durable.
func (l *Log) restore(replay Replay) (Report, error) {
	f := l.file.f
	size, err := f.Size()
	if err != nil {
		return Report{}, fmt.Errorf("wal: %w", err)
	}
	s := &scan{name: l.file.name, f: f, size: size}
	if err := s.run(replay); err != nil {
		return s.report(), err
	}
	if s.end < size {
		if err := f.Truncate(s.end); err != nil {
			return s.report(), fmt.Errorf("wal: %w", err)
		}
	}
	if err := s.rewriteTail(); err != nil {
		return s.report(), fmt.Errorf("wal: %s: %w", s.name, err)
	}
	l.file.id, l.end, l.sealed = s.id, s.end, s.sealed
	return s.report(), nil
}

// rewriteTail writes once more what no frame proves to be durable, a seal at the end included: after a sync that failed, the system may
// show what the disk does not have.
func (s *scan) rewriteTail() error {
	for off := s.proved; off < s.end; {
		part, err := s.bytes(off, int(min(chunk, s.end-off)))
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

// Size returns the length of the log in bytes, as far as it is durable.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Append writes the records next to each other, all or none, and returns once they are durable. It calls settle exactly once, whatever happens, with
// the places of the records or the error, in the order of the log; settle must not call the log and not block. If ctx is done in
// between, Append returns its error at once and settle is called later.
//
// An error before a ctx was done means that the records are not in this log, but for [ErrSync] from the very Append whose sync fails. If a
// write broke off behind a whole group and could not be cut off either, the next one cuts it off, and an Open before that may find it.
func (l *Log) Append(ctx context.Context, records []Record, settle func([]Span, error)) error {
	r := &request{records: records, heads: make([]frameHead, len(records)), settle: settle, done: make(chan struct{})}
	for i, rec := range records {
		if err := checkSize(rec.Payload, l.limit); err != nil {
			settle(nil, err)
			return err
		}
		r.heads[i] = frameHead{version: version, kind: rec.Kind, length: uint32(len(rec.Payload)), sum: checksum(rec.Payload)}
		r.size += frameLen + int64(len(rec.Payload))
	}
	if err := l.enqueue(r); err != nil {
		settle(nil, err)
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	if l.withdraw(r) {
		settle(nil, ctx.Err())
		return ctx.Err()
	}
	select {
	case <-r.done:
		return r.err
	default:
		return ctx.Err()
	}
}

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

// withdraw takes a request back, if nobody has begun with it.
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

// flush writes group after group until nobody waits.
func (l *Log) flush() {
	last := 0
	for {
		group := l.take(last)
		if len(group) == 0 {
			return
		}
		last = len(group)
		l.commit.Lock()
		spans, err := l.write(group)
		for _, r := range group {
			if r.err = err; err == nil {
				r.spans, spans = spans[:len(r.records)], spans[len(r.records):]
			}
			r.settle(r.spans, err)
		}
		l.commit.Unlock()
		for _, r := range group {
			close(r.done)
		}
	}
}

// take returns the requests that share the next sync. Those who waited for the one before are about to come again: it lets them.
func (l *Log) take(last int) []*request {
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

// write makes a group durable. The caller holds commit.
func (l *Log) write(group []*request) ([]Span, error) {
	l.mu.Lock()
	f, end, failed := l.file, l.end, l.failed
	l.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	if err := l.cutBack(f, end); err != nil {
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
	if err := l.put(f, end, l.buf); err != nil {
		return nil, err
	}
	if cap(l.buf) > maxGroup {
		l.buf = nil
	}
	l.sealed = false
	return spans, nil
}

// put writes b at the end of the log and makes it durable, or cuts it off again.
func (l *Log) put(f *file, end int64, b []byte) error {
	if _, err := f.f.WriteAt(b, end); err != nil {
		l.torn = true
		_ = l.cutBack(f, end) // or before the next write
		return fmt.Errorf("wal: write %s: %w", f.name, err)
	}
	if err := f.f.Sync(); err != nil {
		return l.fail(fmt.Errorf("%w: %s: %w", ErrSync, f.name, err))
	}
	l.mu.Lock()
	l.end = end + int64(len(b))
	l.mu.Unlock()
	return nil
}

// cutBack removes what a write that failed has left.
func (l *Log) cutBack(f *file, end int64) error {
	if !l.torn {
		return nil
	}
	size, err := f.f.Size()
	if err != nil {
		return fmt.Errorf("wal: %s: %w", f.name, err)
	}
	if size != end {
		if err := f.f.Truncate(end); err != nil {
			return fmt.Errorf("wal: cut %s: %w", f.name, err)
		}
		if err := f.f.Sync(); err != nil {
			return l.fail(fmt.Errorf("%w: %s: %w", ErrSync, f.name, err))
		}
	}
	l.torn = false
	return nil
}

// fail makes err the answer to everything.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	return err
}

// Err returns why the log takes nothing more until it is opened again, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Close waits for what is being written, seals the log, and closes it once nobody reads any more.
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.flushers.Wait()
	l.commit.Lock()
	defer l.commit.Unlock()
	l.mu.Lock()
	f, end, failed := l.file, l.end, l.failed
	l.mu.Unlock()
	if failed == nil && !l.sealed && end > headLen && l.cutBack(f, end) == nil {
		// Without the seal nothing is lost but the proof.
		_ = l.put(f, end, frameHead{version: version, kind: seal, id: f.id, off: end, synced: end}.append(nil))
	}
	return l.retire(f)
}
