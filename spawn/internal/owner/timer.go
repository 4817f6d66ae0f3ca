package owner

import (
	"time"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Pauses before a tree that was lost is read again, or an append that failed is tried again.
const (
	FirstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// retry has the tree looked at again after a pause, or returns false if nobody wants that.
func (o *Owner) retry() bool {
	if !o.cfg.Active() && (o.stalled == nil || !o.cfg.Awake()) {
		return false
	}
	o.backoff = min(max(2*o.backoff, FirstBackoff), maxBackoff)
	o.wakeAt = 0
	o.setTimer(o.backoff)
	return true
}

// schedule keeps the one timer of the tree.
func (o *Owner) schedule() {
	if o.tree == nil || !o.cfg.Active() {
		return
	}
	at := o.tree.NextWake()
	if at == o.wakeAt {
		return
	}
	o.wakeAt = at
	if at == 0 {
		o.StopTimer()
		return
	}
	o.setTimer(time.Until(time.Unix(0, at)))
}

func (o *Owner) setTimer(d time.Duration) {
	d = max(d, 0)
	o.timerMu.Lock()
	defer o.timerMu.Unlock()
	if o.timer == nil {
		o.timer = time.AfterFunc(d, o.Tick)
		return
	}
	o.timer.Reset(d)
}

// Tick lets the tree see what time it is.
func (o *Owner) Tick() {
	if o.cfg.Active() || o.waiting.Load() {
		o.enqueue(&call{timer: true, cmd: tree.Tick{Rand: o.cfg.Rand()}, read: func(*tree.Tree, tree.Reply) { o.wakeAt = 0 }})
	}
}

// Unload lets a tree go from memory in which nothing is under way and of which nobody has wanted anything for so long. The next
// command, or the time at which it is due, opens it again.
func (o *Owner) Unload(idle time.Duration) {
	o.enqueue(&call{unloadAfter: idle})
}

func (o *Owner) unload(idle time.Duration) {
	if o.tree == nil || !o.tree.Idle() || o.tree.Archiving() || time.Since(o.lastUsed) < idle {
		return
	}
	o.tree, o.last = nil, 0
	o.gen++
	o.wakeAt = 0
	o.StopTimer()
}

// StopTimer stops the timer. The caller has seen to it that nothing is enqueued any more.
func (o *Owner) StopTimer() {
	o.timerMu.Lock()
	defer o.timerMu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}
