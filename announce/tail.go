package announce

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// A tail reads a text without scaffolding for silent tokens and for the beginning of the next turn.
// It holds what they may consist of and stand among: the last run of space, marks, tokens and
// roles. Of such a run, the first ahead.Max bytes count. The zero tail is ready.
type tail struct {
	begun bool   // something that is neither space, nor a mark, nor a token was shown
	run   []byte // held
	full  bool   // the run is longer than ahead.Max
	quiet bool   // the run has a token
	prev  byte   // the last byte that was taken; see prevBehind
	fence fence  // of the code in which the run begins
	word  string // held: the beginning of a token or of a rune
}

// write takes the next piece of the text and returns what is shown of it.
func (t *tail) write(piece string) string {
	piece, t.word = t.word+piece, ""
	var out []byte
	from, run, i := 0, 0, 0 // piece[from:run] is shown, and piece[run:i] belongs to the run
	for i < len(piece) {
		n, isText := 1, false
		prev := t.prev
		switch shape := shapeOf[piece[i]]; {
		case shape == shapeMark:
		case shape == shapeText && !mayBeAround(piece[i], prev):
			isText, n = true, textEnd(piece, i+1)-i
		default:
			var kind unit
			n, kind = unitLen(piece[i:], prev)
			t.quiet = t.quiet || n > 0 && kind == unitToken
			isText = kind == unitText || kind == unitEmoji && !t.quiet
		}
		if n == 0 {
			t.word = piece[i:]
			break
		}
		if isText {
			if !t.begun || len(t.run) > 0 || i-run > ahead.Max {
				out = append(out, piece[from:run]...)
				t.hold(piece[run:i])
				out = append(out, t.run...)
				t.passed(string(t.run))
				t.run, t.full, from = t.run[:0], false, i
			} else {
				t.passed(piece[run:i])
			}
			t.begun, t.quiet = true, false
			run = i + n
		}
		t.prev = prevBehind(prev, piece[i:i+n])
		i += n
	}
	t.hold(piece[run:i])
	if out == nil {
		return piece[from:run]
	}
	return string(append(out, piece[from:run]...))
}

// textBefore stands for text that was shown. A letter may be that of an item, and a mark may stand
// around a token.
const textBefore = "§"

// passed notes the fences of a run that is shown, because text follows.
func (t *tail) passed(run string) {
	if len(run) >= 3 && (strings.Contains(run, "```") || strings.Contains(run, "~~~")) {
		if t.begun {
			run = textBefore + run
		}
		t.fence = t.fence.within(run)
	}
}

// textEnd returns where the text ends, from a position that is not the first on, that cannot belong
// to a run. A letter with which a token begins is text before one that no token has there.
func textEnd(piece string, at int) int {
	for ; at < len(piece); at++ {
		c := piece[at]
		if shapeOf[c] == shapeText {
			continue
		}
		if secondOf[c] == 0 || piece[at-1] == '\n' || at+1 == len(piece) ||
			piece[at+1] >= utf8.RuneSelf || piece[at+1] == '&' || piece[at+1]|0x20 == secondOf[c] {
			break
		}
	}
	return at
}

// secondOf has what stands behind the first letter of a token, in lower case.
var secondOf = [256]byte{'N': 'o', 'n': 'o', 'H': 'e', 'h': 'e', 'A': 'n'}

// hold adds space, marks and tokens to the run. Space at the beginning of the text is not shown.
func (t *tail) hold(more string) {
	if !t.begun && len(t.run) == 0 {
		more = strings.TrimLeftFunc(more, isOuterSpace)
	}
	for more != "" && !t.full {
		n := len(more)
		if len(t.run)+n > ahead.Max {
			n, _ = unitLen(more, '\n')
			n = max(n, 1)
		}
		if t.full = len(t.run)+n > ahead.Max; !t.full {
			t.run, more = append(t.run, more[:n]...), more[n:]
		}
	}
}

// A shape says what a byte may begin.
type shape uint8

const (
	shapeOther shape = iota
	shapeText        // an ASCII character that cannot belong to a run
	shapeMark        // an ASCII character that is a space or a mark
)

var shapeOf = func() (shapes [256]shape) {
	for c := range utf8.RuneSelf {
		switch r := rune(c); {
		case strings.ContainsRune("`~<\"'/#&\\", r): // a form of aroundLen or a role may begin with it
		case isDecoration(r):
			shapes[c] = shapeMark
		case !strings.ContainsRune("NnHhAU", r): // no token and no role begins with it
			shapes[c] = shapeText
		}
	}
	return shapes
}()

