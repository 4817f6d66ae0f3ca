package lease

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func key(name string) session.Key { return session.Must(session.Parse("agent:main:" + name)) }

func all(session.Process) bool { return true }

// A lease lasts until the instant of its end, and not at it.
func TestEndOfALease(t *testing.T) {
	s := NewState(30 * time.Second)
	a, b := s.NewProcess("a"), s.NewProcess("b")
	_, err := s.Claim(a, key("one"), at(0))
	require.NoError(t, err)
	_, err = s.Claim(b, key("one"), at(30).Add(-1))
	require.ErrorIs(t, err, session.ErrOwned)
	_, err = s.Claim(b, key("one"), at(30))
	require.NoError(t, err)
	_, err = s.Claim(a, key("one"), at(31))
	require.ErrorIs(t, err, session.ErrOwned)
}

// An ID is known for ten minutes after its answer, and for as long as its handler is at work.
func TestMemoryOfRequests(t *testing.T) {
	s := NewState(30 * time.Second)
	a, r := s.NewProcess("a"), session.Request{ID: "1", Root: key("one")}
	claimAt := func(now time.Time) {
		_, err := s.Claim(a, key("one"), now)
		require.NoError(t, err)
	}
	claimAt(at(0))
	require.NoError(t, s.Ask(r, at(0)))
	require.Len(t, s.Take(a, at(0)), 1)
	claimAt(at(3600)) // it is at work for an hour
	require.NoError(t, s.Ask(r, at(3600)))
	require.Empty(t, s.Take(a, at(3600)))
	s.Answer(a, "1", []byte("done"), at(3601))
	require.NoError(t, s.Ask(r, at(3601+599)))
	answer, done, err := s.Outcome("1", at(3601+599))
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, "done", string(answer))
	claimAt(at(3601 + 600))
	require.NoError(t, s.Ask(r, at(3601+600)))
	require.Len(t, s.Take(a, at(3601+600)), 1)
}

// A call that found no owner has taken the request back: a later owner does not handle it.
func TestRequestWithoutAnOwnerIsTakenBack(t *testing.T) {
	s := NewState(30 * time.Second)
	a := s.NewProcess("a")
	require.NoError(t, s.Ask(session.Request{ID: "1", Root: key("one")}, at(0)))
	for range 2 {
		_, done, err := s.Outcome("1", at(0))
		require.True(t, done)
		require.ErrorIs(t, err, session.ErrNoOwner)
	}
	_, err := s.Claim(a, key("one"), at(1))
	require.NoError(t, err)
	require.Empty(t, s.Take(a, at(1)))
}

// An owner that was released and has claimed again does not take what it handles.
func TestHandlerOutlivesItsClaim(t *testing.T) {
	s := NewState(30 * time.Second)
	a, b := s.NewProcess("a"), s.NewProcess("b")
	c, err := s.Claim(a, key("one"), at(0))
	require.NoError(t, err)
	require.NoError(t, s.Ask(session.Request{ID: "1", Root: key("one")}, at(0)))
	require.Len(t, s.Take(a, at(0)), 1)
	s.Release(a, c)
	_, err = s.Claim(b, key("one"), at(1))
	require.NoError(t, err)
	require.Empty(t, s.Take(b, at(1)), "a is alive, and will answer")
	s.Answer(a, "1", []byte("x"), at(2))
	answer, done, err := s.Outcome("1", at(2))
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, "x", string(answer))
}

// Over random histories no tree has two owners, epochs grow, and no request is taken from
// a process whose lease lasts.
func TestHistoriesOfClaims(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s, now := NewState(30*time.Second), start
		var processes []session.Process
		for i := range 4 {
			processes = append(processes, s.NewProcess(fmt.Sprint(i)))
		}
		epochs, takers := make(map[session.Key]session.Claim), make(map[string]session.Process)
		for range 300 {
			i := rng.IntN(len(processes))
			p, root := processes[i], key(fmt.Sprint(rng.IntN(3)))
			switch rng.IntN(7) {
			case 0, 1:
				before, held := s.Owner(root, now)
				c, err := s.Claim(p, root, now)
				if held && before.Owner != p {
					require.ErrorIs(t, err, session.ErrOwned)
					break
				}
				require.NoError(t, err)
				last := epochs[root]
				require.True(t, c == last || c.Epoch > last.Epoch, "%+v after %+v", c, last)
				epochs[root] = c
			case 2:
				s.Release(p, epochs[root])
			case 3:
				_, err := s.Beat(p, now)
				require.NoError(t, err)
			case 4:
				now = now.Add(time.Duration(rng.IntN(20)) * time.Second)
			case 5:
				_ = s.Ask(session.Request{ID: root.String(), Root: root}, now)
				for _, r := range s.Take(p, now) {
					former := takers[r.ID]
					require.False(t, s.IsAlive(former, now), "taken from a process that is there")
					takers[r.ID] = p
				}
			case 6:
				processes[i] = s.NewProcess(p.Name)
				_, err := s.Beat(processes[i], now)
				require.NoError(t, err)
				_, err = s.Beat(p, now)
				require.ErrorIs(t, err, session.ErrReplaced)
			}
			if c, ok := s.Owner(root, now); ok {
				require.Equal(t, epochs[root], c)
			}
		}
	}
}

