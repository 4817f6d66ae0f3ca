package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Caller is the session that asks, as the journal knows it. The zero Caller may do nothing.
type Caller struct {
	Key       session.Key
	Role      session.Role // as stored; zero: main for a top-level session, refused for a sub-agent
	Depth     int          // as stored; the depth of Key is a floor
	Children  int          // active now: admitted and not ended
	Spawned   int          // children that this run ever spawned
	TreeRuns  int          // runs that the tree ever had
	Requested int          // runs that models spawned for the request that the caller is at
	Blocked   int          // completions in the tree that could not be delivered
	Model     string       // that it runs on
	Thinking  string       // the level that it runs with
	Sandboxed bool
	Delegable []string // tools that it may hand down, see [Authority]; nil: none
	Known     []string // all tools of the program, for what a refusal says; nil: not told
	Senders   []Sender // for whom it works, which Delegable is within, for what a refusal says
	Budget    Budget   // what is left of each field that [Rules.Budget] limits
	// RequestBudget is what is left of each field that [Rules.RequestBudget] limits, of the request
	// that the child belongs to.
	RequestBudget Budget
}

// A Request is what a caller asks for. Zero fields ask for nothing in particular.
type Request struct {
	Agent          string        // an id, in any case; empty: the caller's own
	Model          string        // "provider/model"
	Thinking       string        // a level that [ParseThinking] knows
	Timeout        time.Duration // zero: inherit; [Off]: none
	Announce       AnnounceStep
	Budget         Budget   // of the child and everything below it
	Tools          []string // names, groups and globs that narrow; nil: do not narrow; empty: none
	RequireSandbox bool     // refuse unless the child runs in a sandbox

	// Runtime names the external runtime that is to run the child, which no sandbox holds: a caller
	// or child that is in one, or has to be, is refused. Empty: none.
	Runtime string

	// Fork says that the child is to begin with a copy of the caller's conversation. An agent that
	// is not the caller's gets it only by [Agent.ShareHistory].
	Fork bool

	// ByModel says that a model asks, so that the run counts against
	// [Subagents.MaxRunsPerRequest].
	ByModel bool
	// Strict refuses what would otherwise be passed over with a warning: an invalid model, or a
	// tool that is not granted.
	Strict bool
	// Child is the key that the child will have, zero if it is not made yet. Only [Sandbox.Decide]
	// gets it.
	Child session.Key
	// ValidModel reports whether a model that was asked for is valid. Nil: every well-formed one
	// is.
	ValidModel func(model string) bool
}

