package agenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

func TestFakeChannelKeepsToTheContract(t *testing.T) {
	chat := NewFakeChannel("discord")
	TestThreads(t, chat, chat.At("general", ""), "")
}

// A brokenHost breaks the contract of a ThreadHost in one way.
type brokenHost struct {
	*FakeChannel

	create   func(t agent.NewThread, made session.Route) (session.Route, error)
	farewell func(f agent.Farewell) error
	probe    func(at session.Route, s agent.ThreadState) agent.ThreadState
}

func (h brokenHost) CreateThread(
	ctx context.Context, t agent.NewThread,
) (session.Route, error) {
	made, err := h.FakeChannel.CreateThread(ctx, t)
	if h.create == nil || err != nil {
		return made, err
	}
	return h.create(t, made)
}

func (h brokenHost) Farewell(ctx context.Context, f agent.Farewell) error {
	if h.farewell != nil {
		return h.farewell(f)
	}
	return h.FakeChannel.Farewell(ctx, f)
}

func (h brokenHost) ProbeThread(
	ctx context.Context, at session.Route,
) (agent.ThreadState, error) {
	state, err := h.FakeChannel.ProbeThread(ctx, at)
	if h.probe != nil {
		state = h.probe(at, state)
	}
	return state, err
}

// Each rule of the kit notices a host that breaks it, and no other rule does.
func TestBrokenThreadHosts(t *testing.T) {
	var n atomic.Int32
	for name, c := range map[string]struct {
		host brokenHost
		rule string
	}{
		"no recipient": {brokenHost{create: func(
			_ agent.NewThread, made session.Route,
		) (session.Route, error) {
			return session.Route{Channel: made.Channel, Thread: made.Thread}, nil
		}}, "1 route"},
		"another account": {brokenHost{create: func(
			_ agent.NewThread, made session.Route,
		) (session.Route, error) {
			made.Account = "other"
			return made, nil
		}}, "1 route"},
		"a thread for each call": {brokenHost{create: func(
			_ agent.NewThread, made session.Route,
		) (session.Route, error) {
			made.Thread += fmt.Sprint("-", n.Add(1))
			return made, nil
		}}, "2 one thread for one key"},
		"one thread for all": {brokenHost{create: func(
			_ agent.NewThread, made session.Route,
		) (session.Route, error) {
			made.Thread = "thread-1"
			return made, nil
		}}, "3 two threads for two keys"},
		"a farewell that is refused the second time": {brokenHost{farewell: func(
			f agent.Farewell,
		) error {
			if f.Attempt > 1 {
				return errors.New("said before")
			}
			return nil
		}}, "4 farewell"},
		"a new thread that is gone": {brokenHost{probe: func(
			session.Route, agent.ThreadState,
		) agent.ThreadState {
			return agent.ThreadGone
		}}, "5 open"},
		"every thread is open": {brokenHost{probe: func(
			session.Route, agent.ThreadState,
		) agent.ThreadState {
			return agent.ThreadOpen
		}}, "6 unknown"},
		"a farewell that outlives its context": {brokenHost{farewell: func(
			f agent.Farewell,
		) error {
			if strings.HasSuffix(f.Key, "-ended") {
				time.Sleep(time.Minute)
			}
			return nil
		}}, "7 context"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.host.FakeChannel = NewFakeChannel("discord")
				k := &threadKit{host: c.host, in: c.host.At("general", "")}
				var broken []string
				for _, rule := range k.rules() {
					r := &recorder{TB: t}
					done := make(chan struct{})
					go func() {
						defer close(done)
						rule.check(r)
					}()
					<-done
					if len(r.failed) > 0 {
						broken = append(broken, rule.name)
					}
				}
				require.Contains(t, broken, c.rule)
				require.LessOrEqual(t, len(broken), 2)
				time.Sleep(time.Hour)
			})
		})
	}
}

// What people write is told to the bot, and what it says is kept by conversation, whatever the
// channel does to the calls.
func TestFakeChannel(t *testing.T) {
	chat := NewFakeChannel("discord")
	var cfg agent.Config
	cfg.Threads.Channels = map[string]agent.ThreadChannel{"irc": {}}
	others := 0
	cfg.Reply = func(context.Context, agent.Delivery) error { others++; return nil }
	chat.Connect(&cfg)
	require.Len(t, cfg.Threads.Channels, 2)
	general := chat.At("general", "")
	say := func(key string, at session.Route) error {
		return cfg.Reply(t.Context(), agent.Delivery{
			Key: key, Reply: &agent.Reply{Text: key, Route: at},
		})
	}
	require.NoError(t, say("one", general))
	require.NoError(t, say("one", general), "again under its key")
	require.NoError(t, say("two", session.Route{Channel: "irc", To: "#a"}))
	require.Equal(t, 1, others)

	lost := errors.New("the answer is lost")
	chat.Intercept(func(_ context.Context, c FakeCall) error {
		if c.Done {
			return lost
		}
		return nil
	})
	require.ErrorIs(t, say("three", general), lost)
	_, err := chat.CreateThread(t.Context(), agent.NewThread{Key: "k", In: general})
	require.ErrorIs(t, err, lost)
	require.Equal(t, []string{"one", "three"}, chat.Said(general))
	chat.Intercept(nil)
	made, err := chat.CreateThread(t.Context(), agent.NewThread{Key: "k", In: general})
	require.NoError(t, err)
	require.Equal(t, []session.Route{made}, chat.Threads())

	chat.Set(made, agent.ThreadArchived)
	state, err := chat.ProbeThread(t.Context(), made)
	require.NoError(t, err)
	require.Equal(t, agent.ThreadArchived, state)
	_, err = chat.Write(t.Context(), nil, made, "alice", "hello")
	require.ErrorContains(t, err, "archived")
	chat.Set(made, agent.ThreadGone)
	require.NoError(t, chat.Farewell(t.Context(), agent.Farewell{Key: "f", Route: made}))
	require.Empty(t, chat.Farewells(made))
}

// A thread that people have opened is there from when one has written in it, or Set says so.
func TestFakeChannelHasThreadsOfPeople(t *testing.T) {
	chat, script := NewFakeChannel("discord"), Script{"main": {Echo(), Echo()}}
	var cfg agent.Config
	chat.Connect(&cfg)
	Run(t, cfg, script, func(h *Harness) {
		probe := func(at session.Route) agent.ThreadState {
			state, err := chat.ProbeThread(h.Context(), at)
			require.NoError(t, err)
			return state
		}
		written, set := chat.At("general", "7"), chat.At("general", "8")
		require.Equal(t, agent.ThreadOpen, probe(chat.At("general", "")))
		require.Equal(t, agent.ThreadGone, probe(written), "a name makes no thread")
		_, err := chat.Write(h.Context(), h.Runtime(), written, "alice", "hello")
		require.NoError(t, err)
		require.Equal(t, agent.ThreadOpen, probe(written))
		require.Equal(t, agent.ThreadGone, probe(set))
		chat.Set(set, agent.ThreadOpen)
		require.Equal(t, agent.ThreadOpen, probe(set))
	})
}
