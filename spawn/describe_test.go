package spawn_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// TestDescribe describes one entry of every kind that a journal may hold.
func TestDescribe(t *testing.T) {
	const child = "agent:main:subagent:x"
	for _, c := range []struct{ entry, want string }{
		{`{"v":1,"kind":"opened","at":1,"num":2,"text":"w1"}`, `opened: epoch 2 by w1`},
		{`{"v":1,"kind":"admitted","at":1,"spec":{"id":"1","key":"` + child + `","parent":"agent:main:main","task":"count","agent":"main","role":"leaf","depth":1,"model":"a/b","tools":["read"],"timeout":60000000000,"announce":true,"spawnKey":"k","sandboxed":true}}`, `admitted ` + child + `: "count" for agent:main:main as leaf of main, key k, model a/b, tools read, in a sandbox, timeout 1m0s, announced`},
		{`{"v":1,"kind":"posted","at":1,"run":"` + child + `","class":2,"ord":2,"id":"m","text":"faster","from":"agent:main:main"}`, `posted to ` + child + `: control input 2 "faster", id m, from agent:main:main`},
		{`{"v":1,"kind":"turn_started","at":1,"run":"` + child + `","n":1,"ord":2,"until":60000000001,"budget":{"tokens":5,"micros":250000,"turns":1}}`, `turn 1 of ` + child + ` started: inputs up to 2, out of time in 1m0s, reserves 5 tokens, reserves 0.25 dollars`},
		{`{"v":1,"kind":"taken","at":1,"run":"` + child + `","n":1,"ord":3}`, `turn 1 of ` + child + ` took inputs up to 3`},
		{`{"v":1,"kind":"turn_ended","at":1,"run":"` + child + `","n":1,"state":5,"flags":24,"answer":{"text":"42","usage":{"input":3,"output":4}},"join":{"need":1,"left":3,"good":0}}`, `turn 1 of ` + child + ` ended ok, "42", used 7 tokens, silent, takes back what it said before, waits for 3 children, 1 well`},
		{`{"v":1,"kind":"turn_ended","at":1,"run":"` + child + `","n":1,"state":8,"flags":32}`, `turn 1 of ` + child + ` ended cancelled, given up`},
		{`{"v":1,"kind":"turn_ended","at":1,"run":"` + child + `","n":1,"state":9,"flags":128}`, `turn 1 of ` + child + ` ended interrupted, its process is gone`},
		{`{"v":1,"kind":"halted","at":1,"run":"` + child + `","n":1,"until":10000000001}`, `turn 1 of ` + child + ` interrupted, given up in 10s`},
		{`{"v":1,"kind":"stop_requested","at":1,"run":"` + child + `","cause":3,"flags":1,"text":"enough"}`, child + ` is to end: stopped, "enough", quietly`},
		{`{"v":1,"kind":"run_ended","at":1,"run":"` + child + `","state":5}`, child + ` ended ok, nobody is told`},
		{`{"v":1,"kind":"run_ended","at":1,"run":"` + child + `","state":6,"flags":2}`, child + ` ended failed, its requester is told`},
		{`{"v":1,"kind":"run_ended","at":1,"run":"` + child + `","state":7,"flags":6}`, child + ` ended timed_out, told through the outbox`},
		{`{"v":1,"kind":"recovered","at":1,"run":"agent:main:main"}`, `agent:main:main recovered`},
		{`{"v":1,"kind":"delivered","at":1,"ord":3}`, `entry 3 delivered`},
		{`{"v":1,"kind":"deferred","at":1,"ord":3,"n":1,"until":15000000001,"text":"not now"}`, `entry 3 deferred, due in 15s, busy, "not now"`},
		{`{"v":1,"kind":"blocked","at":1,"ord":3,"text":"down"}`, `entry 3 blocked, "down"`},
		{`{"v":1,"kind":"revived","at":1,"ord":3}`, `entry 3 revived`},
		{`{"v":1,"kind":"dismissed","at":1,"ord":3}`, `entry 3 dismissed`},
		{`{"v":1,"kind":"redirected","at":1,"ord":3}`, `entry 3 redirected`},
		{`{"v":1,"kind":"archived","at":1,"run":"` + child + `"}`, child + ` archived`},
		{`{"v":1,"kind":"late","at":1,"run":"` + child + `","n":1,"text":"` + strings.Repeat("x", 100) + `"}`, `turn 1 of ` + child + ` came late: "` + strings.Repeat("x", 60) + `..."`},
		{`{"v":1,"kind":"reserved","at":1,"run":"` + child + `","n":1,"budget":{"tokens":5}}`, `turn 1 of ` + child + `, reserves 5 tokens`},
		{`{"v":1,"kind":"snapshot","at":1,"image":{"epoch":2,"total":1,"runs":[]}}`, `snapshot, epoch 2, 0 sessions, 0 entries in the outbox`},
	} {
		got := spawn.Describe(session.Entry{Seq: 7, Payload: session.Raw(c.entry)})
		require.Equal(t, "7 1970-01-01T00:00:00.000Z "+c.want, got)
	}
	require.Contains(t, spawn.Describe(session.Entry{Seq: 8, Payload: session.Raw(`{"v":9,"kind":"opened"}`)}), "8 spawn: journal holds a fact of version 9")
}
