package dirstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// The kinds of frames in a write-ahead log of trees. The payload of the first two is a batch:
//
//	flags | length root | after | [seconds nanoseconds] | length id | entries | (length JSON)...
//
// with flags in one byte, the lengths of payloads in four, and all other numbers as varints.
const (
	frameBatch wal.Kind = wal.FirstKind + iota // follows the batch before of its tree
	frameImage                                 // the first of a tree that was carried here; what was here of the tree is void
	frameIdle                                  // the last sequence and the root of the tree that fills the rest of the file
)

const (
	flagReset = 1 << iota
	flagDue

	knownFlags = flagReset | flagDue
)

// A storedBatch is a batch of which the entries have not been looked at.
type storedBatch struct {
	root    session.Key
	after   session.Seq
	id      session.BatchID
	due     time.Time
	reset   bool
	n       int
	entries []byte
}

func (b *storedBatch) last() session.Seq { return b.after + session.Seq(b.n) }

// appendBatch encodes what Append adds, if that has no more bytes than the limit.
func appendBatch(b []byte, root session.Key, after session.Seq, batch session.Batch, limit int) ([]byte, error) {
	begin := len(b)
	var flags byte
	if batch.Reset {
		flags |= flagReset
	}
	if !batch.Due.IsZero() {
		flags |= flagDue
	}
	b = append(b, flags)
	b = appendText(b, root.String())
	b = binary.AppendUvarint(b, uint64(after))
	if flags&flagDue != 0 {
		b = binary.AppendVarint(b, batch.Due.Unix())
		b = binary.AppendUvarint(b, uint64(batch.Due.Nanosecond()))
	}
	b = appendText(b, string(batch.ID))
	b = binary.AppendUvarint(b, uint64(len(batch.Entries)))
	for i := range batch.Entries {
		start := len(b)
		var err error
		if b, err = batch.Entries[i].Payload.AppendJSON(append(b, 0, 0, 0, 0)); err != nil {
			return nil, fmt.Errorf("%w %q: entry %d of %d: %w", session.ErrInvalidBatch, batch.ID, i, len(batch.Entries), err)
		}
		n := len(b) - start - 4
		if n < 1 {
			return nil, fmt.Errorf("%w %q: entry %d of %d: its payload is not JSON", session.ErrInvalidBatch, batch.ID, i, len(batch.Entries))
		}
		if len(b)-begin > limit { // what follows need not be encoded
			return nil, &BatchSizeError{ID: batch.ID, Entries: i + 1, Size: len(b) - begin, Limit: limit}
		}
		binary.LittleEndian.PutUint32(b[start:], uint32(n))
	}
	return b, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errBatch = errors.New("the batch cannot be read")

// parseBatch reads a batch. It keeps parts of b.
func parseBatch(b []byte, root func(string) (session.Key, error)) (s storedBatch, err error) {
	if len(b) == 0 {
		return s, errBatch
	}
	flags := b[0]
	if flags&^knownFlags != 0 {
		return s, &wal.FormatError{What: fmt.Sprintf("batch flag %#x", flags)}
	}
	r := reader{b: b[1:]}
	name := r.text()
	s.after = session.Seq(r.uvarint())
	if s.reset = flags&flagReset != 0; flags&flagDue != 0 {
		seconds := r.varint()
		s.due = time.Unix(seconds, int64(r.uvarint())).UTC()
	}
	s.id = session.BatchID(r.text())
	s.n = int(min(r.uvarint(), uint64(len(b))))
	if s.entries = r.b; r.bad || s.n == 0 {
		return s, errBatch
	}
	s.root, err = root(string(name))
	return s, err
}

// each calls f with the JSON of each entry until it says no.
func (b *storedBatch) each(f func(session.Seq, session.Raw) bool) error {
	rest := b.entries
	for i := range b.n {
		if len(rest) < 4 {
			return errBatch
		}
		n := uint64(binary.LittleEndian.Uint32(rest))
		if rest = rest[4:]; uint64(len(rest)) < n {
			return errBatch
		}
		if !f(b.after+session.Seq(i)+1, session.Raw(rest[:n:n])) {
			return nil
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return errBatch
	}
	return nil
}

// A reader takes values from b until one is bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return v * uint64(r.skip(n))
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	return v * int64(r.skip(n))
}

// skip takes n bytes, of which there must be at least one, and returns 1 or, if that is not so, 0.
func (r *reader) skip(n int) int {
	if n < 1 || r.bad {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return 1
}

func (r *reader) text() []byte {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

// A thaw is a tree that was read back from where idle trees are kept.
type thaw struct {
	last    session.Seq
	due     time.Time
	batches []storedBatch
	frames  []wal.Record
}

// add takes the next frame of the tree.
func (t *thaw) add(kind wal.Kind, payload []byte, b storedBatch) error {
	if len(t.batches) > 0 && b.after != t.last {
		return fmt.Errorf("a batch after entry %d follows entry %d", b.after, t.last)
	}
	if len(t.batches) == 0 {
		kind = frameImage
	}
	t.batches = append(t.batches, b)
	t.frames = append(t.frames, wal.Record{Kind: kind, Payload: payload})
	t.last, t.due = b.last(), b.due
	return nil
}
