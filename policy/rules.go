package policy

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// Off is a duration of [Subagents] or [Request], or a limit of [Rules] or [Subagents], that means
// "none": without a timeout, never archived, without a limit. It differs from zero, which takes
// what the next level says. It is an untyped constant, because a limit is an int and a duration is
// not.
const Off = -1

// The limits that apply where [Rules] say nothing. The limits without a default are unlimited.
const (
	defaultSpawnDepth = 1
	defaultChildren   = 5
	defaultConcurrent = 8
	defaultSessions   = 64
	defaultBlocked    = 50
	defaultRequest    = 100
	defaultArchive    = time.Hour
)

// The greatest limits that [Rules.Validate] accepts.
const (
	MaxSpawnDepth = 5
	MaxChildren   = 20
)

// Rules are the whole configuration of this package: plain data, apart from the one function that
// [Sandbox] may hold. The path in a field's comment is its place in the JSON configuration, which
// refusals name.
//
// The zero value has the defaults of OpenClaw, the reference system of the field: one level of
// sub-agents, five active children a session, eight turns of sub-agents at a time, runs archived
// after an hour, an agent that spawns only itself, sessions outside any sandbox, and sub-agents
// without the session and system tools. Of top-level sessions 64 turns run at a time, not 4.
//
// No method changes Rules. They may be used by any number of goroutines while none changes them.
type Rules struct {
	Subagents Subagents // agents.defaults.subagents: for every agent that does not say otherwise
	// Agents, agents.list, are the configured agents; the first is the default agent. Without any,
	// every agent has what the other fields say. With one, an agent that is not in the list has no
	// tools and no sub-agents; see [Rules.CheckAgent].
	Agents []Agent
	// Budget, agents.defaults.budget, is that of each tree, for as long as the tree lives: nothing
	// gives back what was spent. It may be exceeded by what the turns spend that are under way when
	// it runs out. A zero field does not limit.
	Budget Budget
	// RequestBudget, agents.defaults.requestBudget, is that of each request of a person: of the
	// turns of the top-level session that work for it, and of all runs that come of it; see
	// [Subagents.MaxRunsPerRequest]. A next message of the person begins a request that has spent
	// nothing. A run that a program spawns outside of a turn is a request of its own. It may be
	// exceeded as Budget may. A zero field does not limit.
	RequestBudget Budget

	// MaxSessions, agents.defaults.maxConcurrent, is how many turns of top-level sessions may be
	// under way at a time, over all of them; from 1, default 64; [Off]: without a limit. Turns of
	// sub-agents have [Subagents.MaxConcurrent].
	MaxSessions int

	// KeepArchives, session.keepArchivesMinutes, is how long the transcripts and files of what was
	// archived are kept: of sub-agents, and of conversations before a reset. Then they are removed
	// for good. Zero: for ever.
	KeepArchives time.Duration

	SubagentTools ToolRules  // tools.subagents.tools: what sub-agents may use
	Tools         ToolPolicy // tools: what every session may use, top-level ones too

	// DefaultDeny is what sub-agents are denied unless SubagentTools name it. Nil means the list
	// that the function [DefaultDeny] returns; empty means that nothing is denied by default.
	DefaultDeny []string

	// Groups are tool groups beside the built-in ones: "group:crm" to names and globs.
	Groups map[string][]string
	// Chats say what the sessions of some conversations may use, and so every session below them.
	Chats []Chat

	// Owners, commands.ownerAllowFrom, are the people whose bot it is. Nil: nothing is known of
	// that, so that every person counts as one. Empty: no person is, but those of whom the program
	// says so. Who owns the bot is decided anew for every turn and call.
	Owners []Person
	// OwnerOnly, tools.ownerOnly, is what owners alone may use, by name, glob or group: a turn that
	// answers another person may not, nor what it spawns. Nil means the list that
	// [DefaultOwnerOnly] returns; empty means nothing. It has no effect where Owners are nil.
	OwnerOnly []string
	// Senders, tools.toolsBySender, are the tools by sender in every conversation. See
	// [Rules.ForSenders].
	Senders []SenderTools

	// Attachments, tools.sessions_spawn.attachments: what sub-agents may be given.
	Attachments Attachments

	Sandbox      Sandbox      // agents.defaults.sandbox: which sessions run in a sandbox
	Visibility   Visibility   // tools.sessions.visibility: what a session sees; zero: tree
	AgentToAgent AgentToAgent // tools.agentToAgent: whether visibility all crosses agents
}

