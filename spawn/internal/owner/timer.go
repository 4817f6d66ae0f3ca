package owner

import (
	"time"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// The pause before a discarded tree is read again, or a failed append is tried again. It begins
// with FirstBackoff and doubles with every failure up to maxBackoff. A successful append resets it.
const (
	FirstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// NextBackoff returns the pause after a pause of a length, and the first one after none.
func NextBackoff(last time.Duration) time.Duration {
	return min(max(2*last, FirstBackoff), maxBackoff)
}

// retry arms the timer for another look at the tree after the current backoff. It returns false,
// and arms nothing, if the supervisor does not want that: it is not active, no stall has to be
// brought to its end, and before it is active no caller waits.
func (o *Owner) retry() bool {
	wanted := o.stalled != nil // of a supervisor that ends
	if !o.cfg.Awake() {
		wanted = o.awaited()
	}
	if !wanted && !o.cfg.Active() {
		return false
	}
	o.backoff = NextBackoff(o.backoff)
	o.wakeAt = 0
	o.retrying = true
	o.setTimer(o.backoff)
	return true
}

// schedule sets the one timer of the owner to the time at which the tree next wants a Tick, or
// stops it if there is none. It does nothing for an inactive supervisor.
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
	o.setTimer(time.Duration(at - o.cfg.now()))
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

// Tick tells the tree that time has passed. It does not wait. It does nothing if the supervisor is
// not active, unless a stalled batch or a caller waits for the journal: then it is tried again.
// Tick may be called concurrently.
func (o *Owner) Tick() { o.TickThen(nil) }

// TickThen is Tick, and calls after when the tree has heard of it, or will not. The function after
// must not block.
func (o *Owner) TickThen(after func()) { o.tick(false, after) }

func (o *Owner) tick(orphan bool, after func()) {
	c := &call{
		timer: true, orphan: orphan, cmd: tree.Tick{Rand: o.cfg.Rand()}, after: after,
		read: func(*tree.Tree, tree.Reply) { o.wakeAt = 0 },
	}
	if !o.cfg.Awake() {
		c.cmd = nil // the tree is not to act, but the journal is to be tried
	}
	wanted := o.cfg.Active() || o.waiting.Load() || o.hasParked.Load()
	if (!wanted || o.enqueue(c) != nil) && after != nil {
		after()
	}
}

// PeekThen has a round of the tree begin if the tree is in memory, see Executor.Round, and decides
// nothing. It does not wait. The function after is called when that is done, or will not be; it
// must not block. PeekThen may be called concurrently.
func (o *Owner) PeekThen(after func()) {
	if o.enqueue(&call{peek: true, after: after}) != nil {
		after()
	}
}

// Unload releases the memory of the tree if it is idle and has had no command for at least the
// duration idle. It does not wait. The next command opens the tree again, and so does the
// supervisor when the tree is due. An idle tree that has had a command more lately stays, and the
// owner releases only the memory that it keeps for the next batches. The function after is called
// when that is done, or will not be; it must not block. Unload may be called concurrently.
func (o *Owner) Unload(idle time.Duration, after func()) {
	if o.enqueue(&call{unloadAfter: idle, after: after}) != nil {
		after()
	}
}

// trimAfter is how long an owner must have had no command before a request to unload the tree takes
// the memory that it keeps for the next batches.
const trimAfter = 30 * time.Second

// unload is Unload in the goroutine that drains the queue. The incarnation ends with the tree.
func (o *Owner) unload(idle time.Duration) {
	rest := time.Since(o.lastUsed)
	if rest < trimAfter ||
		o.tree == nil || !o.tree.Idle() || o.tree.Archiving() || o.tree.Calling() ||
		o.tree.Depositing() {
		return
	}
	o.dropSpare()
	o.spareQueue = nil
	if rest < idle {
		return
	}
	o.keepsRuns = o.tree.Runs() > 0
	o.tree, o.last = nil, 0
	o.gen++
	o.wakeAt = 0
	o.StopTimer()
}

// StopTimer stops the timer. A round that is under way may set it again, so a caller that shuts
// down must first see to it that nothing is enqueued any more. StopTimer may be called
// concurrently.
func (o *Owner) StopTimer() {
	o.timerMu.Lock()
	defer o.timerMu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}
