package openaimodel_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
)

// A byte that is not UTF-8 in any text of an answer, each for itself and all of them, spoils
// neither the answer nor the requests that follow. A ~ is where the byte is.
func TestBytesThatAreNotUTF8(t *testing.T) {
	for api, whole := range map[openaimodel.API]string{
		openaimodel.APIChat: chunk(`{"content":"a~","refusal":"b~"}`) +
			chunk(`{"reasoning_content":"c~","reasoning":"d~","reasoning_details":[{"text":"e~"}]}`) +
			chunk(`{"tool_calls":[{"index":0,"id":"f~","extra_content":{"x~":"g~"},`+
				`"function":{"name":"h~","arguments":"{\"i~\":\"j~\"}"}}]}`) +
			`data: {"model":"k~","choices":[` + endOfCalls + "]}\n\n",
		openaimodel.APIResponses: event("response.output_text.delta",
			`"item_id":"m~","delta":"a~"`) +
			event("response.output_item.done", `"item":{"type":"reasoning","id":"b~",`+
				`"encrypted_content":"c~","summary":[{"type":"summary_text","text":"d~"}]}`) +
			event("response.output_item.done", `"item":{"type":"message","content":`+
				`[{"type":"output_text","text":"a~"}]}`) +
			event("response.output_item.done", `"item":{"type":"function_call","id":"e~",`+
				`"call_id":"f~","name":"g~","arguments":"{\"h~\":\"i~\"}"}`) +
			event("response.completed", `"response":{"model":"j~"}`),
	} {
		n := strings.Count(whole, "~")
		for i := range n + 1 {
			pieces := strings.Split(whole, "~")
			answer := pieces[0]
			for k, piece := range pieces[1:] {
				if k == i || i == n {
					answer += "\xff"
				}
				answer += piece
			}
			var bodies []string
			m := serve(t, openaimodel.Config{API: api}, func(w http.ResponseWriter, body string) {
				bodies = append(bodies, body)
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, answer)
			})
			said := agent.Message{Role: session.MessageAssistant}
			for chunk, err := range m.Stream(t.Context(), ask()) {
				require.NoError(t, err)
				require.True(t, utf8.ValidString(chunk.Text), chunk.Text)
				if resp := chunk.Response; resp != nil {
					require.True(t, utf8.ValidString(fmt.Sprint(resp.Text, resp.Model)))
					said.Text, said.ToolCalls, said.Raw = resp.Text, resp.ToolCalls, resp.Raw
				}
			}
			require.Len(t, said.ToolCalls, 1)
			call := said.ToolCalls[0]
			require.True(t, utf8.ValidString(call.ID+call.Name+string(call.Args)))
			require.NotEmpty(t, said.Raw)
			require.True(t, utf8.Valid(said.Raw), "%q", said.Raw)
			_, err := m.Generate(t.Context(), ask(said, agent.Message{
				Role: session.MessageTool, ToolCallID: call.ID, Text: "Noon.",
			}))
			require.NoError(t, err)
			require.True(t, utf8.ValidString(bodies[1]), "%q", bodies[1])
		}
	}
}

// A request is valid, whatever has such bytes: the transcript, a tool, a schema.
func TestRequestsAreUTF8(t *testing.T) {
	const schema = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"description\":\"\xff\"}}," +
		"\"required\":[\"a\"],\"additionalProperties\":false}"
	for _, api := range []openaimodel.API{openaimodel.APIChat, openaimodel.APIResponses} {
		sent := ""
		m := serve(t, openaimodel.Config{API: api},
			func(_ http.ResponseWriter, body string) { sent = body })
		for _, raw := range []string{
			"", "{\"api\":\"chat\",\"provider\":\"openai\",\"message\":{\"reasoning\":\"\xff\"}," +
				"\"calls\":[{\"x\":\"\xff\"}]}",
			"{\"api\":\"responses\",\"provider\":\"openai\",\"items\":[{\"type\":\"reasoning\"," +
				"\"encrypted_content\":\"\xff\"}]}",
		} {
			req := ask(agent.Message{
				Role: session.MessageAssistant, Text: "a\xff", Raw: json.RawMessage(raw),
				ToolCalls: []agent.ToolCall{{
					ID: "a\xff", Name: "b\xff", Args: json.RawMessage("{\"\xff\":1}"),
				}},
			}, agent.Message{Role: session.MessageTool, ToolCallID: "a\xff", Text: "c\xff"})
			req.Schema = json.RawMessage(schema)
			req.Tools = []agent.Tool{{
				Name: "d\xff", Description: "e\xff", Schema: json.RawMessage(schema),
			}}
			_, err := m.Generate(t.Context(), req)
			require.Error(t, err) // the server says nothing
			require.True(t, json.Valid([]byte(sent)))
			require.True(t, utf8.ValidString(sent), "%q", sent)
		}
	}
}
