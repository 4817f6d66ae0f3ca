package openclaw_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

// oddNames are texts that stand where a file has a name of its own.
func oddNames() []string {
	return []string{
		"", " ", " discord ", "Discord", "dis cord", "\t", "a\nb", "a\u0000b", "a\u202eb", "a.b", "a[0]",
		`a"b`, `a\b`, "a/b", "x/y", "a:b", "*", "id:*", "#1", "0", "subagent", "spawn", "main", "global",
		"unknown", "group:fs", "group:nope", "bad/", "/bad", "__proto__", "ключ", "💥",
		strings.Repeat("n", 65), strings.Repeat("n", 300), strings.Repeat("n", 2000),
	}
}

// forms are files with a name of the file in each place that has one. NAME is the name in quotes.
var forms = []string{
	`{channels: {NAME: {threadBindings: {idleHours: 1}}}}`,
	`{channels: {discord: {threadBindings: {idleHours: 1}}, NAME: {threadBindings: {idleHours: 2}}}}`,
	`{channels: {discord: {accounts: {NAME: {threadBindings: {idleHours: 1}}}}}}`,
	`{channels: {NAME: {groups: {g: {tools: {deny: ["exec"]}}}}}}`,
	`{channels: {telegram: {groups: {NAME: {tools: {deny: ["exec"]}}}}}}`,
	`{channels: {telegram: {groups: {g: {toolsBySender: {NAME: {deny: ["exec"]}}}}}}}`,
	`{tools: {toolsBySender: {NAME: {deny: ["exec"]}}}}`,
	`{tools: {byProvider: {NAME: {deny: ["exec"]}}}}`,
	`{tools: {byProvider: {"p/m": {deny: ["exec"]}, NAME: {deny: ["read"]}}}}`,
	`{tools: {groups: {NAME: ["exec"]}}}`,
	`{tools: {allow: [NAME]}}`, `{tools: {deny: [NAME]}}`, `{tools: {ownerOnly: [NAME]}}`,
	`{tools: {ownerOnly: [NAME]}, commands: {ownerAllowFrom: []}}`,
	`{tools: {subagents: {tools: {allow: [NAME]}}}}`,
	`{tools: {subagents: {tools: {defaultDeny: [NAME]}}}}`,
	`{tools: {sandbox: {tools: {allow: [NAME]}}}}`,
	`{tools: {agentToAgent: {enabled: true, allow: [NAME]}}}`,
	`{commands: {ownerAllowFrom: [NAME]}}`,
	`{agents: {list: [{id: NAME}]}}`, `{agents: {entries: {NAME: {}}}}`,
	`{agents: {list: [{id: "b", name: NAME}]}}`,
	`{agents: {list: [{id: "b", model: NAME}]}}`,
	`{agents: {list: [{id: "b", skills: [NAME]}]}}`,
	`{agents: {list: [{id: "b", subagents: {model: NAME, allowAgents: [NAME]}}]}}`,
	`{agents: {list: [{id: "b", tools: {byProvider: {NAME: {deny: ["exec"]}}}}]}}`,
	`{agents: {list: [{id: "b", tools: {delegable: {allow: [NAME]}}}]}}`,
	`{agents: {list: [{id: "b", workspace: NAME}]}}`, `{agents: {defaults: {workspace: NAME}}}`,
	`{agents: {list: [{id: "b", agentDir: NAME}]}}`,
	`{agents: {defaults: {model: NAME}}}`, `{agents: {defaults: {models: {NAME: {}}}}}`,
	`{agents: {defaults: {models: {NAME: {alias: "x"}}}}}`,
	`{agents: {defaults: {models: {"p/m": {alias: NAME}}}}}`,
	`{agents: {defaults: {models: {x: {alias: "y"}, NAME: {alias: "x"}}}}}`,
	`{agents: {defaults: {models: {"p/m": {alias: "x"}}}}, tools: {byProvider: {NAME: {deny: ["a"]}, X: {}}}}`,
	`{agents: {defaults: {models: {"p/m": {alias: "x"}}}, list: [{id: "a"}, {id: "b", default: true,
		tools: {byProvider: {NAME: {}, x: {deny: ["exec"]}}}}]}}`,
	`{agents: {defaults: {userTimezone: NAME}}}`,
	`{models: {providers: {NAME: {models: [{id: "m", cost: {input: 1}}]}}}}`,
	`{models: {providers: {p: {models: [{id: NAME, cost: {input: 1}}]}}}}`,
	`{models: {providers: {p: {models: [{id: "p/m", cost: {input: 1}}, {id: NAME, cost: {input: 1}}]}}},
		agents: {defaults: {models: {"p/m": {alias: "m"}}}}}`,
	`{skills: {entries: {NAME: {enabled: false, apiKey: "k", env: {NAME: "v"}}}}}`,
	`{skills: {allowBundled: [NAME]}}`,
	`{auth: {order: {NAME: [NAME, NAME]}}}`,
}

