package agentctx

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/enum"
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
	memoryFileLower = "memory.md" // read where MEMORY.md is absent
	memoryDir       = "memory"

	// ExecutionFile is the name under which the AGENTS.md of an execution
	// directory appears beside the workspace's own.
	ExecutionFile = "(cwd)/AGENTS.md"
)

// CoreFiles returns the names of the eight workspace files in the order in
// which they are loaded and shown.
func CoreFiles() []string {
	return []string{AgentsFile, SoulFile, ToolsFile, IdentityFile, UserFile, HeartbeatFile, BootstrapFile, MemoryFile}
}

// markedFiles returns the names of the files whose absence a prompt mentions
// unless [Input.Markers] says otherwise.
func markedFiles() []string {
	return []string{AgentsFile, SoulFile, ToolsFile, IdentityFile, UserFile}
}

// A Reason says why a file is not, or not wholly, in a prompt. The zero
// Reason means that it is.
type Reason uint8

// The reasons: of loading, then of assembly.
const (
	ReasonWhole      Reason = iota
	ReasonAbsent            // there is no such file
	ReasonTooLarge          // over MaxFileBytes, so it was not read
	ReasonNotRegular        // a directory, device, socket or pipe
	ReasonOutside           // the name leaves the workspace, itself or by a symbolic link
	ReasonLinked            // it has further hard links, which may lie outside the workspace
	ReasonUnreadable        // it exists but cannot be read
	ReasonNotUTF8           // it is not valid UTF-8 text
	ReasonTooMany           // a pattern matches more files than are read
	ReasonBadName           // the name or pattern is not a slash-separated relative path
	ReasonChanged           // it was replaced while it was being opened
	ReasonExcluded          // the spec does not let it through
	ReasonRepeated          // another file of the same name or content is shown already
	ReasonBlank             // it has no text
	ReasonOverFile          // cut: longer than Limits.File
	ReasonOverTotal         // cut: Limits.Total was used up by files that give way later
	ReasonNoRoom            // left out: nothing of Limits.Total was left
	ReasonDropped           // left out whole, because the spec says so of a file that would have to be cut
	ReasonOverSkills        // a skill cut or left out: over Limits.Skills
)

var reasonNames = []string{
	ReasonWhole: "whole", ReasonAbsent: "absent", ReasonTooLarge: "too large", ReasonNotRegular: "not a regular file", ReasonOutside: "outside",
	ReasonLinked: "hard-linked", ReasonUnreadable: "unreadable", ReasonNotUTF8: "not UTF-8", ReasonTooMany: "too many", ReasonBadName: "bad name",
	ReasonChanged: "changed while opening", ReasonExcluded: "excluded", ReasonRepeated: "repeated", ReasonBlank: "blank",
	ReasonOverFile: "over the file limit", ReasonOverTotal: "over the total limit", ReasonNoRoom: "no room", ReasonDropped: "dropped on overflow",
	ReasonOverSkills: "over the skills limit",
}

// String returns a few words.
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

// A WorkspaceFile is a workspace file, present or not.
type WorkspaceFile struct {
	// Name is the slash-separated path within the workspace, such as
	// "AGENTS.md" or "memory/2026-11-20.md". It is what the prompt shows.
	Name string
	// Path is where the file was read, for people; it never enters a prompt
	// but that of [BuildSystemPrompt].
	Path string
	// Content is the text, empty if Missing.
	Content string
	// Missing is set if there is no content, for whatever Reason.
	Missing bool
	// Reason says why it is missing.
	Reason Reason
	// Why is Reason in words, with figures where there are any.
	Why string
}

// missingFile returns the record of a file that was not loaded.
func missingFile(name string, r Reason, format string, args ...any) WorkspaceFile {
	why := fmt.Sprintf(format, args...)
	if why == "" {
		why = r.String()
	}
	return WorkspaceFile{Name: name, Path: name, Missing: true, Reason: r, Why: why}
}

// validName reports whether name may stand for a file of a workspace: a clean
// relative slash path without control characters.
func validName(name string) bool {
	return name != "." && fs.ValidPath(name) && !strings.Contains(name, `\`) && sanitize(name) == name
}

// keepRank ranks a file by how late it gives way when room is short: 0 last.
func keepRank(name string) int {
	order := []string{AgentsFile, ToolsFile, SoulFile, IdentityFile, UserFile, BootstrapFile, HeartbeatFile, MemoryFile}
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
