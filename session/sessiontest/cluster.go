package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// A Cluster is an engine in memory that several processes share, all of them in one test. Each has
// a Store of its own, with Owners, and can be cut off from the engine. It works in a bubble of
// testing/synctest, where its leases, beats and pauses pass in virtual time.
//
// It stands in this package, and not beside session.NewMemory: a program that keeps its Store in
// memory is one process.
type Cluster struct {
	o     ClusterOptions
	store *session.Store

	mu      sync.Mutex
	state   *lease.State
	lanes   map[string]*lease.Lane
	changed chan struct{} // closed, and replaced by another one, at every change
}

// ClusterOptions say how a Cluster behaves. The zero options are those of a real engine.
type ClusterOptions struct {
	// Lease is how long a process that is cut off keeps its claims. Zero is session.DefaultLease. A
	// process beats three times in a lease.
	Lease time.Duration
	// Timeout is after which time a call to the engine fails that is cut off. Zero is 15 seconds.
	Timeout time.Duration
	// Clock is that of the engine. Nil is time.Now. Processes have the clock of the test, so a
	// Clock beside that is how to test clocks that differ.
	Clock func() time.Time
}

// ErrUnreachable is the error of a call to the engine of a [Cluster] by a process that is cut off,
// after ClusterOptions.Timeout. The call has changed nothing.
var ErrUnreachable = errors.New("sessiontest: the process is cut off from its engine")

// NewCluster returns an empty Cluster.
func NewCluster(o ClusterOptions) *Cluster {
	if o.Lease == 0 {
		o.Lease = session.DefaultLease
	}
	if o.Timeout == 0 {
		o.Timeout = 15 * time.Second
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Cluster{
		o: o, store: session.NewMemory(), state: lease.NewState(o.Lease),
		lanes: make(map[string]*lease.Lane), changed: make(chan struct{}),
	}
}

// Open returns the Store of another process of that name, which has one of its own for as long as
// it lives. To close it ends its Serve.
func (c *Cluster) Open(name string) *session.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &member{
		cluster: c, self: c.state.NewProcess(name), closed: make(chan struct{}),
		lanes: make(map[string]*clusterLane),
	}
	return &session.Store{
		Journal: cutJournal{m}, Transcripts: cutTranscripts{c.store.Transcripts, m},
		Files: cutFiles{c.store.Files, m}, Owners: m,
	}
}

// Cut cuts the process of a Store off from the engine: its calls wait until it is healed, and fail
// after ClusterOptions.Timeout. A process that is cut off and never healed is one that was killed.
func (c *Cluster) Cut(s *session.Store) { c.setCut(s, true) }

// Heal ends a Cut.
func (c *Cluster) Heal(s *session.Store) { c.setCut(s, false) }

func (c *Cluster) setCut(s *session.Store, cut bool) {
	m, ok := s.Owners.(*member)
	if !ok || m.cluster != c {
		panic("sessiontest: the Store is not of this Cluster")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.cut = cut
	c.broadcast()
}

// broadcast wakes all that waits for a change. The caller holds the lock.
func (c *Cluster) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// look is the time after which what waits looks again although nothing has changed: leases lapse
// and trees become due.
func (c *Cluster) look() time.Duration { return min(time.Second, c.o.Lease/10) }

// A member is one process of a Cluster. It is the session.Owners of that process.
type member struct {
	cluster *Cluster
	self    session.Process
	closing sync.Once
	closed  chan struct{}

	// The lock of the cluster guards these.
	cut     bool
	serving bool
	lanes   map[string]*clusterLane
	looking int           // how many calls of Orphans are under way
	refused []session.Key // claims that met an owner, which Orphans has not taken note of
}

// Close implements io.Closer.
func (m *member) Close() error {
	m.closing.Do(func() { close(m.closed) })
	return nil
}

// wait waits for a change, at most for a time. The error is that of ctx, or ErrClosed.
func (m *member) wait(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	case <-m.closed:
	}
	return m.check(ctx)
}

func (m *member) check(ctx context.Context) error {
	select {
	case <-m.closed:
		return session.ErrClosed
	default:
		return ctx.Err()
	}
}

// try calls f under the lock of the cluster, unless the process is cut off. Then it returns what
// tells of a change.
func (m *member) try(f func(now time.Time) error) (changed <-chan struct{}, err error) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	switch {
	case m.cut:
		return m.cluster.changed, nil
	case f == nil:
		return nil, nil
	}
	return nil, f(m.cluster.o.Clock())
}

// reach calls f under the lock of the cluster once the process is not cut off, and returns its
// error. f gets the present time of the engine, and may be nil.
func (m *member) reach(ctx context.Context, f func(now time.Time) error) error {
	end := time.Now().Add(m.cluster.o.Timeout)
	if err := m.check(ctx); err != nil {
		return err
	}
	for {
		changed, err := m.try(f)
		if changed == nil {
			return err
		}
		left := time.Until(end)
		if left <= 0 {
			return fmt.Errorf("%w: %s", ErrUnreachable, m.self)
		}
		if err := m.wait(ctx, changed, left); err != nil {
			return err
		}
	}
}
