package announce_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// shapeless are characters of which a reader sees nothing, by their sort.
var shapeless = map[string]string{
	"white space": " \t\r\n\v\f\u0085\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000",
	"controls":    "\x00\x07\x1b\x7f\u0080\u009f",
	"joiners":     "\u200B\u200C\u200D\u2060\uFEFF\u034F",
	"direction":   "\u061C\u200E\u200F\u202A\u202C\u202E\u2066\u2069",
	"operators":   "\u2061\u2064\u206A\u206F", "soft hyphen": "\u00AD",
	"variations": "\uFE00\uFE0F\U000E0100\U000E01EF\u180B\u180E\u180F",
	"tags":       "\U000E0001\U000E0020\U000E007F", "annotation": "\uFFF9\uFFFB",
	"fillers": "\u115F\u1160\u3164\uFFA0\u2800\u17B4", "music": "\U0001D173\U0001D17A",
}

// S10: a reply of which a reader sees nothing does not count as a text, neither for people nor for
// the requester.
func TestInvisibleRepliesDoNotCount(t *testing.T) {
	t.Parallel()
	var blanks []string
	for _, set := range shapeless {
		blanks = append(append(blanks, set, strings.Repeat(set, 100)), strings.Split(set, "")...)
	}
	for _, blank := range blanks {
		for _, reply := range []string{
			blank, "<think>hm</think>" + blank, "<|x|>" + blank, "<final>" + blank + "</final>",
		} {
			checkNoText(t, reply)
		}
		require.True(t, announce.IsBlank(blank))
		e := testEvent(func(c *spawn.Completion) {
			c.Run.Label, c.Run.Task, c.Run.Error = blank, blank, blank
			c.Run.Status = spawn.StatusFailed
		})
		e.Result = blank
		require.Empty(t, e.ForPerson())
		for _, want := range []string{
			"\n| (no output)\n", "task: unnamed task\n", "failed: unknown error\n",
		} {
			require.Contains(t, e.ForModel(), want, "%q", blank)
		}
	}
}

// checkNoText fails unless a reply counts as one without a text wherever a text is selected.
func checkNoText(t *testing.T, reply string) {
	t.Helper()
	text, ok := announce.Visible(reply)
	require.False(t, ok, "%q", reply)
	require.Empty(t, text)
	require.Equal(t, announce.DecisionDefer, announce.Decide(reply), "%q", reply)
	require.Empty(t, announce.Sanitize(reply))
	require.Equal(t, announce.DecisionSilent, announce.Decide(reply+"NO_REPLY"), "%q", reply)

	text, d := announce.Fallback(spawn.StatusOK, []session.Message{
		{Role: session.MessageTool, Text: reply}, {Role: session.MessageAssistant, Text: reply},
	})
	require.Equal(t, announce.DecisionDefer, d, "%q", reply)
	require.Empty(t, text)

	e := testEvent(func(c *spawn.Completion) {
		c.Run.Result.Text, c.Run.Result.JSON, c.Fallback = reply, nil, reply
	})
	require.Empty(t, e.Result)
	require.Empty(t, e.ForPerson())
}

// A text with one character that has a shape is not blank, and keeps the others.
func TestVisibleTextsAreNotBlank(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"x", ".", "-", "👍", "❤\uFE0F", "👩\u200D👧", "\u0301", "\uFFFD", "\u0600",
		"\u200Fא\u200F", "\U0001F3F4\U000E0067\U000E007F",
	} {
		require.False(t, announce.IsBlank(text), "%q", text)
		got, ok := announce.Visible("\u200B\n" + text)
		require.True(t, ok)
		require.Contains(t, got, text)
	}
	for r := range rune(unicode.MaxRune) {
		isShape := unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
		if isShape && announce.IsBlank(string(r)) {
			require.Contains(t, shapeless["fillers"], string(r))
		}
	}
	require.True(t, announce.IsBlank(""))
}
