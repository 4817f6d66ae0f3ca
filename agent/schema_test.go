package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
)

type orderArgs struct {
	Item  string         `json:"item"`
	Count uint8          `json:"count"`
	When  time.Time      `json:"when,omitzero"`
	Extra map[string]int `json:"extra,omitempty"`
	Note  *string        `json:"note"`
	Lines []struct {
		Color string `json:"color"`
	} `json:"lines,omitempty"`
}

// wrongOrders are arguments that do not fit orderArgs, and what the model is told of each: the
// member, and what is wanted.
var wrongOrders = map[string]string{
	``:     "item is missing: want a string; count is missing: want an integer from 0 to 255",
	`{}`:   "item is missing: want a string",
	`null`: "the value is null: want an object",
	`[1]`:  "the value is an array: want an object",
	`{`:    "it is not JSON",

	`{"count":1}`:                                              "item is missing: want a string",
	`{"item":null,"count":1}`:                                  "item is null: want a string",
	`{"item":"a","count":"1"}`:                                 "count is a string: want an integer from 0 to 255",
	`{"item":"a","count":1.5}`:                                 "count is a number: want an integer from 0 to 255",
	`{"item":"a","count":256}`:                                 "count is 256: want an integer from 0 to 255",
	`{"item":"a","count":-1}`:                                  "count is -1: want an integer from 0 to 255",
	`{"item":"a","count":1,"colour":"red"}`:                    "colour is not known: want one of",
	`{"ITEM":"a","count":1}`:                                   "ITEM is not known",
	`{"item":"a","count":1,"count":2}`:                         `the member "count" is there twice`,
	`{"item":"a","count":1,"when":"soon"}`:                     `when is "soon": want a date and time`,
	`{"item":"a","count":1,"extra":{"x":""}}`:                  "extra.x is a string: want an integer",
	`{"item":"a","count":1,"extra":{"x":9223372036854775808}}`: "want int",
	`{"item":"a","count":1,"lines":[{"color":"red"},{}]}`:      "lines[1].color is missing: want a string",
}

// A5: what does not fit the schema of a tool does not reach its function, and the model is told
// which member is wrong and what is wanted, be the schema that of a Go type or the caller's own.
func TestArgumentsAreChecked(t *testing.T) {
	called := 0
	typed := agent.NewTool("order", "", func(context.Context, orderArgs) (string, error) {
		called++
		return "done", nil
	})
	for args, want := range wrongOrders {
		require.Contains(t, answerOfTool(t, typed, args), want, args)
	}
	require.Zero(t, called)
	for _, args := range []string{
		`{"item":"a","count":1}`,
		`{"item":"","count":255,"note":null,"when":null,"lines":null}`,
		`{"item":"a","count":1,"note":"b","when":"2026-01-02T03:04:05Z","extra":{"x":1}}`,
	} {
		require.Equal(t, "done", answerOfTool(t, typed, args), args)
	}
	require.Equal(t, 3, called)
	own := agent.Tool{
		Name: "order",
		Schema: json.RawMessage(`{"type":"object","required":["unit"],` +
			`"properties":{"unit":{"$ref":"#/$defs/unit"}},"$defs":{"unit":{"enum":["c","f"]}}}`),
		Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
			called++
			return "done", nil
		}),
	}
	for args, want := range map[string]string{
		``:             `unit is missing: want one of "c", "f"`,
		`{"unit":"k"}`: `unit is "k": want one of "c", "f"`,
		`{"unit":7}`:   `unit is 7: want one of "c", "f"`,
	} {
		require.Contains(t, answerOfTool(t, own, args), want, args)
	}
	require.Equal(t, 3, called)
	require.Equal(t, "done", answerOfTool(t, own, `{"unit":"c","more":1}`))
	own.Schema = nil
	require.Equal(t, "done", answerOfTool(t, own, `{"x":1}`), "without a schema objects are passed on")
	require.Contains(t, answerOfTool(t, own, `[]`), "want an object")
}

// answerOfTool returns what the model is told that calls a tool.
func answerOfTool(t *testing.T, tool agent.Tool, args string) (answer string) {
	t.Helper()
	s := script{"main": {call(tool.Name, args), echo()}}
	agenttest.Run(t, agent.Config{Tools: []agent.Tool{tool}}, s, func(h *harness) {
		h.Post("go")
		replies := h.Replies()
		require.Len(h.T(), replies, 1)
		answer = replies[0].Reply.Text
	})
	return answer
}

