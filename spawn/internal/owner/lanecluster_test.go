package owner

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// sharedLanes notes what a Lane asks of the lanes of a cluster.
type sharedLanes struct {
	calls []string
	users map[string]session.LaneUser
	limit map[string]int
}

func shareLane(l *Lane) *sharedLanes {
	s := &sharedLanes{users: make(map[string]session.LaneUser), limit: make(map[string]int)}
	l.Share("p", func(name string, limit int, u session.LaneUser) session.Lane {
		s.users[name], s.limit[name] = u, limit
		return sharedLane{s, strings.TrimPrefix(name, "offshoot.")}
	})
	return s
}

// take returns what was asked for since the last call.
func (s *sharedLanes) take() string {
	defer func() { s.calls = nil }()
	return strings.Join(s.calls, ", ")
}

func (s *sharedLanes) grant(lane string, n int) {
	s.users[lane].Granted(fmt.Sprint("p/", n))
}

type sharedLane struct {
	s    *sharedLanes
	name string
}

func (l sharedLane) say(format string, args ...any) {
	l.s.calls = append(l.s.calls, l.name+" "+fmt.Sprintf(format, args...))
}

func (l sharedLane) Ask(t session.Ticket) error {
	l.say("ask %s class %d of %q provider %q", t.ID, t.Class, t.Requester, t.Provider)
	return t.Validate("")
}
func (l sharedLane) Free(id string)                         { l.say("free %s", id) }
func (l sharedLane) Pause(provider string, d time.Duration) { l.say("pause %s %v", provider, d) }
func (l sharedLane) SetLimit(limit int)                     { l.say("limit %d", limit) }

// What has a slot of this process waits for one of the cluster, in the order of this process, and
// at most as many as the limit do. A slot that is given back is given back to the cluster.
func TestSharedLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 3)
		l := NewLane(2, 1)
		l.Provider = func(*tree.Run) string { return "acme" }
		s := shareLane(l)
		require.Equal(t, map[string]int{laneOfSubagents: 2, laneOfSessions: 1}, s.limit)
		var log laneLog
		for _, name := range []string{"a1", "a2", "b1"} {
			log.want(l, name, runs[name])
		}
		require.Empty(t, s.take(), "a lane that is not open asks for nothing")
		l.Open()
		require.Equal(t, `subagents ask p/1 class 0 of "agent:a:main" provider "", `+
			`subagents ask p/2 class 0 of "agent:b:main" provider ""`, s.take())
		synctest.Wait()
		require.Empty(t, log.list())
		s.grant(laneOfSubagents, 2)
		synctest.Wait()
		require.Equal(t, "b1", log.list())
		s.grant(laneOfSubagents, 2)
		s.grant(laneOfSubagents, 7)
		l.Free(runs["b1"])
		require.Equal(t, `subagents free p/2, subagents ask p/3 class 0 of "agent:a:main" provider ""`,
			s.take())
		s.grant(laneOfSubagents, 1)
		synctest.Wait()
		s.grant(laneOfSubagents, 3)
		synctest.Wait()
		require.Equal(t, "b1 a1 a2", log.list())
		l.Free(runs["a1"])
		l.Free(runs["a2"])
		require.Equal(t, "subagents free p/1, subagents free p/3", s.take())
		require.Zero(t, l.Used())
		require.Empty(t, l.subagents.share.asked)
		require.Empty(t, l.subagents.share.held)
	})
}

// A turn that goes on waits for the cluster until it is cancelled, and gives its place back then.
func TestSharedLaneOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 1)
		l := NewLane(2, 2)
		s := shareLane(l)
		l.Open()
		done, got := make(chan struct{}), make(chan bool, 1)
		go func() { got <- l.Wait(done, runs["a"]) }()
		synctest.Wait()
		require.Equal(t, `sessions ask p/1 class 0 of "" provider ""`, s.take())
		close(done)
		require.False(t, <-got)
		require.Equal(t, "sessions free p/1", s.take())
		s.grant(laneOfSessions, 1)
		require.Zero(t, l.Used())
		go func() { got <- l.Wait(make(chan struct{}), runs["a"]) }()
		synctest.Wait()
		s.grant(laneOfSessions, 2)
		require.True(t, <-got)
		l.Free(runs["a"])
		require.Equal(t, `sessions ask p/2 class 0 of "" provider "", sessions free p/2`, s.take())
	})
}

