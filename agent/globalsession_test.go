package agent_test

import (
	"context"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// C3, S4: the global session is one of the default agent, in everything that a Config says of an
// agent. Each row is one setting; the default agent has it, and the other agent does not.
func TestGlobalSessionIsThatOfTheDefaultAgent(t *testing.T) {
	deny := policy.ToolPolicy{Deny: []string{"read"}}
	base := func(ids ...string) agent.Config {
		cfg := agent.Config{
			Tools:     []agent.Tool{namedTool("read"), namedTool("exec")},
			Workspace: workspace("common"),
			Models:    agent.Models{Model: "acme/all"},
			Prompts:   agent.Prompts{Skills: []agentctx.SkillSource{{FS: skillFiles(), Path: "s"}}},
		}
		for _, id := range ids {
			cfg.Rules.Agents = append(cfg.Rules.Agents, policy.Agent{ID: id})
		}
		return cfg
	}
	settings := map[string]func(c *agent.Config, a *policy.Agent){
		"nothing":  func(*agent.Config, *policy.Agent) {},
		"no skill": func(_ *agent.Config, a *policy.Agent) { a.Skills = []string{} },
		"a skill":  func(_ *agent.Config, a *policy.Agent) { a.Skills = []string{"beta"} },
		"a workspace": func(c *agent.Config, a *policy.Agent) {
			c.Prompts.Workspaces = map[string]fs.FS{strings.ToUpper(a.ID): workspace("own")}
		},
		"no files": func(c *agent.Config, a *policy.Agent) {
			c.Prompts.Workspaces = map[string]fs.FS{a.ID: fstest.MapFS{}}
		},
		"the workspace of last resort": func(c *agent.Config, a *policy.Agent) {
			c.Workspace = nil
			c.Prompts.Workspaces = map[string]fs.FS{a.ID: workspace("own")}
		},
		"a spec": func(c *agent.Config, a *policy.Agent) {
			c.Prompts.SubagentSpecs = map[string]agentctx.Spec{a.ID: agentctx.PersonaSpec()}
		},
		"a model":   func(_ *agent.Config, a *policy.Agent) { a.Model = "acme/own" },
		"tools":     func(_ *agent.Config, a *policy.Agent) { a.Tools = deny },
		"a sandbox": func(_ *agent.Config, a *policy.Agent) { a.Sandbox = policy.SandboxAll },
		"a provider": func(_ *agent.Config, a *policy.Agent) {
			a.Model = "acme/own"
			a.Tools.ByProvider = map[string]policy.ToolPolicy{"acme/own": deny}
		},
		"what it hands down": func(_ *agent.Config, a *policy.Agent) {
			a.Tools.Delegable = &policy.ToolRules{Deny: []string{"exec"}}
		},
		"sandbox tools": func(_ *agent.Config, a *policy.Agent) {
			a.Sandbox = policy.SandboxAll
			a.SandboxTools = policy.ToolRules{Allow: []string{"exec"}}
		},
		"name": func(_ *agent.Config, a *policy.Agent) { a.Name = "Ada" },
		"what it spawns": func(_ *agent.Config, a *policy.Agent) {
			a.Subagents.AllowAgents = []string{"other"}
		},
		"its conversation": func(c *agent.Config, a *policy.Agent) {
			a.ShareHistory, a.Subagents.AllowAgents = true, []string{"other"}
			c.Prompts.SubagentSpecs = map[string]agentctx.Spec{
				"": {History: agentctx.HistoryFork},
			}
		},
	}
	for name, set := range settings {
		for _, ids := range [][]string{{"main", "other"}, {"boss", "other"}} {
			t.Run(name+" of "+ids[0], func(t *testing.T) {
				cfg := base(ids...)
				set(&cfg, &cfg.Rules.Agents[0])
				main := session.Must(session.MainKey(ids[0]))
				want := whatASessionHas(t, cfg, main)
				require.Equal(t, want, whatASessionHas(t, cfg, session.GlobalKey()))
				require.Contains(t, want["input"], "skills")
			})
		}
	}
	of := reflect.TypeFor[policy.Agent]()
	require.Equal(t, 9, of.NumField(), "a new setting of an agent needs a row here")
	var byAgent []string
	for f := range reflect.TypeFor[agent.Prompts]().Fields() {
		if f.Type.Kind() == reflect.Map {
			byAgent = append(byAgent, f.Name)
		}
	}
	require.Equal(t, []string{"Workspaces", "SubagentSpecs"}, byAgent, "so does a new map by agent")
}

// whatASessionHas returns what a session, and sub-agents of it, are given: by the Config and in a
// turn.
func whatASessionHas(t *testing.T, cfg agent.Config, key session.Key) map[string]string {
	t.Helper()
	prompt := func(in agentctx.Input) string {
		var names []string
		for _, tool := range in.Tools {
			names = append(names, tool.Name)
		}
		return fmt.Sprint("tools ", names, " skills ", in.Skills, " files ", in.Files, in.Env.Model,
			in.Spec, in.Sandbox.Enabled)
	}
	has := map[string]string{
		"input":    prompt(inputOf(t, cfg, key)),
		"commands": fmt.Sprint(cfg.Skills(key).Commands()),
	}
	for _, id := range []string{"", "other"} {
		in, err := cfg.ChildInput(t.Context(), key, agent.Task{Text: "x", Agent: id})
		has["child "+id] = fmt.Sprint(prompt(in), err)
	}
	var mu sync.Mutex
	note := func(what string, of ...any) {
		mu.Lock()
		defer mu.Unlock()
		has[what] = fmt.Sprint(of...)
	}
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		p := tn.Prompt
		note("turn"+tn.Label, tn.Model, toolNamesOf(tn.Tools), tn.Sandboxed, listedSkills(p),
			tn.Skills.Commands(), p.Files, len(tn.Messages))
		if tn.Label != "" {
			return textResult("ok")
		}
		for _, id := range []string{"", "other"} {
			_, err := agent.Spawn[string](ctx, tn, agent.Task{Text: "x", Label: "c" + id, Agent: id})
			note("spawn "+id, err)
		}
		return textResult("ok")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.PostTo(key, "hello")
		synctest.Wait()
	})
	for what, text := range has { // refusals name the caller
		has[what] = strings.ReplaceAll(text, key.String(), "KEY")
	}
	return has
}

