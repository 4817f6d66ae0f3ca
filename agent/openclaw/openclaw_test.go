package openclaw_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

// silent is a Runner that says nothing.
var silent = agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
	return agent.Result{}, nil
})

// quiet is a Config that can be opened and logs nothing.
func quiet() agent.Config {
	return agent.Config{Runner: silent, Logger: slog.New(slog.DiscardHandler)}
}

// nowhere are Options for a machine without an environment, on which every directory is empty.
func nowhere() openclaw.Options {
	return openclaw.Options{
		Home:    "/home/me",
		Env:     func(string) (string, bool) { return "", false },
		OpenDir: func(string) (fs.FS, error) { return fstest.MapFS{}, nil },
	}
}

// parse reads a text that is right.
func parse(t *testing.T, text string) *openclaw.Result {
	t.Helper()
	r, err := openclaw.Parse([]byte(text), nowhere())
	require.NoError(t, err, text)
	return r
}

// mistakes returns the mistakes of a text, one line each.
func mistakes(t *testing.T, text string, o openclaw.Options) []string {
	t.Helper()
	_, err := openclaw.Parse([]byte(text), o)
	if err == nil {
		return nil
	}
	require.ErrorAs(t, err, new(openclaw.FieldErrors), text)
	return strings.Split(strings.ReplaceAll(err.Error(), "openclaw: ", ""), "\n")
}

// noted returns notes without their columns, one line each.
func noted(notes []openclaw.Note) []string {
	var lines []string
	for _, n := range notes {
		lines = append(lines, n.Path+": "+n.Text)
	}
	return lines
}

