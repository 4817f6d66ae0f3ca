package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A page is an output that may be read while it is written.
type page struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// talk runs the bot over lines that are typed a minute after each other, and returns what is shown.
func talk(t *testing.T, state string, lines ...string) string {
	t.Helper()
	var out page
	in, typing := io.Pipe()
	go func() {
		for _, line := range lines {
			_, _ = fmt.Fprintln(typing, line)
			time.Sleep(time.Minute)
		}
		_ = typing.Close()
	}()
	require.NoError(t, run(t.Context(), state, in, &out, time.Millisecond))
	return out.String()
}

// Answers are streamed, and each is shown once, whatever of it was shown before its reply.
func TestStreamsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := talk(t, "", "hello", "and again")
		require.Equal(t, "You said \"hello\". That makes 1 messages.\n"+
			"You said \"and again\". That makes 3 messages.\n", got)
	})
	synctest.Test(t, func(t *testing.T) { // what is there in the middle of an answer
		var out page
		in, typing := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- run(t.Context(), "", in, &out, time.Second) }()
		_, _ = fmt.Fprintln(typing, "hello")
		time.Sleep(5*time.Second + time.Millisecond)
		require.NotEmpty(t, out.String())
		require.NotContains(t, out.String(), "messages.")
		_ = typing.Close()
		require.NoError(t, <-ended)
		require.Equal(t, "You said \"hello\". That makes 1 messages.\n", out.String())
	})
}

func TestCommands(t *testing.T) {
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))))
	path := filepath.Join(t.TempDir(), "cat.png")
	require.NoError(t, os.WriteFile(path, picture.Bytes(), 0o600))
	synctest.Test(t, func(t *testing.T) {
		got := talk(t, "", "/image "+path, "/image "+path+".gone", "/reset", "hello", "/nothing", "",
			"/help")
		require.Equal(t, fmt.Sprintf("I see cat.png, image/png of %d bytes. That makes 1 messages.\n",
			picture.Len())+
			"* open "+path+".gone: no such file or directory\n"+
			"* a new conversation begins\n"+
			"You said \"hello\". That makes 1 messages.\n"+
			"* there is no command /nothing; /help shows those that there are\n"+
			"* "+usage+"\n", got)
	})
}

// A conversation that is summed up is short for the model, and goes on.
func TestCompact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := []string{"/compact"}
		for i := range 30 {
			lines = append(lines, fmt.Sprint("line ", i))
		}
		got := talk(t, "", append(lines, "/compact", "hello")...)
		require.Contains(t, got, "* the conversation is short enough as it is\n")
		require.Contains(t, got, "That makes 59 messages.\n* the conversation so far is summed up\n")
		require.NotContains(t, got, "That makes 61 messages.")
		require.Contains(t, got, "You said \"hello\".")
	})
}

// The chat goes on where it ended.
func TestGoesOn(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for i := range 3 {
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, fmt.Sprintf("You said \"hello\". That makes %d messages.\n", 2*i+1),
				talk(t, state, "hello"))
		})
	}
}

// Ctrl-C ends the program although the terminal stays open, and an answer under way may finish.
func TestEndsByInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, typing := io.Pipe()
		defer func() { _ = typing.Close() }()
		ctx, interrupt := context.WithCancel(t.Context())
		var out page
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, "", in, &out, 100*time.Millisecond) }()
		_, err := io.WriteString(typing, "hello\n")
		require.NoError(t, err)
		time.Sleep(250 * time.Millisecond)
		interrupt()
		require.NoError(t, <-ended)
		require.Equal(t, "You said \"hello\". That makes 1 messages.\n", out.String())
	})
}

// An input that cannot be read is told.
func TestBrokenInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, typing := io.Pipe()
		_ = typing.CloseWithError(errors.New("the terminal is gone"))
		var out page
		require.NoError(t, run(t.Context(), "", in, &out, 0))
		require.Equal(t, "* the terminal is gone\n", out.String())
	})
}
