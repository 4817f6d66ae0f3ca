package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

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
	return "there is no skill " + text.Quote(name) + nearest(name, names)
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
