package announce_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// endPieces are what a text ends with that is not shown, what stays beside it, and what is drawn
// only beside something else.
var endPieces = []string{
	" NO_REPLY", "\nNO_REPLY", "*NO_REPLY", "NO_REPLY", "\n\nHuman:", "\nUser:", "\n### User:", "./nothink",
	"!/no_think", "/nothink", ".", " ", " `x ", "x`\n", "x`", "1. ", "1)", "+ ", "# ", "<b>", "</b>", "<code>", "{\"action\":\"", "\"}",
	"{", "}", "\n{\n", "\n}", "```text\n", "\n```json\n",
	"&#", "&#95;", "&lowbar;", "&lt;", "&nbsp;", "&#78;O_REPLY", " NO&#95;REPLY", "&", ";", "👍", " 🤐", "✔️", "🏽", "$", "\n$$\n", "\\text{", "\\boxed{",
	"\nsession key: unknown", "session key: ", "unknown", "Stats: runtime n/a", " • sessionId x", " • transcript ",
	"Answer:", "\nFinal answer: ", "（", "）", "?", "/>", "</", "\n", "\r", "[", "]", "<", ">", "\"", "'", "-", "\n- ", "`", "```", "\n```\n",
	"~~~", "\n~~~\n", "*", "|", "(", ")", "_", ",", "\\", "…", "\ufffd", "\ufeff", "\u200b", "\u2800", "\u200e",
	"\u200f", "\ufe0f", "א", "ا\u200d", "अ\u200d", "✿\ufe0f", "◁\u200d", "☎\ufe0f",
}

// endingText returns a text of few pieces, some of them cut, among endPieces. In such a text, the
// end that is not shown may make a difference to what stands before it.
func endingText(random *rand.Rand) string {
	forms := [][]string{visibleTokens, templateTokens, streamTexts, removedPieces}
	end := func() string { return endPieces[random.IntN(len(endPieces))] }
	var b strings.Builder
	for range 1 + random.IntN(5) {
		if random.IntN(2) == 0 {
			b.WriteString(end())
			continue
		}
		form := forms[random.IntN(len(forms))]
		piece := form[random.IntN(len(form))]
		if random.IntN(3) == 0 {
			at := random.IntN(len(piece))
			piece = []string{piece[:at], piece[at:]}[random.IntN(2)]
		}
		b.WriteString(piece)
	}
	for range random.IntN(4) {
		b.WriteString(end())
	}
	return b.String()
}

// What Visible returns, it returns again, also where the end of the text that is not shown decided
// about what stands before it.
func TestVisibleIsIdempotent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("[", 600)
	for _, tt := range []struct{ text, want string }{
		{" [TOOL_CALLS]<<<completion a>>>[ NO_REPLY", ""}, // a call breaks off before the token
		{"ok [TOOL_CALLS][ NO_REPLY", "ok"},
		{"ok <tool_calls>[\n### User:\nNO_REPLY", "ok"},
		{"a\nfunctools[\n\nHuman:", "a"},
		{"✿RETURN✿\u00a0functools[{\"a\":1}] x", "x"}, // the space at the beginning goes
		{"\u00a0```\n<think>a</think>\n```", "```\n<think>a</think>\n```"},
		{"x <function=x>[\nUser:", "x"},
		{"x <tool_call><parameter>[ \n\nHuman:", "x"},
		{"x<tool_call>\n<function*NO_REPLY", "x"},
		{"x <tool_calls>\n<invoke name=\"x\"\n,\nNO_REPLY<", "x"},
		{"a<cite.b\nfunctools[{\"a\":1}] c\nNO_REPLY>", "a<cite.b\n c"}, // a mention ends behind the token
		{"a [Tool Call: x]\n\u200e(", "a ("},                            // the line break goes
		{"<think>א</think>a\u200fb", "ab"},
		{"[[THINK](<th<think>a</think>ink>b", "THINK]("}, // one bracket alone would begin a mark
		{"◁◁think▷[[reply_to:[[audio_as_voice]]5]] Hello", "think▷ Hello"},
		{long + "THINK](<th<think>a</think>ink>b", ""},
	} {
		shown, ok := announce.Visible(tt.text)
		if len(tt.text) < len(long) {
			require.Equal(t, tt.want, shown, "%q", tt.text)
		}
		again, stillOK := announce.Visible(shown)
		require.Equal(t, shown, again, "%q", tt.text)
		require.Equal(t, ok, stillOK, "%q", tt.text)
		checkStream(t, tt.text, 1, 2, 3, 7)
	}
}

