package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// runUntilEnd runs a Runtime until the test ends.
func runUntilEnd(t *testing.T, cfg agent.Config) *agent.Runtime {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, rt.Shutdown(ctx))
		require.NoError(t, <-done)
	})
	return rt
}

type modelFunc func(ctx context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error)

func (f modelFunc) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	return f(ctx, req)
}

func lastMessage(req *agent.ModelRequest) agent.Message { return req.Messages[len(req.Messages)-1] }

func TestLoopSpawnsAndAnswersLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := make(chan string, 10)
		prompts := map[int]string{}
		model := modelFunc(func(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse,
			error,
		) {
			text := lastMessage(req).Text
			switch {
			case strings.Contains(text, "[Subagent Task]:"):
				prompts[1] = req.Prompt.String()
				require.Contains(t, text, "count the files")
				time.Sleep(time.Minute)
				return &agent.ModelResponse{Text: "42", Usage: agent.Usage{Input: 10, Output: 2}},
					nil
			case lastMessage(req).Role == session.MessageTool:
				require.Contains(t, text, `"status":"accepted"`)
				return &agent.ModelResponse{Text: "On it."}, nil
			case lastMessage(req).Internal:
				require.Contains(t, text, "42")
				return &agent.ModelResponse{Text: "There are 42."}, nil
			}
			prompts[0] = req.Prompt.String()
			return &agent.ModelResponse{ToolCalls: []agent.ToolCall{{
				ID: "1", Name: "sessions_spawn",
				Args: json.RawMessage(`{"task":"count the files","label":"count"}`),
			}}}, nil
		})
		rt := runUntilEnd(t, agent.Config{
			Runner: &agent.Loop{Model: model},
			Workspace: fstest.MapFS{
				"AGENTS.md": {Data: []byte("Be exact.")}, "SOUL.md": {Data: []byte("Be kind.")},
				"TOOLS.md": {Data: []byte("ls lists.")},
			},
			Reply: func(_ context.Context, d agent.Delivery) error {
				replies <- d.Reply.Text
				return nil
			},
		})
		require.NoError(t, errorOf(rt.Session(topKey).Post(t.Context(),
			agent.Incoming{ID: "1", Text: "How many files?"})))
		require.Equal(t, "On it.", <-replies)
		require.Equal(t, "There are 42.", <-replies)
		synctest.Wait()
		require.Empty(t, replies)
		require.Contains(t, prompts[0], "Be kind.")
		require.NotContains(t, prompts[1], "Be kind.")
		require.Contains(t, prompts[1], "Be exact.")
		runs, err := rt.Session(topKey).Runs(t.Context())
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, int64(12), runs[0].Result.Usage.Total())
	})
}

func TestTypedChildrenAndJoin(t *testing.T) {
	type finding struct {
		Claim string `json:"claim" doc:"one sentence"`
	}
	synctest.Test(t, func(t *testing.T) {
		rt := runUntilEnd(t, agent.Config{
			Runner: agent.RunnerFunc(func(
				ctx context.Context, tn *agent.Turn,
			) (agent.Result, error) {
				require.Contains(t, string(tn.Schema), `"claim"`)
				if strings.Contains(tn.Input(), "slow") {
					<-ctx.Done()
					return agent.Result{Text: "partial"}, ctx.Err()
				}
				time.Sleep(time.Second)
				return agent.Result{Text: "```json\n{\"claim\":\"it works\"}\n```"}, nil
			}),
			Rules: policy.Rules{Subagents: policy.Subagents{MaxChildren: 10}},
		})
		survey := rt.Session(session.Must(session.NamedKey("main", "survey")))
		var children []*agent.Child[finding]
		for _, task := range []string{"a", "b", "slow"} {
			c, err := agent.Spawn[finding](t.Context(), survey,
				agent.Task{Text: task, Key: task})
			require.NoError(t, err)
			children = append(children, c)
		}
		outcomes, err := agent.Join(t.Context(), survey, children,
			agent.JoinOptions{AtLeast: 2, Within: time.Minute, Rest: agent.RestStop})
		require.NoError(t, err)
		require.Equal(t, "it works", outcomes[0].Value.Claim)
		var failed *agent.RunError
		require.ErrorAs(t, outcomes[2].Err, &failed)
		require.Equal(t, "partial", failed.Run.Result.Text)
	})
}
