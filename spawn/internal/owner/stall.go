package owner

import (
	"context"
	"errors"
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A stall is the state of an owner whose journal fails to append but may recover. It keeps the
// batch that was not appended, which the tree in memory has already applied, and the calls that
// wait for it.
//
// While the owner is stalled it decides nothing and shows nothing of the batch. Turns go on, and
// the owner holds what they report. So a disk that is full for an hour costs an hour and loses no
// work. The stall ends when the batch is durable, or when its append fails for good and the tree is
// discarded.
type stall struct {
	err     error // of the last attempt
	batch   session.Batch
	facts   []tree.Fact
	effects []tree.Effect
	calls   []*call // decided with the batch; answered once it is durable
	held    []*call // arrived later; decided once the batch is durable
	retries int     // attempts that the timer made, up to maxRetriesBeforeRefusal
	quiet   bool    // nothing was under way before the batch
}

// maxRetriesBeforeRefusal is after how many retries by the timer the callers that cannot wait out a
// stall are refused. With the backoff of the owner that is after about one and a half seconds.
const maxRetriesBeforeRefusal = 5

// permanent reports whether an append that failed with err will never succeed.
func permanent(err error) bool {
	if isPanic(err) {
		return false
	}
	return errors.Is(err, session.ErrConflict) || errors.Is(err, session.ErrInvalidBatch) ||
		Dead(err)
}

// isPanic reports whether err is a recovered panic. A panic does not tell what has happened, even
// if its value is an error that otherwise would.
func isPanic(err error) bool {
	_, is := errors.AsType[*PanicError](err)
	return is
}

// Dead reports whether err says that the journal will never append again, for any owner, that it is
// not whole, or that another process has the place of this one among those that share it.
func Dead(err error) bool {
	for _, dead := range []error{
		session.ErrSync, session.ErrClosed, session.ErrReplaced, session.ErrUnfinishedCopy,
	} {
		if errors.Is(err, dead) {
			return !isPanic(err)
		}
	}
	return false
}

// waitsOutStall reports whether a call waits for as long as a stall lasts. The calls of the tree's
// own turns and deliveries do, and so do those of [Owner.Await].
func (c *call) waitsOutStall() bool {
	return !c.timer && c.unloadAfter == 0 && (c.done == nil || c.gen != 0 || c.await)
}

// stall begins a stall with a batch whose append failed with err. Calls that the tree refused have
// changed nothing, so they are answered at once, and those of the timer have no caller.
func (o *Owner) stall(
	err error, b session.Batch, facts []tree.Fact, effects []tree.Effect, batch []*call,
) {
	s := &stall{err: err, batch: b, facts: facts, effects: effects, quiet: o.quiet}
	for _, c := range batch {
		if c.timer || c.done != nil && c.err != nil {
			o.finish(c)
		} else {
			s.calls = append(s.calls, c)
		}
	}
	o.stalled = s
	o.waiting.Store(true)
	o.reportStall(err)
	if !o.retry() {
		o.refuseWaiting(maxRetriesBeforeRefusal)
	}
}

// resume is the beginning of a round while the owner is stalled. It appends the kept batch again if
// the timer fired or a caller from outside asks; reports of turns and deliveries alone do not cause
// an attempt. If the batch is durable now, resume acts on it and returns the calls to decide: those
// that were held, then the new batch. Otherwise it holds the new batch and returns nil.
func (o *Owner) resume(ctx context.Context, batch []*call) []*call {
	s := o.stalled
	if len(batch) == 0 {
		return nil
	}
	tried := slices.ContainsFunc(batch, func(c *call) bool { return !c.waitsOutStall() })
	if tried {
		returned := false
		defer func() {
			if !returned { // the journal ended the goroutine
				o.hold(batch)
			}
		}()
		s.err = errExited
		s.err = o.append(ctx, s.batch)
		returned = true
	}
	switch {
	case s.err == nil:
		o.unstall()
		o.reportStall(nil)
		o.dropUnacted(nil)
		o.act(s.facts, s.effects)
		o.answer(s.calls)
		o.release(s.facts, s.effects)
		o.wakeAt = 0
		return append(s.held, batch...)
	case permanent(s.err):
		o.unstall()
		o.failBatch(s.err, s.effects, slices.Concat(s.calls, s.held, batch))
		return nil
	}
	o.hold(batch)
	return nil
}

// hold keeps the calls of a batch until the stall is over, except the timer's, which it arms again.
func (o *Owner) hold(batch []*call) {
	s, retries := o.stalled, 0
	for _, c := range batch {
		switch {
		case c.timer:
			retries++
			o.finish(c)
		case c.unloadAfter > 0:
			o.finish(c)
		default:
			s.held = append(s.held, c)
		}
	}
	// Only the timer re-arms it: a caller does not postpone a retry. A caller that waits arms it
	// before there is one.
	if (retries > 0 || !o.retrying && o.awaited()) && !o.retry() && retries > 0 {
		retries = maxRetriesBeforeRefusal
	}
	o.refuseWaiting(retries)
}

// refuseWaiting adds to the retries of the stall. From maxRetriesBeforeRefusal on it refuses every
// waiting call that does not wait out the stall. What was decided for such a call may still happen,
// which is what ErrUnconfirmed says, unless the batch can be withdrawn.
func (o *Owner) refuseWaiting(retries int) {
	s := o.stalled
	s.retries = min(s.retries+retries, maxRetriesBeforeRefusal)
	if s.retries < maxRetriesBeforeRefusal {
		return
	}
	if o.mayWithdraw() {
		o.withdraw()
		return
	}
	for _, list := range []*[]*call{&s.calls, &s.held} {
		kept := (*list)[:0]
		for _, c := range *list {
			if c.waitsOutStall() || c.timer {
				kept = append(kept, c)
			} else {
				o.refuse([]*call{c}, s.err, false)
			}
		}
		clear((*list)[len(kept):])
		*list = kept
	}
}

// mayWithdraw reports whether the batch of the stall can be given up: it is not in the journal,
// nothing was under way before it, and all who wait for it are to be refused anyway.
func (o *Owner) mayWithdraw() bool {
	s := o.stalled
	waits := func(c *call) bool { return c.waitsOutStall() || c.timer }
	return o.absent && s.quiet && len(s.calls) > 0 &&
		!slices.ContainsFunc(s.calls, waits) && !slices.ContainsFunc(s.held, waits)
}

// withdraw ends the stall without its batch, and drops the tree, which is ahead of the journal. The
// next command reads the tree again, and so does the supervisor when it is due.
func (o *Owner) withdraw() {
	s := o.stalled
	o.unstall()
	o.freeSlots(s.effects)
	o.dropTree()
	o.retrying = false
	o.StopTimer()
	o.refuse(s.calls, s.err, true)
	o.refuse(s.held, s.err, true)
}

// Waiting reports whether the owner is stalled: a batch waits for the journal to take it. Waiting
// may be called concurrently.
func (o *Owner) Waiting() bool { return o.waiting.Load() }

func (o *Owner) unstall() { o.stalled = nil }
