package announce

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// A tail reads a text without scaffolding for silent tokens. It holds what they may consist of and
// stand among: the last run of space, marks and tokens. Of such a run, the first ahead.Max bytes
// count. The zero tail is ready.
type tail struct {
	begun bool   // something that is neither space, nor a mark, nor a token was shown
	run   []byte // held
	full  bool   // the run is longer than ahead.Max
	word  string // held: the beginning of a token or of a rune
}

// write takes the next piece of the text and returns what is shown of it.
func (t *tail) write(piece string) string {
	if t.word != "" {
		piece, t.word = t.word+piece, ""
	}
	var out []byte
	from := 0 // piece[from:i] is shown
	for i := 0; i < len(piece); {
		n := textLen(piece[i:])
		if n > 0 {
			if len(t.run) > 0 {
				out, from = append(append(out, piece[from:i]...), t.run...), i
				t.run, t.full = t.run[:0], false
			}
			t.begun = true
			i += n
			continue
		}
		n, whole := runLen(piece[i:])
		if out = append(out, piece[from:i]...); !whole {
			t.word, from = piece[i:], len(piece)
			break
		}
		t.add(piece[i : i+n])
		i += n
		from = i
	}
	if out == nil {
		return piece[from:]
	}
	return string(append(out, piece[from:]...))
}

// add adds a space, a mark or a token to the run. Space at the beginning of the text is not shown.
func (t *tail) add(unit string) {
	if !t.begun && len(t.run) == 0 {
		unit = trim(unit)
	}
	if t.full = t.full || len(t.run)+len(unit) > ahead.Max; !t.full {
		t.run = append(t.run, unit...)
	}
}

// textLen returns how many bytes at the beginning of a text cannot belong to a run.
func textLen(s string) int {
	n := 0
	for n < len(s) && isPlain[s[n]] {
		n++
	}
	if n > 0 || s == "" {
		return n
	}
	if token, whole := tokenLen(s); !whole || token > 0 {
		return 0
	}
	r, size := utf8.DecodeRuneInString(s)
	if !utf8.FullRuneInString(s) || isDecoration(r) {
		return 0
	}
	return size
}

// runLen returns how many bytes the space, mark or token has with which a text begins. whole is
// false if the text ends before.
func runLen(s string) (n int, whole bool) {
	if n, whole = tokenLen(s); n > 0 || !whole {
		return n, whole
	}
	_, n = utf8.DecodeRuneInString(s)
	return n, utf8.FullRuneInString(s)
}

// isPlain is true for the ASCII characters that are neither a space nor a mark, and with which no
// token begins.
var isPlain = func() (set [256]bool) {
	for c := range utf8.RuneSelf {
		r := rune(c)
		set[c] = !isDecoration(r) && !strings.ContainsRune("NnHhA", r)
	}
	return set
}()

// tokenLen returns the length of the silent token with which a text begins, or 0. whole is false if
// the text is the beginning of a token.
func tokenLen(s string) (n int, whole bool) {
	for _, token := range [...]string{NoReply, HeartbeatOK, AnnounceSkip} {
		n := min(len(s), len(token))
		if s[:n] == token[:n] || token != AnnounceSkip && strings.EqualFold(s[:n], token[:n]) {
			if n < len(token) {
				return 0, false
			}
			return n, true
		}
	}
	return 0, true
}

// close ends the text. It returns the rest of what is shown, and what the model decided.
func (t *tail) close() (string, Decision) {
	rest := strings.TrimRightFunc(string(t.run)+t.word, isOuterSpace)
	if !t.begun {
		if IsBlank(rest) {
			return "", DecisionDefer
		}
		if isTokens(trimDecoration(rest)) {
			return "", DecisionSilent
		}
	}
	before := ""
	if t.begun {
		before = "x" // stands for what was shown
	}
	text, found := cutTokens(before + rest)
	rest = strings.TrimRightFunc(text[len(before):], isOuterSpace)
	if left := trimDecoration(rest); found && !t.begun && (left == "" || isTokens(left)) {
		return "", DecisionSilent
	}
	return rest, DecisionSpeak
}
