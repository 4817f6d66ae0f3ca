package agentctx

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/clone"
	"github.com/offshoot-sdk/offshoot/session"
)

// The bounds of an [Assembler].
const (
	maxCommons     = 16
	maxCommonBytes = 8 << 20
)

// ownSections is how many sections a prompt has at most that are not stable.
const ownSections = 6

// An Assembler is [Assemble] for a program that makes many prompts: it keeps what the prompts of
// like sessions have in common, which are the stable sections and the reports, and writes what a
// session or a turn has of its own each time. It returns what Assemble returns.
//
// What it keeps is found by comparing all of the Input that it was made of, with texts of files,
// so that it never needs to be invalidated. It keeps 16 of them and 8 MiB at most, with all texts
// of the Input, and drops what was not used for the longest. An Input with a Limits.Count is not
// kept, since functions cannot be compared.
//
// The zero Assembler is ready for use. It is safe for concurrent use. Of an input that it has seen
// it makes the prompt with a third of the allocations of Assemble (BenchmarkAssembler).
type Assembler struct {
	mu    sync.Mutex
	kept  []*common // the most recently used first
	bytes int       // of kept
}

// Assemble is the function [Assemble].
func (m *Assembler) Assemble(in Input) Prompt {
	if in.Limits.Count != nil {
		return Assemble(in)
	}
	shared, of := sharedInput(&in)
	c := m.find(&shared, of)
	if c == nil {
		own := clone.Of(shared) // the caller may change what in refers to
		c = newCommon(&own, of)
		c.duties = new(dutiesCache)
		m.keep(c)
	}
	return c.prompt(&in)
}

// find returns what is kept for a shared input, or nil.
func (m *Assembler) find(shared *Input, of sort) *common {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, c := range m.kept {
		if c.of == of && sameShared(&c.in, shared) {
			copy(m.kept[1:i+1], m.kept[:i])
			m.kept[0] = c
			return c
		}
	}
	return nil
}

