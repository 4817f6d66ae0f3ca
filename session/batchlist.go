package session

import (
	"iter"
	"slices"
	"sort"
)

// A memoryBatch is a batch as it was appended. Its entry i has the sequence first+i.
type memoryBatch struct {
	first   Seq
	id      BatchID
	entries []Entry
}

// beyond reports whether b has an entry whose sequence is greater than after.
func (b *memoryBatch) beyond(after Seq) bool { return b.first+Seq(len(b.entries)) > after+1 }

// A batchList is the log of batches, cut into pieces so that appending never copies a long log. The
// batches in it never change.
type batchList [][]memoryBatch

// maxPiece is the greatest number of batches in a piece. The first pieces are smaller, since most
// logs are short.
const maxPiece = 256

// add appends b to l.
func (l *batchList) add(b memoryBatch) {
	last := len(*l) - 1
	if last < 0 || len((*l)[last]) == cap((*l)[last]) {
		size := 1
		if last >= 0 {
			size = min(2*cap((*l)[last]), maxPiece)
		}
		*l = append(*l, make([]memoryBatch, 0, size))
		last++
	}
	(*l)[last] = append((*l)[last], b)
}

// since returns the batches that have an entry whose sequence is greater than after. Later calls of
// add on l do not change the result.
func (l batchList) since(after Seq) batchList {
	from := sort.Search(len(l), func(i int) bool { return l[i][len(l[i])-1].beyond(after) })
	rest := slices.Clone(l[from:])
	if len(rest) > 0 {
		first := rest[0]
		at := sort.Search(len(first), func(i int) bool { return first[i].beyond(after) })
		rest[0] = first[at:]
	}
	return rest
}

// all yields the batches in their order.
func (l batchList) all() iter.Seq[*memoryBatch] {
	return func(yield func(*memoryBatch) bool) {
		for _, piece := range l {
			for i := range piece {
				if !yield(&piece[i]) {
					return
				}
			}
		}
	}
}
