package agentctx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// A project is what becomes of the workspace files in one prompt: the section Project Context and
// the reports.
type project struct {
	reports []FileReport // one for each file of the input, in its order
	blocks  []block      // what is shown, in order
}

// A block is one file as the prompt shows it.
type block struct {
	name       string
	text       string // content, or the marker of a missing file
	hasContent bool   // content
}

// showsFile reports whether the prompt shows the content of the file with that name.
func (p project) showsFile(name string) bool {
	return slices.ContainsFunc(
		p.blocks, func(b block) bool { return b.hasContent && b.name == name },
	)
}

// A candidate is a file on its way into the prompt.
type candidate struct {
	index      int // in the reports and in the files of the input
	text       string
	runes      int
	hasContent bool
	kept       string // decided by allot
}

// newProject filters the files, gives them room within the limits and reports on every one of them.
// The filter is here so that it sees the list as the hooks left it.
func newProject(in *Input, of sort, spec Spec) project {
	p := project{reports: make([]FileReport, len(in.Files))}
	list := make([]candidate, 0, len(in.Files))
	seen := make(map[string]bool, len(in.Files))
	for i, f := range in.Files {
		c, reason, why := admitFile(in, of, spec, f, seen)
		runes := c.runes
		if !c.hasContent {
			runes = countRunes(f.Content)
		}
		p.reports[i] = newFileReport(f, runes, reason, why)
		if c.text != "" {
			c.index = i
			list = append(list, c)
		}
	}
	allotRoom(list, in, spec, p.reports)
	p.blocks = make([]block, 0, len(list))
	for _, c := range list {
		if c.kept == "" {
			continue
		}
		a := &p.reports[c.index]
		p.blocks = append(
			p.blocks, block{name: in.Files[c.index].Name, text: c.kept, hasContent: c.hasContent},
		)
		a.Kept, a.KeptBytes = countKept(c), len(c.kept)
		if in.Limits.Count != nil {
			a.Tokens = in.Limits.Count(c.kept)
		}
	}
	p.reports = append(p.reports, unmatchedFiles(in.Files, spec)...)
	return p
}

// unmatchedFiles reports on the names in a spec that are those of no file. A core file is loaded
// or optional, and a pattern may match nothing.
func unmatchedFiles(files []WorkspaceFile, spec Spec) (list []FileReport) {
	for _, name := range spec.Files {
		loaded := func(f WorkspaceFile) bool { return sameFileName(name, f.Name) }
		if isCoreName(name) || isPattern(name) || slices.ContainsFunc(files, loaded) {
			continue
		}
		why := "named in vain: the spec names it, and no file of that name was loaded"
		if near := NearCoreFile(name); near != "" {
			why += "; the nearest is " + near
		}
		list = append(list, FileReport{
			Name: excerpt(sanitize(name), maxWhy), Reason: ReasonUnmatched, Why: why,
		})
	}
	return list
}

// newFileReport returns the report on a file of which nothing is kept yet.
func newFileReport(f WorkspaceFile, runes int, r Reason, why string) FileReport {
	return FileReport{
		Name: sanitize(f.Name), Path: f.Path, Reason: r, Why: why, Bytes: len(f.Content),
		Runes: runes,
	}
}

// countKept returns the number of runes that are kept. It does not count a whole text again.
func countKept(c candidate) int {
	if c.kept == c.text {
		return c.runes
	}
	return countRunes(c.kept)
}

