package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// The bodies here are made up, in the forms of two providers. What is tested is that their bytes
// come back, not that a provider would take them.
//
//   - Anthropic, Messages (platform.claude.com/docs/en/api/messages): blocks text, image, thinking
//     with its signature, redacted_thinking, tool_use, and tool_result with several blocks.
//   - OpenAI, Responses and Chat Completions (platform.openai.com/docs/api-reference): items
//     message, reasoning with encrypted_content, function_call and function_call_output; messages
//     with content parts, and with tool_calls.

// somePicture returns the bytes of a picture in base64, as providers take it.
func somePicture(size int) string {
	return base64.StdEncoding.EncodeToString(picture("", size).Data)
}

// A providerForm is a conversation of a bot that speaks to one provider, as its Runner records it,
// and the request that the bot makes of it.
type providerForm struct {
	messages []agent.Message
	request  func(messages []agent.Message) string
}

func userForm(text, raw string) agent.Message {
	return agent.Message{Role: session.MessageUser, Text: text, Raw: json.RawMessage(raw)}
}

func toolForm(id, text, raw string) agent.Message {
	return agent.Message{
		Role: session.MessageTool, ToolCallID: id, Text: text, Raw: json.RawMessage(raw),
	}
}

// assistantForm returns a message with calls of the ids.
func assistantForm(text, raw string, ids ...string) agent.Message {
	m := agent.Message{
		Role: session.MessageAssistant, Text: text, Raw: json.RawMessage(raw),
	}
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls,
			agent.ToolCall{ID: id, Name: "look", Args: json.RawMessage(`{"at" : "door", "n": 1.0}`)})
	}
	return m
}

// anthropicForm is a conversation in blocks of the Messages API.
func anthropicForm(size int) providerForm {
	image := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` +
		somePicture(size) + `"}}`
	use := func(id string) string {
		return `{"type":"tool_use","id":"` + id + `","name":"look","input":{"at" : "door", "n": 1.0}}`
	}
	return providerForm{
		messages: []agent.Message{
			userForm("Who is it?", `[{"type":"text","text":"Who is \u0069t? <b>\u2028"},`+image+`]`),
			assistantForm("I look twice.", `[{"type":"thinking","thinking":"Hm\u00e9, \"twice\".",`+
				`"signature":"EqQBCgIYAhIM+/=="},{"type":"text","text":"I look twice."},`+
				use("toolu_1")+`, `+use("toolu_2")+`]`, "toolu_1", "toolu_2"),
			toolForm("toolu_1", "front", `{"type":"tool_result","tool_use_id":"toolu_1","content":[`+
				`{"type":"text","text":"front"},`+image+`,{"type":"text","text":"at 7"}]}`),
			toolForm("toolu_2", "no camera", "{\n  \"type\": \"tool_result\",\r\n"+
				"\"tool_use_id\": \"toolu_2\", \"is_error\": true,\n\"content\": \"no camera\"}"),
			assistantForm("It is Ann.", `[{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/"},`+
				`{"type":"text","text":"It is Ann.","citations":null}]`),
		},
		request: func(messages []agent.Message) string {
			var list []string
			for i := 0; i < len(messages); i++ {
				content, role := string(messages[i].Raw), messages[i].Role
				if role == session.MessageTool { // the results of one answer are one message
					results := []string{content}
					for i+1 < len(messages) && messages[i+1].Role == session.MessageTool {
						i++
						results = append(results, string(messages[i].Raw))
					}
					content, role = "["+strings.Join(results, ",")+"]", session.MessageUser
				}
				list = append(list, fmt.Sprintf(`{"role":%q,"content":%s}`, role, content))
			}
			return `{"model":"m","messages":[` + strings.Join(list, ",") + `]}`
		},
	}
}

// responsesForm is a conversation in items of the Responses API.
func responsesForm(size int) providerForm {
	image := `{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,` +
		somePicture(size) + `"}`
	use := func(id string) string {
		return `{"type":"function_call","id":"fc_` + id + `","call_id":"` + id + `","name":"look",` +
			`"arguments":"{\"at\" : \"door\", \"n\": 1.0}","status":"completed"}`
	}
	said := func(text string) string {
		return `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[` +
			`{"type":"output_text","annotations":[],"logprobs":[],"text":"` + text + `"}]}`
	}
	thought := `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],` +
		`"encrypted_content":"gAAAAAB\/+=="}`
	return providerForm{
		messages: []agent.Message{
			userForm("Who is it?", `[{"role":"user","content":[{"type":"input_text","text":"Who?"},`+
				image+`]}]`),
			assistantForm("I look.", `[`+thought+`, `+said("I look.")+`,`+use("call_1")+`,`+
				use("call_2")+`]`, "call_1", "call_2"),
			toolForm("call_1", "front", `[{"type":"function_call_output","call_id":"call_1","output":[`+
				`{"type":"input_text","text":"front"},`+image+`]}]`),
			toolForm("call_2", "none",
				`[{"type":"function_call_output","call_id":"call_2","output":"none"}]`),
			assistantForm("It is Ann.", `[`+thought+`,`+said("It is Ann.")+`]`),
		},
		request: func(messages []agent.Message) string {
			var items []string
			for _, m := range messages {
				items = append(items, strings.Trim(string(m.Raw), "[]"))
			}
			return `{"model":"m","store":false,"include":["reasoning.encrypted_content"],"input":[` +
				strings.Join(items, ",") + `]}`
		},
	}
}