// What a file is read as without a mistake, a Runtime opens with; and what it would refuse is a
// mistake with a place, or a doubt that says what the program has to have for it.
func TestWhatARuntimeRefusesIsAMistake(t *testing.T) {
	for _, form := range forms {
		wrong := 0
		for _, name := range oddNames() {
			text := strings.ReplaceAll(form, "NAME", strconv.Quote(name))
			r, err := openclaw.Parse([]byte(text), nowhere())
			if err != nil {
				wrong++
				for _, one := range mistakes(t, text, nowhere()) {
					require.Regexp(t, `^\d+:\d+: [a-z]`, one, text)
					require.NotRegexp(t, `^1:1: `, one, text)
					require.Less(t, len(one), 700, text)
				}
				continue
			}
			var cfg agent.Config
			cfg.Runner = agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
				return agent.Result{}, nil
			})
			cfg.Logger = slog.New(slog.DiscardHandler)
			r.Apply(&cfg)
			if strings.Contains(fmt.Sprint(r.Doubts), "a Runtime refuses it unless") {
				require.ErrorContains(t, cfg.Validate(), "Config.Rules.OwnerOnly")
				continue
			}
			rt, err := agent.Open(t.Context(), cfg)
			require.NoError(t, err, text)
			require.NoError(t, rt.Shutdown(t.Context()))
		}
		t.Logf("%d of %d: %s", wrong, len(oddNames()), form)
	}
}

// What a Runtime refuses of a whole Config is told, too, with its place where one text is to blame.
func TestLongTextsAreMistakes(t *testing.T) {
	long := strings.Repeat("x", 1_000_001)
	require.Equal(t, []string{`1:38: agents.list[0].agentDir: it has 1000001 bytes, want at most 1000000`},
		mistakes(t, `{agents: {list: [{id: "b", agentDir: "`+long+`"}]}}`, nowhere())[:1])
	var b strings.Builder
	fmt.Fprintf(&b, `{agents: {defaults: {skills: ["%s"]}, list: [`, strings.Repeat("s", 900_000))
	for i := range 20 {
		fmt.Fprintf(&b, `{id: "a%d"},`, i)
	}
	require.Regexp(t, `^1:1: Config\.\(all\): its parts have \d+ bytes together, the limit is 10000000$`,
		strings.Join(mistakes(t, b.String()+"]}}", nowhere()), "\n"))
}

