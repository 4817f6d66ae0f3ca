package openclaw

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"
)

// everyMember has a row for each member of a file that is taken: what becomes of a change of it
// while the bot runs, and words of the reason. TestEveryMemberIsLiveOrRefused demands a row for a
// member that is new.
var everyMember = []struct {
	member string
	effect Effect
	reason string
}{
	{"agents.defaults.bootstrapMaxChars", EffectLive, "from the next prompt on"},
	{"agents.defaults.bootstrapTotalMaxChars", EffectLive, "from the next prompt on"},
	{"agents.defaults.budget.cost", EffectLive, "Rules.Budget"},
	{"agents.defaults.budget.tokens", EffectLive, "Rules.Budget"},
	{"agents.defaults.budget.turns", EffectLive, "Rules.Budget"},
	{"agents.defaults.maxConcurrent", EffectLive, "Rules.MaxSessions"},
	{"agents.defaults.model", EffectRestart, "Models.Model"},
	{"agents.defaults.models{}", EffectLive, "from the next spawn on"},
	{"agents.defaults.models{}.alias", EffectRestart, "Prompts.Input.Aliases"},
	{"agents.defaults.requestBudget.cost", EffectLive, "Rules.RequestBudget"},
	{"agents.defaults.requestBudget.tokens", EffectLive, "Rules.RequestBudget"},
	{"agents.defaults.requestBudget.turns", EffectLive, "Rules.RequestBudget"},
	{"agents.defaults.sandbox.mode", EffectLive, "Rules.Sandbox"},
	{"agents.defaults.sandbox.sessionToolsVisibility", EffectLive, "Rules.Sandbox"},
	{"agents.defaults.skills", EffectLive, "Rules.Agents"},
	{"agents.defaults.subagents.allowAgents", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.announce", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.announceTimeoutMs", EffectRestart, "DeliverTimeout"},
	{"agents.defaults.subagents.archiveAfterMinutes", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.budget.cost", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.budget.tokens", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.budget.turns", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.maxBlocked", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.maxChildrenPerAgent", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.maxConcurrent", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.maxRunTimeoutSeconds", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.maxRunsPerRequest", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.maxRunsPerTree", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.maxSpawnDepth", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.maxSpawnsPerRun", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.model", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.requireAgentId", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.runTimeoutSeconds", EffectLive, "Rules.Subagents"},
	{"agents.defaults.subagents.thinking", EffectLive, "Rules.Subagents"},
	{"agents.defaults.thinkingDefault", EffectRestart, "Models.Thinking"},
	{"agents.defaults.userTimezone", EffectRestart, "Prompts.Input.Env.Zone"},
	{"agents.defaults.workspace", EffectRestart, "Workspace"},
	{"agents.list[].agentDir", EffectLive, "from the next turn on"},
	{"agents.list[].default", EffectRestart, "Rules.Agents"},
	{"agents.list[].id", EffectRestart, "Rules.Agents"},
	{"agents.list[].model", EffectLive, "Rules.Agents"},
	{"agents.list[].name", EffectLive, "Rules.Agents"},
	{"agents.list[].sandbox.mode", EffectLive, "Rules.Agents"},
	{"agents.list[].skills", EffectLive, "Rules.Agents"},
	{"agents.list[].subagents.allowAgents", EffectLive, "Rules.Agents"},
	{"agents.list[].subagents.announce", EffectLive, "Rules.Agents"},
	{"agents.list[].subagents.model", EffectLive, "Rules.Agents"},
	{"agents.list[].subagents.requireAgentId", EffectLive, "Rules.Agents"},
	{"agents.list[].subagents.thinking", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.allow", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.alsoAllow", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.byProvider{}.allow", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.byProvider{}.alsoAllow", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.byProvider{}.deny", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.byProvider{}.profile", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.delegable.allow", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.delegable.deny", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.deny", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.profile", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.sandbox.tools.allow", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.sandbox.tools.alsoAllow", EffectLive, "Rules.Agents"},
	{"agents.list[].tools.sandbox.tools.deny", EffectLive, "Rules.Agents"},
	{"agents.list[].workspace", EffectRestart, "Prompts.Workspaces"},
	{"auth.order", EffectLive, "from the next turn on"},
	{"channels{}.accounts{}.threadBindings.enabled", EffectRestart, "Threads"},
	{"channels{}.accounts{}.threadBindings.idleHours", EffectRestart, "Threads"},
	{"channels{}.accounts{}.threadBindings.maxAgeHours", EffectRestart, "Threads"},
	{"channels{}.accounts{}.threadBindings.spawnSessions", EffectRestart, "Threads"},
	{"channels{}.accounts{}.threadBindings.spawnSubagentSessions", EffectRestart, "Threads"},
	{"channels{}.groups{}.tools.allow", EffectLive, "Rules.Chats"},
	{"channels{}.groups{}.tools.alsoAllow", EffectLive, "Rules.Chats"},
	{"channels{}.groups{}.tools.deny", EffectLive, "Rules.Chats"},
	{"channels{}.groups{}.toolsBySender{}", EffectLive, "Rules.Chats"},
	{"channels{}.groups{}.toolsBySender{}.allow", EffectLive, "Rules.Chats"},
	{"channels{}.groups{}.toolsBySender{}.alsoAllow", EffectLive, "Rules.Chats"},
	{"channels{}.groups{}.toolsBySender{}.deny", EffectLive, "Rules.Chats"},
	{"channels{}.threadBindings.enabled", EffectRestart, "Threads"},
	{"channels{}.threadBindings.idleHours", EffectRestart, "Threads"},
	{"channels{}.threadBindings.maxAgeHours", EffectRestart, "Threads"},
	{"channels{}.threadBindings.spawnSessions", EffectRestart, "Threads"},
	{"channels{}.threadBindings.spawnSubagentSessions", EffectRestart, "Threads"},
	{"commands.ownerAllowFrom", EffectLive, "Rules.Owners"},
	{"models.providers{}.models[].cost.cacheRead", EffectRestart, "Models.Prices"},
	{"models.providers{}.models[].cost.cacheWrite", EffectRestart, "Models.Prices"},
	{"models.providers{}.models[].cost.input", EffectRestart, "Models.Prices"},
	{"models.providers{}.models[].cost.output", EffectRestart, "Models.Prices"},
	{"models.providers{}.models[].id", EffectRestart, "Models.Prices"},
	{"session.keepArchivesMinutes", EffectLive, "Rules.KeepArchives"},
	{"session.threadBindings.enabled", EffectRestart, "Threads"},
	{"session.threadBindings.idleHours", EffectRestart, "Threads"},
	{"session.threadBindings.maxAgeHours", EffectRestart, "Threads"},
	{"session.threadBindings.spawnSessions", EffectRestart, "Threads"},
	{"session.threadBindings.spawnSubagentSessions", EffectRestart, "Threads"},
	{"skills.allowBundled", EffectRestart, "Prompts.SkillHost"},
	{"skills.entries{}", EffectRestart, "Prompts.SkillHost"},
	{"skills.entries{}.apiKey", EffectRestart, "Prompts.SkillHost"},
	{"skills.entries{}.enabled", EffectRestart, "Prompts.SkillHost"},
	{"skills.entries{}.env", EffectRestart, "Prompts.SkillHost"},
	{"skills.load.extraDirs", EffectRestart, "Prompts.Skills"},
	{"tools.agentToAgent.allow", EffectLive, "Rules.AgentToAgent"},
	{"tools.agentToAgent.enabled", EffectLive, "Rules.AgentToAgent"},
	{"tools.allow", EffectLive, "Rules.Tools"},
	{"tools.alsoAllow", EffectLive, "Rules.Tools"},
	{"tools.byProvider{}.allow", EffectLive, "Rules.Tools"},
	{"tools.byProvider{}.alsoAllow", EffectLive, "Rules.Tools"},
	{"tools.byProvider{}.deny", EffectLive, "Rules.Tools"},
	{"tools.byProvider{}.profile", EffectLive, "Rules.Tools"},
	{"tools.deny", EffectLive, "Rules.Tools"},
	{"tools.groups", EffectLive, "Rules.Groups"},
	{"tools.ownerOnly", EffectLive, "Rules.OwnerOnly"},
	{"tools.profile", EffectLive, "Rules.Tools"},
	{"tools.sandbox.tools.allow", EffectLive, "Rules.Sandbox"},
	{"tools.sandbox.tools.alsoAllow", EffectLive, "Rules.Sandbox"},
	{"tools.sandbox.tools.deny", EffectLive, "Rules.Sandbox"},
	{"tools.sessions.visibility", EffectLive, "Rules.Visibility"},
	{"tools.sessions_spawn.attachments.enabled", EffectLive, "Rules.Attachments"},
	{"tools.sessions_spawn.attachments.maxFileBytes", EffectLive, "Rules.Attachments"},
	{"tools.sessions_spawn.attachments.maxFiles", EffectLive, "Rules.Attachments"},
	{"tools.sessions_spawn.attachments.maxTotalBytes", EffectLive, "Rules.Attachments"},
	{"tools.sessions_spawn.attachments.retainOnSessionKeep", EffectLive, "Rules.Attachments"},
	{"tools.subagents.tools.allow", EffectLive, "Rules.SubagentTools"},
	{"tools.subagents.tools.alsoAllow", EffectLive, "Rules.SubagentTools"},
	{"tools.subagents.tools.defaultDeny", EffectLive, "Rules.DefaultDeny"},
	{"tools.subagents.tools.deny", EffectLive, "Rules.SubagentTools"},
	{"tools.toolsBySender{}", EffectLive, "Rules.Senders"},
	{"tools.toolsBySender{}.allow", EffectLive, "Rules.Senders"},
	{"tools.toolsBySender{}.alsoAllow", EffectLive, "Rules.Senders"},
	{"tools.toolsBySender{}.deny", EffectLive, "Rules.Senders"},
}

