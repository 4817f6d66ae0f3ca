package spawn

import (
	"context"
	"sync"
)

// A task is what a goroutine does.
type task interface{ run() }

type taskFunc func()

func (f taskFunc) run() { f() }

// maxIdleWorkers is how many goroutines a Supervisor that runs keeps for the next task.
const maxIdleWorkers = 64

// workers are the goroutines of a Supervisor. While it runs, one that has done its task waits for another, because a new one
// would have to grow its stack first, which costs more than most tasks. The zero workers are ready.
type workers struct {
	mu         sync.Mutex
	idle       []chan task
	keeping    bool          // those without a task wait for one
	shut       bool          // no further tasks
	busy       int           // tasks under way
	goroutines int           // goroutines
	quiet      chan struct{} // finished when the next to last task has ended; nil: nobody waits
	gone       chan struct{} // finished when the last goroutine has ended; nil: nobody waits
}

// setKeeping says whether goroutines without a task wait for one.
func (w *workers) setKeeping(on bool) {
	w.mu.Lock()
	w.keeping = on
	w.mu.Unlock()
}

// start has a goroutine do a task, or returns false when it is too late.
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

// do does a task. A Runner may end its goroutine; then nothing but the goroutine is lost.
func (w *workers) do(t task) {
	defer w.taskDone()
	t.run()
}

func (w *workers) taskDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy--; w.busy == 0 && w.quiet != nil {
		close(w.quiet)
		w.quiet = nil
	}
}

// park reports whether the goroutine may wait for its next task.
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

// wait waits until no task is under way, or ctx ends.
func (w *workers) wait(ctx context.Context) error {
	for {
		w.mu.Lock()
		if w.busy == 0 {
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

// finish refuses further tasks.
func (w *workers) close() {
	w.mu.Lock()
	w.shut = true
	w.mu.Unlock()
}

// stopIdle ends the goroutines that wait for a task, and the others after theirs. If no task is under way it returns when all
// have ended.
func (w *workers) stopIdle(quiet bool) {
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
