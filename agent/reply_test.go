package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
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
			require.Equal(t, topKey, r.Reply.From)
			require.NotEmpty(t, r.Key)
			require.False(t, r.Reply.Failed)
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
				require.Equal(t, session.Route{Channel: "telegram", To: "4711"}, r.Reply.Route)
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
		require.Equal(t, out["runId"], string(d.Completion.Run.ID))
		require.Equal(t, spawn.StatusOK, d.Completion.Run.Status)
		require.Equal(t, 1, d.Attempt)
		require.False(t, d.MayRepeat)
		event := announce.NewEvent(d.Completion).ForModel()
		require.Contains(t, event, "42")
		require.NotContains(t, event, "not for the chat")
		require.Zero(t, h.Calls("main"))
	})
}

// What an orchestrator of its own has put into the journal passes the same filter on its way to
// people.
func TestReplyPassesVisibleWhateverTheJournalHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		sup, err := spawn.Open(t.Context(), spawn.Config{
			Store: store, Replies: true,
			Deliver: func(context.Context, spawn.Delivery) error {
				return errors.New("no connection")
			},
			Runner: spawnRunner(func(
				_ context.Context, tn *spawn.TurnInput,
			) (spawn.TurnResult, error) {
				return spawn.TurnResult{Reply: tn.Inputs[0].Text}, nil
			}),
		})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- sup.Run(t.Context()) }()
		for _, text := range []string{"<think>x</think>Hello\n" + announce.NoReply, announce.NoReply} {
			require.NoError(
				t, errorOf(sup.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: text})),
			)
			synctest.Wait()
		}
		require.NoError(t, sup.Shutdown(t.Context()))
		require.NoError(t, <-done)

		var got []agent.Delivery
		cfg := agent.Config{Store: store, Runner: &agent.Loop{Model: modelFunc(nil)}}
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			got = append(got, d)
			return nil
		}
		runFor(t, cfg, func(rt *agent.Runtime) {
			require.NoError(t, rt.Session(topKey).Idle(t.Context()))
		})
		require.Len(t, got, 1, "a reply without visible text is not handed over")
		require.Equal(t, &agent.Reply{
			From: topKey, Text: "Hello", Turn: 1, Senders: unknownPerson,
		}, got[0].Reply)
		require.Equal(t, topKey, got[0].To)
		require.Nil(t, got[0].Completion)
	})
}

type spawnRunner func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error)

func (f spawnRunner) RunTurn(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
	return f(ctx, tn)
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
			require.NoError(
				t, errorOf(h.Main().Post(h.Context(), agent.Incoming{ID: "1", Text: "hello"})),
			)
		}
		h.Replied("hello")
		require.NoError(t, errorOf(h.Main().Post(h.Context(), agent.Incoming{Text: "bye"})))
		require.NoError(t, errorOf(h.Main().Post(h.Context(), agent.Incoming{Text: "bye"})))
		time.Sleep(time.Second)
		got := ""
		for _, d := range h.Replies()[1:] {
			got += d.Reply.Text + " "
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

// A reply names the turn that says it, whose deltas a transport may have shown, also over every
// crash and a snapshot.
func TestReplyNamesItsTurn(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if err := tn.Say(ctx, "first"); err != nil {
			return agent.Result{}, err
		}
		return textResult("then")
	})
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		for range 2 {
			h.Post("go")
			time.Sleep(time.Hour)
		}
		turns := make(map[string][]int)
		for _, r := range h.Replies() {
			turns[r.Reply.Text] = append(turns[r.Reply.Text], r.Reply.Turn)
		}
		require.Len(h.T(), turns["then"], 2)
		for text, said := range turns {
			require.True(h.T(), slices.IsSorted(said), "%s: %v", text, said)
			require.Positive(h.T(), said[0], text)
			require.Less(h.T(), said[0], said[1], text)
		}
	})
}
