package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// forkStep is a call of sessions_spawn for a sub-agent that begins with the conversation.
func forkStep(label string) agenttest.Step {
	return call("sessions_spawn",
		`{"task":"do `+label+`","label":"`+label+`","context":"fork"}`)
}

// forkTask is a Task that begins with the conversation.
func forkTask(label string) agent.Task {
	return agent.Task{
		Text: "do " + label, Label: label, Spec: agentctx.Spec{History: agentctx.HistoryFork},
	}
}

// forkedLines returns what messages say, with the role, and with a mark of those that were copied.
func forkedLines(messages []agent.Message) (said []string) {
	for _, m := range messages {
		line := string(m.Role) + ": " + m.Text
		if len(line) > 1000 {
			line = fmt.Sprintf("%.10s... (%d bytes)", line, len(line))
		}
		if _, task, ok := strings.Cut(m.Text, "[Subagent Task]: "); ok {
			line = "task: " + task
		}
		for _, c := range m.ToolCalls {
			line += " " + c.Name
		}
		if m.Copied {
			line = "> " + line
		}
		said = append(said, line)
	}
	return said
}

// shownTo returns what the model of a session was shown first.
func shownTo(h *harness, name string) []string {
	requests := h.Requests(name)
	require.NotEmpty(h.T(), requests, name)
	return forkedLines(requests[0].Messages)
}

// A sub-agent that a model forks begins with what was said before the message that spawns it, and
// its own task comes last. What comes later in the requester's conversation is not there.
func TestForkByAModel(t *testing.T) {
	agenttest.Run(t, agent.Config{Tools: []agent.Tool{
		{Name: "look", Call: toolSaying("a blue door")},
	}}, script{
		"main": {call("look", `{}`), say("It is blue."), forkStep("paint"), say("Asked."), echo()},
		"paint": {
			say("Painted.").After(time.Minute),
		},
	}, func(h *harness) {
		h.Post("which colour?")
		h.Replied("It is blue.")
		h.Post("paint it")
		h.Pass(time.Hour)
		h.Replied("It is blue.", "Asked.", "Painted.")
		require.Equal(h.T(), []string{
			"> user: which colour?", "> assistant:  look", "> tool: a blue door",
			"> assistant: It is blue.", "> user: paint it", "task: do paint",
		}, shownTo(h, "paint"))
		h.Prompted("paint", "copy of that of the main agent")
		copies := h.Requests("paint")[0].Messages
		task := copies[len(copies)-1].Text
		require.Contains(h.T(), task, "a copy of the conversation of the main agent")
		for _, m := range copies[:len(copies)-1] {
			require.Zero(h.T(), m.Ord)
			require.Zero(h.T(), m.Usage)
			require.False(h.T(), m.IsRunners())
		}
		page, err := h.Session(h.Child("paint").Key).History(h.Context(), agent.HistoryQuery{})
		require.NoError(h.T(), err)
		require.Len(h.T(), page.Lines, len(copies)+1)
		require.True(h.T(), page.Lines[0].Message.Copied)
	})
}

// A sub-agent that is not forked knows nothing, whether its model says so or nothing at all.
func TestIsolatedByAModel(t *testing.T) {
	for name, args := range map[string]string{
		"left out": `{"task":"do it","label":"kid"}`,
		"isolated": `{"task":"do it","label":"kid","context":"isolated"}`,
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, agent.Config{}, script{
				"main": {call("sessions_spawn", args), say("Asked."), echo()}, "kid": {say("Done.").After(time.Minute)},
			}, func(h *harness) {
				h.Post("hello")
				h.Pass(time.Hour)
				h.Replied("Asked.", "Done.")
				require.Equal(h.T(), []string{"task: do it"}, shownTo(h, "kid"))
				h.NotPrompted("kid", "copy of that")
			})
		})
	}
}

