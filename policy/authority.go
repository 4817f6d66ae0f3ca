package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// An Authority is what a session was given when it was made: the ceiling for the rest of its life.
// It is stored with the session, and [Rules.Effective] applies today's rules to it, and to those of
// all sessions above, for every turn and every call. The zero Authority gives nothing.
//
// Its JSON is versioned and read strictly. Text that is not exactly the stored form gives the error
// [ErrCorruptAuthority] and an Authority that gives nothing.
type Authority struct {
	Agent     string       `json:"agent"`
	Role      session.Role `json:"role"`
	Depth     int          `json:"depth"`
	Sandboxed bool         `json:"sandboxed"`
	Model     string       `json:"model"`
	Tools     []string     `json:"tools"`     // what the session may use
	Delegable []string     `json:"delegable"` // what it may hand down; [Caller.Delegable] of its spawns
}

// ErrCorruptAuthority is wrapped by the error for a stored [Authority] that cannot be read.
var ErrCorruptAuthority = errors.New("policy: corrupt authority")

// authorityVersion is the version of the stored form.
const authorityVersion = 1

// Authority returns what the child was given, to be stored with it.
func (g *Grant) Authority() Authority {
	return Authority{
		Agent: g.Agent, Role: g.Role, Depth: g.Depth, Sandboxed: g.Sandboxed, Model: g.Model.Value,
		Tools: g.Tools, Delegable: g.Delegable,
	}
}

// TopAuthority returns what a top-level session may use and hand down of names, which are all
// tools. The key of a sub-agent gets nothing: its authority is what it was granted.
func (r *Rules) TopAuthority(key session.Key, model string, names []string) Authority {
	if !key.IsValid() || key.IsSubagent() {
		return Authority{Sandboxed: true}
	}
	s := Subject{Key: key, Role: session.RoleMain, Sandboxed: r.Sandboxed(key), Model: model}
	s, a := r.subject(s)
	top := Authority{Agent: s.Agent, Role: s.Role, Sandboxed: s.Sandboxed, Model: model}
	top.Tools, top.Delegable = r.toolSets(s, a, nil, names, names)
	return top
}

// A Descendant is a session below a top-level session, with what it was given when it was made.
type Descendant struct {
	Key   session.Key
	Given Authority
}

// Effective returns what the last of the sessions below has under today's rules. It folds along
// the lineage: above is what a session has today, from [Rules.TopAuthority] or from Effective, and
// below are the sessions from its child down to the one that is asked about, without a gap.
// Without any, Effective returns above.
//
// The answer is never more than what the session was given, and never more than the session above
// it may hand down today: the role can only sink, a sandbox only be added, and tools only be
// removed. So a rule that has become stricter for a session reaches everything below it, and a
// rule that has become more lenient gives nothing back. A lower MaxSpawnDepth makes leaves of
// orchestrators; what they have spawned keeps its tools.
//
// A session gives nothing, and so does every session below it, if its record contradicts itself,
// its key or its place in the lineage, or if [Rules.Admit] would refuse its agent to the agent
// above it today, because AllowAgents does not name it or because it is not configured.
func (r *Rules) Effective(above Authority, below ...Descendant) Authority {
	for i := range below {
		above = r.effective(&above, &below[i])
	}
	return above
}

// effective returns what a child of a session has under today's rules.
func (r *Rules) effective(above *Authority, d *Descendant) Authority {
	given := &d.Given
	now := Authority{Agent: given.Agent, Model: given.Model, Depth: max(given.Depth, d.Key.Depth())}
	now.Role = given.Role.Ceiling(session.RoleAt(now.Depth, r.MaxSpawnDepth()))
	p := spawnAgents{callerID: above.Agent, targetID: given.Agent, caller: r.agent(above.Agent)}
	p.target = r.agent(given.Agent)
	switch {
	case above.Role == session.RoleUnknown, now.Role == session.RoleUnknown, !d.Key.IsValid(),
		r.AgentOf(d.Key) != given.Agent, given.Depth != above.Depth+1,
		!r.lists(p.caller) || !p.configured() || !r.allows(&p):
		return Authority{Sandboxed: true}
	}
	now.Sandboxed = above.Sandboxed || given.Sandboxed ||
		r.sandboxed(given.Agent, p.target, d.Key, false)
	s := Subject{
		Key: d.Key, Agent: given.Agent, Role: now.Role, Sandboxed: now.Sandboxed,
		Model: given.Model,
	}
	tools, delegable := r.toolSets(s, p.target, nil, given.Tools, given.Delegable)
	now.Tools = within(tools, above.Delegable)
	if now.Delegable = now.Tools; !sameSlice(tools, delegable) {
		now.Delegable = within(delegable, above.Delegable)
	}
	return now
}

