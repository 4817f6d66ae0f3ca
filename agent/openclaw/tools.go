package openclaw

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// tools converts tools, but for those of agents.
func (c *converter) tools() {
	t := &c.file.Tools
	all := c.policyOf("tools", &toolPolicy{
		toolLists: t.toolLists, Profile: t.Profile, ByProvider: t.ByProvider,
	})
	if !isZero(all) {
		c.change(func(cfg *agent.Config) { cfg.Rules.Tools = all })
	}
	if t.Groups != nil {
		c.change(func(cfg *agent.Config) { cfg.Rules.Groups = maps.Clone(t.Groups) })
	}
	if lists := t.Subagents.Tools; !isZero(lists) {
		const path = "tools.subagents.tools"
		if len(lists.Allow) > 0 && len(lists.AlsoAllow) > 0 {
			c.wrong(path+".alsoAllow", "want nothing beside allow, which lifts default denies as well")
		}
		c.change(func(cfg *agent.Config) {
			if lists.Allow != nil || lists.AlsoAllow != nil || lists.Deny != nil {
				cfg.Rules.SubagentTools = policy.ToolRules(lists.toolLists)
			}
			if lists.DefaultDeny != nil {
				cfg.Rules.DefaultDeny = lists.DefaultDeny
			}
		})
	}
	if lists := &t.Sandbox.Tools.toolLists; !isZero(*lists) {
		rules := c.sandboxTools("tools.sandbox.tools", lists, nil)
		c.change(func(cfg *agent.Config) { cfg.Rules.Sandbox.Tools = rules })
	}
	if t.Sessions.Visibility != nil {
		var v policy.Visibility
		_ = v.UnmarshalText([]byte(*t.Sessions.Visibility)) // the walker knows the words
		c.change(func(cfg *agent.Config) { cfg.Rules.Visibility = v })
	}
	if a := &t.AgentToAgent; !isZero(*a) {
		c.change(func(cfg *agent.Config) {
			if a.Enabled != nil {
				cfg.Rules.AgentToAgent.Enabled = *a.Enabled
			}
			if a.Allow != nil {
				cfg.Rules.AgentToAgent.Allow = a.Allow
			}
		})
	}
	if t.OwnerOnly != nil {
		c.change(func(cfg *agent.Config) { cfg.Rules.OwnerOnly = slices.Clone(t.OwnerOnly) })
	}
	if senders := c.senders("tools.toolsBySender", t.BySender); len(senders) > 0 {
		c.change(func(cfg *agent.Config) { cfg.Rules.Senders = slices.Clone(senders) })
	}
	c.owners()
	c.attachments()
}

// owners converts commands.ownerAllowFrom.
func (c *converter) owners() {
	list := c.file.Commands.Owners
	if list == nil {
		if len(c.file.Tools.OwnerOnly) > 0 {
			c.doubt("tools.ownerOnly", "a Runtime refuses it unless the program has a Config.Owner, or "+
				"commands.ownerAllowFrom says who is an owner, empty for no one")
		}
		return
	}
	owners := make([]policy.Person, 0, len(list))
	for i, entry := range list {
		id := strings.TrimSpace(string(entry))
		if id == "" {
			c.wrong(item("commands.ownerAllowFrom", i), "it is blank, want the id of a person, or *")
			continue
		}
		owner := personOf(id)
		owners = append(owners, owner)
		c.person(item("commands.ownerAllowFrom", i), owner)
	}
	c.change(func(cfg *agent.Config) { cfg.Rules.Owners = slices.Clone(owners) })
}

// person looks at the id of a person, which is one of that very text.
func (c *converter) person(path string, p policy.Person) {
	notDrawn := func(r rune) bool { return !unicode.IsGraphic(r) || r == utf8.RuneError }
	switch id := p.ID; {
	case id == "*":
	case strings.Contains(id, "*"):
		c.doubt(path, "%s is not a pattern: it is one person of that very id; * alone is every one",
			c.quote(id))
	case strings.HasSuffix(id, ":"):
		c.doubt(path, "%s has no id behind the colon, and so is one person of that very id",
			c.quote(id))
	case id != strings.TrimSpace(id), strings.ContainsFunc(id, notDrawn):
		c.doubt(path, "no person has the id %s: it has spaces at an end, or characters that are not "+
			"drawn", c.quote(id))
	}
}

// personOf returns the person that an entry such as telegram:123 or 123 names. An id such as
// @ann:server has a colon, and no channel before it.
func personOf(entry string) policy.Person {
	channel, id, ok := strings.Cut(entry, ":")
	if !ok || id == "" || strings.Trim(strings.ToLower(channel), "abcdefghijklmnopqrstuvwxyz-") != "" {
		return policy.Person{ID: entry}
	}
	return policy.Person{Channel: strings.ToLower(channel), ID: id}
}

// senders converts tools by sender. What names a person by what people choose themselves is a
// mistake, since without it a rule that is narrower would be lost.
func (c *converter) senders(path string, of map[string]toolLists) []policy.SenderTools {
	var senders []policy.SenderTools
	named := make(map[policy.Person]string, len(of)) // where
	for _, key := range slices.Sorted(maps.Keys(of)) {
		lists, at := of[key], dot(path, key)
		form, id, ok := strings.Cut(strings.TrimSpace(key), ":")
		person := policy.Person{ID: strings.TrimSpace(key)}
		switch {
		case !ok:
		case form == "id" || form == "e164":
			person.ID = id
		case form == "channel":
			person = personOf(id)
		case form == "username" || form == "name":
			c.wrong(at, "it names people by a %s, which they choose; want id:..., "+
				"channel:<channel>:<id> or *", form)
			continue
		}
		if person.ID == "" {
			c.wrong(at, "it names no one; want id:..., channel:<channel>:<id> or *")
			continue
		}
		if first, ok := named[person]; ok {
			c.doubt(at, "it names a person whom %s names, too, which counts", shown(first))
		} else {
			named[person] = at
		}
		c.person(at, person)
		c.pluginsOnly(at, lists.Allow)
		tools := policy.ToolRules{Allow: lists.Allow, Deny: lists.Deny}
		if lists.Allow != nil { // without it there is nothing to add to
			tools.Allow = slices.Concat(lists.Allow, lists.AlsoAllow)
		}
		senders = append(senders, policy.SenderTools{Person: person, Tools: tools})
	}
	return senders
}

