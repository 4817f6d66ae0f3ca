package openclaw

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/announce"
)

// ErrNotRegular says that what is in the place of a file is a directory, a pipe, a socket or a
// device. Nothing was read from it.
var ErrNotRegular = errors.New("openclaw: not a regular file")

// A FieldError is one value of a file that cannot be.
type FieldError struct {
	File   string // its name as it was given; empty for a text
	Line   int    // from 1
	Column int    // from 1, in characters
	Path   string // such as "agents.list[0].subagents.allowAgents"; empty: the whole file
	Reason string // a clause; credentials in it are masked
}

// Error returns the mistake as one line that begins with file, line and column.
func (e *FieldError) Error() string { return "openclaw: " + e.place() + e.Reason }

func (e *FieldError) place() string {
	return place(e.File, e.Line, e.Column, e.Path, ": ")
}

// FieldErrors are all the mistakes of a file, in the order of their places.
type FieldErrors []*FieldError

// maxShown is how many mistakes the text of [FieldErrors] has.
const maxShown = 20

// Error returns one line for each mistake, of the first 20.
func (e FieldErrors) Error() string {
	var b strings.Builder
	for i, x := range e[:min(len(e), maxShown)] {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(x.Error())
	}
	if more := len(e) - maxShown; more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// Unwrap returns the mistakes one by one, each a *[FieldError].
func (e FieldErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, x := range e {
		errs[i] = x
	}
	return errs
}

// A Note is something about a part of a file that is not a mistake.
type Note struct {
	File   string
	Line   int
	Column int
	Path   string // such as "gateway.port"
	Text   string // a clause
}

// String returns the note as one line.
func (n Note) String() string { return place(n.File, n.Line, n.Column, n.Path, ": ") + n.Text }

// place returns where something is, for people.
func place(file string, line, column int, path, end string) string {
	var parts []string
	if file != "" {
		parts = append(parts, file)
	}
	if line > 0 {
		parts = append(parts, strconv.Itoa(line), strconv.Itoa(column))
	}
	at := strings.Join(parts, ":")
	if at != "" {
		at += ": "
	}
	if path != "" {
		at += path + end
	}
	return at
}

// maxQuoted is how many characters are shown of a value.
const maxQuoted = 80

// quote returns a text in quotes, short and without credentials.
func quote(s string) string {
	s = announce.Redact(s)
	if r := []rune(s); len(r) > maxQuoted {
		s = string(r[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}
