package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// alikeRoots returns roots that careless storage takes for one another or cannot name.
func alikeRoots() []session.Key {
	long := strings.Repeat("x", session.MaxKeyLen-len("agent:main:matrix:channel:"))
	roots := []session.Key{
		session.GlobalKey(), session.BindingsRoot(), session.RepairsRoot(), session.DeliveredRoot(),
	}
	for _, text := range []string{
		"agent:main:main", "agent:main:main2", "agent:main:main.2", "agent:main:main_2",
		"agent:main:telegram:group:-100", "agent:main:telegram:group:-100:topic:42",
		"agent:main:telegram:group:-100:thread:42", "agent:main:telegram:group:-10042",
		"agent:main:matrix:channel:!Room:example.org", "agent:main:matrix:channel:!room:example.org",
		"agent:main:matrix:channel:../../etc/passwd", "agent:main:matrix:channel:%2e%2e",
		"agent:main:matrix:channel:..", "agent:main:matrix:channel:a.b>c*d",
		`agent:main:matrix:channel:a\b"c'd`, "agent:main:matrix:channel:" + long,
		"agent:main:matrix:channel:" + long[:len(long)-1], "agent:main:telegram:direct:中文",
	} {
		roots = append(roots, session.Must(session.Parse(text)))
	}
	return roots
}

// namedRoot returns the root agent:main:<name>.
func namedRoot(name string) session.Key { return session.Must(session.NamedKey("main", name)) }

func checkApart(p *journalProbe) {
	j := p.open()
	roots := alikeRoots()
	lasts := make([]session.Seq, len(roots))
	for i, root := range roots {
		lasts[i] = appendBatch(p, j, root, 0, factBatch(fmt.Sprint("first", i), 1))
	}
	for i, root := range roots {
		appendBatch(p, j, root, lasts[i], factBatch(fmt.Sprint("second", i), 1))
	}
	j = p.reopen()
	for i, root := range roots {
		wantFacts(p, j, root, 0, fmt.Sprintf("first%d/0", i), fmt.Sprintf("second%d/0", i))
	}
}

func checkAtOnce(p *journalProbe) {
	j := p.open()
	const logs, batches = 16, 8
	failed := make([]error, logs)
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			var last session.Seq
			for n := 0; n < batches && failed[i] == nil; n++ {
				last, failed[i] = j.Append(
					p.ctx, namedRoot(fmt.Sprint("log", i)), last,
					factBatch(fmt.Sprintf("%d-%d", i, n), 2),
				)
			}
		})
	}
	wg.Wait()
	p.must("append beside others", errors.Join(failed...))
	for i := range logs {
		var want []string
		for n := range batches {
			want = append(want, factTexts(fmt.Sprintf("%d-%d", i, n), 2)...)
		}
		wantFacts(p, j, namedRoot(fmt.Sprint("log", i)), 0, want...)
	}
}

// rootsOf returns the heads that q selects. The rule fails if Roots does, or if a root comes twice.
func rootsOf(p *journalProbe, j session.Journal, q session.RootQuery) map[session.Key]session.Head {
	heads := make(map[session.Key]session.Head)
	for h, err := range j.Roots(p.ctx, q) {
		p.must("roots", err)
		if _, twice := heads[h.Root]; twice {
			p.fail("roots: %q came twice", h.Root)
		}
		heads[h.Root] = h
	}
	return heads
}

func checkRoots(p *journalProbe) {
	j := p.open()
	want := make(map[session.Key]session.Head)
	for i, root := range alikeRoots() {
		h := session.Head{Root: root}
		if i%2 == 0 {
			h.Due = kitNoon.Add(time.Duration(i) * time.Hour)
		}
		h.Last = appendBatch(p, j, root, 0, dueAt(factBatch(fmt.Sprint("b", i), 1+i%3), h.Due))
		want[root] = h
	}
	got := rootsOf(p, j, session.RootQuery{})
	for root, h := range want {
		g, ok := got[root]
		if !ok || g.Last != h.Last || !g.Due.Equal(h.Due) {
			p.fail("roots: got %+v, want %+v", g, h)
		}
	}
	if len(got) != len(want) {
		p.fail("roots: got %d logs, want %d", len(got), len(want))
	}
}

