package spawn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// treeShell is what one tree needs in this process: its owner, the turns and deliveries under way,
// and the callers that wait and watch. As the [owner.Executor] of the tree it performs the effects
// that the tree decides on.
type treeShell struct {
	sup   *Supervisor
	owner *owner.Owner

	mu           sync.Mutex
	turns        few.Map[turnID, *runningTurn]      // until they have returned and have no slot
	newestTurn   few.Map[session.Key, *runningTurn] // by session, until its Runner returns
	left         map[*leftCall]struct{}             // calls that have not returned; may be nil
	senders      map[tree.Destination]*sender       // those with deliveries
	spareSender  *sender                            // the memory of one that is gone; may be nil
	waiters      map[*waiter]struct{}
	waitersByRun map[RunRef][]*waiter             // by the run that they wait for
	heldArchives map[session.Key]func()           // start those that callers wait for; may be nil
	watchers     map[*watcher]struct{}            // of this tree alone
	idlers       few.Map[chan struct{}, struct{}] // of calls of Idle, which look again
	// answerWaiters wait for the replies to messages.
	answerWaiters map[*answerWaiter]struct{}
	kept          []*keptAnswer               // for senders in other processes; may be nil
	sendWaiters   map[*sendWaiter]struct{}    // wait for messages to other trees
	wishes        map[string]chan<- error     // of callers that wait for a reset or a compaction
	unbinds       map[*UnbindRequest]struct{} // calls of Config.Unbind; may be nil
	revivals      map[session.Key]*revival    // those that a caller waits for; may be nil
}

func newTreeShell(s *Supervisor, root session.Key) *treeShell {
	sh := &treeShell{sup: s}
	sh.owner = owner.New(&s.ownerConfig, root, sh)
	return sh
}

// Start implements owner.Executor.
func (sh *treeShell) Start(on owner.Goroutine, gen uint64, t *tree.Tree, r *tree.Run) {
	rt := &runningTurn{shell: sh, id: turnID{r, r.Open.N}, key: r.Key()}
	sh.describeTurn(&rt.turn, gen, t, r)
	rt.values = turnValues{sh.sup.detachedCtx, rt}
	f := &rt.turn.fence
	f.life, rt.endCtx = context.WithCancelCause(&rt.values)
	f.hold, rt.mark.ctx = sh.hold(), f.life
	sh.mu.Lock()
	rt.previous = sh.newestTurn.Of(rt.key)
	sh.newestTurn.Set(rt.key, rt)
	sh.turns.Set(rt.id, rt)
	sh.mu.Unlock()
	if !sh.startOn(on, rt) {
		rt.cancel(ErrShutdown)
		sh.turnReturned(rt)
		sh.owner.Send(gen, tree.ShutDown{})
		sh.reportUntouched(rt)
	}
}

// startOn is workers.start for what an owner starts, which the goroutine of the owner may do when
// the owner has nothing else to do.
func (sh *treeShell) startOn(on owner.Goroutine, t task) bool {
	if g, ok := on.(*worker); ok {
		return g.startNext(&sh.sup.workers.shut, t)
	}
	return sh.sup.workers.start(t)
}

// Cancel implements owner.Executor.
func (sh *treeShell) Cancel(r *tree.Run, n uint32) {
	cause := ErrTurnCancelled
	switch r.Cause {
	case tree.Timeout:
		cause = ErrTimedOut
	case tree.NoCause:
		// The turn may have ended in the same batch.
		if o := r.Open; o != nil && o.Step && time.Now().UnixNano() >= o.Until {
			cause = ErrTimedOut
		}
	default:
		cause = ErrStopped
	}
	sh.mu.Lock()
	rt := sh.turns.Of(turnID{r, n})
	if rt != nil {
		rt.cancelledAt = time.Now()
	}
	sh.mu.Unlock()
	if rt != nil {
		rt.turn.tellReached()
		rt.cancel(cause)
	}
}

// Free implements owner.Executor.
func (sh *treeShell) Free(r *tree.Run, n uint32) bool {
	sh.mu.Lock()
	rt := sh.turns.Of(turnID{r, n})
	if rt != nil {
		rt.slotFreed = true
		sh.removeFinished(rt)
	}
	sh.mu.Unlock()
	if rt == nil {
		return false
	}
	rt.turn.slot.close()
	return true
}

