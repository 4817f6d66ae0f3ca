package openclaw

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Live is what a file says while the bot runs: [Live.Apply] puts functions into a Config that
// read what the file says now, and [Live.Update] changes that. What may change is what a Runtime
// asks a function for: see docs/openclaw.md. [Result.Live] makes one. Its methods are safe for
// concurrent use. The zero Live is that of a file that says nothing.
type Live struct {
	first Result // what the Runtime was opened with
	now   atomic.Pointer[current]

	mu   sync.Mutex // held by Update
	seen parsed     // the file of the last Update, with what needs a restart as it was at first
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
	c := converter{
		walker: &walker{name: p.name, env: p.env}, root: p.root, o: p.o, paths: p.paths,
		file: p.doc, ids: p.ids, found: newFinder(p.root, p.ids),
		res: &Result{Agents: slices.Clone(agents)},
	}
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
	for _, c := range seen.Changes(next) {
		if c.Effect != EffectRestart {
			changes = append(changes, c)
		}
	}
	sortChanges(changes)
	l.seen = l.first.parsed.with(&next.parsed)
	l.now.Store(l.seen.current(l.first.Agents))
	return changes
}

// with returns a file that says what may change live as next does, and everything else as p does.
func (p parsed) with(next *parsed) parsed {
	p.root, p.untaken = next.root, next.untaken
	d, from := &p.doc.Agents.Defaults, &next.doc.Agents.Defaults
	d.BootstrapMax, d.BootstrapAll = from.BootstrapMax, from.BootstrapAll
	d.Models = from.Models // whose aliases are not looked at
	p.doc.Auth.Order = next.doc.Auth.Order
	p.doc.Agents.List = slices.Clone(p.doc.Agents.List)
	places := newFinder(nil, next.ids).ids
	for i, id := range p.ids {
		if j, ok := places[id]; ok {
			p.doc.Agents.List[i].AgentDir = next.doc.Agents.List[j].AgentDir
		}
	}
	return p
}
