package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// Claim implements session.Owners.
func (m *member) Claim(ctx context.Context, root session.Key) (c session.Claim, err error) {
	if root.IsZero() {
		return c, session.ErrInvalidKey
	}
	err = m.reach(ctx, func(now time.Time) error {
		c, err = m.cluster.state.Claim(m.self, root, now)
		if errors.Is(err, session.ErrOwned) && m.looking > 0 {
			m.refused = append(m.refused, root)
		}
		m.cluster.broadcast() // a request may wait for this owner
		return err
	})
	return c, err
}

// Release implements session.Owners.
func (m *member) Release(ctx context.Context, c session.Claim) error {
	return m.reach(ctx, func(time.Time) error {
		m.cluster.state.Release(m.self, c)
		m.cluster.broadcast()
		return nil
	})
}

// Call implements session.Owners.
func (m *member) Call(ctx context.Context, r session.Request) (answer []byte, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	err = m.reach(ctx, func(now time.Time) error {
		err := m.cluster.state.Ask(r, now)
		m.cluster.broadcast()
		return err
	})
	for err == nil {
		var done bool
		var changed <-chan struct{}
		err = m.reach(ctx, func(now time.Time) (err error) {
			answer, done, err = m.cluster.state.Outcome(r.ID, now)
			changed = m.cluster.changed
			return err
		})
		if done || err != nil {
			break
		}
		err = m.wait(ctx, changed, m.cluster.look())
	}
	return answer, err
}

