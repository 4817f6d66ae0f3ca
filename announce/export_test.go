package announce

import (
	"maps"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// TagNames returns the names of all tags that the sanitizer knows.
func TagNames() []string { return slices.Sorted(maps.Keys(tagKinds)) }

// HidesToEnd reports whether an opening tag of that name hides the text up to its end.
func HidesToEnd(name string) bool {
	return tagKinds[name] == thinkTag || tagKinds[name] == memoryTag
}

// IsSilent is what a silent reply is.
var IsSilent = isSilent

// Held returns how many bytes a Stream holds at most: those that it has taken, and room for more.
func Held(s *Stream) int {
	p := &s.passes
	held := cap(s.tail.run) + len(s.tail.word) + s.masker.Held()
	for _, c := range []*ahead.Cursor{
		&p.echoes[0].Cursor, &p.first.Cursor,
		&p.echoes[1].Cursor, &p.second.Cursor, &p.echoes[2].Cursor,
	} {
		held += c.Held()
	}
	const opener = 24 // bytes
	for _, g := range []*guard{&p.second.guard, &p.echoes[2].guard} {
		held += cap(g.open) * opener
	}
	return held
}

// Remembered returns how many keys d remembers.
func (d *Dedupe) Remembered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.known.at)
}

// OutsideCode returns the lines of a text that are not fenced code.
func OutsideCode(text string) string {
	var out strings.Builder
	var code blockCode
	for line := range strings.Lines(text) {
		isOpen := code.length > 0
		if code.pass(line); !isOpen && code.length == 0 {
			out.WriteString(line)
		}
	}
	return out.String()
}
