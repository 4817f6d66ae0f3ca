package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A busy log touches the index when it first becomes due and then not again, and one that is never due again leaves it.
func TestDueIndexIsLazy(t *testing.T) {
	j, now := newMemoryJournal(), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	add := func(root Key, after Seq, due time.Time) Seq {
		last, err := j.Append(t.Context(), root, after, Batch{Entries: []Entry{{Payload: Raw("1")}}, Due: due})
		require.NoError(t, err)
		return last
	}
	var last Seq
	for i := range 100 {
		last = add(Main("main"), last, now.Add(time.Duration(i)*time.Second))
	}
	require.Len(t, j.due.logs, 1)
	assert.Equal(t, now, j.due.logs[0].slot.at, "later is not worth a change")
	for i := range 100 {
		add(Named("main", fmt.Sprint("later", i)), 0, now.Add(24*time.Hour))
	}
	last = add(Main("main"), last, time.Time{})
	assert.Len(t, j.due.logs, 101)
	assert.LessOrEqual(t, len(j.due.before(now.Add(time.Hour))), 1, "what is due later is not looked at")
	for head, err := range j.Roots(t.Context(), RootQuery{DueBefore: now.Add(time.Hour)}) {
		t.Error("nothing is due", head, err)
	}
	assert.Len(t, j.due.logs, 100)
	add(Main("main"), last, now)
	n := 0
	for _, err := range j.Roots(t.Context(), RootQuery{DueBefore: now.Add(time.Hour)}) {
		require.NoError(t, err)
		n++
	}
	assert.Equal(t, 1, n)
	for i, l := range j.due.logs {
		assert.Equal(t, i, l.slot.pos)
	}
}
