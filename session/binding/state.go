package binding

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// The kinds of facts in the log of bindings. A fact that changes a binding has the whole binding.
const (
	factBound    = "bound"    // the conversation has this binding from now on
	factUnbound  = "unbound"  // the conversation is not bound any more
	factBegun    = "begun"    // the tree of the session may have this binding before there is one
	factSettled  = "settled"  // nothing is owed any more for a binding that ended, or was begun
	factSnapshot = "snapshot" // these are all bindings, and those that ended not long ago
)

// factVersion is the greatest version of a fact. Open refuses a log with a greater one. Facts that
// an earlier version of Offshoot would misread have version 2, the others have version 1. A kind
// that such a version does not know is refused by that likewise.
const factVersion = 2

// A fact is one entry of the log of bindings.
type fact struct {
	Version int       `json:"v"`
	Kind    string    `json:"kind"`
	Binding *Binding  `json:"binding,omitempty"` // bound: as it is now; unbound: as it was
	Reason  Reason    `json:"reason,omitempty"`  // unbound; begun: if it does not come about
	ID      string    `json:"id,omitempty"`      // of the end or the begin; empty: nothing is owed
	At      time.Time `json:"at,omitzero"`
	All     []Binding `json:"all,omitempty"`   // snapshot
	Ended   []Unbound `json:"ended,omitempty"` // snapshot
}

// newFact returns f with the version that it needs.
func newFact(f fact) *fact {
	f.Version = 1
	later := func(b Binding) bool { return !b.Root.IsZero() || b.Created }
	if f.ID != "" || len(f.Ended) > 0 || slices.ContainsFunc(f.All, later) ||
		f.Binding != nil && later(*f.Binding) {
		f.Version = 2
	}
	return &f
}

// AppendJSON appends f as JSON, which makes a fact a [session.Payload].
func (f *fact) AppendJSON(b []byte) ([]byte, error) {
	data, err := json.Marshal(f)
	return append(b, data...), err
}

// readFact returns the fact in an entry of the log, whether the journal kept it or encoded it.
func readFact(e session.Entry) (*fact, error) {
	f, ok := e.Payload.(*fact)
	if !ok {
		data, err := e.Payload.AppendJSON(nil)
		if err != nil {
			return nil, fmt.Errorf("binding: entry %d: %w", e.Seq, err)
		}
		f = new(fact)
		if err := json.Unmarshal(data, f); err != nil {
			return nil, fmt.Errorf("binding: entry %d: %w", e.Seq, err)
		}
	}
	known := f.Kind == factSnapshot || f.Kind == factSettled && f.ID != "" ||
		f.Binding != nil && (f.Kind == factBound || f.Kind == factUnbound ||
			f.Kind == factBegun && f.ID != "")
	if f.Version < 1 || f.Version > factVersion || !known {
		return nil, fmt.Errorf(
			"binding: entry %d: unknown fact %q of version %d, written by a newer version?", e.Seq,
			f.Kind, f.Version,
		)
	}
	return f, nil
}

// A state holds the bindings that a log adds up to. Its methods decide changes and apply facts.
// They do not read a clock.
type state struct {
	bound    map[session.Route]held
	byTarget map[session.Key]map[session.Route]bool
	ended    map[string]Unbound         // by ID
	owed     []*Unbound                 // those of ended that are not settled, by their ends
	former   map[session.Route][]string // the IDs of a conversation, oldest first
	facts    int                        // number of facts since the last snapshot

	deadlines deadlines
}

// A held is a binding in memory. Its Touched may be later than that in the log.
type held struct {
	Binding
	written time.Time // Touched in the log
}

func newState() *state {
	return &state{
		bound:    make(map[session.Route]held),
		byTarget: make(map[session.Key]map[session.Route]bool),
		ended:    make(map[string]Unbound),
		former:   make(map[session.Route][]string),
	}
}

// apply applies a fact of the log. Only apply and touch change the state.
func (s *state) apply(f *fact) {
	s.facts++
	switch f.Kind {
	case factBound:
		s.put(*f.Binding, s.drop(f.Binding.Conversation))
	case factUnbound:
		s.drop(f.Binding.Conversation)
		if f.ID != "" {
			s.remember(Unbound{ID: f.ID, Binding: *f.Binding, Reason: f.Reason, At: f.At})
		}
	case factBegun:
		s.remember(Unbound{
			ID: f.ID, Binding: *f.Binding, Reason: f.Reason, At: f.At, Begun: true,
		})
	case factSettled:
		s.settle(f.ID)
	case factSnapshot:
		before := s.bound
		*s = *newState()
		for _, b := range f.All {
			s.put(b, before[b.Conversation])
		}
		for _, u := range f.Ended {
			s.remember(u)
		}
	}
}

