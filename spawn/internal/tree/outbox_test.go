package tree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// imageWith returns an image of a tree that has nothing but an outbox.
func imageWith(entries []Entry, clocks ...Clock) *Image {
	root := RunState{Spec: &Spec{Key: top, Grant: &Grant{}}, State: Waiting}
	return &Image{
		Epoch: 1, NextOut: 9, Runs: []RunState{root}, Outbox: entries, Clocks: clocks,
	}
}

// D1: an image of version 1 has the first failure of each entry. The failure clock of a destination
// begins with the earliest one of what is pending.
func TestClockOfAnImageOfVersion1(t *testing.T) {
	slack := &session.Route{Channel: "slack"}
	m := imageWith([]Entry{
		{Ord: 1, Run: top, To: top, Reply: true, Since: 5, Blocked: 9},
		{Ord: 2, Run: top, To: top, Reply: true, Since: 7, Tries: 1},
		{Ord: 3, Run: top, To: top, Reply: true, Since: 6, Tries: 2},
		{Ord: 4, Run: top, To: top, Reply: true, Route: slack, Tries: 1},
	})
	require.Equal(t, 1, snapshotOf(m).version())
	tree := New(top, &newScene().opt)
	require.NoError(t, tree.Replay(snapshotOf(m)))
	again := tree.Image()
	require.Equal(t, []Clock{{Ord: 1, Since: 6}}, again.Clocks)
	require.Equal(t, 2, snapshotOf(again).version())
	for _, e := range again.Outbox {
		require.Zero(t, e.Since)
	}
}

// An image whose outbox cannot be one is refused.
func TestReplayRefusesOutboxesOfNoTree(t *testing.T) {
	one, two := Entry{Ord: 1, Run: top, To: top}, Entry{Ord: 2, Run: top, To: top}
	for name, m := range map[string]*Image{
		"an entry twice":         imageWith([]Entry{one, one}),
		"entries out of order":   imageWith([]Entry{two, one}),
		"a clock without entry":  imageWith([]Entry{one}, Clock{Ord: 2, Since: 1}),
		"a clock without outbox": imageWith(nil, Clock{Ord: 1, Since: 1}),
	} {
		var corrupt *CorruptError
		err := New(top, &newScene().opt).Replay(snapshotOf(m))
		require.ErrorAs(t, err, &corrupt, name)
	}
}
