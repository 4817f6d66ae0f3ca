package spawn_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// spent is what one turn has used of one model, as the Runner of a test knows it.
type spent struct {
	at           time.Time
	key, root    session.Key
	above        []session.Key
	run          spawn.RunID
	agent, model string
	usage        session.Usage
}

// A spender is a Runner that uses random amounts of random models, reports them in every way there
// is, and now and then spawns. It keeps an account of its own.
type spender struct {
	mu    sync.Mutex
	rand  *rand.Rand
	model string // of top-level sessions
	slow  time.Duration
	all   []spent
}

func (p *spender) intn(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.IntN(n)
}

func (p *spender) usage() session.Usage {
	return session.Usage{
		Input: int64(p.intn(100)), Output: int64(p.intn(100)), CacheRead: int64(p.intn(1000)),
		CacheWrite: int64(p.intn(10)), Cost: float64(p.intn(64)) / 64, // so that sums are exact
	}
}

func (p *spender) RunTurn(
	ctx context.Context, t *spawn.TurnInput,
) (out spawn.TurnResult, err error) {
	if p.slow > 0 {
		select { // a turn that is given up is not in any report
		case <-time.After(time.Duration(p.intn(int(p.slow)))):
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil && t.Session.Depth < 2 && p.intn(3) == 0 {
		_, err := t.Spawn(ctx, spawn.Request{Task: "x", Policy: policy.Request{
			Agent: []string{"", "ops"}[p.intn(2)], Model: []string{"", "p/other"}[p.intn(2)],
		}})
		if err != nil {
			return out, err
		}
	}
	resolved := cmp.Or(t.Run.Model.Resolved, p.model)
	var used []spent
	enter := func(model string, u session.Usage) {
		used = append(used, spent{
			key: t.Session.Key, root: t.Session.Root, above: t.Above, run: t.Run.ID,
			agent: t.Session.Key.Agent(), model: model, usage: u,
		})
	}
	switch p.intn(4) {
	case 0: // several calls of several models
		for range 1 + p.intn(3) {
			model, u := []string{"", "p/x", "p/y"}[p.intn(3)], p.usage()
			if err := t.SpendOn(ctx, model, u); err != nil {
				return out, err
			}
			enter(cmp.Or(model, resolved), u)
		}
		out.Models = t.SpentBy()
	case 1:
		out.Result.Usage, out.Result.Model = p.usage(), "p/x"
		enter("p/x", out.Result.Usage)
	case 2:
		out.Result.Usage = p.usage()
		enter(resolved, out.Result.Usage)
	default: // not a word
	}
	if p.intn(5) == 0 {
		err = errors.New("broken")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range used {
		used[i].at = time.Now()
	}
	p.all = append(p.all, used...)
	return out, err
}

// report is what Usage should say, if the sessions in gone are archived.
func (p *spender) report(q spawn.UsageQuery, gone func(session.Key) bool) (r spawn.UsageReport) {
	zone := q.Zone
	if zone == nil {
		zone = time.UTC
	}
	rows := make(map[string]spawn.UsageRow)
	for _, x := range p.all {
		below := q.Below && slices.Contains(x.above, q.Session)
		switch {
		case x.usage.IsZero(),
			!q.Session.IsZero() && x.key != q.Session && !below,
			q.Agent != "" && !strings.EqualFold(q.Agent, x.agent),
			q.Model != "" && !strings.EqualFold(q.Model, x.model),
			!q.Since.IsZero() && x.at.Before(q.Since),
			!q.Until.IsZero() && !x.at.Before(q.Until):
			continue
		}
		var row spawn.UsageRow
		for _, by := range q.By {
			switch by {
			case spawn.UsageByDay:
				row.Day = x.at.In(zone).Format(time.DateOnly)
			case spawn.UsageByTree:
				row.Tree = x.root
			case spawn.UsageBySession:
				if !gone(x.key) {
					row.Session, row.Run = x.key, x.run
				}
			case spawn.UsageByAgent:
				row.Agent = x.agent
			case spawn.UsageByModel:
				row.Model = x.model
			}
		}
		id := fmt.Sprintf("%s|%s|%s|%s|%s", row.Day, row.Tree, row.Session, row.Agent, row.Model)
		row.Usage = rows[id].Usage.Add(x.usage)
		rows[id] = row
		r.Total = r.Total.Add(x.usage)
	}
	for _, row := range rows {
		r.Rows = append(r.Rows, row)
	}
	slices.SortFunc(r.Rows, func(a, b spawn.UsageRow) int {
		id := func(r spawn.UsageRow) []string {
			return []string{r.Day, r.Tree.String(), r.Session.String(), r.Agent, r.Model}
		}
		return slices.Compare(id(a), id(b))
	})
	return r
}

// requireReport compares reports row by row, so that a difference can be read.
func requireReport(t *testing.T, want, got spawn.UsageReport, q spawn.UsageQuery) {
	t.Helper()
	require.Len(t, got.Rows, len(want.Rows), "%+v", q)
	for i := range want.Rows {
		require.Equal(t, want.Rows[i], got.Rows[i], "%+v", q)
	}
	require.Equal(t, want.Total, got.Total, "%+v", q)
}

// during runs a Supervisor while f runs.
func during(t *testing.T, cfg spawn.Config, f func(*spawn.Supervisor)) {
	t.Helper()
	s, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Run(context.WithoutCancel(t.Context())) }()
	f(s)
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

// inTrees returns the sessions that are in the trees of a store, and how many journals begin with a
// snapshot.
func inTrees(t *testing.T, store *session.Store) (keys []session.Key, snapshots int) {
	t.Helper()
	for head, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, err)
		v, err := spawn.View(head.Root, store.Journal.Read(t.Context(), head.Root, 0))
		require.NoError(t, err)
		keys = append(keys, head.Root)
		for _, r := range v.Runs {
			keys = append(keys, r.Key)
		}
		for e, err := range store.Journal.Read(t.Context(), head.Root, 0) {
			require.NoError(t, err)
			f, err := tree.FactOf(e.Payload)
			require.NoError(t, err)
			if f.Kind == tree.Snapshot {
				snapshots++
			}
			break
		}
	}
	return keys, snapshots
}

var usageRoots = []session.Key{
	topKey, session.Must(session.DirectKey("main", "chat", "ann")),
	session.Must(session.DirectKey("ops", "chat", "bob")),
}

func spenderConfig(store *session.Store, p *spender) spawn.Config {
	return spawn.Config{
		Store: store, Runner: p, Model: p.model,
		Rules: policy.Rules{Subagents: policy.Subagents{
			MaxSpawnDepth: 2, ArchiveAfter: 3 * time.Hour, AllowAgents: []string{"*"},
		}},
	}
}

// randomQuery returns a query with bounds at multiples of a step.
func (p *spender) randomQuery(
	keys []session.Key, step time.Duration, zones []*time.Location,
) (q spawn.UsageQuery) {
	for by := spawn.UsageByDay; by <= spawn.UsageByModel; by++ {
		if p.intn(2) == 0 {
			q.By = append(q.By, by)
		}
	}
	slices.Reverse(q.By)
	if len(keys) > 0 && p.intn(2) == 0 {
		q.Session, q.Below = keys[p.intn(len(keys))], p.intn(2) == 0
	}
	q.Agent = []string{"", "", "", "OPS", "main"}[p.intn(5)]
	q.Model = []string{"", "", "", "P/X", "p/top", "p/other"}[p.intn(6)]
	q.Zone = zones[p.intn(len(zones))]
	now := time.Now().Truncate(step)
	if p.intn(3) == 0 {
		q.Since = now.Add(-time.Duration(p.intn(100)) * step)
	}
	if p.intn(3) == 0 {
		q.Until = now.Add(-time.Duration(p.intn(50)) * step)
	}
	return q
}

func zonesOf(t *testing.T, names ...string) (zones []*time.Location) {
	t.Helper()
	for _, name := range names {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		zones = append(zones, zone)
	}
	return zones
}

// What Usage says over random histories, with archives, snapshots and restarts, is what the Runner
// has counted itself, for every query: with any zone within two months, and by days of UTC after
// years.
func TestUsageIsTheSumOfTheTurns(t *testing.T) {
	skipUnderRace(t)
	for seed := range uint64(2) {
		long := seed%2 == 1
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				p := &spender{
					rand: rand.New(rand.NewPCG(seed, 7)), model: "p/top", slow: 40 * time.Minute,
				}
				step, pause, zones := 15*time.Minute, 3*time.Hour, []*time.Location{nil}
				if long {
					step, pause = 24*time.Hour, 20*time.Hour
				} else {
					zones = append(zones, zonesOf(t, "Asia/Kathmandu", "America/Sao_Paulo",
						"Pacific/Kiritimati", "Etc/GMT+12")...)
				}
				check := func(s *spawn.Supervisor) {
					synctest.Wait()
					keys, _ := inTrees(t, store)
					gone := func(k session.Key) bool { return !slices.Contains(keys, k) }
					for range 20 {
						q := p.randomQuery(keys, step, zones)
						got, err := s.Usage(t.Context(), q)
						require.NoError(t, err)
						requireReport(t, p.report(q, gone), got, q)
					}
				}
				posts := 0
				for range 4 {
					during(t, spenderConfig(store, p), func(s *spawn.Supervisor) {
						check(s)
						for range 150 {
							time.Sleep(time.Duration(p.intn(int(pause))))
							root := usageRoots[max(p.intn(9)-6, 0)]
							posts++
							m := spawn.Incoming{ID: fmt.Sprint(posts), Text: "go"}
							require.NoError(t, errorOf(s.Post(t.Context(), root, root, m)))
							if p.intn(20) == 0 {
								for _, root := range usageRoots {
									require.NoError(t, s.Idle(t.Context(), root))
								}
								check(s)
							}
						}
						for _, root := range usageRoots {
							require.NoError(t, s.Idle(t.Context(), root))
						}
						check(s)
					})
				}
				_, snapshots := inTrees(t, store)
				require.Positive(t, snapshots)
				require.Greater(t, len(p.all), 300)
			})
		})
	}
}

