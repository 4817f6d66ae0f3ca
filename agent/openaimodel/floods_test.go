package openaimodel_test

import (
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent/provider/providertest"
)

// chunk returns a chunk of Chat Completions.
func chunk(delta string) string {
	return fmt.Sprintf("data: {\"id\":\"1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n",
		delta)
}

// event returns an event of Responses.
func event(kind, members string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, members)
}

var chatFloods = map[string]providertest.Flood{
	"text":     {More: chunk(`{"content":"$BIG"}`)},
	"thoughts": {More: chunk(`{"reasoning_content":"$BIG"}`)},
	"a list":   {More: chunk(`{"reasoning_details":["$BIG"]}`)},
	"arguments": {More: chunk(`{"tool_calls":[{"index":0,"id":"a",` +
		`"function":{"name":"t","arguments":"$BIG"}}]}`)},
	"names": {More: chunk(`{"tool_calls":[{"index":0,"id":"a",` +
		`"function":{"name":"$BIG"}}]}`)},
	"not known": {More: chunk(`{"x":"$BIG"}`)},
}

var responseFloods = map[string]providertest.Flood{
	"text": {More: event("response.output_text.delta", `"item_id":"m","delta":"$BIG"`)},
	"thoughts": {More: event("response.reasoning_summary_text.delta",
		`"item_id":"m","delta":"$BIG"`)},
	"arguments": {More: event("response.function_call_arguments.delta",
		`"item_id":"m","delta":"$BIG"`)},
	"items": {More: event("response.output_item.done",
		`"item":{"type":"reasoning","encrypted_content":"$BIG"}`)},
	"not known": {More: event("response.odd", `"x":"$BIG"`)},
}

var chatStill = map[string]providertest.Flood{
	"empty text":      {More: chunk(`{"role":"assistant","content":""}`)},
	"empty thoughts":  {More: chunk(`{"reasoning_content":"","reasoning_details":[]}`)},
	"a number":        {More: chunk(`{"reasoning":7}`)},
	"empty arguments": {More: chunk(`{"tool_calls":[{"index":0,"id":"a","function":{}}]}`)},
	"no choice":       {More: "data: {\"id\":\"1\",\"choices\":[]}\n\n"},
	"another choice": {More: "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":" +
		"\"x\"}}]}\n\n"},
	"usage": {More: "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5}}\n\n"},
}

var responseStill = map[string]providertest.Flood{
	"empty text":      {More: event("response.output_text.delta", `"item_id":"m","delta":""`)},
	"empty arguments": {More: event("response.function_call_arguments.delta", `"delta":""`)},
	"two empty texts": {More: event("response.output_text.delta", `"item_id":"a","delta":""`) +
		event("response.output_text.delta", `"item_id":"b","delta":""`)},
	"its beginning": {More: event("response.created", `"response":{"model":"m"}`)},
	"a sign of life": {More: event("keepalive", `"sequence_number":1`) +
		event("response.in_progress", `"response":{}`)},
}
