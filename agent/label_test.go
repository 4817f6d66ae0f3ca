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
	"github.com/offshoot-sdk/offshoot/announce"
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
	shown := placesOfALabel(t, agent.Config{}, longLabel, func(
		b threadBot, child *agent.Child[string], call func(args string) (map[string]any, error),
	) {
		info, err := child.Info(b.Context())
		require.NoError(t, err)
		require.Equal(t, longLabel, info.Label, "a program gets all of it")
		out, err := call(`{"action":"info","target":"1"}`)
		require.NoError(t, err)
		require.Equal(t, longLabel, out["label"])
		for _, target := range []string{longLabel, shownLabel} { // what a model has read
			out, err := call(`{"action":"info","target":"` + target + `"}`)
			require.NoError(t, err, target)
			require.Equal(t, string(child.ID()), out["runId"])
		}
		require.Equal(t, 100, utf8.RuneCountInString(b.chat.Asked()[0].Name))
	})
	require.Contains(t, shown["prompt ["], "label `"+shownLabel+"`")
	require.Contains(t, shown["own prompt"], longLabel, "it is its own, beside no other")
	for _, place := range []string{"own prompt", "events", "name"} { // they have all of it
		delete(shown, place)
	}
	for place, text := range shown {
		require.Contains(t, text, shownLabel, place)
		require.NotContains(t, text, shownLabel[:len(shownLabel)-len("…")]+"é", place)
	}
}

// placesOfALabel returns what each place shows of the label of a sub-agent that works in a thread.
// look looks at the sub-agent while it works.
func placesOfALabel(
	t *testing.T, cfg agent.Config, label string,
	look func(threadBot, *agent.Child[string], func(args string) (map[string]any, error)),
) map[string]string {
	t.Helper()
	var mu sync.Mutex
	shown := map[string]string{}
	show := func(place, text string) {
		mu.Lock()
		defer mu.Unlock()
		shown[place] += text
	}
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run == "" {
			show("prompt "+tn.Input()[:1], tn.Prompt.String())
			show("input "+tn.Input()[:1], tn.Input())
			return textResult("NO_REPLY")
		}
		show("own prompt", tn.Prompt.String())
		err := tn.Report(ctx, agent.Progress{Text: "half", Milestone: true})
		require.NoError(t, err)
		if err := pause(ctx, time.Hour); err != nil {
			return agent.Result{}, err
		}
		return agent.Result{Text: "done"}, errors.New("it has failed")
	})
	threadsOn(t, cfg, nil, func(b threadBot) {
		t := b.T()
		seen := watch(b.Harness, agent.EventQuery{})
		b.write(b.general, "1")
		child, thread := b.spawnThread(agent.Task{
			Text: "x", Label: label, Announce: true, Milestones: true, Mode: agent.TaskModeRun,
			Key: "x", // it can be waited for once it is archived
		})
		b.Pass(time.Minute)
		b.write(b.general, "2")
		main, err := b.chat.Key(b.general)
		require.NoError(t, err)
		tools := b.Session(main).Tools()
		call := func(tool, args string) string {
			out, err := callToolOf(b.Harness, tools, tool, "1", args)
			require.NoError(t, err)
			data, err := json.Marshal(out)
			require.NoError(t, err)
			return string(data)
		}
		show("list", call("subagents", `{}`))
		show("sessions", call("sessions_list", `{"kinds":["subagent"]}`))
		if look != nil {
			look(b, child, func(args string) (map[string]any, error) {
				return callToolOf(b.Harness, tools, "subagents", "1", args)
			})
		}
		asked := b.chat.Asked()[0]
		show("intro", asked.Intro)
		show("name", asked.Name)
		b.Pass(2 * time.Hour)
		show("farewell", b.chat.Farewells(thread)[0].Text)
		_, err = child.Wait(b.Context())
		require.Error(t, err)
		show("error", err.Error())
		for _, e := range seen() {
			data, err := json.Marshal(e)
			require.NoError(t, err)
			show("events", string(data))
		}
	})
	delete(shown, "prompt 1")
	delete(shown, "input 1")
	delete(shown, "prompt 2")
	delete(shown, "input 2")
	delete(shown, "prompt <") // the sub-agent has ended
	for _, place := range []string{
		"prompt [", "input [", "error", "list", "sessions", "intro", "name", "farewell", "input <",
		"own prompt", "events",
	} {
		require.Contains(t, shown, place)
	}
	return shown
}

