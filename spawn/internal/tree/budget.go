package tree

import (
	"fmt"

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

// Limited reports whether a budget of r or above it bounds what r may spend.
func (t *Tree) Limited(r *Run) bool {
	for x := r; x != nil; x = x.Parent {
		if t.limit(x).Limited() {
			return true
		}
	}
	return false
}

// Exhausted names the budget that forbids model calls in the turn of r that is under way, or
// returns "". Only a top-level session gets such a turn, because it must be able to say so.
func (t *Tree) Exhausted(r *Run) string {
	for x := r; x != nil; x = x.Parent {
		switch limit := t.limit(x); {
		case limit.Tokens > 0 && r.Open.Reserve.Tokens == 0:
			return x.budgetOf("tokens")
		case limit.Micros > 0 && r.Open.Reserve.Micros == 0:
			return x.budgetOf("cost")
		case limit.Turns > 0 && x.Charged.Turns > limit.Turns: // this turn has been charged
			return x.budgetOf("turns")
		}
	}
	return ""
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
		return BudgetOf(t.opt.Rules.Budget)
	}
	return r.Spec.Budget
}

// BudgetOf converts a budget of the configuration.
func BudgetOf(b policy.Budget) Budget {
	return Budget{Tokens: b.Tokens, Micros: sat.Int(b.Cost*1e6 + 0.5), Turns: int64(b.Turns)}
}

// remaining returns what the tree may still spend, in the fields that are limited.
func (t *Tree) remaining() (b policy.Budget) {
	limit, charged := BudgetOf(t.opt.Rules.Budget), t.root.Charged
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

// turnForbiddenBy names the budget that forbids r another turn, or returns "".
func (t *Tree) turnForbiddenBy(r *Run) string {
	for x := r; x != nil; x = x.Parent {
		if what := t.limit(x).Exhausted(x.Charged); what != "" {
			return x.budgetOf(what)
		}
	}
	return ""
}

// callForbiddenBy names the budget that forbids another model call in the turn of r that is under
// way, or returns "". The limit of turns does not matter to it, because the turn has begun.
func (t *Tree) callForbiddenBy(r *Run) string {
	for x := r; x != nil; x = x.Parent {
		limit := t.limit(x)
		limit.Turns = 0
		if what := limit.Exhausted(x.Charged); what != "" {
			return x.budgetOf(what)
		}
	}
	return ""
}

// reserve returns what a turn of r reserves: one turn, and of tokens and money no more than every
// budget above it allows.
func (t *Tree) reserve(r *Run) Budget {
	var want Budget
	if t.Limited(r) {
		want = t.opt.Chunk
		for x := r; x != nil; x = x.Parent {
			want = t.limit(x).reservable(x.Charged, want)
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
	unspent := r.Open.Reserve.Sub(c.Used) // which is charged; negative: used, and not charged yet
	for x := r; x != nil; x = x.Parent {
		others := before
		for y, h := range t.holds {
			if y != r && y.Below(x) {
				others = others.Add(h.beyond(y))
			}
		}
		limit := t.limit(x)
		left := limit.Sub(x.Charged)
		for _, f := range [...]struct {
			name                               string
			limit, left, unspent, need, others int64
		}{
			{"tokens", limit.Tokens, left.Tokens, unspent.Tokens, need.Tokens, others.Tokens},
			{"cost", limit.Micros, left.Micros, unspent.Micros, need.Micros, others.Micros},
		} {
			switch {
			case f.limit == 0 || f.need == 0:
			case sat.Add(f.left, f.unspent) <= 0:
				return x.budgetOf(f.name)
			case f.others > 0 && sat.Add(f.need, f.others) > f.left:
				return x.budgetOf(f.name) + ", which the model calls under way may use"
			}
		}
	}
	return ""
}
