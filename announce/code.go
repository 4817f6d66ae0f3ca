package announce

import (
	"strings"
	"unicode/utf8"
)

// maxFence is the length from which on all fences count as equally long. It bounds how often a text is searched.
const maxFence = 64

// codeEnd returns where the code ends that starts with the run of backticks or tildes at a byte, or the end of that run if
// no code starts there.
//
// Code is fenced, by three or more characters at the start of a line and up to a line that closes it, or to the end of the
// text; or it is inline, between two runs of the same length on one line, the first of which does not follow a letter or a
// digit: backticks that stand for apostrophes protect nothing. Inside a hidden block a fence that nobody closes is not code
// either, else a thought that breaks off in an example would swallow the answer.
func (l *lexer) codeEnd(at int, hidden bool) int {
	run := runEnd(l.src, at)
	if run-at >= 3 && startsLine(l.src, at) {
		if end, ok := l.fenceEnd(at, run, hidden); ok {
			return end
		}
	}
	if l.src[at] == '`' {
		if end, ok := l.inlineEnd(at, run); ok {
			return end
		}
	}
	return run
}

func (l *lexer) fenceEnd(at, run int, hidden bool) (end int, ok bool) {
	c, length := l.src[at], min(run-at, maxFence)
	line := lineEnd(l.src, run)
	if c == '`' && strings.IndexByte(l.src[run:line], '`') >= 0 {
		return 0, false // code on one line
	}
	shortest := &l.unfenced[0]
	if c == '~' {
		shortest = &l.unfenced[1]
	}
	if *shortest == 0 || length < *shortest {
		for line < len(l.src) {
			start := line + 1
			line = lineEnd(l.src, start)
			if closesFence(l.src[start:line], c, length) {
				return line, true
			}
		}
		*shortest = length
	}
	return len(l.src), !hidden
}

// closesFence reports whether a line is a fence of at least this length and nothing else.
func closesFence(line string, c byte, length int) bool {
	line = strings.TrimLeft(line, " \t")
	if line == "" || line[0] != c {
		return false
	}
	run := runEnd(line, 0)
	return run >= length && strings.TrimRight(line[run:], " \t\r") == ""
}

func (l *lexer) inlineEnd(at, run int) (end int, ok bool) {
	s, ticks := l.src, run-at
	if r, _ := utf8.DecodeLastRuneInString(s[:at]); at > 0 && isWord(r) {
		return 0, false
	}
	if l.ticks.covers(at) && l.ticks.last[ticks] <= at {
		return 0, false
	}
	i := run
	for i < len(s) {
		// Not up to the end of the line: code that follows on it would look for that again and again.
		next := strings.IndexAny(s[i:], "`\n")
		if next < 0 || s[i+next] == '\n' {
			break
		}
		i += next
		end = runEnd(s, i)
		if end-i == ticks {
			return end, true
		}
		i = end
	}
	l.ticks.learn(s, at, lineEnd(s, i))
	return 0, false
}

// tickRuns remembers the backticks of one line after a search has failed, so that no line is searched in vain twice.
type tickRuns struct {
	from, to int
	last     map[int]int // length of a run: where the last one of that length starts
}

func (t *tickRuns) covers(at int) bool { return t.last != nil && at >= t.from && at < t.to }

func (t *tickRuns) learn(s string, from, to int) {
	if t.covers(from) {
		return
	}
	t.from, t.to, t.last = from, to, make(map[int]int)
	for i := from; i < to; {
		next := strings.IndexByte(s[i:to], '`')
		if next < 0 {
			break
		}
		i += next
		end := runEnd(s, i)
		t.last[end-i] = i
		i = end
	}
}

// runEnd returns where the run of equal bytes that starts at a byte ends.
func runEnd(s string, at int) int {
	end := at + 1
	for end < len(s) && s[end] == s[at] {
		end++
	}
	return end
}

// lineEnd returns the position of the line break after a byte, or the length of the text.
func lineEnd(s string, at int) int {
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(s)
}

// startsLine reports whether only blanks stand before a byte on its line.
func startsLine(s string, at int) bool {
	for at > 0 && (s[at-1] == ' ' || s[at-1] == '\t') {
		at--
	}
	return at == 0 || s[at-1] == '\n'
}