// An Agent is one entry of agents.list.
type Agent struct {
	ID      string      // a letter or digit, then up to 63 of those, _ and -; in any case
	Name    string      // what agents_list calls it: a line of at most 64 bytes, or empty
	Model   string      // what its top-level sessions run on; for a sub-agent the last resort
	Skills  []string    // what its sessions may see; nil: all, empty: none; see docs/skills.md
	Tools   ToolPolicy  // what its sessions may use and hand down
	Sandbox SandboxMode // zero: what [Rules.Sandbox] says

	// SandboxTools, the agent's tools.sandbox.tools, are what its sandboxed sessions may use. A nil
	// Allow or Deny is that of [Rules.Sandbox].
	SandboxTools ToolRules

	// Subagents hold AllowAgents, RequireAgentID, Model, Thinking and Announce of the agent. The
	// other fields must be zero: they have one value for all agents. AllowAgents and RequireAgentID
	// are those of the agent that spawns, the others those of the agent that is spawned.
	Subagents Subagents

	// ShareHistory lets sub-agents of other agents begin with the conversation of a session of this
	// one, see [Request.Fork]: with what people have told it, and what its tools have returned. A
	// sub-agent of the same agent always may. False: those of other agents may not.
	ShareHistory bool
}

// Subagents limit what may be spawned, and say with what it runs.
type Subagents struct {
	MaxSpawnDepth int // how deep a tree may be: 1 to 5 levels of sub-agents, default 1
	// MaxChildren is how many active children one session may have: 1 to 20, default 5. A spawn
	// beyond it is refused, and not queued: the requester spawns again when a child has ended.
	MaxChildren   int
	MaxConcurrent int // turns under way in the lane: from 1, default 8
	MaxSpawns     int // children of one sub-agent in its life, ended ones included; 0: unlimited
	MaxTreeRuns   int // runs that a tree may have in its life; 0: unlimited
	// MaxRunsPerRequest bounds the runs that models spawn for one request of a person: from 1,
	// default 100; [Off]: unlimited. A request is the newest message that the top-level session has
	// read. What is spawned for it, and the ends of those runs, belong to it, and so it stops a
	// model that answers each result with another spawn. Runs that a program spawns do not count.
	MaxRunsPerRequest int
	MaxBlocked        int // undeliverable completions that refuse new spawns, half warn; default 50

	Timeout time.Duration // of one run, from its first turn; zero and [Off]: none
	// MaxTimeout is the longest that a run may take, whatever a model or a program asks for, and of
	// Timeout too. A spawn that asks for more, or for none, gets MaxTimeout and a warning. Zero:
	// without a limit, so that a model may ask for a run that never times out.
	MaxTimeout   time.Duration
	ArchiveAfter time.Duration // after the end of a run; default one hour; [Off]: never
	// Budget is that of one run and everything below it, for the life of the run. It may be
	// exceeded by what the turns spend that are under way when it runs out. A zero field does not
	// limit.
	Budget Budget

	Model    string       // "provider/model"; empty: the caller's
	Thinking string       // a level that [ParseThinking] knows; empty: the caller's
	Announce AnnounceStep // where the announcement's text comes from; default reply

	// AllowAgents are the ids that an agent may spawn beside its own; "*" is every configured
	// agent. Nil is what the next level says, after the last level an empty list.
	AllowAgents []string
	// RequireAgentID says whether a spawn must name its agent. Nil is what the next level says,
	// after the last level false.
	RequireAgentID *bool
}