// A Grant is what the child gets. [Grant.Authority] is the part of it to store.
type Grant struct {
	Agent    string                  `json:"agent"`
	Role     session.Role            `json:"role"`
	Depth    int                     `json:"depth"`
	Model    Resolved[string]        `json:"model"`    // empty: the Runner's default
	Thinking Resolved[string]        `json:"thinking"` // empty: the model's default
	Timeout  Resolved[time.Duration] `json:"timeout"`  // zero: none
	Announce AnnounceStep            `json:"announce"`
	Budget   Budget                  `json:"budget,omitzero"`
	// Tools are what it may use. The slice may be that of [Caller.Delegable], so neither side
	// changes it.
	Tools []string `json:"tools"`
	// Delegable are the tools that it may hand down. The slice is most often Tools itself.
	Delegable []string `json:"delegable"`
	Sandboxed bool     `json:"sandboxed,omitempty"`
	// Warnings say what was passed over, that of Model included.
	Warnings []string `json:"warnings,omitempty"`
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

// Admit decides one spawn. It changes nothing, so that a refused spawn leaves nothing behind. The
// error is always a [*Refusal].
//
// The checks come in the order in which the field's reference system makes them, and the first that
// fails is the answer: the form of the agent id, the caller's agent and record, depth and role,
// active children, spawns of this run, runs of this tree, runs of this request, a required agent
// id, the allowed agents, the sandbox, the configured agents, the caller's conversation, blocked
// completions, the budgets, thinking, model, timeout, tools. An agent that is neither configured
// nor allowed is refused as not configured, and where a model asks as not allowed: a model does not
// learn which agents there are that it may not spawn.
//
// A grant of all tools does not allocate; a grant that leaves out tools allocates once.
func (r *Rules) Admit(c Caller, q Request) (Grant, error) {
	g, refusal := r.admit(&c, &q)
	if refusal != nil {
		return Grant{}, refusal
	}
	return g, nil
}

func (r *Rules) admit(c *Caller, q *Request) (Grant, *Refusal) {
	p := r.agentsOf(c.Key, q.Agent)
	p.byModel = q.ByModel
	if refusal := p.checkID(); refusal != nil {
		return Grant{}, refusal
	}
	if !r.lists(p.caller) {
		return Grant{}, r.refuseUnlisted(p.callerID)
	}
	depth, refusal := r.checkDepthAndRole(c)
	if refusal != nil {
		return Grant{}, refusal
	}
	if refusal := r.checkCounts(c, depth, q.ByModel); refusal != nil {
		return Grant{}, refusal
	}
	if refusal := r.checkRequiredID(c, &p, q.Agent); refusal != nil {
		return Grant{}, refusal
	}
	sandboxed, refusal := r.checkTarget(c, &p, q.Child, q.RequireSandbox)
	if refusal != nil {
		return Grant{}, refusal
	}
	if q.Runtime != "" && sandboxed { // the caller in one and the wish for one make it that
		return Grant{}, r.refuseRuntime(&p, q.Runtime)
	}
	if q.Fork && !p.sharesHistory() {
		return Grant{}, r.refuseHistory(&p)
	}
	if refusal := r.checkBlockedAndBudget(c, q); refusal != nil {
		return Grant{}, refusal
	}
	g := Grant{
		Agent: p.targetID, Depth: depth + 1, Role: session.RoleAt(depth+1, r.MaxSpawnDepth()),
		Sandboxed: sandboxed, Announce: r.resolveAnnounce(q, p.target),
		Budget: r.Subagents.Budget.tighter(q.Budget),
	}
	if refusal := r.fillGrant(&g, c, q, p.target); refusal != nil {
		return Grant{}, refusal
	}
	return g, nil
}

// fillGrant fills in the model, the thinking level, the timeout and the tools of the child.
func (r *Rules) fillGrant(g *Grant, c *Caller, q *Request, a *Agent) (refusal *Refusal) {
	if g.Thinking, refusal = r.resolveThinking(c, q, a); refusal != nil {
		return refusal
	}
	if g.Model, refusal = r.resolveModel(c, q, a); refusal != nil {
		return refusal
	}
	if g.Timeout, refusal = r.resolveTimeout(q); refusal != nil {
		return refusal
	}
	for _, warning := range [...]string{g.Model.Warning, g.Timeout.Warning} {
		if warning != "" {
			g.Warnings = append(g.Warnings, warning)
		}
	}
	if refuse := r.MaxBlocked(); c.Blocked > 0 && c.Blocked >= refuse/2 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%d completions could not be delivered, %d refuse new spawns", c.Blocked, refuse))
	}
	return r.grantTools(g, c, q, a)
}

// spawnAgents are the agent that asks for a spawn and the agent that it asks for. The ids are
// canonical; an agent that is not configured is nil.
type spawnAgents struct {
	callerID, targetID string
	asked              string // targetID as it was asked for: a refusal is masked, and case counts
	byModel            bool   // a model asks
	caller, target     *Agent
}

// agentsOf finds the agents of a spawn. An empty asked means the caller's own agent.
func (r *Rules) agentsOf(caller session.Key, asked string) spawnAgents {
	p := spawnAgents{
		callerID: r.AgentOf(caller), targetID: canonicalID(asked), asked: strings.TrimSpace(asked),
	}
	p.caller = r.agent(p.callerID)
	if p.target = p.caller; p.targetID == "" {
		p.targetID = p.callerID
	} else if p.targetID != p.callerID {
		p.target = r.agent(p.targetID)
	}
	return p
}

