package spawn

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// DefaultGrace is how long a turn that was cancelled may take to return, unless a Config says otherwise.
const DefaultGrace = 10 * time.Second

// Config configures a Supervisor.
type Config struct {
	// Store is where everything durable is kept. Required.
	Store *session.Store
	// Runner runs the turns. Required.
	Runner Runner
	// Rules decide what may be spawned. The zero Rules are the defaults.
	Rules policy.Rules
	// Deliver takes what leaves a tree. It returns nil once the entry can no longer be lost; after an error it is called again
	// with the same Key. Calls for one destination never overlap. Required if CallerRun or Replies is set.
	Deliver func(ctx context.Context, out Delivery) error
	// CallerRun has the completions for top-level sessions handed to Deliver instead of put into their inbox.
	CallerRun bool
	// Replies has what top-level sessions answer handed to Deliver.
	Replies bool
	// ValidModel says which model names are valid; nil accepts what is well formed.
	ValidModel func(string) bool
	// Model and Thinking are what top-level sessions run with. Tools are the names of all tools that there are; Rules say which
	// of them a session may use and hand down.
	Model, Thinking string
	Tools           []string
	// Grace is how long a turn that was cancelled may take to return before it is given up. Zero: DefaultGrace.
	Grace time.Duration
	// Logger is told of what nobody else hears. Nil: silent.
	Logger *slog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Store == nil || c.Store.Journal == nil:
		return &InputError{Field: "Store", Reason: "it is missing, or has no Journal"}
	case c.Runner == nil:
		return &InputError{Field: "Runner", Reason: "it is missing"}
	case c.Deliver == nil && (c.CallerRun || c.Replies):
		return &InputError{Field: "Deliver", Reason: "it is missing although something is to be delivered"}
	case c.Grace < 0:
		return &InputError{Field: "Grace", Reason: "it is negative: " + c.Grace.String()}
	}
	return c.Rules.Validate()
}

// A Supervisor runs trees of sessions. Its methods are safe for concurrent use.
type Supervisor struct {
	cfg         Config
	log         *slog.Logger
	lane        *owner.Lane
	ownerConfig owner.Config
	// workCtx is what turns, deliveries and owners run under: the values of the context that Open got, and a cancellation of our
	// ownerConfig, because they outlive that call.
	workCtx context.Context //nolint:containedctx // see above
	cancel  context.CancelCauseFunc
	// detachedCtx is base without its cancellation: journals are written under it, and turns derive from it, each with a
	// cancellation of its own.
	detachedCtx context.Context //nolint:containedctx // see above
	workers     workers
	closed      chan struct{} // finished when nothing is answered any more
	journalDead chan error    // 1: why the journal takes nothing any more

	state atomic.Int32 // stateIdle, running, stopping, shut
	rngMu sync.Mutex
	rng   *rand.ChaCha8 // seeded by the system; its output cannot be guessed

	mu     sync.Mutex
	shells map[session.Key]*treeShell
}

const (
	stateIdle int32 = iota
	stateRunning
	stateStopping
)

