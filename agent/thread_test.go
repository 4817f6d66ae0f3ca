package agent_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// A threadBot is a bot on a channel in memory.
type threadBot struct {
	*agenttest.Harness

	chat    *agenttest.FakeChannel
	general session.Route // where people talk to the bot
}

// threadsOn runs f with a bot on a channel. Its people's own session of the conversation "general"
// is on record as agenttest.Main plays it.
func threadsOn(
	t *testing.T, cfg agent.Config, s agenttest.Script, f func(b threadBot),
) {
	t.Helper()
	runThreads(t, agenttest.Run, cfg, s, f)
}

type threadRunner func(*testing.T, agent.Config, agenttest.Script, func(*agenttest.Harness))

func runThreads(
	t *testing.T, run threadRunner, cfg agent.Config, s agenttest.Script, f func(b threadBot),
) {
	t.Helper()
	chat := agenttest.NewFakeChannel("discord")
	chat.Connect(&cfg)
	run(t, cfg, s, func(h *agenttest.Harness) {
		f(threadBot{h, chat, chat.At("general", "")})
	})
}

// write has a person write in a conversation.
func (b threadBot) write(at session.Route, text string) agent.Receipt {
	b.T().Helper()
	var receipt agent.Receipt
	again := false
	require.NoError(b.T(), b.Do(func(rt *agent.Runtime) (err error) {
		if again { // after a crash the transport posts it under the same ID
			receipt, err = b.chat.WriteAgain(b.Context(), rt)
			return err
		}
		again = true
		receipt, err = b.chat.Write(b.Context(), rt, at, "alice", text)
		return err
	}))
	return receipt
}

// spawnThread has the conversation's own session spawn a sub-agent with a thread from Go.
func (b threadBot) spawnThread(task agent.Task) (*agent.Child[string], session.Route) {
	b.T().Helper()
	key, err := b.chat.Key(b.general)
	require.NoError(b.T(), err)
	task.Thread = true
	child, err := b.Session(key).Spawn(b.Context(), task)
	require.NoError(b.T(), err)
	threads := b.chat.Threads()
	for i, t := range b.chat.Asked() { // the sub-agent may have created one since
		if t.Session == child.Key() {
			return child, threads[i]
		}
	}
	return child, threads[len(threads)-1] // under a key that was known
}

func (b threadBot) bindings() []binding.Binding {
	b.T().Helper()
	var list []binding.Binding
	require.NoError(b.T(), b.Do(func(rt *agent.Runtime) (err error) {
		list, err = rt.Bindings(b.Context())
		return err
	}))
	return list
}

// A sub-agent with a thread answers there, and its first result comes to its requester as any
// other.
func TestThreadOfASubagent(t *testing.T) {
	threadsOn(t, agent.Config{}, agenttest.Script{
		agenttest.Main: {
			agenttest.Call("sessions_spawn", `{"task":"paint","label":"painter","thread":true}`),
			agenttest.Say("Look into the thread."), agenttest.Echo(),
		},
		"painter": {
			agenttest.Say("It is blue.").After(time.Minute), agenttest.Say("Now it is red."),
		},
	}, func(b threadBot) {
		b.write(b.general, "Paint something.")
		b.Pass(time.Second)
		require.Equal(t, []string{"Look into the thread."}, b.chat.Said(b.general))
		threads := b.chat.Threads()
		require.Len(t, threads, 1)
		painter := b.Child("painter")
		require.Equal(t, painter.Key, b.bindings()[0].Target)
		require.Equal(t, "🤖 painter", b.chat.Asked()[0].Name)
		b.Pass(time.Hour)
		require.Equal(t, []string{"Look into the thread.", "It is blue."}, b.chat.Said(b.general))
		require.Empty(t, b.chat.Said(threads[0]))

		receipt := b.write(threads[0], "Red, please.")
		require.Equal(t, painter.Key, receipt.Session)
		require.NotEmpty(t, receipt.Run)
		require.NotEqual(t, painter.ID, receipt.Run)
		b.Pass(time.Minute)
		require.Equal(t, []string{"Now it is red."}, b.chat.Said(threads[0]))
		require.Equal(t, []string{"Look into the thread.", "It is blue."}, b.chat.Said(b.general))
	})
}

// A person who writes while the sub-agent works is answered in the thread, and the result of the
// run is not that answer.
func TestThreadWhileTheSubagentWorks(t *testing.T) {
	threadsOn(t, agent.Config{}, agenttest.Script{
		"painter": {
			agenttest.Say("It is blue.").After(time.Minute), agenttest.Say("Yes, soon."),
		},
	}, func(b threadBot) {
		child, thread := b.spawnThread(agent.Task{Text: "paint", Label: "painter"})
		b.write(thread, "Will you be done soon?")
		b.Pass(time.Hour)
		got, err := child.Wait(b.Context())
		require.NoError(t, err)
		require.Equal(t, "It is blue.", got)
		require.Equal(t, []string{"Yes, soon."}, b.chat.Said(thread))
	})
}

