package openclaw

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Live is what a file says while the bot runs: [Live.Apply] puts functions into a Config that
// read what the file says now, and [Live.Update] changes that, and the Rules of the Runtime that
// [Live.Follow] names. What else a Runtime was opened with waits for a restart: see
// docs/openclaw.md. [Result.Live] makes one. Its methods are safe for concurrent use. The zero Live
// is that of a file that says nothing.
type Live struct {
	first Result // what the Runtime was opened with
	now   atomic.Pointer[current]

	mu   sync.Mutex // held by Update
	seen parsed     // the file of the last Update, with what needs a restart as it was at first

	base policy.Rules // of the Config that Apply had
	rt   Ruled        // nil: none follows
	own  func(*policy.Rules)

	asked sync.Map // the paths of the settings that skills have asked for

	told    sync.Mutex // guards refused, so that own and the Runtime may ask
	refused error      // see Refused
}

// A Ruled goes by rules that can be others: an [agent.Runtime].
type Ruled interface {
	SetRules(rules policy.Rules) error
}

// Follow has a Runtime that was opened with the Config of [Live.Apply] go by what the file says of
// the Rules, from the next Update on: tools, whom agents may spawn, limits, budgets, sandboxes,
// visibility, owners and conversations. What else the Rules say stays as in that Config. The
// function own changes them before they are set: a program that has changed the Rules after Apply
// does so there. It may be nil. Own and SetRules are called within an Update, and must not call
// Follow, Apply or Update of the Live, which wait for its end. Without a Follow a change of the
// Rules needs a restart.
//
// All that a text says of the Rules is taken at one moment, or nothing of it: if the Runtime does
// not take them, each change of them is told to need a restart, and [Live.Refused] says why.
func (l *Live) Follow(rt Ruled, own func(*policy.Rules)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rt, l.own = rt, own
}

// Refused returns why the Runtime has not taken the Rules of the last Update. Nil: it has them, or
// none follows. The next Update tries again.
func (l *Live) Refused() error {
	l.told.Lock()
	defer l.told.Unlock()
	return l.refused
}

func (l *Live) setRefused(err error) {
	l.told.Lock()
	defer l.told.Unlock()
	l.refused = err
}

// rules returns what base is with what the file says of the Rules. The error is [FieldErrors], of
// what is a mistake only beside that which is as it was at the start.
func (p *parsed) rules(base policy.Rules) (policy.Rules, error) {
	cfg := agent.Config{Rules: base}
	if p.root == nil {
		return cfg.Rules, nil
	}
	c := p.converter(nil)
	c.subagents()
	c.defaults()
	c.agents()
	c.tools()
	c.chats()
	c.res.Apply(&cfg)
	if len(c.errs) > 0 {
		return cfg.Rules, c.errs
	}
	return cfg.Rules, nil
}

// converter returns one for a part of the file.
func (p *parsed) converter(agents []Agent) *converter {
	return &converter{
		walker: &walker{name: p.name, env: p.env}, root: p.root, o: p.o, paths: p.paths,
		file: p.doc, ids: p.ids, found: newFinder(p.root, p.ids), aliases: p.aliases,
		res: &Result{Agents: slices.Clone(agents)},
	}
}

// A current is what the functions of a Config read. It is not changed any more.
type current struct {
	limits   agentctx.Limits
	valid    func(model string) bool // nil: every one
	profiles func(ctx context.Context, id string) (agent.Profiles, error)
	root     *value // for settings that skills ask for
}

// Live returns a Live of the file as r has it. It starts nothing.
func (r *Result) Live() *Live {
	l := &Live{first: *r, seen: r.parsed}
	l.now.Store(r.parsed.current(r.Agents))
	return l
}

// current converts what may change live. A file that was not read says nothing.
func (p *parsed) current(agents []Agent) *current {
	if p.root == nil {
		return &current{
			profiles: func(context.Context, string) (agent.Profiles, error) {
				return agent.Profiles{}, nil
			},
			root: &value{kind: kindObject},
		}
	}
	c := p.converter(agents)
	c.defaults()
	c.allowed(p.aliases)
	c.credentials()
	var cfg agent.Config
	c.res.Apply(&cfg)
	return &current{cfg.Prompts.Input.Limits, cfg.Models.Valid, cfg.Models.Credentials, c.root}
}

// get returns what holds now.
func (l *Live) get() *current {
	if now := l.now.Load(); now != nil {
		return now
	}
	return new(parsed).current(nil)
}

// Apply does what [Result.Apply] does with the Result that the Live is of, and has Models.Valid,
// Models.Credentials, Prompts.Describe and the Setting of Prompts.SkillHost ask for what the file
// says when they are called. Functions that c has are asked as well: the Describe of c after that
// of the file, and its Credentials in place of those. A field that the program sets afterwards is
// the program's.
func (l *Live) Apply(c *agent.Config) {
	valid, described, own := c.Models.Valid, c.Prompts.Describe, c.Prompts.Input.Limits
	var set func(path string) bool
	if c.Prompts.SkillHost != nil {
		set = c.Prompts.SkillHost.Setting
	}
	ownCredentials := c.Models.Credentials != nil
	l.mu.Lock()
	l.base = c.Rules
	l.mu.Unlock()
	l.first.Apply(c)
	c.Models.Valid = func(name string) bool {
		now := l.get().valid
		return (now == nil || now(name)) && (valid == nil || valid(name))
	}
	if !ownCredentials {
		c.Models.Credentials = func(ctx context.Context, id string) (agent.Profiles, error) {
			return l.get().profiles(ctx, id)
		}
	}
	host := agentctx.ThisHost()
	if c.Prompts.SkillHost != nil {
		host = *c.Prompts.SkillHost
	}
	host.Setting = func(path string) bool {
		l.asked.Store(path, true)
		return setting(l.get().root, path) || set != nil && set(path)
	}
	c.Prompts.SkillHost = &host
	was := l.first.Config.Prompts.Input.Limits
	c.Prompts.Describe = func(
		ctx context.Context, lineage session.Lineage, in *agentctx.Input,
	) error {
		now := l.get().limits
		if now.File != was.File {
			in.Limits.File = cmp.Or(now.File, own.File)
		}
		if now.Total != was.Total {
			in.Limits.Total = cmp.Or(now.Total, own.Total)
		}
		if described == nil {
			return nil
		}
		return described(ctx, lineage, in)
	}
}

