package due

import (
	"container/heap"
	"sync"
	"time"
)

// An Index finds the logs that are due. It orders logs by a time that is never later than their due
// time. A log whose due time moves later, or goes away, keeps its place until a caller asks for
// what is due. So a busy log rarely touches the index.
//
// The zero Index is empty. Its methods may be called concurrently. A caller that holds the lock of
// a log may call them; the Index never takes the lock of a log while it holds its own.
type Index[K, S any] struct {
	mu   sync.Mutex
	heap ordered[K, S]
}

// An Item is the head of a log that may be in an Index. Its owner sets Root and Lock once. Without
// anything else it describes a log without entries that is not in an Index.
type Item[K, S any] struct {
	Root    K
	Lock    sync.Locker // lock of the log; it guards the fields below, except place
	Last    S
	Due     time.Time
	indexed time.Time // time in the index: not later than a Due that is not zero; zero: not in it
	place   place
}

// A place is the position of an item in the index. The lock of the index guards it.
type place struct {
	at time.Time
	n  int // index in the heap plus one; 0: not in it
}

// A Head is a copy of what an Item says of its log. A session.Head converts from it.
type Head[K, S any] struct {
	Root K
	Last S
	Due  time.Time
}

// Head returns the head of the log. The caller holds its lock.
func (l *Item[K, S]) Head() Head[K, S] { return Head[K, S]{Root: l.Root, Last: l.Last, Due: l.Due} }

// Schedule moves l forward in the index if it has become due earlier than its place there. The
// caller holds the lock of l, and calls Schedule after it has set l.Due.
func (x *Index[K, S]) Schedule(l *Item[K, S]) {
	if !l.Due.IsZero() && (l.indexed.IsZero() || l.Due.Before(l.indexed)) {
		l.indexed = l.Due
		x.set(l, l.Due)
	}
}

// Due calls f with the head of each log that is due before t, until f returns false. A log that has
// a place before t but is not due gets its right place. The caller holds no lock of a log.
func (x *Index[K, S]) Due(t time.Time, f func(Head[K, S]) bool) {
	for _, l := range x.before(t) {
		l.Lock.Lock()
		h, due := l.Head(), x.isDue(l, t)
		l.Lock.Unlock()
		if due && !f(h) {
			return
		}
	}
}

// isDue reports whether l, which before has found, is due before t. If it is not, it gets its right
// place, unless it has been taken out meanwhile.
func (x *Index[K, S]) isDue(l *Item[K, S], t time.Time) bool {
	if !l.Due.IsZero() && l.Due.Before(t) {
		return true
	}
	if !l.indexed.IsZero() {
		l.indexed = l.Due
		x.set(l, l.Due)
	}
	return false
}

// Remove takes l out of the index. The caller holds the lock of l.
func (x *Index[K, S]) Remove(l *Item[K, S]) {
	l.indexed = time.Time{}
	x.set(l, l.indexed)
}

// set moves l to the time at, or out of the index if that is zero.
func (x *Index[K, S]) set(l *Item[K, S], at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l.place.at = at
	switch in := l.place.n > 0; {
	case in && at.IsZero():
		heap.Remove(&x.heap, l.place.n-1)
	case in:
		heap.Fix(&x.heap, l.place.n-1)
	case !at.IsZero():
		heap.Push(&x.heap, l)
	}
}

// before returns the logs whose time in the index is before t, looking at no more than three times
// as many.
func (x *Index[K, S]) before(t time.Time) []*Item[K, S] {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []*Item[K, S]
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		if i := queue[0]; i < len(x.heap) && x.heap[i].place.at.Before(t) {
			found = append(found, x.heap[i])
			queue = append(queue, 2*i+1, 2*i+2)
		}
	}
	return found
}

// ordered is a heap for package heap, the earliest first.
type ordered[K, S any] []*Item[K, S]

func (h ordered[K, S]) Len() int           { return len(h) }
func (h ordered[K, S]) Less(i, j int) bool { return h[i].place.at.Before(h[j].place.at) }

func (h ordered[K, S]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place.n, h[j].place.n = i+1, j+1
}

func (h *ordered[K, S]) Push(x any) {
	l := x.(*Item[K, S])
	*h = append(*h, l)
	l.place.n = len(*h)
}

func (h *ordered[K, S]) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.place.n = 0
	return l
}
