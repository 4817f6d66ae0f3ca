package fifo

// A Link is the part of an entry that leads to the next one. An entry embeds it, and is in one
// Queue at a time.
type Link[T any] struct{ next *T }

// Linked returns the Link itself.
func (l *Link[T]) Linked() *Link[T] { return l }

// An Entry is a pointer to what embeds a Link.
type Entry[T any] interface {
	*T
	Linked() *Link[T]
}

// A Queue has entries, the oldest first. The zero Queue is empty.
type Queue[T any, E Entry[T]] struct{ first, last *T }

// First returns the oldest entry, which stays, or nil if there is none.
func (q *Queue[T, E]) First() *T { return q.first }

// Push adds an entry behind the others.
func (q *Queue[T, E]) Push(e *T) {
	if q.last == nil {
		q.first = e
	} else {
		E(q.last).Linked().next = e
	}
	q.last = e
}

// PushFront adds an entry before the others.
func (q *Queue[T, E]) PushFront(e *T) {
	if E(e).Linked().next = q.first; q.last == nil {
		q.last = e
	}
	q.first = e
}

// Pop takes the oldest entry, or returns nil if there is none.
func (q *Queue[T, E]) Pop() *T {
	e := q.first
	if e == nil {
		return nil
	}
	l := E(e).Linked()
	if q.first, l.next = l.next, nil; q.first == nil {
		q.last = nil
	}
	return e
}

// All yields the entries, the oldest first. The receiver may not change the Queue meanwhile.
func (q *Queue[T, E]) All(yield func(*T) bool) {
	for e := q.first; e != nil && yield(e); e = E(e).Linked().next {
	}
}
