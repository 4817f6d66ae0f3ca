package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// RunnerOptions say what a Runner promises beyond the rules of every Runner, and how long
// [TestRunner] waits for it. The zero RunnerOptions promise nothing more.
type RunnerOptions struct {
	// Memory says that the agent knows the conversation so far when it is told something new: what
	// it was told in turns that were cancelled, and in earlier runs of a sub-agent, too.
	Memory bool
	// Resume says, beside Memory, that it does so when the process was started again, also where it
	// had died in a turn.
	Resume bool
	// Deltas says that Turn.Delta shows the answer as it comes.
	Deltas bool
	// Usage says that what the agent consumes is accounted for.
	Usage bool
	// Partial says that a turn that is cancelled returns what the agent has said so far.
	Partial bool

	// Grace is how long Run may take to return when its turn is cancelled: Config.Grace. Zero: 5
	// seconds.
	Grace time.Duration
	// Patience is how long a rule waits for anything else. Zero: 30 seconds.
	Patience time.Duration
	// Settle is how long the agent gets to say something before its turn is cancelled, where Deltas
	// do not show it. Zero: half a second.
	Settle time.Duration
	// Config is what the Runtime is opened with, such as Tools that the Runner needs. Its Runner,
	// Store and Grace are those of the test.
	Config agent.Config
}

// withDefaults returns o with the times that it leaves open.
func (o RunnerOptions) withDefaults() RunnerOptions {
	for _, d := range []struct {
		to      *time.Duration
		usually time.Duration
	}{{&o.Grace, 5 * time.Second}, {&o.Patience, 30 * time.Second}, {&o.Settle, time.Second / 2}} {
		if *d.to <= 0 {
			*d.to = d.usually
		}
	}
	return o
}

// TestRunner checks that a Runner keeps to its contract, be it a loop around a model or one that
// drives a foreign agent. Each rule is a subtest with a number, and a failure quotes the rule: see
// runnerRules. What is not promised is skipped.
//
// It calls fresh once for each rule. The function that fresh returns opens the Runner, and opens it
// again as a process does that starts again: what the agent behind it keeps for longer than a
// process, such as a directory, belongs to fresh. A Runner that is an [io.Closer] is closed before.
//
// The agent behind the Runner is a fake of the author's that does as the text of the messages says:
// [Cues] finds what it was told, and [Play] does it. A model of a language that forgets finds the
// cues in the whole conversation; a foreign agent remembers those of its session.
//
// Time is that of the machine, unless the caller is in a bubble of testing/synctest. A Runner that
// never returns fails the rule after RunnerOptions.Patience, and is left behind. One that panics in
// a goroutine of its own ends the test binary, as it would end a bot.
func TestRunner(
	t *testing.T, fresh func(t testing.TB) (open func() agent.Runner), o RunnerOptions,
) {
	t.Helper()
	if fresh == nil { // before the first rule: the others may be skipped
		openerOf(t, nil)
	}
	for i, rule := range runnerRules {
		t.Run(fmt.Sprintf("%02d_%s", i+1, strings.ReplaceAll(rule.name, " ", "_")),
			func(t *testing.T) {
				if rule.promised != nil && !rule.promised(&o) {
					t.Skip("agenttest: it is not promised: " + rule.sentence)
				}
				rule.try(t, i+1, openerOf(t, fresh), o)
			})
	}
}

// openerOf returns what opens the Runners of a rule.
func openerOf(
	t testing.TB, fresh func(t testing.TB) (open func() agent.Runner),
) (open func() agent.Runner) {
	t.Helper()
	if fresh == nil {
		t.Fatalf("agenttest: TestRunner: fresh is nil: it is to return what opens the Runner")
	}
	if open = fresh(t); open == nil {
		t.Fatalf("agenttest: TestRunner: fresh has returned nil, and not what opens the Runner")
	}
	return open
}

// A runnerRule is one promise of a Runner.
type runnerRule struct {
	name     string
	sentence string
	promised func(o *RunnerOptions) bool // nil: by every Runner
	check    func(p *runnerProbe)
}

// try runs the rule, which is the n-th.
func (r *runnerRule) try(t testing.TB, n int, open func() agent.Runner, o RunnerOptions) {
	t.Helper()
	p := &runnerProbe{
		t: t, rule: fmt.Sprintf("rule %d is broken: %s", n, r.sentence), o: o.withDefaults(),
		opener: open, store: session.NewMemory(), label: newLabel(),
		begun: make(chan session.Key, probeTurns), ended: make(chan ranTurn, probeTurns),
		leaks: r.name == "goroutines",
	}
	defer p.close()
	p.open(nil)
	r.check(p)
}

