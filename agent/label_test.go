package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// longLabel has 200 characters, shownLabel is what is shown of it beside others.
var (
	longLabel  = "Häuser zählen " + strings.Repeat("é", 186)
	shownLabel = "Häuser zählen " + strings.Repeat("é", 33) + "…"
)

// A label has at most 200 characters and is kept whole. Each list, prompt, error and announcement
// shows 48 of them. The name of a thread has as many characters as channels take.
func TestLabelsAreShownShort(t *testing.T) {
	require.Equal(t, 200, utf8.RuneCountInString(longLabel))
	require.Equal(t, 48, utf8.RuneCountInString(shownLabel))
	var mu sync.Mutex
	shown := map[string]string{}
	show := func(place, text string) {
		mu.Lock()
		defer mu.Unlock()
		shown[place] = text
	}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run == "" {
			show("prompt "+tn.Input()[:1], tn.Prompt.String())
			show("input "+tn.Input()[:1], tn.Input())
			return textResult("NO_REPLY")
		}
		require.Equal(t, longLabel, tn.Label)
		require.Contains(t, tn.Prompt.String(), longLabel, "it is its own, beside no other")
		err := tn.Report(ctx, agent.Progress{Text: "half", Milestone: true})
		require.NoError(t, err)
		return agent.Result{Text: "done"}, pause(ctx, time.Hour)
	})
	threadsOn(t, cfg, nil, func(b threadBot) {
		t := b.T()
		b.write(b.general, "1")
		child, thread := b.spawnThread(agent.Task{
			Text: "x", Label: longLabel, Announce: true, Milestones: true, Mode: agent.TaskModeRun,
		})
		b.Pass(time.Minute)
		b.write(b.general, "2")
		info, err := child.Info(b.Context())
		require.NoError(t, err)
		require.Equal(t, longLabel, info.Label, "a program gets all of it")
		show("error", (&agent.RunError{Run: info}).Error())

		main, err := b.chat.Key(b.general)
		require.NoError(t, err)
		tools := b.Session(main).Tools()
		call := func(args string) string {
			out, err := callToolOf(b.Harness, tools, "subagents", "1", args)
			require.NoError(t, err)
			data, err := json.Marshal(out)
			require.NoError(t, err)
			return string(data)
		}
		show("list", call(`{}`))
		require.Contains(t, call(`{"action":"info","target":"1"}`), `"`+longLabel+`"`)
		for _, target := range []string{longLabel, shownLabel} { // what a model has read
			out, err := callToolOf(b.Harness, tools, "subagents", "1",
				`{"action":"info","target":"`+target+`"}`)
			require.NoError(t, err, target)
			require.Equal(t, string(child.ID()), out["runId"])
		}
		asked := b.chat.Asked()[0]
		show("intro", asked.Intro)
		require.Equal(t, 100, utf8.RuneCountInString(asked.Name))
		b.Pass(2 * time.Hour)
		show("farewell", b.chat.Farewells(thread)[0].Text)
	})
	mu.Lock()
	defer mu.Unlock()
	for _, place := range []string{
		"prompt [", "input [", "error", "list", "intro", "farewell", "input <",
	} {
		require.Contains(t, shown, place)
	}
	require.Contains(t, shown["prompt ["], "label `"+shownLabel+"`")
	delete(shown, "prompt 1")
	delete(shown, "input 1")
	delete(shown, "prompt <") // the sub-agent has ended
	for place, text := range shown {
		require.Contains(t, text, shownLabel, place)
		require.NotContains(t, text, shownLabel[:len(shownLabel)-len("…")]+"é", place)
	}
}

// What is shown of two labels may be the same. Then it names neither, and a whole label does.
func TestShownLabelThatIsAmbiguous(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		for _, end := range []string{"a", "b"} {
			task := agent.Task{Text: "x", Label: longLabel[:300] + end}
			_, err := h.Main().Spawn(h.Context(), task)
			require.NoError(t, err)
		}
		_, err := callTool(h, "subagents", "1", `{"action":"info","target":"`+shownLabel+`"}`)
		require.ErrorContains(t, err, "it may be any of 2")
		out, err := callTool(h, "subagents", "1", `{"action":"info","target":"`+longLabel[:300]+`b"}`)
		require.NoError(t, err)
		require.Equal(t, string(h.Runs()[1].ID), out["runId"])
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

// What is longer than a label may be is refused, and leaves nothing behind.
func TestLabelThatIsTooLong(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		_, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Label: longLabel + "é"})
		over, ok := errors.AsType[*spawn.LimitError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, 201, over.Size)
		require.Equal(t, 200, over.Limit)
		out, err := callTool(h, "sessions_spawn", "1", `{"task":"x","label":"`+longLabel+`é"}`)
		require.NoError(t, err)
		require.Equal(t, "error", out["status"])
		require.Contains(t, out["error"], "201 characters, the limit is 200 (Limits.Label)")
		require.Empty(t, h.Runs())
	})
}
