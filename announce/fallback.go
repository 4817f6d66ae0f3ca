package announce

import (
	"slices"
	"strconv"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Fallback selects what to announce of a run whose Runner returned no text. recorded is what the
// run recorded, oldest first.
//
//	DecisionSpeak   the text is the last visible text of the assistant; or else, if the run timed
//	                out after tool calls, how many calls it made; or else the last text of a tool,
//	                sanitized and without credentials
//	DecisionSilent  the last text of the assistant is a silent token, and the run ended ok
//	DecisionDefer   the run recorded neither
//
// What people or the runtime said to the run is never announced as its result. The raw output of
// the last tool does not answer for a run that timed out after tool calls. In every other state
// that output is better than nothing.
func Fallback(status spawn.Status, recorded []session.Message) (text string, d Decision) {
	toolText, calls := "", 0
	for _, m := range slices.Backward(recorded) {
		switch m.Role {
		case session.MessageAssistant:
			calls += len(m.ToolCalls)
			text, d := readReply(m.Text)
			if d == DecisionSpeak || d == DecisionSilent && status == spawn.StatusOK {
				return text, d
			}
		case session.MessageTool:
			if toolText == "" {
				toolText = Sanitize(m.Text)
			}
		default: // what people or the runtime said, and roles that a later version adds
		}
	}
	switch {
	case status == spawn.StatusTimedOut && calls > 0:
		text = "[Partial progress: " + strconv.Itoa(calls) + " tool call(s) executed before timeout]"
		return text, DecisionSpeak
	case toolText != "":
		return Redact(toolText), DecisionSpeak
	}
	return "", DecisionDefer
}
