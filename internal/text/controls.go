package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxEscape is how many bytes an escape sequence has at most. Of what is longer the first character
// alone counts as a control.
const maxEscape = 4096

// WithoutControls returns s without what steers a terminal or the direction of a text instead of
// being read, and without what no reader sees: escape sequences, controls but for the line feed and
// the tab, the marks, overrides and isolates of bidirectional text, and characters that are not
// drawn. Of these, joiners, variation selectors and tags stay behind a character that may need
// them, which no character of ASCII does but a digit and a sign of a keycap. A carriage return
// without its line feed and what else ends a line become a line feed. Bytes that are not UTF-8
// become U+FFFD, one for those in a row. It takes time linear in s.
func WithoutControls(s string) string {
	var c Controls
	return c.Write(s) + c.Close()
}

// Controls is WithoutControls over a text that comes in pieces: what Write returns for each of
// them and Close at the end are together what WithoutControls returns for the whole. It holds back
// what begins an escape sequence, up to 4,096 bytes. The zero Controls is ready for use.
type Controls struct {
	tail string // the beginning of a character whose rest is still to come
	bad  bool   // the text so far ends with bytes that are not UTF-8
	last rune   // the last character that was shown
	cr   bool   // a carriage return is held
	held []byte // what may become an escape sequence
	// inside reports whether a character leaves open what becomes of held. Nil: nothing is held.
	inside func(r rune) bool
}

// Write takes a piece and returns what can be shown by now.
func (c *Controls) Write(piece string) string {
	whole, tail := CutRune(c.tail + piece)
	c.tail = tail
	return c.pass(c.valid(whole), false)
}

// Close returns the rest.
func (c *Controls) Close() string {
	rest := c.valid(c.tail)
	c.tail = ""
	return c.pass(rest, true)
}

// valid returns s with U+FFFD in the place of bytes that are not UTF-8.
func (c *Controls) valid(s string) string {
	if s == "" {
		return ""
	}
	if utf8.ValidString(s) {
		c.bad = false
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		bad := r == utf8.RuneError && n == 1
		if !bad || !c.bad {
			b.WriteRune(r)
		}
		c.bad = bad
		i += n
	}
	return b.String()
}

// pass returns what of s can be shown, where no more comes if it is the last.
func (c *Controls) pass(s string, last bool) string {
	if c.inside != nil {
		end := strings.IndexFunc(s, func(r rune) bool { return !c.inside(r) })
		c.held = append(c.held, s...)
		if end < 0 && len(c.held) < maxEscape && !last {
			return ""
		}
		s = string(c.held)
		c.held, c.inside = c.held[:0], nil
	}
	var b strings.Builder
	for s != "" {
		at := strings.IndexFunc(s, steers)
		if at == 0 {
			n, inside := c.step(&b, s)
			if inside != nil && len(s) < maxEscape && !last {
				c.held, c.inside = append(c.held, s...), inside
				return b.String()
			}
			s = s[n:]
			continue
		}
		if at < 0 {
			at = len(s)
		}
		if c.endLine(&b, s[0]); at == len(s) && b.Len() == 0 {
			c.last, _ = utf8.DecodeLastRuneInString(s)
			return s
		}
		b.WriteString(s[:at])
		c.last, _ = utf8.DecodeLastRuneInString(s[:at])
		s = s[at:]
	}
	if last {
		c.endLine(&b, 0)
	}
	return b.String()
}

// endLine writes the line feed that a carriage return stands for, unless the line feed follows it.
func (c *Controls) endLine(b *strings.Builder, next byte) {
	if c.cr && next != '\n' {
		b.WriteByte('\n')
		c.last = '\n'
	}
	c.cr = false
}

// step passes what steers at the beginning of s. It returns how many bytes that has, and which
// characters leave that open.
func (c *Controls) step(b *strings.Builder, s string) (n int, inside func(r rune) bool) {
	switch r, n := utf8.DecodeRuneInString(s); {
	case r == '\r':
		c.endLine(b, 0)
		c.cr = true
		return n, nil
	case r == 0x85, r == 0x2028, r == 0x2029:
		c.endLine(b, 0)
		b.WriteByte('\n')
		c.last = '\n'
		return n, nil
	case c.needs(r):
		b.WriteString(s[:n])
		c.last = r
		return n, nil
	}
	return escapeLen(s)
}

