package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A ToolRule is why a session may not use a tool.
type ToolRule string

// The reasons.
const (
	ToolDeny      ToolRule = "deny"      // a deny list names it
	ToolAllow     ToolRule = "allow"     // an allow list does not name it
	ToolProfile   ToolRule = "profile"   // the profile does not have it
	ToolRole      ToolRule = "role"      // sub-agents of this role are denied it by default
	ToolNever     ToolRule = "never"     // a leaf never spawns
	ToolRequest   ToolRule = "request"   // the spawn did not ask for it
	ToolDelegable ToolRule = "delegable" // it is not among what the caller may hand down
	ToolUnknown   ToolRule = "unknown"   // there is no such tool; the Entry is the nearest one
	ToolAgent     ToolRule = "agent"     // there is a list of agents, and the session's is not in it
	ToolOwner     ToolRule = "owner"     // owners alone may use it, and a sender is not one
	// ToolAllowAgents says that the agent of the session above may not spawn that of the session
	// any more, which is the Entry.
	ToolAllowAgents ToolRule = "allowAgents"
)

// A ToolVerdict says whether a session may use a tool, and if not, which rule removed it.
type ToolVerdict struct {
	Tool    string   `json:"tool"`
	Allowed bool     `json:"allowed"`
	Rule    ToolRule `json:"rule,omitempty"`
	Entry   string   `json:"entry,omitempty"` // the entry of the list, or the profile, that did it
	Field   string   `json:"field,omitempty"` // where a program changes that, if the Rules say it
	Path    string   `json:"path,omitempty"`  // where the configuration does, see [Refusal.Path]
	// Sender says that the rule is one about who speaks, and SenderID who that is: the ID of a
	// [Sender], which may be empty. The text of the verdict does not have it.
	Sender   bool   `json:"sender,omitempty"`
	SenderID string `json:"senderId,omitempty"`
}

// String returns the verdict as a clause, to go into a sentence.
func (v ToolVerdict) String() string {
	tool, at := text.Quote(v.Tool), place{v.Field, v.Path}
	if v.Allowed {
		return fmt.Sprintf("tool %s is allowed", tool)
	}
	if v.Sender {
		return v.senderString(tool, at)
	}
	switch v.Rule {
	case ToolDeny:
		return fmt.Sprintf("tool %s is removed by %q at %s", tool, v.Entry, at)
	case ToolProfile:
		return fmt.Sprintf("tool %s is not in profile %q, set at %s", tool, v.Entry, at)
	case ToolRole:
		return fmt.Sprintf("tool %s is denied to sub-agents unless named at %s", tool, at)
	case ToolNever:
		return fmt.Sprintf("tool %s is never for a leaf, see %s", tool, at)
	case ToolRequest:
		return fmt.Sprintf("tool %s was not asked for in %s", tool, at)
	case ToolAgent:
		return fmt.Sprintf("tool %s is removed because agent %q is not configured at %s",
			tool, v.Entry, at)
	case ToolAllowAgents:
		return fmt.Sprintf("tool %s is removed because agent %q is not named at %s any more",
			tool, v.Entry, at)
	case ToolDelegable:
		return fmt.Sprintf("tool %s is not among what the caller may hand down, %s", tool, at)
	case ToolUnknown:
		if v.Entry != "" {
			return fmt.Sprintf("there is no tool %s; the nearest is %q", tool, v.Entry)
		}
		return "there is no tool " + tool
	case ToolAllow, ToolOwner:
	}
	return fmt.Sprintf("tool %s is not named at %s", tool, at)
}

// senderString is String of a rule about who speaks. It names no person: who reads it may be shown
// people in another way.
func (v *ToolVerdict) senderString(tool string, at place) string {
	const whom = "for a person whom this turn works for"
	switch v.Rule { //nolint:exhaustive // a stage of a sender has no others
	case ToolOwner:
		return fmt.Sprintf("tool %s is for owners of the bot alone, and this turn works for a "+
			"person who is not one, see %s", tool, at)
	case ToolDeny:
		return fmt.Sprintf("tool %s is removed %s by %q at %s", tool, whom, v.Entry, at)
	}
	return fmt.Sprintf("tool %s is not named %s at %s", tool, whom, at)
}

