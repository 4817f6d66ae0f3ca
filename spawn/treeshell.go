package spawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// treeShell is one tree in this process: its owner, the turns and deliveries under way, and who waits and watches. It performs the
// effects of the tree.
type treeShell struct {
	sup   *Supervisor
	owner *owner.Owner

	mu           sync.Mutex
	turns        map[turnID]*runningTurn
	newestTurn   map[session.Key]*runningTurn // the newest turn of each session that has one under way
	senders      map[destination]*sender
	waiters      map[*waiter]struct{}
	waitersByRun map[session.Key][]*waiter // by the run waited for
	watchers     map[*watcher]struct{}
}

type turnID struct {
	run *tree.Run
	n   uint32
}

// runningTurn is a turn whose Runner has not returned.
type runningTurn struct {
	shell       *treeShell
	id          turnID
	key         session.Key
	turn        TurnInput
	ctx         context.Context //nolint:containedctx // of the Runner, which gets it; here until the goroutine has started
	cancel      context.CancelCauseFunc
	previous    *runningTurn  // the turn before of the same session, if that has not returned
	done        chan struct{} // finished when the Runner has returned; nil until somebody waits
	cancelledAt time.Time     // when; zero: it is not
	hasReturned bool          // the Runner has returned
	slotFreed   bool          // the tree no longer counts on its slot
}

// slot is the slot of the lane that a turn holds; it can be given back early and asked for again.
type slot struct {
	mu     sync.Mutex
	lane   *owner.Lane
	life   context.Context //nolint:containedctx // of the turn; only asked whether it has ended
	held   bool
	paused int  // how many wait within the turn: while any does it holds none
	closed bool // the turn is over for the tree: what is granted now goes back at once
}

// pause gives the slot back while somebody waits within the turn.
func (s *slot) pause() {
	s.mu.Lock()
	s.paused++
	s.mu.Unlock()
	s.release()
}

// resume waits for a slot again if nobody waits any more, until the turn is cancelled: no other context may end that, or a turn
// would go on without a slot.
func (s *slot) resume(r *tree.Run) {
	s.mu.Lock()
	s.paused--
	enough := s.paused > 0 || s.held || s.closed
	s.mu.Unlock()
	if enough || !s.lane.Wait(s.life.Done(), r) {
		return
	}
	s.mu.Lock()
	enough = s.paused > 0 || s.held || s.closed // it may have changed meanwhile
	s.held = s.held || !enough
	s.mu.Unlock()
	if enough {
		s.lane.Free()
	}
}

func (s *slot) release() {
	s.mu.Lock()
	held := s.held
	s.held = false
	s.mu.Unlock()
	if held {
		s.lane.Free()
	}
}

func (s *slot) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.release()
}

// Start implements owner.Executor.
func (sh *treeShell) Start(gen uint64, t *tree.Tree, r *tree.Run) {
	rt := &runningTurn{shell: sh, id: turnID{r, r.Open.N}, key: r.Key(), slotFreed: r.IsRoot()}
	sh.describeTurn(&rt.turn, gen, t, r)
	rt.ctx, rt.cancel = context.WithCancelCause(context.WithValue(sh.sup.detachedCtx, turnKey{}, &rt.turn))
	rt.turn.slot.life = rt.ctx
	sh.mu.Lock()
	rt.previous = sh.newestTurn[rt.key]
	sh.newestTurn[rt.key] = rt
	sh.turns[rt.id] = rt
	sh.mu.Unlock()
	if !sh.sup.startTask(rt) {
		rt.cancel(ErrShutdown)
		sh.turnReturned(rt)
	}
}

