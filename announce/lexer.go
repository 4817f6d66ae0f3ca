package announce

import "strings"

// This comment is the map of the lexer. One round of Sanitize makes two passes over the text. In
// the tables, "goes" means that the pass removes something, and "stays" that it keeps it.
//
// The first pass is stripEchoes. It removes the runtime's own texts that a model has copied:
//
//	stripEvents    An event goes, from <<<completion n>>> to <<<end of completion n>>>. Without
//	               its end marker, an event that starts a line goes up to the end of the text. Of
//	               any other marker, only the marker goes.
//	stripStats     A line that starts with "Stats: runtime" and names a session goes.
//
// The second pass is stripScaffolding. Its lexer stops at each of < [ ` ~ and asks in this order:
//
//	` ~  codeEnd           Code, fenced or inline, stays as it is (code.go).
//	<    controlRunEnd     A run of control tokens, <|...|>, goes (control.go).
//	     parseTag          An unknown name, or a tag without its '>', is text (tag.go). So is a
//	                       payload, such as <parameter>: it goes only as a part of a call.
//	       visitToolTag    A tool call or result goes with its arguments (toolcall.go). An opening
//	                       tag without arguments is a mention: it stays, and so does its closing
//	                       tag.
//	       visitInvokeTag  An <invoke> block goes if the text has MiniMax's tag, else it is text.
//	       cut             <final>, MiniMax's tag and every other closing tag go alone.
//	       blockEnd        A thought or a memory block goes up to the closing tag that matches,
//	                       else up to the last one, else up to the end of the text.
//	[    visitReplyTag     [[reply_to_current]] and its like go, see ReadTags (replytag.go).
//	     visitCall         [Tool Call: ...] goes with the arguments that follow.
//	     visitResult       [Tool Result ...] goes with the text up to the next call or result. One
//	                       that is inside a line and has no call id is a mention: it goes alone.
//	     visitHistory      [Historical context: ...] goes, with its line if the line ends in ].
//
// The first match wins, and the lexer does not look again at what a match covers. What matches
// nothing is text.
//
// A pass takes time linear in the text. It moves forward only, and each look ahead has a bound:
//
//   - A search that ends in a cut or in code is not repeated, because the pass goes on behind it.
//   - A search that finds no end cuts to the end of the text, which ends the pass. blockEnd may
//     fall back to the last closing tag instead. No closing tag of that kind is ahead then, so the
//     next opening tag of that kind cuts to the end of the text.
//   - An opening fence or backtick without its end cuts nothing. lexer.unfenced remembers for which
//     fences no closing line is ahead, and lexer.ticks which backticks the line has.
//   - Every other look ahead is bounded by a constant (maxNonce, maxMarker, maxControl, maxTagName,
//     maxAttribute, maxReplyTag), or it stops at the next word or '<'. The next one of this kind
//     starts there or further on, so only a constant number of them read the same byte.
//   - A call that is written in tags without attributes asks matchCalls where it ends. matchCalls
//     reads the text once for each kind of tag.
//   - stripEvents asks lastEnds before it looks for the end of an event that does not start a line.
//     lastEnds reads the text once.
//   - lexer.minimax is computed once, and lexer.openInvokes ends the search for </invoke>.
//
// Sanitize makes at most maxRounds rounds. TestHostileInputsAreLinear has an input for each case.
// TestRepeatedTokensAreLinear has the pairs of all tokens.

// A lexer walks a text once, from the front to the back. What starts first wins: a tag inside a
// thought is part of the thought.
type lexer struct {
	src  string
	at   int    // the byte that the lexer looks at
	from int    // src[from:at] is kept and not copied to out yet
	out  []byte // the kept part of src[:from]

	// mentions counts, by kind of tag, the openings that stayed in the text because they are
	// prose and whose closing tag was not met yet.
	mentions [toolKinds]int
	// unfenced is, for backticks and for tildes, the length of the shortest fence for which no
	// closing line is ahead. It is 0 if no such fence is known.
	unfenced [2]int
	ticks    tickRuns   // the backticks of the current line
	minimax  answer     // does the text have the word that makes <invoke> a tool call?
	tags     *ReplyTags // takes the reply tags that were removed; nil: they are not asked for
	// openInvokes says that no </invoke> is ahead.
	openInvokes bool
	// callEnds is what matchCalls returned for each kind of tag, or nil.
	callEnds [toolKinds]map[int]int
}

