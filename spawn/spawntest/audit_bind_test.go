package spawntest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// talks returns a history in which a conversation is bound to a sub-agent, talks to it, and is told
// of a run that failed.
func talks(t *testing.T) factList {
	t.Helper()
	p := newPlay(t, tree.Options{Replies: true, Apology: "sorry"})
	route := session.Route{Channel: "irc", To: "room", Thread: "1"}
	key := session.Must(topKey.Child("main", "a"))
	post := func(run, id string) {
		p.do(&tree.Post{
			To: key, RunID: run, ID: id, Text: "hello", Route: &route, Thread: true, Own: topKey,
		})
	}
	reply := &tree.Result{Text: "hi", Reply: "hi"}
	p.do(&tree.Spawn{
		Parent: topKey, ID: "a", Task: "work", Thread: true, Session: true, Bind: &route,
	})
	p.do(tree.Granted{Run: key})
	p.do(&tree.TurnDone{Run: key, N: 1, Answer: &tree.Result{Text: "done", Reply: "not said"}})
	post("a2", "m1") // restarted 1, turn 2
	p.do(tree.Granted{Run: key})
	post("", "m2") // posted 1
	p.do(tree.Take{Run: key, N: 2})
	p.do(&tree.TurnDone{Run: key, N: 2, Answer: reply})
	p.do(&tree.Settle{Ord: 1})
	post("a3", "m3") // restarted 2, turn 3
	p.do(tree.Compact{})
	p.do(tree.Granted{Run: key})
	p.do(&tree.TurnDone{Run: key, N: 3, Failed: "broken"}) // run ended 3
	p.do(&tree.Settle{Ord: 2})
	p.do(&tree.Unbind{Run: key, Route: route, Reason: "manual"})
	p.archive()
	p.do(tree.ArchiveDone{Run: key})
	return p.facts
}

// The auditor takes a history of a conversation with a sub-agent, and names the rule that a
// falsified one breaks.
func TestAuditOfBoundConversations(t *testing.T) {
	good := talks(t)
	require.NoError(t, spawntest.Audit(entriesOf(good)))
	elsewhere := &session.Route{Channel: "irc", To: "elsewhere"}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"bound twice", "bindings", repeatFact(tree.Bound, 1)},
		{"bound to nowhere", "bindings", changeFact(tree.Bound, 1, func(f *tree.Fact) {
			f.Route = &session.Route{Channel: "irc"}
		})},
		{"never unbound", "archive", removeFact(tree.Unbound, 1)},
		{"unbound twice", "bindings", repeatFact(tree.Unbound, 1)},
		{"unbound for nothing", "bindings", changeFact(tree.Unbound, 1, func(f *tree.Fact) {
			f.Text = ""
		})},
		{"a message again", "messages", changeFact(tree.Posted, 1, func(f *tree.Fact) {
			f.Own().ID = "m1"
		})},
		{"one that began a run", "messages", changeFact(tree.Restarted, 2, func(f *tree.Fact) {
			f.Own().ID = "m2"
		})},
		{"one that its own session knows", "messages", func(list factList) factList {
			i := nthOf(list, tree.Restarted, 1)
			return slices.Insert(list, i, tree.Fact{
				Kind: tree.Posted, Run: topKey, Class: tree.User, Ord: 1, At: list[i].At,
				FactMore: &tree.FactMore{ID: "m1"},
			})
		}},
		{"a message from elsewhere", "bindings", changeFact(tree.Posted, 1, func(f *tree.Fact) {
			f.Route = elsewhere
		})},
		{"a run begun from elsewhere", "bindings", changeFact(tree.Restarted, 1, func(f *tree.Fact) {
			f.Route = elsewhere
		})},
		{"a message of a conversation after its end", "bindings", func(list factList) factList {
			i, j := nthOf(list, tree.Unbound, 1), nthOf(list, tree.Posted, 1)
			ended := list[i]
			return slices.Insert(slices.Delete(list, i, i+1), j, ended)
		}},
		{
			"an answer to the requester that people are told", "replies",
			changeFact(tree.TurnEnded, 1, func(f *tree.Fact) { f.Flags |= tree.FlagReply }),
		},
		{
			"people and the program in one turn", "replies",
			changeFact(tree.Posted, 1, func(f *tree.Fact) { f.Flags = 0 }),
		},
		{
			"an apology of a run that went well", "replies",
			changeFact(tree.RunEnded, 2, func(f *tree.Fact) {
				f.Answer = &tree.Result{Reply: "sorry"}
			}),
		},
		{"an apology without words", "replies", changeFact(tree.RunEnded, 3, func(f *tree.Fact) {
			f.Answer = &tree.Result{}
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := removeFact(tree.Snapshot, 1)(slices.Clone(good))
			requireRule(t, c.falsify(list), c.rule, c.name)
		})
	}
}
