package owner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// The longest pause stands, within MaxPause from when it was asked for. The calls that waited begin
// within a tenth of it, and within ten seconds.
func TestPauses(t *testing.T) {
	zero := time.Time{}
	now := time.Unix(1_000_000, 0)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	p := pause{}.extended(now, at(50*time.Second))
	require.Equal(t, pause{until: at(50 * time.Second), spread: at(55 * time.Second)}, p)
	p.over = true
	require.Equal(t, p, p.extended(at(time.Second), at(50*time.Second)), "it is not later")
	p = p.extended(at(time.Second), at(time.Hour))
	require.Equal(t, at(time.Second+MaxPause), p.until)
	require.Equal(t, p.until.Add(maxSpread), p.spread)
	require.False(t, p.over)

	p = pause{}.extended(now, at(50*time.Second))
	require.Equal(t, at(50*time.Second), p.callAt(now, zero, 0))
	require.Equal(t, at(52500*time.Millisecond), p.callAt(now, zero, 0.5))
	require.Equal(t, at(53*time.Second), p.callAt(at(51*time.Second), zero, 0.5))
	require.Equal(t, zero, p.callAt(at(55*time.Second), zero, 0.5))
	require.Equal(t, zero, p.callAt(at(51*time.Second), p.until, 0.5), "it has waited")
	require.Equal(t, at(50*time.Second), p.callAt(now, at(-time.Second), 0), "for another pause")
}

// pausingLane returns an open lane whose sessions have the provider that their task names, and an
// owner that notes what it is granted.
func pausingLane(t *testing.T, subagents, sessions int) (*Lane, laneOwner) {
	l := NewLane(subagents, sessions)
	l.Provider = func(r *tree.Run) string { return r.Spec.Label() }
	l.Open()
	t.Cleanup(l.Close)
	return l, newLaneOwner(l, "a")
}

// children returns sessions below several requesters, by name; the name ends with the provider.
func children(t *testing.T, names ...string) map[string]*tree.Run {
	t.Helper()
	runs := make(map[string]*tree.Run)
	trees := make(map[string]*tree.Tree)
	for _, name := range names {
		root := session.Must(session.MainKey(name[:1]))
		if trees[name[:1]] == nil {
			tr := tree.New(root, &tree.Options{
				Rules: &policy.Rules{Subagents: policy.Subagents{MaxChildren: 1 << 20}},
			})
			_, err := tr.Decide(&tree.Open{Writer: "w", SessionID: "s"}, 1)
			require.NoError(t, err)
			trees[name[:1]] = tr
		}
		reply, err := trees[name[:1]].Decide(&tree.Spawn{
			Parent: root, ID: name, Task: "x", Label: name[len(name)-1:],
		}, 1)
		require.NoError(t, err)
		runs[name] = reply.Run
	}
	return runs
}

// requireNoPauses fails if a pause has left anything in the lane.
func requireNoPauses(t *testing.T, l *Lane) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.pauses)
}

// namesOf returns the names of runs in their order.
func namesOf(runs map[string]*tree.Run, list []*tree.Run) string {
	var names []string
	for _, r := range list {
		for name, x := range runs {
			if x == r {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " ")
}

// A provider that pauses holds back the turns of its sessions alone. Those behind them are served
// in the order of the lane, and when the pause ends those that were held back come first of their
// requesters.
func TestPausedProviderHoldsBackItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := pausingLane(t, 1, 1)
		names := []string{"a0x", "a1x", "a2y", "a3x", "a4y", "b1x", "b2y", "b3y"}
		runs := children(t, names...)
		require.True(t, l.ask(o.owner, runs["a0x"]))
		for _, name := range names[1:] {
			require.False(t, l.ask(o.owner, runs[name]))
		}
		now := time.Now()
		l.Pause("x", now, now.Add(time.Minute))
		l.Pause("x", now, now.Add(time.Second)) // the longest stands
		var order []*tree.Run
		for range 4 {
			l.Free(runs["a0x"])
			synctest.Wait()
			order = append(order, o.granted()...)
		}
		require.Equal(t, "a2y b2y a4y b3y", namesOf(runs, order))
		l.Free(runs["a0x"])
		require.Zero(t, l.Used(), "the rest waits for the provider")
		other := children(t, "c1y", "c2x")
		require.True(t, l.ask(o.owner, other["c1y"]), "a slot is free")
		l.Free(other["c1y"])
		require.False(t, l.ask(o.owner, other["c2x"]))
		time.Sleep(time.Minute - 1)
		require.Empty(t, o.granted())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		order = o.granted()
		for range 3 {
			l.Free(runs["a0x"])
			synctest.Wait()
			order = append(order, o.granted()...)
		}
		require.Len(t, order, 4)
		require.Equal(t, "a1x b1x a3x", namesOf(runs, slices.DeleteFunc(order,
			func(r *tree.Run) bool { return r == other["c2x"] })))
		l.Free(runs["a0x"])
		require.Zero(t, l.Used())
		time.Sleep(time.Minute)
		requireNoPauses(t, l)
	})
}

