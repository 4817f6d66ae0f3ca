package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
)

// C5, C12, C13: what is surely wrong is an error, all of it at once, by its Go path.
func TestOpenReportsWhatIsSurelyWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	call := toolSaying("")
	schemas := func(texts ...string) (tools []agent.Tool) {
		for i, s := range texts {
			name := string(rune('a' + i))
			tools = append(tools, agent.Tool{Name: name, Call: call, Schema: json.RawMessage(s)})
		}
		return tools
	}
	for name, c := range map[string]struct {
		cfg  agent.Config
		want []string
	}{
		"ids": {agent.Config{
			Rules: policy.Rules{
				Agents:    []policy.Agent{{ID: "Researcher"}},
				Subagents: policy.Subagents{AllowAgents: []string{"reseacher"}},
			},
			Prompts: agent.Prompts{
				Workspaces: map[string]fs.FS{"reseacher": nil, "RESEARCHER": nil, "main": nil},
				SubagentSpecs: map[string]agentctx.Spec{
					"researcher": {}, "Researcher": {}, "": {}, "ghost": {},
				},
			},
		}, []string{
			`Config.Prompts.SubagentSpecs["ghost"]: there is no agent "ghost" in Rules.Agents (agents.list)`,
			`Config.Prompts.SubagentSpecs["researcher"]: it is the agent of Prompts.SubagentSpecs["Researcher"], since letter case does not matter`,
			`Config.Prompts.Workspaces["reseacher"]: there is no agent "reseacher" in Rules.Agents (agents.list); the nearest is "researcher"`,
			`Config.Rules.Subagents.AllowAgents[0] (agents.defaults.subagents.allowAgents[0]): it is "reseacher", want the id of an agent in Rules.Agents (agents.list)`,
		}},
		"workspaces": {agent.Config{
			Workspace: os.DirFS(filepath.Join(dir, "nowhere")),
			Prompts: agent.Prompts{Workspaces: map[string]fs.FS{
				"main": os.DirFS(filepath.Join(dir, "no", "where")),
			}},
		}, []string{
			"Config.Workspace: the directory is not there: ",
			`Config.Prompts.Workspaces["main"]: the directory is not there: `,
		}},
		"skills": {agent.Config{Prompts: agent.Prompts{Skills: []agentctx.SkillSource{
			{FS: fstest.MapFS{}}, {FS: os.DirFS(filepath.Join(dir, "skills"))}, {FS: os.DirFS(file)},
		}}}, []string{
			"Config.Prompts.Skills[1].FS: the directory is not there: ",
		}},
		"prompts": {agent.Config{Prompts: agent.Prompts{
			Input: agentctx.Input{
				Sandbox: agentctx.Sandbox{Access: "all", Elevated: "yes"},
				Limits:  agentctx.Limits{File: -7, Total: -8},
				Channel: agentctx.Channel{Reactions: "many"},
				Extra:   []agentctx.Section{{}},
				Spec:    agentctx.Spec{Files: []string{"["}, History: agentctx.HistoryFork},
			},
			Loader: agentctx.Loader{Extra: []string{"../x", "[", "docs/*"}, Hooks: []agentctx.Hook{nil}},
			SubagentSpecs: map[string]agentctx.Spec{
				"": {Mode: 9, Skills: []string{" "}, History: 9},
			},
		}}, []string{
			`Config.Prompts.Input.Spec.Files[0]: it is "[", which is not a pattern of file names`,
			"Config.Prompts.Input.Limits.File: it is -7, want a number of runes",
			"Config.Prompts.Input.Limits.Total: it is -8, want a number of runes",
			`Config.Prompts.Input.Channel.Reactions: it is "many", want minimal or extensive`,
			`Config.Prompts.Input.Sandbox.Access: it is "all", want none, ro or rw`,
			`Config.Prompts.Input.Sandbox.Elevated: it is "yes", want ask, on, full or off`,
			"Config.Prompts.Input.Extra[0].ID: it is blank",
			"Config.Prompts.Input.Spec.History: a top-level session has no requester",
			`Config.Prompts.Loader.Extra[0]: it is "../x", which is not a slash-separated path`,
			`Config.Prompts.Loader.Extra[1]: it is "[", which is not a pattern`,
			"Config.Prompts.Loader.Hooks[0]: it is nil",
			`Config.Prompts.SubagentSpecs[""].Mode: it is 9, want at most`,
			`Config.Prompts.SubagentSpecs[""].History: it is 9, want at most 2 (fork)`,
			`Config.Prompts.SubagentSpecs[""].Skills[0]: it is blank`,
		}},
		"schemas": {
			agent.Config{Tools: schemas(`{"type":"object","properties":{"a":{"type":["string","null"]},`+
				`"b":true,"c":{"enum":[1],"items":[{}]}},"required":["a"],"x-own":1}`,
				``, `{`, `[]`, `null`, `{"type":"array"}`, `{"properties":[]}`,
				`{"properties":{"a":{"type":"text"}}}`, `{"required":"a"}`, `{"required":[1]}`,
				`{"anyOf":[{},{"items":3}]}`, `{"properties":{"a":{"enum":1}}}`,
			)},
			[]string{
				`Config.Tools[1].Schema: tool "b": `, `Config.Tools[2].Schema: tool "c": `,
				`Config.Tools[3].Schema: `, `Config.Tools[4].Schema: `, `Config.Tools[5].Schema: `,
				`Config.Tools[6].Schema: `, `Config.Tools[7].Schema: `, `Config.Tools[8].Schema: `,
				`Config.Tools[9].Schema: `, `Config.Tools[10].Schema: `, `Config.Tools[11].Schema: `,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Runner = idleRunner{}
			_, err := agent.Open(t.Context(), c.cfg)
			require.Error(t, err)
			got := strings.Split(err.Error(), "\n")
			require.Len(t, got, len(c.want), err.Error())
			for i, want := range c.want {
				require.Contains(t, got[i], "agent: "+want)
			}
		})
	}
	_, err := agent.Open(t.Context(), agent.Config{Runner: idleRunner{}, Workspace: os.DirFS(file)})
	require.NoError(t, err, "it may be there later, so that it is a warning")
}