// Open returns a Supervisor. It checks the Config and starts nothing: spawns, messages and stops are accepted and made durable
// from here on; turns and deliveries start with Run. The values of ctx are kept for the Supervisor's own work, its end is not.
func Open(ctx context.Context, cfg Config) (*Supervisor, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	s := &Supervisor{
		cfg: cfg, log: cfg.Logger, closed: make(chan struct{}), journalDead: make(chan error, 1), shells: make(map[session.Key]*treeShell),
		lane: owner.NewLane(cfg.Rules.MaxConcurrent()),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var seed [32]byte
	cryptorand.Read(seed[:]) // never fails
	s.rng = rand.NewChaCha8(seed)
	s.detachedCtx = context.WithoutCancel(ctx)
	s.workCtx, s.cancel = context.WithCancelCause(s.detachedCtx)
	s.ownerConfig = owner.Config{
		Journal: cfg.Store.Journal, Lane: s.lane, Writer: session.NewID(), Rand: s.rand, NewID: s.newID,
		Go: func(f func()) bool { return s.startTask(taskFunc(f)) }, Active: s.active, Awake: s.awake, Fatal: s.fatal, Closed: s.closed,
		Context: func() context.Context { return s.detachedCtx },
		Options: &tree.Options{
			Rules: &s.cfg.Rules, ValidModel: cfg.ValidModel, CallerRun: cfg.CallerRun, Replies: cfg.Replies, Grace: cfg.Grace,
			ArchiveAfter: cfg.Rules.ArchiveAfter(), Chunk: tree.Budget{Tokens: 20_000, Micros: 100_000},
			MaxDepth: cfg.Rules.MaxSpawnDepth(),
			Model:    cfg.Model, Thinking: cfg.Thinking, Tools: cfg.Tools,
		},
	}
	return s, nil
}

func (s *Supervisor) active() bool { return s.state.Load() == stateRunning }

// awake reports whether it runs, or what it has begun is still to come to its end.
func (s *Supervisor) awake() bool { return s.state.Load() != stateIdle }

// fatal ends Run.
func (s *Supervisor) fatal(err error) {
	select {
	case s.journalDead <- err:
	default: // there is a reason already
	}
}

// rand returns a number that nobody can guess.
func (s *Supervisor) rand() uint64 {
	s.rngMu.Lock()
	defer s.rngMu.Unlock()
	return s.rng.Uint64()
}

// newID returns a random UUID of version 4: [session.NewID] without a system call.
func (s *Supervisor) newID() string {
	var id [16]byte
	s.rngMu.Lock()
	binary.LittleEndian.PutUint64(id[:8], s.rng.Uint64())
	binary.LittleEndian.PutUint64(id[8:], s.rng.Uint64())
	s.rngMu.Unlock()
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, variant 10
	var text [36]byte
	at := text[:0]
	for i, group := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			at = append(at, '-')
		}
		at = hex.AppendEncode(at, group)
	}
	return string(at)
}

// startTask has a goroutine do a task that Shutdown waits for, or returns false when it is too late.
func (s *Supervisor) startTask(t task) bool { return s.workers.start(t) }

// treeShell returns the tree of a top-level session.
func (s *Supervisor) shellOf(root session.Key) *treeShell {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shells[root]
	if sh == nil {
		sh = &treeShell{
			sup: s, turns: make(map[turnID]*runningTurn), newestTurn: make(map[session.Key]*runningTurn),
			senders: make(map[destination]*sender), waiters: make(map[*waiter]struct{}), waitersByRun: make(map[session.Key][]*waiter),
			watchers: make(map[*watcher]struct{}),
		}
		sh.owner = owner.New(&s.ownerConfig, root, sh)
		s.shells[root] = sh
	}
	return sh
}

func (s *Supervisor) allShells() []*treeShell {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*treeShell, 0, len(s.shells))
	for _, sh := range s.shells {
		list = append(list, sh)
	}
	return list
}

// sweepEvery is how often the journal is asked for trees that are due and that nobody has touched in this process.
const sweepEvery = time.Minute

// Run starts what is due and runs everything until ctx ends or Shutdown is called. It returns nil after a Shutdown, also if that came
// oneInput, and [ErrRunning] if it runs already. When ctx ends, turns are cancelled and given the grace period; those whose Runner has not
// whenReturned by then are named in a *StillRunningError. What was under way is interrupted, and known as such to the next Run.
//
// A journal that fails for a while costs nothing but that while: turns go on, and what they come to is recorded when it takes
// something again; meanwhile whoever asks for something is refused with ErrUnconfirmed and the reason. One that takes nothing any more, because
// it is closed or must be opened again ([session.ErrSync]), ends Run with that error.
func (s *Supervisor) Run(ctx context.Context) error {
	if !s.state.CompareAndSwap(stateIdle, stateRunning) {
		if s.active() {
			return ErrRunning
		}
		<-s.closed
		return nil
	}
	s.workers.setKeeping(true)
	s.lane.Open()
	if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("offshoot: looking for due trees failed", "error", err.Error())
	}
	for _, sh := range s.allShells() {
		sh.owner.Tick()
		sh.startSenders()
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	health := ""
	for {
		select {
		case <-ticker.C:
			health = s.logHealth(ctx, health)
			if err := s.sweep(ctx); err != nil {
				s.log.Error("offshoot: looking for due trees failed", "error", err.Error())
			}
		case <-ctx.Done():
			return s.Shutdown(ctx)
		case err := <-s.journalDead:
			now, cancel := context.WithCancel(ctx)
			cancel()
			return errors.Join(fmt.Errorf("spawn: the journal takes nothing any more: %w", err), s.Shutdown(now))
		case <-s.closed:
			return nil
		}
	}
}

