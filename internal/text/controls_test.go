package text_test

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// Every control and every mark of direction is left out, and nothing else is.
func TestWithoutControls(t *testing.T) {
	t.Parallel()
	for r := range rune(0x3000) {
		marks := r == 0x61c || r == 0x200e || r == 0x200f ||
			r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		want := "a" + string(r) + "é"
		if marks || unicode.IsControl(r) && r != '\n' && r != '\t' {
			want = "aé"
		}
		require.Equal(t, want, text.WithoutControls("a"+string(r)+"é"), "%U", r)
	}
	for given, want := range map[string]string{
		"":                                    "",
		"plain\ttext\n[31m":                   "plain\ttext\n[31m",
		"\x1b[1;31mred\x1b[0m \u009b4mline":   "red line",
		"\x1b[?25l\x1b[2 q\x1b[>c\x1b[!p.":    ".",
		"\x1b]0;title\a\x1b]8;;x\x1b\\link":   "link",
		"\u009d0;t\u009c\x1bP1$x\x1b\\dcs":    "dcs",
		"\x1b(B\x1b=\x1b7\x1bcM\x1bM":         "M",
		"\x1b]0;it never ends\nmore":          "0;it never ends\nmore",
		"\x1b[\x1b[\x1b[0m31mx\x1b":           "31mx",
		"\x1b\x1b[0m[31m":                     "[31m",
		"\x1b]52;c;aGk=\x1b[0m rest":          "52;c;aGk= rest",
		"a\xffb\x9b31m":                       "a\ufffdb\ufffd31m",
		"pass\u200eword \u202egnp.exe\u202c!": "password gnp.exe!",
		"a\r\nb\x00c":                         "a\nbc",
	} {
		got := text.WithoutControls(given)
		require.Equal(t, want, got, "%q", given)
		require.Equal(t, got, text.WithoutControls(got))
	}
}
