package spare

// Max is how many pieces of memory a List keeps.
const Max = 64

// A List keeps pieces of memory that nothing refers to any more. The zero List is empty.
type List[T any] struct{ free []*T }

// Take returns a zero T, in memory that the List has kept or, if it has none, that is new.
func (l *List[T]) Take() *T {
	n := len(l.free)
	if n == 0 {
		return new(T)
	}
	v := l.free[n-1]
	l.free = l.free[:n-1]
	*v = *new(T)
	return v
}

// Keep keeps the memory of v, unless the List has Max pieces. What v has stays readable until Take
// returns it, and is kept alive as long: a caller that does not want that clears v before.
func (l *List[T]) Keep(v *T) {
	if len(l.free) < Max {
		l.free = append(l.free, v)
	}
}

// All yields the pieces, with what they have.
func (l *List[T]) All(yield func(*T) bool) {
	for _, v := range l.free {
		if !yield(v) {
			return
		}
	}
}
