package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// An info says for what a run waits, in each state in which it waits.
func TestWaitsFor(t *testing.T) {
	for _, c := range []struct {
		status   agent.Status
		children int
		want     string
	}{
		{agent.StatusQueued, 0, "a free slot"},
		{agent.StatusQueued, 2, "a free slot"},
		{agent.StatusWaiting, 0, "its next turn"},
		{agent.StatusWaiting, 1, "1 sub-agent"},
		{agent.StatusWaiting, 2, "2 sub-agents"},
		{agent.StatusStopping, 0, "the end of its turn"},
		{agent.StatusStopping, 1, "the end of 1 sub-agent"},
		{agent.StatusStopping, 3, "the end of 3 sub-agents"},
		{agent.StatusRunning, 1, ""},
		{agent.StatusOK, 0, ""},
		{agent.StatusCancelled, 1, ""},
	} {
		run := agent.RunInfo{Status: c.status, Children: c.children}
		require.Equal(t, c.want, waitsFor(&run), c)
	}
}

// What is said where there is no reply yet, and of a conversation outside of a thread.
func TestWordsOfAnswers(t *testing.T) {
	thread, chat := session.Route{To: "x", Thread: "1"}, session.Route{To: "x"}
	bound := func(at session.Route) binding.Binding { return binding.Binding{Conversation: at} }
	for want, answer := range map[string]Answer{
		"Sent to alpha.":                        Sent{Row: Row{Label: "alpha"}},
		"error: failed: no\nhalf":               Sent{Problem: "failed: no", Reply: "half"},
		"Nothing was stopped.":                  Killed{},
		"This conversation now speaks to beta.": Focused{Binding: bound(chat), Label: "beta"},
		"Conversation unfocused.":               Unfocused{Binding: bound(chat)},
		"Thread unfocused.":                     Unfocused{Binding: bound(thread)},
		"agents:\n-----\nalpha (main) ok chat:x, thread:1": Bound{Rows: []Row{{
			Label: "alpha", Agent: "main", Status: agent.StatusOK,
			Conversations: []session.Route{chat, thread},
		}}},
		"Log of alpha, ok:\n(no messages)": Logged{Row: Row{Label: "alpha", Status: agent.StatusOK}},
	} {
		require.Equal(t, want, answer.Text())
	}
}
