package fifo_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/fifo"
)

type entry struct {
	n int
	fifo.Link[entry]
}

// TestQueueIsLikeASlice plays what a Queue can do beside a slice.
func TestQueueIsLikeASlice(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var q fifo.Queue[entry, *entry]
	var want []*entry
	for n := range 2_000 {
		e := &entry{n: n}
		switch r.IntN(5) {
		case 0, 1:
			q.Push(e)
			want = append(want, e)
		case 2:
			q.PushFront(e)
			want = slices.Insert(want, 0, e)
		default:
			if len(want) == 0 {
				require.Nil(t, q.Pop())
				continue
			}
			require.Same(t, want[0], q.First())
			popped := q.Pop()
			require.Same(t, want[0], popped)
			require.Equal(t, entry{n: popped.n}, *popped, "it leads to none any more")
			want = want[1:]
		}
		require.Equal(t, want, slices.Collect(q.All))
	}
	for range q.All {
		break // one that has enough
	}
	for q.Pop() != nil {
	}
	require.Nil(t, q.First())
}
