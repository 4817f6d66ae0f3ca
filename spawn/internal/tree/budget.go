package tree

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/policy"
)

// A Budget is an amount of what costs money: a limit, what has been charged, or what a turn has
// reserved. As a limit, a zero field does not limit. A sum that is out of range is the largest or
// smallest number there is.
type Budget struct {
	Tokens int64 `json:"tokens,omitempty"`
	Micros int64 `json:"micros,omitempty"` // millionths of a US dollar
	Turns  int64 `json:"turns,omitempty"`
}

// Limited reports whether b, as a limit, limits anything.
func (b Budget) Limited() bool { return b != Budget{} }

// Add returns the sum of b and c.
func (b Budget) Add(c Budget) Budget {
	return Budget{
		sat.Add(b.Tokens, c.Tokens), sat.Add(b.Micros, c.Micros), sat.Add(b.Turns, c.Turns),
	}
}

// Sub returns b without c.
func (b Budget) Sub(c Budget) Budget {
	return Budget{
		sat.Sub(b.Tokens, c.Tokens), sat.Sub(b.Micros, c.Micros), sat.Sub(b.Turns, c.Turns),
	}
}

// positive returns b with 0 in the place of negative amounts.
func (b Budget) positive() Budget {
	return Budget{max(b.Tokens, 0), max(b.Micros, 0), max(b.Turns, 0)}
}

// Exhausted names the first field in which charged reaches the limit b: "tokens", "cost" or
// "turns". It returns "" if there is none.
func (b Budget) Exhausted(charged Budget) string {
	switch {
	case b.Tokens > 0 && charged.Tokens >= b.Tokens:
		return "tokens"
	case b.Micros > 0 && charged.Micros >= b.Micros:
		return "cost"
	case b.Turns > 0 && charged.Turns >= b.Turns:
		return "turns"
	}
	return ""
}

// reservable returns how much of want may be reserved under the limit b. A turn gets no more than
// one part in reserveDivisor of what is left, so that the first turn does not starve those beside
// it.
func (b Budget) reservable(charged, want Budget) Budget {
	share := func(limit, charged, want int64) int64 {
		if limit == 0 {
			return want
		}
		return min(want, max((limit-charged)/reserveDivisor, min(1, limit-charged), 0))
	}
	want.Tokens = share(b.Tokens, charged.Tokens, want.Tokens)
	want.Micros = share(b.Micros, charged.Micros, want.Micros)
	return want
}

// reserveDivisor is the part of what is left of a budget that one reservation may take: a
// sixteenth.
const reserveDivisor = 16

// An account is a budget that what a session does counts against, with what it has been charged:
// that of the session, of one above it, or of the request that it works for.
type account struct {
	limit, charged Budget
	of             *Run // whose budget it is; nil: that of the request
}

// name names a field of the budget in words.
func (a *account) name(what string) string {
	if a.of == nil {
		return "the request's budget of " + what
	}
	return a.of.budgetOf(what)
}

// accounts yields the budgets that what r does for a request counts against, also those that do not
// limit: its own, those of the sessions above it, and that of the request, if there is one.
func (t *Tree) accounts(r *Run, request string) iter.Seq[account] {
	return func(yield func(account) bool) {
		for x := r; x != nil; x = x.Parent {
			if !yield(account{t.limit(x), x.Charged, x}) {
				return
			}
		}
		if request != "" {
			yield(account{BudgetOf(t.rules.RequestBudget), t.chargedFor(r, request), nil})
		}
	}
}

// paying returns the request that pays for what r does now: the one that it is at. A turn that
// compacts the conversation works for none.
func paying(r *Run) string {
	if r.Open != nil && r.Open.Compact {
		return ""
	}
	return requestOf(r)
}

// Limited reports whether a budget of r, above it, or of its request bounds what r may spend.
func (t *Tree) Limited(r *Run) bool { return t.limited(r, paying(r)) }

