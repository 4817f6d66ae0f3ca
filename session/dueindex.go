package session

import (
	"container/heap"
	"sync"
	"time"
)

// A dueIndex orders logs by a time that is no later than when they are due. A log that moves to a later time or to never stays where
// it is until somebody asks for what is due, so a busy log rarely touches the index. A log's lock is taken before that of the index.
// The zero dueIndex is empty.
type dueIndex struct {
	mu   sync.Mutex
	heap dueHeap
}

// A dueItem is the head of a log that may be in a dueIndex: of one without entries, in no index, if only root and lock are set.
type dueItem struct {
	root    Key
	lock    sync.Locker // of the log; it guards what follows, but for the place
	last    Seq
	due     time.Time
	indexed time.Time // where the index has it: no later than due, unless due is zero; zero: nowhere
	place   duePlace
}

// A duePlace is where an item is in the index, whose lock guards it.
type duePlace struct {
	at time.Time
	n  int // counted from one; 0: nowhere
}

func (l *dueItem) head() Head { return Head{Root: l.root, Last: l.last, Due: l.due} }

// schedule has the index find l in time. Whoever has made it due earlier calls it.
func (x *dueIndex) schedule(l *dueItem) {
	if !l.due.IsZero() && (l.indexed.IsZero() || l.due.Before(l.indexed)) {
		l.indexed = l.due
		x.set(l, l.due)
	}
}

// due calls f with the head of each log that is due before t until it says no, and mends the index where it was early.
func (x *dueIndex) due(t time.Time, f func(Head) bool) {
	for _, l := range x.before(t) {
		l.lock.Lock()
		h, due := l.head(), x.isDue(l, t)
		l.lock.Unlock()
		if due && !f(h) {
			return
		}
	}
}

// isDue reports whether l, which before has found, is due before t. If it is not, it gets its right place, unless somebody has taken it
// out meanwhile.
func (x *dueIndex) isDue(l *dueItem, t time.Time) bool {
	if !l.due.IsZero() && l.due.Before(t) {
		return true
	}
	if !l.indexed.IsZero() {
		l.indexed = l.due
		x.set(l, l.due)
	}
	return false
}

// remove takes l out.
func (x *dueIndex) remove(l *dueItem) {
	l.indexed = time.Time{}
	x.set(l, l.indexed)
}

// set moves l to the time at, or out of the index if that is zero.
func (x *dueIndex) set(l *dueItem, at time.Time) {
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

// before returns the logs whose time in the index is before t, looking at no more than three times as many.
func (x *dueIndex) before(t time.Time) []*dueItem {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []*dueItem
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		if i := queue[0]; i < len(x.heap) && x.heap[i].place.at.Before(t) {
			found = append(found, x.heap[i])
			queue = append(queue, 2*i+1, 2*i+2)
		}
	}
	return found
}

// dueHeap is a heap for package heap, the earliest first.
type dueHeap []*dueItem

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].place.at.Before(h[j].place.at) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place.n, h[j].place.n = i+1, j+1
}

func (h *dueHeap) Push(x any) {
	l := x.(*dueItem)
	*h = append(*h, l)
	l.place.n = len(*h)
}

func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.place.n = 0
	return l
}