// unloadAfter is how long nothing must have happened in a tree before it is let go from memory.
const unloadAfter = 10 * time.Minute

// sweep opens the trees that are due before the next sweep, and lets those go that rest.
func (s *Supervisor) sweep(ctx context.Context) error {
	for _, sh := range s.allShells() {
		sh.owner.Rest(unloadAfter)
	}
	for head, err := range s.cfg.Store.Journal.Roots(ctx, session.RootQuery{DueBefore: time.Now().Add(sweepEvery)}) {
		if err != nil {
			return err
		}
		if isTree(head.Root) {
			s.shellOf(head.Root).owner.Tick()
		}
	}
	return nil
}

// logHealth logs what is wrong with the store that no call has said, once, and returns it.
func (s *Supervisor) logHealth(ctx context.Context, known string) string {
	err := s.cfg.Store.Health(ctx)
	if err == nil || ctx.Err() != nil {
		return ""
	}
	if known != err.Error() {
		s.log.Error("offshoot: the store is not well", "error", err.Error())
	}
	return err.Error()
}

// isTree reports whether a log is that of a tree. A store holds others, under reserved roots.
func isTree(root session.Key) bool { return root.IsValid() && !root.IsSubagent() }

// Shutdown lets the turns that are under way finish until ctx ends, and what they came to be recorded, then cancels them and gives them
// the grace period. No further turn starts, but for one that was decided on and has been waiting for a journal that fails. It returns a
// *StillRunningError if Runners have not returned. What was interrupted is known as such to the next owner of the tree. Only the first
// callRunner does anything; the others wait for it.
func (s *Supervisor) Shutdown(ctx context.Context) error {
	if was := s.state.Swap(stateStopping); was >= stateStopping {
		<-s.closed
		return nil
	}
	s.lane.Close()
	for _, sh := range s.allShells() {
		sh.owner.Tick() // what waits for the journal may have no timer, if nothing ever ran
	}
	s.waitUntilQuiet(ctx) // what is not quiet by then is cancelled
	s.workers.close()
	s.cancel(ErrShutdown)
	for _, sh := range s.allShells() {
		sh.mu.Lock()
		for _, rt := range sh.turns {
			rt.cancel(ErrShutdown)
		}
		sh.mu.Unlock()
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
	defer cancel()
	left := s.workers.wait(grace)
	s.workers.stopIdle(left == nil)
	for _, sh := range s.allShells() {
		sh.owner.Halt()
	}
	close(s.closed)
	if left == nil {
		return nil
	}
	e := &StillRunningError{}
	for _, sh := range s.allShells() {
		sh.mu.Lock()
		for _, rt := range sh.turns {
			if !rt.hasReturned {
				e.Sessions = append(e.Sessions, rt.key)
			}
		}
		for to, p := range sh.senders {
			if p.sending {
				e.Deliveries = append(e.Deliveries, to.to)
			}
		}
		sh.mu.Unlock()
	}
	return e
}

// waitUntilQuiet waits until no task is under way and nothing waits for a journal that fails, or ctx ends.
func (s *Supervisor) waitUntilQuiet(ctx context.Context) {
	look := time.NewTicker(owner.FirstBackoff)
	defer look.Stop()
	for s.workers.wait(ctx) == nil && slices.ContainsFunc(s.allShells(), func(sh *treeShell) bool { return sh.owner.Waiting() }) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// Spawn admits a child of a session and returns at once. It returns a *policy.Refusal if a rule refuses.
func (s *Supervisor) Spawn(ctx context.Context, root, requester session.Key, q Request) (RunInfo, error) {
	return s.shellOf(root).spawn(ctx, requester, q, nil)
}

// spawn admits a child, for a turn of its requester if there is one.
func (sh *treeShell) spawn(ctx context.Context, requester session.Key, q Request, by *TurnInput) (info RunInfo, err error) {
	x := newSpawnCall()
	x.cmd = tree.Spawn{
		Parent: requester, ID: sh.sup.newID(), SessionID: sh.sup.newID(), Key: q.Key, Task: tree.Text(q.Task), Label: q.Label,
		Request: q.Policy, Announce: q.Announce, Extra: q.Extra,
	}
	if by != nil {
		x.cmd.Turn = uint32(by.N)
		err = sh.owner.DoTurn(ctx, by.gen, &x.cmd, x.reader)
	} else {
		err = sh.owner.Do(ctx, &x.cmd, x.reader)
	}
	if err != nil { // the owner may still have the command
		sh.notifyWatchers(TreeEvent{
			Kind: EventRefused, Time: time.Now(), Session: requester, Depth: requester.Depth(), Agent: q.Policy.Agent, Label: q.Label,
			Text: q.Task, Error: err.Error(),
		})
		return RunInfo{}, err
	}
	info = x.info
	x.recycle()
	return info, nil
}

// spawnCall is a command and what comes back in one piece of memory, which is used again.
type spawnCall struct {
	cmd    tree.Spawn
	info   RunInfo
	reader func(*tree.Tree, tree.Reply) // read, made once
}

var spawnCalls sync.Pool

func newSpawnCall() *spawnCall {
	x, ok := spawnCalls.Get().(*spawnCall)
	if !ok {
		x = new(spawnCall)
		x.reader = x.read
	}
	return x
}

// recycle gives the memory back. Nobody else has it any more.
func (x *spawnCall) recycle() {
	x.cmd, x.info = tree.Spawn{}, RunInfo{}
	spawnCalls.Put(x)
}

func (x *spawnCall) read(t *tree.Tree, r tree.Reply) {
	if r.Run != nil {
		x.info = infoOf(t, r.Run)
		return
	}
	x.info = RunInfo{ID: RunID(r.ID), Key: r.Ref, Root: t.Root().Key(), Parent: x.cmd.Parent} // archived
}

// An Incoming is a message to a session, for [Supervisor.Post] and [Supervisor.Steer].
type Incoming struct {
	// ID is the transport's name for the message. A message whose ID the session has seen in the
	// last seven days is accepted and changes nothing. Empty: the message is always new.
	ID string
	// Text is what the session is told, byte for byte.
	Text string
	// Route is where a posted message came from, and so where the answer goes. Nil: where the one
	// before went. Steer does not read it.
	Route *session.Route
}

// Post puts a message into the inbox of a session and returns when that is durable. A message with a known ID is accepted and
// changes nothing.
func (s *Supervisor) Post(ctx context.Context, root, to session.Key, m Incoming) error {
	if m.ID == "" {
		m.ID = s.newID()
	}
	return s.shellOf(root).owner.Do(ctx, &tree.Post{To: to, ID: m.ID, Text: tree.Text(m.Text), Route: m.Route}, nil)
}

// Steer nudges a run under way, on behalf of another session of its tree. It is read when the Runner takes its inbox, or by
// the next turn; it never makes a run that has finished its turn start another.
func (s *Supervisor) Steer(ctx context.Context, root, from, to session.Key, m Incoming) error {
	if m.ID == "" {
		m.ID = s.newID()
	}
	return s.shellOf(root).owner.Do(ctx, &tree.Steer{From: from, To: to, ID: m.ID, Text: tree.Text(m.Text)}, nil)
}

// CancelTurn cancels the turn of a session that is under way, and only it.
func (s *Supervisor) CancelTurn(ctx context.Context, root, key session.Key) error {
	return s.shellOf(root).owner.Do(ctx, tree.CancelTurn{Run: key, Rand: s.rand()}, nil)
}

// Stop stops a session and everything below it: of a top-level session the turn under way and all sub-agents, of a run the
// run itself too. It returns nil when nothing of it is alive, and a *StillRunningError if turns had to be given up.
func (s *Supervisor) Stop(ctx context.Context, root, key session.Key, reason string) error {
	return s.shellOf(root).stop(ctx, key, reason)
}

// Wait waits for runs of one tree and returns how each of them stands then, in the order given. Before [Supervisor.Run] it
// waits for that too.
func (s *Supervisor) Wait(ctx context.Context, root session.Key, keys []session.Key, opt JoinOptions) ([]RunInfo, error) {
	return s.shellOf(root).wait(ctx, keys, opt)
}

// Runs returns the children of a session that are in the tree, oldest first; all below it if deep is set, parents first.
func (s *Supervisor) Runs(ctx context.Context, root, requester session.Key, deep bool) (list []RunInfo, err error) {
	found := false
	err = s.shellOf(root).owner.Do(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
		r := t.Run(requester)
		if found = r != nil; !found {
			return
		}
		list = runsBelow(t, r, deep, nil)
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: runs of %q", ErrNotFound, requester)
	}
	return list, err
}

func runsBelow(t *tree.Tree, r *tree.Run, deep bool, list []RunInfo) []RunInfo {
	r.Children(func(c *tree.Run) bool {
		list = append(list, infoOf(t, c))
		if deep {
			list = runsBelow(t, c, deep, list)
		}
		return true
	})
	return list
}

// Find returns a run of a tree.
func (s *Supervisor) Find(ctx context.Context, root, key session.Key) (info RunInfo, err error) {
	sh := s.shellOf(root)
	infos, err := sh.infos(ctx, []session.Key{key}, sh.owner.Do)
	if err == nil && infos[0].ID == "" {
		err = fmt.Errorf("%w: %q", ErrNotFound, key)
	}
	if err != nil {
		return RunInfo{}, err
	}
	return infos[0], nil
}

// RootOf returns the tree that a session belongs to. A top-level session is its own; a sub-agent's is known for the trees
// that this Supervisor has touched.
func (s *Supervisor) RootOf(ctx context.Context, key session.Key) (session.Key, error) {
	if key.IsValid() && !key.IsSubagent() {
		return key, nil
	}
	for _, sh := range s.allShells() {
		found := false
		err := sh.owner.Do(ctx, nil, func(t *tree.Tree, _ tree.Reply) { found = t.Run(key) != nil })
		if err == nil && found {
			return sh.owner.Root(), nil
		}
	}
	return session.Key{}, fmt.Errorf("%w: the tree of %q", ErrNotFound, key)
}

// Events yields what happens in a tree from now on, until ctx ends, the loop breaks, or the Supervisor is shut down.
func (s *Supervisor) Events(ctx context.Context, root session.Key) iter.Seq[TreeEvent] {
	return s.shellOf(root).events(ctx)
}

// Outbox returns what has left a tree and has not arrived, oldest first. Blocked entries are those with a time of blocking.
func (s *Supervisor) Outbox(ctx context.Context, root session.Key) (list []Delivery, err error) {
	err = s.shellOf(root).owner.Do(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
		t.Outbox(func(e *tree.Entry) { list = append(list, deliveryOf(t, e)) })
	})
	return list, err
}

func (sh *treeShell) archiveTranscript(ctx context.Context, ref session.Ref, at time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p}
		}
	}()
	if sh.sup.cfg.Store.Transcripts == nil {
		return nil
	}
	if _, err = sh.sup.cfg.Store.Transcripts.Archive(ctx, ref, at); errors.Is(err, session.ErrNotFound) {
		return nil
	}
	return err
}

func isBudget(err error) bool { return errors.Is(err, ErrBudget) }
