package agentctx

import (
	"cmp"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// Assemble builds the prompt. It is pure and total: it reads no clock, disk
// or environment, equal input gives equal bytes, and there is no input for
// which it fails. What cannot be shown is left out and accounted for.
func Assemble(in Input) Prompt {
	a := newAssembly(in)
	p := Prompt{Session: in.Session.String(), Mode: a.spec.Mode, overflow: a.spec.Overflow}
	if p.Mode == ModeNone {
		a.files = excludeAll(in.Files)
	}
	p.Sections = a.sections()
	p.Files, p.Skills = a.files.reports, a.skills.reports
	return p
}

// An assembly is one call of Assemble.
type assembly struct {
	in         Input
	spec       Spec // complete
	tools      []Tool
	toolNames  map[string]string // tool names by their lower case
	isSubagent bool
	files      project
	// skills is what became of the skills.
	skills catalog
	extra  map[string]Section
}

func newAssembly(in Input) *assembly {
	a := &assembly{in: in, isSubagent: isChild(in)}
	a.spec = resolveSpec(in)
	a.tools = cleanTools(in.Tools, in.Layout != LayoutGoClaw)
	a.toolNames = make(map[string]string, len(a.tools))
	for _, t := range a.tools {
		a.toolNames[strings.ToLower(t.Name)] = t.Name
	}
	a.extra = make(map[string]Section, len(in.Extra))
	for _, s := range in.Extra {
		a.extra[s.ID] = s
	}
	if a.spec.Mode != ModeNone {
		a.files = newProject(in, a.spec)
		a.skills = newCatalog(in, a.spec)
	}
	return a
}

// resolveSpec is the one place that decides what a session sees: the caller's
// spec over that of the key, and never that of a top-level session for one
// whose record says that it is a sub-agent.
func resolveSpec(in Input) Spec {
	under := SpecFor(in.Session)
	if isChild(in) {
		under = subagentSpec()
	}
	s := in.Spec.Or(under)
	if int(s.Mode) >= len(modeNames) {
		s.Mode = under.Mode
	}
	return s
}

// isChild reports whether the key or the record is that of a sub-agent.
func isChild(in Input) bool {
	l := in.Lineage
	return in.Session.IsSubagent() || in.Session.Depth() > 0 || l.Depth > 0 || l.Parent.IsValid() ||
		l.Role == session.RoleOrchestrator || l.Role == session.RoleLeaf
}

// onlySubagent reports whether the session is a sub-agent.
func (a *assembly) onlySubagent() bool { return a.isSubagent }

// tool returns the name under which the session has a tool, or "".
func (a *assembly) tool(name string) string { return a.toolNames[name] }

// firstTool returns the first of the named tools that the session has, or "".
func (a *assembly) firstTool(names ...string) string {
	for _, n := range names {
		if has := a.tool(n); has != "" {
			return has
		}
	}
	return ""
}

// sections returns what the mode keeps and the caller wants, in order.
func (a *assembly) sections() []Section {
	layout := a.parts()
	list := make([]Section, 0, len(layout)+len(a.in.Extra))
	for _, p := range layout {
		if s, ok := a.section(p); ok {
			list = append(list, s)
		}
	}
	list = a.addExtra(list)
	list = slices.DeleteFunc(list, func(s Section) bool { return slices.Contains(a.in.Drop, s.ID) })
	slices.SortStableFunc(list, func(x, y Section) int { return cmp.Compare(x.Class, y.Class) })
	return reorder(list, a.in.Order)
}

// addExtra appends the caller's sections whose ids are their own.
func (a *assembly) addExtra(list []Section) []Section {
	if len(a.in.Extra) == 0 {
		return list
	}
	known := builtInIDs()
	for _, s := range a.in.Extra {
		last := a.extra[s.ID]
		if known[s.ID] {
			continue
		}
		known[s.ID] = true
		if a.spec.Mode == ModeFull || a.spec.Mode == ModeMinimal && last.Minimal {
			if s, ok := normalizeSection(last); ok {
				list = append(list, s)
			}
		}
	}
	return list
}

// builtInIDs returns the ids that are not free for sections of the caller's own.
func builtInIDs() map[string]bool {
	ids := map[string]bool{"": true}
	for _, p := range slices.Concat(defaultParts(), goClawParts()) {
		ids[p.id] = true
	}
	return ids
}

// layout returns the table of sections that the preset uses.
func (a *assembly) parts() []part {
	if a.in.Layout == LayoutGoClaw {
		return goClawParts()
	}
	return defaultParts()
}

// section renders one built-in section, or its replacement.
func (a *assembly) section(p part) (Section, bool) {
	switch {
	case a.spec.Mode == ModeNone && p.id != SectionIdentity,
		a.spec.Mode == ModeMinimal && !p.minimal,
		p.gate != nil && !p.gate(a):
		return Section{}, false
	}
	s := Section{ID: p.id, Class: p.class, Source: "caller"}
	if own, ok := a.extra[p.id]; ok {
		s.Text = own.Text
	} else {
		s.Text, s.Source = p.render(a), sourceOf(p.id)
	}
	return normalizeSection(s)
}

// normalizeSection cleans a section up, and reports whether it says anything.
func normalizeSection(s Section) (Section, bool) {
	s.Text = strings.Trim(s.Text, "\n")
	s.Class = min(s.Class, ClassPerTurn)
	s.Source = cmp.Or(s.Source, "caller")
	s.Minimal = false
	return s, strings.TrimSpace(s.Text) != ""
}

// sourceOf says where a built-in section's text comes from.
func sourceOf(id string) string {
	switch id {
	case SectionProject:
		return "workspace"
	case SectionSkills:
		return "skills"
	default:
		return "built-in"
	}
}

// reorder moves each named section behind the one named before it in its
// class.
func reorder(list []Section, order []string) []Section {
	var prev [ClassPerTurn + 1]string
	for _, id := range order {
		from := slices.IndexFunc(list, func(s Section) bool { return s.ID == id })
		if from < 0 {
			continue
		}
		s := list[from]
		anchor := prev[s.Class]
		if anchor == id {
			continue
		}
		prev[s.Class] = id
		if anchor == "" {
			continue
		}
		list = slices.Delete(list, from, from+1)
		to := slices.IndexFunc(list, func(s Section) bool { return s.ID == anchor })
		list = slices.Insert(list, to+1, s)
	}
	return list
}

// cleanTools returns the tools with a name, each once, with one-line
// summaries; by name without regard to case if they are to be sorted. Then of
// several spellings the one with more lower-case letters wins, and of several
// summaries the first in order that is not blank, so that the order of the
// input does not matter; else the first tool of a name wins.
func cleanTools(tools []Tool, sorted bool) []Tool {
	list := make([]Tool, 0, len(tools))
	for _, t := range tools {
		t = Tool{Name: sanitize(t.Name), Summary: sanitize(t.Summary)}
		if t.Name != "" {
			list = append(list, t)
		}
	}
	if sorted {
		slices.SortFunc(list, compareTools)
	}
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(t Tool) bool {
		name := strings.ToLower(t.Name)
		again := seen[name]
		seen[name] = true
		return again
	})
}

func compareTools(x, y Tool) int {
	return cmp.Or(
		cmp.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)),
		cmp.Compare(y.Name, x.Name),
		blankLast(x.Summary, y.Summary),
		cmp.Compare(x.Summary, y.Summary),
	)
}

// blankLast orders a blank string behind one that is not.
func blankLast(x, y string) int {
	switch {
	case (x == "") == (y == ""):
		return 0
	case x == "":
		return 1
	default:
		return -1
	}
}
