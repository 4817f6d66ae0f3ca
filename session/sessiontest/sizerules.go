package sessiontest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
)

// batchBytes is how large the batches of these rules are. The tests of the rules make it smaller.
var batchBytes = session.BatchLimit / underRace

// bulk is a JSON string of so many bytes, quotes included.
type bulk int

func (n bulk) AppendJSON(b []byte) ([]byte, error) {
	b = append(b, '"')
	b = append(b, bytes.Repeat([]byte{'x'}, int(n)-2)...)
	return append(b, '"'), nil
}

// CheckJSON says that n can be encoded; see [session.Payload].
func (bulk) CheckJSON() error { return nil }

// bulkBatch returns a batch of a size, as [session.BatchLimit] counts it, in entries of at most
// each bytes.
func bulkBatch(id string, size, each int) session.Batch {
	const perPayload = 16
	b := session.Batch{ID: session.BatchID(id)}
	for size -= len(id); size >= perPayload+2; {
		n := min(size-perPayload, each)
		b.Entries = append(b.Entries, session.Entry{Payload: bulk(n)})
		size -= perPayload + n
	}
	return b
}

// wantBulk fails the rule unless the log of root has exactly the entries of the batches.
func wantBulk(p *journalProbe, j session.Journal, root session.Key, batches ...session.Batch) {
	entries := entriesOf(p, j, root, 0)
	var want, got []byte
	for _, b := range batches {
		for i := range b.Entries {
			if len(entries) == 0 {
				p.fail("the log ends before entry %d of batch %q", i, b.ID)
			}
			e := entries[0]
			entries = entries[1:]
			var err, wantErr error
			want, wantErr = b.Entries[i].Payload.AppendJSON(want[:0])
			got, err = e.Payload.AppendJSON(got[:0])
			p.must("encode", errors.Join(wantErr, err))
			if !bytes.Equal(want, got) {
				p.fail("entry %d of batch %q was read back as %d bytes of batch %q, want %d",
					i, b.ID, len(got), e.Batch, len(want))
			}
		}
	}
	if len(entries) > 0 {
		p.fail("the log has %d entries more than were appended", len(entries))
	}
}

// The least and the greatest size of the entries of a large batch.
const smallEntry, largeEntry = 1 << 10, session.BatchLimit

func checkLargeBatch(p *journalProbe) {
	for i, each := range []int{largeEntry, smallEntry} {
		j := p.reopen()
		root := namedRoot(fmt.Sprint("log", i))
		small := factBatch("small", 2)
		b := bulkBatch("large", batchBytes, each)
		appendBatch(p, j, root, appendBatch(p, j, root, 0, small), b)
		wantBulk(p, p.reopen(), root, small, b)
	}
}

func checkLargeSnapshot(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, factBatch("before", 3))
	b := asReset(bulkBatch("snapshot", batchBytes, batchBytes/2))
	appendBatch(p, j, rootA, last, b)
	wantBulk(p, j, rootA, b)
}

func checkTooLarge(p *journalProbe) {
	j := p.open()
	before := factBatch("before", 2)
	last := appendBatch(p, j, rootA, 0, before)
	b := asReset(bulkBatch("too large", batchBytes+batchBytes/8, batchBytes/3))
	switch _, err := j.Append(p.ctx, rootA, last, b); {
	case err == nil:
		wantBulk(p, j, rootA, b)
	case errors.Is(err, session.ErrInvalidBatch):
		after := factBatch("after", 1)
		appendBatch(p, j, rootA, last, after)
		wantBulk(p, j, rootA, before, after)
	default:
		p.fail("append of a batch above the limit: got %v, want ErrInvalidBatch or nil", err)
	}
}