// run makes the pass and returns the text that stays. It returns src itself if nothing goes.
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

// visitAngle decides what starts at the current '<', and removes it or moves behind it.
func (l *lexer) visitAngle() {
	if end := controlRunEnd(l.src, l.at); end > 0 {
		l.cutControl(end)
		return
	}
	t := parseTag(l.src, l.at)
	switch {
	case t.kind == noTag, t.kind == payloadTag:
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
		end, _ := l.blockEnd(t.end, t.kind)
		l.cut(end)
	}
}

// cut removes src[at:end] and moves to end.
func (l *lexer) cut(end int) {
	l.out = append(l.out, l.src[l.from:l.at]...)
	l.at, l.from = end, end
}

// keptTail returns the last bytes, at most four, of what is kept before the current position. Four
// bytes hold any rune.
func (l *lexer) keptTail() string {
	if l.at > l.from {
		return l.src[max(l.from, l.at-4):l.at]
	}
	return string(l.out[max(0, len(l.out)-4):])
}

// blockEnd returns where the block of kind k ends whose opening tag ends at src[at]. closed is
// false if no closing tag of that kind is ahead.
//
// A block ends after the closing tag that matches; nested blocks are counted. If no tag matches,
// the block ends after its last closing tag, because then one of the openings was only a mention.
// A block without any closing tag extends to the end of the text.
func (l *lexer) blockEnd(at int, k tagKind) (end int, closed bool) {
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
			last, closed = t.end, true
		case !t.empty:
			depth++
		}
		if depth == 0 {
			return t.end, true
		}
		at = t.end
	}
	return last, closed
}

// A marker in brackets is what a tool call looks like after it was turned into text for a model of
// another provider. Models that read markers learn to write them. A marker does not have a closing
// form. These constants are in lower case; a text may have them in any letter case.
const (
	callMarker    = "[tool call:"
	resultMarker  = "[tool result"
	historyMarker = "[historical context:"

	maxMarker = 1024 // bytes of a marker, with the bracket that ends it
)