// bases are the files to which members come that are not alone, by the beginning of the member.
var bases = map[string]string{
	"agents.list[]":                        `{agents: {list: [{id: "main"}]}}`,
	"agents.defaults.models{}.":            `{agents: {defaults: {models: {k: {}}}}}`,
	"skills.entries{}.":                    `{skills: {entries: {k: {}}}}`,
	"tools.toolsBySender{}.":               `{tools: {toolsBySender: {k: {}}}}`,
	"channels{}.groups{}.toolsBySender{}.": `{channels: {k: {groups: {k: {toolsBySender: {k: {}}}}}}}`,
	"models.providers{}.models[].id": `{models: {providers: {k: {models: [
		{id: "y", cost: {input: 3}}]}}}}`,
}

// A memberCase is a file to which one member comes.
type memberCase struct{ without, with string }

// memberCases returns a case for each member that is taken, and for each entry that says something
// by being there.
func memberCases(agentDir string) map[string]memberCase {
	cases := make(map[string]memberCase)
	leaves(reflect.TypeFor[document](), "", "", "", func(path, text string) {
		without := `{}`
		for prefix, base := range bases {
			if strings.HasPrefix(path, prefix) {
				without = base
			}
		}
		cases[path] = memberCase{without, text}
	})
	for prefix, base := range bases {
		if entry, ok := strings.CutSuffix(prefix, "{}."); ok {
			cases[entry+"{}"] = memberCase{`{}`, base}
		}
	}
	quoted, _ := json.Marshal(agentDir)
	for path, with := range map[string]string{
		"models.providers{}.models[].id": `{models: {providers: {k: {models: [
			{id: "x", cost: {input: 3}}]}}}}`,
		"agents.list[].agentDir": `{agents: {list: [{id: "main", agentDir: ` + string(quoted) + `}]}}`,
	} {
		cases[path] = memberCase{cases[path].without, with}
	}
	return cases
}

