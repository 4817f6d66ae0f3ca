package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// freshOrphans is how old a look at the orphans may be when a tree of it is yielded. On a busy
// machine a claim takes long, and others have claimed trees of an older look meanwhile: four
// processes that looked for 100 trees made 40 to 78 claims too late without it, and 11 to 21 with.
const freshOrphans = 100 * time.Millisecond

// An Owners is the [session.Owners] of one process: a shell around a [Ledger].
type Owners struct {
	name    string
	ledger  Ledger
	hub     *hub
	self    session.Process
	lease   time.Duration
	timeout time.Duration
	store   Store
	ended   chan struct{} // closed when the Store is closed

	troubles troubles

	mu      sync.Mutex
	serving *service
	lanes   map[string]*lane
	renewed time.Time              // when the last beat was sent that was answered
	claims  map[session.Key]noted  // as far as this process knows
	lost    []session.Claim        // with a lease that the engine has forgotten; not told yet
	told    []uint64               // epochs of claims that others have taken
	claimed map[session.Key]uint64 // epochs of the claims that were not released
	looking int                    // how many calls of Orphans are under way
	refused []session.Key          // claims that met an owner, which Orphans has not taken note of
}

// A Store is what an Owners knows of the Store that it belongs to.
type Store struct {
	Closed func() bool // reports whether it is closed
	Close  func()      // closes it, which calls End once
}

// Options are what an Owners is made of. All of them must be set, but for Wire.
type Options struct {
	Package string // the name of the package that makes it, for errors
	Ledger  Ledger
	Wire    Wire
	Self    session.Process // from Ledger.NewProcess
	Lease   time.Duration
	Timeout time.Duration // how long the end waits until the process has left
	Store   Store
}

// A noted claim is one that the process knew at a time.
type noted struct {
	session.Claim
	at time.Time
}

// NewOwners returns the Owners of a Store. It works until its End, and not that of ctx.
func NewOwners(ctx context.Context, o Options) *Owners {
	return &Owners{
		name: o.Package, ledger: o.Ledger, hub: newHub(ctx, o.Wire), self: o.Self, lease: o.Lease,
		timeout: o.Timeout, store: o.Store, ended: make(chan struct{}),
		lanes: make(map[string]*lane), claims: make(map[session.Key]noted),
		claimed: make(map[session.Key]uint64),
	}
}

// Close closes the Store.
func (o *Owners) Close() error {
	o.store.Close()
	return nil
}

// End gives up the claims and the lease of the process, for good, and waits for that as long as
// Options say. The Store is closed.
func (o *Owners) End(ctx context.Context) {
	close(o.ended)
	within, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	_ = o.ledger.Leave(within, o.self, true) // or the lease lapses
	o.hub.end()
}

// Epoch returns that of the claim of this process on a tree, also after another process has taken
// the tree. It is 0 if this process has claimed no such tree, or has released it.
func (o *Owners) Epoch(root session.Key) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claimed[root]
}

// Self returns the process.
func (o *Owners) Self() session.Process { return o.self }

func (o *Owners) isClosed() bool { return o.store.Closed() }

// check returns ErrClosed if the Store is closed, else the error of ctx.
func (o *Owners) check(ctx context.Context) error {
	if o.isClosed() {
		return session.ErrClosed
	}
	return ctx.Err()
}

// look is the time after which what waits looks again although no hint has come.
func (o *Owners) look() time.Duration { return min(time.Second, o.lease/10) }

// wait waits for a hint, at most for a time. The error is that of ctx, or ErrClosed.
func (o *Owners) wait(ctx context.Context, woken <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	case <-o.ended:
	}
	return o.check(ctx)
}

// wrap returns the error of a method for one of the ledger. After the Store was closed it is
// ErrClosed.
func (o *Owners) wrap(doing string, root session.Key, err error) error {
	switch {
	case err == nil:
		return nil
	case o.isClosed():
		err = session.ErrClosed
	}
	return fmt.Errorf("%s: %s %q: %w", o.name, doing, root, o.named(err))
}

// named adds the name of the process to ErrReplaced.
func (o *Owners) named(err error) error {
	if !errors.Is(err, session.ErrReplaced) {
		return err
	}
	return fmt.Errorf("%w: %q", err, o.self.Name)
}

// Claim implements session.Owners.
func (o *Owners) Claim(ctx context.Context, root session.Key) (c session.Claim, err error) {
	if root.IsZero() {
		return c, o.wrap("claim", root, session.ErrInvalidKey)
	}
	if err = o.check(ctx); err != nil {
		return c, o.wrap("claim", root, err)
	}
	o.mu.Lock()
	sent := time.Now()
	renew := o.serving == nil || sent.Sub(o.renewed) > o.lease/2
	o.mu.Unlock()
	c, begun, err := o.ledger.Claim(ctx, o.self, o.lease, root, renew)
	o.mu.Lock()
	defer o.mu.Unlock()
	if begun {
		o.begin(sent)
	}
	if errors.Is(err, session.ErrOwned) && o.looking > 0 {
		o.refused = append(o.refused, root)
	}
	if err != nil {
		return session.Claim{}, o.wrap("claim", root, err)
	}
	o.claims[root], o.claimed[root] = noted{c, time.Now()}, c.Epoch
	if o.serving != nil {
		signal(o.serving.asked) // a request may wait for this owner
	}
	return c, nil
}

