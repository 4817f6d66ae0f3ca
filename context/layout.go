package agentctx

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/enum"
)

// A Layout is an arrangement of the sections. The zero Layout is LayoutDefault.
type Layout uint8

const (
	// LayoutDefault is this package's own arrangement.
	LayoutDefault Layout = iota
	// LayoutGoClaw is the short prompt of GoClaw: identity, tooling, skills, memory recall, safety
	// (not for workers), project context, runtime, and the task of a sub-agent last. Tools stay in
	// the caller's order, and no section changes from turn to turn.
	LayoutGoClaw
)

var layoutNames = []string{LayoutDefault: "default", LayoutGoClaw: "goclaw"}

// String returns "default" or "goclaw".
func (l Layout) String() string { return enum.String(layoutNames, "Layout", l) }

// MarshalText returns what String returns, or an error for a value without a name.
func (l Layout) MarshalText() ([]byte, error) {
	return enum.Marshal(layoutNames, "agentctx", "layout", l)
}

// UnmarshalText sets the value that has the name text, in any letter case. For any other text it
// returns an error and changes nothing.
func (l *Layout) UnmarshalText(text []byte) error {
	return enum.Unmarshal(layoutNames, "agentctx", "layout", text, l)
}

// goClawParts are the sections of LayoutGoClaw in their order.
var goClawParts = [...]part{
	{SectionIdentity, ClassStable, true, nil, identityText},
	{SectionTooling, ClassStable, true, nil, toolingText},
	{SectionSkills, ClassStable, true, nil, skillsText},
	{SectionMemory, ClassStable, false, (*assembly).hasMemoryTools, memoryText},
	{SectionSafety, ClassStable, false, nil, safetyText},
	{SectionProject, ClassStable, true, nil, projectText},
	{SectionRuntime, ClassPerSession, true, nil, goClawRuntimeText},
	{SectionTask, ClassPerSession, true, nil, taskText},
}

// goClawRuntimeText is the section Runtime of LayoutGoClaw: the fields without a word before them.
func goClawRuntimeText(a *assembly) string {
	e := a.in.Env
	if _, known := inZone(a.in.Now, e.Zone); !known {
		e.Zone = ""
	}
	var list []string
	for _, f := range [...][2]string{
		{"model", e.Model},
		{"channel", e.Channel},
		{"session", a.in.Session.String()},
		{"host", e.Host},
		{"os", e.OS},
		{"zone", e.Zone},
	} {
		if f[0] == "session" && !a.of.isSubagent {
			continue
		}
		if v := wordOrQuote(f[1]); v != "" {
			list = append(list, f[0]+"="+v)
		}
	}
	return "## Runtime\n" + cmp.Or(strings.Join(list, " | "), "model=unknown")
}

// taskText is the section Task: the task between fences.
func taskText(a *assembly) string {
	if strings.TrimSpace(a.in.Task) == "" {
		return ""
	}
	return "## Task\n" + fenced(normalizeText(a.in.Task))
}

// LoadWorkspaceFiles returns the eight core files of a directory, each of them read or marked as
// missing. The Path of each is dir/name. It is [LoadWorkspace] on an [os.Root]. It returns an error
// if dir cannot be opened, and one that is fs.ErrInvalid if dir is empty: "." is the working
// directory.
func LoadWorkspaceFiles(dir string) (files []WorkspaceFile, err error) {
	if dir == "" {
		return nil, fmt.Errorf("agentctx: the workspace directory is not set: %w", fs.ErrInvalid)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("agentctx: workspace %q: %w", dir, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	files = LoadWorkspace(root.FS())
	for i := range files {
		files[i].Path = filepath.Join(dir, filepath.FromSlash(files[i].Name))
	}
	return files, nil
}

// FilterForSubagent returns the files that a sub-agent sees by default: those that [WorkerSpec]
// lets through.
func FilterForSubagent(files []WorkspaceFile) []WorkspaceFile { return WorkerSpec().Filter(files) }

// FilterForSession returns the files that a session sees by default: what FilterForSubagent returns
// for a sub-agent, and all files for any other.
func FilterForSession(files []WorkspaceFile, isSubagent bool) []WorkspaceFile {
	if isSubagent {
		return FilterForSubagent(files)
	}
	return files
}

// PromptParams are the parameters of [BuildSystemPrompt]. [Input] has these and more.
type PromptParams struct {
	WorkspaceDir string
	IsSubagent   bool
	Tools        []Tool
	Model        string
	Channel      string
	UserTimezone string
}

// BuildSystemPrompt loads the core files of a workspace directory and assembles them under
// [LayoutGoClaw]. Tools stay in the caller's order. A marker with its path stands for each file
// that is absent. It returns an error if the directory cannot be opened.
func BuildSystemPrompt(params PromptParams) (string, error) {
	files, err := LoadWorkspaceFiles(params.WorkspaceDir)
	if err != nil {
		return "", err
	}
	in := Input{
		Layout: LayoutGoClaw, Spec: topLevelSpec(), Files: files, Markers: CoreFiles(),
		Tools: params.Tools,
		Env:   Env{Model: params.Model, Channel: params.Channel, Zone: params.UserTimezone},
	}
	if params.IsSubagent {
		in.Spec = WorkerSpec()
	}
	return strings.TrimRight(Assemble(in).String(), "\n"), nil
}
