package agent_test

import (
	"path"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// rightsModel says what sessions may do, from the documentation of package policy alone: it shares
// no code with it. It does not know bash and apply-patch, nor ByProvider of the rules themselves.
type rightsModel struct{ rules *policy.Rules }

// modelSession is a session as the model knows it: what it was given, or what it has today.
type modelSession struct {
	key              session.Key
	agent            string
	model            string
	depth            int
	leaf, sandboxed  bool
	tools, delegable []string
}

var (
	modelGroups = map[string]string{
		"group:fs":      "read write edit apply_patch",
		"group:runtime": "exec process code_execution",
		"group:web":     "web_search web_fetch x_search",
		"group:sessions": "sessions_list sessions_history sessions_send sessions_spawn" +
			" sessions_yield subagents session_status",
	}
	modelProfiles = map[string]string{
		"coding": "group:fs group:runtime memory_search memory_get group:sessions cron image",
		"messaging": "sessions_list sessions_history sessions_send session_status" +
			" message",
	}
	modelSandboxAllow = strings.Fields("exec process group:fs image group:sessions")
	modelSandboxDeny  = strings.Fields("browser canvas nodes cron gateway")
	modelDefaultDeny  = strings.Fields("group:sessions agents_list cron gateway")
	modelLifted       = strings.Fields(
		"sessions_spawn subagents sessions_list sessions_history sessions_yield")
)

// names reports whether an entry of a list stands for a tool.
func (m rightsModel) names(list []string, tool string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if members, ok := modelGroups[entry]; ok {
			return m.names(strings.Fields(members), tool)
		}
		if members, ok := m.rules.Groups[entry]; ok {
			return m.names(members, tool)
		}
		matched, err := path.Match(entry, tool)
		return matched && err == nil
	})
}

// passes reports whether a tool passes an Allow, with what is allowed beside it, and a Deny.
func (m rightsModel) passes(tool string, allow, also, deny []string) bool {
	if m.names(deny, tool) {
		return false
	}
	both := slices.Concat(allow, also)
	return len(allow) == 0 || m.names(both, tool) ||
		tool == "apply_patch" && m.names(both, "write")
}

// inProfile reports whether a tool is in a profile or added to it.
func (m rightsModel) inProfile(tool, profile string, also []string) bool {
	list, limited := modelProfiles[profile]
	return !limited || m.passes(tool, strings.Fields(list), also, nil)
}

func (m rightsModel) agentOf(id string) *policy.Agent {
	for i := range m.rules.Agents {
		if m.rules.Agents[i].ID == id {
			return &m.rules.Agents[i]
		}
	}
	return nil
}

// allows reports whether the rules let a session use a tool, or hand it down, whatever the session
// was given.
func (m rightsModel) allows(s *modelSession, tool string, handDown bool) bool {
	a, g := m.agentOf(s.agent), m.rules.Tools
	if a == nil {
		a = &policy.Agent{}
	}
	profile, also := g.Profile, g.AlsoAllow
	own := m.passes(tool, a.Tools.Allow, a.Tools.AlsoAllow, a.Tools.Deny)
	for provider, p := range a.Tools.ByProvider {
		if strings.HasPrefix(s.model, provider+"/") {
			own = own && m.inProfile(tool, p.Profile, p.AlsoAllow) &&
				m.passes(tool, p.Allow, p.AlsoAllow, p.Deny)
		}
	}
	if d := a.Tools.Delegable; handDown && d != nil {
		own = m.passes(tool, d.Allow, nil, d.Deny)
	} else {
		if a.Tools.Profile != "" {
			profile = a.Tools.Profile
		}
		if a.Tools.AlsoAllow != nil {
			also = a.Tools.AlsoAllow
		}
	}
	return own && m.inProfile(tool, profile, also) &&
		m.passes(tool, g.Allow, g.AlsoAllow, g.Deny) &&
		m.allowsChat(s, tool) && m.allowsSandbox(s, a, tool) && m.allowsSubagent(s, tool)
}

func (m rightsModel) allowsChat(s *modelSession, tool string) bool {
	var found *policy.Chat
	for i := range m.rules.Chats {
		c := &m.rules.Chats[i]
		if s.depth > 0 || c.Channel != s.key.Channel() {
			continue
		}
		if c.Peer == s.key.Peer() && (found == nil || found.Peer == "*") ||
			c.Peer == "*" && found == nil {
			found = c
		}
	}
	return found == nil || m.passes(tool, found.Tools.Allow, nil, found.Tools.Deny)
}

