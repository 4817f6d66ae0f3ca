package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// childConfig has a value for all that makes the prompts of sub-agents differ.
func childConfig() agent.Config {
	return agent.Config{
		Workspace: workspace("common"), Tools: toolbox("read", "exec", "web_search"),
		Models: agent.Models{Model: "acme/large", Thinking: "low"},
		Prompts: agent.Prompts{
			Input: agentctx.Input{
				Product: "Perch", Sandbox: agentctx.Sandbox{Dir: "/box"},
				Env: agentctx.Env{Zone: "Asia/Tokyo", Dir: "/work"},
			},
			SubagentSpecs: map[string]agentctx.Spec{"coder": agentctx.PersonaSpec()},
			Skills:        []agentctx.SkillSource{{FS: skillFiles(), Path: "skills"}},
		},
		Rules: policy.Rules{
			Subagents: policy.Subagents{MaxSpawnDepth: 3, Model: "acme/small", Thinking: "high"},
			Agents: []policy.Agent{
				{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"*"}}},
				{ID: "coder", Subagents: policy.Subagents{
					AllowAgents: []string{"*"}, Model: "acme/code",
				}, Tools: policy.ToolPolicy{Deny: []string{"web_search"}}},
				{ID: "boxed", Sandbox: policy.SandboxAll},
			},
		},
		Now: func() time.Time { return time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC) },
	}
}

// inputOf returns the prompt input that a Config has for a session.
func inputOf(t *testing.T, cfg agent.Config, key session.Key) agentctx.Input {
	t.Helper()
	in, err := cfg.Input(t.Context(), key)
	require.NoError(t, err)
	return in
}

// C9: what a test shows for a sub-agent is byte for byte what the turn of the sub-agent is sent.
func TestChildInputGivesTheProductionPrompt(t *testing.T) {
	chat := session.Must(session.DirectKey("main", "telegram", "4711"))
	for name, tasks := range map[string][]agent.Task{
		"a child":      {{Text: "work", Label: "one"}},
		"a label":      {{Text: "work", Label: "two\nlines `x`"}},
		"another":      {{Text: "work", Label: "coder", Agent: "coder"}},
		"its own wish": {{Text: "work", Label: "x", Model: "acme/best", Thinking: "medium"}},
		"own spec":     {{Text: "work", Label: "x", Spec: agentctx.InstructionsSpec()}},
		"with skills":  {{Text: "work", Label: "x", Spec: agentctx.Spec{Skills: []string{"*"}}}},
		"fewer tools":  {{Text: "work", Label: "x", Tools: []string{"read"}}},
		"in a sandbox": {{Text: "work", Label: "x", Agent: "boxed"}},
		"a grandchild": {{Text: "a", Label: "up", Agent: "coder"}, {Text: "b", Label: "x"}},
		"a leaf": {
			{Text: "a", Label: "1", Thinking: "medium"},
			{Text: "b", Label: "2", Agent: "coder"},
			{Text: "c", Label: "3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkChildInput(t, childConfig(), chat, func() []agent.Task { return tasks })
		})
	}
}

// checkChildInput requires that what a test shows for the sub-agent of the last of some tasks is
// byte for byte what its turn is sent.
func checkChildInput(
	t *testing.T, cfg agent.Config, chat session.Key, tasks func() []agent.Task,
) {
	t.Helper()
	var mu sync.Mutex
	given := tasks()
	last := given[len(given)-1].Label
	var got *agent.Turn
	cfg.Runner = agent.RunnerFunc(func(
		ctx context.Context, tn *agent.Turn,
	) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		if depth := tn.Session.Depth; depth < len(given) && tn.N == 1 {
			_, err := tn.Spawn(ctx, given[depth])
			return agent.Result{Text: "ok"}, err
		} else if depth == len(given) {
			got = tn
		}
		return textResult("ok")
	})
	for name := range cfg.Runners.Runtimes {
		cfg.Runners.Runtimes[name] = agent.ExternalRuntime{Runner: cfg.Runner}
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.PostTo(chat, "hello")
		synctest.Wait()
		require.NotNil(t, got, last)
		in, err := cfg.ChildInput(t.Context(), chat, tasks()...)
		require.NoError(t, err)
		madeUp := in.Session.ID()
		in.Session, in.Now = got.Session.Key, cfg.Now()
		in.Subagent.Requester = got.Session.Parent
		for i := range in.Extra {
			in.Extra[i].Text = strings.ReplaceAll(in.Extra[i].Text, madeUp, in.Session.ID())
		}
		want := agentctx.Assemble(in).String()
		require.Equal(t, want, got.Prompt.String(), contexttest.Diff(want, got.Prompt.String()))
	})
}

