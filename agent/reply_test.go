package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestMainSessionsReplyAndSubagentsNever(t *testing.T) {
	s := script{
		"main": {startStep("count"), say("On it."), say("There are 42 files.")},
		"count": {
			startStep("deeper"), say("I have counted 42 in secret."),
			say("Still 42, in secret."),
		},
		"deeper": {say("secret of the grandchild").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("How many files?")
		time.Sleep(time.Hour)
		h.Replied("On it.", "There are 42 files.")
		for _, r := range h.Replies() {
			require.Equal(t, topKey, r.To)
			require.Equal(t, topKey, r.From)
			require.NotEmpty(t, r.Key)
			require.False(t, r.Failed)
		}
	})
}

func TestReplyGoesWhereTheQuestionCameFrom(t *testing.T) {
	chat := session.Must(session.DirectKey("main", "telegram", "4711"))
	agenttest.Run(t, agent.Config{},
		script{
			"main":  {startStep("count"), say("On it."), echo()},
			"count": {say("42").After(time.Hour)},
		}, func(h *harness) {
			h.PostTo(chat, "How many files?")
			time.Sleep(2 * time.Hour)
			h.Replied("On it.", "42")
			for _, r := range h.Replies() {
				require.Equal(t, chat, r.To)
				require.Equal(t, session.Route{Channel: "telegram", To: "4711"}, r.Route)
			}
		})
}

func TestCompletionsOfASessionOfTheCallersReachDeliver(t *testing.T) {
	cfg := agent.Config{Deliver: func(context.Context, agent.Delivery) error { return nil }}
	s := script{
		"count":  {startStep("deeper"), yieldStep(), say("42")},
		"deeper": {say("not for the chat")},
	}
	cfg.Rules = rulesForDepth(2)
	agenttest.Run(t, cfg, s, func(h *harness) {
		chat := session.Must(session.DirectKey("main", "telegram", "4711"))
		out, err := callToolOf(h, h.Session(chat).Tools(), "sessions_spawn", "1",
			`{"task":"count the files","label":"count"}`)
		require.NoError(t, err)
		require.Equal(t, "accepted", out["status"])
		h.Delivered("42")
		require.Empty(t, h.Replies())
		d := h.Deliveries()[0]
		require.Equal(t, chat, d.To)
		require.Equal(t, out["runId"], string(d.Run.ID))
		require.Equal(t, spawn.StatusOK, d.Run.Status)
		require.Equal(t, 1, d.Attempt)
		require.False(t, d.MayRepeat)
		require.Contains(t, d.ForModel(), "42")
		require.NotContains(t, d.ForModel(), "not for the chat")
		require.Zero(t, h.Calls("main"))
	})
}

// A child that Go code waits for is not announced, unless it asks for it.
func TestSpawnFromGoIsNotAnnounced(t *testing.T) {
	cfg := agent.Config{Deliver: func(context.Context, agent.Delivery) error { return nil }}
	agenttest.Run(t, cfg, script{"quiet": {say("1")}, "loud": {say("2")}}, func(h *harness) {
		for _, label := range []string{"quiet", "loud"} {
			c, err := agent.Spawn[string](h.Context(), h.Main(),
				agent.Task{Text: "work", Label: label, Announce: label == "loud"})
			require.NoError(t, err)
			_, err = c.Wait(h.Context())
			require.NoError(t, err)
		}
		h.Delivered("2")
	})
}

func TestMessageThatComesAgainChangesNothing(t *testing.T) {
	agenttest.Run(t, agent.Config{}, script{"main": {echo()}}, func(h *harness) {
		for range 3 {
			require.NoError(t, h.Main().Post(h.Context(), agent.Message{ID: "1", Text: "hello"}))
		}
		h.Replied("hello")
		require.NoError(t, h.Main().Post(h.Context(), agent.Message{Text: "bye"}))
		require.NoError(t, h.Main().Post(h.Context(), agent.Message{Text: "bye"}))
		time.Sleep(time.Second)
		got := ""
		for _, r := range h.Replies()[1:] {
			got += r.Text + " "
		}
		require.Contains(t, []string{"bye bye ", "bye\nbye "}, got)
	})
}

// What people say while a turn is under way is read in it, or by the next one; nothing waits for an
// answer for ever.
func TestMessagesDuringATurn(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		time.Sleep(time.Minute)
		return textResult("answer to " + tn.Input())
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("a")
		time.Sleep(time.Second)
		h.Post("b")
		h.Post("c")
		time.Sleep(time.Hour)
		h.Replied("answer to a", "answer to b\n\nc")
	})
}