// What the reference system takes and refuses of the configuration of sub-agents. In Strict all
// rows agree but those that are listed.
func TestVectors(t *testing.T) {
	other := map[string]string{
		`config/thinking/"bogus"`: "with it every spawn fails there; here it is told when the file " +
			"is read",
	}
	lenient := map[string]string{ // without Strict
		"config/unknownTop":     "the object is that of OpenClaw: the member is listed",
		"config/unknownDefault": "the object is that of OpenClaw: the member is listed",
		"config/proto":          "the object is that of OpenClaw: the member is listed",
	}
	var rows []struct {
		Name   string
		Config json.RawMessage
		OK     bool
	}
	data, err := os.ReadFile("testdata/vectors/config.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &rows))
	require.Len(t, rows, 231)
	for _, row := range rows {
		for _, strict := range []bool{true, false} {
			o := nowhere()
			o.Strict = strict
			r, err := openclaw.Parse(row.Config, o)
			want := row.OK
			if other[row.Name] != "" || !strict && lenient[row.Name] != "" {
				want = !want
			}
			require.Equal(t, want, err == nil, "%s: %v", row.Name, err)
			if err != nil || !row.OK {
				continue
			}
			cfg := quiet()
			r.Apply(&cfg)
			_, err = agent.Open(t.Context(), cfg)
			require.NoError(t, err, "%s: what is taken can be opened", row.Name)
		}
	}
}

// The defaults of the reference system stay those of the zero Config, and what is written stands.
func TestSubagents(t *testing.T) {
	r := parse(t, `{}`)
	require.Equal(t, policy.Rules{}, r.Config.Rules)
	require.Zero(t, r.Config.DeliverTimeout)
	require.Empty(t, r.Doubts)

	r = parse(t, `{
		agents: {
			defaults: {
				maxConcurrent: 4, budget: {tokens: 5, cost: 0.5}, requestBudget: {turns: 7},
				sandbox: {mode: 'non-main', sessionToolsVisibility: 'all'},
				bootstrapMaxChars: 100, bootstrapTotalMaxChars: 1000, thinkingDefault: 'think-harder',
				userTimezone: 'UTC', model: {primary: ' p/m '}, skills: ['a'],
				subagents: {
					maxSpawnDepth: 2, maxChildrenPerAgent: 6, maxConcurrent: 9, archiveAfterMinutes: 30,
					runTimeoutSeconds: 900, announceTimeoutMs: 90000, model: 'p/small', thinking: 'LOW',
					allowAgents: ['Research', 'gone', ' '], requireAgentId: true, announce: 'turn',
					maxSpawnsPerRun: 3, maxRunsPerTree: 4, maxRunsPerRequest: 0, maxBlocked: 2,
					maxRunTimeoutSeconds: 60, budget: {turns: 3},
				},
			},
			list: [
				{id: 'research', name: 'R', model: 'p/r', skills: [], sandbox: {mode: 'all'},
					tools: {profile: 'coding', alsoAllow: ['x'], deny: ['exec'], delegable: {allow: ['exec']},
						byProvider: {openai: {deny: ['web_*']}}},
					subagents: {allowAgents: ['*'], requireAgentId: false, model: 'p/rr', thinking: 'off'}},
				{id: 'Main', default: true},
			],
		},
		session: {keepArchivesMinutes: 60},
	}`)
	yes, no := true, false
	want := policy.Rules{
		Subagents: policy.Subagents{
			MaxSpawnDepth: 2, MaxChildren: 6, MaxConcurrent: 9, ArchiveAfter: 30 * time.Minute,
			Timeout: 15 * time.Minute, Model: "p/small", Thinking: "low",
			AllowAgents: []string{"research"}, RequireAgentID: &yes, Announce: policy.AnnounceTurn,
			MaxSpawns: 3, MaxTreeRuns: 4, MaxRunsPerRequest: policy.Off, MaxBlocked: 2,
			MaxTimeout: time.Minute, Budget: policy.Budget{Turns: 3},
		},
		Agents: []policy.Agent{
			{ID: "main", Skills: []string{"a"}},
			{
				ID: "research", Name: "R", Model: "p/r", Skills: []string{}, Sandbox: policy.SandboxAll,
				Tools: policy.ToolPolicy{
					Profile: "coding", AlsoAllow: []string{"x"}, Deny: []string{"exec"},
					Delegable:  &policy.ToolRules{Allow: []string{"exec"}},
					ByProvider: map[string]policy.ToolPolicy{"openai": {Deny: []string{"web_*"}}},
				},
				Subagents: policy.Subagents{
					AllowAgents: []string{"*"}, RequireAgentID: &no, Model: "p/rr", Thinking: "off",
				},
			},
		},
		MaxSessions: 4, Budget: policy.Budget{Tokens: 5, Cost: 0.5},
		RequestBudget: policy.Budget{Turns: 7}, KeepArchives: time.Hour,
		Sandbox: policy.Sandbox{Mode: policy.SandboxNonMain, SeeAll: true},
	}
	require.Equal(t, want, r.Config.Rules)
	require.Equal(t, 90*time.Second, r.Config.DeliverTimeout)
	require.Equal(t, "p/m", r.Config.Models.Model)
	require.Equal(t, "medium", r.Config.Models.Thinking)
	require.Equal(t, 100, r.Config.Prompts.Input.Limits.File)
	require.Equal(t, 1000, r.Config.Prompts.Input.Limits.Total)
	require.Equal(t, "UTC", r.Config.Prompts.Input.Env.Zone)
	require.Equal(t, []string{
		`agents.defaults.subagents.allowAgents[1]: it is passed over: agents.list has no ` +
			`"gone", and only an agent there can be spawned`,
	}, noted(r.Doubts))
	require.Equal(t, []openclaw.Agent{
		{
			ID: "main", Workspace: "/home/me/.openclaw/workspace",
			AgentDir: "/home/me/.openclaw/agents/main/agent",
		},
		{
			ID: "research", Name: "R", Workspace: "/home/me/.openclaw/workspace-research",
			AgentDir: "/home/me/.openclaw/agents/research/agent",
		},
	}, r.Agents)
}

// Zero means none where the file says so, which is not what a missing member means; and what is
// longer than a Duration is the longest one.
func TestDurations(t *testing.T) {
	of := func(text string) policy.Subagents {
		return parse(t, `{agents: {defaults: {subagents: {`+text+`}}}}`).Config.Rules.Subagents
	}
	require.Equal(t, policy.Subagents{}, of(``))
	require.Equal(t, policy.Subagents{Timeout: policy.Off, ArchiveAfter: policy.Off},
		of(`runTimeoutSeconds: 0, archiveAfterMinutes: 0`))
	const most = time.Duration(1<<63 - 1)
	require.Equal(t, policy.Subagents{Timeout: most, ArchiveAfter: most, MaxTimeout: most},
		of(`runTimeoutSeconds: 9007199254740991, archiveAfterMinutes: 9007199254740991,
			maxRunTimeoutSeconds: 9007199254740991`))
}

// All mistakes come at once, each with its line, column and path, in the order of the file.
func TestMistakes(t *testing.T) {
	const text = `{
  agents: {
    defaults: {
      subagents: {maxSpawnDepth: 6, maxChildrenPerAgent: "5", allowAgent: ["a"]},
      sandbox: {mode: "sometimes"},
      workspace: 5,
    },
    list: [
      {id: "main", subagents: {maxSpawnDepth: 2}},
      {name: "nameless"}, 7,
    ],
    liste: [],
  },
  session: {threadBindings: {idleHours: -1, maxAgeHours: NaN, $include: "x.json5"}},
  models: {providers: {p: {models: [{id: "m", cost: {input: -1, inputs: 2}}]}}},
  tools: {"sessions": {visibility: ["tree"]}, deny: "exec", allow: [1]},
  channels: {"dis cord": {accounts: {me: {threadBindings: []}}}},
}`
	require.Equal(t, []string{
		`4:34: agents.defaults.subagents.maxSpawnDepth: it is 6, want an integer from 1 to 5`,
		`4:58: agents.defaults.subagents.maxChildrenPerAgent: it is "5", want an integer from 1 to 20`,
		`4:63: agents.defaults.subagents.allowAgent: it is not known, is allowAgents meant?`,
		`5:23: agents.defaults.sandbox.mode: it is "sometimes", want off, non-main, all`,
		`6:18: agents.defaults.workspace: it is 5, want a text`,
		`9:32: agents.list[0].subagents.maxSpawnDepth: it is not known`,
		`10:7: agents.list[1]: it lacks id`,
		`10:27: agents.list[2]: it is 7, want an object`,
		`12:5: agents.liste: it is not known, is list meant?`,
		`14:41: session.threadBindings.idleHours: it is -1, want a number from 0 to 1000000`,
		`14:58: session.threadBindings.maxAgeHours: it is NaN, want a number from 0 to 1000000`,
		`14:73: session.threadBindings.$include: files are not included; put what the other file has in its place`,
		`15:61: models.providers.p.models[0].cost.input: it is -1, want a number, 0 or more`,
		`15:65: models.providers.p.models[0].cost.inputs: it is not known, is input meant?`,
		`16:36: tools.sessions.visibility: it is a list, want a text`,
		`16:53: tools.deny: it is "exec", want a list`,
		`16:69: tools.allow[0]: it is 1, want a text`,
		`17:59: channels["dis cord"].accounts.me.threadBindings: it is a list, want an object`,
	}, mistakes(t, text, nowhere()))
	_, err := openclaw.LoadFS(t.Context(), fstest.MapFS{"a.json": {Data: []byte("{\n")}}, "a.json",
		nowhere())
	require.EqualError(t, err, "openclaw: a.json:2:1: the file ends, want a name or }")
	e, ok := errors.AsType[*openclaw.FieldError](err)
	require.True(t, ok)
	require.Equal(t, "a.json", e.File)
	list := mistakes(t, `{tools: {deny: [`+strings.Repeat("1,", 25)+`]}}`, nowhere())
	require.Len(t, list, 21)
	require.Equal(t, "and 5 more", list[20])
}

// Mistakes that only the rules know have their place in the file, too.
func TestMistakesOfRules(t *testing.T) {
	require.Equal(t, []string{
		`2:18: tools.deny[0]: it is "group:nope", want a group that is built in or in tools.groups`,
	}, mistakes(t, `{
  tools: {deny: ["group:nope"]},
}`, nowhere()))
	require.Equal(t, []string{
		`1:57: agents.list[ops].tools.allow[0]: it is " ", want the name, glob or group of a tool`,
	}, mistakes(t, `{agents: {list: [{id: "x"}, {id: "Ops", tools: {allow: [" "]}}]}}`, nowhere()))
	require.Equal(t, []string{
		`1:42: agents.defaults.subagents.thinking: it is "much", want one of ` +
			strings.Join(policy.ThinkingLevels(), ", "),
	}, mistakes(t, `{agents:{defaults:{subagents:{ thinking: "much"}}}}`, nowhere()))
}

// A secret in a wrong place is in no mistake.
func TestMistakesShowNoSecrets(t *testing.T) {
	const secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
	for _, text := range []string{
		`{skills: {entries: {x: {apiKey: 12345}}}}`, `{tools: {profile: "` + secret + `"}}`,
		`{skills: {entries: {x: {env: {A: 12345}}}}}`,
		`{agents: {list: [{id: "a", model: {primary: "` + secret + ` x"}}]}}`,
	} {
		list := mistakes(t, text, nowhere())
		require.Len(t, list, 1, text)
		require.NotContains(t, list[0], "12345")
		require.NotContains(t, list[0], "abcdef")
	}
	r := parse(t, `{gateway: {auth: {token: "`+secret+`"}}, models: {providers: {p: {apiKey: "`+secret+
		`"}}}, skills: {entries: {x: {apiKey: {source: "env", id: "X"}}}}}`)
	require.Len(t, r.Untaken, 3)
	for _, n := range r.Untaken {
		require.NotContains(t, n.String(), secret)
	}
}

// What has no effect is listed, with the reason; what is not known is a mistake with Strict.
func TestUntaken(t *testing.T) {
	const text = `{
  $schema: "x", meta: {}, gateway: {port: 1}, sesion: {}, wizard: {},
  agents: {
    defaults: {heartbeat: {every: "5m"}, hartbeat: 1, subagents: {delegationMode: "prefer"},
      model: {primary: "p/m", fallbacks: ["p/n"]}},
    list: [{id: "main", identity: {}}],
  },
  channels: {discord: {token: "x", threadBindings: {spawnAcpSessions: true}}},
  skills: {entries: {a: {config: {b: 1}}}},
}`
	r := parse(t, text)
	require.Equal(t, []string{
		"gateway: the program is the gateway",
		"sesion: it is not known, is session meant?",
		"agents.defaults.heartbeat: a Runner of the program does that, or nothing",
		"agents.defaults.hartbeat: it is not known, is heartbeat meant?",
		"agents.defaults.subagents.delegationMode: prompts do not say how eagerly to delegate",
		"agents.defaults.model.fallbacks: a Model of the program falls back",
		"agents.list[0].identity: a Runner or the transport of the program does that, or nothing",
		"channels.discord.token: the transport is the program's",
		"channels.discord.threadBindings.spawnAcpSessions: an external runtime is bound like any sub-agent",
		"skills.entries.a.config: a skill asks for the settings of the file, as browser.enabled",
	}, noted(r.Untaken))
	require.Equal(t, "2:27: gateway: the program is the gateway", r.Untaken[0].String())
	o := nowhere()
	o.Strict = true
	require.Equal(t, []string{
		"2:47: sesion: it is not known, is session meant?",
		"4:42: agents.defaults.hartbeat: it is not known, is heartbeat meant?",
	}, mistakes(t, text, o))
}

// Members of earlier versions are read as today's, and it is told.
func TestMigrated(t *testing.T) {
	r := parse(t, `{
		agent: {workspace: "~/w", subagents: {maxConcurrent: 3}},
		agents: {defaults: {subagents: {maxConcurrent: 2}}, entries: {ops: {}, main: {default: true}}},
		session: {threadBindings: {ttlHours: 12}},
		channels: {discord: {threadBindings: {ttlHours: 12, idleHours: 6},
			accounts: {a: {threadBindings: {ttlHours: 3}}}}},
	}`)
	require.Equal(t, []string{
		"agent: it is read as agents.defaults",
		"agents.entries: it is read as agents.list, in the order of the file",
		"session.threadBindings.ttlHours: it is read as idleHours",
		"channels.discord.threadBindings.ttlHours: it is passed over, since idleHours is set",
		"channels.discord.accounts.a.threadBindings.ttlHours: it is read as idleHours",
	}, noted(r.Migrated))
	require.Equal(t, 2, r.Config.Rules.Subagents.MaxConcurrent)
	require.Equal(t, "/home/me/w", r.Agents[0].Workspace)
	require.Equal(t, "main", r.Config.Rules.Agents[0].ID)
	require.InDelta(t, 12, *r.Config.Threads.Bindings.IdleHours, 0)
	ch := r.Config.Threads.Channels["discord"]
	require.InDelta(t, 6, *ch.Bindings.IdleHours, 0)
	require.InDelta(t, 3, *ch.Accounts["a"].IdleHours, 0)
	require.Equal(t, []string{
		"1:44: agents.entries: it has agents by their ids, and agents.list is there, too, in line 1; " +
			"want all agents in one of the two",
	},
		mistakes(t, `{agents: {list: [{id: "a"}],      entries: {}}}`, nowhere()))
}

// Ids of agents are what OpenClaw makes of them.
func TestAgentIDs(t *testing.T) {
	r := parse(t, `{agents: {list: [
		{id: "a b"}, {id: ""}, {id: "A-B"}, {id: "x", default: true}, {id: "y", default: true},
		{id: "--é"}, {id: "`+strings.Repeat("q", 70)+`"},
	]}}`)
	var ids []string
	for _, a := range r.Config.Rules.Agents {
		ids = append(ids, a.ID)
	}
	require.Equal(t, []string{"x", "a-b", "main", "y", strings.Repeat("q", 64)}, ids)
	require.Equal(t, []string{
		`agents.list[0].id: it is read as "a-b", since "a b" cannot be an id`,
		`agents.list[1].id: it is read as "main", since "" cannot be an id`,
		`agents.list[2].id: the agent is passed over, since one before it has the id "a-b", too`,
		`agents.list[4].default: it has no effect, since agent "x" before it is the default`,
		`agents.list[5].id: the agent is passed over, since one before it has the id "main", too`,
		`agents.list[6].id: it is read as "` + strings.Repeat("q", 64) + `", since "` +
			strings.Repeat("q", 70) + `" cannot be an id`,
	}, noted(r.Doubts))
}

// The name of an agent is what agents_list calls it. What cannot be shown there as it is, is cut.
func TestAgentNames(t *testing.T) {
	r := parse(t, `{agents: {list: [
		{id: "main", name: "  Ann 🐦 "}, {id: "b", name: "two\nlines"}, {id: "c"},
		{id: "d", name: "\u202e\u200b"}, {id: "e", name: "`+strings.Repeat("é", 32)+`"},
		{id: "f", name: "`+strings.Repeat("é", 31)+` xyz"}, {id: "g", name: ""},
		{id: "h", name: "a \u200b b"},
	]}}`)
	cfg := quiet()
	r.Apply(&cfg)
	for id, want := range map[string]string{
		"main": "Ann 🐦", "b": "two lines", "c": "", "d": "", "e": strings.Repeat("é", 32),
		"f": strings.Repeat("é", 31) + " x", "g": "", "h": "a b",
	} {
		require.Equal(t, want, cfg.Rules.AgentName(id), id)
	}
	const why = ", since a name there is one line of at most 64 bytes of what can be seen"
	require.Equal(t, []string{
		`agents.list[1].name: agents_list calls the agent "two lines"` + why,
		`agents.list[3].name: agents_list calls the agent ""` + why,
		`agents.list[5].name: agents_list calls the agent "` + strings.Repeat("é", 31) + ` x"` + why,
		`agents.list[7].name: agents_list calls the agent "a b"` + why,
	}, noted(r.Doubts))

	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	tools := rt.Session(session.Must(session.MainKey("main"))).Tools()
	i := slices.IndexFunc(tools, func(t agent.Tool) bool { return t.Name == "agents_list" })
	answer, err := tools[i].Call(t.Context(), agent.ToolCall{})
	require.NoError(t, err)
	require.Contains(t, answer.Text, `{"id":"main","name":"Ann 🐦"}`)
}

// O4, O5: a list of plugins alone keeps the tools of OpenClaw there and not here, which is told; a
// sandbox has image there unless it is denied, and here, too.
func TestToolsThatOpenClawTakesOtherwise(t *testing.T) {
	r := parse(t, `{
		tools: {allow: ["lobster"], byProvider: {openai: {allow: ["lobster", "shrimp_*"]}},
			sandbox: {tools: {allow: ["read"]}}, subagents: {tools: {allow: ["lobster"]}}},
		agents: {list: [{id: "main", tools: {allow: ["lobster", "read"], sandbox: {tools: {allow: ["exec"]}}}},
			{id: "b", tools: {sandbox: {tools: {allow: ["ex*"], deny: ["IMAGE"]}}}},
			{id: "c", tools: {allow: ["lob*"], sandbox: {tools: {alsoAllow: ["x"]}}}},
			{id: "d", tools: {sandbox: {tools: {allow: []}}}}]},
		channels: {x: {groups: {y: {tools: {allow: ["lobster"]}}}}},
	}`)
	const plugins = "it names no tool of OpenClaw itself, so that none of those is left; OpenClaw " +
		"passes over such a list and keeps them; name them here, or use alsoAllow"
	const image = "image is added, as OpenClaw does; deny it if it is not wanted"
	require.ElementsMatch(t, []string{
		"tools.allow: " + plugins, "tools.byProvider.openai.allow: " + plugins,
		"channels.x.groups.y.tools.allow: " + plugins, "agents.list[2].tools.allow: " + plugins,
		"tools.sandbox.tools.allow: " + image, "agents.list[0].tools.sandbox.tools.allow: " + image,
	}, noted(r.Doubts))
	rules := r.Config.Rules
	require.Equal(t, []string{"read", "image"}, rules.Sandbox.Tools.Allow)
	require.Equal(t, []string{"exec", "image"}, rules.Agents[0].SandboxTools.Allow)
	require.Equal(t, []string{"ex*"}, rules.Agents[1].SandboxTools.Allow)
	require.Equal(t, slices.Concat(policy.SandboxAllow(), []string{"x"}),
		rules.Agents[2].SandboxTools.Allow)
	require.Equal(t, []string{}, rules.Agents[3].SandboxTools.Allow, "everything")

	r = parse(t, `{tools: {sandbox: {tools: {deny: ["image"]}}},
		agents: {list: [{id: "main", tools: {sandbox: {tools: {allow: ["read"]}}}}]}}`)
	require.Equal(t, []string{"read"}, r.Config.Rules.Agents[0].SandboxTools.Allow, "denied below")
}

func TestTools(t *testing.T) {
	r := parse(t, `{
		tools: {
			profile: "coding", alsoAllow: ["crm_*"], deny: ["exec"], groups: {"group:crm": ["crm_find"]},
			byProvider: {"openai/gpt": {profile: "minimal", allow: ["read"]}},
			subagents: {tools: {alsoAllow: ["sessions_send"], deny: ["gateway"], defaultDeny: ["cron"]}},
			sessions: {visibility: " TREE "}, agentToAgent: {enabled: true, allow: ["ops*"]},
			sessions_spawn: {attachments: {enabled: true, maxTotalBytes: 10.9, maxFiles: 2,
				maxFileBytes: 1e12, retainOnSessionKeep: true}},
			exec: {host: "gateway"},
		},
		channels: {telegram: {groups: {"-100": {tools: {deny: ["exec"]}, requireMention: true}, "*": {}}}},
	}`)
	require.Equal(t, policy.Rules{
		Tools: policy.ToolPolicy{
			Profile: "coding", AlsoAllow: []string{"crm_*"}, Deny: []string{"exec"},
			ByProvider: map[string]policy.ToolPolicy{
				"openai/gpt": {Profile: "minimal", Allow: []string{"read"}},
			},
		},
		Groups: map[string][]string{"group:crm": {"crm_find"}},
		SubagentTools: policy.ToolRules{
			AlsoAllow: []string{"sessions_send"}, Deny: []string{"gateway"},
		},
		DefaultDeny:  []string{"cron"},
		Visibility:   policy.VisibilityTree,
		AgentToAgent: policy.AgentToAgent{Enabled: true, Allow: []string{"ops*"}},
		Attachments: policy.Attachments{
			Enabled: true, MaxTotalBytes: 10, MaxFiles: 2, MaxFileBytes: 1<<31 - 1, Retain: true,
		},
		Chats: []policy.Chat{{
			Channel: "telegram", Peer: "-100", Tools: policy.ToolRules{Deny: []string{"exec"}},
		}},
	}, r.Config.Rules)
	r = parse(t, `{tools: {sessions_spawn: {attachments: {enabled: true, maxFiles: 0}}}}`)
	require.False(t, r.Config.Rules.Attachments.Enabled)
	require.Equal(t, []string{"tools.sessions_spawn.attachments.maxFiles: it lets nothing through, " +
		"so that models may not attach files"}, noted(r.Doubts))
	require.Equal(t, []string{"1:55: tools.subagents.tools.alsoAllow: want nothing beside allow, " +
		"which lifts default denies as well"}, mistakes(t,
		`{tools: {subagents: {tools: {allow: ["a"], alsoAllow: ["b"]}}}}`, nowhere()))
}

func TestModels(t *testing.T) {
	const text = `{
		agents: {defaults: {
			model: "opus",
			models: {"anthropic/claude-opus": {alias: "Opus"}, "p/m": {alias: "opus"}, "p/n": {}},
			subagents: {model: {primary: "p/sub", fallbacks: ["p/fall"]}},
		}},
		models: {providers: {anthropic: {apiKey: "x", models: [
			{id: "claude-opus", cost: {input: 5, output: 25, cacheRead: 0.5}, contextWindow: 200000},
			{id: "Claude-Opus", cost: {input: 1}}, {id: "free"},
		]}}},
	}`
	r := parse(t, text)
	require.Equal(t, "opus", r.Config.Models.Model)
	require.Equal(t, map[string]string{"opus": "anthropic/claude-opus"}, r.Config.Prompts.Input.Aliases)
	require.Equal(t, map[string]agent.Price{
		"anthropic/claude-opus": {Input: 5, Output: 25, CacheRead: 0.5},
	}, r.Config.Models.Prices)
	require.Equal(t, []string{
		`agents.defaults.models["p/m"].alias: it is passed over, since it stands for "anthropic/claude-opus"`,
		`models.providers.anthropic.models[1]: its cost is passed over, since ` +
			`models.providers.anthropic.models[0] is the same model`,
	}, noted(r.Doubts))

	own := func(name string) bool { return name != "p/n" }
	cfg := agent.Config{}
	cfg.Models.Valid, cfg.Models.Prices = own, map[string]agent.Price{"ANTHROPIC/claude-opus": {}, "q/q": {}}
	r.Apply(&cfg)
	for name, want := range map[string]bool{
		"P/M": true, "p/n": false, "p/sub": true, "p/fall": true, "anthropic/claude-opus": true,
		"p/other": false,
	} {
		require.Equal(t, want, cfg.Models.Valid(name), name)
	}
	require.Len(t, cfg.Models.Prices, 2)
	require.Nil(t, parse(t, `{}`).Config.Models.Valid)
}

func TestThreads(t *testing.T) {
	r := parse(t, `{
		session: {threadBindings: {enabled: false, idleHours: 0.5, maxAgeHours: 0, spawnSessions: false}},
		channels: {discord: {threadBindings: {enabled: true, spawnSubagentSessions: true},
			accounts: {Work: {threadBindings: {maxAgeHours: 1}}, other: {}}}, slack: {}},
	}`)
	yes, no, half, zero, one := true, false, 0.5, 0.0, 1.0
	require.Equal(t, agent.Threads{
		Bindings: binding.Settings{
			Enabled: &no, IdleHours: &half, MaxAgeHours: &zero, SpawnSubagentSessions: &no,
		},
		Channels: map[string]agent.ThreadChannel{"discord": {
			Bindings: binding.Settings{Enabled: &yes, SpawnSubagentSessions: &yes},
			Accounts: map[string]binding.Settings{"Work": {MaxAgeHours: &one}},
		}},
	}, r.Config.Threads)
	cfg := agent.Config{}
	cfg.Threads.Channels = map[string]agent.ThreadChannel{
		"Discord": {Bindings: binding.Settings{IdleHours: &one}}, "irc": {},
	}
	before := cfg.Threads.Channels
	r.Apply(&cfg)
	require.Equal(t, binding.Settings{Enabled: &yes, IdleHours: &one, SpawnSubagentSessions: &yes},
		cfg.Threads.Channels["Discord"].Bindings)
	require.Len(t, cfg.Threads.Channels, 2)
	require.Nil(t, before["Discord"].Bindings.Enabled, "the program's own map is not changed")
}

// Apply leaves what is the program's, and what the file does not say.
func TestApplyKeepsTheRest(t *testing.T) {
	cfg := agent.Config{
		Runner: silent, Store: session.NewMemory(), Grace: time.Second, DeliverTimeout: time.Minute,
		Rules: policy.Rules{
			Subagents:  policy.Subagents{MaxSpawnDepth: 3, Model: "p/mine"},
			Visibility: policy.VisibilityAll, Agents: []policy.Agent{{ID: "mine"}},
			Attachments: policy.Attachments{Enabled: true},
		},
		WorkDir: func(string) string { return "/mine" },
	}
	cfg.Models.Credentials = func(context.Context, string) (agent.Profiles, error) {
		return agent.Profiles{Isolated: true}, nil
	}
	before := cfg
	r := parse(t, `{agents: {defaults: {subagents: {maxChildrenPerAgent: 2}}}}`)
	r.Apply(&cfg)
	require.Equal(t, policy.Subagents{MaxSpawnDepth: 3, MaxChildren: 2, Model: "p/mine"},
		cfg.Rules.Subagents)
	require.Equal(t, before.Rules.Agents, cfg.Rules.Agents)
	require.Equal(t, before.Rules.Attachments, cfg.Rules.Attachments)
	require.Equal(t, policy.VisibilityAll, cfg.Rules.Visibility)
	require.Same(t, before.Store, cfg.Store)
	require.NotNil(t, cfg.Runner)
	require.Equal(t, time.Minute, cfg.DeliverTimeout)
	require.Equal(t, "/mine", cfg.WorkDir("main"))
	p, err := cfg.Models.Credentials(t.Context(), "main")
	require.NoError(t, err)
	require.True(t, p.Isolated)
}

// Workspaces are opened where they are there; an agent without one does not see another's files.
func TestWorkspaces(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{"main", ".openclaw/workspace-coder"} {
		require.NoError(t, os.MkdirAll(filepath.Join(home, dir), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(home, dir, "AGENTS.md"), []byte(dir), 0o600))
	}
	o := openclaw.Options{Home: home, Env: func(name string) (string, bool) {
		return map[string]string{"WHERE": "main"}[name], name == "WHERE"
	}}
	r, err := openclaw.Parse([]byte(`{agents: {
		defaults: {workspace: "~/${WHERE}"},
		list: [{id: "main"}, {id: "coder"}, {id: "ops", workspace: "~/gone"}],
	}}`), o)
	require.NoError(t, err)
	require.Equal(t, []string{`agents.list[2].workspace: agent "ops" has no files, since its ` +
		`workspace is not there: ` + filepath.Join(home, "gone")}, noted(r.Doubts))
	read := func(files fs.FS) string {
		data, err := fs.ReadFile(files, "AGENTS.md")
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
			return ""
		}
		return string(data)
	}
	require.Equal(t, "main", read(r.Config.Workspace))
	require.Equal(t, ".openclaw/workspace-coder", read(r.Config.Prompts.Workspaces["coder"]))
	require.Empty(t, read(r.Config.Prompts.Workspaces["ops"]))
	require.Equal(t, filepath.Join(home, "main"), r.Config.WorkDir("main"))
	require.Empty(t, r.Config.WorkDir("ops"))
	require.Equal(t, []string{`1:33: agents.defaults.workspace: it names the variable NOPE, which ` +
		`is not set`}, mistakes(t, `{agents:{defaults:{workspace:   "${NOPE}/x $${KEPT}"}}}`, o))
	for alias, want := range map[string]string{"c/d": `it is "c/d"`, "z z": `it is "z z"`} {
		require.ErrorContains(t, func() error {
			_, err := openclaw.Parse([]byte(`{agents:{defaults:{models:{"p/m":{alias:"`+alias+`"}}}}}`), o)
			return err
		}(), `agents.defaults.models["p/m"].alias: `+want+", want one word without a slash")
	}
	// What a variable says may be a secret, and is in no mistake.
	o.Env = func(name string) (string, bool) {
		if name == "PW" {
			return "hunter22 correcthorse", true
		}
		return "", false
	}
	for _, file := range []string{
		`{agents:{defaults:{thinkingDefault:"${PW}", model:"x ${PW}", userTimezone:"${PW}"}}}`,
		`{agents:{list:[{id:"${PW}"}, {id:"b", model:{primary:" ${PW} "}, thinkingDefault:"a${PW}"}]}}`,
		`{tools:{profile:"${PW}", allow:["${PW}"], sandbox:{tools:{deny:["${PW}"]}}}}`,
		`{session:{scope:"${PW}", threadBindings:{idleHours:"${PW}"}}}`,
		`{models:{providers:{"p":{models:[{id:"${PW}", alias:"${PW}"}]}}}}`,
	} {
		r, err := openclaw.Parse([]byte(file), o)
		var said []string
		if r != nil {
			said = noted(r.Doubts)
		}
		if err != nil {
			said = append(said, err.Error())
		}
		require.NotContains(t, strings.Join(said, "\n"), "hunter22", file)
	}
	r, err = openclaw.Parse([]byte(`{env: {vars: {OWN: "/v"}}, agents: {defaults: {workspace: "${OWN}/$${X}"}}}`), o)
	require.NoError(t, err)
	require.Equal(t, "/v/${X}", r.Agents[0].Workspace)
}

