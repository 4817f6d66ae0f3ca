package session_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

const (
	uuid1 = "6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"
	uuid2 = "0b6c1c1e-2e0f-4f6e-8a53-4f6c2a527d1c"
)

// A keyCase is a key and what its methods return.
type keyCase struct {
	in, out                       string // out is empty if in is canonical
	kind                          session.Kind
	agent, channel, account, peer string
	thread, id, run               string
	depth                         int
	ids                           []string
	display                       string
}

var keyCases = []keyCase{
	{in: "agent:main:main", kind: session.KindMain, agent: "main", id: "main", display: "main"},
	{
		in: "AGENT:Ops:MAIN", out: "agent:ops:main", kind: session.KindMain, agent: "ops",
		id: "main", display: "ops:main",
	},
	{
		in: "agent:main:nightly-batch", kind: session.KindNamed, agent: "main", id: "nightly-batch",
		display: "main:nightly-batch",
	},
	{
		in: "agent:main:node-1", kind: session.KindNamed, agent: "main", id: "node-1",
		display: "main:node-1",
	},
	{
		in: "agent:main:work:thread:7", kind: session.KindNamed, agent: "main", id: "work",
		thread: "7", display: "main:work:thread:7",
	},
	{
		in: "agent:main:work:topic:7", kind: session.KindNamed, agent: "main", id: "work",
		thread: "7", display: "main:work:topic:7",
	},
	{
		in: "agent:main:main:thread:1:topic:2", kind: session.KindThread, agent: "main", id: "main",
		thread: "2", display: "main:main:thread:1:topic:2",
	},
	{
		in: "agent:main:direct:alice", kind: session.KindDirect, agent: "main", peer: "alice",
		display: "main:direct:alice",
	},
	{
		in: "agent:main:telegram:direct:4711", kind: session.KindDirect, agent: "main",
		channel: "telegram", peer: "4711", display: "main:telegram:direct:4711",
	},
	{
		in: "agent:main:Telegram:DM:AbC", out: "agent:main:telegram:direct:AbC",
		kind: session.KindDirect, agent: "main", channel: "telegram", peer: "AbC",
		display: "main:telegram:direct:AbC",
	},
	{
		in: "agent:main:discord:Default:direct:u1", out: "agent:main:discord:default:direct:u1",
		kind: session.KindDirect, agent: "main", channel: "discord", account: "default", peer: "u1",
		display: "main:discord:default:direct:u1",
	},
	{
		in:  "agent:main:discord:default:dm:u1:thread:T",
		out: "agent:main:discord:default:direct:u1:thread:T", kind: session.KindDirect,
		agent: "main", channel: "discord", account: "default", peer: "u1", thread: "T",
		display: "main:discord:default:direct:u1:thread:T",
	},
	{
		in: "agent:main:telegram:group:-100:topic:42", kind: session.KindGroup, agent: "main",
		channel: "telegram", peer: "-100", thread: "42",
		display: "main:telegram:group:-100:topic:42",
	},
	{
		in:  "agent:main:matrix:CHANNEL:!Room:Example.org:THREAD:$Ev:x",
		out: "agent:main:matrix:channel:!Room:Example.org:thread:$Ev:x", kind: session.KindChannel,
		agent: "main", channel: "matrix", peer: "!Room:Example.org", thread: "$Ev:x",
		display: "main:matrix:channel:!Room:Example.org:thread:$Ev:x",
	},
	{
		in: "agent:main:discord:channel:group", kind: session.KindChannel, agent: "main",
		channel: "discord", peer: "group", display: "main:discord:channel:group",
	},
	{
		in: "agent:main:discord:group:direct:x", kind: session.KindGroup, agent: "main",
		channel: "discord", peer: "direct:x", display: "main:discord:group:direct:x",
	},
	{
		in: "agent:a:subagent:" + uuid1, kind: session.KindSubagent, agent: "a", id: uuid1,
		depth: 1, ids: []string{uuid1}, display: "a:subagent:6f1c2a52",
	},
	{
		in: "agent:a:SubAgent:" + strings.ToUpper(uuid1), out: "agent:a:subagent:" + uuid1,
		kind: session.KindSubagent, agent: "a", id: uuid1, depth: 1, ids: []string{uuid1},
		display: "a:subagent:6f1c2a52",
	},
	{
		in: "agent:a:subagent:" + uuid1 + ":subagent:" + uuid2, kind: session.KindSubagent,
		agent: "a", id: uuid2, depth: 2, ids: []string{uuid1, uuid2},
		display: "a:subagent:6f1c2a52:subagent:0b6c1c1e",
	},
	{
		in: "agent:main:spawn:abc123", kind: session.KindSubagent, agent: "main", id: "abc123",
		depth: 1, ids: []string{"abc123"}, display: "main:spawn:abc123",
	},
	{
		in: "agent:main:spawn:" + uuid1, kind: session.KindSubagent, agent: "main", id: uuid1,
		depth: 1, ids: []string{uuid1}, display: "main:spawn:" + uuid1[:8],
	},
	{
		in: "agent:main:spawn:x:subagent:y:spawn:z", kind: session.KindSubagent, agent: "main",
		id: "z", depth: 3, ids: []string{"x", "y", "z"}, display: "main:spawn:x:subagent:y:spawn:z",
	},
	{
		in: "agent:main:subagent:abc:thread:9", kind: session.KindSubagent, agent: "main",
		id: "abc", thread: "9", depth: 1, ids: []string{"abc"},
		display: "main:subagent:abc:thread:9",
	},
	{
		in: "agent:main:cron:j1", kind: session.KindCron, agent: "main", id: "j1",
		display: "main:cron:j1",
	},
	{
		in: "agent:main:cron:j1:run:r1", kind: session.KindCron, agent: "main", id: "j1", run: "r1",
		display: "main:cron:j1:run:r1",
	},
	{
		in: "agent:main:cron:j1:topic:run:run:x", kind: session.KindCron, agent: "main", id: "j1",
		thread: "run:run:x", display: "main:cron:j1:topic:run:run:x",
	},
	{
		in: "agent:main:acp:" + uuid1, kind: session.KindACP, agent: "main", id: uuid1,
		display: "main:acp:6f1c2a52",
	},
	{
		in: "AGENT:Main:Hook:Webhook:42", out: "agent:main:hook:webhook:42", kind: session.KindHook,
		agent: "main", id: "webhook:42", display: "main:hook:webhook:42",
	},
	{
		in: "agent:thread:main", kind: session.KindMain, agent: "thread", id: "main",
		display: "thread:main",
	},
	{in: "GLOBAL", out: "global", kind: session.KindGlobal, display: "global"},
}