// remember keeps a binding that has ended, or was begun.
func (s *state) remember(u Unbound) {
	s.settle(u.ID) // one of that ID, which only a log that others wrote has
	s.ended[u.ID] = u
	if of := u.Binding.Conversation; !u.Begun {
		s.former[of] = append(s.former[of], u.ID)
	}
	if !u.Settled {
		i, _ := slices.BinarySearchFunc(s.owed, &u, compareEnds)
		s.owed = slices.Insert(s.owed, i, &u)
	}
}

// settle notes that nothing is owed any more for an end.
func (s *state) settle(id string) {
	u, ok := s.ended[id]
	if !ok || u.Settled {
		return
	}
	if i, found := slices.BinarySearchFunc(s.owed, &u, compareEnds); found {
		s.owed = slices.Delete(s.owed, i, i+1)
	}
	if u.Begun { // it is of no use any more
		delete(s.ended, id)
		return
	}
	u.Settled = true
	s.ended[id] = u
}

// recent returns the bindings that have ended and are of use at now, in the order of their ends.
func (s *state) recent(now time.Time) []Unbound {
	var list []Unbound
	for _, u := range s.ended {
		if !u.forgotten(now) {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b Unbound) int { return compareEnds(&a, &b) })
	return list
}

// formerly returns the bindings that a conversation had and that are of use at now, in the order of
// their ends. One that has just expired is the last of them.
func (s *state) formerly(conversation session.Route, now time.Time) []Unbound {
	var list []Unbound
	for _, id := range s.former[conversation] {
		if u := s.ended[id]; !u.forgotten(now) {
			list = append(list, u)
		}
	}
	if held, ok := s.bound[conversation]; ok {
		if why, over := held.expired(now); over { // its end is not in the log yet
			list = append(list, end(held.Binding, why, "", now))
		}
	}
	return list
}

// compareEnds orders bindings by the time of their ends.
func compareEnds(a, b *Unbound) int {
	return cmp.Or(
		a.At.Compare(b.At), compareBindings(a.Binding, b.Binding), cmp.Compare(a.ID, b.ID),
	)
}

// put adds b. If before is the same binding, b keeps its touches, which the log may not have.
func (s *state) put(b Binding, before held) {
	held := held{Binding: b, written: b.Touched}
	if before.Target == b.Target && before.Bound.Equal(b.Bound) && before.Touched.After(b.Touched) {
		held.Touched = before.Touched
	}
	s.bound[b.Conversation] = held
	if s.byTarget[b.Target] == nil {
		s.byTarget[b.Target] = make(map[session.Route]bool)
	}
	s.byTarget[b.Target][b.Conversation] = true
	s.limit(&held.Binding)
}

// drop removes and returns the binding of a conversation. It returns the zero held if there is
// none.
func (s *state) drop(conversation session.Route) held {
	old, ok := s.bound[conversation]
	if !ok {
		return held{}
	}
	delete(s.bound, conversation)
	delete(s.byTarget[old.Target], conversation)
	if len(s.byTarget[old.Target]) == 0 {
		delete(s.byTarget, old.Target)
	}
	return old
}

// touch sets the Touched of a binding to now, unless it is later already. It reports whether the
// change is to be written to the log.
func (s *state) touch(conversation session.Route, now time.Time) (write bool, err error) {
	if _, err := s.live(conversation, now); err != nil {
		return false, err
	}
	held := s.bound[conversation]
	if !now.After(held.Touched) {
		return false, nil
	}
	held.Touched = now
	s.bound[conversation] = held
	return now.Sub(held.written) >= min(touchEvery, max(held.Idle/8, 1)), nil
}

// all returns every binding in the order of their conversations.
func (s *state) all() []Binding {
	bindings := make([]Binding, 0, len(s.bound))
	for _, held := range s.bound {
		bindings = append(bindings, held.Binding)
	}
	slices.SortFunc(bindings, compareBindings)
	return bindings
}

// of returns the bindings of a session in the order of their conversations.
func (s *state) of(target session.Key) []Binding {
	bindings := make([]Binding, 0, len(s.byTarget[target]))
	for conversation := range s.byTarget[target] {
		bindings = append(bindings, s.bound[conversation].Binding)
	}
	slices.SortFunc(bindings, compareBindings)
	return bindings
}

// compareBindings orders bindings by their conversations.
func compareBindings(a, b Binding) int {
	x, y := a.Conversation, b.Conversation
	return cmp.Or(cmp.Compare(x.Channel, y.Channel), cmp.Compare(x.Account, y.Account),
		cmp.Compare(x.To, y.To), cmp.Compare(x.Thread, y.Thread))
}

// snapshot returns the fact that holds every binding.
func (s *state) snapshot(now time.Time) *fact {
	return newFact(fact{Kind: factSnapshot, At: now, All: s.all(), Ended: s.recent(now)})
}

// long reports whether the log has many more facts than a snapshot would have bindings. Each end
// brings three facts and leaves one binding to remember.
func (s *state) long() bool { return s.facts > max(1000, 2*(len(s.bound)+len(s.ended))) }

// bound returns the fact that b is the binding of its conversation.
func bound(b Binding, now time.Time) *fact {
	return newFact(fact{Kind: factBound, Binding: &b, At: now})
}

