package sessiontest

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// archiveRef archives a transcript and returns its new name. The rule fails if Archive does.
func archiveRef(p *transcriptProbe, s session.Transcripts, ref session.Ref, at time.Time) string {
	name, err := s.Archive(p.ctx, ref, at)
	p.must(fmt.Sprintf("archive %v", ref), err)
	return name
}

func checkArchive(p *transcriptProbe) {
	s := p.open()
	writeLines(p, s, refA, 0, messages("x", 2)...)
	writeLines(p, s, refB, 0, messages("y", 1)...)
	name := archiveRef(p, s, refA, kitNoon)
	if want := session.ArchiveName("", kitNoon); !strings.HasSuffix(name, want) ||
		!strings.Contains(name, refA.SessionID) {
		p.fail(
			"the archived transcript is called %q, want a name of %q that ends with %q", name,
			refA.SessionID, want,
		)
	}
	wantTexts(p, s, refB, session.LineQuery{}, "y/0")
}

func checkArchiveAgain(p *transcriptProbe) {
	s := p.open()
	writeLines(p, s, refA, 0, messages("x", 1)...)
	first := archiveRef(p, s, refA, kitNoon)
	for _, at := range []time.Time{kitNoon, kitNoon.Add(time.Hour), kitNoon.Add(-time.Hour)} {
		if again := archiveRef(p, s, refA, at); again != first {
			p.fail("archived as %q, and again as %q", first, again)
		}
	}
}

func checkArchiveDurable(p *transcriptProbe) {
	s := p.open()
	writeLines(p, s, refA, 0, messages("x", 1)...)
	first := archiveRef(p, s, refA, kitNoon)
	s = p.reopen()
	if again := archiveRef(p, s, refA, kitNoon.Add(time.Hour)); again != first {
		p.fail("archived as %q, and again as %q after it was opened again", first, again)
	}
}

func checkReadArchived(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 2)...)
	archiveRef(p, s, refA, kitNoon)
	for range 2 {
		for _, q := range []session.LineQuery{{}, {After: last}, {Last: 1}} {
			n := 0
			for line, err := range s.Read(p.ctx, refA, q) {
				p.wantIs(fmt.Sprintf("read %+v of an archived transcript", q), err, session.ErrArchived)
				if line.Pos != 0 || line.Message.Text != "" {
					p.fail("read of an archived transcript yielded the line %q", line.Message.Text)
				}
				n++
			}
			if n != 1 {
				p.fail("read of an archived transcript yielded %d times, want an error once", n)
			}
		}
		s = p.reopen()
	}
}

func checkArchivedLines(p *transcriptProbe) {
	s := p.open()
	first := writeLines(p, s, refA, 0, messages("x", 2)...)
	last := writeLines(p, s, refA, first, messages("y", 3)...)
	before := linesOf(p, s, refA, session.LineQuery{})
	writeLines(p, s, refB, 0, messages("z", 1)...)
	all := session.LineQuery{Archived: true}
	wantTexts(p, s, refA, all, "x/0", "x/1", "y/0", "y/1", "y/2")
	archiveRef(p, s, refA, kitNoon)
	for range 2 {
		after := linesOf(p, s, refA, all)
		for i, line := range after {
			if len(after) != len(before) || line.Pos != before[i].Pos {
				p.fail("the archived transcript has %d lines, the one before had %d; line %d is at %d",
					len(after), len(before), i, line.Pos)
			}
		}
		wantTexts(p, s, refA, all, "x/0", "x/1", "y/0", "y/1", "y/2")
		wantTexts(p, s, refA, session.LineQuery{Archived: true, After: first}, factTexts("y", 3)...)
		wantTexts(p, s, refA, session.LineQuery{Archived: true, Last: 2}, "y/1", "y/2")
		wantTexts(p, s, refA, session.LineQuery{Archived: true, After: last})
		wantTexts(p, s, refB, all, "z/0")
		wantTexts(p, s, session.Ref{Key: refA.Key, SessionID: refB.SessionID}, all)
		s = p.reopen()
	}
}

