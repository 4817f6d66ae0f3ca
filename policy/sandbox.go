package policy

import (
	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
)

// A SandboxMode says which sessions run in a sandbox. The program provides the sandbox; policy only
// says which sessions run in it.
type SandboxMode uint8

// The modes.
const (
	SandboxInherit SandboxMode = iota // what [Rules.Sandbox] says; there: off
	SandboxOff                        // no session
	SandboxNonMain                    // every session but the main session of its agent
	SandboxAll                        // every session
)

var sandboxModeNames = [...]string{
	SandboxInherit: "inherit", SandboxOff: "off", SandboxNonMain: "non-main", SandboxAll: "all",
}

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
	// Mode, agents.defaults.sandbox.mode, is for the agents that have no mode of their own.
	Mode SandboxMode

	// Decide, if set, decides in place of every Mode. It gets the agent and the key of the session.
	// The key of a sub-agent that is not made yet is zero. Decide must be safe for concurrent use,
	// and always give the same answer. It is called for every spawn and at the start of every turn,
	// of which it is asked about each session from the top-level one down, so it should be quick. A
	// call of a tool asks again only where the rules, or the people for whom the turn works, have
	// changed since. A spawn whose call of Decide panics is refused.
	Decide func(agent string, key session.Key) bool

	// Tools narrow what sandboxed sessions may use. A nil Allow is [SandboxAllow] and a nil Deny is
	// [SandboxDeny]. An empty Allow allows everything, an empty Deny denies nothing.
	Tools ToolRules

	// SeeAll leaves [Rules.Visibility] as it is for sandboxed sessions. Without it they see at most
	// the sessions below them.
	SeeAll bool
}

// Sandboxed reports whether the session of that key runs in a sandbox.
func (r *Rules) Sandboxed(key session.Key) bool {
	id := r.AgentOf(key)
	return r.sandboxed(id, r.agent(id), key, key.IsMain())
}

// sandboxed is Sandboxed for a session of agent a, whose id is id. The key is zero for a sub-agent
// whose key is not made yet.
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
	return true // an unknown mode fails closed
}

// sandboxMode returns the mode that says whether sessions of an agent are in a sandbox, and where
// it is set. The mode is empty where [Sandbox.Decide] says it.
func (r *Rules) sandboxMode(a *Agent) (mode string, at place) {
	own := r.Sandbox.Mode
	switch at = sandboxModePlace; {
	case r.Sandbox.Decide != nil:
		return "", place{path: "Rules.Sandbox.Decide"}
	case a != nil && a.Sandbox != SandboxInherit:
		own, at = a.Sandbox, r.agentPlace(a.ID).dot("Sandbox", "sandbox.mode")
	}
	if own == SandboxInherit {
		own = SandboxOff
	}
	return own.String(), at
}