// C5, C11: what can be meant is a warning.
func TestOpenLogsWhatIsDoubtful(t *testing.T) {
	for want, cfg := range map[string]agent.Config{
		"": {
			Workspace: fstest.MapFS{},
			Rules: policy.Rules{
				Tools: policy.ToolPolicy{Deny: []string{"search", "browser", "sessions_*", "group:fs"}},
			},
			Prompts: agent.Prompts{
				Workspaces:    map[string]fs.FS{"main": fstest.MapFS{}},
				SubagentSpecs: map[string]agentctx.Spec{"": {}, "Main": {}},
			},
		},
		`field=Config.Rules.Tools.Deny[0] setting=tools.deny[0] doubt="there is no tool \"serach\"; the nearest is \"search\""`: {
			Rules: policy.Rules{Tools: policy.ToolPolicy{Deny: []string{"serach"}}},
		},
		`doubt="no agents are configured in Rules.Agents (agents.list), so that only sessions whose keys name \"mian\" use it; the nearest is \"main\""`: {
			Prompts: agent.Prompts{Workspaces: map[string]fs.FS{"mian": fstest.MapFS{}}},
		},
		`field=Config.Models.Thinking setting="" doubt="it is \"hihg\", which is not one of off, `: {
			Models: agent.Models{Thinking: "hihg"},
		},
		// C4: the machine may have no time zone database.
		`field=Config.Prompts.Input.Env.Zone setting="" doubt="this machine does not know it, `: {
			Prompts: agent.Prompts{Input: agentctx.Input{Env: agentctx.Env{Zone: "Asia/Tokio"}}},
		},
		`field=Config.Rules.Tools.ByProvider setting=tools.byProvider doubt="it holds for no session of agent \"main\", whose model is not known; set Models.Model or Rules.Agents[].Model"`: {
			Rules: policy.Rules{Tools: policy.ToolPolicy{ByProvider: map[string]policy.ToolPolicy{
				"acme": {Deny: []string{"search"}},
			}}},
		},
		`field=Config.Rules.Agents[1].Tools.ByProvider setting=agents.list[ops].tools.byProvider doubt="it holds for no session of agent \"ops\"`: {
			Rules: policy.Rules{Agents: []policy.Agent{{ID: "main"}, {
				ID: "Ops", Tools: policy.ToolPolicy{ByProvider: map[string]policy.ToolPolicy{
					"acme": {Deny: []string{"search"}},
				}},
			}}},
		},
		`field="Config.Prompts.Workspaces[\"main\"]" setting="" doubt="it is nil, so that sessions of the agent have no files; `: {
			Prompts: agent.Prompts{Workspaces: map[string]fs.FS{"main": nil}},
		},
		`field=Config.Prompts.Skills[0].FS setting="" doubt="it is nil, so that the source holds no skills"`: {
			Prompts: agent.Prompts{Skills: []agentctx.SkillSource{{Path: "skills"}}},
		},
		`field=Config.Models.Model setting="" doubt="it is \"sonnet\", which is not of the form \"provider/model\""`: {
			Models: agent.Models{Model: "sonnet"},
		},
		`field=Config.Rules.Subagents.Model setting=agents.defaults.subagents.model doubt="it is \"sonnet\"`: {
			Rules: policy.Rules{Subagents: policy.Subagents{Model: "sonnet"}},
		},
		`field=Config.Rules.Agents[0].Model setting=agents.list[ops].model doubt="it is \"sonnet\"`: {
			Rules: policy.Rules{Agents: []policy.Agent{{ID: "Ops", Model: "sonnet"}}},
		},
		`field=Config.Rules.Agents[0].Subagents.Model setting=agents.list[ops].subagents.model doubt="it is \"sonnet\"`: {
			Rules: policy.Rules{Agents: []policy.Agent{{
				ID: "Ops", Model: "opus", Subagents: policy.Subagents{Model: "sonnet"},
			}}},
			Prompts: agent.Prompts{Input: agentctx.Input{
				Aliases: map[string]string{"opus": "acme/opus"},
			}},
		},
		`field=Config.Workspace setting="" doubt="the directory cannot be looked at: agent: Workspace: `: {
			Workspace: panickingFS{},
		},
		`agent \"main\" may not use search, and so may not the sub-agents that it spawns of coder`: {
			Rules: policy.Rules{
				Agents: []policy.Agent{
					{ID: "main", Tools: policy.ToolPolicy{Deny: []string{"search"}}}, {ID: "coder"},
				},
				Subagents: policy.Subagents{AllowAgents: []string{"coder"}},
			},
		},
	} {
		var log bytes.Buffer
		cfg.Runner, cfg.Logger = idleRunner{}, slog.New(slog.NewTextHandler(&log, nil))
		cfg.Tools = []agent.Tool{namedTool("search")}
		_, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err, want)
		if want == "" {
			require.Empty(t, log.String())
			continue
		}
		require.Contains(t, log.String(), want)
		require.Contains(t, log.String(), "level=WARN")
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	}
}

