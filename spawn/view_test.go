package spawn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// viewTop returns what the journal of topKey says. It requires that a journal that keeps bytes says
// the same.
// testingT is what helpers need of a test, or of a history.
type testingT interface {
	require.TestingT
	Helper()
	Context() context.Context
}

func viewTop(t testingT, j session.Journal) spawn.TreeView {
	t.Helper()
	v, err := spawn.View(topKey, j.Read(t.Context(), topKey, 0))
	require.NoError(t, err)
	written, err := spawn.View(topKey, asWritten(j.Read(t.Context(), topKey, 0)))
	require.NoError(t, err)
	require.Equal(t, asJSON(t, v), asJSON(t, written))
	return v
}

// asWritten yields entries as a journal on disk does.
func asWritten(entries iter.Seq2[session.Entry, error]) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				var b []byte
				b, err = e.Payload.AppendJSON(nil)
				e.Payload = session.Raw(b)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// sameAsLive requires that a view says what a Supervisor says.
func sameAsLive(t testingT, s *spawn.Supervisor, v spawn.TreeView) {
	t.Helper()
	runs, err := s.Runs(t.Context(), topKey, topKey, true)
	require.NoError(t, err)
	require.Equal(t, runs, v.Runs)
	outbox, err := s.Outbox(t.Context(), topKey)
	require.NoError(t, err)
	require.Equal(t, outbox, outboxOf(v))
}

func outboxOf(v spawn.TreeView) (list []spawn.Delivery) {
	for _, e := range v.Outbox {
		list = append(list, e.Delivery)
	}
	return list
}

func headOf(t testingT, j session.Journal) session.Head {
	t.Helper()
	for h, err := range j.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, err)
		if h.Root == topKey {
			return h
		}
	}
	return session.Head{}
}

// viewConfig is the configuration of a tree with a bit of everything, whose receiver is down.
func viewConfig(store *session.Store) spawn.Config {
	return spawn.Config{
		Store: store, CallerRun: true, Tools: []string{"read"},
		Deliver: func(context.Context, spawn.Delivery) error { return errors.New("down") },
		Rules: policy.Rules{Subagents: policy.Subagents{
			MaxSpawnDepth: 2, MaxConcurrent: 3, ArchiveAfter: policy.Off,
		}},
		Runner: (&spawntest.Runner{}).
			On("boss", spawntest.Play{
				spawntest.Spawn(
					spawn.Request{Task: "a", Announce: true},
					spawn.Request{Task: "b", Label: "B", Announce: true},
				),
				spawntest.Yield(spawn.JoinOptions{}),
			}, spawntest.Play{spawntest.Say("both")}).
			On("a", spawntest.Play{
				spawntest.Delay(time.Second), spawntest.Say("A"),
				spawntest.Spend(session.Usage{Input: 7}),
			}).
			On("B", spawntest.Play{
				spawntest.Delay(time.Minute), spawntest.Fail(errors.New("broken")),
			}).
			On("stuck", spawntest.Play{spawntest.Linger(5 * time.Second)}),
	}
}

// sameDue fails the test unless a view is due when its head says so: at an instant in the past for
// what is in hand, which a view tells by when that goes on.
func sameDue(t *testing.T, head session.Head, v spawn.TreeView) {
	t.Helper()
	require.Empty(t, otherDue(head, v))
}

// otherDue returns how the Due of a view differs from that of the head, or "". What has failed and
// waits for its next try, such as an archive, is due at once to a view, and to the head after the
// pause, which the journal does not have.
func otherDue(head session.Head, v spawn.TreeView) string {
	switch now := head.Due.Equal(tree.DueNow); {
	case now && v.Due.Before(v.Time):
		return fmt.Sprintf("the tree is due now, and the view says %v at %v", v.Due, v.Time)
	case !now && v.Due.Equal(v.Time) && head.Due.Sub(v.Time) <= tree.LastRetry:
	case !now && !head.Due.Equal(v.Due):
		return fmt.Sprintf("the tree is due at %v, and the view says %v", head.Due, v.Due)
	}
	return ""
}

