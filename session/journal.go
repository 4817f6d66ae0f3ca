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

// A Seq is the position of an entry in one log. Sequences grow along a log, and may have gaps. A
// Seq says nothing beyond its order: neither how many entries precede it, nor how it compares to a
// Seq of another log. Zero is the position before the first entry.
type Seq uint64

// A BatchID is the name that a writer gives to one [Batch]. If the outcome of a [Journal.Append] is
// not known, the writer reads the log again and looks for the BatchID.
type BatchID string

// A Payload is the content of an entry. A Journal that stores bytes encodes a Payload when it
// appends the entry, and yields it as a [Raw] when the entry is read. A Journal that lives in
// memory may yield the Payload itself. A reader of a Journal must therefore accept both.
//
// A Payload may have a method CheckJSON() error, which returns nil if AppendJSON succeeds. A
// journal in memory then calls it in place of AppendJSON.
type Payload interface {
	// AppendJSON appends one JSON value, without line breaks, to b and returns the extended slice.
	// It may be called more than once, and from any goroutine.
	AppendJSON(b []byte) ([]byte, error)
}

// Raw is a [Payload] that a Journal has read back: the text of one JSON value. A nil Raw is the
// value null.
type Raw []byte

// AppendJSON appends r to b without line breaks. A nil Raw appends null. An r that is not JSON is
// an error, and leaves b as it is.
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

// An Entry is one fact in a log. A writer sets the Payload alone. The Journal sets Seq and Batch
// when it yields the entry.
type Entry struct {
	Seq     Seq     // position in the log
	Batch   BatchID // ID of the Batch that added the entry
	Payload Payload // content; not nil
}

// wireEntry is the JSON form of an Entry.
type wireEntry struct {
	Seq     Seq             `json:"seq"`
	Batch   BatchID         `json:"batch,omitempty"`
	Payload json.RawMessage `json:"payload"`
}

// MarshalJSON encodes e with its payload. The payload of an e that has none is null.
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

// A Batch is what one [Journal.Append] adds to a log, as a whole or not at all.
type Batch struct {
	// ID is unique among the batches of the log. It may be empty; the writer then cannot find out
	// whether an Append with an unknown outcome added the batch.
	ID BatchID

	// Entries are the entries to add, one or more. The Journal ignores their Seq and Batch. It may
	// keep the slice, so the caller must not change the slice after the call.
	Entries []Entry

	// Due is the time at which the owner of the log next has work to do. It may have passed. Zero
	// means that the log waits for nothing. The Due of a batch replaces the Due of the batch
	// before.
	Due time.Time

	// Reset says that Entries[0] is a snapshot, which replaces every entry before this batch. The
	// Journal may delete the replaced entries, and never yields them again. Sequences go on
	// growing.
	Reset bool

	// Members are the sessions that the batch brings into the log, beside that of the root: their
	// keys lead to the log from then on, see [RootQuery]. A key may be named again. The Members of
	// a Reset are all that the log still has: the Journal may forget those of the batches before.
	// It may keep the slice, so the caller must not change the slice after the call.
	Members []Key
}

// BatchLimit is the size up to which every Journal takes a batch, whatever is in it. The size is
// that of the JSON of the payloads, the ID and the texts of the Members together, with 16 bytes
// more for each payload and for each member.
const BatchLimit = 64 << 20

// ErrInvalidBatch is returned by [Journal.Append] for a batch that the Journal will never accept: a
// batch that [Batch.Validate] refuses, that has a payload which cannot be encoded, or that is
// larger than the Journal allows, which is at least [BatchLimit]. A Journal says which limit a
// batch exceeds in an error type of its own, as
// [github.com/offshoot-sdk/offshoot/session/dirstore.BatchSizeError] does.
var ErrInvalidBatch = errors.New("session: invalid batch")

// Validate returns an error that wraps [ErrInvalidBatch] if b does not have entries, if one of its
// entries does not have a payload, or if one of its members is the zero Key. Every Journal calls it
// at the start of Append.
func (b Batch) Validate() error {
	if len(b.Entries) == 0 {
		return fmt.Errorf("%w %q: no entries", ErrInvalidBatch, b.ID)
	}
	for i := range b.Entries {
		if b.Entries[i].Payload == nil {
			return fmt.Errorf("%w %q: entry %d of %d has no payload",
				ErrInvalidBatch, b.ID, i, len(b.Entries))
		}
	}
	for i := range b.Members {
		if b.Members[i].IsZero() {
			return fmt.Errorf("%w %q: member %d of %d is the zero key",
				ErrInvalidBatch, b.ID, i, len(b.Members))
		}
	}
	return nil
}

