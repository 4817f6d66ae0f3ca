package tree

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/session"
)

// fewBound is how many conversations of a session are looked through one by one. Most sessions have
// one.
const fewBound = 8

// A boundIndex finds a conversation among those that are bound to a session, of which there are
// more than fewBound. It is derived from RunState.Bound: BenchmarkManyBound has what it saves.
type boundIndex struct {
	no   map[session.Route]uint64 // of each conversation; later ones have greater numbers
	nos  []uint64                 // those of Bound, in its order
	next uint64

	until int64 // what the last call of boundBy asked for
	early int   // how many are bound by then
}

// index returns the index of r, which it makes at the first call.
func (r *Run) index() *boundIndex {
	if r.bound == nil {
		r.ownRare().bound = &boundIndex{no: make(map[session.Route]uint64, len(r.Bound))}
		for i := range r.Bound {
			r.bound.add(&r.Bound[i])
		}
	}
	return r.bound
}

func (x *boundIndex) add(c *Conversation) {
	if _, twice := x.no[c.Route]; !twice { // twice: in an image that the tree did not make
		x.no[c.Route] = x.next
	}
	x.nos = append(x.nos, x.next)
	x.next++
	if c.At <= x.until {
		x.early++
	}
}

// IsBound reports whether a conversation is bound to a session.
func (t *Tree) IsBound(k session.Key, route session.Route) bool {
	r := t.Run(k)
	return r != nil && r.bindingOf(route) >= 0
}

// bindingOf returns where Bound has a conversation, or -1.
func (r *Run) bindingOf(route session.Route) int {
	if len(r.Bound) <= fewBound {
		return slices.IndexFunc(r.Bound, func(c Conversation) bool { return c.Route == route })
	}
	no, ok := r.index().no[route]
	if !ok {
		return -1
	}
	i, _ := slices.BinarySearch(r.bound.nos, no)
	return i
}

// boundBy reports whether a conversation of r was bound by a time.
func (r *Run) boundBy(until int64) bool {
	early := func(c Conversation) bool { return c.At <= until }
	if len(r.Bound) <= fewBound {
		return slices.ContainsFunc(r.Bound, early)
	}
	x := r.index()
	if x.until != until {
		x.until, x.early = until, 0
		for i := range r.Bound {
			if early(r.Bound[i]) {
				x.early++
			}
		}
	}
	return x.early > 0
}

// addBound adds a conversation to Bound, in place: an image has a copy.
func (r *Run) addBound(c Conversation) {
	r.ownRare().Bound = append(r.Bound, c)
	if r.bound != nil {
		r.bound.add(&c)
	}
}

// removeBound removes the conversation i of Bound, in place.
func (r *Run) removeBound(i int) {
	x, c := r.bound, r.Bound[i]
	own := r.ownRare()
	own.Bound = removeAt(r.Bound, i)
	switch {
	case len(r.Bound) == 0:
		own.Bound, own.bound = nil, nil
	case x == nil:
	case len(r.Bound) <= fewBound || len(x.no) != len(x.nos):
		own.bound = nil
	default:
		delete(x.no, c.Route)
		if x.nos = removeAt(x.nos, i); c.At <= x.until {
			x.early--
		}
	}
}

// removeAt removes the element i of a list in place, and moves what is on the shorter side of it.
func removeAt[T any](list []T, i int) []T {
	if i >= len(list)/2 {
		return slices.Delete(list, i, i+1)
	}
	copy(list[1:i+1], list[:i])
	clear(list[:1])
	return list[1:]
}

func (t *Tree) applyBound(r *Run, f *Fact) error {
	switch {
	case r.Archiving != 0:
		return &CorruptError{f.Kind, f.Run, "it is being archived"}
	case r.bindingOf(*f.Route) >= 0:
		return &CorruptError{f.Kind, f.Run, "it has the conversation already"}
	}
	at := f.At
	if r.State.Terminal() {
		at = max(at, sat.Add(r.Ended, 1)) // see closing; the clock may have been set back
	}
	r.addBound(Conversation{*f.Route, at})
	r.hastened = false
	return nil
}

func (t *Tree) applyUnbound(r *Run, f *Fact) error {
	i := r.bindingOf(*f.Route)
	if i < 0 {
		return &CorruptError{f.Kind, f.Run, "it does not have the conversation"}
	}
	r.removeBound(i)
	delete(t.unbindRetries, r)
	t.armTimer(r) // it may be archived now
	t.touch(r)    // and so may what is below it
	return nil
}
