package spawntest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// siteAppend is the site of the faults of the journal. stepEnd is the name of the step that a
// process ends with which does not die.
const (
	siteAppend = "append"
	stepEnd    = "end"
)

// A historyPlan is what happens in one history: how many processes there are, one after the other,
// and the steps of each.
type historyPlan struct {
	seed  uint64
	lives int
	steps []historyStep
}

// A historyStep is a call of a command, a fault, or how a process ends that does not die.
type historyStep struct {
	life   int
	caller int           // from 1; 0: it is a fault or an end
	after  time.Duration // the caller waits before it calls, or how long an end may take
	name   string        // of the command, or of the site of the fault, or stepEnd
	n      int           // of the command, or which call of the site it is
	times  int           // how many calls in a row have the fault, at least 1
	fault  Fault
	late   bool // the process ends when its successor has been used
}

// String returns the step as a line that parseStep reads.
func (s historyStep) String() string {
	if s.caller == 0 && s.fault == 0 {
		how := "shutdown"
		if s.late {
			how = "late"
		}
		return fmt.Sprintf("life %d ends: %s within %v", s.life, how, s.after)
	}
	if s.caller == 0 {
		return fmt.Sprintf("life %d fault %s %d times %d: %v",
			s.life, s.name, s.n, s.times, s.fault)
	}
	return fmt.Sprintf("life %d caller %d after %v: %s %d",
		s.life, s.caller, s.after, s.name, s.n)
}

// String returns the plan as lines that parsePlan reads.
func (p historyPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d lives %d\n", p.seed, p.lives)
	for _, s := range p.steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// parsePlan reads what String has written. Blank lines, and spaces around a line, do not matter.
func parsePlan(text string) (p historyPlan, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "seed "):
			_, err = fmt.Sscanf(line, "seed %d lives %d", &p.seed, &p.lives)
		default:
			var s historyStep
			s, err = parseStep(line)
			p.steps = append(p.steps, s)
		}
		if err != nil {
			return p, fmt.Errorf("spawntest: the line %q of a history: %w", line, err)
		}
	}
	if p.lives < 1 {
		return p, fmt.Errorf("spawntest: a history begins with its seed and its lives: %q", text)
	}
	return p, nil
}

func parseStep(line string) (s historyStep, err error) {
	head, what, _ := strings.Cut(line, ": ")
	var after string
	if strings.HasSuffix(head, " ends") {
		s.name = stepEnd
		if _, err = fmt.Sscanf(head, "life %d ends", &s.life); err != nil {
			return s, err
		}
		if after, s.late = strings.CutPrefix(what, "late within "); !s.late {
			after = strings.TrimPrefix(what, "shutdown within ")
		}
		s.after, err = time.ParseDuration(after)
		return s, err
	}
	if strings.Contains(head, " fault ") {
		_, err = fmt.Sscanf(head, "life %d fault %s %d times %d",
			&s.life, &s.name, &s.n, &s.times)
		if err != nil {
			return s, err
		}
		i := slices.Index(faultNames[:], what)
		if i < 1 {
			return s, fmt.Errorf("%q is not a fault", what)
		}
		s.fault = Fault(i) //nolint:gosec // there are ten
		return s, nil
	}
	if _, err = fmt.Sscanf(head, "life %d caller %d after %s", &s.life, &s.caller, &after); err != nil {
		return s, err
	}
	if s.after, err = time.ParseDuration(after); err != nil {
		return s, err
	}
	_, err = fmt.Sscanf(what, "%s %d", &s.name, &s.n)
	return s, err
}

// newPlan returns the plan of a seed. The last process does not die.
func newPlan(seed uint64, h *Histories, commands []Command, sites []string) historyPlan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := historyPlan{seed: seed, lives: 1 + r.IntN(h.Lives)}
	weights := 0
	for _, c := range commands {
		weights += max(c.Weight, 1)
	}
	command := func() Command {
		at := r.IntN(weights)
		i := slices.IndexFunc(commands, func(c Command) bool {
			at -= max(c.Weight, 1)
			return at < 0
		})
		return commands[i]
	}
	for life := 1; life <= p.lives; life++ {
		ends := plannedEnd(r, life, life == p.lives, h.Overlap)
		p.steps = append(p.steps, ends...)
		p.steps = append(p.steps, plannedFaults(r, life, life == p.lives, sites, h)...)
		for caller := 1; caller <= h.Callers && weights > 0; caller++ {
			for range r.IntN(h.Acts + 1) {
				after, c := time.Duration(r.IntN(4000))*time.Millisecond, command()
				p.steps = append(p.steps, historyStep{
					life: life, caller: caller, after: after, name: c.Name,
					n: r.IntN(orElse(max(c.Span, 0), 10)),
				})
			}
		}
	}
	return p
}

// plannedEnd returns what a process dies of at an append, how it ends, or both: it may have lost
// its store and still be there. If it returns neither, the process dies when its callers are done.
func plannedEnd(r *rand.Rand, life int, last, overlap bool) (list []historyStep) {
	ends, late := r.IntN(3) == 0, overlap && !last && r.IntN(2) == 0
	if !last && (!ends || r.IntN(4) == 0) {
		deaths := []Fault{FaultDieBefore, FaultDieAfter}
		list = append(list, historyStep{
			life: life, name: siteAppend, n: 1 + r.IntN(60), times: 1, fault: deaths[r.IntN(2)],
		})
	}
	if within := time.Duration(r.IntN(600)) * time.Second; ends || late {
		if r.IntN(2) == 0 {
			within = 0
		}
		list = append(list, historyStep{life: life, name: stepEnd, late: late, after: within})
	}
	return list
}

