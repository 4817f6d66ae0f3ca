package announce

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// Models put more around a silent token than single marks: a fence that names a language, tags of
// HTML, the keys of a JSON object, the number of an item, a label, a command of TeX, a mark that
// HTML escapes. This file has the forms, and aroundLen alone recognises them. An emoji counts
// behind a token alone, see readTokens: before one it is an answer.

// aroundTags are the names of tags that models put around a token, in lower case.
var aroundTags = wordSet("b i u s em strong code pre p div span br hr li ul ol q blockquote tt kbd " +
	"samp small mark sub sup font center html body h1 h2 h3 h4 h5 h6 text message reply output " +
	"result action say speak silent silence a section article main header footer aside nav details " +
	"summary table thead tbody tr td th caption dl dt dd figure figcaption label abbr cite var ins del " +
	"answer response content final root status")

// lineTags are those of aroundTags in whose place a reader sees the break of a line.
var lineTags = wordSet("p div br hr li ul ol blockquote center html body h1 h2 h3 h4 h5 h6 section " +
	"article main header footer aside nav details summary table tr td dl dt dd figure figcaption")

// quoteTags are those of aroundTags that quote, or show code.
var quoteTags = wordSet("code pre tt kbd samp q var cite abbr")

// aroundEnvironments are environments of TeX and LaTeX, without their '*'.
var aroundEnvironments = wordSet("equation align aligned gather gathered multline math displaymath " +
	"center flushleft flushright quote quotation verbatim document text minipage")

// aroundKeys are the keys of an object whose value is a token, and words beside one.
var aroundKeys = wordSet("action reply response message text content answer output result decision " +
	"type final final_answer status body say role assistant")

// aroundLabels are what stands before a ':' at the beginning of a line.
var aroundLabels = wordSet("answer reply response output final assistant result message decision " +
	"action final_answer final_reply final_response final_output")

// aroundCommands are commands of TeX that show their argument.
var aroundCommands = wordSet("text texttt textbf textit textrm textsf mathrm mathtt mathbf mathsf boxed " +
	"fbox mbox emph operatorname")

