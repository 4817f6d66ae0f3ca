package anthropicmodel_test

import (
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/provider/providertest"
)

// block returns the beginning of a block, and delta a piece of it.
func block(kind, members string) string {
	return sent("content_block_start", `"index":0,"content_block":{"type":"`+kind+`"`+members+`}`)
}

func delta(kind, member, value string) string {
	return sent("content_block_delta", fmt.Sprintf(`"index":0,"delta":{"type":%q,%q:%q}`, kind, member,
		value))
}

// sent returns an event.
func sent(kind, members string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, members)
}

var (
	emptyText    = block("text", `,"text":""`)
	emptyThought = block("thinking", `,"thinking":""`)
	emptyCall    = block("tool_use", `,"id":"a","name":"t","input":{}`)
)

var floods = map[string]providertest.Flood{
	"text":            {Begin: emptyText, More: delta("text_delta", "text", "$BIG")},
	"thoughts":        {Begin: emptyThought, More: delta("thinking_delta", "thinking", "$BIG")},
	"signatures":      {Begin: emptyThought, More: delta("signature_delta", "signature", "$BIG")},
	"arguments":       {Begin: emptyCall, More: delta("input_json_delta", "partial_json", "$BIG")},
	"blocks":          {More: emptyCall},
	"hidden thoughts": {More: block("redacted_thinking", `,"data":"$BIG"`)},
	"of no block":     {More: delta("text_delta", "text", "$BIG")},
	"not known":       {More: sent("odd", `"x":"$BIG"`)},
	"pings":           {More: strings.Repeat(sent("ping", `"x":1`), 999)},
}

var still = map[string]providertest.Flood{
	"empty text":      {Begin: emptyText, More: delta("text_delta", "text", "")},
	"empty thoughts":  {Begin: emptyThought, More: delta("thinking_delta", "thinking", "")},
	"empty arguments": {Begin: emptyCall, More: delta("input_json_delta", "partial_json", "")},
	"of no block":     {More: delta("text_delta", "text", "x")},
	"its beginning": {More: sent("message_start",
		`"message":{"model":"m","usage":{"input_tokens":1}}`)},
	"usage":          {More: sent("message_delta", `"usage":{"output_tokens":5}`)},
	"the end of one": {More: sent("content_block_stop", `"index":0`)},
	"pings":          {More: sent("ping", `"x":1`)},
	"not known":      {More: sent("odd", `"x":1`)},
}