func TestKeys(t *testing.T) {
	for _, c := range keyCases {
		t.Run(c.in, func(t *testing.T) {
			k, err := session.Parse(c.in)
			require.NoError(t, err)
			if c.out == "" {
				c.out = c.in
			}
			chat, thread, threaded := k.CutThread()
			assert.Equal(t, c.out, k.String())
			assert.Equal(t, c.kind, k.Kind())
			assert.Equal(t, c.agent, k.Agent())
			assert.Equal(
				t, []string{c.channel, c.account, c.peer},
				[]string{k.Channel(), k.Account(), k.Peer()},
			)
			assert.Equal(
				t, []string{c.thread, c.id, c.run}, []string{k.ThreadID(), k.ID(), k.CronRun()},
			)
			assert.Equal(t, c.ids, slices.Collect(k.IDs()))
			assert.Equal(t, c.depth, k.Depth())
			assert.Equal(t, c.kind == session.KindSubagent, k.IsSubagent())
			assert.Equal(t, c.kind == session.KindMain, k.IsMain())
			assert.Equal(t, c.display, k.Display())
			assert.True(t, k.IsValid())
			assert.Equal(t, c.thread, thread)
			assert.Equal(t, c.thread != "", threaded)
			if threaded {
				assert.Contains(
					t,
					[]session.Key{
						session.Must(chat.Thread(thread)), session.Must(chat.Topic(thread)),
					},
					k,
				)
			} else {
				assert.Equal(t, k, chat)
			}
			checkKey(t, k)
		})
	}
}