// wordSet returns the words of a list.
func wordSet(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

const (
	maxAroundWord = 16  // bytes of a name, a key, a label or a language
	maxAroundTag  = 512 // bytes of the attributes of a tag
	maxItem       = 4   // digits or letters of the number of an item
	maxEntity     = 10  // bytes of a character that HTML escapes

	keycap     = "\ufe0f\u20e3" // behind a digit, makes it an emoji
	keycapMark = '\u20e3'       // the same, also alone
)

// aroundLen returns the length of what may stand around a silent token and stands at a position: a
// mark, or one of the forms. It is 0 for text. prev is the byte before the position, and 0 at the
// beginning of the text.
func aroundLen(v *ahead.View, at int, prev byte) int {
	switch c := v.Byte(at); {
	case c == '`', c == '~':
		return fencedLen(v, at, c, prev)
	case c == '<':
		if n := tagLen(v, at); n > 0 {
			return n
		}
		if v.Byte(at+1) == '/' {
			return 2
		}
		return 1
	case c == '"', c == '\'':
		return max(1, keyLen(v, at, c))
	case c == '/':
		if v.Byte(at+1) == '>' {
			return 2
		}
		return 1
	case c == '&':
		r, n := entityAt(v, at)
		switch {
		case n == 0:
			return 1
		case isDecoration(r) || isIgnored(r):
			return n
		}
		return 0
	case c == '\\':
		return commandLen(v, at)
	case c >= '0' && c <= '9':
		return itemLen(v, at, prev)
	case isLetter(c):
		return max(lettersLen(v, at, prev), labelLen(v, at, prev))
	}
	r, size := v.Rune(at)
	if !isDecoration(r) {
		return 0
	}
	return size
}

// commandLen returns the length of what a backslash at a position begins: a command of TeX with its
// bracket, the beginning or the end of an environment, the break of a line as strings of programs
// have it, or the backslash alone.
func commandLen(v *ahead.View, at int) int {
	name, end := wordAt(v, at+1, "")
	switch {
	case v.Byte(end) != '{':
	case aroundCommands[name]:
		return end + 1 - at
	case name == "begin", name == "end":
		env, after := wordAt(v, end+1, "")
		if v.Byte(after) == '*' {
			after++
		}
		if aroundEnvironments[env] && v.Byte(after) == '}' {
			return after + 1 - at
		}
	}
	if isBreakEscape(v.Byte(at + 1)) {
		return 2
	}
	return 1
}

// isBreakEscape reports whether a backslash before c stands for a break of a line or a tab.
func isBreakEscape(c byte) bool { return c == 'n' || c == 'r' || c == 't' }

// entityAt returns the character that HTML escapes at a position, which has a '&', and the length
// of the escape, or 0.
func entityAt(v *ahead.View, at int) (r rune, n int) {
	end := at + 1
	for end-at < maxEntity && v.Byte(end) != ';' {
		if c := v.Byte(end); !isLetter(c) && (c < '0' || c > '9') && (c != '#' || end > at+1) {
			return 0, 0
		}
		end++
	}
	if v.Byte(end) != ';' {
		return 0, 0
	}
	char := html.UnescapeString(v.S[at : end+1])
	r, size := utf8.DecodeRuneInString(char)
	if size < len(char) {
		return 0, 0
	}
	return r, end + 1 - at
}

// fencedLen returns the length of the fence at a position with the language that it names, or of
// one mark. A silent token is not a language.
func fencedLen(v *ahead.View, at int, mark, prev byte) int {
	end := at
	for end-at < maxFence && v.Byte(end) == mark {
		end++
	}
	if prev == mark || end-at < 3 {
		return 1
	}
	name := v.Skip(end, " \t")
	after := name
	for after-name < maxAroundWord && isLanguage(v.Byte(after)) {
		after++
	}
	line := v.Skip(after, " \t\r")
	if after == name || v.Byte(line) != '\n' {
		return 1
	}
	if n, _ := tokenLen(v.S[name:after]); n > 0 { // also where the text ends behind it
		return 1
	}
	return line - at
}

// tagLen returns the length of the tag at a position, which has a '<', or 0.
func tagLen(v *ahead.View, at int) int {
	end := at + 1
	if v.Byte(end) == '/' {
		end++
	}
	name, after := wordAt(v, end, "")
	if !aroundTags[name] {
		return 0
	}
	for end = after; end-after < maxAroundTag; end++ {
		switch v.Byte(end) {
		case '>':
			return end + 1 - at
		case 0, '<', '\n':
			return 0
		}
	}
	return 0
}

// keyLen returns the length of the key of an object at a position, which has a quote, or of another
// of aroundKeys in quotes, with what stands behind it. It is 0 for anything else.
func keyLen(v *ahead.View, at int, quote byte) int {
	key, end := wordAt(v, at+1, "")
	if !aroundKeys[key] || v.Byte(end) != quote {
		return 0
	}
	end = v.Skip(end+1, " \t\r\n")
	if c := v.Byte(end); c != ':' && c != ',' {
		return 0
	}
	return end + 1 - at
}

// itemLen returns the length of the number of an item at a position, which has a digit, or 0.
func itemLen(v *ahead.View, at int, prev byte) int {
	if !startsItem(prev) {
		return 0
	}
	end := at
	for end-at <= maxItem && v.Byte(end) >= '0' && v.Byte(end) <= '9' {
		end++
	}
	if end-at > maxItem {
		return 0
	}
	return behindItem(v, at, end)
}

// behindItem returns the length of an item from its number at a position to behind the mark at end
// that makes it one, or 0.
func behindItem(v *ahead.View, at, end int) int {
	if v.Byte(end) == '\\' { // Markdown's escape of the mark
		end++
	}
	switch c := v.Byte(end); {
	case c == '.', c == ')', c == ':':
		return end + 1 - at
	case v.Has(end, keycap):
		return end + len(keycap) - at
	case v.Has(end, keycap[len("\ufe0f"):]):
		return end + len(keycap) - len("\ufe0f") - at
	}
	if dash := v.Skip(end, " "); dash > end && v.Byte(dash) == '-' && v.Byte(dash+1) == ' ' {
		return dash + 1 - at
	}
	return 0
}

// lettersLen returns the length of the letter or the Roman number of an item at a position, which
// has a letter, or of the mark of a box that is ticked. It is 0 for anything else.
func lettersLen(v *ahead.View, at int, prev byte) int {
	if prev == '[' && v.Byte(at)|0x20 == 'x' && v.Byte(at+1) == ']' {
		return 1
	}
	if !startsLabel(prev) && prev != '(' {
		return 0
	}
	end := at + 1
	for end-at < maxItem && strings.IndexByte("ivxIVX", v.Byte(at)) >= 0 &&
		v.Byte(end) != 0 && strings.IndexByte("ivxIVX", v.Byte(end)) >= 0 {
		end++
	}
	if c := v.Byte(end); c != '.' && c != ')' {
		return 0
	}
	return end + 1 - at
}

// labelLen returns the length of the label at a position, which has a letter, or 0.
func labelLen(v *ahead.View, at int, prev byte) int {
	if !startsLabel(prev) {
		return 0
	}
	label, end := wordAt(v, at, " ")
	if !aroundLabels[strings.ReplaceAll(label, " ", "_")] {
		return 0
	}
	end = v.Skip(end, "*_` ")
	switch {
	case v.Byte(end) == ':':
		return end + 1 - at
	case v.Has(end, "："):
		return end + len("：") - at
	}
	return 0
}

// wordAt returns the word of letters, digits, '_' and some other characters at a position, in lower
// case, and where it ends. It is "" if it is longer than any that is known.
func wordAt(v *ahead.View, at int, others string) (word string, end int) {
	end = at
	for end-at <= maxAroundWord {
		c := v.Byte(end)
		if !isLetter(c) && (c < '0' || c > '9') && c != '_' &&
			(c == 0 || strings.IndexByte(others, c) < 0) {
			break
		}
		end++
	}
	if end-at > maxAroundWord || end > len(v.S) {
		return "", end
	}
	return strings.ToLower(v.S[at:end]), end
}

// startsItem reports whether the number of an item may stand behind a byte.
func startsItem(prev byte) bool { return prev == 0 || strings.IndexByte("\n\r\t >*_-#(|", prev) >= 0 }

// startsLabel reports whether a label may stand behind a byte.
func startsLabel(prev byte) bool { return prev == 0 || strings.IndexByte("\n*{", prev) >= 0 }

// isLetter reports whether c is a letter of ASCII.
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isLanguage reports whether the name of a language may have a byte.
func isLanguage(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c != 0 && strings.IndexByte("_+#.-", c) >= 0
}

// mayBeAround reports whether a form that aroundLen knows may begin with a letter or a digit.
func mayBeAround(c, prev byte) bool {
	return c >= '0' && c <= '9' && startsItem(prev) ||
		isLetter(c) && (startsLabel(prev) || prev == '(' || prev == '[')
}

// isSilent reports whether a text consists of silent tokens and what stands around them.
func isSilent(text string) bool {
	tokens, ok := readTokens(text)
	return ok && tokens > 0
}

// isAround reports whether a text consists of what stands around a token, without one.
func isAround(text string) bool {
	tokens, ok := readTokens(text)
	return ok && tokens == 0
}

// readTokens returns how many silent tokens a text has. ok is false if it has anything but tokens,
// what stands around them, and emojis behind the first one.
func readTokens(text string) (tokens int, ok bool) {
	v := ahead.View{S: text}
	prev := byte(0)
	for at := 0; at < len(text); {
		n, _ := tokenLen(text[at:])
		if n > 0 {
			tokens++
		} else if n = aroundLen(&v, at, prev); n == 0 {
			r, size := utf8.DecodeRuneInString(text[at:])
			if n = size; tokens == 0 || !isEmoji(r) {
				return 0, false
			}
		}
		prev = prevBehind(prev, text[at:at+n])
		at += n
	}
	return tokens, true
}

// isEmoji reports whether r is a symbol that models put behind a token, or changes the one before
// it.
func isEmoji(r rune) bool {
	const lightest, darkest = '\U0001F3FB', '\U0001F3FF' // tones of skin
	return unicode.Is(unicode.So, r) || r >= lightest && r <= darkest || r == keycapMark
}

// prevBehind returns the byte that aroundLen is told stands before what follows a unit: its last
// one, or that before it if the unit is a blank at the beginning of a line.
func prevBehind(prev byte, unit string) byte {
	if len(unit) == 2 && trimBreak(unit) == "" {
		return ' ' // of which no role of the next turn can stand
	}
	if (unit == " " || unit == "\t") && (prev == 0 || prev == '\n') {
		return prev
	}
	return unit[len(unit)-1]
}