// A unit says what unitLen has found.
type unit uint8

const (
	unitMark  unit = iota // it belongs to a run: a mark, a role
	unitToken             // a token
	unitEmoji             // it belongs to a run behind a token
	unitText              // it cannot belong to a run
)

// unitLen returns the length of the rune, token or role with which a text begins, and what it is.
// The length is 0 if the text ends before that is known. prev is the byte before it.
func unitLen(s string, prev byte) (n int, kind unit) {
	if n, whole := tokenLen(s); n > 0 || !whole {
		return n, unitToken
	}
	if prev == '\n' {
		if n, whole := wordLen(s, nextRoles[:]); n > 0 || !whole {
			return n, unitMark
		}
	}
	if endsSentence(prev) {
		if n, whole := wordLen(s, thinkSwitches); n > 0 || !whole {
			return n, unitMark
		}
	}
	if !utf8.FullRuneInString(s) {
		return 0, unitMark
	}
	v := ahead.View{S: s}
	n = aroundLen(&v, 0, prev)
	switch {
	case v.Ends():
		return 0, unitMark
	case n > 0:
		return n, unitMark
	}
	r, n := utf8.DecodeRuneInString(s)
	if isEmoji(r) {
		return n, unitEmoji
	}
	return n, unitText
}

// tokenLen returns the length of the silent token with which a text begins, or 0. whole is false if
// the text is the beginning of a token. A token may be in full-width letters, the '_' in it may
// have a backslash before it, and HTML may escape each character.
func tokenLen(s string) (n int, whole bool) {
	if c := s[0]; strings.IndexByte("NnHhA&", c) < 0 && c != fullWidth[0] {
		return 0, true
	}
	for _, token := range [...]string{NoReply, HeartbeatOK, AnnounceSkip} {
		if n, whole := spelledLen(s, token); n > 0 || !whole {
			return n, whole
		}
	}
	return 0, true
}

const fullWidth = "\uFF01" // and those behind it stand for ASCII from '!' on

// maxToken is the number of bytes of a token in its longest spelling, and more.
const maxToken = len(AnnounceSkip)*(maxEntity+len("\u200E")) + 2

// spelledLen is tokenLen for one token.
func spelledLen(s, token string) (n int, whole bool) {
	for i := range len(token) {
		if i > 0 {
			n += directionLen(s[n:])
		}
		if token[i] == '_' && n < len(s) && s[n] == '\\' {
			n++
			n += directionLen(s[n:])
		}
		if n == len(s) || !utf8.FullRuneInString(s[n:]) {
			return 0, false
		}
		r, size := utf8.DecodeRuneInString(s[n:])
		if r == '&' {
			v := ahead.View{S: s}
			if r, size = entityAt(&v, n); v.Ends() {
				return 0, false
			}
		}
		if r >= '\uFF01' && r <= '\uFF5E' {
			r -= '\uFF01' - '!'
		}
		if r >= 'a' && r <= 'z' && token != AnnounceSkip {
			r -= 'a' - 'A'
		}
		if r != rune(token[i]) {
			return 0, true
		}
		n += size
	}
	return n, true
}

// directionLen returns the length of the mark of direction with which a text begins, or 0. A drawn
// keeps one behind the first letter of a script that is written from right to left, also within a
// token.
func directionLen(s string) int {
	for _, mark := range [...]string{"\u200E", "\u200F", "\u061C"} {
		if strings.HasPrefix(s, mark) {
			return len(mark)
		}
	}
	return 0
}

// close ends the text. It returns the rest of what is shown, and what the model decided.
func (t *tail) close() (string, Decision) {
	rest := cutRoles(string(t.run) + t.word)
	if !t.begun {
		if IsBlank(rest) {
			return "", DecisionDefer
		}
		if isSilent(rest) {
			return "", DecisionSilent
		}
	}
	before := ""
	if t.begun {
		before = textBefore
	}
	text, found := before+rest, false
	for was := -1; was != len(text); {
		was = len(text)
		var cut bool
		text, cut = cutTokens(cutRoles(text), t.fence)
		found = found || cut
	}
	rest = strings.TrimRightFunc(text[len(before):], isOuterSpace)
	if found && !t.begun && (isAround(rest) || isSilent(rest)) {
		return "", DecisionSilent
	}
	return rest, DecisionSpeak
}
