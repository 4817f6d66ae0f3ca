package spawn

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// MaxPause is the longest pause of a provider: ten minutes.
const MaxPause = owner.MaxPause

// maxProvider is how many bytes the provider of a pause may have: as many as that of a
// [session.Ticket], since all processes of a cluster read it.
const maxProvider = 1024

// Limited says that the provider of a model takes no calls for so long, as an answer with the HTTP
// status 429 says: it pauses. The provider is what stands before the first slash of the model, in
// any letter case. All models without a slash have one provider together. An empty model is that of
// the turn.
//
// Until the pause ends, [TurnInput.AwaitProvider] waits in every turn of every tree, and no turn
// starts of a session whose model is of the provider. Other sessions do not wait for those. A pause
// longer than [MaxPause] counts as that, and one of zero or less as none. Of several pauses the one
// that ends last stands. Pauses are not recorded: a restart forgets them. Times that the tree
// counts go on in a pause, such as that of a run.
//
// The error is [ErrStale] once the turn is cancelled or over, and an *[InputError] if the provider
// has more than 1,024 bytes.
func (t *TurnInput) Limited(model string, pause time.Duration) error {
	if err := t.Err(); err != nil {
		return err
	}
	provider := providerOf(cmp.Or(model, t.shell.sup.modelOf(t.run)))
	if len(provider) > maxProvider {
		return &InputError{Field: "model", Reason: fmt.Sprintf(
			"its provider has %d bytes, the limit is %d", len(provider), maxProvider)}
	}
	now := time.Now()
	t.shell.sup.lane.Pause(provider, now, now.Add(min(pause, MaxPause)))
	return nil
}

// AwaitProvider waits while the provider of a model pauses, see [TurnInput.Limited]. Meanwhile the
// turn gives its slot of the lane back. Those that wait go on at random moments within a tenth of
// the length of the pause after it, and within ten seconds. A turn goes on when it has a slot
// again. An empty model is that of the turn.
//
// The error is [ErrStale] once the turn is cancelled or over, or the cause of ctx.
func (t *TurnInput) AwaitProvider(ctx context.Context, model string) error {
	if err := t.mayBegin(ctx); err != nil {
		return err
	}
	provider := providerOf(cmp.Or(model, t.shell.sup.modelOf(t.run)))
	var waited time.Time
	for {
		now := time.Now()
		at, until := t.shell.sup.lane.CallAt(provider, now, waited, rand.Float64())
		if at.IsZero() {
			return nil
		}
		if err := t.pauseFor(ctx, at.Sub(now)); err != nil {
			return err
		}
		if err := t.mayBegin(ctx); err != nil {
			return err // it was cancelled while it waited for its slot
		}
		waited = until
	}
}

// pauseFor waits so long without a slot.
func (t *TurnInput) pauseFor(ctx context.Context, d time.Duration) error {
	ctx, end := t.Within(ctx)
	defer end()
	defer t.pause()()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// modelOf returns the model that policy resolved for a session. It reads what never changes: a
// reset replaces the specification of a top-level session alone.
func (s *Supervisor) modelOf(r *tree.Run) string {
	if r.IsRoot() {
		return s.rules.Load().SessionModel(r.Key(), s.cfg.Model)
	}
	return r.Spec.Model
}

// providerOf returns the provider of the model of a session, for the lane.
func (s *Supervisor) providerOf(r *tree.Run) string { return providerOf(s.modelOf(r)) }

// providerOf returns what stands before the first slash of a model, in lower case, or "".
func providerOf(model string) string {
	provider, _, ok := strings.Cut(model, "/")
	if !ok {
		return ""
	}
	return strings.ToLower(provider)
}

// Budgeted reports whether a budget limits what the turn may use, so that Reserve has an effect.
// It may become true while the turn is under way, by [Supervisor.SetRules].
func (t *TurnInput) Budgeted() bool {
	rules := t.shell.sup.rules.Load()
	return t.limited || tree.BudgetOf(rules.Budget).Limited() ||
		tree.BudgetOf(rules.RequestBudget).Limited()
}

// Reserve lets a model call begin that is expected to use u. If a budget limits the run, the amount
// is reserved until the Runner calls done, which it does after it has told Spend what the call has
// used, or when the call has failed. Reserve does not write to the journal.
//
// A call begins if what it is expected to use is left of every budget, beside what the other calls
// under way are expected to use. If not, it begins as the only one that uses up the rest, as long
// as there is a rest. So the turns of a tree that call at the same time exceed a budget by one
// call, and by what they use beyond what they expected. A call that may not begin is refused with
// an error that is ErrBudget: the Runner should return what it has.
//
// Calls of done after the first have no effect. The end of the turn, and of its process, ends what
// is reserved. Amounts below zero, and a cost that is not a number, count as zero. The error is
// [ErrStale] once the turn is cancelled or over, or the cause of ctx. done is never nil.
func (t *TurnInput) Reserve(ctx context.Context, u session.Usage) (done func(), err error) {
	if err := t.Err(); err != nil {
		return func() {}, err
	}
	if t.Exhausted != "" {
		return func() {}, fmt.Errorf("%w: %s", ErrBudget, t.Exhausted)
	}
	if !t.Budgeted() {
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