// wantDue fails the rule unless every wanted root is among those that are due before a time.
func wantDue(p *journalProbe, j session.Journal, before time.Time, want ...session.Key) {
	got := rootsOf(p, j, session.RootQuery{DueBefore: before})
	for _, root := range want {
		if _, ok := got[root]; !ok {
			p.fail("roots due before %v: %q is not among the %d", before, root, len(got))
		}
	}
}

func checkDue(p *journalProbe) {
	j := p.open()
	var roots []session.Key
	for i := range 10 {
		root := namedRoot(fmt.Sprint("log", i))
		appendBatch(
			p, j, root, 0, dueAt(factBatch("b", 1), kitNoon.Add(time.Duration(9-i)*time.Hour)),
		)
		roots = append([]session.Key{root}, roots...)
	}
	for i := range roots {
		wantDue(p, j, kitNoon.Add(time.Duration(i)*time.Hour+1), roots[:i+1]...)
	}
	wantDue(p, j, kitNoon.AddDate(100, 0, 0), roots...)
}

func checkDueMoves(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, dueAt(factBatch("noon", 1), kitNoon))
	for _, due := range []time.Time{
		kitNoon.Add(time.Hour), kitNoon.Add(-time.Hour), {}, kitNoon.Add(2 * time.Hour), kitNoon,
	} {
		last = appendBatch(
			p, j, rootA, last, dueAt(factBatch("to "+due.Format(time.RFC3339), 1), due),
		)
		if h := rootsOf(p, j, session.RootQuery{})[rootA]; !h.Due.Equal(due) {
			p.fail("roots: the log is due at %v, want %v", h.Due, due)
		}
		if !due.IsZero() {
			wantDue(p, j, due.Add(1), rootA)
		}
	}
}

func checkDueAgain(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, dueAt(factBatch("first", 1), kitNoon))
	for i := range 3 {
		last = appendBatch(
			p, j, rootA, last,
			dueAt(factBatch(fmt.Sprint("put off", i), 1), kitNoon.Add(10*time.Hour)),
		)
		rootsOf(
			p, j, session.RootQuery{DueBefore: kitNoon.Add(9 * time.Hour)},
		) // it may be among them, or not
		due := kitNoon.Add(time.Duration(5+i) * time.Hour)
		last = appendBatch(p, j, rootA, last, dueAt(factBatch(fmt.Sprint("earlier", i), 1), due))
		wantDue(p, j, due.Add(1), rootA)
	}
}

func checkDueDurable(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, dueAt(factBatch("x", 1), kitNoon.Add(time.Hour)))
	appendBatch(p, j, rootA, last, dueAt(factBatch("y", 1), kitNoon))
	j = p.reopen()
	wantDue(p, j, kitNoon.Add(1), rootA)
	if h := rootsOf(p, j, session.RootQuery{})[rootA]; !h.Due.Equal(kitNoon) {
		p.fail("roots: the log is due at %v after it was opened again, want %v", h.Due, kitNoon)
	}
}

func checkNeverDue(p *journalProbe) {
	j := p.open()
	for i := range 50 {
		appendBatch(p, j, namedRoot(fmt.Sprint("idle", i)), 0, factBatch("b", 1))
	}
	appendBatch(p, j, rootA, 0, dueAt(factBatch("b", 1), kitNoon))
	got := rootsOf(p, j, session.RootQuery{DueBefore: kitNoon.Add(time.Hour)})
	delete(got, rootA)
	if len(got) > 0 {
		p.fail(
			"roots due before a time: %d of 50 logs that were never due are among them", len(got),
		)
	}
}

func checkEarlyStop(p *journalProbe) {
	j := p.open()
	first := withMembers(dueAt(factBatch("x", 3), kitNoon), 1)
	last := appendBatch(p, j, rootA, 0, first)
	appendBatch(p, j, rootB, 0, first)
	loops := []func(yield func() bool){
		func(yield func() bool) {
			j.Read(p.ctx, rootA, 0)(func(session.Entry, error) bool { return yield() })
		},
		func(yield func() bool) {
			j.Roots(p.ctx, session.RootQuery{})(func(session.Head, error) bool { return yield() })
		},
		func(yield func() bool) {
			j.Roots(p.ctx, session.RootQuery{DueBefore: kitNoon.Add(1)})(
				func(session.Head, error) bool { return yield() },
			)
		},
		func(yield func() bool) {
			j.Roots(p.ctx, session.RootQuery{Member: childKey(1)})(
				func(session.Head, error) bool { return yield() },
			)
		},
	}
	for i, loop := range loops {
		calls := 0
		loop(func() bool {
			calls++
			last = appendBatch(
				p, j, rootA, last, dueAt(factBatch(fmt.Sprint("inside", i), 1), kitNoon),
			)
			return false
		})
		if calls != 1 {
			p.fail("loop %d went on %d times after it was told to stop", i, calls-1)
		}
		last = appendBatch(
			p, j, rootA, last, dueAt(factBatch(fmt.Sprint("outside", i), 1), kitNoon),
		)
	}
}

