package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// endOf returns the Cursor behind which the next batch begins.
func endOf(root session.Key, at owner.Place) Cursor {
	c := Cursor{root: root, seq: at.Seq, index: wholeBatch}
	if at.Batch != "" {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(at.Batch))
		c.batch = sum.Sum32()
	}
	return c
}

// after reports whether c is behind a place of the same tree.
func (c Cursor) after(at Cursor) bool {
	return cmp.Or(cmp.Compare(c.seq, at.seq), cmp.Compare(c.index, at.index)) > 0
}

// eventsOf returns the events of the batch that ends at end and is the last that the tree has
// folded. It is the same for the tree of an owner and for one that was read from the journal. The
// Cursor of the last event is end, so that nothing of the batch is left behind it.
func eventsOf(t *tree.Tree, end Cursor, facts []tree.Fact) []*TreeEvent {
	var events []*TreeEvent
	for i := range facts {
		if e, ok := eventOf(t, facts, i); ok {
			e.Cursor = end
			e.Cursor.index = uint32(i)
			events = append(events, &e)
		}
	}
	if len(events) > 0 {
		events[len(events)-1].Cursor = end
	}
	return events
}

// stateEvent returns an EventSnapshot or EventGap of a tree as it is at a place.
func stateEvent(
	kind EventKind, t *tree.Tree, at Cursor, q *EventQuery, now func() time.Time,
) *TreeEvent {
	e := &TreeEvent{
		Kind: kind, Time: timeOf(t.LastFact()), Cursor: at, Session: at.root,
		State: stateOf(t, q),
	}
	if e.Time.IsZero() {
		e.Time = now().UTC()
	}
	of := t.Root().Present()
	e.describe(t, t.Root(), &of)
	e.Turn = int(t.Root().Turns)
	return e
}

// stateOf returns the state of a tree, of the sessions that the query selects.
func stateOf(t *tree.Tree, q *EventQuery) *TreeState {
	s := &TreeState{Runs: t.Runs(), Live: t.Live(), Total: t.Total()}
	pending, blocked := t.Undelivered()
	s.Outbox, s.Blocked = pending+blocked, blocked
	if q.Run != "" || !q.Session.IsZero() {
		t.Walk(func(r *tree.Run) {
			x := sessionStateOf(t, r)
			if (q.Run == "" || x.Run == q.Run) && (q.Session.IsZero() || x.Session == q.Session) {
				s.Sessions = append(s.Sessions, x)
			}
		})
		return s
	}
	shown := []*tree.Run{t.Root()}
	for i := 0; i < len(shown); i++ { // those that have not ended
		seen := 0
		shown[i].Newest(func(c *tree.Run) bool {
			if seen < shown[i].Live() && !c.State.Terminal() {
				seen++
				shown = append(shown, c)
			}
			return len(shown) < MaxStateSessions && seen < shown[i].Live()
		})
	}
	for i := 0; i < len(shown); i++ {
		shown[i].Newest(func(c *tree.Run) bool {
			if len(shown) < MaxStateSessions && c.State.Terminal() {
				shown = append(shown, c)
			}
			return len(shown) < MaxStateSessions
		})
	}
	s.Sessions = make([]SessionState, 0, len(shown))
	for _, r := range shown {
		s.Sessions = append(s.Sessions, sessionStateOf(t, r))
	}
	s.Omitted = t.Runs() + 1 - len(shown)
	return s
}

func sessionStateOf(t *tree.Tree, r *tree.Run) SessionState {
	var e TreeEvent
	of := r.Present()
	e.describe(t, r, &of)
	return SessionState{
		Session: r.Key(), Run: e.Run, Parent: e.Parent, Agent: e.Agent, Model: e.Model,
		Label: e.Label, Depth: e.Depth, Status: e.Status, Turn: int(r.Turns), Children: r.Live(),
		Usage: usageOf(r.SessionUsage()),
	}
}

// A replay reads the journal of one tree and shows what is behind a place.
type replay struct {
	viewer
	from  Cursor // the zero Cursor: the end, whatever that is
	query *EventQuery
	now   func() time.Time
	// fresh asks for an EventSnapshot at the place, or where the journal begins behind it.
	fresh bool
	// show is called with each event behind the place, and with what stands for those that are
	// gone. It returns false if it wants no more.
	show func(*TreeEvent) bool

	found bool // the place is behind
	facts []tree.Fact
	at    owner.Place // of the facts, whose batch has not ended
}

// run reads the journal to its end and returns the place there, or the zero Cursor if show wants no
// more.
func (r *replay) run(entries iter.Seq2[session.Entry, error]) (end Cursor, err error) {
	r.resetTree()
	for e, err := range entries {
		if err != nil {
			return Cursor{}, fmt.Errorf("%w: events of %q: %w", ErrUnreadable, r.root, err)
		}
		if len(r.facts) > 0 && (e.Batch != r.at.Batch || e.Batch == "") && !r.endBatch() {
			return Cursor{}, nil
		}
		if r.last == 0 && !r.beginWith(e) {
			return Cursor{}, nil
		}
		f, err := r.fold(e, len(r.facts) == 0)
		if err != nil {
			err = &JournalError{Root: r.root, Seq: e.Seq, Err: err}
			return Cursor{}, fmt.Errorf("%w: events of %q: %w", ErrUnreadable, r.root, err)
		}
		r.facts, r.at = append(r.facts, *f), owner.Place{Seq: e.Seq, Batch: e.Batch}
	}
	if len(r.facts) > 0 && !r.endBatch() {
		return Cursor{}, nil
	}
	if end = endOf(r.root, r.at); r.found || r.from.IsZero() || r.goOn(EventGap, end) {
		return end, nil
	}
	return Cursor{}, nil
}

