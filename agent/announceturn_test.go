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
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// announcing is a Config whose sub-agents announce in a turn of their own.
func announcing() agent.Config {
	return agent.Config{Rules: policy.Rules{
		Subagents: policy.Subagents{Announce: policy.AnnounceTurn, MaxSpawnDepth: 2},
	}}
}

// steps is a script in which the main session gives work away and says what it is told of that.
func steps(child ...agenttest.Step) script {
	return script{
		agenttest.Main: {
			agenttest.Call("sessions_spawn", `{"task":"look it up","label":"work"}`),
			say("on it"), agenttest.Echo(),
		},
		"work": child,
	}
}

// TestAnnounceTurn: what a sub-agent says in its announce step is what its requester is told. Its
// result stays what its work came to.
func TestAnnounceTurn(t *testing.T) {
	play := steps(say("the long answer").After(time.Second), say("the words"))
	agenttest.Run(t, announcing(), play, func(h *harness) {
		t := h.T()
		h.Post("find out")
		h.Pass(time.Minute)
		h.Replied("on it", "the words")
		told := h.Requests("work")[1].Input()
		require.Contains(t, told, "Your work on this task is done.")
		require.Contains(t, told, "ANNOUNCE_SKIP")
		child := h.Child("work")
		require.Equal(t, "the long answer", child.Result.Text)
		require.Equal(t, "the words", child.Announcement)
		require.Equal(t, agent.StatusOK, child.Status)
		require.Equal(t, 2, child.Turns)
	})
}

// The words, the model and the time of the step are the program's to say, and what it uses counts.
func TestAnnounceTurnOfTheProgram(t *testing.T) {
	cfg := announcing()
	cfg.AnnounceTurn = agent.AnnounceTurn{
		Words: "Tell the boss.", Model: "small", Timeout: time.Minute,
	}
	cfg.Models.Model = "p/big"
	cfg.Prompts.Input.Aliases = map[string]string{"small": "p/small"}
	cfg.Models.Prices = map[string]agent.Price{"p/small": {Output: 1e6}}
	play := steps(
		say("the long answer").After(time.Second).Spending(agent.Usage{Output: 5}),
		say("the words").Spending(agent.Usage{Output: 3}))
	agenttest.Run(t, cfg, play, func(h *harness) {
		t := h.T()
		h.Post("find out")
		h.Pass(time.Minute)
		asked := h.Requests("work")
		require.Equal(t, []string{"p/big", "p/small"}, []string{asked[0].Model, asked[1].Model})
		require.True(t, strings.HasPrefix(asked[1].Input(),
			"[Offshoot] Tell the boss.\n\nYour answer to this message is the announcement"))
		child := h.Child("work")
		require.EqualValues(t, 8, child.Result.Usage.Output)
		require.InDelta(t, 3, child.Result.Usage.Cost, 1e-9)
		require.Equal(t, "p/big", child.Model.Resolved)
		require.Empty(t, child.Model.Actual)
		q := agent.UsageQuery{By: []agent.UsageBy{agent.UsageByModel}}
		report, err := h.Runtime().Usage(h.Context(), q)
		require.NoError(t, err)
		used := map[string]int64{}
		for _, row := range report.Rows {
			used[row.Model] = row.Usage.Output
		}
		require.EqualValues(t, 5, used["p/big"])
		require.EqualValues(t, 3, used["p/small"])
	})
}

// TestAnnounceTurnFails: whatever becomes of the step, the result is announced, and the run has
// ended well.
func TestAnnounceTurnFails(t *testing.T) {
	for name, step := range map[string]agenttest.Step{
		"it fails":       agenttest.Fail(errors.New("broken")),
		"it panics":      agenttest.Panic("broken"),
		"it hangs":       agenttest.Hang(),
		"it never ends":  agenttest.Stuck(),
		"it says blanks": say(" \n "),
		"it only thinks": say("<think>what shall I say</think>"),
	} {
		t.Run(name, func(t *testing.T) {
			play := steps(say("the answer").After(time.Second), step, step, step, step)
			agenttest.Run(t, announcing(), play, func(h *harness) {
				t := h.T()
				h.Post("find out")
				h.Pass(time.Hour)
				h.Replied("on it", "the answer")
				child := h.Child("work")
				require.Equal(t, agent.StatusOK, child.Status)
				require.Empty(t, child.Announcement)
				require.Empty(t, child.Error)
			})
		})
	}
}

