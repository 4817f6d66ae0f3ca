package agent_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// leaves returns the fields of a struct of package policy, those of the structs in it included.
func leaves(of reflect.Type, path string, into map[string]bool) map[string]bool {
	for f := range of.Fields() {
		at := strings.TrimPrefix(path+"."+f.Name, ".")
		inner := f.Type
		kinds := []reflect.Kind{reflect.Slice, reflect.Map, reflect.Pointer}
		for slices.Contains(kinds, inner.Kind()) {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct || strings.Contains(path, "ByProvider") {
			into[at] = true
			continue
		}
		leaves(inner, at, into)
	}
	return into
}

// observeRules returns what the rules decide, and what a bot under them does.
func observeRules(t *testing.T, r policy.Rules) (seen, refused string) {
	p := &probe{cfg: agent.Config{
		Rules:     r,
		Workspace: effectWorkspace,
		Tools:     []agent.Tool{namedTool("read"), namedTool("exec"), namedTool("cron")},
		Models:    agent.Models{Model: "acme/large"},
	}}
	p.cfg.Prompts = effectPrompts
	p.only = r.Subagents.MaxSpawnDepth > 1
	if seen, refused = p.observe(t); refused != "" {
		return "", refused
	}
	// What needs a state that a short run does not come to, or a tool of the program's.
	top := policy.Caller{Key: topKey, Delegable: []string{"read"}}
	other := session.Must(session.NamedKey("main", "survey"))
	foreign := session.Must(session.MainKey("coder"))
	child := session.Must(topKey.Child("main", "a"))
	var b strings.Builder
	b.WriteString(seen)
	// TestAttachmentsThatAreRefused has what comes of these.
	fmt.Fprintln(&b, r.MayAttach(true), r.Attachments.OrDefault())
	fmt.Fprintln(&b, r.AgentName("coder")) // which agents_list shows
	for _, c := range []policy.Caller{
		top,
		{Key: topKey, Children: 3},
		{Key: topKey, TreeRuns: 3},
		{Key: topKey, Blocked: 3},
		{Key: topKey, Requested: 3},
		{Key: topKey, Budget: policy.Budget{Tokens: 1}},
		{Key: child, Depth: 1, Role: session.RoleOrchestrator, Spawned: 3},
		{Key: topKey, Sandboxed: true},
	} {
		g, err := r.Admit(c, policy.Request{ByModel: true})
		fmt.Fprintln(&b, g, g.Warnings, err)
		g, err = r.Admit(c, policy.Request{Agent: "coder", Fork: true})
		fmt.Fprintln(&b, g, err)
		for _, key := range []session.Key{other, foreign, child} {
			fmt.Fprintln(&b, r.Authorize(c, policy.VerbHistory, policy.Target{
				Key: key, Ancestors: []session.Key{topKey}[:min(1, key.Depth())],
			}))
		}
	}
	return b.String(), ""
}

// C12: every field of the Rules and of a policy.Agent has an effect, or is refused with a sentence.
func TestFieldsOfTheRulesHaveAnEffect(t *testing.T) {
	skipUnderRace(t)
	rows := make(ruleRows)
	rows.addLimits()
	rows.addOthers()
	rows.addTools()
	rows.addAgents()
	rows.addAgentLimits()
	rows.addRefusals()
	check(t, leaves(reflect.TypeFor[policy.Rules](), "", map[string]bool{}), rows, observeRules)
}

// ruleRows have a row for each field of the Rules.
type ruleRows map[string]effect[policy.Rules]

// add adds a row that sets a field, above what base sets.
func (rows ruleRows) add(name string, set func(*policy.Rules), base ...func(*policy.Rules)) {
	row := effect[policy.Rules]{set: set}
	if len(base) > 0 {
		row.base = base[0]
	}
	rows[name] = row
}

// team has two agents, of which each may spawn the other.
func team(r *policy.Rules) {
	r.Agents = []policy.Agent{{ID: "main"}, {ID: "coder"}}
	r.Subagents.AllowAgents = []string{"*"}
}

// deepTeam may have sub-agents of sub-agents.
func deepTeam(r *policy.Rules) {
	team(r)
	r.Subagents.MaxSpawnDepth = 2
}

// boxedTeam is in a sandbox.
func boxedTeam(r *policy.Rules) {
	team(r)
	r.Sandbox.Mode = policy.SandboxAll
}

func (rows ruleRows) addLimits() {
	sub := func(name string, f func(*policy.Subagents), base ...func(*policy.Rules)) {
		rows.add("Subagents."+name, func(r *policy.Rules) { f(&r.Subagents) }, base...)
	}
	sub("MaxSpawnDepth", func(s *policy.Subagents) { s.MaxSpawnDepth = 2 })
	sub("MaxChildren", func(s *policy.Subagents) { s.MaxChildren = 1 }, team)
	sub("MaxConcurrent", func(s *policy.Subagents) { s.MaxConcurrent = 1 }, team)
	sub("MaxSpawns", func(s *policy.Subagents) { s.MaxSpawns = 1 }, deepTeam)
	sub("MaxTreeRuns", func(s *policy.Subagents) { s.MaxTreeRuns = 1 }, team)
	sub("MaxRunsPerRequest", func(s *policy.Subagents) { s.MaxRunsPerRequest = 1 }, team)
	sub("MaxBlocked", func(s *policy.Subagents) { s.MaxBlocked = 2 })
	sub("Timeout", func(s *policy.Subagents) { s.Timeout = time.Second })
	sub("MaxTimeout", func(s *policy.Subagents) { s.MaxTimeout = time.Second })
	sub("ArchiveAfter", func(s *policy.Subagents) { s.ArchiveAfter = time.Minute })
	sub("Budget.Tokens", func(s *policy.Subagents) { s.Budget.Tokens = 1 })
	sub("Budget.Cost", func(s *policy.Subagents) { s.Budget.Cost = 0.1 })
	sub("Budget.Turns", func(s *policy.Subagents) { s.Budget.Turns = 1 }, deepTeam)
	sub("Model", func(s *policy.Subagents) { s.Model = "a/b" })
	sub("Thinking", func(s *policy.Subagents) { s.Thinking = "high" })
	sub("Announce", func(s *policy.Subagents) { s.Announce = policy.AnnounceTurn })
	sub("AllowAgents", func(s *policy.Subagents) { s.AllowAgents = []string{} }, team)
	sub("RequireAgentID", func(s *policy.Subagents) { s.RequireAgentID = new(true) })
}

func (rows ruleRows) addAttachments() {
	rows.add("Attachments.Enabled", func(r *policy.Rules) { r.Attachments.Enabled = true })
	rows.add("Attachments.MaxFiles", func(r *policy.Rules) { r.Attachments.MaxFiles = 1 })
	rows.add("Attachments.MaxFileBytes", func(r *policy.Rules) { r.Attachments.MaxFileBytes = 1 })
	rows.add("Attachments.MaxTotalBytes", func(r *policy.Rules) { r.Attachments.MaxTotalBytes = 1 })
	rows.add("Attachments.Retain", func(r *policy.Rules) { r.Attachments.Retain = true })
}

func (rows ruleRows) addOthers() {
	rows.add("Budget.Tokens", func(r *policy.Rules) { r.Budget.Tokens = 1 })
	rows.add("Budget.Cost", func(r *policy.Rules) { r.Budget.Cost = 0.1 })
	rows.add("Budget.Turns", func(r *policy.Rules) { r.Budget.Turns = 1 })
	rows.add("RequestBudget.Tokens", func(r *policy.Rules) { r.RequestBudget.Tokens = 1 })
	rows.add("RequestBudget.Cost", func(r *policy.Rules) { r.RequestBudget.Cost = 0.1 })
	rows.add("RequestBudget.Turns", func(r *policy.Rules) { r.RequestBudget.Turns = 1 })
	rows.add("MaxSessions", func(r *policy.Rules) { r.MaxSessions = 1 })
	rows.add("KeepArchives", func(r *policy.Rules) { r.KeepArchives = time.Minute })
	rows.addAttachments()
	rows.add("DefaultDeny", func(r *policy.Rules) { r.DefaultDeny = []string{} })
	rows.add("Groups", func(r *policy.Rules) { r.Groups = map[string][]string{"group:a": {"exec"}} },
		func(r *policy.Rules) {
			r.Groups = map[string][]string{"group:a": {"read"}}
			r.Tools.Deny = []string{"group:a"}
		})
	rows.add("Visibility", func(r *policy.Rules) { r.Visibility = policy.VisibilityAgent })
	rows.add("AgentToAgent.Enabled", func(r *policy.Rules) { r.AgentToAgent.Enabled = true },
		func(r *policy.Rules) { r.Visibility = policy.VisibilityAll })
	rows.add("AgentToAgent.Allow", func(r *policy.Rules) { r.AgentToAgent.Allow = []string{"main"} },
		func(r *policy.Rules) { r.Visibility, r.AgentToAgent.Enabled = policy.VisibilityAll, true })
	rows.add("Chats.Channel", func(r *policy.Rules) { r.Chats[0].Channel = "irc" }, func(r *policy.Rules) {
		r.Chats = []policy.Chat{{Channel: "x", Peer: "*", Tools: denyExec}}
	})
	rows.add("Chats.Peer", func(r *policy.Rules) { r.Chats[0].Peer = "#a" }, func(r *policy.Rules) {
		r.Chats = []policy.Chat{{Channel: "irc", Peer: "#b", Tools: denyExec}}
	})
	chat := func(name string, f func(*policy.ToolRules)) {
		rows.add("Chats.Tools."+name, func(r *policy.Rules) { f(&r.Chats[0].Tools) }, func(r *policy.Rules) {
			r.Chats = []policy.Chat{{Channel: "irc", Peer: "*"}}
		})
	}
	chat("Allow", func(l *policy.ToolRules) { l.Allow = []string{"read"} })
	chat("AlsoAllow", func(l *policy.ToolRules) { l.AlsoAllow = []string{"read"} })
	chat("Deny", func(l *policy.ToolRules) { l.Deny = []string{"read"} })
	rows.addSenders()
}

// addSenders adds what depends on who speaks. In what is observed it is not known who does.
func (rows ruleRows) addSenders() {
	owners := func(p policy.Person) func(*policy.Rules) {
		return func(r *policy.Rules) { r.Owners = []policy.Person{p} }
	}
	rows.add("Owners.ID", owners(policy.Person{ID: "*"}), owners(policy.Person{ID: "x"}))
	rows.add("Owners.Channel", owners(policy.Person{Channel: "sms", ID: "*"}),
		owners(policy.Person{Channel: "irc", ID: "*"}))
	rows.add("OwnerOnly", func(r *policy.Rules) { r.OwnerOnly = []string{"exec"} },
		owners(policy.Person{ID: "x"}))
	lists := func(path string, of func(*policy.Rules) *[]policy.SenderTools) {
		base := func(e policy.SenderTools) func(*policy.Rules) {
			return func(r *policy.Rules) {
				r.Chats = []policy.Chat{{Channel: "irc", Peer: "*"}}
				*of(r) = []policy.SenderTools{e}
			}
		}
		set := func(f func(*policy.SenderTools)) func(*policy.Rules) {
			return func(r *policy.Rules) { f(&(*of(r))[0]) }
		}
		everyone := policy.Person{ID: "*"}
		rows.add(path+"Person.ID", set(func(e *policy.SenderTools) { e.ID = "*" }),
			base(policy.SenderTools{Person: policy.Person{ID: "x"}, Tools: denyExec}))
		rows.add(path+"Person.Channel", set(func(e *policy.SenderTools) { e.Channel = "irc" }),
			base(policy.SenderTools{Person: policy.Person{Channel: "sms", ID: "*"}, Tools: denyExec}))
		rows.add(path+"Tools.Allow", set(func(e *policy.SenderTools) { e.Tools.Allow = []string{"read"} }),
			base(policy.SenderTools{Person: everyone}))
		rows.add(path+"Tools.AlsoAllow", set(func(e *policy.SenderTools) {
			e.Tools.AlsoAllow = []string{"read"}
		}), base(policy.SenderTools{Person: everyone}))
		rows.refuse(path+"Tools.AlsoAllow", "nothing here")
		rows.add(path+"Tools.Deny", set(func(e *policy.SenderTools) { e.Tools = denyExec }),
			base(policy.SenderTools{Person: everyone}))
	}
	lists("Senders.", func(r *policy.Rules) *[]policy.SenderTools { return &r.Senders })
	lists("Chats.Senders.", func(r *policy.Rules) *[]policy.SenderTools { return &r.Chats[0].Senders })
}

func (rows ruleRows) addTools() {
	rows.add("SubagentTools.Allow", func(r *policy.Rules) { r.SubagentTools.Allow = []string{"read"} })
	rows.add("SubagentTools.AlsoAllow", func(r *policy.Rules) { r.SubagentTools.AlsoAllow = []string{"cron"} })
	rows.add("SubagentTools.Deny", func(r *policy.Rules) { r.SubagentTools.Deny = []string{"read"} })
	rows.add("Sandbox.Mode", func(r *policy.Rules) { r.Sandbox.Mode = policy.SandboxAll })
	rows.add("Sandbox.Decide", func(r *policy.Rules) {
		r.Sandbox.Decide = func(string, session.Key) bool { return true }
	})
	rows.add("Sandbox.Tools.Allow", func(r *policy.Rules) { r.Sandbox.Tools.Allow = []string{"read"} }, boxedTeam)
	rows.add("Sandbox.Tools.AlsoAllow", func(r *policy.Rules) { r.Sandbox.Tools.AlsoAllow = []string{"x"} })
	rows.add("Sandbox.Tools.Deny", func(r *policy.Rules) { r.Sandbox.Tools.Deny = []string{"read"} }, boxedTeam)
	rows.add("Sandbox.SeeAll", func(r *policy.Rules) { r.Sandbox.SeeAll = true }, func(r *policy.Rules) {
		boxedTeam(r)
		r.Visibility = policy.VisibilityAgent
	})
	type field = func(*policy.Rules) *policy.ToolPolicy
	addToolPolicy := func(path string, base func(*policy.Rules), of field) {
		for name, f := range toolPolicyFields() {
			rows.add(path+name, func(r *policy.Rules) { f.set(of(r)) }, func(r *policy.Rules) {
				base(r)
				if f.base != nil {
					f.base(of(r))
				}
			})
		}
	}
	addToolPolicy("Tools.", team, func(r *policy.Rules) *policy.ToolPolicy { return &r.Tools })
	addToolPolicy("Agents.Tools.", team, func(r *policy.Rules) *policy.ToolPolicy { return &r.Agents[0].Tools })
}

func (rows ruleRows) addAgents() {
	coder := func(f func(*policy.Agent)) func(*policy.Rules) {
		return func(r *policy.Rules) { f(&r.Agents[1]) }
	}
	rows.add("Agents.ID", coder(func(a *policy.Agent) { a.ID = "ops" }), team)
	rows.add("Agents.Name", coder(func(a *policy.Agent) { a.Name = "Ada" }), team)
	rows.add("Agents.Model", coder(func(a *policy.Agent) { a.Model = "a/b" }), team)
	rows.add("Agents.Skills", func(r *policy.Rules) { r.Agents[0].Skills = []string{} }, team)
	rows.add("Agents.ShareHistory", func(r *policy.Rules) { r.Agents[0].ShareHistory = true }, team)
	rows.add("Agents.Sandbox", coder(func(a *policy.Agent) { a.Sandbox = policy.SandboxAll }), team)
	rows.add("Agents.SandboxTools.Allow", coder(func(a *policy.Agent) { a.SandboxTools.Allow = []string{"exec"} }), boxedTeam)
	rows.add("Agents.SandboxTools.AlsoAllow", coder(func(a *policy.Agent) {
		a.SandboxTools.AlsoAllow = []string{"x"}
	}), boxedTeam)
	rows.add("Agents.SandboxTools.Deny", coder(func(a *policy.Agent) { a.SandboxTools.Deny = []string{"read"} }), boxedTeam)
}

func (rows ruleRows) addAgentLimits() {
	own := func(name string, f func(*policy.Subagents), of int) {
		rows.add("Agents.Subagents."+name, func(r *policy.Rules) { f(&r.Agents[of].Subagents) }, team)
	}
	own("MaxSpawnDepth", func(s *policy.Subagents) { s.MaxSpawnDepth = 2 }, 1)
	own("MaxChildren", func(s *policy.Subagents) { s.MaxChildren = 1 }, 1)
	own("MaxConcurrent", func(s *policy.Subagents) { s.MaxConcurrent = 1 }, 1)
	own("MaxSpawns", func(s *policy.Subagents) { s.MaxSpawns = 1 }, 1)
	own("MaxTreeRuns", func(s *policy.Subagents) { s.MaxTreeRuns = 1 }, 1)
	own("MaxRunsPerRequest", func(s *policy.Subagents) { s.MaxRunsPerRequest = 1 }, 1)
	own("MaxBlocked", func(s *policy.Subagents) { s.MaxBlocked = 2 }, 1)
	own("Timeout", func(s *policy.Subagents) { s.Timeout = time.Second }, 1)
	own("MaxTimeout", func(s *policy.Subagents) { s.MaxTimeout = time.Second }, 1)
	own("ArchiveAfter", func(s *policy.Subagents) { s.ArchiveAfter = time.Second }, 1)
	own("Budget.Tokens", func(s *policy.Subagents) { s.Budget.Tokens = 1 }, 1)
	own("Budget.Cost", func(s *policy.Subagents) { s.Budget.Cost = 1 }, 1)
	own("Budget.Turns", func(s *policy.Subagents) { s.Budget.Turns = 1 }, 1)
	own("Model", func(s *policy.Subagents) { s.Model = "a/b" }, 1)
	own("Thinking", func(s *policy.Subagents) { s.Thinking = "high" }, 1)
	own("Announce", func(s *policy.Subagents) { s.Announce = policy.AnnounceTurn }, 1)
	own("AllowAgents", func(s *policy.Subagents) { s.AllowAgents = []string{} }, 0)
	own("RequireAgentID", func(s *policy.Subagents) { s.RequireAgentID = new(true) }, 0)
}

func (rows ruleRows) addRefusals() {
	for name, refused := range map[string]string{
		"Chats.Tools.AlsoAllow":   "nothing here",
		"Sandbox.Tools.AlsoAllow": "nothing here", "Tools.Delegable.Allow": "it is set of an agent",
		"Tools.Delegable.AlsoAllow":        "it is set of an agent",
		"Tools.Delegable.Deny":             "it is set of an agent",
		"Agents.Tools.Delegable.AlsoAllow": "nothing here", "Agents.SandboxTools.AlsoAllow": "nothing here",
	} {
		rows.refuse(name, refused)
	}
	for _, name := range []string{"Tools.ByProvider.ByProvider", "Tools.ByProvider.Delegable"} {
		rows.refuse(name, "neither in an entry")
		rows.refuse("Agents."+name, "neither in an entry")
	}
	for name := range strings.FieldsSeq("MaxSpawnDepth MaxChildren MaxConcurrent MaxSpawns " +
		"MaxTreeRuns MaxRunsPerRequest MaxBlocked Timeout MaxTimeout ArchiveAfter " +
		"Budget.Tokens Budget.Cost Budget.Turns") {
		rows.refuse("Agents.Subagents."+name, "nothing here: it is set at Rules.Subagents.")
	}
}

var denyExec = policy.ToolRules{Deny: []string{"exec"}}

// refuse says that a field is refused.
func (rows ruleRows) refuse(name, why string) {
	row := rows[name]
	row.refused = why
	rows[name] = row
}

// toolPolicyFields are the fields of a ToolPolicy.
func toolPolicyFields() map[string]effect[policy.ToolPolicy] {
	type tools = policy.ToolPolicy
	minimal := func(p *tools) { p.Profile = "minimal" }
	delegable := func(p *tools) { p.Delegable = &policy.ToolRules{} }
	acme := func(entry tools) func(*tools) {
		return func(p *tools) { p.ByProvider = map[string]tools{"acme": entry} }
	}
	return map[string]effect[tools]{
		"Profile":             {set: minimal},
		"Allow":               {set: func(p *tools) { p.Allow = []string{"read"} }},
		"AlsoAllow":           {base: minimal, set: func(p *tools) { p.AlsoAllow = []string{"read"} }},
		"Deny":                {set: func(p *tools) { p.Deny = []string{"read"} }},
		"Delegable.Allow":     {set: func(p *tools) { delegable(p); p.Delegable.Allow = []string{"read"} }},
		"Delegable.AlsoAllow": {set: func(p *tools) { p.Delegable = &policy.ToolRules{AlsoAllow: []string{"x"}} }},
		"Delegable.Deny":      {set: func(p *tools) { delegable(p); p.Delegable.Deny = []string{"read"} }},
		"ByProvider.Profile":  {set: acme(tools{Profile: "minimal"})},
		"ByProvider.Allow":    {set: acme(tools{Allow: []string{"read"}})},
		"ByProvider.AlsoAllow": {
			base: acme(tools{Profile: "minimal"}),
			set:  acme(tools{Profile: "minimal", AlsoAllow: []string{"read"}}),
		},
		"ByProvider.Deny":       {set: acme(tools{Deny: []string{"read"}})},
		"ByProvider.ByProvider": {set: acme(tools{ByProvider: map[string]tools{"a": {}}})},
		"ByProvider.Delegable":  {set: acme(tools{Delegable: &policy.ToolRules{}})},
	}
}
