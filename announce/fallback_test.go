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
	tool := func(text string) session.Message {
		return session.Message{Role: session.MessageTool, Text: text}
	}
	user := session.Message{Role: session.MessageUser, Text: "hi"}
	call := session.ToolCall{ID: "1", Name: "exec"}
	type log = []session.Message
	const (
		speak, silent        = announce.DecisionSpeak, announce.DecisionSilent
		deferred             = announce.DecisionDefer
		ok, timedOut, failed = spawn.StatusOK, spawn.StatusTimedOut, spawn.StatusFailed
	)
	tests := []struct {
		name     string
		status   spawn.Status
		recorded log
		text     string
		decision announce.Decision
	}{
		{
			"a silent end counts, whatever was said before", ok,
			log{say("progress"), tool("x"), say("no_reply")},
			"", silent,
		},
		{
			"an answer after silence counts", ok,
			log{say("NO_REPLY"), say("answer")},
			"answer", speak,
		},
		{
			"tool output stands in for a missing text", ok,
			log{say("", call), tool("line")},
			"line", speak,
		},
		{
			"the text of the assistant precedes tool output", ok,
			log{tool("x"), say("final")},
			"final", speak,
		},
		{
			"a text before a tool call counts", ok,
			log{say("final", call), tool("x")},
			"final", speak,
		},
		{"an empty text counts as nothing", ok, log{user, say("")}, "", deferred},
		{
			"a timeout after calls tells how many", timedOut,
			log{user, say("", call, call), tool("dump"), say("<think>x</think>", call)},
			"[Partial progress: 3 tool call(s) executed before timeout]", speak,
		},
		{
			"a text precedes partial progress", timedOut,
			log{say("so far"), say("", call), tool("dump")},
			"so far", speak,
		},
		{
			"a timeout without a call takes tool output", timedOut,
			log{user, tool("dump")},
			"dump", speak,
		},
		{"a failed run takes tool output", failed, log{say("", call), tool("line")}, "line", speak},
		{
			"a failure is never silent", failed,
			log{say("progress"), say("ANNOUNCE_SKIP")},
			"progress", speak,
		},
		{
			"the visible part of a text counts", ok,
			log{say("Hi <think>secret</think>there")},
			"Hi there", speak,
		},
		{
			"the last tool output with a text counts", ok,
			log{tool("a"), tool("b"), tool(" ")},
			"b", speak,
		},
		{
			"tool text is sanitized and redacted", ok,
			log{tool("<|x|>TOKEN=hunter2")},
			"TOKEN=***", speak,
		},
		{"notes do not count", ok, log{{Role: session.MessageNote, Text: "x"}}, "", deferred},
		{"an empty record has no answer", ok, nil, "", deferred},
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
