package thread

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// The pauses before a process asks again for what another one has claimed, each twice as long as
// the one before.
const (
	firstPoll = 5 * time.Millisecond
	lastPoll  = 250 * time.Millisecond
)

// releaseAgain is how long after a failure a claim is given up again, and releaseWithin how long
// one attempt may take.
const (
	releaseAgain  = time.Second
	releaseWithin = 15 * time.Second
)

// AwaitClaim claims a root for this process, and waits while another one has it. The lease of that
// one ends the wait if it is gone. An engine that fails is asked again for a moment, as a journal
// is. The error is [spawn.ErrNotRecorded] beside the cause of ctx or what the engine has said last.
func AwaitClaim(
	ctx context.Context, owners session.Owners, root session.Key,
) (c session.Claim, err error) {
	poll, pause := firstPoll, firstRetry
	for tries := 0; ; {
		c, err = Claim(ctx, owners, root)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return c, fmt.Errorf("%w: %w", spawn.ErrNotRecorded, context.Cause(ctx))
		case errors.Is(err, session.ErrOwned):
			waits(ctx, poll)
			poll = min(2*poll, lastPoll)
			continue
		case errors.Is(err, session.ErrClosed), errors.Is(err, session.ErrReplaced),
			tries == retries:
			return c, fmt.Errorf("%w: claiming a conversation: %w", spawn.ErrNotRecorded, err)
		}
		waits(ctx, pause)
		pause, tries = 2*pause, tries+1
	}
}

// Claim is a call of [session.Owners.Claim]. An engine that panics has failed and nothing else.
func Claim(
	ctx context.Context, owners session.Owners, root session.Key,
) (c session.Claim, err error) {
	err = contained(func() (err error) {
		c, err = owners.Claim(ctx, root)
		return err
	})
	return c, err
}

// Release gives a claim up, as often as it takes: while this process lives, none else can have it.
// When life has ended one attempt is made, since the lease ends soon, too.
func Release(life context.Context, owners session.Owners, c session.Claim) {
	for over := false; !over; {
		over = life.Err() != nil
		err := contained(func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(life), releaseWithin)
			defer cancel()
			return owners.Release(ctx, c)
		})
		if err == nil || errors.Is(err, session.ErrClosed) ||
			errors.Is(err, session.ErrReplaced) {
			return
		}
		waits(life, releaseAgain)
	}
}
