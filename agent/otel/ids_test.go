package otel

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ids derive from what they are of, words do not run together, and others are random.
func TestIDs(t *testing.T) {
	a := session.Must(session.DirectKey("main", "x", "1"))
	b := session.Must(session.DirectKey("main", "x", "2"))
	assert.NotEqual(t, traceOf("", a), traceOf("", b))
	assert.NotEqual(t, traceOf("n", a), traceOf("", a))
	assert.Equal(t, "4943ca9c", TraceID("", a)[:8], "ids stay the same in every version")
	assert.NotEqual(t, spanOf("a", "bc"), spanOf("ab", "c"))
	assert.NotEqual(t, turnSpan(a, 1), turnSpan(a, 11))
	trace1, span1 := IDs{}.NewIDs(t.Context())
	trace2, span2 := IDs{}.NewIDs(t.Context())
	assert.NotEqual(t, trace1, trace2)
	assert.NotEqual(t, span1, span2)
	assert.NotEqual(t, span1, IDs{}.NewSpanID(t.Context(), trace1))
}

// history is events of a tree of three levels with crashes, made up at random.
func history(r *rand.Rand, root session.Key) []agent.TreeEvent {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	list := []agent.TreeEvent{{
		Kind: agent.EventSnapshot, Session: root, State: &agent.TreeState{}, Time: at,
	}}
	keys := []session.Key{root}
	runs := []agent.RunID{""}
	alive := []bool{true}
	turns := []int{0}
	open := []bool{false}
	add := func(i int, e agent.TreeEvent) {
		at = at.Add(time.Second)
		e.Time, e.Session, e.Run = at, keys[i], runs[i]
		list = append(list, e)
	}
	for range 60 {
		i := r.IntN(len(keys))
		switch {
		case !alive[i]:
		case !open[i]:
			turns[i]++
			open[i] = true
			add(i, agent.TreeEvent{
				Kind: agent.EventTurn, Turn: turns[i], Status: agent.StatusRunning,
			})
		case r.IntN(4) == 0: // a crash: the next turn begins without the end of this one
			open[i] = false
		case r.IntN(2) == 0:
			name := fmt.Sprint(len(keys))
			keys = append(keys, session.Must(session.DirectKey("main", "sub", name)))
			runs = append(runs, agent.RunID("run "+name))
			alive, turns, open = append(alive, true), append(turns, 0), append(open, false)
			add(len(keys)-1, agent.TreeEvent{Kind: agent.EventAdmitted, Parent: keys[i]})
		default:
			open[i] = false
			add(i, agent.TreeEvent{Kind: agent.EventTurnEnded, Turn: turns[i]})
			if i > 0 && r.IntN(2) == 0 {
				alive[i] = false
				add(i, agent.TreeEvent{Kind: agent.EventEnded, Status: agent.StatusFailed})
			}
		}
	}
	return list
}

// Whenever a process dies, the next one that goes on with the saved forest makes the same spans of
// the rest: nothing is missing and nothing has another id, parent or time.
func TestForestGoesOn(t *testing.T) {
	root := session.Must(session.DirectKey("main", "x", "1"))
	forms := func(list []span) []string {
		var out []string
		for _, s := range list {
			out = append(out, fmt.Sprint(
				s.kind, s.id, s.parent, s.link, s.start.UTC(), s.end.UTC(), s.status))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	for seed := range uint64(200) {
		events := history(rand.New(rand.NewPCG(seed, 7)), root)
		var whole forest
		var want []span
		for _, e := range events {
			want = append(want, whole.apply(root, e)...)
		}
		want = append(want, whole.settle()...)
		for cut := range events {
			var first forest
			var got []span
			for _, e := range events[:cut] {
				got = append(got, first.apply(root, e)...)
			}
			next := cut
			if g := first.Trees[root.String()]; g != nil && g.held != nil {
				next-- // the cursor is before it
			}
			data, err := json.Marshal(&first)
			require.NoError(t, err)
			var second forest
			require.NoError(t, json.Unmarshal(data, &second))
			for _, e := range events[next:] {
				got = append(got, second.apply(root, e)...)
			}
			got = append(got, second.settle()...)
			require.Equal(t, forms(want), forms(got), "seed %d, cut %d", seed, cut)
		}
	}
}

// A call whose end a slow watcher has missed is forgotten with its turn, and one whose beginning
// was missed has its length from its end.
func TestCallsThatAreSeenInPart(t *testing.T) {
	root := session.Must(session.DirectKey("main", "x", "1"))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var f forest
	apply := func(e agent.TreeEvent) []span {
		at = at.Add(time.Second)
		e.Time, e.Session = at, root
		return f.apply(root, e)
	}
	apply(agent.TreeEvent{Kind: agent.EventTurn, Turn: 1})
	apply(agent.TreeEvent{Kind: agent.EventTool, Turn: 1, Tool: &agent.ToolEvent{Name: "a"}})
	require.Len(t, f.Trees[root.String()].calls, 1)
	apply(agent.TreeEvent{Kind: agent.EventTurnEnded, Turn: 1})
	assert.Empty(t, f.Trees[root.String()].calls)
	ended := apply(agent.TreeEvent{Kind: agent.EventToolEnded, Turn: 2, Tool: &agent.ToolEvent{
		Name: "a", Took: time.Minute, Outcome: agent.StatusOK,
	}})
	require.Len(t, ended, 1)
	assert.Equal(t, time.Minute, ended[0].end.Sub(ended[0].start))
	assert.Equal(t, turnSpan(root, 2), ended[0].parent)
}

// A forest remembers so many trees and drops those that were still the longest.
func TestForestIsBounded(t *testing.T) {
	var f forest
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range maxTrees + 100 {
		at = at.Add(time.Second)
		root := session.Must(session.DirectKey("main", "x", fmt.Sprint(i)))
		f.apply(root, agent.TreeEvent{
			Kind: agent.EventSnapshot, Session: root, Time: at, State: &agent.TreeState{},
		})
	}
	assert.Len(t, f.Trees, maxTrees-maxTrees/10+100)
	newest := session.Must(session.DirectKey("main", "x", fmt.Sprint(maxTrees+99)))
	assert.NotNil(t, f.Trees[newest.String()])
}
