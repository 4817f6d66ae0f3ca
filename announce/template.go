package announce

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// A mark is a word of a chat template that is neither a tag nor stands between pipes. It counts in
// this spelling alone.
type mark struct {
	word  string
	how   markKind
	until []string // for those that hide: where that ends; the first one goes, too, unless keeps
	keeps bool     // what ends it is looked at again
}

// A markKind says what goes with a mark.
type markKind uint8

const (
	markAlone  markKind = iota // nothing
	markBlock                  // what follows up to its end, if that is ahead; else it is a mention
	markHides                  // at the start of a line: what follows, if need be all of it
	markTurn                   // the role that follows, and what is said there if not to people
	markLast                   // nothing; elsewhere than at the end of a line it is a mention
	markBefore                 // nothing; it goes before another one that begins alike
	markSpaced                 // a ':' and blanks that follow
)

// marks has the marks by the byte with which they begin. testdata/markup.json has their sources.
var marks = marksByByte([]mark{
	{word: "[INST]", how: markBlock, until: []string{"[/INST]"}},
	{word: "[SYSTEM_PROMPT]", how: markBlock, until: []string{"[/SYSTEM_PROMPT]"}},
	{word: "[AVAILABLE_TOOLS]", how: markBlock, until: []string{"[/AVAILABLE_TOOLS]"}},
	{word: "[TOOL_RESULTS]", how: markBlock, until: []string{"[/TOOL_RESULTS]"}},
	{word: "[THINK]", how: markHides, until: []string{"[/THINK]"}},
	{word: "<|thinking|>", how: markHides, until: []string{"<|/thinking|>"}},
	{word: "<|think|>", how: markBlock, until: []string{"<|/think|>", "<|end|>", "</think>"}},
	{
		word: "<|begin_of_thought|>", how: markHides,
		until: []string{"<|end_of_thought|>", "<|begin_of_solution|>"},
	},
	{word: "<unused94>thought", how: markHides, until: []string{"<unused95>"}},
	{word: "[/INST]"},
	{word: "[/SYSTEM_PROMPT]"},
	{word: "[/AVAILABLE_TOOLS]"},
	{word: "[/TOOL_RESULTS]"},
	{word: "[/THINK]"},
	{word: "[gMASK]"},
	{word: "[sMASK]"},
	{word: "[IMG_BREAK]"},
	{word: "[IMG_END]"},
	{word: "[IMG]", how: markBefore},
	{word: "[EOS]", how: markLast},
	{word: "[|assistant|]"},
	{word: "[|endofturn|]"},
	{word: "[|user|]", how: markHides, until: []string{"[|"}, keeps: true},
	{word: "[|system|]", how: markHides, until: []string{"[|"}, keeps: true},
	{word: "[|tool|]", how: markHides, until: []string{"[|"}, keeps: true},
	{word: "[e~["},
	{word: "]~!b["},
	{word: "]<]minimax[>["},
	{word: "]~b]", how: markTurn, until: []string{"[e~[", "]~b]"}, keeps: true},

	{word: "<<SYS>>", how: markBlock, until: []string{"<</SYS>>"}},
	{word: "<</SYS>>"},
	{
		word: "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", how: markHides,
		until: []string{"<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"},
	},
	{word: "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"},
	{word: "<|turn>", how: markTurn, until: []string{"<turn|>", "<|turn>"}, keeps: true},
	{word: "<|channel>thought\n", how: markHides, until: []string{"<channel|>"}},
	{word: "<|tool_call>call:", how: markHides, until: []string{"<tool_call|>"}},
	{word: "<|tool_response>response:", how: markHides, until: []string{"<tool_response|>"}},
	{word: "<|tool>declaration:", how: markHides, until: []string{"<tool|>"}},
	{word: "<turn|>"},
	{word: "<channel|>"},
	{word: "<tool_call|>"},
	{word: "<tool_response|>"},
	{word: "<start_function_call>call:", how: markHides, until: []string{"<end_function_call>"}},
	{
		word: "<start_function_response>response:", how: markHides,
		until: []string{"<end_function_response>"},
	},
	{word: "<end_function_call>"},
	{word: "<end_function_response>"},
	{
		word: "<start_of_turn>", how: markTurn, until: []string{"<end_of_turn>", "<start_of_turn>"},
		keeps: true,
	},
	{word: "<seed:bos>", how: markTurn, until: []string{"<seed:eos>", "<seed:bos>"}, keeps: true},
	{
		word: "<beginning_of_sentence>", how: markTurn, keeps: true,
		until: []string{"<end_of_sentence>", "<beginning_of_sentence>"},
	},

	{word: "✿FUNCTION✿", how: markHides, until: []string{"✿RETURN✿"}, keeps: true},
	{word: "✿RESULT✿", how: markHides, until: []string{"✿RETURN✿"}, keeps: true},
	{word: "✿RETURN✿", how: markSpaced},
	{word: "◁think▷", how: markHides, until: []string{"◁/think▷"}},
	{word: "◁/think▷"},
	{word: ">>ABSTRACT<<"},
	{word: ">>ANSWER<<"},
	{word: ">>COMMENT<<"},
	{word: ">>DOMAIN<<"},
	{word: ">>INTRODUCTION<<"},
	{word: ">>MIDDLE<<"},
	{word: ">>PREFIX<<"},
	{word: ">>QUESTION<<"},
	{word: ">>SUFFIX<<"},
	{word: ">>SUMMARY<<"},
	{word: ">>TITLE<<"},
})

