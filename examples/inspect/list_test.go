package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// everything returns a tree with all that a list can show.
func everything(now time.Time) spawn.TreeView {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	town := session.Must(top.Child("places", "t"))
	runs := []spawn.RunInfo{
		{
			Key: session.Must(top.Child("routes", "r")), Depth: 1, Label: "trains",
			Status: spawn.StatusOK, Started: ago(time.Hour), Ended: ago(50 * time.Minute),
		},
		{
			Key: town, Depth: 1, Label: "town",
			Status: spawn.StatusWaiting, Started: ago(90 * time.Second),
		},
		{
			Key: session.Must(town.Child("places", "s")), Depth: 2, Task: "a place\nto sleep",
			Status: spawn.StatusRunning, Started: ago(2 * time.Second),
		},
		{
			Key: session.Must(town.Child("places", "e")), Depth: 2, Label: "eat\t\v\x1b[31m",
			Status: spawn.StatusQueued,
		},
		{
			Key: session.Must(top.Child("main", "x")), Depth: 1, Label: strings.Repeat("x", 61),
			Status: spawn.StatusFailed, Started: ago(100 * time.Hour), Ended: now,
			Error: "no\nconnection",
		},
	}
	return spawn.TreeView{
		Root: top, Status: spawn.StatusRunning, Time: ago(time.Second), Epoch: 3, Total: 7,
		Due: ago(time.Second), Runs: runs,
		Unread: []spawn.Unread{
			{Session: top, Messages: 2, Completions: 1}, {Session: town, Steers: 1},
		},
		Outbox: []spawn.OutboxEntry{
			{
				Delivery: spawn.Delivery{
					Key: "s.1", Attempt: 9, To: top, Completion: &spawn.Completion{Run: runs[0]},
					Blocked: ago(26 * time.Hour), Error: "down",
				},
				Created: ago(27 * time.Hour),
			},
			{
				Delivery: spawn.Delivery{
					Key: "s.2", Attempt: 2, To: top, Reply: &spawn.Reply{Text: "hi"}, Error: "down",
				},
				Created: ago(20 * time.Second), Due: now.Add(5 * time.Second),
			},
			{
				Delivery: spawn.Delivery{
					Key: "s.3", Attempt: 1, To: top, Reply: &spawn.Reply{Text: "hi"}, Error: "not now",
				},
				Created: ago(time.Second), Due: ago(time.Second), Busy: true,
			},
			{
				Delivery: spawn.Delivery{
					Key: "s.4", Attempt: 1, To: top, Reply: &spawn.Reply{Text: "hi"},
				},
				Created: now.Add(time.Second), Due: now,
			},
			{
				Delivery: spawn.Delivery{
					Key: "s.5", Attempt: 1, To: top, Reply: &spawn.Reply{Text: "hi"},
				},
				Created: ago(time.Second), Due: ago(time.Second), After: "s.2",
			},
		},
	}
}

func TestListTree(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	v := everything(now)
	var b strings.Builder
	require.NoError(t, listTree(&b, v, now))
	var sum totals
	sum.add(v)
	sum.add(spawn.TreeView{Root: session.Must(session.MainKey("ops"))})
	b.WriteString(sum.String())
	want := `
agent:main:main: running, due now, last entry 1s ago by owner 3
  STATE    ELAPSED  RUN                                                              SESSION                             ERROR
  ok       10m0s    trains                                                           agent:routes:subagent:r
  waiting  1m30s    town                                                             agent:places:subagent:t
  running  2s         a place...                                                     agent:places:subagent:t:subagent:s
  queued   -          eat ??[31m                                                     agent:places:subagent:t:subagent:e
  failed   100h0m   XXXXX...  agent:main:subagent:x               no...
  and 2 earlier or archived runs
  unread by agent:main:main: 2 messages, 1 completion
  unread by agent:places:subagent:t: 1 steer
  DELIVERY  STATE    FOR    FAILED   NEXT       WHAT               TO               ERROR
  s.1       blocked  26h0m  8 times  -          the end of trains  agent:main:main  down
  s.2       pending  20s    1 time   in 5s      a reply            agent:main:main  down
  s.3       busy     1s     0 times  now        a reply            agent:main:main  not now
  s.4       pending  0s     0 times  now        a reply            agent:main:main
  s.5       pending  1s     0 times  after s.2  a reply            agent:main:main

2 trees, 5 runs (1 queued, 1 running, 1 waiting, 1 ok, 1 failed) and 2 earlier or archived runs, unread: 2 messages, 1 steer, 1 completion, deliveries: 4 pending, 1 blocked
while the bot does not run, -retry KEY or -dismiss KEY settles a blocked delivery
`
	want = strings.NewReplacer("XXXXX", strings.Repeat("x", 60), "??", "\uFFFD\uFFFD").Replace(want)
	assert.Equal(t, want, "\n"+b.String())
}
