package announce

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
	"github.com/offshoot-sdk/offshoot/internal/enum"
)

// The silent tokens are the words by which a model chooses to say nothing. They count in the
// visible text only, see [Visible].
const (
	NoReply      = "NO_REPLY"      // counts in any letter case
	HeartbeatOK  = "HEARTBEAT_OK"  // that nothing needs attention; counts in any letter case
	AnnounceSkip = "ANNOUNCE_SKIP" // counts in this letter case only
)

// A Decision says what a turn wants done with its text. It is the typed form of the silent
// tokens. The zero Decision means that none was made.
type Decision uint8

const (
	// DecisionSpeak says that the turn has a visible text for its reader.
	DecisionSpeak Decision = iota + 1
	// DecisionSilent says that the model chose to say nothing. Nothing is announced, and a
	// requester that waits for the run is released.
	DecisionSilent
	// DecisionDefer says that the turn has no visible text and did not choose silence either. It
	// only thought, called tools or waits for other runs. The answer is still owed: for a run
	// that ends like this, Fallback selects one from what the run recorded.
	DecisionDefer
)

var decisionNames = [...]string{"none", "speak", "silent", "defer"}

// String returns the word for d, such as "silent".
func (d Decision) String() string { return enum.String(decisionNames[:], "Decision", d) }

// MarshalText returns the word for d. A value that is not a Decision is an error.
func (d Decision) MarshalText() ([]byte, error) {
	return enum.Marshal(decisionNames[:], "announce", "decision", d)
}

// UnmarshalText sets d to the Decision that text is the word for, in any letter case of ASCII.
func (d *Decision) UnmarshalText(text []byte) error {
	return enum.Unmarshal(decisionNames[:], "announce", "decision", text, d)
}

// Decide reads a model's reply. It returns [DecisionSilent] if the visible text consists of silent
// tokens, [DecisionDefer] if nothing is visible, and else [DecisionSpeak]. See [Visible] for the
// rules.
func Decide(reply string) Decision {
	_, d := readReply(reply)
	return d
}

// Skips reports whether a reply is silent and says [AnnounceSkip]. Such a reply takes back what
// earlier turns of the run answered; [NoReply] and [HeartbeatOK] do not.
func Skips(reply string) bool {
	if Decide(reply) != DecisionSilent {
		return false
	}
	text := Sanitize(reply)
	for at := range text {
		if n, _ := spelledLen(text[at:], AnnounceSkip); n > 0 {
			return true
		}
	}
	return false
}

// Visible returns the text of a model's reply that a person may see. ok is false, and the text
// empty, if the model chose silence or said nothing that a reader would see.
//
// Visible sanitizes the reply, see [Sanitize], and then reads it for the silent tokens [NoReply],
// [HeartbeatOK] and [AnnounceSkip]:
//
//   - A reply is silent if it consists of tokens. NoReply and HeartbeatOK count in any letter case,
//     AnnounceSkip only as it is written. Outer space, invisible characters, quotes, brackets,
//     emphasis, punctuation, and the marks and numbers of lists, headings and quotations around
//     them are ignored, and so are fences, tags of HTML, labels such as Answer:, an object whose
//     value is the token, the marks and environments of formulas, the break of a line that is
//     written as an escape, emojis behind the token, and a backslash before the '_'. Letters may
//     have full width, and HTML may escape each character.
//   - A token at the end of a text, after a space or a '*', is removed. So are last lines that
//     consist of tokens, and a token behind a sentence in brackets, in emphasis, in tags or before
//     a full stop. In quotes or code, the token may be what the text is about, and stays.
//   - A token inside a sentence or a word is text.
//   - The beginning of a person's turn, such as Human:, is removed if it is the last line.
//
// Of a run of space, marks and tokens, the first 16 KB count; the rest of it is not shown. [Stream]
// is for a reply that comes in pieces.
func Visible(reply string) (text string, ok bool) {
	text, d := readReply(reply)
	return text, d == DecisionSpeak
}

// readReply returns the visible text of a reply and the decision. The text is empty unless the
// decision is DecisionSpeak.
func readReply(reply string) (string, Decision) { return readTagged(reply, nil) }

// readTagged is readReply. It adds the reply tags of the reply to tags, unless that is nil.
func readTagged(reply string, tags *ReplyTags) (string, Decision) {
	var t tail
	text := stripAll(reply, tags)
	shown := t.write(text)
	rest, d := t.close()
	if whole := len(shown) + len(rest); whole <= len(text) && text[:whole] == shown+rest {
		return text[:whole], d
	}
	return shown + rest, d
}

// cutTokens removes the silent tokens at the end of a text. opened is the fence in which the text
// begins. found is false if there was none.
func cutTokens(text string, opened fence) (rest string, found bool) {
	for {
		trimmed, ok := cutToken(text)
		if !ok {
			trimmed, ok = cutLine(text)
		}
		if !ok {
			trimmed, ok = cutAside(text)
		}
		if !ok {
			trimmed, ok = cutClosed(text)
		}
		if !ok {
			return text, found
		}
		at := strings.LastIndexByte(trimmed, '\n') + 1
		if at > 0 && isAround(trimmed[at:]) {
			trimmed = trimmed[:at] // the mark of a list before the token
		}
		text = cutOpenings(trimEnd(trimmed), opened)
		found = true
	}
}