// named returns the agent of a refusal as it was asked for, or its id if none was.
func (p *spawnAgents) named() string { return cmp.Or(p.asked, p.targetID) }

// checkID refuses what cannot be the id of an agent. The id of a known agent is not checked again.
func (p *spawnAgents) checkID() *Refusal {
	if p.target != nil || p.targetID == p.callerID || validID(p.targetID) {
		return nil
	}
	return listPlace.refuse(RuleAgentID, p.asked, wantID)
}

// checkDepthAndRole returns the depth of a caller that may have children, and refuses another.
func (r *Rules) checkDepthAndRole(c *Caller) (depth int, refusal *Refusal) {
	depth = max(c.Depth, c.Key.Depth())
	role := r.roleNow(c, depth)
	switch {
	case !c.Key.IsValid(), role == session.RoleUnknown:
		return 0, callerPlace.refuse(RuleCaller, c.Key.String()+" as "+c.Role.String(),
			"a session with a record")
	case depth >= r.MaxSpawnDepth():
		return 0, maxDepthPlace.refuse(RuleDepth, strconv.Itoa(depth+1),
			strconv.Itoa(r.MaxSpawnDepth()))
	case !role.MaySpawn():
		return 0, maxDepthPlace.refuse(RuleRole, role.String(),
			"main or orchestrator when it was spawned")
	}
	return depth, nil
}

// roleNow returns the role of a caller under today's limits. It is RoleUnknown for a caller whose
// record is missing or contradicts its depth.
func (r *Rules) roleNow(c *Caller, depth int) session.Role {
	stored := c.Role
	if stored == session.RoleUnknown && depth == 0 {
		stored = session.RoleMain
	}
	return stored.Ceiling(session.RoleAt(depth, r.MaxSpawnDepth()))
}

// checkCounts refuses a spawn that would exceed a limit on the number of children or runs.
func (r *Rules) checkCounts(c *Caller, depth int, byModel bool) *Refusal {
	over := func(rule Rule, have, limit int, at place) *Refusal {
		return at.refuse(rule, strconv.Itoa(have+1), strconv.Itoa(limit))
	}
	s := &r.Subagents
	switch {
	case c.Children >= r.MaxChildren():
		return over(RuleChildren, c.Children, r.MaxChildren(), maxChildrenPlace)
	case s.MaxSpawns > 0 && depth > 0 && c.Spawned >= s.MaxSpawns:
		return over(RuleSpawns, c.Spawned, s.MaxSpawns, maxSpawnsPlace)
	case s.MaxTreeRuns > 0 && c.TreeRuns >= s.MaxTreeRuns:
		return over(RuleTreeRuns, c.TreeRuns, s.MaxTreeRuns, maxTreeRunsPlace)
	case byModel && r.MaxRunsPerRequest() != Off && c.Requested >= r.MaxRunsPerRequest():
		return over(RuleRequest, c.Requested, r.MaxRunsPerRequest(), maxRequestPlace)
	}
	return nil
}

// checkRequiredID refuses a spawn that does not name its agent where it must.
func (r *Rules) checkRequiredID(c *Caller, p *spawnAgents, asked string) *Refusal {
	if strings.TrimSpace(asked) != "" {
		return nil
	}
	required, own := r.Subagents.RequireAgentID, false
	if a := p.caller; a != nil && a.Subagents.RequireAgentID != nil {
		required, own = a.Subagents.RequireAgentID, true
	}
	if required == nil || !*required {
		return nil
	}
	return r.subagentsPlace(p.callerID, own).dot("RequireAgentID", "requireAgentId").refuse(
		RuleRequireID, "no agentId", listed(r.Targets(*c)))
}