// machine are Options for a machine without an environment, on which every directory is empty.
func machine(home string) Options {
	return Options{
		Home: home, Env: func(string) (string, bool) { return "", false },
		OpenDir: func(string) (fs.FS, error) { return fstest.MapFS{}, nil },
	}
}

// A follower is a Runtime as a Live knows it.
type follower struct{ rules policy.Rules }

func (f *follower) SetRules(rules policy.Rules) error {
	if err := rules.Validate(); err != nil {
		return err
	}
	f.rules = rules
	return nil
}

// follow has a follower follow a Live, and returns it with the Rules that it was opened with.
func follow(l *Live) *follower {
	var cfg agent.Config
	l.Apply(&cfg)
	f := &follower{cfg.Rules}
	l.Follow(f, nil)
	return f
}

// liveDigest returns what the functions of a Config say that read a Live, and the Rules of what
// follows it.
func liveDigest(t *testing.T, l *Live) string {
	t.Helper()
	var cfg agent.Config
	l.Apply(&cfg)
	if f, ok := l.rt.(*follower); ok {
		cfg.Rules = f.rules
	}
	require.Nil(t, cfg.Rules.Sandbox.Decide)
	rules := []any{cfg.Rules.Sandbox.Mode, cfg.Rules.Sandbox.SeeAll, cfg.Rules.Sandbox.Tools}
	for field, v := range reflect.ValueOf(cfg.Rules).Fields() {
		if field.Name != "Sandbox" {
			rules = append(rules, v.Interface())
		}
	}
	valid := make(map[string]bool)
	for _, name := range []string{"k", "p/m", "p/n", "x"} {
		valid[name] = cfg.Models.Valid(name)
	}
	p, err := cfg.Models.Credentials(t.Context(), "main")
	require.NoError(t, err)
	in := agentctx.Input{Limits: cfg.Prompts.Input.Limits}
	require.NoError(t, cfg.Prompts.Describe(t.Context(), session.Lineage{}, &in))
	data, err := json.Marshal([]any{
		valid, p.Order, slices.Sorted(maps.Keys(p.ByID)), in.Limits.File, in.Limits.Total,
		cfg.Prompts.SkillHost.Setting("browser.enabled"), rules,
	})
	require.NoError(t, err)
	return string(data)
}

