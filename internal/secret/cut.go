package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// A text that is shown is masked first and cut then: a cut leaves the head of a secret, which no
// mask knows any more. This file has what must cut first: what a session is to keep as it was said,
// and what an error repeats of what was given.

// reach is how many bytes on each side of a cut Cut looks at. A secret has up to 4,096, and takes
// more where it is escaped.
const reach = 8 << 10

// Cut returns the beginning of s, of at most limit bytes, that ends within no secret: where limit
// would be within one, it ends before it. What it returns is not masked. A negative limit cuts
// nothing.
func Cut(mask func(string) string, s string, limit int) string {
	if limit < 0 || len(s) <= limit {
		return s
	}
	head := text.Cut(s, limit)
	from, to := text.Cut(s, max(len(head)-reach, 0)), text.Cut(s, len(head)+reach)
	whole := mask(to[len(from):])
	for back := 0; back < len(head)-len(from); back = max(1, 2*back) {
		at := len(text.Cut(s, len(head)-back))
		if at < len(from) {
			break
		}
		if mask(s[len(from):at])+mask(to[at:]) == whole {
			return s[:at]
		}
	}
	return from
}

// Bound is [text.Bound] that ends what it keeps within no secret, see Cut.
func Bound(mask func(string) string, s string, limit int) string {
	bound := text.Bound(s, limit)
	if bound == s {
		return s
	}
	n := 0
	for n < len(bound) && bound[n] == s[n] {
		n++
	}
	return Cut(mask, s, n) + bound[n:]
}

// Given are texts that a caller or a model gave and that have secrets. An error that repeats them
// may have cut them, in the middle of a secret, and changed their letter case. The zero Given are
// none.
type Given struct{ hidden []hidden }

// hidden is a stretch of a text that a mask does not show, after what stands before it.
type hidden struct{ before, part string }

// Of what is shown of a stretch, what has less bytes than shownLeast is not looked for, after at
// most shownBefore bytes of what stands before it.
const (
	shownLeast  = 4
	shownBefore = 16
)

// GivenOf returns those of the texts that have secrets.
func GivenOf(mask func(string) string, texts ...string) (g Given) {
	for _, s := range texts {
		if s != "" && mask(s) != s {
			g.add(mask, s)
		}
	}
	return g
}

// GivenIn is GivenOf for the names and the strings of a JSON text, such as the arguments of a call.
func GivenIn(mask func(string) string, args []byte) Given {
	var texts []string
	for d := json.NewDecoder(bytes.NewReader(args)); ; {
		token, err := d.Token()
		if err != nil {
			if !errors.Is(err, io.EOF) { // it is not JSON, and looked at as it is
				texts = append(texts, string(args))
			}
			return GivenOf(mask, texts...)
		}
		if s, ok := token.(string); ok {
			texts = append(texts, s)
		}
	}
}

// add notes what a mask hides of a text, in each form in which an error repeats one.
func (g *Given) add(mask func(string) string, s string) {
	for _, form := range []string{s, strings.TrimSpace(s), text.Line(s)} {
		quoted := strconv.Quote(form)
		written, _ := json.Marshal(form) // a string has a JSON text
		twice, _ := json.Marshal(quoted)
		for _, f := range []string{
			form, quoted[1 : len(quoted)-1], string(written[1 : len(written)-1]),
			string(bytes.Trim(twice, `"`)),
		} {
			masked := mask(f)
			if masked == f {
				continue
			}
			h := hiddenIn(f, masked)
			if len(h.part) >= shownLeast && !slices.Contains(g.hidden, h) {
				g.hidden = append(g.hidden, h)
			}
		}
	}
}

// hiddenIn returns the stretch from the first to the last byte of a text that its masked form does
// not have.
func hiddenIn(s, masked string) hidden {
	from := 0
	for from < min(len(s), len(masked)) && s[from] == masked[from] {
		from++
	}
	to := len(s)
	for end := len(masked); to > from && end > from && s[to-1] == masked[end-1]; end-- {
		to--
	}
	return hidden{before: s[max(from-shownBefore, 0):from], part: s[from:to]}
}

// Hide returns a text in which "***" stands for what it shows of the hidden stretches, from their
// beginning on and in any letter case.
func (g Given) Hide(said string) string {
	for _, h := range g.hidden {
		head := lowerASCII(h.before + h.part[:shownLeast])
		for at := 0; ; {
			i := strings.Index(lowerASCII(said[at:]), head)
			if i < 0 {
				break
			}
			from := at + i + len(h.before)
			n := shownLeast
			for n < len(h.part) && from+n < len(said) &&
				lowerByte(said[from+n]) == lowerByte(h.part[n]) {
				n++
			}
			said = said[:from] + "***" + said[from+n:]
			at = from + len("***")
		}
	}
	return said
}

// lowerASCII returns s with small letters. It has as many bytes as s.
func lowerASCII(s string) string {
	lower := []byte(s)
	for i, c := range lower {
		lower[i] = lowerByte(c)
	}
	return string(lower)
}

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
