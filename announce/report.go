package announce

import (
	"strings"

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
// sections of its own: a line such as "Result:", "- **Notes**: x" or "status: ok", in any letter
// case, begins one. What follows "Result" is the result and what follows "Notes" the notes, also
// where there are several of either. What it says of a status, and what stands before the first
// section, is left out. Without a section "Result" the whole text is the result, and without any
// text that is "(not available)". A run that did not end well adds its reason to the notes.
//
// All of it is visible text, see [Visible], and no line of the child looks like one of the five
// that Report writes. It is empty for a silent child. It has no key, id or path.
//
// The form is that of the first generation of announcements in the field, where a sub-agent's own
// step wrote the result.
func (e Event) Report() string {
	if e.Silent {
		return ""
	}
	s := readSections(e.ForPerson())
	result, notes := trim(s.result), trim(s.notes)
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
// result, less the sections that have other headers.
func readSections(text string) sections {
	var all, result, notes, before strings.Builder
	into, found := &before, false
	for line := range strings.SplitSeq(text, "\n") {
		name, rest, ok := readHeader(line)
		if !ok {
			into.WriteString(unlike(line) + "\n")
			continue
		}
		switch name {
		case "result":
			into, found = &result, true
		case "notes":
			into = &notes
		default:
			into = &all // what it says of its status is not shown
		}
		if rest != "" {
			into.WriteString(unlike(rest) + "\n")
		}
	}
	if !found {
		return sections{before.String(), notes.String()}
	}
	return sections{result.String(), notes.String()}
}

// unlike returns a line of the child that does not look like the line with the stats.
func unlike(line string) string {
	if strings.HasPrefix(strings.TrimSpace(line), "Stats:") {
		return "· " + strings.TrimSpace(line)
	}
	return line
}

// readHeader reads a line that may begin a section: optional space, a list mark and emphasis, one
// of the names, and a colon. rest is what follows that is not a header again.
func readHeader(line string) (name, rest string, ok bool) {
	for {
		found, after, is := cutHeader(line)
		if !is {
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
	for _, name := range [...]string{"status", "result", "notes"} {
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