// sharesHistory reports whether the agent that is asked for may have the caller's conversation.
func (p *spawnAgents) sharesHistory() bool {
	return p.targetID == p.callerID || p.caller != nil && p.caller.ShareHistory
}

// refuseRuntime refuses an external runtime where there is a sandbox, or has to be one.
func (r *Rules) refuseRuntime(p *spawnAgents, name string) *Refusal {
	_, at := r.sandboxMode(p.target)
	return at.refuse(RuleRuntime, name+" in a sandbox, which does not hold what it does",
		"runtimes of this program alone")
}

// refuseHistory refuses to give the caller's conversation to another agent.
func (r *Rules) refuseHistory(p *spawnAgents) *Refusal {
	return r.agentPlace(p.callerID).dot("ShareHistory", "shareHistory").refuse(RuleHistory,
		"the conversation of "+p.callerID+" for "+p.named(), "none but its own agent's")
}

// checkBlockedAndBudget refuses where too many completions could not be delivered, and where the
// budget of the tree, or that of the request, is spent.
func (r *Rules) checkBlockedAndBudget(c *Caller, q *Request) *Refusal {
	if c.Blocked >= r.MaxBlocked() {
		return maxBlockedPlace.refuse(RuleBlocked, strconv.Itoa(c.Blocked),
			strconv.Itoa(r.MaxBlocked()))
	}
	if refusal := treeBudgetPlace.checkSpent(&r.Budget, &c.Budget); refusal != nil {
		return refusal
	}
	refusal := requestBudgetPlace.checkSpent(&r.RequestBudget, &c.RequestBudget)
	if refusal != nil {
		return refusal
	}
	if faults := q.Budget.faults(); len(faults) > 0 {
		return requestPlace("Budget."+title(faults[0].name)).refuse(RuleBudget, faults[0].value,
			faults[0].want)
	}
	return nil
}

// checkSpent refuses where nothing is left of a field that the budget b, which is set at p, limits.
func (p place) checkSpent(b, left *Budget) *Refusal {
	spent := func(what, limit string) *Refusal {
		return p.dot(title(what), what).refuse(RuleBudget, "more "+what, limit)
	}
	switch {
	case b.Tokens > 0 && left.Tokens <= 0:
		return spent("tokens", strconv.FormatInt(b.Tokens, 10))
	case b.Cost > 0 && !(left.Cost > 0):
		return spent("cost", strconv.FormatFloat(b.Cost, 'f', -1, 64))
	case b.Turns > 0 && left.Turns <= 0:
		return spent("turns", strconv.Itoa(b.Turns))
	}
	return nil
}

// grantTools fills in what the child may use and hand down.
func (r *Rules) grantTools(g *Grant, c *Caller, q *Request, a *Agent) *Refusal {
	s := Subject{Agent: g.Agent, Role: g.Role, Sandboxed: g.Sandboxed, Model: g.Model.Value}
	g.Tools, g.Delegable = r.toolSets(s, a, q.Tools, c.Delegable, c.Delegable)
	if q.Tools == nil && (len(g.Tools) > 0 || len(c.Delegable) == 0) {
		return nil
	}
	p := r.pipeline(s, a)
	return r.checkTools(g, c, q, &p)
}