// cutLine removes the last line of a text if it is silent. What stands around a token is ignored
// only where nothing else is on its line: "say NO_REPLY." is a sentence.
func cutLine(text string) (rest string, ok bool) {
	at := strings.LastIndexByte(text, '\n') + 1
	return text[:at], isSilent(text[at:])
}

// cutAside removes a token behind a sentence from the end of a text. The token is a sentence of its
// own, or stands in brackets, emphasis or tags, or on a line that a tag begins. A token in quotes
// or code may be what the text is about.
func cutAside(text string) (rest string, ok bool) {
	text = trimClosings(trimBehind(text))
	n := tokenAtEnd(text)
	if n == 0 {
		return "", false
	}
	text = text[:len(text)-n]
	rest = strings.TrimRight(text, "*_([$<")
	isLine := false
	for {
		n := tagAtEnd(rest)
		if n == 0 || closesTag(rest[len(rest)-n:]) {
			break
		}
		isLine = isLine || lineTags[nameOfTag(rest[len(rest)-n:])]
		rest = strings.TrimRight(rest[:len(rest)-n], "*_([$ \t")
	}
	rest = trimEnd(rest)
	said := rest
	for n := tagAtEnd(said); n > 0; n = tagAtEnd(said) {
		isLine = isLine || lineTags[nameOfTag(said[len(said)-n:])]
		said = strings.TrimRight(said[:len(said)-n], " \t")
	}
	r, _ := utf8.DecodeLastRuneInString(said)
	return rest, len(rest) < len(text) && (isLine || strings.ContainsRune(".!?…。！？", r)) ||
		len(said) < len(rest) && isLine
}

// trimClosings removes tags, and what else may stand behind a token after a sentence, from the end
// of a text.
func trimClosings(text string) string {
	for {
		n := tagAtEnd(text)
		if n == 0 {
			r, size := utf8.DecodeLastRuneInString(text)
			if !strings.ContainsRune("*_)].!。！$&%>/", r) {
				return text
			}
			n = size
		}
		text = text[:len(text)-n]
	}
}

// tagAtEnd returns the length of the tag that a text ends with, or 0. It is 0 for one around what a
// text may be about.
func tagAtEnd(text string) int {
	if !strings.HasSuffix(text, ">") {
		return 0
	}
	near := text[max(0, len(text)-maxAroundTag-maxAroundWord-3):]
	at := strings.LastIndexByte(near, '<')
	if at < 0 {
		return 0
	}
	v := ahead.View{S: near}
	if n := tagLen(&v, at); at+n == len(near) && !quoteTags[nameOfTag(near[at:])] {
		return n
	}
	return 0
}

// nameOfTag returns the name of a tag.
func nameOfTag(tag string) string {
	v := ahead.View{S: tag}
	name, _ := wordAt(&v, len(tag)-len(strings.TrimLeft(tag, "</")), "")
	return name
}

// closesTag reports whether a tag closes another.
func closesTag(tag string) bool { return strings.HasPrefix(tag, "</") }

// maxClosed is how many lines of brackets may stand around a token.
const maxClosed = 8

// A bracketing is what the lines before a token open and those behind it close.
type bracketing uint8

const (
	noBracketing bracketing = iota
	inFence
	inObject
	inTag
	inFormula
)

// cutClosed removes silent lines from the end of a text that have lines of brackets around them: a
// fence, an object, tags. Each line behind the token closes what a line before it opens.
func cutClosed(text string) (rest string, ok bool) {
	var closed []bracketing
	for len(closed) < maxClosed {
		text = strings.TrimRightFunc(text, isIgnored)
		at := strings.LastIndexByte(text, '\n') + 1
		kind := closedBy(text[at:])
		if kind == noBracketing {
			break
		}
		closed, text = append(closed, kind), text[:at]
	}
	at := strings.LastIndexByte(text, '\n') + 1
	if len(closed) == 0 || !isSilent(text[at:]) {
		return "", false
	}
	for len(closed) > 0 {
		text = strings.TrimRightFunc(text[:at], isIgnored)
		at = strings.LastIndexByte(text, '\n') + 1
		switch kind := closed[len(closed)-1]; {
		case kind == openedBy(text[at:]), kind == inFormula && opensFormula(text[at:]):
		default:
			return "", false
		}
		closed = closed[:len(closed)-1]
	}
	return text[:at], true
}

// closedBy returns what a line closes that has nothing else.
func closedBy(line string) bracketing {
	line = strings.TrimFunc(line, isIgnored)
	switch {
	case line == "":
		return noBracketing
	case isFence(line) && strings.Trim(line, line[:1]) == "":
		return inFence
	case strings.Trim(line, "}],; ") == "":
		return inObject
	case strings.HasPrefix(line, "</") && isAround(line):
		return inTag
	case line == "$$", line == `\]`, line == `\)`,
		strings.HasPrefix(line, `\end{`) && isAround(line):
		return inFormula
	}
	return noBracketing
}

