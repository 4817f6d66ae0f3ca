package text_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// Every control and every mark of direction is left out, and nothing else is.
func TestWithoutControls(t *testing.T) {
	t.Parallel()
	for r := range rune(0x3000) {
		want := "a" + string(r) + "é"
		switch {
		case r == '\r', r == 0x85, r == 0x2028, r == 0x2029:
			want = "a\né"
		case r == '\n', r == '\t':
		case text.IsUndrawn(r), unicode.IsControl(r):
			want = "aé"
		}
		require.Equal(t, want, text.WithoutControls("a"+string(r)+"é"), "%U", r)
	}
	for _, stays := range []string{
		"1\ufe0f\u20e3 #\ufe0f", "\u2764\ufe0f\u200d\U0001f525", "\u0645\u06cc\u200c\u062e",
		"\U0001f3f4\U000e0067\U000e0062\U000e007f", "\u1820\u180b", "\u00a0x\u2003y",
	} {
		require.Equal(t, stays, text.WithoutControls(stays))
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
		"a\r\rb\r":                            "a\n\nb\n",
		"pa\ufe0fss\u200dw\u200bo\u034frd":    "password",
	} {
		got := text.WithoutControls(given)
		require.Equal(t, want, got, "%q", given)
		require.Equal(t, got, text.WithoutControls(got))
	}
}

// escapes are sequences that a text may hold, and what only looks like one.
var escapes = []string{
	"\x1b[0m", "\x1b[38;5;1m", "\u009b31m", "\x1b]0;title\a", "\x1b]8;;http://x\x1b\\", "\x1bPq\u009c",
	"\x1b(B", "\x1b#8", "\x1b", "\x1b[", "\x1b[12", "\x1b]open", "\x1b]a\nb", "\x9b", "\xff\xfe", "\xe2\x82",
	"\u202e", "\u200f", "\r", "\r\n", "\u2028", "\u200d", "\ufe0f", "\u200b", "\x00", "\u0085", "\u00a9", "a", "\n", "é", "漢", "\x1b\x1b[0m", "\x1b]\x1b",
	"\x1b[" + strings.Repeat("1", 5000), "\x1b]" + strings.Repeat("t", 5000) + "\a",
}

// What comes in pieces is what the whole is, however it is cut.
func TestControlsInPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	for range 500 {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteString(escapes[rng.IntN(len(escapes))])
		}
		checkPieces(t, b.String(), rng)
	}
}

func checkPieces(t *testing.T, s string, rng *rand.Rand) {
	t.Helper()
	want := text.WithoutControls(s)
	for _, most := range []int{1, 3, 1 + len(s)} {
		var c text.Controls
		got := ""
		for rest := s; rest != ""; {
			n := min(1+rng.IntN(most), len(rest))
			got += c.Write(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, want, got+c.Close(), "%q", s)
	}
	require.NotContains(t, want, "\x1b")
	require.True(t, utf8.ValidString(want))
}

func FuzzControls(f *testing.F) {
	for _, s := range escapes {
		f.Add(s+"x"+s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		checkPieces(t, s, rand.New(rand.NewPCG(seed, 1))) //nolint:gosec // repeatable
	})
}

// An escape in front of a character that is not a function of terminals takes nothing with it, so
// that it cannot hide the beginning of a name, a tag or a secret.
func TestEscapeTakesNoText(t *testing.T) {
	t.Parallel()
	for c := byte('0'); c <= '~'; c++ {
		want := "a" + string(c) + "b"
		if strings.IndexByte("6789=>cno|}~", c) >= 0 || c >= '@' && c <= '_' {
			continue // a function, or a character of C1
		}
		require.Equal(t, want, text.WithoutControls("a\x1b"+string(c)+"b"), "%q", c)
	}
	require.Equal(t, "password=x", text.WithoutControls("p\x1bassword=x"))
	require.Equal(t, "ab", text.WithoutControls("a\x1bcb"), "it resets the terminal")
	require.Equal(t, "ab", text.WithoutControls("a\x1b(Bb"), "a set of characters")
}
