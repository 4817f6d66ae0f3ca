package spawn

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/clone"
	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/guardlog"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Supervisor runs trees of sessions. Its methods are safe for concurrent use.
//
// [Open] makes one. It accepts commands at once, and runs turns between [Supervisor.Run] and
// [Supervisor.Shutdown].
type Supervisor struct {
	cfg         Config // but its Rules, see rules
	log         *slog.Logger
	lane        *owner.Lane
	ownerConfig owner.Config
	cluster     *cluster        // nil: no other process shares the store
	journal     session.Journal // of the store, with its panics as errors
	reads       session.Journal // the same for callers, who read apart from it

	// detachedCtx holds the values of the context that Open got, and never ends. Each turn derives
	// from it a context with a cancellation of its own.
	detachedCtx context.Context //nolint:containedctx // it outlives the call of Open
	// workCtx ends with the soft phase of a shutdown. Deliveries and the archiving of transcripts
	// run under it.
	workCtx context.Context //nolint:containedctx // it outlives the call of Open
	cancel  context.CancelCauseFunc
	// journalCtx ends with the hard phase of a shutdown. Journals are written under it.
	journalCtx context.Context //nolint:containedctx // it outlives the call of Open
	endJournal context.CancelCauseFunc
	// softCtx ends when the soft phase of a shutdown is to end, or was when there is none yet.
	softCtx context.Context //nolint:containedctx // it outlives the call of Open
	endSoft context.CancelFunc
	// closedCtx ends at the end of a shutdown: no call is answered after that. closed is its Done.
	closedCtx context.Context //nolint:containedctx // it outlives the call of Open
	close     context.CancelFunc
	closed    <-chan struct{}
	// stopError is what the shutdown has come to. untold is the same if no call of Shutdown returns
	// it. Both are written before closed is closed.
	stopError, untold error
	// graceEnd is when the grace period of the hard phase ends, or nil before that phase.
	graceEnd atomic.Pointer[time.Time]

	// rules are the present ones, which are not changed any more: SetRules puts others in their
	// place, and everything that goes by rules has these from here.
	rules atomic.Pointer[policy.Rules]

	joined  atomic.Uint64 // see feed
	workers workers
	asked   askedFunctions
	ids     *idSource
	now     func() time.Time // the wall clock, which may be set back and forward
	// journalDead has room for one error: why the journal takes nothing any more. Run returns it.
	journalDead chan error

	archives  chan struct{} // has one value while archives are taken away or brought back
	lastSweep time.Time     // by the wall clock; only the goroutine that sweeps touches it

	state atomic.Int32 // stateIdle to stateStopping

	watchers    atomic.Pointer[[]*watcher] // of all trees; written under mu
	watchBounds watchBounds

	topGrants topGrants

	ruling sync.Mutex // held by SetRules, so that the limits of the lane are those of the rules

	mu      sync.Mutex
	shells  map[session.Key]*treeShell // by top-level session
	callers int                        // calls of Shutdown that wait for its end
	told    bool                       // it is decided that these return stopError
}

// The states of a Supervisor, in the order in which it passes them.
const (
	stateIdle     int32 = iota // opened; turns and deliveries have not started
	stateRunning               // Run has been called
	stateDraining              // the soft phase of a shutdown: turns under way finish
	stateStopping              // the hard phase of a shutdown, and all that follows
)

// chunk is how much of a budget one turn reserves at a time.
var chunk = tree.Budget{Tokens: 20_000, Micros: 100_000}

