package agenttest

import (
	"context"
	"errors"
	"maps"
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

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// Run runs f in a bubble of virtual time with a Runtime that plays the script, and checks what is
// promised when f has returned and what it left under way has come to its end, which is given an
// hour of virtual time.
//
// The Runner of cfg may be nil or a Loop, whose Model the script then takes the place of; to test a
// Runner of another kind, leave the script nil. Everything else in cfg is used as it is: Reply and
// Deliver are called, and what they accepted is remembered. A Store must not have been used before,
// and must be one in memory: a Store with goroutines of its own, such as that of package dirstore,
// cannot be used in a bubble.
func Run(t *testing.T, cfg agent.Config, s Script, f func(h *Harness)) {
	t.Helper()
	runOutside(t, cfg, s, setup{}, f)
}

// EveryCrash is Run once for every write to the store that f makes, in a subtest that kills the
// process right before it, and one that kills it right after it, when it is durable but the Runtime
// has not learned of it. Another process takes over at once.
//
// Methods of the Harness go on with the new process by themselves; other calls belong into
// [Harness.Do]. What f asserts must hold wherever the crash was. A reply that people get twice has
// the same Delivery.Key both times, and counts once here.
//
// Each subtest has a Store in memory of its own, in place of that of cfg.
//
// The environment variable OFFSHOOT_CRASHES, a number n, has it play every n-th of them only, from
// a random one on: for runs that must be short, such as those with the race detector, beside one
// that plays them all.
func EveryCrash(t *testing.T, cfg agent.Config, s Script, f func(h *Harness)) {
	t.Helper()
	everyCrash(t, nil, cfg, s, f)
}

func everyCrash(
	t *testing.T, c *Cluster, cfg agent.Config, s Script, f func(h *Harness),
) {
	t.Helper()
	cfg.Store = nil
	every := 1
	if n, err := strconv.Atoi(os.Getenv("OFFSHOOT_CRASHES")); err == nil && n > 1 {
		every = n
	}
	skip := rand.IntN(every) //nolint:gosec // it picks what is tested
	for at := 1; ; at++ {
		reached := true
		for _, after := range []bool{false, true} {
			if skip--; skip >= 0 {
				continue
			}
			skip = every - 1
			p := &crashPoint{at: at, after: after}
			t.Run(p.String(), func(t *testing.T) {
				runOutside(t, cfg, s, setup{c, p}, f)
			})
			reached = reached && p.reached != ""
		}
		if !reached || t.Failed() {
			return
		}
	}
}

// A Harness is a process that runs a Runtime, and its successors, and what they said. Its methods
// are for the function that Run got, and may be called by goroutines that it starts in the bubble.
type Harness struct {
	t        testing.TB
	outer    testing.TB // the test around the bubble
	cfg      agent.Config
	script   Script
	store    *session.Store
	engine   *sessiontest.Cluster // nil: there is one process at a time
	released chan struct{}        // closed when the test is over
	waiting  chan struct{}        // held by the goroutine that waits until all others do

	goroutine string      // that f runs in
	gone      atomic.Bool // the bubble has ended

	mu            sync.Mutex
	running       *process
	processes     []*process
	opened        int // the stores of processes
	crash         *crashPoint
	writes        int
	over          bool // f has returned
	posted        int
	calls         map[string]int
	failed        map[session.Key]int
	turnsUnderWay map[turnID]int
	owners        map[session.Key]*process
	facts         []fact
	entries       map[session.Key][]session.Entry
	ended         map[session.Key]bool
	lines         map[session.Ref][]session.Line
	filed         map[session.Ref]bool   // the transcripts for which bytes were put
	purged        map[session.Ref]bool   // those that were removed for good
	left          map[session.Ref]bool   // the transcripts that a reset has left behind
	places        map[session.Key]string // the directories of sub-agents with attachments there
	replies       []agent.Delivery
	deliveries    []agent.Delivery
	requests      map[string][]agent.ModelRequest
	watched       map[session.Key]agent.Cursor // behind the last event that was collected
	events        []agent.TreeEvent
	clock         time.Time      // the clock of the prompts, as it was set
	clockSet      time.Time      // when it was set, in virtual time, or zero
	doing         map[string]int // calls of Do under way, by goroutine
}

type turnID struct {
	proc *process
	key  session.Key
}

// maxVirtualTime is how long a function may run. Virtual time passes fast, so that a function that
// waits for ever is found soon.
const maxVirtualTime = 400 * 24 * time.Hour

// runOutside is Run outside of the bubble, which it makes.
func runOutside(t *testing.T, cfg agent.Config, s Script, by setup, f func(h *Harness)) {
	t.Helper()
	if f == nil {
		t.Fatalf("agenttest: Run has no function to run: f is nil")
	}
	failWhenNested(t)
	var used *Harness
	defer func() {
		if used != nil {
			used.gone.Store(true)
		}
	}()
	// The channel of the context is made outside: the bubble's own could not be closed from here.
	t.Context().Done()
	var guard stallGuard
	defer guard.start(stallPause)()
	outer := t
	synctest.Test(t, func(t *testing.T) {
		guard.enter()
		runInBubble(t, outer, cfg, s, by, func(h *Harness) {
			used = h
			defer enterBubble(h)()
			f(h)
		})
	})
}

// runInBubble is Run inside a bubble. The test outer is the one around it.
func runInBubble(
	t, outer testing.TB, cfg agent.Config, s Script, by setup, f func(h *Harness),
) {
	t.Helper()
	h := &Harness{
		t: t, outer: outer, goroutine: goroutineID(),
		cfg: cfg, script: s, store: cfg.Store, released: make(chan struct{}),
		waiting:       make(chan struct{}, 1),
		calls:         make(map[string]int),
		failed:        make(map[session.Key]int),
		turnsUnderWay: make(map[turnID]int),
		owners:        make(map[session.Key]*process),
		ended:         make(map[session.Key]bool),
		lines:         make(map[session.Ref][]session.Line),
		filed:         make(map[session.Ref]bool),
		purged:        make(map[session.Ref]bool),
		left:          make(map[session.Ref]bool),
		places:        make(map[session.Key]string),
		entries:       make(map[session.Key][]session.Entry),
		requests:      make(map[string][]agent.ModelRequest),
		watched:       make(map[session.Key]agent.Cursor),
		doing:         make(map[string]int),
	}
	processes := h.open(by)
	for _, r := range append(slices.Collect(maps.Values(cfg.Runners.Agents)), cfg.Runner) {
		if _, loop := r.(*agent.Loop); s != nil && r != nil && !loop {
			t.Fatalf("agenttest: there is a script and a Runner of type %T that would not play it; leave one of them nil", r)
		}
	}
	if s == nil && cfg.Runner == nil && len(cfg.Runners.Agents) == 0 {
		s = Script{}
		h.script = s
	}
	before := stateOf(outer.Context())
	for range processes {
		if !h.startProcess(t.Context()) {
			t.FailNow()
		}
	}
	h.wait() // it runs
	lost := time.AfterFunc(maxVirtualTime, func() {
		t.Errorf("agenttest: the function has not returned after %v of virtual time",
			maxVirtualTime)
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, proc := range h.processes {
			proc.cancel() // what waits at a Runtime returns
		}
	})
	defer lost.Stop()
	calm := false
	defer func() {
		h.shutDown()
		h.checkJournals()
		h.checkConversations()
		h.checkFiles()
		if calm {
			h.checkPlaces()
			h.checkCompletions()
			h.checkFormer()
			h.checkInUse()
		}
		h.checkLeaks()
		if t.Failed() {
			h.logJournals()
		}
		h.checkOuterContext(before)
	}()
	f(h)
	calm = h.waitIdle()
}

func (h *Harness) current() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running
}

