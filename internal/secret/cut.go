package secret

import (
	"github.com/offshoot-sdk/offshoot/internal/text"
)

// A text that is shown is masked first and cut then: a cut leaves the head of a secret, which no
// mask knows any more. This file has what must cut first: what a session is to keep as it was said.

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

// Head returns at least limit bytes of the beginning of what mask makes of s, without a look at all
// of a long s: of what it looks at, the end is left out, which may be the head of a secret.
func Head(mask func(string) string, s string, limit int) string {
	looked := text.Cut(s, limit+2*reach)
	shown := mask(looked)
	if len(looked) == len(s) {
		return shown
	}
	return text.Cut(shown, max(len(shown)-reach, 0))
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
