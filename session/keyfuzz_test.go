package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

func FuzzParse(f *testing.F) {
	for _, c := range keyCases {
		f.Add(c.in)
	}
	for _, s := range []string{"", "main", "agent:main:sub\u200bagent:x", "agent:main:discord:channel:c1:subagent:x", "agent::a:b", "agent:main:subagent:subagent:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := session.Parse(s)
		if err != nil {
			var bad *session.KeyError
			require.ErrorAs(t, err, &bad)
			assert.True(
				t, 0 <= bad.Offset && bad.Offset <= len(s), "offset %d of %q", bad.Offset, s,
			)
			assert.NotEmpty(t, bad.Reason)
			assert.True(t, k.IsZero())
			assert.Equal(t, !strings.EqualFold(s, "main"), session.IsSubagentSession(s))
			return
		}
		checkKey(t, k)
		// Letter case does not change what rights depend on.
		if upper, err := session.Parse(asciiUpper(s)); assert.NoError(t, err) {
			assert.Equal(t, k.Kind(), upper.Kind())
			assert.Equal(t, k.Depth(), upper.Depth())
			assert.Equal(t, k.Agent(), upper.Agent())
		}
		// A key with a marker anywhere in its text is that of a sub-agent.
		folded := strings.ToLower(s)
		assert.Equal(
			t, strings.Contains(folded, ":subagent:") || strings.Contains(folded, ":spawn:"),
			k.IsSubagent(),
		)
		// A key with space around it is not a key.
		for _, spaced := range []string{" " + s, s + " ", s + "\n", "\t" + s, s + "\u200b"} {
			_, err := session.Parse(spaced)
			assert.Error(t, err, "%q", spaced)
		}
	})
}

// asciiUpper returns s with its lower-case letters of ASCII in capitals.
func asciiUpper(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

func FuzzConstructors(f *testing.F) {
	f.Add("main", "telegram", "acc", "Alice", "1")
	f.Add("Main", "group", "direct", "@a:b.org", "$e:v")
	f.Add("subagent", "thread", "", "a:thread:b", "")
	f.Fuzz(func(t *testing.T, agent, channel, account, peer, thread string) {
		for kind, build := range map[session.Kind]func() (session.Key, error){
			session.KindDirect: func() (session.Key, error) {
				return session.DirectAccountKey(agent, channel, account, peer)
			},
			session.KindGroup: func() (session.Key, error) {
				return session.GroupKey(agent, channel, peer)
			},
			session.KindChannel: func() (session.Key, error) {
				return session.ChannelKey(agent, channel, peer)
			},
		} {
			k, err := build()
			if !keyMade(t, k, err) {
				continue
			}
			checkKey(t, k)
			assert.Equal(t, kind, k.Kind())
			assert.Equal(t, strings.ToLower(agent), k.Agent())
			assert.Equal(t, strings.ToLower(channel), k.Channel())
			assert.Equal(t, peer, k.Peer())
			assert.Empty(t, k.ThreadID())
			if kind == session.KindDirect {
				assert.Equal(t, strings.ToLower(account), k.Account())
			}
			if in, err := k.Thread(thread); keyMade(t, in, err) {
				checkKey(t, in)
				assert.Equal(t, thread, in.ThreadID())
				assert.Equal(t, peer, in.Peer())
				assert.Equal(t, kind, in.Kind())
			}
		}
		child, err := session.Must(session.MainKey("main")).Child(agent, peer)
		if keyMade(t, child, err) {
			checkKey(t, child)
			assert.Equal(t, strings.ToLower(peer), child.ID())
			assert.Equal(t, 1, child.Depth())
			assert.Equal(t, 2, session.Must(child.Child(agent, "x")).Depth())
		}
		if named, err := session.NamedKey(agent, peer); keyMade(t, named, err) {
			checkKey(t, named)
			assert.Equal(t, session.KindNamed, named.Kind())
		}
		if hook, err := session.HookKey(agent, peer); keyMade(t, hook, err) {
			checkKey(t, hook)
			assert.Equal(t, session.KindHook, hook.Kind())
		}
	})
}

// keyMade reports whether a constructor made a key. A key and an error never come together, and the
// error is always one of a key.
func keyMade(t *testing.T, k session.Key, err error) bool {
	t.Helper()
	if err == nil {
		assert.True(t, k.IsValid())
		return true
	}
	assert.True(t, k.IsZero())
	assert.ErrorIs(t, err, session.ErrInvalidKey)
	return false
}
