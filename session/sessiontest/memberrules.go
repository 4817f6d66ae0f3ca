package sessiontest

import (
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// childKey returns the key of sub-agent number n. Most of its text is that of all others.
func childKey(n int) session.Key {
	return session.Must(session.Parse(
		fmt.Sprintf("agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-%012x", n)))
}

// withMembers returns b with the sub-agents of these numbers as members.
func withMembers(b session.Batch, children ...int) session.Batch {
	for _, n := range children {
		b.Members = append(b.Members, childKey(n))
	}
	return b
}

// wantMembers fails the rule unless each of these sub-agents leads to root.
func wantMembers(p *journalProbe, j session.Journal, root session.Key, children ...int) {
	for _, n := range children {
		heads := rootsOf(p, j, session.RootQuery{Member: childKey(n)})
		if _, ok := heads[root]; !ok {
			p.fail("roots with the member %q: %q is not among the %d", childKey(n), root, len(heads))
		}
	}
}

func checkMember(p *journalProbe) {
	j := p.open()
	lastA := appendBatch(p, j, rootA, 0, withMembers(factBatch("x", 1), 1, 2))
	lastB := appendBatch(p, j, rootB, 0, withMembers(factBatch("y", 1), 3))
	wantMembers(p, j, rootA, 1, 2)
	lastA = appendBatch(p, j, rootA, lastA, factBatch("without", 2))
	appendBatch(p, j, rootA, lastA, withMembers(dueAt(factBatch("later", 1), kitNoon), 4, 1, 4))
	_, err := j.Append(p.ctx, rootB, lastB-1, withMembers(factBatch("stale", 1), 5))
	p.wantIs("append of members to a log that has moved", err, session.ErrConflict)
	appendBatch(p, j, rootB, lastB, withMembers(factBatch("again", 1), 5))
	wantMembers(p, j, rootA, 1, 2, 4)
	wantMembers(p, j, rootB, 3, 5)
	want := rootsOf(p, j, session.RootQuery{})[rootA]
	h := rootsOf(p, j, session.RootQuery{Member: childKey(1)})[rootA]
	if h.Last != want.Last || !h.Due.Equal(want.Due) {
		p.fail("roots with a member: got %+v, want %+v", h, want)
	}
	seen := make(chan int, 4)
	for range cap(seen) {
		go func() {
			n := 0
			for h, err := range j.Roots(p.ctx, session.RootQuery{Member: childKey(4)}) {
				if err == nil && h.Root == rootA {
					n++
				}
			}
			seen <- n
		}()
	}
	for range cap(seen) {
		if n := <-seen; n != 1 {
			p.fail("roots with a member, beside others: got the log %d times", n)
		}
	}
}

func checkMemberReset(p *journalProbe) {
	j := p.open()
	last := appendBatch(p, j, rootA, 0, withMembers(factBatch("x", 1), 1, 2))
	last = appendBatch(p, j, rootA, last, withMembers(asReset(factBatch("snapshot", 1)), 2, 3))
	wantMembers(p, j, rootA, 2, 3)
	last = appendBatch(p, j, rootA, last, withMembers(factBatch("later", 1), 4, 1))
	wantMembers(p, j, rootA, 2, 3, 4, 1)
	_, err := j.Append(p.ctx, rootA, last-1, asReset(factBatch("stale", 1)))
	p.wantIs("a reset of a log that has moved", err, session.ErrConflict)
	wantMembers(p, j, rootA, 2, 3, 4, 1)
}

func checkMemberDurable(p *journalProbe) {
	j := p.open()
	const logs = 20
	due := func(n int) (at time.Time) {
		if n%2 == 0 {
			at = kitNoon
		}
		return at
	}
	log := func(n int) session.Key { return namedRoot(fmt.Sprint("log", n)) }
	last := make([]session.Seq, logs)
	for n := range logs {
		first := withMembers(dueAt(factBatch("first", 1), due(n)), 10*n, 10*n+1)
		last[n] = appendBatch(p, j, log(n), 0, first)
	}
	for round := range 2 {
		j = p.reopen()
		for n := range logs {
			wantMembers(p, j, log(n), 10*n, 10*n+1)
			b := withMembers(dueAt(factBatch(fmt.Sprint("b", round), 1), due(n)), 10*n+2+round)
			if n%3 == round {
				b = asReset(withMembers(b, 10*n, 10*n+1))
			}
			last[n] = appendBatch(p, j, log(n), last[n], b)
		}
	}
	j = p.reopen()
	for n := range logs {
		wantMembers(p, j, log(n), 10*n, 10*n+1, 10*n+3)
	}
}

func checkOtherMembers(p *journalProbe) {
	j := p.open()
	const logs = 50
	for n := range logs {
		b := withMembers(dueAt(factBatch("b", 1), kitNoon), n)
		appendBatch(p, j, namedRoot(fmt.Sprint("log", n)), 0, b)
	}
	for n := range logs {
		wantMembers(p, j, namedRoot(fmt.Sprint("log", n)), n)
	}
	for _, n := range []int{0, logs} {
		others := rootsOf(p, j, session.RootQuery{Member: childKey(n)})
		delete(others, namedRoot("log0"))
		if len(others) > logs/10 {
			p.fail("roots with the member %q: %d of %d logs without it are among them",
				childKey(n), len(others), logs)
		}
	}
}
