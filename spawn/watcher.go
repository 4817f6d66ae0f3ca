package spawn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// watchBounds bound the memory that a watcher takes. What does not fit into the queue is read from
// the journal once the watcher wants it. A watcher of all trees forgets where it was in a tree that
// is beyond the number of trees, and such a tree begins with an EventSnapshot again.
type watchBounds struct {
	events, bytes int // in the queue
	trees         int
}

// defaultWatchBounds are the bounds outside of tests.
var defaultWatchBounds = watchBounds{events: 4096, bytes: 4 << 20, trees: 100_000}

// visitAtOnce is how many trees a watcher of all trees asks for their state at a time.
const visitAtOnce = 64

// watcher collects events for one loop over Events. Its queue has what the loop has not taken. The
// owners of trees put events in and never wait.
type watcher struct {
	sup   *Supervisor
	shell *treeShell // of the tree that is watched; nil: all trees
	query EventQuery
	wake  chan struct{} // has room for one: there may be something to do

	mu      sync.Mutex
	feeds   map[session.Key]*feed
	queue   []queued
	head    int // of the queue
	bytes   int // of the events in the queue
	unread  []*feed
	visits  []*treeShell // trees that were in memory when the watcher began
	visited int          // how many of them are being asked for their state
	begun   bool         // a loop has begun
	closed  bool
}

// A feed is what a watcher knows of one tree. A feed is whole if its tree has told the watcher what
// it was like at one place, and all events since are yielded, in the queue or to be read.
type feed struct {
	root session.Key
	at   Cursor // up to here everything was yielded; zero: nothing was
	// start is the place of an EventSnapshot that is due; zero: none is, or its place is not known.
	start Cursor
	whole bool

	unread  bool // the journal has more than the queue: the feed is in watcher.unread
	reading bool // the loop reads the journal

	// The queue has the batches behind linkedFrom up to linkedTo, if linked is set.
	linked     bool
	linkedFrom session.Seq
	linkedTo   Cursor

	// joined says since when no delta of the tree was missed, as Supervisor.joined counts. The feed
	// gets no other deltas of an answer that began before.
	joined uint64

	round   uint32 // what is in the queue with another number was dropped
	pending int    // events in the queue
}

// queued is an event in the queue of a watcher. Watchers share events and do not change them.
type queued struct {
	feed  *feed
	round uint32
	event *TreeEvent
}

// selects reports whether the query selects an event.
func (q *EventQuery) selects(e *TreeEvent) bool {
	if q.Run != "" && e.Run != q.Run || !q.Session.IsZero() && e.Session != q.Session {
		return false
	}
	if e.Kind == EventDelta {
		form := q.deltas()
		return form != DeltasNone && (e.Void || e.in(form) != "")
	}
	return len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)
}

// deltas returns in which form the query selects deltas.
func (q *EventQuery) deltas() DeltaForm {
	if q.Deltas == DeltasNone && slices.Contains(q.Kinds, EventDelta) {
		return DeltasShown
	}
	return q.Deltas
}

// showsState reports whether an EventSnapshot or EventGap is for the watcher: not if its tree is
// one of many and has nothing that the query selects.
func (w *watcher) showsState(e *TreeEvent) bool {
	return w.shell != nil || len(e.State.Sessions) > 0 ||
		w.query.Run == "" && w.query.Session.IsZero()
}

