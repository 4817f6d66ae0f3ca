package owner

import (
	"errors"
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Recovers reports whether a tree that could not be opened with err may be opened later: the
// journal may work again, and no person has to repair it first.
func Recovers(err error) bool {
	return isPanic(err) || !Dead(err) &&
		!errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrFormat)
}

// park keeps the calls of [Owner.Await] in a batch that failed with err, if the tree may be opened
// later, and returns the other calls, in the memory of the batch. A call that is kept is decided
// anew when the tree is opened.
//
// A tree that another owner or process has is not opened for what waits. Neither is a command
// decided again that the journal will never take.
func (o *Owner) park(batch []*call, err error) []*call {
	if !Recovers(err) || errors.Is(err, session.ErrConflict) && !o.noAppendYet ||
		errors.Is(err, session.ErrOwned) && !isPanic(err) {
		return batch
	}
	never := errors.Is(err, session.ErrInvalidBatch) && !isPanic(err)
	rest := batch[:0]
	for _, c := range batch {
		if !c.await || never && c.cmd != nil {
			rest = append(rest, c)
			continue
		}
		c.decided, c.reply, c.err = false, tree.Reply{}, nil // its caller may change the rest
		o.parked = append(o.parked, c)
	}
	o.hasParked.Store(len(o.parked) > 0)
	return rest
}

// unpark returns a batch with the calls before it that park kept, without those whose caller has
// left.
func (o *Owner) unpark(batch []*call) []*call {
	if len(o.parked) == 0 {
		return batch
	}
	kept := slices.DeleteFunc(o.parked, (*call).hasLeft)
	o.parked = nil
	o.hasParked.Store(false)
	return append(kept, batch...)
}

// awaited reports whether a call of [Owner.Await] waits for the journal.
func (o *Owner) awaited() bool {
	waits := func(c *call) bool { return c.await && !c.hasLeft() }
	return len(o.parked) > 0 || o.stalled != nil &&
		(slices.ContainsFunc(o.stalled.calls, waits) || slices.ContainsFunc(o.stalled.held, waits))
}
