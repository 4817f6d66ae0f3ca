package announce

import "strings"

// Markers are how a tool call looks after it has been turned into text for a model of another provider; such models learn
// to write them. They have no closing form.
const (
	callMarker    = "[tool call:"
	resultMarker  = "[tool result"
	historyMarker = "[historical context:"

	maxMarker = 1024 // bytes up to the bracket that ends a marker
)

// marker decides what the '[' at hand is the start of.
func (l *lexer) marker() {
	rest := l.src[l.at:]
	switch {
	case hasPrefixFold(rest, callMarker):
		l.callMarker()
	case isResultMarker(rest):
		l.resultMarker()
	case hasPrefixFold(rest, historyMarker):
		l.historyMarker()
	default:
		l.at++
	}
}

// bracketEnd returns the position after the bracket that closes the marker at hand, or 0.
func (l *lexer) bracketEnd() int {
	rest := l.src[l.at:min(len(l.src), l.at+maxMarker)]
	return l.at + strings.IndexByte(rest, ']') + 1
}

// callMarker removes a call, the arguments that may follow, and the line break after it if it had a line of its own.
func (l *lexer) callMarker() {
	end := l.bracketEnd()
	if end == l.at {
		l.at++
		return
	}
	end = skipSpaces(l.src, end)
	end = skipSpaces(l.src, skipLineBreak(l.src, end))
	const word = "arguments"
	if hasPrefixFold(l.src[end:], word) {
		end = argumentsEnd(l.src, end+len(word))
		if kept := l.last(); kept == "" || kept[len(kept)-1] == '\n' {
			end = skipLineBreak(l.src, end)
		}
	}
	l.cut(end)
}

// argumentsEnd returns where the arguments end that follow the word at a byte: a JSON object, array or string, or the rest
// of the line. JSON that is never complete goes on to the end of the text: better nothing than half a call.
func argumentsEnd(s string, at int) int {
	if strings.HasPrefix(s[at:], ":") {
		at++
	}
	at = skipSpaces(s, at)
	if at == len(s) {
		return at
	}
	switch s[at] {
	case '"':
		return stringEnd(s, at)
	case '{', '[':
		return jsonEnd(s, at)
	}
	end := lineEnd(s, at)
	if end > at && s[end-1] == '\r' {
		end--
	}
	return end
}

// jsonEnd returns the position after the JSON object or array that starts at a byte, or the end of the text.
func jsonEnd(s string, at int) int {
	for depth := 0; at < len(s); {
		i := strings.IndexAny(s[at:], `"{}[]`)
		if i < 0 {
			break
		}
		at += i
		switch s[at] {
		case '"':
			at = stringEnd(s, at)
			continue
		case '{', '[':
			depth++
		default:
			depth--
		}
		at++
		if depth == 0 {
			return at
		}
	}
	return len(s)
}

func isResultMarker(s string) bool {
	return hasPrefixFold(s, resultMarker) && len(s) > len(resultMarker) && strings.IndexByte(" :]", s[len(resultMarker)]) >= 0
}

// resultMarker removes a result. Nothing says where its text ends, so all of it goes up to the next call or result. A
// bracket inside a line that carries no call id is a mention, and only the bracket goes.
func (l *lexer) resultMarker() {
	end := l.bracketEnd()
	if end == l.at {
		l.at++
		return
	}
	alone := startsLine(l.src, l.at) && strings.TrimRight(l.src[end:lineEnd(l.src, end)], " \t\r") == ""
	if !alone && !hasPrefixFold(l.src[l.at:], resultMarker+" for id") {
		l.cut(end)
		return
	}
	for end < len(l.src) {
		i := strings.IndexByte(l.src[end:], '[')
		if i < 0 {
			end = len(l.src)
			break
		}
		end += i
		if rest := l.src[end:]; hasPrefixFold(rest, callMarker) || isResultMarker(rest) {
			break
		}
		end++
	}
	l.cut(end)
}

// historyMarker removes a note about an earlier call. One that has the line to itself ends with the line, because the
// arguments that it quotes may hold brackets.
func (l *lexer) historyMarker() {
	end := l.bracketEnd()
	if end == l.at {
		l.at++
		return
	}
	line := lineEnd(l.src, l.at)
	if whole := strings.TrimRight(l.src[l.at:line], " \t\r"); startsLine(l.src, l.at) && strings.HasSuffix(whole, "]") {
		end = max(end, l.at+len(whole))
	}
	l.cut(skipLineBreak(l.src, end))
}

func skipSpaces(s string, at int) int {
	for at < len(s) && (s[at] == ' ' || s[at] == '\t') {
		at++
	}
	return at
}

func skipLineBreak(s string, at int) int {
	if strings.HasPrefix(s[at:], "\r\n") {
		return at + 2
	}
	if strings.HasPrefix(s[at:], "\n") {
		return at + 1
	}
	return at
}
