package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// A threadCase is a row of section 7.7 of the field's reference: what is given, and what is
// expected of thread bindings.
type threadCase struct {
	id, given, expect string
	differs           string // why there is no such case here
	settings          binding.Settings
	run               func(b caseBot)
}

// A caseBot is a bot on a channel whose sessions answer "ok".
type caseBot struct{ threadBot }

// irc is a conversation of another channel.
var irc = session.Route{Channel: "irc", To: "general"}

// refused checks that a spawn with a thread in a conversation is refused, and leaves nothing.
func (b caseBot) refused(at session.Route, target any) {
	b.T().Helper()
	_, err := b.Main().Spawn(b.Context(), agent.Task{Text: "x", Thread: true, Conversation: at})
	require.ErrorAs(b.T(), err, target)
	require.Empty(b.T(), b.Runs())
	require.Empty(b.T(), b.bindings())
}

// bound spawns a sub-agent with a thread, whose run has ended.
func (b caseBot) bound() (*agent.Child[string], session.Route) {
	b.T().Helper()
	child, thread := b.spawnThread(agent.Task{Text: "x"})
	_, err := child.Wait(b.Context())
	require.NoError(b.T(), err)
	return child, thread
}

// heard posts a message and says which session gets it.
func (b caseBot) heard(at session.Route) session.Key {
	b.T().Helper()
	return b.write(at, "hello").Session
}

// left checks that a conversation is its own session's again, with the reason that it was told; -1:
// it was not.
func (b caseBot) left(at session.Route, reason int) {
	b.T().Helper()
	own, err := b.chat.Key(at)
	require.NoError(b.T(), err)
	require.Equal(b.T(), own, b.heard(at))
	b.Pass(time.Second)
	told := b.chat.Farewells(at)
	if reason == silently {
		require.Empty(b.T(), told)
		return
	}
	require.Len(b.T(), told, 1)
	require.Equal(b.T(), binding.Reason(reason), told[0].Reason)
}

const silently = -1

// probed starts the process anew when the channel says of a thread what state says.
func (b caseBot) probed(at session.Route, state agent.ThreadState, err error) {
	b.chat.Set(at, state)
	b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
		if c.Op == "probe" {
			return err
		}
		return nil
	})
	b.Crash()
	b.Pass(time.Minute)
	b.chat.Set(at, agent.ThreadOpen)
}

func hoursOf(d time.Duration) *float64 {
	h := d.Hours()
	return &h
}