// Odd texts that a Runtime takes are doubts at their places.
func TestDoubtsOfOddTexts(t *testing.T) {
	for text, want := range map[string]string{
		`{tools: {allow: ["exec", "["]}}`:                                         `tools.allow[1]: no tool has such a name: `,
		`{tools: {deny: ["!x"]}}`:                                                 `tools.deny[0]: no tool has such a name: `,
		`{tools: {alsoAllow: ["a\nb"]}}`:                                          `tools.alsoAllow[0]: no tool has such a name: `,
		`{tools: {groups: {"group:x": ["é"]}}}`:                                   `tools.groups["group:x"][0]: no tool has such a name: `,
		`{tools: {ownerOnly: ["a?"]}, commands: {ownerAllowFrom: ["1"]}}`:         `tools.ownerOnly[0]: no tool has such`,
		`{tools: {byProvider: {p: {deny: ["a.b"]}}}}`:                             `tools.byProvider.p.deny[0]: no tool`,
		`{tools: {sandbox: {tools: {deny: ["a b"]}}}}`:                            `tools.sandbox.tools.deny[0]: no tool`,
		`{tools: {subagents: {tools: {defaultDeny: ["a/b"]}}}}`:                   `tools.subagents.tools.defaultDeny[0]: no tool`,
		`{agents: {list: [{id: "a", tools: {delegable: {deny: ["a,b"]}}}]}}`:      `agents.list[0].tools.delegable.deny[0]: no tool`,
		`{channels: {c: {groups: {g: {tools: {deny: ["{a}"]}}}}}}`:                `channels.c.groups.g.tools.deny[0]: no tool`,
		`{channels: {c: {groups: {g: {toolsBySender: {"1": {deny: ["(a)"]}}}}}}}`: `channels.c.groups.g.toolsBySender["1"].deny[0]: no tool`,

		`{channels: {c: {groups: {"-1*": {tools: {deny: ["exec"]}}}}}}`:                          `channels.c.groups[-1*].peer: "-1*" is not a pattern`,
		`{channels: {C: {threadBindings: {idleHours: 1}}, c: {threadBindings: {idleHours: 2}}}}`: `channels.c: it is the channel of channels.C, too`,
		`{tools: {agentToAgent: {enabled: true, allow: ["nope*"]}}}`:                             `tools.agentToAgent.allow[0]: there is no agent "nope*"`,
		`{tools: {ownerOnly: ["exec"]}}`:                                                         `tools.ownerOnly: a Runtime refuses it unless`,
		`{tools: {toolsBySender: {"id:1": {}, "1": {deny: ["exec"]}}}}`:                          `tools.toolsBySender["id:1"]: it names a person whom tools.toolsBySender["1"] names`,
		`{tools: {toolsBySender: {"id:ann*": {deny: ["exec"]}}}}`:                                `tools.toolsBySender["id:ann*"]: "ann*" is not a pattern`,
		`{commands: {ownerAllowFrom: ["telegram:1*"]}}`:                                          `commands.ownerAllowFrom[0]: "1*" is not a pattern`,
		`{commands: {ownerAllowFrom: ["telegram:"]}}`:                                            `commands.ownerAllowFrom[0]: "telegram:" has no id behind`,
		`{commands: {ownerAllowFrom: [" : "]}}`:                                                  `commands.ownerAllowFrom[0]: ":" has no id behind`,
		`{commands: {ownerAllowFrom: ["telegram: 5"]}}`:                                          `commands.ownerAllowFrom[0]: no person has the id " 5"`,
		`{commands: {ownerAllowFrom: ["a\u0000b"]}}`:                                             `commands.ownerAllowFrom[0]: no person has the id "a\x00b"`,
		`{auth: {order: {P: ["x"], p: ["y"]}}}`:                                                  `auth.order.p: it is the provider of auth.order.P, too`,
		`{auth: {order: {" ": ["x"]}}}`:                                                          `auth.order[" "]: it has no effect, since the name`,
		`{auth: {order: {p: []}}}`:                                                               `auth.order.p: no profile of the provider is tried`,
		`{auth: {order: {p: ["a", " "]}}}`:                                                       `auth.order.p[1]: it is passed over, since it is blank`,
		`{auth: {order: {p: ["a", "b", "a"]}}}`:                                                  `auth.order.p[2]: it has no effect, since "a" is there`,
		`{auth: {order: {p: [" a"]}}}`:                                                           `auth.order.p[0]: no profile has the id " a"`,
		`{agents: {list: [{id: "b", workspace: "a/../.."}]}}`:                                    `agents.list[0].workspace: ".." is looked for in`,
		`{agents: {list: [{id: "b", workspace: "~root/x"}]}}`:                                    `agents.list[0].workspace: "~root/x" is taken as it`,
		`{agents: {list: [{id: "b", workspace: "/a\u0000b"}]}}`:                                  `agents.list[0].workspace: the bytes of it that are 0`,
		`{agents: {defaults: {workspace: "w"}}}`:                                                 `agents.defaults.workspace: "w" is looked for in`,
		`{agents: {list: [{id: "b", agentDir: "d"}]}}`:                                           `agents.list[0].agentDir: "d" is looked for in`,
		`{agents: {list: [{id: "a", agentDir: "/d"}, {id: "b", agentDir: "/d/"}]}}`:              `agents.list[1].agentDir: agent "b" has the directory of agent "a"`,
	} {
		list := noted(parse(t, text).Doubts)
		require.Condition(t, func() bool {
			return strings.Contains("\n"+strings.Join(list, "\n"), "\n"+want)
		}, "%s\n%s\nis not in %q", text, want, list)
	}
	for _, text := range []string{
		`{tools: {allow: ["exec", "*", "mcp_*", " Read ", "apply-patch", "group:fs"]}}`,
		`{commands: {ownerAllowFrom: [5, "*", "telegram:*", "@ann:server", " x "]}}`,
		`{auth: {order: {p: ["a", "b"], q: ["a"]}}}`,
		`{agents: {list: [{id: "b", workspace: "~/w", agentDir: "/d"}, {id: "c"}]}}`,
	} {
		require.Empty(t, noted(parse(t, text).Doubts), text)
	}
}

