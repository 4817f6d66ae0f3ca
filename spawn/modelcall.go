package spawn

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Reserve lets a model call begin that is expected to use u. If a budget limits the run, the amount
// is reserved until the Runner calls done, which it does after it has told Spend what the call has
// used, or when the call has failed. Reserve does not write to the journal.
//
// A call begins if what it is expected to use is left of every budget, beside what the other calls
// under way are expected to use. If not, it begins as the only one that uses up the rest, as long as
// there is a rest. So the turns of a tree that call at the same time exceed a budget by one call,
// and by what they use beyond what they expected. A call that may not begin is refused with an
// error that is ErrBudget: the Runner should return what it has.
//
// Calls of done after the first have no effect. The end of the turn, and of its process, ends what
// is reserved. Amounts below zero, and a cost that is not a number, count as zero. The error is
// [ErrStale] after the turn, or the cause of ctx. done is never nil.
func (t *TurnInput) Reserve(ctx context.Context, u session.Usage) (done func(), err error) {
	if err := t.Err(); err != nil {
		return func() {}, err
	}
	if t.Exhausted != "" {
		return func() {}, fmt.Errorf("%w: %s", ErrBudget, t.Exhausted)
	}
	if !t.limited {
		return func() {}, nil
	}
	expect := treeUsage(u).Clean().Charge()
	cmd, fits := t.expect(expect)
	done = t.expectNoMore(expect)
	if fits {
		return done, nil
	}
	if err = t.doUntilOver(ctx, cmd, nil); err != nil {
		done()
		return func() {}, err
	}
	return done, nil
}

// expect adds a call to what is expected, and returns the command that tells the tree. With fits
// the tree need not be told: the turn has reserved as much.
func (t *TurnInput) expect(by tree.Budget) (cmd tree.Hold, fits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.expected
	t.expected = t.expected.Add(by)
	used := treeUsage(t.spent).Charge()
	all := used.Add(t.expected)
	fits = !t.holds && all.Tokens <= t.reserved.Tokens && all.Micros <= t.reserved.Micros
	t.holds = t.holds || !fits
	return tree.Hold{
		Run: t.run.Key(), N: uint32(t.N), Used: used, Expect: t.expected, Before: before,
		Begins: true,
	}, fits
}

// expectNoMore returns a function that takes a call out of what is expected, at its first call.
func (t *TurnInput) expectNoMore(by tree.Budget) func() {
	over := false
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if over {
			return
		}
		over = true
		if t.expected = t.expected.Sub(by); !t.holds {
			return
		}
		t.holds = t.expected != tree.Budget{}
		t.shell.owner.Send(t.gen, tree.Hold{
			Run: t.run.Key(), N: uint32(t.N), Used: treeUsage(t.spent).Charge(), Expect: t.expected,
		})
	}
}
