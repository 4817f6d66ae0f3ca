package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// ErrLapsed is returned by Ledger.ChangeLane to a process that has no lease.
var ErrLapsed = errors.New("cluster: the lease of this process has lapsed")

// A Ledger has the leases, claims, requests and lanes of an engine. It is what lease.State is in
// memory, method by method, and its clock is that of the engine. Its methods are called
// concurrently. Any error but those that are named may pass.
type Ledger interface {
	// Beat begins or renews the lease of p for so long. It returns the claims that others have
	// taken from p, but for those of the known epochs, and reports whether the lease begins: then p
	// has lost all claims from before. ErrReplaced is final.
	Beat(
		ctx context.Context, p session.Process, d time.Duration, known []uint64,
	) (taken []session.Claim, begun bool, err error)

	// Claim takes a tree for p. It renews the lease of p first, or only where that has lapsed, and
	// reports whether it has begun one. The error is an *OwnedError or ErrReplaced.
	Claim(
		ctx context.Context, p session.Process, d time.Duration, root session.Key, renew bool,
	) (c session.Claim, begun bool, err error)

	// Release gives a claim of p up, unless it is another one now.
	Release(ctx context.Context, p session.Process, c session.Claim) error

	// Leave ends the lease of p and gives up its claims. For good means that p does not join again.
	Leave(ctx context.Context, p session.Process, forGood bool) error

	// Orphans returns the trees that are due and on which no claim holds, and the present time. An
	// engine may return some of them, in one order for all calls, without the first so many, which
	// are to be skipped. Then it returns how many are to be skipped for those that follow, and else
	// 0.
	Orphans(
		ctx context.Context, skip int,
	) (roots []session.Key, behind int, now time.Time, err error)

	// Ask records a request, unless its ID is known: then it counts as the same one. It returns the
	// incarnation that has a claim on the tree, 0 for none. The error is ErrInvalidRequest if the
	// ID is known for another tree.
	Ask(ctx context.Context, r session.Request) (owner uint64, err error)

	// Take returns the requests that p is to handle from now on: those to its trees that no process
	// has taken, or whose taker is gone. Those that p has taken without knowing are among them;
	// known are the IDs that p knows.
	Take(ctx context.Context, p session.Process, known []string) ([]session.Request, error)

	// Answer records the answer of p to a request. It is dropped if another process has taken the
	// request since.
	Answer(ctx context.Context, p session.Process, request string, answer []byte) error

	// Outcome returns the answer to a request, or an error if there will be none, ErrNoOwner or
	// ErrUnanswered. It is not done while the caller is to wait.
	Outcome(ctx context.Context, id string) (answer []byte, done bool, err error)

	// Lanes returns the documents of the lanes whose version is another one than that which is
	// known, and the present time.
	Lanes(
		ctx context.Context, known map[string]int64,
	) (changed map[string]LaneView, now time.Time, err error)

	// ChangeLane calls f with the document of a lane, and writes it if f reports a change, as one
	// step. It does nothing and returns ErrLapsed if p has no lease. f may be called again.
	ChangeLane(
		ctx context.Context, p session.Process, name string,
		f func(doc *lease.Lane, now time.Time, alive func(session.Process) bool) (changed bool),
	) (view LaneView, now time.Time, changed bool, err error)

	// Sweep forgets what the engine need not know any more.
	Sweep(ctx context.Context) error
}

// A LaneView is the document of a lane, with the version at which it was read.
type LaneView struct {
	Version int64
	Doc     lease.Lane
}