// probeTurns is more than any rule has turns.
const probeTurns = 1000

// A runnerProbe is one run of one rule: a Runtime with the Runner, and what became of its turns.
type runnerProbe struct {
	t      testing.TB
	rule   string
	o      RunnerOptions
	opener func() agent.Runner
	store  *session.Store
	label  string // of the goroutines that the Runner starts
	leaks  bool   // none of them may be left
	failed bool

	runner agent.Runner
	rt     *agent.Runtime
	dead   *atomic.Bool // the process was killed: its Store takes nothing
	cancel context.CancelFunc
	ran    chan struct{} // closed when Runtime.Run has returned

	begun chan session.Key
	ended chan ranTurn
}

// A ranTurn is what a call of Run came to.
type ranTurn struct {
	key  session.Key
	res  agent.Result
	err  error // also of a call that panicked, or ended its goroutine
	late bool  // it had to be cancelled

	before, after string // its State
}

// fail ends the rule.
func (p *runnerProbe) fail(format string, args ...any) {
	p.t.Helper()
	p.failed = true
	p.t.Fatalf("agenttest: %s\n\t%s", p.rule, fmt.Sprintf(format, args...))
}

// must fails the rule if err is not nil.
func (p *runnerProbe) must(doing string, err error) {
	p.t.Helper()
	if err != nil {
		p.fail("%s: %v", doing, err)
	}
}

// open starts a process. It calls early, unless that is nil, before the Runtime begins turns.
func (p *runnerProbe) open(early func()) {
	p.t.Helper()
	if p.runner = p.opener(); p.runner == nil {
		p.fail("the Runner is nil")
	}
	cfg := p.o.Config
	p.dead = new(atomic.Bool)
	runner := p.runner // a process that was killed may still call its own
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
		return p.run(ctx, t, runner)
	})
	cfg.Store, cfg.Grace = p.gated(p.dead), p.o.Grace
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	p.cancel = cancel
	var err error
	if p.rt, err = agent.Open(ctx, cfg); err != nil {
		p.rt = nil
		p.fail("opening the Runtime: %v", err)
	}
	p.ran = make(chan struct{})
	if early != nil {
		early()
	}
	go func() {
		defer close(p.ran)
		_ = p.rt.Run(ctx)
	}()
}

// errPanicked and errExited are what the Runtime makes of a Run that did not return.
var (
	errPanicked = errors.New("agenttest: Run panicked")
	errExited   = errors.New("agenttest: Run ended its goroutine")
)

// run is the Runner of the Runtime: that of the test, watched. The goroutines that it starts have
// a label.
func (p *runnerProbe) run(
	ctx context.Context, t *agent.Turn, runner agent.Runner,
) (agent.Result, error) {
	p.begun <- t.Session.Key
	turn := ranTurn{key: t.Session.Key, err: errExited, before: string(t.State())}
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, labelsOf(p.label)))
	defer func() {
		pprof.SetGoroutineLabels(ctx)
		caught := recover()
		if caught != nil {
			turn.err = fmt.Errorf("%w: %v", errPanicked, caught)
		}
		turn.late, turn.after = ctx.Err() != nil, string(t.State())
		p.ended <- turn
		if caught != nil {
			panic(caught)
		}
	}()
	turn.res, turn.err = runner.Run(ctx, t)
	return turn.res, turn.err
}

// close ends the process, and fails the rule if that leaves something.
func (p *runnerProbe) close() {
	p.t.Helper()
	if p.rt == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), p.o.Grace)
	defer cancel()
	var still *agent.StillRunningError
	if err := p.rt.Shutdown(ctx); errors.As(err, &still) && !p.failed {
		p.failed = true
		p.t.Errorf("agenttest: %s\n\tRun has not returned at the end of the process: %v", p.rule,
			err)
	}
	p.cancel()
	if !p.within(p.o.Grace, p.ran) && !p.failed {
		p.failed = true
		p.t.Errorf("agenttest: %s\n\tthe Runtime cannot be ended", p.rule)
	}
	p.closeRunner()
	p.rt = nil
	if p.leaks && !p.failed {
		if left := p.goroutines(); left != "" {
			p.t.Errorf("agenttest: %s\n\tthey are left:\n%s", p.rule, left)
		}
	}
}

// closeRunner closes the Runner, if it can be closed.
func (p *runnerProbe) closeRunner() {
	p.t.Helper()
	if c, ok := p.runner.(io.Closer); ok {
		if err := c.Close(); err != nil && !p.failed {
			p.t.Errorf("agenttest: %s\n\tclosing the Runner: %v", p.rule, err)
		}
	}
}

