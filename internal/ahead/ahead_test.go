package ahead_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// view returns a View of a text that has come so far.
func view(text string, final bool) ahead.View {
	c := ahead.Cursor{}
	c.Begin(text, final)
	return c.View()
}

// D5: a View waits exactly if what was read may be another with more of the text.
func TestViewWaitsAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text  string
		read  func(v *ahead.View)
		waits bool
	}{
		"byte":          {"ab", func(v *ahead.View) { v.Byte(1) }, false},
		"end":           {"ab", func(v *ahead.View) { v.Byte(2) }, true},
		"rune":          {"a\u00e4", func(v *ahead.View) { v.Rune(1) }, false},
		"part of one":   {"a\xc3", func(v *ahead.View) { v.Rune(1) }, true},
		"not one":       {"a\xff", func(v *ahead.View) { v.Rune(1) }, false},
		"found":         {"ab", func(v *ahead.View) { v.Any(0, "xb") }, false},
		"not found":     {"ab", func(v *ahead.View) { v.Any(0, "xy") }, true},
		"word":          {"abc", func(v *ahead.View) { v.Has(0, "abc") }, false},
		"other word":    {"abc", func(v *ahead.View) { v.Has(0, "axcde") }, false},
		"part of it":    {"abc", func(v *ahead.View) { v.Has(0, "abcd") }, true},
		"in upper case": {"ABC", func(v *ahead.View) { v.HasFold(0, "abcd") }, true},
		"skipped":       {"  a", func(v *ahead.View) { v.Skip(0, " ") }, false},
		"blanks":        {"   ", func(v *ahead.View) { v.Skip(0, " ") }, true},
		"break":         {"\n", func(v *ahead.View) { v.Break(0) }, false},
		"half a break":  {"\r", func(v *ahead.View) { v.Break(0) }, true},
		"awaited":       {"ab", func(v *ahead.View) { v.Await() }, true},
		"a part": {"abcd", func(v *ahead.View) {
			part := v.Within(0, 3)
			part.Any(0, "x")
			v.Join(part)
		}, false},
		"a part with the end": {"abcd", func(v *ahead.View) {
			part := v.Within(0, 5)
			part.Any(0, "x")
			v.Join(part)
		}, true},
	} {
		v := view(tt.text, false)
		tt.read(&v)
		require.Equal(t, tt.waits, v.Waits(), name)
		v = view(tt.text, true)
		tt.read(&v)
		require.False(t, v.Waits(), "%s: nothing follows", name)
		v = view(tt.text+strings.Repeat("b", ahead.Max), false)
		tt.read(&v)
		require.False(t, v.Waits(), "%s: it looks ahead only so far", name)
	}
}

// D5: a Cursor keeps and replaces the same whatever the pieces are.
func TestCursorInPieces(t *testing.T) {
	t.Parallel()
	const text, want = "one x two x three", "one (e ) two (o ) three"
	for size := 1; size <= len(text); size++ {
		var c ahead.Cursor
		var out strings.Builder
		for at := 0; at <= len(text); at += size {
			if !c.Begin(text[at:min(len(text), at+size)], at+size > len(text)) {
				continue
			}
			for ; c.At < len(c.Buf); c.At++ {
				if c.Buf[c.At] == 'x' {
					tail := c.Tail()
					c.Keep(c.At)
					c.Write("(" + tail[len(tail)-2:] + ")")
					c.Skip(c.At + 1)
					c.At--
				}
			}
			kept, _ := c.Finish(c.At)
			out.WriteString(kept)
		}
		require.Equal(t, want, out.String(), size)
		require.Less(t, c.Held(), 100)
	}
}
