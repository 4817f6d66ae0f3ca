package tree

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimersPopInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h timers
	var want, got []int64
	for range 500 {
		at := r.Int64N(100)
		h.push(timer{at: at})
		want = append(want, at)
		if r.IntN(3) == 0 {
			got = append(got, h.pop().at)
			require.Equal(t, slices.Min(want), got[len(got)-1])
			i := slices.Index(want, got[len(got)-1])
			want = slices.Delete(want, i, i+1)
		}
	}
	slices.Sort(want)
	for _, at := range want {
		require.Equal(t, at, h.pop().at)
	}
	require.Empty(t, h)
}

// Many turns of a run with a deadline cost one timer, not one each.
func TestTimersDoNotPileUp(t *testing.T) {
	s := newScene()
	for _, c := range []string{"open", "spawn top p timeout=1000h", "grant p", "spawn p a", "done p yield=all"} {
		s.run(c)
	}
	for range 40 {
		s.run("+3s steer top p text=x")
		s.run("grant p")
		s.run("done p")
	}
	require.Equal(t, uint32(41), s.tree.Run(s.names["p"]).Turns)
	require.Less(t, len(s.tree.timers), 5)
}

func TestRetrySchedule(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	var pauses []time.Duration
	for tries := range uint32(7) {
		due, blocked := retryAt(0, tries, now, 0)
		require.False(t, blocked)
		pauses = append(pauses, time.Duration(due-now))
	}
	require.Equal(t, []time.Duration{
		15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
		5 * time.Minute, 5 * time.Minute,
	}, pauses)
	for rand := range uint64(1000) {
		due, _ := retryAt(0, 0, now, rand*1e8)
		require.LessOrEqual(t, due-now, int64(FirstRetry))
		require.Greater(t, due-now, int64(FirstRetry*4/5))
	}
	_, blocked := retryAt(now-int64(GiveUp)+1, 1, now, 0)
	require.False(t, blocked)
	_, blocked = retryAt(now-int64(GiveUp), 1, now, 0)
	require.True(t, blocked)
}
