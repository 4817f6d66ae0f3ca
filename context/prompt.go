package agentctx

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A Prompt is an ordered list of sections with an account of what went in. It
// is a value: nobody else holds its slices.
type Prompt struct {
	// Session names whose prompt it is.
	Session string
	// Mode is how much of the prompt there is: Full, Minimal or None.
	Mode Mode
	// Sections are in the order of the text; their classes never decrease.
	Sections []Section
	// Files holds one account for each file that was considered, in the order
	// of the files.
	Files []FileReport
	// Skills holds one account for each skill that was considered.
	Skills []FileReport

	overflow Overflow
}

// separator stands between two sections.
const separator = "\n\n"

// String returns the text that the model gets. It ends with a newline unless
// there are no sections.
func (p Prompt) String() string { return join(p.Sections) }

// StablePrefix returns the beginning of String that every session of the
// agent shares that has the same spec, tools, sandbox and workspace. A cache
// breakpoint belongs at its end.
func (p Prompt) StablePrefix() string { return p.prefix(ClassStable) }

// SessionPrefix returns the beginning of String that stays the same for every
// turn of the session: the stable and the per-session sections.
func (p Prompt) SessionPrefix() string { return p.prefix(ClassPerSession) }

// CacheKey returns a digest of StablePrefix in hexadecimal digits.
func (p Prompt) CacheKey() string {
	sum := sha256.Sum256([]byte(p.StablePrefix()))
	return hex.EncodeToString(sum[:])
}

// Section returns the section with an id, or false.
func (p Prompt) Section(id string) (Section, bool) {
	for _, s := range p.Sections {
		if s.ID == id {
			return s, true
		}
	}
	return Section{}, false
}

// Err returns an [*OverflowError] if the spec refuses prompts in which a file
// had to be cut or left out for want of room, and one was.
func (p Prompt) Err() error {
	if p.overflow != OverflowRefuse {
		return nil
	}
	var cut []FileReport
	for _, a := range p.Files {
		if a.Short() {
			cut = append(cut, a)
		}
	}
	if cut == nil {
		return nil
	}
	return &OverflowError{Session: p.Session, Files: cut}
}

// An OverflowError says which files did not fit into a prompt.
type OverflowError struct {
	Session string
	Files   []FileReport
}

// Error names the session and the files with their figures.
func (e *OverflowError) Error() string {
	names := make([]string, len(e.Files))
	for i, a := range e.Files {
		names[i] = fmt.Sprintf("%q (%s)", a.Name, a.Why)
	}
	return fmt.Sprintf("agentctx: prompt of %q does not fit: %s", e.Session, strings.Join(names, ", "))
}

func (p Prompt) prefix(through Class) string {
	n := 0
	for n < len(p.Sections) && p.Sections[n].Class <= through {
		n++
	}
	return join(p.Sections[:n])
}

// join writes sections one after the other, and a newline at the end.
func join(sections []Section) string {
	if len(sections) == 0 {
		return ""
	}
	size := 0
	for _, s := range sections {
		size += len(s.Text) + len(separator)
	}
	var b strings.Builder
	b.Grow(size)
	for i, s := range sections {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(s.Text)
	}
	b.WriteByte('\n')
	return b.String()
}

// An FileReport says what became of one file or skill.
type FileReport struct {
	Name string `json:"name"`
	// Path is where the file was read, for people.
	Path string `json:"path,omitempty"`
	// Reason says why it is not wholly in the prompt; Whole if it is.
	Reason Reason `json:"reason"`
	// Why is Reason in words with the figures; "" if it is whole.
	Why string `json:"why,omitempty"`
	// Bytes and Runes are the size as loaded; Runes without white space at
	// the end.
	Bytes int `json:"bytes"`
	Runes int `json:"runes"`
	// KeptBytes and Kept (in runes) are the size in the prompt, markers
	// included, heading and fence not.
	KeptBytes int `json:"keptBytes"`
	Kept      int `json:"kept"`
	// Tokens are those of what was kept, by Limits.Count.
	Tokens int `json:"tokens,omitempty"`
}

// Shown reports whether content of the file is in the prompt, whole or cut.
func (a FileReport) Shown() bool {
	switch a.Reason {
	case ReasonWhole, ReasonOverFile, ReasonOverTotal, ReasonOverSkills:
		return a.Kept > 0
	default:
		return false
	}
}

// Short reports whether something is lacking because it did not fit a limit.
func (a FileReport) Short() bool {
	switch a.Reason {
	case ReasonTooLarge, ReasonTooMany, ReasonOverFile, ReasonOverTotal, ReasonNoRoom, ReasonDropped, ReasonOverSkills:
		return true
	default:
		return false
	}
}

// Report renders the sections and the accounts as tables for people.
func (p Prompt) Report() string {
	var b strings.Builder
	text := p.String()
	fmt.Fprintf(&b, "session %s, mode %s, %d runes, cache key %.12s\n\n", p.Session, p.Mode, countRunes(text), p.CacheKey())
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SECTION\tCLASS\tRUNES\tSOURCE")
	for _, s := range p.Sections {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", s.ID, s.Class, countRunes(s.Text), s.Source)
	}
	_ = w.Flush() // a strings.Builder does not fail
	writeReports(&b, "FILE", p.Files)
	writeReports(&b, "SKILL", p.Skills)
	return b.String()
}

// writeReports appends a table, or nothing if there are no rows.
func writeReports(b *strings.Builder, title string, list []FileReport) {
	if len(list) == 0 {
		return
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tRUNES\tKEPT\tKEPT BYTES\tKEPT TOKENS\tWHY\n", title)
	sum := FileReport{Name: "total"}
	for _, a := range list {
		writeReport(w, a)
		sum.Runes, sum.Kept = sum.Runes+a.Runes, sum.Kept+a.Kept
		sum.KeptBytes, sum.Tokens = sum.KeptBytes+a.KeptBytes, sum.Tokens+a.Tokens
	}
	writeReport(w, sum)
	_ = w.Flush()
}

func writeReport(w io.Writer, a FileReport) {
	tokens := "-" // not counted, or nothing to count
	if a.Tokens > 0 {
		tokens = strconv.Itoa(a.Tokens)
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", a.Name, a.Runes, a.Kept, a.KeptBytes, tokens, sanitize(a.Why))
}
