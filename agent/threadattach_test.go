package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// A sub-agent that is spawned in a thread, by a program or a turn, has the attachments of its task.
// A request under a Key that is known comes to the same one, and one with other files is refused.
func TestThreadWithAttachments(t *testing.T) {
	const spawns = "spawn"
	task := func(key, text string) agent.Task {
		return agent.Task{Text: "work", Key: key, Thread: true, Attachments: attaching("a", text)}
	}
	for _, key := range []string{"", "k"} {
		spawned := make(map[session.Key]bool)
		cfg := agent.Config{Runner: agent.RunnerFunc(
			func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if !strings.HasSuffix(tn.Input(), spawns) {
					return textResult("done")
				}
				c, err := tn.Spawn(ctx, task(strings.Repeat(key, 2), "one"))
				if err == nil {
					spawned[c.Key()] = true
				}
				return agent.Result{Text: "NO_REPLY"}, err
			})}
		runThreads(t, agenttest.Run, cfg, nil, func(b threadBot) {
			first, at := b.spawnThread(task(key, "one"))
			require.Equal(t, first.Key(), b.write(at, "hello").Session)
			spawned[first.Key()] = true
			from, err := b.chat.Key(b.general)
			require.NoError(t, err)
			if key != "" {
				again, err := b.Session(from).Spawn(b.Context(), task(key, "one"))
				require.NoError(t, err)
				require.Equal(t, first.Key(), again.Key())
				_, err = b.Session(from).Spawn(b.Context(), task(key, "two"))
				require.ErrorIs(t, err, agent.ErrKeyConflict)
			}
			require.Len(t, b.chat.Threads(), 1)
			b.write(b.general, spawns)
			b.Pass(time.Minute)
			require.Len(t, spawned, 2)
			for ref, files := range b.Files() {
				if spawned[ref.Key] {
					require.Len(t, files, 1)
					delete(spawned, ref.Key)
				}
			}
			require.Empty(t, spawned, "every one has its file")
		})
	}
}
