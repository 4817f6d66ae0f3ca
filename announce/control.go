package announce

import (
	"strings"
	"unicode/utf8"
)

const (
	widePipe   = "｜"
	maxControl = 256 // bytes between the pipes of a control token
)

// controlRunEnd returns where the run of control tokens that starts at a byte ends, or 0 if none starts there. A token is what
// chat templates put between <| and |>, in ASCII or with the full-width pipe.
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
		case '`': // code
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

// pipeLen returns the length of the pipe that s starts with, or 0.
func pipeLen(s string) int {
	switch {
	case strings.HasPrefix(s, "|"):
		return 1
	case strings.HasPrefix(s, widePipe):
		return len(widePipe)
	}
	return 0
}

// cutControl removes control tokens and keeps words apart that only they separated.
func (l *lexer) cutControl(end int) {
	before, _ := utf8.DecodeLastRuneInString(l.keptTail())
	after, _ := utf8.DecodeRuneInString(l.src[end:])
	l.cut(end)
	if isWord(before) && isWord(after) {
		l.out = append(l.out, ' ')
	}
}
