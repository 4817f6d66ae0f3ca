package openclaw_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

// Mistakes that different stages find come together: those of values, of what values mean, of
// directories and of the rules.
func TestMistakesOfAllStages(t *testing.T) {
	o := nowhere()
	o.OpenDir = func(string) (fs.FS, error) { return nil, fs.ErrPermission }
	const text = `{
  agents: {
    defaults: {thinkingDefault: "wild", subagents: {maxSpawnDepth: 9, model: "a b"}},
    list: [{id: "x", tools: {allow: [" "], deny: ["group:none"]}, model: "c d", skills: "all"}],
  },
  tools: {subagents: {tools: {allow: ["a"], alsoAllow: ["b"]}}, deny: [7, "group:nope"]},
  models: {providers: {p: {models: [{cost: {input: 1}}]}}},
  skills: {load: {extraDirs: ["/skills"]}},
  commands: {ownerAllowFrom: [" "]},
}`
	require.Equal(t, []string{
		`3:33: agents.defaults.thinkingDefault: it is "wild", want one of ` +
			strings.Join(policy.ThinkingLevels(), ", "),
		`3:68: agents.defaults.subagents.maxSpawnDepth: it is 9, want an integer from 1 to 5`,
		`3:78: agents.defaults.subagents.model: it is "a b", want a model such as provider/name`,
		`4:12: agents.list[0]: it cannot be opened: permission denied`,
		`4:38: agents.list[x].tools.allow[0]: it is " ", want the name, glob or group of a tool`,
		`4:51: agents.list[x].tools.deny[0]: it is "group:none", want a group that is built in or in tools.groups`,
		`4:74: agents.list[0].model: it is "c d", want a model such as provider/name`,
		`4:89: agents.list[0].skills: it is "all", want a list`,
		`6:56: tools.subagents.tools.alsoAllow: want nothing beside allow, which lifts default denies as well`,
		`6:72: tools.deny[0]: it is 7, want a text`,
		`6:75: tools.deny[1]: it is "group:nope", want a group that is built in or in tools.groups`,
		`7:37: models.providers.p.models[0]: it lacks id, which says of which model the cost is`,
		`8:31: skills.load.extraDirs[0]: it cannot be opened: permission denied`,
		`9:31: commands.ownerAllowFrom[0]: it is blank, want the id of a person, or *`,
	}, mistakes(t, text, o))
}

// A mistake brings no other one about in what depends on it.
func TestMistakesThatWouldFollow(t *testing.T) {
	o := nowhere()
	o.OpenDir = func(dir string) (fs.FS, error) { return nil, errors.New("looked at " + dir) }
	for text, path := range map[string]string{
		`{agents: {defaults: {workspace: "${NOPE}/x"}}}`:                        "agents.defaults.workspace",
		`{agents: {list: [{id: "a", workspace: 7}]}}`:                           "agents.list[0].workspace",
		`{agents: {list: [{id: 7}]}}`:                                           "agents.list[0].id",
		`{agents: {list: [{}]}}`:                                                "agents.list[0]",
		`{agents: {list: [7]}}`:                                                 "agents.list[0]",
		`{agents: {list: {}}}`:                                                  "agents.list",
		`{agents: []}`:                                                          "agents",
		`{agents: {list: [{id: "a"}, {id: "b", default: "yes"}]}}`:              "agents.list[1].default",
		`{agents: {defaults: 7}}`:                                               "agents.defaults",
		`{tools: {groups: {"group:mine": 7}, deny: ["group:mine"]}}`:            `tools.groups["group:mine"]`,
		`{tools: {profile: 7, alsoAllow: ["x"]}}`:                               "tools.profile",
		`{models: {providers: {p: {models: [{id: 7, cost: {input: 1}}]}}}}`:     "models.providers.p.models[0].id",
		`{skills: {load: {extraDirs: [7]}}}`:                                    "skills.load.extraDirs[0]",
		`{commands: {ownerAllowFrom: [{}]}}`:                                    "commands.ownerAllowFrom[0]",
		`{tools: {allow: [{}]}}`:                                                "tools.allow[0]",
		`{channels: {c: {groups: {g: {toolsBySender: {"id:1": {allow: 7}}}}}}}`: "channels.c.groups.g.toolsBySender[\"id:1\"].allow",
	} {
		of := o
		if !strings.HasPrefix(path, "agents") && !strings.HasPrefix(path, "skills") {
			of = nowhere()
		}
		list := mistakes(t, text, of)
		require.NotEmpty(t, list, text)
		for _, one := range list {
			if strings.HasPrefix(path, "skills") && strings.Contains(one, ": agents.") {
				continue // the workspace, which is not of interest
			}
			require.NotContains(t, one, "looked at", text)
			require.Contains(t, one, path, text)
		}
	}
}