func checkRemove(p *transcriptProbe) {
	s := p.open()
	other := session.Ref{Key: refA.Key, SessionID: refB.SessionID}
	for _, ref := range []session.Ref{refA, refB, other} {
		writeLines(p, s, ref, 0, messages("of "+ref.SessionID, 2)...)
	}
	archiveRef(p, s, refA, kitNoon)
	archiveRef(p, s, other, kitNoon)
	for range 2 {
		p.must("remove an archived transcript", s.Remove(p.ctx, refA))
		wantTexts(p, s, refA, session.LineQuery{})
		wantTexts(p, s, refA, session.LineQuery{Archived: true})
		p.wantIs("restore what was removed", s.Restore(p.ctx, refA), session.ErrNotFound)
		wantArchives(p, s, time.Time{}, session.Archived{Ref: other, At: kitNoon})
		all := session.LineQuery{Archived: true}
		wantTexts(p, s, other, all, factTexts("of "+other.SessionID, 2)...)
		wantTexts(p, s, refB, session.LineQuery{}, factTexts("of "+refB.SessionID, 2)...)
		s = p.reopen()
	}
	writeLines(p, s, refA, 0, messages("new", 1)...)
	wantTexts(p, s, refA, session.LineQuery{}, "new/0")
}

func checkRemoveLive(p *transcriptProbe) {
	s := p.open()
	p.must("remove what does not exist", s.Remove(p.ctx, refA))
	last := writeLines(p, s, refA, 0, messages("x", 2)...)
	p.wantIs("remove a transcript that is in use", s.Remove(p.ctx, refA), session.ErrNotArchived)
	s = p.reopen()
	p.wantIs("remove a transcript that is in use", s.Remove(p.ctx, refA), session.ErrNotArchived)
	writeLines(p, s, refA, last, messages("y", 1)...)
	wantTexts(p, s, refA, session.LineQuery{}, "x/0", "x/1", "y/0")
}

func checkArchived(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 1)...)
	archiveRef(p, s, refA, kitNoon)
	for _, after := range []session.Pos{0, last} {
		_, err := s.Append(p.ctx, refA, after, messages("late", 1)...)
		p.wantIs(
			fmt.Sprintf("append after %d to an archived transcript", after), err,
			session.ErrArchived,
		)
	}
	again := session.Ref{Key: refA.Key, SessionID: refB.SessionID}
	writeLines(p, s, again, 0, messages("new", 1)...)
	wantTexts(p, s, again, session.LineQuery{}, "new/0")
}

func checkArchiveNothing(p *transcriptProbe) {
	s := p.open()
	if name := archiveRef(p, s, refA, kitNoon); name != "" {
		p.fail("archiving what does not exist said the name %q", name)
	}
	writeLines(p, s, refA, 0, messages("x", 1)...)
	wantTexts(p, s, refA, session.LineQuery{}, "x/0")
}

func checkLocate(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 1)...)
	place := s.Locate(refA)
	writeLines(p, s, refA, last, messages("y", 1)...)
	if again := s.Locate(refA); again != place {
		p.fail("the transcript is at %q, and after an append at %q", place, again)
	}
	name := archiveRef(p, s, refA, kitNoon)
	after := s.Locate(refA)
	if place == "" && after != "" ||
		place != "" && (after == place || !strings.HasSuffix(after, name)) {
		p.fail("the transcript was at %q and, archived as %q, is at %q", place, name, after)
	}
}

func checkLinesEarlyStop(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 3)...)
	calls := 0
	s.Read(p.ctx, refA, session.LineQuery{})(func(session.Line, error) bool {
		calls++
		last = writeLines(p, s, refA, last, messages("inside", 1)...)
		return false
	})
	if calls != 1 {
		p.fail("read went on %d times after it was told to stop", calls-1)
	}
	writeLines(p, s, refA, last, messages("outside", 1)...)
}

// unencodable returns messages that have no JSON form.
func unencodable() map[string]session.Message {
	m := messages("bad", 1)[0]
	cost := func(c float64) session.Message {
		m := m
		m.Usage.Cost = c
		return m
	}
	at := func(t time.Time) session.Message {
		m := m
		m.Time = t
		return m
	}
	return map[string]session.Message{
		"a cost that is not a number": cost(math.NaN()),
		"an infinite cost":            cost(math.Inf(1)),
		"a cost below all numbers":    cost(math.Inf(-1)),
		"the year 10000":              at(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)),
		"the year -1":                 at(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)),
		"a zone of 25 hours":          at(kitNoon.In(time.FixedZone("far", 25*60*60))),
	}
}

