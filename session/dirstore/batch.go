package dirstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// The kinds of frames in a log of trees. The payload of the first two is a batch:
//
//	flags | length root | after | [seconds nanoseconds] | [members (id)...] | length id
//	      | entries | (length JSON)...
//
// The flags take one byte, the length of each JSON four, an id of a member sixteen, and all other
// numbers are varints.
const (
	// frameBatch is a batch that follows the last one of its tree.
	frameBatch wal.Kind = wal.FirstKind + iota
	// frameFirst is the first batch of a tree that was copied. It voids the frames of the tree
	// before it.
	frameFirst
	// frameIdleHead begins an idle log. It has the last sequence and the root of the tree.
	frameIdleHead
	// frameMembers has entries of the index of members.
	frameMembers
	// frameLines has lines of a transcript; see loggedLines.
	frameLines
	// frameGrounded says that the files have all lines of the frames before it.
	frameGrounded
)

const (
	flagReset = 1 << iota
	flagDue
	flagMembers

	knownFlags = flagReset | flagDue | flagMembers
)

// A storedBatch is a batch as the log has it. Its entries are not parsed.
type storedBatch struct {
	root    session.Key
	after   session.Seq
	id      session.BatchID
	due     time.Time
	reset   bool
	members memberList
	n       int    // number of entries
	entries []byte // encoded
}

// last returns the sequence of the last entry.
func (b *storedBatch) last() session.Seq { return b.after + session.Seq(b.n) }

// checkFirst returns an error unless b can be the first batch of a tree: it begins with the first
// entry, or with a snapshot of all entries before it.
func (b *storedBatch) checkFirst() error {
	if b.after == 0 || b.reset {
		return nil
	}
	return fmt.Errorf("the journal of %q begins with entry %d, which is not a snapshot",
		b.root, b.after+1)
}

// appendBatch adds an encoded batch to b. The error is a *[BatchSizeError] if the batch takes more
// bytes than limit, and [session.ErrInvalidBatch] if a payload cannot be encoded.
func appendBatch(
	b []byte, root session.Key, after session.Seq, batch session.Batch, limit int,
) ([]byte, error) {
	begin := len(b)
	var flags byte
	if batch.Reset {
		flags |= flagReset
	}
	if !batch.Due.IsZero() {
		flags |= flagDue
	}
	if len(batch.Members) > 0 {
		flags |= flagMembers
	}
	b = append(b, flags)
	b = appendText(b, root.String())
	b = binary.AppendUvarint(b, uint64(after))
	if flags&flagDue != 0 {
		b = binary.AppendVarint(b, batch.Due.Unix())
		b = binary.AppendUvarint(b, uint64(batch.Due.Nanosecond()))
	}
	if flags&flagMembers != 0 {
		b = appendMembers(b, batch.Members)
	}
	b = appendText(b, string(batch.ID))
	b = binary.AppendUvarint(b, uint64(len(batch.Entries)))
	for i := range batch.Entries {
		start := len(b)
		var err error
		b, err = batch.Entries[i].Payload.AppendJSON(append(b, 0, 0, 0, 0))
		n := len(b) - start - 4
		if err == nil && n < 1 {
			err = errEmptyPayload
		}
		if err != nil {
			return nil, fmt.Errorf("%w %q: entry %d of %d: %w",
				session.ErrInvalidBatch, batch.ID, i, len(batch.Entries), err)
		}
		if size := len(b) - begin; size > limit { // the other entries need not be encoded
			return nil, &BatchSizeError{ID: batch.ID, Entries: i + 1, Size: size, Limit: limit}
		}
		binary.LittleEndian.PutUint32(b[start:], uint32(n))
	}
	return b, nil
}

// appendText adds the length of s and s.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var (
	errBatch        = errors.New("dirstore: the batch cannot be read")
	errEmptyPayload = errors.New("dirstore: the payload is not JSON: it is empty")
)

// parseBatch parses a batch, which keeps parts of b. root parses the text of the root. The error is
// errBatch if b is not a batch, and a *wal.FormatError if b has an unknown flag.
func parseBatch(b []byte, root func(string) (session.Key, error)) (s storedBatch, err error) {
	if len(b) == 0 {
		return s, errBatch
	}
	flags := b[0]
	if flags&^knownFlags != 0 {
		return s, &wal.FormatError{What: fmt.Sprintf("batch flag %#x", flags)}
	}
	r := batchDecoder{b: b[1:]}
	name := r.text()
	s.after = session.Seq(r.uvarint())
	if s.reset = flags&flagReset != 0; flags&flagDue != 0 {
		seconds := r.varint()
		s.due = time.Unix(seconds, int64(r.uvarint())).UTC()
	}
	if flags&flagMembers != 0 {
		s.members = r.members()
	}
	s.id = session.BatchID(r.text())
	s.n = int(min(r.uvarint(), uint64(len(b))))
	if s.entries = r.b; r.failed || s.n == 0 {
		return s, errBatch
	}
	s.root, err = root(string(name))
	return s, err
}

// each calls f with the JSON of each entry until f returns false. The error is errBatch if the
// entries cannot be read.
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

// A batchDecoder takes values from the front of b. After the first value that cannot be read,
// failed is set and every value is zero.
type batchDecoder struct {
	b      []byte
	failed bool
}

func (r *batchDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return v * uint64(r.skip(n))
}

func (r *batchDecoder) varint() int64 {
	v, n := binary.Varint(r.b)
	return v * int64(r.skip(n))
}

// skip takes n bytes and returns 1. If n is below 1, or the decoder has failed, it returns 0 and
// the decoder has failed.
func (r *batchDecoder) skip(n int) int {
	if n < 1 || r.failed {
		r.failed = true
		return 0
	}
	r.b = r.b[n:]
	return 1
}

func (r *batchDecoder) text() []byte { return r.bytes(r.uvarint()) }

func (r *batchDecoder) members() memberList {
	n := r.uvarint()
	return r.bytes(min(n, uint64(len(r.b))+1) * uint64(len(keyID{})))
}

// bytes takes n bytes.
func (r *batchDecoder) bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.b)) {
		r.failed = true
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

// An idleTree is the content of one idle log. The zero value is that of a tree without an idle log.
type idleTree struct {
	last    session.Seq
	due     time.Time
	batches []storedBatch
	frames  []wal.Record // of the batches, as the write-ahead log must have them
}

// add adds the next batch of the tree and its frame.
func (t *idleTree) add(kind wal.Kind, payload []byte, b storedBatch) error {
	if len(t.batches) > 0 && b.after != t.last {
		return fmt.Errorf("a batch after entry %d follows entry %d", b.after, t.last)
	}
	if len(t.batches) == 0 {
		if err := b.checkFirst(); err != nil {
			return err
		}
		kind = frameFirst
	}
	t.batches = append(t.batches, b)
	t.frames = append(t.frames, wal.Record{Kind: kind, Payload: payload})
	t.last, t.due = b.last(), b.due
	return nil
}
