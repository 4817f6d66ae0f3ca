package agentctx

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	textline "github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Spec says which files and skills a session sees, and how much of the prompt it gets. The zero
// value of each field leaves the choice to the next lower spec, see [Spec.Or].
type Spec struct {
	// Mode is how much of the prompt there is.
	Mode Mode `json:"mode,omitzero"`
	// Files are the files that the session may see: names, or patterns as for [path.Match].
	//
	// A name is that of one file, by its whole path: "AGENTS.md" is the one at the root of the
	// workspace, and not that of a directory below. A pattern with a slash is compared with a
	// file's whole name. A pattern without a slash is compared with the last element of the name,
	// so "*" lets every file through. "MEMORY.md" stands for memory.md too, and "AGENTS.md" for
	// [ExecutionFile]. An empty list that is not nil lets none through.
	//
	// A file that is a link shows what it leads to. It is let through only if the spec lets
	// through the core file or memory note that it leads to, see [WorkspaceFile.Target].
	Files []string `json:"files,omitzero"`
	// Skills are the names of the skills that the session may see. They are compared exactly after
	// trimming. "*" lets every skill through. An empty list that is not nil lets none through.
	Skills []string `json:"skills,omitzero"`
	// History says what a new session knows of its requester's conversation. It does not change
	// the prompt: the runtime acts on it when it starts the session.
	History History `json:"history,omitzero"`
	// Overflow says what happens to a file that does not fit the limits.
	Overflow Overflow `json:"overflow,omitzero"`
}

// A Mode is how much of the prompt a session gets. The zero Mode is ModeAuto.
type Mode uint8

const (
	// ModeAuto leaves the choice to the next lower [Spec]. In the end the session's key decides:
	// ModeFull for a top-level session, ModeMinimal for sub-agents and cron.
	ModeAuto Mode = iota
	// ModeFull has every section.
	ModeFull
	// ModeMinimal has what a worker needs: identity, tooling, safety, workspace, sandbox, reasoning
	// format, project context, sub-agent context, date, live sub-agents and runtime. It has skills
	// if the spec names some. For a session whose answers people get, such as one of cron, it has
	// silent replies, and delegation if the session may spawn.
	ModeMinimal
	// ModeNone has the identity line alone.
	ModeNone
)

var modeNames = []string{
	ModeAuto: "auto", ModeFull: "full", ModeMinimal: "minimal", ModeNone: "none",
}

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

// A History is what a new session knows of its requester's conversation. The zero History is
// HistoryInherit.
type History uint8

const (
	// HistoryInherit leaves the choice to the next lower spec. In the end it is HistoryIsolated.
	HistoryInherit History = iota
	// HistoryIsolated starts the session with an empty transcript.
	HistoryIsolated
	// HistoryFork starts the session with a copy of the requester's conversation as it was when the
	// session was spawned: its messages with their pictures and files, the summary first if it was
	// compacted. The session's own task comes behind it. It is for sub-agents; docs/prompts.md says
	// which conversations may be copied.
	HistoryFork
)

var historyNames = []string{
	HistoryInherit: "inherit", HistoryIsolated: "isolated", HistoryFork: "fork",
}

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

// An Overflow says what happens to a file that does not fit the limits. The zero Overflow is
// OverflowInherit.
type Overflow uint8

const (
	// OverflowInherit leaves the choice to the next lower spec. In the end it is OverflowCut.
	OverflowInherit Overflow = iota
	// OverflowCut keeps the head and the tail of the file with a marker between them.
	OverflowCut
	// OverflowDrop leaves the file out rather than showing a part of it.
	OverflowDrop
	// OverflowRefuse cuts like OverflowCut, and makes [Prompt.Err] return an [*OverflowError].
	OverflowRefuse
)

var overflowNames = []string{
	OverflowInherit: "inherit", OverflowCut: "cut", OverflowDrop: "drop", OverflowRefuse: "refuse",
}

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

// WorkerSpec returns what a sub-agent sees by default: AGENTS.md and TOOLS.md in a minimal prompt.
// It leaves the other fields open. In the end they let no skill through, isolate the history and
// cut what does not fit.
func WorkerSpec() Spec {
	return Spec{Mode: ModeMinimal, Files: slices.Clone(workerFiles)}
}

// The lists of the default specs. They are shared by all sessions, and are not handed to callers.
var (
	workerFiles = []string{AgentsFile, ToolsFile}
	everything  = []string{"*"}
	noSkills    = []string{}
)

// InstructionsSpec returns the WorkerSpec with AGENTS.md alone.
func InstructionsSpec() Spec {
	s := WorkerSpec()
	s.Files = []string{AgentsFile}
	return s
}

// PersonaSpec returns the WorkerSpec with the agent's character: SOUL.md and IDENTITY.md beside
// AGENTS.md and TOOLS.md.
func PersonaSpec() Spec {
	s := WorkerSpec()
	s.Files = []string{AgentsFile, SoulFile, ToolsFile, IdentityFile}
	return s
}

// topLevelSpec returns what a session sees that is certainly not a sub-agent. Its lists are shared.
func topLevelSpec() Spec {
	return Spec{
		Mode: ModeFull, Files: everything, Skills: everything, History: HistoryIsolated,
		Overflow: OverflowCut,
	}
}

// subagentSpec returns the WorkerSpec with every field set. Its lists are shared.
func subagentSpec() Spec {
	return Spec{
		Mode: ModeMinimal, Files: workerFiles, Skills: noSkills, History: HistoryIsolated,
		Overflow: OverflowCut,
	}
}