// T returns the test inside the bubble, for require and the like.
func (h *Harness) T() testing.TB { h.inUse(); return h.t }

// Context returns a context of the bubble, which ends with the test.
func (h *Harness) Context() context.Context { h.inUse(); return h.t.Context() }

// Runtime returns the Runtime of the process that runs now. After a crash it is another one.
func (h *Harness) Runtime() *agent.Runtime { h.inUse(); return h.current().rt }

// Session returns a session of the process that runs now.
func (h *Harness) Session(key session.Key) *agent.Session { return h.Runtime().Session(key) }

// Main returns the main session of the default agent.
func (h *Harness) Main() *agent.Session { return h.Session(h.mainKey()) }

func (h *Harness) mainKey() session.Key {
	return session.Must(session.MainKey(h.cfg.Rules.DefaultAgent()))
}

// Do calls f, and again with the next process if the one it was called with is killed meanwhile and
// f returns an error. It returns the last error. What f waits for at a Runtime whose process was
// killed ends with an error.
//
// A Crash in f, by its goroutine, fails the test: f would be called without end.
func (h *Harness) Do(f func(rt *agent.Runtime) error) error {
	defer h.noteDo()()
	for {
		proc := h.current()
		returned := make(chan struct{})
		go func() { // what waits at a process that was killed waits for nothing
			select {
			case <-proc.next:
				proc.cancel()
			case <-returned:
			}
		}()
		err := func() error {
			defer close(returned) // also if f fails the test
			return f(proc.rt)
		}()
		if err == nil || !proc.dead.Load() {
			return err
		}
		<-proc.next
		if h.current() == proc {
			return err
		}
	}
}