// TestAnnounceTurnSkips: a step that asks for silence tells the requester nothing. Who waits for
// the run has its result all the same.
func TestAnnounceTurnSkips(t *testing.T) {
	for _, word := range []string{"ANNOUNCE_SKIP", "NO_REPLY"} {
		t.Run(word, func(t *testing.T) {
			play := script{
				agenttest.Main: {say("hi")},
				"work":         {say("the answer").After(time.Second), say(word)},
			}
			agenttest.Run(t, announcing(), play, func(h *harness) {
				t, ctx := h.T(), h.Context()
				h.Post("hello")
				child, err := h.Main().Spawn(ctx, agent.Task{Text: "work", Announce: true})
				require.NoError(t, err)
				all := []*agent.Child[string]{child}
				out, err := agent.Join(ctx, h.Main(), all, agent.JoinOptions{})
				require.NoError(t, err)
				require.Equal(t, "the answer", out[0].Value)
				h.Pass(time.Hour)
				h.Replied("hi")
			})
		})
	}
}

// TestAnnounceTurnBegins: a step begins nothing, and its tools are there and refuse each call. A
// typed result stays what it was.
func TestAnnounceTurnBegins(t *testing.T) {
	type found struct{ Claim string }
	called, steps := 0, 0
	cfg := announcing()
	look := func(context.Context, struct{}) (string, error) {
		called++
		return "seen", nil
	}
	cfg.Tools = []agent.Tool{agent.NewTool("look", "Look.", look)}
	var told string
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		switch {
		case !tn.Session.Key.IsSubagent():
			told = tn.Input()
			return textResult("noted")
		case !tn.Announces:
			require.NotEmpty(t, tn.Schema)
			return textResult(`{"Claim":"it works"}`)
		}
		steps++
		require.Empty(t, tn.Schema)
		require.Equal(t, 1, tn.New)
		require.Contains(t, tn.Input(), "announcement")
		require.True(t, tn.Messages[len(tn.Messages)-1].Synthetic)
		_, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: "look", Args: []byte(`{}`)})
		require.ErrorIs(t, err, agent.ErrAnnouncing)
		_, err = tn.Spawn(ctx, agent.Task{Text: "more"})
		require.ErrorIs(t, err, agent.ErrAnnouncing)
		err = tn.Report(ctx, agent.Progress{Text: "half", Milestone: true})
		require.ErrorIs(t, err, agent.ErrAnnouncing)
		require.Error(t, tn.Say(ctx, "hello"))
		tn.Yield(agent.JoinOptions{})
		in, err := tn.Inbox(ctx)
		require.NoError(t, err)
		require.Empty(t, in)
		require.NoError(t, tn.SetState(ctx, []byte("mine")))
		return agent.Result{Text: "It works, I am told.", JSON: []byte(`{"Claim":"other"}`)}, nil
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		t, ctx := h.T(), h.Context()
		child, err := agent.Spawn[found](ctx, h.Main(), agent.Task{Text: "work", Announce: true})
		require.NoError(t, err)
		got, err := child.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, found{"it works"}, got)
		h.Pass(time.Minute)
		require.Equal(t, 1, steps)
		require.Zero(t, called)
		require.Contains(t, told, "It works, I am told.")
		require.NotContains(t, told, "Claim")
	})
}

// TestAnnounceTurnMeetsMessage: a message that comes during the step is answered before the run
// ends, and then the run announces anew.
func TestAnnounceTurnMeetsMessage(t *testing.T) {
	play := steps(
		say("one").After(time.Second), say("first words").After(time.Minute),
		say("two").After(time.Second), say("last words"))
	agenttest.Run(t, announcing(), play, func(h *harness) {
		t := h.T()
		h.Post("find out")
		time.Sleep(30 * time.Second)
		receipt, err := h.Session(h.Child("work").Key).Post(h.Context(), agent.Incoming{Text: "and?"})
		require.NoError(t, err)
		require.False(t, receipt.Began)
		h.Pass(time.Hour)
		h.Replied("on it", "last words")
		child := h.Child("work")
		require.Equal(t, "two", child.Result.Text)
		require.Equal(t, "last words", child.Announcement)
		require.Equal(t, 4, child.Turns)
	})
}