// checkKey checks what holds for every key that is not zero.
func checkKey(t *testing.T, k session.Key) {
	t.Helper()
	again, err := session.Parse(k.String())
	require.NoError(t, err)
	assert.Equal(t, k, again, "a key parses to itself")
	assert.LessOrEqual(t, len(k.String()), session.MaxKeyLen)
	assert.True(t, utf8.ValidString(k.String()))

	text, err := k.MarshalText()
	require.NoError(t, err)
	var back session.Key
	require.NoError(t, back.UnmarshalText(text))
	assert.Equal(t, k, back)

	// A search for the words in the text finds the same sub-agents.
	n := strings.Count(k.String(), ":subagent:") + strings.Count(k.String(), ":spawn:")
	assert.Equal(t, n, k.Depth())
	assert.Equal(t, n > 0, k.IsSubagent())
	assert.Equal(t, k.IsSubagent(), session.IsSubagentSession(k.String()))
	assert.Len(t, slices.Collect(k.IDs()), k.Depth())
	assert.NotContains(t, k.String(), "\n")
}

func TestKeyErrors(t *testing.T) {
	long := "agent:main:telegram:group:" + strings.Repeat("x", session.MaxKeyLen)
	for _, c := range []struct {
		in     string
		at     int
		reason string
	}{
		{"", 0, `does not start with "agent:"`},
		{"main", 0, `does not start with "agent:"`},
		{" agent:main:main", 0, `does not start with "agent:"`},
		{"subagent:x", 0, `does not start with "agent:"`},
		{"unknown", 0, `does not start with "agent:"`},
		{session.BindingsRoot().String(), 0, `does not start with "agent:"`},
		{"global:x", 6, "the global session has no parts"},
		{"agent", 5, "missing segment"},
		{"agent:main", 10, "missing segment"},
		{"agent:", 6, "empty segment"},
		{"agent::broken", 6, "empty segment"},
		{"agent::a:b", 6, "empty segment"},
		{"agent:main:", 11, "empty segment"},
		{"agent: main :x", 6, "invalid agent id: want a letter or digit, then letters, digits, - and _"},
		{"agent:_foo:main", 6, "invalid agent id: want a letter or digit, then letters, digits, - and _"},
		{"agent:агент:main", 6, "invalid agent id: want a letter or digit, then letters, digits, - and _"},
		{"agent:a/b:main", 7, "invalid agent id: want a letter or digit, then letters, digits, - and _"},
		{"agent:" + strings.Repeat("a", 65) + ":main", 70, "invalid agent id: longer than 64 bytes"},
		{"agent:subagent:main", 6, "reserved word"},
		{"agent:Spawn:main", 6, "reserved word"},
		{"agent:main:main ", 15, "invalid character: want a letter or digit, then letters, digits and any of ._-~@+="},
		{"agent:main:sub\u200bagent:x", 11 + 3, "invalid character: want a letter or digit, then letters, digits and any of ._-~@+="},
		{"agent:main:main:x", 16, "unexpected segment"},
		{"agent:main:..", 11, "invalid character: want a letter or digit, then letters, digits and any of ._-~@+="},
		{"agent:main:unknown", 11, "reserved word"},
		{"agent:main:group", 11, "reserved word"},
		{"agent:main:agent:ops:main", 11, "reserved word"},
		{"agent:main:subagent", 19, "missing segment"},
		{"agent:main:subagent:", 20, "empty segment"},
		{"agent:main:subagent::x", 20, "empty segment"},
		{"agent:main:subagent:subagent:x", 20, "reserved word"},
		{"agent:main:subagent:a:b", 22, "unexpected segment"},
		{"agent:main:subagent:a:subagent", 30, "missing segment"},
		{"agent:main:cron:topic", 16, "reserved word"},
		{"agent:main:acp:thread", 15, "reserved word"},
		{"agent:main:cron:j:subagent:x", 18, "unexpected segment"},
		{"agent:main:cron:j:run", 21, "missing segment"},
		{"agent:main:cron:j:run:r:x", 24, "unexpected segment"},
		{"agent:main:hook:a:subagent:x", 18, "reserved word"},
		{"agent:main:acp", 14, "missing segment"},
		{"agent:main:main:thread:", 23, "empty segment"},
		{"agent:main:main:thread", 22, "missing segment"},
		{"agent:main:telegram:group", 25, "missing segment"},
		{"agent:main:telegram:group:", 26, "empty segment"},
		{"agent:main:telegram:group:a::b", 28, "empty segment"},
		{"agent:main:telegram:group:a b", 27, "space"},
		{"agent:main:telegram:group:a\u00a0b", 27, "space"},
		{"agent:main:telegram:group:a\nb", 27, "space"},
		{"agent:main:telegram:group:a\x00b", 27, "control or format character"},
		{"agent:main:telegram:group:a\u202eb", 27, "control or format character"},
		{"agent:main:telegram:group:a\xffb", 27, "invalid UTF-8"},
		{"agent:main:telegram:group:thread:1", 26, "reserved word"},
		{"agent:main:discord:channel:c1:subagent:x", 30, "reserved word"},
		{"agent:main:discord:channel:c1:\u017fUBAGENT:x", 30, "reserved word"},
		{"agent:main:discord:slash:7", 19, "unknown shape"},
		{"agent:main:batch:2026", 17, "unknown shape"},
		{"agent:main:discord:a:b:direct:x", 19, "unknown shape"},
		{long, session.MaxKeyLen, "longer than 1024 bytes"},
	} {
		k, err := session.Parse(c.in)
		var bad *session.KeyError
		require.ErrorAs(t, err, &bad, "%q", c.in)
		assert.Equal(t, session.KeyError{Key: c.in, Offset: c.at, Reason: c.reason}, *bad)
		assert.ErrorIs(t, err, session.ErrInvalidKey)
		assert.True(t, k.IsZero())
		assert.Less(t, len(err.Error()), 400, "an error repeats what it got, but not all of it")
		if c.in != "main" {
			assert.True(
				t, session.IsSubagentSession(c.in), "what is not a key is trusted least: %q", c.in,
			)
		}
	}
	// The word dm becomes direct, which is longer.
	dm := "agent:main:telegram:dm:"
	_, err := session.Parse(dm + strings.Repeat("x", session.MaxKeyLen-len(dm)))
	assert.ErrorIs(t, err, session.ErrInvalidKey)
	_, err = session.Parse(
		"agent:main:telegram:group:" + strings.Repeat(
			"x", session.MaxKeyLen-len("agent:main:telegram:group:"),
		),
	)
	assert.NoError(t, err)
}