// plannedFaults returns the faults of one life, but for its death at an append.
func plannedFaults(
	r *rand.Rand, life int, last bool, sites []string, h *Histories,
) (list []historyStep) {
	add := func(site string, first, times int, faults ...Fault) {
		if len(faults) > 0 {
			list = append(list, historyStep{
				life: life, name: site, n: first, times: times,
				fault: faults[r.IntN(len(faults))],
			})
		}
	}
	for range r.IntN(4) {
		add(siteAppend, 1+r.IntN(60), 1, h.Faults...)
	}
	if r.IntN(2) == 0 { // the store fails for a while, in one way after the other
		first, most := 1+r.IntN(40), h.Outage
		if r.IntN(2) == 0 {
			most = min(most, 8)
		}
		for end := first + 1 + r.IntN(most); first < end; {
			times := 1 + r.IntN(end-first)
			add(siteAppend, first, times, h.Faults...)
			first += times
		}
	}
	for _, site := range sites {
		if r.IntN(2) == 0 {
			add(site, 1+r.IntN(6), 1, FaultFailBefore, FaultLoseAck)
		}
		if !last && r.IntN(3) == 0 {
			add(site, 1+r.IntN(6), 1, FaultDieBefore, FaultDieAfter)
		}
	}
	return list
}

// shrinkPlan returns a plan with fewer and simpler steps for which fails reports true, as it does
// for p. It calls fails at most as often as that.
func shrinkPlan(p historyPlan, most int, fails func(historyPlan) bool) historyPlan {
	try := func(next historyPlan) bool {
		if most--; most < 0 || !fails(next) {
			return false
		}
		p = next
		return true
	}
	drop := func() {
		for size := (len(p.steps) + 1) / 2; size >= 1 && most > 0; {
			smaller := false
			for at := 0; at < len(p.steps); {
				next := p
				end := min(at+size, len(p.steps))
				next.steps = slices.Concat(p.steps[:at], p.steps[end:])
				if try(next) {
					smaller = true
					continue
				}
				at = end
			}
			if size > 1 || !smaller {
				size /= 2
			}
		}
	}
	for life := p.lives; life >= 1 && p.lives > 1; life-- {
		try(p.withoutLife(life))
	}
	drop()
	for life := p.lives; life >= 1 && p.lives > 1; life-- {
		if !try(p.withoutLife(life)) {
			try(p.merged(life))
		}
	}
	for steps := -1; steps != len(p.steps) && most > 0; {
		steps = len(p.steps)
		for i := range slices.Backward(p.steps) {
			for _, shorter := range p.withoutCall(i) {
				if try(shorter) {
					break
				}
			}
		}
		for i := range p.steps {
			for _, simpler := range p.steps[i].simpler() {
				next := p
				next.steps = slices.Clone(p.steps)
				if next.steps[i] = simpler; simpler != p.steps[i] && try(next) {
					break
				}
			}
		}
		drop() // an earlier fault needs fewer calls before it
	}
	return p
}

// maxShift is how many calls of a site, the journal included, one command is taken to make at most.
const maxShift = 10

// withoutCall returns the plans without one call of a command in which the faults of a site come as
// much earlier as that call may have called the site.
func (p historyPlan) withoutCall(i int) (list []historyPlan) {
	if p.steps[i].caller == 0 {
		return nil
	}
	var sites []string
	for _, s := range p.steps {
		if s.life == p.steps[i].life && s.fault != 0 && !slices.Contains(sites, s.name) {
			sites = append(sites, s.name)
		}
	}
	for _, site := range sites {
		for shift := 1; shift <= maxShift; shift++ {
			next, moved := p, false
			next.steps = slices.Clone(p.steps)
			for k, s := range next.steps {
				if s.life == p.steps[i].life && s.fault != 0 && s.name == site && s.n > shift {
					next.steps[k].n -= shift
					moved = true
				}
			}
			if moved {
				next.steps = slices.Delete(next.steps, i, i+1)
				list = append(list, next)
			}
		}
	}
	return list
}

// simpler returns the simpler forms of a step, the simplest first.
func (s historyStep) simpler() (list []historyStep) {
	x := s
	if s.name == stepEnd && s.caller == 0 {
		x.late, x.after = false, 0
		list = append(list, x)
		x.late, x.after = s.late, 0
		return append(list, x)
	}
	if s.caller == 0 {
		x.n, x.times = 1, 1
		list = append(list, x)
		x.n, x.times = s.n, 1
		return append(list, x)
	}
	x.caller, x.after, x.n = 1, 0, 0
	list = append(list, x)
	x = s
	x.caller, x.after = 1, 0
	list = append(list, x)
	x = s
	x.after = 0
	return append(list, x)
}

// withoutLife returns the plan without one life. The last life of it does not die.
func (p historyPlan) withoutLife(life int) historyPlan {
	next := historyPlan{seed: p.seed, lives: p.lives - 1}
	for _, s := range p.steps {
		if s.life == life {
			continue
		}
		if s.life > life {
			s.life--
		}
		if s.life == next.lives && s.fault.dies() {
			continue
		}
		s.late = s.late && s.life < next.lives
		next.steps = append(next.steps, s)
	}
	return next
}

// merged returns the plan in which one life goes on as the one before it, or as the one after it if
// it is the first.
func (p historyPlan) merged(life int) historyPlan {
	next := historyPlan{seed: p.seed, lives: p.lives - 1}
	for _, s := range p.steps {
		if s.life >= max(life, 2) {
			s.life--
		}
		if s.life == next.lives && s.fault.dies() {
			continue
		}
		s.late = s.late && s.life < next.lives
		next.steps = append(next.steps, s)
	}
	return next
}

func (f Fault) dies() bool { return f == FaultDieBefore || f == FaultDieAfter }