func checkInvalidLine(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 2)...)
	for what, bad := range unencodable() {
		for i := range 3 {
			batch := messages("y", 3)
			batch[i] = bad
			_, err := s.Append(p.ctx, refA, last, batch...)
			p.wantIs("append of "+what, err, session.ErrInvalidLine)
			_, err = s.Append(p.ctx, refB, 0, batch...)
			p.wantIs("append of "+what+" to a new transcript", err, session.ErrInvalidLine)
		}
	}
	wantTexts(p, s, refA, session.LineQuery{}, factTexts("x", 2)...)
	wantTexts(p, s, refB, session.LineQuery{})
}

func checkInvalidRef(p *transcriptProbe) {
	s := p.open()
	for _, ref := range []session.Ref{
		{},
		{Key: rootA},
		{SessionID: refA.SessionID},
		{Key: session.BindingsRoot(), SessionID: refA.SessionID},
		{Key: rootA, SessionID: "../up"},
		{Key: rootA, SessionID: ".."},
		{Key: rootA, SessionID: "a/b"},
		{Key: rootA, SessionID: `a\b`},
		{Key: rootA, SessionID: "a b"},
		{Key: rootA, SessionID: "-a"},
		{Key: rootA, SessionID: "a\x00"},
		{Key: rootA, SessionID: strings.Repeat("a", 129)},
	} {
		_, err := s.Append(p.ctx, ref, 0, messages("x", 1)...)
		p.wantIs(fmt.Sprintf("append to %+v", ref), err, session.ErrInvalidKey)
		_, err = s.Archive(p.ctx, ref, kitNoon)
		p.wantIs(fmt.Sprintf("archive %+v", ref), err, session.ErrInvalidKey)
		err = s.Remove(p.ctx, ref)
		p.wantIs(fmt.Sprintf("remove %+v", ref), err, session.ErrInvalidKey)
		err = s.Restore(p.ctx, ref)
		p.wantIs(fmt.Sprintf("restore %+v", ref), err, session.ErrInvalidKey)
		failed := false
		for _, err := range s.Read(p.ctx, ref, session.LineQuery{}) {
			p.wantIs(fmt.Sprintf("read %+v", ref), err, session.ErrInvalidKey)
			failed = true
		}
		if !failed {
			p.fail("read %+v: no error", ref)
		}
	}
	writeLines(p, s, refA, 0, messages("x", 2)...)
	failed := false
	for _, err := range s.Read(p.ctx, refA, session.LineQuery{Last: -1}) {
		failed = failed || err != nil
	}
	if !failed {
		p.fail("read with a negative Last: no error")
	}
}

func checkLinesContext(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 2)...)
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	_, err := s.Append(ctx, refA, last, messages("late", 1)...)
	p.wantIs("append with a ctx that is done", err, context.Canceled)
	_, err = s.Archive(ctx, refA, kitNoon)
	p.wantIs("archive with a ctx that is done", err, context.Canceled)
	p.wantIs("remove with a ctx that is done", s.Remove(ctx, refA), context.Canceled)
	wantArchivesFail(ctx, p, s, "with a ctx that is done", context.Canceled)
	wantTexts(p, s, refA, session.LineQuery{}, factTexts("x", 2)...)
	n := 0
	for _, err := range s.Read(ctx, refA, session.LineQuery{}) {
		p.wantIs("read with a ctx that is done", err, context.Canceled)
		n++
	}
	if n != 1 {
		p.fail("read with a ctx that is done yielded %d times, want once", n)
	}
}

func checkLinesClosed(p *transcriptProbe) {
	s := p.open()
	c, ok := s.(io.Closer)
	if !ok {
		return
	}
	last := writeLines(p, s, refA, 0, messages("x", 1)...)
	p.must("close", c.Close())
	p.opened = nil
	_, err := s.Append(p.ctx, refA, last, messages("late", 1)...)
	p.wantIs("append after close", err, session.ErrClosed)
	_, err = s.Archive(p.ctx, refA, kitNoon)
	p.wantIs("archive after close", err, session.ErrClosed)
	p.wantIs("remove after close", s.Remove(p.ctx, refA), session.ErrClosed)
	wantArchivesFail(p.ctx, p, s, "after close", session.ErrClosed)
	for _, err := range s.Read(p.ctx, refA, session.LineQuery{}) {
		p.wantIs("read after close", err, session.ErrClosed)
	}
}