// checkTools adds warnings for tools that the child does not get. It refuses if the request is
// strict, or if the child would get nothing of what was asked for.
func (r *Rules) checkTools(g *Grant, c *Caller, q *Request, p *pipeline) *Refusal {
	missing := r.missing(p, c, q.Tools, g.Tools)
	if len(missing) > 0 && (q.Strict || len(g.Tools) == 0) {
		names := make([]string, len(missing))
		for i, v := range missing {
			names[i] = v.Tool
		}
		limit := strings.Join(g.Tools, ", ")
		if limit == "" {
			limit = "none of these"
			if may := p.filter(c.Delegable); missing[0].Rule == ToolUnknown && len(may) > 0 {
				limit = strings.Join(may, ", ")
			}
		}
		at := place{missing[0].Field, missing[0].Path}
		refusal := at.refuse(RuleTools, strings.Join(names, ", "), limit)
		refusal.Removed = missing
		return refusal
	}
	g.Warnings = append(g.Warnings, text.Listed(missing, ToolVerdict.String)...)
	if q.Tools != nil {
		return nil
	}
	// Nothing is left of what the caller may hand down. The warnings say why, except for the tools
	// that sub-agents never get.
	var gone []ToolVerdict
	for _, name := range c.Delegable {
		if v := p.verdict(name); !v.Allowed && v.Rule != ToolRole && v.Rule != ToolNever {
			gone = append(gone, v)
		}
	}
	g.Warnings = append(g.Warnings, text.Listed(gone, ToolVerdict.String)...)
	return nil
}

