package lease

import (
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A State has the leases and claims of a cluster, and the requests to owners of trees. Its zero
// value is not usable; see [NewState].
type State struct {
	lease     time.Duration
	epoch     uint64              // of the last claim
	last      uint64              // incarnation that was given out last
	processes map[string]*process // by name; the last one to join under it
	claims    map[session.Key]session.Claim
	requests  map[string]*request
}

// A process is what the engine knows of a process that has joined.
type process struct {
	session.Process
	until time.Time       // when its lease ends
	taken []session.Claim // that others took from it while its lease had lapsed
}

// NewState returns a State without processes, whose leases last so long.
func NewState(lease time.Duration) *State {
	return &State{
		lease: lease, processes: make(map[string]*process),
		claims: make(map[session.Key]session.Claim), requests: make(map[string]*request),
	}
}

// NewProcess returns a process of that name which has not joined. It joins by its first Beat or
// Claim.
func (s *State) NewProcess(name string) session.Process {
	s.last++
	return session.Process{Name: name, Incarnation: s.last}
}

// Beat begins or renews the lease of p, and returns the claims that others have taken from it since
// the last Beat. It is ErrReplaced if a later process has joined under the name of p. The first
// Beat of p gives up the claims of the process that had the name.
func (s *State) Beat(p session.Process, now time.Time) ([]session.Claim, error) {
	known, err := s.join(p, now)
	if err != nil {
		return nil, err
	}
	taken := known.taken
	known.taken = nil
	return taken, nil
}

// join renews the lease of p.
func (s *State) join(p session.Process, now time.Time) (*process, error) {
	known := s.processes[p.Name]
	switch {
	case known != nil && known.Incarnation > p.Incarnation:
		return nil, session.ErrReplaced
	case known == nil || known.Incarnation < p.Incarnation:
		if known != nil {
			s.dropClaims(known.Process)
		}
		known = &process{Process: p}
		s.processes[p.Name] = known
	}
	known.until = now.Add(s.lease)
	return known, nil
}

// IsAlive reports whether the lease of p lasts.
func (s *State) IsAlive(p session.Process, now time.Time) bool {
	known := s.processes[p.Name]
	return known != nil && known.Process == p && now.Before(known.until)
}

// Owner returns the claim on a tree that holds.
func (s *State) Owner(root session.Key, now time.Time) (c session.Claim, ok bool) {
	c, ok = s.claims[root]
	return c, ok && s.IsAlive(c.Owner, now)
}

// Claim renews the lease of p and takes a tree for it, as session.Owners says.
func (s *State) Claim(
	p session.Process, root session.Key, now time.Time,
) (session.Claim, error) {
	if _, err := s.join(p, now); err != nil {
		return session.Claim{}, err
	}
	c, claimed := s.claims[root]
	switch {
	case claimed && c.Owner == p:
		return c, nil
	case claimed && s.IsAlive(c.Owner, now):
		return session.Claim{}, &session.OwnedError{Claim: c}
	case claimed:
		if former := s.processes[c.Owner.Name]; former != nil && former.Process == c.Owner {
			former.taken = append(former.taken, c)
		}
	}
	s.epoch++
	c = session.Claim{Root: root, Owner: p, Epoch: s.epoch}
	s.claims[root] = c
	return c, nil
}

// Release gives up a claim of p, unless it is another one that p or another process has now.
func (s *State) Release(p session.Process, c session.Claim) {
	if c.Owner == p && s.claims[c.Root] == c {
		delete(s.claims, c.Root)
	}
}

// Leave ends the lease of p and gives up its claims.
func (s *State) Leave(p session.Process) {
	s.dropClaims(p)
	if known := s.processes[p.Name]; known != nil && known.Process == p {
		known.until, known.taken = time.Time{}, nil
	}
}

// dropClaims gives up all claims of p.
func (s *State) dropClaims(p session.Process) {
	for root, c := range s.claims {
		if c.Owner == p {
			delete(s.claims, root)
		}
	}
}