// An id that is written as a number and is not that number any more is a mistake.
func TestNumbersOfPeople(t *testing.T) {
	for _, number := range []string{"175928847299117063", "1.5", "1e30", "-1e30", "Infinity", "NaN"} {
		list := mistakes(t, `{commands: {ownerAllowFrom: [`+number+`]}}`, nowhere())
		require.Len(t, list, 1, number)
		require.Contains(t, list[0], "commands.ownerAllowFrom[0]: it is ", number)
		require.Contains(t, list[0], "put the id in quotation marks", number)
	}
	require.Empty(t, mistakes(t, `{commands: {ownerAllowFrom: [9007199254740991, -5, 0]}}`, nowhere()))
}

// Agents by their ids beside a list of agents, or in the form of one, are mistakes that say what is
// to be done.
func TestEntriesOfAgents(t *testing.T) {
	for text, want := range map[string]string{
		"{agents: {entries: {a: {}},\nlist: [{id: \"b\"}]}}": `1:20: agents.entries: it has agents by their ids, ` +
			`and agents.list is there, too, in line 2; want all agents in one of the two`,
		`{agents: {entries: [{id: "a"}]}}`: `1:20: agents.entries: it is a list, want an object of agents by ` +
			`their ids, or agents.list`,
		`{agents: {entries: null}}`: `1:20: agents.entries: it is null, want an object of agents by their ids, ` +
			`or agents.list`,
	} {
		require.Equal(t, []string{want}, mistakes(t, text, nowhere()), text)
	}
	r := parse(t, `{agents: {entries: {a: {id: "b"}, c: {id: "c"}}}}`)
	require.Equal(t, []string{
		"agents.entries: it is read as agents.list, in the order of the file",
		"agents.entries.a.id: it is passed over, since the name is the id",
	}, noted(r.Migrated))
	require.Equal(t, "a", r.Agents[0].ID)
	require.Contains(t, strings.Join(mistakes(t, `{agents: {list: [{id: "Subagent"}]}}`, nowhere()), ""),
		"but neither subagent nor spawn")
}
