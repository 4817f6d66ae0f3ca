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
		return &Run{RunState: RunState{Spec: &Spec{ID: id}}, Parent: new(Run)}
	}
	tr := New(top, new(Options))
	idle, busy := begun("idle"), begun("busy")
	tr.admitRequest(idle)
	tr.admitRequest(busy)
	require.Empty(t, tr.requests)

	child := begun("child")
	child.Parent, child.Spec.Request, child.Spec.ByModel = busy, "busy", true
	tr.admitRequest(child)
	require.Equal(t, map[string]requestCount{"busy": {byModel: 1, present: 2}}, tr.requests)

	tr.leaveRequest(child)
	require.Equal(t, map[string]requestCount{"busy": {byModel: 1, present: 1}}, tr.requests)
	restored := New(top, new(Options))
	again := begun("busy")
	restored.root.addChild(again)
	restored.restoreRequests(&Image{Requests: tr.requestCounts()})
	require.Equal(t, tr.requests, restored.requests)

	tr.leaveRequest(busy)
	tr.leaveRequest(idle)
	require.Empty(t, tr.requests)
	gone := New(top, new(Options))
	gone.restoreRequests(&Image{Requests: restored.requestCounts()})
	require.Empty(t, gone.requests)
}
