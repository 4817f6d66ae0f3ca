package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/announce/announcetest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// envDeliveries is how many completions TestDeliveriesOverCrashes has, 2,000 unless set.
const envDeliveries = "OFFSHOOT_DELIVERIES"

// A loadWorld is what a crash does not touch: the store, and the chats that people see.
type loadWorld struct {
	t          *testing.T
	requesters int
	each       int // completions of a requester
	store      *session.Store
	open       atomic.Bool      // the chats take something
	healed     atomic.Int32     // 1: most of them do; 2: all
	healing    [2]chan struct{} // closed when most, and when all are healed

	mu       sync.Mutex
	life     *loadLife
	kills    int
	rnd      *rand.Rand
	acting   map[string]bool // acted upon, and Once has not returned
	struck   map[string]bool // those of a process that was killed
	shown    map[session.Key][]int
	seen     map[string]int    // effects by key
	content  map[string]string // what came under a key
	arrivals map[string]int    // calls behind the transport, by key
	mishaps  int

	mostKills    int
	pendingKills int // before the chats took anything
}

// A loadLife is one process.
type loadLife struct {
	w      *loadWorld
	rt     *agent.Runtime
	sink   *announcetest.FlakySink
	dead   atomic.Bool
	writes atomic.Int64  // until it is killed
	after  bool          // the last write is made, but the process does not hear of it
	gone   chan struct{} // closed when it is killed
	ended  chan error    // of Run
	cancel context.CancelFunc
}

// errLoadKilled is what a process that was killed gets from the world. It is final, so that the
// process ends.
var errLoadKilled = fmt.Errorf("this process was killed: %w", session.ErrClosed)

// requester returns the key of a requester.
func (*loadWorld) requester(n int) session.Key {
	return session.Must(session.DirectKey("main", "telegram", strconv.Itoa(n)))
}

// trouble says what a chat does until it is healed. Of 1,000 chats ten hang, half of them without a
// look at their ctx, ten fail and ten are busy. Of each ten, one does so for hours, and so is
// blocked; the others are healed before that. More that are blocked would cost more than the rest,
// because each Retry by a key looks at every tree.
func (w *loadWorld) trouble(to session.Key) string {
	n, _ := strconv.Atoi(to.Peer())
	if n >= 100 && w.healed.Load() > 0 {
		return ""
	}
	switch n % 100 {
	case 7:
		if n/100%2 == 1 {
			return "hangs"
		}
		return "ignores"
	case 13:
		return "fails"
	case 29:
		return "busy"
	}
	return ""
}

// start starts the next process, which is killed after some writes. 0: it is not killed.
func (w *loadWorld) start(ctx context.Context, writes int64) *loadLife {
	l := &loadLife{
		w: w, gone: make(chan struct{}), ended: make(chan error, 1), after: writes%2 == 0,
	}
	l.writes.Store(writes)
	w.mu.Lock()
	kills := w.kills
	w.mu.Unlock()
	store := l.gated()
	seen := &announce.Dedupe{Journal: store.Journal}
	once := seen.Once(l.act)
	l.sink = &announcetest.FlakySink{
		Seed: uint64(kills), Patience: 6, //nolint:gosec // it is not negative
		Chances: map[announcetest.Mishap]float64{
			announcetest.MishapFail: 0.01, announcetest.MishapBusy: 0.01,
			announcetest.MishapLose: 0.01, announcetest.MishapRepeat: 0.02,
			announcetest.MishapPanic: 0.003, announcetest.MishapHang: 0.003,
		},
		Next: func(ctx context.Context, d agent.Delivery) error {
			w.arrive(d)
			defer w.acted(l, d.Key)
			return once(ctx, d)
		},
	}
	rules := policy.Rules{Subagents: policy.Subagents{ArchiveAfter: policy.Off, MaxChildren: 20}}
	rt, err := agent.Open(ctx, agent.Config{
		Store: store, Rules: rules, Deliver: l.deliver, Grace: time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "done"}, nil
		}),
	})
	require.NoError(w.t, err)
	l.rt = rt
	ctx, l.cancel = context.WithCancel(ctx)
	go func() { l.ended <- rt.Run(ctx) }()
	w.mu.Lock()
	w.life = l
	w.mu.Unlock()
	return l
}

func (w *loadWorld) current() *loadLife {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life
}

// kill ends a process: nothing that it does reaches the world any more.
func (l *loadLife) kill() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.dead.Swap(true) {
		return
	}
	l.w.kills++
	for key := range l.w.acting {
		l.w.struck[key] = true
	}
	clear(l.w.acting)
	close(l.gone)
}

// deliver is Config.Deliver of a process.
func (l *loadLife) deliver(ctx context.Context, d agent.Delivery) error {
	trouble, n := l.w.trouble(d.To), 0
	if len(d.To.Peer()) < 3 {
		n = 1 // this chat is healed late
	}
	if l.w.healed.Load() == 2 {
		trouble = ""
	}
	switch {
	case l.dead.Load():
		return errLoadKilled
	case !l.w.open.Load():
		return agent.ErrBusy
	case trouble == "ignores":
		select {
		case <-l.w.healing[n]:
		case <-l.gone: // its goroutines have ended with it
		}
		return ctx.Err()
	case trouble == "hangs":
		<-ctx.Done()
		return ctx.Err()
	case trouble == "fails":
		return errors.New("no connection")
	case trouble == "busy":
		return agent.ErrBusy
	}
	return l.sink.Deliver(ctx, d)
}