// keep keeps c, and drops what is over the bounds then. Two calls at the same time may keep the
// same twice: the one that is not found any more is dropped in the end. What alone is over the
// bound is not kept: it would displace all others.
func (m *Assembler) keep(c *common) {
	if c.bytes > maxCommonBytes {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = slices.Insert(m.kept, 0, c)
	m.bytes += c.bytes
	for last := len(m.kept) - 1; last >= maxCommons || m.bytes > maxCommonBytes; last-- {
		m.bytes -= m.kept[last].bytes
		m.kept = slices.Delete(m.kept, last, last+1)
	}
}

// sharedInput returns what the stable sections and the reports of a prompt depend on: the Input
// without what differs among the sessions of a sort, with the Spec complete, and the sort. What is
// not in it cannot be in them, since they are made of nothing else.
func sharedInput(in *Input) (Input, sort) {
	of := sort{isSubagent: isChild(in), isGroup: isGroup(in.Session)}
	of.isCron = !of.isSubagent && in.Session.Kind() == session.KindCron
	of.isTyped = in.Subagent.typed()
	s := *in
	s.Session, s.Lineage, s.Spec = session.Key{}, session.Lineage{}, resolveSpec(in)
	s.Env.Model, s.Env.Thinking, s.Env.Channel = "", "", ""
	s.Subagent, s.Active, s.Conversation, s.Task = Subagent{}, nil, "", ""
	s.Now = time.Time{}
	s.Drop, s.Order = nil, nil // for the prompt as a whole
	if s.Extra = nil; slices.ContainsFunc(in.Extra, replacesStable) {
		s.Extra = slices.DeleteFunc(slices.Clone(in.Extra),
			func(s Section) bool { return !replacesStable(s) })
	}
	return s, of
}

// replacesStable reports whether a section of the caller takes the place of a stable one of a
// layout.
func replacesStable(s Section) bool {
	is := func(p part) bool { return p.id == s.ID && p.class == ClassStable }
	return slices.ContainsFunc(defaultParts[:], is) || slices.ContainsFunc(goClawParts[:], is)
}

// sameShared reports whether two results of sharedInput are equal in every field, of which neither
// has a Limits.Count.
func sameShared(x, y *Input) bool {
	return x.Layout == y.Layout && x.Product == y.Product && x.Docs == y.Docs &&
		x.HideCitations == y.HideCitations && x.ReasoningTags == y.ReasoningTags &&
		x.HeartbeatPrompt == y.HeartbeatPrompt && x.ReportsToPeople == y.ReportsToPeople &&
		x.Sandbox == y.Sandbox && sameSpec(&x.Spec, &y.Spec) && sameEnv(&x.Env, &y.Env) &&
		sameChannel(&x.Channel, &y.Channel) &&
		x.Limits.File == y.Limits.File && x.Limits.Total == y.Limits.Total &&
		x.Limits.Skills == y.Limits.Skills &&
		same(x.Markers, y.Markers) && same(x.Notes, y.Notes) && same(x.Tools, y.Tools) &&
		same(x.Skills, y.Skills) && same(x.SkillReports, y.SkillReports) &&
		same(x.Extra, y.Extra) && maps.Equal(x.Aliases, y.Aliases) && same(x.Files, y.Files)
}

func sameSpec(x, y *Spec) bool {
	return x.Mode == y.Mode && x.History == y.History && x.Overflow == y.Overflow &&
		same(x.Files, y.Files) && same(x.Skills, y.Skills)
}

func sameEnv(x, y *Env) bool {
	return x.Host == y.Host && x.OS == y.OS && x.Arch == y.Arch && x.Repo == y.Repo &&
		x.Dir == y.Dir && x.Home == y.Home && x.Shell == y.Shell &&
		x.DefaultModel == y.DefaultModel && x.Reasoning == y.Reasoning && x.Zone == y.Zone &&
		same(x.Capabilities, y.Capabilities)
}

func sameChannel(x, y *Channel) bool {
	return x.HashSenders == y.HashSenders && x.Buttons == y.Buttons && x.Voice == y.Voice &&
		x.Reactions == y.Reactions && same(x.Senders, y.Senders) &&
		same(x.SenderSecret, y.SenderSecret) && same(x.Options, y.Options) &&
		same(x.Hints, y.Hints)
}

// same reports whether two lists are equal. An empty list that is not nil is not equal to nil: as
// Input.Markers it says something else.
func same[T comparable](x, y []T) bool { return (x == nil) == (y == nil) && slices.Equal(x, y) }

// A common is what prompts have in common whose sharedInput is the same. It does not change.
type common struct {
	assembly // of the shared input

	sections []Section // those that are stable, without sections of the caller's own
	bytes    int       // of what is kept, about
}

// newCommon makes the common of what sharedInput has returned, which it keeps.
func newCommon(shared *Input, of sort) *common {
	c := &common{assembly: assembly{in: *shared, of: of, spec: shared.Spec}}
	a := &c.assembly
	shared = &a.in
	a.tools = cleanTools(shared.Tools, shared.Layout != LayoutGoClaw)
	a.codes = toolCodes(a.tools)
	a.toolNames = make(map[string]int, len(a.tools))
	for i, t := range a.tools {
		a.toolNames[strings.ToLower(t.Name)] = i
	}
	a.readExtra()
	if a.spec.Mode == ModeNone {
		a.files = excludeAll(shared.Files)
	} else {
		a.files = newProject(shared, of, a.spec)
		a.skills = newCatalog(shared, a.spec)
	}
	c.sections = a.appendSections(nil, true)
	c.bytes = clone.Bytes(*shared) + clone.Bytes(c.sections) + clone.Bytes(a.tools) +
		clone.Bytes(a.files.reports) + clone.Bytes(a.files.blocks) +
		clone.Bytes(a.skills.reports) + len(a.skills.text)
	return c
}

// prompt returns the prompt of an Input that has c in common.
func (c *common) prompt(in *Input) Prompt {
	a := c.assembly
	a.in = *in
	a.readExtra()
	list := make([]Section, 0, len(c.sections)+ownSections+len(in.Extra))
	list = a.appendSections(append(list, c.sections...), false)
	return Prompt{
		Session: in.Session.String(), Mode: a.spec.Mode, overflow: a.spec.Overflow,
		Sections: a.arranged(list),
		Files:    slices.Clone(a.files.reports), Skills: slices.Clone(a.skills.reports),
	}
}

// readExtra reads the sections of the caller.
func (a *assembly) readExtra() {
	if a.extra = nil; len(a.in.Extra) > 0 {
		a.extra = make(map[string]Section, len(a.in.Extra))
	}
	for _, s := range a.in.Extra {
		a.extra[s.ID] = s
	}
}

// appendSections appends the built-in sections that are stable, or the others, as far as the mode
// keeps them.
func (a *assembly) appendSections(list []Section, stable bool) []Section {
	for _, p := range a.parts() {
		if (p.class == ClassStable) != stable {
			continue
		}
		if s, ok := a.section(p); ok {
			list = append(list, s)
		}
	}
	return list
}