// Publish implements owner.Executor.
func (sh *treeShell) Publish(
	on owner.Goroutine, t *tree.Tree, after session.Seq, at owner.Place, facts []tree.Fact,
) {
	for i := range facts {
		if rests(t, &facts[i]) {
			if on != nil && sh.sup.cfg.Rested != nil {
				on.HandOver()
			}
			sh.tellRested(facts[i].Run)
		}
		sh.logCrash(t, facts, i)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.tellAnswerWaiters(t, facts)
	sh.tellSendWaiters(t, facts)
	for i := range facts {
		f := &facts[i]
		if f.Kind == tree.TurnEnded && f.Flags&tree.FlagCut != 0 {
			if rt := sh.turns.Of(turnID{t.Run(f.Run), f.N}); rt != nil {
				rt.turn.fence.passed.Store(true)
			}
		}
		sh.tellWaiters(t, facts, i)
	}
	t.Followed(func(r *tree.Run, of tree.Past) {
		for _, w := range sh.waitersByRun[RunRef{r.Key(), RunID(r.IDOf(&of))}] {
			w.freeze(runInfoOf(t, r, &of))
		}
	})
	sh.wakeIdlers()
	sh.showBatch(t, after, at, facts)
}

// logCrash logs that the process of a turn is gone, if a fact of the last batch says so, and that
// inputs are given up after that.
func (sh *treeShell) logCrash(t *tree.Tree, facts []tree.Fact, i int) {
	f := &facts[i]
	if f.Kind != tree.TurnEnded || f.Flags&tree.FlagCrashed == 0 {
		return
	}
	attrs := []any{"session", f.Run.String()}
	if r := t.Described(f.Run); r != nil && !r.IsRoot() {
		of := t.RunAt(r, facts, i)
		attrs = append(attrs, "run", r.IDOf(&of))
	}
	attrs = append(attrs, "turn", f.N)
	sh.sup.logBeside(slog.LevelWarn, "offshoot: a turn was cut, because its process is gone",
		attrs...)
	if f.Flags&tree.FlagGivenUp != 0 {
		sh.sup.logBeside(slog.LevelError, "offshoot: messages are given up, because the process "+
			"was gone after each attempt at them", append(attrs, "attempts", tree.MaxAttempts)...)
	}
}

// rests reports whether a session will have no turn for some time, as a fact of the last batch
// says. One that was given more work before, or has a conversation, is expected to be given more.
func rests(t *tree.Tree, f *tree.Fact) bool {
	switch f.Kind { //nolint:exhaustive // the others end nothing
	case tree.Reset, tree.Archived:
		return true
	case tree.RunEnded:
		r := t.Run(f.Run)
		return r == nil || r.Begin == nil && len(r.Bound) == 0
	}
	return false
}

// tellWaiters has the waiters take a fact of the last batch into account. The caller holds the
// lock.
func (sh *treeShell) tellWaiters(t *tree.Tree, facts []tree.Fact, i int) {
	switch f := &facts[i]; f.Kind {
	case tree.Opened:
		for w := range sh.waiters {
			w.recount(t)
		}
	case tree.RunEnded:
		r := t.Described(f.Run)
		if r == nil || len(sh.waitersByRun) == 0 {
			return
		}
		of := t.RunAt(r, facts, i)
		ref := RunRef{f.Run, RunID(r.IDOf(&of))}
		for _, w := range sh.waitersByRun[ref] {
			w.freeze(runInfoOf(t, r, &of)) // the session may be deleted before the waiter looks
			w.runEnded(ref, f.State)
		}
	case tree.Recovered:
		for w := range sh.waiters {
			if w.root {
				w.finish(nil)
			}
		}
	default: // a waiter does not wait for the others
	}
}

// Stalled implements owner.Executor.
func (sh *treeShell) Stalled(err error) {
	root := sh.owner.Root()
	e := TreeEvent{Kind: EventStalled, Time: time.Now(), Session: root}
	if err != nil {
		e.Error = sh.sup.errorText(err)
		sh.sup.logBeside(slog.LevelError, "offshoot: the journal fails",
			"root", root.String(), "error", e.Error)
	} else {
		sh.sup.logBeside(slog.LevelInfo, "offshoot: the journal takes entries again",
			"root", root.String())
	}
	sh.notifyWatchers(e)
}

// Rested implements owner.Executor.
func (sh *treeShell) Rested() {
	sh.tellRested(session.Key{})
	sh.sup.forget(sh)
}

// tellRested calls Config.Rested for a session, or for the whole tree with the zero Key.
func (sh *treeShell) tellRested(of session.Key) {
	if sh.sup.cfg.Rested == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			sh.sup.logBeside(slog.LevelError, "offshoot: Config.Rested panicked",
				"root", sh.owner.Root().String(), "panic", fmt.Sprint(p))
		}
	}()
	sh.sup.cfg.Rested(sh.owner.Root(), of)
}

// inUse reports whether a turn or a delivery of the tree is under way, or a caller waits or
// watches.
func (sh *treeShell) inUse() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.turns.Len()+sh.newestTurn.Len()+len(sh.left)+len(sh.senders)+len(sh.waiters)+
		len(sh.watchers)+sh.idlers.Len()+len(sh.answerWaiters)+len(sh.sendWaiters)+
		len(sh.wishes)+len(sh.unbinds)+len(sh.revivals) > 0
}

// underWay reports whether a turn, a delivery or a call of the Config for the tree is under way in
// this process. Callers that wait do not count, but for the return of a transcript.
func (sh *treeShell) underWay() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.turns.Len()+sh.newestTurn.Len()+len(sh.left)+len(sh.senders)+
		len(sh.unbinds)+len(sh.revivals) > 0
}