// arrive notes what reaches the receiver, which is what acts where there is no Dedupe.
func (w *loadWorld) arrive(d agent.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrivals[d.Key]++
	content := d.To.String() + " " + d.Completion.Run.Task + " " + string(d.Completion.Run.ID)
	if before, ok := w.content[d.Key]; ok && before != content {
		w.t.Errorf("%s is %q, and was %q", d.Key, content, before)
	}
	w.content[d.Key] = content
}

// act shows a completion in the chat.
func (l *loadLife) act(_ context.Context, d agent.Delivery) error {
	time.Sleep(time.Millisecond)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.dead.Load() {
		return errLoadKilled
	}
	l.w.acting[d.Key] = true
	if l.w.seen[d.Key]++; l.w.seen[d.Key] > 1 {
		if !d.MayRepeat {
			l.w.t.Errorf("%s was acted upon again, and does not say that it may repeat", d.Key)
		}
		return nil
	}
	n, err := strconv.Atoi(d.Completion.Run.Task)
	if err != nil {
		return err
	}
	if d.Late {
		n += lateShown
	}
	l.w.shown[d.To] = append(l.w.shown[d.To], n)
	return nil
}

const lateShown = 1_000_000 // marks what was blocked, which may come after younger ones

// acted notes that Once has returned: the key is recorded, or the process was killed.
func (w *loadWorld) acted(l *loadLife, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.dead.Load() {
		delete(w.acting, key)
	}
}

// gated returns the store as a process sees it.
func (l *loadLife) gated() *session.Store {
	return &session.Store{
		Journal:     gatedJournal{l.w.store.Journal, l},
		Transcripts: gatedTranscripts{l.w.store.Transcripts, l},
		Files:       l.w.store.Files,
	}
}

type gatedJournal struct {
	session.Journal

	life *loadLife
}

// Append implements session.Journal.
func (j gatedJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if j.life.dead.Load() {
		return 0, errLoadKilled
	}
	if j.life.writes.Add(-1) != 0 {
		return j.Journal.Append(ctx, root, after, b)
	}
	if j.life.after {
		_, _ = j.Journal.Append(ctx, root, after, b)
	}
	j.life.kill()
	return 0, errLoadKilled
}

type gatedTranscripts struct {
	session.Transcripts

	life *loadLife
}

// Append implements session.Transcripts.
func (s gatedTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if s.life.dead.Load() {
		return 0, errLoadKilled
	}
	return s.Transcripts.Append(ctx, ref, after, m...)
}

// spawnAll has every requester spawn its sub-agents, one after the other, over crashes.
func (w *loadWorld) spawnAll(ctx context.Context) {
	var wg sync.WaitGroup
	next := atomic.Int64{}
	for range 32 {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(w.requesters); n = next.Add(1) {
				for i := range w.each {
					w.spawn(ctx, w.requester(int(n)), i)
				}
			}
		})
	}
	wg.Wait()
}

// spawn spawns one sub-agent, and returns when it has ended.
func (w *loadWorld) spawn(ctx context.Context, requester session.Key, i int) {
	text := strconv.Itoa(i)
	for {
		l := w.current()
		living, cancel := context.WithCancel(ctx)
		stop := make(chan struct{})
		go func() {
			select {
			case <-l.gone:
			case <-stop:
			}
			cancel()
		}()
		child, err := l.rt.Session(requester).Spawn(living, agent.Task{
			Text: text, Key: text, Announce: true,
		})
		if err == nil {
			_, err = child.Wait(living)
		}
		close(stop)
		var ended *agent.RunError
		if !l.dead.Load() && (err == nil || errors.As(err, &ended)) {
			return
		}
		if !l.dead.Load() {
			w.t.Errorf("spawn %d of %s: %v", i, requester, err)
			return
		}
		time.Sleep(time.Millisecond) // until the next process is there
	}
}

// writes returns after how many writes the next process is killed: half of the kills are while
// completions become pending, which takes some six writes each, and half while they arrive, which
// takes about one each. 0: it is not killed.
func (w *loadWorld) writes() int64 {
	all := int64(w.requesters * w.each)
	switch open := w.open.Load(); {
	case !open && w.kills < w.mostKills/2:
		return 1 + w.rnd.Int64N(10*all/int64(w.mostKills))
	case open && w.kills < w.mostKills:
		return 1 + w.rnd.Int64N(3*all/int64(w.mostKills))
	}
	return 0
}

// begin has the chats take what they are given.
func (w *loadWorld) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pendingKills = w.kills
	w.open.Store(true)
	w.life.writes.Store(w.writes())
}