// The prompt of a sub-agent that is given files tells of them as the one that is sent does: with
// their sizes, the directory if there is one, the hint, and in an external runtime too. What a
// spawn refuses, the preview refuses.
func TestChildInputTellsOfAttachments(t *testing.T) {
	chat := session.Must(session.DirectKey("main", "telegram", "4711"))
	base := makeTree(t, "app/")
	for name, c := range map[string]struct {
		base, hint, dir, runtime string
		deep                     bool
		files                    []string
	}{
		"in no directory":     {files: []string{"a.txt", "one", "b", ""}},
		"in a directory":      {base: base, files: []string{"a.txt", "one"}},
		"in a folder":         {base: base, dir: "app", files: []string{"a.txt", "one", "b", "22"}},
		"with a hint":         {base: base, hint: "in/put", files: []string{"a.txt", "one"}},
		"of a grandchild":     {base: base, deep: true, files: []string{"a", "one"}},
		"in a runtime":        {base: base, runtime: "acp", files: []string{"a", "one"}},
		"none in a directory": {base: base},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := childConfig()
			cfg.Runners.Runtimes = map[string]agent.ExternalRuntime{"acp": {}}
			if c.base != "" {
				cfg.WorkDir = func(string) string { return c.base }
			}
			tasks := func() []agent.Task {
				task := agent.Task{
					Text: "x", Label: "x", Dir: c.dir, AttachAs: c.hint, Runtime: c.runtime,
					Attachments: attaching(c.files...),
				}
				if c.deep {
					return []agent.Task{{Text: "y", Label: "y", Attachments: attaching("z", "3")}, task}
				}
				return []agent.Task{task}
			}
			checkChildInput(t, cfg, chat, tasks)
		})
	}
}

// C9: the model and the thinking of the rules are in what Input returns for a sub-agent.
func TestInputOfASubagentHasTheModelOfTheRules(t *testing.T) {
	cfg := childConfig()
	child := session.Must(session.Must(session.MainKey("main")).Child("main", session.NewID()))
	require.Equal(t, "acme/small", inputOf(t, cfg, child).Env.Model)
	require.Equal(t, "high", inputOf(t, cfg, child).Env.Thinking)
	coder := session.Must(session.Must(session.MainKey("coder")).Child("coder", session.NewID()))
	require.Equal(t, "acme/code", inputOf(t, cfg, coder).Env.Model)
}

// C9: the prompt of a session that the caller runs lists no session tool that it does not get.
func TestInputOfACallerRunSession(t *testing.T) {
	cfg := childConfig()
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, script{}, func(h *harness) {
		listed := map[string]bool{}
		for _, tool := range inputOf(t, cfg, topKey).Tools {
			listed[tool.Name] = true
		}
		for _, tool := range h.Main().Tools() {
			require.True(t, listed[tool.Name], tool.Name)
			delete(listed, tool.Name)
		}
		require.Equal(t, map[string]bool{"read": true, "exec": true, "web_search": true}, listed)
		require.NotContains(t, agentctx.Assemble(inputOf(t, cfg, topKey)).String(), "sessions_yield")
	})
	cfg.Deliver = nil
	require.Contains(t, agentctx.Assemble(inputOf(t, cfg, topKey)).String(), "sessions_yield")
}

func TestChildInputRefuses(t *testing.T) {
	cfg := childConfig()
	child := session.Must(topKey.Child("main", session.NewID()))
	for name, f := range map[string]func() error{
		"no task": func() error { _, err := cfg.ChildInput(t.Context(), topKey); return err },
		"no session": func() error {
			_, err := cfg.ChildInput(t.Context(), session.Key{}, agent.Task{Text: "x"})
			return err
		},
		"a sub-agent": func() error {
			_, err := cfg.ChildInput(t.Context(), child, agent.Task{Text: "x"})
			return err
		},
	} {
		var bad *agent.InputError
		require.ErrorAs(t, f(), &bad, name)
	}
	for field, task := range map[string]agent.Task{
		"Task.Attachments[0].Name":   {Attachments: attaching("../a", "one")},
		"Task.Attachments[0]":        {Attachments: attaching("a", strings.Repeat("x", 1<<20+1))},
		"Task.Attachments[0].Reader": {Attachments: []agent.Attachment{{Name: "a"}}},
		"Task.AttachAs":              {Attachments: attaching("a", ""), AttachAs: "../up"},
		"Task.Dir":                   {Dir: "app"},
		"Task.Stream":                {Stream: true},
	} {
		task.Text = "x"
		_, err := cfg.ChildInput(t.Context(), topKey, task)
		bad, ok := errors.AsType[*agent.InputError](err)
		require.True(t, ok, "%s: %v", field, err)
		require.Equal(t, field, bad.Field)
	}
	noFiles := cfg
	noFiles.Store = &session.Store{Journal: session.NewMemory().Journal}
	_, err := noFiles.ChildInput(t.Context(), topKey, agent.Task{
		Text: "x", Attachments: attaching("a", ""),
	})
	require.ErrorIs(t, err, session.ErrNoFiles)
	_, err = cfg.ChildInput(t.Context(), topKey, agent.Task{Text: "x", Runtime: "acp"})
	require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleRuntime})
	_, err = cfg.ChildInput(t.Context(), topKey, agent.Task{Text: "x", Agent: "nope"})
	var refused *policy.Refusal
	require.ErrorAs(t, err, &refused)
	_, err = cfg.ChildInput(t.Context(), topKey, slices.Repeat([]agent.Task{{Text: "x"}}, 4)...)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, policy.RuleDepth, refused.Rule)
}
