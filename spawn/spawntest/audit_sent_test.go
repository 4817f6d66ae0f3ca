package spawntest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// The auditor knows what a session writes to other trees: each message has one entry, which leaves
// the outbox once.
func TestAuditOfMessagesToOtherTrees(t *testing.T) {
	live := tree.New(topKey, &tree.Options{Rules: &policy.Rules{}})
	other := session.Must(session.MainKey("other"))
	write := func(id string) tree.Command {
		c := &tree.SendOut{From: topKey, To: other, ID: id, Text: "x"}
		return tree.InTurn{Run: topKey, N: 1, Cmd: c}
	}
	for _, c := range []tree.Command{
		&tree.Open{SessionID: "s"},
		&tree.Post{To: topKey, ID: "1", Text: "x"},
		tree.Granted{Run: topKey},
		write("1"),
		write("1"),
		write("2"),
		&tree.Settle{Ord: 1, Error: "gone", Never: true},
		tree.Compact{},
		&tree.TurnDone{Run: topKey, N: 1, Answer: &tree.Result{Text: "x"}},
		tree.Dismiss{Ord: 1},
		&tree.Settle{Ord: 2},
	} {
		_, err := live.Decide(c, 1)
		require.NoError(t, err)
	}
	facts, _ := live.Take()
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
	require.NoError(t, spawntest.Audit(entriesOf(facts[nthOf(facts, tree.Snapshot, 1):])))
	image := func(change func(*tree.Entry)) func(factList) factList {
		return changeFact(tree.Snapshot, 1, func(f *tree.Fact) {
			m := *f.Image
			m.Outbox = slices.Clone(m.Outbox)
			change(&m.Outbox[0])
			f.Image = &m
		})
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"the same again", "messages", repeatFact(tree.Sent, 1)},
		{"without an id", "messages", changeFact(tree.Sent, 1, func(f *tree.Fact) { f.ID = "" })},
		{"to its own tree", "messages", changeFact(tree.Sent, 1, func(f *tree.Fact) {
			f.From = topKey
		})},
		{"of another turn", "one turn at a time", changeFact(tree.Sent, 1, func(f *tree.Fact) {
			f.N = 2
		})},
		{"it arrives twice", "exactly once", repeatFact(tree.Delivered, 1)},
		{"it is not blocked", "snapshot", removeFact(tree.Blocked, 1)},
		{"it comes to an inbox", "outbox", changeFact(tree.Delivered, 1, func(f *tree.Fact) {
			f.Kind = tree.Redirected
		})},
		{"it has no entry", "snapshot", image(func(e *tree.Entry) { e.Sends = false })},
		{"another message", "snapshot", image(func(e *tree.Entry) { e.RunID = "3" })},
		{"other words", "snapshot", image(func(e *tree.Entry) { e.Text = "y" })},
		{"another receiver", "snapshot", image(func(e *tree.Entry) {
			e.To = session.Must(session.MainKey("third"))
		})},
	} {
		requireRule(t, c.falsify(slices.Clone(facts)), c.rule, c.name)
	}
}