// A turn that goes on after a wait within it gets a slot also in a pause.
func TestTurnsUnderWayGetTheirSlotInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := pausingLane(t, 1, 1)
		runs := children(t, "a1x", "a2x", "a3x")
		require.True(t, l.ask(o.owner, runs["a1x"]))
		require.False(t, l.ask(o.owner, runs["a2x"]))
		now := time.Now()
		l.Pause("x", now, now.Add(time.Hour))
		var log laneLog
		done := log.want(l, "a3x goes on", runs["a3x"])
		l.Free(runs["a1x"])
		done.Wait()
		require.Equal(t, 1, l.Used())
		l.Free(runs["a3x"])
		require.True(t, l.Wait(nil, runs["a3x"]), "the slot is free")
		l.Free(runs["a3x"])
		require.Empty(t, o.granted())
		l.Close()
		time.Sleep(2 * time.Hour)
		require.Empty(t, o.granted(), "a closed lane starts nothing")
		require.Zero(t, l.Used())
	})
}

// A top-level session keeps one place, and a better class, also while its provider pauses.
func TestPausedSessionsKeepTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := pausingLane(t, 1, 1)
		l.Provider = func(r *tree.Run) string { return r.Key().Agent() }
		opt := &tree.Options{Rules: &policy.Rules{}}
		owners, roots := map[string]laneOwner{}, map[string]*tree.Run{}
		chat := func(name, text string) bool {
			tr := tree.New(session.Must(session.MainKey(name)), opt)
			_, err := tr.Decide(&tree.Open{Writer: "w", SessionID: "s"}, 1)
			require.NoError(t, err)
			if roots[name] = tr.Root(); text != "" {
				_, err = tr.Decide(&tree.Post{To: tr.Root().Key(), Text: tree.Text(text)}, 1)
				require.NoError(t, err)
			}
			if _, ok := owners[name]; !ok {
				owners[name] = newLaneOwner(l, name)
			}
			return l.ask(owners[name].owner, roots[name])
		}
		now := time.Now()
		for _, name := range []string{"x", "y", "z"} {
			l.Pause(name, now, now.Add(time.Minute))
		}
		require.True(t, chat("first", "hello"))
		require.False(t, chat("x", ""))
		require.False(t, chat("y", "hello"))
		require.False(t, chat("z", ""))
		l.Free(roots["first"]) // the tickets are put aside
		require.False(t, chat("z", "hello"))
		require.False(t, chat("y", "and again"))
		time.Sleep(time.Minute)
		var order []string
		for range 4 {
			synctest.Wait()
			for name, o := range owners {
				for range o.granted() {
					order = append(order, name)
				}
			}
			if l.Used() > 0 {
				l.Free(roots["first"])
			}
		}
		require.ElementsMatch(t, []string{"y", "z", "x"}, order)
		require.Equal(t, "x", order[2], "people come first")
		require.Zero(t, l.Used())
	})
}

// Over random histories with pauses no ticket is lost, none of a provider that pauses is granted,
// and no slot stays empty while a ticket of another provider waits.
func TestPausesOverRandomHistories(t *testing.T) {
	providers := []string{"x", "y", "z"}
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			l, o := pausingLane(t, 3, 1)
			var names []string
			for i := range 120 {
				names = append(names, fmt.Sprintf("%c%d%s", 'a'+i%3, i, providers[r.IntN(3)]))
			}
			runs := children(t, names...)
			waiting, holding := map[*tree.Run]bool{}, []*tree.Run{}
			paused := map[string]time.Time{}
			isPaused := func(x *tree.Run) bool { return time.Now().Before(paused[x.Spec.Label()]) }
			check := func() {
				synctest.Wait()
				for _, x := range o.granted() {
					require.True(t, waiting[x])
					require.False(t, isPaused(x))
					delete(waiting, x)
					holding = append(holding, x)
				}
				require.Equal(t, len(holding), l.Used())
				for x := range waiting {
					require.True(t, len(holding) == 3 || isPaused(x))
				}
			}
			for len(names) > 0 || len(waiting)+len(holding) > 0 {
				switch n := r.IntN(6); {
				case n < 2 && len(names) > 0:
					x := runs[names[0]]
					names = names[1:]
					if l.ask(o.owner, x) {
						require.False(t, isPaused(x))
						holding = append(holding, x)
					} else {
						waiting[x] = true
					}
				case n < 4 && len(holding) > 0:
					l.Free(holding[0])
					holding = holding[1:]
				case n == 4 && len(names) > 0:
					p, now := providers[r.IntN(3)], time.Now()
					until := now.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
					l.Pause(p, now, until)
					if until.After(paused[p]) {
						paused[p] = until
					}
				default:
					time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				}
				check()
			}
			time.Sleep(time.Minute)
			requireNoPauses(t, l)
		})
	}
}