func (m rightsModel) allowsSandbox(s *modelSession, a *policy.Agent, tool string) bool {
	if !s.sandboxed {
		return true
	}
	first := func(lists ...[]string) []string {
		i := slices.IndexFunc(lists, func(l []string) bool { return l != nil })
		return lists[i]
	}
	all := m.rules.Sandbox.Tools
	return m.passes(tool, first(a.SandboxTools.Allow, all.Allow, modelSandboxAllow), nil,
		first(a.SandboxTools.Deny, all.Deny, modelSandboxDeny))
}

func (m rightsModel) allowsSubagent(s *modelSession, tool string) bool {
	t := m.rules.SubagentTools
	switch {
	case s.depth == 0:
		return true
	case s.leaf && tool == "sessions_spawn", !m.passes(tool, t.Allow, t.AlsoAllow, t.Deny):
		return false
	case !s.leaf && slices.Contains(modelLifted, tool):
		return true
	}
	named := slices.Contains(slices.Concat(t.Allow, t.AlsoAllow), tool)
	return named || !m.names(modelDefaultDeny, tool)
}

// wantsSandbox reports whether the rules put a session of an agent into a sandbox.
func (m rightsModel) wantsSandbox(agent string, main bool) bool {
	mode := m.rules.Sandbox.Mode
	if a := m.agentOf(agent); a != nil && a.Sandbox != policy.SandboxInherit {
		mode = a.Sandbox
	}
	return mode == policy.SandboxAll || mode == policy.SandboxNonMain && !main
}

// top returns what a top-level session has.
func (m rightsModel) top(key session.Key, model string, catalog []string) modelSession {
	s := modelSession{
		key: key, agent: key.Agent(), model: model,
		sandboxed: m.wantsSandbox(key.Agent(), key.IsMain()),
	}
	s.tools, s.delegable = m.left(&s, catalog, catalog)
	return s
}

// left returns what the rules leave of two lists.
func (m rightsModel) left(s *modelSession, use, handDown []string) (tools, delegable []string) {
	for _, tool := range use {
		if m.allows(s, tool, false) {
			tools = append(tools, tool)
		}
	}
	for _, tool := range handDown {
		if m.allows(s, tool, true) {
			delegable = append(delegable, tool)
		}
	}
	return tools, delegable
}

// child returns what a child is given at its spawn, below what its requester has.
func (m rightsModel) child(
	above *modelSession, key session.Key, agent, model string, asked []string,
) modelSession {
	s := modelSession{
		key: key, agent: agent, model: model, depth: above.depth + 1,
		leaf:      above.depth+1 >= m.rules.Subagents.MaxSpawnDepth,
		sandboxed: m.wantsSandbox(agent, false),
	}
	offered := above.delegable
	if asked != nil {
		offered = slices.DeleteFunc(slices.Clone(offered), func(tool string) bool {
			return !m.names(asked, tool)
		})
	}
	s.tools, s.delegable = m.left(&s, offered, offered)
	return s
}

// today returns what is left of what a session was given, below what its requester has today.
func (m rightsModel) today(above, given *modelSession) modelSession {
	s := *given
	if given.agent != above.agent &&
		(m.agentOf(given.agent) == nil || !m.mayHave(above.agent, given.agent)) {
		s.sandboxed, s.tools, s.delegable = true, nil, nil
		return s
	}
	s.leaf = given.leaf || given.depth >= m.rules.Subagents.MaxSpawnDepth
	s.sandboxed = above.sandboxed || given.sandboxed || m.wantsSandbox(given.agent, false)
	s.tools, s.delegable = m.left(&s, given.tools, given.delegable)
	gone := func(tool string) bool { return !slices.Contains(above.delegable, tool) }
	s.tools = slices.DeleteFunc(s.tools, gone)
	s.delegable = slices.DeleteFunc(s.delegable, gone)
	return s
}

// mayHave reports whether AllowAgents let sessions of one agent have sub-agents of another.
func (m rightsModel) mayHave(above, agent string) bool {
	allowed := m.rules.Subagents.AllowAgents
	if a := m.agentOf(above); a != nil && a.Subagents.AllowAgents != nil {
		allowed = a.Subagents.AllowAgents
	}
	return slices.Contains(allowed, agent) || slices.Contains(allowed, "*")
}
