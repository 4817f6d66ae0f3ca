package agentctx

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// Assemble builds the prompt of a session. It is pure: it reads neither clock nor disk nor
// environment, except that package time looks up the zone that Env.Zone names, and equal input
// gives equal bytes. It is total: it does not fail for any input. It
// leaves out what it cannot show, and the Prompt reports why. It may be called concurrently.
func Assemble(in Input) Prompt {
	shared, of := sharedInput(&in)
	return newCommon(&shared, of).prompt(&in)
}

// An assembly is the state of one call of Assemble.
type assembly struct {
	in        Input // in a common: what sharedInput returns
	of        sort
	spec      Spec // complete
	tools     []Tool
	codes     []string       // names of tools as code spans, in the order of tools
	toolNames map[string]int // indexes into tools, by names in lower case
	files     project
	skills    catalog
	extra     map[string]Section // by id, the last of each
	duties    *dutiesCache       // nil: none is kept
}

// A sort is what the sections that are stable know of the session.
type sort struct {
	isSubagent, isCron, isGroup bool
	isTyped                     bool // the report of the sub-agent is to be one JSON value
}

// resolveSpec is the one place that decides what a session sees. It lays the caller's spec over
// that of the key. A session whose record says that it is a sub-agent never gets the spec of a
// top-level session, whatever its key looks like.
func resolveSpec(in *Input) Spec {
	under := specFor(in.Session)
	if isChild(in) {
		under = subagentSpec()
	}
	s := in.Spec.Or(under)
	if int(s.Mode) >= len(modeNames) {
		s.Mode = under.Mode
	}
	return s
}

// isChild reports whether the key or the lineage is that of a sub-agent.
func isChild(in *Input) bool {
	l := &in.Lineage
	return in.Session.IsSubagent() || in.Session.Depth() > 0 || l.Depth > 0 || l.Parent.IsValid() ||
		l.Role == session.RoleOrchestrator || l.Role == session.RoleLeaf
}

// repliesToPeople reports whether people get the session's answers. Those of a sub-agent go to its
// requester.
func (a *assembly) repliesToPeople() bool { return !a.of.isSubagent }

// isCron reports whether the session runs a scheduled job.
func (a *assembly) isCron() bool { return a.of.isCron }

// onlySubagent reports whether the session is a sub-agent.
func (a *assembly) onlySubagent() bool { return a.of.isSubagent }

// tool returns the session's spelling of the name of a tool. It returns "" if the session lacks the
// tool. The name is in lower case.
func (a *assembly) tool(name string) string {
	if i, ok := a.toolNames[name]; ok {
		return a.tools[i].Name
	}
	return ""
}

// code returns what tool does, as a code span.
func (a *assembly) code(name string) string {
	if i, ok := a.toolNames[name]; ok {
		return a.codes[i]
	}
	return ""
}

// toolCodes returns the names of cleaned tools as quote returns them. All of them are in one
// allocation.
func toolCodes(tools []Tool) []string {
	size := 0
	for _, t := range tools {
		size += len(t.Name) + len("``")
	}
	var b strings.Builder
	b.Grow(size)
	codes := make([]string, len(tools))
	for i, t := range tools {
		from := b.Len()
		b.WriteByte('`')
		b.WriteString(strings.ReplaceAll(t.Name, "`", "'"))
		b.WriteByte('`')
		codes[i] = b.String()[from:]
	}
	return codes
}

// firstTool returns the session's spelling of the first of the names that it has, or "".
func (a *assembly) firstTool(names ...string) string {
	for _, n := range names {
		if has := a.tool(n); has != "" {
			return has
		}
	}
	return ""
}

// arranged returns the sections as the caller wants them.
func (a *assembly) arranged(list []Section) []Section {
	list = a.addExtra(list)
	list = slices.DeleteFunc(list, func(s Section) bool { return slices.Contains(a.in.Drop, s.ID) })
	slices.SortStableFunc(list, func(x, y Section) int { return cmp.Compare(x.Class, y.Class) })
	return reorder(list, a.in.Order)
}

// addExtra appends the caller's sections that do not replace a built-in section.
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

// builtInIDs returns the ids of the built-in sections of every layout, and "". A section of the
// caller is never added under one of them.
func builtInIDs() map[string]bool {
	ids := map[string]bool{"": true}
	for _, parts := range [...][]part{defaultParts[:], goClawParts[:]} {
		for i := range parts {
			ids[parts[i].id] = true
		}
	}
	return ids
}

// SectionIDs returns the ids of the built-in sections of every layout, for a program that checks
// [Input.Drop] and [Input.Order].
func SectionIDs() []string {
	ids := builtInIDs()
	delete(ids, "")
	return slices.Sorted(maps.Keys(ids))
}

// parts returns the built-in sections of the input's layout.
func (a *assembly) parts() []part {
	if a.in.Layout == LayoutGoClaw {
		return goClawParts[:]
	}
	return defaultParts[:]
}

// section renders one built-in section, or its replacement by the caller. It returns false if the
// mode, the gate or an empty text leaves it out.
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

// normalizeSection returns the section as a Prompt holds it, and whether its text is more than
// white space.
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

// reorder moves each section that order names behind the one that it names before, within a class.
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

// cleanTools returns the tools that have a name, each name once in any letter case, with one-line
// summaries.
//
// If sorted is set the tools are in the order of their names in lower case, and the order of the
// input does not matter: of several spellings the one with more lower-case letters wins, and of
// several summaries the first in order that is not blank. Otherwise the tools keep their order, and
// the first tool of a name wins.
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

// compareTools orders tools so that the one that wins a name comes first, see cleanTools.
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
