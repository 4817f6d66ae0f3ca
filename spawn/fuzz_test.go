package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// TestHistories plays random histories of one tree. A process has up to four lives, each ended by a
// crash before or after an append. Several goroutines spawn, post, steer, stop, cancel turns and
// wait. The Runners do all that a Runner may and may not do. The receiver fails, hangs, panics,
// ends its goroutine, is busy, and loses acknowledgements. What must hold is checked while it
// happens, and afterwards by an audit of everything that was ever appended.
//
// OFFSHOOT_FUZZ sets how many histories are played. A failure names its seed, which OFFSHOOT_SEED
// plays again. A seed may need a few rounds, because the scheduler decides too.
func TestHistories(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ"))
	if n == 0 {
		n = 200
	}
	if testing.Short() {
		n = 20
	}
	first, fixed := maphash.Bytes(maphash.MakeSeed(), nil)>>1, false
	if seed, err := strconv.ParseUint(os.Getenv("OFFSHOOT_SEED"), 10, 64); err == nil {
		first, fixed = seed, true
	}
	for i := range uint64(n) {
		seed := first + i
		if fixed {
			seed = first
		}
		synctest.Test(t, func(t *testing.T) { newWorld(t, seed).play() })
	}
}

// world is the store, the rules and the observations of one history.
type world struct {
	t     *testing.T
	rand  *rand.Rand
	seed  uint64
	store *session.Store
	log   *spawntest.Recorder
	cfg   spawn.Config
	limit int // of the lane
	clock clock
	years atomic.Bool // the clock has jumped over the window of the keys
	stop  chan struct{}

	mu       sync.Mutex
	durable  map[string]bool                 // facts that have been appended, by what they say
	keys     []session.Key                   // of runs that a caller was told of
	parents  map[session.Key]session.Key     // of runs that had a turn
	byKey    map[string]session.Key          // spawn keys
	asked    map[string]int                  // requests with each spawn key: 1, 2, or 3 for both
	holders  map[*spawn.TurnInput]slotHolder // turns of sub-agents that hold a slot
	active   map[activeKey]int               // Runners under way
	stopped  map[session.Key]int             // for good, by which life
	halted   map[activeKey]bool              // the same, in one process
	returned map[string]string               // what a Runner answered
	accepted map[string]int                  // deliveries that the receiver took
	said     map[string]string               // keys of what turns said before their end
	newest   map[bool]uint64                 // the last one of replies, and of completions
	calling  map[callKey]bool
	refused  map[string]bool // messages that a caller was told are not recorded
	epoch    uint64          // the highest that it has seen
	checks   atomic.Int64
	calls    int // of deliver
}

type activeKey struct {
	sup *spawn.Supervisor
	key session.Key
}

// callKey names a destination within a process.
type callKey struct {
	l     *life
	reply bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t:        t,
		seed:     seed,
		rand:     rand.New(rand.NewPCG(seed, 1)),
		store:    session.NewMemory(),
		stop:     make(chan struct{}),
		durable:  map[string]bool{},
		parents:  map[session.Key]session.Key{},
		byKey:    map[string]session.Key{},
		asked:    map[string]int{},
		holders:  map[*spawn.TurnInput]slotHolder{},
		active:   map[activeKey]int{},
		stopped:  map[session.Key]int{},
		halted:   map[activeKey]bool{},
		returned: map[string]string{},
		accepted: map[string]int{}, said: map[string]string{},
		newest:  map[bool]uint64{},
		refused: map[string]bool{},
		calling: map[callKey]bool{},
	}
	w.log = spawntest.NewRecorder(&watchedJournal{w.store.Journal, w})
	w.limit = 1 + w.rand.IntN(4)
	w.cfg = spawn.Config{
		Rules: policy.Rules{Subagents: policy.Subagents{
			MaxSpawnDepth: 3, MaxChildren: 4, MaxConcurrent: w.limit, ArchiveAfter: time.Hour,
		}},
		CallerRun: w.rand.IntN(2) == 0, Replies: w.rand.IntN(2) == 0,
		Tools: []string{"read", "write", "sessions_spawn"},
	}
	if w.rand.IntN(3) == 0 {
		w.cfg.Rules.Budget.Tokens = 5000
	}
	return w
}

