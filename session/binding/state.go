package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// The log of bindings has three kinds of facts. What changes a binding writes all of it.
const (
	factBound    = "bound"    // the binding is so from here on
	factUnbound  = "unbound"  // the conversation is not bound any more
	factSnapshot = "snapshot" // these are all bindings
)

// bindingVersion is the version of the facts. A log with a greater one is not opened.
const bindingVersion = 1

// A bindingFact is one entry of the log of bindings.
type bindingFact struct {
	Version int          `json:"v"`
	Kind    string       `json:"kind"`
	Binding *Binding     `json:"binding,omitempty"` // bound: as it is now; unbound: as it was
	Reason  UnbindReason `json:"reason,omitempty"`  // unbound
	At      time.Time    `json:"at,omitzero"`
	All     []Binding    `json:"all,omitempty"` // snapshot
}

// AppendJSON makes a fact a [Payload].
func (f *bindingFact) AppendJSON(b []byte) ([]byte, error) {
	data, err := json.Marshal(f)
	return append(b, data...), err
}

// readBindingFact returns the fact that an entry of the log holds, typed or as bytes.
func readBindingFact(e Entry) (*bindingFact, error) {
	f, ok := e.Payload.(*bindingFact)
	if !ok {
		data, err := e.Payload.AppendJSON(nil)
		if err != nil {
			return nil, fmt.Errorf("session: bindings: entry %d: %w", e.Seq, err)
		}
		f = new(bindingFact)
		if err := json.Unmarshal(data, f); err != nil {
			return nil, fmt.Errorf("session: bindings: entry %d: %w", e.Seq, err)
		}
	}
	known := f.Kind == factSnapshot || f.Binding != nil && (f.Kind == factBound || f.Kind == factUnbound)
	if f.Version < 1 || f.Version > bindingVersion || !known {
		return nil, fmt.Errorf("session: bindings: entry %d: unknown fact %q of version %d, written by a newer version?", e.Seq, f.Kind, f.Version)
	}
	return f, nil
}

// A bindingTable is the bindings that a log adds up to. Its methods decide and apply; none looks at a clock.
type bindingTable struct {
	bound    map[Route]heldBinding
	byTarget map[Key]map[Route]bool
	facts    int // since the last snapshot
}

// A heldBinding is a binding whose Touched may be later than the log says.
type heldBinding struct {
	Binding
	written time.Time // what the log says
}

func newBindingTable() *bindingTable {
	return &bindingTable{bound: make(map[Route]heldBinding), byTarget: make(map[Key]map[Route]bool)}
}

// apply is the only writer of the table, but for touch.
func (t *bindingTable) apply(f *bindingFact) {
	t.facts++
	switch f.Kind {
	case factBound:
		t.put(*f.Binding, t.drop(f.Binding.Conversation))
	case factUnbound:
		t.drop(f.Binding.Conversation)
	case factSnapshot:
		before := t.bound
		*t = *newBindingTable()
		for _, b := range f.All {
			t.put(b, before[b.Conversation])
		}
	}
}

// put adds b, with the touches of what was there before if it is the same binding.
func (t *bindingTable) put(b Binding, before heldBinding) {
	held := heldBinding{Binding: b, written: b.Touched}
	if before.Target == b.Target && before.Bound.Equal(b.Bound) && before.Touched.After(b.Touched) {
		held.Touched = before.Touched
	}
	t.bound[b.Conversation] = held
	if t.byTarget[b.Target] == nil {
		t.byTarget[b.Target] = make(map[Route]bool)
	}
	t.byTarget[b.Target][b.Conversation] = true
}

// drop removes and returns what is bound to a conversation, if anything.
func (t *bindingTable) drop(conversation Route) heldBinding {
	old, ok := t.bound[conversation]
	if !ok {
		return heldBinding{}
	}
	delete(t.bound, conversation)
	delete(t.byTarget[old.Target], conversation)
	if len(t.byTarget[old.Target]) == 0 {
		delete(t.byTarget, old.Target)
	}
	return old
}

// touch moves the time at which a binding was last used, never back, and reports whether that is worth an entry in the log.
func (t *bindingTable) touch(conversation Route, now time.Time) (write bool, err error) {
	if _, err := t.live(conversation, now); err != nil {
		return false, err
	}
	held := t.bound[conversation]
	if !now.After(held.Touched) {
		return false, nil
	}
	held.Touched = now
	t.bound[conversation] = held
	return now.Sub(held.written) >= min(touchEvery, max(held.Idle/8, 1)), nil
}

// all returns every binding in the order of their conversations.
func (t *bindingTable) all() []Binding {
	bindings := make([]Binding, 0, len(t.bound))
	for _, held := range t.bound {
		bindings = append(bindings, held.Binding)
	}
	slices.SortFunc(bindings, compareBindings)
	return bindings
}