// threadCases are all rows, in their order.
var threadCases = []threadCase{
	{id: "7.1", given: "no adapter, bind", expect: "unavailable", run: func(b caseBot) {
		refused := new(policy.Refusal)
		b.refused(session.Route{Channel: "mail", To: "a"}, &refused)
		require.Equal(b.T(), agent.RuleThread, refused.Rule)
		require.Equal(b.T(), "Config.Threads.Channels", refused.Field)
	}},
	{id: "7.2", given: "no child placement", expect: "unsupported", run: func(b caseBot) {
		refused := new(policy.Refusal)
		b.refused(session.Route{Channel: "bare", To: "a"}, &refused)
		require.Equal(b.T(), agent.RuleThread, refused.Rule)
		require.Equal(b.T(), `Config.Threads.Channels["bare"].Host`, refused.Field)
	}},
	{id: "7.3", given: "the adapter returns nil", expect: "create failed", run: func(b caseBot) {
		failed := new(agent.CallbackError)
		b.refused(irc, &failed)
		require.ErrorContains(b.T(), failed, "no channel or no recipient")
	}},
	{id: "7.4", given: "no placement, a conversation", expect: "current", run: func(b caseBot) {
		b.Post("hello")
		made, err := b.focus(b.general, topKey, "alice")
		require.NoError(b.T(), err)
		require.Equal(b.T(), b.general, made.Conversation)
		require.Empty(b.T(), b.chat.Threads())
	}},
	{id: "7.5", given: "thread:true, no hook", expect: "error, no run", run: func(b caseBot) {
		out, err := callTool(b.Harness, "sessions_spawn", "1", `{"task":"x","thread":true}`)
		require.NoError(b.T(), err)
		require.Equal(b.T(), "error", out["status"], out)
		require.Empty(b.T(), b.Runs())
		require.Empty(b.T(), b.bindings())
	}},
	{id: "7.6", given: "the hook is not ready", expect: "error, deleted", run: func(b caseBot) {
		b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
			return map[bool]error{true: errors.New("not ready")}[c.Op == "create" && c.Done]
		})
		failed := new(agent.CallbackError)
		b.refused(b.general, &failed)
	}},
	{
		id: "7.7", given: "idle 1 ms passed", expect: "idle-expired, farewell",
		settings: binding.Settings{IdleHours: hoursOf(time.Millisecond)}, run: func(b caseBot) {
			_, thread := b.bound()
			b.Pass(time.Millisecond)
			b.left(thread, int(binding.ReasonIdle))
		},
	},
	{
		id: "7.8", given: "both expired, idle earlier", expect: "idle-expired",
		settings: binding.Settings{
			IdleHours: hoursOf(time.Hour), MaxAgeHours: hoursOf(3 * time.Hour),
		},
		run: func(b caseBot) {
			_, thread := b.bound()
			time.Sleep(5 * time.Hour)
			b.left(thread, int(binding.ReasonIdle))
		},
	},
	{
		id: "7.9", given: "touch during the sweep", expect: "kept",
		settings: binding.Settings{IdleHours: hoursOf(time.Hour)}, run: func(b caseBot) {
			child, thread := b.bound()
			for range 3 {
				time.Sleep(time.Hour - 1)
				require.Equal(b.T(), child.Key(), b.heard(thread))
			}
			require.Empty(b.T(), b.chat.Farewells(thread))
		},
	},
	{
		id: "7.10", given: "touch with an older time", expect: "last activity unchanged",
		settings: binding.Settings{IdleHours: hoursOf(time.Hour)}, run: func(b caseBot) {
			_, thread := b.bound()
			own, err := b.chat.Key(thread)
			require.NoError(b.T(), err)
			b.Pass(30 * time.Minute)
			_, err = b.Session(own).Post(b.Context(), agent.Incoming{
				ID: "old", Text: "x", Route: thread, At: time.Now().Add(-20 * time.Hour),
			})
			require.NoError(b.T(), err)
			b.Pass(45 * time.Minute)
			require.Empty(b.T(), b.chat.Farewells(thread))
		},
	},
	{
		id: "7.11", given: "maximum age, an active user", expect: "unbound all the same",
		settings: binding.Settings{MaxAgeHours: hoursOf(3 * time.Hour)}, run: func(b caseBot) {
			child, thread := b.bound()
			for range 2 {
				b.Pass(time.Hour)
				require.Equal(b.T(), child.Key(), b.heard(thread))
			}
			b.Pass(time.Hour)
			b.left(thread, int(binding.ReasonMaxAge))
		},
	},
	{
		id: "7.12", given: "maximum age 1 h of one that is 3 h old", expect: "expires in 1 h",
		run: func(b caseBot) {
			child, thread := b.bound()
			b.Pass(3 * time.Hour)
			hour := time.Hour
			_, err := b.Runtime().LimitFocus(b.Context(), thread, "bob",
				binding.Limit{MaxAge: &hour})
			require.NoError(b.T(), err)
			b.Pass(hour - time.Second)
			require.Equal(b.T(), child.Key(), b.heard(thread))
			b.Pass(time.Second)
			b.left(thread, int(binding.ReasonMaxAge))
		},
	},
	{
		id: "7.13", given: "idle 0", expect: "never idle-expires",
		settings: binding.Settings{IdleHours: hoursOf(0)}, run: func(b caseBot) {
			child, thread := b.bound()
			b.Pass(1000 * time.Hour)
			require.Equal(b.T(), child.Key(), b.heard(thread))
		},
	},
	{id: "7.14", given: "probe 500", expect: "kept; 404: no farewell", run: func(b caseBot) {
		child, thread := b.bound()
		b.probed(thread, agent.ThreadGone, errors.New("500"))
		require.Equal(b.T(), child.Key(), b.heard(thread))
		b.probed(thread, agent.ThreadGone, nil)
		b.left(thread, silently)
	}},
	{id: "7.15", given: "one thread id, two accounts", expect: "isolated", run: func(b caseBot) {
		b.Post("hello")
		first, second := b.worker("first").Key(), b.worker("second").Key()
		at, other := b.chat.At("general", "7"), b.chat.At("general", "7")
		other.Account = "second"
		for at, to := range map[session.Route]session.Key{at: first, other: second} {
			_, err := b.focus(at, to, "alice")
			require.NoError(b.T(), err)
		}
		require.Equal(b.T(), first, b.heard(at))
		require.Equal(b.T(), second, b.heard(other))
	}},
	{id: "7.16", given: "rebind to another session", expect: "old index gone", run: func(b caseBot) {
		child, thread := b.bound()
		other := b.worker("other").Key()
		_, err := b.focus(thread, other, "alice")
		require.NoError(b.T(), err)
		b.Pass(time.Second)
		require.Equal(b.T(), other, b.heard(thread))
		info, err := child.Info(b.Context())
		require.NoError(b.T(), err)
		require.Empty(b.T(), info.Conversations)
		require.Len(b.T(), b.bindings(), 1)
	}},
	{id: "7.17", given: "spawn from a bound thread", expect: "a sibling", run: func(b caseBot) {
		child, thread := b.bound()
		require.Len(b.T(), b.chat.Threads(), 1)
		require.Equal(b.T(), child.Key(), b.write(thread, "spawn").Session)
		b.Pass(time.Second)
		require.Len(b.T(), b.chat.Threads(), 2)
		require.Equal(b.T(), b.general, b.chat.Asked()[1].In)
	}},
	{id: "7.18", given: "a session-mode run ends", expect: "binding kept", run: func(b caseBot) {
		child, thread := b.bound()
		b.Pass(time.Hour)
		require.Len(b.T(), b.bindings(), 1)
		require.Empty(b.T(), b.chat.Farewells(thread))
		require.Equal(b.T(), child.Key(), b.heard(thread))
	}},
	{id: "7.19", given: "session mode, killed", expect: "unbound, killed", run: func(b caseBot) {
		child, thread := b.spawnThread(agent.Task{Text: "hang"})
		b.Pass(time.Second)
		require.NoError(b.T(), child.Stop(b.Context()))
		b.Pass(time.Second)
		require.Empty(b.T(), b.bindings())
		b.left(thread, int(binding.ReasonSubagentStopped))
	}},
	{id: "7.20", given: "delete, hooks off", expect: "still unbinds", run: func(b caseBot) {
		b.Post("hello")
		child, at := b.worker("worker"), session.Route{Channel: "bare", To: "general"}
		_, err := b.focus(at, child.Key(), "alice")
		require.NoError(b.T(), err)
		require.NoError(b.T(), b.Runtime().DeleteSession(b.Context(), child.Key()))
		require.Empty(b.T(), b.bindings())
	}},
	{
		id: "7.21", given: "legacy expiresAt", expect: "maximum age",
		differs: "no file of the reference is read: a binding never had an expiresAt here",
	},
	{id: "7.22", given: "B unfocuses A's", expect: "refused; system: allowed", run: func(b caseBot) {
		b.Post("hello")
		at := b.chat.At("lounge", "")
		_, err := b.focus(at, topKey, "alice")
		require.NoError(b.T(), err)
		_, thread := b.bound()
		q := agent.UnfocusRequest{Conversation: at, By: "bob"}
		_, err = b.Runtime().Unfocus(b.Context(), q)
		require.ErrorIs(b.T(), err, binding.ErrNotOwner)
		q.Conversation = thread
		_, err = b.Runtime().Unfocus(b.Context(), q)
		require.NoError(b.T(), err)
	}},
	{
		id: "7.23", given: "restart", expect: "restored; overdue ones expire",
		settings: binding.Settings{IdleHours: hoursOf(time.Hour)}, run: func(b caseBot) {
			child, thread := b.bound()
			b.Crash()
			require.Equal(b.T(), child.Key(), b.heard(thread))
			b.Crash()
			time.Sleep(time.Hour)
			b.left(thread, int(binding.ReasonIdle))
		},
	},
	{id: "7.24", given: "no run after the bind", expect: "unbound, told", run: func(b caseBot) {
		b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
			for range map[bool]int{true: 5}[c.Op == "create" && c.Done] {
				if _, err := b.Main().Spawn(b.Context(), agent.Task{Text: "hang"}); err != nil {
					return err
				}
			}
			return nil
		})
		task := agent.Task{Text: "x", Thread: true, Conversation: b.general}
		_, err := b.Main().Spawn(b.Context(), task)
		refused := new(policy.Refusal)
		require.ErrorAs(b.T(), err, &refused)
		require.Equal(b.T(), policy.RuleChildren, refused.Rule)
		require.Len(b.T(), b.Runs(), 5)
		require.Empty(b.T(), b.bindings())
		require.Len(b.T(), b.chat.Threads(), 1)
		b.left(b.chat.Threads()[0], int(binding.ReasonSpawnFailed))
	}},
}