func TestZeroKey(t *testing.T) {
	for _, k := range []session.Key{
		{},
		session.BindingsRoot(), session.RepairsRoot(), session.DeliveredRoot(),
		session.FarewellsRoot(), session.ConversationRoot(session.Route{Channel: "c", To: "1"}),
	} {
		assert.False(t, k.IsValid())
		assert.Equal(t, session.KindInvalid, k.Kind())
		assert.Empty(t, k.Agent()+k.Channel()+k.Account()+k.Peer()+k.ThreadID()+k.ID()+k.CronRun())
		assert.Zero(t, k.Depth())
		assert.Empty(t, slices.Collect(k.IDs()))
		_, err := k.Child("main", "x")
		require.ErrorIs(t, err, session.ErrInvalidKey)
		_, err = k.Thread("x")
		require.ErrorIs(t, err, session.ErrInvalidKey)
		assert.True(t, k.Route().IsZero())
	}
	assert.True(t, session.Key{}.IsZero())
	assert.False(t, session.BindingsRoot().IsZero())

	var k session.Key
	require.NoError(t, json.Unmarshal([]byte(`""`), &k))
	assert.True(t, k.IsZero())
	assert.Error(t, json.Unmarshal([]byte(`"main"`), &k))
	root, err := session.ParseRoot(session.BindingsRoot().String())
	require.NoError(t, err)
	assert.Equal(t, session.BindingsRoot(), root)
	root, err = session.ParseRoot("agent:main:main")
	require.NoError(t, err)
	assert.Equal(t, session.Must(session.MainKey("main")), root)
	assert.Panics(t, func() { session.Must(session.Parse("main")) })
}