// The state directory, the profile and the file are where the environment says.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.json5")
	require.NoError(t, os.WriteFile(file, []byte(`{agents: {list: [{id: "a", agentDir: "~/keys"}, {id: "b"}]}}`), 0o600))
	env := map[string]string{
		"OPENCLAW_HOME": dir, "OPENCLAW_STATE_DIR": "~/state", "OPENCLAW_PROFILE": "Work",
		"OPENCLAW_CONFIG_PATH": file,
	}
	lookup := func(name string) (string, bool) { s, ok := env[name]; return s, ok }
	o := openclaw.Options{Env: lookup}
	r, err := openclaw.Load(t.Context(), "", o)
	require.NoError(t, err)
	require.Equal(t, []openclaw.Agent{
		{
			ID: "a", Workspace: filepath.Join(dir, ".openclaw", "workspace-Work"),
			AgentDir: filepath.Join(dir, "keys"),
		},
		{
			ID: "b", Workspace: filepath.Join(dir, "state", "workspace-b"),
			AgentDir: filepath.Join(dir, "state", "agents", "b", "agent"),
		},
	}, r.Agents)
	delete(env, "OPENCLAW_CONFIG_PATH")
	_, err = openclaw.Load(t.Context(), "", o)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Contains(t, err.Error(), filepath.Join(dir, "state", "openclaw.json"))
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	_, err = openclaw.Load(ctx, file, o)
	require.ErrorIs(t, err, enough)
}