// A silent token behind a fence is a token and not a language, whether or not its line ends there:
// what is shown has no line break at its end.
func TestTokensBehindFencesAreTokens(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	for _, fence := range []string{"```", "~~~", "`````"} {
		for _, token := range []string{
			"NO_REPLY", "no_reply", "HEARTBEAT_OK", "ANNOUNCE_SKIP", "NO_REPLY.", "NO_REPLYx", "NO_REPLY-x", "text",
		} {
			for _, blank := range []string{"", " ", "\t"} {
				for _, end := range []string{"", " ", "\n", "\r", "\r\n", " \n", "\nx", "\n" + fence, "\nNO_REPLY\n"} {
					for _, before := range []string{
						"", "a\n", "a ", "$", "a\nfunctools[", "a\nfunctools[$", "[TOOL_CALLS][", "a <tool_calls>[", "`",
					} {
						text := before + fence + blank + token + end
						clean := announce.Sanitize(text)
						require.Equal(t, clean, announce.Sanitize(clean), "%q", text)
						shown, ok := announce.Visible(text)
						again, stillOK := announce.Visible(shown)
						require.Equal(t, shown, again, "%q", text)
						require.Equal(t, ok, stillOK, "%q", text)
						checkStream(t, text, 1, 2, 3, 7)
					}
				}
			}
		}
		for _, silent := range []string{"NO_REPLY", "heartbeat_ok", "NO_REPLY."} {
			for _, text := range []string{fence + silent + "\n" + fence, fence + " " + silent + "\n"} {
				shown, ok := announce.Visible(text)
				require.Empty(t, shown, "%q", text)
				require.False(t, ok, "%q", text)
			}
		}
	}
}

// What Visible and Sanitize return, they return again: for random texts of everything that they
// and Redact know, OFFSHOOT_TEXTS=10000000 of them. OFFSHOOT_SEED chooses others. Every second text
// is one of endingText, of which a Stream is checked as well. Of what Redact returns it changes
// less than one text in a thousand, where parts of credentials stand side by side.
//
// .ci/long -texts N plays N of them.
func TestRandomTextsAreStable(t *testing.T) {
	t.Parallel()
	number := func(name string, unset uint64) uint64 {
		s := os.Getenv(name)
		if s == "" {
			return unset
		}
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, name)
		return n
	}
	texts, seed := number("OFFSHOOT_TEXTS", 5_000), number("OFFSHOOT_SEED", 1)
	unstable := uint64(0)
	random := rand.New(rand.NewPCG(seed, 16))
	for i := range texts {
		var text string
		if i%2 == 0 {
			text = randomText(random)
		} else {
			text = endingText(random)
			checkStream(t, text, 1+random.IntN(8))
		}
		shown, ok := announce.Visible(text)
		again, stillOK := announce.Visible(shown)
		if again != shown || ok != stillOK {
			t.Fatalf("text %d of seed %d: Visible(%q) is %q, and that is %q", i, seed, text, shown, again)
		}
		clean := announce.Sanitize(text)
		if again := announce.Sanitize(clean); again != clean {
			t.Fatalf("text %d of seed %d: Sanitize(%q) is %q, and that is %q", i, seed, text, clean, again)
		}
		masked := announce.Redact(text)
		if again := announce.Redact(masked); again != masked {
			unstable++
			third := announce.Redact(again)
			require.Equal(t, third, announce.Redact(third), "text %d of seed %d: %q", i, seed, text)
		}
	}
	require.Less(t, unstable, texts/1000+5)
	t.Logf("%d texts of seed %d; Redact changes %d of its answers", texts, seed, unstable)
}