// Open returns a Supervisor. It checks the Config and starts nothing. From here on the Supervisor
// accepts spawns, messages and stops and makes them durable; turns and deliveries start with
// [Supervisor.Run]. The Supervisor keeps the values of ctx for its own work, and ignores its end.
//
// The error is an *[InputError] that names a field of the Config, or what [policy.Rules.Validate]
// returns.
func Open(ctx context.Context, cfg Config) (*Supervisor, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Grace = cmp.Or(cfg.Grace, DefaultGrace)
	cfg.AnnounceTimeout = cmp.Or(cfg.AnnounceTimeout, DefaultAnnounceTimeout)
	cfg.DeliverTimeout = cmp.Or(cfg.DeliverTimeout, DefaultDeliverTimeout)
	s := &Supervisor{
		cfg: cfg, log: guardlog.NewBy(cfg.Logger, redactBy(cfg.Redact)),
		lane: owner.NewLane(cfg.Rules.MaxConcurrent(), cfg.Rules.SessionLimit()),
		ids:  newIDSource(), journalDead: make(chan error, 1),
		now:      time.Now,
		archives: make(chan struct{}, 1),
		shells:   make(map[session.Key]*treeShell), watchBounds: defaultWatchBounds,
	}
	s.cluster = newCluster(s)
	s.rules.Store(new(clone.Of(cfg.Rules)))
	s.cfg.Rules = policy.Rules{}
	s.lane.Provider = s.providerOf
	s.detachedCtx = context.WithoutCancel(ctx)
	s.workCtx, s.cancel = context.WithCancelCause(s.detachedCtx)
	s.journalCtx, s.endJournal = context.WithCancelCause(s.detachedCtx)
	s.softCtx, s.endSoft = context.WithCancel(s.detachedCtx)
	s.closedCtx, s.close = context.WithCancel(s.detachedCtx)
	s.closed = s.closedCtx.Done()
	guarded := owner.Guard(cfg.Store.Journal)
	s.journal, s.reads = guarded, owner.Apart(guarded, s.apart)
	s.ownerConfig = owner.Config{
		Now:     func() time.Time { return s.now() },
		Journal: guarded, Lane: s.lane, Writer: session.NewID(),
		Rand: s.ids.rand, NewID: s.ids.newID,
		Go: func(drain func(owner.Goroutine)) bool {
			return s.workers.startLast(drainTask(drain))
		},
		Active: s.timed, Awake: s.awake, Fatal: s.fatal, Closed: s.closed,
		Context: func() context.Context { return s.journalCtx },
		Options: &tree.Options{
			RulesNow: s.rules.Load, AskModels: cfg.ValidModel != nil,
			CallerRun: cfg.CallerRun, Replies: cfg.Replies, Grace: cfg.Grace,
			Chunk: chunk, Model: cfg.Model, Thinking: cfg.Thinking, Tools: cfg.Tools,
			Limits:  cfg.Limits,
			Apology: tree.Text(cfg.Apology),
			Unbinds: cfg.Unbind != nil,
			Ends:    cfg.Ended != nil, AskSpawns: cfg.Spawning != nil,
			Tidies: cfg.Tidy != nil, StepTimeout: cfg.AnnounceTimeout,
			TopGrant: s.topGrants.of,
		},
	}
	if s.cluster != nil {
		s.ownerConfig.Claims = s.cluster
	}
	return s, nil
}

// SetRules has everything go by other rules from now on that is decided: every spawn and follow-up,
// what a session may use and hand down, budgets, limits, slots, and when runs are archived. It
// takes the rules as a whole or not at all, and returns what [policy.Rules.Validate] returns. The
// caller must not change them afterwards.
//
// When SetRules has returned, each question is answered by the new rules. One that another
// goroutine asks meanwhile is answered by these or by those before, never by a part of both. A turn
// under way is told with [TurnInput.Rights]. What was granted to a run is within the new rules from
// now on: it can become less, and at most as much again as is on record. A budget that is spent
// under the new rules ends what it limits before its next turn or model call. Lower limits take
// back nothing that is under way: a turn keeps its slot, and a run that has begun stays.
//
// Rules are not recorded: the next process has those of its Config. After a shutdown SetRules
// returns [ErrShutdown].
func (s *Supervisor) SetRules(rules *policy.Rules) error {
	if err := rules.Validate(); err != nil {
		return err
	}
	select {
	case <-s.closed:
		return ErrShutdown
	default:
	}
	s.ruling.Lock()
	defer s.ruling.Unlock()
	s.rules.Store(rules)
	s.lane.SetLimits(rules.MaxConcurrent(), rules.SessionLimit())
	if s.timed() {
		for _, sh := range s.allShells() {
			sh.owner.SendIfThere(tree.Tick{Rand: s.ids.rand()}) // times of archives may be others
		}
	}
	return nil
}

// Rules returns the present rules. The caller must not change them.
func (s *Supervisor) Rules() *policy.Rules { return s.rules.Load() }

// active reports whether the Supervisor starts turns and deliveries.
func (s *Supervisor) active() bool { return s.state.Load() == stateRunning }

// timed reports whether the Supervisor starts timers: it runs, or lets finish what it ran.
func (s *Supervisor) timed() bool {
	state := s.state.Load()
	return state == stateRunning || state == stateDraining
}

// awake reports whether Run or Shutdown has been called: the Supervisor runs, or what it has begun
// is still to end.
func (s *Supervisor) awake() bool { return s.state.Load() != stateIdle }

// fatal has Run return with err. Only the first error counts.
func (s *Supervisor) fatal(err error) {
	select {
	case s.journalDead <- err:
	default: // Run has an error already
	}
}

// shellOf returns the shell of the tree of a top-level session, and makes it at the first call.
func (s *Supervisor) shellOf(root session.Key) *treeShell {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shells[root]
	if sh == nil {
		sh = newTreeShell(s, root)
		s.shells[root] = sh
	}
	return sh
}

