package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is read from a log depends neither on its pieces nor on batches that are added meanwhile.
func TestBatchList(t *testing.T) {
	var l batchList
	var sizes []int
	next := Seq(1)
	for i := range 1000 {
		n := i%3 + 1
		sizes = append(sizes, n)
		l.add(memoryBatch{first: next, entries: make([]Entry, n)})
		next += Seq(n)
	}
	read := func(l batchList) (firsts []Seq) {
		for b := range l.all() {
			firsts = append(firsts, b.first)
		}
		return firsts
	}
	all := read(l)
	require.Len(t, all, len(sizes))
	for after := Seq(0); after <= next; after++ {
		var want []Seq
		for i, first := range all {
			if first+Seq(sizes[i])-1 > after {
				want = all[i:]
				break
			}
		}
		got := l.since(after)
		if len(want) == 0 {
			require.Empty(t, read(got))
			continue
		}
		require.Equal(t, want, read(got), "after %d", after)
	}
	for b := range l.all() {
		require.EqualValues(t, 1, b.first)
		break
	}
	require.Less(t, len(l), 20, "pieces")
	before := l.since(0)
	for range 2 * maxPiece {
		l.add(memoryBatch{first: next, entries: make([]Entry, 1)})
		next++
	}
	require.Equal(t, all, read(before), "an earlier result of since does not change")
}
