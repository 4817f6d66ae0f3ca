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
	cfg  Config
	log  *slog.Logger
	lane *owner.Lane
	own  owner.Config
	// base is what turns, deliveries and owners run under: the values of the context that Open got, and a cancellation of our
	// own, because they outlive that call.
	base   context.Context //nolint:containedctx // see above
	cancel context.CancelCauseFunc
	// lasting is base without its cancellation: journals are written under it, and turns derive from it, each with a
	// cancellation of its own.
	lasting context.Context //nolint:containedctx // see above
	workers workers
	closed  chan struct{} // closed when nothing is answered any more
	dead    chan error    // 1: why the journal takes nothing any more

	state atomic.Int32 // idle, running, stopping, shut
	rngMu sync.Mutex
	rng   *rand.ChaCha8 // seeded by the system; its output cannot be guessed

	mu    sync.Mutex
	homes map[session.Key]*home
}

const (
	idle int32 = iota
	running
	stopping
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
		cfg: cfg, log: cfg.Logger, closed: make(chan struct{}), dead: make(chan error, 1), homes: make(map[session.Key]*home),
		lane: owner.NewLane(cfg.Rules.MaxConcurrent()),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var seed [32]byte
	cryptorand.Read(seed[:]) // never fails
	s.rng = rand.NewChaCha8(seed)
	s.lasting = context.WithoutCancel(ctx)
	s.base, s.cancel = context.WithCancelCause(s.lasting)
	s.own = owner.Config{
		Journal: cfg.Store.Journal, Lane: s.lane, Writer: session.NewID(), Rand: s.rand, NewID: s.newID,
		Go: func(f func()) bool { return s.spawnGoroutine(taskFunc(f)) }, Active: s.active, Awake: s.awake, Fatal: s.fatal, Closed: s.closed,
		Context: func() context.Context { return s.lasting },
		Options: &tree.Options{
			Rules: &s.cfg.Rules, ValidModel: cfg.ValidModel, CallerRun: cfg.CallerRun, Replies: cfg.Replies, Grace: cfg.Grace,
			ArchiveAfter: cfg.Rules.ArchiveAfter(), Chunk: tree.Budget{Tokens: 20_000, Micros: 100_000},
			MaxDepth: cfg.Rules.MaxSpawnDepth(),
			Model:    cfg.Model, Thinking: cfg.Thinking, Tools: cfg.Tools,
		},
	}
	return s, nil
}

func (s *Supervisor) active() bool { return s.state.Load() == running }

// awake reports whether it runs, or what it has begun is still to come to its end.
func (s *Supervisor) awake() bool { return s.state.Load() != idle }