// The reserved roots are read back from their texts. Each conversation has one of its own.
func TestReservedRoots(t *testing.T) {
	seen := make(map[session.Key]session.Route)
	parts := []string{"", "a", "b", "a\x00", "\x00a"}
	for n := range len(parts) * len(parts) * len(parts) * len(parts) {
		part := func(i int) string { return parts[n/[...]int{1, 5, 25, 125}[i]%len(parts)] }
		r := session.Route{Channel: part(0), Account: part(1), To: part(2), Thread: part(3)}
		key := session.ConversationRoot(r)
		require.NotContains(t, seen, key, "%+v", r)
		seen[key] = r
		got, err := session.ParseRoot(key.String())
		require.NoError(t, err)
		require.Equal(t, key, got)
		_, err = session.Parse(key.String())
		require.ErrorIs(t, err, session.ErrInvalidKey)
	}
	require.Equal(t, session.ConversationRoot(session.Route{Channel: "c", To: "1"}),
		session.ConversationRoot(session.Route{Channel: " C", To: "1 "}))
	for _, key := range []session.Key{
		session.BindingsRoot(), session.RepairsRoot(), session.DeliveredRoot(),
		session.FarewellsRoot(),
	} {
		got, err := session.ParseRoot(key.String())
		require.NoError(t, err)
		require.Equal(t, key, got)
	}
	one := session.ConversationRoot(session.Route{}).String()
	for _, text := range []string{
		one + "0", one[:len(one)-1], one[:len(one)-1] + "G", "offshoot:conversation:", "offshoot:x",
	} {
		_, err := session.ParseRoot(text)
		require.ErrorIs(t, err, session.ErrInvalidKey, text)
	}
}

func TestConstructors(t *testing.T) {
	sub := session.Must(session.Parse("agent:main:subagent:a:subagent:b"))
	for want, got := range map[string]session.Key{
		"agent:main:main":                            session.Must(session.MainKey("Main")),
		"agent:main:nightly":                         session.Must(session.NamedKey("main", "Nightly")),
		"agent:main:direct:Alice":                    session.Must(session.DirectPeerKey("main", "Alice")),
		"agent:main:telegram:direct:Alice":           session.Must(session.DirectKey("main", "Telegram", "Alice")),
		"agent:main:matrix:direct:@a:b.org":          session.Must(session.DirectKey("main", "matrix", "@a:b.org")),
		"agent:main:discord:acc:direct:Alice":        session.Must(session.DirectAccountKey("main", "discord", "Acc", "Alice")),
		"agent:main:telegram:group:-1":               session.Must(session.GroupKey("main", "telegram", "-1")),
		"agent:main:slack:channel:C1":                session.Must(session.ChannelKey("main", "slack", "C1")),
		"agent:main:cron:job":                        session.Must(session.CronKey("main", "Job")),
		"agent:main:cron:job:run:1":                  session.Must(session.CronRunKey("main", "job", "1")),
		"agent:main:acp:x":                           session.Must(session.ACPKey("main", "x")),
		"agent:main:hook:gmail:42":                   session.Must(session.HookKey("main", "gmail:42")),
		"global":                                     session.GlobalKey(),
		"agent:main:main:thread:1":                   session.Must(session.Must(session.MainKey("main")).Thread("1")),
		"agent:main:main:topic:1":                    session.Must(session.Must(session.MainKey("main")).Topic("1")),
		"agent:ops:subagent:x":                       session.Must(session.Must(session.MainKey("main")).Child("ops", "X")),
		"agent:ops:subagent:y":                       session.Must(session.Must(session.CronKey("main", "job")).Child("ops", "y")),
		"agent:ops:subagent:z":                       session.Must(session.GlobalKey().Child("ops", "z")),
		"agent:ops:subagent:a:subagent:b:subagent:c": session.Must(session.Must(sub.Thread("9")).Child("ops", "c")),
		"agent:ops:subagent:s:subagent:w":            session.Must(session.Must(session.Parse("agent:main:spawn:s")).Child("ops", "w")),
	} {
		assert.Equal(t, want, got.String())
		checkKey(t, got)
	}
	deep := session.Must(session.MainKey("main"))
	for range 5 {
		deep = session.Must(deep.Child("main", session.NewID()))
	}
	assert.Equal(t, 5, deep.Depth())
	for next, err := deep, error(nil); err == nil; next, err = deep.Child("main", session.NewID()) {
		deep = next
	}
	assert.Equal(
		t, (session.MaxKeyLen-len("agent:main"))/len(":subagent:"+uuid1), deep.Depth(),
		"as deep as a key may be",
	)
}