// A turn counts on the day of the zone in which it has ended, at every beginning of a day: where
// clocks change, where a day begins at a quarter of an hour of UTC, and at the date line.
func TestUsageOfDaysInEveryZone(t *testing.T) {
	skipUnderRace(t)
	zones := zonesOf(t, "UTC", "America/New_York", "Europe/Berlin", "America/Sao_Paulo",
		"Asia/Kathmandu", "Asia/Kolkata", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Apia",
		"Australia/Lord_Howe", "America/St_Johns", "Pacific/Marquesas", "Etc/GMT+12")
	for _, begin := range []int{30, 80, 280} { // days; clocks change after each
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Duration(begin) * 24 * time.Hour)
			p := &spender{rand: rand.New(rand.NewPCG(1, uint64(begin)))}
			during(t, spenderConfig(session.NewMemory(), p), func(s *spawn.Supervisor) {
				start := time.Now()
				for i := 0; time.Since(start) < 40*24*time.Hour; i++ {
					m := spawn.Incoming{ID: fmt.Sprint(i), Text: "go"}
					require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, m)))
					time.Sleep(19*time.Minute + time.Duration(p.intn(7200))*time.Second)
				}
				require.NoError(t, s.Idle(t.Context(), topKey))
				for _, zone := range zones {
					q := spawn.UsageQuery{Zone: zone, By: []spawn.UsageBy{spawn.UsageByDay}}
					got, err := s.Usage(t.Context(), q)
					require.NoError(t, err)
					requireReport(t, p.report(q, nil), got, q)
					day := time.Now().In(zone).AddDate(0, 0, -20)
					y, m, d := day.Date()
					q.Since = time.Date(y, m, d, 0, 0, 0, 0, zone)
					q.Until = time.Date(y, m, d+1, 0, 0, 0, 0, zone)
					got, err = s.Usage(t.Context(), q)
					require.NoError(t, err)
					requireReport(t, p.report(q, nil), got, q)
					require.Len(t, got.Rows, 1, "%v", zone)
				}
			})
		})
	}
}

