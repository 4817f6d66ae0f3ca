package agent

import (
	"log/slog"
	"slices"
	"sync"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Skills returns the skills that a session would take if it began now. It looks at the sources each
// time. A session that [policy.Rules.CheckAgent] refuses takes none. Skills is for a transport that
// registers the commands of skills before a session has begun: Config.Skills(key).Commands(). The
// Excluded of the snapshot report on every SKILL.md that was passed over, too.
func (c Config) Skills(key session.Key) agentctx.SkillSnapshot {
	full := c.withFullModels()
	return full.skills(key, full.plainInput(key).Spec)
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
	cfg   *Config
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
	spec = spec.Or(agentctx.SpecFor(t.Session.Key))
	if s.index == nil || len(spec.Skills) == 0 {
		return agentctx.SkillSnapshot{}
	}
	kept := t.spawn.Skills
	t.entering("Prompts.Skills")
	found, problems := s.look(kept == nil)
	t.entering("Prompts.SkillHost")
	now := agentctx.SnapshotSkills(found, s.currentHost(), spec)
	s.cfg.explain(t.Session.Key, &now)
	vain := s.cfg.unmatchedSkills(t.Session.Key, spec, found, problems)
	if kept == nil {
		s.tellVain(t, vain, s.cfg.skillDoubts(found, problems))
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