// policyOf converts a level of tools.
func (c *converter) policyOf(path string, t *toolPolicy) policy.ToolPolicy {
	c.pluginsOnly(path, t.Allow)
	p := policy.ToolPolicy{Allow: t.Allow, AlsoAllow: t.AlsoAllow, Deny: t.Deny}
	if t.Profile != nil {
		p.Profile = *t.Profile
	}
	if t.Delegable != nil {
		p.Delegable = &policy.ToolRules{Allow: t.Delegable.Allow, Deny: t.Delegable.Deny}
	}
	for name, x := range t.ByProvider {
		if p.ByProvider == nil {
			p.ByProvider = make(map[string]policy.ToolPolicy, len(t.ByProvider))
		}
		c.pluginsOnly(dot(path+".byProvider", name), x.Allow)
		entry := policy.ToolPolicy{Allow: x.Allow, AlsoAllow: x.AlsoAllow, Deny: x.Deny}
		if x.Profile != nil {
			entry.Profile = *x.Profile
		}
		p.ByProvider[name] = entry
	}
	return p
}

// core are the tools that OpenClaw itself has.
func core() []string {
	var r policy.Rules
	return r.ExpandTools([]string{"group:openclaw", "group:fs", "group:runtime"})
}

// pluginsOnly says of a list of allowed tools without a tool of OpenClaw itself that it removes all
// of those. OpenClaw passes over such a list, unless it is that of a sandbox or of sub-agents.
func (c *converter) pluginsOnly(path string, allow []string) {
	if len(allow) == 0 {
		return
	}
	r := policy.Rules{Tools: policy.ToolPolicy{Allow: allow}}
	top := policy.Subject{Agent: session.DefaultAgent, Role: session.RoleMain}
	if len(r.FilterTools(top, core())) == 0 {
		c.doubt(path+".allow", "it names no tool of OpenClaw itself, so that none of those is left; "+
			"OpenClaw passes over such a list and keeps them; name them here, or use alsoAllow")
	}
}

// plain converts lists for which there is no profile: what they allow in addition to a base, if
// they allow nothing else.
func (c *converter) plain(path string, t *toolLists, base []string) policy.ToolRules {
	rules := policy.ToolRules{Allow: t.Allow, Deny: t.Deny}
	switch {
	case len(t.AlsoAllow) == 0:
	case t.Allow != nil:
		rules.Allow = slices.Concat(t.Allow, t.AlsoAllow)
	case base != nil:
		rules.Allow = slices.Concat(base, t.AlsoAllow)
	default:
		c.doubt(path+".alsoAllow", "it has no effect, since everything is allowed without allow")
	}
	return rules
}

// sandboxTools converts the tools of sandboxed sessions. OpenClaw adds image to a list of allowed
// tools unless it is denied. denied is the deny list of the level below.
func (c *converter) sandboxTools(path string, t *toolLists, denied []string) policy.ToolRules {
	rules := c.plain(path, t, policy.SandboxAllow())
	if len(rules.Allow) == 0 {
		return rules
	}
	deny := rules.Deny
	if deny == nil {
		deny = denied
	}
	if deny == nil {
		deny = policy.SandboxDeny()
	}
	const image = "image"
	check := policy.Rules{Tools: policy.ToolPolicy{Allow: rules.Allow}}
	top := policy.Subject{Agent: session.DefaultAgent, Role: session.RoleMain}
	allowed := len(check.FilterTools(top, []string{image})) > 0
	check.Tools = policy.ToolPolicy{Deny: deny}
	if refused := len(check.FilterTools(top, []string{image})) == 0; !allowed && !refused {
		c.doubt(path+".allow", "image is added, as OpenClaw does; deny it if it is not wanted")
		rules.Allow = slices.Concat(rules.Allow, []string{image})
	}
	return rules
}

// attachments converts tools.sessions_spawn.attachments, where 0 and less let nothing through.
func (c *converter) attachments() {
	const path = "tools.sessions_spawn.attachments"
	a := &c.file.Tools.Spawn.Attachments
	var rules policy.Attachments
	closed := false
	for _, f := range []struct {
		name string
		from *float64
		to   *int
	}{
		{"maxTotalBytes", a.MaxTotalBytes, &rules.MaxTotalBytes},
		{"maxFiles", a.MaxFiles, &rules.MaxFiles},
		{"maxFileBytes", a.MaxFileBytes, &rules.MaxFileBytes},
	} {
		switch {
		case f.from == nil:
		case *f.from < 1:
			closed = true
			if a.Enabled != nil && *a.Enabled {
				c.doubt(path+"."+f.name, "it lets nothing through, so that models may not attach files")
			}
		default:
			*f.to = int(min(math.Floor(*f.from), math.MaxInt32))
		}
	}
	rules.Enabled = a.Enabled != nil && *a.Enabled && !closed
	rules.Retain = a.Retain != nil && *a.Retain
	if !isZero(*a) {
		c.change(func(cfg *agent.Config) { cfg.Rules.Attachments = rules })
	}
}
