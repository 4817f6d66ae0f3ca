package anthropicmodel_test

import (
	"encoding/json"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
)

// A file of a person or of a result reaches the provider in its place if the table of
// docs/adapters.md says so, and else the model is told of it there.
func TestFiles(t *testing.T) {
	m := open(t, anthropicmodel.Config{})
	defer m.Close()
	for mediaType, is := range map[string]bool{
		"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true,
		"application/pdf": true, "audio/wav": false, "audio/mpeg": false, "image/x-odd": false,
		"video/mp4": false,
	} {
		part := agent.Part{MediaType: mediaType, Name: "a.b", Data: []byte("x")}
		said, result := says(session.MessageUser, "Look."), says(session.MessageTool, "Noon.")
		said.Parts, result.Parts, result.ToolCallID = []agent.Part{part}, []agent.Part{part}, "a"
		m.Provider.Answer(agenttest.ProviderAnswer{Text: []string{"Yes."}})
		_, err := m.Model.Generate(t.Context(), asks(said, agent.Message{
			Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{
				{ID: "a", Name: "now", Args: json.RawMessage(`{}`)},
			},
		}, result))
		require.NoError(t, err)
		require.NoError(t, m.Provider.Err())
		calls := m.Provider.Calls()
		found := make(map[session.MessageRole]int)
		for _, said := range calls[len(calls)-1].Messages {
			for _, p := range said.Parts {
				require.Equal(t, agenttest.ProviderPart{MediaType: mediaType, Data: []byte("x")}, p)
				found[said.Role]++
			}
		}
		want := make(map[session.MessageRole]int)
		if is {
			want[session.MessageUser], want[session.MessageTool] = 1, 1
		} else {
			require.Contains(t, string(calls[len(calls)-1].Body), `(`+mediaType+`) is not shown`)
		}
		require.Equal(t, want, found, mediaType)
	}
}

// The provider is given the schema of a typed answer if it is strict, and no other one: it would
// refuse the request.
func TestSchemaThatIsNotStrict(t *testing.T) {
	m := open(t, anthropicmodel.Config{})
	defer m.Close()
	for schema, isStrict := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],` +
			`"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"type":"string"}}}`: false,
		`{"type":"array","items":{"type":"string"}}`:             false,
	} {
		m.Provider.Answer(agenttest.ProviderAnswer{Text: []string{"Yes."}})
		req := asks(says(session.MessageUser, "Hello."))
		req.Schema = json.RawMessage(schema)
		_, err := m.Model.Generate(t.Context(), req)
		require.NoError(t, err)
		calls := m.Provider.Calls()
		require.Equal(t, isStrict, len(calls[len(calls)-1].Schema) > 0, schema)
	}
}
