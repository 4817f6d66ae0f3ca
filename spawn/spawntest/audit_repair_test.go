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

// A run answers again at most twice, and only after an answer that was refused; and it never ends
// well with one.
func TestAuditOfRepairs(t *testing.T) {
	live := tree.New(topKey, &tree.Options{Rules: &policy.Rules{}})
	a := session.Must(topKey.Child("main", "a"))
	commands := []tree.Command{
		&tree.Open{SessionID: "s"}, &tree.Spawn{Parent: topKey, ID: "a", Task: "x", Announce: true},
	}
	for n := range uint32(3) {
		commands = append(commands, tree.Granted{Run: a}, &tree.TurnDone{
			Run: a, N: n + 1, Answer: &tree.Result{
				Text: "x", ResultMore: &tree.ResultMore{Refused: "bad"},
			},
		}, tree.Compact{})
	}
	for _, c := range commands {
		_, err := live.Decide(c, 1)
		require.NoError(t, err)
	}
	facts, _ := live.Take()
	for n := range 4 {
		from := 0
		if n > 0 {
			from = nthOf(facts, tree.Snapshot, n)
		}
		require.NoError(t, spawntest.Audit(entriesOf(facts[from:])))
	}
	without := func(list factList) factList {
		return slices.DeleteFunc(list, func(f tree.Fact) bool { return f.Kind == tree.Snapshot })
	}
	for _, c := range []struct {
		name    string
		falsify func(factList) factList
	}{
		{"it ends well", func(list factList) factList {
			list = slices.Delete(list, nthOf(list, tree.StopRequested, 1),
				nthOf(list, tree.StopRequested, 1)+1)
			list[nthOf(list, tree.RunEnded, 1)].State = tree.OK
			return list
		}},
		{"it fails too soon", func(list factList) factList {
			i, j := nthOf(list, tree.Posted, 2), nthOf(list, tree.StopRequested, 1)
			return slices.Delete(list, i, j)
		}},
		{"a third one", func(list factList) factList {
			f := list[nthOf(list, tree.Posted, 2)]
			f.Ord++
			return slices.Insert(list, nthOf(list, tree.StopRequested, 1), f)
		}},
		{"nothing was refused", changeFact(tree.TurnEnded, 1, func(f *tree.Fact) {
			f.Answer = &tree.Result{Text: "x"}
		})},
		{"one that is a message", changeFact(tree.Posted, 1, func(f *tree.Fact) {
			f.Class = tree.User
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := spawntest.Audit(entriesOf(c.falsify(without(slices.Clone(facts)))))
			var v *spawntest.Violation
			require.ErrorAs(t, err, &v)
			require.Equal(t, "repairs", v.Rule, "%v", v)
		})
	}
}