// admitFile decides whether a file is shown at all, before any limit.
func admitFile(
	in *Input, of sort, spec Spec, f WorkspaceFile, seen map[string]bool,
) (c candidate, r Reason, why string) {
	switch {
	case !validName(f.Name):
		return c, ReasonBadName, "bad name: " + cmp.Or(f.Why, "not a clean relative path")
	case !spec.sees(f.Name):
		return c, ReasonExcluded, "excluded: not among the files of the spec"
	case of.isGroup && isPrivate(spec, f):
		return c, ReasonExcluded, "excluded: it is not for a group unless the spec names it"
	case !spec.admits(f):
		return c, ReasonExcluded, "excluded: it is a link to " + sanitize(f.Target) +
			", which is not among the files of the spec"
	case seen[f.Name]:
		return c, ReasonRepeated, "repeated: a file of this name comes earlier"
	case f.Name == memoryFileLower && seen[MemoryFile]:
		return c, ReasonRepeated, "repeated: " + MemoryFile + " stands for it"
	}
	if f.Missing {
		seen[f.Name] = f.Name != MemoryFile
		reason := f.Reason
		if reason == ReasonWhole {
			reason = ReasonAbsent
		}
		why = "missing: " + cmp.Or(f.Why, reason.String())
		if isMarked(in, f.Name) {
			c.text = missingMarker(in, f)
			c.runes = countRunes(c.text)
		}
		return c, reason, why
	}
	text := strings.TrimRight(normalizeText(f.Content), " \t\n")
	if strings.TrimSpace(text) == "" {
		return c, ReasonBlank, "blank: there is no text in it"
	}
	if f.Name == ExecutionFile && spec.sees(AgentsFile) && repeatsAgentsFile(in.Files, text) {
		return c, ReasonRepeated, "repeated: it is the workspace's " + AgentsFile
	}
	seen[f.Name] = true
	return candidate{text: text, runes: countRunes(text), hasContent: true}, ReasonWhole, ""
}

// isPrivate reports whether the file is one that belongs to the agent and its person alone: the
// memory and the first conversation. A session that serves a group is not shown it, unless the spec
// names it.
func isPrivate(spec Spec, f WorkspaceFile) bool {
	private := func(name string) bool {
		return (name == BootstrapFile || name == MemoryFile || name == memoryFileLower ||
			strings.HasPrefix(name, memoryDir+"/")) && !slices.Contains(spec.Files, name)
	}
	return private(f.Name) || !f.Missing && private(f.Target)
}

// isGroup reports whether key is that of a group or a channel, or of a thread in one.
func isGroup(key session.Key) bool {
	return key.Kind() == session.KindGroup || key.Kind() == session.KindChannel
}

// repeatsAgentsFile reports whether the workspace's AGENTS.md has this text.
func repeatsAgentsFile(files []WorkspaceFile, text string) bool {
	return slices.ContainsFunc(files, func(f WorkspaceFile) bool {
		return f.Name == AgentsFile && strings.TrimRight(normalizeText(f.Content), " \t\n") == text
	})
}

// isMarked reports whether the prompt mentions the absence of the file.
func isMarked(in *Input, name string) bool {
	if in.Markers == nil {
		return slices.Contains(markedFiles(), name)
	}
	return slices.Contains(in.Markers, name)
}

// missingMarker is what stands in place of a missing file.
func missingMarker(in *Input, f WorkspaceFile) string {
	where := f.Name
	if in.Layout == LayoutGoClaw {
		where = cmp.Or(f.Path, f.Name)
	}
	text := "[MISSING] Expected at: " + sanitize(where)
	if f.Reason != ReasonAbsent && f.Reason != ReasonWhole {
		text += " (" + f.Reason.String() + ")"
	}
	return text
}