// A secret of two lines is masked in each place that shows a label, which is on one line, wherever
// the cut at 48 characters would be within it, and whatever markup stands within it that people are
// not shown.
func TestSecretOfTwoLinesInALabel(t *testing.T) {
	const first, second = "lineone-SecretX", "linetwo-SecretY"
	forms := []string{
		first + "\n" + second, first + "\r\n  " + second,
		"lineone-Sec<|im_end|>retX\n" + second, "lineone-Secret[[reply_to_current]]X\n" + second,
		"lineone<think>x y</think>-SecretX\n" + second, first + "\n<|im_end|>linetwo-Secr<|im_end|>etY",
		first + " <think>x</think>\n [[reply_to_current]] " + second, first + "\u200b\n" + second,
		first + "\n\n" + second, "line\x1b[1mone-SecretX\n" + second,
	}
	redact := agent.Config{Redact: announce.Redaction{Secrets: []string{first + "\n" + second}}}
	for n := range 34 {
		before := strings.Repeat("a", 16+n) // the cut is at 48
		for i := range 2 {
			form := forms[(n+5*i)%len(forms)]
			shown := placesOfALabel(t, redact, before+" "+form, nil)
			delete(shown, "own prompt") // it is told what it was given
			for place, text := range shown {
				require.NotRegexp(t, "lineone|linetwo|Secret", text, "%s of %q", place, form)
			}
		}
	}
}

// What a delivery shows of a label has no secret, also in the event that its receiver makes of it.
func TestSecretInTheLabelOfADelivery(t *testing.T) {
	const secretText = "lineone-SecretX\nlinetwo-SecretY"
	for n := range 34 {
		for _, within := range []string{"", "<|im_end|>", "<think>x</think>"} {
			got := ""
			cfg := agent.Config{
				Redact: announce.Redaction{Secrets: []string{secretText}},
				Runner: sayOK,
				Deliver: func(_ context.Context, d agent.Delivery) error {
					got = d.Completion.Run.Label + " " + announce.NewEvent(d.Completion).Update()
					return nil
				},
			}
			label := strings.Repeat("a", 16+n) + " " +
				strings.Replace(secretText, "Secret", "Sec"+within+"ret", 1)
			agenttest.Run(t, cfg, nil, func(h *harness) {
				task := agent.Task{Text: label[:16], Label: label, Announce: true}
				_, err := h.Main().Spawn(h.Context(), task)
				require.NoError(t, err)
				h.Pass(time.Hour)
			})
			require.NotRegexp(t, "lineone|linetwo|Secret", got)
			require.Contains(t, got, label[:16])

			cfg.Deliver = nil
			agenttest.Run(t, cfg, nil, func(h *harness) { // a person has asked for it
				task := agent.Task{Text: "x", Label: label, Update: true}
				for range 2 {
					_, err := h.Main().Spawn(h.Context(), task)
					require.NoError(t, err)
				}
				_, err := callTool(h, "subagents", "1", `{"action":"info","target":"aaaaaaaa"}`)
				require.ErrorContains(t, err, "it may be any of 2")
				require.NotRegexp(t, "lineone|linetwo|Secret", err.Error())
				h.Pass(time.Hour)
				said := ""
				for _, d := range h.Replies() {
					said += d.Reply.Text
				}
				require.Contains(t, said, label[:16])
				require.NotRegexp(t, "lineone|linetwo|Secret", said)
			})
		}
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
