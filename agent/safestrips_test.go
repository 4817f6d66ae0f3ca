package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// The seven things that the field's reference takes out of what an assistant said before another
// session may read it, and its rules for what is too long. docs/redaction.md has the same rows.
func TestSafeViewStrips(t *testing.T) {
	t.Parallel()
	for name, forms := range map[string]map[string]string{
		"thinking tags": {
			"<think>plan</think>Four.":            "Four.",
			"<thinking>plan</thinking>\n\nFour.":  "Four.",
			"<antthinking>plan</antthinking>Four": "Four",
			"Four.\n<think>never closed":          "Four.",
		},
		"blocks of memory": {
			"<relevant-memories>\nm\n</relevant-memories>\nFour.":  "Four.",
			"<relevant_memories a=\"1\">m</relevant_memories>Four": "Four",
			"Four.<relevant-memories>never closed":                 "Four.",
		},
		"calls of tools in tags": {
			`Four. <tool_call>{"name":"exec"}</tool_call>`:          "Four.",
			`Four. <function_call>{"name":"exec"}</function_call>`:  "Four.",
			`Four. <tool_calls>[{"name":"exec"}]</tool_calls>`:      "Four.",
			`Four. <function_calls>[{"name":"x"}]</function_calls>`: "Four.",
			`Four. <tool_calls>[{"name":"exec","arguments":{"a`:     "Four.",
			"Four. <tool_call></tool_call>":                         "Four.",
		},
		"markers in brackets": {
			"[Tool Call: exec (ID: 1)]\nArguments: {\"a\":\"}\"}\nFour.": "Four.",
			"Four.\n[Tool Result for ID 1]\nout":                         "Four.",
			"Four.\n[Historical context: a call was here.]":              "Four.",
		},
		"control tokens": {
			"<|assistant|>Four.<|end|>":                "Four.",
			"<｜begin▁of▁sentence｜>Four.":               "Four.",
			"[INST] 2+2? [/INST] Four.</s>":            "Four.",
			"<start_of_turn>model\nFour.<end_of_turn>": "Four.",
		},
		"calls of MiniMax": {
			"<invoke name=\"exec\">x</invoke></minimax:tool_call>Four.":                   "Four.",
			"<minimax:tool_call><invoke name=\"exec\">x</invoke></minimax:tool_call>Four": "Four",
		},
		"credentials": {
			"Four, with " + leaked + ".":               "Four, with sk-abc…0123.",
			"Authorization: Bearer " + leaked:          "Authorization: Bearer sk-abc…0123",
			"postgres://ann:hunter2@db/x has it. Four": "postgres://ann:***@db/x has it. Four",
		},
	} {
		for said, want := range forms {
			page := agent.SafePage(session.Line{
				Pos: 1, Message: agent.Message{Role: session.MessageAssistant, Text: said},
			})
			require.Len(t, page.Lines, 1, "%s: %q", name, said)
			require.Equal(t, want, page.Lines[0].Message.Text, "%s: %q", name, said)
			require.Equal(t, name == "credentials", page.Lines[0].Redacted, "%s: %q", name, said)
		}
	}
}

// A page has 4,000 characters of each text and 81,920 bytes in all; the oldest lines go first and
// Earlier leads to them; a line that is too large for a page has one that says so in its place; and
// pages one after the other have every line once.
func TestSafeViewNumbers(t *testing.T) {
	for runes, cut := range map[int]bool{3999: false, 4000: false, 4001: true, 90_000: true} {
		page := agent.SafePage(session.Line{Pos: 1, Message: agent.Message{
			Role: session.MessageUser, Text: strings.Repeat("é", runes),
		}})
		require.Equal(t, cut, page.Lines[0].Cut, runes)
		want := strings.Repeat("é", min(runes, 4000))
		if cut {
			want += "\n…(truncated, 1 character left out)…"
			if runes > 4001 {
				want = strings.Replace(want, "1 character", "86000 characters", 1)
			}
		}
		require.Equal(t, want, page.Lines[0].Message.Text, runes)
	}
	const rows = 80 // of 4,000 characters, 320,000 bytes in all
	var said []agent.Message
	for i := range rows {
		said = append(said, agent.Message{
			Role: session.MessageAssistant, Text: fmt.Sprintf("%02d%s", i, strings.Repeat("x", 11_998)),
		})
	}
	agenttest.Run(t, recordingConfig(said), nil, func(h *harness) {
		h.Post("go")
		require.NoError(t, h.Main().Idle(h.Context()))
		var seen []string
		pages := 0
		for q := (agent.HistoryQuery{Last: 200}); ; pages++ {
			page := historyOf(h, q)
			size := 0
			var texts []string
			for _, l := range page.Lines {
				data, err := l.Message.AppendJSON(nil)
				require.NoError(t, err)
				size += len(data)
				texts = append(texts, l.Message.Text[:2])
			}
			require.LessOrEqual(t, size, 81_920)
			if q.Before == 0 {
				require.Equal(t, "79", texts[len(texts)-1], "the newest stays")
				require.Less(t, len(texts), 21, "of 4,000 bytes each")
				require.Greater(t, len(texts), 18)
			}
			seen = append(texts, seen...)
			if q.Before = page.Earlier; q.Before == 0 {
				break
			}
		}
		require.Greater(t, pages, 3)
		require.Len(t, seen, 1+rows)
		for i := range rows {
			require.Equal(t, fmt.Sprintf("%02d", i), seen[i+1])
		}
	})
}