// Every row of the reference is driven against the public API, or is named with why it differs.
func TestThreadCases(t *testing.T) {
	for i, c := range threadCases {
		require.Equal(t, fmt.Sprint("7.", i+1), c.id)
		require.Equal(t, (c.run == nil), (c.differs != ""), c.id)
		t.Run(c.id+" "+c.given, func(t *testing.T) {
			if c.run == nil {
				t.Skip("differs: " + c.differs)
			}
			cfg := agent.Config{Runner: agent.RunnerFunc(
				func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
					switch {
					case strings.HasSuffix(tn.Input(), "hang"):
						return agent.Result{}, pause(ctx, time.Hour)
					case strings.HasSuffix(tn.Input(), "spawn"):
						_, err := tn.Spawn(ctx, agent.Task{Text: "y", Thread: true})
						return agent.Result{Text: "NO_REPLY"}, err
					}
					return agent.Result{Text: "NO_REPLY"}, nil // an answer would touch, too
				})}
			cfg.Rules.Subagents.MaxSpawnDepth = 3
			cfg.Threads.Channels = map[string]agent.ThreadChannel{
				"discord": {Bindings: c.settings}, "bare": {},
				"irc": {Host: creator{create: func(
					context.Context, session.Route,
				) (session.Route, error) {
					return session.Route{}, nil
				}}},
			}
			threadsOn(t, cfg, nil, func(b threadBot) { c.run(caseBot{b}) })
		})
	}
	require.Len(t, threadCases, 24)
}
