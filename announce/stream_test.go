package announce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// streamed returns what a Stream shows of a text that is cut into pieces of n bytes.
func streamed(text string, n int) string {
	var s announce.Stream
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