type (
	listArgs  struct{ Next *listArgs }
	outerArgs struct {
		Inner struct{ More map[string][]*outerArgs }
	}
	channelArgs struct{ C chan int }
)

func toolOf[In any]() agent.Tool {
	return agent.NewTool("bad", "", func(context.Context, In) (string, error) { return "", nil })
}

// A6: NewTool never panics. Open refuses a tool whose arguments have no schema, or are not an
// object, and so does a call of it.
func TestToolsWithoutASchema(t *testing.T) {
	for want, tool := range map[string]agent.Tool{
		"agent_test.listArgs contains itself":  toolOf[listArgs](),
		"agent_test.outerArgs contains itself": toolOf[outerArgs](),
		"chan int has no JSON form":            toolOf[channelArgs](),
		"not string":                           toolOf[string](),
		"not []string":                         toolOf[[]string](),
		"not *int":                             toolOf[*int](),
		"not time.Time":                        toolOf[time.Time](),
		"func() has no JSON form":              toolOf[func()](),
		"keys of an object are strings":        toolOf[map[int]string](),
	} {
		requireBadSchema(t, tool, want)
		_, err := tool.Call(t.Context(), agent.ToolCall{Args: []byte(`{}`)})
		require.ErrorContains(t, err, want)
	}
	for _, tool := range []agent.Tool{
		toolOf[struct{}](), toolOf[*orderArgs](), toolOf[map[string]any](), toolOf[any](),
		toolOf[json.RawMessage](),
	} {
		_, err := agent.Open(t.Context(), agent.Config{
			Runner: agent.RunnerFunc(nothingToSay), Tools: []agent.Tool{tool},
		})
		require.NoError(t, err)
		require.Contains(t, string(tool.Schema), `"type":"object"`)
	}
}

func nothingToSay(context.Context, *agent.Turn) (agent.Result, error) { return agent.Result{}, nil }

func requireBadSchema(t *testing.T, tool agent.Tool, want string) {
	t.Helper()
	_, err := agent.Open(t.Context(), agent.Config{
		Runner: agent.RunnerFunc(nothingToSay), Tools: []agent.Tool{tool},
	})
	bad, ok := errors.AsType[agent.ConfigErrors](err)
	require.True(t, ok, "%s: %v", want, err)
	require.Len(t, bad, 1)
	require.Equal(t, "Tools[0].Schema", bad[0].Path)
	require.Contains(t, bad[0].Message, want)
	require.Less(t, len(bad[0].Message), 1000)
}

