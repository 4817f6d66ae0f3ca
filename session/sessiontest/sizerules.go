package sessiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// batchBytes is how large the batches of these rules are, and the lines, files and requests. The
// tests of the rules make it smaller.
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

// messageOf returns a message whose JSON has so many bytes.
func messageOf(p *transcriptProbe, size int) session.Message {
	m := messages("large", 1)[0]
	text, err := m.AppendJSON(nil)
	p.must("encode", err)
	m.Text += strings.Repeat("x", size-len(text))
	return m
}

// lineRoom is what a Transcripts may take of [session.BatchLimit] for itself, beside a line.
const lineRoom = 1 << 10

func checkLargeLine(p *transcriptProbe) {
	s := p.open()
	before, large := messages("before", 1)[0], messageOf(p, batchBytes-lineRoom)
	after := messages("after", 1)[0]
	last := writeLines(p, s, refA, writeLines(p, s, refA, 0, before), large)
	s = p.reopen()
	writeLines(p, s, refA, last, after)
	wantLargeTexts(p, s, before, large, after)
}

func checkLongLine(p *transcriptProbe) {
	s := p.open()
	before, after := messages("before", 1)[0], messages("after", 1)[0]
	long := messageOf(p, batchBytes+1)
	last := writeLines(p, s, refA, 0, before)
	switch at, err := s.Append(p.ctx, refA, last, after, long); {
	case err == nil:
		writeLines(p, s, refA, at, after)
		wantLargeTexts(p, s, before, after, long, after)
	case errors.Is(err, session.ErrInvalidLine):
		writeLines(p, s, refA, last, after)
		wantLargeTexts(p, s, before, after)
	default:
		p.fail("append of a line above the limit: got %v, want ErrInvalidLine or nil", err)
	}
}

// wantLargeTexts fails the rule unless a transcript has exactly these messages. It does not quote
// them.
func wantLargeTexts(p *transcriptProbe, s session.Transcripts, want ...session.Message) {
	got := linesOf(p, s, refA, session.LineQuery{})
	if len(got) != len(want) {
		p.fail("there are %d lines, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Message.Text != want[i].Text {
			p.fail("line %d was read back as %d bytes, want %d", i, len(got[i].Message.Text),
				len(want[i].Text))
		}
	}
}

func checkLargeFile(p *fileProbe) {
	s := p.open()
	data := bytes.Repeat([]byte("large"), batchBytes/5+1)
	file, err := s.Put(p.ctx, refA, bytes.NewReader(data), session.File{})
	p.must("put", err)
	if want := fileOf(data); file != want {
		p.fail("put %d bytes: got %+v, want %+v", len(data), file, want)
	}
	r, err := p.reopen().Open(p.ctx, refA, file.Hash)
	p.must("open", err)
	got, err := io.ReadAll(r)
	p.must("read", errors.Join(err, r.Close()))
	if !bytes.Equal(got, data) {
		p.fail("%d bytes were read back as %d", len(data), len(got))
	}
}

func checkLargeRequest(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", func(_ context.Context, r session.Request) []byte { return r.Body }),
		c.join(p, "b")
	a.claim(treeKey("one"))
	r := session.Request{
		ID: "1", Root: treeKey("one"), Body: bytes.Repeat([]byte("\xff\x00"), batchBytes/2),
	}
	var answer []byte
	var err error
	c.until(p, "the largest body is answered", 100, func() bool {
		answer, err = b.Call(p.ctx, r) // one whose outcome is not known is repeated
		p.mustNotBe("call with the largest body", err, session.ErrInvalidRequest)
		return err == nil
	})
	if !bytes.Equal(answer, r.Body) {
		p.fail("a body of %d bytes was answered with %d others", len(r.Body), len(answer))
	}
	if n := len(a.handled()); n != 1 {
		p.fail("the request was handled %d times", n)
	}
}
