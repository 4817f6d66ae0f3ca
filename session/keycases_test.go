package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// A numberedCase is a row of section 1.10 of the field's reference: a key or a record, and what is
// expected of it.
type numberedCase struct {
	id, given, expect string
	differs           string // what of it is otherwise here, and why
	run               func(t *testing.T)
}

// noKey checks that each text is refused as a key, by Parse and where a short name is allowed.
func noKey(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		key, err := session.Parse(text)
		require.ErrorIs(t, err, session.ErrInvalidKey, "%q", text)
		require.True(t, key.IsZero(), "%q", text)
	}
}

// resolved is the key that a text without its first part means in a bot without a configuration.
func resolved(t *testing.T, text string) session.Key {
	t.Helper()
	key, err := session.Aliases{}.Resolve(text)
	require.NoError(t, err, "%q", text)
	return key
}

// parentOf is the key before the last thread of a key.
func parentOf(t *testing.T, text string) string {
	t.Helper()
	chat, _, ok := session.Must(session.Parse(text)).CutThread()
	require.True(t, ok, text)
	return chat.String()
}

// resolveAll checks what texts mean under aliases.
func resolveAll(t *testing.T, aliases session.Aliases, want string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		key, err := aliases.Resolve(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, key.String(), "%q", text)
	}
}

// flat is the record of a sub-agent with a flat key at a depth, below a session.
func flat(id string, above session.Lineage) session.Lineage {
	return session.Lineage{
		Key:  session.Must(session.Parse("agent:main:subagent:" + id)),
		Root: above.Root, Parent: above.Key, Depth: above.Depth + 1, Role: session.RoleLeaf,
	}
}

// flatChain are the records of a main session and of n sub-agents with flat keys below each other.
func flatChain(t *testing.T, n int) []session.Lineage {
	t.Helper()
	all := lineageChain(t, 0, 5)
	for i := range n {
		all = append(all, flat(fmt.Sprint("id", i), all[i]))
	}
	return all
}

