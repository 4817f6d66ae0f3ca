package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
)

// secretForms are secrets that stand in what models and people choose: a token that is known by how
// it begins, and what Config.Redact names, with upper case letters, and with what JSON escapes.
var secretForms = map[string]string{
	"token":   "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
	"own":     "QwErTyUiOpAsDfGh-1234567890",
	"escaped": `QwErTy"UiOp\AsDfGh<1234567890`,
}

// secretCuts are where something that shows such a text may cut it: a label, the name of a tool, a
// quotation, a task, what an argument or a target repeats.
var secretCuts = []int{48, 64, 100, 120, 200, 256, 512}

// requireMasked requires that no part of a secret is in what is shown, in any case.
func requireMasked(t testing.TB, secret, where, shown string) {
	t.Helper()
	const part = 8
	plain := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\u003c`, `<`)
	texts := []string{strings.ToLower(shown)}
	for range 3 {
		texts = append(texts, plain.Replace(texts[len(texts)-1]))
	}
	for i := range len(secret) - part + 1 {
		for _, s := range texts {
			require.NotContains(t, s, strings.ToLower(secret[i:i+part]), where)
		}
	}
}

// A maskedBot is a bot in whose texts a secret stands, and what it shows.
type maskedBot struct {
	*harness

	secret, text string            // text has the secret
	label, name  string            // have it: at most 200 characters, and what has no spaces
	mu           sync.Mutex        // guards shown: turns run beside each other
	shown        map[string]string // by surface
}

// maskedSurfaces are where others than a session itself read what its model or another one chose.
var maskedSurfaces = map[string]func(b *maskedBot){
	"a thread": func(b *maskedBot) {
		key := b.spawn(agent.Task{Text: "wait"})
		_, err := b.focus(key, nil)
		require.NoError(b.T(), err)
	},
	"the error of a host": func(b *maskedBot) {
		key := b.spawn(agent.Task{Text: "wait"})
		_, err := b.focus(key, errors.New("refused: "+b.text))
		require.ErrorContains(b.T(), err, "refused: ")
		b.show("the error of a host", err.Error())
	},
	"a completion": func(b *maskedBot) {
		b.spawn(agent.Task{Text: "end " + b.text, Label: b.label, Announce: true, Model: b.name})
		b.spawn(agent.Task{Text: "end " + b.text, Announce: true})
		b.spawn(agent.Task{Text: "fail " + b.text, Label: b.label, Announce: true})
	},
	"a milestone": func(b *maskedBot) {
		b.spawn(agent.Task{Text: "reach", Label: b.label, Announce: true, Milestones: true})
	},
	"a typed result": func(b *maskedBot) {
		child, err := agent.Spawn[int](b.Context(), b.Main(), agent.Task{
			Text: "end " + b.text, Announce: true,
		})
		require.NoError(b.T(), err)
		_, err = child.Wait(b.Context())
		bad, ok := errors.AsType[*agent.ResultError](err)
		require.True(b.T(), ok, err)
		b.show("the run", b.Runtime().Shown(bad.Run.Error))
		b.show("a typed result", b.Runtime().Shown(err.Error()))
		_ = b.call("subagents", "subagents", `{"action":"info","target":"1"}`)
	},
	"lists of sub-agents": func(b *maskedBot) {
		for range 2 {
			b.spawn(agent.Task{Text: "wait " + b.text, Label: b.label, Model: b.name})
		}
		b.spawn(agent.Task{Text: "fail " + b.text, Label: b.label})
		for i, args := range []string{
			`{}`, `{"action":"info","target":"1"}`, `{"action":"info","target":"2"}`,
			`{"action":"info","target":"3"}`,
		} {
			_ = b.call("subagents "+fmt.Sprint(i), "subagents", args)
		}
		_ = b.call("sessions_list", "sessions_list", `{"messageLimit":3}`)
		err := b.call("", "subagents", b.args("action", "info", "target", b.label[:6]))
		require.ErrorContains(b.T(), err, "it may be any of 3")
		_, reason, _ := strings.Cut(err.Error(), "it may be")
		b.show("candidates", reason)
	},
	"an answer to a spawn": func(b *maskedBot) {
		_ = b.call("a spawn", "sessions_spawn", b.args("task", "wait", "model", b.name))
	},
	"calls of tools": func(b *maskedBot) {
		seen := watch(b.harness, agent.EventQuery{Root: topKey})
		b.Post("calls")
		b.Pass(time.Second)
		for i, e := range seen() {
			data, err := json.Marshal(e)
			require.NoError(b.T(), err)
			b.show(fmt.Sprintf("event %d, %v", i, e.Kind), string(data))
		}
		page, err := b.Main().History(b.Context(), agent.HistoryQuery{})
		require.NoError(b.T(), err)
		require.GreaterOrEqual(b.T(), len(page.Lines), 5)
		for i, line := range page.Lines {
			data, err := json.Marshal(line)
			require.NoError(b.T(), err)
			b.show(fmt.Sprint("history ", i), string(data))
		}
		_ = b.call("sessions_history", "sessions_history", `{"includeTools":true}`)
	},
}

func (b *maskedBot) show(where, shown string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown[where] += shown + "\n"
}

// spawn spawns a sub-agent for the program.
func (b *maskedBot) spawn(task agent.Task) agent.RunInfo {
	child, err := b.Main().Spawn(b.Context(), task)
	require.NoError(b.T(), err)
	b.Pass(time.Second)
	info, err := child.Info(b.Context())
	require.NoError(b.T(), err)
	return info
}

// quoted returns the text as JSON.
func (b *maskedBot) quoted() string {
	data, err := json.Marshal(b.text)
	require.NoError(b.T(), err)
	return string(data)
}

// args returns the JSON of arguments.
func (b *maskedBot) args(pairs ...string) string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	data, err := json.Marshal(m)
	require.NoError(b.T(), err)
	return string(data)
}

// call calls a tool of the main session.
func (b *maskedBot) call(where, tool, args string) error {
	out, err := findTool(b.T(), b.Main().Tools(), tool).Call(b.Context(),
		agent.ToolCall{ID: where, Name: tool, Args: json.RawMessage(args)})
	if where != "" {
		require.NoError(b.T(), err, "%s %s", tool, args)
		b.show(where, out.Text)
	}
	return err
}

// focus has a thread created for a run, which the host refuses with an error.
func (b *maskedBot) focus(run agent.RunInfo, refused error) (any, error) {
	maskedChat.Intercept(func(context.Context, agenttest.FakeCall) error { return refused })
	before := len(maskedChat.Asked())
	made, err := b.Runtime().Focus(b.Context(), agent.FocusRequest{
		Conversation: maskedChat.At("general", ""), Session: run.Key, By: "ann", Label: b.label,
		NewThread: true,
	})
	for _, asked := range maskedChat.Asked()[before:] {
		b.show("the name of a thread", asked.Name)
		b.show("the first words in a thread", asked.Intro)
	}
	return made, err
}

// maskedChat is the channel of the maskedBot of the test that runs.
var maskedChat *agenttest.FakeChannel

// run does what the last message of a turn says.
func (b *maskedBot) run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	said := tn.Input()
	do, _, _ := strings.Cut(said, " ")
	switch {
	case tn.Run == "" && do == "calls":
		return agent.Result{Text: "called"}, b.calls(ctx, tn)
	case tn.Run == "":
		for _, m := range tn.Messages {
			b.show("what the requester reads", m.Text)
		}
		return agent.Result{Text: "read"}, nil
	}
	switch {
	case strings.Contains(said, "wait"):
		return agent.Result{}, pause(ctx, 24*time.Hour)
	case strings.Contains(said, "fail"):
		return agent.Result{}, errors.New("it said: " + b.text)
	case strings.Contains(said, "reach"):
		err := tn.Report(ctx, agent.Progress{Text: b.text, Milestone: true, Percent: 50})
		return agent.Result{Text: "reached"}, errors.Join(err, pause(ctx, time.Minute))
	}
	if len(tn.Schema) > 0 {
		return agent.Result{Text: b.text}, nil
	}
	return agent.Result{Text: "done", Model: b.name}, nil
}

// choosyTool is a tool that the Config gives a schema.
func choosyTool() agent.Tool {
	return agent.Tool{
		Name: "choosy", Description: "is given what it must not be given",
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"enum":{"enum":["a","b"]}, "const":{"const":"a"},
			"pattern":{"type":"string","pattern":"^[0-9]$"}, "number":{"type":"integer"},
			"named":{"type":"object","propertyNames":{"pattern":"^[0-9]$"}},
			"within":{"type":"object","additionalProperties":{"type":"integer"}},
			"form":{"anyOf":[{"type":"integer"},{"const":"a"}]}, "not":{"not":{"type":"string"}},
			"once":{"type":"array","uniqueItems":true}}}`),
		Call: func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
			return agent.ToolResult{Text: "taken"}, nil
		},
	}
}