// A view of a tree with a bit of everything says at every moment what its owner says.
func TestViewSaysWhatTheOwnerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		require.Equal(t, spawn.TreeView{Root: topKey}, viewTop(t, store.Journal))
		s := openSupervisor(t, viewConfig(store))
		look := func() spawn.TreeView {
			t.Helper()
			_, err := s.Runs(t.Context(), topKey, topKey, false) // which opens a tree that rested
			require.NoError(t, err)
			synctest.Wait()
			v := viewTop(t, store.Journal)
			sameAsLive(t, s, v)
			sameDue(t, headOf(t, store.Journal), v)
			require.Equal(t, headOf(t, store.Journal).Last, v.Last)
			return v
		}

		boss, err := s.Spawn(
			t.Context(), topKey, topKey, spawn.Request{Task: "boss", Announce: true},
		)
		require.NoError(t, err)
		v := look()
		require.Equal(
			t, []spawn.Status{spawn.StatusWaiting, spawn.StatusRunning, spawn.StatusRunning},
			statusesOf(v),
		)
		require.Equal(t, 3, v.Total)
		require.EqualValues(t, 1, v.Epoch)
		require.Equal(t, time.Now().UTC(), v.Due)
		require.Equal(t, spawn.StatusWaiting, v.Status)
		require.NotEmpty(t, v.SessionID)

		time.Sleep(2 * time.Second)
		require.NoError(
			t, s.Steer(t.Context(), topKey, topKey, refOf(v.Runs[2].Key), spawn.Incoming{Text: "faster"}),
		)
		v = look()
		require.Equal(
			t, []spawn.Status{spawn.StatusWaiting, spawn.StatusOK, spawn.StatusRunning},
			statusesOf(v),
		)
		require.Equal(t, "A", v.Runs[1].Result.Text)
		require.Equal(
			t,
			[]spawn.Unread{
				{Session: boss.Key, Completions: 1}, {Session: v.Runs[2].Key, Steers: 1},
			},
			v.Unread,
		)

		stuck, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "stuck"})
		require.NoError(t, err)
		synctest.Wait()
		go func() { _ = s.Stop(t.Context(), topKey, stuck.Key, "enough") }()
		v = look()
		require.Equal(t, spawn.StatusStopping, v.Runs[3].Status)
		require.Equal(t, "enough", v.Runs[3].Error)

		time.Sleep(2 * time.Minute)
		v = look()
		require.Equal(
			t,
			[]spawn.Status{
				spawn.StatusOK, spawn.StatusOK, spawn.StatusFailed, spawn.StatusCancelled,
			},
			statusesOf(v),
		)
		require.Len(t, v.Outbox, 1)
		out := v.Outbox[0]
		require.Equal(t, boss.Key, out.Completion.Run.Key)
		require.Greater(t, out.Attempt, 2)
		require.Equal(t, "down", out.Error)
		require.True(t, out.Due.After(time.Now()), "it is tried again at %v", out.Due)
		require.Equal(t, out.Due, v.Due)
		require.Equal(t, out.Completion.Run.Ended, out.Created)

		time.Sleep(time.Hour)
		v = look()
		require.NotZero(t, v.Outbox[0].Blocked)
		require.Zero(t, v.Outbox[0].Due)
		require.Zero(t, v.Due, "nothing happens by itself any more")
		require.Equal(t, 4, v.Total)
	})
}

// An input that a turn has consumed is read, whatever becomes of the turn later.
func TestViewOfAnInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		s := openSupervisor(
			t,
			spawn.Config{
				Store:  store,
				Runner: (&spawntest.Runner{}).On("", spawntest.Play{spawntest.Delay(time.Minute)}),
			},
		)
		var unread []int
		for range 3 {
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "hello"})),
			)
			synctest.Wait()
			v := viewTop(t, store.Journal)
			require.Equal(t, spawn.StatusRunning, v.Status)
			n := 0
			for _, u := range v.Unread {
				require.Equal(t, spawn.Unread{Session: topKey, Messages: u.Messages}, u)
				n = u.Messages
			}
			unread = append(unread, n)
		}
		require.Equal(t, []int{0, 1, 2}, unread)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, viewTop(t, store.Journal).Unread)
	})
}

func statusesOf(v spawn.TreeView) (list []spawn.Status) {
	for _, r := range v.Runs {
		list = append(list, r.Status)
	}
	return list
}

// A run that is running when its process dies stays so until a Supervisor opens the tree. A view
// does not open it.
func TestViewTakesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		log := spawntest.NewCrashJournal(store.Journal)
		runner := (&spawntest.Runner{}).On("slow", spawntest.Play{spawntest.Delay(time.Hour)})
		deliver := func(ctx context.Context, _ spawn.Delivery) error {
			<-ctx.Done()
			return ctx.Err()
		}
		first := openSupervisor(
			t,
			spawn.Config{
				Store:     &session.Store{Journal: log},
				Runner:    runner,
				CallerRun: true,
				Deliver:   deliver,
			},
		)
		_, err := first.Spawn(
			t.Context(), topKey, topKey, spawn.Request{Task: "slow", Announce: true},
		)
		require.NoError(t, err)
		_, err = first.Spawn(
			t.Context(), topKey, topKey, spawn.Request{Task: "quick", Announce: true},
		)
		require.NoError(t, err)
		synctest.Wait()
		log.Die()
		time.Sleep(10 * time.Minute)
		v := viewTop(t, store.Journal)
		require.Equal(t, []spawn.Status{spawn.StatusRunning, spawn.StatusOK}, statusesOf(v))
		require.Len(t, v.Outbox, 1)
		require.False(t, v.Outbox[0].MayRepeat, "the owner has not said so yet")
		require.Equal(t, v, viewTop(t, store.Journal))
		require.EqualValues(t, 1, v.Epoch)

		second := openSupervisor(
			t, spawn.Config{Store: store, Runner: runner, CallerRun: true, Deliver: deliver},
		)
		synctest.Wait()
		v = viewTop(t, store.Journal)
		sameAsLive(t, second, v)
		require.Equal(t, []spawn.Status{spawn.StatusInterrupted, spawn.StatusOK}, statusesOf(v))
		require.EqualValues(t, 2, v.Epoch)
		require.True(t, v.Outbox[0].MayRepeat, "the process that died may have delivered it")
		require.False(t, v.Outbox[1].MayRepeat)
	})
}

