package agent

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Skills returns the skills that a session would take if it began now. It looks at the sources each
// time. A session that [policy.Rules.CheckAgent] refuses takes none. Skills is for a transport that
// registers the commands of skills before a session has begun: Config.Skills(key).Commands(). The
// Excluded of the snapshot report on every SKILL.md that was passed over, too.
func (c Config) Skills(key session.Key) agentctx.SkillSnapshot {
	full := c.withFullModels()
	return full.skills(key, full.plainInput(key, workdir.Place{}).Spec)
}

// skills is Skills for a session whose spec is known.
func (c *Config) skills(key session.Key, spec agentctx.Spec) agentctx.SkillSnapshot {
	spec = spec.Or(agentctx.SpecFor(key))
	if len(c.Prompts.Skills) == 0 || len(spec.Skills) == 0 {
		return agentctx.SkillSnapshot{}
	}
	found, problems := agentctx.DiscoverSkills(c.Prompts.Skills...)
	s := agentctx.SnapshotSkills(found, c.skillHost(), spec)
	c.explain(key, &s)
	s.Excluded = slices.Concat(problems, s.Excluded, c.unmatchedSkills(key, spec, found, problems))
	return s
}

// onlySkills returns a spec without the skills that the rules keep from the sessions of the agent.
// An agent that is not in the list of agents sees none.
func (c *Config) onlySkills(key session.Key, spec agentctx.Spec) agentctx.Spec {
	a, ok := c.Rules.Agent(c.Rules.AgentOf(key))
	switch {
	case !ok && len(c.Rules.Agents) > 0:
		a.Skills = []string{} // as it has no tools: see policy.Rules.CheckAgent
	case a.Skills == nil:
		return spec
	}
	if spec.Skills == nil {
		spec.Skills = agentctx.SpecFor(key).Skills
	}
	return spec.OnlySkills(a.Skills)
}

func (c *Config) skillHost() agentctx.SkillHost {
	if c.Prompts.SkillHost != nil {
		return *c.Prompts.SkillHost
	}
	return agentctx.ThisHost()
}

// fillSkills puts the skills of a session into its prompt.
func fillSkills(in *agentctx.Input, s agentctx.SkillSnapshot) {
	in.Skills, in.SkillReports = s.Visible(), s.Excluded
}

// A skillShelf holds the skills of a Runtime. Its methods are safe for concurrent use.
type skillShelf struct {
	cfg   *Config // as the Runtime was opened: for what does not change
	log   *slog.Logger
	index *agentctx.SkillIndex // nil: there are no sources

	mu     sync.Mutex
	host   agentctx.SkillHost // of the last look
	logged map[string]bool    // what the last look found to be broken
	vain   map[string]bool    // names of skills that the log has, by field; of a spawn by name
}

func newSkillShelf(cfg *Config) *skillShelf {
	s := &skillShelf{cfg: cfg, log: cfg.Logger, host: cfg.skillHost(), vain: make(map[string]bool)}
	if len(cfg.Prompts.Skills) > 0 {
		s.index = agentctx.NewSkillIndex(cfg.Prompts.Skills...)
	}
	return s
}

// take returns the skills of a session for a turn. A session that may see skills and has not taken
// any takes them now, and keeps them from here on.
func (s *skillShelf) take(t *Turn, spec agentctx.Spec) agentctx.SkillSnapshot {
	if s.index == nil {
		return agentctx.SkillSnapshot{}
	}
	if spec = spec.Or(agentctx.SpecFor(t.Session.Key)); len(spec.Skills) == 0 {
		return agentctx.SkillSnapshot{}
	}
	kept := t.spawn.Skills
	t.entering("Prompts.Skills")
	found, problems := s.look(kept == nil)
	t.entering("Prompts.SkillHost")
	now := agentctx.SnapshotSkills(found, s.currentHost(), spec)
	cfg := t.rt.cfg()
	cfg.explain(t.Session.Key, &now)
	vain := cfg.unmatchedSkills(t.Session.Key, spec, found, problems)
	if kept == nil {
		s.tellVain(t, vain, cfg.skillDoubts(found, problems))
	}
	taken := now.Refs()
	if kept == nil {
		// The one error is that the turn is over. Then a later turn takes them.
		_ = t.spawn.KeepSkills(setOf(now.Version, taken))
	} else {
		taken = refsOf(kept)
	}
	snapshot := s.index.Keep(taken, now)
	vain = slices.DeleteFunc(vain, func(f agentctx.FileReport) bool { // it is gone, and said so
		was := func(r agentctx.SkillRef) bool { return r.Name == f.Name }
		return slices.ContainsFunc(taken, was)
	})
	snapshot.Excluded = slices.Concat(problems, snapshot.Excluded, vain)
	return snapshot
}