// decodedTool is a tool of NewTool, whose argument is decoded by a method that repeats it.
func decodedTool() agent.Tool {
	return agent.NewTool("decoded", "refuses what it is given",
		func(context.Context, struct {
			Given echoing `json:"given,omitzero"`
			Map   map[string]echoing
		},
		) (string, error) {
			return "taken", nil
		})
}

// An echoing is decoded from a text, and repeats the text where it refuses it.
type echoing struct{}

func (*echoing) UnmarshalText(data []byte) error { return fmt.Errorf("refused %s", data) }

func (echoing) MarshalText() ([]byte, error) { return nil, nil }

// wrongCalls are calls of tools with arguments that do not fit their schema, or are not JSON.
func (b *maskedBot) wrongCalls() (calls []agent.ToolCall) {
	q := b.quoted()
	for _, tool := range []string{"choosy", "decoded"} {
		for _, args := range []string{
			b.args("enum", b.text), b.args("const", b.text), b.args("pattern", b.text),
			b.args("number", b.text), b.args("form", b.text), b.args("not", b.text),
			b.args(b.text, "x"), `{"named":{` + q + `:1}}`, `{"within":{` + q + `:[]}}`,
			`{"once":[` + q + `,` + q + `]}`, `{` + q + `:1,` + q + `:1}`, q, `[` + q + `]`,
			`{"enum":[` + q + `]}`, `{"enum":{` + q + `:1}}`, `{"enum":` + q, `{` + q + `}`,
			`{"enum":` + q + `} ` + b.text, b.text, `{"enum":` + b.text + `}`, `{"en` + b.text,
			b.args("given", b.text), `{"Map":{` + q + `:` + q + `}}`, `{"Map":` + q + `}`,
		} {
			calls = append(calls, agent.ToolCall{Name: tool, Args: json.RawMessage(args)})
		}
	}
	return calls
}

