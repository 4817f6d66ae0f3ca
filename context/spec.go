package agentctx

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Spec says which files and skills a session sees, and how much of the
// prompt it gets. Each field's zero value leaves the choice to the next lower
// spec, see [Spec.Or].
type Spec struct {
	// Mode is how much of the prompt there is.
	Mode Mode `json:"mode,omitzero"`
	// Files are patterns of the files that may be seen. A pattern without a
	// slash is compared with the last element of a file's name, one with a
	// slash with the whole name, both as by [path.Match]; "*" is every file
	// and "MEMORY.md" stands for memory.md too. An empty list that is not nil
	// is no file at all.
	Files []string `json:"files,omitzero"`
	// Skills are the names of the skills that may be seen, compared exactly
	// after trimming; "*" is every skill. An empty list that is not nil is
	// none.
	Skills []string `json:"skills,omitzero"`
	// History says what a new session knows of its requester's conversation.
	// It does not change the prompt; whoever starts the session acts on it.
	History History `json:"history,omitzero"`
	// Overflow says what happens to a file that is over the limits.
	Overflow Overflow `json:"overflow,omitzero"`
}

// A Mode is how much of the prompt there is.
type Mode uint8

const (
	// ModeAuto leaves the choice to the next lower [Spec], and in the end to the
	// session's key: Full at the top, Minimal for sub-agents and cron.
	ModeAuto Mode = iota
	// ModeFull is every section.
	ModeFull
	// ModeMinimal is what a worker needs: identity, tooling, safety, workspace,
	// sandbox, reasoning format, project context, sub-agent context, date and
	// runtime; and skills if the spec names some.
	ModeMinimal
	// ModeNone is the identity line alone.
	ModeNone
)

var modeNames = []string{ModeAuto: "auto", ModeFull: "full", ModeMinimal: "minimal", ModeNone: "none"}

// String returns "auto", "full", "minimal" or "none".
func (m Mode) String() string { return enum.String(modeNames, "Mode", m) }

// MarshalText returns what String returns, or an error for a value without a name.
func (m Mode) MarshalText() ([]byte, error) {
	return enum.Marshal(modeNames, "agentctx", "mode", m)
}

// UnmarshalText sets the value that has the name text, in any letter case. For any other text it
// returns an error and changes nothing.
func (m *Mode) UnmarshalText(text []byte) error {
	return enum.Unmarshal(modeNames, "agentctx", "mode", text, m)
}

// History is what a new session knows of its requester's conversation.
type History uint8

const (
	// HistoryInherit leaves the choice to the next lower spec; in the end it
	// is Isolated.
	HistoryInherit History = iota
	// HistoryIsolated starts with an empty transcript.
	HistoryIsolated
	// HistoryFork starts with a copy of the requester's transcript.
	HistoryFork
)

var historyNames = []string{HistoryInherit: "inherit", HistoryIsolated: "isolated", HistoryFork: "fork"}

// String returns "inherit", "isolated" or "fork".
func (h History) String() string { return enum.String(historyNames, "History", h) }

// MarshalText returns what String returns, or an error for a value without a name.
func (h History) MarshalText() ([]byte, error) {
	return enum.Marshal(historyNames, "agentctx", "history", h)
}

// UnmarshalText sets the value that has the name text, in any letter case. For any other text it
// returns an error and changes nothing.
func (h *History) UnmarshalText(text []byte) error {
	return enum.Unmarshal(historyNames, "agentctx", "history", text, h)
}

// Overflow says what happens to a file that does not fit the limits.
type Overflow uint8

const (
	// OverflowInherit leaves the choice to the next lower spec; in the end it
	// is Cut.
	OverflowInherit Overflow = iota
	// OverflowCut keeps the head and the tail with a marker between them.
	OverflowCut
	// OverflowDrop leaves the file out rather than showing a part of it.
	OverflowDrop
	// OverflowRefuse cuts, and makes [Prompt.Err] return an [OverflowError].
	OverflowRefuse
)

var overflowNames = []string{OverflowInherit: "inherit", OverflowCut: "cut", OverflowDrop: "drop", OverflowRefuse: "refuse"}

// String returns "inherit", "cut", "drop" or "refuse".
func (o Overflow) String() string { return enum.String(overflowNames, "Overflow", o) }

// MarshalText returns what String returns, or an error for a value without a name.
func (o Overflow) MarshalText() ([]byte, error) {
	return enum.Marshal(overflowNames, "agentctx", "overflow", o)
}

// UnmarshalText sets the value that has the name text, in any letter case. For any other text it
// returns an error and changes nothing.
func (o *Overflow) UnmarshalText(text []byte) error {
	return enum.Unmarshal(overflowNames, "agentctx", "overflow", text, o)
}

// WorkerSpec is what a sub-agent sees unless told otherwise: AGENTS.md and
// TOOLS.md in a minimal prompt. It leaves the rest open, which in the end is
// no skills, no history, and Cut.
func WorkerSpec() Spec {
	return Spec{Mode: ModeMinimal, Files: []string{AgentsFile, ToolsFile}}
}

// InstructionsSpec is Worker with AGENTS.md alone.
func InstructionsSpec() Spec {
	s := WorkerSpec()
	s.Files = []string{AgentsFile}
	return s
}

