package policy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Verb is what a session wants to do with a session.
type Verb uint8

// The verbs, and what the caller needs for each. [Rules.Authorize] says what sight and control
// mean. The session tools of package agent ask for all but the last two; a program asks for those
// in tools and commands of its own.
const (
	VerbInvalid Verb = iota // not a verb: always refused
	VerbList                // see that it exists: sight
	VerbStatus              // see how it is doing: sight
	VerbHistory             // read its conversation: sight
	VerbSend                // put a message into it: sight, and for a sub-agent to be above it
	VerbSteer               // tell it something while it works: control
	VerbStop                // end it and everything below it: control
	VerbBind                // bind a conversation to it: control
	VerbDelete              // remove it: control
	verbCount
)

var verbNames = [verbCount]string{
	VerbInvalid: "invalid", VerbList: "list", VerbStatus: "status", VerbHistory: "history", VerbSend: "send", VerbSteer: "steer",
	VerbStop: "stop", VerbBind: "bind", VerbDelete: "delete",
}

// String returns the word for v, such as "steer".
func (v Verb) String() string { return enum.String(verbNames[:], "Verb", v) }

// MarshalText returns the word for v. A value that is not a Verb is an error.
func (v Verb) MarshalText() ([]byte, error) {
	return enum.Marshal(verbNames[:], "policy", "verb", v)
}

// UnmarshalText sets v to the Verb that text is the word for, in any letter case of ASCII.
func (v *Verb) UnmarshalText(text []byte) error {
	return enum.Unmarshal(verbNames[:], "policy", "verb", text, v)
}

// A requirement is what the caller of a verb needs.
type requirement uint8

const (
	requireNothing requirement = iota // cannot be met
	requireVisible                    // the caller sees the session
	requireMessage                    // ... and, if it is a sub-agent, is above it
	requireControl                    // the caller is above it, and may have sub-agents at all
)

var verbRequirements = [verbCount]requirement{
	VerbList:    requireVisible,
	VerbStatus:  requireVisible,
	VerbHistory: requireVisible,
	VerbSend:    requireMessage,
	VerbSteer:   requireControl,
	VerbStop:    requireControl,
	VerbBind:    requireControl,
	VerbDelete:  requireControl,
}

// A Visibility says which other sessions a session's tools reach. Each includes those before it.
type Visibility uint8

// The visibilities, the narrowest first.
const (
	VisibilityDefault Visibility = iota // [VisibilityTree]
	VisibilitySelf                      // itself
	VisibilityTree                      // every session below it, of whatever agent
	VisibilityAgent                     // the sessions of its own agent
	VisibilityAll                       // every session; [AgentToAgent] limits other agents
)

var visibilityNames = [...]string{
	VisibilityDefault: "default", VisibilitySelf: "self", VisibilityTree: "tree", VisibilityAgent: "agent",
	VisibilityAll: "all",
}

// String returns the word for v, such as "tree".
func (v Visibility) String() string { return enum.String(visibilityNames[:], "Visibility", v) }

// MarshalText returns the word for v. A value that is not a Visibility is an error.
func (v Visibility) MarshalText() ([]byte, error) {
	return enum.Marshal(visibilityNames[:], "policy", "visibility", v)
}

// UnmarshalText sets v to the Visibility that text is the word for, in any letter case of ASCII.
// Space around the word does not matter, as in the field's reference system.
func (v *Visibility) UnmarshalText(text []byte) error {
	return enum.Unmarshal(visibilityNames[:], "policy", "visibility", bytes.TrimSpace(text), v)
}

// A Target is the session that a [Verb] is about.
type Target struct {
	Key session.Key
	// Ancestors are the sessions above it as the journal recorded them, from the one that spawned
	// it to the top. A sub-agent without ancestors is below no session.
	Ancestors []session.Key
}