// look returns the skills that the sources have: as they are now for a session that begins, else as
// the last look found them.
func (s *skillShelf) look(begins bool) ([]agentctx.SkillEntry, []agentctx.FileReport) {
	if !begins {
		return s.index.Last()
	}
	found, problems := s.index.Look()
	for _, p := range s.looked(s.cfg.skillHost(), problems) {
		s.log.Warn("offshoot: a skill was passed over", "path", p.Path, "why", p.Why)
	}
	return found, problems
}

// looked notes what a look has found: the host, whose programs may be others now, and the problems.
// It returns those of which the log does not have the reason yet.
func (s *skillShelf) looked(
	host agentctx.SkillHost, problems []agentctx.FileReport,
) (fresh []agentctx.FileReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := make(map[string]bool)
	for _, p := range problems {
		if p.Reason == agentctx.ReasonRepeated {
			continue // another skill stands for it, as is meant
		}
		id := p.Path + "\n" + p.Why
		if !s.logged[id] {
			fresh = append(fresh, p)
		}
		broken[id] = true
	}
	s.host, s.logged = host, broken
	return fresh
}

func (s *skillShelf) currentHost() agentctx.SkillHost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

func setOf(version string, refs []agentctx.SkillRef) spawn.SkillSet {
	set := spawn.SkillSet{Version: version, Skills: make([]spawn.SkillRef, len(refs))}
	for i, r := range refs {
		set.Skills[i] = spawn.SkillRef(r)
	}
	return set
}

func refsOf(set *spawn.SkillSet) []agentctx.SkillRef {
	refs := make([]agentctx.SkillRef, len(set.Skills))
	for i, r := range set.Skills {
		refs[i] = agentctx.SkillRef(r)
	}
	return refs
}

// skillsOf returns the Skills of the policy.Agent of a session, nil for all, and their place.
func (c *Config) skillsOf(key session.Key) (names []string, at policy.Doubt) {
	id := c.Rules.AgentOf(key)
	i := slices.IndexFunc(c.Rules.Agents, func(a policy.Agent) bool {
		return strings.EqualFold(strings.TrimSpace(a.ID), id)
	})
	if i < 0 {
		return nil, at
	}
	path, setting := agentPlace(i, id)
	at = policy.Doubt{Field: path + ".Skills", Path: setting + ".skills"}
	return c.Rules.Agents[i].Skills, at
}

// explain says of each skill that the rules keep from the sessions of an agent that they do. The
// spec of a session is within them, and else a report names it alone.
func (c *Config) explain(key session.Key, s *agentctx.SkillSnapshot) {
	names, at := c.skillsOf(key)
	if names == nil {
		return
	}
	for i, f := range s.Excluded {
		if f.Reason == agentctx.ReasonExcluded && !namesSkill(names, f.Name) {
			s.Excluded[i].Why = fmt.Sprintf("excluded: not among %s (%s)", at.Field, at.Path)
		}
	}
}

// namesSkill reports whether a list lets a skill through, as that of a Spec does.
func namesSkill(list []string, name string) bool {
	return len(agentctx.Spec{Skills: list}.OnlySkills([]string{name}).Skills) > 0
}

