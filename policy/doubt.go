package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Doubt is something in some [Rules] that can be meant, and most often is not.
type Doubt struct {
	Field string // "Rules.Tools.Deny[0]"
	Path  string // "tools.deny[0]", its place in the configuration
	Text  string // a clause
}

// String returns the doubt as a line.
func (d Doubt) String() string { return place{d.Field, d.Path}.String() + ": " + d.Text }

// Doubts returns what is doubtful in rules that are valid, for a program with the tools of those
// names. It does not call [Sandbox.Decide].
//
//   - An entry of a list of tools that stands for no tool, neither of the program nor of the
//     built-in groups. It may be meant for a tool that comes later.
//   - A list of allowed tools that leaves none of the program's.
//   - A pattern of agent ids that stands for no configured agent.
//   - A conversation that no transport is likely to name so, and one that is there twice.
//   - A person who is twice in one list of tools by sender.
//   - A duration of less than a millisecond, which is most often a number without its unit.
//   - A tool that an agent is denied, and its specialists with it: see [ToolPolicy.Delegable].
func (r *Rules) Doubts(tools []string) []Doubt {
	d := doubter{rules: r}
	for _, name := range tools {
		d.tools = append(d.tools, canonicalTool(name))
	}
	d.known = slices.Concat(d.tools, groupFS, groupRuntime, groupOpenClaw)
	d.policy(toolsPlace, &r.Tools)
	for i := range r.Agents {
		a := &r.Agents[i]
		at := r.agentPlace(a.ID)
		d.policy(at.dot("Tools", "tools"), &a.Tools)
		d.lists(at.dot("SandboxTools", sandboxToolsPlace.path), &a.SandboxTools)
		d.specialists(at.dot("Tools.Delegable", "tools.delegable"), a)
	}
	d.lists(subagentToolsPlace, &r.SubagentTools)
	d.list(defaultDenyPlace, r.DefaultDeny)
	for _, name := range slices.Sorted(maps.Keys(r.Groups)) {
		d.list(groupsPlace.entry(name), r.Groups[name])
	}
	for i := range r.Chats {
		d.lists(r.chatPlace(&r.Chats[i]).dot("Tools", "tools"), &r.Chats[i].Tools)
		d.chat(i)
	}
	d.senders()
	d.lists(sandboxToolsPlace, &r.Sandbox.Tools)
	d.agentToAgent()
	d.unit(timeoutPlace, r.Subagents.Timeout)
	d.unit(maxTimeoutPlace, r.Subagents.MaxTimeout)
	d.unit(archivePlace, r.Subagents.ArchiveAfter)
	d.unit(keepArchivesPlace, r.KeepArchives)
	return d.found
}

type doubter struct {
	rules        *Rules
	tools, known []string // canonical names
	found        []Doubt
}

func (d *doubter) add(at place, format string, args ...any) {
	d.found = append(d.found, Doubt{at.field, at.path, fmt.Sprintf(format, args...)})
}

// unit looks at a duration.
func (d *doubter) unit(at place, value time.Duration) {
	if fault := text.UnitFault(value); fault != "" {
		d.add(at, "%s", fault)
	}
}

// policy looks at a level of the configuration.
func (d *doubter) policy(at place, t *ToolPolicy) {
	d.lists(at, &ToolRules{Allow: t.Allow, AlsoAllow: t.AlsoAllow, Deny: t.Deny})
	if t.Delegable != nil {
		d.lists(at.dot("Delegable", "delegable"), t.Delegable)
	}
	for _, key := range slices.Sorted(maps.Keys(t.ByProvider)) {
		entry := t.ByProvider[key]
		d.policy(at.dot("ByProvider", "byProvider").entry(key), &entry)
	}
}

// lists looks at the three lists of tools in one place.
func (d *doubter) lists(at place, t *ToolRules) {
	allow := at.dot("Allow", "allow")
	d.list(allow, t.Allow)
	d.list(at.dot("AlsoAllow", "alsoAllow"), t.AlsoAllow)
	d.list(at.dot("Deny", "deny"), t.Deny)
	named := func(name string) bool {
		_, ok := d.rules.matchTool(slices.Concat(t.Allow, t.AlsoAllow), name)
		return ok
	}
	if len(t.Allow) > 0 && len(d.tools) > 0 && !slices.ContainsFunc(d.tools, named) {
		d.add(allow, "it names no tool of the program, so that none is left")
	}
}