// watchedJournal notes what is durable before a reader of the journal can see it.
type watchedJournal struct {
	session.Journal
	w *world
}

func (j *watchedJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	seq, err := j.Journal.Append(ctx, root, after, b)
	if err != nil {
		return seq, err
	}
	for _, e := range b.Entries {
		if f, ok := e.Payload.(*tree.Fact); ok {
			switch f.Kind {
			case tree.TurnStarted:
				j.w.durable[fmt.Sprintf("turn %d of %s", f.N, f.Run)] = true
			case tree.RunEnded, tree.Admitted:
				j.w.durable[fmt.Sprintf("%s %v", f.Run, f.Kind)] = true
			}
		}
	}
	return seq, nil
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("OFFSHOOT_SEED=%d: %s", w.seed, fmt.Sprintf(format, args...))
}

// roll returns a number below n. It depends on the seed and on what is being decided, not on the
// caller or the time.
func (w *world) roll(n int, what ...any) int {
	h := fnv(fmt.Sprint(append(what, w.seed)...))
	return int(h % uint64(n))
}

func fnv(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return (h ^ h>>29) * 0xbf58476d1ce4e5b9 >> 8
}

// play plays the whole history.
func (w *world) play() {
	lives := 1 + w.rand.IntN(4)
	var zombies []*life
	for i := range lives {
		l := w.live(i, i == lives-1)
		if i == lives-1 {
			w.settle(l)
		}
		zombies = append(zombies, l)
		if len(zombies) > 1 { // the one before had a while beside its successor
			w.bury(zombies[len(zombies)-2])
		}
	}
	close(w.stop)
	w.bury(zombies[len(zombies)-1])
	time.Sleep(time.Hour) // Runners that were given up come to their end
	w.audit()
}

// life is one process.
type life struct {
	n       int
	sup     *spawn.Supervisor
	journal *spawntest.CrashJournal
	ran     chan error
}

// live opens the store in a new process and lets callers use it until it crashes or they are done.
func (w *world) live(n int, last bool) *life {
	l := &life{n: n, journal: spawntest.NewCrashJournal(w.log), ran: make(chan error, 1)}
	if !last && w.rand.IntN(4) > 0 { // else it stays alive beside its successor
		l.journal.At(1+w.rand.IntN(60), spawntest.FaultDieBefore+spawntest.Fault(w.rand.IntN(2)))
	}
	w.trouble(l.journal)
	sup, err := spawn.Open(w.t.Context(), w.configOf(l))
	if err != nil {
		w.t.Fatal(err)
	}
	sup.SetClock(w.clock.now)
	if w.rand.IntN(3) == 0 {
		w.jump(w.rand)
	}
	sup.CheckAppends(func(c spawn.Checkpoint) {
		if w.checks.Add(1)%7 == 0 {
			if err := c.Verify(context.Background(), w.store.Journal); err != nil {
				w.fail("%v", err)
			}
		}
	})
	l.sup = sup
	go func() { l.ran <- sup.Run(context.WithoutCancel(w.t.Context())) }()
	var people sync.WaitGroup
	for range 3 {
		r := rand.New(rand.NewPCG(w.rand.Uint64(), 2))
		people.Go(func() {
			for range 8 {
				if r.IntN(40) == 0 {
					w.jump(r)
				}
				w.act(l, r)
				time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
			}
		})
	}
	people.Wait()
	return l
}

// jump sets the clock of all processes forward or back, or right.
func (w *world) jump(r *rand.Rand) {
	by := jumps[r.IntN(len(jumps))]
	if by > tree.KeyWindow {
		w.years.Store(true)
	}
	back := r.IntN(5) > 1 && w.clock.now().Year() > 1985 // times before 1970 are not times
	switch {
	case back:
		w.clock.move(-by)
	case r.IntN(2) == 0:
		w.clock.move(by)
	default:
		w.clock.set(0)
	}
}