// Post posts a message to the main session and returns when that is durable.
func (h *Harness) Post(text string) { h.t.Helper(); h.PostTo(h.mainKey(), text) }

// PostTo posts a message to a session.
func (h *Harness) PostTo(key session.Key, text string) {
	h.t.Helper()
	h.PostIncoming(key, agent.Incoming{Text: text})
}

// PostIncoming posts a message to a session, with what it has beside its text. One without an ID
// gets one, so that it is told once over crashes.
func (h *Harness) PostIncoming(key session.Key, m agent.Incoming) {
	h.t.Helper()
	h.mu.Lock()
	h.posted++
	if m.ID == "" {
		m.ID = "message-" + strconv.Itoa(h.posted)
	}
	h.mu.Unlock()
	err := h.Do(func(rt *agent.Runtime) error {
		_, err := rt.Session(key).Post(h.Context(), m)
		return err
	})
	if err != nil {
		h.t.Fatalf("agenttest: posting %q to %s: %v", m.Text, key, err)
	}
}

// Replies returns what Reply has accepted so far, each reply once, when everything that can happen
// now has happened.
func (h *Harness) Replies() []agent.Delivery {
	h.inUse()
	h.wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.replies)
}

// Replied fails unless exactly these replies have reached people so far, in this order.
func (h *Harness) Replied(want ...string) {
	h.t.Helper()
	got := make([]string, 0, len(want))
	for _, d := range h.Replies() {
		got = append(got, d.Reply.Text)
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("agenttest: replied\n     %q\nwant %q", got, want)
	}
}

// Deliveries returns what Deliver has accepted so far, each completion and event once, when
// everything that can happen now has happened.
func (h *Harness) Deliveries() []agent.Delivery {
	h.inUse()
	h.wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.deliveries)
}

// Delivered fails unless Deliver has accepted exactly these results so far, in this order, as a
// person would see them.
func (h *Harness) Delivered(want ...string) {
	h.t.Helper()
	got := make([]string, 0, len(want))
	for _, d := range h.Deliveries() {
		e, _ := announce.EventOf(d)
		got = append(got, e.ForPerson())
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("agenttest: delivered\n     %q\nwant %q", got, want)
	}
}

// Runs returns the sub-agents of all trees that have not been archived, parents before their
// children.
func (h *Harness) Runs() []agent.RunInfo {
	h.t.Helper()
	h.inUse()
	h.wait()
	h.mu.Lock()
	roots := slices.SortedFunc(maps.Keys(h.owners),
		func(a, b session.Key) int { return strings.Compare(a.String(), b.String()) })
	h.mu.Unlock()
	var all []agent.RunInfo
	for _, root := range roots {
		var runs []agent.RunInfo
		err := h.Do(func(rt *agent.Runtime) (err error) {
			runs, err = rt.Session(root).Tree(h.Context())
			return err
		})
		if err != nil {
			h.t.Fatalf("agenttest: sub-agents of %s: %v", root, err)
		}
		all = append(all, runs...)
	}
	return all
}

// Child returns the run with a label, the newest if there are several. It fails if there is none.
func (h *Harness) Child(label string) agent.RunInfo {
	h.t.Helper()
	var found agent.RunInfo
	var labels []string
	for _, r := range h.Runs() {
		labels = append(labels, r.Label)
		if r.Label == label && !r.Created.Before(found.Created) {
			found = r
		}
	}
	if found.ID == "" {
		h.t.Fatalf("agenttest: no sub-agent has the label %q, only %q", label, labels)
	}
	return found
}

// Calls returns how many model calls there have been under a name of the script; without a script,
// how many turns.
func (h *Harness) Calls(name string) int {
	h.inUse()
	h.wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[name]
}

