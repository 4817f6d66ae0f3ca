package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A fleet is several processes on one engine, and the program around them.
type fleet struct {
	t       *testing.T
	engine  *sessiontest.Cluster
	outside *session.Store // of a process that only looks
	log     *slog.Logger   // of every process; nil: the usual one
	hung    chan struct{}  // until it is closed, deliveries of "a" hang; nil: they do not

	mu        sync.Mutex
	stores    map[string]*session.Store // of the talkers, by their names
	delivered []told
	ran       []ran
}

// told is a delivery, and the process that made it.
type told struct {
	by    string
	to    session.Key
	key   string
	epoch uint64
	at    time.Time
}

// ran is a turn that a Runner was called for.
type ran struct {
	by, task string
	at       time.Time
	cause    error // of its context when it returned; nil: it was not cancelled
}

// A worker is one process of a fleet.
type worker struct {
	*spawn.Supervisor

	fleet  *fleet
	name   string
	store  *session.Store
	ended  chan error // what Run returns
	killed bool       // it stays cut off until the end of the test
}

func newFleet(t *testing.T, o sessiontest.ClusterOptions) *fleet {
	engine := sessiontest.NewCluster(o)
	return &fleet{t: t, engine: engine, outside: engine.Open("outside")}
}

// work takes a minute, or ten of the task "long", and more while the process may not begin
// anything.
func (w *worker) work(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
	begun := ran{by: w.name, task: taskOf(tn), at: time.Now()}
	w.fleet.mu.Lock()
	i := len(w.fleet.ran)
	w.fleet.ran = append(w.fleet.ran, begun)
	w.fleet.mu.Unlock()
	err := w.minutes(ctx, tn, 1)
	if begun.task == "long" && err == nil {
		err = w.minutes(ctx, tn, 9)
	}
	w.fleet.mu.Lock()
	w.fleet.ran[i].cause = context.Cause(ctx)
	w.fleet.mu.Unlock()
	did := w.name + " did it"
	return spawn.TurnResult{Result: spawn.Result{Text: did}, Reply: did}, err
}

func (w *worker) minutes(ctx context.Context, tn *spawn.TurnInput, n int) error {
	for range 60 * n {
		if err := spawntest.Delay(time.Second)(ctx, tn, nil); err != nil {
			return err
		}
		if err := tn.AwaitProvider(ctx, ""); err != nil {
			return err
		}
	}
	return nil
}

func taskOf(tn *spawn.TurnInput) string {
	if len(tn.Inputs) > 0 {
		return tn.Inputs[0].Text
	}
	return ""
}

// open opens a process that does not run yet.
func (f *fleet) open(name string) *worker {
	w := &worker{fleet: f, name: name, store: f.engine.Open(name), ended: make(chan error, 1)}
	return f.openOn(w, w.store)
}

func (f *fleet) openOn(w *worker, store *session.Store) *worker {
	s, err := spawn.Open(f.t.Context(), spawn.Config{
		Store: store, Runner: runnerFunc(w.work), CallerRun: true, Logger: f.log,
		Rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 2}},
		Deliver: func(_ context.Context, out spawn.Delivery) error {
			if w.name == "a" && f.hung != nil {
				<-f.hung
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.delivered = append(f.delivered, told{w.name, out.To, out.Key, out.Epoch, time.Now()})
			return nil
		},
	})
	require.NoError(f.t, err)
	w.Supervisor = s
	return w
}

// run runs the process until the end of the test, or until it is stopped.
func (w *worker) run() *worker {
	go func() { w.ended <- w.Run(context.WithoutCancel(w.fleet.t.Context())) }()
	w.fleet.t.Cleanup(func() {
		w.fleet.engine.Heal(w.store)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.Shutdown(ctx); err != nil {
			var still *spawn.StillRunningError
			require.ErrorAs(w.fleet.t, err, &still)
		}
		require.NoError(w.fleet.t, <-w.ended)
	})
	synctest.Wait()
	return w
}

// begin spawns a run of a tree.
func (w *worker) begin(root session.Key, task string) (spawn.RunInfo, error) {
	return w.Spawn(w.fleet.t.Context(), root, root,
		spawn.Request{Task: task, Key: task, Announce: true})
}

