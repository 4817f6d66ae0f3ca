package spawntest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// What a wait leaves over is announced once, of the run that it waited for, and kept in snapshots.
func TestAuditOfAnnouncedRests(t *testing.T) {
	live := tree.New(topKey, &tree.Options{Rules: &policy.Rules{}})
	decide := func(c tree.Command) {
		_, err := live.Decide(c, 1)
		require.NoError(t, err)
	}
	decide(&tree.Open{SessionID: "s"})
	decide(&tree.Spawn{Parent: topKey, ID: "a", Task: "x"})
	a := live.Sessions()[0]
	decide(tree.AnnounceRest{Keys: live.Sessions(), Runs: []string{"a"}})
	decide(tree.Compact{})
	decide(tree.Granted{Run: a})
	decide(&tree.TurnDone{Run: a, N: 1})
	decide(tree.Compact{})
	facts, _ := live.Take()
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
	for i := range facts {
		require.NoError(t, spawntest.Audit(entriesOf(facts[:i])), "up to %v", &facts[i])
		if facts[i].Kind == tree.Snapshot {
			require.NoError(t, spawntest.Audit(entriesOf(facts[i:])), "from %v", &facts[i])
		}
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"announced twice", "announcements", repeatFact(tree.AnnounceSet, 1)},
		{"announced as it was spawned", "announcements", changeSpec(1, func(s *tree.Spec, _ *tree.Grant) { s.Announce = true })},
		{"another run", "announcements", changeFact(tree.AnnounceSet, 1, func(f *tree.Fact) { f.Own().ID = "b" })},
		{"the top-level session", "announcements", changeFact(tree.AnnounceSet, 1, func(f *tree.Fact) { f.Run = topKey })},
		{"told and not announced", "announcements", func(list factList) factList {
			return slices.DeleteFunc(list, func(f tree.Fact) bool {
				return f.Kind == tree.AnnounceSet || f.Kind == tree.Snapshot
			})
		}},
		{"announced and not told", "announcements", changeFact(tree.RunEnded, 1, func(f *tree.Fact) { f.Flags = 0 })},
		{"announced after the end", "announcements", func(list factList) factList {
			i := nthOf(list, tree.AnnounceSet, 1)
			set, end := list[i], nthOf(list, tree.RunEnded, 1)
			return slices.Insert(list, end+1, set)
		}},
		{"forgotten by a snapshot", "snapshot", removeFact(tree.AnnounceSet, 1)},
	} {
		requireRule(t, c.falsify(slices.Clone(facts)), c.rule, c.name)
	}
}
