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

// home is one tree in this process: its owner, the turns and deliveries under way, and who waits and watches. It performs the
// effects of the tree.
type home struct {
	sup   *Supervisor
	owner *owner.Owner

	mu       sync.Mutex
	turns    map[turnID]*underWay
	sessions map[session.Key]*underWay // the newest turn of each session that has one under way
	posts    map[destination]*postman
	waiters  map[*waiter]struct{}
	waiting  map[session.Key][]*waiter // by the run waited for
	watchers map[*watcher]struct{}
}

type turnID struct {
	run *tree.Run
	n   uint32
}

// underWay is a turn whose Runner has not returned.
type underWay struct {
	home      *home
	id        turnID
	key       session.Key
	turn      TurnInput
	ctx       context.Context //nolint:containedctx // of the Runner, which gets it; here until the goroutine has started
	cancel    context.CancelCauseFunc
	after     *underWay     // the turn before of the same session, if that has not returned
	done      chan struct{} // closed when the Runner has returned; nil until somebody waits
	cancelled time.Time     // when; zero: it is not
	over      bool          // the Runner has returned
	freed     bool          // the tree no longer counts on its slot
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
func (h *home) Start(gen uint64, t *tree.Tree, r *tree.Run) {
	u := &underWay{home: h, id: turnID{r, r.Open.N}, key: r.Key(), freed: r.IsRoot()}
	h.fill(&u.turn, gen, t, r)
	u.ctx, u.cancel = context.WithCancelCause(context.WithValue(h.sup.lasting, turnKey{}, &u.turn))
	u.turn.slot.life = u.ctx
	h.mu.Lock()
	u.after = h.sessions[u.key]
	h.sessions[u.key] = u
	h.turns[u.id] = u
	h.mu.Unlock()
	if !h.sup.spawnGoroutine(u) {
		u.cancel(ErrShutdown)
		h.forget(u)
	}
}

// fill describes the open turn of a run.
func (h *home) fill(turn *TurnInput, gen uint64, t *tree.Tree, r *tree.Run) {
	s := r.Spec
	turn.Session = session.Lineage{Key: s.Key, Root: t.Root().Key(), Parent: s.Parent, Depth: s.Depth, Role: s.Role}
	turn.SessionID, turn.MaxDepth, turn.Extra = s.SessionID, s.MaxDepth, s.Extra
	turn.N, turn.First, turn.Pos = int(r.Open.N), int(r.Open.First), session.Pos(r.Pos)
	turn.Deadline, turn.Retry = stamp(r.Deadline), r.Retry
	turn.home, turn.run, turn.gen = h, r, gen
	turn.slot.lane, turn.slot.held = h.sup.lane, !r.IsRoot()
	turn.limited, turn.chunk = t.Limited(r), r.Open.Reserve
	if !r.IsRoot() {
		turn.Run = infoOf(t, r)
	}
	turn.Exhausted = t.Exhausted(r)
	turn.Inputs = turn.first[:0:1]
	r.Unread(r.Consumed, r.Open.Through, func(in tree.Input) { turn.Inputs = append(turn.Inputs, h.input(t, in)) })
	if listed := min(r.Live(), maxListed); listed > 0 {
		r.Newest(func(c *tree.Run) bool {
			if !c.State.Terminal() {
				turn.Children = append(turn.Children, infoOf(t, c))
			}
			return len(turn.Children) < listed
		})
		slices.Reverse(turn.Children)
	}
}

// maxListed bounds how many active children a turn is told of.
const maxListed = 50

// run runs the turn and reports it.
func (u *underWay) run() {
	h, ctx := u.home, u.ctx
	defer u.cancel(nil)
	h.waitForOlder(ctx, u)
	var out TurnResult
	err := errGone
	defer func() { h.report(u, out, err) }() // also if the Runner ends its goroutine
	out, err = h.call(ctx, &u.turn)
}

var errGone = errors.New("spawn: the Runner ended its goroutine")

// report tells the tree what a turn came to.
func (h *home) report(u *underWay, out TurnResult, err error) {
	if len(out.Result.JSON) > 0 && !json.Valid(out.Result.JSON) {
		err = errors.Join(err, fmt.Errorf("spawn: the Runner returned a Result.JSON of %d bytes that is not JSON", len(out.Result.JSON)))
		out.Result.JSON = nil
	}
	h.forget(u)
	if err != nil && errors.Is(context.Cause(u.ctx), ErrShutdown) {
		return // it was interrupted, which the next owner of the tree sees from there being no end
	}
	done := &turnDone{answer: answerOf(out)}
	done.TurnDone = tree.TurnDone{
		Run: u.key, N: u.id.n, Answer: &done.answer, Silent: out.Silent, Skip: out.Skip, Pos: uint64(out.Pos), Rand: h.sup.rand(),
		Yield: u.turn.yielded(time.Now()),
	}
	if err != nil {
		done.Failed, done.Budget = err.Error(), isBudget(err)
		if done.Failed == "" {
			done.Failed = fmt.Sprintf("%T", err)
		}
	}
	h.owner.Send(u.turn.gen, &done.TurnDone)
}

// turnDone is a command and its answer in one piece of memory.
type turnDone struct {
	tree.TurnDone
	answer tree.Result
}

// call calls the Runner, unless the turn was cancelled before it began, and contains its panics.
func (h *home) call(ctx context.Context, t *TurnInput) (out TurnResult, err error) {
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			pe := &PanicError{Value: p, Stack: debug.Stack()}
			h.sup.log.Error("offshoot: a Runner panicked", "session", t.Session.Key.String(), "panic", fmt.Sprint(p), "stack", string(pe.Stack))
			err = pe
		}
	}()
	return h.sup.cfg.Runner.RunTurn(ctx, t)
}