// configOf returns the configuration of a process.
func (w *world) configOf(l *life) spawn.Config {
	cfg := w.cfg
	cfg.Store = &session.Store{Journal: l.journal, Transcripts: w.store.Transcripts}
	cfg.Runner = runnerFunc(
		func(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
			return w.run(l, ctx, t)
		},
	)
	cfg.ValidModel = func(model string) bool { return w.validModel(l, model) }
	cfg.Rules.Sandbox.Decide = func(_ string, key session.Key) bool {
		return key.IsSubagent() && w.validModel(l, "a/"+strconv.Itoa(w.roll(24, key, "sandbox")))
	}
	cfg.Deliver = func(ctx context.Context, out spawn.Delivery) error {
		return w.deliver(ctx, l, out)
	}
	return cfg
}

// trouble schedules the faults of a journal before it dies, if it does. It fails now and then, or
// for up to 200 appends in a row.
func (w *world) trouble(j *spawntest.CrashJournal) {
	faults := []spawntest.Fault{
		spawntest.FaultFailBefore, spawntest.FaultLoseAck, spawntest.FaultPanicBefore,
		spawntest.FaultPanicAfter, spawntest.FaultExitBefore, spawntest.FaultExitAfter,
	}
	for range w.rand.IntN(4) {
		j.Unless(1+w.rand.IntN(100), faults[w.rand.IntN(len(faults))])
	}
	for range w.rand.IntN(3) {
		first, long := 1+w.rand.IntN(60), 1+w.rand.IntN(8)
		if w.rand.IntN(3) == 0 {
			long = 1 + w.rand.IntN(200)
		}
		only := w.rand.IntN(len(faults) + 1)
		for n := first; n < first+long; n++ {
			what := faults[w.rand.IntN(len(faults))]
			if only < len(faults) {
				what = faults[only]
			}
			j.Unless(n, what)
		}
	}
}

// validModel is a function of the caller that a decision asks. It may do anything, too.
func (w *world) validModel(l *life, model string) bool {
	switch model {
	case "a/0":
		panic("broken")
	case "a/1":
		runtime.Goexit()
	case "a/2":
		_, err := l.sup.Runs(w.t.Context(), topKey, topKey, true)
		w.known(err)
	case "a/3":
		time.Sleep(100 * time.Millisecond)
	case "a/4":
		return false
	}
	return true
}

// act plays one random act of a caller.
func (w *world) act(l *life, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	what, began := r.IntN(13), time.Now()
	defer func() { // also while the journal fails, a caller outside gets its answer
		// It may meet two stalls, one and a half seconds each.
		if took := time.Since(began); what < 8 && took > 4*time.Second {
			w.fail("an answer took %v", took)
		}
	}()
	switch what {
	case 0, 1, 2:
		_, _ = w.spawnFrom(
			topKey,
			strconv.Itoa(r.IntN(6)),
			r.IntN(4) == 0,
			func(q spawn.Request) (spawn.RunInfo, error) {
				return l.sup.Spawn(ctx, topKey, topKey, q)
			},
		)
	case 3, 4:
		id := strconv.Itoa(r.IntN(20))
		w.known(l.sup.Post(ctx, topKey, topKey, helloOf(id)))
	case 5:
		more := fmt.Sprintf("more %d", w.checks.Add(1))
		err := l.sup.Post(ctx, topKey, w.any(r), spawn.Incoming{Text: more})
		w.known(err)
		if errors.Is(err, spawn.ErrNotRecorded) {
			w.mu.Lock()
			w.refused[more] = true
			w.mu.Unlock()
		}
	case 6, 7:
		w.known(l.sup.Steer(ctx, topKey, topKey, w.any(r), spawn.Incoming{Text: "this way"}))
	case 8:
		w.halt(ctx, l, w.any(r))
	case 9:
		if r.IntN(3) == 0 {
			w.halt(ctx, l, topKey)
		}
		w.known(l.sup.CancelTurn(ctx, topKey, w.any(r)))
	case 10:
		short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(60))*time.Second)
		_, err := l.sup.Wait(
			short, topKey, []session.Key{w.any(r), w.any(r)},
			spawn.JoinOptions{AtLeast: r.IntN(2), StopRest: r.IntN(4) == 0},
		)
		cancel()
		w.known(err)
		w.postAndWait(ctx, l, strconv.Itoa(r.IntN(20)), time.Duration(r.IntN(60))*time.Second)
	case 11:
		for _, out := range w.outbox(ctx, l) {
			if !out.Blocked.IsZero() {
				w.known(l.sup.Retry(ctx, out.Key))
			}
		}
	case 12:
		w.wish(ctx, l, r)
	}
}

