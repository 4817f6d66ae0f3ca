package spawn

import (
	"context"
	"sync"
)

// A task is what a goroutine of a Supervisor does.
type task interface{ run() }

type taskFunc func()

func (f taskFunc) run() { f() }

// maxIdleWorkers is how many goroutines without a task a running Supervisor keeps.
const maxIdleWorkers = 64

// workers are the goroutines of a Supervisor. While the Supervisor runs, a goroutine that has done
// its task waits for another, because a new goroutine has to grow its stack first, which costs more
// than most tasks. The zero workers are ready. They are safe for concurrent use.
type workers struct {
	mu         sync.Mutex
	idle       []chan task   // of the goroutines that wait for a task
	keeping    bool          // goroutines without a task wait for one
	shut       bool          // no further task starts
	busy       int           // tasks under way
	hanging    int           // of those, tasks that were given up
	goroutines int           // busy and idle ones
	quiet      chan struct{} // closed when all of busy are hanging; nil until a caller waits
	gone       chan struct{} // closed when goroutines falls to 0; nil until a caller waits
}

// setKeeping says whether goroutines without a task wait for one.
func (w *workers) setKeeping(on bool) {
	w.mu.Lock()
	w.keeping = on
	w.mu.Unlock()
}

// start has a goroutine do a task. It returns false, and does nothing, after close.
func (w *workers) start(t task) bool {
	w.mu.Lock()
	if w.shut {
		w.mu.Unlock()
		return false
	}
	w.busy++
	if n := len(w.idle); n > 0 {
		tasks := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		tasks <- t
		return true
	}
	w.goroutines++
	w.mu.Unlock()
	go w.work(t)
	return true
}

// work does one task after the other.
func (w *workers) work(t task) {
	defer w.exit()
	tasks := make(chan task, 1)
	for t != nil {
		w.do(t)
		if !w.park(tasks) {
			return
		}
		t = <-tasks
	}
}

// do does a task. If a Runner ends its goroutine, the count of the tasks stays right.
func (w *workers) do(t task) {
	defer w.taskDone()
	t.run()
}

func (w *workers) taskDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	w.tellQuiet()
}

// giveUp notes that a task under way is no longer waited for, except at the end of a shutdown,
// because it hangs in code of the caller.
func (w *workers) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hanging++
	w.tellQuiet()
}

// takeBack notes that a task which was given up is about to end.
func (w *workers) takeBack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hanging--
}

// tellQuiet wakes those who wait. The caller holds the lock.
func (w *workers) tellQuiet() {
	if w.busy <= w.hanging && w.quiet != nil {
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

func (w *workers) exit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.goroutines--; w.goroutines == 0 && w.gone != nil {
		close(w.gone)
		w.gone = nil
	}
}

// waitQuiet waits until no task is under way except those that were given up, or ctx ends. The
// error is the cause of ctx.
func (w *workers) waitQuiet(ctx context.Context) error {
	return w.waitFor(ctx, func() bool { return w.busy <= w.hanging })
}

// wait waits until no task is under way, or ctx ends. The error is the cause of ctx.
func (w *workers) wait(ctx context.Context) error {
	return w.waitFor(ctx, func() bool { return w.busy == 0 })
}

// waitFor waits until quiet, which is called with the lock held, is true, or ctx ends.
func (w *workers) waitFor(ctx context.Context, isQuiet func() bool) error {
	for {
		w.mu.Lock()
		if isQuiet() {
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

// close refuses further tasks.
func (w *workers) close() {
	w.mu.Lock()
	w.shut = true
	w.mu.Unlock()
}

// stop ends the goroutines that wait for a task, and has the others end after theirs. If quiet says
// that no task is under way, stop returns when all goroutines have ended.
func (w *workers) stop(quiet bool) {
	w.mu.Lock()
	w.keeping = false
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
