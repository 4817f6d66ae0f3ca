package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// An owners is the [session.Owners] of one process: a shell around its ledger. It has connections
// of its own, so that what a bot writes does not hold up a beat.
type owners struct {
	*database // of the Store
	ledger    ledger
	hub       *hub
	self      session.Process
	lease     time.Duration
	ended     chan struct{} // closed when the Store is closed

	mu      sync.Mutex
	serving *service
	lanes   map[string]*lane
	renewed time.Time             // when the last beat was sent that was answered
	claims  map[session.Key]noted // as far as this process knows
	lost    []session.Claim       // with a lease that the server has forgotten; not told yet
	told    []uint64              // epochs of claims that others have taken
	fenced  map[session.Key]bool  // trees that were claimed, and not released
}

// A noted claim is one that the process knew at a time.
type noted struct {
	session.Claim
	at time.Time
}

// ownConns is how many connections an owners has at most for its calls, beside the one for hints.
const ownConns = 4

// newOwners returns the Owners of a Store.
func newOwners(ctx context.Context, d *database, o Options) (*owners, error) {
	config := d.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = ownConns, 0, 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	// A call that hangs must not take the time of the next beat.
	timeout := max(time.Second, min(o.Timeout, o.Lease/beatsPerLease))
	d.idle = timeout
	l := newLedger(pool, d.hold, o.Schema, timeout, o.Timeout)
	self, err := l.newProcess(ctx, o.Process)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &owners{
		database: d, ledger: l, hub: newHub(ctx, pool, o.Schema, !o.Shared),
		self: self, lease: o.Lease, ended: make(chan struct{}), lanes: make(map[string]*lane),
		claims: make(map[session.Key]noted), fenced: make(map[session.Key]bool),
	}, nil
}

// newLedger returns the ledger of a schema, whose calls have a time each, and a longer one where
// they carry a body. No transaction holds locks longer than the short one while it is silent.
func newLedger(
	pool *pgxpool.Pool, h *hold, schema string, timeout, bodies time.Duration,
) ledger {
	in := func(timeout, idle time.Duration) *database {
		return &database{
			pool: pool, owned: true, schema: schema, timeout: timeout, hold: h, idle: idle,
		}
	}
	return ledger{in(timeout, timeout), in(max(timeout, bodies), timeout)}
}

// Close closes the Store. Each of its parts may be closed.
func (o *owners) Close() error {
	o.close()
	return nil
}

// end gives up the claims and the lease of the process, for good. The Store is closed.
func (o *owners) end() {
	close(o.ended)
	within, cancel := context.WithTimeout(context.Background(), o.ledger.timeout)
	defer cancel()
	_ = o.ledger.leave(within, o.self, true) // or the lease lapses
	o.hub.end()
	o.ledger.closed.Store(true)
	o.ledger.bodies.closed.Store(true)
	o.ledger.pool.Close()
}

// fence returns the incarnation of the process if it has claimed a tree and not released it: then
// it may append unless another process has the tree meanwhile. Nil: it appends without a claim.
func (o *owners) fence(root session.Key) *int64 {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.fenced[root] {
		return nil
	}
	n := id(o.self)
	return &n
}

// look is the time after which what waits looks again although no hint has come.
func (o *owners) look() time.Duration { return min(time.Second, o.lease/10) }

// wait waits for a hint, at most for a time. The error is that of ctx, or ErrClosed.
func (o *owners) wait(ctx context.Context, woken <-chan struct{}, most time.Duration) error {
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
func (o *owners) wrap(doing string, root session.Key, err error) error {
	switch {
	case err == nil:
		return nil
	case o.closed.Load():
		err = session.ErrClosed
	}
	return fmt.Errorf("pgstore: %s %q: %w", doing, root, err)
}

// Claim implements session.Owners.
func (o *owners) Claim(ctx context.Context, root session.Key) (c session.Claim, err error) {
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
	c, begun, err := o.ledger.claim(ctx, o.self, o.lease, root, renew)
	o.mu.Lock()
	defer o.mu.Unlock()
	if begun {
		o.begin(sent)
	}
	if err != nil {
		return session.Claim{}, o.wrap("claim", root, err)
	}
	o.claims[root], o.fenced[root] = noted{c, time.Now()}, true
	if o.serving != nil {
		o.serving.kick() // a request may wait for this owner
	}
	return c, nil
}

// begin notes that a lease has begun which was asked for at a time: the claims from before are
// lost. The caller holds the lock.
func (o *owners) begin(sent time.Time) {
	for root, c := range o.claims {
		if c.at.Before(sent) {
			o.lost = append(o.lost, c.Claim)
			delete(o.claims, root)
		}
	}
}

// Release implements session.Owners.
func (o *owners) Release(ctx context.Context, c session.Claim) error {
	err := o.check(ctx)
	if err == nil {
		err = o.ledger.release(ctx, o.self, c)
	}
	if err != nil {
		return o.wrap("release", c.Root, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.claims[c.Root].Claim == c {
		delete(o.claims, c.Root)
		delete(o.fenced, c.Root)
	}
	o.hub.tell(orphaned)
	return nil
}

// beat begins or renews the lease.
func (o *owners) beat(ctx context.Context) (l session.Lease, err error) {
	o.mu.Lock()
	known := slices.Clone(o.told)
	o.mu.Unlock()
	sent := time.Now()
	taken, begun, err := o.ledger.beat(ctx, o.self, o.lease, known)
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
func (o *owners) Call(ctx context.Context, r session.Request) (answer []byte, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	err = o.check(ctx)
	var owner int64
	if err == nil {
		owner, err = o.ledger.ask(ctx, r)
	}
	if err == nil && owner > 0 {
		o.hub.tell(asked(owner))
	}
	for err == nil {
		var done bool
		woken := o.hub.on(answered(r.ID))
		answer, done, err = o.ledger.outcome(ctx, r.ID)
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
func (o *owners) Orphans(ctx context.Context) iter.Seq2[session.Key, error] {
	return func(yield func(session.Key, error) bool) {
		var lookout lease.Lookout
		err := o.check(ctx)
		for err == nil {
			most, woken := o.look(), o.hub.on(orphaned)
			orphans, now, failed := o.ledger.orphans(ctx)
			if failed == nil {
				claim, again := lookout.Look(o.self, orphans, now)
				for _, root := range claim {
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
		yield(session.Key{}, fmt.Errorf("pgstore: orphans: %w", err))
	}
}

// Lane implements session.Owners.
func (o *owners) Lane(name string, limit int, u session.LaneUser) session.Lane {
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
		o.serving.kick()
	}
	return l
}

// isFinal reports whether an error ends Serve.
func isFinal(err error) bool {
	return errors.Is(err, session.ErrReplaced) || errors.Is(err, session.ErrClosed)
}