// What forbids a thread is found before anything exists, and says where it is set.
func TestThreadIsRefusedBeforeAnythingExists(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		threads agent.Threads
		field   string
		path    string
	}{
		"7.1 no channel": {field: "Config.Threads.Channels"},
		"another channel": {
			threads: agent.Threads{Channels: map[string]agent.ThreadChannel{"irc": {}}},
			field:   "Config.Threads.Channels",
		},
		"7.2 no host": {
			threads: agent.Threads{Channels: map[string]agent.ThreadChannel{"Discord": {}}},
			field:   `Config.Threads.Channels["Discord"].Host`,
		},
		"off for all": {
			threads: agent.Threads{
				Channels: map[string]agent.ThreadChannel{"discord": {}},
				Bindings: binding.Settings{Enabled: &no},
			},
			field: "Config.Threads.Bindings.Enabled", path: "session.threadBindings.enabled",
		},
		"off for spawns of the channel": {
			threads: agent.Threads{Channels: map[string]agent.ThreadChannel{
				"discord": {Bindings: binding.Settings{SpawnSubagentSessions: &no}},
			}},
			field: `Config.Threads.Channels["discord"].Bindings.SpawnSubagentSessions`,
			path:  "channels.discord.threadBindings.spawnSubagentSessions",
		},
		"off for the account": {
			threads: agent.Threads{Channels: map[string]agent.ThreadChannel{
				"discord": {Accounts: map[string]binding.Settings{"bot": {Enabled: &no}}},
			}},
			field: `Config.Threads.Channels["discord"].Accounts["bot"].Enabled`,
			path:  "channels.discord.accounts.bot.threadBindings.enabled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, agent.Config{Threads: c.threads}, agenttest.Script{},
				func(h *agenttest.Harness) {
					_, err := h.Main().Spawn(h.Context(), agent.Task{
						Text: "x", Thread: true, Conversation: session.Route{
							Channel: "discord", Account: "bot", To: "general",
						},
					})
					refused := new(policy.Refusal)
					require.ErrorAs(t, err, &refused)
					require.Equal(t, agent.RuleThread, refused.Rule)
					require.Equal(t, c.field, refused.Field)
					require.Equal(t, c.path, refused.Path)
					require.Empty(t, h.Runs())
				})
		})
	}
}

// A rule that refuses the spawn is asked before the thread is created.
func TestNoThreadForARefusedSpawn(t *testing.T) {
	threadsOn(t, agent.Config{}, agenttest.Script{}, func(b threadBot) {
		_, err := b.Main().Spawn(b.Context(), agent.Task{
			Text: "x", Agent: "nosuch", Thread: true, Conversation: b.general,
		})
		require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTarget})
		_, err = b.Main().Spawn(b.Context(), agent.Task{
			Text: "x", Thread: true, Mode: agent.TaskModeSession,
		})
		bad := new(agent.InputError)
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "Task.Conversation", bad.Field, "it is not known where people are")
		_, err = b.Main().Spawn(b.Context(), agent.Task{Text: "x", Mode: agent.TaskModeSession})
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "Task.Mode", bad.Field)
		require.Empty(t, b.chat.Threads())
		require.Empty(t, b.Runs())
		require.Empty(t, b.bindings())
	})
}

// 7.17: a sub-agent that is spawned from a thread gets another thread beside it.
func TestThreadBesideAThread(t *testing.T) {
	rules := policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}}
	threadsOn(t, agent.Config{Rules: rules}, agenttest.Script{
		"one": {
			agenttest.Call("sessions_spawn", `{"task":"y","label":"two","thread":true}`),
			agenttest.Say("Started.").After(time.Second), agenttest.Say("Both are done."),
		},
		"two": {agenttest.Say("Two.").After(time.Minute)},
	}, func(b threadBot) {
		_, first := b.spawnThread(agent.Task{Text: "x", Label: "one"})
		b.Pass(30 * time.Second)
		threads := b.chat.Threads()
		require.Len(t, threads, 2)
		require.Equal(t, first, threads[0])
		require.Equal(t, b.general, b.chat.Asked()[1].In)
		require.Len(t, b.bindings(), 2)
		b.Pass(time.Hour)
		require.Len(t, b.bindings(), 1, "a session below one that has ended takes no messages")
		require.Len(t, b.chat.Farewells(threads[1]), 1)
	})
}

