package agentctx

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// An Account says what became of one file or skill.
type Account struct {
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
func (a Account) Shown() bool {
	switch a.Reason {
	case Whole, OverFile, OverTotal, OverSkills:
		return a.Kept > 0
	default:
		return false
	}
}

// Short reports whether something is lacking because it did not fit a limit.
func (a Account) Short() bool {
	switch a.Reason {
	case TooLarge, TooMany, OverFile, OverTotal, NoRoom, OnOverflow, OverSkills:
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
	writeAccounts(&b, "FILE", p.Files)
	writeAccounts(&b, "SKILL", p.Skills)
	return b.String()
}

// writeAccounts appends a table, or nothing if there are no rows.
func writeAccounts(b *strings.Builder, title string, list []Account) {
	if len(list) == 0 {
		return
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tRUNES\tKEPT\tKEPT BYTES\tKEPT TOKENS\tWHY\n", title)
	sum := Account{Name: "total"}
	for _, a := range list {
		writeAccount(w, a)
		sum.Runes, sum.Kept = sum.Runes+a.Runes, sum.Kept+a.Kept
		sum.KeptBytes, sum.Tokens = sum.KeptBytes+a.KeptBytes, sum.Tokens+a.Tokens
	}
	writeAccount(w, sum)
	_ = w.Flush()
}

func writeAccount(w io.Writer, a Account) {
	tokens := "-" // not counted, or nothing to count
	if a.Tokens > 0 {
		tokens = strconv.Itoa(a.Tokens)
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", a.Name, a.Runes, a.Kept, a.KeptBytes, tokens, literal(a.Why))
}