// needs reports whether the character that was shown last may need a joiner, a selector or a tag
// behind it.
func (c *Controls) needs(r rune) bool {
	switch {
	case c.cr || c.last == 0:
		return false
	case r == 0x200c, r == 0x200d:
		return c.last >= utf8.RuneSelf && c.last != r
	case unicode.Is(unicode.Variation_Selector, r):
		return c.last >= utf8.RuneSelf && !unicode.Is(unicode.Variation_Selector, c.last) ||
			c.last >= '0' && c.last <= '9' || c.last == '#' || c.last == '*'
	case isTag(r):
		return c.last == 0x1f3f4 || isTag(c.last)
	}
	return false
}

// isTag reports whether r is a part of the name of a flag.
func isTag(r rune) bool { return r >= 0xe0020 && r <= 0xe007f }

// steers reports whether r is a control, or is not drawn, or ends a line in place of a line feed.
func steers(r rune) bool {
	if r >= ' ' && r < 0x7f || r == '\n' || r == '\t' {
		return false
	}
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || IsUndrawn(r)
}

// isFunction reports whether a character behind an escape is a function of terminals, such as that
// which resets them. Any other one is a character of the text: an escape in front of it is there to
// hide it, or is by mistake.
func isFunction(c byte) bool { return strings.IndexByte("6789=>cno|}~", c) >= 0 }

// escapeLen returns how many bytes the escape sequence has with which s begins, or those of the
// first character if it begins none that ends. If what follows s may change that, it also returns
// which characters leave it open.
func escapeLen(s string) (n int, inside func(r rune) bool) {
	const escape = 0x1b
	s = s[:min(len(s), maxEscape)]
	kind, n := utf8.DecodeRuneInString(s)
	if kind == escape {
		if len(s) == 1 {
			return n, noRune
		}
		if c := s[1]; c >= '@' && c <= '_' {
			kind, n = rune(c)+0x40, 2 // the same as a character of C1
		} else {
			end := skipBytes(s, 1, ' ', '/')
			switch {
			case end == len(s):
				return n, isParameter
			case s[end] >= '0' && s[end] <= '~' && (end > 1 || isFunction(s[end])):
				return end + 1, nil
			}
		}
	}
	switch kind {
	case 0x9b: // a control sequence: its parameters, and the character that says what it does
		end := skipBytes(s, skipBytes(s, n, '0', '?'), ' ', '/')
		switch {
		case end == len(s):
			return n, isParameter
		case s[end] >= '@' && s[end] <= '~':
			return end + 1, nil
		}
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f: // a string for the terminal, up to what ends it
		end := strings.IndexFunc(s[n:], unicode.IsControl)
		if end < 0 {
			return n, isInString
		}
		for _, terminator := range []string{"\a", "\u009c", "\x1b\\"} {
			if strings.HasPrefix(s[n+end:], terminator) {
				return n + end + len(terminator), nil
			}
		}
		if s[n+end:] == "\x1b" {
			return n, noRune
		}
	}
	return n, nil
}

func noRune(rune) bool { return false }

// isParameter reports whether r stands within a control sequence.
func isParameter(r rune) bool { return r >= ' ' && r <= '?' }

// isInString reports whether r stands within a string for the terminal.
func isInString(r rune) bool { return !unicode.IsControl(r) }

// skipBytes returns the position of the first byte from s[at] on that is not between two others.
func skipBytes(s string, at int, from, to byte) int {
	for at < len(s) && s[at] >= from && s[at] <= to {
		at++
	}
	return at
}

// CutRune returns s without the beginning of a character at its end whose rest may be still to
// come, and that beginning.
func CutRune(s string) (whole, tail string) {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i], s[i:]
			}
			break
		}
	}
	return s, ""
}