// beginWith takes a place before the first entry as found if the journal begins there.
func (r *replay) beginWith(e session.Entry) bool {
	if r.from.IsZero() || r.from.seq != 0 {
		return true
	}
	f, err := tree.FactOf(e.Payload)
	if err != nil || f.Kind == tree.Snapshot {
		return true
	}
	r.found = true
	return !r.fresh || r.show(r.state(EventSnapshot, r.from))
}

// endBatch shows the events of the batch that was folded last, if they are behind the place.
func (r *replay) endBatch() bool {
	end, facts := endOf(r.root, r.at), r.facts
	r.facts = r.facts[:0]
	if !r.found {
		switch {
		case r.from.IsZero() || r.at.Seq < r.from.seq:
			return true
		case end.seq != r.from.seq || end.batch != r.from.batch:
			return r.goOn(EventGap, end)
		case r.fresh:
			return r.goOn(EventSnapshot, end)
		}
		r.found = true
	}
	for _, e := range eventsOf(r.tree, end, facts) {
		if e.Cursor.after(r.from) && r.query.selects(e) && !r.show(e) {
			return false
		}
	}
	return true
}

// goOn shows the state of the tree, from which everything is shown.
func (r *replay) goOn(kind EventKind, at Cursor) bool {
	r.found = true
	if r.fresh {
		kind = EventSnapshot
	}
	return r.show(r.state(kind, at))
}

func (r *replay) state(kind EventKind, at Cursor) *TreeEvent {
	return stateEvent(kind, r.tree, at, r.query, r.now)
}

// read yields what the journal of a feed has behind the place where the feed is, or the part of it
// that was read until a shutdown. It reports whether the loop goes on.
func (w *watcher) read(ctx context.Context, f *feed, yield func(TreeEvent, error) bool) bool {
	if !f.isWhole(w) && w.shell != nil {
		// A tree in memory shows what it is like at the beginning of the round.
		_, _ = w.shell.owner.Peek(ctx, func(*tree.Tree) {})
	}
	r, ok := w.beginReading(f)
	if !ok {
		return true
	}
	stopped, cut := false, false
	r.show = func(e *TreeEvent) bool {
		if cut = w.over(ctx); cut {
			return false
		}
		w.moveTo(f, e.Cursor)
		if e.State != nil && !w.showsState(e) {
			return true
		}
		stopped = !yield(*e, nil)
		return !stopped
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.sup.closedCtx, cancel)() //nolint:contextcheck // ends with both
	end, err := r.from, error(nil)
	if !w.unchanged(reading, r) {
		end, err = r.run(w.sup.reads.Read(reading, f.root, 0))
	}
	switch {
	case stopped || ctx.Err() != nil:
		return false
	case cut || err != nil && w.over(ctx) || errors.Is(err, ErrShutdown):
		w.giveUp(ctx, f)
		return true
	case err != nil:
		yield(TreeEvent{}, err)
		return false
	}
	if w.endReading(f, end) && r.from.IsZero() {
		return r.show(r.state(EventSnapshot, end))
	}
	return true
}

// giveUp ends the reading of a feed at a shutdown, and waits for the end of that. What the queue
// has of the feed is dropped, because what comes before it was not read.
func (w *watcher) giveUp(ctx context.Context, f *feed) {
	select {
	case <-w.sup.closed:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f.reading = false
	w.markUnread(f)
}

// over reports whether the journal is not to be read on.
func (w *watcher) over(ctx context.Context) bool {
	select {
	case <-w.sup.closed:
		return true
	default:
		return ctx.Err() != nil
	}
}

// unchanged reports whether the journal ends at the place that r is to begin at, which it finds out
// without folding the tree. An error counts as a change.
func (w *watcher) unchanged(ctx context.Context, r *replay) bool {
	if r.fresh || r.from.seq == 0 || r.from.index != wholeBatch {
		return false
	}
	there := false
	for e, err := range w.sup.reads.Read(ctx, r.root, r.from.seq-1) {
		if err != nil || endOf(r.root, owner.Place{Seq: e.Seq, Batch: e.Batch}) != r.from {
			return false
		}
		there = true
	}
	return there
}

func (f *feed) isWhole(w *watcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.whole
}

// moveTo notes that everything up to a place is yielded.
func (w *watcher) moveTo(f *feed, at Cursor) {
	w.mu.Lock()
	f.at, f.start = at, Cursor{}
	w.mu.Unlock()
}

// beginReading returns what is to be read for a feed. From here on the queue has the batches that
// the journal may not have yet. It returns false if the tree has shown itself meanwhile.
func (w *watcher) beginReading(f *feed) (r *replay, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !f.unread {
		return nil, false
	}
	f.unread, f.linked, f.reading = false, false, true
	r = &replay{
		viewer: viewer{root: f.root, options: w.sup.ownerConfig.Options}, query: &w.query,
		now: w.sup.now, from: f.at, fresh: f.at.IsZero() && !f.start.IsZero(),
	}
	if r.fresh {
		r.from = f.start
	}
	return r, true
}

// endReading notes that the journal was read up to a place. It returns false if the tree has shown
// itself meanwhile.
func (w *watcher) endReading(f *feed, end Cursor) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.reading = false
	shown := f.whole && f.at.IsZero() // by its owner
	f.whole, f.joined = true, w.sup.joined.Add(1)
	if shown {
		return false
	}
	if end.after(f.at) || f.at.IsZero() {
		f.at = end
	}
	if f.linked && f.linkedFrom > f.at.seq { // the journal did not have all of it yet
		w.markUnread(f)
	}
	w.catchUp(f)
	return true
}

