package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/internal/growth"
	"github.com/offshoot-sdk/offshoot/session"
)

// hostileParts are what texts are made of, over and over, on which a careless scan takes quadratic
// time.
var hostileParts = []string{
	"<", "<think>", "</think>", "<tool_call>{\"", "<|", "[Tool Result for ID 1]\n",
	"[Tool Call: x]\nArguments: {", "`a` ", "```x\n", "<<<completion x>>>\n", "[message from \"",
	"session key: unknown\n", "Stats: runtime n/a\n", "NO_REPLY ", "&#78;", "$x$ ", `\text{`,
	"sk-live-0000000000000000\\n", "eyJ", "KEY=", "password=(", "-----BEGIN PRIVATE KEY-----\n",
	"https://a:b@", "%2541", `\u0061`, `\`, "\x1b[31m", "\x1b]0;", "\u202e\u200b", `{"a":`, "[",
	"\n", "hunter2",
}

// The time for the safe view of a line grows as the line does, whatever part of it is hostile.
func TestSafeViewIsLinear(t *testing.T) {
	skipUnderRace(t)
	show := func(m agent.Message) { agent.SafePage(session.Line{Message: m}) }
	for where, test := range map[string]struct {
		size int // of the smallest text
		show func(text string)
	}{
		"reply": {16 << 10, func(s string) {
			show(agent.Message{Role: session.MessageAssistant, Text: s})
		}},
		"question": {16 << 10, func(s string) {
			show(agent.Message{Role: session.MessageUser, Text: s})
		}},
		"internal": {16 << 10, func(s string) {
			show(agent.Message{Role: session.MessageUser, Text: s, Internal: true})
		}},
		"names": {8 << 10, func(s string) {
			show(agent.Message{
				Role: session.MessageTool, ToolCallID: s, From: session.Sender{ID: s},
				Parts: []session.Part{{Kind: session.PartImage, Name: s}},
			})
		}},
		"address": {16 << 10, func(s string) {
			show(agent.Message{
				Role: session.MessageUser, Parts: []session.Part{{Kind: session.PartImage, URL: s}},
			})
		}},
		"arguments": {240, func(s string) { // more than 4,000 runes of them are not shown
			quoted, err := json.Marshal(map[string]string{"a": s})
			require.NoError(t, err)
			show(agent.Message{
				Role:      session.MessageAssistant,
				ToolCalls: []agent.ToolCall{{Name: "x", Args: quoted}},
			})
		}},
	} {
		for _, part := range hostileParts {
			input := func(n int) string { return strings.Repeat(part, n/len(part)+1)[:n] }
			got := growth.Of(test.show, input, test.size)
			require.LessOrEqual(t, got, growth.Most, "%s of %q", where, part)
		}
	}
}
