package provider

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// What is read is the same whatever the sizes of the reads are, and what is valid stays.
func TestValidUTF8(t *testing.T) {
	long := strings.Repeat("grün ", readBytes/3)
	for in, want := range map[string]string{
		"": "", "plain": "plain", "grün 😀\u2028": "grün 😀\u2028", "\uFFFD": "\uFFFD",
		"a\xffb": "a\uFFFDb", "\xff\xfe\xff": "\uFFFD", "a\xffb\xff": "a\uFFFDb\uFFFD",
		"\xff\uFFFD\xff":   "\uFFFD\uFFFD\uFFFD",
		"cut \xf0\x9f\x98": "cut \uFFFD", "\xc3": "\uFFFD", "\xc3\xc3\xa9": "\uFFFDé",
		"\xed\xa0\x80": "\uFFFD", "\xf0\x9f\"": "\uFFFD\"",
		long: long, long + "\xff" + long: long + "\uFFFD" + long,
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
			"halves": iotest.HalfReader, "with the error": iotest.DataErrReader,
		} {
			body := &validBody{
				ReadCloser: io.NopCloser(reader(strings.NewReader(in))),
				ended:      func() error { return nil },
			}
			got, err := io.ReadAll(iotest.OneByteReader(body))
			require.NoError(t, err)
			require.Equal(t, want, string(got), "%s of %.20q", name, in)
		}
	}
}

// A connection that breaks is told of behind what came before.
func TestValidUTF8PassesFailures(t *testing.T) {
	broken := errors.New("the line is cut")
	given := &http.Client{Transport: answers{200, nil, io.MultiReader(
		strings.NewReader("a\xff\xc3"), iotest.ErrReader(broken))}}
	client := ValidUTF8(given)
	require.IsType(t, answers{}, given.Transport)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.test", nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	require.ErrorIs(t, err, broken)
	require.Equal(t, "a\uFFFD", string(got))
	require.NotNil(t, ValidUTF8(nil).Transport)
}

// What goes into a request is valid, and stays if it was.
func TestValidJSON(t *testing.T) {
	for in, want := range map[string]string{
		"": "", `{"a":"é"}`: `{"a":"é"}`, "{\"a\":\"\xff\xfe\"}": "{\"a\":\"\uFFFD\"}",
		"\xff": "\uFFFD",
	} {
		require.Equal(t, want, string(ValidJSON(json.RawMessage(in))))
		require.True(t, utf8.Valid(Args(json.RawMessage(in))))
	}
}

// A reader that brings nothing, again and again, is told of; one that does so for a while is read.
func TestValidUTF8OfNothing(t *testing.T) {
	gone := errors.New("the call is over")
	for _, test := range []struct {
		nothing int // reads that bring nothing, before each that does
		ended   error
		want    string
		err     error
	}{
		{0, nil, "a\uFFFDb", nil},
		{maxEmpty - 1, nil, "a\uFFFDb", nil},
		{maxEmpty, nil, "", io.ErrNoProgress},
		{1 << 30, nil, "", io.ErrNoProgress},
		{1, gone, "", gone},
	} {
		body := &validBody{
			ReadCloser: io.NopCloser(&haltingReader{
				Reader: iotest.OneByteReader(strings.NewReader("a\xffb")), nothing: test.nothing,
			}),
			ended: func() error { return test.ended },
		}
		got, err := io.ReadAll(body)
		require.ErrorIs(t, err, test.err)
		require.Equal(t, test.want, string(got))
	}
}

// A haltingReader brings nothing a number of times before each read.
type haltingReader struct {
	io.Reader

	nothing, count int
}

func (r *haltingReader) Read(p []byte) (int, error) {
	if r.count++; r.count <= r.nothing {
		return 0, nil
	}
	r.count = 0
	return r.Reader.Read(p)
}
