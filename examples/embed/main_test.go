package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAnswersWhatIsTyped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), strings.NewReader("hello\n"), &out))
		require.Equal(t, "You said \"hello\". I have 9 tools.\n", out.String())
	})
}

// Ctrl-C ends the program although the terminal stays open.
func TestEndsByInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, typing := io.Pipe()
		defer func() { _ = typing.Close() }()
		ctx, interrupt := context.WithCancel(t.Context())
		var out strings.Builder
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, in, &out) }()
		_, err := io.WriteString(typing, "hello\n")
		require.NoError(t, err)
		synctest.Wait()
		interrupt()
		require.NoError(t, <-ended)
		require.Equal(t, "You said \"hello\". I have 9 tools.\n", out.String())
	})
}

// A7: a line as long as a message may be is answered, a longer one does not end the bot without a
// word, and neither does an input that cannot be read.
func TestLongLinesAndBrokenInput(t *testing.T) {
	broken := errors.New("the terminal is gone")
	for _, c := range []struct {
		name  string
		line  int
		input error // at the end
		want  error
		says  string
	}{
		{name: "short", line: 100, says: "aaa"},
		{name: "64 KB", line: bufio.MaxScanTokenSize, says: "aaa"},
		{name: "the longest message", line: 1_000_000, says: "aaa"},
		{name: "refused, and the next one answered", line: 1_000_001, says: "hello"},
		{name: "no end", line: 3_000_000, want: bufio.ErrTooLong},
		{name: "broken", line: 100, input: broken, want: broken, says: "aaa"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logged strings.Builder
			log.SetOutput(io.MultiWriter(t.Output(), &logged))
			defer log.SetOutput(os.Stderr)
			synctest.Test(t, func(t *testing.T) {
				in := io.Reader(strings.NewReader(strings.Repeat("a", c.line) + "\nhello\n"))
				if c.input != nil {
					in = io.MultiReader(in, iotest.ErrReader(c.input))
				}
				var out strings.Builder
				err := run(t.Context(), in, &out)
				require.NoError(t, err)
				if c.want != nil {
					require.Contains(t, logged.String(), c.want.Error())
				}
				said := strings.Contains(out.String(), c.says)
				require.True(t, said, "the output is too long to be shown")
			})
		})
	}
}

// The first listing of the README is this program.
func TestReadmeShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, shown, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	shown, _, found = strings.Cut(shown, "```\n")
	require.True(t, found)
	require.Equal(t, string(program), shown)
}