// wish resets the top-level session, or has it compact its conversation.
func (w *world) wish(ctx context.Context, l *life, r *rand.Rand) {
	short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(120))*time.Second)
	defer cancel()
	if r.IntN(2) == 0 {
		err := l.sup.Reset(short, topKey, topKey)
		if _, busy := errors.AsType[*spawn.ChildrenError](err); !busy {
			w.known(err)
		}
		return
	}
	err := l.sup.Compact(short, topKey, topKey)
	if !errors.Is(err, spawn.ErrNothing) && !errors.Is(err, errBroken) && !isBroken(err) {
		w.known(err)
	}
}

var errBroken = errors.New("broken")

// isBroken reports whether a Runner of the world has panicked, or ended its goroutine.
func isBroken(err error) bool {
	_, panicked := errors.AsType[*spawn.PanicError](err)
	return panicked || errors.Is(err, spawn.ErrExited)
}

// helloOf returns a message to the top-level session.
func helloOf(id string) spawn.Incoming {
	return spawn.Incoming{
		ID: id, Text: "hello " + id, From: session.Sender{ID: "ann"},
		Meta: map[string]string{"id": id},
	}
}

// postAndWait posts a message and waits for the reply, which must answer it.
func (w *world) postAndWait(ctx context.Context, l *life, id string, within time.Duration) {
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	reply, err := l.sup.PostAndWait(short, topKey, topKey, helloOf(id))
	if !errors.Is(err, spawn.ErrSilent) && !errors.Is(err, spawn.ErrAnswered) {
		w.known(err)
	}
	if err == nil && !slices.Contains(reply.InReplyTo, id) {
		w.fail("%q, which answers %q, was the reply to %q", reply.Text, reply.InReplyTo, id)
	}
}

func (w *world) outbox(ctx context.Context, l *life) []spawn.Delivery {
	list, err := l.sup.Outbox(ctx, topKey)
	w.known(err)
	return list
}

// known checks that an error is one that a caller has to expect.
func (w *world) known(err error) {
	var refusal *policy.Refusal
	var still *spawn.StillRunningError
	var failed *spawn.CallbackError
	switch {
	case err == nil, errors.As(err, &refusal), errors.As(err, &still), errors.As(err, &failed):
	case errors.Is(err, context.DeadlineExceeded):
	default:
		for _, want := range []error{
			spawn.ErrNotFound, spawn.ErrEnded, spawn.ErrStopping, spawn.ErrStale,
			spawn.ErrUnconfirmed, spawn.ErrNotRecorded, spawn.ErrUnreadable,
			spawn.ErrBudget, spawn.ErrShutdown,
			spawn.ErrStopped, spawn.ErrTimedOut, spawn.ErrTurnCancelled,
		} {
			if errors.Is(err, want) {
				return
			}
		}
		w.fail("unexpected error %T: %v", err, err)
	}
}

// any returns a run that a caller was told of, or the top-level session.
func (w *world) any(r *rand.Rand) session.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.keys) == 0 {
		return topKey
	}
	return w.keys[r.IntN(len(w.keys))]
}

// spawnFrom spawns a child. It checks that what was acknowledged is durable, and that the same key
// gives the same run.
func (w *world) spawnFrom(
	from session.Key, key string, timeout bool, do func(spawn.Request) (spawn.RunInfo, error),
) (session.Key, error) {
	q := spawn.Request{Task: "work " + key, Key: key, Announce: w.roll(8, from, key) > 0}
	if timeout {
		q.Policy.Timeout = 20 * time.Second
	}
	if w.roll(3, from, key, "model") == 0 {
		q.Policy.Model = "a/" + strconv.Itoa(w.roll(8, from, key))
	}
	if w.roll(4, from, key, "tools") == 0 {
		q.Policy.Tools = []string{"read", "sessions_spawn"} // and nothing else below it either
	}
	name, request := from.String()+" "+key, 1
	if timeout {
		request = 2
	}
	w.mu.Lock()
	w.asked[name] |= request
	w.mu.Unlock()
	info, err := do(q)
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, spawn.ErrKeyConflict) && w.asked[name] == 3 {
		return session.Key{}, err
	}
	w.known(err)
	if err != nil {
		return session.Key{}, err
	}
	if !w.durable[fmt.Sprintf("%s %v", info.Key, tree.Admitted)] {
		w.fail("%s was acknowledged and is not durable", info.Key)
	}
	if old, ok := w.byKey[name]; ok && old != info.Key && !w.years.Load() {
		w.fail("spawn key %q of %s gave %s and then %s", key, from, old, info.Key)
	}
	w.byKey[name] = info.Key
	w.keys = append(w.keys, info.Key)
	return info.Key, nil
}

