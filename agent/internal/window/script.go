package window

import (
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// Script returns messages as a text that a model can read: who says what, the calls with their
// arguments, and their results. What a message holds stands behind a mark of its own, so that no
// line of it looks like the beginning of another message.
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
		b.WriteString(who + ":\n")
		if m.Text != "" {
			writeContent(&b, m.Text)
		}
		for _, call := range m.ToolCalls {
			b.WriteString("(calls a tool)\n")
			writeContent(&b, call.Name+" with "+string(call.Args))
		}
		for _, part := range m.Parts {
			b.WriteString("(has a part)\n")
			writeContent(&b, string(part.Kind)+" "+part.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// contentMark stands before each line of what a message holds.
const contentMark = "> "

// lineBreaks is what a reader may take for the end of a line.
var lineBreaks = strings.NewReplacer("\r\n", "\n"+contentMark, "\r", "\n"+contentMark,
	"\n", "\n"+contentMark, "\v", "\n"+contentMark, "\f", "\n"+contentMark,
	"\u0085", "\n"+contentMark, "\u2028", "\n"+contentMark, "\u2029", "\n"+contentMark)

func writeContent(b *strings.Builder, s string) {
	b.WriteString(contentMark)
	_, _ = lineBreaks.WriteString(b, s)
	b.WriteString("\n")
}
