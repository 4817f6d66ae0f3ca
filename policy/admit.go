package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Caller is who asks, as the journal knows it.
type Caller struct {
	Key       session.Key
	Role      session.Role // as stored; zero is main for a top-level session, and refused for a sub-agent
	Depth     int          // as stored; what the key says is the least that it counts for
	Children  int          // active now: admitted and not ended
	Spawned   int          // children that this run ever spawned
	TreeRuns  int          // runs that the tree ever had
	Blocked   int          // completions in the tree that could not be delivered
	Model     string       // what it runs on
	Thinking  string       // with which level
	Sandboxed bool
	Delegable []string // what it may delegate, which may differ from what it may use: see [Authority]; nil: nothing
	Budget    Budget   // what is left of each field that [Rules.Budget] limits
}

// A Request is what a caller asks for. Zero fields ask for nothing in particular.
type Request struct {
	Agent          string        // an id, in any case; empty: the caller's own
	Model          string        // "provider/model"
	Thinking       string        // a level that [ParseThinking] knows
	Timeout        time.Duration // zero: inherit; [Off]: none
	Announce       AnnounceStep
	Budget         Budget   // of the child and everything below it
	Tools          []string // names, groups and globs that narrow; nil: whatever policy leaves; empty: none
	RequireSandbox bool     // refuse unless the child runs in a sandbox
	Strict         bool     // refuse what would otherwise be passed over with a warning: an invalid model, a tool that is not granted

	Child      session.Key             // the key that the child will have, if it is made yet; only [Sandbox.Decide] is told
	ValidModel func(model string) bool // reports whether a model that was asked for is valid; nil: every well-formed one
}

// A Grant is what the child gets.
type Grant struct {
	Agent     string                  `json:"agent"`
	Role      session.Role            `json:"role"`
	Depth     int                     `json:"depth"`
	Model     Resolved[string]        `json:"model"`    // empty: the Runner's default
	Thinking  Resolved[string]        `json:"thinking"` // empty: the model's default
	Timeout   Resolved[time.Duration] `json:"timeout"`  // zero: none
	Announce  AnnounceStep            `json:"announce"`
	Budget    Budget                  `json:"budget,omitzero"`
	Tools     []string                `json:"tools"`     // what it may use; may be the caller's own slice, so neither changes it
	Delegable []string                `json:"delegable"` // what it may hand down; most often Tools itself
	Sandboxed bool                    `json:"sandboxed,omitempty"`
	Warnings  []string                `json:"warnings,omitempty"` // what was passed over, in words, that of Model included
}

// ModelApplied reports whether the child runs on the model that was asked for.
func (g *Grant) ModelApplied() bool { return g.Model.Source == SourceRequest }

// String returns the grant as a sentence.
func (g Grant) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s as %s at depth %d", g.Agent, g.Role, g.Depth)
	for _, v := range [...]struct{ name, value, source string }{
		{"model", g.Model.Value, g.Model.Source}, {"thinking", g.Thinking.Value, g.Thinking.Source},
	} {
		if v.value != "" {
			fmt.Fprintf(&b, ", %s %q from %s", v.name, v.value, v.source)
		}
	}
	if g.Timeout.Value > 0 {
		fmt.Fprintf(&b, ", timeout %s from %s", g.Timeout.Value, g.Timeout.Source)
	}
	if g.Sandboxed {
		b.WriteString(", in a sandbox")
	}
	fmt.Fprintf(&b, ", with tools %q", g.Tools)
	return b.String()
}

// Admit decides one spawn. It looks at everything and changes nothing: a refusal, which is a [*Refusal], leaves nothing half done.
//
// The checks come in the order in which the field's reference system makes them, and the first that fails is the answer: the form of
// the agent id, the caller's record, depth and role, active children, spawns of this run, runs of this tree, a required agent id, the
// allowed agents, the sandbox, the configured agents, blocked completions, the budget, thinking, model, timeout, tools.
//
// An answer that grants what there is costs no allocation; one that must leave out tools costs one.
func (r *Rules) Admit(c Caller, q Request) (Grant, error) {
	g, refusal := r.admit(&c, &q)
	if refusal != nil {
		return Grant{}, refusal
	}
	return g, nil
}