// notify wakes the loop. It does not block.
func (w *watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// addFeed adds the feed of a tree. The lock is held.
func (w *watcher) addFeed(root session.Key) *feed {
	if len(w.feeds) >= w.sup.watchBounds.trees && w.shell == nil {
		w.forgetFeeds()
	}
	f := &feed{root: root}
	w.feeds[root] = f
	return f
}

// forgetFeeds drops the feeds of which nothing is pending or unread, or all if those are few. The
// lock is held.
func (w *watcher) forgetFeeds() {
	for root, f := range w.feeds {
		if f.pending == 0 && !f.unread && !f.reading {
			delete(w.feeds, root)
		}
	}
	if len(w.feeds) > w.sup.watchBounds.trees/2 {
		w.dropQueue()
		clear(w.feeds)
		w.unread = nil
	}
}

// beginRound shows the watcher what a tree is like before a round. The owner calls it.
func (w *watcher) beginRound(t *tree.Tree, at owner.Place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	root := t.Root().Key()
	f := w.feeds[root]
	switch {
	case f == nil && at.Seq == 0: // it begins with the first batch, if there is ever one
		return
	case f == nil:
		f = w.addFeed(root)
	case f.whole:
		return
	}
	w.addSnapshot(f, t, at)
}

// addSnapshot begins a feed with the state of its tree. The lock is held.
func (w *watcher) addSnapshot(f *feed, t *tree.Tree, at owner.Place) {
	e := stateEvent(EventSnapshot, t, endOf(f.root, at), &w.query, w.sup.now)
	f.whole, f.unread, f.start, f.joined = true, false, e.Cursor, w.sup.joined.Add(1)
	f.round, f.pending = f.round+1, 0
	f.linked, f.linkedFrom, f.linkedTo = true, at.Seq, e.Cursor
	if w.showsState(e) {
		w.push(f, e)
	} else {
		f.at = e.Cursor
	}
}

// offer gives the watcher the events of a batch. The owner calls it.
func (w *watcher) offer(root session.Key, after session.Seq, end Cursor, events []*TreeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	f := w.feeds[root]
	if f == nil {
		if after != 0 {
			return // the next round shows what the tree is like
		}
		f = w.addFeed(root)
		w.addSnapshot(f, tree.New(root, w.sup.ownerConfig.Options), owner.Place{})
	}
	switch {
	case f.unread || !f.whole && !f.reading:
		return // what is shown or read includes the batch
	case f.linked && f.linkedTo.seq != after, !f.linked && !f.reading && f.at.seq < after:
		w.markUnread(f) // another owner has appended meanwhile
		return
	case !f.linked:
		f.linked, f.linkedFrom = true, after
	}
	f.linkedTo = end
	for _, e := range events {
		if w.query.selects(e) && !w.push(f, e) {
			return
		}
	}
	w.catchUp(f)
}

// catchUp notes that everything of a feed was yielded, if that is so. The lock is held.
func (w *watcher) catchUp(f *feed) {
	if f.pending == 0 && f.linked && !f.reading && !f.at.IsZero() && f.linkedTo.after(f.at) {
		f.at = f.linkedTo
	}
}

// show gives the watcher an event that no entry records.
func (w *watcher) show(root session.Key, e *TreeEvent) {
	if !w.query.selects(e) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	f := w.feeds[root]
	aboutJournal := e.Kind == EventLost || e.Kind == EventStalled
	switch {
	case aboutJournal && f == nil:
		f = &feed{root: root}
	case aboutJournal:
	case f == nil || !f.whole || f.unread:
		return
	case e.Kind == EventDelta && f.joined > e.since:
		return
	}
	w.push(f, e)
}

// push adds an event to the queue. If the queue is full, deltas go first. Then it is emptied, and
// the loop reads from the journal what was in it, and e, for which push returns false. The lock is
// held.
func (w *watcher) push(f *feed, e *TreeEvent) bool {
	size, bounds := e.size(), &w.sup.watchBounds
	full := func() bool {
		return len(w.queue)-w.head >= bounds.events || w.bytes+size > bounds.bytes
	}
	if full() && isDurable(e.Kind) {
		w.dropDeltas()
	}
	switch {
	case !full():
		if w.head > 0 && len(w.queue) == cap(w.queue) {
			w.queue = slices.Delete(w.queue, 0, w.head)
			w.head = 0
		}
		w.queue = append(w.queue, queued{f, f.round, e})
		w.bytes += size
		f.pending++
	case isDurable(e.Kind):
		w.dropQueue()
		w.markUnread(f)
		return false
	default:
		w.drop(f, e)
	}
	w.notify()
	return true
}

// isDurable reports whether the events of a kind can be read from the journal. A state can.
func isDurable(k EventKind) bool {
	switch k {
	case EventDelta, EventRefused, EventLost, EventStalled, EventTool, EventToolEnded,
		EventProgress:
		return false
	default:
		return true
	}
}

// drop notes that a feed has missed an event. The rest of an answer of which it has missed a delta
// is not for it. The lock is held.
func (w *watcher) drop(f *feed, e *TreeEvent) {
	if e.Kind == EventDelta {
		f.joined = w.sup.joined.Add(1)
	}
}

// dropDeltas removes the deltas from the queue. The lock is held.
func (w *watcher) dropDeltas() {
	kept := w.queue[:0]
	for _, q := range w.queue[w.head:] {
		if q.round == q.feed.round && q.event.Kind != EventDelta {
			kept = append(kept, q)
			continue
		}
		w.bytes -= q.event.size()
		if q.round == q.feed.round {
			q.feed.pending--
			w.drop(q.feed, q.event)
		}
	}
	clear(w.queue[len(kept):])
	w.queue, w.head = kept, 0
}

// dropQueue empties the queue. What was in it is to be read from the journal. The lock is held.
func (w *watcher) dropQueue() {
	for _, q := range w.queue[w.head:] {
		if q.round != q.feed.round {
			continue
		}
		if w.drop(q.feed, q.event); isDurable(q.event.Kind) {
			w.markUnread(q.feed)
		}
	}
	w.queue, w.head, w.bytes = nil, 0, 0
}

// markUnread has the loop read the journal of a feed, from where it is. What the queue has of it is
// dropped. The lock is held.
func (w *watcher) markUnread(f *feed) {
	f.round++
	f.pending, f.linked = 0, false
	if !f.unread {
		f.unread = true
		w.unread = append(w.unread, f)
	}
	w.notify()
}

// take returns the next event of the queue, or false.
func (w *watcher) take() (e TreeEvent, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.head < len(w.queue) {
		q := w.queue[w.head]
		w.queue[w.head] = queued{}
		if w.head++; w.head == len(w.queue) {
			w.queue, w.head = w.queue[:0], 0
		}
		w.bytes -= q.event.size()
		if q.round != q.feed.round {
			continue
		}
		f := q.feed
		f.pending--
		e = *q.event
		if e.Kind == EventDelta {
			e.Text, e.raw, e.since = e.in(w.query.deltas()), "", 0
		}
		switch {
		case !isDurable(e.Kind):
			e.Cursor, ok = f.at, true
		case e.Cursor.after(f.at) || f.at.IsZero():
			f.at, f.start, ok = e.Cursor, Cursor{}, true
		} // else the journal had it, too
		w.catchUp(f)
		if ok {
			return e, true
		}
	}
	return TreeEvent{}, false
}

// loop yields what the watcher sees until ctx ends, the loop breaks, or the Supervisor is shut
// down.
func (w *watcher) loop(ctx context.Context, yield func(TreeEvent, error) bool) {
	var elsewhere <-chan time.Time // nil, which never fires, if no other process writes
	if w.shell != nil && w.sup.cluster != nil {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		elsewhere = ticker.C
	}
	for {
		taken := 0
		for ; taken < visitAtOnce; taken++ {
			if ctx.Err() != nil {
				return
			}
			e, ok := w.take()
			if !ok {
				break
			}
			if !yield(e, nil) {
				return
			}
		}
		if w.sup.closedCtx.Err() != nil {
			w.drain(ctx, yield)
			return
		}
		if f := w.nextUnread(); f != nil {
			if !w.read(ctx, f, yield) {
				return
			}
			continue
		}
		if taken == visitAtOnce || w.visit() {
			continue
		}
		select {
		case <-w.wake:
		case <-elsewhere:
			w.lookElsewhere(ctx)
		case <-ctx.Done():
			return
		case <-w.sup.closed:
		}
	}
}

// drain yields what the queue has at the end of a shutdown, after which nothing more is offered.
func (w *watcher) drain(ctx context.Context, yield func(TreeEvent, error) bool) {
	for ctx.Err() == nil {
		if e, ok := w.take(); !ok || !yield(e, nil) {
			return
		}
	}
}

// lookElsewhere has the loop read the journal of a tree that this process does not have.
func (w *watcher) lookElsewhere(ctx context.Context) {
	root := w.shell.owner.Root()
	if w.sup.cluster.has(root) {
		return
	}
	w.mu.Lock()
	f := w.feeds[root]
	if f != nil && f.at.seq == 0 {
		w.mu.Unlock()
		if !w.isOnRecord(ctx, root) { // the loop would show again that there is nothing
			return
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if f != nil && f.pending == 0 {
		w.markUnread(f)
	}
}

// isOnRecord reports whether a tree has a journal. If that cannot be read, it is taken to have one.
func (w *watcher) isOnRecord(ctx context.Context, root session.Key) bool {
	open, cancel := w.sup.untilClosed(ctx)
	defer cancel()
	for range w.sup.reads.Read(open, root, 0) { //nolint:errcheck // with an error it is taken to have
		return true
	}
	return false
}

// nextUnread returns a feed whose journal is to be read, or nil.
func (w *watcher) nextUnread() *feed {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.unread) > 0 {
		f := w.unread[0]
		w.unread[0] = nil
		w.unread = w.unread[1:]
		if f.unread && w.feeds[f.root] == f {
			return f
		}
		f.unread = false
	}
	return nil
}

// visit asks some of the trees that were in memory when the watcher began for their state. It
// reports whether there were any.
func (w *watcher) visit() bool {
	w.mu.Lock()
	n := min(visitAtOnce-w.visited, len(w.visits))
	some := w.visits[:n]
	w.visits, w.visited = w.visits[n:], w.visited+n
	w.mu.Unlock()
	for _, sh := range some {
		sh.owner.PeekThen(func() {
			w.mu.Lock()
			w.visited--
			w.mu.Unlock()
			w.notify()
		})
	}
	return n > 0
}

// watch returns a new watcher of what a query selects.
func (s *Supervisor) watch(q EventQuery) *watcher {
	w := &watcher{
		sup: s, query: q, wake: make(chan struct{}, 1), feeds: make(map[session.Key]*feed),
	}
	for _, at := range q.After {
		f := &feed{root: at.root, at: at, whole: true, unread: true}
		w.feeds[f.root] = f
		w.unread = append(w.unread, f)
	}
	if q.Root.IsZero() {
		s.mu.Lock()
		s.watchers.Store(new(append(slices.Clip(s.allWatchers()), w)))
		s.mu.Unlock()
		w.visits = s.allShells()
		return w
	}
	if w.feeds[q.Root] == nil {
		f := w.addFeed(q.Root)
		f.unread = true
		w.unread = append(w.unread, f)
	}
	s.keepShell(q.Root, func(sh *treeShell) {
		w.shell = sh
		few.Put(&sh.watchers, w, struct{}{})
	})
	return w
}

// keepShell returns the shell of a tree after keep has changed it, under its lock, so that it is in
// use and stays.
func (s *Supervisor) keepShell(root session.Key, keep func(*treeShell)) *treeShell {
	for {
		sh := s.shellOf(root)
		sh.mu.Lock()
		keep(sh)
		sh.mu.Unlock()
		if !sh.owner.Retired() {
			return sh
		}
	}
}

// allWatchers returns the watchers of all trees. The caller does not change the list.
func (s *Supervisor) allWatchers() []*watcher {
	if list := s.watchers.Load(); list != nil {
		return *list
	}
	return nil
}

// close ends the watcher, whose events are dropped. It may be called more than once.
func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	w.queue, w.head, w.bytes, w.unread, w.visits = nil, 0, 0, nil, nil
	clear(w.feeds)
	w.mu.Unlock()
	if sh := w.shell; sh != nil {
		sh.mu.Lock()
		delete(sh.watchers, w)
		sh.mu.Unlock()
		w.sup.forget(sh)
		return
	}
	s := w.sup
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.allWatchers())
	list = slices.DeleteFunc(list, func(x *watcher) bool { return x == w })
	s.watchers.Store(&list)
}

