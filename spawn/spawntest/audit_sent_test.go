package spawntest_test

import (
	"iter"
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
			m := *f.Image()
			m.Outbox = slices.Clone(m.Outbox)
			change(&m.Outbox[0])
			f.Own().Image = &m
		})
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"the same again", "messages", repeatFact(tree.Sent, 1)},
		{"without an id", "messages", changeFact(tree.Sent, 1, func(f *tree.Fact) { f.Own().ID = "" })},
		{"to its own tree", "messages", changeFact(tree.Sent, 1, func(f *tree.Fact) {
			f.Own().From = topKey
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

// AuditSent compares what a tree has sent with what the other one has.
func TestAuditSent(t *testing.T) {
	other := session.Must(session.MainKey("other"))
	journal := func(root session.Key, commands ...tree.Command) factList {
		live := tree.New(root, &tree.Options{Rules: &policy.Rules{}})
		_, err := live.Decide(&tree.Open{SessionID: "s"}, 1)
		require.NoError(t, err)
		for i, c := range commands {
			_, err := live.Decide(c, int64(i+2))
			require.NoError(t, err)
		}
		facts, _ := live.Take()
		return facts
	}
	write := func(id string) tree.Command {
		return &tree.SendOut{From: topKey, To: other, ID: id, Text: tree.Text("of " + id)}
	}
	post := func(id string) tree.Command {
		return &tree.Post{To: other, From: topKey, ID: id, Text: tree.Text("of " + id)}
	}
	sent := journal(topKey, write("1"), write("2"), write("3"),
		&tree.Settle{Ord: 1}, &tree.Settle{Ord: 2, Error: "gone", Never: true}, tree.Compact{},
		&tree.Settle{Ord: 3}, tree.Retry{Ord: 2}, &tree.Settle{Ord: 2}, write("1"),
		&tree.Settle{Ord: 4})
	got := journal(other, post("1"), post("3"), post("2"))
	audit := func(sent, got factList) error {
		return spawntest.AuditSent([]session.Key{topKey, other},
			func(root session.Key) iter.Seq2[session.Entry, error] {
				if root == other {
					return entriesOf(got)
				}
				return entriesOf(sent)
			})
	}
	require.NoError(t, audit(sent, got))
	require.NoError(t, audit(sent[nthOf(sent, tree.Snapshot, 1):], got))
	for name, falsify := range map[string]func(factList) factList{
		"it is not there":     removeFact(tree.Posted, 1),
		"it is there twice":   repeatFact(tree.Posted, 2),
		"it has other words":  changeFact(tree.Posted, 1, func(f *tree.Fact) { f.Text = "x" }),
		"another one sent it": changeFact(tree.Posted, 1, func(f *tree.Fact) { f.Own().From = other }),
		"it is overtaken": func(list factList) factList {
			i, j := nthOf(list, tree.Posted, 1), nthOf(list, tree.Posted, 2)
			list[i], list[j] = list[j], list[i]
			return list
		},
	} {
		requireFault(t, audit(sent, falsify(slices.Clone(got))), "messages", name)
	}
	requireFault(t, audit(repeatFact(tree.Delivered, 1)(slices.Clone(sent)), got), "exactly once",
		"a journal that is spoiled")
}

// requireFault checks the rule of an error of an audit.
func requireFault(t *testing.T, err error, rule, name string) {
	t.Helper()
	var v *spawntest.Violation
	require.ErrorAs(t, err, &v, name)
	require.ErrorIs(t, err, session.ErrCorrupt, name)
	require.Equal(t, rule, v.Rule, "%s: %v", name, v)
}
