package policy

import (
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Subject is a session whose tools [Rules.FilterTools] and [Rules.ExplainTools] look at.
type Subject struct {
	Key       session.Key // names the agent and the conversation; may be zero where Agent is set
	Agent     string      // empty: that of Key
	Role      session.Role
	Sandboxed bool
	Model     string // "provider/model", for [ToolPolicy.ByProvider]
	// Senders are the people for whom a turn of the session works, see [Rules.ForSenders].
	Senders []Sender
}

// A stageKind says where the rules of a stage come from. The order is that in which they apply.
type stageKind uint8

const (
	stageListed stageKind = iota
	stageGlobal
	stageGlobalProvider
	stageAgent
	stageAgentProvider
	stageDelegable
	stageChat
	stageSandbox
	stageAgentSandbox
	stageSubagent
	stageRequest
	stageOwner
	stageSender
	stageChatSender
	stageRoom // the conversation of a sender, where that is not the one of the session
)

// maxStages is the most that one pipeline can have: the profile and rules of every session, of the
// agent and of either by provider, the conversation, the two of the sandbox, the sub-agents and the
// request, where the agent's profile is in place of that of every session.
const maxStages = 12

// A stage is one filter. It removes what deny names, and, if it is limited, what neither allow nor
// also names.
type stage struct {
	kind              stageKind
	limited           bool
	profile           string // set if allow is that of a profile
	key               string // of a map, such as the provider
	chat              *Chat  // of stageChatSender and stageRoom
	item              int    // of the list of stageSender and stageChatSender
	sender            string // the ID of whom the stage is for
	allow, also, deny []string
}

// A pipeline is the intersection of its stages: none can add what another removes.
type pipeline struct {
	rules   *Rules
	role    session.Role
	agentID string
	chat    *Chat // of stageChat
	n       int
	stages  [maxStages]stage
	more    []stage // those of senders, which come last
}

// at returns the ith stage.
func (p *pipeline) at(i int) *stage {
	if i < p.n {
		return &p.stages[i]
	}
	return &p.more[i-p.n]
}

// add appends a stage, unless it would remove nothing.
func (p *pipeline) add(s stage) {
	if s.limited || len(s.deny) > 0 {
		p.stages[p.n] = s
		p.n++
	}
}

// addRules appends a stage of an Allow that narrows if it is not empty.
func (p *pipeline) addRules(kind stageKind, key string, allow, also, deny []string) {
	p.add(stage{
		kind: kind, key: key, limited: len(allow) > 0, allow: allow, also: also, deny: deny,
	})
}

// pipeline returns the stages that what a session may use must pass; a is its agent, nil for one
// that is not configured.
func (r *Rules) pipeline(s Subject, a *Agent) pipeline {
	p := pipeline{rules: r, role: s.Role, agentID: s.Agent}
	if !r.lists(a) {
		p.add(stage{kind: stageListed, limited: true})
	}
	g := &r.Tools
	from, name, also := stageGlobal, g.Profile, g.AlsoAllow
	if a != nil && a.Tools.Profile != "" {
		from, name = stageAgent, a.Tools.Profile
	}
	if a != nil && a.Tools.AlsoAllow != nil {
		also = a.Tools.AlsoAllow
	}
	p.addProfile(from, "", name, also)
	p.addRules(stageGlobal, "", g.Allow, g.AlsoAllow, g.Deny)
	p.addProvider(stageGlobalProvider, g.ByProvider, s.Model)
	if a != nil {
		p.addRules(stageAgent, "", a.Tools.Allow, a.Tools.AlsoAllow, a.Tools.Deny)
		p.addProvider(stageAgentProvider, a.Tools.ByProvider, s.Model)
	}
	p.addCommon(s, a)
	return p
}

// delegablePipeline returns the stages that what a session may hand down must pass, where its agent
// says so.
func (r *Rules) delegablePipeline(s Subject, a *Agent) pipeline {
	p := pipeline{rules: r, role: s.Role, agentID: s.Agent}
	g, d := &r.Tools, a.Tools.Delegable
	p.addProfile(stageGlobal, "", g.Profile, g.AlsoAllow)
	p.addRules(stageGlobal, "", g.Allow, g.AlsoAllow, g.Deny)
	p.addRules(stageDelegable, "", d.Allow, nil, d.Deny)
	p.addCommon(s, a)
	return p
}

// addCommon appends the stages that come last in every pipeline: the conversation, the sandbox, and
// what holds for sub-agents.
func (p *pipeline) addCommon(s Subject, a *Agent) {
	r := p.rules
	if c := r.chat(s.Key); c != nil {
		p.addRules(stageChat, "", c.Tools.Allow, nil, c.Tools.Deny)
		p.chat = c
	}
	if s.Sandboxed {
		p.addSandbox(a)
	}
	if s.Role != session.RoleMain {
		t := &r.SubagentTools
		p.addRules(stageSubagent, "", t.Allow, t.AlsoAllow, t.Deny)
	}
}

// addRequest appends what a spawn asks for; an empty list asks for nothing.
func (p *pipeline) addRequest(list []string) {
	p.add(stage{kind: stageRequest, limited: true, allow: list})
}

func (p *pipeline) addProfile(kind stageKind, key, name string, also []string) {
	if allow, limited := profile(name); limited {
		p.add(stage{kind: kind, key: key, profile: name, limited: true, allow: allow, also: also})
	}
}

// addProvider appends the profile and the rules of the entry for the model, or else for its
// provider.
func (p *pipeline) addProvider(kind stageKind, byProvider map[string]ToolPolicy, model string) {
	if len(byProvider) == 0 || model == "" {
		return
	}
	provider, _, _ := strings.Cut(model, "/")
	for _, want := range [...]string{model, provider} {
		for key, t := range byProvider {
			if strings.EqualFold(strings.TrimSpace(key), want) {
				p.addProfile(kind, key, t.Profile, t.AlsoAllow)
				p.addRules(kind, key, t.Allow, t.AlsoAllow, t.Deny)
				return
			}
		}
	}
}

// addSandbox appends what holds in a sandbox: allow and deny each from the agent, else from the
// rules, else by default.
func (p *pipeline) addSandbox(a *Agent) {
	var own ToolRules
	if a != nil {
		own = a.SandboxTools
	}
	all := p.rules.Sandbox.Tools
	deny := stage{kind: stageAgentSandbox, deny: own.Deny}
	if own.Deny == nil {
		deny = stage{kind: stageSandbox, deny: all.Deny}
		if all.Deny == nil {
			deny.deny = sandboxDeny
		}
	}
	allow := stage{kind: stageAgentSandbox, allow: own.Allow}
	if own.Allow == nil {
		allow = stage{kind: stageSandbox, allow: all.Allow}
		if all.Allow == nil {
			allow.allow = sandboxAllow
		}
	}
	allow.limited = len(allow.allow) > 0
	p.add(deny)
	p.add(allow)
}

// chat returns the entry for a conversation, or nil.
func (r *Rules) chat(key session.Key) *Chat { return r.chatOf(key.Channel(), key.Peer()) }

// chatOf is chat for a channel and a peer. A peer that is not known is in no conversation.
func (r *Rules) chatOf(channel, peer string) *Chat {
	if len(r.Chats) == 0 || channel == "" || peer == "" {
		return nil
	}
	var every *Chat
	for i := range r.Chats {
		c := &r.Chats[i]
		switch {
		case canonicalID(c.Channel) != channel:
		case c.Peer == peer:
			return c
		case c.Peer == "*" && every == nil:
			every = c
		}
	}
	return every
}

// filter returns the names that pass, in the order given: names itself if all do.
func (p *pipeline) filter(names []string) []string {
	if p.n+len(p.more) == 0 && p.role == session.RoleMain {
		return names
	}
	for i, name := range names {
		if p.removed(name).by != "" {
			kept := make([]string, i, len(names)-1)
			copy(kept, names)
			for _, name := range names[i+1:] {
				if p.removed(name).by == "" {
					kept = append(kept, name)
				}
			}
			return kept
		}
	}
	return names
}

// allows reports whether a limited stage lets a canonical name pass. In the configuration, an entry
// for write allows apply_patch too.
func (p *pipeline) allows(s *stage, name string) bool {
	for _, list := range [...][]string{s.allow, s.also} {
		if _, ok := p.rules.matchTool(list, name); ok {
			return true
		}
		if name == toolPatch && s.kind != stageRequest {
			if _, ok := p.rules.matchTool(list, toolWrite); ok {
				return true
			}
		}
	}
	return false
}

// A removal is the first reason why a tool does not pass; by is empty if it does.
type removal struct {
	by    ToolRule
	stage *stage
	entry string
}

// removed returns why a tool does not pass.
func (p *pipeline) removed(name string) removal {
	name = canonicalTool(name)
	for i := range p.n + len(p.more) {
		s := p.at(i)
		if entry, ok := p.rules.matchTool(s.deny, name); ok {
			if s.kind == stageOwner {
				return removal{ToolOwner, s, entry}
			}
			return removal{ToolDeny, s, entry}
		}
		if !s.limited {
			continue
		}
		if p.allows(s, name) {
			continue
		}
		switch {
		case s.kind == stageListed:
			return removal{ToolAgent, s, p.agentID}
		case s.profile != "":
			return removal{ToolProfile, s, s.profile}
		case s.kind == stageRequest:
			return removal{ToolRequest, s, ""}
		}
		return removal{ToolAllow, s, ""}
	}
	if denied, forever := p.rules.deniedByRole(p.role, name); forever {
		return removal{ToolNever, nil, ""}
	} else if denied {
		return removal{ToolRole, nil, ""}
	}
	return removal{}
}