// panickingFS is a workspace that panics.
type panickingFS struct{}

func (panickingFS) Open(string) (fs.File, error)     { panic("open") }
func (panickingFS) Stat(string) (fs.FileInfo, error) { panic("stat") }

// C5: agents have their Spec and workspace in any letter case, as the Rules take their ids.
func TestAgentIDsHaveNoCase(t *testing.T) {
	cfg := agent.Config{
		Rules: policy.Rules{Agents: []policy.Agent{{ID: "CODER"}}},
		Prompts: agent.Prompts{
			Workspaces:    map[string]fs.FS{"Coder": workspace("coder's")},
			SubagentSpecs: map[string]agentctx.Spec{"cOder": agentctx.PersonaSpec()},
		},
	}
	cfg.Rules.Subagents.AllowAgents = []string{"*"}
	prompt := promptsOf(t, cfg, agent.Task{Text: "x", Label: "c", Agent: "Coder"})["c"].String()
	require.Contains(t, prompt, "coder's SOUL.md")
}

// S4: a model that cannot be one is an error wherever it is configured, because no rule for its
// provider would hold.
func TestModelsThatCannotBe(t *testing.T) {
	places := map[string]func(c *agent.Config, model string){
		"Models.Model":                    func(c *agent.Config, m string) { c.Models.Model = m },
		"Rules.Subagents.Model":           func(c *agent.Config, m string) { c.Rules.Subagents.Model = m },
		"Rules.Agents[0].Model":           func(c *agent.Config, m string) { c.Rules.Agents[0].Model = m },
		"Rules.Agents[0].Subagents.Model": func(c *agent.Config, m string) { c.Rules.Agents[0].Subagents.Model = m },
	}
	for place, set := range places {
		for _, model := range []string{
			" ", "/", "/x", "x/", "a//b", "acme /x", "/acme/x", "acme/ x", "acme/x\u200b", "acme\u2028/x",
			"acme/x\xff", "a\tb", strings.Repeat("x", 257),
		} {
			cfg := agent.Config{
				Runner: idleRunner{}, Rules: policy.Rules{Agents: []policy.Agent{{ID: "main"}}},
			}
			set(&cfg, model)
			_, err := agent.Open(t.Context(), cfg)
			mistake, ok := errors.AsType[*agent.ConfigError](err)
			require.True(t, ok, "%s %q: %v", place, model, err)
			require.Equal(t, place, mistake.Path)
		}
		valid := []string{"", "x", "acme/x", "ACME/x", "router/acme/x:1"}
		if place != "Models.Model" { // no name of the Models has outer space
			valid = append(valid, " acme/x ")
		}
		for _, model := range valid {
			cfg := agent.Config{
				Runner: idleRunner{}, Logger: slog.New(slog.DiscardHandler),
				Rules: policy.Rules{
					Agents: []policy.Agent{{ID: "main"}},
					Tools: policy.ToolPolicy{ByProvider: map[string]policy.ToolPolicy{
						"acme": {Deny: []string{"search"}},
					}},
				},
				Tools: []agent.Tool{namedTool("search")},
			}
			set(&cfg, model)
			_, err := agent.Open(t.Context(), cfg)
			require.NoError(t, err, "%s %q", place, model)
			if strings.HasPrefix(strings.ToLower(strings.TrimSpace(model)), "acme/") &&
				!strings.Contains(place, "Subagents") {
				for _, tool := range inputOf(t, cfg, topKey).Tools {
					require.NotEqual(t, "search", tool.Name, "%s %q", place, model)
				}
			}
		}
	}
}

