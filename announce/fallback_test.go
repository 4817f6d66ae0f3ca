package announce_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestFallback(t *testing.T) {
	t.Parallel()
	say := func(text string, calls ...session.ToolCall) session.Message {
		return session.Message{Role: session.Assistant, Text: text, ToolCalls: calls}
	}
	tool := func(text string) session.Message { return session.Message{Role: session.Tool, Text: text} }
	user := session.Message{Role: session.User, Text: "hi"}
	call := session.ToolCall{ID: "1", Name: "exec"}
	type log = []session.Message
	tests := []struct {
		name     string
		status   spawn.Status
		recorded log
		text     string
		decision announce.Decision
	}{
		{"11 silent after progress", spawn.OK, log{say("progress"), tool("x"), say("no_reply")}, "", announce.Silent},
		{"11 answer after silence", spawn.OK, log{say("NO_REPLY"), say("answer")}, "answer", announce.Speak},
		{"12", spawn.OK, log{say("", call), tool("line")}, "line", announce.Speak},
		{"13", spawn.OK, log{tool("x"), say("final")}, "final", announce.Speak},
		{"13 text before a tool", spawn.OK, log{say("final", call), tool("x")}, "final", announce.Speak},
		{"14", spawn.OK, log{user, say("")}, "", announce.Defer},
		{
			"15", spawn.TimedOut,
			log{user, say("", call, call), tool("dump"), say("<think>x</think>", call)},
			"[Partial progress: 3 tool call(s) executed before timeout]", announce.Speak,
		},
		{"16", spawn.TimedOut, log{say("so far"), say("", call), tool("dump")}, "so far", announce.Speak},
		{"timeout without a call", spawn.TimedOut, log{user, tool("dump")}, "dump", announce.Speak},
		{"failed after a tool", spawn.Failed, log{say("", call), tool("line")}, "line", announce.Speak},
		{"a failure is never silent", spawn.Failed, log{say("progress"), say("ANNOUNCE_SKIP")}, "progress", announce.Speak},
		{"20 visible part", spawn.OK, log{say("Hi <think>secret</think>there")}, "Hi there", announce.Speak},
		{"the last tool that says something", spawn.OK, log{tool("a"), tool("b"), tool(" ")}, "b", announce.Speak},
		{"tool text is sanitized and redacted", spawn.OK, log{tool("<|x|>TOKEN=hunter2")}, "TOKEN=***", announce.Speak},
		{"notes are not of the run", spawn.OK, log{{Role: session.Note, Text: "x"}}, "", announce.Defer},
		{"nothing", spawn.OK, nil, "", announce.Defer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text, d := announce.Fallback(tt.status, tt.recorded)
			require.Equal(t, tt.decision, d)
			require.Equal(t, tt.text, text)
		})
	}
}