// Update has next hold as far as it may change live, all of it at one moment, and returns what
// becomes of each part that has changed: what is live now, what has no effect, and everything in
// which next differs from what the bot was started with and that needs a restart, also if an
// earlier Update has returned it. A bot with a watcher of its own calls it with what [Load]
// returns; [Live.Watch] does so. A nil next changes nothing.
func (l *Live) Update(next *Result) []Change {
	if next == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := slices.DeleteFunc(l.first.Changes(next), func(c Change) bool {
		return c.Effect != EffectRestart
	})
	seen := Result{parsed: l.seen}
	since := seen.Changes(next)
	taken := l.setRules(next, slices.ContainsFunc(since, func(c Change) bool { return c.rules }))
	for _, c := range since {
		if c.Effect == EffectNone && l.isAsked(c.Path) {
			c.Effect, c.Reason = EffectLive, "a skill asks for it; sessions that begin from now on have it"
		}
		if c.rules && !taken {
			c.Effect, c.Reason = EffectRestart, l.notTaken()
		} else if c.Effect == EffectRestart {
			continue
		}
		changes = append(changes, c)
	}
	sortChanges(changes)
	rules := &l.seen
	if taken {
		rules = &next.parsed
	}
	l.seen = l.first.parsed.with(&next.parsed, rules)
	l.now.Store(l.seen.current(l.first.Agents))
	return changes
}

// isAsked reports whether a skill has asked for a setting at a path, in it or around it.
func (l *Live) isAsked(path string) (found bool) {
	l.asked.Range(func(asked, _ any) bool {
		a, _ := asked.(string)
		found = a == path || strings.HasPrefix(a, path+".") || strings.HasPrefix(path, a+".")
		return !found
	})
	return found
}

// setRules has the Runtime that follows take the Rules of next, if they have changed, and reports
// whether it has those of next. The caller holds the lock.
func (l *Live) setRules(next *Result, changed bool) bool {
	l.setRefused(nil)
	switch {
	case !changed:
		return true
	case l.rt == nil:
		return false
	}
	merged := l.first.parsed.with(&next.parsed, &next.parsed)
	rules, err := merged.rules(l.base)
	if err == nil {
		if l.own != nil {
			l.own(&rules)
		}
		err = l.rt.SetRules(rules)
	}
	l.setRefused(err)
	return err == nil
}

// notTaken says why a change of the Rules waits. It has no value of the file.
func (l *Live) notTaken() string {
	if l.rt == nil {
		return "the Rules are those that the Runtime was opened with; it does not follow, see " +
			"Live.Follow"
	}
	return "the Runtime does not take the Rules as they would be, see Live.Refused; those before " +
		"are in force"
}

// with returns a file that says what may change live as next does, what is of the Rules as rules
// does, and everything else as p does.
func (p parsed) with(next, rules *parsed) parsed {
	p.root, p.untaken = next.root, next.untaken
	d, n, r := &p.doc, &next.doc, &rules.doc
	was, is := d.Agents.Defaults, n.Agents.Defaults
	d.Agents.Defaults = r.Agents.Defaults
	to := &d.Agents.Defaults
	to.Model, to.Thinking, to.Zone, to.Workspace = was.Model, was.Thinking, was.Zone, was.Workspace
	to.Subagents.AnnounceTimeoutMs = was.Subagents.AnnounceTimeoutMs
	to.BootstrapMax, to.BootstrapAll = is.BootstrapMax, is.BootstrapAll
	to.Models = is.Models // whose aliases are not looked at
	d.Tools, d.Commands, d.Auth.Order = r.Tools, r.Commands, n.Auth.Order
	d.Session.KeepArchives = r.Session.KeepArchives
	d.Channels = withGroups(d.Channels, r.Channels)
	d.Agents.List = slices.Clone(d.Agents.List)
	live, ruled := newFinder(nil, next.ids).ids, newFinder(nil, rules.ids).ids
	for i, id := range p.ids {
		own := d.Agents.List[i]
		if j, ok := ruled[id]; ok {
			e := r.Agents.List[j]
			e.ID, e.Default = own.ID, own.Default
			e.Workspace, e.AgentDir = own.Workspace, own.AgentDir
			own = e
		}
		if j, ok := live[id]; ok {
			own.AgentDir = n.Agents.List[j].AgentDir
		}
		d.Agents.List[i] = own
	}
	return p
}

// withGroups returns channels with the groups of others, and all else as it is.
func withGroups(channels, others map[string]channel) map[string]channel {
	all := make(map[string]channel, len(channels))
	for name, c := range channels {
		c.Groups = nil
		all[name] = c
	}
	for name, o := range others {
		c := all[name]
		c.Groups = o.Groups
		all[name] = c
	}
	return all
}