// halt stops a session and checks that nothing of it is alive afterwards.
func (w *world) halt(ctx context.Context, l *life, key session.Key) {
	began := time.Now()
	err := l.sup.Stop(ctx, topKey, key, "enough")
	w.known(err)
	select {
	case <-l.journal.Died(): // what becomes of the tree cannot be known
		return
	default:
	}
	if errors.Is(err, context.DeadlineExceeded) {
		w.fail("Stop(%s) did not return within %v", key, time.Since(began))
	}
	if err != nil || key == topKey {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halted[activeKey{l.sup, key}] = true
	if by, again := w.stopped[key]; !again || l.n < by {
		w.stopped[key] = l.n
	}
	for k, n := range w.active {
		if k.sup == l.sup && n > 0 && w.below(k.key, key) {
			w.fail("Stop(%s) returned nil while a turn of %s was under way", key, k.key)
		}
	}
}

func (w *world) below(k, ancestor session.Key) bool {
	for ; !k.IsZero(); k = w.parents[k] {
		if k == ancestor {
			return true
		}
	}
	return false
}

// run is the Runner. It may do anything.
func (w *world) run(l *life, ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
	key, me := t.Session.Key, activeKey{l.sup, t.Session.Key}
	w.mu.Lock()
	w.parents[key] = t.Session.Parent
	if !w.durable[fmt.Sprintf("turn %d of %s", t.N, key)] {
		w.fail("turn %d of %s started before it was durable", t.N, key)
	}
	if w.active[me]++; w.active[me] > 1 {
		w.fail("two turns of %s at once", key)
	}
	for k := key; !k.IsZero(); k = w.parents[k] {
		// A former life that has not noticed yet may start what it decided on.
		if by, stopped := w.stopped[k]; stopped && l.n >= by {
			w.fail("turn %d of %s started after Stop(%s) had returned nil", t.N, key, k)
		}
	}
	w.mu.Unlock()
	w.slot(ctx, l, t, true)
	defer func() {
		w.slot(ctx, l, t, false)
		w.mu.Lock()
		w.active[me]--
		w.mu.Unlock()
	}()
	returned := ""
	out := spawn.TurnResult{
		Result: spawn.Result{Text: fmt.Sprintf(" answer %d of %s in life %d\xff\n", t.N, key, l.n)},
		Reply:  "reply",
		Pos:    t.Pos + 1, Compacted: w.roll(3, "compacted", key, t.N),
	}
	if t.Compact && len(t.Inputs) > 0 {
		w.fail("turn %d of %s compacts and reads", t.N, key)
	}
	defer func() { // a Runner that panics or ends its goroutine has returned nothing
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.Compact { // which says nothing
			returned = ""
		}
		w.returned[fmt.Sprintf("turn %d of %s", t.N, key)] = returned
	}()
	if err := w.work(l, ctx, t, &out); err != nil {
		returned = out.Result.Text
		return out, err
	}
	returned = out.Result.Text
	return out, nil
}

// slot notes whether a turn of a sub-agent holds a slot, and checks how many do. A turn that was
// cancelled may have given its slot back.
func (w *world) slot(ctx context.Context, l *life, t *spawn.TurnInput, holds bool) {
	if t.Session.Depth == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !holds {
		delete(w.holders, t)
		return
	}
	w.holders[t] = slotHolder{ctx, l}
	n := 0
	for _, h := range w.holders {
		if h.l == l && h.ctx.Err() == nil {
			n++
		}
	}
	if n > w.limit {
		w.fail("%d turns of sub-agents at once, the lane has %d slots", n, w.limit)
	}
}

type slotHolder struct {
	ctx context.Context
	l   *life
}

func (w *world) work(
	l *life, ctx context.Context, t *spawn.TurnInput, out *spawn.TurnResult,
) error {
	key := t.Session.Key
	roll := func(n int, what string) int { return w.roll(n, what, key, t.N) }
	if t.Session.Depth == 0 && len(t.Inputs) > 0 {
		for n := range roll(3, "say") {
			text := fmt.Sprintf("said %d over the inputs from %d on", n, t.First)
			w.known(t.Say(ctx, spawn.Saying{Text: text}))
		}
	}
	pause := func() { time.Sleep(time.Duration(roll(3000, "pause")) * time.Millisecond) }
	pause()
	if roll(3, "spend") == 0 {
		if err := t.Spend(ctx, session.Usage{Input: int64(roll(400, "in"))}); err != nil {
			w.known(err)
			return err
		}
		out.Result.Usage = t.Spent()
	}
	if roll(4, "take") == 0 {
		_, err := t.Take(ctx)
		w.known(err)
	}
	if roll(3, "straggler") == 0 {
		go w.straggle(l, t)
	}
	if t.Session.Role != session.RoleLeaf && t.N <= 2 && roll(5, "spawns") < 3 {
		if err := w.delegate(l, ctx, t); err != nil {
			return err
		}
	}
	switch roll(16, "what") {
	case 0:
		return errBroken
	case 1:
		panic("broken")
	case 2:
		runtime.Goexit()
	case 3:
		<-ctx.Done()
		return context.Cause(ctx)
	case 4:
		select {
		case <-ctx.Done():
			// Beyond the grace period or not.
			time.Sleep(time.Duration(roll(20, "linger")) * time.Second)
		case <-time.After(40 * time.Second):
		}
	case 5:
		select { // the Runner ignores its context
		case <-w.stop:
		case <-time.After(10 * time.Minute):
		}
	case 6:
		out.Silent = true
	case 7:
		out.Result.Text, out.Fallback = "", "fallback"
	}
	pause()
	return nil
}

// straggle uses a turn from a goroutine that does not heed its end (R5). What comes after the end
// is refused.
func (w *world) straggle(l *life, t *spawn.TurnInput) {
	key := t.Session.Key
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), time.Hour)
	defer cancel()
	for i := range 6 {
		time.Sleep(time.Duration(w.roll(9000, "straggler", key, t.N, i)) * time.Millisecond)
		over, ended := t.Over() != nil, t.Err() != nil
		w.mu.Lock()
		gone := false // Stop has returned nil
		for k := key; !k.IsZero(); k = w.parents[k] {
			gone = gone || w.halted[activeKey{l.sup, k}]
		}
		w.mu.Unlock()
		var err error
		begins := true
		switch w.roll(7, "late", key, t.N, i) {
		case 0:
			_, err = w.spawnFrom(key, fmt.Sprintf("late %d.%d", t.First, i), false,
				func(q spawn.Request) (spawn.RunInfo, error) { return t.Spawn(ctx, q) })
		case 1:
			_, err = t.Take(ctx)
		case 2:
			_, err = t.Runs(ctx)
		case 3:
			if ended { // else the turn would give its slot back while the Runner works
				_, err = t.Wait(ctx, nil, spawn.JoinOptions{})
			}
		case 4:
			err = t.Steer(ctx, w.any(w.straggler(t, i)), spawn.Incoming{Text: "late"})
		case 5:
			begins, err = false, t.Spend(ctx, session.Usage{Input: 1})
		case 6:
			t.Yield(spawn.JoinOptions{})
			err = t.Err()
		}
		w.known(err)
		if (over || gone || ended && begins) && !errors.Is(err, spawn.ErrStale) {
			w.fail("turn %d of %s is over and still acts: %v", t.N, key, err)
		}
	}
}

