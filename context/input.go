package agentctx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	textline "github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// Input is everything that a prompt depends on. Only Session needs a value. A field that is left
// zero leaves its section out or takes the default that its comment names. [Assemble] does not
// change an Input and does not keep a part of it.
type Input struct {
	// Session is the key of the session that the prompt is for.
	Session session.Key
	// Lineage is the session's record in its tree. Zero: only the key tells whether the session is
	// a sub-agent.
	Lineage session.Lineage
	// Spec says which files and skills the session sees and how much of the prompt it gets. What it
	// leaves open comes from [SpecFor], or from [WorkerSpec] if the Lineage is that of a sub-agent.
	Spec Spec
	// Layout is the arrangement of the sections.
	Layout Layout

	// Product is the name in the identity line. "": the line has no name.
	Product string
	// Files are the files of the workspace, from [LoadWorkspace] or a [Loader].
	Files []WorkspaceFile
	// Markers are the names of the files whose absence the prompt mentions. nil: AGENTS.md,
	// SOUL.md, TOOLS.md, IDENTITY.md and USER.md. Empty but not nil: none.
	Markers []string
	// Limits bound the files and skills.
	Limits Limits
	// Tools are the tools that the session really has. The prompt mentions no other tool. It lists
	// them by name, in whatever order they come.
	Tools []Tool
	// Skills are the skills that the prompt lists if the Spec lets them through.
	Skills []Skill
	// SkillReports are on skills that did not come as far as Skills, such as the reports of
	// [DiscoverSkills] and [SkillSnapshot.Excluded]. [Prompt.Skills] has them too.
	SkillReports []FileReport
	// Env is what the prompt says about the place where the agent runs.
	Env Env
	// Sandbox describes the container that the tools run in. Zero: they run in none.
	Sandbox Sandbox
	// Subagent is what the section Subagent Context says. Zero: it says what the key and the
	// Lineage tell.
	Subagent Subagent
	// Channel is how the agent reaches people.
	Channel Channel
	// Docs is the path or address of the product's documentation. "": the section is left out.
	Docs string
	// Notes are remarks on the workspace, one line each.
	Notes []string
	// Aliases map short names of models to full ones. A Runtime resolves them, in any letter case.
	Aliases map[string]string
	// HideCitations keeps paths of memory files out of answers.
	HideCitations bool
	// ReasoningTags asks the model for reasoning inside <think> and answers inside <final>. It is
	// for models that do not separate the two themselves.
	ReasoningTags bool
	// HeartbeatPrompt is the text of a heartbeat message. "": the prompt does not quote it.
	HeartbeatPrompt string
	// Conversation describes the group or conversation that the session serves. A sub-agent's
	// prompt does not have it.
	Conversation string
	// Active are the session's live sub-agents.
	Active []ActiveSubagent
	// ReportsToPeople says that what sub-agents of this session report goes to the people of its
	// conversation, and not to the session.
	ReportsToPeople bool
	// Now is the time of the turn. The prompt shows its date and zone, never the time of day. Zero:
	// it shows no date.
	Now time.Time
	// Task is the task of a sub-agent. Only LayoutGoClaw shows it: by default the task is the first
	// message, see [TaskMessage].
	Task string

	// Extra are sections of the caller. Their text is trusted and stands in the prompt as it is. A
	// section with the ID of a built-in section replaces that section's text where the prompt has
	// it. Any other is added at the end of its class, in ModeFull, and in ModeMinimal too if its
	// Minimal is set. Of several sections with one ID the last one counts.
	Extra []Section
	// Drop are the ids of sections to leave out.
	Drop []string
	// Order moves sections within their class: the first one that it names stays where it is, and
	// each of the others follows the one named before it. Unknown ids are ignored.
	Order []string
}

// A Tool is a tool as the prompt lists it. A tool without a name is left out.
type Tool struct {
	Name    string
	Summary string // one line
}

// A Skill is a skill as the prompt lists it. One whose name [DiscoverSkills] would not take is left
// out, and a report says why.
type Skill struct {
	Name        string
	Description string // one line
	Path        string // where its SKILL.md can be read by the session's tools
}

