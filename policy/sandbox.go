package policy

import (
	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
)

// A SandboxMode says which sessions run in a sandbox. What a sandbox is, is the caller's business; policy says who is in one.
type SandboxMode uint8

// The modes.
const (
	SandboxInherit SandboxMode = iota // what [Rules.Sandbox] says; there: off
	SandboxOff                        // none
	SandboxNonMain                    // every session but the main session of its agent
	SandboxAll                        // every session
)

var sandboxModeNames = [...]string{SandboxInherit: "inherit", SandboxOff: "off", SandboxNonMain: "non-main", SandboxAll: "all"}

// String returns the word for m, such as "non-main".
func (m SandboxMode) String() string { return enum.String(sandboxModeNames[:], "SandboxMode", m) }

// MarshalText returns the word for m. A value that is not a SandboxMode is an error.
func (m SandboxMode) MarshalText() ([]byte, error) {
	return enum.Marshal(sandboxModeNames[:], "policy", "sandbox mode", m)
}

// UnmarshalText sets m to the SandboxMode that text is the word for, in any letter case of ASCII.
func (m *SandboxMode) UnmarshalText(text []byte) error {
	return enum.Unmarshal(sandboxModeNames[:], "policy", "sandbox mode", text, m)
}

// A Sandbox says which sessions run in a sandbox, and what they may do there.
type Sandbox struct {
	Mode SandboxMode // agents.defaults.sandbox.mode, for the agents that have none of their own

	// Decide, if set, decides in place of every Mode. It is told the agent and the key of the session; where the key of a sub-agent
	// is not made yet, the key is zero. It must be quick, safe for concurrent use, and always give the same answer.
	Decide func(agent string, key session.Key) bool

	// SubagentTools say what sandboxed sessions may use, whatever else they may. A nil Allow or Deny is [SandboxAllow] or [SandboxDeny];
	// an empty Allow allows everything, an empty Deny denies nothing.
	Tools ToolRules

	// SeeAll leaves [Rules.Visibility] as it is for sandboxed sessions. Without it they see at most what they spawned.
	SeeAll bool
}

// Sandboxed reports whether the session of that key runs in a sandbox.
func (r *Rules) Sandboxed(key session.Key) bool {
	id := r.agentOf(key)
	return r.sandboxed(id, r.agent(id), key, key.IsMain())
}

// sandboxed is Sandboxed for a session whose agent is found, and whose key, as a sub-agent's, may not be made yet.
func (r *Rules) sandboxed(id string, a *Agent, key session.Key, main bool) bool {
	if r.Sandbox.Decide != nil {
		return r.Sandbox.Decide(id, key)
	}
	mode := r.Sandbox.Mode
	if a != nil && a.Sandbox != SandboxInherit {
		mode = a.Sandbox
	}
	switch mode {
	case SandboxInherit, SandboxOff:
		return false
	case SandboxNonMain:
		return !main
	case SandboxAll:
	}
	return true // what is none of the modes fails closed
}

// agentOf returns the agent that runs a session: that of the key, the default agent for the global session.
func (r *Rules) agentOf(key session.Key) string {
	if id := key.Agent(); id != "" {
		return id
	}
	return r.DefaultAgent()
}

// sandboxModePath returns where an agent's mode is set.
func (r *Rules) sandboxModePath(a *Agent) string {
	if r.Sandbox.Decide != nil {
		return "Rules.Sandbox.Decide"
	}
	if a != nil {
		return agentPath(a.ID) + ".sandbox.mode"
	}
	return sandboxPath + ".mode"
}