// From Go outside of a turn the fork is the committed conversation. From a turn it is what the turn
// has read and recorded, up to the last place at which each call has its result.
func TestForkFromGo(t *testing.T) {
	calls := agent.Message{Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{
		{ID: "1", Name: "look"}, {ID: "2", Name: "spawn"},
	}}
	for name, c := range map[string]struct {
		before []agent.Message // that the turn records before it spawns
		want   []string
	}{
		"nothing recorded": {nil, nil},
		"an answer": {
			[]agent.Message{{Role: session.MessageAssistant, Text: "Hm."}},
			[]string{"> assistant: Hm."},
		},
		"calls that are open": {[]agent.Message{calls}, nil},
		"one of them answered": {
			[]agent.Message{
				{Role: session.MessageAssistant, Text: "Hm."},
				calls,
				{Role: session.MessageTool, ToolCallID: "1", Text: "seen"},
				{Role: session.MessageUser, Text: "waits for the other result"},
			},
			[]string{"> assistant: Hm."},
		},
		"all of them answered": {
			[]agent.Message{
				calls,
				{Role: session.MessageTool, ToolCallID: "1", Text: "seen"},
				{Role: session.MessageTool, ToolCallID: "2", Text: "spawned"},
			},
			[]string{"> assistant:  look spawn", "> tool: seen", "> tool: spawned"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex // two sub-agents may run at once
			shown := map[string][]string{}
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Run != "" {
					mu.Lock()
					defer mu.Unlock()
					shown[tn.Label] = forkedLines(tn.Messages)
					return agent.Result{Text: tn.Label}, nil
				}
				if tn.N == 2 {
					for _, m := range c.before {
						require.NoError(t, tn.Record(ctx, m))
					}
					_, err := tn.Spawn(ctx, forkTask("inside"))
					require.NoError(t, err)
				}
				return agent.Result{Text: "Yes."}, nil
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				_, err := h.Main().Spawn(h.Context(), forkTask("early"))
				require.ErrorAs(h.T(), err, new(*agent.InputError), "there is no conversation yet")
				require.ErrorContains(h.T(), err, "Task.Spec.History")
				h.Post("one")
				h.Replied("Yes.")
				_, err = h.Main().Spawn(h.Context(), forkTask("outside"))
				require.NoError(h.T(), err)
				h.Post("two")
				h.Replied("Yes.", "Yes.")
			})
			said := []string{"> user: one", "> assistant: Yes."}
			require.Equal(t, append(said, "task: do outside"), shown["outside"])
			said = append(said, "> user: two")
			require.Equal(t, append(append(said, c.want...), "task: do inside"), shown["inside"])
		})
	}
}

// At depth 2 the copy has the copy and the task of the requester, and the own task comes last.
func TestForkBelowAFork(t *testing.T) {
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, script{
		"main":  {forkStep("upper"), say("Asked."), echo()},
		"upper": {forkStep("lower"), yieldStep(), say("All done.")},
		"lower": {say("Low.").After(time.Minute)},
	}, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Hour)
		h.Replied("Asked.", "All done.")
		require.Equal(h.T(), []string{"> user: hello", "task: do upper"}, shownTo(h, "upper"))
		require.Equal(h.T(), []string{
			"> user: hello", "> task: do upper", "task: do lower",
		}, shownTo(h, "lower"))
		h.Prompted("lower", "copy of that of the parent orchestrator")
	})
}

// Wherever the process dies, a sub-agent that begins at all begins with the whole copy, its files
// included, and what the requester's turn had said when it was cut off is a part of it.
func TestForkOverEveryCrash(t *testing.T) {
	long := strings.Repeat("long", 75_000)
	cfg := agent.Config{Tools: []agent.Tool{
		agent.NewTool("look", "", func(context.Context, struct{}) (agent.ToolResult, error) {
			return agent.ToolResult{Text: long, Parts: []agent.Part{picture("a.png", 9)}}, nil
		}),
	}}
	var shown [][]agent.Message
	var pictures []string
	model := modelFunc(func(
		ctx context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		last := lastMessage(req)
		switch {
		case strings.Contains(last.Text, "[Subagent Task]") || last.Text == "go on":
			shown = append(shown, req.Messages)
			for _, m := range req.Messages {
				for _, p := range m.Parts {
					data, err := readAll(req.OpenFile(ctx, p.File))
					if err != nil {
						return nil, err
					}
					pictures = append(pictures, data)
				}
			}
			return &agent.ModelResponse{Text: "Painted."}, nil
		case last.Role == session.MessageUser && last.Text == "look":
			return &agent.ModelResponse{ToolCalls: []agent.ToolCall{{ID: "1", Name: "look"}}}, nil
		case last.Role == session.MessageUser && last.Text == "fork":
			return &agent.ModelResponse{Text: "Now.", ToolCalls: []agent.ToolCall{{
				ID: "2", Name: "sessions_spawn",
				Args: []byte(`{"task":"paint","label":"paint","context":"fork"}`),
			}}}, nil
		}
		return &agent.ModelResponse{Text: "Well."}, nil
	})
	cfg.Runner = &agent.Loop{Model: model}
	want := []string{
		"> user: look", "> assistant:  look", "> tool: long... (300006 bytes)",
		"> assistant: Well.", "> user: fork", "task: paint",
	}
	followed := 0
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		shown, pictures = nil, nil
		h.Post("look")
		h.Replied("Well.")
		h.Post("fork")
		h.Pass(time.Minute)
		require.LessOrEqual(h.T(), len(shown), 1)
		for _, messages := range shown {
			require.Equal(h.T(), want, forkedLines(messages))
			require.Equal(h.T(), []string{string(picture("", 9).Data)}, pictures)
		}
		// What is cut off is not begun again. A follow-up finds the whole copy.
		runs := h.Runs()
		if len(runs) != 1 || runs[0].Status == spawn.StatusOK {
			return
		}
		var err error
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			m := agent.Incoming{ID: "follow-up", Text: "go on"}
			_, err = rt.Session(runs[0].Key).Post(h.Context(), m)
			if errors.Is(err, agent.ErrEnded) {
				return nil // its first turn never started
			}
			return err
		}))
		if err != nil {
			return
		}
		followed++
		h.Pass(time.Minute)
		require.NotEmpty(h.T(), shown)
		said := forkedLines(shown[len(shown)-1])
		require.Equal(h.T(), want[:5], said[:5])
		require.Equal(h.T(), "user: go on", said[len(said)-1])
	})
	if playsEveryCrash() {
		require.Positive(t, followed, "a crash has cut the sub-agent off")
	}
}

