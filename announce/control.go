package announce

import (
	"strings"
	"unicode/utf8"
)

const (
	widePipe   = "｜" // the full-width pipe, U+FF5C
	maxControl = 256 // bytes between the pipes of a control token
)

// controlRunEnd returns where the run of control tokens ends that starts at s[at], or 0 if none
// starts there. A control token is what chat templates put between <| and |>. Its pipes are ASCII
// or full-width.
func controlRunEnd(s string, at int) int {
	end := 0
	for {
		next := controlTokenEnd(s, at)
		if next == 0 {
			return end
		}
		at, end = next, next
	}
}

// controlTokenEnd returns the position after the one control token at s[at], or 0 if none starts
// there. A backtick or a lone pipe before the end makes it text.
func controlTokenEnd(s string, at int) int {
	if at >= len(s) || s[at] != '<' {
		return 0
	}
	start := at + 1 + pipeLen(s[at+1:])
	if start == at+1 {
		return 0
	}
	limit := min(len(s), start+maxControl)
	for at = start; at < limit; at++ {
		switch s[at] {
		case '`': // what follows is code about a token
			return 0
		case '|', widePipe[0]:
			if n := pipeLen(s[at:]); n > 0 {
				if strings.HasPrefix(s[at+n:], ">") {
					return at + n + 1
				}
				return 0
			}
		}
	}
	return 0
}

// pipeLen returns the length in bytes of the pipe that s starts with, or 0.
func pipeLen(s string) int {
	switch {
	case strings.HasPrefix(s, "|"):
		return 1
	case strings.HasPrefix(s, widePipe):
		return len(widePipe)
	}
	return 0
}

// cutControl removes src[at:end], a run of control tokens. It puts a space there if the run
// separated two words.
func (l *lexer) cutControl(end int) {
	before, _ := utf8.DecodeLastRuneInString(l.keptTail())
	after, _ := utf8.DecodeRuneInString(l.src[end:])
	l.cut(end)
	if isWord(before) && isWord(after) {
		l.out = append(l.out, ' ')
	}
}