// FilterTools returns the names that a session may use, in the order given. It returns names itself
// if nothing is removed, which allocates nothing for names in lower case. An unknown role counts as
// a leaf.
func (r *Rules) FilterTools(s Subject, names []string) []string {
	p := r.subjectPipeline(s)
	return p.filter(names)
}

// ExplainTools says of each name whether the session may use it, and if not, which rule removed it.
func (r *Rules) ExplainTools(s Subject, names []string) []ToolVerdict {
	p := r.subjectPipeline(s)
	return p.verdicts(names)
}

// ExplainAbove says which rule keeps a tool from the last of the sessions below on account of one
// above it: the rule by which the first of these, from the top down, may not hand the tool down
// today, or may not spawn the agent of the next one any more. above and below are as
// [Rules.Effective] takes them, and top is the session that above is of. ok is false if each may
// hand it down, or one was not given it.
func (r *Rules) ExplainAbove(
	top session.Key, above Authority, below []Descendant, tool string,
) (v ToolVerdict, ok bool) {
	for i := range below {
		if !slices.Contains(above.Delegable, tool) {
			v = r.handsDown(Subject{
				Key: top, Agent: above.Agent, Role: above.Role, Sandboxed: above.Sandboxed,
				Model: above.Model,
			}, tool)
			return v, !v.Allowed
		}
		now := r.effective(&above, &below[i])
		if now.Role == session.RoleUnknown {
			return r.givesNothing(&above, &below[i], tool)
		}
		top, above = below[i].Key, now
	}
	return v, false
}

// givesNothing says by which rule a session that effective gives nothing has lost a tool. ok is
// false if it is none: its record contradicts itself, or the session above has nothing.
func (r *Rules) givesNothing(above *Authority, d *Descendant, tool string) (ToolVerdict, bool) {
	p := spawnAgents{callerID: above.Agent, targetID: d.Given.Agent, caller: r.agent(above.Agent)}
	p.target = r.agent(d.Given.Agent)
	v, at := ToolVerdict{Tool: tool, Rule: ToolAgent, Entry: d.Given.Agent}, listPlace
	switch {
	case above.Role == session.RoleUnknown:
		return v, false
	case !r.lists(p.caller):
		v.Entry = above.Agent
	case !p.configured():
	case !r.allows(&p):
		v.Rule, at = ToolAllowAgents, r.allowAgentsPlace(&p)
	default:
		return v, false
	}
	v.Field, v.Path = at.field, at.path
	return v, true
}

// handsDown says whether the rules let a session hand a tool down, as toolSets has it.
func (r *Rules) handsDown(s Subject, tool string) ToolVerdict {
	s, a := r.subject(s)
	p := r.pipeline(s, a)
	if a != nil && a.Tools.Delegable != nil {
		p = r.delegablePipeline(s, a)
	}
	return p.verdict(tool)
}

// ExplainSpawn says of each tool that the caller may hand down whether the child would get it, and
// if not, which rule removed it. The error is that of [Rules.Admit].
func (r *Rules) ExplainSpawn(c Caller, q Request) ([]ToolVerdict, error) {
	g, err := r.Admit(c, q)
	if err != nil {
		return nil, err
	}
	p := r.subjectPipeline(Subject{
		Agent: g.Agent, Role: g.Role, Sandboxed: g.Sandboxed, Model: g.Model.Value,
	})
	if q.Tools != nil {
		p.addRequest(q.Tools)
	}
	return p.verdicts(c.Delegable), nil
}

func (r *Rules) subjectPipeline(s Subject) pipeline {
	s, a := r.subject(s)
	p := r.pipeline(s, a)
	p.addSenders(s)
	return p
}

// subject fills in the agent.
func (r *Rules) subject(s Subject) (Subject, *Agent) {
	if s.Agent == "" {
		s.Agent = r.AgentOf(s.Key)
	}
	s.Agent = canonicalID(s.Agent)
	return s, r.agent(s.Agent)
}

// verdicts says of each tool whether it passes.
func (p *pipeline) verdicts(names []string) []ToolVerdict {
	out := make([]ToolVerdict, len(names))
	for i, name := range names {
		out[i] = p.verdict(name)
	}
	return out
}