// of returns the bindings of a session in the order of their conversations.
func (t *bindingTable) of(target Key) []Binding {
	bindings := make([]Binding, 0, len(t.byTarget[target]))
	for conversation := range t.byTarget[target] {
		bindings = append(bindings, t.bound[conversation].Binding)
	}
	slices.SortFunc(bindings, compareBindings)
	return bindings
}

func compareBindings(a, b Binding) int {
	x, y := a.Conversation, b.Conversation
	return cmp.Or(cmp.Compare(x.Channel, y.Channel), cmp.Compare(x.Account, y.Account), cmp.Compare(x.To, y.To), cmp.Compare(x.Thread, y.Thread))
}

// snapshot returns the fact that says all of the table.
func (t *bindingTable) snapshot(now time.Time) *bindingFact {
	return &bindingFact{Version: bindingVersion, Kind: factSnapshot, At: now, All: t.all()}
}

// long reports whether the log is much longer than what it says.
func (t *bindingTable) long() bool { return t.facts > max(1000, 4*len(t.bound)) }

func bound(b Binding, now time.Time) *bindingFact {
	return &bindingFact{Version: bindingVersion, Kind: factBound, Binding: &b, At: now}
}

func unbound(b Binding, why UnbindReason, now time.Time) *bindingFact {
	return &bindingFact{Version: bindingVersion, Kind: factUnbound, Binding: &b, Reason: why, At: now}
}

// decideBind returns the facts that bind a conversation, after the rules of [Bindings.Bind].
func (t *bindingTable) decideBind(b Binding, replace bool, now time.Time) ([]*bindingFact, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	held, ok := t.bound[b.Conversation]
	old := held.Binding
	if !ok {
		return []*bindingFact{bound(b, now)}, nil
	}
	if why, over := old.Expired(now); over {
		return []*bindingFact{unbound(old, why, now), bound(b, now)}, nil
	}
	switch {
	case old.Target != b.Target && !replace:
		return nil, &BindingError{Binding: old, By: b.By, Err: ErrBound}
	case !old.MayChange(b.By):
		return nil, &BindingError{Binding: old, By: b.By, Err: ErrNotOwner}
	case old.Target != b.Target:
		return []*bindingFact{unbound(old, UnbindReplaced, now), bound(b, now)}, nil
	}
	return []*bindingFact{bound(b, now)}, nil
}

// live returns the binding of a conversation, an error if it has none that has not ended.
func (t *bindingTable) live(conversation Route, now time.Time) (Binding, error) {
	if held, ok := t.bound[conversation]; ok {
		if _, over := held.Expired(now); !over {
			return held.Binding, nil
		}
	}
	return Binding{}, fmt.Errorf("session: binding of %q in %q on %q: %w", conversation.Thread, conversation.To, conversation.Channel, ErrNotFound)
}

// decideUnbind returns the fact that ends a binding and what it ends.
func (t *bindingTable) decideUnbind(conversation Route, by string, why UnbindReason, now time.Time) ([]*bindingFact, Unbound, error) {
	old, err := t.live(conversation, now)
	if err != nil {
		return nil, Unbound{}, err
	}
	if !old.MayChange(by) {
		return nil, Unbound{}, &BindingError{Binding: old, By: by, Err: ErrNotOwner}
	}
	return []*bindingFact{unbound(old, why, now)}, Unbound{Binding: old, Reason: why}, nil
}

// decideLimit returns the facts that give new limits, and the bindings that get them.
func (t *bindingTable) decideLimit(conversation Route, by string, limit Limit, now time.Time) ([]*bindingFact, []Binding, error) {
	here, err := t.live(conversation, now)
	if err != nil {
		return nil, nil, err
	}
	if !here.MayChange(by) {
		return nil, nil, &BindingError{Binding: here, By: by, Err: ErrNotOwner}
	}
	var facts []*bindingFact
	var changed []Binding
	for _, other := range t.of(here.Target) {
		_, over := other.Expired(now)
		near := other.Conversation.Channel == conversation.Channel && other.Conversation.Account == conversation.Account
		if over || !near || !other.MayChange(by) {
			continue
		}
		next := other.limited(limit, now)
		if err := next.Validate(); err != nil {
			return nil, nil, err
		}
		facts, changed = append(facts, bound(next, now)), append(changed, next)
	}
	return facts, changed, nil
}

// expired returns the bindings that have expired at now, and why.
func (t *bindingTable) expired(now time.Time) []Unbound {
	var ended []Unbound
	for _, b := range t.all() {
		if why, over := b.Expired(now); over {
			ended = append(ended, Unbound{Binding: b, Reason: why})
		}
	}
	return ended
}

// next returns when the first binding expires, zero if none does.
func (t *bindingTable) next() time.Time {
	var next time.Time
	for _, held := range t.bound {
		if at, _, ok := held.Expiry(); ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}
