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

// followedUp is a history of a session a with three runs, below a session p that lives. Ann asked
// for the first run and Bob for the second one. A snapshot stands at the end of each.
func followedUp(t *testing.T) factList {
	t.Helper()
	p := newPlay(t, tree.Options{Tools: []string{"read", "write"}})
	rules := &policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 3}}
	p.tree = tree.New(topKey, &tree.Options{
		Rules: rules, Tools: []string{"read", "write"}, Grace: 1,
	})
	p.facts = nil
	p.do(&tree.Open{Writer: "w", SessionID: "s"})
	above := p.spawn("p", "")
	a := session.Must(above.Child("main", "a"))
	person := func(id string) []policy.Sender { return []policy.Sender{{ID: id, Channel: "irc"}} }
	p.do(
		&tree.Spawn{
			Parent: above, ID: "a", Task: "work", Announce: true, Senders: person("ann"),
			Request: policy.Request{Budget: policy.Budget{Tokens: 1000}},
		},
		tree.Granted{Run: a}, &tree.TurnDone{Run: a, N: 1, Answer: &tree.Result{Text: "one"}},
		tree.Compact{},
		&tree.Post{
			To: a, From: above, RunID: "a2", Text: "on", Announce: true, Senders: person("bob"),
		},
		tree.Granted{Run: a}, &tree.TurnDone{Run: a, N: 2, Answer: &tree.Result{Text: "two"}},
		tree.Take{Run: above, N: 1},
		tree.Compact{},
		&tree.Post{To: a, From: above, RunID: "a3", Text: "on", Announce: true},
		tree.Granted{Run: a}, &tree.TurnDone{Run: a, N: 3, Answer: &tree.Result{Text: "three"}},
		tree.Take{Run: above, N: 1}, &tree.TurnDone{Run: above, N: 1},
		tree.Compact{},
	)
	return p.facts
}

// changeGrant changes the grant that the nth snapshot has of the last session.
func changeGrant(n int, f func(*tree.Grant)) func(factList) factList {
	return changeFact(tree.Snapshot, n, func(fact *tree.Fact) {
		image := *fact.Image()
		image.Runs = slices.Clone(image.Runs)
		last := &image.Runs[len(image.Runs)-1]
		spec, grant := *last.Spec, *last.Spec.Grant
		f(&grant)
		spec.Grant, last.Spec, fact.Own().Image = &grant, &spec, &image
	})
}

// The auditor takes a session with several runs, whole and from each snapshot on, and names the
// rule that a falsified history of it breaks.
func TestAuditOfFollowUps(t *testing.T) {
	good := followedUp(t)
	for i := range good {
		require.NoError(t, spawntest.Audit(entriesOf(good[:i])), "up to %v", &good[i])
		if good[i].Kind == tree.Snapshot {
			require.NoError(t, spawntest.Audit(entriesOf(good[i:])), "from %v", &good[i])
		}
	}
	report, err := spawntest.Inspect(entriesOf(good))
	require.NoError(t, err)
	require.Equal(t, 4, report.Runs)
	require.Equal(t, 3, report.Consumed, "one for each run of a")

	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"more tools", "first grant", changeGrant(2, func(g *tree.Grant) {
			g.Tools = append(slices.Clone(g.Tools), "shell")
		})},
		{"more tools to hand down", "first grant", changeGrant(2, func(g *tree.Grant) {
			g.Delegable = append(slices.Clone(g.Delegable), "shell")
		})},
		{"a sandbox that is gone", "first grant", func(list factList) factList {
			list = changeSpec(2, func(_ *tree.Spec, g *tree.Grant) { g.Sandboxed = true })(list)
			return changeGrant(1, func(g *tree.Grant) { g.Sandboxed = false })(list)
		}},
		{"more to spend", "first grant", changeGrant(3, func(g *tree.Grant) { g.Budget.Tokens++ })},
		{"no limit", "first grant", changeGrant(3, func(g *tree.Grant) { g.Budget = tree.Budget{} })},
		{"another role", "first grant", changeGrant(2, func(g *tree.Grant) {
			g.Role = session.RoleMain
		})},
		{"a person left out", "first grant", changeFact(tree.Restarted, 1, func(f *tree.Fact) {
			f.Own().Senders = []policy.Sender{{ID: "bob", Channel: "irc"}}
		})},
		{"all people left out", "first grant", changeFact(tree.Restarted, 2, func(f *tree.Fact) {
			f.Own().Senders = nil
		})},
		{"a person made an owner", "first grant", changeFact(tree.Restarted, 2, func(f *tree.Fact) {
			f.Own().Senders = []policy.Sender{
				{ID: "ann", Channel: "irc"}, {ID: "bob", Channel: "irc", Owner: true},
			}
		})},
		{"a run below one that has ended", "runs below what has ended", func(list factList) factList {
			i := nthOf(list, tree.Restarted, 2)
			above := list[nthOf(list, tree.Admitted, 1)].Run
			return slices.Insert(list, i,
				tree.Fact{Kind: tree.TurnEnded, Run: above, N: 1, Answer: &tree.Result{}},
				tree.Fact{Kind: tree.RunEnded, Run: above, State: tree.OK})
		}},
		{"a run id twice", "runs", changeFact(tree.Restarted, 2, func(f *tree.Fact) {
			begin := *f.Begin()
			begin.ID = "a2"
			f.Own().Begin = &begin
		})},
		{"the id of the first run", "runs", changeFact(tree.Restarted, 1, func(f *tree.Fact) {
			begin := *f.Begin()
			begin.ID = "a"
			f.Own().Begin = &begin
		})},
		{"an end told twice", "one end", repeatFact(tree.RunEnded, 2)},
		{"a completion consumed twice", "ordinals", repeatFact(tree.Taken, 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			requireRule(t, c.falsify(slices.Clone(good)), c.rule, c.name)
		})
	}
}

// From a snapshot on, a session has no more than the one above it.
func TestAuditOfGrantsInTheFirstSnapshot(t *testing.T) {
	good := followedUp(t)
	good = good[nthOf(good, tree.Snapshot, 1):]
	require.NoError(t, spawntest.Audit(entriesOf(good)))
	requireRule(t, changeGrant(1, func(g *tree.Grant) {
		g.Tools = append(slices.Clone(g.Tools), "shell")
	})(slices.Clone(good)), "tools", "more tools")
	requireRule(t, changeGrant(1, func(g *tree.Grant) { g.Depth = 1 })(slices.Clone(good)),
		"depth", "another depth")
}

// A snapshot that a journal begins with has the completion of a run once, in whichever inbox it is.
func TestAuditOfACompletionTwice(t *testing.T) {
	good := followedUp(t)
	good = good[nthOf(good, tree.Snapshot, 1):]
	twice := changeFact(tree.Snapshot, 1, func(f *tree.Fact) {
		image := *f.Image()
		image.Runs = slices.Clone(image.Runs)
		above := &image.Runs[1]
		require.Equal(t, tree.Completion, above.Inbox[0].Class)
		again := above.Inbox[0]
		again.Ord++
		above.NextOrd++
		above.Inbox = append(slices.Clone(above.Inbox), again)
		f.Own().Image = &image
	})
	requireRule(t, twice(slices.Clone(good)), "exactly once", "a completion twice")
}
