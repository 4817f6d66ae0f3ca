package spawntest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// names returns a history in which a name passes on, and one comes back from the archive with its
// session, once with the name and once without.
func names(t *testing.T) factList {
	t.Helper()
	p := newPlay(t, tree.Options{})
	a, b := p.spawn("a", "scout"), p.spawn("b", "guide")
	for _, k := range []session.Key{a, b} {
		p.do(&tree.TurnDone{Run: k, N: 1, Answer: &tree.Result{Text: "1"}})
	}
	p.archive()
	wasA, wasB := p.tree.Record(p.tree.Run(a)), p.tree.Record(p.tree.Run(b))
	p.do(tree.ArchiveDone{Run: a}, tree.ArchiveDone{Run: b})
	p.spawn("c", "scout")
	for _, was := range []*tree.Fact{wasA, wasB} {
		p.do(&tree.Revive{State: was}, tree.RestoreDone{Run: was.Run})
	}
	p.spawn("d", "guide")
	p.do(tree.Compact{})
	return p.facts
}

// The auditor takes a history of names, and names the rule that a falsified one breaks.
func TestAuditOfNames(t *testing.T) {
	good := names(t)
	require.NoError(t, spawntest.Audit(entriesOf(good)))
	called := func(n int, name string) func(factList) factList {
		return changeSpec(n, func(s *tree.Spec, _ *tree.Grant) { s.SpecMore.Name = name })
	}
	image := func(k tree.Kind, n, run int, unnamed bool) func(factList) factList {
		return changeFact(k, n, func(x *tree.Fact) {
			m := *x.Image()
			m.Runs = slices.Clone(m.Runs)
			m.Runs[run].Unnamed = unnamed
			x.Own().Image = &m
		})
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"two alive", "names", called(2, "scout")},
		{"one alive from the archive's time", "names", called(4, "scout")},
		{"upper case", "names", called(1, "Scout")},
		{"too long", "names", called(1, strings.Repeat("a", 65))},
		{"reserved", "names", called(1, "all")},
		{"back with a name that is given", "names", image(tree.ReviveBegun, 1, 0, false)},
		{"back without its name", "names", image(tree.ReviveBegun, 2, 0, true)},
		{"an image without a name", "snapshot", image(tree.Snapshot, 1, 1, true)},
	} {
		t.Run(c.name, func(t *testing.T) {
			requireRule(t, c.falsify(slices.Clone(good)), c.rule, c.name)
		})
	}
}
