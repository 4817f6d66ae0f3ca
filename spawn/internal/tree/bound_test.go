package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// room returns one of many conversations.
func room(n int) session.Route { return session.Route{Channel: "discord", To: fmt.Sprint(n)} }

// However conversations come and go, the index of a run answers as its list does, and the list
// stays in the order in which they came. An image that was taken in between does not change.
func TestBoundIndexAgreesWithTheList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		r := NewRun(RunState{Spec: &Spec{Key: top}})
		var want, kept, image []Conversation
		most := 1 + rnd.IntN(5*fewBound)
		for step := range 300 {
			if n := len(want); n < most && rnd.IntN(3) > 0 {
				c := Conversation{room(step), int64(rnd.IntN(100))}
				r.addBound(c)
				want = append(slices.Clone(want), c)
			} else if n > 0 {
				i := rnd.IntN(n)
				r.removeBound(i)
				want = slices.Delete(slices.Clone(want), i, i+1)
			}
			require.True(t, slices.Equal(want, r.Bound), "%v\n%v", want, r.Bound)
			at := room(rnd.IntN(step + 1))
			require.Equal(t, slices.IndexFunc(want, func(c Conversation) bool {
				return c.Route == at
			}), r.bindingOf(at))
			until := int64(2 + step/100) // few are bound by then
			require.Equal(t, slices.ContainsFunc(want, func(c Conversation) bool {
				return c.At <= until
			}), r.boundBy(until))
			if step == 150 {
				state := r.state()
				image, kept = state.Bound, slices.Clone(want)
			}
		}
		require.True(t, slices.Equal(kept, image), "the image of step 150")
	}
}

// What is bound after the end of a run is not to be unbound, of few conversations and of many, and
// what was bound before it is.
func TestWhatIsBoundAfterTheEndStays(t *testing.T) {
	tr := New(top, &Options{Unbinds: true})
	for _, n := range []int{2, 3 * fewBound} {
		r := NewRun(RunState{Spec: &Spec{Key: top}, State: OK, Turns: 1, Ended: 5})
		r.Parent = NewRun(RunState{Spec: &Spec{Key: top}})
		for i := range n {
			r.addBound(Conversation{room(i), 6})
		}
		require.False(t, tr.owesUnbind(r))
		tr.settleBound(r)
		require.Empty(t, tr.Effects())
		r.addBound(Conversation{room(n), 5})
		require.True(t, tr.owesUnbind(r))
	}
}

// An image that another library made may have a conversation twice. The first one counts, and the
// second one when the first has gone.
func TestBoundTwiceInAnImage(t *testing.T) {
	r := NewRun(RunState{Spec: &Spec{Key: top}})
	for n := range 2 * fewBound {
		r.addBound(Conversation{Route: room(n / 2)})
	}
	r.addBound(Conversation{Route: room(0)})
	r.addBound(Conversation{Route: room(99)})
	for range 3 {
		i := r.bindingOf(room(0))
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, room(0), r.Bound[i].Route)
		r.removeBound(i)
	}
	require.Equal(t, -1, r.bindingOf(room(0)))
	require.Equal(t, len(r.Bound)-1, r.bindingOf(room(99)))
}

// bindMany binds n conversations to a session, has messages posted of some, unbinds a half by hand
// from the middle on, and has the rest unbound because the session is to be deleted.
func bindMany(tb testing.TB, n int) {
	tb.Helper()
	tr := New(top, &Options{Unbinds: true})
	var next *Effect
	decide := func(c Command) {
		_, err := tr.Decide(c, 1)
		if err != nil {
			tb.Fatal(err)
		}
		_, effects := tr.Take()
		next = nil
		for i := range effects {
			if effects[i].Kind == EffectUnbind {
				next = &effects[i]
			}
		}
	}
	decide(&Open{SessionID: "s"})
	for i := range n {
		decide(&Bind{Run: top, Route: room(i)})
		decide(&Bind{Run: top, Route: room(i / 2)}) // it has it
	}
	for i := range n / 2 {
		at := room(i + n/4)
		require.NoError(tb, tr.threadForbidden(tr.Root(), &Post{To: top, Route: &at}))
		decide(&Unbind{Run: top, Route: at, Reason: "manual"})
	}
	decide(&Discard{Run: top})
	for next != nil {
		decide(&UnbindDone{Run: top, Route: next.To.Route, Reason: unboundDeleted})
	}
	require.Empty(tb, tr.Root().Bound)
}

// What a session costs for each conversation does not grow with their number. Sixteen sessions are
// compared with one that has as many conversations as all sixteen, so that other work on the
// machine delays both alike: linear work takes as long on both, quadratic work 16 times.
func TestManyBoundAreLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures")
	}
	measure := func(times, n int) time.Duration {
		began := time.Now()
		for range times {
			bindMany(t, n)
		}
		return time.Since(began)
	}
	few, many := time.Hour, time.Hour
	for n := 0; n < 20 && (n < 2 || many > 6*few); n++ {
		few, many = min(few, measure(16, 250)), min(many, measure(1, 4000))
	}
	require.LessOrEqual(t, many, 6*few) // quadratic: 16
}

// BenchmarkManyBound is bindMany, per conversation.
func BenchmarkManyBound(b *testing.B) {
	for _, n := range []int{250, 1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bindMany(b, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/conversation")
		})
	}
}
