package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A RepairMark is the record that a [Journal] is not the one that its owners wrote: a damaged one
// was repaired, or an older copy was restored. What was acknowledged may be missing, and nothing in
// the trees tells. The next owner of each tree takes the mark over. What leaves the tree after that
// has keys with the ID of the mark, so that none is a key that was handed out before.
//
// The log under [RepairsRoot] has the marks. The last one counts.
type RepairMark struct {
	ID   string    `json:"repair"` // random
	Time time.Time `json:"time"`
}

// NewRepairMark returns a mark with a new ID.
func NewRepairMark(now time.Time) RepairMark {
	id := NewID()
	return RepairMark{ID: id[len(id)-12:], Time: now.UTC()}
}

// AppendJSON implements [Payload].
func (m RepairMark) AppendJSON(b []byte) ([]byte, error) {
	text, err := json.Marshal(m)
	return append(b, text...), err
}

// farFuture is the Due of the log of marks. A Journal in a directory moves a log that waits for
// nothing to a file of its own. This one stays where it is read with the rest.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Batch returns the batch that records m under [RepairsRoot]. It replaces the marks before.
func (m RepairMark) Batch() Batch {
	return Batch{ID: BatchID(m.ID), Entries: []Entry{{Payload: m}}, Due: farFuture, Reset: true}
}

// LastRepair returns the last mark of a journal, or the zero RepairMark if there is none. The error
// is that of the journal, or [ErrFormat] for an entry that this version does not know.
func LastRepair(ctx context.Context, j Journal) (m RepairMark, err error) {
	m, _, err = lastRepair(ctx, j)
	return m, err
}

func lastRepair(ctx context.Context, j Journal) (m RepairMark, last Seq, err error) {
	return lastMark(ctx, j, RepairsRoot(), "repairs", func(m RepairMark) bool { return m.ID != "" })
}

// MarkRepaired records a new mark. A program calls it after it has restored an older copy of a
// journal, or has repaired one with tools of its own, and before a bot runs with the journal.
// [github.com/offshoot-sdk/offshoot/session/dirstore.Repair] does that by itself.
func MarkRepaired(ctx context.Context, j Journal, now time.Time) (RepairMark, error) {
	_, last, err := lastRepair(ctx, j)
	if err != nil {
		return RepairMark{}, err
	}
	m := NewRepairMark(now)
	if _, err := j.Append(ctx, RepairsRoot(), last, m.Batch()); err != nil {
		return RepairMark{}, fmt.Errorf("session: marking a journal as repaired: %w", err)
	}
	return m, nil
}
