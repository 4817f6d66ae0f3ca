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

// A run is not archived before a hook has heard of its end, or has gone.
func TestAuditOfHooks(t *testing.T) {
	live := tree.New(topKey, &tree.Options{Rules: &policy.Rules{}, Ends: true, ArchiveAfter: 1})
	a := session.Must(topKey.Child("main", "a"))
	for i, c := range []tree.Command{
		&tree.Open{SessionID: "s"}, &tree.Spawn{Parent: topKey, ID: "a", Task: "x"},
		tree.Granted{Run: a},
		&tree.TurnDone{Run: a, N: 1, Answer: &tree.Result{Text: "x"}},
		tree.Compact{},
		&tree.Settle{Ord: 1},
		tree.Tick{},
		tree.ArchiveDone{Run: a},
	} {
		_, err := live.Decide(c, int64(i+1))
		require.NoError(t, err)
	}
	facts, _ := live.Take()
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
	require.NoError(t, spawntest.Audit(entriesOf(facts[nthOf(facts, tree.Snapshot, 1):])))
	untold := removeFact(tree.Delivered, 1)(slices.Clone(facts))
	var v *spawntest.Violation
	require.ErrorAs(t, spawntest.Audit(entriesOf(untold)), &v)
	require.Equal(t, "hooks", v.Rule, "%v", v)
	for name, falsify := range map[string]func(factList) factList{
		"it was not to be told": changeFact(tree.RunEnded, 1, func(f *tree.Fact) {
			f.Flags &^= tree.FlagHook
		}),
		"it goes to an inbox": changeFact(tree.Delivered, 1, func(f *tree.Fact) {
			f.Kind = tree.Redirected
		}),
	} {
		err := spawntest.Audit(entriesOf(falsify(slices.Clone(facts))))
		require.ErrorAs(t, err, &v, name)
	}
}
