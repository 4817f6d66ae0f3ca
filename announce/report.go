package announce

import (
	"strings"
	"unicode"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// These texts stand for what a report does not have.
const (
	noReportResult = "(not available)"
	noReportNotes  = "- (none)"
)

// Report renders the event for people in a stable form:
//
//	Status: success
//
//	Result:
//	There are 12.
//
//	Notes:
//	- (none)
//
//	Stats: runtime 5m12s • tokens 1.0k (in 12 / out 1.0k)
//
// The status is [Event.Outcome], which comes from the runtime. What the child wrote is read for
// sections of its own: a line such as "Result:" or "- **Notes**: x", in any letter case, begins
// one. What follows "Result" is the result and what follows "Notes" the notes, also where there are
// several of either. What stands before the first "Result" is left out. Without a section "Result"
// the whole text is the result, and without any text that is "(not available)". A line that has a
// status alone, such as "status: ok" or one of Outcome, is left out, and what follows it stays. Any
// other status is content, such as "Status: 404". Fenced code is not read for any of that. A run
// that did not end well adds its reason to the notes.
//
// All of it is visible text, see [Visible], and outside of fenced code no line of the child looks
// like one of the five that Report writes. Code that the child has not closed is closed. It is
// empty for a silent child. It has no key, id or path.
//
// The form is that of the first generation of announcements in the field, where a sub-agent's own
// step wrote the result.
func (e Event) Report() string {
	if e.Silent {
		return ""
	}
	s := readSections(e.ForPerson())
	result, notes := closeCode(trim(s.result)), closeCode(trim(s.notes))
	if IsBlank(result) {
		result = noReportResult
	}
	var noted []string
	if !IsBlank(notes) {
		noted = append(noted, notes)
	}
	if reason := shorten(Sanitize(e.Reason)); e.Status != spawn.StatusOK && reason != "" {
		noted = append(noted, "- Error: "+reason)
	}
	if len(noted) == 0 {
		noted = append(noted, noReportNotes)
	}
	return "Status: " + e.Outcome() + "\n\nResult:\n" + result +
		"\n\nNotes:\n" + strings.Join(noted, "\n") + "\n\n" + e.Stats.ForPerson()
}

// Update renders the event for the chat of a person who has asked for the run by hand:
//
//	counter is done.
//
//	There are 12.
//
// The first line has the label, or the first line of the task, and how the run ended: is done, has
// failed, ran out of time, was stopped or was interrupted. Why it failed is not for people. The
// result follows if there is one. It is empty for a silent child.
func (e Event) Update() string {
	if e.Silent {
		return ""
	}
	name, _ := Visible(shorten(e.Task))
	if IsBlank(name) {
		name = "The task"
	}
	text := name + " " + e.ended() + "."
	if result := e.ForPerson(); result != "" {
		text += "\n\n" + result
	}
	return text
}

// ended says how a run ended, behind its name.
func (e Event) ended() string {
	switch e.Status {
	case spawn.StatusOK:
		return "is done"
	case spawn.StatusTimedOut:
		return "ran out of time"
	case spawn.StatusCancelled:
		return "was stopped"
	case spawn.StatusInterrupted:
		return "was interrupted"
	case spawn.StatusIncomplete:
		return "has ended early, because what it may spend is used up"
	default:
		return "has failed"
	}
}

// sections are what a child has written under its own headers.
type sections struct{ result, notes string }

// readSections reads a text for sections. Without a header of a result the whole text is the
// result, less its notes. Code is content, whatever its lines look like.
func readSections(text string) sections {
	var result, notes, before strings.Builder
	into, found := &before, false
	var code blockCode
	for line := range strings.SplitSeq(text, "\n") {
		before := code
		if code.pass(line); before.length > 0 || code.length > 0 {
			into.WriteString(line + "\n")
			continue
		}
		name, rest, ok := readHeader(line)
		switch name {
		case "result":
			into, found = &result, true
		case "notes":
			into = &notes
		}
		if !ok {
			rest = line
		}
		if !ok || rest != "" {
			if ok {
				code.pass(rest)
			}
			into.WriteString(unlike(rest) + "\n")
		}
	}
	if !found {
		return sections{before.String(), notes.String()}
	}
	return sections{result.String(), notes.String()}
}

// closeCode returns a text with what closes the fenced code that it has not closed, within the item
// of a list that has the code.
func closeCode(text string) string {
	var code blockCode
	for line := range strings.SplitSeq(text, "\n") {
		code.pass(line)
	}
	if code.length == 0 {
		return text
	}
	return text + "\n" + strings.Repeat(" ", code.indent) +
		strings.Repeat(string(code.char), code.length)
}

// A blockCode is the fenced code that a text has open, line by line, as renderers of Markdown read
// it: also in an item of a list, and not where a fence is indented so far that it is code itself.
// The zero blockCode is before the first line.
type blockCode struct {
	fence

	indent int   // of the line that has opened the code
	items  []int // the columns at which the text of each item begins that is open, the outer first
}

// pass takes the next line.
func (c *blockCode) pass(line string) {
	const (
		tooFar    = 4 // columns
		mostItems = 16
	)
	at := indentOf(line)
	for len(c.items) > 0 && at < c.column() && strings.TrimSpace(line) != "" {
		c.items = c.items[:len(c.items)-1] // the item has ended, and its code with it
		c.fence = fence{}
	}
	for c.length == 0 && at < c.column()+tooFar && len(c.items) < mostItems {
		text := strings.TrimLeft(line, " \t")
		n := markLen(text)
		if n == 0 {
			break
		}
		c.items = append(c.items, at+n)
		line = strings.Repeat(" ", at+n) + text[n:]
		at = indentOf(line)
	}
	if at >= c.column()+tooFar {
		return
	}
	wasOpen := c.length > 0
	if c.fence = c.within(line + "\n"); !wasOpen {
		c.indent = at
	}
}

// column returns the column at which the text of the innermost item begins.
func (c *blockCode) column() int {
	if len(c.items) == 0 {
		return 0
	}
	return c.items[len(c.items)-1]
}

// indentOf returns the column at which the text of a line begins.
func indentOf(line string) (column int) {
	const tab = 4
	for _, c := range line[:len(line)-len(strings.TrimLeft(line, " \t"))] {
		if column++; c == '\t' {
			column += (tab - column%tab) % tab
		}
	}
	return column
}

// markLen returns the length of the mark of an item of a list with which a text begins, and of the
// blank behind it, or 0.
func markLen(text string) int {
	const most = 9 // digits of a number
	n := len(text) - len(strings.TrimLeft(text, "0123456789"))
	switch {
	case n > most, len(text) < n+2, text[n+1] != ' ' && text[n+1] != '\t':
		return 0
	case n > 0 && (text[n] == '.' || text[n] == ')'),
		n == 0 && (text[0] == '-' || text[0] == '*' || text[0] == '+'):
		return n + 2
	}
	return 0
}

// unlike returns a line of the child that looks like neither the line with the stats nor the one
// with the status of the run.
func unlike(line string) string {
	name, rest, _ := cutHeader(line)
	forges := false
	if name == headStatus {
		word := strings.TrimLeft(rest, statusMarks)
		end := strings.IndexFunc(word, func(r rune) bool { return !unicode.IsLetter(r) })
		forges = end > 0 && isStatus(word[:end])
	}
	if forges || strings.HasPrefix(strings.TrimSpace(line), "Stats:") {
		return "· " + strings.TrimSpace(line)
	}
	return line
}

const (
	headStatus  = "status"
	statusMarks = " \t\r*_`.!" // around the word of a status
)

// isStatus reports whether a text is the word of a status as Report writes it, with marks around it
// and in any letter case, or the "ok" that a child writes for success.
func isStatus(text string) bool {
	switch strings.ToLower(strings.Trim(text, statusMarks)) {
	case "success", "error", "timeout", "unknown", "ok":
		return true
	}
	return false
}

// readHeader reads a line that may begin a section: optional space, a list mark and emphasis, one
// of the names, and a colon. rest is what follows that is not a header again. A line that has a
// status alone is a header without a name, and one with any other status is none.
func readHeader(line string) (name, rest string, ok bool) {
	for {
		found, after, is := cutHeader(line)
		switch {
		case is && found == headStatus && isStatus(after):
			return name, "", true
		case !is, found == headStatus:
			return name, strings.TrimSpace(line), ok
		}
		name, line, ok = found, after, true
	}
}

// cutHeader cuts one header off a line.
func cutHeader(line string) (name, rest string, ok bool) {
	s := strings.TrimLeft(line, " \t")
	if len(s) > 0 && (s[0] == '-' || s[0] == '*') && !strings.HasPrefix(s, "**") {
		s = strings.TrimLeft(s[1:], " \t")
	}
	s = strings.TrimPrefix(s, "**")
	for _, name := range [...]string{headStatus, "result", "notes"} {
		if len(s) < len(name) || !strings.EqualFold(s[:len(name)], name) {
			continue
		}
		after := strings.TrimLeft(strings.TrimPrefix(s[len(name):], "**"), " \t")
		if !strings.HasPrefix(after, ":") {
			return "", line, false
		}
		return name, strings.TrimPrefix(after[1:], "**"), true
	}
	return "", line, false
}