// chatForm is a conversation in messages of chat completions.
func chatForm(size int) providerForm {
	use := func(id string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"look","arguments":` +
			`"{\"at\" : \"door\", \"n\": 1.0}"}}`
	}
	return providerForm{
		messages: []agent.Message{
			userForm("Who is it?", `{"role":"user","name":"ann","content":[{"type":"text",`+
				`"text":"Who?"},{"type":"image_url","image_url":{"detail":"low","url":`+
				`"data:image/png;base64,`+somePicture(size)+`"}}]}`),
			assistantForm("", `{"role":"assistant","content":null,"refusal":null,"tool_calls":[`+
				use("call_1")+`,`+use("call_2")+`]}`, "call_1", "call_2"),
			toolForm("call_1", "a", `{"role":"tool","tool_call_id":"call_1","content":[`+
				`{"type":"text","text":"a"},{"type":"text","text":"b"}]}`),
			toolForm("call_2", "", `{"role":"tool","tool_call_id":"call_2","content":""}`),
			assistantForm("It is Ann.", `{"role":"assistant","content":"It is Ann.","audio":null}`),
		},
		request: func(messages []agent.Message) string {
			var list []string
			for _, m := range messages {
				list = append(list, string(m.Raw))
			}
			return `{"model":"m","messages":[` + strings.Join(list, ",") + `]}`
		},
	}
}

// inStoresWithAndWithoutFiles is inStores, and the same without files.
func inStoresWithAndWithoutFiles(
	t *testing.T, test func(t *testing.T, open func() *session.Store, files bool),
) {
	t.Helper()
	for _, files := range []bool{true, false} {
		t.Run(fmt.Sprintf("files %v", files), func(t *testing.T) {
			inStores(t, func(t *testing.T, open func() *session.Store) {
				test(t, func() *session.Store {
					store := *open()
					if !files {
						store.Files = nil
					}
					return &store
				}, files)
			})
		})
	}
}

// Issue 12: a bot with content blocks of its own keeps them as Raw. They come back byte for byte,
// small or too large for a line, over a restart, and its next request is the same.
func TestProviderFormsComeBack(t *testing.T) {
	skipUnderRace(t)
	for name, form := range map[string]func(size int) providerForm{
		"Anthropic Messages": anthropicForm, "OpenAI Responses": responsesForm,
		"OpenAI Chat Completions": chatForm,
	} {
		for size, what := range map[int]string{100: "small", 300_000: "large"} {
			t.Run(name+", "+what, func(t *testing.T) {
				inStoresWithAndWithoutFiles(t,
					func(t *testing.T, open func() *session.Store, files bool) {
						f := form(size)
						run := &recorder{messages: f.messages}
						var log bytes.Buffer
						logger := slog.New(slog.NewTextHandler(&log, nil))
						store := open()
						cfg := agent.Config{Store: store, Runner: run, Logger: logger}
						runTurns(t, cfg, "go")
						first := linesOf(t, store)[1].Message
						require.Equal(t, files && what == "large", !first.Whole.IsZero())
						cfg.Store = open()
						runTurns(t, cfg, "and?")
						requireRecorded(t, run)
						require.NoError(t, agenttest.CheckConversation(run.given))
						require.Equal(t, f.request(f.messages), f.request(run.given[1:6]))
						require.NotContains(t, log.String(), "left out")
					})
			})
		}
	}
}

// blocksOf returns the blocks of the Messages API for a message of which Raw has the thoughts
// alone. The rest stands in Text, Parts and ToolCalls, and pictures are files.
func blocksOf(ctx context.Context, tn *agent.Turn, m agent.Message) (blocks string, err error) {
	var list []string
	if thoughts := strings.Trim(string(m.Raw), "[]"); thoughts != "" {
		list = append(list, thoughts)
	}
	if m.Text != "" {
		list = append(list, fmt.Sprintf(`{"type":"text","text":%q}`, m.Text))
	}
	for _, p := range m.Parts {
		source := fmt.Sprintf(`{"type":"url","url":%q}`, p.URL)
		if p.URL == "" {
			var data string
			data, err = readAll(tn.OpenFile(ctx, p.File))
			source = fmt.Sprintf(`{"type":"base64","media_type":%q,"data":%q}`, p.MediaType,
				base64.StdEncoding.EncodeToString([]byte(data)))
		}
		list = append(list, `{"type":"image","source":`+source+`}`)
	}
	for _, c := range m.ToolCalls {
		list = append(list, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`,
			c.ID, c.Name, c.Args))
	}
	blocks = "[" + strings.Join(list, ",") + "]"
	if m.Role == session.MessageTool {
		blocks = fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%s,"is_error":%v}`,
			m.ToolCallID, blocks, m.Failed)
	}
	return blocks, err
}

// Issue 12: a bot may also keep its blocks as Text, Parts and ToolCalls, with the bytes of pictures
// in files, and only the thoughts as Raw.
func TestProviderFormsAsParts(t *testing.T) {
	link := agent.Part{Kind: agent.PartImage, URL: "https://example.com/a.png"}
	inStoresWithAndWithoutFiles(t, func(
		t *testing.T, open func() *session.Store, files bool,
	) {
		parts := []agent.Part{link}
		image := `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`
		if files {
			parts = append(parts, picture("a.png", 300_000))
			image += `,{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` +
				somePicture(300_000) + `"}}`
		}
		thought := `{"type":"thinking","thinking":"Hm\u00e9","signature":"EqQB=="}`
		use := func(id string) string {
			return `{"type":"tool_use","id":"` + id +
				`","name":"look","input":{"at" : "door", "n": 1.0}}`
		}
		want := []string{
			`[{"type":"text","text":"Who is it?"},` + image + `]`,
			`[` + thought + `,{"type":"text","text":"I look."},` + use("a") + `,` + use("b") + `]`,
			`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"front"},` +
				image + `],"is_error":false}`,
			`{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"none"}],` +
				`"is_error":true}`,
		}
		messages := []agent.Message{
			{Role: session.MessageUser, Text: "Who is it?", Parts: parts},
			assistantForm("I look.", "["+thought+"]", "a", "b"),
			{Role: session.MessageTool, ToolCallID: "a", Text: "front", Parts: parts},
			{Role: session.MessageTool, ToolCallID: "b", Text: "none", Failed: true},
		}
		var got []string
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			var err error
			if tn.N == 1 {
				for _, m := range messages {
					err = errors.Join(err, tn.Record(ctx, m))
				}
				return agent.Result{}, err
			}
			for _, m := range tn.Messages[1:5] {
				blocks, failed := blocksOf(ctx, tn, m)
				got, err = append(got, blocks), errors.Join(err, failed)
			}
			return agent.Result{}, err
		})
		cfg.Store = open()
		runTurns(t, cfg, "go")
		cfg.Store = open()
		runTurns(t, cfg, "and?")
		require.Equal(t, want, got)
	})
}