// status returns the state of a run as any process sees it.
func (f *fleet) status(w *worker, run spawn.RunInfo) spawn.Status {
	info, err := w.Find(f.t.Context(), run.Root, run.Ref())
	require.NoError(f.t, err)
	return info.Status
}

// turns returns who has run what, in order.
func (f *fleet) turns() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.ran {
		list = append(list, r.by+" "+r.task)
	}
	return list
}

// arrived returns the keys of the deliveries, each once.
func (f *fleet) arrived() (keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.delivered {
		if !slices.Contains(keys, d.key) {
			keys = append(keys, d.key)
		}
	}
	return keys
}

// entries yields the journal of a tree.
func (f *fleet) entries(root session.Key) iter.Seq2[session.Entry, error] {
	return f.outside.Journal.Read(f.t.Context(), root, 0)
}

// cutName cuts a talker off from the engine.
func (f *fleet) cutName(name string) {
	f.mu.Lock()
	store := f.stores[name]
	f.mu.Unlock()
	f.engine.Cut(store)
}

// cause returns the cause of the context of the first turn when it returned; nil: it was not
// cancelled, or has not returned.
func (f *fleet) cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ran[0].cause
}

// made returns the deliveries that were made, in order.
func (f *fleet) made() []told {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.delivered)
}

// ownerOf returns the name of the process that has a tree, or "".
func (f *fleet) ownerOf(root session.Key) string {
	c, err := f.outside.Owners.Claim(f.t.Context(), root)
	if by, ok := errors.AsType[*session.OwnedError](err); ok {
		return by.Claim.Owner.Name
	}
	require.NoError(f.t, err)
	require.NoError(f.t, f.outside.Owners.Release(f.t.Context(), c))
	return ""
}

// settled checks the journal of a tree: it follows every rule, and nothing is left to do.
func (f *fleet) settled(root session.Key) spawntest.Report {
	f.t.Helper()
	report, err := spawntest.Inspect(f.outside.Journal.Read(f.t.Context(), root, 0))
	require.NoError(f.t, err)
	require.NoError(f.t, report.AtRest())
	return report
}

// A tree belongs to the process that has claimed it. Another one reads it, and does not take it.
func TestTreeOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b").run()
		run, err := a.begin(topKey, "one")
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, spawn.StatusRunning, f.status(b, run))
		list, err := b.Runs(t.Context(), topKey, topKey, true)
		require.NoError(t, err)
		require.Len(t, list, 1)
		time.Sleep(2 * time.Minute)
		require.Equal(t, spawn.StatusOK, f.status(b, run), "what b reads is new each time")
		require.Equal(t, []string{"a one"}, f.turns())
		require.Len(t, f.arrived(), 1)
		require.EqualValues(t, 1, f.settled(topKey).Epoch, "b has opened nothing")
	})
}

// A tree that has rested is given up, and then any process may have it.
func TestTreeThatRestsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b").run()
		_, err := a.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.Equal(t, "a", f.ownerOf(topKey))
		time.Sleep(10 * time.Minute)
		require.Empty(t, f.ownerOf(topKey))
		_, err = b.begin(topKey, "two")
		require.NoError(t, err)
		_, err = a.begin(topKey, "three")
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.ElementsMatch(t, []string{"a one", "b two", "b three"}, f.turns())
		require.EqualValues(t, 2, f.settled(topKey).Epoch)
	})
}

// A command that fails keeps no tree.
func TestRefusedCommandKeepsNoTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b").run()
		require.ErrorIs(t, a.DeleteSession(t.Context(), topKey, topKey, "no"), spawn.ErrNotFound)
		_, err := b.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		f.settled(topKey)
	})
}

// A process that does not run records what it is asked for, and another one does it.
func TestProcessThatDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a := f.open("a")
		f.open("b").run()
		run, err := a.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(3 * time.Second) // the spread, and a look
		require.Equal(t, []string{"b one"}, f.turns())
		require.Equal(t, "b", f.ownerOf(topKey))
		time.Sleep(2 * time.Minute)
		require.Equal(t, spawn.StatusOK, f.status(a, run))
		f.settled(topKey)
		require.NoError(t, a.Shutdown(t.Context()))
	})
}

