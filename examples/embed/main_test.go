package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAnswersWhatIsTyped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), strings.NewReader("hello\n"), &out))
		require.Equal(t, "You said \"hello\". I have 4 tools.\n", out.String())
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
		require.Equal(t, "You said \"hello\". I have 4 tools.\n", out.String())
	})
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
