package tree

import (
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// The schedule of retries: the first pause, doubled up to the longest, and after how long a delivery is blocked.
const (
	FirstRetry = 15 * time.Second
	LastRetry  = 5 * time.Minute
	GiveUp     = 30 * time.Minute
)

// An Entry is something that leaves the tree.
type Entry struct {
	Ord     uint32         `json:"ord"`
	Run     session.Key    `json:"run"`             // whose end, or who speaks
	To      session.Key    `json:"to"`              // the requester, or the conversation
	Reply   bool           `json:"reply,omitempty"` // text for people, not a completion
	Failed  bool           `json:"failed,omitempty"`
	Text    Text           `json:"text,omitempty"`
	Route   *session.Route `json:"route,omitempty"`
	Created int64          `json:"created"`
	Since   int64          `json:"since,omitempty"` // when it first failed
	Tries   uint32         `json:"tries,omitempty"`
	Due     int64          `json:"due,omitempty"`
	Blocked int64          `json:"blocked,omitempty"`
	Error   Text           `json:"error,omitempty"`
	Busy    bool           `json:"busy,omitempty"` // the receiver asked for it later; no failure

	inFlight  bool // handed to the shell; volatile
	mayRepeat bool // an attempt may have arrived; volatile
}

// MayRepeat reports whether an earlier attempt may have arrived.
func (e *Entry) MayRepeat() bool { return e.mayRepeat || e.Tries > 0 }

// outbox is what leaves the tree and has not arrived.
type outbox struct {
	entries map[uint32]*Entry
	nextOrd uint32
	pending int // not blocked
	blocked int
	ready   int // pending, and never tried or being tried: an owner is needed now
}

func (o *outbox) count(e *Entry, by int) {
	if e.Blocked > 0 {
		o.blocked += by
		return
	}
	o.pending += by
	if e.Tries == 0 || e.inFlight {
		o.ready += by
	}
}

// setInFlight notes that an entry has been handed to the shell, or is back.
func (t *Tree) setInFlight(e *Entry, flying bool) {
	t.outbox.count(e, -1)
	e.inFlight = flying
	t.outbox.count(e, 1)
}

// Outbox calls f for every entry, oldest first.
func (t *Tree) Outbox(f func(*Entry)) {
	for _, ord := range t.outbox.ords() {
		f(t.outbox.entries[ord])
	}
}

// Entry returns an entry of the outbox, or nil.
func (t *Tree) Entry(ord uint32) *Entry { return t.outbox.entries[ord] }

// Undelivered returns how many entries are under way and how many are blocked.
func (t *Tree) Undelivered() (pending, blocked int) { return t.outbox.pending, t.outbox.blocked }

func (o *outbox) ords() []uint32 {
	ords := make([]uint32, 0, len(o.entries))
	for ord := range o.entries {
		ords = append(ords, ord)
	}
	slices.Sort(ords)
	return ords
}

func (t *Tree) addEntry(e *Entry) {
	t.outbox.nextOrd++
	e.Ord = t.outbox.nextOrd
	t.outbox.entries[e.Ord] = e
	t.outbox.count(e, 1)
	t.dueEntries = append(t.dueEntries, e.Ord)
}

func (t *Tree) removeEntry(e *Entry) {
	t.outbox.count(e, -1)
	delete(t.outbox.entries, e.Ord)
	if c := t.find(e.Run); c != nil && !e.Reply {
		c.held = false
		t.armTimer(c)
		t.touch(c)
	}
}

// changeEntry applies f to an entry and keeps the counts.
func (t *Tree) changeEntry(e *Entry, f func(*Entry)) {
	t.outbox.count(e, -1)
	f(e)
	t.outbox.count(e, 1)
	if e.Blocked == 0 {
		t.timers.push(timer{at: max(e.Due, 1), ord: e.Ord})
	}
	t.dueEntries = append(t.dueEntries, e.Ord)
}

// retryAt returns when an entry is tried again after a failure at now, and whether it is blocked instead. Jitter takes up to a
// fifth off the pause, so that many entries that failed together do not come back together.
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
