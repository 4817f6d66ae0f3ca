package contexttest

import (
	"slices"
	"strings"
	"testing"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// Complete fails for every file and skill that should be wholly in the prompt and is not. It says
// why: cut, over a limit, unreadable, outside the workspace, or absent where the prompt mentions
// the absence, a file or skill that the spec names and that is not there, or a SKILL.md that
// discovery passed over. It accepts what the spec or the host excludes, blank files, what is
// repeated, the absence of optional files, and a skill that a session took and that is gone.
func Complete(t testing.TB, p agentctx.Prompt) {
	t.Helper()
	fail := func(a agentctx.FileReport) {
		t.Helper()
		t.Errorf("contexttest: prompt of %s is not complete: %s: %s", p.Session, a.Name, why(a))
	}
	for _, a := range p.Files {
		if !asIntended(a) {
			fail(a)
		}
	}
	for _, a := range p.Skills {
		if !asIntended(a) || a.Reason == agentctx.ReasonBlank {
			fail(a)
		}
	}
}

// asIntended reports whether the prompt has of the file what it should have.
func asIntended(a agentctx.FileReport) bool {
	switch a.Reason {
	case agentctx.ReasonWhole,
		agentctx.ReasonExcluded,
		agentctx.ReasonBlank,
		agentctx.ReasonRepeated:
		return true
	case agentctx.ReasonAbsent:
		return a.Kept == 0 // no marker: the file is optional
	default:
		return false
	}
}

// Skills fails for each SKILL.md of the sources that [agentctx.DiscoverSkills] passes over, and for
// each directory that it does not look into, and says why. It accepts a skill that another one of
// the same name stands for. The sources are those of the bot: its Config.Prompts.Skills.
func Skills(t testing.TB, sources ...agentctx.SkillSource) {
	t.Helper()
	_, problems := agentctx.DiscoverSkills(sources...)
	for _, p := range problems {
		if p.Reason != agentctx.ReasonRepeated {
			t.Errorf("contexttest: skill %s: %s", p.Path, forLog(p.Why))
		}
	}
}

// toMend says what to do about a file whose absence the prompt mentions.
const toMend = "write it, if need be empty, or have agentctx.Seed make it from its template"

// why says what became of a file, and of one that is absent what to do about it.
func why(a agentctx.FileReport) string {
	if a.Reason == agentctx.ReasonAbsent {
		return forLog(a.Why) + "; " + toMend
	}
	return forLog(a.Why)
}

// SeesOnly fails unless the prompt shows the content of exactly these files, whole or in part.
func SeesOnly(t testing.TB, p agentctx.Prompt, files ...string) {
	t.Helper()
	for _, a := range p.Files {
		switch wanted := slices.Contains(files, a.Name); {
		case a.Shown() && !wanted:
			t.Errorf("contexttest: prompt of %s shows %s", p.Session, a.Name)
		case !a.Shown() && wanted:
			t.Errorf("contexttest: prompt of %s does not show %s: %s", p.Session, a.Name, why(a))
		}
	}
	for _, name := range files {
		if !slices.ContainsFunc(
			p.Files, func(a agentctx.FileReport) bool { return a.Name == name },
		) {
			t.Errorf(
				"contexttest: prompt of %s does not show %s: it was not among the files", p.Session,
				name,
			)
		}
	}
}

// Order fails unless the prompt has all sections with these ids, in this order. Other sections may
// stand between them.
func Order(t testing.TB, p agentctx.Prompt, ids ...string) {
	t.Helper()
	last, before := -1, ""
	for _, id := range ids {
		i := slices.IndexFunc(p.Sections, func(s agentctx.Section) bool { return s.ID == id })
		switch {
		case i < 0:
			t.Errorf("contexttest: prompt of %s has no section %q", p.Session, id)
			continue
		case i < last:
			t.Errorf(
				"contexttest: in the prompt of %s section %q comes before %q", p.Session, id,
				before,
			)
		}
		last, before = i, id
	}
}

// Has fails for each of the texts that the prompt lacks.
func Has(t testing.TB, p agentctx.Prompt, texts ...string) {
	t.Helper()
	all := p.String()
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("contexttest: prompt of %s lacks %q", p.Session, text)
		}
	}
}

// Lacks fails for each of the texts that the prompt has, and says in which section.
func Lacks(t testing.TB, p agentctx.Prompt, texts ...string) {
	t.Helper()
	all := p.String()
	for _, text := range texts {
		if !strings.Contains(all, text) {
			continue
		}
		where := "between sections"
		for _, s := range p.Sections {
			if strings.Contains(s.Text, text) {
				where = "in section " + s.ID
				break
			}
		}
		t.Errorf("contexttest: prompt of %s has %q %s", p.Session, text, where)
	}
}

// SamePrefix fails unless all prompts have the same stable prefix and cache key, so that one entry
// in a provider's cache serves them all. It also fails if the classes of a prompt's sections
// decrease.
func SamePrefix(t testing.TB, prompts ...agentctx.Prompt) {
	t.Helper()
	for i, p := range prompts {
		if !slices.IsSortedFunc(
			p.Sections, func(x, y agentctx.Section) int { return int(x.Class) - int(y.Class) },
		) {
			t.Errorf(
				"contexttest: prompt %d (%s) has a section of an earlier class behind one of a later",
				i, p.Session,
			)
		}
		if d := diffForLog(prompts[0].StablePrefix(), p.StablePrefix()); d != "" {
			t.Errorf(
				"contexttest: prompt %d (%s) has another stable prefix than prompt 0 (%s):\n%s", i,
				p.Session, prompts[0].Session, d,
			)
		} else if p.CacheKey() != prompts[0].CacheKey() {
			t.Errorf("contexttest: prompt %d (%s) has another cache key than prompt 0 (%s)", i, p.Session, prompts[0].Session)
		}
	}
}
