package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// survey runs the program with a model that takes step for each letter of a topic.
func survey(t *testing.T, step time.Duration) (lines []string, err error) {
	cfg := config(fakeModel{step: step})
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		var out strings.Builder
		began := time.Now()
		key := session.Must(session.NamedKey("main", "survey-42"))
		err = research(h.Context(), &out, h.Session(key), topics())
		require.LessOrEqual(t, time.Since(began), 2*time.Minute)
		lines = strings.Split(strings.TrimSpace(out.String()), "\n")
	})
	return lines, err
}

func TestSevenAreEnough(t *testing.T) {
	lines, err := survey(t, time.Second)
	require.NoError(t, err)
	require.Len(t, lines, 10)
	for i, topic := range topics() {
		want := topic + ": There is much to say about " + topic + ". (80 %)"
		if i >= 7 {
			want = topic + `: cancelled; so far: ""`
		}
		require.Equal(t, want, lines[i])
	}
}

func TestTooFewInTime(t *testing.T) {
	lines, err := survey(t, 29*time.Second) // only topics of four letters come in time
	require.EqualError(t, err, "agent: 1 of 7 sub-agents ended well")
	require.Len(t, lines, 10)
}
