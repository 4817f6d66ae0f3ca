package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
)

// What the package says to models in a message of its own does not reach people if a model repeats
// it. A text here that package announce does not know fails the test.
func TestMessagesToModelsAreKnownToAnnounce(t *testing.T) {
	literal := regexp.MustCompile(`"(?:\\n)?(\[Offshoot\] [^"%\\]+)`)
	exempt := map[string]bool{ // what follows is of people, or of sessions
		"[Offshoot] The session ": true, "[Offshoot] A sub-agent": true,
		"[Offshoot] The sub-agent ": true, "[Offshoot] Of ": true,
	}
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range literal.FindAllStringSubmatch(string(source), -1) {
			if exempt[m[1]] {
				continue
			}
			found++
			shown, _ := announce.Visible(m[1])
			require.Empty(t, shown, "%s", name)
		}
	}
	require.GreaterOrEqual(t, found, 6)
}

// A model that only repeats what it is told says nothing.
func TestModelThatRepeatsWhatItIsTold(t *testing.T) {
	cfg := agent.Config{}
	told := 0
	cfg.Runner = &agent.Loop{Model: agent.ModelFunc(func(
		_ context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		last := req.Messages[len(req.Messages)-1]
		if !last.Internal {
			return &agent.ModelResponse{}, nil
		}
		told++
		return &agent.ModelResponse{Text: last.Text}, nil
	})}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		for _, r := range h.Replies() {
			require.NotContains(t, r.Reply.Text, "Offshoot")
		}
	})
	require.Positive(t, told)
}