// keyNumberedCases are the rows about texts.
var keyNumberedCases = []numberedCase{
	{
		id: "K1", given: "capitals in a hook's key", expect: "its agent, and the rest in small letters",
		run: func(t *testing.T) {
			key := session.Must(session.Parse("AGENT:Main:Hook:Webhook:42"))
			require.Equal(t, "main", key.Agent())
			require.Equal(t, session.KindHook, key.Kind())
			require.Equal(t, "webhook:42", key.ID())
		},
	},
	{
		id: "K2", given: "agent::a:b", expect: "agent a, rest b",
		differs: "a part that is empty is a mistake: what was parsed would have another text",
		run: func(t *testing.T) {
			for text, at := range map[string]int{
				"agent::a:b": 6, "agent::main": 6, "agent:main:a::b": 13,
			} {
				_, err := session.Parse(text)
				bad, ok := errors.AsType[*session.KeyError](err)
				require.True(t, ok, "%q", text)
				require.Equal(t, session.KeyError{Key: text, Offset: at, Reason: "empty segment"}, *bad)
			}
		},
	},
	{
		id: "K3", given: "too few parts, nothing, main", expect: "no parse",
		run: func(t *testing.T) {
			noKey(t, "agent:main", "agent::broken", "", "main")
			var key session.Key
			require.NoError(t, json.Unmarshal([]byte("null"), &key))
			require.True(t, key.IsZero())
		},
	},
	{
		id: "K4", given: "malformed, short and blank texts", expect: "three classes",
		differs: "a text means a key or is an error; there is no class that falls back to main",
		run: func(t *testing.T) {
			for _, text := range []string{"agent:main", "agent::broken", "", " ", "\t"} {
				key, err := session.Aliases{}.Resolve(text)
				require.ErrorIs(t, err, session.ErrInvalidKey, "%q", text)
				require.True(t, key.IsZero(), "%q", text)
			}
			resolveAll(t, session.Aliases{}, "agent:main:main", "main")
			resolveAll(t, session.Aliases{}, "agent:main:subagent:w", "subagent:w")
		},
	},
	{
		id: "K5", given: "a main session, a child, its child", expect: "depth 0, 1, 2",
		run: func(t *testing.T) {
			for depth, text := range []string{
				"agent:main:main", "agent:main:subagent:abc", "agent:main:subagent:abc:subagent:def",
			} {
				require.Equal(t, depth, session.Must(session.Parse(text)).Depth(), text)
			}
		},
	},
	{
		id: "K6", given: "subagent:x", expect: "a sub-agent, of depth 1", run: func(t *testing.T) {
			noKey(t, "subagent:x")
			require.True(t, session.IsSubagentSession("subagent:x"))
			require.Equal(t, 1, resolved(t, "subagent:x").Depth())
		},
	},
	{
		id: "K7", given: "subagent:a:subagent:b", expect: "a sub-agent, of depth 2",
		run: func(t *testing.T) {
			require.True(t, session.IsSubagentSession("subagent:a:subagent:b"))
			require.Equal(t, 2, resolved(t, "subagent:a:subagent:b").Depth())
		},
	},
	{
		id: "K8", given: "subagent without an id", expect: "refused", run: func(t *testing.T) {
			noKey(t, "agent:main:subagent:", "agent:main:subagent", "agent:main:spawn:")
			require.True(t, session.IsSubagentSession("agent:main:subagent:"))
		},
	},
	{
		id: "K9", given: "subagent within the key of a channel", expect: "no sub-agent, of depth 1",
		differs: "the two answers contradict each other: it is not a key, and has least rights",
		run: func(t *testing.T) {
			for _, text := range []string{
				"agent:main:discord:channel:c1:subagent:x", "agent:main:cron:j:subagent:x",
			} {
				noKey(t, text)
				require.True(t, session.IsSubagentSession(text), text)
			}
		},
	},
	{
		id: "K10", given: "the word spawn", expect: "a sub-agent", run: func(t *testing.T) {
			key := session.Must(session.Parse("agent:main:spawn:abc"))
			require.True(t, key.IsSubagent())
			require.Equal(t, 1, key.Depth())
			require.True(t, session.IsSubagentSession("AGENT:MAIN:SPAWN:ABC"))
		},
	},
	{
		id: "K11", given: "keys of cron", expect: "a job, and a run of one", run: func(t *testing.T) {
			noKey(t, "cron:j1", "agent:main:cron:j1:run:r1:x")
			job := session.Must(session.Parse("agent:main:cron:j1"))
			require.Equal(t, session.KindCron, job.Kind())
			require.Empty(t, job.CronRun())
			run := session.Must(session.Parse("agent:main:cron:j1:run:r1"))
			require.Equal(t, session.KindCron, run.Kind())
			require.Equal(t, "r1", run.CronRun())
		},
	},
	{
		id: "K12", given: "keys of acp", expect: "both are",
		differs: "without an agent it is a short name, which becomes one", run: func(t *testing.T) {
			noKey(t, "acp:u")
			require.Equal(t, session.KindACP, resolved(t, "acp:u").Kind())
			require.Equal(t, session.KindACP, session.Must(session.Parse("agent:main:acp:u")).Kind())
		},
	},
	{id: "K13", given: "a topic of a group", expect: "the group", run: func(t *testing.T) {
		require.Equal(t, "agent:main:telegram:group:-100",
			parentOf(t, "agent:main:telegram:group:-100:topic:42"))
	}},
	{id: "K14", given: "a topic within a thread", expect: "the thread", run: func(t *testing.T) {
		require.Equal(t, "agent:main:main:thread:1", parentOf(t, "agent:main:main:thread:1:topic:2"))
	}},
	{id: "K15", given: "a thread of nothing", expect: "none", run: func(t *testing.T) {
		noKey(t, ":thread:1", "thread:1", "agent:main:thread:1")
	}},
	{id: "K16", given: "a thread of a sub-agent", expect: "depth 1", run: func(t *testing.T) {
		const text = "agent:main:subagent:abc:thread:9"
		key := session.Must(session.Parse(text))
		require.True(t, key.IsSubagent())
		require.Equal(t, 1, key.Depth())
		require.Equal(t, "agent:main:subagent:abc", parentOf(t, text))
	}},
	{
		id: "K17", given: "ids of agents that are none", expect: "made into ids",
		differs: "no text is made into another id: an error message, a path or a name in another " +
			"script would name an agent that was not meant",
		run: func(t *testing.T) {
			for _, id := range []string{"Agent not found: xyz", "../../../etc/passwd", "", "агент"} {
				key, err := session.MainKey(id)
				require.ErrorIs(t, err, session.ErrInvalidKey, "%q", id)
				require.True(t, key.IsZero(), "%q", id)
			}
			resolveAll(t, session.Aliases{Agent: ""}, "agent:main:main", "main")
		},
	},
	{
		id: "K18", given: "64 and 65 characters, _foo, a plain id", expect: "1, 0, 0, 1",
		run: func(t *testing.T) {
			for id, valid := range map[string]bool{
				strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "_foo": false,
				"my-research_agent01": true, "0": true, "-a": false,
			} {
				_, err := session.MainKey(id)
				require.Equal(t, valid, err == nil, "%q", id)
			}
		},
	},
	{
		id: "K19", given: "names of the main session", expect: "agent:ops:work",
		differs: "its one key ends with main, so that a key tells what it is without a configuration",
		run: func(t *testing.T) {
			resolveAll(t, session.Aliases{Agent: "ops", Main: "work"}, "agent:ops:main",
				"main", "MAIN", "work", "agent:ops:MAIN", "agent:ops:work")
		},
	},
	{id: "K20", given: "the scope global", expect: "global", run: func(t *testing.T) {
		resolveAll(t, session.Aliases{Agent: "ops", Main: "work", Global: true}, "global",
			"main", "work", "agent:x:main", "global")
	}},
	{id: "K21", given: "a group without an agent", expect: "the first agent's", run: func(t *testing.T) {
		resolveAll(t, session.Aliases{Agent: "ops"}, "agent:ops:discord:group:123",
			"discord:group:123")
	}},
	{id: "K22", given: "a whole key, agent x", expect: "as it is", run: func(t *testing.T) {
		resolveAll(t, session.Aliases{Agent: "x"}, "agent:main:main", "agent:main:main")
	}},
	{id: "K23", given: "scopes of a direct chat", expect: "four keys", run: func(t *testing.T) {
		for scope, want := range map[session.DirectScope]string{
			session.DirectMain:           "agent:main:main",
			session.DirectPerPeer:        "agent:main:direct:user123",
			session.DirectPerChannelPeer: "agent:main:discord:direct:user123",
			session.DirectPerAccount:     "agent:main:discord:default:direct:user123",
		} {
			key := session.Must(scope.Key("main", "discord", "default", "user123"))
			require.Equal(t, want, key.String())
		}
	}},
	{
		id: "K24", given: "a channel without an id", expect: "unknown, never main",
		differs: "it is an error: chats whose ids are missing would share one session",
		run: func(t *testing.T) {
			for _, of := range []func(agent, channel, peer string) (session.Key, error){
				session.ChannelKey, session.GroupKey, session.DirectKey,
			} {
				key, err := of("main", "discord", "")
				require.ErrorIs(t, err, session.ErrInvalidKey)
				require.True(t, key.IsZero())
			}
		},
	},
}

