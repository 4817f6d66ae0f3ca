package sessiontest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/session"
)

func checkEmpty(p *journalProbe) {
	j := p.open()
	wantFacts(p, j, rootA, 0)
	wantFacts(p, j, rootA, 7)
	for h, err := range j.Roots(p.ctx, session.RootQuery{}) {
		p.must("roots", err)
		p.fail("roots: got the log %q where none was written", h.Root)
	}
}

func checkOrder(p *journalProbe) {
	j := p.open()
	var last session.Seq
	var want []string
	for i := range 20 {
		id := fmt.Sprint("b", i)
		last = appendBatch(p, j, rootA, last, factBatch(id, 1+i%3))
		want = append(want, factTexts(id, 1+i%3)...)
	}
	wantFacts(p, j, rootA, 0, want...)
	var before session.Seq
	for _, e := range entriesOf(p, j, rootA, 0) {
		if e.Seq <= before {
			p.fail("entry %q has sequence %d after %d", textOf(e), e.Seq, before)
		}
		before = e.Seq
	}
}

func checkAfter(p *journalProbe) {
	j := p.open()
	appendBatch(p, j, rootA, appendBatch(p, j, rootA, 0, factBatch("x", 3)), factBatch("y", 3))
	all := entriesOf(p, j, rootA, 0)
	for i, e := range all {
		var want []string
		for _, later := range all[i+1:] {
			want = append(want, textOf(later))
		}
		wantFacts(p, j, rootA, e.Seq, want...)
	}
}

func checkLast(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, factBatch("x", 3))
	for range 2 {
		entries := entriesOf(p, j, rootA, 0)
		if len(entries) == 0 || entries[len(entries)-1].Seq != last {
			p.fail("append returned %d, but the log is %v", last, entries)
		}
		last = appendBatch(p, j, rootA, last, factBatch("y", 2))
	}
}

func checkStale(p *journalProbe) {
	j := p.open()
	first := appendBatch(p, j, rootA, 0, factBatch("x", 2))
	appendBatch(p, j, rootA, first, factBatch("y", 2))
	middle := entriesOf(p, j, rootA, first)[0].Seq
	for _, after := range []session.Seq{0, first, middle} {
		_, err := j.Append(p.ctx, rootA, after, factBatch("stale", 1))
		p.wantIs(fmt.Sprintf("append after %d", after), err, session.ErrConflict)
	}
	wantFacts(p, j, rootA, 0, append(factTexts("x", 2), factTexts("y", 2)...)...)
}

func checkAhead(p *journalProbe) {
	j := p.open()
	_, err := j.Append(p.ctx, rootA, 1, factBatch("ahead", 1))
	p.wantIs("append after 1 to a log that does not exist", err, session.ErrConflict)
	last := appendBatch(p, j, rootA, 0, factBatch("x", 2))
	_, err = j.Append(p.ctx, rootA, last+1, factBatch("ahead", 1))
	p.wantIs("append beyond the end", err, session.ErrConflict)
	wantFacts(p, j, rootA, 0, factTexts("x", 2)...)
}

func checkOneWinner(p *journalProbe) {
	j := p.open()
	const rivals, rounds = 64, 8
	var last session.Seq
	var want []string
	for round := range rounds {
		var (
			mu      sync.Mutex
			wg      sync.WaitGroup
			winners []string
			next    session.Seq
			strange error
		)
		for i := range rivals {
			wg.Go(func() {
				id := fmt.Sprintf("r%d-%d", round, i)
				seq, err := j.Append(p.ctx, rootA, last, factBatch(id, 1))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					winners, next = append(winners, id), seq
				case !errors.Is(err, session.ErrConflict):
					strange = err
				}
			})
		}
		wg.Wait()
		p.must("append among rivals", strange)
		if len(winners) != 1 {
			p.fail("%d of %d appends after %d succeeded: %q", len(winners), rivals, last, winners)
		}
		last, want = next, append(want, factTexts(winners[0], 1)...)
	}
	wantFacts(p, j, rootA, 0, want...)
}

func checkWholeBatches(p *journalProbe) {
	j := p.open()
	const batches, size, readers = 40, 5, 4
	var last session.Seq
	for i := range batches {
		var wg sync.WaitGroup
		torn := make(chan error, readers)
		for range readers {
			wg.Go(func() {
				entries, err := readEntries(p.ctx, j, rootA, 0)
				if n := len(entries); err == nil && n%size != 0 {
					err = fmt.Errorf("a read beside an append of %d entries saw %d", size, n)
				}
				torn <- err
			})
		}
		next, err := j.Append(p.ctx, rootA, last, factBatch(fmt.Sprint("b", i), size))
		wg.Wait()
		p.must("append", err)
		for range readers {
			if err := <-torn; err != nil {
				p.fail("%w", err)
			}
		}
		last = next
	}
}

func checkAllOrNothing(p *journalProbe) {
	j := p.open()
	b := factBatch("mixed", 3)
	b.Entries[1].Payload = badFact{}
	_, err := j.Append(p.ctx, rootA, 0, b)
	entries, readErr := readEntries(p.ctx, j, rootA, 0)
	p.must("read after a batch that cannot be encoded", readErr)
	if n := len(entries); err == nil || n != 0 {
		p.fail(
			"append of 3 entries, one of which cannot be encoded, returned %v and added %d", err, n,
		)
	}
}