// Env is what the prompt says about the place where the agent runs. It leaves blank fields out.
// [HostEnv] fills in what the process knows.
type Env struct {
	Host string
	OS   string // "linux"
	Arch string // "arm64"
	Repo string // root of the repository that Dir is in
	Dir  string // working directory of the tools, outside of a sandbox
	// Home is the home directory of the tools. Locations of skills in it begin with "~" in the
	// prompt, unless the session is in a sandbox: the tool that reads files must know what "~" is.
	// "": they stand there as they are.
	Home         string
	Shell        string
	Model        string // "provider/model" of this turn
	DefaultModel string
	Thinking     string // level; "": not told
	Reasoning    string // whether people see the reasoning: "on", "off", "stream"
	// Zone is the IANA name of the user's time zone, in which the prompt shows the date. "", or a
	// name that the system does not know: the zone of Input.Now. [Env.ZoneFault] tells the second.
	Zone         string
	Channel      string   // "telegram"
	Capabilities []string // of the channel
}

// HostEnv returns what this process knows about the place where it runs: Host, OS, Arch, and Dir
// with the Repo that it is in. dir is the working directory of the tools; "": that of the process.
// What cannot be found out is left blank.
//
// An Env is not filled in unless the caller does it, so that a prompt, and a golden file of it, is
// the same on every machine.
func HostEnv(dir string) Env {
	e := Env{OS: runtime.GOOS, Arch: runtime.GOARCH}
	if host, err := os.Hostname(); err == nil {
		e.Host = host
	}
	if abs, err := filepath.Abs(dir); err == nil {
		e.Dir, e.Repo = abs, repoOf(abs)
	}
	return e
}