// within returns the names that ceiling has too, in the order of names: names itself if it has
// all.
func within(names, ceiling []string) []string {
	if sameSlice(names, ceiling) {
		return names
	}
	missing := func(name string) bool { return !slices.Contains(ceiling, name) }
	if !slices.ContainsFunc(names, missing) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), missing)
}

// toolSets returns what of use a session may use, and what of handDown it may hand down. A spawn's
// list, if not nil, narrows both. Without rules of the agent for handing down, those for using
// hold, and equal ceilings give one slice.
func (r *Rules) toolSets(
	s Subject, a *Agent, asked, use, handDown []string,
) (tools, delegable []string) {
	p := r.pipeline(s, a)
	if asked != nil {
		p.addRequest(asked)
	}
	tools = p.filter(use)
	if a != nil && a.Tools.Delegable != nil {
		p = r.delegablePipeline(s, a)
		if asked != nil {
			p.addRequest(asked)
		}
	} else if sameSlice(use, handDown) {
		return tools, tools
	}
	return tools, p.filter(handDown)
}

func sameSlice(a, b []string) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// MarshalJSON writes the stored form.
func (a Authority) MarshalJSON() ([]byte, error) {
	type fields Authority
	f := fields(a)
	if f.Tools == nil {
		f.Tools = []string{}
	}
	if f.Delegable == nil {
		f.Delegable = []string{}
	}
	return json.Marshal(struct {
		Version int `json:"version"`
		fields
	}{authorityVersion, f})
}

// UnmarshalJSON reads the stored form. On an error, a gives nothing.
func (a *Authority) UnmarshalJSON(data []byte) error {
	read, err := readAuthority(data)
	if err != nil {
		*a = Authority{Sandboxed: true}
		return fmt.Errorf("%w: %w", ErrCorruptAuthority, err)
	}
	*a = read
	return nil
}

func readAuthority(data []byte) (a Authority, err error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return a, err
	}
	var version int
	fields := []struct {
		name string
		to   any
	}{
		{"version", &version},
		{"agent", &a.Agent},
		{"role", &a.Role},
		{"depth", &a.Depth},
		{"sandboxed", &a.Sandboxed},
		{"model", &a.Model},
		{"tools", &a.Tools},
		{"delegable", &a.Delegable},
	}
	if len(raw) > len(fields) {
		return a, errors.New("unknown fields")
	}
	for _, f := range fields {
		value, ok := raw[f.name]
		if !ok || string(value) == "null" {
			return a, fmt.Errorf("no %s", f.name)
		}
		if err := json.Unmarshal(value, f.to); err != nil {
			return a, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if version != authorityVersion {
		return a, fmt.Errorf("version %d, want %d", version, authorityVersion)
	}
	if role := string(raw["role"]); role != `"`+a.Role.String()+`"` {
		return a, fmt.Errorf("role: %s is not how a role is stored", role)
	}
	return a, a.validate()
}

// validate returns the first thing that is wrong with an authority, or nil.
func (a *Authority) validate() error {
	switch {
	case !validID(a.Agent):
		return fmt.Errorf("agent %q", a.Agent)
	case a.Depth < 0, a.Role == session.RoleUnknown, (a.Depth == 0) != (a.Role == session.RoleMain):
		return fmt.Errorf("role %s at depth %d", a.Role, a.Depth)
	}
	for _, list := range [...][]string{a.Tools, a.Delegable} {
		for _, name := range list {
			if strings.TrimSpace(name) == "" {
				return errors.New("a tool without a name")
			}
		}
	}
	return nil
}
