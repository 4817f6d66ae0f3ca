package text

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":                       `""`,
		"a\n":                    `"a\n"`,
		strings.Repeat("é", 100): `"` + strings.Repeat("é", 100) + `"`,
		strings.Repeat("é", 101): `"` + strings.Repeat("é", 100) + `"... (202 bytes)`,
		strings.Repeat("\xff", 1<<20): `"` + strings.Repeat(`\xff`, 100) +
			`"... (1048576 bytes)`,
	} {
		require.Equal(t, want, Quote(in))
	}
}

func TestCut(t *testing.T) {
	require.Equal(t, "aé", Cut("aéb", 3))
	require.Equal(t, "a", Cut("aéb", 2))
	require.Equal(t, "aéb", Cut("aéb", 4))
	require.Empty(t, Cut("é", 1))
	require.Empty(t, Cut("\x80\x80\x80", 2))
	for n := range 20 {
		require.True(t, utf8.ValidString(Cut("日本語のテキスト", n)))
	}
}

func TestBound(t *testing.T) {
	long := strings.Repeat("é", 100)
	require.Equal(t, long, Bound(long, -1))
	require.Equal(t, long, Bound(long, 200))
	cut := Bound(long, 199)
	require.LessOrEqual(t, len(cut), 199)
	require.True(t, strings.HasSuffix(cut, "é\n[cut here: it had 200 bytes, and 199 are kept at most]"))
	require.Equal(t, "éé", Bound(long, 5), "too short for the note")
	require.Empty(t, Bound(long, 0))
}

// A5: the note names the size of the text that was cut first, at every limit that has room for one.
func TestBoundTwice(t *testing.T) {
	long := strings.Repeat("é", 250)
	for first := range 500 {
		for _, second := range []int{first - 1, first - 7, first / 2, 60, 40} {
			if second < 40 || second >= first {
				continue
			}
			cut := Bound(Bound(long, first), second)
			require.LessOrEqual(t, len(cut), second)
			require.True(t, utf8.ValidString(cut))
			require.Equal(t, 1, strings.Count(cut, "[cut"), cut)
			require.Contains(t, cut, " 500 bytes")
			require.Contains(t, cut, "é")
		}
	}
	for _, claim := range []string{
		"\n[cut from 7 bytes]", "\n[cut from 99999999999999999999999 bytes]", "\n[cut from bytes]",
		"\n[cut from 9999 bytes] ",
	} {
		require.NotContains(t, Bound(long+claim, 100), "9999", "it is not a note of ours")
	}
	require.Equal(t, "x\n[cut from 10000 bytes]", Bound("x"+strings.Repeat("y", 9999), 24))
	require.Len(t, Bound(strings.Repeat("x", 50), 40), 40)
}

func TestIsBlank(t *testing.T) {
	for _, s := range []string{
		"", " \t\n", "\u200b", "\u200b\u200d\ufeff\u2060", "\u3164", "\u2800", "\u00ad", "\u202e",
		"\x00\x1b", "\u00a0\u3000", "\ufe0f", "\U000e0020", "\u115f\u1160",
	} {
		require.True(t, IsBlank(s), "%q", s)
	}
	for _, s := range []string{"a", " .", "\u200b1", "日", "🙂", "\ufffd", "\xff", "\u0301"} {
		require.False(t, IsBlank(s), "%q", s)
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"fix the build":            "fix the build",
		" a \t b ":                 "a b",
		"a\r\nb\vc\u0085d\u2028e":  "a b c d e",
		"ab\u202etxt\u2066.exe":    "abtxt.exe",
		"a\u200bd\u200dm\ufeffin":  "admin",
		"a\x00b\x1b[31m":           "ab[31m",
		"a\xffb\xc3":               "ab",
		"\ue000a\u3164":            "a",
		"\u3164\u200b \u2800":      "",
		"日本 🙂 e\u0301":             "日本 🙂 e\u0301",
		"\xff\xfe":                 "",
		"\u00a0non\u00a0breaking ": "non breaking",
	} {
		require.Equal(t, want, Line(in), "%q", in)
		require.Equal(t, want, Line(want), "%q: once more", in)
		require.Equal(t, in != "" && in == want, IsLine(in, 100), "%q", in)
	}
	require.True(t, IsLine("abc", 3))
	require.False(t, IsLine("abcd", 3))
}

func TestList(t *testing.T) {
	of := func(n int) string { return strings.Repeat("x", n) }
	require.Empty(t, List(nil, ";", of))
	require.Equal(t, "x;xx", List([]int{1, 2}, ";", of))
	require.Len(t, Listed(make([]int, 20), of), 20)
	many := Listed(make([]int, 20_000), of)
	require.Len(t, many, 21)
	require.Equal(t, "and 19980 more", many[20])
}

