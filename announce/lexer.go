package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// This comment is the map of what Sanitize does. It makes passes over the text, each of which
// takes what the one before it keeps. A pass takes its text in pieces of any size (package ahead),
// so that [Stream] makes the same passes. In the tables, "goes" means that the pass removes
// something, and "stays" that it keeps it.
//
// Before them all, what is not drawn goes, and what steers a terminal (drawn.go).
//
// The first pass is an echo (echo.go). It removes the runtime's own texts that a model has copied:
//
//	events         An event goes, from <<<completion n>>> to <<<end of completion n>>>. Without
//	               its end marker near, the lines of an event go that follow an opening marker
//	               which starts or ends a line, or that follow a line that only an event has. Of
//	               any other marker, only the marker goes.
//	stats lines    A line that starts with "Stats: runtime" and names a session goes. Before it,
//	               and before a line that only an event has, the marks of lists, headings,
//	               quotes and brackets may stand.
//
// The second pass is the lexer. It stops at each of < [ ` ~, and at the beginning of the marks that
// have another one, and asks in this order:
//
//	` ~  code              Code, fenced or inline, stays as it is (code.go). What would hide the
//	                       rest of the text stays in code that goes on behind a line break.
//	     template          A mark of a chat template goes, with what it hides (template.go).
//	<    controlTokenEnd   A control token, <|...|>, goes (control.go), with the role or channel
//	                       behind one that begins a turn, and what is said there to others than
//	                       people: up to the next control token, or to the end.
//	     emptyEnd          A part of a call, such as <parameter>, that has nothing but tags in it
//	                       goes, if it has attributes or its line to itself.
//	     parseTag          An unknown name, or a tag without its '>', is text (tag.go). So is a
//	                       payload, such as <parameter>: it goes only as a part of a call.
//	       toolTag         A tool call or result goes with its arguments (toolcall.go). An opening
//	                       tag without arguments is a mention: it stays, and so does its closing
//	                       tag.
//	       invokeTag       An <invoke> block goes if the text has MiniMax's tag, else it is text.
//	                       <final>, MiniMax's tag and every other closing tag go alone.
//	       asideTag        What a harness puts around its own words goes, if it is closed.
//	       passBlock       A thought or a memory block goes up to the closing tag that matches,
//	                       else up to the last one, else up to the end of the text (ending.go).
//	                       The tag of a memory block that a sentence names stays.
//	[    parseReplyTag     [[reply_to_current]] and its like go, see ReadTags (replytag.go).
//	     call              [Tool Call: ...] goes with the arguments that follow.
//	     above             [message from ...] goes that says who speaks as the runtime does, and
//	                       [Offshoot] that says which session has sent a message.
//	     result            [Tool Result ...] goes with the text up to the next call or result. One
//	                       that is inside a line and has no call id is a mention: it goes alone.
//	     history           [Historical context: ...] goes, with its line if the line ends in ].
//
// The first match wins, and the lexer does not look again at what a match covers. What matches
// nothing is text. What is removed does not count on its line: a tag behind a thought may start a
// line.
//
// A removal may put two halves of a tag together, so that a drawn, an echo, a lexer and an echo
// follow. The last two have a guard (guard.go): what they remove, an attack has nested, and from
// there on the text loses each character with which something starts. A first round that removes
// nothing is the last one.
//
// The rule for what is far away: to a question about the text ahead, the text ends ahead.Max bytes
// behind the place. So a tag without its '>' in 16 KB is text, and a thought ends after a closing
// tag that no other one follows in 16 KB, even if it is nested. Some questions have a smaller
// bound: maxMarker, maxControl, maxAttribute, maxReplyTag, maxInline, maxCall, maxQuote,
// maxMention, maxStrike, maxToolName, maxCitation. What is being removed has no bound: an ending
// needs no memory. Stream and Visible obey this rule alike.
//
// Therefore a pass takes time linear in the text: a question reads at most ahead.Max bytes, and
// those that would often read as much remember for the next one what they did not find (unfenced,
// unclosed, unended, searched). TestHostileInputsAreLinear has an input for each case.
// TestRepeatedTokensAreLinear has the pairs of all tokens.