// A caller that waits in a process which does not run keeps the tree there for one lease, and waits
// on when another process has it.
func TestWaitInAProcessThatDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a := f.open("a")
		run, err := a.begin(topKey, "one")
		require.NoError(t, err)
		waited := make(chan error, 1)
		go func() {
			_, err := a.Wait(t.Context(), topKey, []spawn.RunRef{run.Ref()}, spawn.JoinOptions{})
			waited <- err
		}()
		synctest.Wait()
		f.open("b").run()
		time.Sleep(session.DefaultLease - 5*time.Second)
		require.Empty(t, f.turns())
		time.Sleep(8 * time.Second)
		require.Equal(t, []string{"b one"}, f.turns())
		_, err = a.begin(topKey, "two")
		require.NoError(t, err)
		require.NoError(t, <-waited)
		require.NoError(t, a.Shutdown(t.Context()))
		time.Sleep(2 * time.Minute)
		f.settled(topKey)
	})
}

// A shutdown hands every tree over at once: what has not begun begins elsewhere, and what had is
// interrupted.
func TestShutdownHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b").run()
		var runs []spawn.RunInfo
		for _, task := range []string{"1", "2", "3", "4", "5"} {
			run, err := a.begin(topKey, task)
			require.NoError(t, err)
			runs = append(runs, run)
		}
		time.Sleep(10 * time.Second)
		begun := len(f.turns())
		require.Less(t, begun, len(runs), "some wait for a slot")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, a.Shutdown(ctx))
		time.Sleep(3 * time.Second)
		require.Contains(t, f.turns(), fmt.Sprint("b ", begun+1), "it goes on at once")
		time.Sleep(5 * time.Minute)
		for i, run := range runs {
			want := spawn.StatusInterrupted
			if i >= begun {
				want = spawn.StatusOK
			}
			require.Equal(t, want, f.status(b, run), "%d", i)
		}
		require.Len(t, f.turns(), len(runs), "no run is started twice")
		require.Len(t, f.arrived(), len(runs))
		f.settled(topKey)
	})
}

// A process that is killed loses its trees when its lease is over, and no run is started twice.
func TestKilledProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b").run()
		run, err := a.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(15 * time.Second)
		f.engine.Cut(a.store)
		time.Sleep(session.DefaultLease + 3*time.Second)
		require.Equal(t, spawn.StatusInterrupted, f.status(b, run))
		require.Equal(t, []string{"a one"}, f.turns())
		time.Sleep(time.Minute)
		require.Len(t, f.arrived(), 1)
		f.settled(topKey)
	})
}

// What becomes of a run of a process that cannot reach the engine for a time.
func TestOutages(t *testing.T) {
	for _, test := range []struct {
		outage time.Duration
		alone  bool // there is no other process
		want   spawn.Status
	}{
		{time.Second, false, spawn.StatusOK},
		{19 * time.Second, false, spawn.StatusOK},
		{31 * time.Second, true, spawn.StatusOK},
		{31 * time.Second, false, spawn.StatusInterrupted},
		{10 * time.Minute, true, spawn.StatusOK},
		{11 * time.Minute, true, spawn.StatusInterrupted},
		{11 * time.Minute, false, spawn.StatusInterrupted},
	} {
		t.Run(fmt.Sprint(test.outage, " alone ", test.alone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cutOff(t, sessiontest.ClusterOptions{}, test.outage, test.alone, test.want)
			})
		})
	}
}

// Leases and pauses go by durations, so that a clock of the engine which is off changes nothing.
func TestOutagesWithAnotherClock(t *testing.T) {
	for _, off := range []time.Duration{40 * time.Second, -40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			clock := func() time.Time { return time.Now().Add(off) }
			o := sessiontest.ClusterOptions{Clock: clock}
			cutOff(t, o, 19*time.Second, false, spawn.StatusOK)
			cutOff(t, o, 31*time.Second, true, spawn.StatusOK)
			cutOff(t, o, 31*time.Second, false, spawn.StatusInterrupted)
		})
	}
}

// A process acts for its trees however short its lease is.
func TestShortLeases(t *testing.T) {
	for _, lease := range []time.Duration{
		100 * time.Millisecond, time.Second, 1100 * time.Millisecond, 2 * time.Second,
	} {
		t.Run(lease.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, sessiontest.ClusterOptions{Lease: lease})
				a := f.open("a").run()
				run, err := a.begin(topKey, "one")
				require.NoError(t, err)
				time.Sleep(2 * time.Minute)
				require.Equal(t, spawn.StatusOK, f.status(a, run))
				require.Len(t, f.arrived(), 1)
				f.settled(topKey)
			})
		})
	}
}