func (t *Tree) limited(r *Run, request string) bool {
	for a := range t.accounts(r, request) {
		if a.limit.Limited() {
			return true
		}
	}
	return false
}

// Exhausted names the budget that forbids model calls in the turn of r that is under way, or
// returns "". Only a top-level session gets such a turn, because it must be able to say so. A turn
// that could not reserve anything names a budget that is spent, if one still is.
func (t *Tree) Exhausted(r *Run) (name string) {
	for a := range t.accounts(r, paying(r)) {
		var what string
		switch {
		case a.limit.Tokens > 0 && r.Open.Reserve.Tokens == 0:
			what = "tokens"
		case a.limit.Micros > 0 && r.Open.Reserve.Micros == 0:
			what = "cost"
		case a.limit.Turns > 0 && a.charged.Turns > a.limit.Turns: // this turn has been charged
			return a.name("turns")
		default:
			continue
		}
		if a.limit.Exhausted(a.charged) != "" {
			return a.name(what)
		}
		name = cmp.Or(name, a.name(what))
	}
	return name
}

// budgetOf names a field of the budget of r in words.
func (r *Run) budgetOf(what string) string {
	if r.IsRoot() {
		return "the tree's budget of " + what
	}
	return "the budget of " + what + " of " + r.Key().String()
}

// Clean returns u without amounts that no model call can have used: they are negative, too large,
// or not a number. A mistake of a Runner must not give a budget back, and JSON cannot hold a NaN.
func (u Usage) Clean() Usage {
	for _, n := range [...]*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite} {
		*n = min(max(*n, 0), maxUsage)
	}
	if !(u.Cost > 0) { // true for a NaN, too
		u.Cost = 0
	}
	u.Cost = min(u.Cost, maxUsage/1e6)
	return u
}

// maxUsage is the largest number of tokens, and of millionths of a dollar, that one Usage may have.
const maxUsage = 1 << 50

// Charge converts usage into the unit of budgets. Tokens read from a cache or written to one are
// not in it: a budget of tokens is one of input and output, and what caches cost is in Cost.
func (u Usage) Charge() Budget {
	return Budget{Tokens: sat.Add(u.Input, u.Output), Micros: sat.Int(u.Cost*1e6 + 0.5)}
}

// limit returns the limit of one session: its own for a run, the tree's for the top-level session.
func (t *Tree) limit(r *Run) Budget {
	if r.IsRoot() {
		return BudgetOf(t.rules.Budget)
	}
	return r.Spec.Budget
}

// BudgetOf converts a budget of the configuration.
func BudgetOf(b policy.Budget) Budget {
	return Budget{Tokens: b.Tokens, Micros: sat.Int(b.Cost*1e6 + 0.5), Turns: int64(b.Turns)}
}

// remaining returns what may still be spent of a budget that has been charged, in the fields that
// are limited.
func remaining(of policy.Budget, charged Budget) (b policy.Budget) {
	limit := BudgetOf(of)
	if limit.Tokens > 0 {
		b.Tokens = max(0, limit.Tokens-charged.Tokens)
	}
	if limit.Micros > 0 {
		b.Cost = float64(max(0, limit.Micros-charged.Micros)) / 1e6
	}
	if limit.Turns > 0 {
		b.Turns = int(max(0, limit.Turns-charged.Turns))
	}
	return b
}

// A BudgetLeft is a budget that what a session does counts against, in the unit of the
// configuration.
type BudgetLeft struct {
	Of          *Run          // whose budget it is; nil: that of the request that the session is at
	Limit, Left policy.Budget // Left has the fields that Limit limits
}

// BudgetsLeft returns the budgets that limit what r does: its own, those of the sessions above it,
// and that of its request. What turns under way have reserved counts as spent.
func (t *Tree) BudgetsLeft(r *Run) (list []BudgetLeft) {
	for a := range t.accounts(r, paying(r)) {
		if !a.limit.Limited() {
			continue
		}
		limit := policy.Budget{
			Tokens: a.limit.Tokens, Cost: float64(a.limit.Micros) / 1e6, Turns: int(a.limit.Turns),
		}
		list = append(list, BudgetLeft{a.of, limit, remaining(limit, a.charged)})
	}
	return list
}

