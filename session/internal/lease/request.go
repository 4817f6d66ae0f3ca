package lease

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A request is what the engine knows of a request to the owner of a tree.
//
//	asked --Take--> taken --Answer--> answered --RequestMemory--> forgotten
//	  |               |  ^
//	  |               |  +--Take by the next owner, when the taker is gone
//	  v               v
//	ErrNoOwner     ErrUnanswered, where no claim on the tree holds
type request struct {
	session.Request
	asked    time.Time       // or asked again, or answered: when it was last of use
	taker    session.Process // zero: it was not taken
	answered bool
	answer   []byte
}

// Ask records a request, unless its ID is known: then it counts as the same one. An ID that is
// known for another tree is ErrInvalidRequest.
func (s *State) Ask(r session.Request, now time.Time) error {
	s.forget(now)
	if known := s.requests[r.ID]; known != nil {
		if known.Root != r.Root {
			return fmt.Errorf("%w %q: its id is that of a request to another tree",
				session.ErrInvalidRequest, r.ID)
		}
		if !known.answered {
			known.asked = now
		}
		return nil
	}
	r.Attempt, r.Body = 0, slices.Clone(r.Body)
	s.requests[r.ID] = &request{Request: r, asked: now}
	return nil
}

// forget removes the requests whose memory has ended.
func (s *State) forget(now time.Time) {
	for id, r := range s.requests {
		under := r.taker != session.Process{} && !r.answered && s.IsAlive(r.taker, now)
		if !under && now.Sub(r.asked) >= session.RequestMemory {
			delete(s.requests, id)
		}
	}
}

// Take returns the requests that p is to handle from now on: those to its trees that no process has
// taken, or whose taker is gone.
func (s *State) Take(p session.Process, now time.Time) []session.Request {
	var taken []session.Request
	for _, r := range s.requests {
		if r.answered || r.taker == p {
			continue
		}
		if r.taker != (session.Process{}) && s.IsAlive(r.taker, now) {
			continue
		}
		if c, ok := s.Owner(r.Root, now); !ok || c.Owner != p {
			continue
		}
		r.taker = p
		r.Attempt++
		taken = append(taken, r.Request)
	}
	slices.SortFunc(taken, func(a, b session.Request) int { return strings.Compare(a.ID, b.ID) })
	return taken
}

// Answer records the answer of p to a request. It is dropped if another process has taken the
// request since.
func (s *State) Answer(p session.Process, id string, answer []byte, now time.Time) {
	if r := s.requests[id]; r != nil && !r.answered && r.taker == p {
		r.answered, r.answer, r.asked = true, answer, now
		r.Body = nil
	}
}

// Outcome returns the answer to a request, or an error if there will be none. It is not done while
// the caller is to wait.
func (s *State) Outcome(id string, now time.Time) (answer []byte, done bool, err error) {
	r := s.requests[id]
	if r == nil { // another call of the same request has found that there is no owner
		return nil, true, session.ErrNoOwner
	}
	if r.answered {
		return slices.Clone(r.answer), true, nil
	}
	if _, owned := s.Owner(r.Root, now); owned || s.IsAlive(r.taker, now) {
		return nil, false, nil
	}
	if r.taker != (session.Process{}) {
		return nil, true, session.ErrUnanswered
	}
	delete(s.requests, id) // so that no process handles it after that
	return nil, true, session.ErrNoOwner
}