// A5, C5: a schema of the caller that is none, or that would take long, is refused at Open, in a
// time that has a bound.
func TestHostileSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{`:                     "it is not JSON",
		`"object"`:              "a string is not a schema",
		`{"type":"strin"}`:      `"strin" is not a type`,
		`{"type":"string"}`:     "arguments are an object",
		`false`:                 "arguments are an object",
		`{"$ref":"#"}`:          "it refers to itself",
		`{"$ref":"http://a/b"}`: "want a place in the same schema",
		`{"pattern":"(?<=a)"}`:  "is not one that Go knows",
		`{"properties":{"a":{"pattern":"` + strings.Repeat("(a|b){1,1000}", 100) + `"}}}`: "too large",
		strings.Repeat(`{"not":`, 100_000) + `{}` + strings.Repeat(`}`, 100_000):          "exceeded max depth",
		`{"allOf":[` + strings.Repeat(`{},`, 50_000) + `{}]}`:                             "more than 10000 schemas",
	} {
		requireBadSchema(t, agent.Tool{
			Name: "bad", Schema: json.RawMessage(schema),
			Call: toolSaying(""),
		}, want)
	}
}

// A5: a typed result fits its schema, or the Outcome says what does not. Prose around it is passed
// over, and what cannot be read stands in the error with its head.
func TestTypedResultsAreChecked(t *testing.T) {
	const good, other = `{"claim":"it works","confidence":0.9}`, `{"claim":"no","confidence":1}`
	for said, want := range map[string]string{
		good:                                     "",
		"Sure! Here it is:\n\n" + good + "\nBye": "",
		"```json\n" + good + "\n```":             "",
		"Sure {ok}:\n```json\n" + good + "\n```\nThat is it.": "",
		good + "\n\nAgain: " + good:                           "",
		`Not {} nor {"claim":7}, but ` + good:                 "",

		``:                                  "it is empty",
		`{}`:                                "claim is missing: want a string; confidence is missing: want a number",
		`null`:                              "the value is null: want an object",
		`[]`:                                "the value is an array: want an object",
		`{"claim":null,"confidence":1}`:     "claim is null: want a string",
		`{"claim":"a","confidence":"high"}`: "confidence is a string: want a number",
		`{"claim":"a","confidence":1,"sure":true}`: "sure is not known",
		`{"claim":"a","claim":"b","confidence":1}`: "is there twice",
		"The result: {}":                         "claim is missing",
		"It works, I am sure of it.":             `not JSON: invalid character 'I' looking for beginning of value: "It works, I am`,
		good + " or rather " + other:             `it holds several JSON values that fit: "{\"claim\"`,
		"{} or [1] or {}, {\"claim\":1}":         "none of its 2 JSON values fits: in the first one claim is missing",
		strings.Repeat("{", 100_000):             `not JSON`,
		"I think " + strings.Repeat("no ", 1000): ": a text of 3007 bytes; the schema",
	} {
		v, err := resultOf[finding](t, said)
		if want == "" {
			require.NoError(t, err, said)
			require.Equal(t, finding{"it works", 0.9}, v)
			continue
		}
		bad, ok := errors.AsType[*agent.ResultError](err)
		require.True(t, ok, "%s: %v", want, err)
		require.ErrorContains(t, bad, want)
		require.Less(t, len(err.Error()), 700)
		require.Zero(t, v, "a result that is not valid gives nothing")
	}
	list, err := resultOf[[]int](t, "These: [1,2] as I said")
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, list)
	n, err := resultOf[int](t, " 42\n")
	require.NoError(t, err)
	require.Equal(t, 42, n)
	_, err = resultOf[int](t, "It is 42.")
	require.ErrorContains(t, err, `"It is 42."`)
	m, err := resultOf[map[string]*bool](t, `{"a":true,"b":null}`)
	require.NoError(t, err)
	require.Len(t, m, 2)
}

// resultOf returns the typed result of a run that says something.
func resultOf[T any](t *testing.T, said string) (v T, err error) {
	t.Helper()
	cfg := configAnswering(func(string) agent.Result { return agent.Result{Text: said} })
	agenttest.Run(t, cfg, nil, func(h *harness) {
		var c *agent.Child[T]
		c, err = agent.Spawn[T](h.Context(), h.Main(), agent.Task{Text: "find"})
		require.NoError(h.T(), err)
		v, err = c.Wait(h.Context())
	})
	return v, err
}

// A5: a result whose type contains itself is refused before anything is spawned.
func TestTypedResultsWithoutASchema(t *testing.T) {
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		_, err := agent.Spawn[listArgs](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.ErrorContains(t, err, "agent_test.listArgs contains itself")
		_, err = agent.Spawn[outerArgs](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.ErrorContains(t, err, "agent_test.outerArgs contains itself")
		require.Empty(t, h.Runs())
	})
}

// A sub-agent whose result is to be a T is told its schema in every turn, whatever its Model does
// with ModelRequest.Schema, and the prompt of a test is the one that is sent.
func TestTypedTaskIsTold(t *testing.T) {
	var sent []agentctx.Prompt
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		sent = append(sent, tn.Prompt)
		return textResult(`{"claim":"it works","confidence":0.9}`)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		ctx := h.Context()
		typed, err := agent.Spawn[finding](ctx, h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = typed.Wait(ctx)
		require.NoError(t, err)
		plain, err := agent.Spawn[string](ctx, h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = plain.Wait(ctx)
		require.NoError(t, err)
		require.Len(t, sent, 2)
		schema, err := agent.ResultSchema[finding]()
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(sent[0].String(), string(schema)))
		require.NotContains(t, sent[1].String(), "JSON")
		in, err := cfg.ChildInput(t.Context(), h.Main().Key(), agent.Task{Text: "x"})
		require.NoError(t, err)
		in.Session, in.Subagent.Schema, in.Now = typed.Key(), string(schema), time.Now()
		require.Equal(t, agentctx.Assemble(in).String(), sent[0].String())
		none, err := agent.ResultSchema[string]()
		require.NoError(t, err)
		require.Nil(t, none)
		_, err = agent.ResultSchema[chan int]()
		require.Error(t, err)
	})
}
