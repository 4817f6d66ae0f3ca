package spawn

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
)

// A task is what a goroutine of a Supervisor does. The worker is the goroutine that does it.
type task interface{ run(*worker) }

type taskFunc func()

func (f taskFunc) run(*worker) { f() }

// A drainTask drains the queue of an owner.
type drainTask func(owner.Goroutine)

func (f drainTask) run(g *worker) { f(g) }

// maxIdleWorkers is how many goroutines without a task a running Supervisor keeps.
const maxIdleWorkers = 64

// workers are the goroutines of a Supervisor. While the Supervisor runs, a goroutine that has done
// its task waits for another, because a new goroutine has to grow its stack first, which costs more
// than most tasks. The zero workers are ready. They are safe for concurrent use.
type workers struct {
	mu         sync.Mutex
	idle       []chan task   // of the goroutines that wait for a task
	keeping    bool          // goroutines without a task wait for one
	shut       bool          // only tasks of startLast start
	ended      bool          // no further task starts
	busy       int           // tasks under way
	waiting    int           // those of them that wait for the others, see mark
	hanging    int           // other ones of them that hang in code of the caller, see mark
	goroutines int           // busy and idle ones
	quiet      chan struct{} // closed when busy falls to those; nil until a caller waits
	gone       chan struct{} // closed when goroutines falls to 0; nil until a caller waits
}

// setKeeping says whether goroutines without a task wait for one.
func (w *workers) setKeeping(on bool) {
	w.mu.Lock()
	w.keeping = on
	w.mu.Unlock()
}

// start has a goroutine do a task. It returns false, and does nothing, after close.
func (w *workers) start(t task) bool { return w.startUnless(&w.shut, t) }

// startLast is start for a task that may begin until the end: an owner records what turns that are
// being cancelled come to.
func (w *workers) startLast(t task) bool { return w.startUnless(&w.ended, t) }

func (w *workers) startUnless(refuse *bool, t task) bool {
	if !w.admit(refuse) {
		return false
	}
	w.launch(t)
	return true
}

// admit counts a task that is to start. It returns false, and counts nothing, if refuse says so.
func (w *workers) admit(refuse *bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *refuse {
		return false
	}
	w.busy++
	return true
}

// launch has a goroutine do a task that is counted.
func (w *workers) launch(t task) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		tasks := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		tasks <- t
		return
	}
	w.goroutines++
	w.mu.Unlock()
	go w.work(t)
}

// work does one task after the other.
func (w *workers) work(t task) {
	g := &worker{all: w}
	defer g.exit()
	tasks := make(chan task, 1)
	for t != nil {
		g.do(t)
		if t, g.next = g.next, nil; t != nil {
			continue
		}
		if !w.park(tasks) {
			return
		}
		t = <-tasks
	}
}

// A worker is a goroutine of a Supervisor. What a task starts last may be done by its worker when
// the task is over: to wake another goroutine takes longer than most tasks. It goes on at once: one
// that yields before holds its next task back for as long as others compute. Only the goroutine
// itself calls the methods.
type worker struct {
	all  *workers
	next task // done after the task that is under way, and counted as that is; nil: none is
}

// do does a task. If a Runner ends its goroutine, the count of the tasks stays right.
func (g *worker) do(t task) {
	defer g.all.taskDone()
	t.run(g)
}

// Start implements owner.Starter: it is startLast for what drains the queue of an owner.
func (g *worker) Start(drain func(owner.Goroutine)) bool {
	return g.startNext(&g.all.ended, drainTask(drain))
}

// startNext is startUnless for a task that may wait for the end of the one under way, or for
// HandOver.
func (g *worker) startNext(refuse *bool, t task) bool {
	if !g.all.admit(refuse) {
		return false
	}
	g.HandOver()
	g.next = t
	return true
}

// HandOver implements owner.Goroutine: another goroutine does what would be next. A task calls it
// before it waits, or calls a function of the caller's.
func (g *worker) HandOver() {
	if t := g.next; t != nil {
		g.next = nil
		g.all.launch(t)
	}
}

func (w *workers) taskDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	w.tellQuiet()
}

// tellQuiet wakes those who wait, if nothing is under way but tasks that wait themselves or hang.
// The caller holds the lock.
func (w *workers) tellQuiet() {
	if w.busy <= w.waiting+w.hanging && w.quiet != nil {
		close(w.quiet)
		w.quiet = nil
	}
}

// park makes the goroutine one that waits for a task on the channel. It returns false if the
// goroutine is to end instead.
func (w *workers) park(tasks chan task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.keeping || len(w.idle) >= maxIdleWorkers {
		return false
	}
	w.idle = append(w.idle, tasks)
	return true
}

// exit is deferred: a task may end the goroutine.
func (g *worker) exit() {
	g.HandOver()
	w := g.all
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.goroutines--; w.goroutines == 0 && w.gone != nil {
		close(w.gone)
		w.gone = nil
	}
}

// wait waits until no task is under way, or ctx ends. The error is the cause of ctx.
func (w *workers) wait(ctx context.Context) error {
	return w.waitUntil(ctx, func() bool { return w.busy == 0 })
}

// waitSoft is wait, but does not wait for tasks that hang.
func (w *workers) waitSoft(ctx context.Context) error {
	return w.waitUntil(ctx, func() bool { return w.busy <= w.hanging })
}

// waitOthers is waitSoft for a task that waits itself: it waits for those that do not.
func (w *workers) waitOthers(ctx context.Context) error {
	return w.waitUntil(ctx, func() bool { return w.busy <= w.waiting+w.hanging })
}

