package announce

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

const (
	widePipe   = "｜" // the full-width pipe, U+FF5C
	maxControl = 256 // bytes between the pipes of a control token
)

// controlTokenEnd returns the position after the one control token at a position, which has a '<',
// or 0 if none starts there. A control token is what chat templates put between <| and |>. Its
// pipes are ASCII or full-width. A backtick or a lone pipe before the end makes it text.
func controlTokenEnd(v *ahead.View, at int) int {
	start := at + 1 + pipeLen(v, at+1)
	if start == at+1 {
		return 0
	}
	for at = start; at < start+maxControl && !v.Ended(at); at++ {
		switch v.S[at] {
		case '`': // what follows is code about a token
			return 0
		case '|', widePipe[0]:
			if n := pipeLen(v, at); n > 0 {
				if v.Byte(at+n) == '>' {
					return at + n + 1
				}
				return 0
			}
		}
	}
	return 0
}

// pipeLen returns the length in bytes of the pipe at a position, or 0.
func pipeLen(v *ahead.View, at int) int {
	switch {
	case v.Byte(at) == '|':
		return 1
	case v.Has(at, widePipe):
		return len(widePipe)
	}
	return 0
}

// lastRune returns the last rune of what is kept. It is not a word's if nothing is kept.
func (l *lexer) lastRune() rune {
	r, _ := utf8.DecodeLastRuneInString(l.Tail())
	return r
}

// joinWords puts a space where control tokens were removed if they separated two words. It returns
// false if that is not known yet.
func (l *lexer) joinWords() bool {
	v := l.View()
	r, _ := v.Rune(l.At)
	if v.Waits() {
		return false
	}
	if isWord(r) {
		l.Write(" ")
	}
	l.gap = false
	return true
}

// startsWith reports whether what is kept before At ends with a line break, or is nothing.
func (l *lexer) startsKept() bool {
	kept := l.Tail()
	return kept == "" || strings.HasSuffix(kept, "\n")
}
