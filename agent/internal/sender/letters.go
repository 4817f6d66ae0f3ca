package sender

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

const (
	// word is what the letters of saidBy are.
	word = "messagefrom"
	// minSure is how many of them must be known, and not only be letters that may look alike.
	minSure = 6
)

// An occurrence is a part of a text whose letters look like those of word.
type occurrence struct {
	start, end int
	split      bool // it is of several lines
}

// occurrences returns those of a text in their order.
func occurrences(said string) []occurrence {
	if !mayHaveWord(said) {
		return nil
	}
	all := append(scan(said, false, false), scan(said, true, false)...)
	if strings.ContainsAny(said, markupSigns) {
		all = append(all, scan(said, true, true)...)
	}
	slices.SortFunc(all, func(a, b occurrence) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	return slices.Compact(all)
}

// markupSigns are the signs with which mark-up begins.
const markupSigns = "<&\x1b\u009b"

// runBits are the bits of one letter in a run.
const runBits = 5

// A run has the last letters of a text, as many as word has, of which each is not 0.
type run uint64

// with returns the run behind a letter of ASCII.
func (r run) with(c byte) run {
	return (r<<runBits | run(c&(1<<runBits-1))) & (1<<(runBits*len(word)) - 1)
}

// wordRun is the run that is word.
var wordRun = func() (r run) {
	for _, c := range []byte(word) {
		r = r.with(c)
	}
	return r
}()

// A part says what a character may be in an occurrence: one of these, with the bits of a letter
// unless it is a gap.
type part uint8

const (
	partGap    part = 0 // nothing
	partLetter part = 1 << (iota + runBits - 1)
	partSign        // what some write in the place of a letter
	partOther       // mark-up, or what may look like any letter
)

// partOf returns what a character may be.
func partOf(r rune) part {
	if c, ok := fold(r); ok && c != 0 {
		return partLetter | part(c&(1<<runBits-1))
	} else if c, sign := standIn(r); sign {
		return partSign | part(c&(1<<runBits-1))
	} else if ok || strings.ContainsRune(markupSigns, r) {
		return partOther
	}
	return partGap
}

// asciiParts are the parts of the characters of ASCII.
var asciiParts = func() (parts [utf8.RuneSelf]part) {
	for r := range parts {
		parts[r] = partOf(rune(r))
	}
	return parts
}()

// mayHaveWord reports whether a text may have an occurrence. It has none if its letters never are
// those of word, with digits and signs in their place or without. Mark-up, and letters that may
// look like any, are left to scan. Most texts have neither, and are looked at in a fifteenth of the
// time of the scans (BenchmarkQuoteForged).
func mayHaveWord(said string) bool {
	var letters, all run
	for _, r := range said {
		var p part
		if r < utf8.RuneSelf {
			p = asciiParts[r]
		} else {
			p = partOf(r)
		}
		switch {
		case p == partGap:
			continue
		case p == partOther:
			return true
		case p&partLetter != 0:
			letters = letters.with(byte(p))
		}
		if all = all.with(byte(p)); letters == wordRun || all == wordRun {
			return true
		}
	}
	return false
}

// A letter is one of a text. Its line is counted from 0, and c is 0 for one that may look like any.
type letter struct {
	at, line int
	c        byte
}

// scan returns the occurrences in the letters of a text. Of digits and signs those count as letters
// that some write in their place, if that is asked for, and those of mark-up do not count if that
// is.
func scan(said string, signs, markup bool) (found []occurrence) {
	skip := 0                  // what stands before is mark-up
	var last [len(word)]letter // the last ones, of which the n'th stands at n modulo len(word)
	n, line := 0, 0
	for at, r := range said {
		if markup {
			if at >= skip && strings.ContainsRune(markupSigns, r) {
				skip = at + markupLen(said[at:])
			}
			if at < skip {
				continue
			}
		}
		c, ok := fold(r)
		if breaksLine(r) {
			line++
		}
		if !ok && signs {
			c, ok = standIn(r)
		}
		if !ok {
			continue
		}
		last[n%len(word)] = letter{at, line, c}
		n++
		if n < len(word) || c != 0 && c != word[len(word)-1] {
			continue
		}
		first := last[n%len(word)]
		if isWord(&last, n) {
			found = append(found, occurrence{first.at, at + utf8.RuneLen(r), first.line != line})
		}
	}
	return found
}

// maxTag is how many bytes a tag within the words has at most.
const maxTag = 64

// markupLen returns how many bytes a tag, the name of a character or a control sequence has with
// which s begins, or 0.
func markupLen(s string) int {
	switch s[0] {
	case '&':
		return entityLen(s)
	case '<':
	default:
		return sequenceLen(s)
	}
	for i := 1; i < len(s) && i < maxTag; i++ {
		switch c := s[i]; {
		case c == '>' && i > 1:
			return i + 1
		case c == '>', c == '<', c == '\n':
			return 0
		}
	}
	return 0
}

// isWord reports whether the letters from the n'th one on, which is the oldest, are those of word.
func isWord(last *[len(word)]letter, n int) bool {
	sure := 0
	for i := range len(word) {
		switch last[(n+i)%len(word)].c {
		case 0:
		case word[i]:
			sure++
		default:
			return false
		}
	}
	return sure >= minSure
}

// standIn returns the letter in whose place some write a digit or a sign.
func standIn(r rune) (c byte, ok bool) {
	switch r {
	case '0', '°', '○', '◯', '●', '⭕', '∘':
		return 'o', true
	case '3', '€', '£', '∈':
		return 'e', true
	case '4', '@', '∂':
		return 'a', true
	case '5', '$', '§':
		return 's', true
	case '6', '9':
		return 'g', true
	case '®':
		return 'r', true
	}
	return 0, false
}

// isLetter reports whether a character is drawn as a letter.
func isLetter(r rune) bool {
	_, ok := fold(r)
	return ok
}

// isBlank reports whether a reader does not see a character.
func isBlank(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == 0x7f
	}
	return text.IsBlank(string(r))
}

