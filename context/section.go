package agentctx

import "github.com/offshoot-sdk/offshoot/internal/enum"

// A Class says how long a section stays the same. In a [Prompt] a section of a later class never
// precedes one of an earlier class. The zero Class is ClassStable.
type Class uint8

const (
	// ClassStable sections are the same for all sessions of an agent with the same spec, tools,
	// sandbox and workspace, and of one sort, see [Prompt.StablePrefix].
	ClassStable Class = iota
	// ClassPerSession sections are the same for every turn of a session.
	ClassPerSession
	// ClassPerTurn sections may differ from turn to turn.
	ClassPerTurn
)

var classNames = []string{
	ClassStable: "stable", ClassPerSession: "per-session", ClassPerTurn: "per-turn",
}

// String returns "stable", "per-session" or "per-turn".
func (c Class) String() string { return enum.String(classNames, "Class", c) }

// MarshalText returns what String returns, or an error for a value without a name.
func (c Class) MarshalText() ([]byte, error) {
	return enum.Marshal(classNames, "agentctx", "section class", c)
}

// UnmarshalText sets the value that has the name text, in any letter case. For any other text it
// returns an error and changes nothing.
func (c *Class) UnmarshalText(text []byte) error {
	return enum.Unmarshal(classNames, "agentctx", "section class", text, c)
}

// A Section is one part of a prompt.
type Section struct {
	// ID names the section. The Section constants are the ids of the built-in sections.
	ID string
	// Class says how long the section stays the same.
	Class Class
	// Text is what the model reads, with its heading.
	Text string
	// Source says where the text comes from: "built-in", "workspace", "skills", or what the caller
	// wrote. A blank Source of the caller becomes "caller".
	Source string
	// Minimal keeps a section of the caller (see [Input.Extra]) in ModeMinimal too. It has no
	// meaning in a Prompt, nor for the ids of built-in sections, whose modes are fixed.
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
	// SectionTask exists only under [LayoutGoClaw].
	SectionTask = "task"
)

// A part is one line of the table of built-in sections.
type part struct {
	id      string
	class   Class
	minimal bool                 // kept in ModeMinimal
	gate    func(*assembly) bool // nil: open; a replacement by the caller obeys it too
	render  func(*assembly) string
}

// defaultParts are the built-in sections of LayoutDefault in their order. A render function that
// returns "" leaves its section out.
var defaultParts = [...]part{
	{SectionIdentity, ClassStable, true, nil, identityText},
	{SectionTooling, ClassStable, true, nil, toolingText},
	{SectionToolStyle, ClassStable, false, nil, toolStyleText},
	{SectionSafety, ClassStable, true, nil, safetyText},
	{SectionSkills, ClassStable, true, nil, skillsText},
	{SectionMemory, ClassStable, false, (*assembly).hasMemoryTools, memoryText},
	{SectionSelfUpdate, ClassStable, false, (*assembly).hasGateway, selfUpdateText},
	{SectionAliases, ClassStable, false, nil, aliasesText},
	{SectionWorkspace, ClassStable, true, nil, workspaceText},
	{SectionDocs, ClassStable, false, nil, docsText},
	{SectionSandbox, ClassStable, true, nil, sandboxText},
	{SectionSenders, ClassStable, false, nil, sendersText},
	{SectionReplyTags, ClassStable, false, (*assembly).repliesToPeople, replyTagsText},
	{SectionMessaging, ClassStable, false, (*assembly).repliesToPeople, messagingText},
	{SectionVoice, ClassStable, false, (*assembly).repliesToPeople, voiceText},
	{SectionReactions, ClassStable, false, (*assembly).repliesToPeople, reactionsText},
	{SectionReasoning, ClassStable, true, nil, reasoningText},
	{SectionProject, ClassStable, true, nil, projectText},
	{SectionSilent, ClassStable, true, (*assembly).repliesToPeople, silentText},
	{SectionHeartbeats, ClassStable, false, (*assembly).isWatchful, heartbeatsText},
	{SectionSubagent, ClassPerSession, true, (*assembly).onlySubagent, subagentText},
	{SectionConversation, ClassPerSession, false, nil, conversationText},
	{SectionDate, ClassPerTurn, true, nil, dateText},
	{SectionDelegation, ClassPerTurn, true, (*assembly).maySpawn, delegationText},
	{SectionActive, ClassPerTurn, true, nil, activeText},
	{SectionRuntime, ClassPerTurn, true, nil, runtimeText},
}