// SpecFor returns what a session sees by default, with every field set. A top-level session sees
// everything; but in a group or channel no pattern shows BOOTSTRAP.md, MEMORY.md and the memory
// notes, which [Spec.Files] has to name there. Sub-agents in every dialect, cron and external
// harness sessions see what a [WorkerSpec] lets through. So does the zero Key. The kind of the key
// decides, and not the words in it: a room may be called cron.
func SpecFor(key session.Key) Spec {
	s := specFor(key)
	s.Files, s.Skills = slices.Clone(s.Files), slices.Clone(s.Skills)
	return s
}

// specFor is SpecFor with lists that are shared.
func specFor(key session.Key) Spec {
	if isTopLevel(key) {
		return topLevelSpec()
	}
	return subagentSpec()
}

// isTopLevel reports whether key is certainly that of a top-level session: whether its kind is one
// of theirs. The names of rooms and people in it do not matter.
func isTopLevel(key session.Key) bool {
	switch key.Kind() {
	case session.KindMain, session.KindThread, session.KindNamed, session.KindDirect,
		session.KindGroup, session.KindChannel, session.KindHook, session.KindGlobal:
		return true
	default:
		return false
	}
}

// Or returns s with every zero field taken from under. For the precedence of spawn over agent over
// defaults write spawn.Or(agent).Or(defaults).Or(SpecFor(key)). [Assemble] does the last step
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

// Validate returns all fields without a meaning, each as a *[FieldError] in one error: values
// outside their enumeration, malformed file patterns and blank skills. It returns nil if there are
// none.
func (s Spec) Validate() error {
	var list fieldErrors
	if int(s.Mode) >= len(modeNames) {
		list.add("Spec.Mode", "is %d, want at most %d (%s)", s.Mode, ModeNone, ModeNone)
	}
	if int(s.History) >= len(historyNames) {
		list.add("Spec.History", "is %d, want at most %d (%s)", s.History, HistoryFork,
			HistoryFork)
	}
	if int(s.Overflow) >= len(overflowNames) {
		list.add("Spec.Overflow", "is %d, want at most %d (%s)", s.Overflow, OverflowRefuse,
			OverflowRefuse)
	}
	for i, p := range s.Files {
		if _, err := path.Match(p, ""); err != nil || strings.TrimSpace(p) != p || p == "" {
			list.add(fmt.Sprintf("Spec.Files[%d]", i), "is %s, which is not a pattern of file names",
				textline.Quote(p))
		}
	}
	for i, name := range s.Skills {
		if strings.TrimSpace(name) == "" {
			list.add(fmt.Sprintf("Spec.Skills[%d]", i), "is blank")
		}
	}
	return list.join()
}

// Filter returns the files that the spec lets through, in their order. A spec whose Files are nil
// lets through what [WorkerSpec] does. A name that is not a clean relative path is never let
// through, nor is a link to a core file or memory note that the spec does not let through.
func (s Spec) Filter(files []WorkspaceFile) []WorkspaceFile {
	kept := make([]WorkspaceFile, 0, len(files))
	for _, f := range files {
		if s.admits(f) {
			kept = append(kept, f)
		}
	}
	return kept
}

// sees reports whether the spec lets a file of that name through, see [Spec.Filter].
func (s Spec) sees(name string) bool {
	if !validName(name) {
		return false
	}
	patterns := s.Files
	if patterns == nil {
		patterns = workerFiles
	}
	for _, p := range patterns {
		if sameFileName(p, name) || isPattern(p) && matchesFile(p, name) {
			return true
		}
	}
	return false
}

// sameFileName reports whether a name in a spec is that of a file.
func sameFileName(want, name string) bool {
	return want == name || want == MemoryFile && name == memoryFileLower ||
		want == AgentsFile && name == ExecutionFile
}

// isPattern reports whether an entry of Spec.Files has a character with a meaning to path.Match.
func isPattern(entry string) bool { return strings.ContainsAny(entry, `*?[\`) }

// matchesFile reports whether a pattern matches a name, or the last element of the name if the
// pattern has no slash.
func matchesFile(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// admits reports whether the spec lets a file through, see [Spec.Filter]. A file that is Missing
// has nothing to withhold but its name.
func (s Spec) admits(f WorkspaceFile) bool {
	return s.sees(f.Name) && (f.Missing || !s.withholds(f.Target))
}

// withholds reports whether target, to which a link leads, is a core file or a memory note that
// the spec does not let through. A link to any other file is what the owner of the workspace made
// of it.
func (s Spec) withholds(target string) bool {
	return target != "" && isPersonal(target) && !s.sees(target)
}

// OnlySkills returns s without the skills that are not among names, which are compared as those of
// a Spec are. nil names leave s as it is. A spec whose Skills are nil lets none through: the caller
// completes it first, see [Spec.Or].
func (s Spec) OnlySkills(names []string) Spec {
	if names == nil {
		return s
	}
	only := []string{}
	for _, name := range names {
		name = strings.TrimSpace(name)
		switch {
		case name == "*":
			return s
		case name != "" && s.seesSkill(name):
			only = append(only, name)
		}
	}
	s.Skills = only
	return s
}

// seesSkill reports whether the spec lets a skill of that name through. A spec whose Skills are nil
// lets none through.
func (s Spec) seesSkill(name string) bool {
	return slices.ContainsFunc(s.Skills, func(want string) bool {
		want = strings.TrimSpace(want)
		return want != "" && (want == "*" || want == name)
	})
}
