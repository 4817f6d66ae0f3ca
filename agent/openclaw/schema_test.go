package openclaw_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

var update = flag.Bool("update", false, "write schema.json")

// The file schema.json is the schema of what is understood.
func TestSchemaIsCurrent(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile("schema.json", openclaw.Schema(), 0o644)) //nolint:gosec // public
	}
	have, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	require.Equal(t, string(openclaw.Schema()), string(have), "run go test -run Schema -update .")
}

// The schema says of the numbers of sub-agents what the file is read by.
func TestSchema(t *testing.T) {
	var s map[string]any
	require.NoError(t, json.Unmarshal(openclaw.Schema(), &s))
	at := func(path ...string) map[string]any {
		t.Helper()
		in := s
		for _, name := range path {
			in = in["properties"].(map[string]any)[name].(map[string]any)
		}
		return in
	}
	require.Equal(t, map[string]any{
		"type": "integer", "minimum": 1.0, "maximum": 5.0, "description": "Levels of sub-agents.",
	}, at("agents", "defaults", "subagents", "maxSpawnDepth"))
	require.Equal(t, false, at("agents", "defaults", "subagents")["additionalProperties"])
	require.NotContains(t, at("agents", "defaults"), "additionalProperties")
	require.Equal(t, []any{"id"}, at("agents", "list")["items"].(map[string]any)["required"])
	require.Contains(t, at("gateway")["description"], "Not taken")
	require.Len(t, at("agents", "defaults", "model")["anyOf"], 2)
	require.Equal(t, []any{"off", "non-main", "all"}, at("agents", "defaults", "sandbox", "mode")["enum"])
}
