package policy

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
)

// ToolRules select tools. An entry is a name, a glob in which * stands for any run of characters,
// or a group such as "group:fs" that stands for its members. Case and outer space do not matter,
// bash means exec, and apply-patch means apply_patch. The zero value removes nothing.
//
// Deny wins. An Allow that is not empty narrows to what it names; naming write there names
// apply_patch too. AlsoAllow adds to a profile; for sub-agents it lifts a default deny.
type ToolRules struct {
	Allow     []string
	AlsoAllow []string
	Deny      []string
}

// A ToolPolicy is what one level of the configuration says about tools: tools, or
// agents.list[].tools.
//
// It decides two sets. What a session may use follows from the profile, Allow and Deny. What it may
// hand down to sub-agents is the same set, unless Delegable says otherwise: then an agent that must
// not run commands itself can have workers that do.
type ToolPolicy struct {
	// Profile is "minimal", "coding", "messaging" or "full". Empty means full; for an agent it
	// means the profile of [Rules.Tools].
	Profile   string
	Allow     []string // narrows if not empty
	AlsoAllow []string // adds to the profile; of an agent in place of those of [Rules.Tools]
	Deny      []string // wins

	// ByProvider narrows further by the model that a session runs on. A key is a model, such as
	// "anthropic/claude-haiku-4-5", or a provider, such as "anthropic", for its models without an
	// entry of their own. Case does not matter. ByProvider and Delegable of an entry must be empty.
	//
	// Of a session whose model the Rules do not know, because it runs on the Runner's own default,
	// no entry narrows anything. What must hold for every model stands in Allow and Deny.
	ByProvider map[string]ToolPolicy

	// Delegable, of an agent only, is what its sessions may hand down in place of what they may
	// use. The ceiling that the sessions were given, and what holds for every session and every
	// sub-agent, still apply. AlsoAllow must be empty here.
	Delegable *ToolRules
}

// An AgentToAgent says whether [VisibilityAll] crosses agents. The zero one says no: agents see the
// sessions of each other, and write to them, with Visibility: VisibilityAll and Enabled: true.
type AgentToAgent struct {
	Enabled bool
	Allow   []string // globs of agent ids, both of which must match; empty: every agent
}

// A Chat says which tools the sessions of a conversation may use and hand down, and every turn that
// works for a person who has written there: a main session that serves rooms by their Route is
// bound by the rooms that a turn reads. Of several that match, the first that names the peer
// applies, else the first with a * as the peer.
type Chat struct {
	// Channel is one channel, as "telegram", in any case, as [session.Key.Channel] names it. What
	// holds for every channel stands in [Rules.Tools].
	Channel string
	// Peer is a group, channel or person as [session.Key.Peer] has it, in the spelling and letter
	// case of the channel. "*" is every one. There are no patterns.
	Peer  string
	Tools ToolRules
	// Senders are the tools by sender in the conversation, beside those of [Rules.Senders]. Both
	// only narrow: what others may not use stands here, under *, and what no one may in Tools.
	Senders []SenderTools
}

// DefaultDeny returns what sub-agents are denied by default: the session tools, agents_list, cron
// and gateway. A sub-agent that may have sub-agents of its own is not denied sessions_spawn,
// subagents, sessions_list, sessions_history and sessions_yield.
func DefaultDeny() []string { return slices.Clone(defaultDeny) }

var (
	defaultDeny       = slices.Concat(groupSessions, []string{"agents_list", "cron", "gateway"})
	orchestratorTools = []string{"sessions_spawn", "subagents", "sessions_list", "sessions_history", "sessions_yield"}
)

// The tools that have rules of their own.
const (
	toolSpawn = "sessions_spawn"
	toolWrite = "write"
	toolPatch = "apply_patch"
)

// SandboxAllow returns what a sandboxed session may use where [Sandbox.Tools] has no Allow.
func SandboxAllow() []string { return slices.Clone(sandboxAllow) }

// SandboxDeny returns what a sandboxed session may not use where [Sandbox.Tools] has no Deny.
func SandboxDeny() []string { return slices.Clone(sandboxDeny) }

var (
	sandboxAllow = slices.Concat([]string{"exec", "process"}, groupFS, []string{"image"}, groupSessions)
	sandboxDeny  = []string{"browser", "canvas", "nodes", "cron", "gateway"}
)

// deniedByRole reports whether a session of this role is denied a canonical name by default, and
// whether that holds whatever the rules name. An unknown role counts as a leaf.
func (r *Rules) deniedByRole(role session.Role, name string) (denied, forever bool) {
	switch {
	case role == session.RoleMain:
		return false, false
	case role != session.RoleOrchestrator && name == toolSpawn:
		return true, true
	case role == session.RoleOrchestrator && slices.Contains(orchestratorTools, name):
		return false, false
	case r.DefaultDeny == nil && !slices.Contains(defaultDeny, name):
		return false, false
	case r.DefaultDeny != nil:
		if _, ok := r.matchTool(r.DefaultDeny, name); !ok {
			return false, false
		}
	}
	t := &r.SubagentTools
	return !namesTool(t.Allow, name) && !namesTool(t.AlsoAllow, name), false
}

// namesTool reports whether a list has a canonical name itself, not by a glob or a group.
func namesTool(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return canonicalTool(entry) == name
	})
}
