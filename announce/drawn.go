package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A drawn is the pass before all others: it removes what a reader cannot see and what steers the
// screen on which the text is shown, in code as well. It takes its text in pieces of any size, and
// remembers no more than a part of a rune.
//
//	sequences     of a terminal: colours, moves of the cursor, titles, links, pictures. A sequence
//	              that has a text of its own ends with its line at the latest.
//	controls      but for the tab and the line breaks
//	directions    overrides, embeddings and isolates. The marks U+200E and U+200F stay: they are a
//	              part of texts that are written from right to left.
//	no width      U+200B, U+2060 to U+206F, U+00AD, U+FEFF and U+180E. Joiners stay.
//	selectors     a variation selector stays behind what it varies: a symbol, a digit, a character
//	              of Han or Mongolian. One is enough.
//	tags          stay behind the black flag, as that of Scotland has them, at most seven
//	citations     of ChatGPT, between private characters
//	others        fillers, private characters, what is not a character, and annotations
//
// What it keeps, it would keep again. A byte that is not UTF-8 becomes U+FFFD.
type drawn struct {
	how   drawnState
	held  string // the beginning of a rune
	last  rune   // that was kept; 0: none
	tags  int    // how many tags may follow
	after bool   // something was removed right before
	eight rune   // see inEight
	cite  string // the word that is held, see inCite
}

// A drawnState says what a drawn is in the middle of.
type drawnState uint8

const (
	inText    drawnState = iota
	inEscape             // an ESC was passed
	inShort              // an ESC and intermediate characters were passed
	inControl            // the parameters of a control sequence
	inOwnText            // the text of a sequence that has one
	afterOwn             // an ESC in that: a '\' ends it
	inEight              // a character of eight bits that may begin a sequence
	inCite               // the word of a citation of ChatGPT, which is held
	inSource             // its sources

	maxFlagTag = 7
	blackFlag  = '\U0001F3F4'

	citeMark    = '\uE200' // ChatGPT writes a citation between private characters
	sourceMark  = '\uE202'
	endCite     = '\uE201'
	maxCiteWord = 32
)

// pass takes the next piece of the text and returns what stays of it.
func (d *drawn) pass(piece string, final bool) string {
	if d.how == inText && d.held == "" && !d.after && isPlain(piece) {
		if piece != "" {
			d.last, d.tags = rune(piece[len(piece)-1]), 0
		}
		return piece
	}
	piece, d.held = d.held+piece, ""
	kept := make([]byte, 0, len(piece))
	for len(piece) > 0 {
		if !final && !utf8.FullRuneInString(piece) {
			d.held = piece
			break
		}
		r, size := utf8.DecodeRuneInString(piece)
		if d.how == inCite && r != sourceMark && !d.citeWord(r) {
			kept = d.keepCite(kept)
		}
		switch stays, again := d.step(r); {
		case stays: // what is not UTF-8 becomes U+FFFD, so that a removal cannot complete a rune
			kept, d.last, d.after = utf8.AppendRune(kept, r), r, false
		case again:
			continue
		default:
			d.after = true
		}
		piece = piece[size:]
	}
	if final && d.how == inCite {
		kept = d.keepCite(kept)
	}
	return string(kept)
}

// citeWord reports whether r goes on with the word of a citation.
func (d *drawn) citeWord(r rune) bool {
	return len(d.cite) < maxCiteWord && (r == '_' || r|0x20 >= 'a' && r|0x20 <= 'z')
}

// keepCite keeps the word that was not one of a citation.
func (d *drawn) keepCite(kept []byte) []byte {
	kept = append(kept, d.cite...)
	if n := len(d.cite); n > 0 {
		d.last, d.after = rune(d.cite[n-1]), false
	}
	d.cite, d.how, d.tags = "", inText, 0
	return kept
}

