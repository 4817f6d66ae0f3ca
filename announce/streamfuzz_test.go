package announce_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/announce"
)

// checkStream fails unless a Stream shows of a text what is shown of the whole, in whichever pieces
// it comes.
func checkStream(t *testing.T, text string, seed uint64) {
	t.Helper()
	whole, _ := announce.Visible(text)
	want := announce.Redact(whole)
	for _, n := range []int{1, 2, 3, 7, len(text)/2 + 1, len(text) + 1} {
		if got := streamed(text, n); got != want {
			t.Fatalf("%q by %d bytes\nshows %q,\nwhole %q", text, n, got, want)
		}
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var s announce.Stream
	var out strings.Builder
	for rest := text; rest != ""; {
		n := min(len(rest), random.IntN(1+random.IntN(40)))
		out.WriteString(s.Write(rest[:n]))
		rest = rest[n:]
	}
	if got := out.String() + s.Close(); got != want {
		t.Fatalf("%q, seed %d\nshows %q,\nwhole %q", text, seed, got, want)
	}
}

// D5: random texts of tokens, in random pieces.
func TestStreamOfRandomTokens(t *testing.T) {
	tokens := append(append([]string{}, visibleTokens...), redactTokens...)
	tokens = append(tokens, "prose ", "käse", "\xff", "\xe2\x82", "😄", "</tool_result>", "<think", "NO_", "REPLY",
		"[[", "]]", "```", "~~~", "/>", "<tool_call>[", "<th", "ink>", "HEARTBEAT_OK", "Stats: runtime 1s • sessionKey k\n")
	random := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		var b strings.Builder
		for range 1 + random.IntN(12) {
			b.WriteString(tokens[random.IntN(len(tokens))])
		}
		checkStream(t, b.String(), random.Uint64())
		text, ok := announce.Visible(b.String())
		again, stillOK := announce.Visible(text)
		if again != text || ok != stillOK {
			t.Fatalf("Visible(%q) is %q, and again %q", b.String(), text, again)
		}
		once := announce.Sanitize(b.String())
		if again := announce.Sanitize(once); again != once {
			t.Fatalf("Sanitize(%q) is %q, and again %q", b.String(), once, again)
		}
	}
}