// repoOf returns the nearest directory from dir upwards that holds a Git repository, or "".
func repoOf(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// Sandbox describes the container that a session's tools run in.
type Sandbox struct {
	Enabled     bool
	Dir         string // working directory inside the container; "": not told
	Mount       string // directory of the host that is mounted there
	Access      string // to the workspace: "none", "ro" or "rw"; "": not told
	BrowserURL  string // of a browser inside that people can watch
	HostBrowser Answer // whether the host's browser may be used
	// Elevated is the level of commands outside the container: "ask", "on", "full" or "off". "":
	// they are not possible.
	Elevated string
}

// An Answer is yes, no, or not told.
type Answer uint8

// The answers. AnswerUnset leaves the sentence out of the prompt.
const (
	AnswerUnset Answer = iota
	AnswerYes
	AnswerNo
)

var answerNames = []string{AnswerUnset: "unset", AnswerYes: "yes", AnswerNo: "no"}

// String returns "unset", "yes" or "no".
func (a Answer) String() string { return enum.String(answerNames, "Answer", a) }

// MarshalText returns what String returns, or an error for a value without a name.
func (a Answer) MarshalText() ([]byte, error) {
	return enum.Marshal(answerNames, "agentctx", "answer", a)
}

// UnmarshalText sets the value that has the name text, in any letter case. For any other text it
// returns an error and changes nothing.
func (a *Answer) UnmarshalText(text []byte) error {
	return enum.Unmarshal(answerNames, "agentctx", "answer", text, a)
}

// Channel is how people are reached and who they are.
type Channel struct {
	// Senders are the ids of the people whose instructions count. Each is shown as in the line
	// above a message that says who speaks, so that no other id reads like it; see docs/prompts.md.
	Senders []string
	// HashSenders shows each id as the first 12 hexadecimal digits of its SHA-256, or of its
	// HMAC-SHA-256 if there is a SenderSecret. With package agent the line above a message has the
	// same hash, so that no model sees an id of a person. A program that makes lines of its own
	// calls ShowSender. Without a secret the ids of a channel can be guessed from their hashes.
	HashSenders  bool
	SenderSecret []byte
	// Options are the destinations that the message tool takes.
	Options []string
	// Buttons says whether messages may carry buttons.
	Buttons Answer
	// Hints are remarks on the channel, one line each.
	Hints []string
	// Voice says how to write for speech. "": answers are not spoken.
	Voice string
	// Reactions is "minimal" or "extensive". "": the agent does not react with emoji.
	Reactions string
}

// ShowSender returns an id of a person as the list of Senders has it, in quotation marks.
func (c Channel) ShowSender(id string) string {
	form := textline.IDForm{Hashed: c.HashSenders, Secret: c.SenderSecret}
	return form.Show(strings.TrimSpace(id))
}

// An ActiveSubagent is a live sub-agent of the session.
type ActiveSubagent struct {
	Key   session.Key
	Name  string // what the session calls it; "": nothing
	Label string // shown as data, at most 48 characters of it
	State string // "queued", "running", "waiting"
	Task  string // shown as data, at most 160 runes of it
}

// Validate returns all fields without a meaning, each as a *[FieldError] in one error, or nil.
// Assemble accepts every Input. Validate is for a program that reads an Input from configuration
// and reports mistakes.
func (in Input) Validate() error {
	var list fieldErrors
	if !in.Session.IsValid() {
		list.add("Input.Session", "is not a session key")
	}
	list.within("Input", in.Spec.Validate())
	list.within("Input", in.Limits.Validate())
	if in.Layout > LayoutGoClaw {
		list.add("Input.Layout", "is %d, want at most %d (%s)", in.Layout, LayoutGoClaw,
			LayoutGoClaw)
	}
	if r := in.Channel.Reactions; !slices.Contains([]string{"", "minimal", "extensive"}, r) {
		list.add("Input.Channel.Reactions", "is %s, want minimal or extensive", textline.Quote(r))
	}
	if fault := textline.NameFault(in.Env.Zone); fault != "" {
		list.add("Input.Env.Zone", "is not the name of a time zone: %s", fault)
	}
	if a := in.Sandbox.Access; !slices.Contains([]string{"", "none", "ro", "rw"}, a) {
		list.add("Input.Sandbox.Access", "is %s, want none, ro or rw", textline.Quote(a))
	}
	if e := in.Sandbox.Elevated; !slices.Contains([]string{"", "ask", "on", "full", "off"}, e) {
		list.add("Input.Sandbox.Elevated", "is %s, want ask, on, full or off", textline.Quote(e))
	}
	for _, a := range []struct {
		field  string
		answer Answer
	}{{"Channel.Buttons", in.Channel.Buttons}, {"Sandbox.HostBrowser", in.Sandbox.HostBrowser}} {
		if int(a.answer) >= len(answerNames) {
			list.add("Input."+a.field, "is %d, want at most %d (%s)", a.answer, AnswerNo, AnswerNo)
		}
	}
	for i, s := range in.Extra {
		field := fmt.Sprintf("Input.Extra[%d]", i)
		if s.ID == "" {
			list.add(field+".ID", "is blank")
		}
		if int(s.Class) >= len(classNames) {
			list.add(field+".Class", "is %d, want at most %d", s.Class, ClassPerTurn)
		}
	}
	return list.join()
}

// A FieldError is a value without a meaning in a field of an [Input], [Spec] or [Limits].
type FieldError struct {
	Field  string // "Input.Limits.File"
	Reason string // "is -7, want ..."
}

func (e *FieldError) Error() string { return "agentctx: " + e.Field + " " + e.Reason }

// fieldErrors are the mistakes that a Validate method finds.
type fieldErrors []error

func (list *fieldErrors) add(field, format string, args ...any) {
	*list = append(*list, &FieldError{field, fmt.Sprintf(format, args...)})
}

// within adds the mistakes of a part under the name of the whole.
func (list *fieldErrors) within(whole string, err error) {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return
	}
	for _, err := range many.Unwrap() {
		if f, ok := errors.AsType[*FieldError](err); ok {
			*list = append(*list, &FieldError{whole + "." + f.Field, f.Reason})
		}
	}
}

// join returns the mistakes as one error, nil for none.
func (list fieldErrors) join() error {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Error returns one line for each mistake, of the first 20.
func (list fieldErrors) Error() string { return textline.List(list, "\n", error.Error) }

// Unwrap returns the mistakes one by one, each a [*FieldError].
func (list fieldErrors) Unwrap() []error { return list }