// sync syncs a lane for a process, whose tickets are in this order.
func sync(l *Lane, p session.Process, limit int, ids ...string) []string {
	var want []Want
	for _, id := range ids {
		t := session.Ticket{ID: id, Requester: id[:1], Provider: id[:1]}
		want = append(want, Want{Ticket: t})
	}
	has, _, _ := l.Sync(p, limit, want, start, all)
	return has
}

// A requester that comes anew does not get ahead of those that wait in the present round, and does
// not wait for all of theirs.
func TestRoundsOfRequesters(t *testing.T) {
	var l Lane
	p := session.Process{Name: "a"}
	left := []string{"x1", "x2", "x3", "x4", "y1", "y2"}
	var order []string
	for len(left) > 0 {
		has := sync(&l, p, 1, left...)
		require.Len(t, has, 1)
		order = append(order, has[0])
		for i, id := range left {
			if id == has[0] {
				left = append(left[:i:i], left[i+1:]...)
				break
			}
		}
		if has[0] == "x2" {
			left = append(left, "z1", "x5")
		}
	}
	require.Equal(t, []string{"x1", "y1", "x2", "y2", "x3", "z1", "x4", "x5"}, order)
}

// The tickets of a process with a lower limit do not hold up those of one with a higher limit.
func TestLimitsThatDiffer(t *testing.T) {
	var l Lane
	a, b := session.Process{Name: "a"}, session.Process{Name: "b"}
	require.Equal(t, []string{"x1"}, sync(&l, a, 1, "x1", "x2"))
	require.Equal(t, []string{"y1"}, sync(&l, b, 2, "y1"))
	require.Equal(t, []string{"x1"}, sync(&l, a, 1, "x1", "x2"))
}

// Slots that are held come back beyond the limit, and count.
func TestSlotsThatComeBack(t *testing.T) {
	var l Lane
	a, b := session.Process{Name: "a"}, session.Process{Name: "b"}
	require.Equal(t, []string{"x1"}, sync(&l, a, 1, "x1"))
	has, _, _ := l.Sync(b, 1, []Want{{Ticket: session.Ticket{ID: "y1"}}}, start,
		func(p session.Process) bool { return p != a })
	require.Equal(t, []string{"y1"}, has)
	has, _, _ = l.Sync(a, 1, []Want{{session.Ticket{ID: "x1"}, true}}, start, all)
	require.Equal(t, []string{"x1"}, has)
	require.Equal(t, []string{"y1"}, sync(&l, b, 1, "y1", "y2"))
	require.Empty(t, sync(&l, b, 1, "y2"))
	require.Empty(t, sync(&l, a, 1))
	require.Equal(t, []string{"y2"}, sync(&l, b, 1, "y2"))
}

// A Sync that changes nothing says so, and a document is the same after its JSON form.
func TestDocumentOfALane(t *testing.T) {
	var l Lane
	a := session.Process{Name: "a", Incarnation: 1 << 63}
	require.True(t, l.Pause("y", start, at(10)))
	require.False(t, l.Pause("y", start, at(9)))
	require.False(t, l.Pause("z", start, start))
	require.Equal(t, at(10), l.Next())
	want := []Want{
		{Ticket: session.Ticket{ID: "x", Provider: "x"}},
		{Ticket: session.Ticket{ID: "y", Provider: "y", Requester: "r", Class: 3}},
	}
	for i, wantChanged := range []bool{true, false} {
		has, _, changed := l.Sync(a, 5, want, at(i), all)
		require.Equal(t, []string{"x"}, has)
		require.Equal(t, wantChanged, changed)
	}
	text, err := json.Marshal(&l)
	require.NoError(t, err)
	var again Lane
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, l, again)
	has, _, changed := again.Sync(a, 5, want, at(10), all)
	require.Equal(t, []string{"x", "y"}, has)
	require.True(t, changed)
	require.True(t, again.Next().IsZero())
}

