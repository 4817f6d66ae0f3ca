package dirstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A lineLog is the part of the write-ahead log that has lines of transcripts. A line is durable
// when the log has it. It is written to the file of its transcript about a second later, without a
// sync. Before a compaction drops its frame, the file is synced. So a hundred transcripts that are
// written at once share one sync, and a file is created when there is time.
//
//	append    a frame of lines, synced with the others of its group
//	flush     the lines go to the file, which a power failure may still undo
//	settle    the file is synced: the frames are not needed any more
//	ground    a frame says so: the next Open does not look at the frames before it
//
// What a process leaves is found at the next Open, and goes to the file before anything else is
// done with the transcript.
type lineLog struct {
	log   *wal.Log      // nil: it takes no frames
	grown func()        // looks whether the log is to be compacted
	limit int           // the most bytes of one append of lines that go to the log
	delay time.Duration // of lines until they are in their file; 0: until they must be

	mu      sync.Mutex
	shut    bool                          // no append of lines begins any more
	appends sync.WaitGroup                // those under way; none is added once shut is set
	found   map[session.Ref]*foundLines   // left by earlier processes, until they are looked at
	filings map[session.Ref]*filing       // of transcripts that have frames in the log
	doubted map[session.Ref]error         // of syncs that failed
	bytes   int64                         // of all frames of lines in the log
	carried map[session.Ref]*carriedLines // lines that the log does not have yet
	riders  map[session.Key][]session.Ref // the transcripts in carried, by the roots of their trees
	waiting map[session.Ref]bool          // transcripts with lines that are not in their files
	timer   *time.Timer                   // of the next writeLines; nil: nothing waits
	writer  sync.WaitGroup                // the writeLines that is to come, or runs
	closing bool
	err     error // why the last lines could not be written to their file, or nil
}

// A filing is how far the lines of one transcript have come from the log to their file.
type filing struct {
	spans   []wal.Span // of the frames that are needed: the file may lack their lines
	framed  bool       // the log has frames of it, needed or not
	written bool       // lines were written to the file, and not synced
	synced  bool       // the file was synced since, and its name may not be durable
	covered int        // how many of the spans that sync has covered, if synced is set
	second  bool       // the file has the second of its names
}

const (
	// lineDelay is how long lines wait for their file at most, beside the time that it takes.
	lineDelay = time.Second
	// maxLoggedLines is the most bytes of one append of lines that go to the log. More of them go
	// to the file at once: to write them twice would cost more than the sync.
	maxLoggedLines = 64 << 10
	// lineSlack is how many bytes of lines the log has before it is compacted for them.
	lineSlack = 8 << 20
)

func newLineLog() *lineLog {
	return &lineLog{
		limit:   maxLoggedLines,
		delay:   lineDelay,
		found:   make(map[session.Ref]*foundLines),
		filings: make(map[session.Ref]*filing),
		doubted: make(map[session.Ref]error),
		waiting: make(map[session.Ref]bool),
		carried: make(map[session.Ref]*carriedLines),
		riders:  make(map[session.Key][]session.Ref),
	}
}

// A loggedLines is the payload of a frame of lines:
//
//	flags | length key | length session id | offset | bytes
//
// The flags take one byte, and all numbers are varints.
type loggedLines struct {
	ref    session.Ref
	second bool  // the file has the second of its names
	off    int64 // of the bytes in the file
	bytes  []byte
}

const flagSecondName = 1

// end returns the offset behind the lines.
func (l *loggedLines) end() int64 { return l.off + int64(len(l.bytes)) }

// appendTo adds the encoded lines to b.
func (l *loggedLines) appendTo(b []byte) []byte {
	var flags byte
	if l.second {
		flags = flagSecondName
	}
	const numbers = 1 + 3*binary.MaxVarintLen64
	size := numbers + len(l.ref.Key.String()) + len(l.ref.SessionID) + len(l.bytes)
	b = appendRef(append(slices.Grow(b, size), flags), l.ref)
	return append(binary.AppendUvarint(b, uint64(l.off)), l.bytes...)
}