// begin notes that a lease has begun which was asked for at a time: the claims from before are
// lost. The caller holds the lock.
func (o *Owners) begin(sent time.Time) {
	for root, c := range o.claims {
		if c.at.Before(sent) {
			o.lost = append(o.lost, c.Claim)
			delete(o.claims, root)
		}
	}
}

// Release implements session.Owners.
func (o *Owners) Release(ctx context.Context, c session.Claim) error {
	err := o.check(ctx)
	if err == nil {
		err = o.ledger.Release(ctx, o.self, c)
	}
	if err != nil {
		return o.wrap("release", c.Root, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.claims[c.Root].Claim == c {
		delete(o.claims, c.Root)
		delete(o.claimed, c.Root)
	}
	o.hub.tell(orphaned)
	return nil
}

// beat begins or renews the lease.
func (o *Owners) beat(ctx context.Context) (l session.Lease, err error) {
	o.mu.Lock()
	known := slices.Clone(o.told)
	o.mu.Unlock()
	sent := time.Now()
	taken, begun, err := o.ledger.Beat(ctx, o.self, o.lease, known)
	if err != nil {
		return l, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if begun {
		o.begin(sent)
	}
	o.renewed = sent
	l = session.Lease{Until: sent.Add(o.lease), Length: o.lease, Taken: o.lost}
	o.lost, o.told = nil, nil
	for _, c := range taken {
		o.told = append(o.told, c.Epoch)
		if !slices.Contains(known, c.Epoch) {
			l.Taken = append(l.Taken, c)
		}
		if o.claims[c.Root].Claim == c {
			delete(o.claims, c.Root)
		}
	}
	return l, nil
}

// Call implements session.Owners.
func (o *Owners) Call(ctx context.Context, r session.Request) (answer []byte, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	err = o.check(ctx)
	var owner uint64
	if err == nil {
		owner, err = o.ledger.Ask(ctx, r)
	}
	if err == nil && owner > 0 {
		o.hub.tell(asked(owner))
	}
	for err == nil {
		var done bool
		woken := o.hub.on(answered(r.ID))
		answer, done, err = o.ledger.Outcome(ctx, r.ID)
		if done || err != nil {
			break
		}
		err = o.wait(ctx, woken, o.look())
	}
	if err != nil {
		return nil, o.wrap("call to", r.Root, err)
	}
	return answer, nil
}

// Orphans implements session.Owners.
func (o *Owners) Orphans(ctx context.Context) iter.Seq2[session.Key, error] {
	return func(yield func(session.Key, error) bool) {
		var lookout lease.Lookout
		o.countLooking(1)
		defer o.countLooking(-1)
		err := o.check(ctx)
		for err == nil {
			most, woken := o.look(), o.hub.on(orphaned)
			asked := time.Now()
			orphans, behind, now, failed := o.ledger.Orphans(ctx, lookout.Skip())
			for _, root := range o.takeRefused() {
				lookout.Forget(root)
			}
			if failed == nil {
				claim, again := lookout.Look(o.self, orphans, behind, now)
				looked := time.Now()
				fresh := max(freshOrphans, looked.Sub(asked)) // half of the time is for claims
				for i, root := range claim {
					if i > 0 && time.Since(looked) > fresh {
						lookout.Keep(claim[i:])
						again = now
						break
					}
					if !yield(root, nil) {
						return
					}
				}
				if !again.IsZero() {
					most = min(most, again.Sub(now))
				}
			}
			if most > 0 {
				err = o.wait(ctx, woken, most)
			} else {
				err = o.check(ctx)
			}
		}
		yield(session.Key{}, fmt.Errorf("%s: orphans: %w", o.name, err))
	}
}

// countLooking counts the calls of Orphans.
func (o *Owners) countLooking(by int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looking += by
	o.refused = nil
}

// takeRefused returns the trees that had an owner when this process would claim them.
func (o *Owners) takeRefused() []session.Key {
	o.mu.Lock()
	defer o.mu.Unlock()
	refused := o.refused
	o.refused = nil
	return refused
}

// Lane implements session.Owners.
func (o *Owners) Lane(name string, limit int, u session.LaneUser) session.Lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lanes[name]; l != nil {
		return l
	}
	l := &lane{
		owners: o, name: name, user: u, limit: limit, dirty: true, version: -1,
		pauses: make(map[string]pause), told: make(map[string]time.Time),
	}
	o.lanes[name] = l
	if o.serving != nil {
		signal(o.serving.lane)
	}
	return l
}

// isFinal reports whether an error ends Serve.
func isFinal(err error) bool {
	return errors.Is(err, session.ErrReplaced) || errors.Is(err, session.ErrClosed) ||
		errors.Is(err, session.ErrSync)
}
