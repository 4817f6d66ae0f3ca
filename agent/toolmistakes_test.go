package agent_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// C5: Open looks at a tool as it is, whatever made it.
func TestOpenChecksToolsAsTheyAre(t *testing.T) {
	type city struct {
		City string `json:"city"`
	}
	made := func(name string) agent.Tool {
		return agent.NewTool(name, "", func(context.Context, city) (string, error) {
			return "", nil
		})
	}
	plain := func(name string) agent.Tool {
		return agent.Tool{Name: name, Call: toolSaying("")}
	}
	for _, tool := range []func(string) agent.Tool{made, plain} {
		for _, schema := range []string{`{`, `[]`, `{"type":"objct"}`, `{"type":"string"}`, ``} {
			bad := tool("x")
			bad.Schema = json.RawMessage(schema)
			requireMistake(t, "Config.Tools[0].Schema: ", bad)
		}
		written := tool("x")
		written.Schema = append(json.RawMessage(nil), `{}`...)
		requireNoMistake(t, written)
		written.Schema[0] = '['
		requireMistake(t, "Config.Tools[0].Schema: ", written)
		for name, want := range map[string]string{
			"bash": `"bash" is there twice`, "BASH": `"BASH" is the tool "bash"`,
			"Sessions_Spawn": `"Sessions_Spawn" is a tool of Offshoot`,
			"sessions_yield": `"sessions_yield" is a tool of Offshoot`,
			"sessions_send":  `"sessions_send" is a tool of Offshoot`,
		} {
			requireMistake(t, "Config.Tools[1].Name: "+want, tool("bash"), tool(name))
		}
		none := tool("x")
		none.Call = nil
		requireMistake(t, "Config.Tools[0].Call: it is missing", none)
	}
	overwritten := made("x")
	overwritten.Schema[0] = '['
	requireMistake(t, "Config.Tools[0].Schema: ", overwritten)
	requireMistake(t, "Config.Tools[0].Call: it is missing", agent.NewTool[city, string]("x", "", nil))
	requireNoMistake(t, made("Read"), made("write"))
}

// A caller may narrow what a NewTool takes: its arguments fit both schemas.
func TestSchemaSetAfterNewTool(t *testing.T) {
	type city struct {
		City string `json:"city"`
	}
	tool := agent.NewTool("weather", "", func(_ context.Context, in city) (string, error) {
		return "fine in " + in.City, nil
	})
	tool.Schema = json.RawMessage(`{"type":"object","properties":{"city":{"enum":["Bern"]}}}`)
	require.Contains(t, answerOfTool(t, tool, `{"city":"Bern"}`), "fine in Bern")
	require.Contains(t, answerOfTool(t, tool, `{"city":"Rome"}`), `arguments of "weather"`)
	require.Contains(t, answerOfTool(t, tool, `{}`), `city`)
}

func requireMistake(t *testing.T, want string, tools ...agent.Tool) {
	t.Helper()
	_, err := agent.Open(t.Context(), agent.Config{Runner: idleRunner{}, Tools: tools})
	require.ErrorContains(t, err, want)
	var all agent.ConfigErrors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 1, err.Error())
}

func requireNoMistake(t *testing.T, tools ...agent.Tool) {
	t.Helper()
	_, err := agent.Open(t.Context(), agent.Config{Runner: idleRunner{}, Tools: tools})
	require.NoError(t, err)
}