// Events yields what happens in the trees that a query selects, until ctx ends, the loop breaks or
// the Supervisor is shut down. The events of a tree come in the order of its history.
//
// A tree begins with an EventSnapshot, which shows what it is like at its Cursor. What is recorded
// after the call comes as events. A tree that [EventQuery].After names goes on behind the cursor
// instead: either with every event since that is kept, or with one EventGap, where some are gone
// because a snapshot has replaced them in the journal, or because the journal was repaired, and
// then everything behind that.
//
// A stream over all trees begins with those that are in memory. A tree that sleeps costs nothing
// and begins when it wakes; the stream does not list the trees that there are, which
// [Supervisor.Sessions] does. A new tree begins with an empty EventSnapshot.
//
// A loop that is slow costs nothing but itself. A watcher keeps at most 4,096 events, or about
// 4 MiB. If there are more, deltas are dropped first. Then all are dropped, and the loop reads them
// from the journal when it comes to them, which costs what opening the tree costs; so does going on
// behind a cursor, unless nothing has happened since. Of events that are not kept those are lost. A
// watcher of all trees remembers 100,000 trees, which is about 20 MB. A tree beyond that begins
// with an EventSnapshot anew.
//
// The Supervisor watches from the call on, so that the caller must range over the sequence or end
// ctx. It is for one loop; the second one yields nothing. The stream ends without an error, also
// with ctx and after a shutdown, which does not wait for the loop. It has all that happened until
// the end of a shutdown, but of a tree whose journal it still had to read: the rest of that is
// behind its last cursor. An error is yielded last: an *[InputError] for the query, what
// [Supervisor.RootOf] returns for the Session of a query without Root, or [ErrUnreadable] if the
// journal cannot be read. The Cursor of the last event is good after it.
func (s *Supervisor) Events(ctx context.Context, q EventQuery) iter.Seq2[TreeEvent, error] {
	q, err := s.checkedQuery(ctx, q)
	if err != nil {
		return func(yield func(TreeEvent, error) bool) { yield(TreeEvent{}, err) }
	}
	w := s.watch(q)
	stop := context.AfterFunc(ctx, w.close)
	return func(yield func(TreeEvent, error) bool) {
		defer stop()
		defer w.close()
		if w.begin() {
			w.loop(ctx, yield)
		}
	}
}

// checkedQuery returns a query of its own for a watcher, with the Root where that is known.
func (s *Supervisor) checkedQuery(ctx context.Context, q EventQuery) (EventQuery, error) {
	q.Kinds, q.After = slices.Clone(q.Kinds), slices.Clone(q.After)
	fault := func(field, format string, args ...any) error {
		return &InputError{Field: "EventQuery." + field, Reason: fmt.Sprintf(format, args...)}
	}
	if !q.Session.IsZero() && !q.Session.IsValid() {
		return q, fault("Session", "%q is not the key of a session", q.Session)
	}
	for i, k := range q.Kinds {
		if k == 0 || int(k) >= len(eventNames) {
			return q, fault("Kinds", "number %d is not an EventKind: %d", i, uint8(k))
		}
	}
	if q.Root.IsZero() && !q.Session.IsZero() {
		root, err := s.RootOf(ctx, q.Session)
		if err != nil {
			return q, err
		}
		q.Root = root
	}
	if !q.Root.IsZero() && !isTree(q.Root) {
		return q, fault("Root", "%q is not a top-level session", q.Root)
	}
	seen := make(map[session.Key]bool, len(q.After))
	for i, at := range q.After {
		switch {
		case at.IsZero():
			return q, fault("After", "number %d is the zero Cursor", i)
		case seen[at.root]:
			return q, fault("After", "number %d is a second one of %q", i, at.root)
		case !q.Root.IsZero() && at.root != q.Root:
			return q, fault("After", "number %d is of %q, not of %q", i, at.root, q.Root)
		}
		seen[at.root] = true
	}
	return q, nil
}
