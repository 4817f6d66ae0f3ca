package openaimodel_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
)

// fileKinds are the types of files that a provider may be shown, with its word for them, and
// whether Responses and Chat Completions take them.
var fileKinds = map[string]struct {
	kind session.PartKind
	want string
	by   map[openaimodel.API]bool
}{
	"image/png":       {session.PartImage, "image/png", anywhere},
	"image/jpeg":      {session.PartImage, "image/jpeg", anywhere},
	"image/gif":       {session.PartImage, "image/gif", anywhere},
	"image/webp":      {session.PartImage, "image/webp", anywhere},
	"application/pdf": {session.PartFile, "application/pdf", anywhere},
	"audio/wav":       {session.PartAudio, "audio/wav", inChat},
	"audio/mpeg":      {session.PartAudio, "audio/mp3", inChat},
	"image/x-odd":     {session.PartImage, "", nil},
	"audio/ogg":       {session.PartAudio, "", nil},
	"video/mp4":       {session.PartVideo, "", nil},
}

var (
	anywhere = map[openaimodel.API]bool{openaimodel.APIChat: true, openaimodel.APIResponses: true}
	inChat   = map[openaimodel.API]bool{openaimodel.APIChat: true}
)

// A file of a person reaches the provider if the table of docs/adapters.md says so, and else the
// model is told of it. The file of a result stands in the result, and with Chat Completions in a
// message behind all results, which has the name of the library.
func TestFiles(t *testing.T) {
	for _, api := range both {
		m := open(t, openaimodel.Config{API: api})
		for mediaType, file := range fileKinds {
			part := agent.Part{Kind: file.kind, MediaType: mediaType, Name: "a.b", Data: []byte("x")}
			said := ask().Messages[0]
			said.Parts = []agent.Part{part}
			list := asked(t, m, said)
			shows(t, list[0], file.want, file.by[api], mediaType)

			list = asked(t, m, ask().Messages[0], agent.Message{
				Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{
					{ID: "a", Name: "now", Args: json.RawMessage(`{}`)},
				},
			}, agent.Message{
				Role: session.MessageTool, ToolCallID: "a", Text: "Look.", Parts: []agent.Part{part},
			})
			result, shown := list[2], list[len(list)-1]
			require.Equal(t, session.MessageTool, result.Role)
			isBehind := api == openaimodel.APIChat && file.by[api]
			require.Equal(t, isBehind, len(list) == 4, mediaType)
			if isBehind {
				require.Equal(t, session.MessageUser, shown.Role)
				require.Equal(t, "offshoot", shown.Name)
			}
			shows(t, shown, file.want, file.by[api], mediaType)
		}
		m.Close()
	}
}

// asked returns what the provider was told of a conversation.
func asked(
	t *testing.T, m agenttest.ModelUnderTest, said ...agent.Message,
) []agenttest.ProviderMessage {
	t.Helper()
	m.Provider.Answer(agenttest.ProviderAnswer{Text: []string{"Yes."}})
	req := ask()
	req.Messages = said
	_, err := m.Model.Generate(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, m.Provider.Err())
	calls := m.Provider.Calls()
	return calls[len(calls)-1].Messages
}

// shows checks that a message has the file, or a note in its place.
func shows(t *testing.T, m agenttest.ProviderMessage, as string, is bool, mediaType string) {
	t.Helper()
	if !is {
		require.Empty(t, m.Parts, mediaType)
		require.Contains(t, m.Text, `"a.b" (`+mediaType+`) is not shown`)
		return
	}
	want := []agenttest.ProviderPart{{MediaType: as, Data: []byte("x")}}
	require.Equal(t, want, m.Parts, mediaType)
}

// The provider is given the schema of a typed answer if it is strict, and no other one: it would
// refuse the request.
func TestSchemaThatIsNotStrict(t *testing.T) {
	for _, api := range both {
		m := open(t, openaimodel.Config{API: api})
		for schema, isStrict := range map[string]bool{
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],` +
				`"additionalProperties":false}`: true,
			`{"type":"object","properties":{"a":{"type":"string"}}}`: false,
			`{"type":"array","items":{"type":"string"}}`:             false,
		} {
			m.Provider.Answer(agenttest.ProviderAnswer{Text: []string{"Yes."}})
			req := ask()
			req.Schema = json.RawMessage(schema)
			_, err := m.Model.Generate(t.Context(), req)
			require.NoError(t, err)
			calls := m.Provider.Calls()
			require.Equal(t, isStrict, len(calls[len(calls)-1].Schema) > 0, schema)
		}
		m.Close()
	}
}

// Chat Completions has no thoughts of its own. Those of servers that speak like it come back in the
// members in which they came, pieces joined.
func TestThoughtsOfOtherServersComeBack(t *testing.T) {
	for came, back := range map[string]string{
		`{"reasoning_content":"H"}|{"reasoning_content":"m."}`: `"reasoning_content":"Hm."`,
		`{"reasoning":"H"}|{"reasoning":"m."}`:                 `"reasoning":"Hm."`,
		`{"reasoning_details":[{"a":1}]}|{"reasoning_details":[{"b":2}]}`: `"reasoning_details":` +
			`[{"a":1},{"b":2}]`,
	} {
		sent := thoughtsSent(t, came)
		require.Contains(t, sent, back)
	}
}

// thoughtsSent returns the request behind an answer with a call, whose deltas have some members.
func thoughtsSent(t *testing.T, deltas string) (sent string) {
	t.Helper()
	m := serve(t, openaimodel.Config{API: openaimodel.APIChat},
		func(w http.ResponseWriter, body string) {
			sent = body
			var all []string
			for delta := range strings.SplitSeq(deltas, "|") {
				all = append(all, `{"index":0,"delta":`+delta+`}`)
			}
			lines(w, append(all, `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a",`+
				`"type":"function","function":{"name":"now","arguments":"{}"}}]}}`, endOfCalls)...)
		})
	resp, err := m.Generate(t.Context(), ask())
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), ask(agent.Message{
		Role: session.MessageAssistant, Text: resp.Text, ToolCalls: resp.ToolCalls, Raw: resp.Raw,
	}, agent.Message{Role: session.MessageTool, ToolCallID: "a", Text: "Noon."}))
	require.NoError(t, err)
	return sent
}
