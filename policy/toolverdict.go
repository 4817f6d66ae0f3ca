package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
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
	ToolAgent     ToolRule = "agent"     // there is a list of agents, and the session's is not in it
)

// A ToolVerdict says whether a session may use a tool, and if not, which rule removed it.
type ToolVerdict struct {
	Tool    string   `json:"tool"`
	Allowed bool     `json:"allowed"`
	Rule    ToolRule `json:"rule,omitempty"`
	Entry   string   `json:"entry,omitempty"` // the entry of the list, or the profile, that did it
	Field   string   `json:"field,omitempty"` // where a program changes that, if the Rules say it
	Path    string   `json:"path,omitempty"`  // where the configuration does, see [Refusal.Path]
}

// String returns the verdict as a clause, to go into a sentence.
func (v ToolVerdict) String() string {
	tool, at := text.Quote(v.Tool), place{v.Field, v.Path}
	if v.Allowed {
		return fmt.Sprintf("tool %s is allowed", tool)
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
	case ToolDelegable:
		return fmt.Sprintf("tool %s is not among what the caller may hand down, %s", tool, at)
	case ToolAllow:
	}
	return fmt.Sprintf("tool %s is not named at %s", tool, at)
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
	return r.pipeline(s, a)
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
	switch gone.by {
	case "", ToolDelegable:
	case ToolRole:
		at = subagentToolsPlace.dot("AlsoAllow", "alsoAllow")
	case ToolNever:
		at = maxDepthPlace
	case ToolRequest:
		at = requestPlace("Tools")
	case ToolAgent:
		at = listPlace
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
	case stageSandbox:
		return sandboxToolsPlace
	case stageAgentSandbox:
		return agent().dot("SandboxTools", sandboxToolsPlace.path)
	case stageSubagent:
		return subagentToolsPlace
	case stageGlobal, stageListed, stageRequest:
	}
	return toolsPlace
}

// missing returns a verdict for every tool that a spawn asked for and did not get. have are the
// tools that the caller may hand down.
func (p *pipeline) missing(asked, have, got []string) []ToolVerdict {
	var out []ToolVerdict
	for _, entry := range asked {
		entry = canonicalTool(entry)
		matches := func(
			name string,
		) bool {
			return p.rules.entryMatches(entry, canonicalTool(name))
		}
		if slices.ContainsFunc(got, matches) {
			continue
		}
		found := false
		for _, name := range have {
			if matches(name) {
				out, found = append(out, p.verdict(name)), true
			}
		}
		if !found {
			out = append(out,
				ToolVerdict{Tool: strings.TrimSpace(entry), Rule: ToolDelegable, Path: "Caller.Delegable"})
		}
	}
	return out
}
