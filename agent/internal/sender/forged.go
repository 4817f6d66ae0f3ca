package sender

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// QuoteForged returns what a person says, in which each line that looks like one that says who
// speaks is marked as a quotation. Otherwise a person could speak for another one. It takes time
// linear in the text.
//
// A line looks like one if its first letters are those of saidBy, in any case, form or alphabet in
// which they look alike, whatever stands between them; behind a bracket they may be of several
// lines. Signs stand before them, or a bracket behind mark-up or the number of a list. A line that
// begins with the words is prose.
func QuoteForged(said string) string {
	found := occurrences(said)
	if len(found) == 0 {
		return said
	}
	var h heads
	h.read(said)
	var marks []int // where lines begin that are marked
	next := 0       // the lines before are decided
	for _, o := range found {
		i, ok := slices.BinarySearchFunc(h.places, o.start, func(p place, at int) int {
			return p.at - at
		})
		if !ok || !h.places[i].passes(o) {
			continue
		}
		for at := max(h.places[i].line, next); at < o.end; at = next {
			marks = append(marks, at)
			next = at + lineLen(said[at:])
		}
	}
	var b strings.Builder
	done := 0
	for _, at := range marks {
		b.WriteString(said[done:at] + "> ")
		done = at
	}
	return b.String() + said[done:]
}

// lineLen returns how many bytes the first line of a text has, with what ends it.
func lineLen(s string) int {
	i := strings.IndexFunc(s, breaksLine)
	if i < 0 {
		return len(s)
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return i + n
}

// breaksLine reports whether a character ends a line in some program.
func breaksLine(r rune) bool {
	switch r {
	case '\n', '\v', '\f', '\r', '\x1c', '\x1d', '\x1e', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}

// A place is a letter of a text before which nothing stands on its line but signs and mark-up.
type place struct {
	at, line int  // where the letter stands, and where the line begins, or that of the bracket
	signs    bool // a sign stands before it, and nothing but signs
	bracket  bool // a bracket is open before it
}

// passes reports whether the line of a sender may begin there.
func (p *place) passes(o occurrence) bool { return p.bracket || p.signs && !o.split }

// heads are the places of a text, in their order.
type heads struct {
	places []place
	place       // what is known of the next one
	passed bool // the line has had its letters: nothing more of it is looked at
	skips  bool // what is not a sign stands before the next place
	tagEnd int  // the first ">" behind the last "<", or the end of its line
}

// read finds the places of a text.
func (h *heads) read(s string) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case breaksLine(r):
			if h.passed || !h.bracket {
				h.place, h.skips = place{line: i + n}, false
			}
			h.passed = false
		case r != '\t' && unicode.IsControl(r): // what comes may be drawn at the begin of a line
			if h.passed {
				h.passed, h.skips, h.signs, h.bracket = false, true, false, false
			}
			n = h.control(s, i, n)
		case h.passed:
		default:
			n = h.character(s, i, r, n)
		}
		i += n
	}
}

// note notes the place of a letter.
func (h *heads) note(at int) {
	p := h.place
	p.at, p.signs = at, p.signs && !h.skips
	h.places = append(h.places, p)
}

// control reads a control of n bytes, or the control sequence that it begins.
func (h *heads) control(s string, at, n int) int {
	run := sequenceLen(s[at:])
	if run == 0 {
		return n
	}
	if last := at + run - 1; isLetter(rune(s[last])) {
		open := h.bracket // a reader who sees no control sees a bracket, and the letter of a word
		h.skips, h.bracket = true, true
		h.note(last)
		h.bracket = open
	}
	return run
}

// sequenceLen returns how many bytes the control sequence of a terminal has with which s begins, or
// 0.
func sequenceLen(s string) int {
	i := 2
	if !strings.HasPrefix(s, "\x1b[") && !strings.HasPrefix(s, "\u009b") {
		return 0
	}
	for i < len(s) && s[i] >= ' ' && s[i] <= '?' {
		i++
	}
	if i == len(s) || s[i] < '@' || s[i] > '~' {
		return 0
	}
	return i + 1
}

// character reads the character r of n bytes, or the mark-up that it begins, and returns how many
// bytes that has.
func (h *heads) character(s string, at int, r rune, n int) int {
	switch {
	case isLetter(r), unicode.IsDigit(r):
		h.note(at)
		if run := itemLen(s[at:]); run > 0 {
			h.skips = true
			return run
		}
		h.passed = true
	case r == '<':
		return h.tag(s, at, n)
	case r == '&':
		h.signs = true
		if run := entityLen(s[at:]); run > 0 {
			h.note(at + 1)
			h.skips, h.bracket = true, true
			return run
		}
	case unicode.Is(unicode.Ps, r), r == '＜':
		h.signs, h.bracket = true, true
	case unicode.Is(unicode.Pe, r), r == '>', r == '＞':
		h.signs, h.bracket = true, false
	case !isBlank(r):
		h.signs = true
	}
	return n
}

// tag reads a "<", and the tag that it begins.
func (h *heads) tag(s string, at, n int) int {
	open := h.bracket
	h.signs, h.bracket = true, true
	if h.tagEnd <= at {
		h.tagEnd = len(s)
		if i := strings.IndexFunc(s[at:], endsTag); i >= 0 {
			h.tagEnd = at + i
		}
	}
	next, _ := utf8.DecodeRuneInString(s[at+n:])
	if h.tagEnd == len(s) || s[h.tagEnd] != '>' || next != '/' && next != '!' && !isLetter(next) {
		return n
	}
	if isLetter(next) {
		h.note(at + n)
	}
	h.skips, h.bracket = true, open
	return h.tagEnd + 1 - at
}

// endsTag reports whether a tag ends with a character, or is none.
func endsTag(r rune) bool { return r == '>' || breaksLine(r) }

// The number of a list has at most so many digits, or letters.
const (
	maxDigits  = 9
	maxNumeral = 3
)

// itemLen returns how many bytes the number or the letter of a list has with which s begins,
// without the sign behind it. It is 0 if s begins with a word.
func itemLen(s string) int {
	i := 0
	for i < len(s) && i < maxDigits && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == 0 {
		for i < len(s) && i < maxNumeral && s[i] < utf8.RuneSelf && unicode.IsLetter(rune(s[i])) {
			i++
		}
	}
	if i < len(s) && strings.IndexByte(".)];", s[i]) >= 0 {
		return i
	}
	return 0
}

// maxEntity is how many characters the name of a character has in HTML.
const maxEntity = 32

// entityLen returns how many bytes the character has with which s begins, as HTML names it, or 0.
func entityLen(s string) int {
	for i := 1; i < len(s) && i <= maxEntity; i++ {
		switch c := s[i]; {
		case c == ';' && i > 1:
			return i + 1
		case c >= utf8.RuneSelf, c != '#' && !isLetter(rune(c)) && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}
