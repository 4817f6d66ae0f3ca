package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
)

// A parameter of a schema.
type parameter struct {
	Type    any
	Enum    []string
	Minimum *float64
	Maximum *float64
}

// wrong returns values of a parameter that the schema refuses, with what an error says is allowed.
func (p *parameter) wrong(name string) map[string]string {
	ranged := "want a "
	if p.Maximum != nil {
		ranged = fmt.Sprintf("to %v", *p.Maximum)
	}
	switch p.Type {
	case "string":
		words := map[string]string{`7`: "want a string", `[]`: "want a string", `true`: "want a string"}
		if len(p.Enum) > 0 && name != "agentId" { // of agents the rules say it
			words[`"bogus"`] = "want one of " + strings.Join(p.Enum, ", ")
		}
		return words
	case "boolean":
		return map[string]string{`"yes"`: "want true or false", `1`: "want true or false"}
	case "number":
		return map[string]string{`"7"`: ranged, `[]`: ranged, `-1`: ranged, `-1e999`: ranged}
	case "integer":
		return map[string]string{
			`"7"`: ranged, `{}`: ranged, `-1`: ranged, `1.5`: "want a whole number",
			"-" + strings.Repeat("9", 310): ranged,
		}
	}
	return nil
}

// Whatever is wrong with a parameter of any session tool, the error names the parameter, shows the
// value, which may be long, and says what is allowed. A number above its maximum is taken for that,
// of any number of digits.
func TestEveryParameterSaysWhatIsAllowed(t *testing.T) {
	inViewBot(t, policy.VisibilityAll, func(b *viewBot) {
		seen := make(map[string]int)
		check := func(tool, name, value, want string) {
			args := fmt.Sprintf(`{%q:%s}`, name, value)
			if tool == "sessions_spawn" && name != "task" { // without a task the error is of that
				args = fmt.Sprintf(`{"task":"x",%q:%s}`, name, value)
			}
			_, err := b.call(tool, args)
			bad, ok := errors.AsType[*agent.ArgumentError](err)
			require.True(t, ok, "%s %s: %v", tool, args, err)
			require.Equal(t, name, bad.Argument, args)
			shown := "it is " + value
			if len(value) > 200 {
				shown = fmt.Sprintf("it is %d bytes of JSON", len(value))
			}
			require.Contains(t, bad.Error(), shown, args)
			require.Contains(t, bad.Error(), want, args)
			require.Less(t, len(bad.Error()), 600)
		}
		for _, tool := range b.Main().Tools() {
			for args, is := range map[string]string{
				`[]`: "a list", `7`: "a number", `"x"`: "a string", `true`: "true or false",
				`{"a":`: "not JSON, such as an object that is not closed", `x`: "not JSON",
			} {
				_, err := b.call(tool.Name, args)
				require.EqualError(t, err, tool.Name+": the arguments: they are "+is+", want a JSON object")
			}
			var schema struct{ Properties map[string]parameter }
			require.NoError(t, json.Unmarshal(tool.Schema, &schema), tool.Name)
			for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
				p := schema.Properties[name]
				for value, want := range p.wrong(name) {
					check(tool.Name, name, value, want)
					seen[fmt.Sprint(p.Type)]++
				}
				if p.Type != "number" && p.Type != "integer" {
					continue
				}
				for _, many := range []string{"1e999", strings.Repeat("9", 301), "1e20"} {
					_, err := b.call(tool.Name, fmt.Sprintf(`{%q:%s}`, name, many))
					if bad, ok := errors.AsType[*agent.ArgumentError](err); ok {
						require.NotEqual(t, name, bad.Argument, "%s %v", tool.Name, err)
					}
				}
			}
		}
		require.Greater(t, seen["string"], 30)
		require.Greater(t, seen["integer"], 20)
		require.Greater(t, seen["number"], 7)
		require.Greater(t, seen["boolean"], 3)
		for args, want := range map[string]string{
			`{"action":"steer","target":"1"}`:                `subagents: argument "message": it is required`,
			`{"action":"steer","target":"1","message":" "}`:  `subagents: argument "message": it is required`,
			`{"action":"send","target":"1","message":"\n "}`: `subagents: argument "message": it is required`,
			`{"action":"steer","target":"1","message":"` + strings.Repeat("m", 4001) + `"}`: `subagents: argument ` +
				`"message": it has 4001 characters, the limit is 4000`,
		} {
			_, err := b.call("subagents", args)
			require.EqualError(t, err, want, args)
		}
	})
}
