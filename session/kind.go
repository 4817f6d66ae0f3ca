package session

import "github.com/offshoot-sdk/offshoot/internal/enum"

// A Kind is the kind of session that a [Key] names. The zero Kind is that of the zero Key.
//
// A Kind follows from the positions of the words in a key, not from substrings. So the text of a
// peer, an id or a name cannot change it.
type Kind uint8

// The kinds, with the form of their keys.
const (
	KindInvalid  Kind = iota // the zero Key and the reserved roots, which are not sessions
	KindMain                 // agent:<agent>:main
	KindThread               // agent:<agent>:main:thread|topic:<id>, a thread of the main session
	KindNamed                // agent:<agent>:<name>, such as a batch job; not a chat
	KindDirect               // agent:<agent>:[<channel>:[<account>:]]direct:<peer>
	KindGroup                // agent:<agent>:<channel>:group:<peer>
	KindChannel              // agent:<agent>:<channel>:channel:<peer>
	KindSubagent             // agent:<agent>:subagent|spawn:<id>, once for each level
	KindCron                 // agent:<agent>:cron:<job>[:run:<run>]
	KindACP                  // agent:<agent>:acp:<id>, a harness with the Agent Client Protocol
	KindHook                 // agent:<agent>:hook:<id>[:<id>...]
	KindGlobal               // global, one session for all agents and chats
)

var kindNames = [...]string{
	KindInvalid: "invalid", KindMain: "main", KindThread: "thread", KindNamed: "named",
	KindDirect: "direct", KindGroup: "group", KindChannel: "channel", KindSubagent: "subagent",
	KindCron: "cron", KindACP: "acp", KindHook: "hook", KindGlobal: "global",
}

// String returns the word for k, such as "subagent".
func (k Kind) String() string { return enum.String(kindNames[:], "Kind", k) }

// MarshalText returns the word for k. A value that is not a Kind is an error.
func (k Kind) MarshalText() ([]byte, error) { return enum.Marshal(kindNames[:], "session", "kind", k) }

// UnmarshalText sets k to the Kind whose word is text, in any letter case of ASCII. Other text is
// an error and leaves k as it is.
func (k *Kind) UnmarshalText(text []byte) error {
	return enum.Unmarshal(kindNames[:], "session", "kind", text, k)
}

// A Role says whether a session may start sub-agents. It is recorded when the session is made and
// is an upper bound from then on: see [Role.Ceiling].
type Role uint8

// The roles. The zero Role is RoleUnknown, that of a session without a record.
const (
	RoleUnknown      Role = iota // no role is recorded; refused wherever a role is needed
	RoleMain                     // a top-level session, which may start sub-agents
	RoleOrchestrator             // a sub-agent that may start sub-agents
	RoleLeaf                     // a sub-agent that may not
)

var roleNames = [...]string{
	RoleUnknown: "unknown", RoleMain: "main", RoleOrchestrator: "orchestrator", RoleLeaf: "leaf",
}

// RoleAt returns the role of a session at the given depth of its tree. It is [RoleMain] at depth 0,
// [RoleOrchestrator] at a depth below maxSpawnDepth, and else [RoleLeaf]. A negative depth is not
// known, and gives [RoleUnknown].
func RoleAt(depth, maxSpawnDepth int) Role {
	switch {
	case depth < 0:
		return RoleUnknown
	case depth == 0:
		return RoleMain
	case depth < maxSpawnDepth:
		return RoleOrchestrator
	}
	return RoleLeaf
}

// String returns the word for r, such as "leaf".
func (r Role) String() string { return enum.String(roleNames[:], "Role", r) }

// MarshalText returns the word for r. A value that is not a Role is an error.
func (r Role) MarshalText() ([]byte, error) { return enum.Marshal(roleNames[:], "session", "role", r) }

// UnmarshalText sets r to the Role whose word is text, in any letter case of ASCII. Other text is
// an error and leaves r as it is.
func (r *Role) UnmarshalText(text []byte) error {
	return enum.Unmarshal(roleNames[:], "session", "role", text, r)
}

// Ceiling returns the role of a session today: the lesser of r, which was recorded when the session
// was made, and now, which [RoleAt] gives under today's limit. A lower limit demotes a session at
// once, and a higher one never promotes it. The result is [RoleUnknown] if either role is unknown,
// or if they disagree on whether the session is a sub-agent.
func (r Role) Ceiling(now Role) Role {
	switch {
	case r == now:
		return r
	case r == RoleOrchestrator && now == RoleLeaf, r == RoleLeaf && now == RoleOrchestrator:
		return RoleLeaf
	}
	return RoleUnknown
}

// MaySpawn reports whether a session of this role may start sub-agents. Such a session also
// controls them: it may steer and stop those that it started, and those below. A session that may
// not start sub-agents controls none. Which sessions it may see is a matter of configuration, not
// of its role.
func (r Role) MaySpawn() bool { return r == RoleMain || r == RoleOrchestrator }

// A DirectScope says which direct chats share a session. It is the setting that configurations call
// dmScope; an adapter that reads such a configuration makes its keys by [DirectScope.Key].
type DirectScope uint8

// The scopes, with what has a session of its own in each.
const (
	DirectMain           DirectScope = iota // nothing: direct chats are the main session
	DirectPerPeer                           // each person, on all channels
	DirectPerChannelPeer                    // each person on each channel
	DirectPerAccount                        // each person on each channel and account of the bot
)

var directScopeNames = [...]string{
	DirectMain: "main", DirectPerPeer: "per-peer", DirectPerChannelPeer: "per-channel-peer",
	DirectPerAccount: "per-account-channel-peer",
}

// String returns the word for s in configurations, such as "per-channel-peer".
func (s DirectScope) String() string { return enum.String(directScopeNames[:], "DirectScope", s) }

// MarshalText returns the word for s. A value that is not a DirectScope is an error.
func (s DirectScope) MarshalText() ([]byte, error) {
	return enum.Marshal(directScopeNames[:], "session", "direct scope", s)
}

// UnmarshalText sets s to the DirectScope whose word is text, in any letter case of ASCII. Other
// text is an error and leaves s as it is.
func (s *DirectScope) UnmarshalText(text []byte) error {
	return enum.Unmarshal(directScopeNames[:], "session", "direct scope", text, s)
}