// An AnnounceStep is where the text of an announcement comes from.
type AnnounceStep uint8

// The steps.
const (
	AnnounceInherit AnnounceStep = iota // what the next level says, at last [AnnounceReply]
	AnnounceReply                       // the final text of the sub-agent
	AnnounceTurn                        // one more turn in its session, of a run that ends well
)

var announceStepNames = [...]string{AnnounceInherit: "inherit", AnnounceReply: "reply", AnnounceTurn: "turn"}

// String returns the word for s, such as "turn".
func (s AnnounceStep) String() string { return enum.String(announceStepNames[:], "AnnounceStep", s) }

// MarshalText returns the word for s. A value that is not an AnnounceStep is an error.
func (s AnnounceStep) MarshalText() ([]byte, error) {
	return enum.Marshal(announceStepNames[:], "policy", "announce step", s)
}

// UnmarshalText sets s to the AnnounceStep that text is the word for, in any letter case of ASCII.
func (s *AnnounceStep) UnmarshalText(text []byte) error {
	return enum.Unmarshal(announceStepNames[:], "policy", "announce step", text, s)
}

// A Budget is an amount of what costs money. Where it is a limit, a zero field does not limit.
type Budget struct {
	Tokens int64   `json:"tokens,omitzero"` // of input and output
	Cost   float64 `json:"cost,omitzero"`   // in US dollars
	// Turns counts each turn as it begins. One that has begun is paid for: it makes its calls, also
	// when those below it have used up the rest, and spawns nothing more.
	Turns int `json:"turns,omitzero"`
}

// tighter returns the tighter of two limits, field by field.
func (b Budget) tighter(c Budget) Budget {
	return Budget{
		Tokens: tighter(b.Tokens, c.Tokens), Cost: tighter(b.Cost, c.Cost),
		Turns: tighter(b.Turns, c.Turns),
	}
}