// A constructor never makes a key that means something else than what it was asked for, and names
// the part that cannot stand.
func TestConstructorsRefuse(t *testing.T) {
	main := session.Must(session.MainKey("main"))
	long := strings.Repeat("x", session.MaxKeyLen)
	for _, c := range []struct {
		what, part string
		offset     int
		make       func() (session.Key, error)
	}{
		{"no agent", "agent", 0, func() (session.Key, error) { return session.MainKey("") }},
		{"bad agent", "agent", 1, func() (session.Key, error) { return session.MainKey("a:main") }},
		{"long agent", "agent", 64, func() (session.Key, error) { return session.MainKey(long) }},
		{"reserved agent", "agent", 0, func() (session.Key, error) { return session.MainKey("subagent") }},
		{"no name", "name", 0, func() (session.Key, error) { return session.NamedKey("main", "") }},
		{"main by name", "name", 0, func() (session.Key, error) { return session.NamedKey("main", "MAIN") }},
		{"parts in a name", "name", 8, func() (session.Key, error) {
			return session.NamedKey("main", "subagent:x")
		}},
		{"no peer", "peer", 0, func() (session.Key, error) {
			return session.DirectKey("main", "telegram", "")
		}},
		{"no channel", "channel", 0, func() (session.Key, error) {
			return session.DirectKey("main", "", "alice")
		}},
		{"channel is a word", "channel", 0, func() (session.Key, error) {
			return session.DirectKey("main", "direct", "alice")
		}},
		{"thread in a peer", "peer", 2, func() (session.Key, error) {
			return session.DirectKey("main", "telegram", "a:thread:1")
		}},
		{"sub-agent in a peer", "peer", 2, func() (session.Key, error) {
			return session.GroupKey("main", "telegram", "a:subagent:1")
		}},
		{"space", "peer", 1, func() (session.Key, error) {
			return session.GroupKey("main", "telegram", "a b")
		}},
		{"account is a word", "account", 0, func() (session.Key, error) {
			return session.DirectAccountKey("main", "telegram", "Group", "alice")
		}},
		{"no account", "account", 0, func() (session.Key, error) {
			return session.DirectAccountKey("main", "telegram", "", "alice")
		}},
		{"two parts of a job", "job", 1, func() (session.Key, error) {
			return session.CronKey("main", "a:run:b")
		}},
		{"no run", "run", 0, func() (session.Key, error) { return session.CronRunKey("main", "a", "") }},
		{"bad external id", "id", 0, func() (session.Key, error) { return session.ACPKey("main", "-") }},
		{"empty part of a hook", "id", 2, func() (session.Key, error) {
			return session.HookKey("main", "a::b")
		}},
		{"no thread", "thread", 0, func() (session.Key, error) { return main.Thread("") }},
		{"thread of global", "chat", 0, func() (session.Key, error) {
			return session.GlobalKey().Thread("1")
		}},
		{"topic in a thread id", "thread", 2, func() (session.Key, error) { return main.Thread("1:topic:2") }},
		{"no id", "id", 0, func() (session.Key, error) { return main.Child("main", "") }},
		{"two parts of an id", "id", 1, func() (session.Key, error) {
			return main.Child("main", "a:subagent:b")
		}},
		{"child of a bad agent", "agent", 0, func() (session.Key, error) { return main.Child("", "a") }},
		{"child of no session", "parent", 0, func() (session.Key, error) {
			return session.Key{}.Child("main", "a")
		}},
		{"unknown scope", "scope", 0, func() (session.Key, error) {
			return session.DirectScope(9).Key("main", "telegram", "", "alice")
		}},
		{"a chat without a peer", "peer", 0, func() (session.Key, error) {
			return session.DirectPerPeer.Key("main", "telegram", "", "")
		}},
		{"a chat without an account", "account", 0, func() (session.Key, error) {
			return session.DirectPerAccount.Key("main", "telegram", "", "alice")
		}},
		{"more than fits", "", session.MaxKeyLen, func() (session.Key, error) {
			return session.GroupKey("main", "telegram", long)
		}},
		{"a thread beyond it", "", session.MaxKeyLen, func() (session.Key, error) { return main.Thread(long) }},
	} {
		got, err := c.make()
		assert.True(t, got.IsZero(), "%s: %q", c.what, got)
		require.ErrorIs(t, err, session.ErrInvalidKey, c.what)
		bad, ok := errors.AsType[*session.KeyError](err)
		require.True(t, ok, c.what)
		assert.Equal(t, c.part, bad.Part, c.what)
		assert.Equal(t, c.offset, bad.Offset, "%s: %v", c.what, err)
		assert.NotEmpty(t, bad.Reason, c.what)
		assert.Panics(t, func() { session.Must(c.make()) }, c.what)
	}
	_, err := session.DirectKey("main", "telegram", "a b")
	assert.EqualError(t, err, `session: invalid peer of a key "a b": at byte 1: space`)
}

