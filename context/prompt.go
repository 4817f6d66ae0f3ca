package agentctx

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
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
	Files []Account
	// Skills holds one account for each skill that was considered.
	Skills []Account

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
func (p Prompt) StablePrefix() string { return p.prefix(Stable) }

// SessionPrefix returns the beginning of String that stays the same for every
// turn of the session: the stable and the per-session sections.
func (p Prompt) SessionPrefix() string { return p.prefix(PerSession) }

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
	if p.overflow != Refuse {
		return nil
	}
	var cut []Account
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
	Files   []Account
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