// A Lookout gives an orphan within the spread, sixteen at a time, and again a minute later.
func TestLookout(t *testing.T) {
	var l Lookout
	p := session.Process{Name: "a", Incarnation: 1}
	var orphans []session.Key
	for i := range 40 {
		orphans = append(orphans, key(fmt.Sprint(i)))
	}
	claim, again := l.Look(p, orphans, 0, start)
	require.Less(t, len(claim), 16)
	require.WithinRange(t, again, start, start.Add(session.OrphanSpread))
	seen := make(map[session.Key]bool)
	for _, want := range []int{16, 16} {
		claim, again = l.Look(p, orphans, 0, at(2))
		require.Len(t, claim, want)
		require.False(t, again.After(at(2)), "there are more")
		for _, root := range claim {
			require.False(t, seen[root])
			seen[root] = true
		}
	}
	claim, again = l.Look(p, orphans, 0, at(2))
	require.Len(t, claim, 8)
	require.Equal(t, at(62), again)
	l.Keep(claim[5:])
	kept, _ := l.Look(p, orphans, 0, at(3))
	require.ElementsMatch(t, claim[5:], kept)
	claim, _ = l.Look(p, orphans, 0, at(61))
	require.Empty(t, claim)
	claim, _ = l.Look(p, orphans[:3], 0, at(62))
	require.Len(t, claim, 3)
	claim, again = l.Look(p, nil, 0, at(63))
	require.Empty(t, claim)
	require.True(t, again.IsZero())
	_, again = l.Look(p, orphans[:1], 0, at(70))
	require.False(t, again.After(at(72)), "it has had an owner, and is new")
}

// A Lookout gives each orphan of all pages, also where none is claimed, and once within a minute: a
// tree that is on no page for a while, because others have moved the pages, is not a new one.
func TestLookoutOverPages(t *testing.T) {
	const page = 10
	var l Lookout
	p := session.Process{Name: "a", Incarnation: 1}
	var orphans []session.Key
	for i := range 45 {
		orphans = append(orphans, key(fmt.Sprint(i)))
	}
	given := make(map[session.Key][]time.Time)
	look := func(now time.Time, hidden int) (again time.Time) {
		for again = now; !again.After(now); {
			there, behind := orphans[min(l.Skip(), len(orphans)):], 0
			if len(there) > page {
				there, behind = there[:page], l.Skip()+page
			}
			var claim []session.Key
			claim, again = l.Look(p, there[min(hidden, len(there)):], behind, now)
			for _, root := range claim {
				given[root] = append(given[root], now)
			}
			if again.IsZero() {
				break
			}
		}
		return again
	}
	for i := range 3 {
		look(at(i), 0)
	}
	require.Len(t, given, len(orphans), "each within the spread")
	look(at(3), 4)
	look(at(4), 0)
	for root, times := range given {
		require.Len(t, times, 1, root.String())
	}
	for i := range 4 {
		look(at(60+i), 0)
	}
	for root, times := range given {
		require.Len(t, times, 2, root.String())
		require.Equal(t, session.OrphanAgain, times[1].Sub(times[0]))
	}
	l.Keep(orphans[:1])
	orphans = nil
	require.True(t, look(at(130), 0).IsZero(), "nothing is kept of one that has an owner")
	require.Zero(t, l.Skip())
}

// Processes look at orphans in orders of their own.
func TestOrphanDelays(t *testing.T) {
	first := make(map[string]int)
	for i := range 1000 {
		root := key(fmt.Sprint(i))
		best, who := session.OrphanSpread, ""
		for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
			d := OrphanDelay(session.Process{Name: name, Incarnation: 1}, root)
			require.GreaterOrEqual(t, d, time.Duration(0))
			require.Less(t, d, session.OrphanSpread)
			if d < best {
				best, who = d, name
			}
		}
		first[who]++
	}
	for name, n := range first {
		require.InDelta(t, 333, n, 80, name)
	}
}

// The answer of a process that lost a request to the next owner does not count, also if it comes
// before that owner's.
func TestAnswerOfAFormerOwner(t *testing.T) {
	s := NewState(30 * time.Second)
	a, b := s.NewProcess("a"), s.NewProcess("b")
	for i, p := range []session.Process{a, b} {
		now := at(31 * i)
		_, err := s.Claim(p, key("one"), now)
		require.NoError(t, err)
		require.NoError(t, s.Ask(session.Request{ID: "1", Root: key("one")}, now))
		taken := s.Take(p, now)
		require.Len(t, taken, 1)
		require.Equal(t, i+1, taken[0].Attempt)
	}
	s.Answer(a, "1", []byte("late"), at(32))
	_, done, err := s.Outcome("1", at(32))
	require.NoError(t, err)
	require.False(t, done)
	s.Answer(b, "1", []byte("right"), at(33))
	answer, done, err := s.Outcome("1", at(33))
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, "right", string(answer))
}
