package agentctx

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxSnapshot is how many skills a snapshot has at most.
const maxSnapshot = 1000

// A SkillSnapshot is the skills of a session at one moment.
type SkillSnapshot struct {
	// Version is a digest of Skills. It is equal for equal lists, so it tells whether a snapshot
	// that the caller kept is out of date.
	Version string
	// Skills are the skills that the session may use, hidden ones too, by name.
	Skills []SkillEntry
	// Excluded reports on the others, and why they are not in Skills.
	Excluded []FileReport
}

// A SkillRef names a skill that a session has taken, with the [SkillEntry.Digest] of that time.
type SkillRef struct{ Name, Digest string }

// SnapshotSkills returns the skills that can work on the host and that the spec lets through. The
// caller completes the spec first, see [Spec.Or]. What the prompt lists ([SkillSnapshot.Visible]),
// the commands that people may call ([SkillSnapshot.Commands]) and the directory of [SyncSkills]
// all come from one snapshot, so a skill that is not in it is in none of them.
//
// A snapshot has at most 1,000 skills, the first ones by name.
func SnapshotSkills(entries []SkillEntry, host SkillHost, spec Spec) SkillSnapshot {
	s := SkillSnapshot{}
	sorted := slices.SortedStableFunc(slices.Values(entries), func(x, y SkillEntry) int {
		return cmp.Compare(x.Name, y.Name)
	})
	for _, e := range sorted {
		ok, why := spec.seesSkill(e.Name), "excluded: not among the skills of the spec"
		if ok {
			ok, why = host.Eligible(e)
		}
		switch {
		case !ok:
			s.exclude(e, ReasonExcluded, why)
		case len(s.Skills) == maxSnapshot:
			s.exclude(e, ReasonTooMany, fmt.Sprintf(
				"too many: a session has at most %d skills", maxSnapshot,
			))
		default:
			s.Skills = append(s.Skills, e)
		}
	}
	s.setVersion()
	return s
}

func (s *SkillSnapshot) exclude(e SkillEntry, r Reason, why string) {
	s.Excluded = append(s.Excluded, FileReport{
		Name: e.Name, Path: e.Path, Reason: r, Why: why, Runes: countRunes(e.Description),
	})
}

func (s *SkillSnapshot) setVersion() {
	list, _ := json.Marshal(s.Skills) // strings, bools and lists: cannot fail
	s.Version = digestOf(list)
}

// digestOf returns the beginning of the SHA-256 of a text in hexadecimal digits.
func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Visible returns the skills that the prompt lists, for [Input.Skills].
func (s SkillSnapshot) Visible() []Skill {
	var list []Skill
	for _, e := range s.Skills {
		if !e.Hidden {
			list = append(list, e.Skill)
		}
	}
	return list
}

// Refs returns what is to be kept of a snapshot so that [SkillIndex.Keep] finds it again.
func (s SkillSnapshot) Refs() []SkillRef {
	list := make([]SkillRef, len(s.Skills))
	for i, e := range s.Skills {
		list[i] = SkillRef{e.Name, e.Digest}
	}
	return list
}

// Bounds of a [SkillCommand].
const (
	maxSkillCommand     = 32
	maxSkillCommandText = 100
)

// A SkillCommand is the command by which people call a skill.
type SkillCommand struct {
	// Name has 1 to 32 lower-case letters of ASCII, digits and underscores. No other command of
	// the snapshot has it.
	Name string
	// Skill is the name of the skill.
	Skill string
	// Description has at most 100 runes on one line.
	Description string
}

// Commands returns the commands of the skills that people may call, hidden ones too, in the order
// of the skills. A command is called like its skill, with underscores in place of characters that
// a command cannot have. A name that is taken, or one of the reserved ones in any letter case, gets
// a number: "help_2".
//
// Commands only gives names. The caller registers and dispatches them.
func (s SkillSnapshot) Commands(reserved ...string) []SkillCommand {
	taken := make(map[string]bool, len(s.Skills)+len(reserved))
	for _, name := range reserved {
		taken[strings.ToLower(name)] = true
	}
	var list []SkillCommand
	for _, e := range s.Skills {
		if !e.UserInvocable {
			continue
		}
		base := commandName(e.Name)
		name := base
		for n := 2; taken[name]; n++ {
			suffix := "_" + strconv.Itoa(n)
			name = base[:min(len(base), maxSkillCommand-len(suffix))] + suffix
		}
		taken[name] = true
		list = append(list, SkillCommand{
			Name: name, Skill: e.Name, Description: truncate(e.Description, maxSkillCommandText),
		})
	}
	return list
}

// commandName returns the command that is called like a skill.
func commandName(skill string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(skill) {
		if r < 'a' || r > 'z' {
			if r < '0' || r > '9' {
				r = '_'
			}
		}
		if r != '_' || !strings.HasSuffix(b.String(), "_") {
			b.WriteRune(r)
		}
	}
	name := strings.Trim(b.String(), "_")
	name = strings.TrimRight(name[:min(len(name), maxSkillCommand)], "_")
	return cmp.Or(name, "skill")
}

// A readSkill is what a search has read of one SKILL.md: the skill, or why it is none.
type readSkill struct {
	size     int64
	modified time.Time
	entry    SkillEntry
	err      error
}

// clockStep is more than a step of the clock of any file system.
const clockStep = 2 * time.Second