// O11: a setting that the file does not have is on for the browser, as in OpenClaw.
func TestSettingsOfSkills(t *testing.T) {
	r := parse(t, `{
		browser: {evaluateEnabled: false}, x: {n: 0, m: 2, blank: " ", text: "false", list: [], on: true, nil: null},
		skills: {allowBundled: ["a"], entries: {b: {enabled: false, apiKey: "k", env: {A: "1"}}, c: {}},
			load: {extraDirs: ["~/more"]}},
	}`)
	host := r.Config.Prompts.SkillHost
	for path, want := range map[string]bool{
		"browser.enabled": true, "browser.evaluateEnabled": false, "x.n": false, "x.m": true,
		"x.blank": false, "x.text": true, "x.list": true, "x": true, "x.on": true, "x.nil": false,
		"y": false, "x.on.more": false,
	} {
		require.Equal(t, want, host.Setting(path), path)
	}
	require.Equal(t, []string{"a"}, host.Bundled)
	require.True(t, host.Config["b"].Disabled)
	require.Equal(t, "k", host.Config["b"].APIKey)
	require.Equal(t, map[string]string{"A": "1"}, host.Config["b"].Env)
	require.False(t, host.Config["c"].Disabled)
	require.Len(t, r.Config.Prompts.Skills, 1)
	require.Equal(t, "/home/me/more", r.Config.Prompts.Skills[0].Path)
	require.True(t, parse(t, `{}`).Config.Prompts.SkillHost.Setting("browser.enabled"))
	require.False(t, parse(t, `{browser: {enabled: false}}`).Config.Prompts.SkillHost.Setting("browser.enabled"))
}