func TestSubagentDetection(t *testing.T) {
	for in, want := range map[string]bool{
		"agent:main:subagent:abc":      true,
		"":                             true,
		"anything":                     true,
		"agent:main:main":              false,
		"agent:main:telegram:group:-1": false,
		"agent:main:cron:j":            false,
		"agent:main:acp:u":             false,
		"main":                         false,
		"MAIN":                         false,
		" main":                        true,
		"global":                       false,
	} {
		assert.Equal(t, want, session.IsSubagentSession(in), "%q", in)
	}
	for label, want := range map[string]bool{
		"subagent:research": true, "Subagent:x": true, "  subagent : x": true, "subagent:": true,
		"subagent": false, "": false, "research": false, "my subagent:x": false,
	} {
		assert.Equal(t, want, session.IsSubagentByLabel(label), "%q", label)
	}
}

func TestAliases(t *testing.T) {
	work := session.Aliases{Agent: "ops", Main: "Work"}
	global := session.Aliases{Agent: "ops", Main: "work", Global: true}
	for _, c := range []struct {
		aliases session.Aliases
		in      string
		want    string
	}{
		{work, "agent:x:work", "agent:x:main"},
		{work, "agent:ops:work:thread:1", "agent:ops:work:thread:1"},
		{global, "telegram:group:1", "agent:ops:telegram:group:1"},
		{session.Aliases{}, "main", "agent:main:main"},
		{session.Aliases{}, "main:thread:1", "agent:main:main:thread:1"},
		{session.Aliases{}, "work", "agent:main:work"},
		{session.Aliases{}, "subagent:x", "agent:main:subagent:x"},
		{session.Aliases{Main: "main"}, "main", "agent:main:main"},
	} {
		k, err := c.aliases.Resolve(c.in)
		require.NoError(t, err, c.in)
		assert.Equal(t, c.want, k.String(), "%q by %+v", c.in, c.aliases)
	}
	for in, at := range map[string]int{
		"": 0, "agent:main": 10, "agent": 5, "agent::broken": 6, "unknown": 0, "telegram:group:": 15, "a b": 1, "main:x": 5,
	} {
		k, err := session.Aliases{}.Resolve(in)
		var bad *session.KeyError
		require.ErrorAs(t, err, &bad, "%q", in)
		assert.Equal(t, in, bad.Key)
		assert.Equal(t, at, bad.Offset, "%q: %v", in, err)
		assert.True(t, k.IsZero(), "no fallback to main")
	}
	assert.ErrorContains(t, session.Aliases{Agent: "a b"}.Validate(), `agent "a b"`)
	assert.ErrorContains(t, session.Aliases{Main: "cron"}.Validate(), `main "cron"`)
	_, err := session.Aliases{Main: "a:b"}.Resolve("main")
	assert.Error(t, err)
}

