package spawntest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Histories play random histories of a program that is built on package spawn, or on package agent:
// several callers use it, its store fails, and its process dies and is started anew. Time is
// virtual. A history that fails is made as short as it fails with, and can be played again.
//
// A history depends on its seed alone, but for what the scheduler and random ids decide: of calls
// in the same instant either may come first. A seed may need a few rounds.
//
// The zero value of a field is a default, but for New. What cannot be meant, in a field here, in
// the Program or in the environment, is an error that names it, and no history is played. A
// Histories may be used again, by one test at a time.
type Histories struct {
	// New makes what one history is of. It is called in a bubble of [synctest], once for each
	// history, before its first process.
	New func(h *History) Program
	// N is how many histories are played. Zero: 100. With -short at most 20 are. The environment
	// variable OFFSHOOT_FUZZ, a number from 1, comes first.
	N int
	// Seed is that of the first history. Zero: a random one. OFFSHOOT_SEED comes first, and plays
	// that one only: as often as OFFSHOOT_FUZZ says, or 20 times.
	Seed uint64
	// Replay is a history as a [HistoryError] has it. If it is set, it is the one that is played:
	// as often as OFFSHOOT_FUZZ says, or 20 times, until it fails.
	Replay string
	// Lives is how many processes follow each other at most. Zero: 3.
	Lives int
	// Callers is how many callers act at the same time, and Acts how often each does at most in a
	// life. Zero: 2 and 6.
	Callers, Acts int
	// Faults are those that the store may have, besides what a process dies of. Nil:
	// [FaultFailBefore] and [FaultLoseAck]. Empty and not nil: none. A fault that a process dies of
	// is an error of Find.
	Faults []Fault
	// Outage is how many appends in a row have a fault at most. Zero: 30.
	Outage int
	// Overlap has a process go on beside its successor now and then: one that was believed to be
	// gone, or that has only lost its store. It is shut down when the callers of its successor are
	// done.
	Overlap bool
	// Rest is how long the last process has to come to rest before Check. Zero: 24 hours.
	Rest time.Duration
}

// A Program is what histories are of.
type Program struct {
	// Open starts a process. It is called once in each life.
	Open func(ctx context.Context, p *Process) (Server, error)
	// Commands are what callers do. There is at least one, and no two have the same name.
	Commands []Command
	// Sites are the names of calls of [Process.Call] that may fail: words as those of commands, but
	// for "append" and "end".
	Sites []string
	// Store holds what the processes have on record. Nil: an empty one in memory.
	Store *session.Store
	// Rules are those of all processes, which what the trees have on record must keep: see
	// [AuditUnder]. Nil: they are not audited.
	Rules *policy.Rules
	// Check returns what is wrong when the program has come to rest, or nil. The last process is
	// still there. It may be nil.
	Check func() error
	// Over returns what is wrong when the last process has ended, or nil. It may be nil.
	Over func() error
	// Busy says that work may be left when the history is over. Else each tree must be at rest.
	Busy bool
}

// A Server is a process of a program: a *[spawn.Supervisor], a Runtime of package agent, or what
// has one.
type Server interface {
	Run(ctx context.Context) error
	Shutdown(ctx context.Context) error
}

// A Command is something that callers do with a program.
type Command struct {
	Name   string // in a history: a word without white space, and with no colon at its end
	Weight int    // how often it is done beside the others; zero: 1
	Span   int    // how many numbers Do may be given; zero: 10
	// Do does it. A number from 0, below Span, says what exactly. What goes wrong as it should not
	// is told to [History.Errorf]; an error of a call that a process did not outlive is none.
	Do func(ctx context.Context, p *Process, n int)
}

// A History is one that is being played. It is what functions take that assert something, such as
// those of testify. Its methods are safe for concurrent use.
type History struct {
	plan historyPlan
	log  *Recorder
	base *session.Store

	mu     sync.Mutex
	errs   []error
	said   []string
	misuse error // of the kit, which is not a mistake of the program
}

// misused notes that the kit is used as it cannot be meant.
func (h *History) misused(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.misuse == nil {
		h.misuse = err
	}
}

// Errorf says that the history has failed.
func (h *History) Errorf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, fmt.Errorf(format, args...))
}

// FailNow ends the goroutine that calls it, which is that of a Command, of Check or of Over, and
// fails the history. Errorf says why before.
func (h *History) FailNow() {
	h.mu.Lock()
	if len(h.errs) == 0 {
		h.errs = append(h.errs, errFailed)
	}
	h.mu.Unlock()
	runtime.Goexit()
}

