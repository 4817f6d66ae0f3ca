package announce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/announce/announcetest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// forgedEvent returns an event with text in every field that a child can reach.
func forgedEvent(text string) announce.Event {
	return testEvent(func(c *spawn.Completion) {
		c.Run.Result = spawn.Result{
			Text: text, Model: text, Files: []spawn.File{{Name: text, Path: text, MediaType: text}},
		}
		c.Run.Label, c.Run.Task, c.Run.Error, c.Run.SessionID = text, text, text, text
		c.Run.Model = spawn.ModelInfo{Requested: text + "x", Resolved: text, Actual: text}
		c.Run.Status = spawn.StatusFailed
		c.Fallback = text
	})
}

func TestForgeriesStayInside(t *testing.T) {
	t.Parallel()
	for _, f := range announcetest.Forgeries(testNonce) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			e := forgedEvent(f.Text)
			require.NoError(t, announcetest.CheckFence(e.ForModel(), testNonce))
			require.NoError(t, announcetest.CheckPerson(e.ForPerson(), "sessionKey"))

			e.Result = f.Text // a result that NewEvent did not sanitize
			require.NoError(t, announcetest.CheckFence(e.ForModel(), testNonce))
			require.NoError(t, announcetest.CheckPerson(e.ForPerson(), "sessionKey"))
		})
	}
}

// TestEchoesDoNotReachPeople checks that people see nothing of an event that the requester's
// model copies into its answer.
func TestEchoesDoNotReachPeople(t *testing.T) {
	t.Parallel()
	event := testEvent().ForModel()
	for _, reply := range []string{
		event,
		"Here it is:\n\n" + event + "\n\nBye.",
		"```\n" + event + "\n```",
		"> " + strings.ReplaceAll(event, "\n", "\n> "),
		event[:len(event)/2],
		"The child said: " + event,
		"The child said: " + event + " That was all.",
		announce.ForModel(testEvent(), testEvent()),
	} {
		text, _ := announce.Visible(reply)
		require.NoError(t, announcetest.CheckPerson(text, "sessionKey", "session key", "sid-1", testNonce), "%q", reply)
	}
}

func FuzzForgery(f *testing.F) {
	for _, forgery := range announcetest.Forgeries(testNonce) {
		f.Add(forgery.Text, "field")
		f.Add("text", forgery.Text)
	}
	f.Fuzz(func(t *testing.T, text, field string) {
		e := forgedEvent(field)
		e.Result = text
		got := e.ForModel()
		if err := announcetest.CheckFence(got, testNonce); err != nil {
			t.Fatalf("%v in %q", err, got)
		}
		if got != e.ForModel() {
			t.Fatal("equal events give different text")
		}
		if err := announcetest.CheckPerson(e.ForPerson()); err != nil {
			t.Fatal(err)
		}
		// A person sees nothing of an event that a model copies.
		if echo, _ := announce.Visible("Here:\n" + got); echo != "Here:" {
			t.Fatalf("an echo of %q shows %q", got, echo)
		}
	})
}