// A lockedLog is a log that may be read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A process says once that it pauses, and once that it acts again. What lasts less is not said.
func TestPausesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		var log lockedLog
		f.log = slog.New(slog.NewTextHandler(&log, nil))
		a := f.open("a").run()
		said := func() int {
			synctest.Wait()
			require.NotContains(t, log.String(), "level=ERROR")
			return strings.Count(log.String(), "\n")
		}
		for i, outage := range []time.Duration{40 * time.Second, 20 * time.Minute} {
			time.Sleep(time.Minute)
			require.Equal(t, 2*i, said())
			f.engine.Cut(a.store)
			time.Sleep(10 * time.Second)
			require.Equal(t, 2*i, said())
			time.Sleep(outage - 10*time.Second)
			require.Equal(t, 2*i+1, said())
			f.engine.Heal(a.store)
			time.Sleep(10 * time.Second)
			require.Equal(t, 2*i+2, said())
		}
		require.Equal(t, 2, strings.Count(log.String(), "acts for its trees again"))
		require.Equal(t, 4, strings.Count(log.String(), "level=WARN"))
	})
}

// cutOff cuts a process off in the middle of a run.
func cutOff(
	t *testing.T, o sessiontest.ClusterOptions, long time.Duration, alone bool, want spawn.Status,
) {
	f := newFleet(t, o)
	a := f.open("a").run()
	if !alone {
		f.open("b").run()
	}
	run, err := a.begin(topKey, "one")
	require.NoError(t, err)
	time.Sleep(20*time.Second + time.Millisecond) // right after a beat
	f.engine.Cut(a.store)
	time.Sleep(long)
	healed := time.Now()
	f.engine.Heal(a.store)
	time.Sleep(2 * time.Minute)
	require.Equal(t, want, f.status(a, run))
	require.Equal(t, []string{"a one"}, f.turns(), "it is not started twice")
	if want == spawn.StatusOK {
		require.NoError(t, f.cause())
	} else {
		require.ErrorIs(t, f.cause(), spawn.ErrUnconfirmed)
	}
	for _, d := range f.made() {
		lapsed := d.at.After(healed.Add(-long).Add(session.DefaultLease))
		require.False(t, d.by == "a" && lapsed && d.at.Before(healed), "a paused")
	}
	f.settled(topKey)
}

// A delivery of a process that may not act waits. It is made by the process that has the tree then.
func TestDeliveryWaits(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, sessiontest.ClusterOptions{})
			a := f.open("a").run()
			_, err := a.begin(topKey, "one")
			require.NoError(t, err)
			time.Sleep(50*time.Second + time.Millisecond)
			f.engine.Cut(a.store) // the lease lapses at 80 s
			time.Sleep(31 * time.Second)
			require.Empty(t, f.arrived())
			if taken {
				f.open("b").run()
				time.Sleep(5 * time.Second)
				require.Len(t, f.arrived(), 1, "of the interrupted run")
			}
			f.engine.Heal(a.store)
			time.Sleep(time.Minute)
			made := f.made()
			require.Len(t, made, 1)
			require.Equal(t, map[bool]string{false: "a", true: "b"}[taken], made[0].by)
			f.settled(topKey)
		})
	}
}

// A delivery that hangs until another process has the tree and has made it again, as in a process
// that was stopped, has the same Key and an older Epoch than that. What it returns changes nothing.
func TestDeliveryOfAFormerOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		f.hung = make(chan struct{})
		a := f.open("a").run()
		_, err := a.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(61 * time.Second) // its end is being delivered
		f.engine.Cut(a.store)
		time.Sleep(31 * time.Second)
		f.open("b").run()
		time.Sleep(5 * time.Second)
		require.Len(t, f.made(), 1)
		before := f.settled(topKey)
		f.engine.Heal(a.store)
		close(f.hung)
		time.Sleep(time.Minute)
		made := f.made()
		require.Len(t, made, 2)
		require.Equal(t, []string{"b", "a"}, []string{made[0].by, made[1].by})
		require.Equal(t, made[0].key, made[1].key)
		require.Less(t, made[1].epoch, made[0].epoch)
		require.Equal(t, before, f.settled(topKey))
		require.Equal(t, "b", f.ownerOf(topKey))
	})
}

