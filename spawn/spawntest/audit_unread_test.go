package spawntest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// unread returns a history of a run that reads the message m1, ends before it reads m2, and is told
// m2 again. The process dies before its end, or the turn fails.
func unread(t *testing.T, crash bool) factList {
	t.Helper()
	p := newPlay(t, tree.Options{})
	key := p.spawn("a", "")
	p.do(&tree.Post{To: key, ID: "m1", Text: "one"})
	p.do(tree.Take{Run: key, N: 1})
	p.do(&tree.Post{To: key, ID: "m2", Text: "two"})
	if crash {
		p.do(&tree.Open{Writer: "w2", SessionID: "s"})
	} else {
		p.do(&tree.TurnDone{Run: key, N: 1, Failed: "broken"})
	}
	p.do(&tree.Post{To: key, ID: "m2", Text: "two", RunID: "a2"})
	return p.facts
}

// A message that no run has read may be told again, and one that a run has read may not.
func TestAuditOfUnreadMessages(t *testing.T) {
	first := changeFact(tree.Restarted, 1, func(f *tree.Fact) { f.Own().ID = "m1" })
	for _, crash := range []bool{false, true} {
		history := unread(t, crash)
		require.NoError(t, spawntest.Audit(entriesOf(history)))
		err := spawntest.Audit(entriesOf(first(slices.Clone(history))))
		if crash { // the conversation does not have what the turn had begun to read
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "messages")
	}
}
