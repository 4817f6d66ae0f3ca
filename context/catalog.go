package agentctx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxSkills is the most skills that a prompt names.
const maxSkills = 150

// A catalog is what becomes of the skills in one prompt.
type catalog struct {
	reports []FileReport
	text    string // the list; "" if nothing is listed
}

// newCatalog filters the skills and fits them into the limit. First it shortens the descriptions,
// all to the same length. Only when that is not enough does it leave skills out, the last ones
// first.
func newCatalog(in *Input, spec Spec) catalog {
	type offered struct {
		Skill

		bad string // why the name cannot be one
	}
	list := make([]offered, len(in.Skills))
	home := sanitize(in.Env.Home)
	if in.Sandbox.Enabled {
		home = "" // the home directory in a container is another
	}
	for i, s := range in.Skills {
		list[i] = offered{Skill{
			Name: sanitize(s.Name), Description: sanitize(s.Description),
			Path: underHome(sanitize(s.Path), home),
		}, badSkillName(strings.TrimSpace(s.Name))}
	}
	slices.SortStableFunc(list, func(x, y offered) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Path, y.Path))
	})
	c := catalog{}
	var shown []Skill
	listed := make(map[string]bool, len(list))
	for _, s := range list {
		a := FileReport{
			Name: s.Name, Path: s.Path, Bytes: len(s.Description), Runes: countRunes(s.Description),
		}
		switch {
		case s.bad != "":
			a.Reason, a.Why = ReasonBadName, excerpt("bad name: "+s.bad, maxWhy)
		case !in.mayOpenFiles():
			a.Reason, a.Why = ReasonExcluded, "excluded: the session has no tool that could open its file"
		case !spec.seesSkill(s.Name):
			a.Reason, a.Why = ReasonExcluded, "excluded: not among the skills of the spec"
		case listed[s.Name]:
			a.Reason, a.Why = ReasonRepeated, "repeated: a skill of this name is listed already"
		default:
			shown = append(shown, s.Skill)
			listed[s.Name] = true
		}
		c.reports = append(c.reports, a)
	}
	c.fit(shown, effectiveLimit(in.Limits.Skills, defaultSkillsLimit), in.Limits.Count)
	for _, a := range in.SkillReports {
		a.Name, a.Path, a.Kept, a.KeptBytes, a.Tokens = sanitize(a.Name), sanitize(a.Path), 0, 0, 0
		c.reports = append(c.reports, a)
	}
	slices.SortStableFunc(c.reports, func(x, y FileReport) int {
		return cmp.Compare(x.Name, y.Name)
	})
	return c
}

// mayOpenFiles reports whether the session has a tool with which a model may open a file: any
// beside those of sessions, because the names of a caller's tools do not say what they do.
func (in *Input) mayOpenFiles() bool {
	return slices.ContainsFunc(in.Tools, func(t Tool) bool {
		return t.Name != "subagents" && t.Name != "session_status" &&
			t.Name != "agents_list" && !strings.HasPrefix(t.Name, "sessions_")
	})
}

// underHome returns a path with "~" in place of the home directory that it lies in.
func underHome(path, home string) string {
	home = strings.TrimRight(home, `/\`)
	rest, ok := strings.CutPrefix(path, home)
	if home == "" || !ok || rest == "" || rest[0] != '/' && rest[0] != '\\' {
		return path
	}
	return "~" + rest
}

// fit writes the list and completes the reports.
func (c *catalog) fit(shown []Skill, room int, count func(string) int) {
	fixed, longest := make([]int, len(shown)), 0
	for i, s := range shown {
		fixed[i] = countRunes(skillEntry(s, ""))
		longest = max(longest, countRunes(s.Description))
	}
	listed, size := 0, 0
	for listed < min(len(shown), maxSkills) && size+fixed[listed] <= room {
		size += fixed[listed]
		listed++
	}
	low, high := 0, longest // bisect for the longest descriptions that fit
	for low < high {
		mid := (low + high + 1) / 2
		if size+descriptionRunes(shown[:listed], mid) <= room {
			low = mid
		} else {
			high = mid - 1
		}
	}
	var b strings.Builder
	kept := make(map[string]string, listed)
	for _, s := range shown[:listed] {
		d := truncate(s.Description, low)
		kept[s.Name] = d
		b.WriteString(skillEntry(s, d))
	}
	c.text = b.String()
	c.completeReports(kept, room, count)
}

// completeReports completes the reports on the skills that passed the filter. kept has the
// descriptions of those that are listed.
func (c *catalog) completeReports(kept map[string]string, room int, count func(string) int) {
	for i := range c.reports {
		a := &c.reports[i]
		if a.Reason != ReasonWhole {
			continue
		}
		d, ok := kept[a.Name]
		a.Kept, a.KeptBytes = countRunes(d), len(d)
		if count != nil {
			a.Tokens = count(d)
		}
		switch {
		case !ok:
			a.Reason, a.Why = ReasonOverSkills, fmt.Sprintf(
				"not listed: over the skills limit of %d runes or %d skills", room, maxSkills,
			)
		case a.Kept < a.Runes:
			a.Reason, a.Why = ReasonOverSkills, fmt.Sprintf(
				"description shortened to keep within the skills limit of %d runes", room,
			)
		}
	}
}

// descriptionRunes returns the length in runes of all descriptions, escaped and each cut to n.
func descriptionRunes(list []Skill, n int) int {
	sum := 0
	for _, s := range list {
		sum += countRunes(escapeXML(truncate(s.Description, n)))
	}
	return sum
}

// truncate returns at most n runes of a description. If it cuts, the last of them is "…".
func truncate(s string, n int) string {
	if n <= 0 {
		return ""
	}
	if head, whole := firstRunes(s, n); whole {
		return head
	}
	head, _ := firstRunes(s, n-1)
	return head + "…"
}

// skillEntry renders one skill.
func skillEntry(s Skill, description string) string {
	var b strings.Builder
	b.WriteString("  <skill>\n    <name>" + escapeXML(s.Name) + "</name>\n")
	b.WriteString("    <description>" + escapeXML(description) + "</description>\n")
	b.WriteString("    <location>" + escapeXML(s.Path) + "</location>\n  </skill>\n")
	return b.String()
}

var xmlEscaper = strings.NewReplacer(
	"&",
	"&amp;",
	"<",
	"&lt;",
	">",
	"&gt;",
	`"`,
	"&quot;",
	"'",
	"&apos;",
)

// escapeXML makes text fit to stand inside an XML element.
func escapeXML(s string) string { return xmlEscaper.Replace(s) }

func skillsText(a *assembly) string {
	if a.skills.text == "" {
		return ""
	}
	how := "open its file at the given location"
	if read := a.tool("read"); read != "" {
		how = "read its file at the given location with " + quote(read)
	}
	dropped, shortened := 0, 0
	for _, s := range a.skills.reports {
		if s.Reason == ReasonOverSkills {
			if s.Shown() {
				shortened++
			} else {
				dropped++
			}
		}
	}
	return joinLines(
		"## Skills",
		"Before you answer, look through the descriptions below. If exactly one skill fits, "+how+" and follow it; of several that fit take the most specific; if none does, read none. Never read more than one before you start.",
		"Relative paths in a skill start at the directory of its file.",
		textIf(shortened > 0, fmt.Sprintf("Descriptions shortened: %d.", shortened)),
		textIf(dropped > 0, fmt.Sprintf("Not listed for want of room: %d.", dropped)),
		"<available_skills>\n"+a.skills.text+"</available_skills>",
	)
}