// appendRef adds an encoded Ref to b.
func appendRef(b []byte, ref session.Ref) []byte {
	return appendText(appendText(b, ref.Key.String()), ref.SessionID)
}

var errLines = errors.New("dirstore: the lines cannot be read")

// parseLines parses the payload of a frame of lines, which keeps parts of b. The error is errLines
// if b has no lines, and a *wal.FormatError if it has an unknown flag.
func parseLines(b []byte) (l loggedLines, err error) {
	if len(b) == 0 {
		return l, errLines
	}
	if b[0]&^flagSecondName != 0 {
		return l, &wal.FormatError{What: fmt.Sprintf("flag %#x of lines", b[0])}
	}
	r := batchDecoder{b: b[1:]}
	l.second = b[0]&flagSecondName != 0
	l.ref, err = r.ref()
	off := r.uvarint()
	l.off, l.bytes = int64(off), r.b
	if err != nil || r.failed || l.off < 0 || len(l.bytes) == 0 {
		return l, errLines
	}
	return l, nil
}

// ref takes a Ref.
func (r *batchDecoder) ref() (ref session.Ref, err error) {
	name, id := r.text(), r.text()
	if r.failed {
		return ref, errLines
	}
	if ref.Key, err = session.Parse(string(name)); err != nil {
		return ref, err
	}
	ref.SessionID = string(id)
	return ref, ref.Validate()
}

// parseGrounded parses the payload of a frame that says that the file of a transcript has all lines
// of the frames before it. The zero Ref stands for all transcripts.
func parseGrounded(b []byte) (ref session.Ref, err error) {
	if len(b) == 0 {
		return ref, nil
	}
	r := batchDecoder{b: b}
	if ref, err = r.ref(); err == nil && len(r.b) > 0 {
		err = errLines
	}
	return ref, err
}

// A foundLines is what the log has of one transcript, in one piece.
type foundLines struct {
	second bool
	off    int64
	bytes  []byte
	spans  []wal.Span
}

// end returns the offset behind the lines.
func (found *foundLines) end() int64 { return found.off + int64(len(found.bytes)) }

// replay adds a frame of the log. ok is false if the frame is not one of lines.
func (l *lineLog) replay(at wal.Span, kind wal.Kind, payload []byte) (ok bool, err error) {
	if kind == frameLines {
		lines, err := parseLines(payload)
		if err != nil {
			return true, err
		}
		l.filing(lines.ref).framed = true
		l.bytes += at.Size()
		l.add(at, &lines)
		return true, nil
	}
	if kind != frameGrounded {
		return false, nil
	}
	ref, err := parseGrounded(payload)
	if err != nil {
		return true, err
	}
	if ref == (session.Ref{}) {
		clear(l.found)
		clear(l.filings)
	}
	delete(l.found, ref)
	delete(l.filings, ref)
	l.bytes += at.Size()
	return true, nil
}

// add adds lines to those that were found. Lines at an offset take the place of the ones that were
// there: their append had failed.
func (l *lineLog) add(at wal.Span, lines *loggedLines) {
	f := l.found[lines.ref]
	if f == nil || lines.off < f.off || lines.off > f.end() {
		f = &foundLines{second: lines.second, off: lines.off}
		l.found[lines.ref] = f
	}
	f.bytes = append(f.bytes[:lines.off-f.off], lines.bytes...)
	f.spans = append(f.spans, at)
}

// finishReplay takes the frames that were found for those that are needed.
func (l *lineLog) finishReplay(log *wal.Log) {
	l.log = log
	for ref, f := range l.found {
		l.filing(ref).spans = f.spans
	}
}

// restart forgets what was replayed.
func (l *lineLog) restart() {
	clear(l.found)
	clear(l.filings)
	l.bytes = 0
}