// begin reports whether the watcher is for the loop that calls it: not after close, nor for a
// second loop.
func (w *watcher) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.begun && !w.closed
	w.begun = true
	return first
}

// eachWatcher calls f for every watcher of the tree. The lock is held.
func (sh *treeShell) eachWatcher(f func(*watcher)) {
	for w := range sh.watchers {
		f(w)
	}
	for _, w := range sh.sup.allWatchers() {
		f(w)
	}
}

// Round implements owner.Executor.
func (sh *treeShell) Round(t *tree.Tree, at owner.Place) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.eachWatcher(func(w *watcher) { w.beginRound(t, at) })
}

// showBatch gives the events of a batch to all watchers of the tree. The lock is held.
func (sh *treeShell) showBatch(
	t *tree.Tree, after session.Seq, at owner.Place, facts []tree.Fact,
) {
	if len(sh.watchers) == 0 && len(sh.sup.allWatchers()) == 0 {
		return
	}
	end := endOf(sh.owner.Root(), at)
	events := eventsOf(t, end, facts)
	sh.eachWatcher(func(w *watcher) { w.offer(end.root, after, end, events) })
}

// notifyWatchers gives an event that no fact records to all watchers of the tree.
func (sh *treeShell) notifyWatchers(e TreeEvent) {
	sh.mu.Lock()
	sh.wakeIdlers()
	sh.mu.Unlock()
	sh.showLive(e)
}