// Every member that is taken is applied live or refused with a reason, whether it comes or goes. A
// live one holds as after a restart, and a refused one changes nothing.
func TestEveryMemberIsLiveOrRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, profilesFile),
		[]byte(`{"profiles": {"p:a": {"type": "api_key", "provider": "p", "key": "k"}}}`), 0o600))
	o := machine(t.TempDir())
	read := func(text string) *Result {
		t.Helper()
		r, err := Parse([]byte(text), o)
		require.NoError(t, err, text)
		return r
	}
	cases := memberCases(dir)
	for _, row := range everyMember {
		c, ok := cases[row.member]
		require.True(t, ok, "%s is not a member any more", row.member)
		delete(cases, row.member)
		for _, pair := range [][2]string{{c.without, c.with}, {c.with, c.without}} {
			was, is := read(pair[0]), read(pair[1])
			changes := was.Changes(is)
			require.NotEmpty(t, changes, "%s: %v", row.member, pair)
			for _, x := range changes {
				require.Equal(t, row.effect, x.Effect, "%s: %v", row.member, x)
				require.Contains(t, x.Reason, row.reason, row.member)
				require.NotEmpty(t, x.Path)
				require.Positive(t, x.Line)
				require.Positive(t, x.Column)
			}
			require.Empty(t, was.Changes(was), pair[0])
			live := was.Live()
			follow(live)
			before, after := liveDigest(t, live), liveDigest(t, is.Live())
			require.Equal(t, changes, live.Update(is))
			if row.effect == EffectLive {
				if !strings.HasSuffix(row.member, "BySender{}.alsoAllow") { // beside no profile
					require.NotEqual(t, before, after, row.member)
				}
				require.Equal(t, after, liveDigest(t, live), row.member)
				require.Empty(t, live.Update(is), row.member)
			} else {
				require.Equal(t, before, liveDigest(t, live), row.member)
				require.Equal(t, changes, live.Update(is), "%s: it still waits", row.member)
			}
			live.Update(was)
			require.Equal(t, before, liveDigest(t, live), row.member)
			require.Empty(t, live.Update(was), row.member)
		}
	}
	require.Empty(t, slices.Sorted(maps.Keys(cases)), "members without a row in everyMember")
}