func marksByByte(all []mark) (byByte [256][]mark) {
	for _, m := range all {
		byByte[m.word[0]] = append(byByte[m.word[0]], m)
	}
	return byByte
}

const (
	citeOpen    = "【"
	citeClose   = "】"
	citeDagger  = "†"
	renderCite  = "{render_inline_citation"
	functools   = "functools["
	reference   = ":contentReference[oaicite:"
	toolsMark   = "[TOOL_CALLS]"
	idMark      = "[CALL_ID]"
	argsMark    = "[ARGS]"
	recipient   = ">>>"
	maxCitation = 256 // bytes of a citation
)

// otherOpeners are the beginnings of what step looks at, by their first byte, besides < [ ` and ~.
var otherOpeners = map[byte][]string{
	'>': {">>"}, '{': {renderCite}, 'f': {functools}, ':': {reference, ":" + reference}, ']': {"]~", "]<]"},
	"✿"[0]: {"✿", "◁"}, citeOpen[0]: {citeOpen},
}

// opens says of each byte whether step looks at it: 1, always; 2, if one of otherOpeners follows.
var opens = func() (table [256]byte) {
	for c := range otherOpeners {
		table[c] = 2
	}
	for _, c := range []byte("<[`~") {
		table[c] = 1
	}
	return table
}()

// nextOpener returns the position of the first place in a text at which something may start, or
// -1. At the end of the text, a part of a word is enough.
func nextOpener(text string) int {
	for i := range len(text) {
		switch opens[text[i]] {
		case 1:
			return i
		case 2:
			for _, word := range otherOpeners[text[i]] {
				if n := min(len(word), len(text)-i); text[i:i+n] == word[:n] {
					return i
				}
			}
		}
	}
	return -1
}

// withoutOpeners leaves bytes that are not UTF-8 as they are. It takes a character from everything
// that the lexer removes, and the marks of direction, because that for which a drawn has kept them
// may be gone.
var withoutOpeners = strings.NewReplacer(
	"<", "", "[", "", "~", "", ">", "", "{", "", "✿", "", "◁", "", citeOpen, "",
	"\u200E", "", "\u200F", "", "\u061C", "")

// template decides about the mark at the current position. ok is false if there is none.
func (l *lexer) template(v *ahead.View) (do action, ok bool) {
	c := v.S[l.At]
	for i := range marks[c] {
		if m := &marks[c][i]; v.Has(l.At, m.word) {
			return l.mark(v, m, l.At+len(m.word))
		}
	}
	var end int
	switch {
	case c == '<':
		if end = numbered(v, l.At); end > 0 {
			return l.numberedTurn(v, end), true
		}
		return l.sentence(v)
	case c == '[' && v.Has(l.At, toolsMark):
		return l.toolCalls(v)
	case c == '>':
		return l.recipient(v)
	case c == 'f' && !l.within && v.Has(l.At, functools):
		return functoolsCall(v, l.At+len(functools)-1)
	case c == '{' && v.Has(l.At, renderCite):
		near := v.Within(l.At, maxCitation)
		end = near.Any(l.At, "}")
		v.Join(near)
		return action{end: end + 1, cut: true}, end < len(near.S)
	case c == ':':
		end = referenceEnd(v, l.At)
		return action{end: end, cut: true}, end > 0
	case c == citeOpen[0]:
		end = citationEnd(v, l.At)
		return action{end: end, cut: true}, end > 0
	}
	return action{}, false
}

// beginsMark reports whether one of the marks may start at a position.
func beginsMark(v *ahead.View, at int) bool {
	for i := range marks[v.S[at]] {
		if v.Has(at, marks[v.S[at]][i].word) {
			return true
		}
	}
	return v.S[at] == '<' && (v.Has(at, "<s>") || v.Has(at, "</s>") || numbered(v, at) > 0)
}