// C6: a top-level session runs on the model of its agent.
func TestTopLevelSessionsRunOnTheModelOfTheirAgent(t *testing.T) {
	cfg := agent.Config{
		Models: agent.Models{Model: "acme/all"},
		Rules: policy.Rules{
			Agents: []policy.Agent{
				{ID: "main", Model: "acme/main"},
				{ID: "coder", Model: "acme/coder"},
				{ID: "plain"},
			},
			Tools: policy.ToolPolicy{ByProvider: map[string]policy.ToolPolicy{
				"acme/main": {Deny: []string{"read"}},
			}},
			Subagents: policy.Subagents{AllowAgents: []string{"*"}},
		},
		Tools: []agent.Tool{namedTool("read")},
	}
	require.Equal(t, "acme/main", inputOf(t, cfg, topKey).Env.Model)
	p := &probe{cfg: cfg}
	seen, refused := p.observe(t)
	require.Empty(t, refused)
	require.Contains(t, seen, `agent:main:main "" turn 1: model acme/main `)
	require.Contains(t, seen, `agent:coder:main "" turn 1: model acme/coder `)
	require.Contains(t, seen, `agent:coder:subagent:ID "coder" turn 1: model acme/main `,
		"a sub-agent inherits what its requester runs on")
	for _, tool := range inputOf(t, cfg, topKey).Tools {
		require.NotEqual(t, "read", tool.Name, "rules by model go by the model that is used")
	}
}

// C10: a sub-agent without files has those of the nearest session above that has some.
func TestWorkspaceOfTheRequesterIsTheLastResort(t *testing.T) {
	cfg := agent.Config{Rules: rulesForDepth(3)}
	cfg.Rules.Agents = agentsAllowing([]string{"*"}, "coder", "tester")
	cfg.Rules.Subagents.AllowAgents = []string{"*"}
	cfg.Prompts.Workspaces = map[string]fs.FS{"main": workspace("main's")}
	prompts := func() string {
		return promptsOf(t, cfg, agent.Task{Text: "x", Label: "c", Agent: "coder"})["c"].String()
	}
	require.Contains(t, prompts(), "main's AGENTS.md")
	require.NotContains(t, prompts(), "main's SOUL.md", "within its Spec")
	cfg.Workspace = workspace("common")
	require.Contains(t, prompts(), "common AGENTS.md")
	cfg.Prompts.Workspaces["coder"] = workspace("coder's")
	require.Contains(t, prompts(), "coder's AGENTS.md")
}

// C10: the nearest session counts, also when it is neither the requester nor the top-level one.
func TestWorkspaceOfTheNearestSessionAbove(t *testing.T) {
	agents := []string{"coder", "tester", "writer"}
	files := make(chan string, len(agents)+1)
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.N > 1 {
			return textResult("")
		}
		for _, whose := range []string{"of main", "of coder"} {
			if strings.Contains(tn.Prompt.String(), whose+" AGENTS.md") {
				files <- tn.Session.Key.Agent() + " " + whose
			}
		}
		if d := tn.Session.Depth; d < len(agents) {
			_, err := tn.Spawn(ctx, agent.Task{Text: "x", Agent: agents[d]})
			return agent.Result{Text: "x"}, err
		}
		return textResult("x")
	})
	cfg.Rules = rulesForDepth(len(agents))
	cfg.Rules.Agents = agentsAllowing([]string{"*"}, agents...)
	for i := range cfg.Rules.Agents {
		cfg.Rules.Agents[i].Subagents.AllowAgents = []string{"*"}
	}
	cfg.Prompts.Workspaces = map[string]fs.FS{"main": workspace("of main"), "coder": workspace("of coder")}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Minute)
		var got []string
		for len(files) > 0 {
			got = append(got, <-files)
		}
		require.Equal(t, []string{
			"main of main", "coder of coder", "tester of coder", "writer of coder",
		}, got)
	})
}
