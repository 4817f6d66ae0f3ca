package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// heardSecret is what Config.Redact names in TestEveryTextIsMasked, and heardForms how a text has
// it: a reader sees it in each of them once it is shown.
const heardSecret = "Tr0ub4dor3zebra"

var heardForms = map[string]string{
	"as it is": heardSecret, "title": "Tr0ub4d\x1b]0;x\aor3zebra", "U+2028": "Tr0ub4d\u2028or3zebra",
	"escaped": `Tr0ub4d\x1b]0;x\aor3zebr\u0061`, "thought": "Tr0ub4d<think>x</think>or3zebra",
}

// A heardCase is a struct that a caller or a model hands in.
type heardCase struct {
	base any
	hand func(b *heardBot, v reflect.Value) error
	// stays are the texts that stay as they are wherever they are shown, with the reason.
	stays map[string]string
}

const (
	isKey    = "it names the spawn, and is not shown"
	isPlace  = "it is where the thread is, and a transport has to find it"
	isPerson = "it is the id of a person, which is compared"
)

// heardCases have every struct with texts that others read than the session that is handed it. The
// texts of each are found by reflection, so that a new one has to be masked or named here.
var heardCases = []heardCase{
	{
		announce.Event{Task: "t", Result: "r", Status: spawn.StatusFailed},
		func(b *heardBot, v reflect.Value) error {
			_, err := b.Runtime().Announce(b.Context(), topKey, "1", v.Interface().(announce.Event))
			return err
		},
		nil,
	},
	{
		agent.Task{Text: "do", Announce: true, Update: true, Milestones: true},
		func(b *heardBot, v reflect.Value) error {
			_, err := b.Main().Spawn(b.Context(), v.Interface().(agent.Task))
			return err
		},
		map[string]string{".Key": isKey},
	},
	{
		agent.Result{Text: "done"},
		func(b *heardBot, v reflect.Value) error {
			b.result = v.Interface().(agent.Result)
			if _, err := b.Main().Spawn(
				b.Context(), agent.Task{Text: "do", Announce: true},
			); err != nil {
				return err
			}
			b.Pass(time.Minute)
			_, err := b.Main().Spawn(b.Context(), agent.Task{Text: "do", Update: true})
			return err
		},
		nil,
	},
	{
		agent.Progress{Text: "half", Milestone: true},
		func(b *heardBot, v reflect.Value) error {
			b.progress = v.Interface().(agent.Progress)
			_, err := b.Main().Spawn(b.Context(), agent.Task{
				Text: "do", Announce: true, Milestones: true,
			})
			return err
		},
		nil,
	},
	{
		agent.Message{Role: session.MessageAssistant, Text: "said"},
		func(b *heardBot, v reflect.Value) error {
			b.record = v.Interface().(agent.Message)
			_, err := b.Main().Spawn(b.Context(), agent.Task{Text: "do", Announce: true})
			return err
		},
		nil,
	},
	{
		agent.ToolResult{Text: "looked"},
		func(b *heardBot, v reflect.Value) error {
			out := v.Interface().(agent.ToolResult)
			b.tool = &out
			_, err := b.Main().Spawn(b.Context(), agent.Task{Text: "do", Announce: true})
			return err
		},
		nil,
	},
	{
		agent.ModelResponse{Text: "said"},
		func(b *heardBot, v reflect.Value) error {
			out := v.Interface().(agent.ModelResponse)
			b.answer = &out
			_, err := b.Main().Spawn(b.Context(), agent.Task{
				Text: "do", Announce: true, Update: true,
			})
			return err
		},
		nil,
	},
	{
		agent.Incoming{ID: "1", Text: "go"},
		func(b *heardBot, v reflect.Value) error {
			_, err := b.Main().Post(b.Context(), v.Interface().(agent.Incoming))
			return err
		},
		nil,
	},
	{
		agent.FocusRequest{By: "ann", NewThread: true},
		func(b *heardBot, v reflect.Value) error {
			q := v.Interface().(agent.FocusRequest)
			child, err := b.Main().Spawn(b.Context(), agent.Task{Text: "do", Announce: true})
			if err != nil {
				return err
			}
			q.Conversation, q.Session = b.chat.At("general", ""), child.Key()
			if _, err = b.Runtime().Focus(b.Context(), q); err != nil {
				return err
			}
			b.Pass(time.Minute)
			return b.Runtime().DeleteSession(b.Context(), child.Key()) // says farewell
		},
		map[string]string{
			".Conversation.Channel": isPlace, ".Conversation.Account": isPlace,
			".Conversation.To": isPlace, ".Conversation.Thread": isPlace, ".By": isPerson,
			".ID": "it names the request, and is not shown",
		},
	},
}

