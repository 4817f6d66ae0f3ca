package tree

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// The schedule of retries: the first pause, which doubles with every failure up to the longest, and
// how long after the first failure of its destination a delivery is blocked.
const (
	FirstRetry = 15 * time.Second
	LastRetry  = 5 * time.Minute
	GiveUp     = 30 * time.Minute

	// ShortestWait and LongestWait are what a pause that a receiver asks for is cut to.
	ShortestWait = time.Second
	LongestWait  = 24 * time.Hour
)

// The bits of the N of a Deferred.
const (
	DeferredBusy  = 1 << iota // the receiver is busy, which is not a failure
	DeferredAsked             // the receiver has asked for the pause
)

// An Entry is something that leaves the tree: the completion of a child of the top-level session,
// an event for it, a reply to people, the end of a run for a hook, or a message to another tree. It
// stays in the outbox until it has been delivered or dismissed. Times are Unix nanoseconds.
type Entry struct {
	Ord   uint32      `json:"ord"`
	Run   session.Key `json:"run"`             // that ended, or that replies
	To    session.Key `json:"to"`              // the requester, or the conversation
	RunID string      `json:"runId,omitempty"` // that ended, empty: its first one; or the id of a message
	Reply bool        `json:"reply,omitempty"` // text for people, not a completion
	Hook  bool        `json:"hook,omitempty"`  // the end of Run for a hook, see tellHook
	Event bool        `json:"event,omitempty"` // what the program has To know
	// Sends says that Run writes to To, the top-level session of another tree. RunID is the id by
	// which To knows the message, and Turn is the turn of Run that writes; 0: none does.
	Sends bool `json:"sends,omitempty"`
	// Update says that people are told of the end of Run, as in a reply.
	Update  bool   `json:"update,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
	Cause   Text   `json:"cause,omitempty"` // with Failed: why, for the program
	Text    Text   `json:"text,omitempty"`
	ReplyTo Text   `json:"replyTo,omitempty"` // of a reply, see Result
	Voice   bool   `json:"voice,omitempty"`   // likewise
	Interim bool   `json:"interim,omitempty"` // of a reply: said before its turn has ended
	Turn    uint32 `json:"turn,omitempty"`    // of a reply: that said it; 0: an earlier version
	// InReplyTo are the ids of the messages that a reply answers, see asking, and Meta is that of
	// the last of them. No fact has them: they follow from the inputs.
	InReplyTo []string          `json:"inReplyTo,omitempty"`
	Meta      map[string]string `json:"meta,omitempty"`
	Route     *session.Route    `json:"route,omitempty"`
	// Senders are the people for whom the turn works that replies. No fact has them.
	Senders []policy.Sender `json:"senders,omitempty"`
	Created int64           `json:"created"`
	// Since is of version 1: when the entry first failed. Restoring takes it into the failure clock
	// of the destination, so that it is 0 in a tree.
	Since   int64  `json:"since,omitempty"`
	Tries   uint32 `json:"tries,omitempty"`   // attempts that failed
	Due     int64  `json:"due,omitempty"`     // when it is tried, if its turn has come
	Wait    int64  `json:"wait,omitempty"`    // until Due, in nanoseconds, if the receiver asked for it
	Blocked int64  `json:"blocked,omitempty"` // since when; 0: it is not
	Error   Text   `json:"error,omitempty"`
	Busy    bool   `json:"busy,omitempty"` // the receiver wants it later
	Late    bool   `json:"late,omitempty"` // it was blocked once: later ones may have overtaken it
	// Unsent says that the owner has ended in good order, and that no attempt can have arrived.
	Unsent bool `json:"unsent,omitempty"`

	queue     *queue // of its destination; volatile
	mayRepeat bool   // an attempt may have arrived; volatile
}

// MayRepeat reports whether an earlier attempt may have arrived.
func (e *Entry) MayRepeat() bool { return e.mayRepeat || e.Tries > 0 }

// A Destination is where entries of the outbox go. The entries of one destination arrive in the
// order in which they left the tree. Those of different destinations do not wait for each other.
type Destination struct {
	To    session.Key   // the requester; of replies the conversation, if they have no route
	Reply bool          // replies, not completions
	Hook  bool          // ends for a hook: all of a tree
	Sends bool          // messages to the top-level session To of another tree
	Route session.Route // of replies
}

// Destination returns where e goes.
func (e *Entry) Destination() Destination {
	switch {
	case e.Hook:
		return Destination{Hook: true}
	case e.Sends:
		return Destination{To: e.To, Sends: true}
	case !e.Reply && !e.Update:
		return Destination{To: e.To}
	case e.Route == nil || e.Route.IsZero():
		return Destination{To: e.To, Reply: true}
	}
	return Destination{Reply: true, Route: *e.Route}
}

// A Clock says since when a destination fails: from its first failure until an entry arrives. Ord
// is the oldest entry of the destination.
type Clock struct {
	Ord   uint32 `json:"ord"`
	Since int64  `json:"since"` // Unix nanoseconds
}

// A Mark says which entries were added after a repair of the journal: those from Ord on. The
// repair may have lost entries that had the same ordinals.
type Mark struct {
	Ord uint32 `json:"ord"`
	ID  string `json:"id"`
}

// maxInFlight is how many entries of one destination the Executor has at a time. It calls the
// receiver for one after the other. That it has the next ones before the outcome of the first is
// durable lets one append record many outcomes.
const maxInFlight = 64

// queue holds the entries of one destination. There is one for each destination that has entries.
type queue struct {
	to Destination
	// pending are the entries that are not blocked, in the order in which they are tried. The first
	// flying ones are in flight: the Executor has them.
	pending []*Entry
	flying  int   // volatile
	freed   bool  // the session became free while entries were in flight. Volatile.
	blocked int   // entries that are blocked
	since   int64 // when the destination began to fail, in Unix nanoseconds; 0: it does not fail

	// hung is the ordinal of an entry whose call has not returned in its time, and hangs says so.
	// 0: there is none. While there is one, nothing is in flight. Volatile.
	hung  uint32
	hangs Text

	armedAt int64 // of the earliest timer; 0: there is none
	marked  bool  // settle will look at it
}

// outbox holds the entries that have not arrived, and counts of them.
type outbox struct {
	entries map[uint32]*Entry
	queues  map[Destination]*queue
	hung    map[uint32]*queue // those with a call that has not returned, by its entry; may be nil
	spare   *queue            // the memory of one that was dropped; may be nil
	nextOrd uint32
	marks   []Mark // oldest first
	pending int    // entries that are not blocked
	busy    int    // of those, entries that the receiver wants later
	blocked int
	flying  int // entries in flight: they need an owner now
}

// count adds an entry to the counts, or takes it off with -1. Call it around every change of an
// entry.
func (o *outbox) count(e *Entry, by int) {
	if e.Blocked > 0 {
		o.blocked += by
		e.queue.blocked += by
		return
	}
	o.pending += by
	if e.Busy {
		o.busy += by
	}
}

// setFlying sets how many entries of a destination are in flight.
func (t *Tree) setFlying(q *queue, n int) {
	t.outbox.flying += n - q.flying
	q.flying = n
}

// setHung notes that the call for the entry ord hangs, or with 0 that none does.
func (t *Tree) setHung(q *queue, ord uint32, hangs Text) {
	o := &t.outbox
	if q.hung > 0 {
		delete(o.hung, q.hung)
	}
	if q.hung, q.hangs = ord, hangs; ord > 0 {
		if o.hung == nil {
			o.hung = make(map[uint32]*queue)
		}
		o.hung[ord] = q
	}
	t.mark(q)
	t.dropIfEmpty(q)
}

// Calling reports whether a receiver has been called and its answer is not on record.
func (t *Tree) Calling() bool { return t.outbox.flying > 0 || len(t.outbox.hung) > 0 }

// Outbox calls f for every entry of the outbox, oldest first.
func (t *Tree) Outbox(f func(*Entry)) {
	for _, ord := range t.outbox.ords() {
		f(t.outbox.entries[ord])
	}
}

// Entry returns an entry of the outbox, or nil.
func (t *Tree) Entry(ord uint32) *Entry { return t.outbox.entries[ord] }

// Undelivered returns how many entries are not blocked and how many are.
func (t *Tree) Undelivered() (pending, blocked int) { return t.outbox.pending, t.outbox.blocked }

// HeldBy returns the entry of the same destination that has to arrive or be blocked before e is
// tried, or nil. It is the first one, once the destination fails or the receiver wants it later.
func (e *Entry) HeldBy() *Entry {
	q := e.queue
	if e.Blocked > 0 || len(q.pending) == 0 {
		return nil
	}
	first := q.pending[0]
	if first == e || q.since == 0 && first.Error == "" {
		return nil
	}
	return first
}

// ords returns the ordinals of all entries, in order.
func (o *outbox) ords() []uint32 {
	ords := make([]uint32, 0, len(o.entries))
	for ord := range o.entries {
		ords = append(ords, ord)
	}
	slices.Sort(ords)
	return ords
}

// addEntry adds an entry under the next ordinal.
func (t *Tree) addEntry(e *Entry) {
	t.outbox.nextOrd++
	e.Ord = t.outbox.nextOrd
	t.enqueue(e)
}

// tellHook adds the end of the present run of r to the outbox, for a hook of the program, whatever
// its requester is told. The entry has a destination of its own, so that neither waits for the
// other. Until it has arrived or is dismissed, its run stays in the tree.
func (t *Tree) tellHook(r *Run, f *Fact) {
	e := &Entry{
		Run: r.Key(), RunID: r.runName(), To: t.requester(r).Key(), Hook: true,
		Created: f.At, Due: f.At,
	}
	t.addEntry(e)
	t.holdEntry(e, 1)
}

// holdEntry counts an entry of the outbox that names a run, or takes it off with -1. One for a hook
// holds the archive of the run alone: its conversation is unbound when its end has arrived where it
// was asked for.
func (t *Tree) holdEntry(e *Entry, by int32) {
	r := t.find(e.Run)
	if r == nil || e.Reply || e.Event || e.Sends {
		return
	}
	if !e.Hook || e.RunID != r.runName() {
		t.hold(r, e.RunID, by)
		return
	}
	if r.hooks += by; by < 0 {
		t.armTimer(r)
		t.touch(r)
	}
}

// addMark marks the entries to come. Marks that no entry has had are dropped.
func (o *outbox) addMark(id string) {
	m := Mark{o.nextOrd + 1, id}
	unused := func(old Mark) bool { return old.Ord == m.Ord }
	o.marks = append(slices.DeleteFunc(slices.Clone(o.marks), unused), m)
}

// MarkOf returns the mark of the repair after which the entry with an ordinal was added, or "".
func (t *Tree) MarkOf(ord uint32) (id string) {
	for _, m := range t.outbox.marks {
		if m.Ord <= ord {
			id = m.ID
		}
	}
	return id
}

// enqueue adds an entry, which is younger than the others, to the outbox.
func (t *Tree) enqueue(e *Entry) {
	o := &t.outbox
	few.Put(&o.entries, e.Ord, e)
	to := e.Destination()
	q := o.queues[to]
	if q == nil {
		if q, o.spare = o.spare, nil; q == nil {
			q = &queue{}
		}
		q.to = to
		few.Put(&o.queues, to, q)
	}
	e.queue = q
	o.count(e, 1)
	if e.Blocked == 0 {
		q.pending = append(q.pending, e)
	}
	t.mark(q)
}

// takeOut takes an entry that is not blocked out of the entries to be tried.
func (t *Tree) takeOut(e *Entry) {
	q := e.queue
	i := slices.Index(q.pending, e)
	if i < q.flying {
		t.setFlying(q, q.flying-1)
	}
	switch {
	case len(q.pending) == 1:
		q.pending[0] = nil
		q.pending = q.pending[:0]
	case i == 0: // mostly; the memory is freed as the slice grows
		q.pending[0] = nil
		q.pending = q.pending[1:]
	default:
		q.pending = slices.Delete(q.pending, i, i+1)
	}
	t.mark(q)
}

// putBack puts an entry that was blocked among the entries to be tried: before all younger ones,
// except those that are in flight.
func (t *Tree) putBack(e *Entry) {
	q := e.queue
	i, _ := slices.BinarySearchFunc(q.pending[q.flying:], e.Ord, func(x *Entry, ord uint32) int {
		return cmp.Compare(x.Ord, ord)
	})
	q.pending = slices.Insert(q.pending, q.flying+i, e)
	t.mark(q)
}

// recall takes the entries of a destination back from the Executor, which has called the receiver
// for the first of them alone.
func (t *Tree) recall(q *queue) {
	if q.flying > 0 {
		t.setFlying(q, 0)
		to := q.to // the queue may be used again
		t.effect(Effect{Kind: EffectRecall, To: &to})
	}
}

// removeEntry removes an entry. The run whose end it was may be archived now.
func (t *Tree) removeEntry(e *Entry) {
	t.outbox.count(e, -1)
	delete(t.outbox.entries, e.Ord)
	if e.Blocked == 0 {
		t.takeOut(e)
	}
	t.dropIfEmpty(e.queue)
	t.holdEntry(e, -1)
}

// recycleEntry keeps the memory of a completion that was removed. Replies, and what else others may
// have for a while, are left to the collector.
func (t *Tree) recycleEntry(e *Entry) {
	if e.movesToInbox() && !e.Event {
		*e = Entry{}
		t.work().spareEntries.Keep(e)
	}
}

// dropIfEmpty drops the queue of a destination without entries, and with it the failure clock. A
// queue with a call that hangs stays, because the next entry has to wait for that.
func (t *Tree) dropIfEmpty(q *queue) {
	if len(q.pending) > 0 || q.blocked > 0 {
		return
	}
	q.since, q.freed = 0, false
	if q.hung == 0 && t.outbox.queues[q.to] == q {
		delete(t.outbox.queues, q.to)
		// A timer and a mark of the old use only have settle look at the queue once more.
		t.outbox.spare = q
	}
}

// changeEntry applies f to an entry and keeps the counts.
func (t *Tree) changeEntry(e *Entry, f func(*Entry)) {
	t.outbox.count(e, -1)
	f(e)
	t.outbox.count(e, 1)
	t.mark(e.queue)
}

// mark has settle look at a destination.
func (t *Tree) mark(q *queue) {
	if !q.marked {
		q.marked = true
		w := t.work()
		w.dueQueues = append(w.dueQueues, q)
	}
}

// settleQueue hands the entries of a destination over whose time has come.
//
// Entries that follow each other go together as long as all goes well, and where the receiver was
// only busy: it may take what has come meanwhile in one call. After a failure the first one goes
// alone, until it has arrived or is blocked. The Executor calls the receiver for an entry when
// those before it are delivered or blocked, or in the same call, and not earlier.
//
// While a call hangs, nothing can be tried. What waits is blocked when its time is up.
func (t *Tree) settleQueue(q *queue) {
	for q.hung > 0 && len(q.pending) > 0 && q.giveUpAt() <= t.now {
		f := outboxFact(Blocked, t.now, q.pending[0].Ord, 0, string(q.hangs))
		f.N = 1
		t.emit(f)
	}
	for q.hung == 0 && q.flying < min(len(q.pending), maxInFlight) {
		e := q.pending[q.flying]
		if e.Due > t.now || q.flying > 0 && q.since > 0 && !q.pending[0].Busy {
			break
		}
		t.setFlying(q, q.flying+1)
		t.addEffect(EffectDeliver, nil, e.Ord)
	}
	t.armQueue(q)
}

// giveUpAt returns when the first entry of a destination is blocked because a call hangs, in Unix
// nanoseconds; 0 is never.
func (q *queue) giveUpAt() int64 {
	if len(q.pending) == 0 {
		return 0
	}
	return sat.Add(cmp.Or(q.since, q.pending[0].Created), int64(GiveUp))
}

// firstGiveUp returns the earliest time at which an entry is blocked because a call hangs, in Unix
// nanoseconds; 0 is never.
func (o *outbox) firstGiveUp() (first int64) {
	for _, q := range o.hung {
		first = earlier(first, q.giveUpAt())
	}
	return first
}

// busyFor returns the ordinals of the entries for a session that come next at their destination and
// whose receiver was busy.
func (t *Tree) busyFor(to session.Key) (ords []uint32) {
	if t.outbox.busy == 0 {
		return nil
	}
	for _, q := range t.outbox.queues {
		if len(q.pending) > 0 && q.flying == 0 && q.pending[0].Busy && q.pending[0].To == to {
			ords = append(ords, q.pending[0].Ord)
		}
	}
	slices.Sort(ords)
	return ords
}

// WaitsFor reports whether something waits until the receiver for a session is not busy any more,
// or is in flight to it, so that it may have to wait.
func (t *Tree) WaitsFor(to session.Key) bool {
	return len(t.busyFor(to)) > 0 || len(t.flyingTo(to)) > 0
}

// flyingTo returns the destinations that have entries for a session in flight.
func (t *Tree) flyingTo(to session.Key) (list []*queue) {
	if t.outbox.flying == 0 {
		return nil
	}
	for _, q := range t.outbox.queues {
		if q.flying > 0 && q.pending[0].To == to {
			list = append(list, q)
		}
	}
	return list
}

// reviveBusy has what comes next for a session, and what its receiver was too busy for, tried now.
func (t *Tree) reviveBusy(to session.Key) {
	for _, ord := range t.busyFor(to) {
		t.emit(outboxFact(Revived, t.now, ord, 0, ""))
	}
}

// decideReady has what waits for a session tried now. A call that is under way may have met the
// session before it was free: if it ends with busy, it is repeated at once.
func (t *Tree) decideReady(c Ready) (Reply, error) {
	t.reviveBusy(c.To)
	for _, q := range t.flyingTo(c.To) {
		q.freed = true
	}
	return Reply{}, nil
}

// longestWait returns the longest pause that the receiver has asked for, in nanoseconds, or 0.
// Which entry is the first does not matter to it: that depends on what is in flight, which no fact
// says.
func (q *queue) longestWait() (wait int64) {
	for _, e := range q.pending {
		wait = max(wait, e.Wait)
	}
	return wait
}

// skip takes the time between the last fact of an owner and the first one of the next out of the
// failure clocks: a process that is not there calls no receiver. While a destination fails, an
// owner that is there records something every few minutes.
func (o *outbox) skip(from, to int64) {
	for _, q := range o.queues {
		if q.since > 0 && to > from {
			q.since = sat.Add(q.since, to-from)
		}
	}
}

// retryAt returns when an entry is tried again after a failure at now, in Unix nanoseconds, or that
// it is blocked instead, because its destination has failed since so long ago. Tries are the
// failures of the entry before. Jitter from rand shortens the pause by up to a fifth, so that
// entries that failed together do not come back together.
func retryAt(since int64, tries uint32, now int64, rand uint64) (due int64, blocked bool) {
	if since > 0 && now-since >= int64(GiveUp) {
		return 0, true
	}
	pause := FirstRetry
	for range tries {
		if pause *= 2; pause >= LastRetry {
			pause = LastRetry
			break
		}
	}
	pause -= time.Duration(rand % uint64(pause/5))
	return now + int64(pause), false
}

// decideSettle records how a delivery went: it arrived, is tried again later, or is blocked. What
// is no longer in the outbox, or is blocked already, is left as it is, unless it has arrived after
// all.
//
// Of a call that hung its end is told as well. That it failed is on record then, so that only an
// arrival is news.
func (t *Tree) decideSettle(c *Settle) (Reply, error) {
	e := t.outbox.entries[c.Ord]
	hung := t.outbox.hung[c.Ord]
	if hung != nil && !c.Hangs {
		t.setHung(hung, 0, "")
	}
	freed := false
	if e != nil {
		freed, e.queue.freed = e.queue.freed, false
	}
	switch {
	case c.Error == "":
		t.settleArrived(c)
		return Reply{}, nil
	case e == nil || hung != nil:
		return Reply{}, nil
	}
	if q := e.queue; slices.Contains(q.pending[:q.flying], e) {
		t.recall(q)
	}
	if e.Blocked == 0 {
		t.emit(t.settled(e, c))
	}
	t.settleMore(c)
	if freed && c.Busy && e.Blocked == 0 && !c.Hangs {
		t.emit(outboxFact(Revived, t.now, e.Ord, 0, ""))
	}
	if c.Hangs {
		t.setHung(e.queue, c.Ord, Text(c.Error))
	}
	return Reply{}, nil
}

// settleArrived records that all entries of a call have arrived.
func (t *Tree) settleArrived(c *Settle) {
	if t.outbox.entries[c.Ord] != nil {
		t.emit(outboxFact(Delivered, t.now, c.Ord, 0, ""))
	}
	for _, ord := range c.More {
		if t.outbox.entries[ord] != nil {
			t.emit(outboxFact(Delivered, t.now, ord, 0, ""))
		}
	}
}

// maxMoreError is how much of the error of a call each of its further entries keeps, in bytes.
const maxMoreError = 200

// settleMore records a call that has not arrived for its further entries: each of them may have
// arrived all the same. A receiver that is busy has taken none of them, so that they are as they
// were. A pause that the receiver asks for is that of the first entry, and counts once. An error
// that says that no later attempt would arrive says so of the first alone: which of them cannot be
// delivered shows when they are tried again.
func (t *Tree) settleMore(c *Settle) {
	if c.Busy {
		return
	}
	for _, ord := range c.More {
		e := t.outbox.entries[ord]
		if e == nil || e.Blocked > 0 {
			continue
		}
		short := text.Cut(c.Error, maxMoreError)
		if c.Wait > 0 {
			t.emit(outboxFact(Deferred, t.now, ord, t.now, short))
			continue
		}
		t.emit(t.settled(e, &Settle{Ord: ord, Error: short, Rand: c.Rand}))
	}
}

// settled returns the fact of an attempt at the pending entry e that has not arrived. A receiver
// that is busy wants it later whatever else it says, and one that asks for a pause is there.
func (t *Tree) settled(e *Entry, c *Settle) Fact {
	due, blocked := retryAt(e.queue.since, e.Tries, t.now, c.Rand)
	var bits uint32
	switch {
	case c.Busy:
		due, blocked, bits = t.now+int64(FirstRetry), false, DeferredBusy
	case c.Never:
		blocked = true
	}
	if c.Wait > 0 && (c.Busy || !c.Never) {
		due, blocked, bits = waitUntil(c.Wait, t.now, c.Rand), false, bits|DeferredAsked
	}
	if blocked {
		return outboxFact(Blocked, t.now, e.Ord, 0, c.Error)
	}
	f := outboxFact(Deferred, t.now, e.Ord, due, c.Error)
	f.N = bits
	return f
}

// waitUntil returns when a receiver is called again that has asked for a pause at now, in Unix
// nanoseconds: not before the pause is over, and at most the first pause later. Jitter from rand
// has destinations that were told the same come back one after the other.
func waitUntil(wait, now int64, rand uint64) int64 {
	wait = min(max(wait, int64(ShortestWait)), int64(LongestWait))
	return sat.Add(now, wait+int64(rand%uint64(min(wait/5+1, int64(FirstRetry)))))
}

func (t *Tree) decideBlocked(ord uint32, k Kind) (Reply, error) {
	e := t.outbox.entries[ord]
	if e == nil || e.Blocked == 0 {
		return Reply{}, fmt.Errorf("%w: blocked delivery %d", ErrNotFound, ord)
	}
	t.emit(outboxFact(k, t.now, ord, 0, ""))
	return Reply{}, nil
}

// A SendOut has a session write to the top-level session of another tree: the message is an entry
// of the outbox. A message whose ID is that of an entry for the same session is accepted and
// changes nothing. As the command of an InTurn it comes of the Runner of that turn, for whose
// people it is, beside the Senders.
type SendOut struct {
	From, To session.Key
	ID       string // by which To knows the message; not empty
	Text     Text
	Senders  []policy.Sender // for whom From works
}

func (*SendOut) command() {}

// checkSendOut refuses what no session can send, whatever the tree has on record.
func (l Limits) checkSendOut(c *SendOut) error {
	if err := l.checkID(c.ID); err != nil {
		return err
	}
	switch {
	case c.ID == "" || !utf8.ValidString(c.ID):
		return &InputError{"id", "it is empty or not UTF-8: " + text.Quote(c.ID)}
	case !c.To.IsValid() || c.To.IsSubagent():
		return &InputError{"to", fmt.Sprintf("%q is not a top-level session", c.To)}
	}
	return l.CheckPost(&Post{Text: c.Text, Senders: c.Senders}, session.Part.Validate)
}

// decideSendOut records a message that comes of no turn: a program runs the session.
func (t *Tree) decideSendOut(c *SendOut) (Reply, error) {
	r := t.find(c.From)
	switch {
	case r == nil:
		return Reply{}, fmt.Errorf("%w: %q, which sends", ErrNotFound, c.From)
	case r.leaves():
		return Reply{}, archivedError("sending from", c.From)
	}
	return t.sendOut(r, 0, c)
}

// decideSentInTurn records a message that comes of the turn under way of r.
func (t *Tree) decideSentInTurn(r *Run, c *SendOut) (Reply, error) {
	if r.Open.Compact {
		return Reply{}, fmt.Errorf("%w: turn %d of %q compacts", ErrStale, r.Open.N, r.key)
	}
	c.Senders = policy.MergeSenders(r.Senders(), c.Senders)
	return t.sendOut(r, r.Open.N, c)
}

func (t *Tree) sendOut(r *Run, n uint32, c *SendOut) (Reply, error) {
	if c.To == t.root.key {
		return Reply{}, &InputError{"to", fmt.Sprintf("%q is in the tree of the sender", c.To)}
	}
	if err := t.opt.Limits.checkSendOut(c); err != nil {
		return Reply{}, err
	}
	if t.SentTo(c.To, c.ID) != nil {
		return Reply{Run: r, Ref: c.To, Existing: true}, nil
	}
	t.emit(sentOut(t.now, r, n, c))
	return Reply{Run: r, Ref: c.To}, nil
}

// SentTo returns the entry of the outbox with a message to another tree, or nil: it has arrived,
// was dismissed, or was never sent.
func (t *Tree) SentTo(to session.Key, id string) *Entry {
	q := t.outbox.queues[Destination{To: to, Sends: true}]
	if q == nil {
		return nil
	}
	for _, e := range q.pending {
		if e.RunID == id {
			return e
		}
	}
	if q.blocked == 0 {
		return nil
	}
	for _, e := range t.outbox.entries {
		if e.queue == q && e.RunID == id {
			return e
		}
	}
	return nil
}

// applySent adds a message to another tree to the outbox.
func (t *Tree) applySent(r *Run, f *Fact) error {
	switch {
	case f.N > 0 && (r.Open == nil || r.Open.N != f.N):
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("turn %d is not under way", f.N)}
	case !f.From().IsValid() || f.From().IsSubagent() || f.From() == t.root.key:
		reason := fmt.Sprintf("%q is not the top-level session of another tree", f.From())
		return &CorruptError{f.Kind, f.Run, reason}
	case f.ID() == "" || t.SentTo(f.From(), f.ID()) != nil:
		return &CorruptError{f.Kind, f.Run, "it has no id, or the outbox has the message"}
	}
	r.didWork = r.didWork || f.N > 0
	t.addEntry(&Entry{
		Run: f.Run, To: f.From(), Sends: true, RunID: f.ID(), Text: f.Text, Turn: f.N,
		Senders: f.Senders(), Created: f.At, Due: f.At,
	})
	return nil
}

// movesToInbox reports whether an entry is for the top-level session of its tree, so that it moves
// to the inbox if Offshoot runs that session again.
func (e *Entry) movesToInbox() bool { return !e.Reply && !e.Hook && !e.Update && !e.Sends }
