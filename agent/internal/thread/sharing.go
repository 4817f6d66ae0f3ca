package thread

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// EndingWith returns a context that ends with ctx, and with [spawn.ErrShutdown] when end does.
func EndingWith(ctx, end context.Context) (context.Context, context.CancelFunc) {
	either, cancel := context.WithCancelCause(ctx)
	if end.Err() != nil {
		cancel(spawn.ErrShutdown)
	}
	unlink := context.AfterFunc(end, func() { cancel(spawn.ErrShutdown) })
	return either, func() { unlink(); cancel(nil) }
}

// A Sharing is the part of a process in what is done for conversations that are bound, where
// several processes may share the store.
//
// What has to be done at once in table and tree is done under a lock of the conversation, which is
// a claim as trees are claimed: it ends with its process. One of those that run is on duty, by
// another claim, and does what is to be done once.
type Sharing struct {
	owners session.Owners  // nil: no other process shares the store
	life   context.Context //nolint:containedctx // of the Runtime
	locks  Locks[session.Route]
	// claims are calls of the Owners. They go on when life has ended, so that what was claimed is
	// given up.
	claims *Calls

	mu     sync.Mutex
	duty   session.Claim // zero: another process is on duty
	begins bool          // the process has come on duty, and BeginsDuty has not said so
}

// NewSharing returns a Sharing that ends with life. Without owners it is that of a process that has
// the store for itself.
func NewSharing(life context.Context, owners session.Owners) *Sharing {
	alive := context.WithoutCancel(life)
	return &Sharing{owners: owners, life: life, claims: NewCalls(alive, spawn.ErrShutdown)}
}

// Among reports whether other processes change bindings, too.
func (s *Sharing) Among() bool { return s.owners != nil }

// The process on duty looks each [Sharing.Every] what others have left, and the others look whether
// it is on duty still.
const (
	dutyEvery    = time.Second
	offDutyEvery = 2 * time.Second
)

// Every returns after which time a process looks again what it has to do that no signal tells, at
// most so long.
func (s *Sharing) Every(onDuty bool, most time.Duration) time.Duration {
	switch {
	case !s.Among():
		return most
	case onDuty:
		return dutyEvery
	}
	return offDutyEvery
}

// Lock waits for the lock of a conversation, which no other process has at the same time. If it was
// not held to the end, as by a process that could not be heard for a lease, lost is called then,
// unless it is nil. The error is as of [AwaitClaim], or the cause of ctx.
func (s *Sharing) Lock(
	ctx context.Context, at session.Route, lost func(),
) (unlock func(), err error) {
	local, err := s.locks.Lock(ctx, at)
	if err != nil || !s.Among() {
		return local, err
	}
	local = sync.OnceFunc(local)
	c, err := s.take(ctx, session.ConversationRoot(at), AwaitClaim, local)
	if err != nil {
		return nil, err
	}
	//nolint:contextcheck // the lock is given back whatever has become of ctx
	return sync.OnceFunc(func() { s.giveBack(c, lost, local) }), nil
}

// take claims a root for a caller that may leave: what is claimed later is given up. After that, or
// if it is not claimed, it calls over, maybe after its caller has left.
func (s *Sharing) take(
	ctx context.Context, root session.Key,
	claim func(context.Context, session.Owners, session.Key) (session.Claim, error), over func(),
) (session.Claim, error) {
	var made Late[session.Claim]
	call := s.claims.Start(ctx, session.Key{}, false, 0, func(ctx context.Context) error {
		ctx, cancel := EndingWith(ctx, s.life)
		defer cancel()
		c, err := claim(ctx, s.owners, root)
		if err != nil {
			over()
			return err
		}
		made.Set(c)
		return nil
	})
	soon, cancel := EndingWith(ctx, s.life)
	defer cancel()
	err := call.WaitFor(soon)
	if err != nil {
		//nolint:contextcheck // ctx has ended
		made.Leave(func(c session.Claim) { s.giveBack(c, nil, over) })
		return session.Claim{}, err
	}
	return made.Get(), nil
}

// giveBack gives a claim up and calls over then. It does not wait for that. With a lost it looks
// first whether the claim was held until now.
func (s *Sharing) giveBack(c session.Claim, lost, over func()) {
	alive := context.WithoutCancel(s.life)
	s.claims.Start(alive, session.Key{}, false, 0, func(ctx context.Context) error {
		defer over()
		if lost != nil {
			now, err := Claim(ctx, s.owners, c.Root)
			if now != c {
				lost()
			}
			if err == nil {
				c = now
			}
		}
		Release(s.life, s.owners, c) //nolint:contextcheck // life says how often it is tried
		return nil
	})
}

// OnDuty reports whether this process does what is to be done once, now.
func (s *Sharing) OnDuty() bool {
	if !s.Among() {
		return true
	}
	c, err := s.take(s.life, session.FarewellsRoot(), Claim, func() {})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && c != s.duty:
		s.duty, s.begins = c, true
	case errors.Is(err, session.ErrOwned):
		s.duty = session.Claim{}
	}
	return err == nil
}

// BeginsDuty reports whether the process has come on duty since the last call.
func (s *Sharing) BeginsDuty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	begins := s.begins
	s.begins = false
	return begins
}

// LeaveDuty has another process come on duty.
func (s *Sharing) LeaveDuty() {
	s.mu.Lock()
	c := s.duty
	s.duty = session.Claim{}
	s.mu.Unlock()
	if c != (session.Claim{}) {
		s.giveBack(c, nil, func() {})
	}
}

// Left waits until all calls of the Owners have returned, at most until ctx ends, and returns a
// zero Key for each of those that have not.
func (s *Sharing) Left(ctx context.Context, quitting bool) []session.Key {
	_, left := s.claims.Left(ctx, quitting)
	return left
}