func TestNoAllocations(t *testing.T) {
	keys := make([]session.Key, 0, len(keyCases))
	for _, c := range keyCases {
		keys = append(keys, session.Must(session.Parse(c.in)))
	}
	for _, k := range keys {
		s := k.String()
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			if parsed, err := session.Parse(s); err != nil || parsed != k {
				panic(s)
			}
		}), "Parse(%q)", s)
		n := 0
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			_, thread, _ := k.CutThread()
			n += len(
				k.Agent(),
			) + len(
				k.Channel(),
			) + len(
				k.Account(),
			) + len(
				k.Peer(),
			) + len(
				k.ID(),
			) + len(
				k.CronRun(),
			) + len(
				thread,
			)
			n += int(k.Kind()) + k.Depth()
			for id := range k.IDs() {
				n += len(id)
			}
			if k.IsSubagent() && k.IsMain() || !k.IsValid() || k.Route().Thread == "none" {
				n++
			}
		}), "methods of %q", s)
	}
	assert.LessOrEqual(
		t, testing.AllocsPerRun(10, func() { _ = session.Must(keys[0].Child("ops", uuid1)) }), 1.0,
	)
}

func TestWords(t *testing.T) {
	type word interface {
		String() string
		MarshalText() ([]byte, error)
	}
	check := func(n int, of func(int) word, back func([]byte) (word, error)) {
		seen := make(map[string]bool)
		for i := range n {
			w := of(i)
			text, err := w.MarshalText()
			require.NoError(t, err)
			assert.Equal(t, w.String(), string(text))
			assert.False(t, seen[w.String()])
			seen[w.String()] = true
			got, err := back(text)
			require.NoError(t, err)
			assert.Equal(t, w, got)
		}
		_, err := of(n).MarshalText()
		assert.Error(t, err)
		assert.Contains(t, of(n).String(), "(")
		_, err = back([]byte("nonsense"))
		assert.ErrorContains(t, err, `"nonsense"`)
	}
	check(12, func(i int) word { return session.Kind(i) }, backTo[session.Kind, word])
	check(4, func(i int) word { return session.Role(i) }, backTo[session.Role, word])
	check(4, func(i int) word { return session.DirectScope(i) }, backTo[session.DirectScope, word])
}

// backTo returns the T whose word is text, as a W.
func backTo[T, W any, P interface {
	*T
	UnmarshalText(text []byte) error
}](text []byte) (W, error) {
	var v T
	err := P(&v).UnmarshalText(text)
	return any(v).(W), err
}

// C14: rooms may be called by most words of the grammar: the kind of a key goes by their places.
// The four words that other readers look for anywhere are refused, and never give the zero Key
// without an error.
func TestRoomsCalledByWords(t *testing.T) {
	for name := range strings.FieldsSeq("cron acp main hook run agent direct group global #subagent") {
		type maker = func(agent, channel, peer string) (session.Key, error)
		for kind, made := range map[session.Kind]maker{
			session.KindGroup: session.GroupKey, session.KindChannel: session.ChannelKey,
			session.KindDirect: session.DirectKey,
		} {
			key, err := made("main", "irc", name)
			require.NoError(t, err, name)
			require.Equal(t, kind, key.Kind(), name)
			require.Equal(t, name, key.Peer())
			require.False(t, key.IsSubagent())
			again, err := session.Parse(key.String())
			require.NoError(t, err)
			require.Equal(t, key, again)
		}
	}
	for name := range strings.FieldsSeq("subagent SPAWN thread topic") {
		_, err := session.GroupKey("main", "irc", name)
		bad, ok := errors.AsType[*session.KeyError](err)
		require.True(t, ok, name)
		require.Equal(t, session.KeyError{Key: name, Part: "peer", Reason: "reserved word"}, *bad)
	}
}