// straggler returns the random numbers of one act of a straggler.
func (w *world) straggler(t *spawn.TurnInput, i int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(w.roll(1<<30, "target", t.Session.Key, t.N, i)), 3))
}

// delegate spawns children and waits for them in one way or another, or does not.
func (w *world) delegate(l *life, ctx context.Context, t *spawn.TurnInput) error {
	key := t.Session.Key
	var children []session.Key
	for i := range 1 + w.roll(3, key, t.N, "children") {
		child, err := w.spawnFrom(
			key,
			fmt.Sprintf("%d.%d", t.First, i%2),
			w.roll(5, key, i, "timeout") == 0,
			func(q spawn.Request) (spawn.RunInfo, error) {
				return t.Spawn(ctx, q)
			},
		)
		if err == nil {
			children = append(children, child)
		}
	}
	opt := spawn.JoinOptions{AtLeast: w.roll(3, key, t.N, "need")}
	if w.roll(3, key, t.N, "deadline") == 0 {
		opt.Within = 15 * time.Second
	}
	switch how := w.roll(5, key, t.N, "wait"); how {
	case 0:
		t.Yield(opt)
	case 1:
		t.Yield(opt, children...)
	case 2, 3:
		short := ctx
		if how == 3 {
			var cancel context.CancelFunc
			short, cancel = context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
		}
		w.slot(ctx, l, t, false)
		_, err := t.Wait(short, children, opt)
		w.slot(ctx, l, t, true)
		w.known(err)
	}
	return nil
}