// S4: the function that decides on sandboxes gets the key of each sub-agent, also below the global
// session.
func TestSandboxOfASubagentOfTheGlobalSession(t *testing.T) {
	asked := make(map[string]bool)
	var mu sync.Mutex
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Label == "" {
			_, err := agent.Spawn[string](ctx, tn, agent.Task{Text: "x", Label: "c"})
			require.NoError(t, err)
		}
		return textResult("ok")
	})
	cfg.Rules.Agents = []policy.Agent{{ID: "boss"}}
	cfg.Rules.Sandbox.Decide = func(id string, key session.Key) bool {
		mu.Lock()
		defer mu.Unlock()
		asked[fmt.Sprint(id, " ", key.Kind())] = true
		return false
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.PostTo(session.GlobalKey(), "hello")
		synctest.Wait()
	})
	require.Equal(t, map[string]bool{"boss global": true, "boss subagent": true}, asked)
}

// C3, S4: the key of an agent that is not configured has no skill, as it has no tool.
func TestAgentsThatAreNotListedSeeNoSkills(t *testing.T) {
	cfg := agent.Config{
		Prompts: agent.Prompts{Skills: []agentctx.SkillSource{{FS: skillFiles(), Path: "s"}}},
		Rules:   policy.Rules{Agents: []policy.Agent{{ID: "main"}}},
	}
	chat := session.Must(session.DirectKey("ghost", "irc", "me"))
	for _, key := range []session.Key{
		session.Must(session.MainKey("ghost")), chat, session.Must(chat.Child("ghost", "x")),
		session.Must(session.HookKey("ghost", "x")), session.Must(chat.Thread("7")),
	} {
		for _, named := range [][]string{nil, {"*"}, {"alpha"}} {
			cfg.Prompts.Input.Spec.Skills = named
			cfg.Prompts.SubagentSpecs = map[string]agentctx.Spec{"": {Skills: named}}
			require.Error(t, cfg.Rules.CheckAgent(key))
			require.Empty(t, cfg.Skills(key).Skills, key)
			require.Empty(t, cfg.Skills(key).Commands(), key)
			require.Empty(t, inputOf(t, cfg, key).Skills, key)
		}
	}
	require.NotEmpty(t, cfg.Skills(topKey).Skills)
	cfg.Rules.Agents = nil
	require.NotEmpty(t, cfg.Skills(chat).Skills, "without a list every agent is one")
}
