package announce

import (
	"slices"
	"strconv"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Fallback selects what to announce of a run whose Runner returned no text, from what the run recorded, oldest first.
//
//	Speak   text is the last visible text of the assistant; else, if the run timed out after tool calls, how far it came;
//	        else the last text of a tool, sanitized and without credentials
//	Silent  the last text of the assistant is a silent token, and the run ended ok
//	Defer   there is nothing
//
// What people or the runtime said to the run is never announced as its result. A run that timed out is not answered for by
// the raw output of a tool it happened to call last; in every other state that output is better than nothing.
func Fallback(status spawn.Status, recorded []session.Message) (text string, d Decision) {
	toolText, calls := "", 0
	for _, m := range slices.Backward(recorded) {
		switch m.Role {
		case session.MessageAssistant:
			calls += len(m.ToolCalls)
			text, d := read(m.Text)
			if d == DecisionSpeak || d == DecisionSilent && status == spawn.StatusOK {
				return text, d
			}
		case session.MessageTool:
			if toolText == "" {
				toolText = Sanitize(m.Text)
			}
		default: // what people or the runtime said, and speakers of a later version
		}
	}
	switch {
	case status == spawn.StatusTimedOut && calls > 0:
		return "[Partial progress: " + strconv.Itoa(calls) + " tool call(s) executed before timeout]", DecisionSpeak
	case toolText != "":
		return Redact(toolText), DecisionSpeak
	}
	return "", DecisionDefer
}