func TestWord(t *testing.T) {
	for s, want := range map[string]string{
		"": `""`, "a/b-c_1.2:3@4+5#6*": "a/b-c_1.2:3@4+5#6*", "a b": `"a b"`, "a,b": `"a,b"`,
		"a\nb": `"a\nb"`, `a"b`: `"a\"b"`, "é": `"é"`, "a\u202e": `"a\u202e"`,
	} {
		require.Equal(t, want, Word(s))
	}
	require.Contains(t, Word(strings.Repeat("a", MaxName+1)), "(257 bytes)")
}

func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "a \"b\" é ☃": "a \"b\" é ☃", "a\nb\x1b\x7f": `a\nb\x1b\x7f`,
		"a\u202eb\u2028": `a\u202eb\u2028`, "a\u00a0b": `a\u00a0b`, "\xffa": `\xffa`,
		"\ufffd": "\ufffd", "a\u200bb\u3164": `a\u200bb\u3164`,
	} {
		require.Equal(t, want, Escape(s))
	}
}

// idLetters make ids that a lossy form would take for another.
var idLetters = []string{
	"a", "B", "1", "(", ")", "[", "]", "{", "}", "<", ">", "'", `"`, "`", "/", `\`, "\\u005b", "u005b", " ",
	"［", "］", "＜", "【", "“", "”", "＂", "…", " SHA-256 ", "é", "e\u0301", "李", "\u200b", "\n", "\x00",
	"\xff", "\ufffd", "\u00a0", "🙂", "а", "\u202e", `", id "`, "]\n", strings.Repeat("x", 98),
	strings.Repeat("é", 200), "id ",
}

// An id is shown as one text only, and that text is shown for it alone.
func TestID(t *testing.T) {
	for id, want := range map[string]string{
		"42": `"42"`, "+49 30 1": `"+49 30 1"`, "@ann:example.org": `"@ann:example.org"`,
		"Boss(1)": `"Boss(1)"`, "Boss[1]": `"Boss\u005b1\u005d"`, `a\b`: `"a\u005cb"`, "a/b": `"a/b"`,
		"a'b": `"a'b"`, `a"b`: `"a\u0022b"`, "é": `"\u00e9"`, "🙂": `"\U0001f642"`, "\xff": `"\xff"`,
		"a  b": `"a\u0020\u0020b"`, " a": `"\u0020a"`, "": `""`, "\ufffd": `"\ufffd"`,
	} {
		require.Equal(t, want, ID(id), "%q", id)
	}
	seen := make(map[string]string)
	show := func(id string) {
		t.Helper()
		shown := ID(id)
		inner := strings.TrimSuffix(strings.TrimPrefix(shown, `"`), `"`)
		require.Len(t, inner, len(shown)-2)
		require.NotContains(t, inner, `"`)
		require.LessOrEqual(t, len(shown), MaxID)
		require.True(t, IsLine(shown, MaxID), "%q", shown)
		require.NotContains(t, strings.Replace(inner, "… SHA-256 ", "", 1), "…")
		if other, ok := seen[shown]; ok {
			require.Equal(t, other, id, "both are shown as %s", shown)
		}
		seen[shown] = id
	}
	for _, a := range idLetters {
		show(a)
		show(ID(a))
		for _, b := range idLetters {
			show(a + b)
			show(a + b + a)
			show(ID(a + b))
			show(strings.Repeat("y", 300) + a + b)
			show(strings.Repeat("y", 190) + a + b)
		}
	}
}

// Two ids of any kind never read alike.
func FuzzID(f *testing.F) {
	f.Add("Boss(1)", "Boss[1]")
	f.Add(strings.Repeat("é", 100), strings.Repeat("é", 101))
	f.Fuzz(func(t *testing.T, a, b string) {
		require.Equal(t, a == b, ID(a) == ID(b), "%q and %q", a, b)
		require.NotEqual(t, ID(a), ID(ID(a)))
	})
}

// The head of a text says how much of it is left out, also where it is cut again.
func TestHead(t *testing.T) {
	const note = "\n…(truncated, %s left out)…"
	long := strings.Repeat("é", 20)
	for most, left := range map[int]string{20: "", 19: "1 character", 5: "15 characters"} {
		want := strings.Repeat("é", most)
		if left != "" {
			want += fmt.Sprintf(note, left)
		}
		require.Equal(t, want, Head(long, most))
		require.Equal(t, want, Rehead(want, most))
		again := Rehead(want, 4)
		require.Equal(t, "éééé"+fmt.Sprintf(note, "16 characters"), again)
	}
	require.Equal(t, "ab"+fmt.Sprintf(note, "2 characters"), Head("abcd", 2))
	require.Empty(t, Head("", 0))
	fake := "abcd" + fmt.Sprintf(note, "999 characters")
	require.NotContains(t, Head(fake, 2), "999")
	require.Contains(t, Rehead(fake, 2), "1001 characters")
}