// touchNothing requires that f takes no tree of a store over.
func touchNothing(t *testing.T, store *session.Store, f func()) {
	t.Helper()
	heads := func() (list []session.Head) {
		for head, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
			require.NoError(t, err)
			list = append(list, head)
		}
		return list
	}
	before := heads()
	f()
	require.ElementsMatch(t, before, heads())
}

// Questions over all trees take over none, hold none in memory, and a tree that cannot be read
// hides nothing of the others.
func TestUsageAndSessionsOfTreesAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		p := &spender{rand: rand.New(rand.NewPCG(3, 3)), model: "p/top"}
		cfg := spenderConfig(store, p)
		during(t, cfg, func(s *spawn.Supervisor) {
			for i := range 60 {
				root := usageRoots[i%3]
				m := spawn.Incoming{ID: fmt.Sprint(i), Text: "go"}
				require.NoError(t, errorOf(s.Post(t.Context(), root, root, m)))
				time.Sleep(time.Minute)
			}
			for _, root := range usageRoots {
				require.NoError(t, s.Idle(t.Context(), root))
			}
		})
		spoil := func(root session.Key) {
			bad := session.Batch{
				ID:      "x",
				Entries: []session.Entry{{Payload: session.Raw(`{"v":1,"kind":"archived"}`)}},
			}
			_, err := store.Journal.Append(t.Context(), root, 0, bad)
			require.NoError(t, err)
		}
		second, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		touchNothing(t, store, func() {
			all, err := second.Usage(t.Context(), spawn.UsageQuery{})
			require.NoError(t, err)
			require.Equal(t, p.report(spawn.UsageQuery{}, nil), all)
			list, err := second.Sessions(t.Context(), spawn.SessionQuery{})
			require.NoError(t, err)
			require.Greater(t, len(list), 3)
		})
		require.Zero(t, second.Trees(), "what was read is not kept")

		spoil(session.Must(session.NamedKey("main", "m")))
		before, err := second.Sessions(t.Context(), spawn.SessionQuery{})
		require.ErrorIs(t, err, session.ErrCorrupt)
		require.Greater(t, len(before), 3)
		all, err := second.Usage(t.Context(), spawn.UsageQuery{})
		require.ErrorIs(t, err, session.ErrCorrupt)
		require.Equal(t, p.report(spawn.UsageQuery{}, nil), all)
		one, err := second.Usage(t.Context(), spawn.UsageQuery{Session: topKey, Below: true})
		require.NoError(t, err)
		require.Positive(t, one.Total.Input)

		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("no time")
		cancel(why)
		_, err = second.Usage(ctx, spawn.UsageQuery{})
		require.ErrorIs(t, err, why)
		_, err = second.Sessions(ctx, spawn.SessionQuery{})
		require.ErrorIs(t, err, why)
		require.NoError(t, second.Shutdown(t.Context()))
		_, err = second.Usage(t.Context(), spawn.UsageQuery{})
		require.ErrorIs(t, err, spawn.ErrShutdown)
		_, err = second.Sessions(t.Context(), spawn.SessionQuery{})
		require.ErrorIs(t, err, spawn.ErrShutdown)
	})
}

