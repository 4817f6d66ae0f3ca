package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A CopyMark is the record that the Store of a [Journal] is a copy of another one. It is there
// before anything else is, so that a copy which was cut off is not taken for a whole Store: see
// [ErrUnfinishedCopy].
//
// The log under [CopiesRoot] has the marks. The last one counts.
type CopyMark struct {
	ID    string    `json:"copy"` // random; that of the attempt which began
	Begun time.Time `json:"begun"`
	Ended time.Time `json:"ended,omitzero"` // zero: the copy is not whole
}

// AppendJSON implements [Payload].
func (m CopyMark) AppendJSON(b []byte) ([]byte, error) {
	text, err := json.Marshal(m)
	return append(b, text...), err
}

// Batch returns the batch that records m under [CopiesRoot]. It replaces the marks before.
func (m CopyMark) Batch() Batch {
	return Batch{ID: BatchID(m.ID), Entries: []Entry{{Payload: m}}, Due: farFuture, Reset: true}
}

// LastCopy returns the last mark of a journal and its place, or zero values if there is none. The
// error is that of the journal, or [ErrFormat] for an entry that this version does not know.
func LastCopy(ctx context.Context, j Journal) (m CopyMark, last Seq, err error) {
	return lastMark(ctx, j, CopiesRoot(), "copies", func(m CopyMark) bool { return m.ID != "" })
}

// CheckCopy returns an error that is [ErrUnfinishedCopy] if a copy into a journal was begun and has
// not ended. A program that uses a Store calls it first; package spawn does.
func CheckCopy(ctx context.Context, j Journal) error {
	m, _, err := LastCopy(ctx, j)
	if err == nil && m.ID != "" && m.Ended.IsZero() {
		err = fmt.Errorf("%w: copy %s, which began at %s", ErrUnfinishedCopy, m.ID,
			m.Begun.UTC().Format(time.RFC3339))
	}
	return err
}

// lastMark returns the last entry under a reserved root, and its place, or zero values. isMark
// reports whether one is complete.
func lastMark[T any](
	ctx context.Context, j Journal, root Key, what string, isMark func(T) bool,
) (m T, last Seq, err error) {
	var none T
	if j == nil {
		return none, 0, fmt.Errorf("session: the marks of %s: the journal is nil", what)
	}
	for e, err := range j.Read(ctx, root, 0) {
		if err != nil {
			return none, 0, fmt.Errorf("session: reading the marks of %s: %w", what, err)
		}
		var text []byte
		if text, err = e.Payload.AppendJSON(nil); err == nil {
			m = none
			err = json.Unmarshal(text, &m)
		}
		if err == nil && !isMark(m) {
			err = errors.New("it has no id")
		}
		if err != nil {
			return none, 0, fmt.Errorf("%w: mark of %s, entry %d: %w", ErrFormat, what, e.Seq, err)
		}
		last = e.Seq
	}
	return m, last, nil
}