// mark decides about a mark that ends at a position.
func (l *lexer) mark(v *ahead.View, m *mark, end int) (do action, ok bool) {
	do = action{end: end, cut: true}
	hides := ending{how: endUntil, until: m.until, keeps: m.keeps}
	switch m.how {
	case markAlone:
	case markBlock:
		do.then = hides
		return do, l.closerAhead(v, m, end)
	case markHides:
		do.then = hides
		return do, !l.within || m.hasArguments() || l.closerAhead(v, m, end)
	case markTurn:
		do = l.turn(v, end, m.until)
	case markLast:
		return do, endsLine(v, end)
	case markBefore:
		return do, v.Has(end, m.word[:len(m.word)-1])
	case markSpaced:
		if v.Byte(end) == ':' {
			do.end = v.Skip(end+1, " ")
		}
	}
	return do, true
}

// hasArguments reports whether the word of a mark has the beginning of what follows a mark, so that
// it is not a mention, also within a line.
func (m *mark) hasArguments() bool {
	return strings.HasSuffix(m.word, ":") || strings.HasSuffix(m.word, "\n")
}

// closerAhead reports whether what ends a mark is ahead.
func (l *lexer) closerAhead(v *ahead.View, m *mark, at int) bool {
	return slices.ContainsFunc(m.until, func(closer string) bool {
		return l.wordAhead(v, closer, at)
	})
}

// wordAhead reports whether a word is ahead. It remembers where it is not.
func (l *lexer) wordAhead(v *ahead.View, closer string, at int) bool {
	if l.unended == nil {
		l.unended = make(map[string]int)
	}
	from := min(max(at, l.unended[closer]), len(v.S))
	if i := strings.Index(v.S[from:], closer); i >= 0 {
		v.Read(from + i + len(closer))
		return true
	}
	v.Read(len(v.S) + 1)
	if !v.Waits() {
		l.unended[closer] = max(from, len(v.S)-len(closer)+1)
	}
	return false
}

// turn decides about a mark that begins a turn and ends at a position: a role may follow, up to the
// end of its line. What another role says ends at one of some words.
func (l *lexer) turn(v *ahead.View, end int, until []string) action {
	do := action{end: end, cut: true}
	header, ends, _ := l.header(v, end)
	word, rest, _ := strings.Cut(header, " ")
	shows, known := roles[strings.ToLower(word)]
	if !known || rest != "" && !strings.HasPrefix(rest, "name=") {
		return do
	}
	if do.end = ends; !shows {
		do.then = ending{how: endUntil, until: until, keeps: true}
	}
	return do
}

// numberedMarks are the marks that end with a number and a '>'.
var numberedMarks = [...]string{
	"<unused", "<SPECIAL_", "<extra_id_", "<reserved_", "<reserved_token_", "<mask:", "<co: ", "</co: ",
	"<co:", "</co:",
}

// numbered returns the position after the numbered mark at a position, or 0 if there is none.
func numbered(v *ahead.View, at int) int {
	const digits = "0123456789"
	for _, word := range numberedMarks {
		if !v.Has(at, word) {
			continue
		}
		near := v.Within(at+len(word), 16)
		end := near.Skip(at+len(word), digits+",")
		v.Join(near)
		if end > at+len(word) && v.Byte(end) == '>' {
			return end + 1
		}
	}
	return 0
}

// numberedTurn decides about the numbered mark that ends at a position.
func (l *lexer) numberedTurn(v *ahead.View, end int) action {
	for _, word := range [...]string{"<SPECIAL_", "<extra_id_"} {
		if v.Has(l.At, word) {
			return l.turn(v, end, []string{word})
		}
	}
	return action{end: end, cut: true}
}

// maxStrike is the number of bytes within which a text that is struck out ends.
const maxStrike = 256

// sentence decides about the marks <s> and </s>. They are the tags of a text that is struck out,
// too: these stay.
func (l *lexer) sentence(v *ahead.View) (do action, ok bool) {
	switch {
	case v.Has(l.At, "</s>"):
		end := l.At + len("</s>")
		if l.mentions[strikeTag] > 0 {
			return action{end: end, mention: -1, kind: strikeTag}, true
		}
		do = action{end: end, cut: true}
		if word := roleAt(v, end); word != "" { // another's turn
			do.end += len(word)
			do.then = ending{how: endUntil, until: []string{"ASSISTANT:", "Assistant:"}}
		}
		return do, true
	case !v.Has(l.At, "<s>"):
		return action{}, false
	}
	end := l.At + len("<s>")
	near := v.Within(end, maxStrike)
	closing := -1
	for at := end; !near.Ended(at) && near.S[at] != '\n'; at++ {
		if near.S[at] == '<' && near.Has(at, "</s>") {
			closing = at + len("</s>")
			break
		}
	}
	v.Join(near)
	isMark := v.Has(end, "[INST]") || !l.said && (closing < 0 || endsText(v, closing))
	if isMark {
		return action{end: end, cut: true}, true
	}
	return action{end: end, mention: 1, kind: strikeTag}, true
}