// A Head describes one log.
type Head struct {
	Root Key       // the key under which the log is kept
	Last Seq       // position of the last entry
	Due  time.Time // Due of the last batch; zero: the log waits for nothing
}

// A RootQuery selects logs. The zero RootQuery selects every log. With several fields it selects
// the logs that each of them selects.
type RootQuery struct {
	// DueBefore selects the logs that have a Due before this time. Zero selects every log, those
	// without a Due included.
	DueBefore time.Time

	// Member selects the log that has this session as a member: a batch that the log still has
	// names the key in its [Batch.Members]. Zero selects every log. It is how a sub-agent's key,
	// which does not tell its tree, leads to that tree after a restart.
	Member Key
}

// A Journal keeps one append-only log for each tree of sessions, under the key of the tree's root.
// It does not interpret payloads.
//
// The owner of a tree is the only writer of its log, but a Journal does not rely on that. Append
// takes the position after which the writer believes to write, and refuses a position that is not
// the end of the log. So a former owner that is still running cannot change a log that another
// owner has taken over.
//
// All methods may be called concurrently, on the same log and on different ones. A method returns
// early with the error of ctx once ctx is done. The ctx of an Append by the owner of a tree ends
// when the owner's process shuts down, right before the end of the grace period, and not before: an
// Append that hangs holds its tree up until then. A Journal on a server should have a timeout of
// its own, whose error leaves the outcome unknown. A method that panics, or ends its goroutine, has
// failed. If the Journal can be closed, every method returns
// [ErrClosed] after that.
//
// Package [github.com/offshoot-sdk/offshoot/session/sessiontest] tests an implementation against
// these rules, one by one.
type Journal interface {
	// Append adds the whole batch to the log of root if the last sequence of the log is after. It
	// takes any batch up to [BatchLimit], and never splits one: a Journal over an engine with
	// smaller messages keeps the content elsewhere first, and then appends a message that names it.
	// Otherwise it adds nothing and returns ErrConflict. A log that does not exist ends at zero, so
	// the first Append to a root passes zero.
	//
	// Append returns the sequence of the last entry that it added. Once it has returned without an
	// error, the batch is durable, and every Read that begins later sees it.
	//
	// Append has added nothing if it returns ErrConflict, ErrInvalidBatch, ErrInvalidKey, ErrClosed
	// or the error of a ctx that was done before the call. Any other error leaves the outcome
	// unknown: the caller reads the log again, and the ID of the batch tells whether it was added.
	Append(ctx context.Context, root Key, after Seq, b Batch) (Seq, error)

	// Read yields, in order, the entries whose sequence is greater than after. It starts no earlier
	// than at the snapshot of the last reset. For a root without a log it yields nothing.
	//
	// Read yields every entry that was appended before the call. It may or may not yield entries
	// that are appended during the loop, but it never yields only a part of what a batch has beyond
	// after. An error is yielded once, with the zero Entry, and ends the sequence.
	Read(ctx context.Context, root Key, after Seq) iter.Seq2[Entry, error]

	// Roots yields the Head of every log that q selects, each once and in any order. The logs of
	// reserved roots, such as BindingsRoot, are among them.
	//
	// With a DueBefore, the cost must not depend on the number of logs that are not due, even if
	// there are millions. Roots may then yield some logs that are not due, but it never leaves out
	// a log that is.
	//
	// With a Member, the cost must not depend on the number of logs that do not have it. Roots may
	// then yield a log that does not have the member, because the batch that names it was not
	// added, or because a snapshot without it has replaced that batch: the caller reads the log to
	// find out. Roots never leaves out a log that has the member, from the moment when Append has
	// returned.
	//
	// A log that cannot be read does not hide the others: Roots yields the readable logs first, and
	// the error last.
	Roots(ctx context.Context, q RootQuery) iter.Seq2[Head, error]
}