// A lexer walks a text once, from the front to the back, and removes scaffolding. What starts first
// wins: a tag inside a thought is part of the thought.
type lexer struct {
	ahead.Cursor
	guard

	ending ending // what is being passed; zero: text
	tags   *ReplyTags

	within bool // something other than a blank is kept on the current line
	gap    bool // control tokens behind a word were removed right before At
	cuts   bool // something was removed

	// mentions counts, by kind of tag, the openings that stayed in the text because they are
	// prose and whose closing tag was not met yet.
	mentions [noTag]int
	unfenced [2]unfenced // for backticks and for tildes, see closingFence
	// minimax says that the word for MiniMax's tag, which makes <invoke> a tool call, starts at
	// searched. If it is false, none starts before searched.
	minimax  bool
	searched int

	span span // the inline code that may be open

	unclosed [noTag]int // by kind: no closing tag starts before this position, see closesSoon
	// unended says the same of what ends a mark, see closerAhead.
	unended map[string]int
	said    bool // something other than white space is kept
}

// An action is what the lexer does at a place where something may start.
type action struct {
	end  int    // where it goes on
	cut  bool   // what lies before end is removed
	then ending // what is passed from end on

	gap     bool // the removed text was a control token
	ticks   int  // the length of a run of backticks without its other one on the line
	opens   bool // the run may begin inline code
	mention int8 // 1: a tag of a tool call stays; -1: the closing tag of one stays
	kind    tagKind
	tags    ReplyTags
}

// pass takes the next piece of the text and returns what stays of it.
func (l *lexer) pass(piece string, final bool) string {
	if !l.Begin(piece, final) {
		return ""
	}
	l.search()
	for l.At < len(l.Buf) && l.step() {
	}
	kept, moved := l.Finish(l.hold(&l.Cursor, l.At))
	l.shift(moved)
	return kept
}

// shift moves what is remembered of positions down.
func (l *lexer) shift(n int) {
	l.guard.shift(n)
	for i := range l.unfenced {
		l.unfenced[i].upTo -= n
	}
	for i := range l.unclosed {
		l.unclosed[i] -= n
	}
	for word := range l.unended {
		l.unended[word] -= n
	}
	l.searched -= n
}

// step passes some of the text. It returns false if it needs more of the text.
func (l *lexer) step() bool {
	if l.ending.how != 0 {
		return l.ending.pass(l)
	}
	if l.gap && l.Buf[l.At] != '<' && !l.joinWords() {
		return false
	}
	i := nextOpener(l.Buf[l.At:])
	if i < 0 {
		l.keep(len(l.Buf))
		return true
	}
	l.keep(l.At + i)
	v := l.View()
	var do action
	switch v.S[l.At] {
	case '<':
		do = l.angle(&v)
	case '[':
		do = l.bracket(&v)
	case '`', '~':
		do = l.code(&v)
	default:
		var ok bool
		if do, ok = l.template(&v); !ok {
			do = action{end: l.At + 1}
		}
	}
	if do.cut && l.isSpanned(&v, do) {
		do = action{end: l.At + 1}
	}
	if v.Waits() {
		l.Keep(min(l.settled(), l.hold(&l.Cursor, len(l.Buf))))
		return false
	}
	if l.gap && !do.gap && !l.joinWords() {
		return false
	}
	l.act(do, v.Seen())
	return true
}

// act does what was decided with a look at the text before seen.
func (l *lexer) act(do action, seen int) {
	switch do.mention {
	case 1:
		l.mentions[do.kind]++
	case -1:
		l.mentions[do.kind]--
	}
	if !do.cut {
		if c := l.Buf[l.At]; c != '`' && c != '~' {
			l.waits(l.At, seen)
		}
		l.keep(do.end)
		l.ending = do.then
		l.span = l.span.behind(do)
		return
	}
	if do.gap {
		l.gap = l.gap || isWord(l.lastRune())
	}
	l.tags.add(do.tags)
	l.cut(&l.Cursor)
	l.cuts = true
	l.Skip(do.end)
	l.ending = do.then
}

// keep moves to a position. What lies before it stays.
func (l *lexer) keep(to int) {
	text := l.Buf[l.At:to]
	l.span = l.span.over(text, l.within)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text, l.within = text[i+1:], false
	}
	l.said = l.said || trimStart(l.Buf[l.At:to]) != ""
	l.within = l.said && (l.within || strings.Trim(text, " \t") != "") // outer space is not shown
	l.At = to
}