// skill reads the SKILL.md with the name, unless an earlier search has read it and neither its size
// nor its time has changed since. A file that was changed just before it was read is read again,
// because its time would not show another change.
func (d *discovery) skill(name string) (SkillEntry, error) {
	began := time.Now()
	info, err := fs.Stat(d.source.FS, name)
	told := err == nil && !info.ModTime().IsZero()
	if k, ok := d.known[name]; ok && told && k.size == info.Size() &&
		k.modified.Equal(info.ModTime()) {
		d.read[name] = k
		return k.entry, k.err
	}
	text, err := readBounded(d.source.FS, name, maxSkillBytes)
	if err != nil {
		return SkillEntry{}, err
	}
	e, err := parseSkill(text)
	if told && info.ModTime().Add(clockStep).Before(began) {
		d.read[name] = readSkill{info.Size(), info.ModTime(), e, err}
	}
	return e, err
}

// maxRemembered is how many skills a SkillIndex remembers as sessions have taken them.
const maxRemembered = 10_000

// A SkillIndex discovers the skills of its sources again and again: it reads a SKILL.md again only
// if its size or its time has changed, and watches nothing in between. It also remembers what
// skills said when sessions took them, see Keep. It is safe for concurrent use.
type SkillIndex struct {
	sources []SkillSource

	mu       sync.Mutex
	looks    int                    // begun so far
	shown    int                    // the look that found and problems are of; 0: none
	read     []map[string]readSkill // by source; the maps are not changed
	found    []SkillEntry
	problems []FileReport
	taken    map[SkillRef]SkillEntry
	order    []SkillRef // of taken, the oldest first
}

// NewSkillIndex returns an index of the sources. It reads nothing.
func NewSkillIndex(sources ...SkillSource) *SkillIndex {
	return &SkillIndex{
		sources: slices.Clone(sources), read: make([]map[string]readSkill, len(sources)),
		taken: make(map[SkillRef]SkillEntry),
	}
}

// Look looks at the sources, and returns what [DiscoverSkills] does. The caller must not change
// what the lists of an entry hold. A source that hangs holds up the calls that look at it, and no
// others.
func (x *SkillIndex) Look() ([]SkillEntry, []FileReport) {
	look, known := x.begin()
	read := make([]map[string]readSkill, len(x.sources))
	var found []SkillEntry
	var problems []FileReport
	for i, s := range x.sources {
		d := discovery{source: s, known: known[i], read: make(map[string]readSkill)}
		if s.FS != nil {
			d.walk(".", 0)
		}
		read[i] = d.read
		found, problems = append(found, d.found...), append(problems, d.problems...)
	}
	found, problems = strongest(found, problems)
	x.mu.Lock()
	defer x.mu.Unlock()
	if look > x.shown { // else a later one was faster
		x.shown, x.read = look, read
		x.found, x.problems = slices.Clone(found), slices.Clone(problems)
	}
	return found, problems
}

// begin returns the number of a look, and what earlier ones have read.
func (x *SkillIndex) begin() (look int, known []map[string]readSkill) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.looks++
	return x.looks, x.read
}

// Last returns what the last Look has found. It looks if there was none.
func (x *SkillIndex) Last() ([]SkillEntry, []FileReport) {
	if found, problems, ok := x.last(); ok {
		return found, problems
	}
	return x.Look()
}

func (x *SkillIndex) last() (found []SkillEntry, problems []FileReport, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.found), slices.Clone(x.problems), x.shown > 0
}

// Keep returns what a session has that has taken skills before, of a snapshot that is taken now:
//
//   - A skill that the session took, and that is in the snapshot, stays as it was when Keep first
//     saw that ref, for as long as its SKILL.md is at the same place. So the prompt stays the same,
//     and a provider's cache of it, when the file changes. A new SkillIndex, as that of the next
//     process, takes the skill as it is then.
//   - A skill that the session took, and that is not in the snapshot, is left out: its file is
//     gone, or the spec or the host excludes it now.
//   - A skill that the session did not take is left out, also if it came later.
//
// The Excluded of the result report on each of the last two.
func (x *SkillIndex) Keep(taken []SkillRef, now SkillSnapshot) SkillSnapshot {
	today := make(map[string]SkillEntry, len(now.Skills))
	for _, e := range now.Skills {
		today[e.Name] = e
	}
	kept := SkillSnapshot{Excluded: slices.Clone(now.Excluded)}
	had := make(map[string]bool, len(taken))
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ref := range taken {
		if had[ref.Name] {
			continue
		}
		had[ref.Name] = true
		if e, ok := today[ref.Name]; ok {
			kept.Skills = append(kept.Skills, x.asTaken(ref, e))
		} else if !slices.ContainsFunc(now.Excluded, func(f FileReport) bool {
			return f.Name == ref.Name
		}) {
			kept.Excluded = append(kept.Excluded, FileReport{
				Name: ref.Name, Reason: ReasonAbsent,
				Why: "gone: the session took it, and it is not there any more",
			})
		}
	}
	for _, e := range now.Skills {
		if !had[e.Name] {
			kept.exclude(e, ReasonExcluded, "excluded: the session took its skills without it")
		}
	}
	slices.SortStableFunc(kept.Skills, func(a, b SkillEntry) int {
		return cmp.Compare(a.Name, b.Name)
	})
	kept.setVersion()
	return kept
}

// asTaken returns the skill of a ref as it was when the index first saw the ref. It returns the
// skill as it is if that has another place now, or if the index has not seen the ref. The caller
// holds the lock.
func (x *SkillIndex) asTaken(ref SkillRef, now SkillEntry) SkillEntry {
	was, ok := x.taken[ref]
	if ok && was.Path == now.Path {
		return was
	}
	if !ok {
		x.order = append(x.order, ref)
	}
	x.taken[ref] = now
	if len(x.order) > maxRemembered {
		delete(x.taken, x.order[0])
		x.order = x.order[1:]
	}
	return now
}