// live starts one process after the other until stop is closed. The first ones are killed at random
// writes. It returns when all have ended. It holds none of those that have, since each has had all
// trees in memory.
func (w *loadWorld) live(ctx context.Context, stop <-chan struct{}) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		w.mu.Lock()
		writes := w.writes()
		w.mu.Unlock()
		l := w.start(ctx, writes)
		over := false
		select {
		case <-l.gone:
		case <-stop:
			over = true
		}
		l.cancel()
		wg.Go(func() { w.bury(l) })
		if over {
			return
		}
	}
}

// bury waits until a process has ended.
func (w *loadWorld) bury(l *loadLife) {
	if err := <-l.ended; err != nil && !l.dead.Load() {
		w.t.Errorf("the last process: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range l.sink.Log() {
		if c.Mishap != announcetest.MishapNone {
			w.mishaps++
		}
	}
}

// heal has every chat take what it is given, and retries what is blocked until all has arrived.
func (w *loadWorld) heal(ctx context.Context) {
	w.healed.Store(2)
	close(w.healing[1])
	for range 200 {
		time.Sleep(time.Minute)
		l := w.current()
		blocked, err := l.rt.Blocked(ctx)
		for _, d := range blocked {
			if err == nil {
				err = l.rt.Retry(ctx, d.Key)
			}
		}
		w.mu.Lock()
		over := len(w.seen) == w.requesters*w.each
		w.mu.Unlock()
		if over && err == nil && len(blocked) == 0 {
			return
		}
	}
	w.t.Error("not all has arrived")
}

// check looks at what people saw.
func (w *loadWorld) check() (struck int) {
	byContent := make(map[string]string)
	for key, content := range w.content {
		require.Empty(w.t, byContent[content], "%s has two keys", content)
		byContent[content] = key
	}
	require.Len(w.t, byContent, w.requesters*w.each)
	for key, n := range w.seen {
		if n > 1 {
			struck++
			require.True(w.t, w.struck[key], "%s was acted upon %d times", key, n)
		}
	}
	for n := 1; n <= w.requesters; n++ {
		to, before, late := w.requester(n), -1, 0
		all := make(map[int]bool)
		for _, i := range w.shown[to] {
			if i >= lateShown {
				late, i = late+1, i-lateShown
			} else {
				require.Greater(w.t, i, before, "%s was told in another order", to)
				before = i
			}
			require.False(w.t, all[i], "%d of %s was shown twice", i, to)
			all[i] = true
		}
		require.Len(w.t, all, w.each, "%s", to)
		if w.trouble(to) == "" {
			require.Zero(w.t, late, "%s was blocked, and its chat takes everything", to)
		}
	}
	return struck
}

// D1, D2, R1: many completions are pending for many requesters. Some chats hang, fail or are busy
// for hours, the transport between loses answers and repeats, and the process is killed again and
// again, at random writes. Each destination is told in order. Behind a Dedupe a completion is
// shown once, unless a kill struck between the act and its record, which each repeat is proved to
// be. Without a Dedupe it arrives at least once, always under one key with one content.
//
// OFFSHOOT_DELIVERIES=100000 plays it with 100,000 completions and 1,000 requesters.
func TestDeliveriesOverCrashes(t *testing.T) {
	requesters, each, kills := 40, 50, 12
	if underRace {
		each, kills = 20, 8
	}
	if s := os.Getenv(envDeliveries); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		requesters, each, kills = max(n/100, 40), 100, 40
	}
	began := time.Now()
	w := &loadWorld{
		t: t, requesters: requesters, each: each, mostKills: kills, store: session.NewMemory(),
		rnd:    rand.New(rand.NewPCG(rand.Uint64(), 0)), //nolint:gosec // moments of a test
		acting: make(map[string]bool), struck: make(map[string]bool),
		shown: make(map[session.Key][]int), seen: make(map[string]int),
		content: make(map[string]string), arrivals: make(map[string]int),
	}
	var virtual time.Duration
	var heap uint64
	synctest.Test(t, func(t *testing.T) {
		w.healing = [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		stop, over := make(chan struct{}), make(chan struct{})
		opened := time.Now()
		go func() { defer close(over); w.live(t.Context(), stop) }()
		synctest.Wait()
		w.spawnAll(t.Context())
		heap = heapInUse()
		w.begin()
		time.Sleep(15 * time.Minute)
		w.healed.Store(1)
		close(w.healing[0])
		time.Sleep(3 * time.Hour)
		w.heal(t.Context())
		close(stop)
		<-over
		virtual = time.Since(opened)
	})
	struck := w.check()
	arrivals := 0
	for _, n := range w.arrivals {
		arrivals += n
	}
	t.Logf("%d completions, %d requesters, %d kills while they became pending and %d while they "+
		"arrived: %d arrivals, %d mishaps, %d shown again after a kill between act and record; "+
		"%v of %v, %d MB of heap with all of them pending",
		requesters*each, requesters, w.pendingKills, w.kills-w.pendingKills, arrivals, w.mishaps,
		struck, time.Since(began).Round(time.Millisecond), virtual, heap>>20)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