// tighter returns the lesser of two limits, of which zero means unlimited.
func tighter[T int | int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// MaxSpawnDepth returns how many levels of sub-agents a tree may have.
func (r *Rules) MaxSpawnDepth() int { return limit(r.Subagents.MaxSpawnDepth, defaultSpawnDepth) }

// MaxChildren returns how many active children one session may have.
func (r *Rules) MaxChildren() int { return limit(r.Subagents.MaxChildren, defaultChildren) }

// MaxConcurrent returns how many turns of sub-agents may be under way in the lane.
func (r *Rules) MaxConcurrent() int { return limit(r.Subagents.MaxConcurrent, defaultConcurrent) }

// SessionLimit returns how many turns of top-level sessions may be under way at a time. Off is
// [math.MaxInt].
func (r *Rules) SessionLimit() int {
	if r.MaxSessions == Off {
		return math.MaxInt
	}
	return limit(r.MaxSessions, defaultSessions)
}

// MaxRunsPerRequest returns how many runs models may spawn for one request, [Off] for any number.
func (r *Rules) MaxRunsPerRequest() int {
	if r.Subagents.MaxRunsPerRequest == Off {
		return Off
	}
	return limit(r.Subagents.MaxRunsPerRequest, defaultRequest)
}

// MaxBlocked returns how many undeliverable completions in a tree refuse new spawns.
func (r *Rules) MaxBlocked() int { return limit(r.Subagents.MaxBlocked, defaultBlocked) }

// limit returns v; for zero the default; and 1 for a negative value, which [Rules.Validate]
// refuses.
func limit(v, byDefault int) int {
	switch {
	case v == 0:
		return byDefault
	case v < 0:
		return 1
	}
	return v
}

// ArchiveAfter returns how long after its end a run is archived, [Off] for never.
func (r *Rules) ArchiveAfter() time.Duration {
	switch d := r.Subagents.ArchiveAfter; {
	case d == 0:
		return defaultArchive
	case d < 0:
		return Off
	default:
		return d
	}
}

// DefaultAgent returns the id of the first configured agent, "main" if there is none.
func (r *Rules) DefaultAgent() string {
	if len(r.Agents) == 0 {
		return session.DefaultAgent
	}
	return canonicalID(r.Agents[0].ID)
}

// AgentOf returns the id of the agent that runs a session: that of its key, or the default agent
// for the global session, whose key has none. Every setting of an agent goes by it.
func (r *Rules) AgentOf(key session.Key) string {
	if id := key.Agent(); id != "" {
		return id
	}
	return r.DefaultAgent()
}

// Agent returns the configured agent of that id, in any case; ok is false without one.
func (r *Rules) Agent(id string) (a Agent, ok bool) {
	if found := r.agent(canonicalID(id)); found != nil {
		return *found, true
	}
	return Agent{}, false
}

// SessionModel returns what a top-level session runs on: the Model of its agent's entry, else the
// one that the program gives to all.
func (r *Rules) SessionModel(key session.Key, ofAll string) string {
	if a := r.agent(r.AgentOf(key)); a != nil {
		if own := strings.TrimSpace(a.Model); own != "" {
			return own
		}
	}
	return strings.TrimSpace(ofAll)
}

// ModelFault says in a clause why no session can run on the model of that name; "": one can. Outer
// space does not matter. The empty name has a fault.
func ModelFault(name string) string {
	if IsModelName(strings.TrimSpace(name)) {
		return ""
	}
	return fmt.Sprintf("it is %s, want %s", text.Quote(name), wantModel)
}

// AgentName returns the Name of the agent of that id, in any case.
func (r *Rules) AgentName(id string) string {
	if a := r.agent(canonicalID(id)); a != nil {
		return a.Name
	}
	return ""
}

// SharesHistory reports whether a sub-agent of the agent of that id, in any case, may begin with
// the conversation of the session from: the agent is that of from, or that one has ShareHistory.
func (r *Rules) SharesHistory(from session.Key, id string) bool {
	p := r.agentsOf(from, id)
	return p.sharesHistory()
}

// Knows reports whether id can be that of an agent by these Rules: one of [Rules.Agents], in any
// case, or main, which the sessions of a program have without being configured.
func (r *Rules) Knows(id string) bool {
	id = canonicalID(id)
	return id == session.DefaultAgent || r.agent(id) != nil
}

// CheckAgent returns a [*Refusal] by [RuleTarget] if the agent of a session is not one of
// [Rules.Agents]; else nil. The key of a sub-agent is checked like that of its agent.
func (r *Rules) CheckAgent(key session.Key) error {
	id := r.AgentOf(key)
	if r.lists(r.agent(id)) {
		return nil
	}
	refusal := r.refuseUnlisted(id)
	refusal.Op = "session"
	return refusal
}

// lists reports whether an agent, nil for one that is not configured, may have sessions.
func (r *Rules) lists(a *Agent) bool { return a != nil || len(r.Agents) == 0 }

// agent returns the configured agent of a canonical id, or nil. The first of two with the same id
// wins.
func (r *Rules) agent(id string) *Agent {
	for i := range r.Agents {
		if a := &r.Agents[i]; len(a.ID) == len(id) && strings.EqualFold(a.ID, id) {
			return a
		}
	}
	return nil
}

func canonicalID(id string) string { return strings.ToLower(strings.TrimSpace(id)) }

// maxAgentName is how many bytes the Name of an agent has at most.
const maxAgentName = 64

const wantAgentName = "one line of at most 64 bytes of what can be seen"

// wantID is what validID asks for.
const wantID = "a letter or digit, then up to 63 of those, _ and -, but neither subagent nor spawn"

// validID reports whether id names an agent, in any case.
func validID(id string) bool {
	_, err := session.MainKey(id)
	return err == nil
}
