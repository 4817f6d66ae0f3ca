package contexttest

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Rule names a kind of mistake that Lint looks for.
type Rule string

// The rules of Lint.
const (
	RuleMissing   Rule = "missing"   // a file that the prompt would mention as missing is absent
	RuleUnread    Rule = "unread"    // a file is there and cannot be loaded
	RuleOversize  Rule = "oversize"  // a file, or all together, is over the limits
	RuleSecret    Rule = "secret"    // a file holds what looks like a password or key
	RuleHeading   Rule = "heading"   // a heading is that of a section of the prompt
	RuleBootstrap Rule = "bootstrap" // BOOTSTRAP.md is there although the workspace is in use
	RuleInvisible Rule = "invisible" // a file holds characters that people cannot see
	RuleConflict  Rule = "conflict"  // a conflict of a merge was left in a file
)

// A Finding is one mistake that Lint found.
type Finding struct {
	Rule Rule
	File string
	Line int    // from 1; 0: the whole file
	Text string // never shows a secret
}

// String returns "file:line: text (rule)".
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s (%s)", f.File, f.Text, f.Rule)
	}
	return fmt.Sprintf("%s:%d: %s (%s)", f.File, f.Line, f.Text, f.Rule)
}

// Lint returns the mistakes in the core files of a workspace, the notes in memory/ and the extra
// files (see [agentctx.Loader]), ordered by file and line. The limits are those that the bot's
// prompts are assembled with.
func Lint(fsys fs.FS, limits agentctx.Limits, extra ...string) []Finding {
	key := session.Must(session.Parse("agent:main:main"))
	files := agentctx.Loader{
		Memory: true, Extra: extra,
	}.Load(
		agentctx.LoadRequest{Session: key, Workspace: fsys},
	)
	p := agentctx.Assemble(agentctx.Input{Session: key, Files: files, Limits: limits})
	var found []Finding
	for _, a := range p.Files {
		switch {
		case a.Reason == agentctx.ReasonAbsent:
			if a.Kept > 0 {
				found = append(found, Finding{RuleMissing, a.Name, 0, "there is no such file; " + toMend})
			}
		case a.Short() && a.Reason != agentctx.ReasonTooLarge && a.Reason != agentctx.ReasonTooMany:
			found = append(found, Finding{RuleOversize, a.Name, 0, forLog(a.Why)})
		case a.Reason != agentctx.ReasonWhole && a.Reason != agentctx.ReasonBlank:
			found = append(found, Finding{RuleUnread, a.Name, 0, forLog(a.Why)})
		}
	}
	headings := sectionHeadings()
	for _, f := range files {
		found = append(found, lintText(f, headings)...)
	}
	if f, stale := staleBootstrap(files); stale {
		found = append(found, f)
	}
	slices.SortStableFunc(found, func(x, y Finding) int {
		if x.File != y.File {
			return strings.Compare(x.File, y.File)
		}
		return x.Line - y.Line
	})
	return found
}

// Clean fails for each finding of Lint.
func Clean(t testing.TB, fsys fs.FS, limits agentctx.Limits, extra ...string) {
	t.Helper()
	for _, f := range Lint(fsys, limits, extra...) {
		t.Errorf("contexttest: workspace: %s", f)
	}
}

// lintText returns the findings in the lines of one file.
func lintText(f agentctx.WorkspaceFile, headings map[string]bool) []Finding {
	var found []Finding
	add := func(rule Rule, line int, format string, args ...any) {
		found = append(found, Finding{rule, f.Name, line, fmt.Sprintf(format, args...)})
	}
	n := 0
	for line := range strings.Lines(f.Content) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if looksSecret(line) {
			add(
				RuleSecret, n,
				"this looks like a password or key; name the place where it is kept instead",
			)
		}
		if h := strings.TrimRight(line, " #"); headings[h] {
			add(
				RuleHeading, n,
				"%q is the heading of a section of the prompt; call it something else", h,
			)
		}
		if i := strings.IndexFunc(line, isInvisible); i >= 0 {
			r, _ := utf8.DecodeRuneInString(line[i:])
			add(RuleInvisible, n, "invisible character %U", r)
		}
		if strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") {
			add(RuleConflict, n, "a conflict of a merge was left here")
		}
	}
	return found
}