func (t *TurnInput) yielded(now time.Time) *tree.Join {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.yield == nil {
		return nil
	}
	j := &tree.Join{Keys: t.members, Need: uint32(max(0, t.yield.AtLeast))}
	if t.yield.Within > 0 {
		j.Until = now.Add(t.yield.Within).UnixNano()
	}
	return j
}

func (h *home) forget(u *underWay) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[u.key] == u {
		if u.after != nil { // it was cancelled while it waited for that one
			h.sessions[u.key] = u.after
		} else {
			delete(h.sessions, u.key)
		}
	}
	u.over = true
	h.drop(u)
	if u.done != nil {
		close(u.done)
	}
}

// drop forgets a turn once its Runner has returned and its slot is settled. The caller holds the lock.
func (h *home) drop(u *underWay) {
	if u.over && u.freed {
		delete(h.turns, u.id)
	}
}

// waitForOlder waits until the turns before u have returned, or ctx ends: never two at once for one session. It matters for turns
// that were given up; meanwhile u holds no slot.
func (h *home) waitForOlder(ctx context.Context, u *underWay) {
	if u.after == nil {
		return
	}
	u.turn.slot.pause()
	h.mu.Lock()
	for u.after != nil && ctx.Err() == nil {
		older := u.after
		if older.over {
			u.after = older.after
			continue
		}
		done := older.returned()
		h.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		h.mu.Lock()
	}
	h.mu.Unlock()
	if !u.id.run.IsRoot() {
		u.turn.slot.resume(u.id.run)
	}
}

// returned returns a channel that is closed when the Runner has returned. The caller holds the lock.
func (u *underWay) returned() <-chan struct{} {
	if u.done == nil {
		u.done = make(chan struct{})
		if u.over {
			close(u.done)
		}
	}
	return u.done
}

// Cancel implements owner.Executor.
func (h *home) Cancel(r *tree.Run, n uint32) {
	cause := ErrTurnCancelled
	switch r.Cause {
	case tree.Timeout:
		cause = ErrTimedOut
	case tree.NoCause:
	default:
		cause = ErrStopped
	}
	h.mu.Lock()
	u := h.turns[turnID{r, n}]
	if u != nil {
		u.cancelled = time.Now()
	}
	h.mu.Unlock()
	if u != nil {
		u.cancel(cause)
	}
}

// Free implements owner.Executor.
func (h *home) Free(r *tree.Run, n uint32) bool {
	h.mu.Lock()
	u := h.turns[turnID{r, n}]
	if u != nil {
		u.freed = true
		h.drop(u)
	}
	h.mu.Unlock()
	if u == nil {
		return false
	}
	u.turn.slot.close()
	return true
}