// endsText reports whether nothing that is shown stands behind a position.
func endsText(v *ahead.View, at int) bool {
	at = skipBlank(v, at)
	for word := roleAt(v, at); word != ""; word = roleAt(v, at) {
		at = skipBlank(v, at+len(word))
	}
	return v.Ended(at) || tokenAhead(v, at) || v.Has(at, "<|")
}

// maxToolName is the number of bytes of a name or an id in a call.
const maxToolName = 128

// nameEnd returns the position after the name of a tool at a position.
func nameEnd(v *ahead.View, at int) int {
	near := v.Within(at, maxToolName)
	end := at
	for !near.Ended(end) {
		c := near.S[end]
		if c >= utf8.RuneSelf || !isWord(rune(c)) && c != '-' && c != '.' && c != ':' {
			break
		}
		end++
	}
	v.Join(near)
	return end
}

// toolCalls decides about [TOOL_CALLS], behind which a list of calls stands, or a name and its
// arguments. Without these it is a mention.
func (l *lexer) toolCalls(v *ahead.View) (do action, ok bool) {
	at := l.At + len(toolsMark)
	if do, ok = callOf(v, skipBlank(v, at)); ok {
		return do, true
	}
	end := nameEnd(v, at)
	if end == at {
		return action{}, false
	}
	do = action{cut: true}
	if at = end; v.Has(at, idMark) {
		at = nameEnd(v, at+len(idMark))
	}
	isCall := v.Has(at, argsMark)
	if isCall {
		at += len(argsMark)
	}
	if args := skipBlank(v, at); v.Byte(args) == '{' {
		do.end, do.then.how = args, endJSON
		return do, true
	}
	do.end = at
	return do, isCall
}

// callOf decides about the word of a call, behind which its arguments may start at a position.
func callOf(v *ahead.View, at int) (do action, ok bool) {
	if end := breaksOff(v, at); end > 0 {
		return action{end: end, cut: true}, true
	}
	return action{end: at, cut: true, then: ending{how: endJSON}}, startsJSON(v, at)
}

// functoolsCall decides about the word of a call of Phi, behind which a list of objects starts at a
// position. With anything else in brackets it is a word of Python.
func functoolsCall(v *ahead.View, at int) (do action, ok bool) {
	do, ok = callOf(v, at)
	if !ok || do.then.how != endJSON {
		return do, ok
	}
	next := skipBlank(v, at+1)
	return do, v.Ended(next) || v.S[next] == '{' || v.S[next] == ']'
}

// referenceEnd returns the position after the reference of ChatGPT at a position, such as
// :contentReference[oaicite:0]{index=0}, or 0 if there is none. A second ':' before it, and a
// missing index, do not count.
func referenceEnd(v *ahead.View, at int) int {
	const digits = "0123456789"
	if v.Byte(at+1) == ':' {
		at++
	}
	if !v.Has(at, reference) {
		return 0
	}
	near := v.Within(at+len(reference), maxReference)
	defer func() { v.Join(near) }()
	end := near.Skip(at+len(reference), digits)
	if end == at+len(reference) || near.Byte(end) != ']' {
		return 0
	}
	end++
	if index := "{index="; near.Has(end, index) {
		if i := near.Skip(end+len(index), digits); near.Byte(i) == '}' {
			return i + 1
		}
	}
	return end
}

// maxReference is the number of bytes of the numbers of a reference.
const maxReference = 48

// recipient decides about >>>, behind which the recipient of a text stands, alone on its line: all,
// or a tool, if its arguments follow.
func (l *lexer) recipient(v *ahead.View) (do action, ok bool) {
	if !v.Has(l.At, recipient) || l.lastRune() == '>' {
		return action{}, false
	}
	at := l.At + len(recipient)
	end := nameEnd(v, at)
	if end == at || v.Byte(end) != '\n' {
		return action{}, false
	}
	do = action{end: end + 1, cut: true}
	if v.S[at:end] == "all" {
		return do, true
	}
	do.then.how = endJSON
	return do, v.Byte(end+1) == '{'
}

