package few

import (
	"iter"
	"slices"
)

// A Map is like a built-in map. It takes the memory of its entries while they are few, and finds
// one of them as fast. The zero Map is empty. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	list []entry[K, V]
	all  map[K]V // nil: all are in list; else none is
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// most is how many entries a list has before they go to a built-in map.
const most = 4

// WithRoom returns an empty Map that is about to get so many keys.
func WithRoom[K comparable, V any](n int) (m Map[K, V]) {
	if n > most {
		m.all = make(map[K]V, n)
	}
	return m
}

func (m *Map[K, V]) index(k K) int {
	for i := range m.list {
		if m.list[i].key == k {
			return i
		}
	}
	return -1
}

// Get returns the value of a key, and whether there is one.
func (m *Map[K, V]) Get(k K) (v V, ok bool) {
	if m.all != nil {
		v, ok = m.all[k]
		return v, ok
	}
	if i := m.index(k); i >= 0 {
		return m.list[i].value, true
	}
	return v, false
}

// Of returns the value of a key, or the zero value if there is none.
func (m *Map[K, V]) Of(k K) V {
	v, _ := m.Get(k)
	return v
}

// Has reports whether a key has a value.
func (m *Map[K, V]) Has(k K) bool {
	_, ok := m.Get(k)
	return ok
}

// Set gives a key a value.
func (m *Map[K, V]) Set(k K, v V) {
	if m.all == nil {
		if i := m.index(k); i >= 0 {
			m.list[i].value = v
			return
		}
		if len(m.list) < most {
			m.list = append(m.list, entry[K, V]{k, v})
			return
		}
		m.all = make(map[K]V, 2*most)
		for _, e := range m.list {
			m.all[e.key] = e.value
		}
		m.list = nil
	}
	m.all[k] = v
}

// Delete removes a key and its value, if there is one.
func (m *Map[K, V]) Delete(k K) {
	if m.all != nil {
		delete(m.all, k)
		return
	}
	if i := m.index(k); i >= 0 {
		last := len(m.list) - 1
		m.list[i], m.list[last] = m.list[last], entry[K, V]{}
		m.list = m.list[:last]
	}
}

// Len returns how many keys there are.
func (m *Map[K, V]) Len() int { return len(m.list) + len(m.all) }

// All yields the keys and their values in no certain order. The caller may set and delete the key
// that it was given, and no other.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		// From the last one on: Delete puts the last one in the place of the one it removes.
		for _, e := range slices.Backward(m.list) {
			if !yield(e.key, e.value) {
				return
			}
		}
		for k, v := range m.all {
			if !yield(k, v) {
				return
			}
		}
	}
}

// Put gives a key of a built-in map a value. It makes the map, of which many are never used.
func Put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}