// calls calls tools with what has the secret, and records that as a loop does.
func (b *maskedBot) calls(ctx context.Context, tn *agent.Turn) error {
	for i, c := range append(b.wrongCalls(), []agent.ToolCall{
		{Name: b.text, Args: json.RawMessage(`{}`)},
		{Name: "sessions_spawn", Args: json.RawMessage(b.args("task", "x", "agentId", b.text))},
		{Name: "sessions_spawn", Args: json.RawMessage(
			b.args("task", "x", "agentId", b.text, "label", b.label, "model", b.name))},
		{Name: "subagents", Args: json.RawMessage(b.args("action", "info", "target", b.text))},
		{Name: "subagents", Args: json.RawMessage(b.args("action", b.text))},
		{Name: "subagents", Args: json.RawMessage(`{"target":["` + b.name + `"]}`)},
		{Name: "session_status", Args: json.RawMessage(b.args("sessionKey", b.text))},
		{Name: "session_status", Args: json.RawMessage(b.args(b.text, "x"))},
		{Name: "sessions_spawn", Args: json.RawMessage(b.args("task", "x", b.text, "x"))},
		{Name: "sessions_spawn", Args: json.RawMessage(b.args("task", "x", "taskName", b.text))},
		{Name: "sessions_spawn", Args: json.RawMessage(b.args("task", "x", "cwd", b.text))},
		{Name: "sessions_spawn", Args: json.RawMessage(b.args("task", "x", "runtime", b.text))},
		{Name: "sessions_spawn", Args: json.RawMessage(
			`{"task":"x","attachments":[{"content":"x","name":` + b.quoted() + `}]}`)},
		{Name: "sessions_spawn", Args: json.RawMessage(
			`{"task":"x","attachments":[{"content":"x","name":"x",` + b.quoted() + `:1}]}`)},
		{Name: "sessions_send", Args: json.RawMessage(
			b.args("sessionKey", b.text, "message", "x"))},
		{Name: "sessions_send", Args: json.RawMessage( // which tells the key, in lower case
			b.args("sessionKey", "agent:main:"+b.secret, "message", "x"))},
		{Name: "sessions_history", Args: json.RawMessage(
			b.args("sessionKey", "agent:main:"+b.secret))},
	}...) {
		c.ID = fmt.Sprint("call", i)
		said := c
		if !json.Valid(c.Args) {
			said.Args = json.RawMessage(`{}`) // as a loop records it
		}
		err := tn.Record(ctx, agent.Message{
			Role: "assistant", ToolCalls: []agent.ToolCall{said},
		})
		if err != nil {
			return err
		}
		out, err := tn.Call(ctx, c)
		if err != nil {
			out.Text = "error: " + err.Error()
		}
		err = tn.Record(ctx, agent.Message{Role: "tool", ToolCallID: c.ID, Text: out.Text})
		if err != nil {
			return err
		}
	}
	return nil
}

