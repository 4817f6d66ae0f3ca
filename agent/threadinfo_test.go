package agent_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A sub-agent is told in its first message and in its prompt that its session stays open, and only
// then: in each turn, and over a crash.
func TestSubagentKnowsWhetherItStaysOpen(t *testing.T) {
	for name, c := range map[string]struct {
		task agent.Task
		open bool
	}{
		"no thread":        {agent.Task{}, false},
		"thread":           {agent.Task{Thread: true}, true},
		"thread, mode run": {agent.Task{Thread: true, Mode: agent.TaskModeRun}, false},
		"thread, session":  {agent.Task{Thread: true, Mode: agent.TaskModeSession}, true},
		"thread, delete":   {agent.Task{Thread: true, Cleanup: agent.CleanupDelete}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var first, prompt []string
			run := agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Session.Key.IsSubagent() {
					mu.Lock()
					defer mu.Unlock()
					first = append(first, tn.Messages[0].Text)
					prompt = append(prompt, tn.Prompt.String())
				}
				return textResult("done")
			})
			threadsOn(t, agent.Config{Runner: run}, nil, func(b threadBot) {
				b.write(b.general, "hello")
				b.Pass(time.Minute)
				key, err := b.chat.Key(b.general)
				require.NoError(t, err)
				c.task.Text = "paint"
				child, err := b.Session(key).Spawn(b.Context(), c.task)
				require.NoError(t, err)
				info, err := child.Info(b.Context())
				require.NoError(t, err)
				require.Equal(t, c.open, info.Persistent)
				b.Pass(time.Minute)
				if c.open {
					b.Crash()
					b.write(b.chat.Threads()[0], "Go on.")
					b.Pass(time.Minute)
					require.Len(t, first, 2)
				}
				require.NotEmpty(t, first)
				for i := range first {
					require.Equal(t, c.open, strings.Contains(first[i],
						"This session stays open"), first[i])
					require.Equal(t, c.open, strings.Contains(prompt[i],
						"This session stays open after the report"), prompt[i])
				}
			})
		})
	}
}

// What is known of a run names the conversations that are bound to its session, whatever has bound
// them, in each of its runs and over a crash.
func TestInfoHasTheConversations(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		b.write(b.general, "hello")
		b.Pass(time.Minute)
		child, thread := b.spawnThread(agent.Task{Text: "paint", Label: "painter"})
		_, err := child.Wait(b.Context())
		require.NoError(t, err)
		want := func(routes ...session.Route) {
			t.Helper()
			runs, err := b.Session(child.Key()).OwnRuns(b.Context())
			require.NoError(t, err)
			for _, info := range runs {
				require.Equal(t, routes, info.Conversations)
			}
		}
		want(thread)
		other := b.chat.At("lounge", "")
		_, err = b.focus(other, child.Key(), "alice")
		require.NoError(t, err)
		want(thread, other)
		b.write(other, "Go on.")
		b.Pass(time.Minute)
		want(thread, other)
		b.Crash()
		want(thread, other)
		_, err = b.Runtime().Unfocus(b.Context(),
			agent.UnfocusRequest{Conversation: thread, By: "alice"})
		require.NoError(t, err)
		b.Pass(time.Minute)
		want(other)
	})
}

// A reset begins a new conversation of a session, which goes on: what is bound to it stays bound,
// over a crash, and nothing is said in it. The new conversation takes what people write there.
func TestResetKeepsBindings(t *testing.T) {
	var mu sync.Mutex
	var seen []int // how many messages the turns of the main session were given
	run := agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key == topKey {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, len(tn.Messages))
		}
		return textResult("heard " + saidByLine.ReplaceAllString(tn.Input(), ""))
	})
	threadsOn(t, agent.Config{Runner: run}, nil, func(b threadBot) {
		b.Post("hello")
		b.Pass(time.Minute)
		at := b.chat.At("lounge", "")
		_, err := b.focus(at, topKey, "alice")
		require.NoError(t, err)
		before := b.bindings()
		require.NoError(t, b.Main().Reset(b.Context()))
		require.Equal(t, before, b.bindings())
		b.Crash()
		b.Pass(time.Minute)
		require.Equal(t, before, b.bindings())
		require.Empty(t, b.chat.Said(at))
		require.Equal(t, topKey, b.write(at, "Still there?").Session)
		b.Pass(time.Minute)
		require.Equal(t, []string{"heard Still there?"}, b.chat.Said(at))
		require.Equal(t, []int{1, 1}, seen, "the second one is of the new conversation")
	})
}
