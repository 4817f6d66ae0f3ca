package sessiontest

import (
	"context"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// restoreRef takes an archived transcript into use again. The rule fails if Restore does.
func restoreRef(p *transcriptProbe, s session.Transcripts, ref session.Ref) {
	p.must("restore "+ref.SessionID, s.Restore(p.ctx, ref))
}

func checkRestore(p *transcriptProbe) {
	s := p.open()
	first := writeLines(p, s, refA, 0, messages("x", 2)...)
	last := writeLines(p, s, refA, first, messages("y", 2)...)
	before := linesOf(p, s, refA, session.LineQuery{})
	other := session.Ref{Key: refA.Key, SessionID: refB.SessionID}
	writeLines(p, s, other, 0, messages("z", 1)...)
	archiveRef(p, s, refA, kitNoon)
	archiveRef(p, s, other, kitNoon)
	restoreRef(p, s, refA)
	after := linesOf(p, s, refA, session.LineQuery{})
	for i, line := range after {
		if len(after) != len(before) || line.Pos != before[i].Pos {
			p.fail("the restored transcript has %d lines, the one before had %d; line %d is at %d",
				len(after), len(before), i, line.Pos)
		}
	}
	writeLines(p, s, refA, last, messages("w", 1)...)
	wantTexts(p, s, refA, session.LineQuery{}, "x/0", "x/1", "y/0", "y/1", "w/0")
	wantArchives(p, s, time.Time{}, session.Archived{Ref: other, At: kitNoon})
}

func checkRestoreDurable(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 1)...)
	archiveRef(p, s, refA, kitNoon)
	s = p.reopen()
	restoreRef(p, s, refA)
	s = p.reopen()
	wantTexts(p, s, refA, session.LineQuery{}, "x/0")
	writeLines(p, s, refA, last, messages("y", 1)...)
	wantTexts(p, s, refA, session.LineQuery{}, "x/0", "y/0")
}

func checkRestoreLive(p *transcriptProbe) {
	s := p.open()
	p.wantIs("restore what does not exist", s.Restore(p.ctx, refA), session.ErrNotFound)
	last := writeLines(p, s, refA, 0, messages("x", 2)...)
	restoreRef(p, s, refA)
	writeLines(p, s, refA, last, messages("y", 1)...)
	wantTexts(p, s, refA, session.LineQuery{}, "x/0", "x/1", "y/0")
}

func checkRestoreAgain(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 1)...)
	for i := range 3 {
		at := kitNoon.Add(time.Duration(i) * time.Hour)
		archiveRef(p, s, refA, at)
		wantArchives(p, s, time.Time{}, session.Archived{Ref: refA, At: at})
		restoreRef(p, s, refA)
		last = writeLines(p, s, refA, last, messages("y", 1)...)
	}
	wantTexts(p, s, refA, session.LineQuery{}, "x/0", "y/0", "y/0", "y/0")
}

// wantArchives fails the rule unless Archives yields these transcripts.
func wantArchives(
	p *transcriptProbe, s session.Transcripts, before time.Time, want ...session.Archived,
) {
	var got []session.Archived
	for a, err := range s.Archives(p.ctx, before) {
		p.must("list archives", err)
		got = append(got, a)
	}
	for _, w := range want {
		at := slices.IndexFunc(got, func(a session.Archived) bool {
			return a.Ref == w.Ref && a.At.Equal(w.At)
		})
		if at < 0 {
			p.fail("the archives before %v are %v, want %v among them", before, got, w)
		}
		got = slices.Delete(got, at, at+1)
	}
	if len(got) > 0 {
		p.fail("the archives before %v are also %v", before, got)
	}
}

func checkArchives(p *transcriptProbe) {
	s := p.open()
	other := session.Ref{Key: refA.Key, SessionID: refB.SessionID}
	var all []session.Archived
	wantArchives(p, s, time.Time{})
	for i, ref := range []session.Ref{refA, refB, other} {
		writeLines(p, s, ref, 0, messages("x", 1)...)
		all = append(all, session.Archived{Ref: ref, At: kitNoon.Add(time.Duration(i) * time.Hour)})
	}
	wantArchives(p, s, time.Time{})
	for _, a := range all {
		archiveRef(p, s, a.Ref, a.At)
	}
	for range 2 {
		wantArchives(p, s, time.Time{}, all...)
		wantArchives(p, s, kitNoon.Add(90*time.Minute), all[:2]...)
		wantArchives(p, s, all[1].At, all[:1]...)
		wantArchives(p, s, kitNoon)
		s = p.reopen()
	}
	calls := 0
	s.Archives(p.ctx, time.Time{})(func(session.Archived, error) bool {
		calls++
		restoreRef(p, s, other)
		return false
	})
	if calls != 1 {
		p.fail("archives went on %d times after it was told to stop", calls-1)
	}
	restoreRef(p, s, refA)
	wantArchives(p, s, time.Time{}, all[1])
}

// wantArchivesFail fails the rule unless Restore and Archives return an error that is target.
func wantArchivesFail(
	ctx context.Context, p *transcriptProbe, s session.Transcripts, what string, target error,
) {
	p.wantIs("restore "+what, s.Restore(ctx, refA), target)
	n := 0
	for a, err := range s.Archives(ctx, time.Time{}) {
		p.wantIs("list archives "+what, err, target)
		if a != (session.Archived{}) {
			p.fail("archives %s yielded %v beside the error", what, a)
		}
		n++
	}
	if n != 1 {
		p.fail("archives %s yielded %d times, want once", what, n)
	}
}

func checkFileRestore(p *fileProbe) {
	s := p.open()
	x, y, z := fileBytes("x", 100), fileBytes("y", 100_000), fileBytes("z", 10)
	putFile(p, s, refA, x)
	putFile(p, s, refA, y)
	archiveFiles(p, s, refA, kitNoon)
	p.must("restore", s.Restore(p.ctx, refA))
	putFile(p, s, refA, z)
	putFile(p, s, refA, x)
}

func checkFileRestoreNothing(p *fileProbe) {
	s := p.open()
	p.must("restore nothing", s.Restore(p.ctx, refA))
	wantFiles(p, s, refA)
	x := fileBytes("x", 100)
	putFile(p, s, refA, x)
	p.must("restore what is in use", s.Restore(p.ctx, refA))
	wantFiles(p, s, refA, x)
}

func checkFileRestoreDurable(p *fileProbe) {
	s := p.open()
	x, y := fileBytes("x", 100), fileBytes("y", 10)
	putFile(p, s, refA, x)
	archiveFiles(p, s, refA, kitNoon)
	s = p.reopen()
	p.must("restore", s.Restore(p.ctx, refA))
	putFile(p, p.reopen(), refA, y)
}
