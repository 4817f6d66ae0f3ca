package agent

import (
	"sync"
	"time"
)

// runWithin is how soon after the first work Run is called, before its absence is logged.
const runWithin = 5 * time.Second

// A runWatch logs once that a Runtime has work and that Run has not been called: nothing else says
// so, and Idle and Wait would wait for ever. The zero runWatch is ready for use.
//
// The goroutine that logs is the only one of the library without an owner that waits for it: a
// Logger that hangs would otherwise hold Run.
type runWatch struct {
	mu    sync.Mutex
	over  bool // Run or Shutdown was called
	timer *time.Timer
}

// expectRun notes that the Runtime has work.
func (rt *Runtime) expectRun() {
	w := &rt.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.timer != nil {
		return
	}
	w.timer = time.AfterFunc(runWithin, func() {
		if w.isOver() {
			return
		}
		rt.log.Warn("offshoot: there is work, and Runtime.Run has "+
			"not been called: turns and deliveries start with it, and Idle and Wait wait for it",
			"after", runWithin.String())
	})
}

func (w *runWatch) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// end notes that Run or Shutdown was called.
func (w *runWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over = true; w.timer != nil {
		w.timer.Stop()
	}
}
