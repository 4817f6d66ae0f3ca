package spawntest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Histories play random histories of a program that is built on package spawn, or on package agent:
// several callers use it, its store fails, and its process dies and is started anew. Time is
// virtual. A history that fails is made as short as it fails with, and can be played again.
//
// A history depends on its seed alone, but for what the scheduler and random ids decide: of calls
// in the same instant either may come first. A seed may need a few rounds.
type Histories struct {
	// New makes what one history is of. It is called in a bubble of [synctest], once for each
	// history, before its first process.
	New func(h *History) Program
	// N is how many histories are played. Zero: 100. The environment variable OFFSHOOT_FUZZ, a
	// number, comes first.
	N int
	// Seed is that of the first history. Zero: a random one. OFFSHOOT_SEED comes first, and plays
	// that one only.
	Seed uint64
	// Replay is a history as a [HistoryError] has it. If it is set, it is the one that is played.
	Replay string
	// Lives is how many processes follow each other at most. Zero: 3.
	Lives int
	// Callers is how many callers act at the same time, and Acts how often each does at most in a
	// life. Zero: 2 and 6.
	Callers, Acts int
	// Rest is how long the last process has to come to rest before Check. Zero: 24 hours.
	Rest time.Duration
}

// A Program is what histories are of.
type Program struct {
	// Open starts a process. It is called once in each life.
	Open func(ctx context.Context, p *Process) (Server, error)
	// Commands are what callers do.
	Commands []Command
	// Sites are the names of calls of [Process.Call] that may fail.
	Sites []string
	// Check returns what is wrong when the program has come to rest, or nil. It may be nil.
	Check func() error
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
	Name   string // in a history; it has no spaces
	Weight int    // how often it is done beside the others; zero: 1
	// Do does it. A number from 0 to 9 says what exactly. What goes wrong as it should not is
	// told to [History.Errorf]; an error of a call that a process did not outlive is none.
	Do func(ctx context.Context, p *Process, n int)
}

// A History is one that is being played. Its methods are safe for concurrent use.
type History struct {
	plan historyPlan
	log  *Recorder
	base *session.Store

	mu   sync.Mutex
	errs []error
	said []string
}

// Errorf says that the history has failed.
func (h *History) Errorf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, fmt.Errorf(format, args...))
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
// process dies before or after f. In a process that has died f is not called.
func (p *Process) Call(site string, f func() error) error {
	p.mu.Lock()
	p.calls[site]++
	fault := p.faults[site][p.calls[site]]
	p.mu.Unlock()
	if fault == FaultDieBefore {
		p.journal.Die()
	}
	switch {
	case p.IsDead():
		return errDead
	case fault == FaultFailBefore:
		return errFault
	}
	err := f()
	switch fault {
	case FaultDieAfter:
		p.journal.Die()
		return errDead
	case FaultLoseAck:
		return errFault
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
		if s.name == siteAppend {
			p.journal.Unless(n, s.fault)
			continue
		}
		p.faults[s.name][n] = s.fault
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
// *[HistoryError], or one of Replay. It must not be called in a bubble.
func (hs Histories) Find(t *testing.T) error {
	all := &hs
	all.Lives, all.Callers = orElse(hs.Lives, 3), orElse(hs.Callers, 2)
	all.Acts = orElse(hs.Acts, 6)
	all.N, all.Rest = orElse(hs.N, 100), orElse(hs.Rest, 24*time.Hour)
	return all.find(t)
}

// find plays the histories, whose fields are set.
func (hs *Histories) find(t *testing.T) error {
	if n, err := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ")); err == nil && n > 0 {
		hs.N = n
	}
	if hs.Replay != "" {
		plan, err := parsePlan(hs.Replay)
		if err != nil {
			return err
		}
		if h := hs.play(t, &plan, 0); len(h.errs) > 0 {
			return h.failure(len(plan.steps))
		}
		return nil
	}
	first := orElse(hs.Seed, rand.Uint64()>>1)
	if seed, err := strconv.ParseUint(os.Getenv("OFFSHOOT_SEED"), 10, 64); err == nil {
		first, hs.N = seed, 1
	}
	for seed := first; seed-first < uint64(hs.N); seed++ { //nolint:gosec // it is positive
		if h := hs.play(t, nil, seed); len(h.errs) > 0 {
			return hs.shrink(t, h)
		}
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

// shrink makes a history that failed shorter.
func (hs *Histories) shrink(t *testing.T, failed *History) error {
	of := len(failed.plan.steps)
	shrinkPlan(failed.plan, maxShrinks, func(p historyPlan) bool {
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
		h = &History{base: session.NewMemory()}
		h.log = NewRecorder(h.base.Journal)
		if plan != nil {
			seed = plan.seed
		}
		h.plan.seed = seed
		program := hs.New(h)
		if h.plan = newPlan(seed, hs, program.Commands, program.Sites); plan != nil {
			h.plan = *plan
		}
		for life := 1; life <= h.plan.lives; life++ {
			h.live(t.Context(), &program, life, hs.Rest)
		}
		time.Sleep(time.Hour) // what was cut off comes to its end
		h.audit(program.Busy)
	})
	return h
}

// live plays one life.
func (h *History) live(ctx context.Context, program *Program, life int, rest time.Duration) {
	p := &Process{
		Life: life, journal: NewCrashJournal(h.log),
		calls: make(map[string]int), faults: make(map[string]map[int]Fault),
	}
	p.Store = &session.Store{
		Journal: p.journal, Transcripts: h.base.Transcripts, Files: p.journal.Files(h.base.Files),
	}
	for _, s := range h.plan.steps {
		if s.life == life && s.caller == 0 {
			p.plan(s)
		}
	}
	server, err := program.Open(ctx, p)
	if err != nil {
		if !p.IsDead() {
			h.Errorf("opening life %d: %w", life, err)
		}
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- server.Run(context.WithoutCancel(ctx)) }()
	h.call(ctx, program, p)
	end, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	if life < h.plan.lives {
		p.journal.Die()
		cancel()
	} else {
		time.Sleep(rest)
		if program.Check != nil {
			if err := program.Check(); err != nil {
				h.Errorf("at rest: %w", err)
			}
		}
	}
	if err := server.Shutdown(end); err != nil && !p.IsDead() {
		h.Errorf("Shutdown: %w", err)
	}
	if err := <-ran; err != nil && !p.IsDead() {
		h.Errorf("Run: %w", err)
	}
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
func (h *History) audit(busy bool) {
	for _, root := range h.log.RootKeys() {
		if root == session.BindingsRoot() {
			continue
		}
		report, err := Inspect(h.log.History(root))
		if err == nil && !busy {
			err = report.AtRest()
		}
		if err != nil {
			h.Errorf("the journal of %q: %w", root, err)
		}
	}
}
