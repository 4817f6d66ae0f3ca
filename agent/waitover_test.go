package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// C2: the words at the end of a wait say why it is over and how many are at work, for each reason,
// with some announced and with all silent. Only where all have ended are they said to have ended.
func TestWordsAtTheEndOfAWait(t *testing.T) {
	reasons := map[string]spawn.Waited{
		"have ended": {Ended: 2}, "As many": {Left: 1, Ended: 1, Enough: true},
		"is up": {Left: 1, Ended: 1},
	}
	for why, w := range reasons {
		for active := range 3 {
			for _, told := range []int{0, 1} {
				w.Told = told
				text := agent.WaitOverText(&w, active, false)
				name := fmt.Sprint(why, active, told, text)
				require.True(t, strings.HasPrefix(text, "[Offshoot] "), name)
				require.Contains(t, text, why, name)
				require.Equal(t, why == "have ended",
					strings.Contains(text, "The sub-agents you were waiting for have ended"), name)
				require.Equal(t, told == 0, strings.Contains(text, "None of "), name)
				require.Equal(t, active == 1, strings.Contains(text, "1 sub-agent of yours is"), name)
				require.Equal(t, active == 2, strings.Contains(text, "2 sub-agents of yours are"), name)
				require.Equal(t, active > 0, strings.Contains(text, "comes to you"), name)
			}
		}
	}
	none := agent.WaitOverText(&spawn.Waited{Left: 2}, 2, false)
	require.NotContains(t, none, "have ended", "none has")
	unknown := agent.WaitOverText(nil, 1, false)
	require.NotContains(t, unknown, "ended")
	require.Contains(t, unknown, "1 sub-agent of yours is")
}

// C2: a session that is woken without a completion is told what is true.
func TestEndOfAWaitIsToldAsItIs(t *testing.T) {
	const (
		allEnded = "[Offshoot] The sub-agents you were waiting for have ended. "
		atWork   = " 1 sub-agent of yours is still at work. "
	)
	for name, c := range map[string]struct {
		yield    string
		children int
		after    time.Duration
		want     []string
	}{
		"time is up":     {`{"withinSeconds":60}`, 1, 2 * time.Minute, []string{"is up.", atWork}},
		"enough":         {`{"atLeast":1}`, 2, 2 * time.Hour, []string{"As many", "None", atWork}},
		"all are silent": {`{}`, 2, 2 * 24 * time.Hour, []string{allEnded + "None of them"}},
		"time, one silent": {
			`{"withinSeconds":7200}`, 2, 3 * time.Hour, []string{"is up. None of those", atWork},
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := startStep("a")
			if c.children == 2 {
				first = andStart(first, "b")
			}
			s := script{
				"main": {first, call("sessions_yield", c.yield), echo()},
				"a":    {say("NO_REPLY").After(time.Hour)},
				"b":    {say("NO_REPLY").After(24 * time.Hour)},
			}
			agenttest.Run(t, agent.Config{}, s, func(h *harness) {
				h.Post("go")
				h.Pass(c.after)
				require.Len(t, h.Requests("main"), 3)
				messages := h.Requests("main")[2].Messages
				last := messages[len(messages)-1]
				require.True(t, last.Internal)
				for _, want := range c.want {
					require.Contains(t, last.Text, want)
				}
				require.Equal(t, name == "all are silent", strings.Contains(last.Text, allEnded))
			})
		})
	}
}

// C2: what was told in a turn over a message during the wait is not denied at its end.
func TestEndOfAWaitDoesNotDenyAReport(t *testing.T) {
	s := script{
		"main": {andStart(startStep("a"), "b"), yieldStep(), say("1"), say("2")},
		"a":    {say("a is done").After(time.Minute)},
		"b":    {say("NO_REPLY").After(time.Hour)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		h.Pass(2 * time.Minute)
		h.Post("well?")
		h.Pass(2 * time.Hour)
		require.Len(t, h.Requests("main"), 4)
		messages := h.Requests("main")[3].Messages
		require.Equal(t, "[Offshoot] The sub-agents you were waiting for have ended. "+
			"What they had to report has been reported to you.", messages[len(messages)-1].Text)
	})
}