// verdict says whether a tool passes.
func (p *pipeline) verdict(name string) ToolVerdict {
	gone, at := p.removed(name), place{}
	v := ToolVerdict{Tool: name, Allowed: gone.by == "", Rule: gone.by, Entry: gone.entry}
	if s := gone.stage; s != nil && s.kind >= stageOwner {
		v.Sender, v.SenderID = true, s.sender
	}
	switch gone.by {
	case "", ToolDelegable, ToolUnknown, ToolAllowAgents:
	case ToolRole:
		at = subagentToolsPlace.dot("AlsoAllow", "alsoAllow")
	case ToolNever:
		at = maxDepthPlace
	case ToolRequest:
		at = requestPlace("Tools")
	case ToolAgent:
		at = listPlace
	case ToolOwner:
		at = ownerOnlyPlace
	case ToolDeny, ToolAllow, ToolProfile:
		at = p.place(gone.stage).dot(title(string(gone.by)), string(gone.by))
	}
	v.Field, v.Path = at.field, at.path
	return v
}

// place returns where the rules of a stage are set.
func (p *pipeline) place(s *stage) place {
	agent := func() place { return p.rules.agentPlace(p.agentID) }
	switch s.kind {
	case stageGlobalProvider:
		return toolsPlace.dot("ByProvider", "byProvider").entry(s.key)
	case stageAgent:
		return agent().dot("Tools", "tools")
	case stageAgentProvider:
		return agent().dot("Tools.ByProvider", "tools.byProvider").entry(s.key)
	case stageDelegable:
		return agent().dot("Tools.Delegable", "tools.delegable")
	case stageChat:
		return p.rules.chatPlace(p.chat).dot("Tools", "tools")
	case stageRoom:
		return p.rules.chatPlace(s.chat).dot("Tools", "tools")
	case stageSandbox:
		return sandboxToolsPlace
	case stageAgentSandbox:
		return agent().dot("SandboxTools", sandboxToolsPlace.path)
	case stageSubagent:
		return subagentToolsPlace
	case stageSender:
		return senderToolsPlace(sendersPlace, p.rules.Senders, s.item)
	case stageChatSender:
		at := p.rules.chatPlace(s.chat).dot("Senders", "toolsBySender")
		return senderToolsPlace(at, s.chat.Senders, s.item)
	case stageGlobal, stageListed, stageRequest, stageOwner:
	}
	return toolsPlace
}

// missing returns a verdict for every tool that a spawn asked for and did not get.
func (r *Rules) missing(p *pipeline, c *Caller, asked, got []string) []ToolVerdict {
	var out []ToolVerdict
	for _, entry := range asked {
		name := canonicalTool(entry)
		matches := func(tool string) bool { return r.entryMatches(name, canonicalTool(tool)) }
		if slices.ContainsFunc(got, matches) {
			continue
		}
		found := false
		for _, tool := range c.Delegable {
			if matches(tool) {
				out, found = append(out, p.verdict(tool)), true
			}
		}
		if !found {
			i := slices.IndexFunc(c.Known, matches)
			out = append(out, r.withheld(c, strings.TrimSpace(name), i))
		}
	}
	return out
}

// withheld returns the verdict on a tool that a caller may not hand down. It is the ith of the
// known ones, and none of them with -1.
func (r *Rules) withheld(c *Caller, asked string, i int) ToolVerdict {
	v := ToolVerdict{Tool: asked, Rule: ToolDelegable, Path: "Caller.Delegable"}
	switch {
	case c.Known == nil:
		return v
	case i < 0:
		near := text.Nearest(asked, c.Delegable)
		if near == "" {
			near = text.Nearest(asked, c.Known)
		}
		return ToolVerdict{Tool: asked, Rule: ToolUnknown, Entry: near}
	}
	v.Path = "what it was given when it was spawned"
	depth := max(c.Depth, c.Key.Depth())
	s, a := r.subject(Subject{
		Key: c.Key, Role: r.roleNow(c, depth), Sandboxed: c.Sandboxed, Model: c.Model,
	})
	p := r.pipeline(s, a)
	if a != nil && a.Tools.Delegable != nil {
		p = r.delegablePipeline(s, a)
	}
	s.Senders = c.Senders
	p.addSenders(s)
	if own := p.verdict(c.Known[i]); own.Sender && !own.Allowed {
		return own
	} else if !own.Allowed {
		v.Entry, v.Field, v.Path = own.Entry, own.Field, own.Path
	}
	return v
}