// TestAnnounceTurnEnds: what ends a run ends its step: nothing is left of it when Stop has
// returned, and the result of the run is not lost. CancelTurn ends the step alone.
func TestAnnounceTurnEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*harness, *agent.Child[string]) error
		want spawn.Status
	}{
		"stop": {func(h *harness, c *agent.Child[string]) error {
			return c.Stop(h.Context())
		}, agent.StatusCancelled},
		"cancel": {func(h *harness, c *agent.Child[string]) error {
			return c.Session().CancelTurn(h.Context())
		}, agent.StatusOK},
		"delete": {func(h *harness, c *agent.Child[string]) error {
			return h.Runtime().DeleteSession(h.Context(), c.Key())
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			play := script{
				agenttest.Main: {say("noted")},
				"work":         {say("the answer").After(time.Second), agenttest.Hang()},
			}
			agenttest.Run(t, announcing(), play, func(h *harness) {
				t := h.T()
				child, err := h.Main().Spawn(h.Context(), agent.Task{Text: "work", Announce: true})
				require.NoError(t, err)
				time.Sleep(10 * time.Second)
				require.ErrorAs(t, h.Main().Reset(h.Context()), new(*agent.ChildrenError))
				require.NoError(t, c.end(h, child))
				h.Pass(10 * time.Second)
				if c.want == 0 {
					return
				}
				info := h.Runs()[0]
				require.Equal(t, c.want, info.Status)
				require.Equal(t, "the answer", info.Result.Text)
				require.Empty(t, info.Announcement)
			})
		})
	}
}

// A session that is deleted after its end is archived after its announcement has arrived.
func TestAnnounceTurnBeforeArchive(t *testing.T) {
	cfg := announcing()
	play := script{
		agenttest.Main: {say("noted")},
		"work":         {say("the answer").After(time.Second), say("the words").After(time.Minute)},
	}
	agenttest.Run(t, cfg, play, func(h *harness) {
		t := h.T()
		_, err := h.Main().Spawn(h.Context(), agent.Task{
			Text: "work", Announce: true, Cleanup: agent.CleanupDelete,
		})
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		require.Len(t, h.Runs(), 1)
		h.Pass(time.Minute)
		require.Empty(t, h.Runs())
		h.Replied("noted")
		h.Told(agenttest.Main, "the words")
	})
}

// TestAnnounceTurnEveryCrash: over every crash the requester is told once: the words of the step,
// or the result where the crash has ended it, under one key a text, and behind a receiver that
// remembers keys not twice.
func TestAnnounceTurnEveryCrash(t *testing.T) {
	play := steps(say("the answer").After(time.Second), say("the words").After(time.Second))
	agenttest.EveryCrash(t, announcing(), play, func(h *harness) {
		t := h.T()
		h.Post("find out")
		h.Pass(time.Hour)
		require.NotEmpty(t, h.Replies())
		seen, told := map[string]string{}, 0
		for i, d := range h.Replies() {
			said := d.Reply.Text
			require.True(t, i == 0 || said == "the answer" || said == "the words" ||
				strings.Contains(said, "interrupted"), said)
			if was, ok := seen[d.Key]; ok {
				require.Equal(t, was, said, "one key, two texts")
				continue
			}
			seen[d.Key] = said
			if said == "the answer" || said == "the words" {
				told++
			}
		}
		require.LessOrEqual(t, told, 1, "%v", seen)
	})
}

// A requester that a program runs gets the announcement with the completion, and the whole of the
// run beside it.
func TestAnnounceTurnIsDelivered(t *testing.T) {
	cfg := announcing()
	var got []agent.Delivery
	cfg.Deliver = func(_ context.Context, d agent.Delivery) error {
		got = append(got, d)
		return nil
	}
	key := session.Must(session.DirectKey("main", "irc", "ann"))
	play := script{"work": {say("the answer").After(time.Second), say("the words")}}
	agenttest.Run(t, cfg, play, func(h *harness) {
		_, err := h.Session(key).Spawn(h.Context(), agent.Task{Text: "work", Announce: true})
		require.NoError(h.T(), err)
		h.Pass(time.Minute)
	})
	require.Len(t, got, 1)
	require.Equal(t, "the words", got[0].Completion.Run.Announcement)
	require.Equal(t, "the answer", got[0].Completion.Run.Result.Text)
}

// Of a step that cannot be, Open says so.
func TestAnnounceTurnOfNoUse(t *testing.T) {
	cfg := announcing()
	cfg.Runner = idleRunner{}
	cfg.AnnounceTurn = agent.AnnounceTurn{Model: "p/", Timeout: -1}
	_, err := agent.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "Config.AnnounceTurn.Timeout: -1ns is negative")
	require.ErrorContains(t, err, "Config.AnnounceTurn.Model")
}
