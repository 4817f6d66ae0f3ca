package agentctx

import (
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
)

// Input is everything that a prompt depends on. Only Session needs a value;
// whatever is left zero leaves its section out or takes the default that is
// named with it. [Assemble] changes nothing in it and keeps no part of it.
type Input struct {
	// Session is whose prompt this is.
	Session session.Key
	// Lineage is the session's record in its tree. Zero: taken from the key.
	Lineage session.Lineage
	// Spec says which files and skills are seen and how much of the prompt
	// there is; what it leaves open comes from [SpecFor], or from [WorkerSpec] if
	// the Lineage is that of a sub-agent.
	Spec Spec
	// Layout arranges the prompt as another system does.
	Layout Layout

	// Product is the name in the identity line; "": no name.
	Product string
	// Files are the workspace's, from [LoadWorkspace] or a [Loader].
	Files []WorkspaceFile
	// Markers are the names of the files whose absence the prompt mentions.
	// nil: [MarkedFiles]; empty: none.
	Markers []string
	// Limits bound the files and skills.
	Limits Limits
	// Tools are those that the session really has; no other is mentioned.
	// They are listed by name, whatever their order.
	Tools []Tool
	// Skills are those that may be mentioned if the Spec lets them through.
	Skills []Skill
	// Env is what the prompt says about where the agent runs.
	Env Env
	// Sandbox describes the container that the tools run in; zero: none.
	Sandbox Sandbox
	// Subagent is what the Subagent Context of a sub-agent says. Zero: what
	// the key and the Lineage tell.
	Subagent Subagent
	// Channel is how people are reached.
	Channel Channel
	// Docs is where the product's documentation lies; "": nowhere.
	Docs string
	// Notes are remarks on the workspace, one line each.
	Notes []string
	// Aliases are short names of models.
	Aliases map[string]string
	// HideCitations keeps paths of memory files out of answers.
	HideCitations bool
	// ReasoningTags asks for reasoning inside <think> and answers inside
	// <final>, for models that do not separate them themselves.
	ReasoningTags bool
	// HeartbeatPrompt is the text of a heartbeat message; "": not told.
	HeartbeatPrompt string
	// Conversation describes the group or conversation that a session serves
	// that is not a sub-agent.
	Conversation string
	// ActiveSubagent are the session's live sub-agents.
	Active []ActiveSubagent
	// Now is the time of the turn, of which the date and the zone are
	// written. Zero: neither.
	Now time.Time
	// Task is the task of a sub-agent. The default prompt does not repeat it
	// (it is the first message, see [TaskMessage]); LayoutGoClaw does.
	Task string

	// Extra are sections of the caller's own, trusted as they are. An ID of
	// ours replaces that section's text where it would stand; any other adds
	// a section at the end of its class, in Full mode only unless its Minimal
	// is set. Of sections with one ID the last counts.
	Extra []Section
	// OverflowDrop are the ids of sections to leave out.
	Drop []string
	// Order moves sections: within each class the first of those named stays
	// where it is and each of the others follows the one named before it.
	Order []string
}

// A Tool is a tool as the prompt mentions it.
type Tool struct {
	Name    string
	Summary string // one line
}

// A Skill is a skill as the prompt mentions it.
type Skill struct {
	Name        string
	Description string // one line
	Path        string // where its SKILL.md can be read by the session's tools
}

// Env is what the prompt says about where the agent runs. Blank fields are
// left out.
type Env struct {
	Host         string
	OS           string // "linux"
	Arch         string // "arm64"
	Repo         string // root of the repository that Dir is in
	Dir          string // working directory of the tools
	Shell        string
	Model        string // "provider/model" of this turn
	DefaultModel string
	Thinking     string   // level
	Reasoning    string   // whether people see the reasoning: "on", "off", "stream"
	Zone         string   // name of the user's time zone; "": that of Input.Now
	Channel      string   // "telegram"
	Capabilities []string // of the channel
}

// Sandbox describes the container that a session's tools run in.
type Sandbox struct {
	Enabled     bool
	Dir         string // working directory inside
	Mount       string // directory of the host that is mounted there
	Access      string // "none", "ro" or "rw"; "": not told
	BrowserURL  string // of a browser inside that people can watch
	HostBrowser Answer // whether the host's browser may be used
	Elevated    string // "": commands outside are not possible; else the level: "ask", "on", "full", "off"
}

// An Answer is yes, no, or not told.
type Answer uint8

// The answers.
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
	// Senders are the ids of the people whose instructions count.
	Senders []string
	// HashSenders shows each id as the first 12 hexadecimal digits of its
	// SHA-256, or of its HMAC-SHA-256 if there is a SenderSecret.
	HashSenders  bool
	SenderSecret []byte
	// Options are the destinations that the message tool may be given.
	Options []string
	// Buttons says whether messages may carry buttons.
	Buttons Answer
	// Hints are remarks on the channel, one line each.
	Hints []string
	// Voice says how to write for speech; "": nothing is spoken.
	Voice string
	// Reactions is "minimal" or "extensive"; "": no reactions.
	Reactions string
}

// ActiveSubagent is a live sub-agent of the session.
type ActiveSubagent struct {
	Key   session.Key
	Label string
	State string // "queued", "running", "waiting"
	Task  string // shown as data, shortened
}

// Validate returns an error that names the first field that has no meaning.
// Assemble does not need it: it is for those who load an Input from
// configuration and want to hear of mistakes.
func (in Input) Validate() error {
	if !in.Session.IsValid() {
		return fmt.Errorf("agentctx: Input.Session is not a session key")
	}
	if err := in.Spec.Validate(); err != nil {
		return err
	}
	if err := in.Limits.Validate(); err != nil {
		return err
	}
	if in.Layout > LayoutGoClaw {
		return fmt.Errorf("agentctx: Input.Layout is %d, want at most %d (%s)", in.Layout, LayoutGoClaw, LayoutGoClaw)
	}
	if r := in.Channel.Reactions; !slices.Contains([]string{"", "minimal", "extensive"}, r) {
		return fmt.Errorf("agentctx: Input.Channel.Reactions is %q, want minimal or extensive", r)
	}
	if a := in.Sandbox.Access; !slices.Contains([]string{"", "none", "ro", "rw"}, a) {
		return fmt.Errorf("agentctx: Input.Sandbox.Access is %q, want none, ro or rw", a)
	}
	for i, s := range in.Extra {
		if s.ID == "" {
			return fmt.Errorf("agentctx: Input.Extra[%d].ID is blank", i)
		}
		if int(s.Class) >= len(classNames) {
			return fmt.Errorf("agentctx: Input.Extra[%d].Class is %d, want at most %d", i, s.Class, ClassPerTurn)
		}
	}
	return nil
}