// visitBracket decides what starts at the current '[', and removes it or moves behind it.
func (l *lexer) visitBracket() {
	rest := l.src[l.at:]
	switch {
	case l.visitReplyTag():
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

// bracketEnd returns the position after the ']' that ends the current marker. It returns l.at if
// the next maxMarker bytes do not have one.
func (l *lexer) bracketEnd() int {
	rest := l.src[l.at:min(len(l.src), l.at+maxMarker)]
	return l.at + strings.IndexByte(rest, ']') + 1
}

// visitCall removes a [Tool Call: ...] marker, one line break after it, and the arguments that may
// follow. The line break after the arguments goes too if the call had its lines to itself. A marker
// without its bracket is text.
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

// argumentsEnd returns where the arguments end that follow the word "arguments", which ends at
// s[at]. Arguments are a JSON object, array or string, or else the rest of the line. JSON that is
// never complete extends to the end of the text, because half a call must not show.
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

// jsonEnd returns the position after the JSON object or array that starts at s[at], or the end of
// the text if it is not complete.
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

// isResultMarker reports whether s starts with the first words of a [Tool Result ...] marker. The
// bracket that ends the marker may be missing.
func isResultMarker(s string) bool {
	return hasPrefixFold(s, resultMarker) && len(s) > len(resultMarker) &&
		strings.IndexByte(" :]", s[len(resultMarker)]) >= 0
}

// visitResult removes a [Tool Result ...] marker and the result. A result does not say where it
// ends, so it extends to the next call or result, or to the end of the text. A marker that shares
// its line with other text and carries no call id is a mention: only the marker goes.
func (l *lexer) visitResult() {
	end := l.bracketEnd()
	if end == l.at {
		l.at++
		return
	}
	alone := startsLine(l.src, l.at) && endsLine(l.src, end)
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

// visitHistory removes a [Historical context: ...] marker, which is a note about an earlier call. A
// note that has the line to itself ends with the line, because the arguments that it quotes may
// hold brackets.
func (l *lexer) visitHistory() {
	end := l.bracketEnd()
	if end == l.at {
		l.at++
		return
	}
	// Only the first note of a line looks for the end of the line. So a line of many notes takes
	// linear time.
	if startsLine(l.src, l.at) {
		whole := strings.TrimRight(l.src[l.at:lineEnd(l.src, l.at)], " \t\r")
		if strings.HasSuffix(whole, "]") {
			end = max(end, l.at+len(whole))
		}
	}
	l.cut(skipLineBreak(l.src, end))
}

// skipSpaces returns the position of the first byte from s[at] on that is not a space or a tab.
func skipSpaces(s string, at int) int {
	for at < len(s) && (s[at] == ' ' || s[at] == '\t') {
		at++
	}
	return at
}

// skipLineBreak returns the position after the line break at s[at], or at if none is there.
func skipLineBreak(s string, at int) int {
	if strings.HasPrefix(s[at:], "\r\n") {
		return at + 2
	}
	if strings.HasPrefix(s[at:], "\n") {
		return at + 1
	}
	return at
}

// The runtime's own texts start with these words. Event.ForModel writes them, and stripEchoes
// recognises an echo by them.
const (
	fenceOpen  = "<<<completion "
	fenceClose = "<<<end of completion "
	fenceEnd   = ">>>"

	statsStart = "Stats: runtime "
	statsMark  = " • sessionKey "

	maxNonce = 64 // bytes
)

// cleanNonce returns the letters, digits, '-' and '_' of a nonce, at most maxNonce of them. None of
// these can end a line or a fence.
func cleanNonce(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r < 0x80 && isWord(r) {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), maxNonce)]
}

// stripEchoes removes the runtime's own events and stats lines from a text into which a model has
// copied them. A person must not see them, not even indented, quoted or as code.
func stripEchoes(text string) string {
	if strings.Contains(text, fenceOpen) || strings.Contains(text, fenceClose) {
		text = stripEvents(text)
	}
	if strings.Contains(text, statsMark) {
		text = stripStats(text)
	}
	return text
}

// stripEvents removes events. An event extends from an opening marker to the end marker with the
// same nonce. If the text does not have that end marker, an event whose opening marker starts a
// line extends to the end of the text. Of any other marker, only the marker goes.
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

// lastEnds returns the position of the last occurrence of each end marker. With it, stripEvents
// knows whether an end marker is ahead without another search of the text.
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

// markerAt returns the marker that a text starts with, or "". The marker includes its nonce and the
// >>> that ends it if both are there.
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

// eventEnd returns where the event ends whose opening marker ends at text[at]. The event takes
// the rest of its last line along if that holds only what unquote removes.
func eventEnd(text string, at int, marker string) int {
	end := endMarker(marker)
	i := strings.Index(text[at:], end)
	if i < 0 {
		return len(text)
	}
	at += i + len(end)
	// The rest of the line is not looked for: many events may stand on one line.
	rest := strings.TrimLeft(text[at:], quoteMarks)
	switch {
	case rest == "":
		return len(text)
	case rest[0] == '\n':
		return len(text) - len(rest) + 1
	}
	return at
}

// endMarker returns the marker that ends the event which an opening marker begins.
func endMarker(opening string) string {
	return fenceClose + strings.TrimPrefix(opening, fenceOpen)
}

// stripStats removes the stats lines of events, also when they are quoted.
func stripStats(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(unquote(line), statsStart) || !strings.Contains(line, statsMark) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// quoteMarks are what a model puts around a line when it quotes it.
const quoteMarks = "> |`*\t\r"

// unquote removes the quoteMarks and line breaks from both ends of a line.
func unquote(line string) string { return strings.Trim(line, quoteMarks+"\n") }