// settled returns the position up to which the text stays, whatever follows, when the step at At
// waits. A run of backticks stays, and so does what follows it and cannot be removed, nor be
// completed by what is removed behind it.
func (l *lexer) settled() int {
	if c := l.Buf[l.At]; c == '<' || c == '[' {
		return l.At
	}
	var open []opener
	last := l.last
	for at := l.At; ; at++ {
		i := nextOpener(l.Buf[at:])
		if i >= 0 {
			at += i
			if c := l.Buf[at]; c == '`' || c == '~' {
				continue
			}
			if seen, stays := l.stays(at); stays {
				last = last.next(at, seen)
				open = append(open, opener{at, seen, last.from})
				continue
			}
		} else {
			at = len(l.Buf)
		}
		for _, o := range open {
			if l.on && o.seen > at {
				return o.from
			}
		}
		return at
	}
}

// stays reports whether nothing that is removed can start at a position, and up to where it has
// looked for that.
func (l *lexer) stays(at int) (seen int, ok bool) {
	v := l.View()
	if at >= len(v.S) {
		return at, false
	}
	switch v.S[at] {
	case '<':
		ok = controlTokenEnd(&v, at) == 0 && parseTag(&v, at).kind == noTag && !beginsMark(&v, at)
	case '[':
		_, isDouble := doubled(&v, at, '[')
		ok = !isDouble && !v.HasFold(at, callMarker[:5]) && !v.HasFold(at, senderStart[:5]) &&
			!v.HasFold(at, sentStart[:5]) && !v.HasFold(at, historyMarker[:5]) &&
			!beginsMark(&v, at) && !v.Has(at, toolsMark)
	}
	return v.Seen(), ok && !v.Ends()
}

// angle decides what starts at the current '<'.
func (l *lexer) angle(v *ahead.View) action {
	if do, ok := l.template(v); ok {
		return do
	}
	if end := controlTokenEnd(v, l.At); end > 0 {
		return l.control(v, end)
	}
	t := parseTag(v, l.At)
	text := action{end: l.At + 1}
	if end := l.emptyEnd(v, t); end > 0 {
		return action{end: end, cut: true}
	}
	switch {
	case t.kind == noTag, t.kind == payloadTag:
		return text
	case t.kind < toolKinds:
		return l.toolTag(v, t)
	case !t.complete:
		return text
	case t.kind == asideTag, t.kind == jsonTag:
		return l.asideTag(v, t)
	case t.kind == citeTag:
		return l.citeTag(v, t)
	case t.kind == invokeTag:
		return l.invokeTag(v, t)
	case t.kind == minimaxTag, t.kind == finalTag, t.kind == markTag, t.closing:
		return action{end: t.end, cut: true}
	case t.kind == memoryTag && l.isNamed(v, t) && !l.closingTagAhead(v, t.end, t.kind):
		return action{end: t.mentionEnd(v, l.At)}
	}
	return action{end: t.end, cut: true, then: block(t.kind)}
}

// isNamed reports whether an opening tag stands in a sentence, between blanks and before a word, as
// one that is named there. Scaffolding has its tags on lines of their own or beside its text.
func (l *lexer) isNamed(v *ahead.View, t tag) bool {
	if !l.within || l.lastRune() != ' ' || v.Byte(t.end) != ' ' {
		return false
	}
	const most = 24 // bytes of a word
	end := t.end + 1
	for end-t.end <= most && v.Byte(end) >= 'a' && v.Byte(end) <= 'z' {
		end++
	}
	return end > t.end+1 && (v.Ended(end) || strings.IndexByte(" \n.,;!?)", v.S[end]) >= 0)
}

