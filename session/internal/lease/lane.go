package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Lane is the document of one lane: the tickets that wait or have a slot, and the pauses of
// providers. Its zero value is an empty lane. It has a JSON form, so that an engine can keep it as
// one value.
//
// Requesters take turns by rounds. A ticket is in the round after that of its requester's last
// ticket that waits, and after the one that is being served. So tickets that are sorted by round,
// and by number within a round, have the requesters in turn.
type Lane struct {
	Tickets []Ticket             `json:"tickets,omitempty"`
	Rounds  map[uint8]uint64     `json:"rounds,omitempty"` // that was served last, by class
	Number  uint64               `json:"number,omitempty"` // of the last ticket
	Pauses  map[string]time.Time `json:"pauses,omitempty"` // when they end, by provider
}

// A Ticket is a ticket of a process.
type Ticket struct {
	session.Ticket
	Owner  session.Process `json:"owner"`
	Limit  int             `json:"limit"` // of slots in use, by the word of its process
	Round  uint64          `json:"round"`
	Number uint64          `json:"number"` // grows in the order of asking
	Has    bool            `json:"has,omitempty"`
}

// A Want is a ticket that a process has, and whether that process has its slot in hand.
type Want struct {
	session.Ticket
	Held bool
}

// Sync brings the tickets of p to those that it wants, in their order, and grants what can be
// granted. The tickets of processes that are not alive lose their slots. Sync returns the tickets
// of p that have a slot, and the processes whose tickets got one by this, which may be told. It
// reports whether the document has changed.
//
// A wanted ticket that is not known is new, or was dropped because p had lapsed. In the second case
// p may hold its slot, which then counts whatever the limit is.
func (l *Lane) Sync(
	p session.Process, limit int, want []Want, now time.Time, alive func(session.Process) bool,
) (has []string, granted []session.Process, changed bool) {
	wanted := make(map[string]*Want, len(want))
	for i := range want {
		wanted[want[i].ID] = &want[i]
	}
	before := len(l.Tickets)
	l.Tickets = slices.DeleteFunc(l.Tickets, func(t Ticket) bool {
		return !alive(t.Owner) || t.Owner == p && wanted[t.ID] == nil
	})
	changed = len(l.Tickets) < before
	known := make(map[string]bool, len(l.Tickets))
	for i := range l.Tickets {
		t := &l.Tickets[i]
		known[t.ID] = true
		if t.Owner == p && t.Limit != limit {
			t.Limit, changed = limit, true
		}
	}
	for i := range want {
		if w := &want[i]; !known[w.ID] {
			known[w.ID], changed = true, true
			l.add(p, limit, w)
		}
	}
	granted, ended := l.grant(now)
	for _, t := range l.Tickets {
		if t.Owner == p && t.Has {
			has = append(has, t.ID)
		}
	}
	return has, granted, changed || ended || len(granted) > 0
}

// add adds a ticket of p.
func (l *Lane) add(p session.Process, limit int, w *Want) {
	round := l.Rounds[w.Class]
	for _, t := range l.Tickets {
		if !t.Has && t.Class == w.Class && t.Requester == w.Requester {
			round = max(round, t.Round)
		}
	}
	l.Number++
	l.Tickets = append(l.Tickets, Ticket{
		Ticket: w.Ticket, Owner: p, Limit: limit,
		Round: round + 1, Number: l.Number, Has: w.Held,
	})
}

// grant gives slots to tickets that wait, those whose turn it is first. It passes over those whose
// provider pauses, and those whose own limit is reached. It returns the processes to which it gave
// any, and reports whether a pause has ended.
func (l *Lane) grant(now time.Time) (granted []session.Process, ended bool) {
	for provider, until := range l.Pauses {
		if !now.Before(until) {
			delete(l.Pauses, provider)
			ended = true
		}
	}
	used := 0
	var waiting []*Ticket
	for i := range l.Tickets {
		if t := &l.Tickets[i]; t.Has {
			used++
		} else {
			waiting = append(waiting, t)
		}
	}
	slices.SortFunc(waiting, func(a, b *Ticket) int {
		return cmp.Or(
			cmp.Compare(a.Class, b.Class), cmp.Compare(a.Round, b.Round),
			cmp.Compare(a.Number, b.Number),
		)
	})
	for _, t := range waiting {
		if _, pauses := l.Pauses[t.Provider]; pauses || used >= t.Limit {
			continue
		}
		t.Has = true
		used++
		if !slices.Contains(granted, t.Owner) {
			granted = append(granted, t.Owner)
		}
		if l.Rounds == nil {
			l.Rounds = make(map[uint8]uint64)
		}
		l.Rounds[t.Class] = max(l.Rounds[t.Class], t.Round)
	}
	return granted, ended
}

// Pause has a provider pause until a time, unless it pauses longer already, and reports whether
// that is a change.
func (l *Lane) Pause(provider string, now, until time.Time) bool {
	if !until.After(now) || !until.After(l.Pauses[provider]) {
		return false
	}
	if l.Pauses == nil {
		l.Pauses = make(map[string]time.Time)
	}
	l.Pauses[provider] = until
	return true
}

// Next returns when a pause ends first, zero if there is none.
func (l *Lane) Next() (next time.Time) {
	for _, until := range l.Pauses {
		if next.IsZero() || until.Before(next) {
			next = until
		}
	}
	return next
}
