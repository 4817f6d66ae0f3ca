package session

// A Role is what a session may do with sub-agents. It is written when the session is made and is a ceiling from then on: see
// [Role.Ceiling].
type Role uint8

// The roles. A session without a record has the first.
const (
	RoleUnknown      Role = iota // no record: refused wherever a role is needed
	RoleMain                     // a top-level session, which may spawn
	RoleOrchestrator             // a sub-agent that may spawn
	RoleLeaf                     // a sub-agent that may not
)

var roleNames = [...]string{RoleUnknown: "unknown", RoleMain: "main", RoleOrchestrator: "orchestrator", RoleLeaf: "leaf"}

// RoleAt returns the role of a session at a depth: main at 0, an orchestrator below maxSpawnDepth, else a leaf. A negative depth is
// one that nobody knows, and gives [RoleUnknown].
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
func (r Role) String() string { return name(roleNames[:], "Role", r) }

// MarshalText returns the word for r. A value that is no Role is an error.
func (r Role) MarshalText() ([]byte, error) { return nameText(roleNames[:], "role", r) }

// UnmarshalText sets r to the Role that text is the word for.
func (r *Role) UnmarshalText(text []byte) error { return unname(roleNames[:], "role", text, r) }

// Ceiling returns the lesser of the role that was stored and the one that today's limits give: a lower limit demotes at once, a
// higher one never promotes. Roles that do not agree on whether the session is a sub-agent, and unknown ones, give [RoleUnknown].
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

// Scope returns whom a session of this role may steer and stop. Whom it may see is a matter of configuration, not of its role.
func (r Role) Scope() Scope {
	if r.MaySpawn() {
		return ScopeChildren
	}
	return ScopeNone
}

// A Scope is whom a session controls. It follows from the session's [Role] and so is a ceiling as well.
type Scope uint8

// The scopes, each more than the one before.
const (
	ScopeNone     Scope = iota // nobody
	ScopeChildren              // the sub-agents that it started, and theirs
)

var scopeNames = [...]string{ScopeNone: "none", ScopeChildren: "children"}

// String returns the word for s, "none" or "children".
func (s Scope) String() string { return name(scopeNames[:], "Scope", s) }

// MarshalText returns the word for s. A value that is no Scope is an error.
func (s Scope) MarshalText() ([]byte, error) { return nameText(scopeNames[:], "scope", s) }

// UnmarshalText sets s to the Scope that text is the word for.
func (s *Scope) UnmarshalText(text []byte) error { return unname(scopeNames[:], "scope", text, s) }