// A conversation is bound to a session of any tree, its messages go there and are answered in the
// conversation, and in the instant after Unfocus they are its own session's again.
func TestFocus(t *testing.T) {
	threadsOn(t, agent.Config{}, agenttest.Script{
		agenttest.Main: {agenttest.Say("The chat's own answer.")},
		"worker":       {agenttest.Say("Worked."), agenttest.Say("Here I am.")},
	}, func(b threadBot) {
		child, err := b.Main().Spawn(b.Context(), agent.Task{Text: "x", Label: "worker"})
		require.NoError(t, err)
		b.Pass(time.Minute)
		at := b.chat.At("general", "7")
		made, err := b.Runtime().Focus(b.Context(), agent.FocusRequest{
			Conversation: at, Session: child.Key(), By: "alice", Label: "worker",
		})
		require.NoError(t, err)
		require.Equal(t, child.Key(), made.Target)
		require.Equal(t, b.Main().Key(), made.Root)
		require.Equal(t, 24*time.Hour, made.Idle)
		require.Equal(t, child.Key(), b.write(at, "Are you there?").Session)
		b.Pass(time.Minute)
		require.Equal(t, []string{"Here I am."}, b.chat.Said(at))

		_, err = b.Runtime().Unfocus( // 7.22
			b.Context(), agent.UnfocusRequest{Conversation: at, By: "bob"})
		require.ErrorIs(t, err, binding.ErrNotOwner)
		ended, err := b.Runtime().Unfocus(
			b.Context(), agent.UnfocusRequest{Conversation: at, By: "alice"})
		require.NoError(t, err)
		require.Equal(t, binding.ReasonManual, ended.Reason)
		own, err := b.chat.Key(at)
		require.NoError(t, err)
		require.Equal(t, own, b.write(at, "And now?").Session)
		b.Pass(time.Minute)
		require.Len(t, b.chat.Farewells(at), 1)
		require.ElementsMatch(t, []string{
			"Here I am.", b.chat.Farewells(at)[0].Text, "The chat's own answer.",
		}, b.chat.Said(at))
		_, err = b.Runtime().Unfocus(
			b.Context(), agent.UnfocusRequest{Conversation: at, By: "alice"})
		require.ErrorIs(t, err, agent.ErrNotFound)
	})
}

// Idle and maximum age are looked at when a message is routed, and the end is told.
func TestBindingsExpire(t *testing.T) {
	hours := func(h float64) *float64 { return &h }
	for name, c := range map[string]struct {
		settings binding.Settings
		every    time.Duration // how often people write
		over     time.Duration // when the binding has expired; 0: never
		reason   binding.Reason
	}{
		"7.7 idle":    {binding.Settings{IdleHours: hours(2)}, 0, 2 * time.Hour, binding.ReasonIdle},
		"7.9 touched": {binding.Settings{IdleHours: hours(2)}, time.Hour, 0, 0},
		"7.13 off":    {binding.Settings{IdleHours: hours(0)}, 0, 0, 0},
		"7.11 age of an active one": {
			binding.Settings{MaxAgeHours: hours(3)}, time.Hour, 3 * time.Hour, binding.ReasonMaxAge,
		},
		"7.8 idle is earlier": {
			binding.Settings{IdleHours: hours(1), MaxAgeHours: hours(3)},
			0, time.Hour,
			binding.ReasonIdle,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Runner: agent.RunnerFunc(
				func(context.Context, *agent.Turn) (agent.Result, error) {
					return agent.Result{Text: "NO_REPLY"}, nil // an answer counts, too
				})}
			cfg.Threads.Channels = map[string]agent.ThreadChannel{"discord": {Bindings: c.settings}}
			threadsOn(t, cfg, nil, func(b threadBot) {
				began := time.Now()
				child, thread := b.spawnThread(agent.Task{Text: "x"})
				own, err := b.chat.Key(thread)
				require.NoError(t, err)
				for c.every > 0 && time.Since(began)+c.every < cmp.Or(c.over, 5*time.Hour) {
					b.Pass(c.every)
					require.Equal(t, child.Key(), b.write(thread, "hello").Session)
				}
				if c.over == 0 {
					b.Pass(100 * time.Minute)
					require.Equal(t, child.Key(), b.write(thread, "late").Session)
					require.Empty(t, b.chat.Farewells(thread))
					return
				}
				b.Pass(c.over - time.Since(began) - 1)
				require.Empty(t, b.chat.Farewells(thread))
				require.Len(t, b.bindings(), 1)
				time.Sleep(time.Nanosecond) // the message comes in the same instant
				require.Equal(t, own, b.write(thread, "at that moment").Session)
				b.Pass(time.Second)
				told := b.chat.Farewells(thread)
				require.Len(t, told, 1)
				require.Equal(t, c.reason, told[0].Reason)
				require.Equal(t, child.Key(), told[0].Session)
				require.Empty(t, b.bindings())
			})
		})
	}
}