var errFailed = errors.New("spawntest: FailNow was called")

// Failed reports whether the history has failed so far.
func (h *History) Failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.errs) > 0
}

// Seed returns the seed of the history.
func (h *History) Seed() uint64 { return h.plan.seed }

// Roll returns a number from 0, below n. It depends on the seed and on what is being decided, and
// not on the caller, the time or what was decided before. So what happens around a program, such as
// which answer of a model fails, stays the same while a history is made shorter. Roll panics if n
// is below 1.
func (h *History) Roll(n int, what ...any) int {
	if n < 1 {
		panic(fmt.Sprintf("spawntest: Roll(%d): there is no number below it", n))
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, append(what, h.plan.seed)...)
	x := sum.Sum64()
	return int((x ^ x>>29) * 0xbf58476d1ce4e5b9 >> 8 % uint64(n)) //nolint:gosec // it is below n
}

// Logf notes something that is shown if the history fails.
func (h *History) Logf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

// Entries yields every entry that was ever added to the log of a tree.
func (h *History) Entries(root session.Key) iter.Seq2[session.Entry, error] {
	return h.log.History(root)
}

// A Process is one life of a program. Its methods are safe for concurrent use.
type Process struct {
	Life  int            // from 1
	Store *session.Store // that of the history, until the process dies

	history *History
	sites   []string
	journal *CrashJournal
	mu      sync.Mutex
	calls   map[string]int
	faults  map[string]map[int]Fault
}

// IsDead reports whether the process has died. What it does from then on has no effect, as long as
// it goes through the Store or Call.
func (p *Process) IsDead() bool {
	select {
	case <-p.journal.Died():
		return true
	default:
		return false
	}
}

// Call calls f, which does something outside of the program, unless the history has another fault
// for it: f is not called and Call returns an error, or f is called and its answer is lost, or the
// process dies before or after f. In a process that has died f is not called. The site is one of
// Program.Sites: any other is an error of Find.
func (p *Process) Call(site string, f func() error) error {
	if !slices.Contains(p.sites, site) {
		p.history.misused(fmt.Errorf("spawntest: Process.Call: the site %q is not in Program.Sites, %q",
			site, p.sites))
	}
	p.mu.Lock()
	p.calls[site]++
	fault := p.faults[site][p.calls[site]]
	p.mu.Unlock()
	if fault == FaultDieBefore {
		p.journal.Die()
	}
	switch {
	case p.IsDead():
		return ErrDead
	case fault == FaultFailBefore:
		return ErrFault
	}
	err := f()
	switch fault {
	case FaultDieAfter:
		p.journal.Die()
		return ErrDead
	case FaultLoseAck:
		return ErrFault
	default:
		return err
	}
}

// plan sets the faults of a step.
func (p *Process) plan(s historyStep) {
	if p.faults[s.name] == nil {
		p.faults[s.name] = make(map[int]Fault)
	}
	for n := s.n; n < s.n+max(s.times, 1); n++ {
		switch {
		case s.name != siteAppend:
			p.faults[s.name][n] = s.fault
		case s.fault.dies():
			p.journal.At(n, s.fault)
		default:
			p.journal.Unless(n, s.fault)
		}
	}
}

// A HistoryError is a history that failed, made as short as it failed with.
type HistoryError struct {
	Seed    uint64
	History string   // for Histories.Replay
	Steps   int      // of the History, calls and faults
	Of      int      // steps that the history of the seed has
	Errs    []error  // what was wrong
	Log     []string // what Logf noted
	Journal []string // what the trees have on record
}