// describeTurn describes the open turn of a run.
func (sh *treeShell) describeTurn(turn *TurnInput, gen uint64, t *tree.Tree, r *tree.Run) {
	s := r.Spec
	turn.Session = session.Lineage{Key: s.Key, Root: t.Root().Key(), Parent: s.Parent, Depth: s.Depth, Role: s.Role}
	turn.SessionID, turn.MaxDepth, turn.Extra = s.SessionID, s.MaxDepth, s.Extra
	turn.N, turn.First, turn.Pos = int(r.Open.N), int(r.Open.First), session.Pos(r.Pos)
	turn.Deadline, turn.Retry = timeOf(r.Deadline), r.Retry
	turn.shell, turn.run, turn.gen = sh, r, gen
	turn.slot.lane, turn.slot.held = sh.sup.lane, !r.IsRoot()
	turn.limited, turn.reserved = t.Limited(r), r.Open.Reserve
	if !r.IsRoot() {
		turn.Run = infoOf(t, r)
	}
	turn.Exhausted = t.Exhausted(r)
	turn.Inputs = turn.oneInput[:0:1]
	r.Unread(r.Consumed, r.Open.Through, func(in tree.Input) { turn.Inputs = append(turn.Inputs, sh.input(t, in)) })
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

// maxListedChildren bounds how many active children a turn is told of.
const maxListedChildren = 50

// run runs the turn and reports it.
func (rt *runningTurn) run() {
	sh, ctx := rt.shell, rt.ctx
	defer rt.cancel(nil)
	sh.waitForPrevious(ctx, rt)
	var out TurnResult
	err := errRunnerExited
	defer func() { sh.reportTurn(rt, out, err) }() // also if the Runner ends its goroutine
	out, err = sh.callRunner(ctx, &rt.turn)
}

var errRunnerExited = errors.New("spawn: the Runner ended its goroutine")

// reportTurn tells the tree what a turn came to.
func (sh *treeShell) reportTurn(rt *runningTurn, out TurnResult, err error) {
	if len(out.Result.JSON) > 0 && !json.Valid(out.Result.JSON) {
		err = errors.Join(err, fmt.Errorf("spawn: the Runner returned a Result.JSON of %d bytes that is not JSON", len(out.Result.JSON)))
		out.Result.JSON = nil
	}
	sh.turnReturned(rt)
	if err != nil && errors.Is(context.Cause(rt.ctx), ErrShutdown) {
		return // it was interrupted, which the next owner of the tree sees from there being no end
	}
	done := &turnDone{answer: answerOf(out)}
	done.TurnDone = tree.TurnDone{
		Run: rt.key, N: rt.id.n, Answer: &done.answer, Silent: out.Silent, Skip: out.Skip, Pos: uint64(out.Pos), Rand: sh.sup.rand(),
		Yield: rt.turn.yieldJoin(time.Now()),
	}
	if err != nil {
		done.Failed, done.Budget = err.Error(), isBudget(err)
		if done.Failed == "" {
			done.Failed = fmt.Sprintf("%T", err)
		}
	}
	sh.owner.Send(rt.turn.gen, &done.TurnDone)
}

// turnDone is a command and its answer in one piece of memory.
type turnDone struct {
	tree.TurnDone
	answer tree.Result
}

// callRunner calls the Runner, unless the turn was cancelled before it began, and contains its panics.
func (sh *treeShell) callRunner(ctx context.Context, t *TurnInput) (out TurnResult, err error) {
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			pe := &PanicError{Value: p, Stack: debug.Stack()}
			sh.sup.log.Error("offshoot: a Runner panicked", "session", t.Session.Key.String(), "panic", fmt.Sprint(p), "stack", string(pe.Stack))
			err = pe
		}
	}()
	return sh.sup.cfg.Runner.RunTurn(ctx, t)
}

func (t *TurnInput) yieldJoin(now time.Time) *tree.Join {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.yield == nil {
		return nil
	}
	j := &tree.Join{Keys: t.yieldTo, Need: uint32(max(0, t.yield.AtLeast))}
	if t.yield.Within > 0 {
		j.Until = now.Add(t.yield.Within).UnixNano()
	}
	return j
}

func (sh *treeShell) turnReturned(rt *runningTurn) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.newestTurn[rt.key] == rt {
		if rt.previous != nil { // it was cancelled while it waited for that one
			sh.newestTurn[rt.key] = rt.previous
		} else {
			delete(sh.newestTurn, rt.key)
		}
	}
	rt.hasReturned = true
	sh.removeFinished(rt)
	if rt.done != nil {
		close(rt.done)
	}
}

// removeFinished forgets a turn once its Runner has returned and its slot is settled. The caller holds the lock.
func (sh *treeShell) removeFinished(rt *runningTurn) {
	if rt.hasReturned && rt.slotFreed {
		delete(sh.turns, rt.id)
	}
}

// waitForPrevious waits until the turns before rt have returned, or ctx ends: never two at once for one session. It matters for turns
// that were given up; meanwhile rt holds no slot.
func (sh *treeShell) waitForPrevious(ctx context.Context, rt *runningTurn) {
	if rt.previous == nil {
		return
	}
	rt.turn.slot.pause()
	sh.mu.Lock()
	for rt.previous != nil && ctx.Err() == nil {
		older := rt.previous
		if older.hasReturned {
			rt.previous = older.previous
			continue
		}
		done := older.whenReturned()
		sh.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		sh.mu.Lock()
	}
	sh.mu.Unlock()
	if !rt.id.run.IsRoot() {
		rt.turn.slot.resume(rt.id.run)
	}
}

// whenReturned returns a channel that is closed when the Runner has returned. The caller holds the lock.
func (rt *runningTurn) whenReturned() <-chan struct{} {
	if rt.done == nil {
		rt.done = make(chan struct{})
		if rt.hasReturned {
			close(rt.done)
		}
	}
	return rt.done
}

// Cancel implements owner.Executor.
func (sh *treeShell) Cancel(r *tree.Run, n uint32) {
	cause := ErrTurnCancelled
	switch r.Cause {
	case tree.Timeout:
		cause = ErrTimedOut
	case tree.NoCause:
	default:
		cause = ErrStopped
	}
	sh.mu.Lock()
	rt := sh.turns[turnID{r, n}]
	if rt != nil {
		rt.cancelledAt = time.Now()
	}
	sh.mu.Unlock()
	if rt != nil {
		rt.cancel(cause)
	}
}

// Free implements owner.Executor.
func (sh *treeShell) Free(r *tree.Run, n uint32) bool {
	sh.mu.Lock()
	rt := sh.turns[turnID{r, n}]
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
