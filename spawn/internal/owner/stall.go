package owner

import (
	"context"
	"errors"
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A stall is what an owner keeps while the journal takes nothing: the batch that it did not take, which the tree in memory is ahead by,
// and who waits. Nothing more is decided until the batch is durable, and nothing of it is seen; turns go on, and what they come to is
// held. So a disk that is full for an hour costs an hour, and no work.
type stall struct {
	err     error // why
	batch   session.Batch
	facts   []tree.Fact
	effects []tree.Effect
	calls   []*call // decided, to be answered once the batch is durable
	held    []*call // to be decided then
	retries int     // how often it was tried again because time had passed
}

// maxRetriesBeforeRefusal is how often an append is tried again before whoever asks from outside is told: one and a half seconds.
const maxRetriesBeforeRefusal = 5

// permanent reports whether an append that failed will never succeed.
func permanent(err error) bool {
	if isPanic(err) {
		return false
	}
	return errors.Is(err, session.ErrConflict) || errors.Is(err, session.ErrInvalidBatch) || journalDead(err)
}

// isPanic reports whether err is a panic, which says nothing of what has happened, whatever its value is.
func isPanic(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}

// journalDead reports whether the journal takes nothing any more, from anybody.
func journalDead(err error) bool {
	return !isPanic(err) && (errors.Is(err, session.ErrSync) || errors.Is(err, session.ErrClosed))
}

// waitsOutStall reports whether a call comes from the tree's own turns and deliveries, or from somebody who waits anyway: it waits for as long as
// it takes.
func (c *call) waitsOutStall() bool {
	return !c.timer && c.unloadAfter == 0 && (c.done == nil || c.gen != 0 || c.await)
}

// stall keeps a batch that the journal did not take.
func (o *Owner) stall(err error, b session.Batch, facts []tree.Fact, effects []tree.Effect, batch []*call) {
	s := &stall{err: err, batch: b, facts: facts, effects: effects}
	for _, c := range batch {
		if c.done != nil && c.err != nil {
			o.finish(c) // it was refused, and that has changed nothing
		} else {
			s.calls = append(s.calls, c)
		}
	}
	o.stalled = s
	o.waiting.Store(true)
	o.exec.Stalled(err)
	if !o.retry() {
		o.refuseWaiting(maxRetriesBeforeRefusal)
	}
}

// resume tries to append what the journal did not take, if there is a reason to. It returns what can be decided now: nothing, as
// long as that fails.
func (o *Owner) resume(ctx context.Context, batch []*call) []*call {
	s := o.stalled
	if len(batch) == 0 {
		return nil
	}
	tried := slices.ContainsFunc(batch, func(c *call) bool { return !c.waitsOutStall() })
	if tried {
		s.err = o.append(ctx, s.batch)
	}
	switch {
	case s.err == nil:
		o.unstall()
		o.exec.Stalled(nil)
		o.act(s.facts, s.effects)
		o.answer(s.calls)
		o.wakeAt = 0
		return append(s.held, batch...)
	case permanent(s.err):
		o.unstall()
		o.failBatch(s.err, s.effects, slices.Concat(s.calls, s.held, batch))
		return nil
	}
	tries := 0
	for _, c := range batch {
		switch {
		case c.timer:
			tries++
			o.finish(c)
		case c.unloadAfter > 0:
			o.finish(c)
		default:
			s.held = append(s.held, c)
		}
	}
	if tries > 0 && !o.retry() { // whoever asks in between puts nothing off
		tries = maxRetriesBeforeRefusal
	}
	o.refuseWaiting(tries)
	return nil
}

// refuseWaiting tells whoever asks from outside, once it has been tried again often enough. What was decided for them may still happen.
func (o *Owner) refuseWaiting(tries int) {
	s := o.stalled
	if s.retries = min(s.retries+tries, maxRetriesBeforeRefusal); s.retries < maxRetriesBeforeRefusal {
		return
	}
	for _, list := range []*[]*call{&s.calls, &s.held} {
		kept := (*list)[:0]
		for _, c := range *list {
			if c.waitsOutStall() || c.timer {
				kept = append(kept, c)
			} else {
				o.refuse([]*call{c}, s.err)
			}
		}
		clear((*list)[len(kept):])
		*list = kept
	}
}

// Waiting reports whether something waits for the journal to take it.
func (o *Owner) Waiting() bool { return o.waiting.Load() }

func (o *Owner) unstall() { o.stalled = nil }
