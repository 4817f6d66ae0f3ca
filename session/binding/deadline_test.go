package binding

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/growth"
	"github.com/offshoot-sdk/offshoot/session"
)

// naive has what a state derives, from all that it holds.
type naive struct{ *state }

func (s naive) next() (next time.Time) {
	for _, held := range s.bound {
		if at, _, ok := held.Expiry(); ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func (s naive) expired(now time.Time) (ended []Unbound) {
	for _, b := range s.all() {
		if why, over := b.expired(now); over {
			ended = append(ended, Unbound{Binding: b, Reason: why, At: now})
		}
	}
	return ended
}

func (s naive) owed() (owed []*Unbound) {
	for _, u := range s.ended {
		if !u.Settled {
			owed = append(owed, &u)
		}
	}
	slices.SortFunc(owed, compareEnds)
	return owed
}

func conversation(n int) session.Route {
	return session.Route{Channel: "discord", To: fmt.Sprint(n)}
}

// Whatever becomes of bindings, what a state has at hand is what all that it holds says: when the
// first one expires, which have expired, and which ends are owed. It does not keep more deadlines
// than a few of each binding.
func TestStateAgreesWithAllThatItHolds(t *testing.T) {
	for seed := range uint64(20) {
		rnd, s := rand.New(rand.NewPCG(seed, 0)), newState()
		now, ids := expiryNoon, 0
		limit := func() time.Duration { return time.Duration(rnd.IntN(3)) * 20 * time.Minute }
		for range 600 {
			now = now.Add(time.Duration(rnd.IntN(120)-20) * time.Second)
			at := conversation(rnd.IntN(60))
			b := Binding{
				Conversation: at, Bound: now, Touched: now, Idle: limit(), MaxAge: limit(), By: "p",
			}
			switch held, ok := s.bound[at]; {
			case rnd.IntN(40) == 0:
				s.apply(s.snapshot(now))
			case rnd.IntN(3) == 0:
				for _, u := range s.expired(now) {
					ids++
					u.ID = fmt.Sprint("e", ids)
					s.apply(unbound(u))
				}
			case rnd.IntN(4) == 0 && ids > 0:
				s.apply(newFact(fact{Kind: factSettled, ID: fmt.Sprint("e", 1+rnd.IntN(ids))}))
			case !ok:
				s.apply(bound(b, now))
			case rnd.IntN(3) == 0:
				ids++
				s.apply(unbound(end(held.Binding, ReasonManual, fmt.Sprint("e", ids), now)))
			case rnd.IntN(2) == 0:
				_, _ = s.touch(at, now)
			default:
				idle, age := limit(), limit()
				s.apply(bound(held.limited(Limit{Idle: &idle, MaxAge: &age}, now), now))
			}
			require.Equal(t, naive{s}.owed(), append([]*Unbound(nil), s.owed...))
			require.Equal(t, naive{s}.expired(now), s.expired(now))
			if rnd.IntN(2) == 0 { // it moves deadlines
				require.Equal(t, naive{s}.next(), s.next())
			}
			require.LessOrEqual(t, len(s.deadlines), 64+2*len(s.bound)+1)
		}
	}
}

// An end that is there twice is owed once: only a log that others wrote has one.
func TestEndThatIsThereTwice(t *testing.T) {
	s := newState()
	for n := range 2 {
		at := expiryNoon.Add(time.Duration(n))
		s.apply(unbound(Unbound{ID: "a", Binding: Binding{Conversation: conversation(n)}, At: at}))
	}
	require.Len(t, s.owed, 1)
	s.settle("a")
	require.Empty(t, s.owed)
}

// bindMany binds n conversations, has each one touched, ends them one after the other and settles
// each end, as package agent does.
func bindMany(n int) {
	s, now := newState(), expiryNoon
	for i := range n {
		now = now.Add(time.Second)
		b := Binding{Conversation: conversation(i), Bound: now, Touched: now, Idle: 24 * time.Hour}
		s.apply(bound(b, now))
		_, _ = s.touch(b.Conversation, now.Add(time.Second))
		s.next()
	}
	for i := range n {
		at := conversation((i + n/2) % n)
		s.apply(unbound(end(s.bound[at].Binding, ReasonManual, fmt.Sprint(i), now)))
		s.next()
	}
	for i := range n {
		s.apply(newFact(fact{Kind: factSettled, ID: fmt.Sprint(n - 1 - i)}))
	}
}

// expireMany lets n conversations expire one after the other.
func expireMany(n int) {
	s, now := newState(), expiryNoon
	for i := range n {
		at := now.Add(time.Duration(i) * time.Second)
		b := Binding{Conversation: conversation(i), Bound: at, Touched: at, Idle: 24 * time.Hour}
		s.apply(bound(b, at))
	}
	for now = s.next(); !now.IsZero(); now = s.next() {
		for _, u := range s.expired(now) {
			u.ID = u.Binding.Conversation.To
			s.apply(unbound(u))
			s.apply(newFact(fact{Kind: factSettled, ID: u.ID}))
		}
	}
}

// What a conversation costs the Table does not grow with their number. Sixteen tables are compared
// with one that has as many conversations as all sixteen: linear work takes as long on both,
// quadratic work 16 times.
func TestManyBindingsAreLinear(t *testing.T) {
	if testing.Short() || !growth.Measures {
		t.Skip("it measures") // the step plain of .ci/run has it
	}
	for what, work := range map[string]func(n int){"bind": bindMany, "expire": expireMany} {
		few, many := time.Hour, time.Hour
		for n := 0; n < 20 && (n < 2 || many > 3*few); n++ {
			few = min(few, growth.Time(16, func(string) { work(250) }, ""))
			many = min(many, growth.Time(1, func(string) { work(4000) }, ""))
		}
		require.LessOrEqual(t, many, 3*few, what)
	}
}

// BenchmarkManyBindings is what a conversation costs the Table, of so many, from its binding to
// when its end is settled.
func BenchmarkManyBindings(b *testing.B) {
	for what, work := range map[string]func(n int){"bind": bindMany, "expire": expireMany} {
		for _, n := range []int{250, 1000, 4000} {
			b.Run(fmt.Sprintf("%s/%d", what, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					work(n)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/conversation")
			})
		}
	}
}
