package load

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A kind is what an event of the lane is.
type kind string

const (
	asked kind = "asked" // a process asks for a slot
	given kind = "given" // a process is told that it has one
	begun kind = "begun" // a turn begins
	ended kind = "ended" // and ends
	freed kind = "freed" // a process gives a slot back, or a place
)

// An event is one of the lane, in one process. A turn does not know its ticket.
type event struct {
	at      time.Time
	kind    kind
	process string
	ticket  string
}

func (e event) String() string {
	return fmt.Sprintf("%d %s %s %s.", e.at.UnixNano(), e.kind, e.process, e.ticket)
}

// readEvents reads events, and puts them in the order of their time.
func readEvents(r io.Reader) (all []event, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var nanos int64
		var e event
		_, err := fmt.Sscan(lines.Text(), &nanos, &e.kind, &e.process, &e.ticket)
		if err != nil {
			return nil, fmt.Errorf("load: event %q: %w", lines.Text(), err)
		}
		e.at, e.ticket = time.Unix(0, nanos), strings.TrimSuffix(e.ticket, ".")
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	return all, lines.Err()
}

// A Use is how the slots of a lane were used. The times are medians, in the middle half of the
// time, when all slots are wanted.
type Use struct {
	Most   int           // turns under way at a time
	Rate   float64       // of turns that begin, a second
	Turn   time.Duration // from the begin of a turn to its end
	End    time.Duration // from the end of a turn until its process gives the slot back
	Grant  time.Duration // from then until a process is told that it has a slot
	Begin  time.Duration // from then to the begin of a turn
	Beyond time.Duration // Grant of the slowest tenth, at least
}

// ReadUse reads the events of a lane that some processes have noted, and returns how its slots were
// used.
//
// A slot that is given back is taken to be the one that is granted next, and of turns and slots of
// one process those that begin first end first. So single times may be mixed up, and not their sum.
func ReadUse(r io.Reader) (u Use, err error) {
	all, err := readEvents(r)
	if err != nil || len(all) == 0 {
		return u, err
	}
	first, last := all[0].at, all[len(all)-1].at
	from, to := first.Add(last.Sub(first)/4), last.Add(-last.Sub(first)/4)
	turns, ends, grants, begins := newPairs(), newPairs(), newPairs(), newPairs()
	has := make(map[string]bool)
	now, rate := 0, 0
	for _, e := range all {
		inside := e.at.After(from) && e.at.Before(to)
		switch e.kind {
		case asked:
		case given:
			has[e.ticket] = true
			grants.end("", e.at, inside)
			begins.begin(e.process, e.at)
		case begun:
			now++
			if inside {
				rate++
			}
			begins.end(e.process, e.at, inside)
			turns.begin(e.process, e.at)
		case ended:
			now--
			turns.end(e.process, e.at, inside)
			ends.begin(e.process, e.at)
		case freed:
			if !has[e.ticket] { // a place
				continue
			}
			delete(has, e.ticket)
			ends.end(e.process, e.at, inside)
			grants.begin("", e.at)
		}
		u.Most = max(u.Most, now)
	}
	u.Rate = float64(rate) / to.Sub(from).Seconds()
	u.Turn, u.End, u.Begin = turns.part(2), ends.part(2), begins.part(2)
	u.Grant, u.Beyond = grants.part(2), grants.part(10)
	return u, nil
}

// pairs are the times from one event to another, first come, first served.
type pairs struct {
	open map[string][]time.Time
	took []time.Duration
}

func newPairs() *pairs { return &pairs{open: make(map[string][]time.Time)} }

func (p *pairs) begin(of string, at time.Time) { p.open[of] = append(p.open[of], at) }

// end ends the pair that has begun first, and counts it if it is to count.
func (p *pairs) end(of string, at time.Time, counts bool) {
	open := p.open[of]
	if len(open) == 0 {
		return
	}
	if p.open[of] = open[1:]; counts {
		p.took = append(p.took, at.Sub(open[0]))
	}
}

// part returns the time that an n-th of the pairs exceeds: of two the median.
func (p *pairs) part(n int) time.Duration {
	if len(p.took) == 0 {
		return 0
	}
	slices.Sort(p.took)
	return p.took[len(p.took)-1-len(p.took)/n]
}
