package tree

import (
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// The schedule of retries: the first pause, which doubles with every failure up to the longest, and
// how long after its first failure a delivery is blocked.
const (
	FirstRetry = 15 * time.Second
	LastRetry  = 5 * time.Minute
	GiveUp     = 30 * time.Minute
)

// An Entry is something that leaves the tree: the completion of a child of the top-level session,
// or a reply to people. It stays in the outbox until it has been delivered or dismissed. Times are
// Unix nanoseconds.
type Entry struct {
	Ord     uint32         `json:"ord"`
	Run     session.Key    `json:"run"`             // that ended, or that replies
	To      session.Key    `json:"to"`              // the requester, or the conversation
	Reply   bool           `json:"reply,omitempty"` // text for people, not a completion
	Failed  bool           `json:"failed,omitempty"`
	Text    Text           `json:"text,omitempty"`
	Route   *session.Route `json:"route,omitempty"`
	Created int64          `json:"created"`
	Since   int64          `json:"since,omitempty"`   // when it first failed; 0: never
	Tries   uint32         `json:"tries,omitempty"`   // attempts that failed
	Due     int64          `json:"due,omitempty"`     // when it is tried again
	Blocked int64          `json:"blocked,omitempty"` // since when; 0: it is not
	Error   Text           `json:"error,omitempty"`
	Busy    bool           `json:"busy,omitempty"` // the receiver wants it later

	inFlight  bool // handed to the Executor; volatile
	mayRepeat bool // an attempt may have arrived; volatile
}

// MayRepeat reports whether an earlier attempt may have arrived.
func (e *Entry) MayRepeat() bool { return e.mayRepeat || e.Tries > 0 }

// outbox holds the entries that have not arrived, and counts of them.
type outbox struct {
	entries map[uint32]*Entry
	nextOrd uint32
	pending int // entries that are not blocked
	blocked int
}

// count adds an entry to the counts, or takes it off with -1. Call it around every change of an
// entry.
func (o *outbox) count(e *Entry, by int) {
	if e.Blocked > 0 {
		o.blocked += by
		return
	}
	o.pending += by
}

// setInFlight records that an entry has been handed to the Executor, or is back.
func (t *Tree) setInFlight(e *Entry, flying bool) {
	e.inFlight = flying
}

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

// ords returns the ordinals of all entries, in order.
func (o *outbox) ords() []uint32 {
	ords := make([]uint32, 0, len(o.entries))
	for ord := range o.entries {
		ords = append(ords, ord)
	}
	slices.Sort(ords)
	return ords
}

// addEntry adds an entry under the next ordinal and marks it to be looked at.
func (t *Tree) addEntry(e *Entry) {
	t.outbox.nextOrd++
	e.Ord = t.outbox.nextOrd
	t.outbox.entries[e.Ord] = e
	t.outbox.count(e, 1)
	t.dueEntries = append(t.dueEntries, e.Ord)
}

// removeEntry removes an entry. The run whose end it was may be archived now.
func (t *Tree) removeEntry(e *Entry) {
	t.outbox.count(e, -1)
	delete(t.outbox.entries, e.Ord)
	if c := t.find(e.Run); c != nil && !e.Reply {
		c.held = false
		t.armTimer(c)
		t.touch(c)
	}
}

// changeEntry applies f to an entry, keeps the counts, and sets a timer for the entry.
func (t *Tree) changeEntry(e *Entry, f func(*Entry)) {
	t.outbox.count(e, -1)
	f(e)
	t.outbox.count(e, 1)
	if e.Blocked == 0 {
		t.timers.push(timer{at: max(e.Due, 1), ord: e.Ord})
	}
	t.dueEntries = append(t.dueEntries, e.Ord)
}

// retryAt returns when an entry is tried again after a failure at now, in Unix nanoseconds, or that
// it is blocked instead. Jitter from rand shortens the pause by up to a fifth, so that entries that
// failed together do not come back together.
func retryAt(e *Entry, now int64, rand uint64) (due int64, blocked bool) {
	if e.Since > 0 && now-e.Since >= int64(GiveUp) {
		return 0, true
	}
	pause := FirstRetry
	for range e.Tries {
		if pause *= 2; pause >= LastRetry {
			pause = LastRetry
			break
		}
	}
	pause -= time.Duration(rand % uint64(pause/5))
	return now + int64(pause), false
}