// turnForbiddenBy names the budget that forbids r another turn for a request, or returns "".
// Without a request only budgets of sessions can.
func (t *Tree) turnForbiddenBy(r *Run, request string) string {
	for a := range t.accounts(r, request) {
		if what := a.limit.Exhausted(a.charged); what != "" {
			return a.name(what)
		}
	}
	return ""
}

// callForbiddenBy names the budget that forbids another model call in the turn of r that is under
// way, or returns "". The limit of turns does not matter to it, because the turn has begun.
func (t *Tree) callForbiddenBy(r *Run) string {
	for a := range t.accounts(r, paying(r)) {
		a.limit.Turns = 0
		if what := a.limit.Exhausted(a.charged); what != "" {
			return a.name(what)
		}
	}
	return ""
}

// reserve returns what a turn of r for a request reserves: one turn, and of tokens and money no
// more than every budget allows that it counts against.
func (t *Tree) reserve(r *Run, request string) Budget {
	var want Budget
	if t.limited(r, request) {
		want = t.opt.Chunk
		for a := range t.accounts(r, request) {
			want = a.limit.reservable(a.charged, want)
		}
	}
	want.Turns = 1
	return want
}

// addCharge adds an amount to what r and everything above it has been charged.
func addCharge(r *Run, by Budget) {
	for x := r; x != nil; x = x.Parent {
		x.Charged = x.Charged.Add(by)
	}
}

// charge adds an amount to what r, everything above it, and the request that it is at have been
// charged.
func (t *Tree) charge(r *Run, by Budget) {
	addCharge(r, by)
	t.chargeRequest(r, paying(r), by)
}

// A Share is what a turn has reserved while it was at a request.
type Share struct {
	Request string `json:"request,omitempty"` // empty: at none
	Reserve Budget `json:"reserve,omitzero"`
}

// present returns what the turn has reserved since it has been at the request that it is at.
func (o *OpenTurn) present() Budget {
	b := o.Reserve
	for _, s := range o.Shares {
		b = b.Sub(s.Reserve)
	}
	return b
}

// leave notes that the turn goes on for another request than the one with that name. What it has
// reserved until then the former request pays.
func (o *OpenTurn) leave(request string) {
	o.Shares = append(slices.Clip(o.Shares), Share{request, o.present()})
}

// atMost returns b, and of each field no more than c has.
func (b Budget) atMost(c Budget) Budget {
	return Budget{min(b.Tokens, c.Tokens), min(b.Micros, c.Micros), min(b.Turns, c.Turns)}
}

// chargeEnd charges what the turn open, whose end f is, has used in the place of what it reserved.
// A turn that crashed keeps its charge, because what it used is not known.
//
// Where a turn was at several requests, what it has used counts as what it reserved first: a
// request pays at most what was reserved for it, and the last one the rest.
func (t *Tree) chargeEnd(r *Run, open *OpenTurn, f *Fact) {
	if f.Flags&(FlagCrashed|FlagCut) != 0 { // what a cut turn still consumes is not known
		return
	}
	used := Budget{Turns: 1}
	if f.Answer != nil {
		used = used.Add(f.Answer.Usage.Charge())
	}
	addCharge(r, used.Sub(open.Reserve))
	for _, s := range open.Shares {
		part := used.atMost(s.Reserve)
		t.chargeRequest(r, s.Request, part.Sub(s.Reserve))
		used = used.Sub(part)
	}
	if !open.Compact {
		t.chargeRequest(r, requestOf(r), used.Sub(open.present()))
	}
}

