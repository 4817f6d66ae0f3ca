package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// badOnce misbehaves in its first call.
type badOnce struct {
	how   func() error
	calls atomic.Int32
}

func (b *badOnce) call() error {
	if b.calls.Add(1) == 1 {
		return b.how()
	}
	return nil
}

// badFiles is a workspace that calls a function first.
type badFiles struct {
	fs.FS
	call func() error
}

func (f badFiles) Open(name string) (fs.File, error) {
	if err := f.call(); err != nil {
		return nil, err
	}
	return f.FS.Open(name)
}

// badTranscripts calls a function first.
type badTranscripts struct {
	session.Transcripts
	read, append func() error
}

func (s badTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	if err := s.read(); err != nil {
		return func(yield func(session.Line, error) bool) { yield(session.Line{}, err) }
	}
	return s.Transcripts.Read(ctx, ref, q)
}

func (s badTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if err := s.append(); err != nil {
		return 0, err
	}
	return s.Transcripts.Append(ctx, ref, after, m...)
}

var workspaceFiles = fstest.MapFS{"AGENTS.md": {Data: []byte("Be brief.")}}

// callbacks are what a Config holds of the caller's that a turn calls, by the field that an error
// names.
var callbacks = []struct {
	name, field string
	set         func(cfg *agent.Config, call func() error)
	heals       bool // an error of it is not the end of the turn
	contains    bool // nor is a panic
}{
	{"workspace", "Prompts.Loader", func(cfg *agent.Config, call func() error) {
		cfg.Workspace = badFiles{workspaceFiles, call}
	}, true, false},
	{"workspace of an agent", "Prompts.Loader", func(cfg *agent.Config, call func() error) {
		cfg.Prompts.Workspaces = map[string]fs.FS{"main": badFiles{workspaceFiles, call}}
	}, true, false},
	{"hook", "Prompts.Loader", func(cfg *agent.Config, call func() error) {
		cfg.Prompts.Loader.Hooks = []agentctx.Hook{
			func(_ agentctx.LoadRequest, f []agentctx.WorkspaceFile) []agentctx.WorkspaceFile {
				_ = call()
				return f
			},
		}
	}, true, false},
	{"skills", "Prompts.Skills", func(cfg *agent.Config, call func() error) {
		cfg.Prompts.Skills = []agentctx.SkillSource{{FS: badFiles{skillFiles(), call}}}
	}, true, false},
	{"host of skills", "Prompts.SkillHost", func(cfg *agent.Config, call func() error) {
		cfg.Prompts.Skills = []agentctx.SkillSource{{FS: skillFiles()}}
		cfg.Prompts.SkillHost = &agentctx.SkillHost{
			HasBin: func(string) bool { return call() == nil },
		}
	}, true, false},
	{"clock", "Now", func(cfg *agent.Config, call func() error) {
		cfg.Now = func() time.Time { _ = call(); return time.Now() }
	}, true, false},
	{"describe", "Prompts.Describe", func(cfg *agent.Config, call func() error) {
		cfg.Prompts.Describe = func(
			context.Context, session.Lineage, *agentctx.Input,
		) error {
			return call()
		}
	}, false, false},
	{"credentials", "Models.Credentials", func(cfg *agent.Config, call func() error) {
		cfg.Models.Credentials = func(context.Context, string) (agent.Profiles, error) {
			return agent.Profiles{}, call()
		}
	}, false, false},
	{"work directory", "WorkDir", func(cfg *agent.Config, call func() error) {
		cfg.WorkDir = func(string) string { _ = call(); return "" }
	}, true, false},
	{"window", "Models.Window", func(cfg *agent.Config, call func() error) {
		cfg.Models.Window = func(string) agent.Window { _ = call(); return agent.Window{} }
	}, true, false},
	{"count of the window", "Models.Window", func(cfg *agent.Config, call func() error) {
		cfg.Models.Window = func(string) agent.Window {
			return agent.Window{Tokens: 1 << 20, Count: func(string) int { _ = call(); return 1 }}
		}
	}, true, false},
	{"count", "Prompts.Input", func(cfg *agent.Config, call func() error) {
		cfg.Workspace = workspaceFiles
		cfg.Prompts.Input.Limits.Count = func(s string) int { _ = call(); return len(s) }
	}, true, false},
	{"transcript, reading", "Store.Transcripts", func(cfg *agent.Config, call func() error) {
		cfg.Store.Transcripts = badTranscripts{
			cfg.Store.Transcripts, call, func() error { return nil },
		}
	}, true, true},
	{"transcript, writing", "Store.Transcripts", func(cfg *agent.Config, call func() error) {
		cfg.Store.Transcripts = badTranscripts{
			cfg.Store.Transcripts, func() error { return nil }, call,
		}
	}, true, true},
	{"runner", "Runner", func(cfg *agent.Config, call func() error) {
		cfg.Runner = agent.RunnerFunc(func(
			context.Context, *agent.Turn,
		) (agent.Result, error) {
			if err := call(); err != nil {
				return agent.Result{}, err
			}
			return textResult("answer")
		})
	}, false, false},
	{"runner of an agent", `Runners.Agents["Main"]`, func(cfg *agent.Config, call func() error) {
		cfg.Runners.Agents = map[string]agent.Runner{"Main": agent.RunnerFunc(func(
			context.Context, *agent.Turn,
		) (agent.Result, error) {
			if err := call(); err != nil {
				return agent.Result{}, err
			}
			return textResult("answer")
		})}
	}, false, false},
	{"model of an agent", `Runners.Agents["Main"].Model`, func(
		cfg *agent.Config, call func() error,
	) {
		cfg.Runners.Agents = map[string]agent.Runner{"Main": &agent.Loop{Model: modelFunc(func(
			context.Context, *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			return &agent.ModelResponse{Text: "answer"}, call()
		})}}
	}, false, false},
	{"model", "Runner.Model", func(cfg *agent.Config, call func() error) {
		cfg.Runner = &agent.Loop{Model: modelFunc(func(
			context.Context, *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			return &agent.ModelResponse{Text: "answer"}, call()
		})}
	}, false, false},
	{"tool", `Tools["bad"].Call`, func(cfg *agent.Config, call func() error) {
		cfg.Tools = []agent.Tool{{
			Name: "bad",
			Call: textCall(func(context.Context, agent.ToolCall) (string, error) {
				return "ok", call()
			}),
		}}
		cfg.Runner = &agent.Loop{Model: modelFunc(func(
			_ context.Context, req *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			if req.Messages[len(req.Messages)-1].Role == session.MessageTool {
				return &agent.ModelResponse{Text: "answer"}, nil
			}
			calls := []agent.ToolCall{{ID: "1", Name: "bad"}}
			return &agent.ModelResponse{ToolCalls: calls}, nil
		})}
	}, true, true},
}