// code decides about the current run of backticks or tildes.
func (l *lexer) code(v *ahead.View) action {
	if !l.within {
		if f, end := fenceAt(v, l.At); f.length > 0 {
			return action{end: end, then: ending{how: endFence, fence: f, begun: true}}
		}
	}
	run := runEnd(v, l.At)
	if end := inlineEnd(v, l.At, run); end > 0 {
		return action{end: end}
	}
	if v.S[l.At] != '`' {
		return action{end: run}
	}
	before, _ := utf8.DecodeLastRuneInString(v.S[:l.At])
	r, size := v.Rune(run)
	opens := (l.At == 0 || !isWord(before)) && size > 0 && !isBlankRune(r)
	return action{end: run, ticks: run - l.At, opens: opens}
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

// bracket decides what starts at the current '['.
func (l *lexer) bracket(v *ahead.View) action {
	if t := parseReplyTag(v, l.At); t.end > 0 {
		do := action{end: t.end, cut: true, tags: t.tags}
		if before := l.lastRune(); l.Tail() == "" || unicode.IsSpace(before) {
			do.then = ending{how: endSpaces, alone: l.startsKept()}
		}
		return do
	}
	if do, ok := l.template(v); ok {
		return do
	}
	switch {
	case v.HasFold(l.At, callMarker):
		return l.call(v)
	case v.HasFold(l.At, senderStart), v.HasFold(l.At, sentStart):
		return l.above(v)
	case isResultMarker(v, l.At):
		return l.result(v)
	case v.HasFold(l.At, historyMarker):
		return l.history(v)
	}
	return action{end: l.At + 1}
}

// above removes what stands above a message, and says who speaks or which session has sent it, from
// within a line. An echo removes it at the beginning of one.
func (l *lexer) above(v *ahead.View) action {
	end := aboveEnd(v, l.At)
	if end == 0 {
		return action{end: l.At + 1}
	}
	do := action{end: end, cut: true}
	if before := l.lastRune(); l.Tail() == "" || unicode.IsSpace(before) {
		do.then.how = endSpaces
	}
	return do
}

// bracketEnd returns the position after the ']' that ends the current marker. It returns 0 if the
// next maxMarker bytes do not have one.
func (l *lexer) bracketEnd(v *ahead.View) int {
	marker := v.Within(l.At, maxMarker)
	end := marker.Any(l.At, "]")
	v.Join(marker)
	if end == len(marker.S) {
		return 0
	}
	return end + 1
}

// call removes a [Tool Call: ...] marker, one line break after it, and the arguments that may
// follow. The line break after the arguments goes too if the call had its lines to itself. A
// marker without its bracket is text.
func (l *lexer) call(v *ahead.View) action {
	end := l.bracketEnd(v)
	if end == 0 {
		return action{end: l.At + 1}
	}
	end = v.Skip(v.Break(v.Skip(end, " \t")), " \t")
	const word = "arguments"
	if !v.HasFold(end, word) {
		return action{end: end, cut: true}
	}
	if end += len(word); v.Byte(end) == ':' {
		end++
	}
	end = v.Skip(end, " \t")
	then := ending{how: endLine, alone: l.startsKept()}
	switch v.Byte(end) {
	case '"':
		then.how, then.quoted = endString, true
		end++
	case '{', '[':
		then.how = endJSON
	}
	return action{end: end, cut: true, then: then}
}

// isResultMarker reports whether the first words of a [Tool Result ...] marker stand at a position.
// The bracket that ends the marker may be missing.
func isResultMarker(v *ahead.View, at int) bool {
	return v.HasFold(at, resultMarker) &&
		strings.IndexByte(" :]", v.Byte(at+len(resultMarker))) >= 0
}

// result removes a [Tool Result ...] marker and the result. A result does not say where it ends, so
// it extends to the next call or result, or to the end of the text. A marker that shares its line
// with other text and carries no call id is a mention: only the marker goes.
func (l *lexer) result(v *ahead.View) action {
	end := l.bracketEnd(v)
	if end == 0 {
		return action{end: l.At + 1}
	}
	do := action{end: end, cut: true}
	if !l.within && endsLine(v, end) || v.HasFold(l.At, resultMarker+" for id") {
		do.then.how = endResult
	}
	return do
}

// history removes a [Historical context: ...] marker, which is a note about an earlier call. A note
// that has the line to itself ends with the line, because the arguments that it quotes may hold
// brackets. That line has at most maxMarker bytes.
func (l *lexer) history(v *ahead.View) action {
	end := l.bracketEnd(v)
	if end == 0 {
		return action{end: l.At + 1}
	}
	if !l.within {
		line := v.Within(end, maxMarker)
		whole := line.Any(end, "\n")
		v.Join(line)
		if whole == len(line.S) || v.S[whole] == '\n' {
			note := strings.TrimRight(v.S[l.At:whole], " \t\r")
			if strings.HasSuffix(note, "]") {
				end = max(end, l.At+len(note))
			}
		}
	}
	return action{end: v.Break(end), cut: true}
}
