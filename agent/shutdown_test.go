package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// quitter calls Shutdown once, in one of the functions of a Config.
type quitter struct {
	rt   *agent.Runtime
	at   string
	with string // what ctx
	done atomic.Bool
	errs chan error
}

func (q *quitter) in(ctx context.Context, at string) {
	if q.at != at || q.done.Swap(true) {
		return
	}
	var cancel context.CancelFunc
	switch {
	case q.with == "Background":
		ctx, cancel = context.WithCancel(context.Background())
	case q.with == "with a timeout":
		ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
	default:
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	q.errs <- q.rt.Shutdown(ctx)
}

// Open implements fs.FS.
func (q *quitter) Open(name string) (fs.File, error) {
	q.in(context.Background(), "Workspace")
	return fstest.MapFS{}.Open(name)
}

// quittingTranscripts are Transcripts of a quitter.
type quittingTranscripts struct {
	session.Transcripts

	q *quitter
}

func (x quittingTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	x.q.in(ctx, "Transcripts.Append")
	return x.Transcripts.Append(ctx, ref, after, m...)
}

func (x quittingTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	x.q.in(ctx, "Transcripts.Read")
	return x.Transcripts.Read(ctx, ref, q)
}

// config returns a Config whose functions are those of the quitter.
func (q *quitter) config() agent.Config {
	memory := session.NewMemory()
	call := textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
		q.in(ctx, "tool")
		return "done", nil
	})
	return agent.Config{
		Store: &session.Store{
			Journal: memory.Journal, Transcripts: quittingTranscripts{memory.Transcripts, q},
		},
		Tools:     []agent.Tool{{Name: "quit", Call: call}},
		Workspace: q,
		Now: func() time.Time {
			q.in(context.Background(), "Now")
			return time.Now()
		},
		Rules: policy.Rules{Sandbox: policy.Sandbox{Decide: func(string, session.Key) bool {
			q.in(context.Background(), "Sandbox.Decide")
			return false
		}}},
		Models: agent.Models{Valid: func(string) bool {
			q.in(context.Background(), "Models.Valid")
			return true
		}},
		Prompts: agent.Prompts{Loader: agentctx.Loader{Hooks: []agentctx.Hook{
			func(_ agentctx.LoadRequest, f []agentctx.WorkspaceFile) []agentctx.WorkspaceFile {
				q.in(context.Background(), "hook")
				return f
			},
		}}},
		Hooks: agent.Hooks{
			Spawning: func(ctx context.Context, _ agent.SpawningHook) error {
				q.in(ctx, "Spawning")
				return nil
			},
			Ended: func(ctx context.Context, _ agent.EndedHook) error { q.in(ctx, "Ended"); return nil },
		},
		Reply: func(ctx context.Context, _ agent.Delivery) error { q.in(ctx, "Reply"); return nil },
		Deliver: func(ctx context.Context, _ agent.Delivery) error {
			q.in(ctx, "Deliver")
			return nil
		},
		Runner: agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			q.in(ctx, "Runner")
			_, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: "quit", Args: json.RawMessage("{}")})
			return agent.Result{Text: "hi"}, err
		}),
	}
}

// R4: whatever function of a Config calls Shutdown, with whatever ctx: the Runtime comes to its
// end, when the ctx of the call or that of Run ends at the latest. Under its own ctx a function of
// a turn or a delivery does not even wait for that.
func TestShutdownFromEveryFunctionOfAConfig(t *testing.T) {
	for at, hasCtx := range map[string]bool{
		"Runner": true, "tool": true, "Reply": true, "Deliver": true, "Transcripts.Append": true,
		"Transcripts.Read": true, "Workspace": false, "Now": false, "hook": false,
		"Models.Valid": false, "Sandbox.Decide": false, "Spawning": true, "Ended": true,
	} {
		for _, with := range []string{"Background", "its ctx", "with a timeout"} {
			t.Run(at+"/"+with, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					testShutdownFrom(t, &quitter{at: at, with: with}, hasCtx)
				})
			})
		}
	}
}

func testShutdownFrom(t *testing.T, q *quitter, hasCtx bool) {
	t.Helper()
	const runEndsAfter = time.Hour
	q.errs = make(chan error, 1)
	with := q.with
	rt, err := agent.Open(t.Context(), q.config())
	require.NoError(t, err)
	q.rt = rt
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), runEndsAfter)
	defer cancel()
	began, ran := time.Now(), make(chan error, 1)
	go func() { ran <- rt.Run(ctx) }()
	go func() {
		_, _ = agent.Spawn[string](ctx, rt.Session(topKey), agent.Task{
			Text: "go", Model: "a/b", Announce: true,
		})
		_, _ = rt.Session(topKey).Post(ctx, agent.Incoming{Text: "hello"})
	}()
	err = <-q.errs
	runErr := <-ran
	switch took := time.Since(began); {
	case with == "its ctx" && hasCtx:
		require.NoError(t, err)
		require.NoError(t, runErr)
		require.Zero(t, took)
	case with == "with a timeout":
		require.LessOrEqual(t, took, time.Minute+2*spawn.DefaultGrace)
	default:
		require.LessOrEqual(t, took, runEndsAfter+2*spawn.DefaultGrace)
	}
	var still *spawn.StillRunningError
	require.True(t, err == nil || errors.As(err, &still), "%v", err)
}
