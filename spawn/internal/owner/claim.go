package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
)

// Claims are the part of a process in what several processes share: which of them has a tree. The
// owner of a tree calls the methods, never two at a time for one tree. They may wait for an engine.
type Claims interface {
	// Claim takes a tree for this process, or finds that it has it, and returns the number of the
	// claim. It is a *[session.OwnedError] if another process has the tree.
	Claim(ctx context.Context, root session.Key) (epoch uint64, err error)
	// Release gives a tree up. After an error it is called again.
	Release(ctx context.Context, root session.Key) error
	// Keeps reports whether claims last for as long as the process does. If not, the owner gives
	// the tree up when it has nothing to do at the moment, and asks again before each batch.
	Keeps() bool
	// Leaves reports whether the process ends: the owner gives the tree up as soon as nothing of it
	// is under way, and claims it for a caller's call alone, and until that is over.
	Leaves() bool
	// InUse reports whether calls of this process wait for the tree or hold a part of it. In a
	// process that ends those that wait do not count.
	InUse(root session.Key) bool
}

// A loss says that a claim is over.
type loss struct {
	epoch uint64
	err   error
	taken bool // another process is known to have the tree
}

// Lose tells the owner that the claim with a number is over. The tree is discarded. Unless another
// process is known to have it, the owner claims it again. Lose does not wait, and may be called
// concurrently.
func (o *Owner) Lose(epoch uint64, err error, taken bool) {
	_ = o.enqueue(&call{lost: &loss{epoch, err, taken}})
}

// TakeOver is [Owner.TickThen] for a tree that no process has: it is claimed for no call.
func (o *Owner) TakeOver(after func()) { o.tick(true, after) }

// dropLost discards the tree if a call of a batch says that its claim is over, and returns the
// other calls, in the memory of the batch.
func (o *Owner) dropLost(batch []*call) []*call {
	if o.cfg.Claims == nil {
		return batch
	}
	return slices.DeleteFunc(batch, func(c *call) bool {
		if c.lost == nil {
			return false
		}
		if c.lost.epoch == o.claim {
			o.lose(c.lost)
		}
		o.finish(c)
		return true
	})
}

// lose discards the tree because its claim is over. Before the owner has it again it decides
// nothing.
func (o *Owner) lose(l *loss) {
	o.claim = 0
	had := o.tree != nil
	if had {
		o.exec.Lost(l.err, l.taken)
	}
	if s := o.stalled; s != nil {
		o.unstall()
		o.freeSlots(s.effects)
		calls := o.park(slices.Concat(s.calls, s.held), l.err)
		o.refuse(calls, l.err, o.absent)
	}
	if had {
		o.dropTree()
	}
	if l.taken {
		o.leaveTo(l.err)
	} else {
		o.retry()
	}
}

// leaveTo leaves the tree, which is not in memory, to the process that has it, as err says.
func (o *Owner) leaveTo(err error) {
	o.claim, o.retrying, o.keepsRuns = 0, false, false
	o.StopTimer()
	parked := o.unpark(nil)
	o.refuse(parked, err, true)
	o.exec.Owned(err)
}

// claimFor claims the tree for a batch if that needs it, and returns the calls that can go on, in
// the memory of the batch. A batch that only reads needs no claim: it reads the journal.
func (o *Owner) claimFor(ctx context.Context, batch []*call) []*call {
	if o.cfg.Claims == nil || o.tree != nil && o.cfg.Claims.Keeps() ||
		o.tree == nil && !slices.ContainsFunc(batch, (*call).needsClaim) {
		return batch
	}
	epoch, err := o.cfg.Claims.Claim(ctx, o.root)
	switch {
	case o.tree == nil:
	case err != nil && !errors.Is(err, session.ErrOwned) && !Dead(err):
		return batch // as far as is known it is still the tree of this process
	case epoch != o.claim:
		o.exec.Lost(session.ErrOwned, true)
		o.dropTree()
	}
	if err != nil {
		return o.notClaimed(batch, err)
	}
	o.claim = epoch
	return batch
}

// notClaimed ends the calls of a batch that need a claim, which failed with err, and returns the
// others, in the memory of the batch. Those that wait until the tree can be opened go on to wait,
// unless another process has it.
func (o *Owner) notClaimed(batch []*call, err error) []*call {
	var need []*call
	rest := batch[:0]
	for _, c := range batch {
		if c.needsClaim() {
			need = append(need, c)
		} else {
			rest = append(rest, c)
		}
	}
	o.refuse(o.park(need, err), err, true)
	if errors.Is(err, session.ErrOwned) {
		o.leaveTo(err)
	} else {
		o.openFailed(err)
	}
	return rest
}

// needsClaim reports whether a call needs more than the tree as the journal has it.
func (c *call) needsClaim() bool {
	return c.cmd != nil || c.slot != nil || c.timer || c.await
}

// isReading reports whether a process that has claimed nothing reads the tree.
func (o *Owner) isReading() bool { return o.cfg.Claims != nil && o.claim == 0 }

// errGivenUp is why calls end that wait for a tree which a process that ends has given up. It is
// session.ErrOwned, because another process is to be asked.
var errGivenUp = fmt.Errorf("%w: this one ends, and has given it up", session.ErrOwned)

// IsGivenUp reports whether err says that a process that ends has given a tree up.
func IsGivenUp(err error) bool { return errors.Is(err, errGivenUp) }

// giveUp releases a claim that the owner does not need: the tree is not in memory, and no call and
// nothing that was under way needs it. A process that does not keep its claims gives the tree up
// as soon as no call needs it, and one that ends as soon as nothing of it is under way.
func (o *Owner) giveUp(ctx context.Context) {
	if o.claim == 0 || o.stalled != nil || o.unclear != nil || len(o.parked) > 0 ||
		o.Unacted() || o.hasCalls() {
		return
	}
	claims := o.cfg.Claims
	leaves := claims.Leaves()
	if o.tree != nil {
		if claims.Keeps() && !leaves || claims.InUse(o.root) ||
			o.tree.Archiving() || o.tree.Calling() || o.tree.Depositing() ||
			leaves && !o.tree.Quiet() {
			return
		}
		o.dropTree()
		o.StopTimer()
		o.retrying = false
	}
	if !o.retrying && claims.Release(ctx, o.root) == nil {
		o.claim = 0
		if leaves {
			o.exec.Owned(errGivenUp)
		}
	}
}

// hasCalls reports whether calls wait to be decided.
func (o *Owner) hasCalls() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) > 0
}