// unbound returns the fact that u has ended.
func unbound(u Unbound) *fact {
	return newFact(fact{
		Kind: factUnbound, ID: u.ID, Binding: &u.Binding, Reason: u.Reason, At: u.At,
	})
}

// decideBegin returns the fact that a binding is begun, by the rules of [Table.Begin]. One that is
// begun already stays as it is.
func (s *state) decideBegin(u Unbound, replace bool, now time.Time) ([]*fact, error) {
	if u.ID == "" {
		return nil, errors.New("binding: begun is empty")
	}
	if _, err := s.decideBind(u.Binding, replace, "", now); err != nil {
		return nil, err
	}
	if _, known := s.ended[u.ID]; known {
		return nil, nil
	}
	return []*fact{newFact(fact{
		Kind: factBegun, ID: u.ID, Binding: &u.Binding, Reason: u.Reason, At: u.At,
	})}, nil
}

// decideBegun is decideBind for a binding that was begun under an ID, which it settles. Without an
// ID it is decideBind.
func (s *state) decideBegun(
	id string, b Binding, replace bool, endID string, now time.Time,
) ([]*fact, error) {
	facts, err := s.decideBind(b, replace, endID, now)
	if err != nil || id == "" {
		return facts, err
	}
	if u, ok := s.ended[id]; !ok || !u.Begun {
		return nil, fmt.Errorf("binding: what was begun is given up: %w", session.ErrConflict)
	}
	return append(facts, newFact(fact{Kind: factSettled, ID: id, At: now})), nil
}

// decideBind returns the facts that bind a conversation, by the rules of [Table.Bind].
//
// The end of a binding that it replaces has the ID endID.
func (s *state) decideBind(
	b Binding, replace bool, endID string, now time.Time,
) ([]*fact, error) {
	if err := b.validate(); err != nil {
		return nil, err
	}
	held, ok := s.bound[b.Conversation]
	old := held.Binding
	if !ok {
		return []*fact{bound(b, now)}, nil
	}
	if why, over := old.expired(now); over {
		return []*fact{unbound(end(old, why, endID, now)), bound(b, now)}, nil
	}
	switch {
	case old.Target != b.Target && !replace:
		return nil, &Error{Binding: old, By: b.By, Err: ErrBound}
	case !old.mayChange(b.By):
		return nil, &Error{Binding: old, By: b.By, Err: ErrNotOwner}
	case old.Target != b.Target:
		return []*fact{unbound(end(old, ReasonReplaced, endID, now)), bound(b, now)}, nil
	}
	return []*fact{bound(b, now)}, nil
}

// end returns what is left of a binding.
func end(b Binding, why Reason, id string, now time.Time) Unbound {
	return Unbound{ID: cmp.Or(b.End, id), Binding: b, Reason: why, At: now}
}

// live returns the binding of a conversation. It returns an error that wraps [session.ErrNotFound]
// if there is none, or if it has expired at now.
func (s *state) live(conversation session.Route, now time.Time) (Binding, error) {
	if held, ok := s.bound[conversation]; ok {
		if _, over := held.expired(now); !over {
			return held.Binding, nil
		}
	}
	return Binding{}, fmt.Errorf("binding: binding of %s in %s on %s: %w",
		text.Quote(conversation.Thread), text.Quote(conversation.To),
		text.Quote(conversation.Channel), session.ErrNotFound)
}

// decideUnbind returns the fact that ends a binding, and the binding with the reason.
func (s *state) decideUnbind(
	conversation session.Route, by string, why Reason, id string, now time.Time,
) ([]*fact, Unbound, error) {
	old, err := s.live(conversation, now)
	if err != nil {
		return nil, Unbound{}, err
	}
	if !old.mayChange(by) {
		return nil, Unbound{}, &Error{Binding: old, By: by, Err: ErrNotOwner}
	}
	ended := end(old, why, id, now)
	return []*fact{unbound(ended)}, ended, nil
}

// decideLimit returns the facts that give new limits, and the bindings with them, by the rules of
// [Table.SetLimit].
func (s *state) decideLimit(
	conversation session.Route, by string, limit Limit, now time.Time,
) ([]*fact, []Binding, error) {
	here, err := s.live(conversation, now)
	if err != nil {
		return nil, nil, err
	}
	if !here.mayChange(by) {
		return nil, nil, &Error{Binding: here, By: by, Err: ErrNotOwner}
	}
	var facts []*fact
	var changed []Binding
	for _, other := range s.of(here.Target) {
		_, over := other.expired(now)
		near := other.Conversation.Channel == conversation.Channel &&
			other.Conversation.Account == conversation.Account
		if over || !near || !other.mayChange(by) {
			continue
		}
		next := other.limited(limit, now)
		if err := next.validate(); err != nil {
			return nil, nil, err
		}
		facts, changed = append(facts, bound(next, now)), append(changed, next)
	}
	return facts, changed, nil
}
