package agent_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// TestReceipt: what is posted says which session has it, which run takes it, and whether the
// session had it before.
func TestReceipt(t *testing.T) {
	cfg := agent.Config{Rules: rulesForDepth(1)}
	steps := script{
		agenttest.Main: {say("hi"), say("ok"), say("ok")},
		"work":         {say("half").After(time.Hour), say("done")},
	}
	agenttest.Run(t, cfg, steps, func(h *harness) {
		t := h.T()
		child := startAll(h, "work")[0]
		for _, c := range []struct {
			to   *agent.Session
			want agent.Receipt
		}{
			{h.Main(), agent.Receipt{Session: topKey}},
			{child.Session(), agent.Receipt{Session: child.Key(), Run: child.ID()}},
		} {
			for _, known := range []bool{false, true} {
				got, err := c.to.Post(h.Context(), agent.Incoming{ID: "1", Text: "hello"})
				require.NoError(t, err)
				c.want.Existing = known
				require.Equal(t, c.want, got)
			}
		}
		got, err := h.Main().Post(h.Context(), agent.Incoming{})
		require.ErrorAs(t, err, new(*agent.InputError))
		require.Zero(t, got)
	})
}

// TestFollowUp: a message from Go to a sub-agent that has ended begins another run of its session.
// Each handle is one on its run, whatever run the session has begun since.
func TestFollowUp(t *testing.T) {
	answers := map[agent.RunID]string{}
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if answers[tn.Run] == "" {
			answers[tn.Run] = []string{"one", "two", "three"}[len(answers)]
			time.Sleep(time.Hour)
		}
		return textResult(answers[tn.Run])
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		t, ctx := h.T(), h.Context()
		first := startAll(h, "work")[0]
		got, err := first.Wait(ctx)
		require.NoError(
			t, err,
		)
		require.Equal(t, "one", got)

		receipt, err := first.Session().Post(ctx, agent.Incoming{ID: "1", Text: "and then?"})
		require.NoError(t, err)
		require.NotEqual(
			t, first.ID(), receipt.Run,
		)
		want := agent.Receipt{Session: first.Key(), Run: receipt.Run, Began: true}
		require.Equal(t, want, receipt)
		second, err := agent.ChildOf[string](ctx, h.Main(), receipt)
		require.NoError(t, err)
		again, err := first.Session().Post(ctx, agent.Incoming{ID: "1", Text: "and then?"})
		require.NoError(t, err)
		want.Began, want.Existing = false, true
		require.Equal(t, want, again)
		live, err := first.Post(ctx, agent.Incoming{Text: "quickly"})
		require.NoError(t, err)
		require.Equal(t, second.ID(), live.ID(), "a run that is under way takes the message")

		h.Pass(time.Minute)
		before, err := first.Info(ctx)
		require.NoError(t, err)
		require.Equal(t, spawn.StatusOK, before.Status, "a run that has ended stays ended")
		require.Equal(t, "one", before.Result.Text)
		require.ErrorIs(t, first.Steer(ctx, "faster"), agent.ErrEnded)
		require.NoError(t, first.Stop(ctx), "nothing of that run is alive")
		now, err := second.Info(ctx)
		require.NoError(t, err)
		require.Equal(t, spawn.StatusRunning, now.Status)
		require.True(t, now.FollowUp)
		require.Zero(t, now.From)
		require.NoError(t, second.Steer(ctx, "faster"))

		got, err = second.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, "two", got)
		third, err := second.Post(ctx, agent.Incoming{Text: "and after that?"})
		require.NoError(t, err)
		outcomes, err := agent.Join(
			ctx, h.Main(), []*agent.Child[string]{third, first, second}, agent.JoinOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"three", "one", "two"},
			[]string{outcomes[0].Value, outcomes[1].Value, outcomes[2].Value})
		require.Equal(t, third.ID(), outcomes[0].Run.ID)

		runs, err := first.Session().OwnRuns(ctx)
		require.NoError(t, err)
		var ids []agent.RunID
		for _, r := range runs {
			ids = append(ids, r.ID)
			found, err := first.Session().FindRun(ctx, r.ID)
			require.NoError(t, err)
			require.Equal(t, r, found)
		}
		require.Equal(t, []agent.RunID{first.ID(), second.ID(), third.ID()}, ids)
		_, err = first.Session().FindRun(ctx, "no such run")
		require.ErrorIs(t, err, agent.ErrNotFound)
		require.ErrorContains(t, err, "keeps it no longer")
		require.Empty(t, h.Deliveries())
		require.Empty(t, h.Replies(), "no session is told of a run that a program asked for")
	})
}