// withShell returns what f returns for the shell of a tree. It calls f again, with another shell,
// if the owner has retired before it took the first call of f.
func withShell[T any](
	s *Supervisor, root session.Key, f func(*treeShell) (T, error),
) (v T, err error) {
	for {
		v, err = f(s.shellOf(root))
		if !errors.Is(err, owner.ErrRetired) {
			return v, err
		}
	}
}

// do sends a command to the owner of a tree, see [owner.Owner.Do], in this process or in another
// one. There read is called without a tree, and with a run that has its SessionID alone.
func (s *Supervisor) do(
	ctx context.Context, root session.Key, cmd tree.Command, read func(*tree.Tree, tree.Reply),
) error {
	err := s.doHere(ctx, root, cmd, read)
	if s.elsewhere(ctx, root, err) {
		return s.doThere(ctx, root, cmd, read, err)
	}
	return err
}

// doHere sends a command to the owner of a tree in this process.
func (s *Supervisor) doHere(
	ctx context.Context, root session.Key, cmd tree.Command, read func(*tree.Tree, tree.Reply),
) error {
	for {
		err := s.shellOf(root).owner.Do(ctx, cmd, read)
		if !errors.Is(err, owner.ErrRetired) {
			return err
		}
	}
}

// forget removes a shell that nothing uses and whose owner retires, so that a tree at rest takes no
// memory.
func (s *Supervisor) forget(sh *treeShell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if root := sh.owner.Root(); s.shells[root] == sh && !sh.inUse() && sh.owner.Retire() {
		delete(s.shells, root)
	}
}

// allShells returns the shells of all trees that are in use or have runs.
func (s *Supervisor) allShells() []*treeShell {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*treeShell, 0, len(s.shells))
	for _, sh := range s.shells {
		list = append(list, sh)
	}
	return list
}

// logBeside logs in a goroutine of its own, for the owners of trees: the Logger is code of the
// caller, which may hang, or end its goroutine. If no goroutine can be started any more, it logs in
// place.
func (s *Supervisor) logBeside(level slog.Level, text string, args ...any) {
	log := func() { s.log.Log(s.detachedCtx, level, text, args...) }
	if !s.workers.start(taskFunc(log)) {
		log()
	}
}

// isTree reports whether root is the key of a tree's log. A store also has other logs, under
// reserved roots.
func isTree(root session.Key) bool { return root.IsValid() && !root.IsSubagent() }

// idSource makes random numbers and ids that cannot be guessed, without a system call for each. It
// is safe for concurrent use.
type idSource struct {
	mu   sync.Mutex
	rng  *rand.ChaCha8
	next string // ids for newRunID, one behind the other
}

// newIDSource returns an idSource that the system's random numbers have seeded.
func newIDSource() *idSource {
	var seed [32]byte
	cryptorand.Read(seed[:]) // never fails
	return &idSource{rng: rand.NewChaCha8(seed)}
}

// rand returns a random number.
func (s *idSource) rand() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Uint64()
}

// newID returns a random UUID of version 4, as [session.NewID] does.
func (s *idSource) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text [idLen]byte
	return string(s.appendID(text[:0]))
}

// idLen is how many bytes an id has, and idsAhead how many newRunID makes at once.
const (
	idLen    = 36
	idsAhead = 16
)

// newRunID is newID for the run of a tree.Spawn. The run has its id from its key, so that this one
// is gone with the command, and several can share an allocation, one of 13 of a child.
func (s *idSource) newRunID() (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == "" {
		var text [idsAhead * idLen]byte
		ids := text[:0]
		for range idsAhead {
			ids = s.appendID(ids)
		}
		s.next = string(ids)
	}
	id, s.next = s.next[:idLen], s.next[idLen:]
	return id
}

// appendID appends a new id. The caller holds the lock.
func (s *idSource) appendID(to []byte) []byte {
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:8], s.rng.Uint64())
	binary.LittleEndian.PutUint64(id[8:], s.rng.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, variant 10
	for i, group := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, group)
	}
	return to
}

// maxTopGrants is for how many agents topGrants has one. Keys of sessions may name agents that no
// configuration has.
const maxTopGrants = 256

// topGrants has what the top-level sessions of each agent have. With it an idle chat takes 208
// bytes less.
type topGrants struct {
	mu      sync.Mutex
	byAgent map[string]*tree.Grant
}

func (g *topGrants) of(agent string) *tree.Grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.byAgent[agent]; known != nil {
		return known
	}
	agent = strings.Clone(agent) // it is a part of a key
	grant := tree.NewTopGrant(agent)
	if len(g.byAgent) < maxTopGrants {
		few.Put(&g.byAgent, agent, grant)
	}
	return grant
}