// The schema has every member that is taken, with what it is for.
func TestSchemaHasEveryMember(t *testing.T) {
	var root map[string]any
	require.NoError(t, json.Unmarshal(Schema(), &root))
	var find func(in any, path string) bool
	find = func(in any, path string) bool {
		node, ok := in.(map[string]any)
		if !ok || path == "" {
			return ok && len(node) > 0
		}
		for _, of := range []string{"anyOf", "oneOf"} {
			options, _ := node[of].([]any)
			if slices.ContainsFunc(options, func(x any) bool { return find(x, path) }) {
				return true
			}
		}
		if rest, ok := strings.CutPrefix(path, "[]"); ok {
			return find(node["items"], rest)
		}
		if rest, ok := strings.CutPrefix(path, "{}"); ok {
			return find(node["additionalProperties"], rest)
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[{")
		if end < 0 {
			end = len(path)
		}
		members, _ := node["properties"].(map[string]any)
		return find(members[path[:end]], path[end:])
	}
	for _, row := range everyMember {
		require.True(t, find(root, row.member), row.member)
	}
	require.False(t, find(root, "agents.defaults.modelsOfTomorrow"))
}

// Each row that says what becomes of a member is that of one, and the nearest one decides.
func TestEffectsAreThoseOfMembers(t *testing.T) {
	for _, e := range effects {
		found := false
		for _, row := range everyMember {
			found = found || strings.HasPrefix(row.member, e.path)
		}
		require.True(t, found, e.path)
	}
	effect, reason, _ := effectOf("agents.defaults.modelsOfTomorrow")
	require.Equal(t, EffectRestart, effect)
	require.Equal(t, "the Config has it from when the Runtime was opened", reason)
}

// Where there is no change, a restart would change nothing either: of random files, each with a
// random value somewhere in it.
func TestNoChangeIsMissed(t *testing.T) {
	names, err := filepath.Glob("testdata/files/*.json5")
	require.NoError(t, err)
	o := machine("/home/me")
	random := rand.New(rand.NewPCG(3, 4))
	same, other := 0, 0
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		was, err := Parse(data, o)
		require.NoError(t, err)
		root, err := decode(data)
		require.NoError(t, err)
		places := all(root)
		for _, at := range places {
			before, values := *at, wrongs()
			for range 10 {
				values = append(values, *places[random.IntN(len(places))])
			}
			for _, x := range values {
				if slices.Contains(all(&x), at) {
					continue // it would have itself in it
				}
				*at = x
				var b bytes.Buffer
				write(t, &b, root)
				*at = before
				is, err := Parse(b.Bytes(), o)
				if err != nil {
					continue
				}
				there, back := was.Changes(is), is.Changes(was)
				require.Equal(t, len(there) == 0, len(back) == 0, b.String())
				counts := func(c Change) bool { return c.Effect != EffectNone }
				if slices.ContainsFunc(there, counts) {
					other++
					continue
				}
				same++
				require.Equal(t, digest(t, was), digest(t, is), "%s\n%s", data, b.String())
			}
		}
	}
	require.Positive(t, same)
	require.Greater(t, other, 100)
}

// changed returns what becomes of a program that has read one text when another is read.
func changed(t *testing.T, was, is string) []string {
	t.Helper()
	o := machine("/home/me")
	a, err := Parse([]byte(was), o)
	require.NoError(t, err)
	b, err := Parse([]byte(is), o)
	require.NoError(t, err)
	var lines []string
	for _, c := range a.Changes(b) {
		line, _, _ := strings.Cut(c.String(), "; ")
		lines = append(lines, line)
	}
	return lines
}

func TestChanges(t *testing.T) {
	const ofAgents = "needs a restart: the Runtime has Config.Rules.Agents from when it was opened"
	for _, c := range []struct {
		name, was, is string
		want          []string
	}{
		{
			"spaces, comments, the order of members and names in quotes do not count",
			`{session: {keepArchivesMinutes: 5}, tools: {deny: ["exec"]}}`,
			`{"tools": {"deny": ["exec"],}, // no exec
				session: {keepArchivesMinutes: 5.0}}`,
			nil,
		},
		{
			"nor are variables with the same text, and earlier names",
			`{agents: {defaults: {workspace: "~/w"}}, session: {threadBindings: {idleHours: 2}}}`,
			`{env: {W: "w"}, agent: {workspace: "~/${W}"}, session: {threadBindings: {ttlHours: 2}}}`,
			[]string{"1:7: env: without effect: its variables are used where a text names them, and " +
				"nowhere else"},
		},
		{
			"a variable that is another text is a change of what names it",
			`{env: {W: "v"}, agents: {defaults: {workspace: "~/${W}"}}}`,
			`{env: {W: "w"}, agents: {defaults: {workspace: "~/${W}"}}}`,
			[]string{
				"1:7: env: without effect: its variables are used where a text names them, and nowhere else",
				"1:48: agents.defaults.workspace: needs a restart: the Runtime has Config.Workspace and " +
					"WorkDir from when it was opened",
			},
		},
		{
			"the order of agents is a change where it decides which is the default",
			`{agents: {list: [{id: "a"}, {id: "b", name: "B"}, {id: "c"}]}}`,
			`{agents: {list: [{id: "b", name: "B"}, {id: "c"}, {id: "A"}]}}`,
			[]string{"1:17: agents.list: " + ofAgents},
		},
		{
			"else it is not",
			`{agents: {list: [{id: "a"}, {id: "b", name: "B"}, {id: "c"}]}}`,
			`{agents: {list: [{id: "a"}, {id: "c"}, {id: "b", name: "B"}]}}`,
			nil,
		},
		{
			"an agent that comes or goes is one change, and one that stays has its own",
			`{agents: {list: [{id: "a", model: "p/m", agentDir: "/x"}, {id: "b", name: "B"}]}}`,
			`{agents: {list: [{id: "c", model: "p/m"}, {id: "a", model: {primary: " p/m "}, agentDir: "/y"}]}}`,
			[]string{
				"1:17: agents.list[b]: " + ofAgents,
				"1:18: agents.list[c]: " + ofAgents,
				"1:90: agents.list[a].agentDir: live: credentials are those of it from the next turn on",
			},
		},
		{
			"a model that comes with an alias can be asked for, and its alias waits",
			`{agents: {defaults: {models: {"p/m": {}}}}}`,
			`{agents: {defaults: {models: {"p/m": {}, "p/n": {alias: "n"}}}}}`,
			[]string{
				`1:49: agents.defaults.models["p/n"]: live: whether it may be asked for, from the next spawn on`,
				`1:57: agents.defaults.models["p/n"].alias: needs a restart: the Runtime has ` +
					"Config.Prompts.Input.Aliases from when it was opened",
			},
		},
		{
			"what a model costs is found by its id",
			`{models: {providers: {p: {models: [{id: "m", cost: {input: 1}}, {id: "n", cost: {input: 2}}]}}}}`,
			`{models: {providers: {p: {models: [{id: "N", cost: {input: 3}}, {id: "m", cost: {input: 1}}]}}}}`,
			[]string{`1:60: models.providers.p.models["n"].cost.input: needs a restart: the Runtime has ` +
				"Config.Models.Prices from when it was opened"},
		},
		{
			"a model that costs nothing is not one of which nothing is known",
			`{models: {providers: {p: {models: [{id: "m"}]}}}}`,
			`{models: {providers: {p: {models: [{id: "m", cost: {}}]}}}}`,
			[]string{`1:52: models.providers.p.models["m"].cost: needs a restart: the Runtime has ` +
				"Config.Models.Prices from when it was opened"},
		},
		{
			"what has no effect is told with its reason, as is what is not known",
			`{gateway: {port: 1}, cron: {}, channels: {x: {token: "a"}}, agents: {defaults: {model: "p/m"}}}`,
			`{gateway: {port: 2}, cron: {}, gatway: 1, agents: {defaults: {
				model: {primary: "p/m", fallbacks: ["p/n"]}}}}`,
			[]string{
				"1:1: channels.x.token: without effect: the transport is the program's",
				"1:11: gateway: without effect: the program is the gateway",
				"1:40: gatway: without effect: it is not known, is gateway meant?",
				"2:40: agents.defaults.model.fallbacks: without effect: a Model of the program falls back",
			},
		},
		{
			"a key that is a reference now is one change, and its value is not shown",
			`{skills: {entries: {a: {apiKey: "planted"}}}}`,
			`{skills: {entries: {a: {apiKey: {source: "env", id: "planted"}}}}}`,
			[]string{"1:33: skills.entries.a.apiKey: needs a restart: the Runtime has " +
				"Config.Prompts.SkillHost from when it was opened"},
		},
	} {
		require.Equal(t, c.want, changed(t, c.was, c.is), c.name)
	}
	require.Empty(t, new(Result).Changes(new(Result)))
	r, err := Parse([]byte(`{gateway: {}, tools: {deny: ["x"]}}`), machine("/home/me"))
	require.NoError(t, err)
	require.Len(t, new(Result).Changes(r), 2)
	require.Len(t, r.Changes(new(Result)), 2)
	require.Equal(t, "Effect(7)", Effect(7).String())
}

// A credential that is the name or the value of a member is in no Change.
func TestChangesShowNoSecrets(t *testing.T) {
	const secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
	text := `{skills: {entries: {"` + secret + `": {apiKey: "` + secret + `"}}}, gateway: {"` + secret +
		`": "` + secret + `"}, agents: {defaults: {models: {"p/` + secret + `": {alias: "` + secret +
		`"}}, "` + secret + `": 1}}}`
	for _, pair := range [][2]string{{`{}`, text}, {text, `{}`}} {
		lines := changed(t, pair[0], pair[1])
		require.Len(t, lines, 5)
		require.NotContains(t, strings.Join(lines, "\n"), "abcdef")
	}
}

// docs/openclaw.md names every member that is live, and no other one as such.
func TestPageNamesWhatIsLive(t *testing.T) {
	data, err := os.ReadFile("../../docs/openclaw.md")
	require.NoError(t, err)
	_, page, found := strings.Cut(string(data), "| in the file | holds | by |")
	require.True(t, found)
	page, _, _ = strings.Cut(page, "\n\n")
	for _, e := range effects {
		name := strings.TrimRight(e.path[strings.LastIndex(e.path, ".")+1:], "{}")
		if e.effect == EffectLive {
			require.Contains(t, page, "`"+name+"`", e.path)
		} else if strings.Contains(e.path, ".") {
			require.NotContains(t, page, "`"+e.path+"`")
		}
	}
}

// No pair of files makes the comparison panic, and it finds the same from both sides.
func FuzzChanges(f *testing.F) {
	texts := []string{
		`{agents: {list: [{id: "a", agentDir: "x"}, {id: "b", default: true}]}}`,
		`{agents: {list: [{id: "B"}, {id: "a", tools: {delegable: {}}}], defaults: {models: {"": {}}}}}`,
		`{gateway: [1, {a: 1, a: 2}], models: {providers: {p: {models: [{id: "m", cost: {}}, {}]}}}}`,
		`{skills: {entries: {"a.b[0]": {apiKey: "x", env: {A: ""}}}}, channels: {"": {groups: {"": {}}}}}`,
		`{agent: {model: "x"}, auth: {order: {p: []}}, session: {threadBindings: {ttlHours: 1}}}`,
	}
	for i, text := range texts {
		f.Add(text, texts[(i+1)%len(texts)])
	}
	o := machine("/home/me")
	f.Fuzz(func(t *testing.T, was, is string) {
		a, err := Parse([]byte(was), o)
		if err != nil {
			return
		}
		require.Empty(t, a.Changes(a))
		b, err := Parse([]byte(is), o)
		if err != nil {
			return
		}
		there, back := a.Changes(b), b.Changes(a)
		require.Len(t, back, len(there), "%v", there)
		live := a.Live()
		follow(live)
		got := live.Update(b)
		if live.Refused() == nil {
			require.Equal(t, there, got)
		}
		for _, c := range live.Update(b) {
			require.Equal(t, EffectRestart, c.Effect, "what is live is so at once")
		}
		live.Update(a)
		require.NoError(t, live.Refused())
		require.Empty(t, live.Update(a))
	})
}

// A setting that a skill has asked for is live, whatever else looks at it.
func TestSettingsOfSkillsAreLive(t *testing.T) {
	was := `{custom: {flag: true}, browser: {enabled: true}, logging: {level: "a"}}`
	is := `{custom: {flag: false}, browser: {enabled: false}, logging: {level: "b"}}`
	read := func(text string) *Result {
		none := func(string) (string, bool) { return "", false }
		r, err := Parse([]byte(text), Options{Env: none})
		require.NoError(t, err)
		return r
	}
	for _, asked := range [][]string{nil, {"custom.flag"}, {"browser.enabled", "custom.flag"}} {
		live := read(was).Live()
		var cfg agent.Config
		live.Apply(&cfg)
		want := map[string]Effect{
			"custom": EffectNone, "browser": EffectNone, "logging": EffectNone,
		}
		for _, path := range asked {
			require.True(t, cfg.Prompts.SkillHost.Setting(path))
			head, _, _ := strings.Cut(path, ".")
			want[head] = EffectLive
		}
		got := make(map[string]Effect)
		for _, c := range live.Update(read(is)) {
			got[c.Path] = c.Effect
		}
		require.Equal(t, want, got)
		for _, path := range asked {
			require.False(t, cfg.Prompts.SkillHost.Setting(path))
		}
	}
}

// The zero Live, and that of a Result that was not read, say nothing.
func TestLiveOfNothing(t *testing.T) {
	for _, l := range []*Live{new(Live), new(Result).Live()} {
		var cfg agent.Config
		l.Apply(&cfg)
		p, err := cfg.Models.Credentials(context.Background(), "main")
		require.NoError(t, err)
		require.Equal(t, agent.Profiles{}, p)
		require.True(t, cfg.Models.Valid("p/m"))
		require.True(t, cfg.Prompts.SkillHost.Setting("browser.enabled"))
		require.Empty(t, l.Update(nil))
		require.ErrorIs(t, l.Watch(t.Context(), 0, nil), ErrNoFile)
	}
}
