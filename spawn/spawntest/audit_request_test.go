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

// 2.13: what requests are charged is audited: over a turn that goes on for a newer message, a
// sub-agent, a later run of that, and snapshots anywhere. What the rules bound needs the rules.
func TestAuditOfRequests(t *testing.T) {
	rules := policy.Rules{
		Budget: policy.Budget{Tokens: 100_000}, RequestBudget: policy.Budget{Tokens: 1600},
	}
	live := tree.New(topKey, &tree.Options{Rules: &rules, Chunk: tree.Budget{Tokens: 1000}})
	child := session.Must(topKey.Child("main", "a"))
	used := func(n int64) *tree.Result { return &tree.Result{Usage: tree.Usage{Input: n}} }
	for _, c := range []tree.Command{
		&tree.Open{SessionID: "s"}, &tree.Post{To: topKey, Text: "x"},
		tree.Granted{Run: topKey},
		&tree.Spawn{Parent: topKey, ID: "a", Turn: 1, Task: "x"},
		tree.Granted{Run: child},
		tree.Compact{},
		&tree.Post{To: topKey, Text: "y"},
		tree.Take{Run: topKey, N: 1},
		tree.Reserve{Run: topKey, N: 1, Used: tree.Budget{Tokens: 150}},
		tree.Compact{},
		&tree.TurnDone{Run: topKey, N: 1, Answer: used(170)},
		&tree.TurnDone{Run: child, N: 1, Answer: used(900)},
		tree.Compact{},
		&tree.Post{To: child, Text: "again", RunID: "b"},
		tree.Granted{Run: child},
		&tree.TurnDone{Run: child, N: 2, Answer: used(1700)},
		tree.Compact{},
	} {
		_, err := live.Decide(c, 1)
		require.NoError(t, err, "%T", c)
	}
	facts, _ := live.Take()
	audit := func(list []tree.Fact) error {
		return spawntest.AuditUnder(rules, entriesOf(list))
	}
	for i := range facts {
		require.NoError(t, audit(facts[:i+1]), "up to %v", &facts[i])
		if facts[i].Kind == tree.Snapshot {
			require.NoError(t, audit(facts[i:]), "from %v", &facts[i])
		}
	}
	image := func(n int, f func(m *tree.Image)) func(factList) factList {
		return changeFact(tree.Snapshot, n, func(x *tree.Fact) {
			m := *x.Image()
			m.Requests = slices.Clone(m.Requests)
			f(&m)
			x.Own().Image = &m
		})
	}
	reserve := func(n int, tokens int64) func(factList) factList {
		return changeFact(tree.TurnStarted, n, func(f *tree.Fact) {
			f.Own().Budget.Tokens = tokens
		})
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"more than the request has", "budget", reserve(1, 1601)},
		{"more than the request has left", "budget", reserve(2, 1501)},
		{"more than the request of a later run has", "budget", reserve(3, 1601)},
		{"a charge that is too small", "snapshot", image(1, func(m *tree.Image) { m.Requests[0].Charged.Tokens-- })},
		{"the charge of another request", "snapshot", image(3, func(m *tree.Image) {
			a, b := &m.Requests[0].Charged, &m.Requests[1].Charged
			*a, *b = *b, *a
		})},
		{"a charge of the run before", "snapshot", image(4, func(m *tree.Image) {
			for i := range m.Requests {
				if m.Requests[i].Request == "b" {
					m.Requests[i].Charged.Tokens += 900
				}
			}
		})},
	} {
		err := audit(c.falsify(slices.Clone(facts)))
		var v *spawntest.Violation
		require.ErrorAs(t, err, &v, c.name)
		require.Equal(t, c.rule, v.Rule, "%s: %v", c.name, v)
	}
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
}