func checkBatchID(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, factBatch("one", 2))
	last = appendBatch(p, j, rootA, last, factBatch("two", 1))
	appendBatch(p, j, rootA, last, asReset(factBatch("three", 2)))
	appendBatch(p, j, rootB, 0, factBatch("one", 1))
	for _, root := range []session.Key{rootA, rootB} {
		for _, e := range entriesOf(p, j, root, 0) {
			if id, _, _ := strings.Cut(textOf(e), "/"); session.BatchID(id) != e.Batch {
				p.fail("entry %q of %q carries the batch id %q", textOf(e), root, e.Batch)
			}
		}
	}
}

// hardValues are JSON values that careless storage changes.
var hardValues = []string{
	`null`, `true`, `""`, `[]`, `{}`, `{"a":{"b":[1,2.50,-0.0,1e400]}}`,
	`9007199254740993`, `123456789012345678901234567890`,
	`"<a href=\"x\">&amp;</a>"`, `"\u0000\u001f\u2028 and \\n"`, `"line\nbreak\r\n"`, `"😀 ünïcödé 中文"`, `"'; DROP TABLE logs; --"`,
	`{"z":1,"a":2,"":3}`,
}

func checkPayload(p *journalProbe) {
	j := p.open()
	b := session.Batch{ID: "hard"}
	for _, v := range hardValues {
		b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(v)})
	}
	long, err := json.Marshal(strings.Repeat("long ", 50_000))
	p.must("encode", err)
	b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(long)})
	wanted := append(slices.Clone(hardValues), string(long))
	appendBatch(p, j, rootA, 0, b)
	entries := entriesOf(p, j, rootA, 0)
	if len(entries) != len(wanted) {
		p.fail("got %d entries, want %d", len(entries), len(wanted))
	}
	for i, e := range entries {
		got, err := e.Payload.AppendJSON(nil)
		p.must("encode what was read", err)
		if !sameJSON(got, []byte(wanted[i])) {
			p.fail("payload %.100q was read back as %.100q", wanted[i], got)
		}
	}
}

// sameJSON reports whether two texts are the same JSON value, every digit of numbers included.
func sameJSON(a, b []byte) bool {
	canonical := func(data []byte) (string, error) {
		var v any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			return "", err
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return "", errors.New("more than one value")
		}
		out, err := json.Marshal(v)
		return string(out), err
	}
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && x == y
}

func checkVisible(p *journalProbe) {
	j := p.open()
	var last session.Seq
	for i := range 20 {
		next := appendBatch(p, j, rootA, last, factBatch(fmt.Sprint("b", i), 2))
		seen := make(chan int, 4)
		for range cap(seen) {
			go func() {
				entries, err := readEntries(p.ctx, j, rootA, last)
				if err != nil {
					entries = nil
				}
				seen <- len(entries)
			}()
		}
		counts := []int{<-seen, <-seen, <-seen, <-seen}
		if !slices.Equal(counts, []int{2, 2, 2, 2}) {
			p.fail("after append %d had returned, reads saw %v of its 2 entries", i, counts)
		}
		last = next
	}
}

func checkDurable(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, factBatch("x", 2))
	j = p.reopen()
	wantFacts(p, j, rootA, 0, factTexts("x", 2)...)
	_, err := j.Append(p.ctx, rootA, 0, factBatch("stale", 1))
	p.wantIs("append after 0 to the log that was opened again", err, session.ErrConflict)
	appendBatch(p, j, rootA, last, factBatch("y", 1))
	wantFacts(p, p.reopen(), rootA, 0, append(factTexts("x", 2), factTexts("y", 1)...)...)
}

func checkLostAck(p *journalProbe) {
	j := p.open()
	known := appendBatch(p, j, rootA, 0, factBatch("known", 1))
	appendBatch(p, j, rootA, known, factBatch("unsure", 2)) // as if this answer had been lost
	j = p.reopen()
	var last session.Seq
	for _, e := range entriesOf(p, j, rootA, known) {
		if e.Batch != "unsure" {
			p.fail("the batch %q was read back as %q", "unsure", e.Batch)
		}
		last = e.Seq
	}
	appendBatch(p, j, rootA, last, factBatch("next", 1))
}

func checkReset(p *journalProbe) {
	j := p.open()
	before := appendBatch(p, j, rootA, 0, factBatch("old", 3))
	old := entriesOf(p, j, rootA, 0)
	last := appendBatch(p, j, rootA, before, asReset(factBatch("snap", 2)))
	wantFacts(p, j, rootA, 0, factTexts("snap", 2)...)
	for _, e := range old {
		wantFacts(p, j, rootA, e.Seq, factTexts("snap", 2)...)
	}
	if snapshot := entriesOf(p, j, rootA, 0)[0].Seq; snapshot <= before {
		p.fail("the snapshot has sequence %d, but the log had reached %d", snapshot, before)
	}
	appendBatch(p, j, rootA, last, factBatch("new", 1))
	wantFacts(p, j, rootA, 0, append(factTexts("snap", 2), factTexts("new", 1)...)...)
	wantFacts(p, j, rootA, last, factTexts("new", 1)...)
}

func checkResetDurable(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, factBatch("old", 3))
	last = appendBatch(p, j, rootA, last, asReset(factBatch("snap", 1)))
	last = appendBatch(p, j, rootA, last, factBatch("new", 1))
	j = p.reopen()
	wantFacts(p, j, rootA, 0, append(factTexts("snap", 1), factTexts("new", 1)...)...)
	appendBatch(p, j, rootA, last, factBatch("newer", 1))
}

func checkResetConflict(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, factBatch("x", 2))
	appendBatch(p, j, rootA, last, factBatch("y", 1))
	_, err := j.Append(p.ctx, rootA, last, asReset(factBatch("snap", 1)))
	p.wantIs("a reset after a stale sequence", err, session.ErrConflict)
	wantFacts(p, j, rootA, 0, append(factTexts("x", 2), factTexts("y", 1)...)...)
}