func (r *Rules) admit(c *Caller, q *Request) (Grant, *Refusal) {
	p := r.parties(c.Key, q.Agent)
	if refusal := p.checkID(); refusal != nil {
		return Grant{}, refusal
	}
	depth, refusal := r.checkStanding(c)
	if refusal != nil {
		return Grant{}, refusal
	}
	if refusal := r.checkCounts(c, depth); refusal != nil {
		return Grant{}, refusal
	}
	if refusal := r.checkNamed(c, &p, q.Agent); refusal != nil {
		return Grant{}, refusal
	}
	sandboxed, refusal := r.checkTarget(c, &p, q.Child, q.RequireSandbox)
	if refusal != nil {
		return Grant{}, refusal
	}
	if refusal := r.checkMeans(c, q); refusal != nil {
		return Grant{}, refusal
	}
	g := Grant{
		Agent: p.id, Depth: depth + 1, Role: session.RoleAt(depth+1, r.MaxSpawnDepth()),
		Sandboxed: sandboxed, Announce: r.resolveAnnounce(q, p.agent), Budget: r.Subagents.Budget.tighter(q.Budget),
	}
	if refusal := r.equip(&g, c, q, p.agent); refusal != nil {
		return Grant{}, refusal
	}
	return g, nil
}

// equip fills in what the child runs with.
func (r *Rules) equip(g *Grant, c *Caller, q *Request, a *Agent) (refusal *Refusal) {
	if g.Thinking, refusal = r.resolveThinking(c, q, a); refusal != nil {
		return refusal
	}
	if g.Model, refusal = r.resolveModel(c, q, a); refusal != nil {
		return refusal
	}
	if g.Timeout, refusal = r.resolveTimeout(q); refusal != nil {
		return refusal
	}
	if g.Model.Warning != "" {
		g.Warnings = append(g.Warnings, g.Model.Warning)
	}
	if refuse := r.MaxBlocked(); c.Blocked > 0 && c.Blocked >= refuse/2 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%d completions could not be delivered, %d refuse new spawns", c.Blocked, refuse))
	}
	return r.grantTools(g, c, q, a)
}

// The parties of a spawn are the agent that asks and the agent that is asked for. Either is nil where it is not configured.
type parties struct {
	own, id         string // canonical
	ownAgent, agent *Agent
}

// parties finds the agents of a spawn; asked is empty for the caller's own.
func (r *Rules) parties(caller session.Key, asked string) parties {
	p := parties{own: r.agentOf(caller), id: canonicalID(asked)}
	p.ownAgent = r.agent(p.own)
	if p.agent = p.ownAgent; p.id == "" {
		p.id = p.own
	} else if p.id != p.own {
		p.agent = r.agent(p.id)
	}
	return p
}

// checkID refuses what cannot be the id of an agent. One that is known need not be looked at.
func (p *parties) checkID() *Refusal {
	if p.agent != nil || p.id == p.own || validID(p.id) {
		return nil
	}
	return &Refusal{Rule: RuleAgentID, Asked: p.id, Limit: wantID, Path: listPath}
}

// checkStanding returns the depth of the caller, if it may have children at all.
func (r *Rules) checkStanding(c *Caller) (depth int, refusal *Refusal) {
	depth = max(c.Depth, c.Key.Depth())
	role := r.roleNow(c, depth)
	switch {
	case !c.Key.IsValid(), role == session.RoleUnknown:
		return 0, &Refusal{
			Rule: RuleCaller, Asked: c.Key.String() + " as " + c.Role.String(), Limit: "a session with a record", Path: "Caller.Role",
		}
	case depth >= r.MaxSpawnDepth():
		return 0, &Refusal{
			Rule: RuleDepth, Asked: strconv.Itoa(depth + 1), Limit: strconv.Itoa(r.MaxSpawnDepth()), Path: maxSpawnDepthPath,
		}
	case !role.MaySpawn():
		return 0, &Refusal{
			Rule: RuleRole, Asked: role.String(), Limit: "main or orchestrator when it was spawned", Path: maxSpawnDepthPath,
		}
	}
	return depth, nil
}

