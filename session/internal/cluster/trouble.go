package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
)

// The work of a process of which no call returns an error, as [session.Member].Trouble names it.
const (
	workLanes    = "lanes"
	workRequests = "requests"
	workAnswers  = "answers"
)

// workLease is the lease. The member is told of that by Member.Failed.
const workLease = "lease"

// A trouble is work that the engine fails at.
type trouble struct {
	since time.Time // the first try that failed began
	err   error     // of the last one
	told  bool      // the member knows
}

// troubles are those of one process.
type troubles struct {
	mu sync.Mutex
	of map[string]trouble
}

// note takes what a try has come to that began at a time. It reports whether the member is to be
// told, which is so when the work has failed for as long as patience, and when it goes on after
// that.
func (t *troubles) note(work string, begun, now time.Time, err error, patience time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, failing := t.of[work]
	switch {
	case err == nil:
		delete(t.of, work)
		return known.told
	case !failing:
		known.since = begun
	}
	known.err = err
	tell := !known.told && now.Sub(known.since) >= patience
	known.told = known.told || tell
	if t.of == nil {
		t.of = make(map[string]trouble)
	}
	t.of[work] = known
	return tell
}

// clear forgets all of them.
func (t *troubles) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of = nil
}

// error returns what there is, in the order of the names.
func (t *troubles) error() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var works []string
	for work := range t.of {
		works = append(works, work)
	}
	slices.Sort(works)
	var errs []error
	for _, work := range works {
		errs = append(errs, fmt.Errorf("%s: %w", work, t.of[work].err))
	}
	return errors.Join(errs...)
}

// Health returns what the engine fails at of the work of this process that no call returns the
// error of, or nil.
func (o *Owners) Health() error { return o.troubles.error() }

// forever is the patience of a member that is not told.
const forever = time.Duration(math.MaxInt64)

// noteWork notes what a try has come to, and tells the member. A lease that has lapsed, and the end
// of Serve, are not trouble with the work.
func (s *service) noteWork(ctx context.Context, work string, begun time.Time, err error) {
	if ctx.Err() != nil || errors.Is(err, ErrLapsed) || errors.Is(err, session.ErrClosed) {
		return
	}
	if !s.troubles.note(work, begun, time.Now(), err, s.lease/BeatsPerLease) {
		return
	}
	if told := s.member.Trouble; told != nil {
		contain.Log(s.name, "Member.Trouble", func() { told(work, err) })
	}
}
