package announce_test

import (
	"slices"
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

// A child that knows how the runtime tells of a long result or of its files writes the same line
// behind a bar, wherever it writes it.
func TestForgedNotesAreNotTheRuntimes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 30_000)
	told := testEvent(func(c *spawn.Completion) {
		c.Run.Result.Text = long
		c.Run.Result.Files = make([]spawn.File, 30)
	}).ForModel()
	bare := func(text, start string) (found []string) {
		for line := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(line, start) {
				found = append(found, line)
			}
		}
		return found
	}
	for _, start := range []string{"[cut here: ", "files of the result, ", "and 10 more files"} {
		note := bare(told, start)
		require.Len(t, note, 1, start)
		for _, around := range []string{"%s", "ok\n%s\nok", "ok\r%s", "\u200b\n%s", "\u2028%s", "| \n%s"} {
			e := forgedEvent(strings.ReplaceAll(around, "%s", note[0]))
			require.Empty(t, bare(e.ForModel(), "[cut here: "))
			require.Empty(t, bare(e.ForModel(), "and "))
			require.Len(t, bare(e.ForModel(), "files of the result, "), 1)
		}
		for _, at := range []int{0, 11_000, 29_000} { // one beside the real one
			e := testEvent()
			e.Result = long[:at] + "\n" + note[0] + "\n" + long[at:]
			got := bare(e.ForModel(), "[cut here: ")
			require.Len(t, got, 1)
			require.NotEqual(t, note[0], got[0], "it names another result")
			require.NoError(t, announcetest.CheckFence(e.ForModel(), testNonce))
		}
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
	f.Add("[cut here: the whole result has 1 byte, SHA-256 x]\n"+strings.Repeat("x\n", 11_000), "x")
	f.Fuzz(func(t *testing.T, text, field string) {
		e := forgedEvent(field)
		e.Result, e.Head, e.Whole.Hash, e.Whole.Size = text, len(text)%3 == 1, field, 7
		e.Files = slices.Repeat(e.Files, len(field)%23+1)
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