// sharing are the agents main and coder, of which those named share their conversations.
func sharing(ids ...string) []policy.Agent {
	agents := agentsAllowing([]string{"*"}, "coder")
	for i := range agents {
		agents[i].ShareHistory = slices.Contains(ids, agents[i].ID)
	}
	return agents
}

// Who may have the conversation: oneself always, other agents only with ShareHistory of the agent
// whose conversation it is.
func TestForkAcrossAgents(t *testing.T) {
	for name, c := range map[string]struct {
		agents  []policy.Agent
		agent   string
		refused bool
	}{
		"oneself":         {sharing(), "main", false},
		"another":         {sharing(), "coder", true},
		"the other's say": {sharing("coder"), "coder", true},
		"its own say":     {sharing("main"), "Coder", false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Rules: policy.Rules{Agents: c.agents}}
			agenttest.Run(t, cfg, script{"main": {say("Yes.")}, "kid": {say("Done.")}},
				func(h *harness) {
					h.Post("hello")
					h.Replied("Yes.")
					task := forkTask("kid")
					task.Agent = c.agent
					_, err := h.Main().Spawn(h.Context(), task)
					if !c.refused {
						require.NoError(h.T(), err)
						h.Pass(time.Hour)
						require.Len(h.T(), shownTo(h, "kid"), 3)
						return
					}
					require.ErrorIs(h.T(), err, &policy.Refusal{Rule: policy.RuleHistory})
					require.ErrorContains(h.T(), err,
						"set at Config.Rules.Agents[0].ShareHistory (agents.list[main].shareHistory)")
					require.Empty(h.T(), h.Runs(), "a refused spawn leaves nothing behind")
				})
		})
	}
}

// The copy gives nothing but what it says: the sub-agent has the tools and the files of its own
// grant and Spec, and calls of tools that it lacks are text.
func TestForkHasItsOwnRights(t *testing.T) {
	cfg := agent.Config{
		Workspace: workspace("of the requester alone"),
		Tools: []agent.Tool{
			{Name: "look", Call: toolSaying("a blue door")}, {Name: "paint", Call: toolSaying("ok")},
		},
		Rules: policy.Rules{Agents: sharing("main")},
	}
	cfg.Rules.Agents[1].Tools.Deny = []string{"look"}
	cfg.Prompts.SubagentSpecs = map[string]agentctx.Spec{"coder": {Files: []string{}}}
	agenttest.Run(t, cfg, script{
		"main": {
			call("look", `{}`),
			call("sessions_spawn", `{"task":"x","label":"kid","agentId":"coder","context":"fork"}`),
			say("Asked."), echo(),
		},
		"kid": {say("Done.").After(time.Minute)},
	}, func(h *harness) {
		h.Post("look")
		h.Pass(time.Hour)
		require.Equal(h.T(), []string{
			"> user: look", "> assistant:  look", "> tool: a blue door", "task: x",
		}, shownTo(h, "kid"))
		h.Offered("kid", "paint")
		h.Prompted("main", "of the requester alone")
		h.NotPrompted("kid", "of the requester alone")
	})
}