// A deafOwners is that of a process which is not told of its lease: it was stopped for a while, and
// the engine has it alive.
type deafOwners struct {
	session.Owners
	deaf atomic.Bool
}

func (o *deafOwners) Serve(ctx context.Context, m session.Member) error {
	tell := m.Lease
	m.Lease = func(l session.Lease) {
		if !o.deaf.Load() {
			tell(l)
		}
	}
	return o.Owners.Serve(ctx, m)
}

// archiveLog notes the archives of transcripts.
type archiveLog struct {
	session.Transcripts
	note func(what string)
}

func (l archiveLog) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	l.note("archive")
	return l.Transcripts.Archive(ctx, ref, at)
}

// While a process may not act, it begins nothing that has an effect outside of the journal, of
// whatever kind, and it does all of that when it may again.
func TestNothingBeginsInAPause(t *testing.T) {
	// What follows the end of a run waits for its delivery.
	for _, told := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { pauseOf(t, told) })
	}
}

// pausedRunner plays turns that begin something after 40 seconds, and say when they have.
func pausedRunner(note func(string)) *spawntest.Runner {
	said := func(what string) spawntest.Step {
		return spawntest.Do(func(context.Context, *spawn.TurnInput) error {
			note(what)
			return nil
		})
	}
	method := func(f func(context.Context, *spawn.TurnInput) error) spawntest.Play {
		return spawntest.Play{
			spawntest.Delay(40 * time.Second), spawntest.Do(f), said("method"),
		}
	}
	r := (&spawntest.Runner{}).On("x", spawntest.Play{spawntest.Delay(40 * time.Second)})
	r.On("y", spawntest.Play{said("turn")})
	r.On("report", method(func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.Report(ctx, spawn.Progress{Text: "half", Milestone: true})
	}))
	r.On("spawn", method(func(ctx context.Context, tn *spawn.TurnInput) error {
		_, err := tn.Spawn(ctx, spawn.Request{Task: "x"})
		return err
	}))
	r.On("model", method(func(ctx context.Context, tn *spawn.TurnInput) error {
		return tn.AwaitProvider(ctx, "")
	}))
	return r
}

// pauseOf has a process pause, in which much becomes due.
func pauseOf(t *testing.T, told bool) {
	begun := time.Now()
	var mu sync.Mutex
	var did []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		did = append(did, what)
	}
	f := newFleet(t, sessiontest.ClusterOptions{})
	w := &worker{fleet: f, name: "a", store: f.engine.Open("a"), ended: make(chan error, 1)}
	owners, store := &deafOwners{Owners: w.store.Owners}, *w.store
	store.Owners, store.Transcripts = owners, archiveLog{store.Transcripts, note}
	r := pausedRunner(note)
	tell := func(what string) func(context.Context, spawn.Delivery) error {
		return func(context.Context, spawn.Delivery) error { note(what); return nil }
	}
	var err error
	cfg := spawn.Config{
		Store: &store, Runner: r, CallerRun: true, Deliver: tell("deliver"),
		Rules: policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
		Tidy:  func(context.Context, spawn.TidyRequest) error { note("tidy"); return nil },
		Unbind: func(context.Context, spawn.UnbindRequest) error {
			note("unbind")
			return nil
		},
	}
	arrives := 0
	if told {
		cfg.Ended, arrives = tell("hook"), 1
	}
	w.Supervisor, err = spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	w.run()
	owners.deaf.Store(true) // it may act until 29 s
	for _, task := range []string{"report", "spawn", "model"} {
		mustSpawn(t, w.Supervisor, spawn.Request{Task: task})
	}
	mustSpawn(t, w.Supervisor, spawn.Request{
		Task: "x", Announce: told, Extra: []byte(`{}`), Thread: true,
		Bind: session.Route{Channel: "c", To: "1", Thread: "2"}, Delete: true,
	})
	time.Sleep(time.Until(begun.Add(35 * time.Second)))
	mustSpawn(t, w.Supervisor, spawn.Request{Task: "y"})
	time.Sleep(time.Until(begun.Add(2 * time.Minute)))
	mu.Lock()
	require.Empty(t, did)
	mu.Unlock()
	owners.deaf.Store(false)
	time.Sleep(11 * time.Second) // a beat, and more
	mu.Lock()
	defer mu.Unlock()
	for what, n := range map[string]int{
		"turn": 1, "method": 3, "deliver": arrives, "unbind": 1, "archive": 1,
	} {
		count := 0
		for _, x := range did {
			if x == what {
				count++
			}
		}
		require.Equal(t, n, count, "%s of %v", what, did)
	}
	require.Equal(t, told, slices.Contains(did, "hook"))
	require.Contains(t, did, "tidy")
}