// Crash kills the process, as if by kill -9, and starts another one on the same store. It returns
// when that has taken over what there was to take over.
func (h *Harness) Crash() {
	h.t.Helper()
	h.inUse()
	if h.isDoing() {
		h.t.Fatalf("agenttest: Crash in the function of Do would be repeated with every next " +
			"process: call it outside of Do")
	}
	h.wait()
	proc := h.current()
	h.kill(proc)
	<-proc.next
	if h.current() == proc {
		h.t.FailNow()
	}
	h.wait()
}

// wait returns when everything that can happen now has happened. Of the goroutines that wait for
// that one does so at a time: synctest.Wait panics for a second one.
func (h *Harness) wait() {
	h.waiting <- struct{}{}
	synctest.Wait()
	<-h.waiting
}

// note calls f, which remembers something that a process does, under the lock. It returns
// errProcessKilled, and does not call f, once the process has been killed: kill takes the same
// lock, so that a goroutine that a killed process left behind adds nothing to what its successors
// do.
func (h *Harness) note(proc *process, f func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if proc.dead.Load() {
		return errProcessKilled
	}
	f()
	return nil
}

func (h *Harness) noteCall(proc *process, name string) error {
	return h.note(proc, func() { h.calls[name]++ })
}

// noteFailure counts that the model of a session has failed: what has failed is not in the
// conversation.
func (h *Harness) noteFailure(proc *process, key session.Key) error {
	return h.note(proc, func() { h.failed[key]++ })
}

// failures returns how often the model of a session has failed.
func (h *Harness) failures(key session.Key) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed[key]
}

// Pass lets virtual time pass, and then everything happen that can happen without more of it.
func (h *Harness) Pass(d time.Duration) {
	h.inUse()
	time.Sleep(d)
	h.wait()
}

// waitIdle lets what is under way come to its end. It reports whether it has.
func (h *Harness) waitIdle() bool {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.healAll()
	for d := time.Second; d < time.Hour; d *= 2 {
		h.wait()
		if h.idle() {
			return true
		}
		time.Sleep(d)
	}
	return false
}

// idle reports whether no tree needs its owner now.
func (h *Harness) idle() bool {
	for head, err := range h.store.Journal.Roots(h.Context(), session.RootQuery{}) {
		if err != nil || !head.Due.IsZero() && !head.Due.After(time.Now()) {
			return false
		}
	}
	return true
}

// shutDown shuts every process down.
func (h *Harness) shutDown() {
	h.mu.Lock()
	h.over = true // no crash from here on
	h.mu.Unlock()
	h.wait() // until every process has begun
	h.mu.Lock()
	procs := slices.Clone(h.processes)
	h.mu.Unlock()
	close(h.released)
	h.healAll()
	for _, proc := range procs {
		h.bury(proc)
		ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
		err := proc.rt.Shutdown(ctx)
		cancel()
		var still *agent.StillRunningError
		switch {
		case proc.dead.Load(): // what a killed process returns does not count
		case errors.As(err, &still):
			h.t.Errorf("agenttest: %v", err)
		case err != nil:
			h.t.Errorf("agenttest: shutting down: %v", err)
		}
		proc.cancel()
		if err := <-proc.done; err != nil && !proc.dead.Load() {
			h.t.Errorf("agenttest: Run: %v", err)
		}
	}
}

// noteTurnBegin notes the beginning of a turn.
func (h *Harness) noteTurnBegin(proc *process, t *agent.Turn) error {
	key := t.Session.Key
	return h.note(proc, func() {
		h.turnsUnderWay[turnID{proc, key}]++
		if n := h.turnsUnderWay[turnID{proc, key}]; n > 1 {
			h.t.Errorf("agenttest: %s has %d turns at once", key, n)
		}
		if h.ended[key] {
			h.t.Errorf("agenttest: %s has another turn although its run has ended", key)
		}
	})
}

func (h *Harness) noteTurnEnd(proc *process, t *agent.Turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turnsUnderWay[turnID{proc, t.Session.Key}]--
}

// checkLeaks fails if a goroutine of the bubble is left.
func (h *Harness) checkLeaks() {
	h.wait()
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	if left := goroutinesLeft(string(buf)); left != "" {
		h.t.Errorf("agenttest: goroutines are left:\n%s", left)
	}
}
