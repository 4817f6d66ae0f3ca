package agentctx

import "fmt"

// A Class says how long a section stays the same. In a [Prompt] a section of
// a later class never precedes one of an earlier class.
type Class uint8

const (
	// Stable sections are the same for every session of an agent that has
	// the same spec, tools, sandbox and workspace.
	Stable Class = iota
	// PerSession sections are the same for every turn of a session.
	PerSession
	// PerTurn sections may differ from turn to turn.
	PerTurn
)

var classNames = [...]string{Stable: "stable", PerSession: "per-session", PerTurn: "per-turn"}

// String returns "stable", "per-session" or "per-turn".
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// MarshalText returns the class's name, or an error for a value that is not
// one of the three.
func (c Class) MarshalText() ([]byte, error) { return marshalName("Class", classNames[:], int(c)) }

// UnmarshalText accepts exactly the names that String returns.
func (c *Class) UnmarshalText(text []byte) error {
	i, err := unmarshalName("Class", classNames[:], text)
	if err == nil {
		*c = Class(i)
	}
	return err
}

// A Section is one part of a prompt.
type Section struct {
	// ID names the section; ours are the Section constants.
	ID string
	// Class says how long the section stays the same.
	Class Class
	// Text is what the model reads, heading included.
	Text string
	// Source says where the text came from: "built-in", "workspace",
	// "skills", "caller".
	Source string
	// Minimal keeps a section of the caller's own (see [Input.Extra]) in
	// Minimal mode too. It has no meaning in a Prompt and for the ids of
	// built-in sections, whose modes are fixed.
	Minimal bool
}

// The ids of the built-in sections, in the order of a full prompt.
const (
	SectionIdentity     = "identity"
	SectionTooling      = "tooling"
	SectionToolStyle    = "tool-call-style"
	SectionSafety       = "safety"
	SectionSkills       = "skills"
	SectionMemory       = "memory-recall"
	SectionSelfUpdate   = "self-update"
	SectionAliases      = "model-aliases"
	SectionWorkspace    = "workspace"
	SectionDocs         = "documentation"
	SectionSandbox      = "sandbox"
	SectionSenders      = "authorized-senders"
	SectionReplyTags    = "reply-tags"
	SectionMessaging    = "messaging"
	SectionVoice        = "voice"
	SectionReactions    = "reactions"
	SectionReasoning    = "reasoning-format"
	SectionProject      = "project-context"
	SectionSilent       = "silent-replies"
	SectionHeartbeats   = "heartbeats"
	SectionSubagent     = "subagent-context"
	SectionConversation = "conversation-context"
	SectionDate         = "date-and-zone"
	SectionDelegation   = "delegation"
	SectionActive       = "active-sub-agents"
	SectionRuntime      = "runtime"
	// SectionTask exists only under [PresetGoClaw].
	SectionTask = "task"
)

// A part is one line of the table of built-in sections.
type part struct {
	id      string
	class   Class
	minimal bool                 // kept in Minimal mode
	gate    func(*assembly) bool // nil: always; a replacement obeys it too
	text    func(*assembly) string
}

// parts returns the sections of a prompt in their order. A text function that
// returns "" leaves its section out.
func parts() []part {
	return []part{
		{SectionIdentity, Stable, true, nil, identityText},
		{SectionTooling, Stable, true, nil, toolingText},
		{SectionToolStyle, Stable, false, nil, toolStyleText},
		{SectionSafety, Stable, true, nil, safetyText},
		{SectionSkills, Stable, true, nil, skillsText},
		{SectionMemory, Stable, false, (*assembly).recalls, memoryText},
		{SectionSelfUpdate, Stable, false, (*assembly).updates, selfUpdateText},
		{SectionAliases, Stable, false, nil, aliasesText},
		{SectionWorkspace, Stable, true, nil, workspaceText},
		{SectionDocs, Stable, false, nil, docsText},
		{SectionSandbox, Stable, true, nil, sandboxText},
		{SectionSenders, Stable, false, nil, sendersText},
		{SectionReplyTags, Stable, false, nil, replyTagsText},
		{SectionMessaging, Stable, false, nil, messagingText},
		{SectionVoice, Stable, false, nil, voiceText},
		{SectionReactions, Stable, false, nil, reactionsText},
		{SectionReasoning, Stable, true, nil, reasoningText},
		{SectionProject, Stable, true, nil, projectText},
		{SectionSilent, Stable, false, nil, silentText},
		{SectionHeartbeats, Stable, false, nil, heartbeatsText},
		{SectionSubagent, PerSession, true, (*assembly).below, subagentText},
		{SectionConversation, PerSession, false, nil, conversationText},
		{SectionDate, PerTurn, true, nil, dateText},
		{SectionDelegation, PerTurn, false, (*assembly).delegates, delegationText},
		{SectionActive, PerTurn, false, nil, activeText},
		{SectionRuntime, PerTurn, true, nil, runtimeText},
	}
}
