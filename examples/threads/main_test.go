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
	require.NoError(t, run(t.Context(), "", in, &out))
	return strings.Split(strings.TrimSpace(out.text.String()), "\n")
}

// The work is done in a thread, which goes on with the sub-agent until it is sent away.
func TestThreadsOfTheBot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := talk(t, "general: paint the door", "general/1: make it red",
			"general: /agents", "bob@general/1: /unfocus", "general/1: thanks")
		require.True(t, strings.HasPrefix(shown[0], "[general/1] 🤖 painter: The agent \"painter\" works here."))
		require.ElementsMatch(t, []string{
			"[general] A painter is on it, in a thread of its own.",
			"[general] The painter is done.",
		}, shown[1:3])
		require.Equal(t, "[general/1] Painted: make it red", shown[3])
		require.Equal(t, []string{
			"[general] agents:", "-----", "painter (painter) ok thread:1",
		}, shown[4:7])
		// The reply to the command and the farewell of the thread are two posts without an order.
		unfocused := strings.Join(shown[7:9], "\n")
		require.Contains(t, unfocused, "[general/1] Thread unfocused.")
		require.Contains(t, unfocused, "[general/1] The agent \"painter\" was sent away")
		require.Contains(t, shown[9], "[general/2] ", "the bot has a painter of its own for the thread")
	})
}

func TestMistakesOfAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, []string{
			"[] type a room, a colon and a message",
			"[general] This conversation is not currently focused.",
			"[general] \"general/9\" is not a sub-agent of this conversation. /subagents lists them.",
			"[general] You may not use /kill here.",
			"[general] active subagents:", "-----", "(none)", "",
			"recent subagents (last 30m):", "-----", "(none)",
			"[general] Agent was aborted.",
		}, talk(t, "hello", "general: /unfocus", "general: /focus general/9",
			"guest@general: /kill all", "guest@general: /subagents", "general: please stop!"))
	})
}

// The screen keeps to the contract of a ThreadHost.
func TestScreen(t *testing.T) {
	s, err := newScreen(new(bytes.Buffer), "")
	require.NoError(t, err)
	agenttest.TestThreads(t, s, route("general"), "")
}

// A painter that a person has started by hand says its end in the room, has another task after it,
// and goes to a thread with /focus.
func TestCommandsOfTheBot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := talk(t, "general: /subagents spawn painter a fence", "general: /subagents send 1 a gate",
			"general: /focus last", "general/1: in blue", "general/1: /session idle 2",
			"bob@general/1: /unfocus", "general/1: /unfocus")
		text := strings.Join(shown, "\n")
		require.Contains(t, text, "[general] Spawned subagent painter (session agent:painter:subagent:")
		require.Contains(t, text, "[general] a fence is done.\n\nPainted: a fence")
		require.Contains(t, text, "[general] Painted: a gate")
		require.Contains(t, text, "[general] The new thread 1 now speaks to a fence.")
		require.Contains(t, text, "[general/1] Painted: in blue")
		require.Contains(t, text, "[general/1] Idle timeout set to 2h for 1 binding")
		require.Contains(t, text,
			"[general/1] Only the person who has focused this conversation may change that.")
		require.Contains(t, text, "[general/1] Thread unfocused.")
	})
}

// Each command that has not been played above is obeyed, in a room as in a thread.
func TestMoreCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Join(talk(t, "general: paint the door", "general/1: /session max-age 3",
			"general/1: /session idle off", "general/1: /session max-age",
			"general: /subagents spawn painter x", "general: /tell 1 y", "general: /subagents list",
			"general: /subagents steer 1 z", "general: /subagents kill 1",
			"general: /subagents stop 1", "general: /agents", "general: /reset"), "\n")
		for _, want := range []string{
			"[general/1] Max age set to 3h for 1 binding", "[general/1] Idle timeout disabled",
			"[general/1] Max age active: 3h", "[general] active subagents:\n-----\n(none)\n\n" +
				"recent subagents (last 30m):\n-----\n1. x (1s) ok\n2. painter (1s) ok",
			"painter (painter) ok thread:1", "[general] A new conversation has begun.",
		} {
			require.Contains(t, text, want)
		}
		finished := strings.Count(text, "already finished.")
		require.Equal(t, 4, finished, "tell, steer, kill and stop of what is done:\n%s", text)
	})
}

// All commands are obeyed.
func TestEveryCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Join(talk(t, "general: /subagents help",
			"general: /subagents spawn painter x", "general: /subagents info 1",
			"general: /subagents log 1 5", "general: /steer 1 y", "general: /kill 1",
			"general: /compact", "general: /new hi", "general: /stop"), "\n")
		for _, want := range []string{
			"Commands:", "Status: ok", "Assistant: Painted: x", "is already finished",
			"x is already finished.", "cannot be done here", "A new conversation has begun.",
			"Agent was aborted.",
		} {
			require.Contains(t, text, want)
		}
	})
}
