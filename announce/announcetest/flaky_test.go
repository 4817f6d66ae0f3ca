package announcetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func keyed(key string) spawn.Delivery { return spawn.Delivery{Key: key} }

// Each mishap does what its documentation says, and the sink says what it did.
func TestMishaps(t *testing.T) {
	tests := map[Mishap]struct {
		arrivals int
		err      error
	}{
		MishapNone:    {1, nil},
		MishapFail:    {0, ErrFlaky},
		MishapHang:    {0, context.DeadlineExceeded},
		MishapLose:    {1, ErrAnswerLost},
		MishapRepeat:  {2, nil},
		MishapReorder: {0, nil},
		MishapBusy:    {0, spawn.ErrBusy},
	}
	for m, tt := range tests {
		t.Run(m.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got Recorder
				sink := FlakySink{Next: got.Deliver, Script: []Mishap{m}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err := sink.Deliver(ctx, keyed("a"))
				if tt.err == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tt.err)
				}
				require.Equal(t, m == MishapHang, time.Since(began) == time.Minute)
				require.Equal(t, tt.arrivals, got.Len())
				require.Equal(t, []FlakyCall{{keyed("a"), 1, m}}, sink.Log())
				require.Equal(t, 1, sink.Count(m))
				require.NoError(t, sink.Deliver(t.Context(), keyed("a")), "the script is over")
			})
		})
	}
	t.Run("panic", func(t *testing.T) {
		var got Recorder
		sink := FlakySink{Next: got.Deliver, Script: []Mishap{MishapPanic}}
		require.Panics(t, func() { _ = sink.Deliver(t.Context(), keyed("a")) })
		require.Equal(t, 1, sink.Count(MishapPanic))
		require.Zero(t, got.Len())
	})
}

// A reordered delivery arrives after the next one, or with Flush, and what the receiver refuses
// stays.
func TestReorder(t *testing.T) {
	t.Parallel()
	var got Recorder
	refused := errors.New("refused")
	refuse := map[string]bool{}
	sink := FlakySink{Script: []Mishap{MishapReorder}}
	sink.Next = func(ctx context.Context, d spawn.Delivery) error {
		if refuse[d.Key] {
			return refused
		}
		return got.Deliver(ctx, d)
	}
	keys := func() (keys []string) {
		for _, d := range got.All() {
			keys = append(keys, d.Key)
		}
		return keys
	}
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, sink.Deliver(t.Context(), keyed(key)))
	}
	require.Empty(t, keys())
	refuse["b"] = true
	require.NoError(t, sink.Deliver(t.Context(), keyed("a")), "the second call with its key")
	require.Equal(t, []string{"a", "a"}, keys())
	require.ErrorIs(t, sink.Flush(t.Context()), refused)
	delete(refuse, "b")
	require.NoError(t, sink.Flush(t.Context()))
	require.NoError(t, sink.Flush(t.Context()))
	require.Equal(t, []string{"a", "a", "b", "c"}, keys())
}

// What happens depends on seed, key and call, not on the order of the calls, and happens about as
// often as asked for.
func TestFlakySinkIsDeterministic(t *testing.T) {
	t.Parallel()
	const keys, calls = 500, 8
	chances := map[Mishap]float64{
		MishapFail: 0.3, MishapBusy: 0.2, MishapLose: 0.1, MishapRepeat: 0.1,
	}
	play := func(seed uint64, atOnce bool) map[string]Mishap {
		sink := FlakySink{Seed: seed, Chances: chances}
		var wg sync.WaitGroup
		for k := range keys {
			work := func() {
				for range calls {
					_ = sink.Deliver(t.Context(), keyed(fmt.Sprint(k)))
				}
			}
			if atOnce {
				wg.Go(work)
			} else {
				work()
			}
		}
		wg.Wait()
		did := make(map[string]Mishap)
		for _, c := range sink.Log() {
			did[fmt.Sprint(c.Delivery.Key, " ", c.Call)] = c.Mishap
		}
		for m, chance := range chances {
			require.InDelta(t, chance, float64(sink.Count(m))/(keys*calls), 0.03, "%v", m)
		}
		require.Zero(t, sink.Count(MishapHang)+sink.Count(MishapPanic)+sink.Count(MishapReorder))
		return did
	}
	first := play(1, false)
	require.Len(t, first, keys*calls)
	require.Equal(t, first, play(1, true))
	require.NotEqual(t, first, play(2, false))
}

