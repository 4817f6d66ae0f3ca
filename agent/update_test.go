package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
)

// talks returns a script in which the main session answers one message, and its sub-agents.
func talks(steps agenttest.Script) agenttest.Script {
	steps[agenttest.Main] = []agenttest.Step{agenttest.Say("Hello.")}
	return steps
}

// Over every crash the chat is told once of the end of what a person has asked for by hand, where
// the session was answering, and the session gets no turn over it.
func TestUpdateEveryCrash(t *testing.T) {
	play := talks(agenttest.Script{"counter": {agenttest.Say("There are 12.").After(time.Minute)}})
	agenttest.EveryCrash(t, agent.Config{}, play, func(h *harness) {
		route := session.Route{Channel: "irc", To: "ops"}
		h.PostIncoming(topKey, agent.Incoming{ID: "1", Text: "hi", Route: route})
		h.Replied("Hello.")
		task := agent.Task{Text: "count", Label: "counter", Key: "k", Update: true}
		require.NoError(t, h.Do(func(rt *agent.Runtime) error {
			_, err := rt.Session(topKey).Spawn(h.Context(), task)
			return err
		}))
		time.Sleep(time.Hour)
		replies := h.Replies()
		last := replies[len(replies)-1].Reply
		if !last.Failed { // else its process died in its turn
			h.Replied("Hello.", "counter is done.\n\nThere are 12.")
		} else {
			h.Replied("Hello.", "counter was interrupted.")
		}
		require.Equal(t, route, last.Route)
		require.True(t, last.From.IsSubagent())
	})
}

// An update says how a run ended in words for people, and not why.
func TestUpdateOfAFailure(t *testing.T) {
	play := talks(agenttest.Script{"counter": {agenttest.Fail(errors.New("HTTP 500 from x"))}})
	agenttest.Run(t, agent.Config{}, play, func(h *harness) {
		h.Post("hi")
		h.Replied("Hello.")
		task := agent.Task{Text: "count", Label: "counter", Update: true}
		_, err := h.Main().Spawn(h.Context(), task)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		h.Replied("Hello.", "counter has failed.")
		require.Contains(t, h.Replies()[1].Reply.Err, "HTTP 500")
	})
}

// A sub-agent that chose to say nothing has no update, and what cannot be told is refused.
func TestUpdateOfNothing(t *testing.T) {
	play := talks(agenttest.Script{"counter": {agenttest.Say(announce.AnnounceSkip)}})
	agenttest.Run(t, agent.Config{}, play, func(h *harness) {
		h.Post("hi")
		child, err := h.Main().Spawn(h.Context(), agent.Task{
			Text: "count", Label: "counter", Update: true,
		})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		h.Replied("Hello.")
		for what, task := range map[string]agent.Task{
			"excludes": {Text: "x", Update: true, Announce: true},
		} {
			_, err := h.Main().Spawn(h.Context(), task)
			var bad *agent.InputError
			require.ErrorAs(t, err, &bad, what)
			require.Contains(t, bad.Error(), what)
		}
		_, err = child.Session().Spawn(h.Context(), agent.Task{Text: "x", Update: true})
		require.Error(t, err)
	})
	rt, err := agent.Open(t.Context(), agent.Config{Runner: sayOK})
	require.NoError(t, err)
	_, err = rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x", Update: true})
	require.ErrorContains(t, err, "no Reply")
	require.NoError(t, rt.Shutdown(t.Context()))
}

// Config.Route says where people are told of what a sub-agent came to: an update, and what the
// session says over its end. Without a word of it, it is where the session answered at the spawn.
func TestRouteOfASpawn(t *testing.T) {
	asked := session.Route{Channel: "irc", To: "ann"}
	other := session.Route{Channel: "sms", To: "bob"}
	for name, c := range map[string]struct {
		route func(context.Context, agent.RouteRequest) (session.Route, error)
		want  session.Route
	}{
		"none": {nil, asked},
		"another": {func(_ context.Context, q agent.RouteRequest) (session.Route, error) {
			if q.From != topKey || q.Agent != "main" || !strings.HasPrefix(q.Label, "counter") {
				return session.Route{}, errors.New("asked of something else")
			}
			return other, nil
		}, other},
		"no word": {func(context.Context, agent.RouteRequest) (session.Route, error) {
			return session.Route{}, nil
		}, asked},
		"an error": {func(context.Context, agent.RouteRequest) (session.Route, error) {
			return other, errors.New("down")
		}, asked},
		"a panic": {func(context.Context, agent.RouteRequest) (session.Route, error) {
			panic("down")
		}, asked},
	} {
		t.Run(name, func(t *testing.T) {
			play := agenttest.Script{
				agenttest.Main: {agenttest.Say("Hello."), agenttest.Say("Twelve.")},
				"counter":      {agenttest.Say("There are 12.")},
				"counter2":     {agenttest.Say("There are 13.")},
			}
			agenttest.Run(t, agent.Config{Route: c.route}, play, func(h *harness) {
				h.PostIncoming(topKey, agent.Incoming{ID: "1", Text: "hi", Route: asked})
				h.Replied("Hello.")
				for _, task := range []agent.Task{
					{Text: "count", Label: "counter", Announce: true},
					{Text: "count", Label: "counter2", Update: true},
				} {
					_, err := h.Main().Spawn(h.Context(), task)
					require.NoError(t, err)
					time.Sleep(time.Hour)
				}
				h.Replied("Hello.", "Twelve.", "counter2 is done.\n\nThere are 13.")
				for _, d := range h.Replies()[1:] {
					require.Equal(t, c.want, d.Reply.Route)
				}
			})
		})
	}
}

// A person is told of the end where he has asked for it, whatever the session answers by then and
// whatever Config.Route says.
func TestUpdateInItsConversation(t *testing.T) {
	asked := session.Route{Channel: "irc", To: "ops"}
	cfg := agent.Config{Route: func(context.Context, agent.RouteRequest) (session.Route, error) {
		return session.Route{Channel: "irc", To: "elsewhere"}, nil
	}}
	play := talks(agenttest.Script{"counter": {agenttest.Say("There are 12.").After(time.Minute)}})
	agenttest.Run(t, cfg, play, func(h *harness) {
		h.Post("hi")
		h.Replied("Hello.")
		child, err := h.Main().Spawn(h.Context(), agent.Task{
			Text: "count", Label: "counter", Update: true, Conversation: asked,
			Cleanup: agent.CleanupDelete,
		})
		require.NoError(t, err)
		info, err := child.Info(h.Context())
		require.NoError(t, err)
		require.True(t, info.Delete)
		require.Empty(t, info.Conversations)
		time.Sleep(time.Hour)
		h.Replied("Hello.", "counter is done.\n\nThere are 12.")
		require.Equal(t, asked, h.Replies()[1].Reply.Route)
	})
}
