package spawn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// turnID names a turn within a treeShell.
type turnID struct {
	run *tree.Run
	n   uint32
}

// runningTurn is a turn whose Runner has not returned, or whose slot the tree still counts on.
// The lock of the shell guards previous, done, cancelledAt, hasReturned, untouched and slotFreed.
type runningTurn struct {
	shell *treeShell
	id    turnID
	key   session.Key
	turn  TurnInput
	mark  mark
	// values is the parent of the context of the Runner, which is the life of the turn's fence.
	values      turnValues
	endCtx      context.CancelCauseFunc
	previous    *runningTurn  // the turn before it of the same session, if that has not returned
	done        chan struct{} // closed when the Runner has returned; nil until a caller waits
	cancelledAt time.Time     // zero if the turn has not been cancelled
	hasReturned bool          // whether the Runner has returned
	untouched   bool          // whether a shutdown has ended it before it did anything
	slotFreed   bool          // whether the tree no longer counts on the slot of the turn
}

// turnValues is the context under which that of a turn is made. It holds the turn and its mark, and
// is a part of the turn, which saves two allocations.
type turnValues struct {
	context.Context //nolint:containedctx // it is a context

	rt *runningTurn
}

// Value implements context.Context.
func (v *turnValues) Value(key any) any {
	switch key.(type) {
	case turnKey:
		return &v.rt.turn
	case markKey:
		return &v.rt.mark
	}
	return v.Context.Value(key)
}

// maxListedChildren bounds how many active children a turn is told of.
const maxListedChildren = 50

// describeTurn fills in the TurnInput of the open turn of a run.
func (sh *treeShell) describeTurn(turn *TurnInput, gen uint64, t *tree.Tree, r *tree.Run) {
	s := r.Spec
	turn.Session = session.Lineage{
		Key: s.Key, Root: t.Root().Key(), Parent: s.Parent, Depth: s.Depth, Role: s.Role,
	}
	turn.Above = turn.oneAbove[:0:1]
	for above := r; !above.IsRoot(); above = above.Parent {
		turn.Above = append(turn.Above, above.Spec.Parent)
	}
	turn.SessionID, turn.MaxDepth, turn.Extra = s.SessionID, s.MaxDepth, s.Extra()
	turn.N, turn.First, turn.Pos = int(r.Open.N), int(r.Open.First), session.Pos(r.Pos)
	turn.Compact, turn.Announces = r.Open.Compact, r.Open.Step
	if people, to := r.AnswersPeople(); people {
		if turn.ForPeople = true; to != nil {
			turn.Route = *to
		}
	}
	// A turn of a run that a shutdown has ended before it did anything leaves nothing to know of.
	turn.Retry = !turn.Compact &&
		(r.IsRoot() && (r.Retry || len(r.Crashes) > 0) || r.FollowsCrash())
	for _, x := range r.Former {
		turn.Former = append(turn.Former, x.ID)
	}
	turn.Deadline = timeOf(r.Deadline)
	if turn.Announces {
		turn.Deadline = timeOf(r.Open.Until)
	}
	turn.lineage = t.Lineage(turn.oneGrant[:0:1], r)
	if turn.rights.rules = t.Rules(); turn.rights.rules.Sandbox.Decide == nil {
		turn.rights.now = t.Rights(r)
	}
	turn.shell, turn.run, turn.gen, turn.senders = sh, r, gen, r.Senders()
	turn.slot.turn, turn.slot.held = turn, true
	turn.limited, turn.reserved, turn.model = t.Limited(r), r.Open.Reserve, t.Model(r)
	if !r.IsRoot() {
		turn.Run = infoOf(t, r)
	}
	turn.Exhausted, turn.Skills = t.Exhausted(r), r.Skills
	if r.Kept != "" {
		turn.State = []byte(r.Kept)
	}
	for _, x := range r.Said {
		turn.Said = append(turn.Said, string(x.Text))
	}
	turn.Inputs = turn.oneInput[:0:1]
	r.Unread(r.Consumed, r.Open.Through, func(in tree.Input) {
		turn.Inputs = append(turn.Inputs, inputOf(t, r, in))
	})
	turn.Active = r.Live()
	if wait, ended, told := t.Woke(r); wait != nil {
		turn.Waited = &Waited{
			Left: int(wait.Left), Enough: wait.Enough(), Ended: ended, Told: told,
		}
	}
	if listed := min(r.Live(), maxListedChildren); listed > 0 {
		r.Newest(func(c *tree.Run) bool {
			if !c.State.Terminal() {
				turn.Children = append(turn.Children, infoOf(t, c))
			}
			return len(turn.Children) < listed
		})
		slices.Reverse(turn.Children)
	}
}

// cancel ends the context of the Runner, with nil after the turn.
func (rt *runningTurn) cancel(cause error) {
	if f := &rt.turn.fence; cause != nil && f.cancelled.Load() == nil {
		now := time.Now()
		f.cancelled.CompareAndSwap(nil, &now)
	}
	rt.endCtx(cause)
}