// roleNow returns the role of a caller under today's limits, RoleUnknown for one that cannot be trusted with any.
func (r *Rules) roleNow(c *Caller, depth int) session.Role {
	stored := c.Role
	if stored == session.RoleUnknown && depth == 0 {
		stored = session.RoleMain
	}
	return stored.Ceiling(session.RoleAt(depth, r.MaxSpawnDepth()))
}

// checkCounts refuses one child too many.
func (r *Rules) checkCounts(c *Caller, depth int) *Refusal {
	over := func(rule Rule, have, limit int, path string) *Refusal {
		return &Refusal{Rule: rule, Asked: strconv.Itoa(have + 1), Limit: strconv.Itoa(limit), Path: path}
	}
	s := &r.Subagents
	switch {
	case c.Children >= r.MaxChildren():
		return over(RuleChildren, c.Children, r.MaxChildren(), maxChildrenPath)
	case s.MaxSpawns > 0 && depth > 0 && c.Spawned >= s.MaxSpawns:
		return over(RuleSpawns, c.Spawned, s.MaxSpawns, maxSpawnsPath)
	case s.MaxTreeRuns > 0 && c.TreeRuns >= s.MaxTreeRuns:
		return over(RuleTreeRuns, c.TreeRuns, s.MaxTreeRuns, maxTreeRunsPath)
	}
	return nil
}

// checkNamed refuses a spawn that does not name its agent where it must.
func (r *Rules) checkNamed(c *Caller, p *parties, asked string) *Refusal {
	if strings.TrimSpace(asked) != "" {
		return nil
	}
	required, path := r.Subagents.RequireAgentID, defaultsPath
	if a := p.ownAgent; a != nil && a.Subagents.RequireAgentID != nil {
		required, path = a.Subagents.RequireAgentID, ""
	}
	if required == nil || !*required {
		return nil
	}
	if path == "" {
		path = agentPath(p.own) + ".subagents"
	}
	return &Refusal{Rule: RuleRequireID, Asked: "no agentId", Limit: strings.Join(r.Targets(*c), ", "), Path: path + requireAgentIDName}
}

// checkMeans refuses where the tree has nothing left to spend, or cannot get rid of what it has.
func (r *Rules) checkMeans(c *Caller, q *Request) *Refusal {
	if c.Blocked >= r.MaxBlocked() {
		return &Refusal{Rule: RuleBlocked, Asked: strconv.Itoa(c.Blocked), Limit: strconv.Itoa(r.MaxBlocked()), Path: maxBlockedPath}
	}
	spent := func(what, limit string) *Refusal {
		return &Refusal{Rule: RuleBudget, Asked: "more " + what, Limit: limit, Path: treeBudgetPath + "." + what}
	}
	b := &r.Budget
	switch {
	case b.Tokens > 0 && c.Budget.Tokens <= 0:
		return spent("tokens", strconv.FormatInt(b.Tokens, 10))
	case b.Cost > 0 && !(c.Budget.Cost > 0):
		return spent("cost", strconv.FormatFloat(b.Cost, 'f', -1, 64))
	case b.Turns > 0 && c.Budget.Turns <= 0:
		return spent("turns", strconv.Itoa(b.Turns))
	}
	if faults := q.Budget.faults(); len(faults) > 0 {
		return &Refusal{Rule: RuleBudget, Asked: faults[0].value, Limit: faults[0].want, Path: spawnPath + ".budget." + faults[0].name}
	}
	return nil
}

// grantTools fills in what the child may use and hand down.
func (r *Rules) grantTools(g *Grant, c *Caller, q *Request, a *Agent) *Refusal {
	s := Subject{Agent: g.Agent, Role: g.Role, Sandboxed: g.Sandboxed, Model: g.Model.Value}
	g.Tools, g.Delegable = r.bothSets(s, a, q.Tools, c.Delegable, c.Delegable)
	if q.Tools == nil && (len(g.Tools) > 0 || len(c.Delegable) == 0) {
		return nil
	}
	p := r.pipeline(s, a)
	return r.checkTools(g, c, q, &p)
}