func checkInvalid(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, factBatch("x", 1))
	_, err := j.Append(p.ctx, rootA, last, session.Batch{ID: "none"})
	p.wantIs("append of no entries", err, session.ErrInvalidBatch)
	_, err = j.Append(p.ctx, rootA, last, session.Batch{ID: "none", Reset: true})
	p.wantIs("a reset without a snapshot", err, session.ErrInvalidBatch)
	b := factBatch("hole", 3)
	b.Entries[2].Payload = nil
	_, err = j.Append(p.ctx, rootA, last, b)
	p.wantIs("append of an entry without a payload", err, session.ErrInvalidBatch)
	b = factBatch("nameless", 1)
	b.Members = []session.Key{childKey(1), {}}
	_, err = j.Append(p.ctx, rootA, last, b)
	p.wantIs("append of a batch that has the zero key as a member", err, session.ErrInvalidBatch)
	_, err = j.Append(p.ctx, session.Key{}, 0, factBatch("x", 1))
	p.wantIs("append to the zero root", err, session.ErrInvalidKey)
	wantFacts(p, j, rootA, 0, factTexts("x", 1)...)
}

// checkUnencodable tells an error that stays from one that passes: an owner tries a batch again
// unless the error says that the batch itself is wrong.
func checkUnencodable(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, factBatch("x", 1))
	for i := range 2 {
		b := factBatch("bad", 2)
		b.Entries[i].Payload = badFact{}
		_, err := j.Append(p.ctx, rootA, last, b)
		if err == nil {
			continue // "all or nothing" is about that
		}
		p.wantIs("append of a payload that cannot be encoded", err, session.ErrInvalidBatch)
	}
}

// rootQueries returns queries of every kind, each of which selects a log that is due at kitNoon and
// has childKey(1) as a member.
func rootQueries() []session.RootQuery {
	return []session.RootQuery{{}, {DueBefore: kitNoon.Add(1)}, {Member: childKey(1)}}
}

func checkContext(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, withMembers(dueAt(factBatch("x", 2), kitNoon), 1))
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	_, err := j.Append(ctx, rootA, last, factBatch("late", 1))
	p.wantIs("append with a ctx that is done", err, context.Canceled)
	wantFacts(p, j, rootA, 0, factTexts("x", 2)...)
	var errs []error
	for e, err := range j.Read(ctx, rootA, 0) {
		if err == nil {
			p.fail("read with a ctx that is done yielded entry %d", e.Seq)
		}
		errs = append(errs, err)
	}
	for _, q := range rootQueries() {
		for h, err := range j.Roots(ctx, q) {
			if err == nil {
				p.fail("roots with a ctx that is done yielded %q", h.Root)
			}
			errs = append(errs, err)
		}
	}
	if want := 1 + len(rootQueries()); len(errs) != want {
		p.fail("read and roots with a ctx that is done: %d calls yielded %d errors, want one each",
			want, len(errs))
	}
	for _, err := range errs {
		p.wantIs("read or roots with a ctx that is done", err, context.Canceled)
	}
}

func checkClosed(p *journalProbe) {
	j := p.open()
	c, ok := j.(io.Closer)
	if !ok {
		return
	}
	last := appendBatch(p, j, rootA, 0, withMembers(dueAt(factBatch("x", 1), kitNoon), 1))
	p.must("close", c.Close())
	p.opened = nil
	_, err := j.Append(p.ctx, rootA, last, factBatch("late", 1))
	p.wantIs("append after close", err, session.ErrClosed)
	for _, err := range j.Read(p.ctx, rootA, 0) {
		p.wantIs("read after close", err, session.ErrClosed)
	}
	for _, q := range rootQueries() {
		for _, err := range j.Roots(p.ctx, q) {
			p.wantIs("roots after close", err, session.ErrClosed)
		}
	}
}
