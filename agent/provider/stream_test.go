package provider

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
)

// What is a stream stays as it is, and all else is an error of its status. It is final, unless the
// status says otherwise.
func TestStreamed(t *testing.T) {
	const page = "<html>Sign in</html>"
	for _, test := range []struct {
		status         int
		kind, body, is string // is: what the error says; "": it is a stream
	}{
		{200, "text/event-stream", "data: x\n\n", ""},
		{200, "Text/Event-Stream; charset=utf-8", "", ""},
		{200, "text/event-stream", "odd: x\n\n", ""},
		{201, "text/event-stream", page, `of the type "text/event-stream" and not a stream`},
		{200, "text/event-stream; x=y", "\n {}", "of events: {}"},
		{200, "text/event-stream", `[{"error":"x"}]`, `of events: [{"error":"x"}]`},
		{200, "", ": hello\n\n", ""},
		{200, "text/event-stream", "\uFEFFdata: x\n\n", ""},
		{200, "", "\uFEFFdata: x\n\n", ""},
		{200, "text/event-stream", "\uFEFF{}", "of events: {}"},
		{200, "text/event-stream", "\uFEFE: x", ""},
		{500, "", "\uFEFFbroken", "500 Internal Server Error: broken"},
		{200, "text/plain", "\n\nevent: x\n\n", ""},
		{200, "application/json", "id: 1\ndata: x\n\n", ""},
		{500, "text/html", page, "c: the provider answers 500 Internal Server Error: " + page},
		{503, "text/event-stream", "data: x", "503 Service Unavailable: data: x"},
		{404, "", "", "404 Not Found"},
		{200, "text/html", page, `of the type "text/html" and not a stream of events: ` + page},
		{200, "", "d", "without a type and not a stream of events: d"},
		{200, "application/json", "", `"application/json" and not a stream of events: it is empty`},
		{200, "", "  \n", "it is empty"},
		{204, "text/event-stream", "", "204 No Content: the answer is of the type"},
		{304, "text/event-stream", "", "304 Not Modified"},
		{200, "x", strings.Repeat("context window ", 1<<20), "x"},
	} {
		header := http.Header{}
		if test.kind != "" {
			header.Set("Content-Type", test.kind)
		}
		given := &http.Client{Transport: answers{test.status, header, strings.NewReader(test.body)}}
		client := Streamed(given, "c", func(*Error, []byte) string { return "" })
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.test", nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		if test.is == "" {
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, strings.Trim(test.body, "\uFEFF\n"), strings.TrimSpace(string(got)))
			continue
		}
		var said *Error
		require.ErrorAs(t, err, &said, test.is)
		require.ErrorContains(t, said, test.is)
		require.Equal(t, test.status, said.Status)
		require.Less(t, len(said.Message), MaxErrorBytes+200)
		require.Equal(t, test.status >= 500, agent.IsRetryable(err))
		require.NotErrorIs(t, err, agent.ErrTooLong)
	}
}

// Each line of a stream ends with LF, however the server ends it and in whatever pieces it comes.
func TestLineReader(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "\n": "\n", "\r": "\n", "\r\n": "\n", "\n\r": "\n\n", "\r\r": "\n\n",
		"a\r\nb\rc\nd": "a\nb\nc\nd", "a\r\n\r\nb": "a\n\nb", "a\r\r\n\nb\r": "a\n\n\nb\n",
		"\r\n\r\n\r\n": "\n\n\n", "a\nb\n\n": "a\nb\n\n",
	} {
		for _, pieces := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader,
			iotest.DataErrReader,
		} {
			got, err := io.ReadAll(&lineReader{from: pieces(strings.NewReader(in))})
			require.NoError(t, err)
			require.Equal(t, want, string(got), "%q", in)
		}
	}
}
