package announce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// What is drawn stays as it is: emoji that are made of several characters, scripts that need
// joiners and marks, and characters with a variant.
func TestDrawnTextsStay(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"1\uFE0F\u20E3 #\uFE0F\u20E3", "\u263A\uFE0F \u2139\uFE0F \u203C\uFE0F \u3030\uFE0F \u00A9\uFE0F",
		"\U0001F3F3\uFE0F\u200D\U0001F308", "\U0001F469\U0001F3FD\u200D\U0001F4BB",
		"\u2764\uFE0F\u200D\U0001F525", "\U0001F1E9\U0001F1EA",
		"\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F and on",
		"\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645", "\u05D0\u200F(1)\u200E", "\u908A\U000E0100",
		"\u1820\u180B", "caf\u00E9 na\u0308ive", "a\tb\r\nc\u2028d", "\u2019s \u201Cquoted\u201D",
	} {
		require.Equal(t, text, announce.Sanitize(text))
	}
}

// A sequence of a terminal takes nothing with it but itself and its own text, which ends with its
// line at the latest. What only looks like the beginning of one takes nothing.
func TestSequencesEnd(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\x1b[31mb\x1b[0mc":              "abc",
		"a\x1b[3\nb":                      "a\nb",
		"a\x1b]0;title\nb":                "a\nb",
		"a\x1b]0;title\x1b[31mb":          "ab",
		"a\x1bNO_REPLY":                   "aNO_REPLY",
		"a\u009db, said he, \u009dand on": "ab, said he, and on",
		"a\u009bHello":                    "aHello",
		"a\xc2\x1b[m\x9bb":                "a\ufffd\ufffdb",
		"a\x1b[31":                        "a",
		"<thi\x1b[31mnk>x</think>y":       "y",
		"```\n\x1b[31mred\x1b[0m\n```":    "```\nred\n```",
	} {
		require.Equal(t, want, announce.Sanitize(text), "%q", text)
		for cut := range len(text) {
			var s announce.Stream
			shown := s.Write(text[:cut]) + s.Write(text[cut:]) + s.Close()
			require.Equal(t, announce.Redact(want), shown, "%q cut at %d", text, cut)
		}
	}
	hidden := "Hello" + strings.Repeat("\U000E0041", 50) + " \U0001F3F4" +
		strings.Repeat("\U000E0041", 50)
	require.LessOrEqual(t, strings.Count(announce.Sanitize(hidden), "\U000E0041"), 7)
}