// A question once a minute does not keep a tree in memory that has nothing to do.
func TestLookingAtATreeDoesNotKeepIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		during(t, spawn.Config{
			Store: session.NewMemory(), Runner: instantRunner,
		}, func(s *spawn.Supervisor) {
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})),
			)
			require.NoError(t, s.Idle(t.Context(), topKey))
			require.Equal(t, 1, s.Trees())
			for range 20 {
				time.Sleep(time.Minute)
				_, err := s.Usage(t.Context(), spawn.UsageQuery{})
				require.NoError(t, err)
				list, err := s.Sessions(t.Context(), spawn.SessionQuery{})
				require.NoError(t, err)
				require.Len(t, list, 1)
				_, err = s.Blocked(t.Context())
				require.NoError(t, err)
			}
			require.Zero(t, s.Trees())
		})
	})
}

// What a query cannot mean is refused with the field.
func TestUsageQueriesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{Runner: instantRunner})
		for _, by := range []spawn.UsageBy{0, 99} {
			_, err := s.Usage(t.Context(), spawn.UsageQuery{
				By: []spawn.UsageBy{spawn.UsageByDay, by},
			})
			var bad *spawn.InputError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, "By[1]", bad.Field)
		}
		child := session.Must(topKey.Child("main", "x"))
		_, err := s.Usage(t.Context(), spawn.UsageQuery{Session: child})
		require.ErrorIs(t, err, spawn.ErrNotFound)
		got, err := s.Usage(t.Context(), spawn.UsageQuery{Session: topKey})
		require.NoError(t, err)
		require.Equal(t, spawn.UsageReport{}, got)
		_, err = s.Sessions(t.Context(), spawn.SessionQuery{Limit: -1})
		var bad *spawn.InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "Limit", bad.Field)
	})
}