// The turns of a process that is not heard for too long end while it is still cut off.
func TestTurnsEndInALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a := f.open("a").run()
		_, err := a.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		f.engine.Cut(a.store)
		time.Sleep(10 * time.Minute)
		require.NoError(t, f.cause())
		time.Sleep(30 * time.Second)
		require.ErrorIs(t, f.cause(), spawn.ErrUnconfirmed)
	})
}

// A caller that waits for a tree that another process takes waits on for what comes of it there,
// whether its own process hears of that or asks for its claim.
func TestWaitThatAnotherProcessEnds(t *testing.T) {
	for _, outage := range []time.Duration{time.Minute, 11 * time.Minute} {
		synctest.Test(t, func(t *testing.T) { waitWhileCutOff(t, outage) })
	}
}

func waitWhileCutOff(t *testing.T, outage time.Duration) {
	f := newFleet(t, sessiontest.ClusterOptions{})
	a := f.open("a").run()
	b := f.open("b").run()
	run, err := a.begin(topKey, "one")
	require.NoError(t, err)
	ended := make(chan error, 2)
	wait := func() error {
		_, err := a.Wait(t.Context(), topKey, []spawn.RunRef{run.Ref()}, spawn.JoinOptions{})
		return err
	}
	go func() { ended <- wait() }()
	go func() { ended <- a.Idle(t.Context(), topKey) }()
	time.Sleep(time.Second)
	f.engine.Cut(a.store)
	time.Sleep(outage - 20*time.Second)
	_, err = b.begin(topKey, "two") // so that it does not rest there
	require.NoError(t, err)
	time.Sleep(20 * time.Second)
	f.engine.Heal(a.store)
	time.Sleep(2 * time.Minute)
	for range 2 {
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(time.Second):
			t.Error("a caller still waits")
		}
	}
}

// A conflict alone does not say that another process has the tree: one that has not claimed it, as
// an earlier tool, has written to it. The process that has the claim goes on.
func TestConflictAsksForTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a := f.open("a").run()
		run, err := a.begin(topKey, "one")
		require.NoError(t, err)
		synctest.Wait()
		alone := *f.outside
		alone.Owners = nil
		other, err := spawn.Open(t.Context(), spawn.Config{
			Store: &alone, Runner: &spawntest.Runner{}, CallerRun: true,
			Deliver: func(context.Context, spawn.Delivery) error { return nil },
		})
		require.NoError(t, err)
		_, err = other.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "two"})
		require.NoError(t, err)
		require.NoError(t, other.Shutdown(t.Context()))
		time.Sleep(3 * time.Minute)
		require.Equal(t, spawn.StatusInterrupted, f.status(a, run))
		require.Equal(t, []string{"a one", "a two"}, f.turns(), "a has what the tool has written")
		f.settled(topKey)
	})
}

// A process that shuts down and waits for its turns takes no tree of another one.
func TestShutdownTakesNoTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a, b := f.open("a").run(), f.open("b")
		_, err := a.begin(topKey, "one")
		require.NoError(t, err)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- a.Shutdown(t.Context()) }()
		synctest.Wait()
		other := session.Must(session.MainKey("other"))
		_, err = b.begin(other, "two")
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		_, err = b.begin(other, "three")
		require.NoError(t, err, "no process has it")
		require.NoError(t, <-done)
		f.open("c").run()
		time.Sleep(5 * time.Minute)
		require.ElementsMatch(t, []string{"a one", "c two", "c three"}, f.turns())
		require.NoError(t, b.Shutdown(t.Context()))
	})
}

// A lateOwners tells that a claim was taken before the claim itself is answered.
type lateOwners struct {
	session.Owners
	rival session.Owners
	until time.Time
	tell  func(session.Lease)
}