// list looks for entries that stand for no tool. A group has been validated.
func (d *doubter) list(at place, list []string) {
	for i, entry := range list {
		name := canonicalTool(entry)
		matches := func(known string) bool { return d.rules.entryMatches(name, known) }
		if name == "" || isGroup(name) || slices.ContainsFunc(d.known, matches) {
			continue
		}
		hint := ""
		if near := text.Nearest(name, d.known); near != "" {
			hint = fmt.Sprintf("; the nearest is %q", near)
		}
		d.add(at.item(i), "there is no tool %s%s", text.Quote(entry), hint)
	}
}

// chat looks at the name of a conversation. A key may have such a peer, and so it is not an error.
func (d *doubter) chat(i int) {
	c := &d.rules.Chats[i]
	at := d.rules.chatPlace(c).dot("Peer", "peer")
	channel := canonicalID(c.Channel)
	head, tail, split := strings.Cut(c.Peer, ":")
	switch head = canonicalID(head); {
	case c.Peer != "*" && strings.Contains(c.Peer, "*"):
		d.add(at, "%s is not a pattern: it is one peer of that very name; * alone is every one",
			text.Quote(c.Peer))
	case split && (head == channel || slices.Contains(chatWords, head)):
		d.add(at, "%s stands for a peer of that very name; the peer of the key %s is %s",
			text.Quote(c.Peer), text.Quote("agent:"+d.rules.DefaultAgent()+":"+channel+":group:"+tail),
			text.Quote(tail))
	}
	same := func(other Chat) bool {
		return canonicalID(other.Channel) == channel && other.Peer == c.Peer
	}
	if first := slices.IndexFunc(d.rules.Chats, same); first < i {
		d.add(at, "it is the conversation of Rules.Chats[%d], which applies in place of this one", first)
	}
}

// chatWords are the kinds of chats, which keys name before the peer.
var chatWords = []string{"direct", "dm", "group", "channel"}

// specialists looks for tools that the rules of an agent take from its own sessions, and so from
// the agents that it may spawn.
func (d *doubter) specialists(delegable place, a *Agent) {
	if len(d.tools) == 0 || a.Tools.Delegable != nil || d.isSpecialist(a) {
		return // it says what is handed down, or is narrow itself
	}
	var tools, agents []string
	own := d.rules.pipeline(Subject{Agent: canonicalID(a.ID), Role: session.RoleMain}, a)
	for _, name := range d.tools {
		gone := own.removed(name)
		if gone.by == "" || gone.stage == nil || gone.stage.kind != stageAgent {
			continue
		}
		for i := range d.rules.Agents {
			b := &d.rules.Agents[i]
			if !d.mayHave(a, b, name) {
				continue
			}
			if id := canonicalID(b.ID); !slices.Contains(agents, id) {
				agents = append(agents, id)
			}
			if !slices.Contains(tools, name) {
				tools = append(tools, name)
			}
		}
	}
	if len(tools) > 0 {
		d.add(delegable, "agent %q may not use %s, and so may not the sub-agents that it spawns of %s, "+
			"which have it otherwise; set this to say what it hands down, &policy.ToolRules{} for all",
			canonicalID(a.ID), strings.Join(tools, ", "), strings.Join(agents, ", "))
	}
}

// isSpecialist reports whether an agent is there to be spawned: another agent may spawn it, and it
// is not the default agent.
func (d *doubter) isSpecialist(a *Agent) bool {
	p := spawnAgents{targetID: canonicalID(a.ID), target: a}
	return p.targetID != d.rules.DefaultAgent() &&
		slices.ContainsFunc(d.rules.Agents, func(above Agent) bool {
			p.callerID, p.caller = canonicalID(above.ID), &above
			return p.callerID != p.targetID && d.rules.allows(&p)
		})
}

// mayHave reports whether a may spawn another agent b whose sub-agents would have a tool by their
// own rules.
func (d *doubter) mayHave(a, b *Agent, tool string) bool {
	p := spawnAgents{
		callerID: canonicalID(a.ID), targetID: canonicalID(b.ID), caller: a, target: b,
	}
	if p.callerID == p.targetID || !d.rules.allows(&p) {
		return false
	}
	child := d.rules.pipeline(Subject{Agent: p.targetID, Role: session.RoleLeaf}, b)
	return child.removed(tool).by == ""
}

// agentToAgent looks for patterns that stand for no agent.
func (d *doubter) agentToAgent() {
	ids := []string{session.DefaultAgent}
	for i := range d.rules.Agents {
		ids = append(ids, canonicalID(d.rules.Agents[i].ID))
	}
	for i, entry := range d.rules.AgentToAgent.Allow {
		matches := func(id string) bool { return glob(canonicalID(entry), id) }
		if !slices.ContainsFunc(ids, matches) {
			d.add(agentToAgentPlace.dot("Allow", "allow").item(i), "there is no agent %s in %s",
				text.Quote(entry), listPlace)
		}
	}
}