// Views and an owner do not get in each other's way. The race detector is the test.
func TestViewBesideAnOwner(t *testing.T) {
	store := session.NewMemory()
	s := openSupervisor(
		t,
		spawn.Config{
			Store:  store,
			Runner: (&spawntest.Runner{}).On("", spawntest.Play{spawntest.Reply("hi")}),
		},
	)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			if _, err := s.Post(
				t.Context(), topKey, topKey, spawn.Incoming{Text: "hello"},
			); err != nil {
				t.Error(err)
			}
			if _, err := s.Spawn(
				t.Context(), topKey, topKey, spawn.Request{Task: "work", Announce: true},
			); err != nil &&
				!isRefusal(err) {
				t.Error(err)
			}
		}
	}()
	var last session.Seq
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
		}
		v, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.GreaterOrEqual(t, v.Last, last)
		last = v.Last
	}
}

func isRefusal(err error) bool {
	var refusal *policy.Refusal
	return errors.As(err, &refusal)
}

// A snapshot says all that came before it, as the first entry of a journal and among others.
func TestViewOfSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		log := spawntest.NewRecorder(store.Journal)
		s := openSupervisor(t, spawn.Config{
			Store: &session.Store{
				Journal: log,
			},
			Replies: true,
			Deliver: func(context.Context, spawn.Delivery) error { return nil },
			Runner: (&spawntest.Runner{}).On("", spawntest.Play{spawntest.Reply("hi")}).
				On("slow", spawntest.Play{spawntest.Delay(time.Hour)}),
		})
		_, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "slow"})
		require.NoError(t, err)
		for i := range 700 {
			_, err := s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: strconv.Itoa(i)})
			require.NoError(t, err)
			synctest.Wait()
		}
		v := viewTop(t, store.Journal)
		sameAsLive(t, s, v)
		entries := 0
		for _, err := range store.Journal.Read(t.Context(), topKey, 0) {
			require.NoError(t, err)
			entries++
		}
		require.Less(t, entries, int(v.Last), "there was a snapshot")
		whole, err := spawn.View(topKey, log.History(topKey))
		require.NoError(t, err)
		require.Equal(t, v, whole)
	})
}

func asJSON(t testingT, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

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
		{`{"v":1,"kind":"halted","at":1,"run":"` + child + `","n":1,"until":10000000001}`, `turn 1 of ` + child + ` cancelled, given up in 10s`},
		{`{"v":1,"kind":"stop_requested","at":1,"run":"` + child + `","cause":3,"flags":1,"text":"enough"}`, child + ` is to end: stopped, "enough", quietly`},
		{`{"v":1,"kind":"run_ended","at":1,"run":"` + child + `","state":5}`, child + ` ended ok, its requester is not told`},
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
		{
			`{"v":1,"kind":"late","at":1,"run":"` + child + `","n":1,"text":"` + strings.Repeat("x", 100) + `"}`,
			`turn 1 of ` + child + ` came late: "` + strings.Repeat("x", 60) + `..."`,
		},
		{`{"v":1,"kind":"reserved","at":1,"run":"` + child + `","n":1,"budget":{"tokens":5}}`, `turn 1 of ` + child + `, reserves 5 tokens`},
		{`{"v":1,"kind":"snapshot","at":1,"image":{"epoch":2,"total":1,"runs":[]}}`, `snapshot, epoch 2, 0 sessions, 0 entries in the outbox`},
	} {
		got := spawn.Describe(session.Entry{Seq: 7, Payload: session.Raw(c.entry)})
		require.Equal(t, "7 1970-01-01T00:00:00.000Z "+c.want, got)
	}
	require.Contains(
		t, spawn.Describe(session.Entry{Seq: 8, Payload: session.Raw(`{"v":9,"kind":"opened"}`)}),
		"8 spawn: journal holds a fact of version 9",
	)
}