// allotRoom decides what is kept of each candidate. The file that loses room last is
// served first.
func allotRoom(list []candidate, in *Input, spec Spec, reports []FileReport) {
	perFile := effectiveLimit(in.Limits.File, defaultFileLimit)
	total := effectiveLimit(in.Limits.Total, defaultTotalLimit)
	order := make([]*candidate, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	name := func(c *candidate) string { return in.Files[c.index].Name }
	slices.SortStableFunc(order, func(x, y *candidate) int {
		px, py := keepRank(name(x)), keepRank(name(y))
		if px == py && px == keepRank(memoryDir+"/x") {
			return cmp.Compare(name(y), name(x)) // the newest day gives way last
		}
		return cmp.Compare(px, py)
	})
	left := total
	for _, c := range order {
		a := &reports[c.index]
		room := min(perFile, left)
		switch {
		case c.runes <= room:
			c.kept = c.text
		case !c.hasContent: // the file is missing all the same, with the reason for that
			if room > 0 {
				c.kept = excerpt(c.text, room)
			}
		case room < perFile && room < minCutRoom:
			a.Reason, a.Why = ReasonNoRoom, fmt.Sprintf(
				"no room: %d runes, %d left of the total limit of %d", c.runes, left, total,
			)
		case spec.Overflow == OverflowDrop:
			a.Reason, a.Why = ReasonDropped, fmt.Sprintf(
				"dropped whole: %d runes, room for %d", c.runes, room,
			)
		default:
			c.kept = cutMiddle(a.Name, c.text, c.runes, room)
			a.Reason, a.Why = ReasonOverFile, fmt.Sprintf(
				"cut: %d runes, over the file limit of %d", c.runes, perFile,
			)
			if room < perFile {
				a.Reason, a.Why = ReasonOverTotal, fmt.Sprintf(
					"cut: %d runes, %d left of the total limit of %d", c.runes, left, total,
				)
			}
		}
		if c.kept != "" {
			left -= countKept(*c)
		}
	}
}

// excludeAll reports for files of a prompt that shows none.
func excludeAll(files []WorkspaceFile) project {
	p := project{reports: make([]FileReport, len(files))}
	for i, f := range files {
		p.reports[i] = newFileReport(
			f, countRunes(f.Content), ReasonExcluded, "excluded: the mode is none",
		)
	}
	return p
}

func projectText(a *assembly) string {
	intro := joinLines(
		"# Project Context",
		"These files are from the workspace, where people edit them. Each stands between two lines of backticks: what is inside belongs to the file, headings too, and is never a section of this prompt.",
		textIf(
			a.files.showsFile(AgentsFile) && !a.of.isSubagent,
			AgentsFile+" says how work is done here: follow it.",
		),
		textIf(
			a.files.showsFile(SoulFile),
			"Take on the persona and tone of "+SoulFile+", unless a rule of this prompt forbids it.",
		),
		textIf(
			a.files.showsFile(BootstrapFile) && a.spec.Mode == ModeFull,
			BootstrapFile+" is there, so this workspace is new: follow it in your first answer, before anything else.",
		),
		textIf(
			slices.ContainsFunc(
				a.files.blocks,
				func(b block) bool { return b.hasContent && b.name == ExecutionFile },
			),
			ExecutionFile+" is from the directory that your tools work in. Where it differs from "+AgentsFile+", it holds for work in that directory.",
		),
		shortNotice(a),
	)
	if len(a.files.blocks) == 0 && !slices.ContainsFunc(a.files.reports, FileReport.Short) {
		return ""
	}
	size := len(intro)
	fences := make([]string, len(a.files.blocks))
	for i, b := range a.files.blocks {
		if b.hasContent {
			fences[i] = fence(b.text)
		}
		size += len(b.text) + len(b.name) + 2*len(fences[i]) + len("\n\n## ``\n\n\n")
	}
	var out strings.Builder
	out.Grow(size)
	out.WriteString(intro)
	for i, b := range a.files.blocks {
		out.WriteString("\n\n## ")
		out.WriteString(heading(b.name))
		out.WriteByte('\n')
		if b.hasContent {
			out.WriteString(fences[i])
			out.WriteByte('\n')
		}
		out.WriteString(b.text)
		if b.hasContent {
			out.WriteByte('\n')
			out.WriteString(fences[i])
		}
	}
	return out.String()
}

// heading returns a file's name as its heading shows it. Only core files stand there as they are: a
// file may be called Runtime, and must not look like that section.
func heading(name string) string {
	if name == memoryFileLower || slices.Contains(CoreFiles(), name) {
		return name
	}
	return quote(name)
}

// shortNotice tells the model which files it sees in part, or not at all for want of room.
func shortNotice(a *assembly) string {
	var cut, out []string
	for _, f := range a.files.reports {
		switch {
		case !f.Short():
		case f.Shown():
			cut = append(cut, quote(f.Name))
		default:
			out = append(out, quote(f.Name))
		}
	}
	read := a.code("read")
	return joinLines(
		textIf(cut != nil, "Shown in part: "+strings.Join(cut, ", ")+"."),
		textIf(out != nil, "Left out for want of room: "+strings.Join(out, ", ")+"."),
		textIf(
			(cut != nil || out != nil) && read != "",
			"If one of them matters to what you do, read it with "+read+" first.",
		),
	)
}
