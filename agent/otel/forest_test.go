package otel

import (
	"fmt"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"
)

// A tree that was forgotten is not read from its beginning after a kill, unless it was active
// since, and then what it did before that is left out.
func TestForgottenTreesAreNotFound(t *testing.T) {
	key := func(n int) session.Key {
		return session.Must(session.DirectKey("main", "test", fmt.Sprint("peer", n)))
	}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	f := forest{Since: began}
	for n := range maxTrees + 1 {
		f.grove(key(n)).At = at(n)
	}
	known := len(f.Trees)
	require.Less(t, known, maxTrees)
	for n := range maxTrees + 1 {
		f.find(key(n), at(n))
	}
	require.Len(t, f.Trees, known)

	f.find(key(0), at(maxTrees+1)) // it woke, and a kill came before it was saved
	g := f.Trees[key(0).String()]
	require.Equal(t, beginning(key(0)), g.Cursor)
	ends := func(at time.Time) int {
		return len(f.apply(key(0), agent.TreeEvent{
			Kind: agent.EventTurnEnded, Session: key(0), Turn: 1, Time: at, Cursor: g.Cursor,
		}))
	}
	require.Zero(t, ends(at(0)))
	require.Equal(t, 2, ends(at(maxTrees+1)), "the turn and the tree")
	require.Equal(t, 1, ends(at(maxTrees+1)))
}