func (o *lateOwners) Serve(ctx context.Context, m session.Member) error {
	o.tell = m.Lease
	m.Lease = func(l session.Lease) {
		o.until = l.Until
		o.tell(l)
	}
	return o.Owners.Serve(ctx, m)
}

func (o *lateOwners) Claim(ctx context.Context, root session.Key) (session.Claim, error) {
	c, err := o.Owners.Claim(ctx, root)
	if err == nil && o.rival != nil {
		err = o.Owners.Release(ctx, c)
		_, rerr := o.rival.Claim(ctx, root)
		err = errors.Join(err, rerr)
		o.rival = nil
		o.tell(session.Lease{Until: o.until, Taken: []session.Claim{c}})
	}
	return c, err
}

// A claim that is taken before its answer has come does not hold. The process that has taken it
// does not serve, so that the caller waits for the end of its lease.
func TestClaimThatIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a := &worker{fleet: f, name: "a", store: f.engine.Open("a"), ended: make(chan error, 1)}
		store := *a.store
		store.Owners = &lateOwners{Owners: store.Owners, rival: f.outside.Owners}
		f.openOn(a, &store).run()
		begun := time.Now()
		_, err := a.begin(topKey, "one")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(begun), session.DefaultLease-time.Second)
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"a one"}, f.turns())
	})
}

// Another process that joins under the name of one takes its place: that one ends.
func TestReplacedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		var log lockedLog
		f.log = slog.New(slog.NewTextHandler(&log, nil))
		a := f.open("a").run()
		run, err := a.begin(topKey, "one")
		require.NoError(t, err)
		a.say(restingKey, "two")
		a.say(longKey, "long")
		time.Sleep(15 * time.Second)
		again := f.open("a").run()
		time.Sleep(30 * time.Second)
		err = <-a.ended
		require.ErrorIs(t, err, session.ErrReplaced)
		require.ErrorContains(t, err, `under the name of this one: "a"`)
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
		require.Contains(t, log.String(), "lost all its trees\" trees=3 process=a")
		a.ended <- nil
		require.Equal(t, spawn.StatusInterrupted, f.status(again, run))
		require.Len(t, f.arrived(), 1)
		f.settled(topKey)
	})
}

// Of two Supervisors that run with one store, the second one ends, and says why.
func TestTwoSupervisorsOfOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		a := f.open("a").run()
		second := f.openOn(&worker{fleet: f, name: "second", store: a.store}, a.store)
		err := second.Run(t.Context())
		require.ErrorIs(t, err, session.ErrServing)
		require.NotContains(t, err.Error(), "journal")
		run, err := a.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.Equal(t, spawn.StatusOK, f.status(a, run))
	})
}

// A dyingJournal is that of a process that is cut off at its n-th append, before or after that.
type dyingJournal struct {
	session.Journal
	cut     func()
	n       int
	after   bool
	appends int // only one tree appends
}

var errCutOff = errors.New("the answer has not come")

func (j *dyingJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (seq session.Seq, err error) {
	if j.appends++; j.appends != j.n {
		return j.Journal.Append(ctx, root, after, b)
	}
	if !j.after {
		j.cut()
		return j.Journal.Append(ctx, root, after, b)
	}
	_, err = j.Journal.Append(ctx, root, after, b)
	j.cut()
	return 0, errors.Join(err, errCutOff)
}

// At whichever write a process is cut off, for good or for a time: another one goes on with its
// tree, the caller that repeats its command there has one run, which is started once, and the
// receiver is told of its end under one key.
func TestSecondProcessTakesOverAtEveryWrite(t *testing.T) {
	for n, died := 1, true; died; n++ {
		for _, after := range []bool{false, true} {
			for _, heal := range []time.Duration{0, 31 * time.Second, 11 * time.Minute} {
				t.Run(fmt.Sprint(n, " after ", after, " healed ", heal), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { died = cutAtWrite(t, n, after, heal) })
				})
			}
		}
		require.Less(t, n, 50)
	}
}