// With Patience every delivery arrives.
func TestPatience(t *testing.T) {
	t.Parallel()
	var got Recorder
	sink := FlakySink{
		Next: got.Deliver, Script: []Mishap{MishapBusy}, Patience: 3,
		Chances: map[Mishap]float64{MishapFail: 1},
	}
	for range 3 {
		require.Error(t, sink.Deliver(t.Context(), keyed("a")))
	}
	require.NoError(t, sink.Deliver(t.Context(), keyed("a")))
	require.Equal(t, 1, got.Len())
}

// A mistake in the fields is an error of each call.
func TestFlakySinkRefuses(t *testing.T) {
	t.Parallel()
	for want, sink := range map[string]*FlakySink{
		"Chances[fail] is 1.5":  {Chances: map[Mishap]float64{MishapFail: 1.5}},
		"Chances[fail] is -0.1": {Chances: map[Mishap]float64{MishapFail: -0.1}},
		"Chances[fail] is NaN":  {Chances: map[Mishap]float64{MishapFail: math.NaN()}},
		"the sum is 1.2": {
			Chances: map[Mishap]float64{MishapFail: 0.6, MishapBusy: 0.6},
		},
		"Mishap(99) is not a mishap": {Script: []Mishap{99}},
	} {
		require.ErrorContains(t, sink.Deliver(t.Context(), keyed("a")), want)
	}
	require.Equal(t, "lose", MishapLose.String())
	call := FlakyCall{Delivery: delivery(step{key: "k"}), Call: 2, Mishap: MishapLose}
	require.Equal(t, "agent:main:telegram:direct:42: call 2 of k: lose", call.String())
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got Recorder
		all, err := got.Wait(t.Context(), 0)
		require.NoError(t, err)
		require.Empty(t, all)

		other := session.Must(session.DirectKey("main", "telegram", "43"))
		completion := delivery(step{key: "a"})
		reply := spawn.Delivery{Key: "b", To: other, Reply: &spawn.Reply{Text: "hi"}}
		route := session.Route{Channel: "telegram", To: "43"}
		routed := spawn.Delivery{Key: "c", To: other, Reply: &spawn.Reply{Route: route}}
		ended := spawn.Delivery{Key: "d", To: other, Ended: &spawn.EndedRun{}}
		go func() {
			for _, d := range []spawn.Delivery{completion, reply, routed, ended, completion} {
				time.Sleep(time.Second)
				_ = got.Deliver(t.Context(), d)
			}
		}()
		began := time.Now()
		all, err = got.Wait(t.Context(), 3)
		require.NoError(t, err)
		require.Len(t, all, 3)
		require.Equal(t, 3*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		all, err = got.Wait(ctx, 6)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "5 of 6 deliveries have arrived")
		require.Len(t, all, 5)

		require.Equal(t, []spawn.Delivery{completion, reply, routed, ended, completion}, got.All())
		require.Equal(t, []spawn.Delivery{reply, routed, ended}, got.To(other))
		places := []Destination{
			{To: completion.To}, {To: other, Reply: true}, {Reply: true, Route: route}, {},
		}
		require.Equal(t, places, got.Destinations())
		require.Equal(t, []spawn.Delivery{completion, completion}, got.At(places[0]))
		require.Equal(t, []spawn.Delivery{routed}, got.At(places[2]))
		require.Equal(t, 2, got.Count("a"))
		require.Equal(t, []string{"a"}, got.Repeated())
		got.Reset()
		require.Zero(t, got.Len())
	})
}

// The sink is for use at once, and so is the Recorder.
func TestKitsAtOnce(t *testing.T) {
	t.Parallel()
	var got Recorder
	sink := FlakySink{Next: got.Deliver, Chances: map[Mishap]float64{MishapReorder: 0.5}}
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Go(func() { _ = sink.Deliver(t.Context(), keyed(fmt.Sprint(n))) })
	}
	wg.Go(func() { _, _ = got.Wait(t.Context(), 10) })
	wg.Wait()
	require.NoError(t, sink.Flush(t.Context()))
	require.Equal(t, 64, got.Len())
	require.Empty(t, got.Repeated())
}