// deliver is the receiver of what leaves the tree.
func (w *world) deliver(ctx context.Context, l *life, out spawn.Delivery) error {
	w.mu.Lock()
	to := callKey{l, out.Reply != nil}
	if w.calling[to] {
		w.fail("%s is handed over while another call for its destination is under way", out.Key)
	}
	w.calling[to] = true
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calling[to] = false
	}()
	if c := out.Completion; c != nil {
		if !w.durable[fmt.Sprintf("%s %v", c.Run.Key, tree.RunEnded)] {
			w.fail("the end of %s was delivered before it was durable", c.Run.Key)
		}
		if !c.Run.Status.Terminal() {
			w.fail("%s was delivered while it was %v", c.Run.Key, c.Run.Status)
		}
	}
	// A repeat is marked as one, or comes from an owner that has been replaced.
	if w.accepted[out.Key] > 0 && !out.MayRepeat && out.Epoch >= w.epoch {
		w.fail("%s was delivered twice without a warning", out.Key)
	}
	w.checkOrder(out)
	w.epoch = max(w.epoch, out.Epoch)
	w.calls++
	roll := w.roll(24, out.Key, w.calls)
	if roll > 7 {
		w.take(out)
	}
	w.mu.Unlock()
	switch roll {
	case 0:
		return errors.New("down")
	case 1:
		return spawn.ErrBusy
	case 2:
		panic("down")
	case 3:
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		return errors.New("slow")
	case 4:
		time.Sleep(time.Second)
		w.mu.Lock()
		w.take(out)
		w.mu.Unlock()
		return errors.New("the acknowledgement was lost")
	case 5:
		runtime.Goexit()
	case 6: // far beyond its time
		time.Sleep(10 * time.Minute)
		return errors.New("very slow")
	case 7:
		time.Sleep(50 * time.Minute)
		w.mu.Lock()
		w.take(out)
		w.mu.Unlock()
	}
	return nil
}

// take notes that the receiver has taken a delivery. What was said under one name has one key.
func (w *world) take(out spawn.Delivery) {
	if r := out.Reply; r != nil && strings.HasPrefix(r.Text, "said ") {
		if key := w.said[r.Text]; key != "" && key != out.Key {
			w.fail("%q left twice, as %s and %s", r.Text, key, out.Key)
		}
		w.said[r.Text] = out.Key
	}
	w.accepted[out.Key]++
	w.newest[out.Reply != nil] = max(w.newest[out.Reply != nil], w.ordOf(out))
}

// checkOrder checks an attempt: the receiver has taken no later delivery for the same destination,
// except where this one has been blocked and says so, or a former owner sends it.
func (w *world) checkOrder(out spawn.Delivery) {
	newest := w.newest[out.Reply != nil]
	if w.ordOf(out) < newest && w.accepted[out.Key] == 0 && !out.Late && out.Epoch >= w.epoch {
		w.fail("%s comes after number %d of its destination", out.Key, newest)
	}
}