// cutAtWrite cuts process a off at its n-th write, and heals it after a time, or at the end if that
// is 0. It reports whether a has written so often.
func cutAtWrite(t *testing.T, n int, after bool, heal time.Duration) bool {
	f := newFleet(t, sessiontest.ClusterOptions{})
	a := &worker{fleet: f, name: "a", store: f.engine.Open("a"), ended: make(chan error, 1)}
	store := *a.store
	j := &dyingJournal{Journal: store.Journal, n: n, after: after, cut: func() {
		f.engine.Cut(a.store)
		if heal > 0 {
			time.AfterFunc(heal, func() { f.engine.Heal(a.store) })
		}
	}}
	store.Journal = j
	f.openOn(a, &store).run()
	b := f.open("b").run()
	for _, task := range []string{"one", "two"} {
		_, err := a.begin(topKey, task)
		for by := []*worker{b, a}; err != nil; by[0], by[1] = by[1], by[0] { // as people do
			time.Sleep(time.Second)
			_, err = by[0].begin(topKey, task)
		}
		time.Sleep(10 * time.Second)
	}
	time.Sleep(15 * time.Minute)
	f.engine.Heal(a.store)
	time.Sleep(time.Minute)
	report := f.settled(topKey)
	require.Equal(t, 2, report.Runs)
	require.Len(t, f.arrived(), 2)
	started, newest := make(map[string]int), uint64(0)
	for _, turn := range f.turns() {
		_, task, _ := strings.Cut(turn, " ")
		started[task]++
		require.Equal(t, 1, started[task], "%s is started once", task)
	}
	for _, d := range f.made() {
		require.GreaterOrEqual(t, d.epoch, newest, "a former owner acts no more")
		newest = d.epoch
	}
	return j.appends >= n
}

// Settle claims the tree of the delivery, and leaves one alone that a process has.
func TestSettleClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		blocked := true
		w := &worker{fleet: f, name: "a", store: f.engine.Open("a"), ended: make(chan error, 1)}
		s, err := spawn.Open(t.Context(), spawn.Config{
			Store: w.store, Runner: &spawntest.Runner{}, CallerRun: true,
			Deliver: func(context.Context, spawn.Delivery) error {
				if blocked {
					return spawn.Permanent(errors.New("no"))
				}
				return nil
			},
		})
		require.NoError(t, err)
		w.Supervisor = s
		w.run()
		_, err = w.begin(topKey, "one")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		out, err := w.Outbox(t.Context(), topKey)
		require.NoError(t, err)
		require.Len(t, out, 1)
		settle := func() error {
			return spawn.Settle(t.Context(), f.outside, out[0].Key, spawn.SettleDismiss)
		}
		require.ErrorIs(t, settle(), session.ErrOwned)
		require.NoError(t, w.Shutdown(t.Context()))
		require.NoError(t, settle())
		_, err = f.engine.Open("x").Owners.Claim(t.Context(), topKey)
		require.NoError(t, err, "it keeps nothing")
		f.settled(topKey)
	})
}

// A process that pauses because its lease was not renewed says why, and once.
func TestPauseSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		var log lockedLog
		f.log = slog.New(slog.NewTextHandler(&log, nil))
		a := f.open("a").run()
		a.say(topKey, "one")
		f.engine.Cut(a.store)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "was not renewed in time\""), log.String())
		require.Regexp(t, `not renewed in time" tenure=\w+ error="[^"]*`+
			sessiontest.ErrUnreachable.Error(), log.String())
		f.engine.Heal(a.store)
	})
}

// A troubledOwners hands out what its process is told by.
type troubledOwners struct {
	session.Owners
	member chan session.Member
}

func (o *troubledOwners) Serve(ctx context.Context, m session.Member) error {
	o.member <- m
	return o.Owners.Serve(ctx, m)
}

// What the engine fails at beside the calls of a process is in the log, without secrets, and so is
// that it goes on.
func TestTroubleOfTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, sessiontest.ClusterOptions{})
		var log lockedLog
		f.log = slog.New(slog.NewTextHandler(&log, nil))
		o := &troubledOwners{member: make(chan session.Member, 1)}
		f.talker("a", func(cfg *spawn.Config) {
			store := *cfg.Store
			o.Owners = store.Owners
			store.Owners = o
			cfg.Store = &store
		}).run()
		m := <-o.member
		m.Trouble("lanes", errors.New("no table"))
		require.Contains(t, log.String(), "level=ERROR")
		require.Contains(t, log.String(), `work=lanes error="no table"`)
		m.Trouble("lanes", nil)
		require.Contains(t, log.String(), "level=INFO")
	})
}
