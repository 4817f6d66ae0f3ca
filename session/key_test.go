package session_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

func TestParseShapes(t *testing.T) {
	for _, c := range []struct {
		in, out string
		kind    session.Kind
		agent   string
		depth   int
	}{
		{"agent:main:main", "", session.KindMain, "main", 0},
		{"AGENT:Main:Hook:Webhook:42", "agent:main:hook:webhook:42", session.KindHook, "main", 0},
		{"agent:main:subagent:abc:subagent:def", "", session.KindSubagent, "main", 2},
		{"agent:main:spawn:abc123", "", session.KindSubagent, "main", 1},
		{"agent:main:telegram:dm:123", "agent:main:telegram:direct:123", session.KindDirect, "main", 0},
		{"agent:main:Telegram:GROUP:AbC", "agent:main:telegram:group:AbC", session.KindGroup, "main", 0},
		{"global", "", session.KindGlobal, "", 0},
	} {
		k, err := session.Parse(c.in)
		require.NoError(t, err)
		if c.out == "" {
			c.out = c.in
		}
		assert.Equal(t, c.out, k.String())
		assert.Equal(t, c.kind, k.Kind())
		assert.Equal(t, c.agent, k.Agent())
		assert.Equal(t, c.depth, k.Depth())
	}
	_, err := session.Parse("agent:main:subagent:")
	assert.EqualError(t, err, `session: invalid key "agent:main:subagent:": at byte 20: empty segment`)
}
