package announce_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// streamed returns what a Stream shows of a text that is cut into pieces of n bytes.
func streamed(text string, n int) string { return streamedBy(new(announce.Stream), text, n) }

// streamedBy is streamed with a Stream.
func streamedBy(s *announce.Stream, text string, n int) string {
	var out strings.Builder
	for ; len(text) > n; text = text[n:] {
		out.WriteString(s.Write(text[:n]))
	}
	out.WriteString(s.Write(text))
	out.WriteString(s.Close())
	return out.String()
}

// D5: what a stream shows is what is shown of the whole text, and nothing after Close.
func TestStreamShowsWhatTheWholeShows(t *testing.T) {
	for _, text := range []string{
		"", "Hello, world.\n", "Hello <think>secret</think>there", "NO_REPLY", "Done. NO_REPLY",
		"token=abcdefghij0123456789", "a\xff\xc3", "käse 你好 👩‍🚀",
	} {
		whole, _ := announce.Visible(text)
		for n := 1; n <= len(text)+1; n++ {
			require.Equal(t, announce.Redact(whole), streamed(text, n), "%q by %d bytes", text, n)
		}
	}
	var s announce.Stream
	require.Equal(t, "hi", s.Write("hi")+s.Close())
	require.Empty(t, s.Write("more")+s.Close())
}

// proseParts are what models write to people.
var proseParts = []string{
	"The quick brown fox jumps over the lazy dog. ", "Is it so? Yes, it is; no (not yet)! ", "\n\n", "\n",
	"# A heading\n\n", "- a **bold** item\n", "1. an *item* with `code`\n", "- [ ] open\n- [x] done\n",
	"[a link](https://example.com/a/b?c=d&e=f#g) and <https://example.com/x> ", "> quoted\n", "\n---\n",
	"```go\nif a < b && m[i] > 0 {\n\treturn `x`\n}\n```\n", "\n~~~\n<think>in code</think>\n~~~\n",
	"| a | b |\n|---|:--|\n| 1 | `2` |\n", "1 < 2 and <b>bold</b>, x[1] = [2]. ", "käse, señor, naïve. ",
	"你好，世界。这是一个测试。", "日本語の文章です。", "👩‍🚀🎉 🏳️‍🌈 ", "The token count is 12, no key. ", "it's don`t ",
	"Never mind, hear another hint now. ", "Wait... ", "**Note:** ", "(see [1]) ", "\na lone ` tick and a [link](x).\n",
	"mail ann@example.com ", "50% of $12.50 \u2014 ok\n", "`<think>` and `[[reply_to_current]]` ", "f(x) = {1, 2} ",
}

// D5: of prose, a Stream holds back at most 256 characters.
func TestStreamHoldsLittleOfProse(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var b strings.Builder
		b.WriteString("So: ")
		for range 60 {
			b.WriteString(proseParts[random.IntN(len(proseParts))])
		}
		text := strings.TrimSpace(b.String())
		var s announce.Stream
		in, out := 0, ""
		for in < len(text) {
			n := min(len(text)-in, 1+random.IntN(8))
			out += s.Write(text[in : in+n])
			in += n
			held := utf8.RuneCountInString(text[:in]) - utf8.RuneCountInString(out)
			require.LessOrEqual(t, held, 256, "%q", text[len(out):in])
			require.True(t, utf8.ValidString(out), "no rune is parted")
		}
		require.Equal(t, text, out+s.Close())
	}
}