// Targets returns the ids of the agents that the caller may spawn, its own first and the others
// sorted. The list is empty if the caller may not spawn at all. The same function decides the
// spawn, so the list can be the enumeration in a tool's schema. Counts that change from one moment
// to the next, such as active children, do not matter here.
func (r *Rules) Targets(c Caller) []string {
	if _, refusal := r.checkDepthAndRole(&c); refusal != nil || r.CheckAgent(c.Key) != nil {
		return nil
	}
	own := r.AgentOf(c.Key)
	var ids []string
	for i := range r.Agents {
		if id := canonicalID(r.Agents[i].ID); id != own {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Insert(slices.Compact(ids), 0, own)
	return slices.DeleteFunc(ids, func(id string) bool {
		p := r.agentsOf(c.Key, id)
		_, refusal := r.checkTarget(&c, &p, session.Key{}, false)
		return refusal != nil
	})
}

// RuntimeTargets returns those of [Rules.Targets] that the caller may spawn in an external runtime,
// see [Request].Runtime. No sandbox holds one: a caller in a sandbox has none of them, and an agent
// whose sub-agents are put into one is left out.
func (r *Rules) RuntimeTargets(c Caller) []string {
	if c.Sandboxed {
		return nil
	}
	return slices.DeleteFunc(r.Targets(c), func(id string) bool {
		p := r.agentsOf(c.Key, id)
		return r.sandboxed(p.targetID, p.target, session.Key{}, false)
	})
}

// AllowsAny reports whether the list of allowed agents that counts for the session of a key names
// every agent that is configured, with "*". [Rules.Targets] says which of them it may spawn.
func (r *Rules) AllowsAny(key session.Key) bool {
	p := r.agentsOf(key, "")
	return slices.ContainsFunc(r.allowList(&p), func(entry string) bool {
		return canonicalID(entry) == "*"
	})
}

// ModelFor returns the model that a sub-agent of the agent with an id gets from the caller if the
// spawn names none. Empty: none is configured.
func (r *Rules) ModelFor(c Caller, id string) string {
	p := r.agentsOf(c.Key, id)
	return r.configuredModel(&c, p.target).Value
}

// checkTarget decides whether the caller may spawn an agent, and returns whether the child runs in
// a sandbox. It is the one place that decides this, so the spawn, the tool's schema and agents_list
// cannot disagree.
func (r *Rules) checkTarget(
	c *Caller, p *spawnAgents, child session.Key, requireSandbox bool,
) (sandboxed bool, refusal *Refusal) {
	switch allowed := r.allows(p); {
	case !allowed && p.target == nil && !p.byModel: // to name it in AllowAgents would not help
		return false, r.refuseTarget(c, p)
	case !allowed:
		return false, r.allowAgentsPlace(p).refuse(RuleAgents, p.named(), r.allowedFrom(c, p))
	}
	sandboxed = r.sandboxed(p.targetID, p.target, child, false)
	switch {
	case c.Sandboxed && !sandboxed:
		return false, r.refuseSandbox(p, " without a sandbox", "a sandbox, as the caller's")
	case requireSandbox && !sandboxed:
		return false, r.refuseSandbox(p, " in a sandbox", "no sandbox")
	case !p.configured():
		return false, r.refuseTarget(c, p)
	}
	return sandboxed, nil
}

// refuseTarget refuses an agent that is not configured.
func (r *Rules) refuseTarget(c *Caller, p *spawnAgents) *Refusal {
	return listPlace.refuse(RuleTarget, p.named(), r.allowedFrom(c, p))
}

// refuseUnlisted refuses what an agent does that is not in the list of agents.
func (r *Rules) refuseUnlisted(id string) *Refusal {
	ids := make([]string, len(r.Agents))
	for i := range r.Agents {
		ids[i] = canonicalID(r.Agents[i].ID)
	}
	return listPlace.refuse(RuleTarget, id, listed(ids))
}

// refuseSandbox refuses a target that is not in a sandbox, and names the mode that says so.
func (r *Rules) refuseSandbox(p *spawnAgents, asked, limit string) *Refusal {
	mode, at := r.sandboxMode(p.target)
	if mode != "" {
		limit += ": the mode is " + mode
	}
	return at.refuse(RuleSandbox, p.named()+asked, limit)
}

// configured reports whether the target can be found: in the list of agents, or as the caller's
// own.
func (p *spawnAgents) configured() bool { return p.target != nil || p.targetID == p.callerID }

// setsAllowAgents reports whether an agent's entry says which agents it may spawn, rather than the
// defaults.
func (r *Rules) setsAllowAgents(a *Agent) bool {
	return a.Subagents.AllowAgents != nil || r.Subagents.AllowAgents == nil
}

// allows reports whether AllowAgents of the caller's agent, else of the defaults, name the target,
// or whether it is the caller's own agent.
func (r *Rules) allows(p *spawnAgents) bool {
	if p.targetID == p.callerID {
		return true
	}
	return slices.ContainsFunc(r.allowList(p), func(entry string) bool {
		entry = canonicalID(entry)
		return entry == "*" || entry != "" && entry == p.targetID
	})
}

// allowList returns the AllowAgents that count for the caller's agent.
func (r *Rules) allowList(p *spawnAgents) []string {
	if a := p.caller; a != nil && r.setsAllowAgents(a) {
		return a.Subagents.AllowAgents
	}
	return r.Subagents.AllowAgents
}

// allowAgentsPlace returns where the list of allowList is set.
func (r *Rules) allowAgentsPlace(p *spawnAgents) place {
	own := p.caller != nil && r.setsAllowAgents(p.caller)
	return r.subagentsPlace(p.callerID, own).dot("AllowAgents", "allowAgents")
}

// subagentsPlace returns where the Subagents of an agent are set, or those of the defaults.
func (r *Rules) subagentsPlace(id string, own bool) place {
	if !own {
		return defaultsPlace
	}
	return agentSubagents(r.agentPlace(id))
}

// allowedFrom returns the ids of the agents that the caller may spawn as one text, its own first.
// The caller's own is left out where a sandbox forbids it, as is each other. Sandbox.Decide is not
// asked: a refusal must not need it.
func (r *Rules) allowedFrom(c *Caller, p *spawnAgents) string {
	var ids []string
	add := func(id string, a *Agent) {
		if r.Sandbox.Decide != nil || !c.Sandboxed || r.sandboxed(id, a, session.Key{}, false) {
			ids = append(ids, id)
		}
	}
	add(p.callerID, p.caller)
	for i := range r.Agents {
		other := spawnAgents{
			callerID: p.callerID, caller: p.caller,
			targetID: canonicalID(r.Agents[i].ID), target: &r.Agents[i],
		}
		if other.targetID != p.callerID && r.allows(&other) {
			add(other.targetID, other.target)
		}
	}
	return listed(ids)
}

// listed returns ids as one text.
func listed(ids []string) string {
	if len(ids) == 0 {
		return "no agent"
	}
	return strings.Join(ids, ", ")
}
