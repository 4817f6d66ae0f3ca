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

// An untouched turn has no fact of its own, and only a shutdown ends one.
func TestAuditOfUntouchedTurns(t *testing.T) {
	live := tree.New(topKey, &tree.Options{
		Rules: &policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
		Chunk: tree.Budget{Tokens: 100},
	})
	decide := func(commands ...tree.Command) {
		for _, c := range commands {
			_, err := live.Decide(c, 1)
			require.NoError(t, err)
		}
	}
	a := session.Must(topKey.Child("main", "a"))
	decide(
		&tree.Open{SessionID: "s"},
		&tree.Spawn{
			Parent: topKey, ID: "a", Task: "x",
			Request: policy.Request{Timeout: 1e9, Budget: policy.Budget{Tokens: 200}},
		},
		tree.Granted{Run: a}, tree.ShutDown{}, tree.Compact{},
		&tree.TurnDone{Run: a, N: 1, Untouched: true}, tree.Compact{},
		&tree.Open{SessionID: "s"}, tree.Granted{Run: a},
		&tree.TurnDone{Run: a, N: 2, Answer: &tree.Result{Text: "x"}},
	)
	facts, _ := live.Take()
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
	require.NoError(t, spawntest.Audit(entriesOf(facts[nthOf(facts, tree.Snapshot, 1):])))
	beforeEnd := func(f tree.Fact) func(factList) factList {
		return func(list factList) factList {
			return slices.Insert(list, nthOf(list, tree.TurnEnded, 1), f)
		}
	}
	child := &tree.Spec{
		ID:        "b",
		SessionID: "b",
		Key:       session.Must(a.Child("main", "b")),
		Parent:    a,
		Task:      "y",
		Created:   1,
		Grant:     &tree.Grant{Depth: 2},
		SpecMore:  &tree.SpecMore{Request: "a"},
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"it reported", "untouched", beforeEnd(tree.Fact{
			Kind: tree.Reported, Run: a, N: 1, Ord: 1, Text: "half",
		})},
		{"it spawned", "untouched", beforeEnd(tree.Fact{
			Kind: tree.Admitted, Run: child.Key, Spec: child,
		})},
		{"it was cancelled", "untouched", beforeEnd(tree.Fact{
			Kind: tree.TurnCancelled, Run: a, N: 1,
		})},
		{"it is to end", "untouched", beforeEnd(tree.Fact{
			Kind: tree.StopRequested, Run: a, Cause: tree.Stopped,
		})},
		{"without a shutdown", "untouched", func(list factList) factList {
			list = removeFact(tree.Snapshot, 1)(list)
			return removeFact(tree.ShuttingDown, 1)(list)
		}},
		{"it said something", "untouched", changeFact(tree.TurnEnded, 1, func(f *tree.Fact) {
			f.Answer = &tree.Result{Text: "x"}
		})},
		{"it committed something", "untouched", changeFact(tree.TurnEnded, 1, func(f *tree.Fact) {
			f.Num = 4
		})},
		{"another turn came before it ended", "one turn at a time", removeFact(tree.TurnEnded, 1)},
		{"the clock of the run goes on", "timeout", changeFact(tree.TurnStarted, 2,
			func(f *tree.Fact) { f.Until = 0 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := slices.Clone(facts)
			if c.rule != "untouched" {
				list = removeFact(tree.Snapshot, 2)(list)
			}
			requireRule(t, c.falsify(list), c.rule, c.name)
		})
	}
}
