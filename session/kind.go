package session

import (
	"github.com/offshoot-sdk/offshoot/internal/enum"
)

// A Kind is what a key says about the session that it names. The zero Kind is that of the zero Key.
//
// A Kind is read from the position of the words in a key, never from a substring, so no peer, id or
// name can change it.
type Kind uint8

// The kinds, with the form of the keys of each.
const (
	KindInvalid  Kind = iota // the zero Key and the reserved roots: no session
	KindMain                 // agent:<agent>:main
	KindThread               // agent:<agent>:main:thread|topic:<id>, a thread of the main session
	KindNamed                // agent:<agent>:<name>, not a chat: a batch job, a test
	KindDirect               // agent:<agent>:[<channel>:[<account>:]]direct:<peer>
	KindGroup                // agent:<agent>:<channel>:group:<peer>
	KindChannel              // agent:<agent>:<channel>:channel:<peer>
	KindSubagent             // agent:<agent>:subagent|spawn:<id>, once for each level
	KindCron                 // agent:<agent>:cron:<job>[:run:<run>]
	KindACP                  // agent:<agent>:acp:<id>, an external harness that speaks the Agent Client Protocol
	KindHook                 // agent:<agent>:hook:<id>[:<id>...]
	KindGlobal               // global, one session for all agents and chats
)

var kindNames = [...]string{
	KindInvalid: "invalid", KindMain: "main", KindThread: "thread", KindNamed: "named", KindDirect: "direct", KindGroup: "group",
	KindChannel: "channel", KindSubagent: "subagent", KindCron: "cron", KindACP: "acp", KindHook: "hook", KindGlobal: "global",
}

// String returns the word for k, such as "subagent".
func (k Kind) String() string { return enum.String(kindNames[:], "Kind", k) }

// MarshalText returns the word for k. A value that is not a Kind is an error.
func (k Kind) MarshalText() ([]byte, error) { return enum.Marshal(kindNames[:], "session", "kind", k) }

// UnmarshalText sets k to the Kind that text is the word for.
func (k *Kind) UnmarshalText(text []byte) error {
	return enum.Unmarshal(kindNames[:], "session", "kind", text, k)
}

// A Role is what a session may do with sub-agents. It is written when the session is made and is a
// ceiling from then on: see [Role.Ceiling].
type Role uint8

// The roles. A session without a record has the first.
const (
	RoleUnknown      Role = iota // no record: refused wherever a role is needed
	RoleMain                     // a top-level session, which may spawn
	RoleOrchestrator             // a sub-agent that may spawn
	RoleLeaf                     // a sub-agent that may not
)

var roleNames = [...]string{RoleUnknown: "unknown", RoleMain: "main", RoleOrchestrator: "orchestrator", RoleLeaf: "leaf"}

// RoleAt returns the role of a session at a depth: main at 0, an orchestrator below maxSpawnDepth,
// else a leaf. A negative depth is unknown, and gives [RoleUnknown].
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

// UnmarshalText sets r to the Role that text is the word for.
func (r *Role) UnmarshalText(text []byte) error {
	return enum.Unmarshal(roleNames[:], "session", "role", text, r)
}

// Ceiling returns the lesser of the role that was stored and the one that today's limits give: a
// lower limit demotes at once, a higher one never promotes. Roles that do not agree on whether the
// session is a sub-agent, and unknown ones, give [RoleUnknown].
func (r Role) Ceiling(now Role) Role {
	switch {
	case r == now:
		return r
	case r == RoleOrchestrator && now == RoleLeaf, r == RoleLeaf && now == RoleOrchestrator:
		return RoleLeaf
	}
	return RoleUnknown
}

// MaySpawn reports whether a session of this role may have sub-agents at all.
func (r Role) MaySpawn() bool { return r == RoleMain || r == RoleOrchestrator }

// A Dialect is the word that a sub-agent's key is written with. Both are understood everywhere.
type Dialect uint8

// The dialects, with the key of a first sub-agent in each.
const (
	DialectSubagent Dialect = iota // agent:<agent>:subagent:<id>
	DialectSpawn                   // agent:<agent>:spawn:<id>
)

var dialectNames = [...]string{DialectSubagent: wordSubagent, DialectSpawn: wordSpawn}

// String returns the word that d writes.
func (d Dialect) String() string { return enum.String(dialectNames[:], "Dialect", d) }

// MarshalText returns the word that d writes.
func (d Dialect) MarshalText() ([]byte, error) {
	return enum.Marshal(dialectNames[:], "session", "dialect", d)
}

// UnmarshalText sets d to the Dialect that writes text.
func (d *Dialect) UnmarshalText(text []byte) error {
	return enum.Unmarshal(dialectNames[:], "session", "dialect", text, d)
}

// A DirectScope is how much of a direct chat tells its session apart from others.
type DirectScope uint8

// The scopes, with what each tells sessions apart by.
const (
	DirectMain           DirectScope = iota // nothing: every direct chat is the agent's main session
	DirectPerPeer                           // the person, whatever the channel
	DirectPerChannelPeer                    // the person on a channel
	DirectPerAccount                        // the person on a channel, for each of the bot's accounts there
)

var directScopeNames = [...]string{
	DirectMain: "main", DirectPerPeer: "per-peer", DirectPerChannelPeer: "per-channel-peer",
	DirectPerAccount: "per-account-channel-peer",
}

// String returns the word for s as configurations have it, such as "per-channel-peer".
func (s DirectScope) String() string { return enum.String(directScopeNames[:], "DirectScope", s) }

// MarshalText returns the word for s. A value that is not a DirectScope is an error.
func (s DirectScope) MarshalText() ([]byte, error) {
	return enum.Marshal(directScopeNames[:], "session", "direct scope", s)
}

// UnmarshalText sets s to the DirectScope that text is the word for.
func (s *DirectScope) UnmarshalText(text []byte) error {
	return enum.Unmarshal(directScopeNames[:], "session", "direct scope", text, s)
}