// recordNumberedCases are the rows about what is on record, and those about chats.
var recordNumberedCases = []numberedCase{
	{id: "K25", given: "a flat key with depth 2 on record", expect: "2", run: func(t *testing.T) {
		all := flatChain(t, 2)
		require.Equal(t, 1, all[2].Key.Depth())
		got, err := session.Trace(all[2].Key, lineageFinder(all))
		require.NoError(t, err)
		require.Equal(t, 2, got.Depth)
	}},
	{
		id: "K26", given: "three below each other", expect: "3, also by the id of the session",
		differs: "a key finds a record, and no other text does", run: func(t *testing.T) {
			all := flatChain(t, 3)
			got, err := session.Trace(all[3].Key, lineageFinder(all))
			require.NoError(t, err)
			require.Equal(t, all[3], got)
			require.Equal(t, 3, got.Depth)
		},
	},
	{
		id: "K27", given: "a session above itself, two above each other", expect: "2, 3",
		differs: "such records are corrupt: a depth that is counted from them would be made up",
		run: func(t *testing.T) {
			all := flatChain(t, 2)
			own, a, b := all[1], all[1], all[2]
			own.Parent, own.Depth = own.Key, 2
			_, err := session.Trace(own.Key, lineageFinder([]session.Lineage{own}))
			require.ErrorIs(t, err, session.ErrCorruptLineage)
			a.Parent, a.Depth = b.Key, 3
			for _, key := range []session.Key{a.Key, b.Key} {
				_, err = session.Trace(key, lineageFinder([]session.Lineage{a, b}))
				require.ErrorIs(t, err, session.ErrCorruptLineage)
				require.ErrorContains(t, err, "a cycle")
			}
		},
	},
	{
		id: "K28", given: `a depth of " 3 ", -1 and 1.5`, expect: "3, 1, 1",
		differs: "a record has a number, and one that cannot be is an error and not another depth",
		run: func(t *testing.T) {
			const record = `{"key":"agent:main:subagent:a","root":"agent:main:main",` +
				`"parent":"agent:main:main","depth":%s,"role":"leaf"}`
			for depth, valid := range map[string]bool{
				"1": true, `" 3 "`: false, `"0x2"`: false, "1.5": false, "-1": false, "0": false,
				"true": false,
			} {
				var l session.Lineage
				err := json.Unmarshal(fmt.Appendf(nil, record, depth), &l)
				require.Equal(t, valid, err == nil && l.Validate() == nil, "%s: %v", depth, err)
			}
		},
	},
	{
		id: "K29", given: "another depth, none, one of a main session", expect: "refused",
		run: func(t *testing.T) {
			all := flatChain(t, 2)
			for i, change := range map[int]func(l *session.Lineage){
				0: func(l *session.Lineage) { l.Depth = 1 },
				1: func(l *session.Lineage) { l.Depth = 0 },
				2: func(l *session.Lineage) { l.Depth = 3 },
			} {
				changed := slices.Clone(all)
				change(&changed[i])
				_, err := session.Trace(all[2].Key, lineageFinder(changed))
				require.ErrorIs(t, err, session.ErrCorruptLineage, "record %d", i)
			}
			_, err := session.Trace(all[2].Key, lineageFinder(all[:2]))
			require.ErrorIs(t, err, session.ErrNotFound, "without a record it has no depth")
		},
	},
	{id: "K30", given: "a key on record, in capitals", expect: "2", run: func(t *testing.T) {
		all := flatChain(t, 2)
		key := session.Must(session.Parse(strings.ToUpper(all[2].Key.String())))
		got, err := session.Trace(key, lineageFinder(all))
		require.NoError(t, err)
		require.Equal(t, 2, got.Depth)
	}},
	{id: "K31", given: "dm and direct", expect: "a direct chat", run: func(t *testing.T) {
		dm := session.Must(session.Parse("agent:main:telegram:dm:123"))
		require.Equal(t, session.KindDirect, dm.Kind())
		require.Equal(t, session.Must(session.DirectKey("main", "telegram", "123")), dm)
	}},
	{
		id: "K32", given: "a guild and a channel in an older form", expect: "a channel",
		differs: "a key never had that form here: it is refused, and gives no session",
		run: func(t *testing.T) {
			const text = "discord:acc-1:guild-123:channel-456"
			noKey(t, text, "agent:main:"+text)
			_, err := session.Aliases{}.Resolve(text)
			require.ErrorIs(t, err, session.ErrInvalidKey)
			key := session.Must(session.ChannelKey("main", "discord", "456"))
			require.Equal(t, session.KindChannel, key.Kind())
		},
	},
}

// Every row of the reference is driven against the public API, in its order.
func TestKeyCases(t *testing.T) {
	cases := slices.Concat(keyNumberedCases, recordNumberedCases)
	for i, c := range cases {
		require.Equal(t, fmt.Sprint("K", i+1), c.id)
		t.Run(c.id+" "+c.given, c.run)
	}
	require.Len(t, cases, 32)
}