// A hold is what the model calls under way in a turn are expected to use, beside what the turn has
// used. It is not a fact: a call does not outlive its process, and what a crashed turn pays is what
// it had reserved.
type hold struct{ used, expect Budget }

// beyond returns by how much a turn of r, if it uses what h says, exceeds what it has reserved.
func (h hold) beyond(r *Run) Budget {
	return h.used.Add(h.expect).Sub(r.Open.Reserve).positive()
}

// decideHold lets a model call begin, or notes that one is over. A call begins if what it is
// expected to use is left, beside what the calls under way are expected to use. If it is not, the
// call begins as the only one, as long as the budget is not exhausted. So a budget is exceeded by
// one call, and by what the calls use beyond what was expected of them.
func (t *Tree) decideHold(c Hold) (Reply, error) {
	r, err := t.runInTurn(c.Run, c.N)
	if err != nil {
		return Reply{}, err
	}
	if c.Begins {
		if what := t.noRoomFor(r, c); what != "" {
			return Reply{Run: r}, fmt.Errorf("%w: %s", ErrBudget, what)
		}
	}
	if c.Expect == (Budget{}) {
		delete(t.holds, r)
		return Reply{Run: r}, nil
	}
	if t.holds == nil {
		t.holds = make(map[*Run]hold)
	}
	t.holds[r] = hold{c.Used, c.Expect}
	return Reply{Run: r}, nil
}

// noRoomFor names the budget that has no room for the call that c begins in the turn of r, or
// returns "".
func (t *Tree) noRoomFor(r *Run, c Hold) string {
	before := hold{c.Used, c.Before}.beyond(r)
	need := hold{c.Used, c.Expect}.beyond(r).Sub(before)
	if need == (Budget{}) {
		return "" // the turn has reserved as much
	}
	request := paying(r)
	for a := range t.accounts(r, request) {
		others := before
		for y, h := range t.holds {
			if y != r && (a.of != nil && y.Below(a.of) || a.of == nil && paying(y) == request) {
				others = others.Add(h.beyond(y))
			}
		}
		unspent := r.Open.Reserve.Sub(c.Used) // is charged; negative: used, and not charged yet
		if a.of == nil {
			unspent = unspent.atMost(r.Open.present())
		}
		left := a.limit.Sub(a.charged)
		for _, f := range [...]struct {
			name                               string
			limit, left, unspent, need, others int64
		}{
			{"tokens", a.limit.Tokens, left.Tokens, unspent.Tokens, need.Tokens, others.Tokens},
			{"cost", a.limit.Micros, left.Micros, unspent.Micros, need.Micros, others.Micros},
		} {
			switch {
			case f.limit == 0 || f.need == 0:
			case sat.Add(f.left, f.unspent) <= 0:
				return a.name(f.name)
			case f.others > 0 && sat.Add(f.need, f.others) > f.left:
				return a.name(f.name) + ", which the model calls under way may use"
			}
		}
	}
	return ""
}

// decideReserve charges what a turn used beyond its reservation, and reserves more if no budget is
// exhausted. Its reply has the sum of both.
func (t *Tree) decideReserve(c Reserve) (Reply, error) {
	r, err := t.runInTurn(c.Run, c.N)
	if err != nil {
		return Reply{}, err
	}
	// What was used beyond the reservation has been used: it is charged, allowed or not.
	beyond := c.Used.Sub(r.Open.Reserve).positive()
	beyond.Turns = 0
	r.didWork = r.didWork || c.Used != (Budget{})
	if beyond != (Budget{}) {
		t.emit(reserved(t.now, r, beyond))
	}
	if what := t.callForbiddenBy(r); what != "" {
		return Reply{Run: r, Grant: beyond}, fmt.Errorf("%w: %s", ErrBudget, what)
	}
	more := t.reserve(r, paying(r))
	more.Turns = 0
	t.emit(reserved(t.now, r, more))
	return Reply{Run: r, Grant: beyond.Add(more)}, nil
}
