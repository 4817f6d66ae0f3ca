package tree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A run that begins a request is counted once another one is of it: then the count of the runs
// that models have spawned stays until the run leaves, also over a restart. One that spawns
// nothing takes no entry.
func TestRequestsAreKeptByWhatBeginsThem(t *testing.T) {
	begun := func(id string) *Run {
		r := NewRun(RunState{Spec: &Spec{ID: id}})
		r.Parent = NewRun(RunState{Spec: new(Spec)})
		return r
	}
	tr := New(top, new(Options))
	idle, busy := begun("idle"), begun("busy")
	tr.admitRequest(idle)
	tr.admitRequest(busy)
	require.Zero(t, tr.requests.Len())

	child := begun("child")
	child.Parent, child.Spec.ByModel = busy, true
	child.Spec.SpecMore = &SpecMore{Request: "busy"}
	tr.admitRequest(child)
	require.Equal(t, requestCount{byModel: 1, present: 2}, tr.requests.Of("busy"))
	require.Equal(t, 1, tr.requests.Len())

	tr.leaveRequest(child)
	require.Equal(t, requestCount{byModel: 1, present: 1}, tr.requests.Of("busy"))
	require.Equal(t, 1, tr.requests.Len())
	restored := New(top, new(Options))
	again := begun("busy")
	restored.root.addChild(again)
	restored.restoreRequests(&Image{Requests: tr.requestCounts()})
	require.Equal(t, tr.requests.Of("busy"), restored.requests.Of("busy"))

	tr.leaveRequest(busy)
	tr.leaveRequest(idle)
	require.Zero(t, tr.requests.Len())
	gone := New(top, new(Options))
	gone.restoreRequests(&Image{Requests: restored.requestCounts()})
	require.Zero(t, gone.requests.Len())
}