// citationEnd returns the position after the citation in lenticular brackets at a position, which
// has a number and a dagger, or 0 if there is none.
func citationEnd(v *ahead.View, at int) int {
	if !v.Has(at, citeOpen) {
		return 0
	}
	near := v.Within(at, maxCitation)
	defer func() { v.Join(near) }()
	i := near.Skip(at+len(citeOpen), "0123456789:")
	if i == at+len(citeOpen) || !near.Has(i, citeDagger) {
		return 0
	}
	for i += len(citeDagger); !near.Ended(i) && near.S[i] != '\n'; i++ {
		if near.S[i] == citeClose[0] && near.Has(i, citeClose) {
			return i + len(citeClose)
		}
	}
	return 0
}

// nextRoles are what stands at the beginning of the next turn of a person, in templates without
// marks.
var nextRoles = [...]string{
	"User:", "USER:", "Human:", "HUMAN:", "### Instruction:", "### Human:", "### User:",
}

// roleAt returns the one of nextRoles that stands at a position, or "".
func roleAt(v *ahead.View, at int) string {
	for _, word := range nextRoles {
		if v.Has(at, word) {
			return word
		}
	}
	return ""
}

// wordLen returns the length of the word with which a text begins, or 0. whole is false if the text
// is the beginning of one.
func wordLen(s string, words []string) (n int, whole bool) {
	for _, word := range words {
		if strings.HasPrefix(s, word) {
			return len(word), true
		}
		if strings.HasPrefix(word, s) {
			return 0, false
		}
	}
	return 0, true
}

// thinkSwitches are what templates put behind a question to turn thoughts off. Models repeat them
// behind the end of a sentence.
var thinkSwitches = []string{"/nothink", "/no_think"}

// endsSentence reports whether a sentence ends with a byte.
func endsSentence(c byte) bool { return c == '.' || c == '!' || c == '?' || c == ')' }

// cutRoles removes what follows the last line of a text: the next turn of a person, of which
// nothing is said, and a switch of the template.
func cutRoles(text string) string {
	for {
		text = strings.TrimRightFunc(text, isOuterSpace)
		was := len(text)
		for _, word := range nextRoles {
			if rest, ok := strings.CutSuffix(text, "\n"+word); ok {
				text = rest
			}
		}
		for _, word := range thinkSwitches {
			rest, ok := strings.CutSuffix(text, word)
			if ok && rest != "" && endsSentence(rest[len(rest)-1]) {
				text = rest
			}
		}
		if len(text) == was {
			return text
		}
	}
}

// passUntil passes what ends at one of some words, or with the text.
func (e *ending) passUntil(l *lexer) bool {
	longest := 0
	for _, w := range e.until {
		longest = max(longest, len(w))
	}
	for near := longest; ; near += near { // so that a word that is far away costs nothing
		part := l.Buf[l.At:min(l.At+near, len(l.Buf))]
		if i, word := firstOf(part, e.until); i >= 0 {
			if end := l.At + i; e.keeps {
				l.Skip(end)
			} else {
				l.Skip(end + len(word))
			}
			*e = ending{}
			return true
		}
		if l.At+near >= len(l.Buf) {
			break
		}
	}
	if l.Final {
		l.Skip(len(l.Buf))
		return true
	}
	l.Skip(max(l.At, len(l.Buf)-longest+1))
	return false
}

// firstOf returns the position of the first of some words in a text, and the word, or -1.
func firstOf(text string, words []string) (first int, word string) {
	first = -1
	for _, w := range words {
		if i := strings.Index(text, w); i >= 0 && (first < 0 || i < first) {
			first, word = i, w
		}
	}
	return first, word
}

// A lead removes what stands before a text that comes in pieces: white space, and the role that a
// model writes behind two line breaks to begin its turn.
type lead struct {
	begun  bool
	breaks int    // line breaks that were removed right before
	rest   string // the beginning of a rune that may be white space, or of a role
}

const ownRole = "Assistant:"

// write takes the next piece and returns what it has behind the lead.
func (l *lead) write(chunk string, final bool) string {
	if l.begun {
		return chunk
	}
	text := l.rest + chunk
	for {
		trimmed := strings.TrimLeftFunc(text, func(r rune) bool {
			if r == '\n' {
				l.breaks++
			}
			return isOuterSpace(r)
		})
		rest, found := strings.CutPrefix(trimmed, ownRole)
		switch {
		case l.breaks > 1 && found:
			text, l.breaks = rest, 0
			continue
		case final:
		case !utf8.FullRuneInString(trimmed), l.breaks > 1 && strings.HasPrefix(ownRole, trimmed):
			l.rest = trimmed // also of an empty one
			return ""
		}
		l.begun, l.rest = true, ""
		return trimmed
	}
}
