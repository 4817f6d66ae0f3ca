package agentctx

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	textline "github.com/offshoot-sdk/offshoot/internal/text"
)

// The workspace files that have a meaning of their own.
const (
	AgentsFile    = "AGENTS.md"    // the operating manual, shared with sub-agents
	SoulFile      = "SOUL.md"      // persona and tone
	ToolsFile     = "TOOLS.md"     // notes on the local environment, shared with sub-agents
	IdentityFile  = "IDENTITY.md"  // who the agent is
	UserFile      = "USER.md"      // who the user is
	HeartbeatFile = "HEARTBEAT.md" // what to look after at a heartbeat
	BootstrapFile = "BOOTSTRAP.md" // first-run instructions, deleted after the first conversation
	MemoryFile    = "MEMORY.md"    // curated long-term memory
)

const (
	memoryFileLower = "memory.md" // is read where MEMORY.md is absent
	memoryDir       = "memory"

	// ExecutionFile is the name under which the AGENTS.md of an execution
	// directory appears beside the workspace's own.
	ExecutionFile = "(cwd)/AGENTS.md"
)

// CoreFiles returns the names of the eight core files in the order in which they are loaded and
// shown.
func CoreFiles() []string {
	return []string{
		AgentsFile, SoulFile, ToolsFile, IdentityFile, UserFile, HeartbeatFile, BootstrapFile,
		MemoryFile,
	}
}

// NearCoreFile returns the core file that a name was probably meant to be: one that it is but for
// letter case or a "./" before it, or that differs in few letters. It returns "" for the name of a
// core file itself, and for one that is near none.
func NearCoreFile(name string) string {
	if isCoreName(name) {
		return ""
	}
	base := strings.ToUpper(path.Clean("/" + name)[1:])
	folded := make(map[string]string)
	for _, core := range CoreFiles() {
		folded[strings.ToUpper(core)] = core
	}
	if strings.Contains(base, "/") {
		return ""
	}
	return folded[textline.Nearest(base, slices.Sorted(maps.Keys(folded)))]
}

// isCoreName reports whether a name in a spec is that of a core file, or stands for one.
func isCoreName(name string) bool {
	return slices.Contains(CoreFiles(), name) || name == memoryFileLower || name == ExecutionFile
}

// markedFiles returns the names of the files whose absence a prompt mentions
// unless [Input.Markers] says otherwise.
func markedFiles() []string {
	return []string{AgentsFile, SoulFile, ToolsFile, IdentityFile, UserFile}
}

// A Reason says why a file is not or not wholly in a prompt. The zero Reason, ReasonWhole, means
// that the whole file is in the prompt.
type Reason uint8

// The reasons of loading come first, then those of assembly.
const (
	ReasonWhole      Reason = iota // the file is wholly in the prompt
	ReasonAbsent                   // there is no such file
	ReasonTooLarge                 // over 2 MiB, so it was not read
	ReasonNotRegular               // a directory, device, socket or pipe
	ReasonOutside                  // the name leaves the workspace, itself or by a symbolic link
	ReasonLinked                   // it has further hard links, which may lie outside the workspace
	ReasonUnreadable               // it exists but cannot be read
	ReasonNotUTF8                  // it is not valid UTF-8 text
	ReasonTooMany                  // a pattern matches more files than are read
	ReasonBadName                  // the name or pattern is not a slash-separated relative path
	ReasonChanged                  // it was replaced while it was being opened
	ReasonExcluded                 // the spec does not let it through
	ReasonRepeated                 // another file of the same name or content is shown already
	ReasonBlank                    // it has no text
	ReasonOverFile                 // cut: longer than Limits.File
	ReasonOverTotal                // cut: files that lose room later had used up Limits.Total
	ReasonNoRoom                   // left out: too little of Limits.Total was left
	ReasonDropped                  // left out: it does not fit and the spec says OverflowDrop
	ReasonOverSkills               // a skill that is cut or left out: over Limits.Skills
	ReasonUnmatched                // the spec names it, and no file of that name was loaded
)

var reasonNames = []string{
	ReasonWhole: "whole", ReasonAbsent: "absent", ReasonTooLarge: "too large",
	ReasonNotRegular: "not a regular file", ReasonOutside: "outside",
	ReasonLinked: "hard-linked", ReasonUnreadable: "unreadable", ReasonNotUTF8: "not UTF-8",
	ReasonTooMany: "too many", ReasonBadName: "bad name",
	ReasonChanged: "changed while opening", ReasonExcluded: "excluded", ReasonRepeated: "repeated",
	ReasonBlank:    "blank",
	ReasonOverFile: "over the file limit", ReasonOverTotal: "over the total limit",
	ReasonNoRoom: "no room", ReasonDropped: "dropped on overflow",
	ReasonOverSkills: "over the skills limit", ReasonUnmatched: "named in vain",
}

// String returns the reason in a few words, as "over the file limit".
func (r Reason) String() string { return enum.String(reasonNames, "Reason", r) }

// MarshalText returns what String returns, or an error for a value without a name.
func (r Reason) MarshalText() ([]byte, error) {
	return enum.Marshal(reasonNames, "agentctx", "reason", r)
}

// UnmarshalText sets the value that has the name text, in any letter case. For any other text it
// returns an error and changes nothing.
func (r *Reason) UnmarshalText(text []byte) error {
	return enum.Unmarshal(reasonNames, "agentctx", "reason", text, r)
}

// A WorkspaceFile is a file of a workspace, whether it exists or not.
type WorkspaceFile struct {
	// Name is the slash-separated path within the workspace, such as
	// "AGENTS.md" or "memory/2026-11-20.md". It is what the prompt shows.
	Name string
	// Path tells people where the file was read. Only [LayoutGoClaw] shows it in a prompt, in the
	// marker of a missing file.
	Path string
	// Target is the name of the file in the workspace to which Name leads by links. It is empty
	// where Name is the file itself. A name that the file system spells in another way, such as
	// user.md for USER.md, counts as a link to the core file.
	Target string
	// Content is the text. It is empty if the file is Missing.
	Content string
	// Missing means that the file was not read. Reason and Why say why.
	Missing bool
	// Reason says why the file is missing.
	Reason Reason
	// Why is Reason in words, with figures if it has any.
	Why string
}

// missingFile returns the record of a file that was not loaded.
func missingFile(name string, r Reason, format string, args ...any) WorkspaceFile {
	why := excerpt(fmt.Sprintf(format, args...), maxWhy)
	if why == "" {
		why = r.String()
	}
	return WorkspaceFile{Name: name, Path: name, Missing: true, Reason: r, Why: why}
}

// validName reports whether name can be the name of a workspace file: a clean relative path with
// slashes and without control characters.
func validName(name string) bool {
	return name != "." && fs.ValidPath(name) && !strings.Contains(name, `\`) &&
		sanitize(name) == name
}

// isPersonal reports whether a file is one that a [Spec] is there to withhold: a core file or a
// memory note.
func isPersonal(name string) bool {
	return name == memoryFileLower || slices.Contains(CoreFiles(), name) ||
		strings.HasPrefix(name, memoryDir+"/")
}

// keepRank returns the place of a file in the order in which files get room: 0 gets it first and so
// loses it last.
func keepRank(name string) int {
	order := []string{
		AgentsFile, ToolsFile, SoulFile, IdentityFile, UserFile, BootstrapFile, HeartbeatFile,
		MemoryFile,
	}
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	switch {
	case name == memoryFileLower:
		return len(order) - 1
	case path.Dir(name) == memoryDir:
		return len(order)
	default:
		return len(order) + 1
	}
}
