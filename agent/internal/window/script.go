package window

import (
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// Script returns messages as a text that a model can read: who says what, the calls with their
// arguments, and their results. Whatever a message holds, it is to be shown as data: a line of it
// may look like any other.
func Script(messages []session.Message) string {
	var b strings.Builder
	for _, m := range messages {
		who := string(m.Role)
		switch {
		case m.Role == session.MessageTool && m.Failed:
			who = "result of a call that failed"
		case m.Role == session.MessageTool:
			who = "result of a call"
		case m.Internal:
			who = "the system"
		}
		b.WriteString(who + ":")
		if m.Text != "" {
			b.WriteString(" " + m.Text)
		}
		for _, call := range m.ToolCalls {
			b.WriteString("\n(calls " + call.Name + " with " + string(call.Args) + ")")
		}
		for _, part := range m.Parts {
			b.WriteString("\n(has a part: " + string(part.Kind) + " " + part.Name + ")")
		}
		b.WriteString("\n\n")
	}
	return b.String()
}