// Authorize decides whether a session may do something with another session, or with itself. It is
// the one place that decides this: code that lists, reads, sends, steers or stops on behalf of a
// model calls it first. The error is always a [*Refusal].
//
// Sight goes by [Rules.Visibility]. The tree of a session is every session below it, of whatever
// agent. Control goes by lineage alone: a session controls the sessions below it, never itself, and
// loses control once it is a leaf. A sub-agent takes messages only from the sessions above it, a
// top-level session from every session that sees it.
func (r *Rules) Authorize(c Caller, v Verb, t Target) error {
	if refusal := r.authorize(&c, v, &t); refusal != nil {
		refusal.Op = v.String()
		refusal.Asked = t.Key.String()
		return refusal
	}
	return nil
}

func (r *Rules) authorize(c *Caller, v Verb, t *Target) *Refusal {
	role := r.roleNow(c, max(c.Depth, c.Key.Depth()))
	if !c.Key.IsValid() || role == session.RoleUnknown {
		return callerPlace.refuse(RuleCaller, "", "a caller with a record")
	}
	if v >= verbCount || verbRequirements[v] == requireNothing || !t.Key.IsValid() {
		return lineagePlace.refuse(RuleControl, "", "a known verb and a valid key")
	}
	self, below := t.Key == c.Key, slices.Contains(t.Ancestors, c.Key)
	switch need := verbRequirements[v]; {
	case need == requireVisible:
		return r.authorizeVisibility(c, t, self, below)
	case need == requireMessage && (self || t.Key.IsSubagent() && !below):
		return lineagePlace.refuse(RuleControl, "", "another session, a sub-agent only from above")
	case need == requireMessage:
		return r.authorizeVisibility(c, t, self, below)
	case self || !below:
		return lineagePlace.refuse(RuleControl, "", "the sub-agents below "+c.Key.String())
	case !role.MaySpawn():
		return maxDepthPlace.refuse(RuleRole, "", "main or orchestrator")
	}
	return nil
}

// authorizeVisibility decides whether the caller sees a session.
func (r *Rules) authorizeVisibility(c *Caller, t *Target, self, below bool) *Refusal {
	sight, at := r.visibilityOf(c)
	if self || below && sight >= VisibilityTree {
		return nil
	}
	from, to := r.AgentOf(c.Key), r.AgentOf(t.Key)
	limit := sight.String()
	switch {
	case sight < VisibilityAgent:
	case from == to:
		return nil
	case sight < VisibilityAll:
	case !r.AgentToAgent.Enabled: // then all means agent
		at, limit = agentToAgentPlace.dot("Enabled", "enabled"), VisibilityAgent.String()
	case r.AgentToAgent.matches(from) && r.AgentToAgent.matches(to):
		return nil
	default:
		at = agentToAgentPlace.dot("Allow", "allow")
		limit = VisibilityAll.String() + " between " + strings.Join(r.AgentToAgent.Allow, ", ")
	}
	return at.refuse(RuleVisibility, "", limit)
}

// Sees returns which other sessions a caller sees: [Rules.Visibility], within what its sandbox
// leaves of that. It says where a program has to look for what it may list; [Rules.Authorize]
// decides.
func (r *Rules) Sees(c Caller) Visibility {
	sight, _ := r.visibilityOf(&c)
	return sight
}

// visibilityOf returns what a caller sees, and where that is set. A sandbox can only narrow it.
func (r *Rules) visibilityOf(c *Caller) (sight Visibility, at place) {
	sight = r.Visibility
	switch {
	case sight == VisibilityDefault:
		sight = VisibilityTree
	case sight > VisibilityAll:
		sight = VisibilitySelf
	}
	if c.Sandboxed && !r.Sandbox.SeeAll && sight > VisibilityTree {
		return VisibilityTree, seeAllPlace
	}
	return sight, visibilityPlace
}

// matches reports whether Allow names an agent.
func (a *AgentToAgent) matches(id string) bool {
	if len(a.Allow) == 0 {
		return true
	}
	return slices.ContainsFunc(a.Allow, func(pattern string) bool {
		return glob(canonicalID(pattern), id)
	})
}
