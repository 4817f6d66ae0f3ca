package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A toolCaller calls a session tool of the main session with arguments.
type toolCaller func(tool, args string) (string, error)

// toolCallers are the ways in which the session tools are called: by the loop of a program, and in
// a turn. Sub-agents work for a minute.
func toolCallers(t *testing.T, f func(h *harness, use toolCaller)) {
	t.Helper()
	var call agent.ToolCall
	var answer agent.ToolResult
	var failed error
	var called chan struct{} // of the present call
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (res agent.Result, err error) {
		if tn.Session.Key != topKey {
			return agent.Result{Text: fmt.Sprint("answer ", tn.N)}, pause(ctx, time.Minute)
		}
		if tn.Input() == "use a tool" {
			answer, failed = tn.Call(ctx, call)
			close(called)
		}
		return textResult("done")
	})
	cfg.Rules = rulesForDepth(1)
	n := 0
	next := func(tool, args string) agent.ToolCall {
		n++
		return agent.ToolCall{ID: fmt.Sprint(n), Name: tool, Args: json.RawMessage(args)}
	}
	t.Run("caller", func(t *testing.T) {
		agenttest.Run(t, cfg, nil, func(h *harness) {
			f(h, func(tool, args string) (string, error) {
				found := findTool(h.T(), h.Main().Tools(), tool)
				answer, err := found.Call(h.Context(), next(tool, args))
				return answer.Text, err
			})
		})
	})
	t.Run("turn", func(t *testing.T) {
		agenttest.Run(t, cfg, nil, func(h *harness) {
			f(h, func(tool, args string) (string, error) {
				call, called = next(tool, args), make(chan struct{})
				h.Post("use a tool")
				<-called
				h.Pass(time.Second)
				return answer.Text, failed
			})
		})
	})
}

// TestTargetsByRunID: a session is found by every run id that is kept of it. What is done to a run
// that others have followed is never done to these.
func TestTargetsByRunID(t *testing.T) {
	toolCallers(t, func(h *harness, use toolCaller) {
		t, ctx := h.T(), h.Context()
		children := startAll(h, "other", "work") // of which the first has one run
		runs := []*agent.Child[string]{children[1]}
		for range 4 {
			last := runs[len(runs)-1]
			_, err := last.Wait(ctx)
			require.NoError(t, err)
			later, err := last.Post(ctx, agent.Incoming{Text: "next"})
			require.NoError(t, err)
			runs = append(runs, later)
		}
		h.Pass(time.Second)
		args := func(action string, id agent.RunID) string {
			return fmt.Sprintf(`{"action":%q,"target":%q,"message":"x"}`, action, id)
		}
		message := func(id agent.RunID) string {
			return fmt.Sprintf(`{"target":%q,"message":"and more"}`, id)
		}
		present := runs[4]
		for n, r := range runs {
			_, missing := r.Info(ctx)
			if missing != nil {
				require.ErrorIs(t, missing, agent.ErrNotFound)
				for _, action := range []string{"info", "steer", "kill"} {
					_, err := use("subagents", args(action, r.ID()))
					require.ErrorContains(t, err, "it names none", "%d %s", n, action)
				}
				_, err := use("sessions_send", message(r.ID()))
				require.ErrorContains(t, err, "it names none")
				continue
			}
			time.Sleep(2 * time.Second)
			told, err := use("sessions_send", message(r.ID()))
			require.NoError(t, err, n)
			require.Contains(t, told, `"status":"accepted"`, n)
			require.Contains(t, told, fmt.Sprintf(`"runId":%q`, present.ID()), n)
			info, err := use("subagents", args("info", r.ID()))
			require.NoError(t, err, n)
			require.Contains(t, info, fmt.Sprintf(`"runId":%q`, r.ID()), n)
			require.NotContains(t, info, `"number"`, "no list was shown")
			if r == present {
				continue
			}
			_, err = use("subagents", args("steer", r.ID()))
			require.ErrorIs(t, err, agent.ErrEnded, n)
			require.ErrorContains(t, err, string(present.ID()))
			killed, err := use("subagents", args("kill", r.ID()))
			require.NoError(t, err, n)
			require.Contains(t, killed, `"stopped":[]`, n)
			require.Contains(t, killed, fmt.Sprintf("run %s has ended", r.ID()), n)
			require.Contains(t, killed, string(present.ID()), n)
			now, err := present.Info(ctx)
			require.NoError(t, err)
			require.Equal(t, spawn.StatusRunning, now.Status, n)
		}
		killed, err := use("subagents", args("kill", present.ID()))
		require.NoError(t, err)
		require.Contains(t, killed, fmt.Sprintf(`"stopped":[%q]`, present.ID()))
		require.NotContains(t, killed, "has ended")
		h.Pass(time.Hour)
	})
}

// TestRefusedSendNamesOurSettings: a model that writes to a sub-agent whose budget is spent is told
// which field of the Task says so, in a turn as outside of one.
func TestRefusedSendNamesOurSettings(t *testing.T) {
	toolCallers(t, func(h *harness, use toolCaller) {
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Label: "spent", Budget: policy.Budget{Turns: 1},
		})
		require.NoError(h.T(), err)
		h.Pass(time.Hour)
		told, err := use("sessions_send", `{"target":"spent","message":"x"}`)
		require.NoError(h.T(), err)
		require.Contains(h.T(), told, `"path":"Task.Budget"`)
	})
}

// sessions_send takes what the other tools take: the id of a session that it may write to, and its
// label if that is the whole of it and of one session. What it may not see it does not find.
func TestSendBySessionIDAndLabel(t *testing.T) {
	for name, visibility := range map[string]policy.Visibility{
		"seen": policy.VisibilityAgent, "unseen": policy.VisibilityTree,
	} {
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if tn.Session.Depth == 1 && tn.N == 1 {
				for _, label := range []string{"Lead", "both", "both"} {
					if _, err := tn.Spawn(ctx, agent.Task{Text: "x", Label: label}); err != nil {
						return agent.Result{}, err
					}
				}
			}
			return agent.Result{Text: "x"}, pause(ctx, time.Minute)
		})
		cfg.Rules = rulesForDepth(2)
		cfg.Rules.Visibility = visibility
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.PostTo(elsewhere, "hello")
				child, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Label: "own"})
				require.NoError(t, err)
				h.Pass(time.Second)
				own, err := child.Info(h.Context())
				require.NoError(t, err)
				other, err := h.Session(elsewhere).Status(h.Context())
				require.NoError(t, err)
				send := func(to string) (map[string]any, error) {
					h.Pass(3 * time.Second)
					return callTool(h, "sessions_send", to,
						fmt.Sprintf(`{"sessionKey":%q,"message":"x"}`, to))
				}
				for _, to := range []string{own.SessionID, "own", "OWN"} {
					out, err := send(to)
					require.NoError(t, err, to)
					require.Equal(t, own.Key.String(), out["sessionKey"], to)
				}
				out, err := send("lead") // which the sub-agent has spawned
				require.NoError(t, err)
				require.Equal(t, h.Child("Lead").Key.String(), out["sessionKey"])
				_, err = send("both")
				require.ErrorContains(t, err, "it may mean agent:main:subagent:")
				out, err = send(other.SessionID)
				if visibility == policy.VisibilityTree {
					require.ErrorContains(t, err, "it names none")
				} else {
					require.NoError(t, err)
					require.Equal(t, elsewhere.String(), out["sessionKey"])
				}
			})
		})
	}
}