// TestRunsThatAreNotKept: of many runs the first and the last two are kept, and a wait that began
// in time ends all the same.
func TestRunsThatAreNotKept(t *testing.T) {
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		return textResult(fmt.Sprint("answer ", tn.N))
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		t, ctx := h.T(), h.Context()
		children := startAll(h, "work")
		_, err := children[0].Wait(ctx)
		require.NoError(t, err)
		for n := range 5 {
			c, err := children[n].Post(ctx, agent.Incoming{Text: "next"})
			require.NoError(t, err)
			children = append(children, c)
			got, err := c.Wait(ctx)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("answer ", n+2), got)
		}
		for n, c := range children {
			_, err := c.Info(ctx)
			if n > 0 && n < 4 {
				require.ErrorIs(t, err, agent.ErrNotFound)
				_, err = c.Wait(ctx)
				require.ErrorIs(t, err, agent.ErrNotFound)
				require.ErrorContains(t, err, string(c.ID()))
				continue
			}
			require.NoError(t, err)
		}
	})
}

// sendStep is a call of sessions_send.
func sendStep(to, message string) agenttest.Step {
	return call("sessions_send", fmt.Sprintf(`{"target":%q,"message":%q}`, to, message))
}

// followUpByModel is a bot whose model sends a message to a sub-agent that has ended.
var followUpByModel = script{
	agenttest.Main: {
		startStep("helper"), say("on it"), say("the answer is the first"),
		sendStep("helper", "and the second?"), say("asked again"), echo(),
	},
	"helper": {say("the first").After(time.Minute), say("the second").After(time.Minute)},
}

// TestFollowUpByModel: sessions_send to an ended sub-agent begins a run, whose end comes to the
// session that sent the message. The requester is told of each run with its own result.
func TestFollowUpByModel(t *testing.T) {
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(1)}, followUpByModel, func(h *harness) {
		h.Post("go")
		h.Pass(10 * time.Minute)
		h.Post("ask on")
		h.Pass(time.Second)
		h.Told(agenttest.Main, "The message has begun another run")
		h.Pass(10 * time.Minute)
		h.Replied("on it", "the answer is the first", "asked again", "the second")
		runs, err := h.Session(h.Child("helper").Key).OwnRuns(h.Context())
		require.NoError(h.T(), err)
		require.Len(h.T(), runs, 2)
		require.Equal(h.T(), topKey, runs[1].From)
		require.True(h.T(), runs[1].FollowUp)
	})
}

// A crash at any write neither loses the message nor its answer.
func TestFollowUpByModelOverCrashes(t *testing.T) {
	agenttest.EveryCrash(t, agent.Config{Rules: rulesForDepth(1)}, followUpByModel,
		func(h *harness) {
			h.Post("go")
			time.Sleep(10 * time.Minute)
			h.Post("ask on")
			time.Sleep(10 * time.Minute)
		})
}

