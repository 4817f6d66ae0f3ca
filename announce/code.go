package announce

import (
	"strings"
	"unicode/utf8"
)

// maxFence is the length, in characters, from which on all fences count as equally long. It
// bounds how often fenceEnd searches the text.
const maxFence = 64

// codeEnd returns where the code ends that starts with the run of backticks or tildes at src[at].
// If no code starts there, it returns the end of that run.
//
// Fenced code starts with three or more of these characters at the start of a line. It ends with
// the line that closes the fence, or with the text. Inside a hidden block, which a thought is, a
// fence that is never closed is not code. Otherwise a thought that breaks off in an example would
// swallow the answer.
//
// Inline code is between two runs of backticks of the same length on one line. The first run must
// not follow a letter or a digit, so backticks that stand for apostrophes protect nothing.
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

// fenceEnd returns the end of the last line of the fenced code whose opening fence is
// src[at:run]. ok is false if no fenced code starts there.
func (l *lexer) fenceEnd(at, run int, hidden bool) (end int, ok bool) {
	c, length := l.src[at], min(run-at, maxFence)
	line := lineEnd(l.src, run)
	if c == '`' && strings.IndexByte(l.src[run:line], '`') >= 0 {
		return 0, false // the line holds inline code
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

// closesFence reports whether a line holds nothing but a run of at least length characters c, with
// blanks around it.
func closesFence(line string, c byte, length int) bool {
	line = strings.TrimLeft(line, " \t")
	if line == "" || line[0] != c {
		return false
	}
	run := runEnd(line, 0)
	return run >= length && strings.TrimRight(line[run:], " \t\r") == ""
}

// inlineEnd returns where the inline code ends that starts with the backticks src[at:run]. ok is
// false if no inline code starts there.
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
		// The search stops at the next backtick. A search for the end of the line would be
		// repeated for each piece of code on the line.
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

// tickRuns remembers the runs of backticks in src[from:to], which is the rest of one line. The
// lexer fills it after a search for a closing run has failed, so that it does not search a line
// in vain twice. The zero tickRuns covers nothing.
type tickRuns struct {
	from, to int
	last     map[int]int // by length of a run: where the last run of that length starts
}

// covers reports whether t knows the runs from a position on.
func (t *tickRuns) covers(at int) bool { return t.last != nil && at >= t.from && at < t.to }

// learn remembers the runs of backticks in s[from:to], unless t covers from.
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

// runEnd returns where the run of equal bytes ends that starts at s[at].
func runEnd(s string, at int) int {
	end := at + 1
	for end < len(s) && s[end] == s[at] {
		end++
	}
	return end
}

// lineEnd returns the position of the first line feed from s[at] on, or the length of the text.
func lineEnd(s string, at int) int {
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(s)
}

// startsLine reports whether only spaces and tabs stand before s[at] on its line.
func startsLine(s string, at int) bool {
	for at > 0 && (s[at-1] == ' ' || s[at-1] == '\t') {
		at--
	}
	return at == 0 || s[at-1] == '\n'
}

// endsLine reports whether only spaces and tabs stand behind s[at] on its line.
func endsLine(s string, at int) bool {
	for at < len(s) && (s[at] == ' ' || s[at] == '\t' || s[at] == '\r') {
		at++
	}
	return at == len(s) || s[at] == '\n'
}