// keysOf returns the keys of a list of sessions.
func keysOf(list []spawn.SessionInfo) (keys []session.Key) {
	for _, info := range list {
		keys = append(keys, info.Key)
	}
	return keys
}

// Sessions are listed with when they were last active, before a restart and after it, and of every
// way to select them the right ones come, the newest first.
func TestSessionsByActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		bob, chat := usageRoots[2], usageRoots[1]
		route := session.Route{Channel: "chat", To: "ann"}
		cfg := spawn.Config{
			Store: store,
			Rules: policy.Rules{Subagents: policy.Subagents{ArchiveAfter: policy.Off}},
			Runner: runnerFunc(func(
				ctx context.Context, tn *spawn.TurnInput,
			) (spawn.TurnResult, error) {
				time.Sleep(time.Minute)
				if tn.Session.Key == bob {
					_, err := tn.Spawn(ctx, spawn.Request{Task: "x", Label: "helper"})
					return spawn.TurnResult{}, err
				}
				err := tn.Spend(ctx, session.Usage{Input: 1})
				return spawn.TurnResult{Result: spawn.Result{Usage: tn.Spent()}}, err
			}),
		}
		start := time.Now()
		var want []spawn.SessionInfo
		during(t, cfg, func(s *spawn.Supervisor) {
			for _, root := range []session.Key{topKey, bob, chat} {
				m := spawn.Incoming{Text: "x", Route: route}
				require.NoError(t, errorOf(s.Post(t.Context(), root, root, m)))
				require.NoError(t, s.Idle(t.Context(), root))
				time.Sleep(time.Hour)
			}
			m := spawn.Incoming{Text: "again"}
			require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, m)))
			running, err := s.Sessions(t.Context(), spawn.SessionQuery{Limit: 1})
			require.NoError(t, err)
			require.Equal(t, topKey, running[0].Key)
			require.Equal(t, spawn.StatusRunning, running[0].Status)
			require.WithinDuration(t, time.Now(), running[0].LastActive, 0)
			require.NoError(t, s.Idle(t.Context(), topKey))
			want, err = s.Sessions(t.Context(), spawn.SessionQuery{})
			require.NoError(t, err)
			runs, err := s.Runs(t.Context(), bob, bob, true)
			require.NoError(t, err)
			require.Len(t, runs, 1)
			helper := runs[0]
			require.Equal(t, []session.Key{topKey, chat, helper.Key, bob}, keysOf(want))
			first, last := want[0], want[2]
			require.Equal(t, spawn.SessionInfo{
				Key: topKey, SessionID: first.SessionID, Root: topKey, Agent: "main",
				Status: spawn.StatusWaiting, Route: route, Turns: 2, Created: first.Created,
				LastActive: first.LastActive, Usage: session.Usage{Input: 2},
			}, first)
			require.WithinDuration(t, start, first.Created, 0)
			require.WithinDuration(t, time.Now(), first.LastActive, 0)
			require.Equal(t, spawn.SessionInfo{
				Key: helper.Key, SessionID: helper.SessionID, Root: bob, Parent: bob, Depth: 1,
				Agent: "ops", Run: helper.ID, Label: "helper", Status: spawn.StatusOK, Turns: 1,
				Created:    helper.Created,
				LastActive: helper.Ended, Usage: session.Usage{Input: 1},
			}, last)
			require.Equal(t, want[3].LastActive, helper.Created, "its turn ended then")
		})
		// The log of bindings is not a session.
		_, err := store.Journal.Append(t.Context(), session.BindingsRoot(), 0, session.Batch{
			ID: "x", Entries: []session.Entry{{Payload: session.Raw(`{}`)}},
		})
		require.NoError(t, err)
		second, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		for _, c := range []struct {
			q    spawn.SessionQuery
			want []int
		}{
			{spawn.SessionQuery{}, []int{0, 1, 2, 3}},
			{spawn.SessionQuery{TopLevel: true}, []int{0, 1, 3}},
			{spawn.SessionQuery{Limit: 2}, []int{0, 1}},
			{spawn.SessionQuery{Limit: 9}, []int{0, 1, 2, 3}},
			{spawn.SessionQuery{Agent: "OPS"}, []int{2, 3}},
			{spawn.SessionQuery{Agent: "none"}, nil},
			{spawn.SessionQuery{ActiveSince: want[1].LastActive}, []int{0, 1}},
			{spawn.SessionQuery{ActiveSince: time.Now().Add(time.Hour)}, nil},
			{spawn.SessionQuery{Kinds: []session.Kind{session.KindDirect}}, []int{1, 3}},
			{
				spawn.SessionQuery{
					Kinds: []session.Kind{session.KindSubagent, session.KindMain}, Limit: 1,
				}, []int{0},
			},
		} {
			got, err := second.Sessions(t.Context(), c.q)
			require.NoError(t, err)
			var list []spawn.SessionInfo
			for _, i := range c.want {
				list = append(list, want[i])
			}
			require.Equal(t, asJSON(t, list), asJSON(t, got), "%+v", c.q)
		}
		require.NoError(t, second.Shutdown(t.Context()))
	})
}