// TestSendTool: what a model sends reaches the sessions that policy lets it write to, and it is
// told in plain words why a message was not taken.
func TestSendTool(t *testing.T) {
	other := session.Must(session.MainKey("other"))
	gone := session.Must(session.Parse("agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))
	for name, c := range map[string]struct {
		args  string
		rules func(*policy.Rules)
		want  []string
	}{
		"to one at work": {
			`{"target":"slow","message":"hurry"}`, nil,
			[]string{`"status":"accepted"`, "It is at work"},
		},
		"by its number": {`{"target":"1","message":"hurry"}`, nil, []string{`"status":"accepted"`}},
		"a number that no list has shown": {
			`{"target":"2","message":"x"}`, nil, []string{`"2": it is not a number of the list`},
		},
		"by its label": {`{"label":"slow","message":"x"}`, nil, []string{`"status":"accepted"`}},
		"to none":      {`{"target":"nobody","message":"x"}`, nil, []string{`"nobody": it names none`}},
		"no message":   {`{"target":"slow"}`, nil, []string{`"message": it is required`}},
		"no target":    {`{"message":"x"}`, nil, []string{`"sessionKey": it is required`}},
		"an argument": {
			`{"target":"slow","message":"x","colour":3}`, nil,
			[]string{`"colour": it is not known`},
		},
		"to another session": {
			`{"target":"agent:other:main","message":"x"}`, nil,
			[]string{`"status":"forbidden"`, "visibility"},
		},
		"to another sub-agent": {
			`{"sessionKey":"` + gone.String() + `","message":"x"}`, nil,
			[]string{`"status":"forbidden"`, "only from above"},
		},
		"to itself": {
			`{"target":"agent:main:main","message":"x"}`, nil,
			[]string{`"status":"forbidden"`},
		},
		"to another session that policy shows": {
			`{"target":"agent:other:main","message":"hello there"}`,
			func(r *policy.Rules) {
				r.Visibility, r.AgentToAgent.Enabled = policy.VisibilityAll, true
			},
			[]string{`"status":"accepted"`, "in its own conversation"},
		},
		"denied": {
			`{"target":"slow","message":"x"}`,
			func(r *policy.Rules) { r.Tools.Deny = []string{"sessions_send"} },
			[]string{`no tool "sessions_send"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := rulesForDepth(1)
			rules.Agents = []policy.Agent{{ID: "main"}, {ID: "other"}}
			if c.rules != nil {
				c.rules(&rules)
			}
			steps := script{
				agenttest.Main: {
					startStep("slow"), call("subagents", `{}`), call("sessions_send", c.args), echo(),
				},
				"slow":         {say("done").After(time.Minute), say("done")},
				other.String(): {echo()},
			}
			agenttest.Run(t, agent.Config{Rules: rules}, steps, func(h *harness) {
				h.Post("go")
				h.Pass(time.Second)
				for _, want := range c.want {
					h.Told(agenttest.Main, want)
				}
				h.Pass(10 * time.Minute)
			})
		})
	}
}

// TestFollowUpOfAnEarlierVersion: sub-agents that an earlier version has run take messages, each as
// the file beside the directory says: one whose budget is spent refuses them. Their first runs stay
// what they were. OFFSHOOT_UPDATE=1 writes the files.
func TestFollowUpOfAnEarlierVersion(t *testing.T) {
	for _, name := range []string{"managed", "caller"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStored(t, filepath.Join("testdata", "state-v1", name))
				time.Sleep(24 * time.Hour)
				followed := make(map[bool]int)
				s.live(policy.Off, func(rt *agent.Runtime) {
					s.idle(rt)
					runs := slices.SortedFunc(maps.Values(s.runs()), func(a, b spawn.RunInfo) int {
						return cmp.Compare(a.Key.String(), b.Key.String())
					})
					for _, r := range runs {
						if r.Status.Terminal() && r.Turns > 0 && r.Parent == r.Root {
							followed[s.followUp(rt, r)]++
						}
					}
				})
				require.Greater(t, followed[true], 5)
				require.LessOrEqual(t, followed[false], 1, "most have something left")
				s.source += "-followups"
				s.golden()
			})
		})
	}
}

// followUp posts to a sub-agent that has ended, and reports whether that began a run.
func (s *stored) followUp(rt *agent.Runtime, r agent.RunInfo) bool {
	t, ctx := s.t, s.t.Context()
	child := rt.Session(r.Key)
	before, err := child.FindRun(ctx, "")
	require.NoError(t, err)
	require.Equal(t, r.ID, before.ID)
	receipt, err := child.Post(ctx, agent.Incoming{Text: "Once more."})
	if refusal, ok := errors.AsType[*policy.Refusal](err); ok {
		require.Equal(t, policy.RuleBudget, refusal.Rule, "what it has is spent")
		fmt.Fprintf(&s.text, "%s %s %s: refused by its budget\n", r.Label, r.Status, r.ID)
		return false
	}
	require.NoError(t, err)
	require.True(t, receipt.Began)
	later, err := agent.ChildOf[string](ctx, rt.Session(r.Root), receipt)
	require.NoError(t, err)
	text, err := later.Wait(ctx)
	fmt.Fprintf(&s.text, "%s %s %s: then %q, %v\n", r.Label, r.Status, r.ID, text, err)
	runs, err := child.OwnRuns(ctx)
	require.NoError(t, err)
	require.Len(t, runs, 2)
	require.Equal(t, before, runs[0])
	require.True(t, runs[1].FollowUp)
	require.Equal(t, receipt.Run, runs[1].ID)
	require.Equal(t, r.Turns+1, runs[1].Turns, "the turns of a session go on")
	return true
}

// A run that follows one which a crash has interrupted is told so: what that did is not in the
// conversation, and would be done again.
func TestFollowUpAfterACrash(t *testing.T) {
	var turns []bool
	run := func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		turns = append(turns, tn.Retry)
		if len(turns) == 1 {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}
		return agent.Result{Text: fmt.Sprint(strings.Contains(tn.Prompt.String(), "Interrupted Turn"))}, nil
	}
	agenttest.Run(t, agent.Config{Runner: agent.RunnerFunc(run)}, nil, func(h *harness) {
		c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "pay"})
		require.NoError(t, err)
		h.Pass(time.Minute)
		h.Crash()
		h.Pass(time.Minute)
		s := h.Runtime().Session(c.Key())
		for range 2 {
			_, err = s.Post(h.Context(), agent.Incoming{Text: "go on"})
			require.NoError(t, err)
			h.Pass(time.Minute)
		}
		require.Equal(t, []bool{false, true, false}, turns)
		runs, err := s.OwnRuns(h.Context())
		require.NoError(t, err)
		require.Equal(t, "true", runs[1].Result.Text, "its prompt says so")
		require.Equal(t, "false", runs[2].Result.Text)
	})
}
