package spawntest

import (
	"cmp"
	"iter"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// AuditUnder is [Audit] of a journal that was written under rules, which do not stand in it. It
// checks in addition that what turns reserve is within [policy.Rules.Budget] and
// [policy.Rules.RequestBudget], and that a run which is to announce its end in a turn has done so
// unless a budget or its time could have kept it from that.
func AuditUnder(rules policy.Rules, entries iter.Seq2[session.Entry, error]) error {
	a := newAuditor()
	a.known = true
	a.treeLimit, a.requestLimit = tree.BudgetOf(rules.Budget), tree.BudgetOf(rules.RequestBudget)
	_, err := a.inspect(entries)
	return err
}

// A part is what a turn has reserved while it was at a request; empty: at none.
type part struct {
	request string
	reserve tree.Budget
}

// admitToRequest checks that a run belongs to the request of its parent, and counts what models
// spawn.
func (a *auditor) admitToRequest(p, r *run) {
	if name := p.request(); p != a.root && r.spec.Request() != "" && r.spec.Request() != name {
		a.fail(r, "requests", "it is of %q, its parent of %q", r.spec.Request(), name)
	}
	if r.spec.ByModel {
		a.requests[r.request()]++
	}
}

// request returns the request that a run belongs to, or that the top-level session is at.
func (r *run) request() string {
	if r.spec.Parent.IsZero() {
		return r.at
	}
	if r.begin != nil {
		return requestOf(r.begin.Request, r.begin.ID)
	}
	return requestOf(r.spec.Request(), r.spec.ID)
}

// reads has the top-level session at the request of what a turn reads, up to an ordinal: of the
// newest message, else, as the turn begins, of the newest end of a run.
func (a *auditor) reads(r *run, after, through uint32, begins bool) {
	if r.parent != nil {
		return
	}
	person, child, sender := "", "", ""
	for _, in := range r.inbox {
		switch {
		case in.ord <= after || in.ord > through:
		case in.class == tree.User && in.steerer.IsValid(): // of another session
			sender = "s:" + in.steerer.String()
		case in.class == tree.User, in.class == tree.Event:
			person = strconv.FormatUint(uint64(in.ord), 10)
		case in.class == tree.Completion && begins && in.from != nil:
			child = in.from.request
		}
	}
	r.at = cmp.Or(person, child, r.at, sender)
}

// reserves takes what the turn of r reserves as charged to the session, to those above it, and to
// the request that it is at.
func (a *auditor) reserves(r *run, b tree.Budget) {
	a.charge(r, b, 1)
	r.turn.reserve = r.turn.reserve.Add(b)
	if r.turn.compact {
		return
	}
	name := r.request()
	if n := len(r.turn.parts); n == 0 || r.turn.parts[n-1].request != name {
		r.turn.parts = append(r.turn.parts, part{request: name})
	}
	p := &r.turn.parts[len(r.turn.parts)-1]
	p.reserve = p.reserve.Add(b)
	a.charges[name] = a.charges[name].Add(b)
}

// uses takes what the turn of r has used as charged, in the place of what it had reserved. What was
// reserved first is used first.
func (a *auditor) uses(r *run, used tree.Budget) {
	a.charge(r, r.turn.reserve, -1)
	a.charge(r, used, 1)
	if r.turn.compact {
		return
	}
	if name := r.request(); r.turn.parts[len(r.turn.parts)-1].request != name {
		r.turn.parts = append(r.turn.parts, part{request: name})
	}
	for i, p := range r.turn.parts {
		take := used
		if i < len(r.turn.parts)-1 {
			take = tree.Budget{
				Tokens: min(used.Tokens, p.reserve.Tokens),
				Micros: min(used.Micros, p.reserve.Micros), Turns: min(used.Turns, p.reserve.Turns),
			}
		}
		a.charges[p.request] = a.charges[p.request].Add(take.Sub(p.reserve))
		used = used.Sub(take)
	}
}

// partsOf returns what the turn under way of a session in a snapshot has reserved, by request.
func partsOf(s *tree.RunState) (list []part) {
	if s.Open.Compact {
		return nil
	}
	last := part{s.Request, s.Open.Reserve}
	if !s.Spec.Parent.IsZero() {
		last.request = requestOf(s.Spec.Request(), s.Spec.ID)
		if s.Begin != nil {
			last.request = requestOf(s.Begin.Request, s.Begin.ID)
		}
	}
	for _, x := range s.Open.Shares {
		list = append(list, part{x.Request, x.Reserve})
		last.reserve = last.reserve.Sub(x.Reserve)
	}
	return append(list, last)
}

// withinRules checks what a turn of r reserves against the budgets of the tree and of its request.
func (a *auditor) withinRules(r *run, f *tree.Fact) {
	check := func(what string, limit, charged tree.Budget) {
		over := func(limit, charged, reserve int64) bool {
			return limit > 0 && (r.parent != nil && charged >= limit ||
				reserve > 0 && sat.Add(charged, reserve) > limit)
		}
		if over(limit.Tokens, charged.Tokens, f.Budget().Tokens) ||
			over(limit.Micros, charged.Micros, f.Budget().Micros) ||
			r.parent != nil && over(limit.Turns, charged.Turns, 0) {
			a.fail(r, "budget", "turn %d reserves %+v; %s has been charged %+v of %+v", f.N,
				f.Budget(), what, charged, limit)
		}
	}
	check("the tree", a.treeLimit, a.root.charged)
	if !r.turn.compact {
		check("the request "+r.request(), a.requestLimit, a.charges[r.request()])
	}
}

// sameCharges compares what a snapshot says that requests were charged with the facts. What the
// caller calls a request may be forgotten and begin anew. An earlier library says nothing.
func (a *auditor) sameCharges(m *tree.Image) {
	for _, c := range m.Requests {
		want := a.charges[c.Request]
		if c.IsKnown() && c.Charged != want &&
			!strings.HasPrefix(c.Request, "o:") {
			a.fail(nil, "snapshot", "the request %q was charged %+v; the facts say %+v", c.Request,
				c.Charged, want)
		}
	}
}

// beginRequests takes what a snapshot says of requests as the beginning. Of a request that a run
// begins, and of which it says nothing, that is what the run was charged.
func (a *auditor) beginRequests(m *tree.Image) {
	for _, r := range a.runs {
		if r.parent != nil && r.spec.Request() == "" && r.begin == nil {
			a.charges[r.spec.ID] = r.charged
		}
	}
	for _, c := range m.Requests {
		a.requests[c.Request] = c.ByModel
		if c.IsKnown() {
			a.charges[c.Request] = c.Charged
		}
	}
}