// A session that asks again keeps its place, and gets a better one if its class is. A lane that is
// closed gives the places of turns up that would start, and keeps those that go on.
func TestSharedLaneOfStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 1)
		tr := tree.New(session.Must(session.MainKey("d")),
			&tree.Options{Rules: new(policy.Rules)})
		_, err := tr.Decide(&tree.Open{Writer: "w", SessionID: "s"}, 1)
		require.NoError(t, err)
		top := tr.Root()
		l := NewLane(2, 2)
		l.Provider = func(*tree.Run) string { return "acme" }
		s := shareLane(l)
		l.Open()
		o := new(Owner)
		require.False(t, l.ask(o, top))
		require.Equal(t, `sessions ask p/1 class 2 of "" provider "acme"`, s.take())
		require.False(t, l.ask(o, top))
		require.Empty(t, s.take(), "it has its place")
		require.Equal(t, 1, l.Used())
		_, err = tr.Decide(&tree.Post{To: top.Key(), Text: "x", ID: "1"}, 2)
		require.NoError(t, err)
		require.False(t, l.ask(o, top))
		require.Equal(t, `sessions free p/1, sessions ask p/2 class 1 of "" provider "acme"`, s.take())
		require.False(t, l.ask(o, runs["a1"]))
		require.Equal(t, `subagents ask p/1 class 0 of "agent:a:main" provider "acme"`, s.take())
		var log laneLog
		go l.Wait(nil, runs["b1"])
		synctest.Wait()
		require.NotEmpty(t, s.take())
		require.Equal(t, 3, l.Used())
		l.Close()
		require.Equal(t, "subagents free p/1, sessions free p/2", s.take())
		require.Equal(t, 1, l.Used())
		require.Empty(t, log.list())
		s.grant(laneOfSubagents, 2)
		l.Free(runs["b1"])
		require.Zero(t, l.Used())
	})
}

// A requester that waits for the cluster with several tickets gives the place of its newest one up
// for one that has none there, and has it back in front of its queue.
func TestSharedLaneIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 3)
		l := NewLane(3, 1)
		s := shareLane(l)
		l.Open()
		o := new(Owner)
		for _, name := range []string{"a1", "a2", "a3", "b1", "b2", "c1"} {
			require.False(t, l.ask(o, runs[name]))
		}
		of := func(requester string, n int) string {
			return fmt.Sprintf("subagents ask p/%d class 0 of %q provider %q", n, "agent:"+requester+":main", "")
		}
		require.Equal(t, strings.Join([]string{
			of("a", 1), of("a", 2), of("a", 3), "subagents free p/3", of("b", 4), "subagents free p/2",
			of("c", 5),
		}, ", "), s.take())
		require.Equal(t, 3, l.Used())
		for _, name := range []string{"a1", "b1", "c1"} {
			l.Free(runs[name])
		}
		require.Equal(t, strings.Join([]string{
			"subagents free p/1", of("a", 6), "subagents free p/4", of("b", 7), "subagents free p/5", of("a", 8),
		}, ", "), s.take())
		require.Equal(t, runs["a2"], l.subagents.share.asked["p/6"].run)
		require.Equal(t, runs["a3"], l.subagents.share.asked["p/8"].run)
	})
}

// A pause of a provider and the limits are those of the cluster too, and a pause of another process
// is one of this.
func TestSharedLanePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := laneTrees(t, 1)
		l := NewLane(2, 2)
		l.Provider = func(*tree.Run) string { return "acme" }
		s := shareLane(l)
		l.Open()
		now := time.Now()
		l.Pause("other", now, now.Add(time.Hour))
		require.Equal(t, "subagents pause other 10m0s, sessions pause other 10m0s", s.take())
		l.SetLimits(3, 4)
		require.Equal(t, "subagents limit 3, sessions limit 4", s.take())
		s.users[laneOfSessions].Paused("acme", time.Minute)
		require.Empty(t, s.take(), "what another process has said is not said again")
		require.False(t, l.ask(new(Owner), runs["a"]))
		require.Empty(t, s.take(), "its provider pauses")
		at, _ := l.CallAt("acme", now, time.Time{}, 0)
		require.Equal(t, now.Add(time.Minute), at)
		l.Close()
	})
}