// longHostile are texts that a Stream cannot show until much later, by what is repeated.
var longHostile = map[string][2]string{
	"thought": {"a <think>", "x "}, "nested": {"<think><think></think>", "y "}, "space": {"a", " "},
	"tokens": {"a", " NO_REPLY"}, "only tokens": {"", "NO_REPLY "}, "marks": {"a\n", "*"}, "word": {"a ", "b"},
	"token": {"sk-", "c"}, "value": {"KEY=\"", "d "}, "header": {"cookie: ", "e "},
	"key": {
		"-----BEGIN PRIVATE KEY-----\n", "MII\n",
	}, "key on a line": {"-----BEGIN PRIVATE KEY-----", "f"}, "tag": {"<think a", " b"}, "blank": {"<", " "},
	"call": {"<tool_call>{\"", "g"}, "arguments": {"[Tool Call: x]\nArguments: {", "[h"}, "fence": {"```\n", "i\n"},
	"ticks": {"", "`"}, "event": {"<<<completion a>>>\n", "j\n"}, "user": {"://a:", "k"}, "list": {"KEY=[", "l,"},
	"reply tag": {"[[reply_to:", "m"}, "invoke": {"", "<invoke>"}, "stats": {"Stats: runtime ", "n"}, "rune": {"", "\xe2"},
	"open calls": {"", "<tool_call><function>"}, "fences in a thought": {"<think>\n", "```o\n"}, "angles": {"", "<"},
	"attack": {"<th<|a<|b|>c|><think></think>ink>", "<|a<|b|>c|>"}, "invisible": {"", "\u200b"}, "bearer": {"bearer ", "p"},
}

// D5: the memory of a Stream is bounded, however long a text is and whatever it holds. What is
// shown is the same in pieces of every size, also beyond the bound.
func TestStreamIsBounded(t *testing.T) {
	t.Parallel()
	const most = 800 << 10
	size := 1 << 20
	if underRace {
		size >>= 3
	}
	for name, text := range longHostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := text[0] + repeatTo(text[1], 60<<10) + " the end"
			checkStream(t, whole, 7, 1000, 16<<10, len(whole))
			var s announce.Stream
			s.Write(text[0])
			piece := repeatTo(text[1], 1000)
			for range size / len(piece) {
				s.Write(piece)
				require.LessOrEqual(t, announce.Held(&s), most)
			}
			s.Close()
			require.Zero(t, announce.Held(&s))
		})
	}
}

// D5: the memory of a Stream is bounded for 100 MB as well.
func TestStreamOf100MB(t *testing.T) {
	if underRace {
		t.Skip("it takes minutes under the race detector")
	}
	t.Parallel()
	for _, name := range []string{"thought", "call", "header"} {
		text := longHostile[name]
		var s announce.Stream
		s.Write(text[0])
		piece := repeatTo(text[1], 256<<10)
		most := 0
		for range 100_000_000 / len(piece) {
			s.Write(piece)
			most = max(most, announce.Held(&s))
		}
		require.LessOrEqual(t, most, 800<<10, name)
		require.LessOrEqual(t, len(s.Close()), 32, name)
	}
}

// D5: the rules for what is longer than a Stream looks ahead hold for the whole text as well.
func TestVisibleLooksAheadOnlySoFar(t *testing.T) {
	t.Parallel()
	far := strings.Repeat("x ", 10_000)
	for _, tt := range []struct{ text, want string }{
		{"<think a" + far + ">b", "<think a" + far + ">b"},
		{"<think>a<think>b</think>" + far + "</think>c", far + "c"},
		{"a" + strings.Repeat(" ", 20_000) + "b", "a" + strings.Repeat(" ", 16<<10) + "b"},
		{strings.Repeat("NO_REPLY ", 5000), ""},
		{"`" + far + "<|x|>`", "`" + far + "`"},
		{"a <tool_call><function>" + far + "</function></tool_call>", "a <tool_call><function>" + far + "</function></tool_call>"},
		{"[[reply_to:" + far + "]] a", "[[reply_to:" + far + "]] a"},
		{"x sk-" + strings.Repeat("a", 20_000) + " y", "x sk-aaa…aaaa y"},
		{"KEY=\"" + far + "\" y", "KEY=\"x x x … x x\" y"},
	} {
		text, _ := announce.Visible(tt.text)
		require.Equal(t, tt.want, announce.Redact(text), "%.40q", tt.text)
		checkStream(t, tt.text, 1, 100, len(tt.text))
	}
}

func ExampleStream() {
	var s announce.Stream
	for _, delta := range []string{"<thi", "nk>Who asks?</think>Hello, ", "Ann! Your to", "ken=hunter2. NO_", "REPLY"} {
		fmt.Printf("%q ", s.Write(delta))
	}
	fmt.Printf("%q\n", s.Close())
	// Output: "" "" "Hello, Ann! Your " "" "" "token=***"
}
