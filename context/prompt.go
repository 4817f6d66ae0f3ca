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

// A Prompt is an ordered list of sections with a report on every file and skill that was
// considered. [Assemble] keeps no reference to its slices, so the caller may change them.
type Prompt struct {
	// Session is the key of the session in text form.
	Session string
	// Mode is how much of the prompt there is: ModeFull, ModeMinimal or ModeNone.
	Mode Mode
	// Sections are in the order of the text. Their classes never decrease.
	Sections []Section
	// Files has one report for each file of the Input, in their order. Behind them it has one for
	// each name in the Spec that is that of no file.
	Files []FileReport
	// Skills has one report for each skill of the Input, and its SkillReports, by name.
	Skills []FileReport

	overflow Overflow
}

// separator stands between two sections.
const separator = "\n\n"

// String returns the text that the model reads. It ends with a newline. A Prompt without sections
// returns "".
func (p Prompt) String() string { return join(p.Sections) }

// StablePrefix returns the beginning of String that is the same for all sessions of the agent with
// the same spec, tools, sandbox and workspace, and of one sort: sub-agents whose report is text,
// those whose report is JSON, sessions of cron, groups and channels, and the other top-level ones.
// A provider's cache breakpoint belongs at its end.
func (p Prompt) StablePrefix() string { return p.prefix(ClassStable) }

// SessionPrefix returns the beginning of String that is the same for every turn of the session: the
// stable and the per-session sections. It is for a Runner whose provider takes a second cache
// breakpoint.
func (p Prompt) SessionPrefix() string { return p.prefix(ClassPerSession) }

// CacheKey returns the SHA-256 of StablePrefix as 64 hexadecimal digits.
func (p Prompt) CacheKey() string {
	sum := sha256.Sum256([]byte(p.StablePrefix()))
	return hex.EncodeToString(sum[:])
}

// Section returns the section with the id, or false if the prompt lacks it.
func (p Prompt) Section(id string) (Section, bool) {
	for _, s := range p.Sections {
		if s.ID == id {
			return s, true
		}
	}
	return Section{}, false
}

// Err returns an [*OverflowError] if the spec says [OverflowRefuse] and at least one file was cut
// or left out because of a limit. Otherwise it returns nil.
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

// An OverflowError lists the files that did not fit into a prompt.
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
	return fmt.Sprintf(
		"agentctx: prompt of %q does not fit: %s", e.Session, strings.Join(names, ", "),
	)
}

func (p Prompt) prefix(through Class) string {
	n := 0
	for n < len(p.Sections) && p.Sections[n].Class <= through {
		n++
	}
	return join(p.Sections[:n])
}

// join returns the texts of the sections, with a blank line between them and a newline at the end.
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

// A FileReport says what became of one file or skill.
type FileReport struct {
	// Name is the file's name within the workspace, or the skill's name.
	Name string `json:"name"`
	// Path tells people where the file was read.
	Path string `json:"path,omitempty"`
	// Reason says why the content is not or not wholly in the prompt. It is ReasonWhole if it is.
	Reason Reason `json:"reason"`
	// Why is Reason in words, with the figures. It is "" for ReasonWhole.
	Why string `json:"why,omitempty"`
	// Bytes and Runes are the size as loaded. Runes does not count white space at the end.
	Bytes int `json:"bytes"`
	Runes int `json:"runes"`
	// KeptBytes and Kept are the size in the prompt, in bytes and in runes. They count the marker
	// of a cut or of a missing file, but neither heading nor fences.
	KeptBytes int `json:"keptBytes"`
	Kept      int `json:"kept"`
	// Tokens is what Limits.Count returned for the kept text. It is 0 without a Count.
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

// Short reports whether content is lacking because of a limit.
func (a FileReport) Short() bool {
	switch a.Reason {
	case ReasonTooLarge,
		ReasonTooMany,
		ReasonOverFile,
		ReasonOverTotal,
		ReasonNoRoom,
		ReasonDropped,
		ReasonOverSkills:
		return true
	default:
		return false
	}
}

// Report renders the sections and the reports on files and skills as tables for people.
func (p Prompt) Report() string {
	var b strings.Builder
	text := p.String()
	fmt.Fprintf(
		&b, "session %s, mode %s, %d runes, cache key %.12s\n\n", p.Session, p.Mode,
		countRunes(text), p.CacheKey(),
	)
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

// writeReports appends a table of the reports with a row of totals. It appends nothing if there are
// no reports.
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
	fmt.Fprintf(
		w, "%s\t%d\t%d\t%d\t%s\t%s\n", a.Name, a.Runes, a.Kept, a.KeptBytes, tokens,
		sanitize(a.Why),
	)
}
