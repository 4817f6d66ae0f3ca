package thread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// maxName is how many characters the name of a thread has at most: the least that a channel of the
// field allows.
const maxName = 100

// Name returns the name of a thread for a sub-agent: its label, or else its agent.
func Name(label, agent string) string {
	return text.Shorten("🤖 "+cmp.Or(Plain(label), agent, unnamed), maxName)
}

// unnamed stands for a sub-agent that has neither a label nor an agent.
const unnamed = "The sub-agent"

// Plain returns a label, which a model may have chosen, as plain text on one line: without
// characters that are not drawn, and with no mention, link, command, emoji or mark-up of the
// channels of the field. A character that could begin one becomes its full-width form, which looks
// alike and means nothing to them, and a quotation mark an apostrophe. What stands in a word as in
// a file name, an abbreviation or a time stays. Plain of what it returned changes nothing.
func Plain(label string) string {
	line := []rune(text.Line(label))
	plain := slices.Clone(line)
	for i, r := range line {
		switch {
		case text.IsQuotation(r):
			plain[i] = '\''
		case marks(line, i):
			plain[i] = r - '!' + '！'
		}
	}
	return string(plain)
}

// marks reports whether a channel could read the character i of a line as a mark: the begin of a
// mention, a tag, an emoji, a command or a link, or of emphasis, a quotation, a heading or a list.
func marks(line []rune, i int) bool {
	r, before, after := line[i], ' ', ' '
	if i > 0 {
		before = line[i-1]
	}
	if i+1 < len(line) {
		after = line[i+1]
	}
	doubled := before == r || after == r
	switch r {
	case '@', '#', '<', '>', '[', ']', '*', '~', '\\':
		return true
	case '|', '=':
		return doubled
	case '-', '+':
		return doubled || i == 0
	case '_':
		return doubled || !isWordy(before) || !isWordy(after)
	case '.': // a name with a dot is a link
		return isWordy(before) && unicode.IsLetter(after)
	case '/':
		return doubled || !isWordy(before) && isWordy(after)
	case ':':
		inTime := unicode.IsDigit(before) && unicode.IsDigit(after)
		return after == '/' || isWordy(after) && !inTime
	case '&', '$':
		return unicode.IsLetter(after)
	}
	return false
}

// isWordy reports whether a character is of a word or a number.
func isWordy(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// Intro returns what people read first in a thread that was created for a sub-agent, under the
// limits of its binding.
func Intro(label, agent string, idle, maxAge time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s works here. What you write in this thread goes to it.", who(label, agent))
	if idle > 0 {
		fmt.Fprintf(&b, " The thread is released after %s without a message.", Duration(idle))
	}
	if maxAge > 0 {
		fmt.Fprintf(&b, " It is released after %s at the latest.", Duration(maxAge))
	}
	return b.String()
}

// IntroRun returns what a thread begins with that is released when the run has ended for which it
// was created.
func IntroRun(label, agent string) string {
	return who(label, agent) + " works here, until it is done. What you write in this thread until " +
		"then goes to it."
}

// who names a sub-agent for people, at the begin of a sentence. A label stands in quotation marks,
// which it cannot end: a sentence never begins with it as with a command, and it does not pass for
// what the bot says.
func who(label, agent string) string {
	name := cmp.Or(text.Label(Plain(label)), agent)
	if name == "" {
		return unnamed
	}
	return `The agent "` + name + `"`
}

// reasons say why a binding has ended. What is not here is not said.
var reasons = map[binding.Reason]string{
	binding.ReasonManual:          "%s was sent away from this conversation.",
	binding.ReasonIdle:            "%s has left: nothing was written here for %s.",
	binding.ReasonMaxAge:          "%s has left: it was here for %s, which is the limit.",
	binding.ReasonThreadArchived:  "%s has left, since this thread was archived.",
	binding.ReasonStaleSession:    "%s is not there any more.",
	binding.ReasonSpawnFailed:     "%s could not be started.",
	binding.ReasonSessionReset:    "%s has begun anew and has left.",
	binding.ReasonSessionDeleted:  "%s was deleted.",
	binding.ReasonSubagentOK:      "%s has done its work and has left.",
	binding.ReasonSubagentError:   "%s has failed and has left.",
	binding.ReasonSubagentStopped: "%s was stopped and has left.",
	binding.ReasonBindFailed:      "%s could not be brought here.",
}

// Farewell returns what people read in a conversation when its binding has ended. It is empty if
// they read nothing: where the thread is gone, where another session has taken over, and where
// nothing has come about in a conversation that was not created for it.
func Farewell(u binding.Unbound) string {
	form, ok := reasons[u.Reason]
	if !ok || u.Reason == binding.ReasonBindFailed && !u.Binding.Created {
		return ""
	}
	b := &u.Binding
	name := who(b.Label, b.Target.Agent())
	var said string
	switch u.Reason {
	case binding.ReasonIdle:
		said = fmt.Sprintf(form, name, Duration(b.Idle))
	case binding.ReasonMaxAge:
		said = fmt.Sprintf(form, name, Duration(b.MaxAge))
	default:
		said = fmt.Sprintf(form, name)
	}
	if u.Reason == binding.ReasonThreadArchived {
		return said
	}
	return said + " What you write here now goes where it went before."
}

// Duration returns a time as people read it: whole hours, whole minutes, or under a minute whole
// seconds.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than a second"
	case d < time.Minute:
		return text.Count(int64(d/time.Second), "second", "seconds")
	case d%time.Hour == 0:
		return text.Count(int64(d/time.Hour), "hour", "hours")
	}
	return text.Count(int64(d/time.Minute), "minute", "minutes")
}

// ReasonOf returns the reason of a word. A word that is not known stands for a session that is not
// there any more.
func ReasonOf(word string) binding.Reason {
	var r binding.Reason
	if r.UnmarshalText([]byte(word)) != nil {
		return binding.ReasonStaleSession
	}
	return r
}

// The pauses between two attempts of a farewell, and how long it is tried.
const (
	firstPause = 15 * time.Second
	longest    = 5 * time.Minute
	// GiveUp is how long after the first attempt of a process the last one comes.
	GiveUp = 30 * time.Minute
)

// Pause returns how long after an attempt that has failed the next one comes, which is the
// attempts'th. It reports false if there is none, because the attempts go on for so long.
func Pause(attempts int, since time.Duration) (time.Duration, bool) {
	if since >= GiveUp {
		return 0, false
	}
	pause := firstPause
	for range min(attempts-1, 10) {
		pause = min(2*pause, longest)
	}
	return pause, true
}