var errBad = errors.New("bad")

// R12: whatever of the caller's a turn calls, before the Runner and in it, may panic, end the
// goroutine, fail or hang: the turn fails with an error that names the field, in the log and in the
// event, a person gets one apology, and the session goes on.
func TestCallbacksThatMisbehave(t *testing.T) {
	const answer, sorry = "answer", "Sorry"
	for how, misbehave := range map[string]func() error{
		"panic":             func() error { panic("oh no") },
		"panic of an error": func() error { panic(errBad) },
		"exit":              func() error { runtime.Goexit(); return nil },
		"error":             func() error { return errBad },
		"hang":              func() error { time.Sleep(time.Hour); return errBad },
	} {
		for _, c := range callbacks {
			t.Run(c.name+", "+how, func(t *testing.T) {
				t.Parallel()
				want, reason := sorry, "agent: "+c.field+": "
				switch {
				case how == "hang":
					want, reason = "", "" // the turn is cancelled, and nothing is said of it
				case how == "error" && c.heals, c.contains:
					want, reason = answer, ""
				case how == "error":
					reason = "bad"
				case how == "exit":
					reason += "it ended its goroutine"
				}
				var log bytes.Buffer
				cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
					return textResult(answer)
				})
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				cfg.Store = session.NewMemory()
				c.set(&cfg, (&badOnce{how: misbehave}).call)
				misbehaveInATurn(t, cfg, how == "hang", want, reason)
				require.Contains(t, strings.ReplaceAll(log.String(), `\"`, `"`), reason)
			})
		}
	}
}

// misbehaveInATurn posts two messages, of which the first makes something misbehave.
func misbehaveInATurn(t *testing.T, cfg agent.Config, hangs bool, want, reason string) {
	t.Helper()
	agenttest.Run(t, cfg, nil, func(h *harness) {
		var failed []string
		ctx, cancel := context.WithCancel(h.Context())
		defer cancel()
		go func() {
			for e, err := range h.Main().Events(ctx) {
				if err != nil {
					t.Error(err)
				}
				if e.Kind == agent.EventTurnEnded {
					failed = append(failed, e.Error)
				}
			}
		}()
		synctest.Wait()
		h.Post("hello")
		time.Sleep(time.Minute)
		if hangs {
			require.NoError(t, h.Main().CancelTurn(h.Context()))
			time.Sleep(2 * time.Hour)
		}
		replies := h.Replies()
		if want == "" {
			require.Empty(t, replies)
		} else {
			require.Len(t, replies, 1)
			require.Contains(t, replies[0].Reply.Text, want)
			require.Equal(t, reason != "", replies[0].Reply.Failed)
		}
		require.Len(t, failed, 1)
		require.Contains(t, failed[0], reason)
		h.Post("and now?")
		time.Sleep(time.Minute)
		require.Len(t, h.Replies(), len(replies)+1, "the session goes on")
		require.Equal(t, "answer", h.Replies()[len(replies)].Reply.Text)
	})
}

// R12: a run whose prompt cannot be made fails, and the caller that waits is told which part of the
// Config it was.
func TestCallbackOfARunThatMisbehaves(t *testing.T) {
	for name, misbehave := range map[string]func() error{
		"panic": func() error { panic(errBad) },
		"exit":  func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bad := &badOnce{how: misbehave}
			cfg := configAnswering(asText)
			cfg.Now = func() time.Time { _ = bad.call(); return time.Now() }
			agenttest.Run(t, cfg, nil, func(h *harness) {
				c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
				require.NoError(t, err)
				_, err = c.Wait(h.Context())
				e, ok := errors.AsType[*agent.RunError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, spawn.StatusFailed, e.Run.Status)
				require.Contains(t, e.Run.Error, "agent: Now: ")
			})
		})
	}
}
