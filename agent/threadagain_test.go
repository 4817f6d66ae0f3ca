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

// Over every crash a spawn with Thread and Again comes about in the end: another attempt takes the
// conversation over from the one that a crash has cut short, whether the thread was created for it
// or is one that the program names, and people go on in it.
func TestThreadOfAnotherAttempt(t *testing.T) {
	general := session.Route{Channel: "discord", To: "general"}
	for name, task := range map[string]agent.Task{
		"run":     {Mode: agent.TaskModeRun, Conversation: general},
		"session": {Mode: agent.TaskModeSession, Conversation: general},
		"named":   {Mode: agent.TaskModeSession},
	} {
		t.Run(name, func(t *testing.T) {
			task.Text, task.Key, task.Again, task.Thread = "paint", "k", true, true
			everyCrashInThreads(t, agenttest.EveryCrash, func(
				ctx context.Context, tn *agent.Turn,
			) (agent.Result, error) {
				if strings.Contains(tn.Input(), "[Subagent Task]") {
					err := tn.Record(ctx, agent.Message{Role: session.MessageAssistant, Text: "hm"})
					if err == nil {
						err = pause(ctx, time.Second)
					}
					return agent.Result{Text: "It is blue."}, err
				}
				return agent.Result{Text: "heard " + tn.Input()}, nil
			}, func(b threadBot) {
				task := task
				if name == "named" {
					at, err := b.chat.CreateThread(b.Context(), agent.NewThread{
						Key: "standing", In: general, Name: "standing",
					})
					require.NoError(t, err)
					task.Conversation = at
				}
				var last agent.RunInfo
				for done := false; !done; {
					err := b.Do(func(rt *agent.Runtime) error {
						c, err := rt.Session(topKey).Spawn(b.Context(), task)
						if err != nil {
							return err
						}
						_, _ = c.Wait(b.Context())
						last, err = c.Info(b.Context())
						return err
					})
					require.NoError(t, err)
					done = last.Status != agent.StatusInterrupted
				}
				require.Equal(t, agent.StatusOK, last.Status)
				b.Pass(time.Minute)
				if task.Mode == agent.TaskModeRun {
					require.Empty(t, b.bindings())
					return
				}
				bound := b.bindings()
				require.Len(t, bound, 1)
				require.Equal(t, last.Key, bound[0].Target)
				b.write(bound[0].Conversation, "Red, please.")
				b.Pass(time.Minute)
				said := strings.Join(b.chat.Said(bound[0].Conversation), "\n")
				// A run that a crash has cut short says so.
				require.Equal(t, 1, strings.Count(said, "Red, please.")+
					strings.Count(said, "Please try again."), said)
				for _, info := range b.Runs() { // no former attempt believes that it is bound
					if info.Key != last.Key {
						require.Empty(t, info.Conversations, "%v", info.Key)
					}
				}
			})
		})
	}
}

// A conversation that a person binds to a session of others does not stand for theirs: a thread
// that they or the program ask for is created where they talk, and what the person asks for in the
// bound conversation where that is.
func TestThreadIsCreatedWhereItWasAskedFor(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if strings.Contains(tn.Input(), "[Subagent Task]") {
				return agent.Result{Text: "done"}, nil
			}
			if !strings.Contains(tn.Input(), "thread please") {
				return agent.Result{Text: "heard"}, nil
			}
			_, err := tn.Call(ctx, agent.ToolCall{
				ID: "1", Name: "sessions_spawn", Args: []byte(`{"task":"sums","thread":true}`),
			})
			return agent.Result{Text: "begun"}, err
		})}
	threadsOn(t, cfg, nil, func(b threadBot) {
		own, err := b.chat.Key(b.general)
		require.NoError(t, err)
		spawn := func() {
			_, err := b.Session(own).Spawn(b.Context(), agent.Task{Text: "x", Thread: true})
			require.NoError(t, err)
			b.Pass(time.Second)
		}
		last := func() session.Route {
			asked := b.chat.Asked()
			return asked[len(asked)-1].In
		}
		mallory := b.chat.At("mallory", "")
		_, err = b.focus(mallory, own, "mallory")
		require.NoError(t, err)
		spawn() // before any message
		require.Equal(t, b.general, last())
		b.write(b.general, "a thread please")
		b.Pass(time.Second)
		require.Equal(t, b.general, last())
		b.write(mallory, "hello")
		b.Pass(time.Second)
		spawn()
		require.Equal(t, b.general, last(), "mallory was answered last")
		b.write(mallory, "a thread please")
		b.Pass(time.Second)
		require.Equal(t, mallory, last())
		require.Len(t, b.chat.Asked(), 4)
	})
}
