package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// This file is what bindings do in a Store that several processes share, which has Owners. The log
// of bindings is that of all: each of them appends to it, and reads it before it decides. What has
// to be done at once in table and tree is done under a lock of the conversation, which is a claim
// as trees are claimed: it ends with its process. One of those that run is on duty, by another
// claim, and does what is to be done once: it ends what has expired, says farewells, and compares
// the table with trees and channels when it begins.

// dutyEvery is how often the process on duty looks what others have left, and offDutyEvery how often
// the others look whether it is on duty still.
const (
	dutyEvery    = time.Second
	offDutyEvery = 2 * time.Second
)

// errOffDuty is why a process leaves to another one what is owed.
var errOffDuty = errors.New("agent: another process looks after bindings that have ended")

// shared reports whether other processes change bindings, too.
func (b *bindings) shared() bool { return b.owners != nil }

// current is open, and has the table know what other processes have recorded by now.
func (b *bindings) current(ctx context.Context) (*binding.Table, error) {
	table, err := b.open(ctx)
	if err == nil {
		err = b.confirm(ctx, table)
	}
	return table, err
}

// confirm has the table know what other processes have recorded by now. The error is as of open.
func (b *bindings) confirm(ctx context.Context, table *binding.Table) error {
	if !b.shared() {
		return nil
	}
	patient := thread.NewCommand(true)
	return b.readError(ctx, b.waitFor(ctx, b.apart(patient.Under(ctx), table.Confirm)))
}

// readError returns the error of a call that reads the bindings.
func (b *bindings) readError(ctx context.Context, err error) error {
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case b.ended() != nil: // the end of the Runtime has cut it off
		return cutOff(err)
	}
	return fmt.Errorf("%w: reading which conversations are bound: %w", ErrUnreadable, err)
}

// lock waits for the lock of a conversation, which no other process has at the same time. The error
// is as of [thread.AwaitClaim], or the cause of ctx.
func (b *bindings) lock(ctx context.Context, at session.Route) (unlock func(), err error) {
	return b.lockFor(ctx, at, session.Key{})
}

// lockFor is lock for what changes a tree and the table. If the lock was not held to the end, as by
// a process that could not be heard for a lease, the tree is compared with the table then.
func (b *bindings) lockFor(
	ctx context.Context, at session.Route, tree session.Key,
) (unlock func(), err error) {
	local, err := b.locks.Lock(ctx, at)
	if err != nil || !b.shared() {
		return local, err
	}
	local = sync.OnceFunc(local)
	c, err := b.take(ctx, session.ConversationRoot(at), thread.AwaitClaim, local)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { b.giveBack(c, tree, local) }), nil
}

// take claims a root for a caller that may leave: what is claimed later is given up. After that, or
// if it is not claimed, it calls over, maybe after its caller has left.
func (b *bindings) take(
	ctx context.Context, root session.Key,
	claim func(context.Context, session.Owners, session.Key) (session.Claim, error), over func(),
) (session.Claim, error) {
	var made thread.Late[session.Claim]
	call := b.claims.Start(ctx, session.Key{}, false, 0, func(ctx context.Context) error {
		ctx, cancel := endingWith(ctx, b.life)
		defer cancel()
		c, err := claim(ctx, b.owners, root)
		if err != nil {
			over()
			return err
		}
		made.Set(c)
		return nil
	})
	err := b.waitFor(ctx, call)
	if err != nil {
		made.Leave(func(c session.Claim) { b.giveBack(c, session.Key{}, over) })
		return session.Claim{}, err
	}
	return made.Get(), nil
}

// giveBack gives a claim up and calls over then. It does not wait for that. With a tree it looks
// first whether the claim was held until now, and has the tree compared if not.
func (b *bindings) giveBack(c session.Claim, tree session.Key, over func()) {
	alive := context.WithoutCancel(b.life)
	b.claims.Start(alive, session.Key{}, false, 0, func(ctx context.Context) error {
		defer over()
		if !tree.IsZero() {
			now, err := thread.Claim(ctx, b.owners, c.Root)
			if now != c {
				b.doubt(tree)
			}
			if err == nil {
				c = now
			}
		}
		thread.Release(b.life, b.owners, c)
		return nil
	})
}

// onDuty reports whether this process does what is to be done once, now.
func (b *bindings) onDuty() bool {
	if !b.shared() {
		return true
	}
	if b.work.Err() != nil { // what it claimed now would outlast it
		return false
	}
	c, err := b.take(b.life, session.FarewellsRoot(), thread.Claim, func() {})
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil && c != b.duty:
		b.duty, b.begins = c, true
	case errors.Is(err, session.ErrOwned):
		b.duty = session.Claim{}
	}
	return err == nil
}

// beginsDuty reports whether the process has come on duty since the last call.
func (b *bindings) beginsDuty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	begins := b.begins
	b.begins = false
	return begins
}

// leaveDuty has another process come on duty.
func (b *bindings) leaveDuty() {
	b.mu.Lock()
	c := b.duty
	b.duty = session.Claim{}
	b.mu.Unlock()
	if c != (session.Claim{}) {
		b.giveBack(c, session.Key{}, func() {})
	}
}
