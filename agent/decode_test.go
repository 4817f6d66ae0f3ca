package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

const panicSecret = "password=hunter2hunter2hunter2"

type panickingText struct{}

func (*panickingText) UnmarshalText([]byte) error { panic(panicSecret) }

type panickingJSON struct{}

func (*panickingJSON) UnmarshalJSON([]byte) error { panic(errBad) }

type refusingText struct{}

func (*refusingText) UnmarshalText(b []byte) error { return errors.New("not " + string(b)) }

type (
	numberValue struct {
		M json.Number `json:"member"`
	}
	quotedValue struct {
		M int64 `json:"member,string"`
	}
	addrValue struct {
		M netip.Addr `json:"member"`
	}
	refusingValue struct {
		M refusingText `json:"member"`
	}
	panickingValue struct {
		A string        `json:"a,omitempty"`
		M panickingText `json:"member"`
	}
	panickingOuter struct {
		M panickingJSON `json:"member"`
	}
)

// An undecodable is a type, and a JSON text that fits its schema or not and cannot be decoded.
type undecodable struct {
	tool   agent.Tool
	result func(t *testing.T, h *harness) error
	data   string
	panics bool
}

func undecodableOf[T any](data string, panics bool) undecodable {
	return undecodable{
		tool: agent.NewTool("bad", "", func(context.Context, T) (string, error) {
			return "reached", nil
		}),
		result: func(t *testing.T, h *harness) error {
			t.Helper()
			child, err := agent.Spawn[T](h.Context(), h.Main(), agent.Task{Text: "x"})
			require.NoError(t, err)
			_, err = child.Wait(h.Context())
			return err
		},
		data: data, panics: panics,
	}
}

// A5: what cannot be decoded is an error with the member and without a long value, for tools and
// results. The panic of a method that decodes is one, too, and a model is not told its value.
func TestWhatCannotBeDecoded(t *testing.T) {
	size := 900_000
	if underRace {
		size = 90_000
	}
	long := `{"member":"` + strings.Repeat("z", size) + `"}`
	for name, c := range map[string]undecodable{
		"number":      undecodableOf[numberValue](long, false),
		"quoted":      undecodableOf[quotedValue](long, false),
		"quoted null": undecodableOf[quotedValue](`{"member":"null"}`, false),
		"too large":   undecodableOf[quotedValue](`{"member":"9223372036854775808"}`, false),
		"address":     undecodableOf[addrValue](long, false),
		"refused":     undecodableOf[refusingValue](long, false),
		"panic":       undecodableOf[panickingValue](`{"a":"x","member":"x"}`, true),
		"panic, JSON": undecodableOf[panickingOuter](`{"member":"x"}`, true),
	} {
		t.Run(name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				require.ErrorContains(t, err, "member")
				require.Less(t, len(err.Error()), 2000)
				require.NotContains(t, err.Error(), panicSecret)
				panicked, ok := errors.AsType[*spawn.PanicError](err)
				require.Equal(t, c.panics, ok, "%v", err)
				require.True(t, !ok || len(panicked.Stack) > 0)
			}
			out, err := c.tool.Call(t.Context(), agent.ToolCall{Args: json.RawMessage(c.data)})
			require.Empty(t, out)
			check(err)
			if _, ok := errors.AsType[*agent.ArgumentError](err); c.panics {
				require.True(t, ok, "%v", err)
			}
			cfg := configAnswering(func(string) agent.Result {
				return agent.Result{Text: c.data}
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				err := c.result(t, h)
				_, ok := errors.AsType[*agent.ResultError](err)
				require.True(t, ok, "%v", err)
				check(err)
			})
		})
	}
}

// A5: arguments are an object, also where a schema does not say so.
func TestArgumentsAreAnObject(t *testing.T) {
	for _, schema := range []string{
		``, `{}`, `true`, `{"properties":{"x":{}},"required":["x"]}`, `{"type":["object","array","null"]}`,
	} {
		for args, ok := range map[string]bool{
			`{"x":1}`: true, `"str"`: false, `[1]`: false, `null`: false, `1`: false, `true`: false,
		} {
			called := false
			tool := agent.Tool{Name: "any", Call: textCall(func(
				context.Context, agent.ToolCall,
			) (string, error) {
				called = true
				return "", nil
			})}
			if schema != "" {
				tool.Schema = json.RawMessage(schema)
			}
			err := callInATurn(t, tool, args)
			require.Equal(t, ok, called, "%s: %s", schema, args)
			require.Equal(t, ok, err == nil, "%s: %s: %v", schema, args, err)
			if !ok {
				require.ErrorContains(t, err, "want an object")
			}
		}
	}
}

// What is not one JSON value does not reach a tool, also not one without a schema: two readers of
// the call would not agree about it.
func TestArgumentsAreOneValue(t *testing.T) {
	for _, schema := range []string{``, `{}`} {
		for _, args := range []string{
			`{"a"`, `{} {"b":1}`, `{"a":1} {"a":"x"}`, `{"a":1}garbage`, "{\"a\":1}\x00", `{'a':1}`,
			`{"a":1,}`, `{"a":01}`, `{"a":NaN}`, `{//` + "\n" + `}`,
		} {
			called := false
			tool := agent.Tool{Name: "any", Call: textCall(func(
				context.Context, agent.ToolCall,
			) (string, error) {
				called = true
				return "", nil
			})}
			if schema != "" {
				tool.Schema = json.RawMessage(schema)
			}
			require.Error(t, callInATurn(t, tool, args), args)
			require.False(t, called, args)
		}
	}
}

// callInATurn calls a tool in a turn of the main session.
func callInATurn(t *testing.T, tool agent.Tool, args string) (err error) {
	t.Helper()
	cfg := configWith(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		_, err = turn.Call(ctx, agent.ToolCall{Name: tool.Name, Args: json.RawMessage(args)})
		return textResult("done")
	})
	cfg.Tools = []agent.Tool{tool}
	agenttest.Run(t, cfg, nil, func(h *harness) { h.Post("x") })
	return err
}
