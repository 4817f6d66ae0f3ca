package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// A page is an output that may be read while it is written.
type page struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// talk runs the bot over lines that are typed a minute after each other, and returns what is shown.
func talk(t *testing.T, lines ...string) []string {
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
	require.NoError(t, run(t.Context(), in, &out))
	return strings.Split(strings.TrimSpace(out.text.String()), "\n")
}

// The work is done in a thread, which goes on with the sub-agent until it is sent away.
func TestThreadsOfTheBot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := talk(t, "general: paint the door", "general/1: make it red",
			"general: /focus general/1", "general: and the window", "general/1: /unfocus")
		require.Len(t, shown, 6, shown)
		require.True(t, strings.HasPrefix(shown[0], "[general/1] 🤖 painter: The agent \"painter\" works here."))
		require.ElementsMatch(t, []string{
			"[general] A painter is on it, in a thread of its own.",
			"[general] The painter is done.",
		}, shown[1:3])
		require.Equal(t, "[general/1] Painted: make it red", shown[3])
		require.Equal(t, "[general] Painted: and the window", shown[4])
		require.Contains(t, shown[5], "[general/1] The agent \"painter\" was sent away")
	})
}

func TestMistakesOfAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := talk(t, "hello", "general: /unfocus", "general: /focus general/9")
		require.Len(t, shown, 3)
	})
}

// The screen keeps to the contract of a ThreadHost.
func TestScreen(t *testing.T) {
	agenttest.TestThreads(t, newScreen(new(bytes.Buffer)), route("general"), "")
}