// isPlain reports whether a text has ASCII alone that is drawn, and white space.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= 0x7F || c < ' ' && c != '\n' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// step takes the next rune. again says that it ends a sequence that it is not a part of.
func (d *drawn) step(r rune) (stays, again bool) {
	switch d.how {
	case inEscape:
		return false, d.escape(r)
	case inShort:
		if r >= 0x20 && r <= 0x2F {
			return false, false
		}
		d.how = inText
		return false, r < 0x30 || r > 0x7E
	case inControl:
		if r >= 0x20 && r <= 0x3F {
			return false, false
		}
		d.how = inText
		return false, r < 0x40 || r > 0x7E
	case inOwnText:
		switch r {
		case 0x1B:
			d.how = afterOwn
		case '\a', 0x9C:
			d.how = inText
		case '\n', '\r':
			d.how = inText
			return false, true
		}
		return false, false
	case inCite:
		if r == sourceMark {
			d.how, d.cite = inSource, ""
		} else {
			d.cite += string(r)
		}
		return false, false
	case inSource:
		if r == endCite || r == '\n' {
			d.how = inText
		}
		return false, r == '\n'
	case inEight: // what was read in a wrong encoding has no number behind such a character
		switch isNumber := r >= '0' && r <= '9'; {
		case d.eight == 0x9B && (isNumber || r == '?'):
			d.how = inControl
		case d.eight == 0x9D && isNumber:
			d.how = inOwnText
		default:
			d.how = inText
			return false, true
		}
		return false, false
	case afterOwn:
		if r == '\\' {
			d.how = inText
			return false, false
		}
		d.how = inEscape
		return false, true
	case inText:
	}
	return d.text(r), false
}

// escape takes the rune behind an ESC.
func (d *drawn) escape(r rune) (again bool) {
	switch {
	case r == '[':
		d.how = inControl
	case r == ']', r == 'P', r == '_', r == '^', r == 'X':
		d.how = inOwnText
	case r >= 0x20 && r <= 0x2F:
		d.how = inShort
	default: // the others are so rare that a letter behind an ESC is more likely one of the text
		d.how = inText
		return !strings.ContainsRune("78=>cDEHMZ", r)
	}
	return false
}

// text takes a rune that is not in a sequence, and reports whether it stays.
func (d *drawn) text(r rune) bool {
	tags := d.tags
	d.tags = 0
	switch {
	case r == '\n', r == '\t', r == '\r', r >= ' ' && r < 0x7F, r == 0x85:
		return true
	case r < 0xA0:
		d.control(r)
		return false
	case r == citeMark:
		d.how = inCite
		return false
	case r == blackFlag:
		d.tags = maxFlagTag
		return true
	case r >= 0xE0020 && r <= 0xE007F && tags > 0:
		if d.tags = tags - 1; r == 0xE007F {
			d.tags = 0
		}
		return true
	case unicode.Is(unicode.Variation_Selector, r):
		return d.varies(r)
	}
	return !isUndrawn(r)
}

// control takes a control character that is neither a tab nor a line break.
func (d *drawn) control(r rune) {
	switch r {
	case 0x1B:
		d.how = inEscape
	case 0x9B, 0x9D:
		d.how, d.eight = inEight, r
	}
}

// varies reports whether a variation selector varies what was kept before it.
func (d *drawn) varies(r rune) bool {
	switch {
	case d.last >= '0' && d.last <= '9', d.last == '#', d.last == '*':
		return r == '\uFE0E' || r == '\uFE0F'
	case unicode.In(d.last, unicode.Han, unicode.Mongolian):
		return !unicode.Is(unicode.Variation_Selector, d.last)
	case r >= 0xE0100:
		return false
	case d.last == '\u203C', d.last == '\u2049', d.last == '\u2139', d.last == '\u3030':
		return true
	}
	return d.last > 0x7F && unicode.IsSymbol(d.last)
}

// isUndrawn reports whether a reader sees nothing of r, which is not a space, and need not have it.
func isUndrawn(r rune) bool {
	switch {
	case r == '\u00AD', r == '\u180E', r == '\u200B', r == '\uFEFF',
		r >= '\u202A' && r <= '\u202E', r >= '\u2060' && r <= '\u206F',
		r == '\u115F', r == '\u1160', r == '\u3164', r == '\uFFA0', // fillers
		r >= '\uFFF9' && r <= '\uFFFB',                     // annotations
		r >= '\uFDD0' && r <= '\uFDEF', r&0xFFFE == 0xFFFE, // not characters
		r >= 0xE0000 && r <= 0xE0FFF: // tags
		return true
	}
	return unicode.Is(unicode.Co, r)
}
