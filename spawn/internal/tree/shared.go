package tree

import (
	"reflect"

	"github.com/offshoot-sdk/offshoot/session"
)

// shared holds what many facts of one tree have in common, so that the tree keeps it once: keys,
// short texts, routes and grants. The zero value is empty. It is not safe for concurrent use.
type shared struct {
	keys  map[string]session.Key
	last  [2]session.Key // the last keys, the younger one first
	once  bool           // the keys to come are not kept: each occurs once, but for the last ones
	texts map[string]string
	route *session.Route // the last one
	grant *Grant         // the last one

	specs   slab[Spec]
	answers slab[Result]
}

// A slab makes values several at a time, because an allocation for each takes a good part of the
// time in which a tree with 200,000 runs is opened. The memory of those that were made together is
// free when none of them is in use. The zero value is ready.
type slab[T any] struct{ left []T }

// slabBytes is how much a slab allocates at a time, at most. The allocator has that size.
const slabBytes = 8192

// next returns a new zero value.
func (s *slab[T]) next() *T {
	if len(s.left) == 0 {
		s.left = make([]T, max(1, slabBytes/reflect.TypeFor[T]().Size()))
	}
	p := &s.left[0]
	s.left = s.left[1:]
	return p
}

// Bounds of shared.texts. A table that is full stays as it is: the words of a tree that are worth
// keeping come early.
const (
	maxWords     = 4096
	maxWordBytes = 128
)

// word returns b as a string, one for all that are equal.
func (w *shared) word(b []byte) string {
	if t, ok := w.texts[string(b)]; ok {
		return t
	}
	t := string(b)
	if w.texts == nil {
		w.texts = make(map[string]string)
	}
	if len(t) <= maxWordBytes && len(w.texts) < maxWords {
		w.texts[t] = t
	}
	return t
}

// key returns the key that b is the text of.
func (w *shared) key(b []byte) (session.Key, bool) {
	for _, k := range w.last {
		if k.String() == string(b) {
			return k, true
		}
	}
	k, ok := w.keys[string(b)]
	if !ok {
		if k.UnmarshalText(b) != nil {
			return session.Key{}, false
		}
		w.keep(k, string(b))
	}
	w.last = [2]session.Key{k, w.last[0]}
	return k, true
}

// keep keeps the key k, which was written as text.
func (w *shared) keep(k session.Key, text string) {
	if w.once {
		return
	}
	if w.keys == nil {
		w.keys = make(map[string]session.Key)
	}
	if text == k.String() {
		text = k.String() // one string in memory for both
	}
	w.keys[text] = k
}

// grantOf returns the last grant if it is equal to g, else a copy of g.
func (w *shared) grantOf(g *Grant) *Grant {
	if w.grant == nil || !w.grant.equal(g) {
		own := *g
		w.grant = &own
	}
	return w.grant
}

// routeOf returns the last route if it is equal to r, else a copy of r. No route is ever changed.
func (w *shared) routeOf(r session.Route) *session.Route {
	if w.route == nil || *w.route != r {
		own := new(session.Route)
		*own = r
		w.route = own
	}
	return w.route
}