// PersonaSpec is Worker that keeps the agent's character: SOUL.md and
// IDENTITY.md beside AGENTS.md and TOOLS.md.
func PersonaSpec() Spec {
	s := WorkerSpec()
	s.Files = []string{AgentsFile, SoulFile, ToolsFile, IdentityFile}
	return s
}

// topLevelSpec is what a session sees that is surely nobody's sub-agent.
func topLevelSpec() Spec {
	return Spec{Mode: ModeFull, Files: []string{"*"}, Skills: []string{"*"}, History: HistoryIsolated, Overflow: OverflowCut}
}

// below is Worker with nothing left open.
func subagentSpec() Spec {
	return WorkerSpec().Or(Spec{Skills: []string{}, History: HistoryIsolated, Overflow: OverflowCut})
}

// SpecFor returns what a session sees unless told otherwise, with nothing left
// open: everything at the top, what a [WorkerSpec] does for sub-agents in every dialect, cron and external
// harness sessions, for the zero Key, and for every key that merely looks
// like one of these.
func SpecFor(key session.Key) Spec {
	if isTopLevel(key) {
		return topLevelSpec()
	}
	return subagentSpec()
}

// isTopLevel reports whether key is surely that of a top-level session: of a
// kind that is one, with no marker of another anywhere in it.
func isTopLevel(key session.Key) bool {
	if !key.IsValid() || key.IsSubagent() || key.Depth() > 0 {
		return false
	}
	switch key.Kind() {
	case session.KindMain, session.KindThread, session.KindNamed, session.KindDirect,
		session.KindGroup, session.KindChannel, session.KindHook, session.KindGlobal:
	default:
		return false
	}
	_, rest, _ := strings.Cut(strings.ToLower(key.String()), ":") // "agent"
	_, rest, _ = strings.Cut(rest, ":")                           // its id, which may be any word
	for element := range strings.SplitSeq(rest, ":") {
		switch strings.TrimSpace(element) {
		case "subagent", "spawn", "cron", "acp":
			return false
		}
	}
	return true
}

// Or returns s with every field that it leaves open taken from under. The
// precedence of spawn over agent over defaults is
// spawn.Or(agent).Or(defaults).Or(SpecFor(key)); Assemble does the last step
// itself.
func (s Spec) Or(under Spec) Spec {
	if s.Mode == ModeAuto {
		s.Mode = under.Mode
	}
	if s.Files == nil {
		s.Files = under.Files
	}
	if s.Skills == nil {
		s.Skills = under.Skills
	}
	if s.History == HistoryInherit {
		s.History = under.History
	}
	if s.Overflow == OverflowInherit {
		s.Overflow = under.Overflow
	}
	return s
}

// Validate returns an error that names the first field that has no meaning:
// a value outside its enumeration, a malformed file pattern, a blank skill.
func (s Spec) Validate() error {
	switch {
	case int(s.Mode) >= len(modeNames):
		return fmt.Errorf("agentctx: Spec.Mode is %d, want at most %d (%s)", s.Mode, ModeNone, ModeNone)
	case int(s.History) >= len(historyNames):
		return fmt.Errorf("agentctx: Spec.History is %d, want at most %d (%s)", s.History, HistoryFork, HistoryFork)
	case int(s.Overflow) >= len(overflowNames):
		return fmt.Errorf("agentctx: Spec.Overflow is %d, want at most %d (%s)", s.Overflow, OverflowRefuse, OverflowRefuse)
	}
	for i, p := range s.Files {
		if _, err := path.Match(p, ""); err != nil || strings.TrimSpace(p) != p || p == "" {
			return fmt.Errorf("agentctx: Spec.Files[%d] is %q, which is not a pattern of file names", i, p)
		}
	}
	for i, name := range s.Skills {
		if strings.TrimSpace(name) == "" {
			return fmt.Errorf("agentctx: Spec.Skills[%d] is blank", i)
		}
	}
	return nil
}

// Filter returns the files that the spec lets through, in their order. A spec
// whose Files are nil lets through what [WorkerSpec] does.
func (s Spec) Filter(files []WorkspaceFile) []WorkspaceFile {
	kept := make([]WorkspaceFile, 0, len(files))
	for _, f := range files {
		if s.sees(f.Name) {
			kept = append(kept, f)
		}
	}
	return kept
}

// sees reports whether the spec lets a file of that name through. A name that
// is not a clean relative path is never let through.
func (s Spec) sees(name string) bool {
	if !validName(name) {
		return false
	}
	patterns := s.Files
	if patterns == nil {
		patterns = WorkerSpec().Files
	}
	if slices.Contains(patterns, name) {
		return true
	}
	if name == memoryFileLower && slices.Contains(patterns, MemoryFile) {
		return true
	}
	for _, p := range patterns {
		subject := name
		if !strings.Contains(p, "/") {
			subject = path.Base(name)
		}
		if ok, err := path.Match(p, subject); err == nil && ok {
			return true
		}
	}
	return false
}

// seesSkill reports whether the spec lets a skill of that name through. A
// spec whose Skills are nil lets none through.
func (s Spec) seesSkill(name string) bool {
	return slices.ContainsFunc(s.Skills, func(want string) bool {
		want = strings.TrimSpace(want)
		return want != "" && (want == "*" || want == name)
	})
}