// A heardBot is a bot whose sub-agents say what a case hands in.
type heardBot struct {
	*harness

	chat     *agenttest.FakeChannel
	tool     *agent.ToolResult    // of the tool look, which the sub-agents call then
	answer   *agent.ModelResponse // of their model
	result   agent.Result
	progress agent.Progress
	record   agent.Message
	fails    error
	told     []string // what the main session is told that no person has said
}

func (b *heardBot) run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	if tn.Session.Depth == 0 {
		for _, m := range tn.Messages {
			if m.Internal {
				b.told = append(b.told, m.Text)
			}
		}
		return agent.Result{Text: "heard"}, nil
	}
	if b.tool != nil || b.answer != nil {
		return (&agent.Loop{Model: modelFunc(b.generate)}).Run(ctx, tn)
	}
	var err error
	if b.record.Role != "" {
		err = tn.Record(ctx, b.record)
	}
	if b.progress.Milestone {
		err = errors.Join(err, tn.Report(ctx, b.progress))
	}
	return b.result, errors.Join(err, b.fails)
}

// generate is the model of the sub-agents: it calls the tool look, or answers as the case says.
func (b *heardBot) generate(
	_ context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	switch {
	case lastMessage(req).Role == session.MessageTool:
		return &agent.ModelResponse{Text: "looked"}, nil
	case b.tool != nil:
		return &agent.ModelResponse{ToolCalls: []agent.ToolCall{{
			ID: "1", Name: "look", Args: []byte("{}"),
		}}}, nil
	}
	return b.answer, nil
}

// heard returns what others read, by where they do.
func (b *heardBot) heard(log *bytes.Buffer, events []agent.TreeEvent) map[string]string {
	all := map[string]string{"model": strings.Join(b.told, "\n"), "log": log.String()}
	for i, e := range events {
		data, err := json.Marshal(e)
		require.NoError(b.T(), err)
		all[fmt.Sprint("event ", i, e.Kind)] = string(data)
	}
	for i, d := range b.Replies() {
		all[fmt.Sprint("reply ", i)] = d.Reply.Text + "\n" + d.Reply.Err
	}
	for i, at := range b.chat.Threads() {
		all[fmt.Sprint("thread ", i)] = fmt.Sprint(b.chat.Said(at), b.chat.Farewells(at))
	}
	all["threads asked for"] = fmt.Sprintf("%+v", b.chat.Asked())
	runs, err := b.Main().Tree(b.Context())
	require.NoError(b.T(), err)
	for i, run := range runs {
		page, err := b.Runtime().Session(run.Key).History(b.Context(), agent.HistoryQuery{})
		require.NoError(b.T(), err)
		data, err := json.Marshal(page.Lines)
		require.NoError(b.T(), err)
		all[fmt.Sprint("history ", i)] = string(data)
	}
	return all
}

// Every text that a caller or a model hands in is masked wherever others than the session that it
// is for read it, whatever stands within the secret.
func TestEveryTextIsMasked(t *testing.T) {
	for _, c := range heardCases {
		typ := reflect.TypeOf(c.base)
		all := textsOf("", typ, nil)
		for path := range c.stays {
			require.NotNil(t, all[path], "%v%s is not there", typ, path)
		}
		for _, path := range slices.Sorted(maps.Keys(all)) {
			if strings.Contains(path, "[...]") || c.stays[path] != "" {
				continue
			}
			for _, form := range slices.Sorted(maps.Keys(heardForms)) {
				t.Run(typ.String()+path+"/"+form, func(t *testing.T) {
					v := reflect.New(typ).Elem()
					v.Set(reflect.ValueOf(c.base))
					all[path](v, "It is "+heardForms[form]+" so")
					hearAt(t, c, v)
				})
			}
		}
	}
}

// hearAt requires that what a case is handed shows no secret.
func hearAt(t *testing.T, c heardCase, v reflect.Value) {
	t.Helper()
	var log bytes.Buffer
	b := &heardBot{
		chat: agenttest.NewFakeChannel("discord"), result: agent.Result{Text: "done"},
	}
	cfg := configWith(b.run)
	b.chat.Connect(&cfg)
	cfg.Logger = loggingTo(&log).Logger
	cfg.Tools = []agent.Tool{{
		Name: "look", Call: func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
			return *b.tool, nil
		},
	}}
	cfg.Redact = announce.Redaction{Secrets: []string{heardSecret}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		b.harness = h
		seen := watch(h, agent.EventQuery{Root: topKey})
		err := c.hand(b, v)
		b.Pass(10 * time.Minute)
		if err != nil {
			require.NotContains(t, err.Error(), "panic")
		}
		for where, shown := range b.heard(&log, seen()) {
			require.NotContains(t, spell(shown), heardSecret, where)
			if !strings.Contains(shown, "think") { // where tags are shown, they are a part of the text
				require.NotContains(t, spell(shown), "or3zebr", where)
			}
		}
	})
}
