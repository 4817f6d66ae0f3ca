package agentctx

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// countRunes is utf8.RuneCountInString, faster on long valid text: it counts
// the bytes that do not continue a rune, eight at a time.
func countRunes(s string) int {
	const ones = 0x0101010101010101
	n := len(s)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if w&(ones<<7) == 0 {
			continue // ASCII
		}
		// A continuation byte has bit 7 set and bit 6 clear.
		n -= int((w >> 7 & ^(w >> 6) & ones) * ones >> 56)
	}
	for ; i < len(s); i++ {
		if s[i]&0xC0 == 0x80 {
			n--
		}
	}
	return n
}

// firstRunes returns the first n runes of s, and whether that is all of it.
func firstRunes(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, true
	}
	for i := range s {
		if n <= 0 {
			return s[:i], false
		}
		n--
	}
	return s, true
}

// lastRunes returns the last n runes of s.
func lastRunes(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}

// leastContent is the least content in runes for which the marker of a cut is
// spelled out.
const leastContent = 16

// cut shortens text, which has the given number of runes, to at most limit
// runes: three quarters of the room for the head, one for the tail, and
// between them a marker that names the file, or "…" where there is no room
// for it.
func cut(name, text string, runes, limit int) string {
	if runes <= limit {
		return text
	}
	if limit <= 0 {
		return ""
	}
	marker := cutMarker(name, runes, runes) // as long as any that can follow
	room := limit - countRunes(marker)
	if room < leastContent {
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

// clean returns s as valid UTF-8 with every line ending in "\n" alone.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, string(utf8.RuneError))
	}
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}