// filing returns the filing of a transcript, which it makes if there is none. The caller holds mu,
// or replays.
func (l *lineLog) filing(ref session.Ref) *filing {
	f := l.filings[ref]
	if f == nil {
		f = new(filing)
		l.filings[ref] = f
	}
	return f
}

// unframe notes that the log has no frame of a transcript that is needed.
func (l *lineLog) unframe(ref session.Ref) {
	f := l.filing(ref)
	if f.framed = false; len(f.spans) == 0 && !f.written {
		delete(l.filings, ref)
	}
}

// takes reports whether an append of so many bytes goes to the log. None does while lines cannot be
// written to their files: then the error is that of the append, and the log does not grow.
func (l *lineLog) takes(n int) bool { return l != nil && n <= l.limit && l.lastError() == nil }

// append makes lines durable, and with them those of the transcript that are carried. The error is
// errLinesShut once the log takes no lines any more.
func (l *lineLog) append(lines *loggedLines) error {
	l.mu.Lock()
	shut := l.shut
	if !shut {
		l.appends.Add(1)
	}
	l.mu.Unlock()
	if shut {
		return errLinesShut
	}
	defer l.appends.Done()
	before := l.takeAlone(lines.ref)
	n := before.len()
	records := make([]wal.Record, 0, n+1)
	if n > 0 {
		records = append(records, before.records...)
	}
	records = append(records, wal.Record{Kind: frameLines, Payload: lines.appendTo(nil)})
	err := l.log.Write(records, func(at []wal.Span, err error) {
		if before.ended(at, err); err == nil {
			l.note(lines.ref, at[n])
		}
	})
	if err == nil {
		l.grown()
	}
	return err
}

var errLinesShut = errors.New("dirstore: the log takes no lines any more")

// note adds the place of a frame.
func (l *lineLog) note(ref session.Ref, at wal.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked(ref, at)
}

// noteLocked is note for a caller that holds mu.
func (l *lineLog) noteLocked(ref session.Ref, at wal.Span) {
	f := l.filing(ref)
	f.spans, f.framed = append(f.spans, at), true
	l.bytes += at.Size()
}

// settled says that the file of a transcript has all of its lines, durably.
func (l *lineLog) settled(ref session.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.filing(ref); f.framed {
		f.spans, f.written, f.synced = nil, false, false
	} else {
		delete(l.filings, ref)
	}
}

// synced says that the file of a transcript has all of its lines, and was synced. It is settled
// when named is called, once its name is durable.
func (l *lineLog) synced(ref session.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.filing(ref)
	f.synced, f.covered = true, len(f.spans)
}

// named says that the names of files are durable. Lines that have come to a transcript since synced
// was called are not settled, nor is a file that was written to since.
func (l *lineLog) named(refs []session.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ref := range refs {
		f := l.filings[ref]
		if f == nil || !f.synced {
			continue
		}
		f.spans, f.written, f.synced = f.spans[f.covered:], false, false
		if len(f.spans) == 0 && !f.framed {
			delete(l.filings, ref)
		}
	}
}

// filed says that the lines of a transcript were written to its file, and not synced. The file has
// the second of its names, or the first.
func (l *lineLog) filed(ref session.Ref, second bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.filing(ref)
	f.written, f.second, f.synced = true, second, false
}

// unsynced returns the name of the file of a transcript if it was written and not synced, or "".
// The error is that of a sync that has failed.
func (l *lineLog) unsynced(ref session.Ref) (name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.filings[ref]; f != nil && f.written {
		name = nameOf(ref, f.second)
	}
	return name, l.doubted[ref]
}

// nameOf returns the first or the second of the names that the file of a transcript may have.
func nameOf(ref session.Ref, second bool) string {
	if second {
		return transcriptNames(ref)[1]
	}
	return portableName(ref.SessionID) + transcriptSuffix // which takes no hash
}

// doubt notes that a sync of the file of a transcript has failed, and returns the error of that
// from then on.
func (l *lineLog) doubt(ref session.Ref, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubted[ref] = fmt.Errorf("%w: %w", session.ErrSync, err)
	return l.doubted[ref]
}

