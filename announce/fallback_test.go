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
		return session.Message{Role: session.MessageAssistant, Text: text, ToolCalls: calls}
	}
	tool := func(text string) session.Message { return session.Message{Role: session.MessageTool, Text: text} }
	user := session.Message{Role: session.MessageUser, Text: "hi"}
	call := session.ToolCall{ID: "1", Name: "exec"}
	type log = []session.Message
	tests := []struct {
		name     string
		status   spawn.Status
		recorded log
		text     string
		decision announce.Decision
	}{
		{"11 silent after progress", spawn.StatusOK, log{say("progress"), tool("x"), say("no_reply")}, "", announce.DecisionSilent},
		{"11 answer after silence", spawn.StatusOK, log{say("NO_REPLY"), say("answer")}, "answer", announce.DecisionSpeak},
		{"12", spawn.StatusOK, log{say("", call), tool("line")}, "line", announce.DecisionSpeak},
		{"13", spawn.StatusOK, log{tool("x"), say("final")}, "final", announce.DecisionSpeak},
		{"13 text before a tool", spawn.StatusOK, log{say("final", call), tool("x")}, "final", announce.DecisionSpeak},
		{"14", spawn.StatusOK, log{user, say("")}, "", announce.DecisionDefer},
		{
			"15", spawn.StatusTimedOut,
			log{user, say("", call, call), tool("dump"), say("<think>x</think>", call)},
			"[Partial progress: 3 tool call(s) executed before timeout]", announce.DecisionSpeak,
		},
		{"16", spawn.StatusTimedOut, log{say("so far"), say("", call), tool("dump")}, "so far", announce.DecisionSpeak},
		{"timeout without a call", spawn.StatusTimedOut, log{user, tool("dump")}, "dump", announce.DecisionSpeak},
		{"failed after a tool", spawn.StatusFailed, log{say("", call), tool("line")}, "line", announce.DecisionSpeak},
		{"a failure is never silent", spawn.StatusFailed, log{say("progress"), say("ANNOUNCE_SKIP")}, "progress", announce.DecisionSpeak},
		{"20 visible part", spawn.StatusOK, log{say("Hi <think>secret</think>there")}, "Hi there", announce.DecisionSpeak},
		{"the last tool that says something", spawn.StatusOK, log{tool("a"), tool("b"), tool(" ")}, "b", announce.DecisionSpeak},
		{"tool text is sanitized and redacted", spawn.StatusOK, log{tool("<|x|>TOKEN=hunter2")}, "TOKEN=***", announce.DecisionSpeak},
		{"notes are not of the run", spawn.StatusOK, log{{Role: session.MessageNote, Text: "x"}}, "", announce.DecisionDefer},
		{"nothing", spawn.StatusOK, nil, "", announce.DecisionDefer},
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