// What was used just now is there up to now and from a moment ago, whenever now is.
func TestUsageUpToNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := spawn.Config{Runner: runnerFunc(func(
			ctx context.Context, tn *spawn.TurnInput,
		) (spawn.TurnResult, error) {
			err := tn.Spend(ctx, session.Usage{Input: 1})
			return spawn.TurnResult{Result: spawn.Result{Usage: tn.Spent()}}, err
		}), Store: session.NewMemory()}
		during(t, cfg, func(s *spawn.Supervisor) {
			for i := range 40 {
				time.Sleep(7*time.Minute + 13*time.Second)
				before := time.Now()
				require.NoError(
					t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})),
				)
				require.NoError(t, s.Idle(t.Context(), topKey))
				time.Sleep(time.Second)
				for _, c := range []struct {
					q     spawn.UsageQuery
					least int
				}{
					{spawn.UsageQuery{Until: time.Now()}, i + 1},
					{spawn.UsageQuery{Since: before}, 1},
					{spawn.UsageQuery{Since: before, Until: time.Now()}, 1},
				} {
					got, err := s.Usage(t.Context(), c.q)
					require.NoError(t, err)
					require.GreaterOrEqual(t, got.Total.Input, int64(c.least), "%v", c.q)
					if c.q.Since.IsZero() {
						require.Equal(t, int64(c.least), got.Total.Input)
					}
				}
				future := spawn.UsageQuery{Since: time.Now().Add(15 * time.Minute)}
				got, err := s.Usage(t.Context(), future)
				require.NoError(t, err)
				require.Zero(t, got.Total)
			}
		})
	})
}