// run implements task: it calls the Runner and reports what the turn came to.
func (rt *runningTurn) run(g *worker) {
	sh, ctx := rt.shell, rt.turn.fence.life
	defer rt.cancel(nil)
	sh.waitForPrevious(ctx, rt)
	if err := rt.turn.fence.hold.wait(ctx); err != nil {
		rt.cancel(err)
	}
	var out TurnResult
	var err error
	returned := false
	defer func() {
		if !returned { // the Runner ended its goroutine
			out, err = rt.turn.exited()
		}
		sh.reportTurn(g, rt, out, err)
		sh.sup.workers.markOver(&rt.mark)
	}()
	rt.turn.beginRights(ctx)
	out, err = sh.callRunner(ctx, &rt.turn)
	returned = true
}

// beginRights sets the Authority of a turn. If Sandbox.Decide must be asked, it is decided here,
// beside the owner of the tree. The Authority is the turn's own.
func (t *TurnInput) beginRights(ctx context.Context) {
	if rules := t.rights.rules; rules.Sandbox.Decide != nil {
		now, _ := t.rightsUnder(ctx, rules, t.senders) // else nothing but a sandbox is left
		t.rights.now = &now
		if t.Run.ID != "" {
			t.Run.setRights(&now)
		}
	}
	t.Authority, t.rights.of = *t.rights.now, t.senders
	t.Authority.Tools = slices.Clone(t.Authority.Tools)
	t.Authority.Delegable = slices.Clone(t.Authority.Delegable)
}

// callRunner calls the Runner, reads its error, and contains the panics of both. A turn that was
// cancelled before it began does not call the Runner, and is untouched if a shutdown has cancelled
// it.
func (sh *treeShell) callRunner(ctx context.Context, t *TurnInput) (out TurnResult, err error) {
	if cause := context.Cause(ctx); errors.Is(cause, ErrShutdown) {
		return out, fmt.Errorf("%w: %w", ErrUntouched, cause)
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			pe := owner.NewPanic(p)
			t.ExitWith(out, pe) // a Logger may end the goroutine
			sh.sup.log.Error("offshoot: a Runner panicked", "session", t.Session.Key.String(),
				"panic", fmt.Sprint(pe.Value), "stack", string(pe.Stack))
			err = pe
		}
	}()
	out, err = sh.sup.cfg.Runner.RunTurn(ctx, t)
	return out, contain.Read(err)
}

// reportTurn tells the tree what a turn came to, which is the last that its goroutine does.
func (sh *treeShell) reportTurn(g *worker, rt *runningTurn, out TurnResult, err error) {
	rt.turn.progress.end(&rt.turn)
	rt.turn.fence.passed.Store(true)
	if bad := sh.sup.boundResult(&out, sh.sup.cfg.Limits); bad != nil {
		err = errors.Join(err, bad)
	}
	if typed := out.Result.JSON; len(typed) > 0 && !json.Valid(typed) {
		err = errors.Join(err, fmt.Errorf(
			"spawn: the Runner returned a Result.JSON of %s that is not JSON",
			text.Count(len(typed), "byte", "bytes")))
		out.Result.JSON = nil
	}
	sh.turnReturned(rt)
	if err != nil && errors.Is(context.Cause(rt.turn.fence.life), ErrShutdown) {
		// The turn was interrupted. The next owner of the tree sees that: its end is not recorded.
		if errors.Is(err, ErrUntouched) && rt.turn.Spent().IsZero() && out.Result.isZero() {
			sh.reportUntouched(rt)
		}
		return
	}
	if rt.turn.Announces {
		out.Result.Text = secret.Bound(redactBy(sh.sup.cfg.Redact), out.Result.Text, longResult)
	}
	answer := new(tree.Result) // the run keeps it
	*answer = sh.sup.answerOf(out)
	rt.turn.attribute(answer, out.Models)
	done := tree.TurnDone{
		Run: rt.key, N: rt.id.n, Answer: answer, Silent: out.Silent, Skip: out.Skip,
		Pos: uint64(out.Pos), Rand: sh.sup.ids.rand(), Yield: rt.turn.yieldJoin(),
	}
	done.Note, done.Compacted, done.Err = sh.sup.shown(out.Note), compacted(out.Compacted), err
	if err != nil {
		done.Failed, done.Budget = sh.sup.errorText(err), errors.Is(err, ErrBudget)
	}
	defer func() { // also if the store ends the goroutine
		sh.owner.SendDone(g, rt.turn.gen, done)
	}()
	sh.spill(rt, answer)
}

// reportUntouched tells the tree that a shutdown has ended a turn before it did anything. The tree
// has noted the shutdown before.
func (sh *treeShell) reportUntouched(rt *runningTurn) {
	sh.mu.Lock()
	rt.untouched = true
	sh.mu.Unlock()
	sh.owner.Send(rt.turn.gen, &tree.TurnDone{
		Run: rt.key, N: rt.id.n, Untouched: true, Rand: sh.sup.ids.rand(),
	})
}

// perFile is how many bytes a file counts beside its texts.
const perFile = 16

