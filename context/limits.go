package agentctx

import "fmt"

// The limits that hold where none is set, in runes; they are those of the
// field's reference system.
const (
	defaultFileLimit   = 20_000
	defaultTotalLimit  = 60_000
	defaultSkillsLimit = 30_000

	// NoLimit as a limit is none.
	NoLimit = -1
)

// minCutRoom is the least room in runes for which a file is cut rather than
// left out when Limits.Total runs short.
const minCutRoom = 64

// Limits bound what a prompt takes from the workspace, in runes (Unicode code
// points). They are strict: what is kept of a file, its marker included, is
// never longer than File, and everything kept of all files never longer than
// Total. Headings and fences are not counted.
type Limits struct {
	// WorkspaceFile bounds each file. 0: 20,000; NoLimit: none.
	File int
	// Total bounds all files together. 0: 60,000; NoLimit: none.
	Total int
	// Skills bounds the list of skills. 0: 30,000; NoLimit: none.
	Skills int
	// Count counts tokens for the account; nil: they are not counted. It
	// must return the same number for the same text.
	Count func(string) int
}

// Or returns l with every field that it leaves open taken from under, so that
// an agent's limits stand over the defaults: agent.Or(defaults).
func (l Limits) Or(under Limits) Limits {
	if l.File == 0 {
		l.File = under.File
	}
	if l.Total == 0 {
		l.Total = under.Total
	}
	if l.Skills == 0 {
		l.Skills = under.Skills
	}
	if l.Count == nil {
		l.Count = under.Count
	}
	return l
}

// Validate returns an error that names the first negative limit that is not
// NoLimit. Assemble takes such a limit for 0.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"File", l.File}, {"Total", l.Total}, {"Skills", l.Skills}} {
		if f.value < NoLimit {
			return fmt.Errorf("agentctx: Limits.%s is %d, want a number of runes, 0 for the default or %d for none", f.name, f.value, NoLimit)
		}
	}
	return nil
}

// effectiveLimit returns what a field of Limits means.
func effectiveLimit(value, standard int) int {
	switch {
	case value > 0:
		return value
	case value == NoLimit:
		return int(^uint(0) >> 1)
	default:
		return standard
	}
}

// minContentRoom is the least content in runes for which the marker of a cut is
// spelled out.
const minContentRoom = 16

// cutMiddle shortens text, which has the given number of runes, to at most limit
// runes: three quarters of the room for the head, one for the tail, and
// between them a marker that names the file, or "…" where there is no room
// for it.
func cutMiddle(name, text string, runes, limit int) string {
	if runes <= limit {
		return text
	}
	if limit <= 0 {
		return ""
	}
	marker := cutMarker(name, runes, runes) // as long as any that can follow
	room := limit - countRunes(marker)
	if room < minContentRoom {
		marker, room = "…", limit-1
	} else {
		marker = cutMarker(name, runes-room, runes)
	}
	tail := room / 4
	head := room - tail
	if runes == len(text) { // ASCII
		return text[:head] + marker + text[len(text)-tail:]
	}
	first, _ := firstRunes(text, head)
	return first + marker + lastRunes(text, tail)
}

func cutMarker(name string, dropped, runes int) string {
	return fmt.Sprintf("\n[... %s: %d of %d runes left out here ...]\n", name, dropped, runes)
}