// opensFormula reports whether a line opens a formula and has nothing else. A "$$" may as well
// close one, so that only a line behind it tells.
func opensFormula(line string) bool {
	line = strings.TrimFunc(line, isIgnored)
	return line == "$$" || line == `\[` || line == `\(`
}

// openedBy returns what a line opens that has nothing else.
func openedBy(line string) bracketing {
	line = strings.TrimFunc(line, isIgnored)
	switch {
	case line == "":
		return noBracketing
	case isFence(line):
		name := strings.TrimSpace(strings.TrimLeft(line, line[:1]))
		isName := func(r rune) bool { return r < utf8.RuneSelf && isLanguage(byte(r)) }
		if strings.TrimFunc(name, isName) == "" {
			return inFence
		}
	case strings.Trim(line, "{[ ") == "":
		return inObject
	case strings.HasPrefix(line, `\begin{`) && isAround(line):
		return inFormula
	case line[0] == '<' && !strings.HasPrefix(line, "</") && isAround(line) && len(line) > 1:
		return inTag
	}
	return noBracketing
}

// isFence reports whether a line begins with a fence.
func isFence(line string) bool {
	return strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")
}

// cutOpenings removes lines from the end of a text that open what would be empty without the token
// that stood behind them, at most maxClosed. A fence that closes code stays.
func cutOpenings(text string, opened fence) string {
	for range maxClosed {
		at := strings.LastIndexByte(text, '\n') + 1
		switch openedBy(text[at:]) {
		case noBracketing:
			return text
		case inFence:
			if opened.within(text[:at]) != (fence{}) {
				return text
			}
		case inObject, inTag, inFormula:
		}
		if at == 0 {
			return text
		}
		text = strings.TrimRightFunc(text[:at], isIgnored)
	}
	return text
}

// cutToken removes one token from the end of a text, the asterisks before it, and the emojis behind
// it. ok is false if the text does not end with a token, or if the token is glued to what stands
// before it.
func cutToken(text string) (rest string, ok bool) {
	text = trimBehind(text)
	n := tokenAtEnd(text)
	if n == 0 {
		return "", false
	}
	rest = text[:len(text)-n]
	if bare := strings.TrimRightFunc(rest, isInvisible); strings.HasSuffix(bare, "*") {
		return strings.TrimRight(bare, "*"), true
	}
	if rest != trimBreak(rest) {
		return rest, true
	}
	r, _ := utf8.DecodeLastRuneInString(rest)
	return rest, rest == "" || isIgnored(r)
}

// tokenAtEnd returns the length in bytes of the silent token that a text ends with, or 0.
func tokenAtEnd(text string) int {
	for n := min(len(text), maxToken); n >= len(NoReply); n-- {
		if got, _ := tokenLen(text[len(text)-n:]); got == n {
			return n
		}
	}
	return 0
}

// isIgnored reports whether r has no meaning next to a token: white space, invisible characters,
// NUL.
func isIgnored(r rune) bool { return isOuterSpace(r) || isInvisible(r) || r == 0 }

// trimEnd removes what has no meaning next to a token from the end of a text.
func trimEnd(text string) string {
	for {
		rest := trimBreak(strings.TrimRightFunc(text, isIgnored))
		if len(rest) == len(text) {
			return rest
		}
		text = rest
	}
}

// trimBehind removes what has no meaning behind a token from the end of a text: what trimEnd
// removes, and emojis.
func trimBehind(text string) string {
	for {
		rest := trimBreak(strings.TrimRightFunc(text, isBehindToken))
		if key, ok := strings.CutSuffix(rest, keycap[len("\ufe0f"):]); ok {
			key = strings.TrimSuffix(key, "\ufe0f")
			if n := len(key); n > 0 && strings.IndexByte("0123456789#*", key[n-1]) >= 0 {
				rest = key[:n-1]
			}
		}
		if len(rest) == len(text) {
			return rest
		}
		text = rest
	}
}

// trimBreak removes the break of a line from the end of a text that a model has written as an
// escape.
func trimBreak(text string) string {
	n := len(text) - len(`\n`)
	if n >= 0 && text[n] == '\\' && isBreakEscape(text[n+1]) {
		return text[:n]
	}
	return text
}

// isBehindToken reports whether r has no meaning behind a token at the end of a text.
func isBehindToken(r rune) bool {
	return r != keycapMark && (isIgnored(r) || isShapeless(r) || isEmoji(r))
}

// decoration has quotes, brackets, emphasis, punctuation, and the marks of lists, headings and
// quotations.
const decoration = "*_~`\"'.,;:!?()<>[]{}-|\\/+#=$%&@^“”‘’«»‹›„‚「」『』。，！？：；、•·–—…¡¿‼⁇⁈⁉‽〰" +
	"（）［］｛｝【】〔〕〈〉《》＜＞＂＇＊．％＆＠＃‐‑←↑→↓↔⇒"

// isDecoration reports whether models put r around a token.
func isDecoration(r rune) bool {
	return isShapeless(r) || strings.ContainsRune(decoration, r)
}
