package session

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

func indexed(key Key, due time.Time) *dueItem {
	return &dueItem{root: key, lock: new(sync.Mutex), last: 1, due: due}
}

func dueRoots(x *dueIndex, t time.Time) []Key {
	roots := []Key{}
	x.due(t, func(h Head) bool {
		roots = append(roots, h.Root)
		return true
	})
	return roots
}

// A busy log touches the index when it first becomes due and then not again, and one that is never due again leaves it.
func TestDueIndexIsLazy(t *testing.T) {
	var x dueIndex
	busy := indexed(Main("main"), time.Time{})
	for i := range 100 {
		busy.due = indexNoon.Add(time.Duration(i) * time.Second)
		x.schedule(busy)
	}
	require.Len(t, x.heap, 1)
	assert.Equal(t, indexNoon, x.heap[0].place.at, "later is not worth a change")
	for range 100 {
		x.schedule(indexed(Main("later"), indexNoon.Add(24*time.Hour)))
	}
	busy.due = time.Time{}
	x.schedule(busy)
	assert.Len(t, x.heap, 101)
	assert.Len(t, x.before(indexNoon.Add(time.Hour)), 1, "what is due later is not looked at")
	assert.Empty(t, dueRoots(&x, indexNoon.Add(time.Hour)))
	assert.Len(t, x.heap, 100)
	busy.due = indexNoon
	x.schedule(busy)
	assert.Equal(t, []Key{busy.root}, dueRoots(&x, indexNoon.Add(time.Hour)))
	x.remove(busy)
	assert.Empty(t, dueRoots(&x, indexNoon.Add(time.Hour)))
	assert.False(t, x.isDue(busy, indexNoon.Add(-time.Hour)))
	assert.Len(t, x.heap, 100, "what was taken out is not put back by whoever has found it before")
	x.schedule(busy)
	assert.Equal(t, []Key{busy.root}, dueRoots(&x, indexNoon.Add(time.Hour)), "but by whoever has appended since")
}

// Whatever is done, what is due is found, and every item knows its place.
func TestDueIndexFindsWhatIsDue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var x dueIndex
	items := make([]*dueItem, 50)
	for i := range items {
		items[i] = indexed(Named("main", fmt.Sprint(i)), time.Time{})
	}
	for range 5000 {
		l := items[rng.IntN(len(items))]
		switch rng.IntN(8) {
		case 0:
			x.remove(l)
			l.due = time.Time{}
		case 1:
			l.due = time.Time{}
			x.schedule(l)
		case 2:
			at := indexNoon.Add(time.Duration(rng.IntN(1000)) * time.Second)
			want := []Key{}
			for _, l := range items {
				if !l.due.IsZero() && l.due.Before(at) {
					want = append(want, l.root)
				}
			}
			require.ElementsMatch(t, want, dueRoots(&x, at))
		default:
			l.due = indexNoon.Add(time.Duration(rng.IntN(1000)) * time.Second)
			x.schedule(l)
		}
		for i, l := range x.heap {
			require.Equal(t, i+1, l.place.n)
			require.Equal(t, l.indexed, l.place.at)
		}
	}
}
