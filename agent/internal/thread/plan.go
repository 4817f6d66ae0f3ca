package thread

import (
	"iter"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// An Attempt is what a process has tried for a binding that has ended.
type Attempt struct {
	Tries int       // that have failed
	First time.Time // when the first one began
	Next  time.Time // when the next one is due
	Busy  bool      // one is under way
	// Said says that the farewell was said, or is given up: only the rest is tried again.
	Said bool

	of session.Route // the conversation
}

// Failed notes that the attempt under way has failed.
func (a *Attempt) Failed(now time.Time) {
	a.Tries++
	pause, ok := Pause(a.Tries, now.Sub(a.First))
	if !ok {
		pause = longest
	}
	a.Busy, a.Next = false, now.Add(pause)
}

// Over reports whether the attempt under way is the last one.
func (a *Attempt) Over(now time.Time) bool {
	_, more := Pause(a.Tries+1, now.Sub(a.First))
	return !more
}

// Plan returns which ends of those that are owed an attempt is made for now, and when the next one
// is due. At most one for a conversation is under way at a time, and at most limit in all. Plan
// notes them as busy in tried, which has nothing but what is owed, and reads owed up to the limit.
// expiry is when the next binding expires; zero: never.
func Plan(
	now, expiry time.Time, owed iter.Seq[binding.Unbound], tried map[string]*Attempt, limit int,
) (begin []binding.Unbound, due time.Time) {
	due = expiry
	busy := make(map[session.Route]bool)
	for _, a := range tried {
		if a.Busy {
			busy[a.of] = true
			limit--
		}
	}
	if limit <= 0 {
		return nil, due // the end of what is under way comes with a signal
	}
	for u := range owed {
		of := u.Binding.Conversation
		a := tried[u.ID]
		switch {
		case busy[of]:
			continue // as above
		case a != nil && a.Next.After(now):
			due = Sooner(due, a.Next)
			continue
		case a == nil:
			a = &Attempt{First: now, of: of}
			tried[u.ID] = a
		}
		a.Busy, busy[of] = true, true
		begin = append(begin, u)
		if limit--; limit == 0 {
			break
		}
	}
	return begin, due
}

// Sooner returns the earlier of two times, of which zero is never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// mostFormer is how many sessions are asked whether they know a message, at most.
const mostFormer = 8

// SeenBy returns which sessions a message of a conversation may have gone to when it was sent
// before, other than the one that it goes to now: those that the conversation was bound to, newest
// first, and its own session, if the conversation is bound and was not created for that.
//
// The own session comes last: it also knows what a session of its tree was told that was bound, and
// that one has the message. With a session of the same tree it is not asked, since a post looks at
// both.
func SeenBy(
	bound binding.Binding, isBound bool, own binding.Binding, former []binding.Unbound,
	now time.Time,
) []binding.Binding {
	var list []binding.Binding
	add := func(b binding.Binding, most int) {
		same := func(x binding.Binding) bool { return x.Target == b.Target }
		if len(list) < most && !slices.ContainsFunc(list, same) &&
			!(isBound && b.Target == bound.Target) && (isBound || b.Target != own.Target) {
			list = append(list, b)
		}
	}
	for _, u := range slices.Backward(former) {
		if u.Binding.Target != own.Target {
			add(u.Binding, mostFormer-1)
		}
	}
	apart := !bound.Root.IsValid() || bound.Root != own.Root
	if isBound && apart && !bound.Created && now.Sub(bound.Bound) < binding.Remembered {
		add(own, mostFormer)
	}
	return list
}
