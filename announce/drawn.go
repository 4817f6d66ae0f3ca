package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"

	itext "github.com/offshoot-sdk/offshoot/internal/text"
)

// A drawn is the pass before all others: it removes what a reader cannot see and what steers the
// screen on which the text is shown, in code as well. It takes its text in pieces of any size, and
// remembers no more than a part of a rune.
//
//	sequences     of a terminal: colours, moves of the cursor, titles, links, pictures. A sequence
//	              that has a text of its own ends with its line at the latest.
//	controls      but for the tab and the line feed
//	line breaks   A carriage return without its line feed, which overwrites the line on a screen,
//	              and U+0085, U+2028 and U+2029 become a line feed.
//	directions    overrides, embeddings and isolates. The marks U+200E, U+200F and U+061C stay
//	              at the beginning of a line, whose direction they tell, and behind the first
//	              letter of a script that is written from right to left.
//	no width      such as U+200B, U+2060, U+00AD and U+034F. A joiner stays behind what may need
//	              it: a letter of a script such as Arabic or Devanagari, or an emoji.
//	selectors     a variation selector stays behind what it varies: a symbol, a digit, a character
//	              of Han or Mongolian. One is enough.
//	tags          stay behind the black flag, as that of Scotland has them, at most seven
//	citations     of ChatGPT, between private characters
//	others        fillers, private characters, what is not a character, annotations, and signs of
//	              music. The blank of Braille stays among Braille.
//	bytes         that are not UTF-8 become U+FFFD, one for those in a row
//
// What it keeps, it would keep again. A second one behind the first lexer removes what the first
// one has kept for the sake of something that the lexer has removed, such as a mark of direction
// behind a line break.
type drawn struct {
	how   drawnState
	held  string // the beginning of a rune
	last  rune   // that was kept; 0: none
	tags  int    // how many tags may follow
	after bool   // something was removed right before
	eight rune   // see inEight
	bad   bool   // bytes that are not UTF-8 came right before
	cr    bool   // a carriage return is held
	rtl   bool   // a letter was kept that is written from right to left
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
	if d.how == inText && d.held == "" && !d.after && !d.cr && isPlain(piece) {
		if piece != "" {
			d.last, d.tags, d.bad = rune(piece[len(piece)-1]), 0, false
		}
		return piece
	}
	piece, d.held = d.held+piece, ""
	kept := make([]byte, 0, len(piece))
	for len(piece) > 0 {
		if d.how == inText && !d.cr {
			if n := plainEnd(piece); n > 0 {
				kept = append(kept, piece[:n]...)
				d.last, _ = utf8.DecodeLastRuneInString(piece[:n])
				d.tags, d.bad, d.after = 0, false, false
				piece = piece[n:]
				continue
			}
		}
		if !final && !utf8.FullRuneInString(piece) {
			d.held = piece
			break
		}
		r, size := utf8.DecodeRuneInString(piece)
		if d.how == inCite && r != sourceMark && !d.citeWord(r) {
			kept = d.keepCite(kept)
		}
		if d.cr {
			if d.cr = false; r == '\n' {
				kept = append(kept, '\r')
			} else {
				kept, d.last, d.after = append(kept, '\n'), '\n', false
			}
		}
		switch stays, again := d.step(r, size); {
		case stays:
			kept, d.last, d.after = utf8.AppendRune(kept, d.shown(r)), d.shown(r), false
		case again:
			continue
		default:
			d.after = !d.cr
		}
		piece = piece[size:]
	}
	if final && d.how == inCite {
		kept = d.keepCite(kept)
	}
	if final && d.cr {
		d.cr, kept = false, append(kept, '\n')
	}
	return string(kept)
}

// shown returns what is kept of a rune that stays.
func (d *drawn) shown(r rune) rune {
	switch r {
	case '\u0085', '\u2028', '\u2029':
		return '\n'
	}
	return r
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

// plainEnd returns where the text ends at the front of piece that stays whatever stands before it:
// what isPlain is true of, and the letters from U+00C0 to U+00FF. It is ten times as fast as step.
func plainEnd(piece string) int {
	for i := 0; ; {
		switch {
		case i == len(piece):
			return i
		case plainBytes[piece[i]]:
			i++
		case piece[i] == 0xC3 && i+1 < len(piece) && piece[i+1] >= 0x80 && piece[i+1] <= 0xBF:
			i += 2
		default:
			return i
		}
	}
}

var plainBytes = func() (plain [256]bool) {
	for c := range plain {
		plain[c] = c >= ' ' && c < 0x7F || c == '\n' || c == '\t'
	}
	return plain
}()

// isPlain reports whether a text has ASCII alone that is drawn, and white space.
func isPlain(text string) bool {
	for i := range len(text) {
		if !plainBytes[text[i]] {
			return false
		}
	}
	return true
}

// step takes the next rune. again says that it ends a sequence that it is not a part of.
func (d *drawn) step(r rune, size int) (stays, again bool) {
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
	return d.text(r, size), false
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
func (d *drawn) text(r rune, size int) bool {
	tags := d.tags
	d.tags = 0
	if r != utf8.RuneError || size > 1 {
		d.bad = false
	}
	switch {
	case r == utf8.RuneError && size == 1:
		wasBad := d.bad
		d.bad = true
		return !wasBad
	case r == '\r':
		d.cr = true
		return false
	case r == '\n', r == '\t', r >= ' ' && r < 0x7F, r == '\u0085':
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
	case r == '\u200C', r == '\u200D':
		return d.joins()
	case r == '\u200E', r == '\u200F', r == '\u061C':
		return (d.rtl || d.last == 0 || d.last == '\n') && !unicode.Is(unicode.Bidi_Control, d.last)
	case r == '\u2800':
		return d.last >= '\u2800' && d.last <= '\u28FF'
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r), isEgyptian(r) && isEgyptian(d.last):
		return true
	}
	d.rtl = d.rtl || isRightToLeft(r)
	return !itext.IsUndrawn(r)
}

// joins reports whether the character that was kept last may need a joiner behind it.
func (d *drawn) joins() bool {
	switch {
	case endsMark(d.last):
		return false
	case d.last < 0x80, unicode.In(d.last, unicode.Latin, unicode.Greek, unicode.Cyrillic):
		return false
	case unicode.IsSymbol(d.last), unicode.Is(unicode.Variation_Selector, d.last):
		return true
	}
	return unicode.IsLetter(d.last) || unicode.IsMark(d.last)
}

// endsMark reports whether a mark of a chat template may end with r, such as ✿RETURN✿, or r is one
// of the characters that a hostile text loses. What belongs to such a symbol would stand alone once
// the symbol is gone.
func endsMark(r rune) bool { return r == '✿' || r == '▷' || r == '◁' }

// isRightToLeft reports whether r is of a script that is written from right to left.
func isRightToLeft(r rune) bool {
	switch {
	case r < '\u0590', r > '\u08FF' && r < '\uFB1D', r > '\uFEFC' && r < 0x10800:
		return false
	}
	return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana,
		unicode.Nko, unicode.Samaritan, unicode.Mandaic, unicode.Adlam, unicode.Hanifi_Rohingya)
}

// isEgyptian reports whether r is a hieroglyph, or the control that places the next one beside it.
func isEgyptian(r rune) bool { return r >= 0x13000 && r <= 0x1345F }

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
	case endsMark(d.last):
		return false
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
