package agentctx

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

var cutSeeds = []string{
	"", "a", "plain ascii text of more than eight bytes", "é漢😀", strings.Repeat("😀", 40),
	strings.Repeat("ab\n", 100),
	"👩‍👩‍👧‍👦 family", "e\u0301\u0301\u0301", strings.Repeat("x", 200) + "é",
}

func FuzzCut(f *testing.F) {
	for i, s := range cutSeeds {
		f.Add(s, i*7)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if !utf8.ValidString(s) {
			t.Skip()
		}
		runes := utf8.RuneCountInString(s)
		assert.Equal(t, runes, countRunes(s))
		limit %= 2 * (runes + 100)
		got := cutMiddle("AGENTS.md", s, runes, limit)
		assert.True(t, utf8.ValidString(got))
		assert.LessOrEqual(t, utf8.RuneCountInString(got), max(limit, 0))
		switch {
		case runes <= limit:
			assert.Equal(t, s, got)
		case limit > 0:
			head, tail, ok := strings.Cut(
				got,
				cutMarker(
					"AGENTS.md", runes-(limit-countRunes(cutMarker("AGENTS.md", runes, runes))),
					runes,
				),
			)
			if !ok {
				i := strings.LastIndex(got, "…")
				assert.GreaterOrEqual(t, i, 0)
				if strings.Count(s, "…") > 0 {
					return // cannot tell which is ours
				}
				head, tail = got[:i], got[i+len("…"):]
			}
			assert.True(t, strings.HasPrefix(s, head))
			assert.True(t, strings.HasSuffix(s, tail))
		}
	})
}

func FuzzFence(f *testing.F) {
	for _, s := range []string{"", "```", "~~~~", "a`b", "````\n## x\n````", "\n\n", "`~`~`~"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := fence(s)
		assert.GreaterOrEqual(t, len(line), 3)
		assert.Empty(t, strings.Trim(line, "`"))
		assert.NotContains(t, s, line)
		assert.NotContains(t, s, strings.Repeat("~", len(line)))
	})
}

func FuzzLiteral(f *testing.F) {
	for _, s := range []string{
		"", " a  b ", "a\nb", "\u2028", "\u202e", "\xff", "`x`",
		strings.Repeat("é", 1200), strings.Repeat("a ", 700), "a\x00b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := sanitize(s)
		assert.Equal(t, got, sanitize(got), "clean is clean")
		assert.True(t, utf8.ValidString(got))
		assert.LessOrEqual(t, utf8.RuneCountInString(got), maxLiteral)
		assert.Equal(t, strings.TrimSpace(got), got)
		assert.False(t, strings.ContainsAny(got, "\n\r\t\v\f\u0085\u2028\u2029\u202e\x00\x1b"))
		if isPlainASCII(s) {
			assert.Equal(t, s, got)
		}
		q := quote(s)
		assert.Contains(t, []int{0, 2}, strings.Count(q, "`"))
		if b := wordOrQuote(s); strings.ContainsAny(b, " |=#") {
			assert.Equal(t, q, b)
		}
	})
}