// boundResult cuts the texts of a result that are longer than limit. It returns a *LimitError, and
// takes the JSON or the files out, if these are longer. A name of a model that is not one is left
// out: a name that was cut would be that of another model. So is a ReplyTo that is not an id.
func (s *Supervisor) boundResult(out *TurnResult, limits Limits) error {
	mask := redactBy(s.cfg.Redact)
	limit := limits.MaxResult()
	for _, said := range []*string{&out.Result.Text, &out.Fallback, &out.Reply} {
		*said = secret.Bound(mask, *said, limit)
	}
	if !text.IsLine(out.Result.Model, text.MaxName) {
		out.Result.Model = ""
	}
	if most := limits.MaxID(); !text.IsLine(out.ReplyTo, cmp.Or(max(most, 0), len(out.ReplyTo))) {
		out.ReplyTo = ""
	}
	over := func(field string, n int) error {
		if limit < 0 || n <= limit {
			return nil
		}
		return &LimitError{
			Field: field, Size: n, Limit: limit, Unit: "bytes", Path: "Limits.Result",
		}
	}
	json := over("Result.JSON", len(out.Result.JSON))
	if json != nil {
		out.Result.JSON = nil
	}
	size := 0
	for _, f := range out.Result.Files {
		size += perFile + len(f.Name) + len(f.Path) + len(f.MediaType)
	}
	files := over("Result.Files", size)
	if files != nil {
		out.Result.Files = nil
	}
	return errors.Join(json, files)
}

// errorText returns the text of an error as it is logged, kept and shown, see Config.Redact, or the
// name of its type if nothing is left of the text: to the tree an empty text is a success.
func (s *Supervisor) errorText(err error) string {
	said := err.Error()
	if refusal, ok := errors.AsType[*policy.Refusal](err); ok {
		said = strings.Replace(said, refusal.Error(), refusal.Masked(s.shown).Error(), 1)
	}
	if shown := s.shown(said); shown != "" {
		return shown
	}
	return fmt.Sprintf("%T", err)
}

// shown returns what is logged, kept and shown of the text of an error, see Config.Redact.
func (s *Supervisor) shown(text string) string {
	return secret.TextBy(redactBy(s.cfg.Redact), text)
}

// redactBy returns Config.Redact as the Supervisor calls it, see there.
func redactBy(redact func(string) string) func(string) string {
	if redact == nil {
		return secret.Mask
	}
	return func(text string) (shown string) {
		defer func() {
			if recover() != nil {
				shown = notRedacted
			}
		}()
		return redact(text)
	}
}

// notRedacted stands for a text on which Config.Redact has panicked.
const notRedacted = "the text is not shown: Config.Redact panicked"

// compacted returns how many messages were compacted as the tree counts them.
func compacted(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }

// yieldJoin returns the wait that the turn has asked for with Yield, or nil.
func (t *TurnInput) yieldJoin() *tree.Join {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.yield == nil {
		return nil
	}
	join := &tree.Join{
		Need:   t.yield.need(),
		Within: t.yield.within(), ByModel: t.byModel, Rest: t.yield.rest(),
	}
	for _, run := range t.yieldTo {
		join.Keys, join.Runs = append(join.Keys, run.Session), append(join.Runs, string(run.Run))
	}
	return join
}

// turnReturned notes that the Runner has returned, or was never called.
func (sh *treeShell) turnReturned(rt *runningTurn) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.newestTurn.Of(rt.key) == rt {
		if rt.previous != nil { // rt was cancelled while it waited for that one
			sh.newestTurn.Set(rt.key, rt.previous)
		} else {
			sh.newestTurn.Delete(rt.key)
		}
	}
	rt.hasReturned = true
	sh.removeFinished(rt)
	if rt.done != nil {
		close(rt.done)
	}
}

// removeFinished removes a turn from the shell once its Runner has returned and the tree no longer
// counts on its slot. The caller holds the lock.
func (sh *treeShell) removeFinished(rt *runningTurn) {
	if rt.hasReturned && rt.slotFreed {
		sh.turns.Delete(rt.id)
	}
}

// waitForPrevious waits until the earlier turns of the same session have returned, or ctx ends, so
// that two turns of one session never overlap. There is an earlier turn only if it was given up.
// While rt waits it holds no slot.
func (sh *treeShell) waitForPrevious(ctx context.Context, rt *runningTurn) {
	if rt.previous == nil {
		return
	}
	rt.turn.slot.pause()
	sh.mu.Lock()
	for rt.previous != nil && ctx.Err() == nil {
		previous := rt.previous
		if previous.hasReturned {
			rt.previous = previous.previous
			continue
		}
		done := previous.whenReturned()
		sh.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		sh.mu.Lock()
	}
	sh.mu.Unlock()
	rt.turn.slot.resume()
}

// whenReturned returns a channel that is closed when the Runner has returned. The caller holds the
// lock of the shell.
func (rt *runningTurn) whenReturned() <-chan struct{} {
	if rt.done == nil {
		rt.done = make(chan struct{})
		if rt.hasReturned {
			close(rt.done)
		}
	}
	return rt.done
}