// The blocks of the documents that describe sub-agents.
func TestDocuments(t *testing.T) {
	files, err := filepath.Glob("testdata/files/*.json5")
	require.NoError(t, err)
	require.Len(t, files, 6)
	type want struct {
		subagents policy.Subagents
		deny      []string
		doubts    int
	}
	yes, day, zero := true, 24.0, 0.0
	all := binding.Settings{Enabled: &yes, IdleHours: &day, MaxAgeHours: &zero}
	for name, want := range map[string]want{
		"nested": {policy.Subagents{
			MaxSpawnDepth: 2, MaxChildren: 5, MaxConcurrent: 8, Timeout: 15 * time.Minute,
		}, nil, 0},
		"tools": {policy.Subagents{MaxConcurrent: 1}, []string{"gateway", "cron"}, 0},
		"plain": {policy.Subagents{MaxConcurrent: 1}, []string{"gateway", "cron"}, 0},
		"whole": {policy.Subagents{
			MaxSpawnDepth: 2, MaxChildren: 5, MaxConcurrent: 8, Timeout: 15 * time.Minute,
			ArchiveAfter: time.Hour, Model: "anthropic/claude-sonnet-4-5", Thinking: "medium",
		}, []string{"gateway", "cron"}, 2},
		"threads": {}, "channel": {},
	} {
		o := nowhere()
		o.Strict = true
		r, err := openclaw.LoadFS(t.Context(), os.DirFS("testdata/files"), name+".json5", o)
		require.NoError(t, err, name)
		require.Empty(t, r.Untaken, name)
		require.Len(t, r.Doubts, want.doubts, name)
		require.Equal(t, want.subagents, r.Config.Rules.Subagents, name)
		require.Equal(t, want.deny, r.Config.Rules.SubagentTools.Deny, name)
		switch name {
		case "threads", "whole":
			require.Equal(t, all, r.Config.Threads.Bindings, name)
		case "channel":
			with := all
			with.SpawnSubagentSessions = &yes
			require.Equal(t, with, r.Config.Threads.Channels["discord"].Bindings)
		}
		cfg := quiet()
		r.Apply(&cfg)
		_, err = agent.Open(t.Context(), cfg)
		require.NoError(t, err, name)
	}
}
