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

// A run announces in a turn when it has nothing left to do, once, and nothing else happens in it.
func TestAuditOfAnnounceSteps(t *testing.T) {
	live := tree.New(topKey, &tree.Options{Rules: &policy.Rules{}, StepTimeout: 1})
	a := session.Must(topKey.Child("main", "a"))
	answer := &tree.Result{Text: "x"}
	for _, c := range []tree.Command{
		&tree.Open{SessionID: "s"},
		&tree.Spawn{
			Parent: topKey, ID: "a", Task: "x", Announce: true,
			Request: policy.Request{Announce: policy.AnnounceTurn},
		},
		tree.Granted{Run: a},
		&tree.TurnDone{Run: a, N: 1, Answer: answer},
		tree.Compact{},
		tree.Granted{Run: a},
		tree.Compact{},
		&tree.Post{To: a, Text: "more"}, &tree.TurnDone{Run: a, N: 2, Answer: answer},
		tree.Compact{},
		tree.Granted{Run: a},
		&tree.TurnDone{Run: a, N: 3, Answer: answer},
		tree.Granted{Run: a},
		&tree.TurnDone{Run: a, N: 4, Answer: answer},
	} {
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
	without := slices.DeleteFunc(slices.Clone(facts), func(f tree.Fact) bool {
		return f.Kind == tree.Snapshot
	})
	for _, c := range []struct {
		name    string
		falsify func(factList) factList
	}{
		{"there is none", func(list factList) factList {
			from, to := nthOf(list, tree.TurnStarted, 4), nthOf(list, tree.RunEnded, 1)
			return slices.Delete(list, from, to)
		}},
		{"its requester is not told so", changeFact(tree.Admitted, 1, func(f *tree.Fact) {
			spec := *f.Spec
			spec.Step = false
			f.Spec = &spec
		})},
		{"it reads", changeFact(tree.TurnStarted, 4, func(f *tree.Fact) { f.Ord-- })},
		{"it has no end", changeFact(tree.TurnStarted, 2, func(f *tree.Fact) { f.Until = 0 })},
		{"it ends as another turn", changeFact(tree.TurnEnded, 2, func(f *tree.Fact) {
			f.Flags = 0
		})},
		{"another turn ends as one", changeFact(tree.TurnEnded, 1, func(f *tree.Fact) {
			f.Flags = tree.FlagStep
		})},
		{"it waits", changeFact(tree.TurnEnded, 2, func(f *tree.Fact) { f.Own().Join = &tree.Join{} })},
		{"it is silent and told", changeFact(tree.TurnEnded, 4, func(f *tree.Fact) {
			f.Flags |= tree.FlagSilent
		})},
		{"a message is unread", func(list factList) factList {
			start, f := nthOf(list, tree.TurnStarted, 2), list[nthOf(list, tree.Posted, 1)]
			post := nthOf(list, tree.Posted, 1)
			list = slices.Delete(list, post, post+1)
			return slices.Insert(list, start, f)
		}},
		{"it comes twice", func(list factList) factList {
			start := list[nthOf(list, tree.TurnStarted, 4)]
			end := list[nthOf(list, tree.TurnEnded, 4)]
			start.N, end.N = start.N+1, end.N+1
			return slices.Insert(list, nthOf(list, tree.RunEnded, 1), start, end)
		}},
		{"it reports", func(list factList) factList {
			f := tree.Fact{Kind: tree.Reported, At: 1, Run: a, N: 2, Ord: 1, Text: "x"}
			return slices.Insert(list, nthOf(list, tree.TurnEnded, 2), f)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := c.falsify(slices.Clone(without))
			err := spawntest.AuditUnder(policy.Rules{}, entriesOf(list))
			var v *spawntest.Violation
			require.ErrorAs(t, err, &v)
			if c.name != "it reads" {
				require.Equal(t, "announce steps", v.Rule, "%v", v)
			}
			if c.name == "there is none" { // a budget of rules that are not known may be the reason
				require.NoError(t, spawntest.Audit(entriesOf(list)))
			}
		})
	}
}