// Serve implements session.Owners.
func (m *member) Serve(ctx context.Context, mem session.Member) error {
	c := m.cluster
	c.mu.Lock()
	serving := m.serving
	m.serving = true
	c.mu.Unlock()
	if serving {
		return session.ErrServing
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &service{member: m, mem: mem}
	err := s.run(ctx)
	cancel()
	s.handlers.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	m.serving = false
	m.lanes = make(map[string]*clusterLane)
	if !m.cut {
		c.state.Leave(m.self)
	}
	c.broadcast()
	switch {
	case errors.Is(err, session.ErrReplaced):
		return fmt.Errorf("%w: %q", err, m.self.Name)
	case errors.Is(err, session.ErrClosed):
		return err
	case m.cut:
		return fmt.Errorf("%w: %s", ErrUnreachable, m.self)
	}
	return nil
}

// A service is one call of Serve.
type service struct {
	*member
	mem      session.Member
	handlers sync.WaitGroup
	nextBeat time.Time
	saidCut  bool // the Member knows that the process is cut off
}

// run takes part until ctx ends, and returns its error or the one that ends Serve.
func (s *service) run(ctx context.Context) error {
	for {
		var todo []func()
		s.cluster.mu.Lock()
		changed := s.cluster.changed
		var err error
		if s.cut {
			todo = s.noteCut()
		} else {
			s.saidCut = false
			todo, err = s.round(ctx)
		}
		s.cluster.mu.Unlock()
		if err != nil {
			return err
		}
		for _, do := range todo {
			do()
		}
		if err := s.wait(ctx, changed, s.cluster.look()); err != nil {
			return err
		}
	}
}

// noteCut returns what tells the Member, once, why the lease is not renewed.
func (s *service) noteCut() (todo []func()) {
	told := s.mem.Failed
	if told == nil || s.saidCut {
		return nil
	}
	s.saidCut = true
	err := fmt.Errorf("%w: %s", ErrUnreachable, s.self)
	return []func(){func() { contain.Log("sessiontest", "Member.Failed", func() { told(err) }) }}
}

// round does what is to be done at the engine, and returns what is to be done after that without
// the lock, which the caller holds.
func (s *service) round(ctx context.Context) (todo []func(), err error) {
	c, now, sent := s.cluster, s.cluster.o.Clock(), time.Now()
	if !sent.Before(s.nextBeat) || !c.state.IsAlive(s.self, now) {
		taken, err := c.state.Beat(s.self, now)
		if err != nil {
			return nil, err
		}
		s.nextBeat = sent.Add(c.o.Lease / 3)
		if told := s.mem.Lease; told != nil {
			l := session.Lease{Until: sent.Add(c.o.Lease), Length: c.o.Lease, Taken: taken}
			todo = append(todo, func() {
				contain.Log("sessiontest", "Member.Lease", func() { told(l) })
			})
		}
	}
	for _, r := range c.state.Take(s.self, now) {
		todo = append(todo, func() { s.handlers.Go(func() { s.handle(ctx, r) }) })
	}
	changed := false
	for _, l := range s.lanes {
		told, other := l.sync(now)
		todo = append(todo, told...)
		changed = changed || other
	}
	if changed {
		c.broadcast()
	}
	return todo, nil
}

// ask calls the Handle of the member. The error says that it has panicked or ended its goroutine.
func (s *service) ask(ctx context.Context, r session.Request) (answer []byte, err error) {
	err = contain.Call(func() error {
		answer = s.mem.Handle(ctx, r)
		return nil
	}, errHandleExited, func(value any, stack []byte) error {
		return fmt.Errorf("sessiontest: Handle panicked: %v\n%s", value, stack)
	})
	return answer, err
}

var errHandleExited = errors.New("sessiontest: Handle has ended its goroutine")

// handle answers a request. An answer that cannot be brought to the engine before Serve ends is
// lost.
func (s *service) handle(ctx context.Context, r session.Request) {
	answer, err := s.ask(ctx, r)
	if err != nil {
		slog.ErrorContext(ctx, "sessiontest: a request was not answered", "request", r.ID,
			"root", r.Root.String(), "error", err.Error())
		return
	}
	for {
		err := s.reach(context.WithoutCancel(ctx), func(now time.Time) error {
			s.cluster.state.Answer(s.self, r.ID, answer, now)
			s.cluster.broadcast()
			return nil
		})
		if !errors.Is(err, ErrUnreachable) || ctx.Err() != nil {
			return
		}
	}
}

// Orphans implements session.Owners.
func (m *member) Orphans(ctx context.Context) iter.Seq2[session.Key, error] {
	return func(yield func(session.Key, error) bool) {
		var lookout lease.Lookout
		m.countLooking(1)
		defer m.countLooking(-1)
		for {
			orphans, now, changed, err := m.orphans(ctx)
			if errors.Is(err, ErrUnreachable) {
				continue
			}
			if err != nil {
				yield(session.Key{}, err)
				return
			}
			for _, root := range m.takeRefused() {
				lookout.Forget(root)
			}
			claim, again := lookout.Look(m.self, orphans, 0, now)
			for _, root := range claim {
				if !yield(root, nil) {
					return
				}
			}
			most := m.cluster.look()
			if !again.IsZero() {
				most = min(most, again.Sub(now))
			}
			if most > 0 {
				err = m.wait(ctx, changed, most)
			} else {
				err = m.check(ctx)
			}
			if err != nil {
				yield(session.Key{}, err)
				return
			}
		}
	}
}

// countLooking counts the calls of Orphans.
func (m *member) countLooking(by int) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	m.looking += by
	m.refused = nil
}

// takeRefused returns the trees that had an owner when this process would claim them.
func (m *member) takeRefused() []session.Key {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	refused := m.refused
	m.refused = nil
	return refused
}

// orphans returns the trees that are due and on which no claim holds.
func (m *member) orphans(
	ctx context.Context,
) (orphans []session.Key, now time.Time, changed <-chan struct{}, err error) {
	c := m.cluster
	err = m.reach(ctx, func(at time.Time) error {
		now, changed = at, c.changed
		for h, err := range c.store.Journal.Roots(ctx, session.RootQuery{DueBefore: now.Add(1)}) {
			if err != nil {
				return err
			}
			_, owned := c.state.Owner(h.Root, now)
			if !owned && h.Root.IsValid() && !h.Due.After(now) {
				orphans = append(orphans, h.Root)
			}
		}
		return nil
	})
	return orphans, now, changed, err
}
