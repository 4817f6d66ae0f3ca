package due

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var indexNoon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

type (
	dueIndex = Index[string, int]
	dueItem  = Item[string, int]
)

func newDueItem(root string, due time.Time) *dueItem {
	return &dueItem{Root: root, Lock: new(sync.Mutex), Last: 1, Due: due}
}

func dueRoots(x *dueIndex, t time.Time) []string {
	roots := []string{}
	x.Due(t, func(h Head[string, int]) bool {
		roots = append(roots, h.Root)
		return true
	})
	return roots
}

// A busy log touches the index when it first becomes due and then not again, and one that is never
// due again leaves it.
func TestIndexIsLazy(t *testing.T) {
	var x dueIndex
	busy := newDueItem("main", time.Time{})
	for i := range 100 {
		busy.Due = indexNoon.Add(time.Duration(i) * time.Second)
		x.Schedule(busy)
	}
	require.Len(t, x.heap, 1)
	assert.Equal(t, indexNoon, x.heap[0].place.at, "later is not worth a change")
	for range 100 {
		x.Schedule(newDueItem("later", indexNoon.Add(24*time.Hour)))
	}
	busy.Due = time.Time{}
	x.Schedule(busy)
	assert.Len(t, x.heap, 101)
	assert.Len(t, x.before(indexNoon.Add(time.Hour)), 1, "what is due later is not looked at")
	assert.Empty(t, dueRoots(&x, indexNoon.Add(time.Hour)))
	assert.Len(t, x.heap, 100)
	busy.Due = indexNoon
	x.Schedule(busy)
	assert.Equal(t, []string{busy.Root}, dueRoots(&x, indexNoon.Add(time.Hour)))
	x.Remove(busy)
	assert.Empty(t, dueRoots(&x, indexNoon.Add(time.Hour)))
	assert.False(t, x.isDue(busy, indexNoon.Add(-time.Hour)))
	assert.Len(
		t, x.heap, 100, "what was taken out is not put back by a caller that has found it before",
	)
	x.Schedule(busy)
	assert.Equal(
		t, []string{busy.Root}, dueRoots(&x, indexNoon.Add(time.Hour)),
		"but by a caller that has appended since",
	)
}

// Whatever is done, what is due is found, and every item knows its place.
func TestIndexFindsWhatIsDue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var x dueIndex
	items := make([]*dueItem, 50)
	for i := range items {
		items[i] = newDueItem(fmt.Sprint(i), time.Time{})
	}
	for range 5000 {
		l := items[rng.IntN(len(items))]
		switch rng.IntN(8) {
		case 0:
			x.Remove(l)
			l.Due = time.Time{}
		case 1:
			l.Due = time.Time{}
			x.Schedule(l)
		case 2:
			at := indexNoon.Add(time.Duration(rng.IntN(1000)) * time.Second)
			want := []string{}
			for _, l := range items {
				if !l.Due.IsZero() && l.Due.Before(at) {
					want = append(want, l.Root)
				}
			}
			require.ElementsMatch(t, want, dueRoots(&x, at))
		default:
			l.Due = indexNoon.Add(time.Duration(rng.IntN(1000)) * time.Second)
			x.Schedule(l)
		}
		for i, l := range x.heap {
			require.Equal(t, i+1, l.place.n)
			require.Equal(t, l.indexed, l.place.at)
		}
	}
}