// fold returns the small letter of ASCII like which a letter looks, or 0 for one that may look like
// any, and false for what is not a letter.
func fold(r rune) (c byte, ok bool) {
	switch {
	case r < utf8.RuneSelf:
		if r |= 0x20; r >= 'a' && r <= 'z' {
			return byte(r), true
		}
		return 0, false
	case r >= 0x2e80 && r < 0xa700 || r >= 0xac00 && r < 0xd7b0: // of China, Japan and Korea
		return 0, unicode.IsLetter(r) && !isBlank(r)
	case looksLike[r] != 0:
		return looksLike[r], true
	}
	for _, a := range alphabets {
		if r >= a.first && r < a.first+26*a.of {
			return byte('a' + (r-a.first)%26), true
		}
	}
	return 0, unicode.IsLetter(r) && !isBlank(r)
}

// alphabets are copies of the letters of ASCII, one behind the other.
var alphabets = []struct{ first, of rune }{
	{'Ａ', 1},
	{'ａ', 1},
	{'⒜', 1},
	{'Ⓐ', 2},
	{0x1d400, 26},
	{0x1f110, 1},
	{0x1f130, 1},
	{0x1f150, 1},
	{0x1f170, 1},
	{0x1f1e6, 1},
}

// looksLike are letters of other alphabets, by the letter of word like which they look.
var looksLike = func() map[rune]byte {
	like := make(map[rune]byte)
	for i, letters := range []string{
		"mМмΜμϺмⅿⅯℳᴍɱḿṁṃₘᵐᴹᎷ",
		"eеЕёЁѐЀєЄεΕέΈéèêëēĕėęěẽẹẻếềểễệÉÈÊËĒĔĖĘĚℯℰℇ℮ɛəǝҽᴇₑᵉᴱᎬԐԑэЭ",
		"sѕЅꜱſśŝşšșṡṣŚŜŞŠȘʂˢₛꓢՏᏚ",
		"aаАαΑάΆàáâãäåāăąǎạảấầẩẫậÀÁÂÃÄÅĀĂĄǍɑᴀᵃₐᴬᎪæдДΛ",
		"gɡցԍԌğĝġģǧǵĞĜĠĢǦǴℊɢᵍᴳᏀ",
		"fƒꞙẝϝϜḟḞℱꜰᶠғҒ",
		"rгГрРяЯŕŗřŔŖŘṙṛℛℜℝʀɾʳᴿᵣꭇꮁᎡᏒ",
		"oоОοΟόΌσօՕòóôõöøōŏőǒọỏốồổỗộơớờởỡợÒÓÔÕÖØŌŎŐǑℴᴏᵒₒᴼഠဝ०๐໐",
	} {
		for _, r := range letters[1:] {
			like[r] = "mesagfro"[i]
		}
	}
	return like
}()
