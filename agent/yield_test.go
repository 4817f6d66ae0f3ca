package agent_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestYieldWaitsWithoutCallingTheModel(t *testing.T) {
	s := script{
		"main": {andStart(andStart(startStep("a"), "b"), "c"), yieldStep(), echo()},
		"a":    {say("a is done").After(time.Minute)},
		"b":    {say("b is done").After(time.Hour)},
		"c":    {say("c is done").After(3 * time.Minute)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(59 * time.Minute)
		require.Equal(t, 2, h.Calls("main"))
		require.Empty(t, h.Replies())
		time.Sleep(2 * time.Minute)
		h.Replied("a is done\nc is done\nb is done")
	})
}

func TestYieldUntilEnoughOrLongEnough(t *testing.T) {
	for args, want := range map[string]struct {
		after time.Duration
		text  string
	}{
		`{"atLeast":2}`:                     {3 * time.Minute, "a is done\nc is done"},
		`{"at_least":1}`:                    {time.Minute, "a is done"},
		`{"withinSeconds":120}`:             {2 * time.Minute, "a is done"},
		`{"within_seconds":90,"atLeast":3}`: {90 * time.Second, "a is done"},
		``:                                  {time.Hour, "a is done\nc is done\nb is done"},
	} {
		t.Run(args, func(t *testing.T) {
			s := script{
				"main": {
					andStart(andStart(startStep("a"), "b"), "c"), call("sessions_yield", args),
					echo(),
				},
				"a": {say("a is done").After(time.Minute)},
				"b": {say("b is done").After(time.Hour)},
				"c": {say("c is done").After(3 * time.Minute)},
			}
			agenttest.Run(t, agent.Config{}, s, func(h *harness) {
				h.Post("go")
				time.Sleep(want.after - time.Second)
				require.Empty(t, h.Replies())
				time.Sleep(2 * time.Second)
				h.Replied(want.text)
			})
		})
	}
}

// A person is answered although the session waits, and the wait goes on after that.
func TestPersonWakesASessionThatWaits(t *testing.T) {
	s := script{
		"main": {andStart(startStep("a"), "b"), yieldStep(), echo()},
		"a":    {say("a is done").After(time.Minute)},
		"b":    {say("b is done").After(time.Hour)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(10 * time.Second)
		h.Post("are you there?")
		h.Replied("are you there?")
		time.Sleep(10 * time.Minute)
		h.Replied("are you there?") // the end of a alone does not wake the session
		time.Sleep(time.Hour)
		h.Replied("are you there?", "a is done\nb is done")
	})
}

// A yield with nothing to wait for does not end a run that has not answered.
func TestYieldWithNothingToWaitFor(t *testing.T) {
	s := script{
		"main":   {startStep("worker"), say("On it."), echo()},
		"worker": {yieldStep().After(time.Second), say("the answer")},
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Minute)
		h.Replied("On it.", "the answer")
		require.Equal(t, 1, h.Child("worker").Turns)
	})
}

// What the session tools answer is never taken for a result, however little else there is.
func TestAnswersOfSessionToolsAreNotAResult(t *testing.T) {
	s := script{
		"main":   {startStep("worker"), say("On it."), echo()},
		"worker": {startStep("helper"), yieldStep()},
		"helper": {agenttest.Hang()},
	}
	store, notes := newNotebook()
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2), Store: store}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		c := h.Child("worker")
		require.Equal(t, spawn.StatusWaiting, c.Status)
		require.NoError(t, h.Session(c.Key).Stop(h.Context()))
		h.Replied("On it.", "worker: cancelled")
		lines := notes.all(t, topKey)
		last := lines[len(lines)-2].Message.Text
		require.Contains(t, last, "(no output)")
		require.NotContains(t, last, "childSessionKey")
		require.NotContains(t, last, "yielded")
	})
}

// Silent children announce nothing, and still release who waits for them.
func TestSilentChildrenReleaseWhoWaits(t *testing.T) {
	for _, token := range []string{announce.AnnounceSkip, announce.NoReply} {
		t.Run(token, func(t *testing.T) {
			s := script{
				"main": {andStart(startStep("a"), "b"), yieldStep(), say("all of them are done")},
				"a":    {say(token).After(time.Minute)},
				"b":    {say(token).After(time.Hour)},
			}
			agenttest.Run(t, agent.Config{}, s, func(h *harness) {
				h.Post("go")
				time.Sleep(59 * time.Minute)
				require.Equal(t, 2, h.Calls("main"))
				time.Sleep(2 * time.Minute)
				h.Replied("all of them are done")
				require.Equal(t, spawn.StatusOK, h.Child("b").Status)
			})
		})
	}
}

func TestSilentChildIsNotAnnounced(t *testing.T) {
	s := script{"main": {startStep("a"), say("On it.")}, "a": {say(announce.AnnounceSkip)}}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Hour)
		h.Replied("On it.")
		require.Equal(t, 2, h.Calls("main"), "nobody is woken")
	})
}

// A main session may choose to stay silent too.
func TestSilentReply(t *testing.T) {
	agenttest.Run(t, agent.Config{},
		script{"main": {say(announce.NoReply), say("Done.\n\n" + announce.NoReply), echo()}},
		func(h *harness) {
			h.Post("psst")
			synctest.Wait()
			require.Empty(t, h.Replies())
			h.Post("psst")
			h.Replied("Done.")
		})
}
