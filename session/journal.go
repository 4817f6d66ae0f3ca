package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// A Seq is the position of an entry in one log. Sequences grow along a log and are opaque beyond that: they may have gaps, and say
// nothing across logs. Zero is before the first entry.
type Seq uint64

// A BatchID is the name that a writer gives to one [Batch], by which it finds out after an unclear [Journal.Append] whether the batch
// is there.
type BatchID string

// A Payload is the content of an entry. A Journal that writes bytes encodes it when it appends and yields it as a [Raw] afterwards; one
// that lives in memory keeps it as it is. Whoever reads a journal must therefore take both.
type Payload interface {
	// AppendJSON appends one JSON value to b, on one line. It may be called from any goroutine, and more than once.
	AppendJSON(b []byte) ([]byte, error)
}

// Raw is a [Payload] that was read back: one JSON value.
type Raw []byte

// AppendJSON appends r, on one line. Nil is null. What is not JSON is an error.
func (r Raw) AppendJSON(b []byte) ([]byte, error) {
	switch {
	case r == nil:
		return append(b, "null"...), nil
	case !json.Valid(r):
		return b, fmt.Errorf("session: payload of %d bytes is not JSON", len(r))
	case bytes.IndexByte(r, '\n') < 0 && bytes.IndexByte(r, '\r') < 0:
		return append(b, r...), nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, r); err != nil {
		return b, fmt.Errorf("session: payload: %w", err)
	}
	return append(b, line.Bytes()...), nil
}

// An Entry is one fact in a log.
type Entry struct {
	Seq     Seq     // set by the Journal
	Batch   BatchID // set by the Journal: that of the batch it came in
	Payload Payload
}

// wireEntry is the JSON form of an Entry.
type wireEntry struct {
	Seq     Seq             `json:"seq"`
	Batch   BatchID         `json:"batch,omitempty"`
	Payload json.RawMessage `json:"payload"`
}

// MarshalJSON encodes e with its payload.
func (e Entry) MarshalJSON() ([]byte, error) {
	w := wireEntry{Seq: e.Seq, Batch: e.Batch}
	if e.Payload != nil {
		payload, err := e.Payload.AppendJSON(nil)
		if err != nil {
			return nil, fmt.Errorf("session: entry %d: %w", e.Seq, err)
		}
		w.Payload = payload
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes e; its payload becomes a [Raw].
func (e *Entry) UnmarshalJSON(data []byte) error {
	var w wireEntry
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("session: entry: %w", err)
	}
	*e = Entry{Seq: w.Seq, Batch: w.Batch, Payload: Raw(w.Payload)}
	return nil
}

// A Batch is what one Append adds: all of it or nothing.
type Batch struct {
	ID BatchID // unique among the batches of the log; may be empty, and then cannot be recognised

	// Entries are one or more. Their Seq and Batch are set by the Journal when they are read. The Journal may keep the slice, and the
	// caller never touches it again.
	Entries []Entry

	// Due is when the log next needs somebody to look at it: now, later, or never, which is zero. It replaces that of the batch before.
	Due time.Time

	// Reset says that Entries[0] is a snapshot, and that everything before it may go.
	Reset bool
}

// ErrInvalidBatch is returned by [Journal.Append] for a batch that it will never take: one that [Batch.Validate] refuses, whose payloads
// do not encode, or that is too large for it, of which a *[BatchSizeError] tells the limit.
var ErrInvalidBatch = errors.New("session: invalid batch")

// Validate returns an error that is [ErrInvalidBatch] if b has no entries or one without a payload. A Journal calls it first.
func (b Batch) Validate() error {
	if len(b.Entries) == 0 {
		return fmt.Errorf("%w %q: no entries", ErrInvalidBatch, b.ID)
	}
	for i := range b.Entries {
		if b.Entries[i].Payload == nil {
			return fmt.Errorf("%w %q: entry %d of %d has no payload", ErrInvalidBatch, b.ID, i, len(b.Entries))
		}
	}
	return nil
}

// A Head describes one log.
type Head struct {
	Root Key
	Last Seq       // the sequence of the last entry
	Due  time.Time // that of the last batch
}

// A RootQuery selects logs. The zero RootQuery selects all.
type RootQuery struct {
	DueBefore time.Time // only logs that have a Due and whose Due is before this; zero: every log
}

// A Journal keeps one append-only log per tree, under the key of its root. It knows nothing of what the entries say.
//
// Its methods may be called from many goroutines at once, on the same log or on different ones. They return early with the error of
// ctx once it is done, and [ErrClosed] after the Journal was closed, if it can be. Package sessiontest has the kit that says, rule by
// rule, whether an implementation is one.
type Journal interface {
	// Append adds the whole batch if the last sequence of the log is after, and else adds nothing and returns ErrConflict. The log of
	// a root that has none ends at zero. It returns the sequence of the last entry that it added, and once it has returned, the batch
	// is durable and every Read sees it. An error other than ErrConflict, ErrInvalidBatch, ErrInvalidKey, ErrClosed and that of a ctx
	// that was done before the call leaves it unknown whether the batch was added; the batch's ID tells when the log is read again.
	Append(ctx context.Context, root Key, after Seq, b Batch) (Seq, error)

	// Read yields the entries whose sequence is greater than after, in order, from the last reset on; none for a root that has no
	// log. It yields every entry that was appended before it was called, no part of a batch without the rest, and may or may not yield
	// what is appended meanwhile. An error is yielded once, beside the zero Entry, and ends the sequence.
	Read(ctx context.Context, root Key, after Seq) iter.Seq2[Entry, error]

	// Roots yields the logs that q selects, each once, in any order, those of reserved roots included. With a DueBefore it costs no more
	// for a million other logs, and may therefore yield some that are not due, but never leaves out one that is. A log that cannot be
	// read does not hide the others: the error comes last.
	Roots(ctx context.Context, q RootQuery) iter.Seq2[Head, error]
}