// Error says what was wrong, and how to play the history again.
func (e *HistoryError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "spawntest: OFFSHOOT_SEED=%d fails: %v\n", e.Seed, errors.Join(e.Errs...))
	fmt.Fprintf(&b, "%d steps of %d are left, for Histories.Replay:\n%s", e.Steps, e.Of, e.History)
	for _, line := range slices.Concat(e.Log, e.Journal) {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// Unwrap returns Errs.
func (e *HistoryError) Unwrap() []error { return e.Errs }

// maxShrinks is how many histories are played to make one shorter.
const maxShrinks = 400

// Run plays the histories and fails t with the first one that fails.
func (hs Histories) Run(t *testing.T) {
	t.Helper()
	if err := hs.Find(t); err != nil {
		t.Fatal(err)
	}
}

// Find plays the histories and returns the first one that fails, or nil. The error is a
// *[HistoryError], or one that says which field, or which variable of the environment, is wrong. It
// must not be called in a bubble.
func (hs Histories) Find(t *testing.T) error {
	env, err := readHistoriesEnv(os.Getenv)
	if err == nil {
		err = hs.check()
	}
	if err != nil {
		return err
	}
	return hs.filled().find(t, env)
}

// filled returns the histories with every field set.
func (hs Histories) filled() *Histories {
	hs.Lives, hs.Callers = orElse(hs.Lives, 3), orElse(hs.Callers, 2)
	hs.Acts, hs.Outage = orElse(hs.Acts, 6), orElse(hs.Outage, 30)
	hs.N, hs.Rest = orElse(hs.N, 100), orElse(hs.Rest, 24*time.Hour)
	if hs.Faults == nil {
		hs.Faults = []Fault{FaultFailBefore, FaultLoseAck}
	}
	return &hs
}

// replays is how often one history is played: what goes on at once may go on in another order, so
// that a failure may need some rounds.
const replays = 20

// find plays the histories, whose fields are set.
func (hs *Histories) find(t *testing.T, env historiesEnv) error {
	if testing.Short() {
		hs.N = min(hs.N, 20)
	}
	hs.N = orElse(env.n, hs.N)
	if hs.Replay != "" {
		plan, err := parsePlan(hs.Replay)
		if err != nil {
			return err
		}
		for range orElse(env.n, replays) {
			h := hs.play(t, &plan, 0)
			switch {
			case h.misuse != nil:
				return h.misuse
			case len(h.errs) > 0:
				return h.failure(len(plan.steps))
			}
		}
		return nil
	}
	seed, step := orElse(hs.Seed, rand.Uint64()>>1), uint64(1)
	if env.same {
		seed, step, hs.N = env.seed, 0, orElse(env.n, replays)
	}
	for range hs.N {
		h := hs.play(t, nil, seed)
		if h.misuse != nil {
			return h.misuse
		}
		if len(h.errs) > 0 {
			return hs.shrink(t, h)
		}
		seed += step
	}
	return nil
}

func orElse[T comparable](x, y T) T {
	var zero T
	if x == zero {
		return y
	}
	return x
}

// shrink makes a history that failed shorter. It takes at most half of the time that the test has
// left.
func (hs *Histories) shrink(t *testing.T, failed *History) error {
	of, began := len(failed.plan.steps), time.Now()
	deadline, limited := t.Deadline()
	shrinkPlan(failed.plan, maxShrinks, func(p historyPlan) bool {
		if limited && time.Since(began) > time.Until(deadline) {
			return false
		}
		for range 2 { // the scheduler decides too
			if h := hs.play(t, &p, 0); len(h.errs) > 0 {
				failed = h
				return true
			}
		}
		return false
	})
	return failed.failure(of)
}

// failure returns what is told of a history that has failed.
func (h *History) failure(of int) *HistoryError {
	e := &HistoryError{
		Seed: h.plan.seed, History: h.plan.String(), Steps: len(h.plan.steps), Of: of,
		Errs: h.errs, Log: h.said,
	}
	for _, root := range h.log.RootKeys() {
		for entry, err := range h.log.History(root) {
			if err == nil {
				e.Journal = append(e.Journal, spawn.Describe(entry))
			}
		}
	}
	return e
}

// play plays one history: that of a plan, or of a seed.
func (hs *Histories) play(t *testing.T, plan *historyPlan, seed uint64) (h *History) {
	synctest.Test(t, func(t *testing.T) {
		h = &History{}
		if plan != nil {
			seed = plan.seed
		}
		h.plan.seed = seed
		program := hs.New(h)
		err := program.check()
		if err == nil && plan != nil {
			err = plan.check(&program)
		}
		if h.misuse = err; err != nil {
			return
		}
		if h.base = program.Store; h.base == nil {
			h.base = session.NewMemory()
		}
		h.log = NewRecorder(h.base.Journal)
		if h.plan = newPlan(seed, hs, program.Commands, program.Sites); plan != nil {
			h.plan = *plan
		}
		var late *life // of the last process, if it is still there
		for n := 1; n <= h.plan.lives; n++ {
			l := h.begin(t.Context(), &program, n)
			if l != nil {
				h.call(t.Context(), &program, l.process)
			}
			h.end(t.Context(), late)
			if late = l; l == nil {
				continue
			}
			if n == h.plan.lives {
				time.Sleep(hs.Rest)
				h.check("at rest", program.Check)
			} else if l.end.late {
				continue
			} else if l.end.name == "" {
				l.process.journal.Die()
			}
			h.end(t.Context(), l)
			late = nil
		}
		time.Sleep(time.Hour) // what was cut off comes to its end
		h.check("at the end", program.Over)
		h.audit(&program)
	})
	return h
}

// A life is a process that has been started.
type life struct {
	process *Process
	server  Server
	ran     chan error
	end     historyStep // how it ends; zero: it dies
}

// begin starts a process. It returns nil if that fails.
func (h *History) begin(ctx context.Context, program *Program, n int) *life {
	p := &Process{
		Life: n, history: h, sites: program.Sites, journal: NewCrashJournal(h.log),
		calls: make(map[string]int), faults: make(map[string]map[int]Fault),
	}
	p.Store = &session.Store{
		Journal: p.journal, Transcripts: h.base.Transcripts, Files: p.journal.Files(h.base.Files),
	}
	l := &life{process: p, ran: make(chan error, 1)}
	for _, s := range h.plan.steps {
		switch {
		case s.life != n || s.caller != 0:
		case s.name == stepEnd:
			l.end = s
		default:
			p.plan(s)
		}
	}
	if n == h.plan.lives && l.end.name == "" {
		l.end = historyStep{name: stepEnd, after: time.Hour}
	}
	var err error
	if l.server, err = program.Open(ctx, p); err != nil {
		if !p.IsDead() {
			h.Errorf("opening life %d: %w", n, err)
		}
		return nil
	}
	if l.server == nil {
		h.misused(errors.New("spawntest: Program.Open has returned neither a Server nor an error"))
		return nil
	}
	go func() { l.ran <- l.server.Run(context.WithoutCancel(ctx)) }()
	return l
}

// end shuts a process down, unless it is nil.
func (h *History) end(ctx context.Context, l *life) {
	if l == nil {
		return
	}
	end, cancel := context.WithTimeout(ctx, l.end.after)
	defer cancel()
	for what, err := range map[string]error{
		"Shutdown": l.server.Shutdown(end), "Run": <-l.ran,
	} {
		_, still := errors.AsType[*spawn.StillRunningError](err)
		if err != nil && !l.process.IsDead() && !(still && l.end.life > 0) {
			h.Errorf("%s of life %d: %w", what, l.process.Life, err)
		}
	}
}

// check notes what f finds wrong. A panic of it fails the history.
func (h *History) check(when string, f func() error) {
	if f == nil {
		return
	}
	done := make(chan struct{})
	go func() { // it may call FailNow
		defer close(done)
		defer func() {
			if x := recover(); x != nil {
				h.Errorf("%s: panic: %v", when, x)
			}
		}()
		if err := f(); err != nil {
			h.Errorf("%s: %w", when, err)
		}
	}()
	<-done
}

// call has the callers of a life do what they do.
func (h *History) call(ctx context.Context, program *Program, p *Process) {
	byCaller := make(map[int][]historyStep)
	for _, s := range h.plan.steps {
		if s.life == p.Life && s.caller > 0 {
			byCaller[s.caller] = append(byCaller[s.caller], s)
		}
	}
	var callers sync.WaitGroup
	for _, steps := range byCaller {
		callers.Go(func() {
			for _, s := range steps {
				time.Sleep(s.after)
				h.do(ctx, program, p, s)
			}
		})
	}
	callers.Wait()
}

// maxCall is how long a command has.
const maxCall = time.Hour

// do does one command. A panic fails the history.
func (h *History) do(ctx context.Context, program *Program, p *Process, s historyStep) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	defer func() {
		if x := recover(); x != nil {
			h.Errorf("%s: panic: %v", s, x)
		}
	}()
	i := slices.IndexFunc(program.Commands, func(c Command) bool { return c.Name == s.name })
	if i < 0 {
		h.Errorf("%s: the program has not that command", s)
		return
	}
	program.Commands[i].Do(ctx, p, s.n)
}

// audit audits what the trees have on record.
func (h *History) audit(program *Program) {
	for _, root := range h.log.RootKeys() {
		if !root.IsValid() { // a reserved root, such as that of bindings
			continue
		}
		report, err := Inspect(h.log.History(root))
		if err == nil && !program.Busy {
			err = report.AtRest()
		}
		if err == nil && program.Rules != nil {
			err = AuditUnder(*program.Rules, h.log.History(root))
		}
		if err != nil {
			h.Errorf("the journal of %q: %w", root, err)
		}
	}
}
