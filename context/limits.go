package agentctx

import "fmt"

// The limits that hold where none is set, in runes. They are those of the field's reference system.
const (
	defaultFileLimit   = 20_000
	defaultTotalLimit  = 60_000
	defaultSkillsLimit = 30_000

	// NoLimit switches a field of [Limits] off.
	NoLimit = -1
)

// minCutRoom is the room in runes below which a file is left out rather than cut when Limits.Total
// runs short.
const minCutRoom = 64

// Limits bound what a prompt takes from the workspace, in runes (Unicode code points). They are
// strict. What is kept of a file is never longer than File, its marker included. What is kept of
// all files together is never longer than Total. Headings and fences are not counted. The zero
// Limits are the defaults.
type Limits struct {
	// File bounds each file. 0: 20,000 runes; NoLimit: no bound.
	File int
	// Total bounds all files together. 0: 60,000 runes; NoLimit: no bound.
	Total int
	// Skills bounds the list of skills. 0: 30,000 runes; NoLimit: no bound.
	Skills int
	// Count returns the number of tokens of a text, for [FileReport]. nil: tokens are not counted.
	// It returns the same number for the same text every time.
	Count func(string) int
}

// Or returns l with every zero field taken from under. An agent's limits stand over the defaults
// with agent.Or(defaults).
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

// Validate returns all negative limits that are not NoLimit, each as a *[FieldError] in one error,
// or nil. [Assemble] takes such a limit for 0.
func (l Limits) Validate() error {
	var list fieldErrors
	for _, f := range []struct {
		name  string
		value int
	}{{"File", l.File}, {"Total", l.Total}, {"Skills", l.Skills}} {
		if f.value < NoLimit {
			list.add("Limits."+f.name, "is %d, want a number of runes, 0 for the default or %d for none",
				f.value, NoLimit)
		}
	}
	return list.join()
}

// effectiveLimit returns the bound in runes that a field of Limits with the value stands for.
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

// minContentRoom is the room in runes beside the marker of a cut below which the marker is "…".
const minContentRoom = 16

// cutMiddle shortens text, which has the given number of runes, to at most limit runes. The head
// gets three quarters of the room and the tail one. Between them stands a marker that names the
// file, or "…" where the room is too small for the marker.
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
