package announce

import "strings"

// The map of the lexer. Sanitize removes what it finds in two passes, first stripEchoes:
//
//	stripEvents    <<<completion n>>> up to <<<end of completion n>>>. Without its end, one that
//	               starts a line goes to the end of the text, of any other only the marker goes
//	stripStats     a line that starts with "Stats: runtime" and names a session
//
// Then stripScaffolding: one lexer, which stops at each < [ ` ~ and asks in this order:
//
//	` ~  codeEnd          code, fenced or inline: is kept as it is (code.go)
//	<    controlRunEnd  a run of control tokens, <|...|>: goes (control.go)
//	     parseTag         no known name, or a tag without its end: is text (tag.go)
//	       visitToolTag    a tool call or result: goes with its arguments. An opening without
//	                      arguments is a mention: it stays, and its closing tag too (toolcall.go)
//	       visitInvokeTag  goes with its block if the text has MiniMax's tag, else is text
//	       cut            <final>, MiniMax's tag, any other closing tag: the tag goes alone
//	       blockEnd       a thought, a memory block, a payload: goes up to the closing tag that
//	                      matches, else up to the last one, else to the end of the text
//	[    visitCall        [Tool Call: ...]: goes with the arguments that follow
//	     visitResult      [Tool Result ...]: goes with the text up to the next call or result. One
//	                      inside a line and without a call id is a mention: it goes alone
//	     visitHistory     [Historical context: ...]: goes, with its line if that ends in a bracket
//
// The first match wins, and what it covers is not looked at again. What matches nothing is text.
//
// A pass is linear in the text because it moves forward only, and what looks ahead is paid for:
//
//   - A search that ends in a cut or in code is not repeated, since the pass goes on behind it. One
//     that finds no end cuts to the end of the text. blockEnd may fall back to the last closing
//     tag; none of that kind is ahead then, and the next opening of that kind ends the text.
//   - An opening fence or backtick without its end cuts nothing. lexer.unfenced remembers for which
//     fences no closing line is ahead, lexer.ticks which backticks the line has.
//   - Every other look ahead is bounded (maxNonce, maxMarker, maxControl, maxTagName, maxAttribute)
//     or ends at the next word or '<', which no later look passes from further back.
//   - stripEvents asks lastEnds, which is made once, before it looks for the end of an event that
//     does not start a line. lexer.minimax is answered once.
//
// Sanitize makes at most maxRounds rounds. TestHostileInputsAreLinear has an input for each case.

// A lexer walks a text once. Whatever starts first wins: a tag inside a thought is part of the thought.
type lexer struct {
	src  string
	at   int    // the byte that is looked at
	from int    // src[from:at] is kept and not copied yet
	out  []byte // what is kept of src[:from]

	mentions [toolKinds]int // by tag: openings that were left in the text because they are prose
	unfenced [2]int         // by fence character: the shortest fence that has no closing line ahead; 0 for none known
	ticks    tickRuns       // the backticks of the current line
	minimax  answer         // whether the text has the word that makes <invoke> a tool call
}

func (l *lexer) run() string {
	for l.at < len(l.src) {
		i := strings.IndexAny(l.src[l.at:], "<[`~")
		if i < 0 {
			break
		}
		l.at += i
		switch l.src[l.at] {
		case '<':
			l.visitAngle()
		case '[':
			l.visitBracket()
		default:
			l.at = l.codeEnd(l.at, false)
		}
	}
	if l.out == nil && l.from == 0 {
		return l.src
	}
	return string(append(l.out, l.src[l.from:]...))
}

// visitAngle decides what the '<' at hand is the start of.
func (l *lexer) visitAngle() {
	if end := controlRunEnd(l.src, l.at); end > 0 {
		l.cutControl(end)
		return
	}
	t := parseTag(l.src, l.at)
	switch {
	case t.kind == noTag:
		l.at++
	case t.kind < toolKinds:
		l.visitToolTag(t)
	case !t.complete:
		l.at++
	case t.kind == invokeTag:
		l.visitInvokeTag(t)
	case t.kind == finalTag, t.kind == minimaxTag, t.closing:
		l.cut(t.end)
	default: // a thought or a memory block
		l.cut(l.blockEnd(t.end, t.kind))
	}
}

// cut leaves out the text from the current position to end.
func (l *lexer) cut(end int) {
	l.out = append(l.out, l.src[l.from:l.at]...)
	l.at, l.from = end, end
}

// keptTail returns up to four bytes of what is kept before the current position.
func (l *lexer) keptTail() string {
	if l.at > l.from {
		return l.src[max(l.from, l.at-4):l.at]
	}
	return string(l.out[max(0, len(l.out)-4):])
}

// blockEnd returns where a block of this kind ends whose opening tag ends at the given byte: after the closing tag that
// matches, nested blocks being counted. Without one it ends after the last closing tag that it has, because then one of
// the openings was only mentioned; a block without any goes on to the end of the text.
func (l *lexer) blockEnd(at int, k tagKind) int {
	depth, last := 1, len(l.src)
	for at < len(l.src) {
		i := strings.IndexAny(l.src[at:], "<`~")
		if i < 0 {
			break
		}
		at += i
		if l.src[at] != '<' {
			at = l.codeEnd(at, true)
			continue
		}
		t := parseTag(l.src, at)
		switch {
		case t.kind != k || !t.complete:
			at++
			continue
		case t.closing:
			depth--
			last = t.end
		case !t.empty:
			depth++
		}
		if depth == 0 {
			return t.end
		}
		at = t.end
	}
	return last
}

// Markers are how a tool call looks after it has been turned into text for a model of another provider; such models learn
// to write them. They have no closing form.
const (
	callMarker    = "[tool call:"
	resultMarker  = "[tool result"
	historyMarker = "[historical context:"

	maxMarker = 1024 // bytes up to the bracket that ends a marker
)

