package agentctx

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"
)

const (
	lowBits  = 0x0101010101010101 // the lowest bit of each byte of a word
	highBits = lowBits << 7
)

// word returns the first eight bytes of s.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// countRunes is utf8.RuneCountInString for valid text, and faster: it counts
// the bytes that do not continue a rune, and passes over ASCII 32 bytes at a
// time.
func countRunes(s string) int {
	n := len(s)
	for len(s) >= 32 {
		a, b, c, d := word(s), word(s[8:]), word(s[16:]), word(s[24:])
		if (a|b|c|d)&highBits != 0 {
			n -= continued(a) + continued(b) + continued(c) + continued(d)
		}
		s = s[32:]
	}
	for i := range len(s) {
		if s[i]&0xC0 == 0x80 {
			n--
		}
	}
	return n
}

// continued counts the bytes of a word that continue a rune: bit 7 set, bit 6
// clear.
func continued(w uint64) int { return bits.OnesCount64(w & highBits &^ (w << 1)) }

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