// waitUntil waits until done, which it calls with the lock, or ctx ends.
func (w *workers) waitUntil(ctx context.Context, done func() bool) error {
	for {
		w.mu.Lock()
		if done() {
			w.mu.Unlock()
			return nil
		}
		if w.quiet == nil {
			w.quiet = make(chan struct{})
		}
		quiet := w.quiet
		w.mu.Unlock()
		select {
		case <-quiet:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A mark stands for a task in the contexts that the task gives to functions of the caller. It tells
// a call of Shutdown under such a context that the task waits for it. The lock of the workers
// guards it.
//
// Each call of Deliver has a mark of its own, although one task makes several.
type mark struct {
	// ctx is the context that the task gives to functions of the caller.
	ctx context.Context //nolint:containedctx // to tell its end from that of one derived from it
	// root is the tree that the task works for and that waits for its end. Zero: none does. It does
	// not change.
	root session.Key

	calls int  // of Shutdown that the task waits for, or that have returned nil to it
	hangs bool // the task has not returned in its time
	over  bool // the task has ended
}

// inStore calls f, which asks the store for a command of which nothing is recorded yet, in a
// goroutine that the caller can leave: it does so when ctx ends, and when the hard phase of a
// shutdown begins. The ctx of f ends then, too. A shutdown waits for what the store does beyond
// that, and names the store if it does not return. The error of a caller that leaves is
// ErrNotRecorded and the cause. Then what f has written to may still change.
//
// When f has returned, or is not called because of a shutdown, over is called, unless it is nil.
func (s *Supervisor) inStore(
	ctx context.Context, f func(context.Context) error, over func(),
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unlink := context.AfterFunc(s.workCtx, func() { //nolint:contextcheck // ctx ends with both
		cancel(ErrShutdown)
	})
	defer unlink()
	m, answer := new(mark), make(chan error, 1)
	if over == nil {
		over = func() {}
	}
	if !s.workers.startLast(taskFunc(func() {
		defer s.workers.markOver(m)
		err := contained(func() error { return f(ctx) })
		over()
		answer <- err
	})) {
		over()
		return fmt.Errorf("%w: %w", ErrNotRecorded, ErrShutdown)
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	s.workers.markHangs(m)
	return fmt.Errorf("%w: the store has not answered: %w", ErrNotRecorded, context.Cause(ctx))
}

// count adds a task to the counts, or takes it off with -1. The caller holds the lock.
func (w *workers) count(m *mark, by int) {
	switch {
	case m.over:
	case m.calls > 0:
		w.waiting += by
	case m.hangs:
		w.hanging += by
	}
}

// change changes a mark and keeps the counts.
func (w *workers) change(m *mark, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(m, -1)
	f()
	w.count(m, 1)
	w.tellQuiet()
}

// endsBefore reports whether ctx, which is the context of the task or derived from it, has ended by
// itself, and not because that of the task has: the caller has set a limit of its own.
func (m *mark) endsBefore(ctx context.Context) bool {
	if m.ctx.Err() == nil {
		return ctx.Err() != nil
	}
	at, limited := ctx.Deadline()
	end, ends := m.ctx.Deadline()
	return limited && (!ends || !at.Equal(end)) && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// markKey is the key under which a context holds the mark of its task.
type markKey struct{}

// markOf returns the mark of the task under whose context ctx is, or nil.
func markOf(ctx context.Context) *mark {
	m, _ := ctx.Value(markKey{}).(*mark)
	return m
}

// within reports whether ctx is that of a function which a tree waits for: of one of its turns, a
// delivery or a hook, or of what archives, unbinds or tidies.
func within(ctx context.Context, root session.Key) bool {
	if t := turnOf(ctx); t != nil && t.shell.owner.Root() == root {
		return true
	}
	m := markOf(ctx)
	return m != nil && m.root == root
}

// marked returns a task of a tree, or of none, that calls f with ctx and a mark in it.
func (w *workers) marked(
	ctx context.Context, root session.Key, f func(ctx context.Context),
) task {
	return w.markedWith(ctx, &mark{root: root}, f)
}

// markedWith is marked for a mark that is new.
func (w *workers) markedWith(ctx context.Context, m *mark, f func(ctx context.Context)) task {
	ctx = context.WithValue(ctx, markKey{}, m)
	m.ctx = ctx
	return taskFunc(func() {
		defer w.markOver(m)
		f(ctx)
	})
}

// markOver notes that the task of a mark has ended.
func (w *workers) markOver(m *mark) { w.change(m, func() { m.over = true }) }

// markHangs notes that the task of a mark hangs in code of the caller. Only the hard phase of a
// shutdown waits for it.
func (w *workers) markHangs(m *mark) { w.change(m, func() { m.hangs = true }) }

// beginWaiting notes that a task waits for a call of Shutdown.
func (w *workers) beginWaiting(m *mark) { w.change(m, func() { m.calls++ }) }

// endWaiting ends beginWaiting for a call that does not wait for the end of the others any more.
func (w *workers) endWaiting(m *mark) { w.change(m, func() { m.calls-- }) }

// close refuses further tasks, except those of startLast.
func (w *workers) close() {
	w.mu.Lock()
	w.shut = true
	w.mu.Unlock()
}

// stop ends the goroutines that wait for a task, and has the others end after theirs. If quiet says
// that no task is under way, stop returns when all goroutines have ended.
func (w *workers) stop(quiet bool) {
	w.mu.Lock()
	w.keeping, w.ended = false, true
	for _, tasks := range w.idle {
		close(tasks)
	}
	w.idle = nil
	var gone chan struct{}
	if quiet && w.goroutines > 0 {
		gone = make(chan struct{})
		w.gone = gone
	}
	w.mu.Unlock()
	if gone != nil {
		<-gone
	}
}
