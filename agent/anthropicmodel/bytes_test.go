package anthropicmodel_test

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

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
)

// A byte that is not UTF-8 in any text of an answer, each for itself and all of them, spoils
// neither the answer nor the requests that follow. A ~ is where the byte is.
func TestBytesThatAreNotUTF8(t *testing.T) {
	var b strings.Builder
	event(&b, "message_start", `{"type":"message_start","message":{"model":"a~"}}`)
	for i, block := range []string{
		`{"type":"thinking","thinking":"b~","signature":"c~"}`,
		`{"type":"redacted_thinking","data":"d~"}`, `{"type":"text","text":"e~"}`,
		`{"type":"tool_use","id":"f~","name":"g~","input":{}}`,
	} {
		event(&b, "content_block_start", fmt.Sprintf(
			`{"type":"content_block_start","index":%d,"content_block":%s}`, i, block))
	}
	for i, delta := range []string{
		0: `{"type":"thinking_delta","thinking":"h~"}`, 1: `{"type":"signature_delta","signature":"i~"}`,
		2: `{"type":"text_delta","text":"j~"}`,
		3: `{"type":"input_json_delta","partial_json":"{\"k~\":\"l~\"}"}`,
	} {
		event(&b, "content_block_delta", fmt.Sprintf(
			`{"type":"content_block_delta","index":%d,"delta":%s}`, []int{0, 0, 2, 3}[i], delta))
	}
	event(&b, "message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use",`+
		`"stop_details":{"explanation":"m~"}}}`)
	event(&b, "message_stop", `{"type":"message_stop"}`)
	pieces := strings.Split(b.String(), "~")
	n := len(pieces) - 1
	for i := range n + 1 {
		answer := pieces[0]
		for k, piece := range pieces[1:] {
			if k == i || i == n {
				answer += "\xff"
			}
			answer += piece
		}
		var bodies []string
		m := serve(t, anthropicmodel.Config{}, func(w http.ResponseWriter, body string) {
			bodies = append(bodies, body)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, answer)
		})
		hello := says(session.MessageUser, "Hello.")
		said := agent.Message{Role: session.MessageAssistant}
		for chunk, err := range m.Stream(t.Context(), asks(hello)) {
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
		_, err := m.Generate(t.Context(), asks(hello, said, agent.Message{
			Role: session.MessageTool, ToolCallID: call.ID, Text: "Noon.",
		}))
		require.NoError(t, err)
		require.True(t, utf8.ValidString(bodies[1]), "%q", bodies[1])
	}
}

// A request is valid, whatever has such bytes: the transcript, a tool, a schema.
func TestRequestsAreUTF8(t *testing.T) {
	const schema = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"description\":\"\xff\"}}," +
		"\"required\":[\"a\"],\"additionalProperties\":false}"
	sent := ""
	m := serve(t, anthropicmodel.Config{}, func(_ http.ResponseWriter, body string) { sent = body })
	for _, raw := range []string{
		"", "{\"provider\":\"anthropic\",\"blocks\":[{\"type\":\"thinking\",\"thinking\":\"\xff\"}," +
			"{\"type\":\"tool_use\",\"id\":\"a\xff\",\"name\":\"b\",\"input\":{\"\xff\":1}}]}",
	} {
		req := asks(says(session.MessageUser, "a\xff"), agent.Message{
			Role: session.MessageAssistant, Text: "b\xff", Raw: json.RawMessage(raw),
			ToolCalls: []agent.ToolCall{{
				ID: "a\xff", Name: "c\xff", Args: json.RawMessage("{\"\xff\":1}"),
			}},
		}, agent.Message{Role: session.MessageTool, ToolCallID: "a\xff", Text: "d\xff"})
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