// showLive gives an event that no fact records to the watchers of the tree. It is not for Idle.
func (sh *treeShell) showLive(e TreeEvent) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	root := sh.owner.Root()
	sh.eachWatcher(func(w *watcher) { w.show(root, &e) })
}

// watched reports whether a watcher sees events of the tree.
func (sh *treeShell) watched() bool {
	if len(sh.sup.allWatchers()) > 0 {
		return true
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.watchers) > 0
}

// watchesDeltas reports in which forms watchers of the tree want deltas.
func (sh *treeShell) watchesDeltas() (shown, raw bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.eachWatcher(func(w *watcher) {
		form := w.query.deltas()
		shown, raw = shown || form == DeltasShown, raw || form == DeltasRaw
	})
	return shown, raw
}

// wakeIdlers has the calls of Idle look again. The lock is held.
func (sh *treeShell) wakeIdlers() {
	for wake := range sh.idlers.All() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// size returns about how many bytes an event takes.
func (e *TreeEvent) size() int {
	n := 512 + len(e.Text) + len(e.raw) + len(e.Error) + len(e.Label)
	for i := range e.Parts {
		n += 128 + len(e.Parts[i].Name) + len(e.Parts[i].URL) + len(e.Parts[i].Data)
	}
	if e.State != nil {
		for i := range e.State.Sessions {
			n += 256 + len(e.State.Sessions[i].Label)
		}
	}
	return n
}