// Issue 12: what does not come back of a provider's form is in the log. It would contradict the
// line, or no provider would accept the message.
func TestProviderFormsThatAreLeftOut(t *testing.T) {
	raw := json.RawMessage(`{"form":"of the provider"}`)
	with := func(change func(*agent.Message)) agent.Message {
		m := assistantForm("text", string(raw), "a", "b")
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		m    agent.Message
		why  string
		gone bool // with the form
	}{
		"one id twice": {
			with(func(m *agent.Message) { m.ToolCalls[1].ID = "a" }), "calls have other ids", false,
		},
		"no id": {
			with(func(m *agent.Message) { m.ToolCalls[1].ID = "" }), "calls have other ids", false,
		},
		"a text that is cut": {
			with(func(m *agent.Message) { m.Text = strings.Repeat("x", 2*megabyte) }), "limit", false,
		},
		"arguments that are left out": {
			with(func(m *agent.Message) { m.ToolCalls[0].Args = longRaw(2 * megabyte) }), "limit", false,
		},
		"the name of a tool that is cut": {
			with(func(m *agent.Message) { m.ToolCalls[0].Name = strings.Repeat("x", 65) }), "limit",
			false,
		},
		"longer than Limits.Line": {
			with(func(m *agent.Message) { m.Raw = longRaw(34 * megabyte) }), "limit", false,
		},
		"thoughts alone": {
			agent.Message{Role: session.MessageAssistant, Raw: raw},
			"neither a text nor calls nor parts", true,
		},
	} {
		if underRace && len(c.m.Raw) > megabyte { // the step large of .ci/run has it
			continue
		}
		var log bytes.Buffer
		run := &recorder{messages: []agent.Message{c.m}}
		cfg := agent.Config{Runner: run, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		agenttest.Run(t, cfg, nil, func(h *harness) { postEach(h, "record", "and?") })
		const what = "the provider's form of a message was left out"
		require.Equal(t, 1, strings.Count(log.String(), what), name)
		require.Contains(t, log.String(), c.why, name)
		require.Equal(t, c.gone, len(run.given) == 2, name)
		for _, m := range run.given {
			require.Empty(t, m.Raw, name)
		}
	}
	if underRace {
		return
	}
	full := assistantForm("x", string(longRaw(32<<20-1))) // the default of Limits.Line with files
	run := &recorder{messages: []agent.Message{full}}
	agenttest.Run(t, agent.Config{Runner: run}, nil, func(h *harness) {
		postEach(h, "record", "and?")
	})
	require.Len(t, run.given[1].Raw, len(full.Raw))
}