// ground writes that the frames of a settled transcript are not needed, if it has any. The zero Ref
// stands for all transcripts.
func (l *lineLog) ground(ref session.Ref) error {
	l.mu.Lock()
	f := l.filings[ref]
	needed := f != nil && f.framed || ref == session.Ref{} && len(l.filings) > 0
	l.mu.Unlock()
	if !needed || l.log == nil {
		return nil
	}
	var payload []byte
	if (ref != session.Ref{}) {
		payload = appendRef(nil, ref)
	}
	return l.log.Write([]wal.Record{{Kind: frameGrounded, Payload: payload}},
		func(at []wal.Span, err error) {
			if err != nil {
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.bytes += at[0].Size()
			if len(payload) > 0 {
				l.unframe(ref)
				return
			}
			for ref := range l.filings {
				l.unframe(ref)
			}
		})
}

// take returns what an earlier process has left in the log of a transcript, or nil.
func (l *lineLog) take(ref session.Ref) *foundLines {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found[ref]
}

// restored says that found lines of a transcript are in its file, or beside it.
func (l *lineLog) restored(ref session.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.found, ref)
}

// putBack makes lines of this process found ones: their file is not what it was, and has to be
// looked at again.
func (l *lineLog) putBack(ref session.Ref, f *foundLines) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.spans = l.filing(ref).spans
	l.found[ref] = f
}

// unfiled returns the transcripts that have lines which are not in their files, and with unsynced
// also those whose files are not durable.
func (l *lineLog) unfiled(unsynced bool) []session.Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := maps.Clone(l.waiting)
	for ref := range l.found {
		all[ref] = true
	}
	if unsynced {
		for ref, f := range l.filings {
			if len(f.spans) > 0 {
				all[ref] = true
			}
		}
	}
	return slices.Collect(maps.Keys(all))
}

// fail notes how the last attempt to write lines to a file has ended.
func (l *lineLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// lastError returns what fail has noted.
func (l *lineLog) lastError() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// weight returns how many bytes the log may have beyond what is live, because of lines.
func (l *lineLog) weight() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.bytes, lineSlack)
}

// A lineCopy is the part of a compaction that keeps the frames of lines which are needed.
type lineCopy struct {
	l      *lineLog
	frames []wal.Span         // at the beginning
	left   []session.Ref      // transcripts whose frames are left out
	moved  map[int64]wal.Span // the places of the copies by the offsets of the frames
	bytes  int64
}

// begin notes which frames are needed now.
func (l *lineLog) begin() *lineCopy {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &lineCopy{l: l, moved: make(map[int64]wal.Span)}
	for ref, f := range l.filings {
		if c.frames = append(c.frames, f.spans...); len(f.spans) == 0 {
			c.left = append(c.left, ref)
			l.unframe(ref)
		}
	}
	return c
}

// copyTo copies the frames. Those of a transcript stay in their order.
func (c *lineCopy) copyTo(view *wal.View, w *wal.Writer) error {
	for _, s := range c.frames {
		kind, payload, err := view.Read(s)
		if err != nil {
			return err
		}
		at, err := w.Append(kind, payload)
		if err != nil {
			return err
		}
		c.moved[s.Off] = at
		c.bytes += at.Size()
	}
	return nil
}

// switched gives the frames their new places. Those from the offset from on have moved by delta.
func (c *lineCopy) switched(from, delta int64) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	for _, f := range c.l.filings {
		for i, s := range f.spans {
			if s.Off >= from {
				f.spans[i].Off += delta
				c.bytes += s.Size()
			} else {
				f.spans[i] = c.moved[s.Off]
			}
		}
	}
	c.l.bytes = c.bytes
}

// undo is called if the log stays as it was.
func (c *lineCopy) undo() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	for _, ref := range c.left {
		c.l.filing(ref).framed = true
	}
}
