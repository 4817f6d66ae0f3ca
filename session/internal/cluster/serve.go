package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
)

const (
	// BeatsPerLease is how often a process beats in the time of a lease.
	BeatsPerLease = 3
	// sweepAfter is how often a process takes away what the server need not know any more.
	sweepAfter = time.Minute
)

// A service is one call of Serve. It has a goroutine that beats, so that nothing else holds that
// up, one that looks for requests, and one that looks after the lanes: turns wait for a slot, and
// do not wait for requests.
type service struct {
	*Owners
	member session.Member
	asked  chan struct{} // has an element if there may be a request
	lane   chan struct{} // has an element if a lane may be another one than this process knows
	lapsed chan struct{} // has an element if the server says that there is no lease
	swept  time.Time

	handlers sync.WaitGroup
	mu       sync.Mutex
	known    map[string]bool // ids of the requests that are being handled
}

// kick has the service look at once.
func (s *service) kick() {
	signal(s.asked)
	signal(s.lane)
}

// Serve implements session.Owners.
func (o *Owners) Serve(ctx context.Context, m session.Member) error {
	s := &service{
		Owners: o, member: m, asked: make(chan struct{}, 1), lane: make(chan struct{}, 1),
		lapsed: make(chan struct{}, 1), known: make(map[string]bool), swept: time.Now(),
	}
	o.mu.Lock()
	other := o.serving
	if other == nil {
		o.serving = s
	}
	o.mu.Unlock()
	if other != nil {
		return session.ErrServing
	}
	o.hub.serve(s)
	err := s.run(ctx)
	s.handlers.Wait()
	o.hub.serve(nil)
	var left error
	if !errors.Is(err, session.ErrClosed) { // closing the Store leaves for good
		left = s.leave(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.serving, o.lost = nil, nil
	o.troubles.clear()
	clear(o.claims)
	clear(o.lanes)
	switch {
	case isFinal(err):
		return o.named(err)
	case left != nil:
		return fmt.Errorf("%s: leaving: %w", o.name, left)
	}
	return nil
}

// leave gives up the claims and the slots of the process. If the server cannot be reached, they
// end with the lease.
func (s *service) leave(ctx context.Context) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	err := s.ledger.Leave(within, s.self, false)
	s.hub.tell(orphaned)
	for _, l := range s.lanesByName() {
		s.hub.tell(laneChanged(l.name))
	}
	return err
}

// run takes part until ctx ends or the process may not any more, and returns why.
func (s *service) run(ctx context.Context) error {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Go(func() { cancel(s.beats(within)) })
	wg.Go(func() { cancel(s.rounds(within)) })
	wg.Go(func() { cancel(s.laneRounds(within)) })
	wg.Wait()
	return context.Cause(within)
}

// beats renews the lease until ctx ends, and returns why. A beat is not cut off, because it could
// reach the server after the process has left.
func (s *service) beats(ctx context.Context) error {
	err := s.check(ctx)
	for err == nil {
		begun := time.Now()
		l, failed := s.beat(context.WithoutCancel(ctx))
		next := s.lease/BeatsPerLease - time.Since(begun)
		s.troubles.note(workLease, begun, time.Now(), failed, forever)
		switch {
		case failed == nil:
			if told := s.member.Lease; told != nil {
				contain.Log(s.name, "Member.Lease", func() { told(l) })
			}
			s.kick()
		case s.isClosed():
			return session.ErrClosed
		case isFinal(failed):
			return failed
		default:
			if told := s.member.Failed; told != nil {
				contain.Log(s.name, "Member.Failed", func() { told(failed) })
			}
			next = s.look()
		}
		err = s.wait(ctx, s.lapsed, max(next, 0))
	}
	return err
}

// laneRounds looks after the lanes until ctx ends, and returns why.
func (s *service) laneRounds(ctx context.Context) error {
	err := s.check(ctx)
	for err == nil {
		s.tendLanes(ctx)
		err = s.wait(ctx, s.lane, s.look())
	}
	return err
}

// rounds looks for requests and takes away what is old until ctx ends, and returns why.
func (s *service) rounds(ctx context.Context) error {
	err := s.check(ctx)
	for err == nil {
		s.take(ctx)
		if time.Since(s.swept) > sweepAfter {
			s.swept = time.Now()
			_ = s.ledger.Sweep(ctx) // or the next time
		}
		err = s.wait(ctx, s.asked, s.look())
	}
	return err
}

// take begins to handle the requests that there are for the process.
func (s *service) take(ctx context.Context) {
	s.mu.Lock()
	known := slices.Collect(maps.Keys(s.known))
	s.mu.Unlock()
	begun := time.Now()
	requests, err := s.ledger.Take(ctx, s.self, known)
	s.noteWork(ctx, workRequests, begun, err)
	if err != nil {
		return // the next look finds them
	}
	for _, r := range requests {
		s.mu.Lock()
		s.known[r.ID] = true
		s.mu.Unlock()
		s.handlers.Go(func() { s.handle(ctx, r) })
	}
}

// ask calls the Handle of the member. The error says that it has panicked or ended its goroutine.
func (s *service) ask(ctx context.Context, r session.Request) (answer []byte, err error) {
	err = contain.Call(func() error {
		answer = s.member.Handle(ctx, r)
		return nil
	}, errHandleExited, func(value any, stack []byte) error {
		return fmt.Errorf("%s: Handle panicked: %v\n%s", s.name, value, stack)
	})
	return answer, err
}

var errHandleExited = errors.New("cluster: Handle has ended its goroutine")

// handle answers a request. An answer that cannot be brought to the server before Serve ends is
// lost.
func (s *service) handle(ctx context.Context, r session.Request) {
	answer, err := s.ask(ctx, r)
	if err != nil { // the request stays known, so that this process does not handle it again
		slog.ErrorContext(ctx, s.name+": a request was not answered", "request", r.ID,
			"root", r.Root.String(), "error", err.Error())
		return
	}
	for {
		begun := time.Now()
		err := s.ledger.Answer(context.WithoutCancel(ctx), s.self, r.ID, answer)
		s.noteWork(ctx, workAnswers, begun, err)
		if err == nil {
			s.hub.tell(answered(r.ID))
		}
		if err == nil || ctx.Err() != nil {
			break
		}
		wait(ctx, s.look())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, r.ID)
}
