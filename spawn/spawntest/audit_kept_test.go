package spawntest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// The auditor knows what a session keeps for its Runner.
func TestAuditOfWhatIsKept(t *testing.T) {
	live := tree.New(topKey, &tree.Options{Rules: &policy.Rules{}})
	keep := func(n uint32, value tree.Text) tree.Command {
		return tree.Keep{Run: topKey, N: n, Kept: value}
	}
	for _, c := range []tree.Command{
		&tree.Open{SessionID: "s"},
		&tree.Post{To: topKey, ID: "1", Text: "x"},
		tree.Granted{Run: topKey},
		keep(1, "one"),
		keep(1, "one"),
		keep(1, "two"),
		tree.Compact{},
		&tree.TurnDone{Run: topKey, N: 1, Answer: &tree.Result{Text: "x"}},
		tree.Restart{Run: topKey, SessionID: "s2"},
		tree.Compact{},
	} {
		_, err := live.Decide(c, 1)
		require.NoError(t, err)
	}
	facts, _ := live.Take()
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
	image := func(n int, value tree.Text) func(factList) factList {
		return changeFact(tree.Snapshot, n, func(f *tree.Fact) {
			m := *f.Image()
			m.Runs = slices.Clone(m.Runs)
			m.Runs[0].Kept = value
			f.Own().Image = &m
		})
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"the same again", "state", repeatFact(tree.Kept, 1)},
		{"too much", "state", changeFact(tree.Kept, 1, func(f *tree.Fact) {
			f.Text = tree.Text(strings.Repeat("x", tree.MaxKept+1))
		})},
		{"another turn's", "one turn at a time", changeFact(tree.Kept, 1, func(f *tree.Fact) { f.N = 2 })},
		{"it is forgotten", "snapshot", image(1, "")},
		{"it outlives a reset", "snapshot", image(2, "two")},
	} {
		requireRule(t, c.falsify(slices.Clone(facts)), c.rule, c.name)
	}
}