// fatal ends Run.
func (s *Supervisor) fatal(err error) {
	select {
	case s.dead <- err:
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

// spawnGoroutine has a goroutine do a task that Shutdown waits for, or returns false when it is too late.
func (s *Supervisor) spawnGoroutine(t task) bool { return s.workers.start(t) }

// home returns the tree of a top-level session.
func (s *Supervisor) home(root session.Key) *home {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.homes[root]
	if h == nil {
		h = &home{
			sup: s, turns: make(map[turnID]*underWay), sessions: make(map[session.Key]*underWay),
			posts: make(map[destination]*postman), waiters: make(map[*waiter]struct{}), waiting: make(map[session.Key][]*waiter),
			watchers: make(map[*watcher]struct{}),
		}
		h.owner = owner.New(&s.own, root, h)
		s.homes[root] = h
	}
	return h
}

func (s *Supervisor) all() []*home {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*home, 0, len(s.homes))
	for _, h := range s.homes {
		list = append(list, h)
	}
	return list
}

// sweepEvery is how often the journal is asked for trees that are due and that nobody has touched in this process.
const sweepEvery = time.Minute

// Run starts what is due and runs everything until ctx ends or Shutdown is called. It returns nil after a Shutdown, also if that came
// first, and [ErrRunning] if it runs already. When ctx ends, turns are cancelled and given the grace period; those whose Runner has not
// returned by then are named in a *StillRunningError. What was under way is interrupted, and known as such to the next Run.
//
// A journal that fails for a while costs nothing but that while: turns go on, and what they come to is recorded when it takes
// something again; meanwhile whoever asks for something is refused with ErrUnconfirmed and the reason. One that takes nothing any more, because
// it is closed or must be opened again ([session.ErrSync]), ends Run with that error.
func (s *Supervisor) Run(ctx context.Context) error {
	if !s.state.CompareAndSwap(idle, running) {
		if s.active() {
			return ErrRunning
		}
		<-s.closed
		return nil
	}
	s.workers.keep(true)
	s.lane.Open()
	if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("offshoot: looking for due trees failed", "error", err.Error())
	}
	for _, h := range s.all() {
		h.owner.Tick()
		h.dispatchAll()
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	health := ""
	for {
		select {
		case <-ticker.C:
			health = s.checkUp(ctx, health)
			if err := s.sweep(ctx); err != nil {
				s.log.Error("offshoot: looking for due trees failed", "error", err.Error())
			}
		case <-ctx.Done():
			return s.Shutdown(ctx)
		case err := <-s.dead:
			now, cancel := context.WithCancel(ctx)
			cancel()
			return errors.Join(fmt.Errorf("spawn: the journal takes nothing any more: %w", err), s.Shutdown(now))
		case <-s.closed:
			return nil
		}
	}
}

// restAfter is how long nothing must have happened in a tree before it is let go from memory.
const restAfter = 10 * time.Minute

// sweep opens the trees that are due before the next sweep, and lets those go that rest.
func (s *Supervisor) sweep(ctx context.Context) error {
	for _, h := range s.all() {
		h.owner.Unload(restAfter)
	}
	for head, err := range s.cfg.Store.Journal.Roots(ctx, session.RootQuery{DueBefore: time.Now().Add(sweepEvery)}) {
		if err != nil {
			return err
		}
		if isTree(head.Root) {
			s.home(head.Root).owner.Tick()
		}
	}
	return nil
}

// checkUp logs what is wrong with the store that no call has said, once, and returns it.
func (s *Supervisor) checkUp(ctx context.Context, known string) string {
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
// call does anything; the others wait for it.
func (s *Supervisor) Shutdown(ctx context.Context) error {
	if was := s.state.Swap(stopping); was >= stopping {
		<-s.closed
		return nil
	}
	s.lane.Close()
	for _, h := range s.all() {
		h.owner.Tick() // what waits for the journal may have no timer, if nothing ever ran
	}
	s.finish(ctx) // what is not quiet by then is cancelled
	s.workers.close()
	s.cancel(ErrShutdown)
	for _, h := range s.all() {
		h.mu.Lock()
		for _, u := range h.turns {
			u.cancel(ErrShutdown)
		}
		h.mu.Unlock()
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
	defer cancel()
	left := s.workers.wait(grace)
	s.workers.dismiss(left == nil)
	for _, h := range s.all() {
		h.owner.StopTimer()
	}
	close(s.closed)
	if left == nil {
		return nil
	}
	e := &StillRunningError{}
	for _, h := range s.all() {
		h.mu.Lock()
		for _, u := range h.turns {
			if !u.over {
				e.Sessions = append(e.Sessions, u.key)
			}
		}
		for to, p := range h.posts {
			if p.busy {
				e.Deliveries = append(e.Deliveries, to.to)
			}
		}
		h.mu.Unlock()
	}
	return e
}

// finish waits until no task is under way and nothing waits for a journal that fails, or ctx ends.
func (s *Supervisor) finish(ctx context.Context) {
	look := time.NewTicker(owner.FirstBackoff)
	defer look.Stop()
	for s.workers.wait(ctx) == nil && slices.ContainsFunc(s.all(), func(h *home) bool { return h.owner.Waiting() }) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// Spawn admits a child of a session and returns at once. It returns a *policy.Refusal if a rule refuses.
func (s *Supervisor) Spawn(ctx context.Context, root, requester session.Key, q Request) (RunInfo, error) {
	return s.home(root).spawn(ctx, requester, q, nil)
}

// spawn admits a child, for a turn of its requester if there is one.
func (h *home) spawn(ctx context.Context, requester session.Key, q Request, by *TurnInput) (info RunInfo, err error) {
	x := newSpawning()
	x.cmd = tree.Spawn{
		Parent: requester, ID: h.sup.newID(), SessionID: h.sup.newID(), Key: q.Key, Task: tree.Text(q.Task), Label: q.Label,
		Request: q.Policy, Announce: q.Announce, Extra: q.Extra,
	}
	if by != nil {
		x.cmd.Turn = uint32(by.N)
		err = h.owner.DoTurn(ctx, by.gen, &x.cmd, x.reader)
	} else {
		err = h.owner.Do(ctx, &x.cmd, x.reader)
	}
	if err != nil { // the owner may still have the command
		h.show(TreeEvent{
			Kind: EventRefused, Time: time.Now(), Session: requester, Depth: requester.Depth(), Agent: q.Policy.Agent, Label: q.Label,
			Text: q.Task, Error: err.Error(),
		})
		return RunInfo{}, err
	}
	info = x.info
	x.done()
	return info, nil
}

// spawning is a command and what comes back in one piece of memory, which is used again.
type spawning struct {
	cmd    tree.Spawn
	info   RunInfo
	reader func(*tree.Tree, tree.Reply) // read, made once
}

var spawnings sync.Pool

func newSpawning() *spawning {
	x, ok := spawnings.Get().(*spawning)
	if !ok {
		x = new(spawning)
		x.reader = x.read
	}
	return x
}

// done gives the memory back. Nobody else has it any more.
func (x *spawning) done() {
	x.cmd, x.info = tree.Spawn{}, RunInfo{}
	spawnings.Put(x)
}

func (x *spawning) read(t *tree.Tree, r tree.Reply) {
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
	return s.home(root).owner.Do(ctx, &tree.Post{To: to, ID: m.ID, Text: tree.Text(m.Text), Route: m.Route}, nil)
}

// Steer nudges a run under way, on behalf of another session of its tree. It is read when the Runner takes its inbox, or by
// the next turn; it never makes a run that has finished its turn start another.
func (s *Supervisor) Steer(ctx context.Context, root, from, to session.Key, m Incoming) error {
	if m.ID == "" {
		m.ID = s.newID()
	}
	return s.home(root).owner.Do(ctx, &tree.Steer{From: from, To: to, ID: m.ID, Text: tree.Text(m.Text)}, nil)
}

// CancelTurn cancels the turn of a session that is under way, and only it.
func (s *Supervisor) CancelTurn(ctx context.Context, root, key session.Key) error {
	return s.home(root).owner.Do(ctx, tree.CancelTurn{Run: key, Rand: s.rand()}, nil)
}

// Stop stops a session and everything below it: of a top-level session the turn under way and all sub-agents, of a run the
// run itself too. It returns nil when nothing of it is alive, and a *StillRunningError if turns had to be given up.
func (s *Supervisor) Stop(ctx context.Context, root, key session.Key, reason string) error {
	return s.home(root).stop(ctx, key, reason)
}

// Wait waits for runs of one tree and returns how each of them stands then, in the order given. Before [Supervisor.Run] it
// waits for that too.
func (s *Supervisor) Wait(ctx context.Context, root session.Key, keys []session.Key, opt JoinOptions) ([]RunInfo, error) {
	return s.home(root).wait(ctx, keys, opt)
}

// Runs returns the children of a session that are in the tree, oldest first; all below it if deep is set, parents first.
func (s *Supervisor) Runs(ctx context.Context, root, requester session.Key, deep bool) (list []RunInfo, err error) {
	found := false
	err = s.home(root).owner.Do(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
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
	h := s.home(root)
	infos, err := h.infos(ctx, []session.Key{key}, h.owner.Do)
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
	for _, h := range s.all() {
		found := false
		err := h.owner.Do(ctx, nil, func(t *tree.Tree, _ tree.Reply) { found = t.Run(key) != nil })
		if err == nil && found {
			return h.owner.Root(), nil
		}
	}
	return session.Key{}, fmt.Errorf("%w: the tree of %q", ErrNotFound, key)
}

// Events yields what happens in a tree from now on, until ctx ends, the loop breaks, or the Supervisor is shut down.
func (s *Supervisor) Events(ctx context.Context, root session.Key) iter.Seq[TreeEvent] {
	return s.home(root).events(ctx)
}

// Outbox returns what has left a tree and has not arrived, oldest first. Blocked entries are those with a time of blocking.
func (s *Supervisor) Outbox(ctx context.Context, root session.Key) (list []Delivery, err error) {
	err = s.home(root).owner.Do(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
		t.Outbox(func(e *tree.Entry) { list = append(list, outgoingOf(t, e)) })
	})
	return list, err
}

func (h *home) putAway(ctx context.Context, ref session.Ref, at time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p}
		}
	}()
	if h.sup.cfg.Store.Transcripts == nil {
		return nil
	}
	if _, err = h.sup.cfg.Store.Transcripts.Archive(ctx, ref, at); errors.Is(err, session.ErrNotFound) {
		return nil
	}
	return err
}

func isBudget(err error) bool { return errors.Is(err, ErrBudget) }