// visitBracket decides what the '[' at hand is the start of.
func (l *lexer) visitBracket() {
	rest := l.src[l.at:]
	switch {
	case hasPrefixFold(rest, callMarker):
		l.visitCall()
	case isResultMarker(rest):
		l.visitResult()
	case hasPrefixFold(rest, historyMarker):
		l.visitHistory()
	default:
		l.at++
	}
}

// bracketEnd returns the position after the bracket that closes the marker at hand, or 0.
func (l *lexer) bracketEnd() int {
	rest := l.src[l.at:min(len(l.src), l.at+maxMarker)]
	return l.at + strings.IndexByte(rest, ']') + 1
}

// visitCall removes a call, the arguments that may follow, and the line break after it if it had a line of its own.
func (l *lexer) visitCall() {
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
		if kept := l.keptTail(); kept == "" || kept[len(kept)-1] == '\n' {
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

// visitResult removes a result. Nothing says where its text ends, so all of it goes up to the next call or result. A
// bracket inside a line that carries no call id is a mention, and only the bracket goes.
func (l *lexer) visitResult() {
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

// visitHistory removes a note about an earlier call. One that has the line to itself ends with the line, because the
// arguments that it quotes may hold brackets.
func (l *lexer) visitHistory() {
	end := l.bracketEnd()
	if end == l.at {
		l.at++
		return
	}
	if startsLine(l.src, l.at) { // asked first, so that only one note of a line looks for its end
		whole := strings.TrimRight(l.src[l.at:lineEnd(l.src, l.at)], " \t\r")
		if strings.HasSuffix(whole, "]") {
			end = max(end, l.at+len(whole))
		}
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

// What the runtime's own texts start with. A rendering is made of these and an echo is recognised by them.
const (
	fenceOpen  = "<<<completion "
	fenceClose = "<<<end of completion "
	fenceEnd   = ">>>"

	statsStart = "Stats: runtime "
	statsMark  = " • sessionKey "

	maxNonce = 64 // bytes
)

// cleanNonce keeps what cannot end a line or a fence.
func cleanNonce(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r < 0x80 && isNameByte[byte(r)] {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), maxNonce)]
}

// stripEchoes removes the runtime's own events, and their stats lines, from a text into which a model has copied them: a
// person must not see them, not even indented, quoted or as code.
func stripEchoes(text string) string {
	if strings.Contains(text, fenceOpen) || strings.Contains(text, fenceClose) {
		text = stripEvents(text)
	}
	if strings.Contains(text, statsMark) {
		text = stripStats(text)
	}
	return text
}

// stripEvents removes events. One counts from a marker up to the end marker with the same code; without that, one whose marker
// starts a line counts to the end of the text. Of any other marker only the marker goes.
func stripEvents(text string) string {
	var out strings.Builder
	ends := lastEnds(text)
	for from := 0; from < len(text); {
		i := strings.Index(text[from:], "<<<")
		if i < 0 {
			out.WriteString(text[from:])
			break
		}
		at := from + i
		marker, isOpen := markerAt(text[at:])
		if marker == "" {
			out.WriteString(text[from : at+1])
			from = at + 1
			continue
		}
		end := at + len(marker)
		line := from + 1 + strings.LastIndexByte(text[from:at], '\n')
		startsLine := line == 0 || text[line-1] == '\n'
		switch {
		case isOpen && startsLine && unquote(text[line:at]) == "":
			out.WriteString(text[from:line])
			from = eventEnd(text, end, marker)
		case isOpen && ends[endMarker(marker)] >= end:
			out.WriteString(text[from:at])
			from = eventEnd(text, end, marker)
		default:
			out.WriteString(text[from:at])
			from = end
		}
	}
	return out.String()
}

// lastEnds returns where each end marker stands last, so that looking for one does not read the text again.
func lastEnds(text string) map[string]int {
	ends := make(map[string]int)
	for at := 0; ; at++ {
		i := strings.Index(text[at:], fenceClose)
		if i < 0 {
			return ends
		}
		at += i
		if marker, isOpen := markerAt(text[at:]); !isOpen && marker != "" {
			ends[marker] = at
		}
	}
}

// markerAt returns the marker that a text starts with, with its code and the end of the fence if these are there.
func markerAt(text string) (marker string, isOpen bool) {
	for _, start := range [...]string{fenceOpen, fenceClose} {
		if !strings.HasPrefix(text, start) {
			continue
		}
		line := text[:min(len(text), len(start)+maxNonce+len(fenceEnd))]
		line = line[:lineEnd(line, 0)]
		if i := strings.Index(line, fenceEnd); i >= 0 {
			return line[:i+len(fenceEnd)], start == fenceOpen
		}
		return start, start == fenceOpen
	}
	return "", false
}

// eventEnd returns where the event ends whose opening marker ends at a byte, with what is left of the last line if nobody
// reads it.
func eventEnd(text string, at int, marker string) int {
	last := endMarker(marker)
	i := strings.Index(text[at:], last)
	if i < 0 {
		return len(text)
	}
	at += i + len(last)
	if line := lineEnd(text, at); unquote(text[at:line]) == "" {
		return min(line+1, len(text))
	}
	return at
}

// endMarker returns the marker that ends the event which another one opens.
func endMarker(marker string) string { return fenceClose + strings.TrimPrefix(marker, fenceOpen) }

func stripStats(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(unquote(line), statsStart) || !strings.Contains(line, statsMark) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// unquote removes what a quoting model puts around a line.
func unquote(line string) string { return strings.Trim(line, "> |`*\t\r\n") }