// What Config.Redact names, and what is known by how it begins, is masked before it is cut,
// wherever others than the session itself read of it: at each cut of a text, wherever in the secret
// it is.
func TestSecretsAreMaskedBeforeTheCut(t *testing.T) {
	skipUnderRace(t)
	for _, form := range slices.Sorted(maps.Keys(secretForms)) {
		secret := secretForms[form]
		for _, surface := range slices.Sorted(maps.Keys(maskedSurfaces)) {
			for _, cut := range secretCuts {
				for _, in := range []int{9, len(secret) - 1} { // bytes of it before the cut
					name := fmt.Sprintf("%s/%s/%d in %d", form, surface, in, cut)
					t.Run(name, func(t *testing.T) {
						maskedAt(t, surface, secret, max(cut-in-1, 0))
					})
				}
			}
		}
	}
}

// breakingForms are what making one line of a label takes out of it, or writes as a space.
var breakingForms = map[string]string{
	"nl": "\n", "cr": "\r", "crlf": "\r\n", "ff": "\f", "nel": "\u0085", "u2028": "\u2028",
	"csi": "\x1b[31m", "osc": "\x1b]0;x\a", "c1": "\u009b31m", "zero width": "\u200b",
}

// A label loses its line breaks and controls after it is masked, not before.
func TestLabelsAreMaskedBeforeTheyAreOneLine(t *testing.T) {
	skipUnderRace(t)
	const head, tail = "QwErTyUiOp", "AsDfGh-1234567890"
	for _, form := range slices.Sorted(maps.Keys(breakingForms)) {
		for _, surface := range slices.Sorted(maps.Keys(maskedSurfaces)) {
			if surface == "calls of tools" || surface == "a typed result" {
				continue // which quote what a model said, with escapes in it, and show no label
			}
			t.Run(form+"/"+surface, func(t *testing.T) {
				said := "Lead12 " + head + breakingForms[form] + tail
				b := &maskedBot{
					secret: head + tail, text: said, label: said, name: "m/" + head + tail,
					shown: make(map[string]string),
				}
				maskedRun(t, b, surface, b.secret)
				for where, shown := range b.shown {
					for _, part := range []string{head, tail} {
						require.NotContains(t, shown, part, where)
					}
				}
			})
		}
	}
}

// maskedAt requires that a surface masks a secret that stands behind some bytes of a text.
func maskedAt(t *testing.T, surface, secret string, before int) {
	lead := "Lead12" + strings.Repeat("x", max(before-6, 0))
	b := &maskedBot{
		secret: secret, text: lead + " " + secret, name: lead + "/" + secret,
		shown: make(map[string]string),
	}
	if b.label = b.text; len(b.label) > 200 { // see Limits.Label
		b.label = "Lead12 " + secret
	}
	if len(b.name) > 256 { // which no model's name has
		b.name = "m/" + secret
	}
	maskedRun(t, b, surface, secretForms["own"], secretForms["escaped"])
	require.NotEmpty(t, b.shown)
	for where, shown := range b.shown {
		requireMasked(t, secret, where, shown)
	}
}

// maskedRun has a maskedBot show a surface, whose Config names secrets.
func maskedRun(t *testing.T, b *maskedBot, surface string, secrets ...string) {
	maskedChat = agenttest.NewFakeChannel("discord")
	cfg := configWith(b.run)
	maskedChat.Connect(&cfg)
	cfg.Tools = append(cfg.Tools, choosyTool(), decodedTool())
	cfg.Redact = announce.Redaction{Secrets: secrets}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		b.harness = h
		maskedSurfaces[surface](b)
		b.Pass(time.Hour)
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}