// kill ends the process as a crash does, and starts another one: from now on the Store takes
// nothing of it. Only then the turns under way are cancelled, because a goroutine cannot be killed.
func (p *runnerProbe) kill() {
	p.t.Helper()
	p.dead.Store(true)
	p.cancel()
	if !p.within(2*p.o.Grace, p.ran) {
		p.fail("Run has not returned when its process had died")
	}
	p.closeRunner()
	p.open(nil)
}

// gated returns the Store of the probe as a process sees it that may die.
func (p *runnerProbe) gated(dead *atomic.Bool) *session.Store {
	s := *p.store
	s.Journal = mortalJournal{s.Journal, dead}
	s.Transcripts = mortalTranscripts{s.Transcripts, dead}
	return &s
}

// A mortalJournal is a Journal that takes nothing of a process that has died.
type mortalJournal struct {
	session.Journal
	dead *atomic.Bool
}

// Append implements session.Journal.
func (j mortalJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if j.dead.Load() {
		return 0, errProcessKilled
	}
	return j.Journal.Append(ctx, root, after, b)
}

// A mortalTranscripts is what a mortalJournal is, for transcripts.
type mortalTranscripts struct {
	session.Transcripts
	dead *atomic.Bool
}

// Append implements session.Transcripts.
func (t mortalTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	if t.dead.Load() {
		return 0, errProcessKilled
	}
	return t.Transcripts.Append(ctx, ref, after, messages...)
}

// restart ends the process and starts another one.
func (p *runnerProbe) restart() {
	p.t.Helper()
	p.close()
	if p.failed {
		p.t.FailNow()
	}
	p.open(nil)
}

// within reports whether a channel is closed within some time.
func (p *runnerProbe) within(d time.Duration, c <-chan struct{}) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-c:
		return true
	case <-late.C:
		return false
	}
}

// goroutines returns the stacks of the goroutines that the Runner has started and left, "" for
// none. They get some time to end.
func (p *runnerProbe) goroutines() string {
	var left string
	for pause := time.Millisecond; pause < p.o.Grace; pause *= 2 {
		left = strings.Join(labelled(p.label), "\n\n")
		if left == "" {
			break
		}
		p.within(pause, nil)
	}
	return left
}

// chat returns the key of one of the sessions of a probe.
func (p *runnerProbe) chat(n int) session.Key {
	return session.Must(session.Parse(fmt.Sprintf("agent:main:direct:agenttest-%d", n)))
}

// post tells a session a cue.
func (p *runnerProbe) post(key session.Key, c Cue) {
	p.t.Helper()
	_, err := p.rt.Session(key).Post(p.t.Context(), agent.Incoming{ID: c.ID, Text: c.String()})
	p.must("posting a message", err)
}

// begin waits for the beginning of the next turn of a session.
func (p *runnerProbe) begin(key session.Key) {
	p.t.Helper()
	late := time.NewTimer(p.o.Patience)
	defer late.Stop()
	for {
		select {
		case k := <-p.begun:
			if k == key {
				return
			}
		case <-late.C:
			p.fail("no turn has begun for %v", p.o.Patience)
		}
	}
}

// end waits for the end of the next turn of a session. It returns false if that takes longer.
func (p *runnerProbe) end(key session.Key, within time.Duration) (ranTurn, bool) {
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case turn := <-p.ended:
			if turn.key == key {
				return turn, true
			}
		case <-late.C:
			return ranTurn{}, false
		}
	}
}

// ask tells a session a cue and returns what the turn over it came to.
func (p *runnerProbe) ask(key session.Key, c Cue) ranTurn {
	p.t.Helper()
	for len(p.ended) > 0 {
		<-p.ended // of turns that no rule has asked for
	}
	p.post(key, c)
	p.begin(key)
	turn, ok := p.end(key, p.o.Patience)
	if !ok {
		p.fail("Run has not returned for %v, and its agent was done", p.o.Patience)
	}
	p.idle(key)
	return turn
}

// answer is ask for a turn that must end well.
func (p *runnerProbe) answer(key session.Key, c Cue) string {
	p.t.Helper()
	turn := p.ask(key, c)
	p.must("the turn failed", turn.err)
	return turn.res.Text
}

// idle waits until nothing of a session is under way.
func (p *runnerProbe) idle(key session.Key) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), p.o.Patience)
	defer cancel()
	p.must("waiting until the session is idle", p.rt.Session(key).Idle(ctx))
}
