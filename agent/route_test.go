package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// The route of a message overrides what the key says, and what it lacks is filled in, never from
// another channel. A session whose key names no chat answers to where the last message came from,
// also after a restart.
func TestRoutesOfMessages(t *testing.T) {
	at := func(channel, account, to, thread string) session.Route {
		return session.Route{Channel: channel, Account: account, To: to, Thread: thread}
	}
	direct := session.Must(session.DirectKey("main", "telegram", "ann"))
	for name, c := range map[string]struct {
		key    session.Key
		routes []session.Route // of the messages
		want   session.Route   // of the reply to the last one
	}{
		"the key":             {direct, []session.Route{{}}, at("telegram", "", "ann", "")},
		"a thread of the key": {direct, []session.Route{{Thread: "7"}}, at("telegram", "", "ann", "7")},
		"another recipient":   {direct, []session.Route{{To: "bob"}}, at("telegram", "", "bob", "")},
		"another channel":     {direct, []session.Route{{Channel: "irc"}}, at("irc", "", "", "")},
		"no clean one":        {direct, []session.Route{at(" IRC ", "", " bob", "")}, at("irc", "", "bob", "")},
		"nothing":             {topKey, []session.Route{{}}, session.Route{}},
		"the last one":        {topKey, []session.Route{at("irc", "b", "ann", "7"), {}}, at("irc", "b", "ann", "7")},
		"the gaps": {
			topKey,
			[]session.Route{at("irc", "b", "ann", "7"), {Channel: "irc"}},
			at("irc", "b", "ann", "7"),
		},
		"no route in a group": {
			groupKey, []session.Route{{Thread: "7"}, {}}, at("telegram", "", "family", "7"),
		},
		"no route at first": {groupKey, []session.Route{{}, {}}, at("telegram", "", "family", "")},
		"no gap across channels": {
			topKey, []session.Route{at("irc", "b", "ann", "7"), at("sms", "", "", "")}, at("sms", "", "", ""),
		},
		"no thread of another": {
			topKey, []session.Route{at("irc", "b", "ann", "7"), {To: "bob"}}, at("irc", "b", "bob", ""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			turnsOf(t, agent.Config{}, func(h *harness) {
				for i, route := range c.routes {
					if i > 0 {
						h.Crash()
					}
					h.PostIncoming(c.key, agent.Incoming{Text: "hi", Route: route})
					synctest.Wait()
				}
				replies := h.Replies()
				require.Equal(t, c.want, replies[len(replies)-1].Reply.Route)
			})
		})
	}
}

// SetRoute is for sessions that get no messages: what they say later goes there.
func TestSetRoute(t *testing.T) {
	route := session.Route{Channel: "slack", To: "general"}
	turnsOf(t, agent.Config{}, func(h *harness) {
		require.NoError(t, h.Main().SetRoute(h.Context(), route))
		h.Crash()
		h.Post("hi")
		require.Equal(t, route, h.Replies()[0].Reply.Route)
		require.NoError(t, h.Main().SetRoute(h.Context(), session.Route{}))
		h.Post("hi")
		require.Equal(t, session.Route{}, h.Replies()[1].Reply.Route)
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		err = h.Session(child.Key()).SetRoute(h.Context(), route)
		require.ErrorIs(t, err, agent.ErrNoConversation)
		err = h.Main().SetRoute(h.Context(), session.Route{To: "\xff"})
		_, ok := errors.AsType[*agent.InputError](err)
		require.True(t, ok, "%v", err)
	})
}

// Pains 23: what a sub-agent comes to is told where its requester was asked, wherever the session
// has talked since, also after a restart.
func TestReportGoesWhereTheSpawnWasAskedFor(t *testing.T) {
	room := func(n int) session.Route {
		return session.Route{Channel: "slack", Account: "work", To: fmt.Sprint("room-", n)}
	}
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			agenttest.Run(t, agent.Config{}, script{
				"main": append([]agenttest.Step{startStep("survey"), say("Asked.")},
					append(slices.Repeat([]agenttest.Step{say("Yes.")}, 10), echo())...),
				"survey": {say("Surveyed.").After(time.Hour)},
			}, func(h *harness) {
				h.PostIncoming(topKey, agent.Incoming{Text: "survey", Route: room(0)})
				time.Sleep(time.Minute)
				for n := range 10 {
					h.PostIncoming(topKey, agent.Incoming{Text: "hello", Route: room(n + 1)})
					time.Sleep(time.Minute)
				}
				if crash {
					h.Crash()
				}
				h.Pass(2 * time.Hour)
				replies := h.Replies()
				require.Len(h.T(), replies, 12)
				for n, d := range replies[:11] {
					require.Equal(h.T(), room(n), d.Reply.Route)
				}
				require.Equal(h.T(), room(0), replies[11].Reply.Route)
			})
		})
	}
}