// ordOf returns the ordinal of a delivery, which its key ends with.
func (w *world) ordOf(out spawn.Delivery) uint64 {
	_, number, _ := strings.Cut(out.Key, ".")
	ord, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		w.fail("the key %q: %v", out.Key, err)
	}
	return ord
}

// settle lets a process that has not crashed finish everything. It stops the turns that do not end
// by themselves, because they hold their slots.
func (w *world) settle(l *life) {
	ctx := w.t.Context()
	time.Sleep(2 * time.Hour)
	for hung := true; hung; time.Sleep(time.Hour) {
		hung = false
		for _, r := range w.runs(l) {
			if r.Status == spawn.StatusRunning {
				hung = true
				w.halt(ctx, l, r.Key)
			}
		}
	}
	for _, r := range w.runs(l) {
		if !r.Status.Terminal() {
			w.fail("%s is %v for ever", r.Key, r.Status)
		}
	}
	if len(w.runs(l)) == 0 && len(w.log.RootKeys()) == 0 {
		return
	}
	for _, out := range w.outbox(ctx, l) {
		if out.Blocked.IsZero() {
			w.fail("%s never arrives: %+v", out.Key, out)
		}
	}
	for range 3 { // a message stays, and its turn may hang as well
		w.halt(ctx, l, topKey)
		time.Sleep(time.Hour)
	}
	if used := l.sup.SlotsUsed(); used != 0 {
		w.fail("%d slots are never given back", used)
	}
}

func (w *world) runs(l *life) []spawn.RunInfo {
	runs, err := l.sup.Runs(w.t.Context(), topKey, topKey, true)
	for errors.Is(err, spawn.ErrUnreadable) { // the journal still fails now and then
		time.Sleep(10 * time.Second)
		runs, err = l.sup.Runs(w.t.Context(), topKey, topKey, true)
	}
	if err != nil && !errors.Is(err, spawn.ErrNotFound) {
		w.fail("%v", err)
	}
	return runs
}

// bury shuts down a process that may have crashed long ago.
func (w *world) bury(l *life) {
	ctx, cancel := context.WithCancel(w.t.Context())
	if w.rand.IntN(3) == 0 { // there is time
		ctx, cancel = context.WithTimeout(
			w.t.Context(), time.Duration(w.rand.IntN(600))*time.Second,
		)
		defer cancel()
	} else {
		cancel()
	}
	var still *spawn.StillRunningError
	if err := l.sup.Shutdown(ctx); err != nil && !errors.As(err, &still) {
		w.fail("Shutdown: %v", err)
	}
	if err := <-l.ran; err != nil && !errors.As(err, &still) {
		w.fail("Run: %v", err)
	}
}

// checkResults compares what Runners returned with what is on record, byte for byte.
func (w *world) checkResults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e, err := range w.log.History(topKey) {
		if err != nil {
			w.fail("reading the history: %v", err)
			return
		}
		f, err := tree.FactOf(e.Payload)
		if err == nil && f.Kind == tree.Posted && w.refused[string(f.Text)] {
			w.fail("%q is on record, and its caller was told that it is not", f.Text)
		}
		if err != nil || f.Kind != tree.TurnEnded || f.Answer == nil {
			continue
		}
		want := w.returned[fmt.Sprintf("turn %d of %s", f.N, f.Run)]
		if got := string(f.Answer.Text); got != want {
			w.fail("turn %d of %s returned %q, on record is %q", f.N, f.Run, want, got)
		}
	}
}

func (w *world) audit() {
	report, err := spawntest.Inspect(w.log.History(topKey))
	if err == nil && len(w.log.RootKeys()) > 0 {
		err = report.AtRest()
	}
	if err != nil {
		w.fail("%v", err)
	}
	w.checkResults()
	if w.t.Failed() {
		var b strings.Builder
		for e, err := range w.log.History(topKey) {
			if err != nil {
				break // it is in memory
			}
			fmt.Fprintln(&b, spawn.Describe(e))
		}
		w.t.Log(b.String())
	}
}
