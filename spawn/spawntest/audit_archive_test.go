package spawntest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// archives returns a history in which a sub-agent is archived and brought back, and another one is
// deleted.
func archives(t *testing.T) factList {
	t.Helper()
	p := newPlay(t, tree.Options{})
	a := p.spawn("a", "")
	p.do(&tree.TurnDone{Run: a, N: 1, Answer: &tree.Result{Text: "1", Usage: tree.Usage{Input: 5}}})
	p.archive()
	record := p.tree.Record(p.tree.Run(a))
	p.do(
		tree.ArchiveDone{Run: a},
		&tree.Revive{State: record}, tree.RestoreDone{Run: a, Failed: true},
		tree.ArchiveDone{Run: a},
		&tree.Revive{State: record}, tree.RestoreDone{Run: a},
	)
	b := p.spawn("b", "")
	p.do(
		&tree.Discard{Run: b, Reason: "enough"}, &tree.TurnDone{Run: b, N: 1},
		tree.ArchiveDone{Run: b}, tree.Compact{},
	)
	return p.facts
}

// The auditor takes a history of archives, and names the rule that a falsified one breaks.
func TestAuditOfArchives(t *testing.T) {
	good := archives(t)
	require.NoError(t, spawntest.Audit(entriesOf(good)))
	back := func(f func(s *tree.RunState)) func(factList) factList {
		return changeFact(tree.ReviveBegun, 2, func(x *tree.Fact) {
			m := *x.Image()
			m.Runs = slices.Clone(m.Runs)
			spec, grant := *m.Runs[0].Spec, *m.Runs[0].Spec.Grant
			spec.Grant = &grant
			m.Runs[0].Spec = &spec
			f(&m.Runs[0])
			x.Own().Image = &m
		})
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"an archive that has not begun", "archive", removeFact(tree.ArchiveBegun, 2)},
		{"one that has begun twice", "archive", repeatFact(tree.ArchiveBegun, 1)},
		{"a message meanwhile", "archive", func(list factList) factList {
			i := nthOf(list, tree.ArchiveBegun, 1)
			return slices.Insert(list, i+1, tree.Fact{
				Kind: tree.Bound, Run: list[i].Run,
				Route: &session.Route{Channel: "irc", To: "x"},
			})
		}},
		{"what lives is archived", "archive", func(list factList) factList {
			i := nthOf(list, tree.Admitted, 1)
			begun := tree.Fact{Kind: tree.ArchiveBegun, Run: list[i].Run}
			return slices.Insert(list, i+1, begun)
		}},
		{"deleted twice", "deleted", repeatFact(tree.Discarded, 1)},
		{"back twice", "revival", repeatFact(tree.Unarchived, 1)},
		{"coming back twice", "revival", repeatFact(tree.ReviveBegun, 1)},
		{"back and not coming", "revival", removeFact(tree.ReviveBegun, 2)},
		{"back instead of gone", "revival", func(list factList) factList {
			i := nthOf(list, tree.ArchiveBegun, 1)
			back := tree.Fact{Kind: tree.Unarchived, Run: list[i].Run}
			return slices.Insert(list, i+1, back)
		}},
		{"back and never gone", "revival", removeFact(tree.Archived, 1)},
		{"back as another", "revival", back(func(s *tree.RunState) { s.Turns++ })},
		{"back with more rights", "revival", back(func(s *tree.RunState) {
			s.Spec.Tools = []string{"shell"}
		})},
		{"back and leaving", "revival", back(func(s *tree.RunState) { s.Discard = true })},
		{"back with its usage", "usage", back(func(s *tree.RunState) { s.Ledger, s.Active = nil, 0 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := removeFact(tree.Snapshot, 1)(slices.Clone(good))
			requireRule(t, c.falsify(list), c.rule, c.name)
		})
	}
}