// A mistake says of a variable whether it is not there, or set to nothing. One that is set to
// nothing is looked for in the file.
func TestVariables(t *testing.T) {
	o := nowhere()
	o.Env = func(name string) (string, bool) { return "", name == "EMPTY" }
	const of = `agents: {list: [{id: "a", name: "${EMPTY}-${GONE}"}]}`
	require.Equal(t, []string{
		`1:34: agents.list[0].name: it names the variable EMPTY, which is set to nothing`,
		`1:34: agents.list[0].name: it names the variable GONE, which is not set`,
	}, mistakes(t, `{`+of+`}`, o))
	r, err := openclaw.Parse([]byte(`{`+of+`, env: {EMPTY: "x", vars: {GONE: "y"}}}`), o)
	require.NoError(t, err)
	require.Equal(t, "x-y", r.Agents[0].Name)
	list := mistakes(t, `{`+of+`, env: {EMPTY: "", GONE: ""}}`, o)
	require.Len(t, list, 2)
	for _, one := range list {
		require.Contains(t, one, "which is set to nothing")
	}
}

// A credential in the place of a name is not in a path, and a long name is cut.
func TestPathsShowNoSecrets(t *testing.T) {
	const secret = "sk-proj-abcdefghijklmnop1234567890ABCDEF"
	long := strings.Repeat("n", 5000)
	for _, name := range []string{secret, "x " + secret, long} {
		for _, form := range []string{
			`{tools: {subagents: {NAME: 1}}}`, `{agents: {NAME: 1}}`, `{agents: {list: [{id: "a", NAME: 1}]}}`,
			`{channels: {NAME: 5}}`, `{channels: {c: {accounts: {NAME: {threadBindings: 5}}}}}`,
			`{models: {providers: {NAME: {models: [{cost: {input: -1}}]}}}}`,
			`{models: {providers: {NAME: {models: [{cost: {input: 1}}]}}}}`,
			`{skills: {entries: {NAME: 5}}}`, `{skills: {entries: {x: {env: {NAME: 5}}}}}`,
			`{tools: {groups: {NAME: ["x"]}}}`, `{tools: {byProvider: {NAME: {allow: 5}}}}`,
			`{tools: {byProvider: {NAME: {profile: "x"}}}}`, `{tools: {toolsBySender: {"name:NAME": {}}}}`,
			`{agents: {defaults: {models: {NAME: 5}}}}`, `{NAME: 1}`, `{NAME: 1, NAME: 2}`,
			`{gateway: {NAME: 1}}`, `{agents: {defaults: {subagents: {NAME: {}}}}}`,
		} {
			text := strings.ReplaceAll(strings.ReplaceAll(form, `"name:NAME"`, strconv.Quote("name:"+name)),
				"NAME", strconv.Quote(name))
			o := nowhere()
			o.Strict = true
			r, err := openclaw.Parse([]byte(text), o)
			shown := fmt.Sprint(err)
			if r != nil {
				shown = fmt.Sprint(r.Untaken, r.Doubts, r.Migrated)
			}
			if all, ok := errors.AsType[openclaw.FieldErrors](err); ok {
				for _, e := range all {
					shown += e.Path + e.Reason
				}
			}
			require.NotContains(t, shown, "efghijklmnop", form)
			require.NotContains(t, shown, strings.Repeat("n", 100), form)
		}
	}
	r := parse(t, `{session: {threadBindings: {ttlHours: 1}}, channels: {"`+secret+
		`": {threadBindings: {ttlHours: 1}}}}`)
	require.Len(t, r.Migrated, 2)
	require.NotContains(t, fmt.Sprint(r.Migrated), "efghijklmnop")
}

// A mistake in a setting with a former name is told at its path in the file.
func TestMistakesOfFormerNames(t *testing.T) {
	for text, path := range map[string]string{
		`{session: {threadBindings: {ttlHours: -1}}}`:             "session.threadBindings.ttlHours",
		`{session: {threadBindings: {idleHours: -1}}}`:            "session.threadBindings.idleHours",
		`{channels: {irc: {threadBindings: {ttlHours: "soon"}}}}`: "channels.irc.threadBindings.ttlHours",
		`{channels: {irc: {accounts: {a: {threadBindings: {ttlHours: -1}}}}}}`: "channels.irc." +
			"accounts.a.threadBindings.ttlHours",
	} {
		_, err := openclaw.Parse([]byte(text), nowhere())
		bad, ok := errors.AsType[*openclaw.FieldError](err)
		require.True(t, ok, "%s: %v", text, err)
		require.Equal(t, path, bad.Path)
	}
}