// checkTools warns, or refuses, where the child gets less than was asked for, or nothing.
func (r *Rules) checkTools(g *Grant, c *Caller, q *Request, p *pipeline) *Refusal {
	missing := p.missing(q.Tools, c.Delegable, g.Tools)
	if len(missing) > 0 && (q.Strict || len(g.Tools) == 0) {
		names := make([]string, len(missing))
		for i, v := range missing {
			names[i] = v.Tool
		}
		limit := strings.Join(g.Tools, ", ")
		if limit == "" {
			limit = "none of these"
		}
		return &Refusal{Rule: RuleTools, Asked: strings.Join(names, ", "), Limit: limit, Path: missing[0].Path, Removed: missing}
	}
	for _, v := range missing {
		g.Warnings = append(g.Warnings, v.String())
	}
	if q.Tools != nil {
		return nil
	}
	// Nothing is left of what the caller may delegate. Say why, unless it is only what no sub-agent gets.
	for _, name := range c.Delegable {
		if v := p.verdict(name); !v.Allowed && v.Rule != ToolRole && v.Rule != ToolNever {
			g.Warnings = append(g.Warnings, v.String())
		}
	}
	return nil
}

// Targets returns the ids that the caller may spawn, its own first and the others sorted; none if it may not spawn at all. It is
// decided by the function that decides the spawn, so it can serve as the enumeration in a tool's schema. Counts that change from
// one moment to the next, such as active children, are not looked at.
func (r *Rules) Targets(c Caller) []string {
	if _, refusal := r.checkStanding(&c); refusal != nil {
		return nil
	}
	own := r.agentOf(c.Key)
	var ids []string
	for i := range r.Agents {
		if id := canonicalID(r.Agents[i].ID); id != own {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Insert(slices.Compact(ids), 0, own)
	return slices.DeleteFunc(ids, func(id string) bool {
		p := r.parties(c.Key, id)
		_, refusal := r.checkTarget(&c, &p, session.Key{}, false)
		return refusal != nil
	})
}

// checkTarget decides whether the caller may spawn an agent, and returns whether that runs in a sandbox. It is the one place that
// decides this: the spawn, the tool's schema and agents_list cannot disagree.
func (r *Rules) checkTarget(c *Caller, p *parties, child session.Key, requireSandbox bool) (sandboxed bool, refusal *Refusal) {
	if p.id != p.own {
		if refusal := r.checkAllowed(p); refusal != nil {
			return false, refusal
		}
	}
	sandboxed = r.sandboxed(p.id, p.agent, child, false)
	switch {
	case c.Sandboxed && !sandboxed:
		refusal = &Refusal{Rule: RuleSandbox, Asked: p.id + " without a sandbox", Limit: "a sandbox, as the caller's"}
	case requireSandbox && !sandboxed:
		refusal = &Refusal{Rule: RuleSandbox, Asked: p.id + " in a sandbox", Limit: "no sandbox"}
	case p.agent == nil && p.id != p.own:
		return false, &Refusal{Rule: RuleTarget, Asked: p.id, Limit: r.configured(p.own), Path: listPath}
	}
	if refusal != nil {
		refusal.Path = r.sandboxModePath(p.agent)
	}
	return sandboxed, refusal
}

// checkAllowed looks at the allowAgents of the caller's agent, else at those of the defaults.
func (r *Rules) checkAllowed(p *parties) *Refusal {
	allowed, atAgent := r.Subagents.AllowAgents, false
	if a := p.ownAgent; a != nil && (a.Subagents.AllowAgents != nil || allowed == nil) {
		allowed, atAgent = a.Subagents.AllowAgents, true
	}
	var named []string
	for _, entry := range allowed {
		switch entry = canonicalID(entry); entry {
		case "":
		case "*", p.id:
			return nil
		default:
			named = append(named, entry)
		}
	}
	if len(named) == 0 {
		named = []string{p.own}
	}
	path := defaultsPath
	if atAgent {
		path = agentPath(p.own) + ".subagents"
	}
	return &Refusal{Rule: RuleAgents, Asked: p.id, Limit: strings.Join(named, ", "), Path: path + allowAgentsName}
}

// configured returns the configured agents in words.
func (r *Rules) configured(own string) string {
	ids := make([]string, 0, len(r.Agents)+1)
	for i := range r.Agents {
		ids = append(ids, canonicalID(r.Agents[i].ID))
	}
	if len(ids) == 0 {
		ids = append(ids, own)
	}
	return strings.Join(ids, ", ")
}