// isInvisible reports whether a character changes a text without being seen:
// controls but tab, marks of direction, tags and other format characters. The
// joiner and the selector that emoji are made with are seen.
func isInvisible(r rune) bool {
	switch {
	case r == '\t', r == '\u200d', r == '\ufe0f':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	case r == '\u00ad',
		r == '\u034f',
		r == '\u061c',
		r == '\u180e',
		r == '\u3164',
		r == '\ufeff',
		r == '\uffa0':
		return true
	case r >= '\u200b' && r <= '\u200f',
		r >= '\u2028' && r <= '\u202e',
		r >= '\u2060' && r <= '\u206f':
		return true
	case r >= 0xfff0 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe0fff:
		return true
	default:
		return false
	}
}

// sectionHeadings returns the headings of all sections that a prompt can
// have, taken from prompts that have them.
func sectionHeadings() map[string]bool {
	every := agentctx.Input{
		Session: session.Must(session.Parse("agent:main:main")),
		Tools: []agentctx.Tool{
			{
				Name: "read",
			}, {Name: "exec"}, {Name: "message"}, {Name: "gateway"}, {Name: "memory_search"}, {Name: "sessions_spawn"},
		},
		Skills:  []agentctx.Skill{{Name: "x", Description: "x", Path: "x"}},
		Env:     agentctx.Env{Dir: "x"},
		Sandbox: agentctx.Sandbox{Enabled: true},
		Channel: agentctx.Channel{Senders: []string{"x"}, Voice: "x", Reactions: "minimal"},
		Docs:    "x", Aliases: map[string]string{"x": "x"}, ReasoningTags: true, Conversation: "x",
		Active: []agentctx.ActiveSubagent{
			{Key: session.Must(session.Parse("agent:main:subagent:x"))},
		},
		Files: []agentctx.WorkspaceFile{{Name: agentctx.AgentsFile, Content: "x"}},
		Now:   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	child := every
	child.Session = session.Must(session.Parse("agent:main:subagent:x"))
	headings := map[string]bool{}
	for _, in := range []agentctx.Input{every, child} {
		maps.Copy(headings, headingsOf(agentctx.Assemble(in)))
	}
	return headings
}

// headingsOf returns the first line of each section that has a heading.
func headingsOf(p agentctx.Prompt) map[string]bool {
	headings := map[string]bool{}
	for _, s := range p.Sections {
		if first, _, _ := strings.Cut(s.Text, "\n"); strings.HasPrefix(first, "#") {
			headings[first] = true
		}
	}
	return headings
}

// staleBootstrap reports whether BOOTSTRAP.md is there although the first
// conversation must be over: there are memories, or USER.md or IDENTITY.md is
// no longer the template.
func staleBootstrap(files []agentctx.WorkspaceFile) (Finding, bool) {
	present, why := false, ""
	for _, f := range files {
		switch {
		case f.Missing:
		case f.Name == agentctx.BootstrapFile:
			present = true
		case f.Name == agentctx.MemoryFile, strings.HasPrefix(f.Name, "memory"):
			why = "there are memories in " + f.Name
		case f.Name == agentctx.UserFile, f.Name == agentctx.IdentityFile:
			template, err := fs.ReadFile(agentctx.Templates(), f.Name)
			if err == nil && strings.TrimSpace(string(template)) != strings.TrimSpace(f.Content) {
				why = f.Name + " is filled in"
			}
		}
	}
	text := "it is still there, but " + why
	return Finding{RuleBootstrap, agentctx.BootstrapFile, 0, text}, present && why != ""
}