// Lost implements owner.Executor.
func (sh *treeShell) Lost(err error, taken bool) {
	root := sh.owner.Root()
	sh.mu.Lock()
	for _, rt := range sh.turns.All() {
		if rt.cancelledAt.IsZero() {
			rt.cancelledAt = time.Now()
		}
		rt.turn.fence.passed.Store(true)
		rt.cancel(lostError{})
	}
	sh.dropDeliveries()
	sh.endWishes(err)
	if taken {
		sh.endWaits(err)
	}
	sh.mu.Unlock()
	sh.tellRested(session.Key{})
	if _, all := errors.AsType[*allLostError](err); !all {
		sh.sup.logBeside(slog.LevelError, "offshoot: the tree was lost",
			"root", root.String(), "taken", taken, "error", err.Error())
	}
	sh.notifyWatchers(TreeEvent{
		Kind: EventLost, Time: time.Now(), Session: root, Error: sh.sup.errorText(err),
	})
}

// endWishes ends the calls that wait for a reset or a compaction, which is lost with the tree. The
// caller holds the lock.
func (sh *treeShell) endWishes(err error) {
	for _, wish := range sh.wishes {
		answerWish(wish, fmt.Errorf("%w: %w", lostError{}, err))
	}
}

// endWaits ends the calls that wait for what comes of the tree, because another owner has it. The
// caller holds the lock.
func (sh *treeShell) endWaits(err error) {
	for w := range sh.waiters {
		w.finish(fmt.Errorf("%w: %q: %w", lostError{}, sh.owner.Root(), err))
	}
	for w := range sh.answerWaiters {
		w.finish(nil, fmt.Errorf("%w: %w", lostError{}, err))
	}
	for w := range sh.sendWaiters {
		w.finish(fmt.Errorf("%w: %w", lostError{}, err))
	}
	sh.kept = nil
	sh.wakeIdlers() // they ask again, and are refused
}

// Owned implements owner.Executor.
func (sh *treeShell) Owned(err error) {
	sh.mu.Lock()
	sh.endWishes(err)
	sh.endWaits(err)
	sh.mu.Unlock()
	sh.tellRested(session.Key{})
}

// cut ends the turns that run under a hold, at once: the owner of the tree, which drops it, may
// still wait for the journal.
func (sh *treeShell) cut(h *hold) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, rt := range sh.turns.All() {
		if rt.turn.fence.hold == h {
			rt.turn.fence.passed.Store(true)
			rt.cancel(lostError{})
		}
	}
}

// beside has a task of its own do work for the tree, once the process may act for it under a hold.
// The work is given why it may not, and must then do nothing but tell.
func (sh *treeShell) beside(h *hold, work func(ctx context.Context, may error)) (started bool) {
	return sh.sup.workers.start(sh.sup.workers.marked(sh.sup.workCtx, sh.owner.Root(),
		func(ctx context.Context) { work(ctx, h.wait(ctx)) }))
}

// hold returns the hold of the process on the tree. The methods of the Executor call it.
func (sh *treeShell) hold() *hold { return sh.sup.cluster.holdOf(sh.owner.Root()) }

// shutDownTurns cancels the turns whose Runner has not returned, with ErrShutdown, and has the tree
// note that this is why they may not come back.
func (sh *treeShell) shutDownTurns() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	told := make(map[uint64]bool) // the incarnations of the tree
	for _, rt := range sh.turns.All() {
		if gen := rt.turn.gen; !told[gen] {
			told[gen] = true
			sh.owner.Send(gen, tree.ShutDown{})
		}
	}
	for _, rt := range sh.turns.All() {
		rt.cancel(ErrShutdown)
	}
}

// turnsLeft returns the turns that a shutdown has cancelled and whose end is not on record: those
// that have done nothing, and those that have not returned.
func (sh *treeShell) turnsLeft() (said tree.NotBegun) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, rt := range sh.turns.All() {
		ref := tree.TurnRef{Run: rt.key, N: rt.id.n}
		switch {
		case rt.untouched:
			said.Turns = append(said.Turns, ref)
		case !rt.hasReturned || errors.Is(context.Cause(rt.turn.fence.life), ErrShutdown):
			said.Cut = append(said.Cut, ref)
		}
	}
	return said
}

// addStillRunning adds the turns, the calls that turns left behind, and the deliveries that have
// not returned to e, except turns that wait for a store.
func (sh *treeShell) addStillRunning(e *StillRunningError) {
	defer func() { e.Sessions = sh.addLeft(e.Sessions, session.Key{}) }()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, rt := range sh.turns.All() {
		if !rt.hasReturned && !rt.turn.fence.inStore.Load() {
			e.Sessions = append(e.Sessions, rt.key)
		}
	}
	for u := range sh.unbinds {
		e.Sessions = append(e.Sessions, u.Session)
	}
	for _, p := range sh.senders {
		if p.call != nil {
			e.Deliveries = append(e.Deliveries, p.call.out.To)
		}
	}
}