// unmatchedSkills reports on names that a session may see and that are those of no skill.
func (c *Config) unmatchedSkills(
	key session.Key, spec agentctx.Spec, found []agentctx.SkillEntry,
	problems []agentctx.FileReport,
) (list []agentctx.FileReport) {
	rule, at := c.skillsOf(key)
	unknown := unknownSkills(spec.Skills, found, problems)
	for _, i := range unknown[:min(len(unknown), maxUnmatched)] {
		name, by := strings.TrimSpace(spec.Skills[i]), "the spec"
		if slices.ContainsFunc(rule, func(s string) bool { return strings.TrimSpace(s) == name }) {
			by = at.Field + " (" + at.Path + ")"
		}
		list = append(list, agentctx.FileReport{
			Name: text.Line(text.Cut(name, text.MaxName)), Reason: agentctx.ReasonUnmatched,
			Why: fmt.Sprintf("named in vain: %s names it, and %s", by, noSkill(name, found)),
		})
	}
	return list
}

// maxUnmatched is how many names of a spec have a report: a program may name thousands.
const maxUnmatched = 100

// unknownSkills returns the indexes of the names that are those of no skill, and of none that was
// passed over, which has a report of its own.
func unknownSkills(
	names []string, found []agentctx.SkillEntry, problems []agentctx.FileReport,
) (unknown []int) {
	for i, name := range names {
		name = strings.TrimSpace(name)
		is := func(e agentctx.SkillEntry) bool { return e.Name == name }
		broken := func(f agentctx.FileReport) bool { return f.Name == name }
		if name != "*" && !slices.ContainsFunc(found, is) &&
			!slices.ContainsFunc(problems, broken) {
			unknown = append(unknown, i)
		}
	}
	return unknown
}

// noSkill returns a clause that says that there is no such skill, with the nearest name.
func noSkill(name string, found []agentctx.SkillEntry) string {
	names := make([]string, len(found))
	for i, e := range found {
		names[i] = e.Name
	}
	return "there is no skill " + text.QuoteWhole(name) + nearest(name, names)
}

// skillDoubts returns the names of skills in a Config that are those of no skill.
func (c *Config) skillDoubts(
	found []agentctx.SkillEntry, problems []agentctx.FileReport,
) (doubts []policy.Doubt) {
	look := func(field, path string, names []string) {
		for _, i := range unknownSkills(names, found, problems) {
			d := policy.Doubt{Field: fmt.Sprintf("%s[%d]", field, i), Text: noSkill(names[i], found)}
			if path != "" {
				d.Path = fmt.Sprintf("%s[%d]", path, i)
			}
			if len(c.Prompts.Skills) == 0 {
				d.Text += ": Prompts.Skills has no sources"
			}
			doubts = append(doubts, d)
		}
	}
	for i, a := range c.Rules.Agents {
		path, setting := agentPlace(i, a.ID)
		look(path+".Skills", setting+".skills", a.Skills)
	}
	look("Prompts.Input.Spec.Skills", "", c.Prompts.Input.Spec.Skills)
	for _, id := range slices.Sorted(maps.Keys(c.Prompts.SubagentSpecs)) {
		look(fmt.Sprintf("Prompts.SubagentSpecs[%q].Skills", id), "",
			c.Prompts.SubagentSpecs[id].Skills)
	}
	return doubts
}

// tellVain logs names that are those of no skill when a session begins, each once: those of the
// Config, and the others that the spec of the session has.
func (s *skillShelf) tellVain(t *Turn, vain []agentctx.FileReport, doubts []policy.Doubt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range doubts {
		if !s.vain[d.Field] {
			s.vain[d.Field] = true
			logDoubt(s.log, d)
		}
	}
	for _, f := range vain {
		inConfig := func(d policy.Doubt) bool {
			return strings.Contains(d.Text, text.Quote(f.Name))
		}
		if id := "spec\n" + f.Name; !s.vain[id] && !slices.ContainsFunc(doubts, inConfig) {
			if len(s.vain) < maxVain {
				s.vain[id] = true
			}
			s.log.Warn("offshoot: a spec names no skill", "session", t.Session.Key.String(),
				"skill", f.Name, "why", f.Why)
		}
	}
}

// maxVain is how many names are remembered as logged: spawns may name ever new ones.
const maxVain = 1000
