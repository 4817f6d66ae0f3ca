package tree

import (
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/spare"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// KeyWindow is how long a spawn key is recognised after its run has left the tree, and how long the
// id of a message is recognised after the message came.
const KeyWindow = 7 * 24 * time.Hour

// Options are what decisions depend on beside the tree, the command and the time. They come from
// the configuration and are not recorded; what follows from them is.
type Options struct {
	Rules *policy.Rules // nil: not known, so that nothing can be decided
	// RulesNow returns the rules of now, which are not changed any more: others take their place.
	// It is called by many goroutines. ArchiveAfter and MaxDepth are then those of its rules. Nil:
	// the Rules are those for good.
	RulesNow     func() *policy.Rules
	AskModels    bool          // whether a model is valid is a Question; else it is
	CallerRun    bool          // completions for the top-level session go to the outbox
	Replies      bool          // replies of the top-level session go to the outbox
	Grace        time.Duration // how long a cancelled turn may take to return
	StepTimeout  time.Duration // how long an announce step may take
	ArchiveAfter time.Duration // how long after its end a run is archived; 0: never
	Chunk        Budget        // what a turn reserves at a time under a budget
	MaxDepth     int           // recorded for children, which are told it
	Limits       Limits        // of what callers and models give
	Apology      Text          // the reply of a turn that is given up; empty: none
	Tidies       bool          // the Executor removes what was made for a run with an Extra
	Unbinds      bool          // the Executor unbinds conversations; else the tree does at once
	Ends         bool          // the end of each run goes to the outbox, for a hook
	AskSpawns    bool          // whether a run may be admitted is a Question; else it may
	// TopGrant returns what the top-level sessions of an agent have, which trees share and nothing
	// changes. It may be called by many goroutines. Nil: each has its own.
	TopGrant func(agent string) *Grant

	// Model, Thinking and Tools are those of top-level sessions, which have no Grant. Policy says
	// which of the tools they may hand down.
	Model, Thinking string
	Tools           []string
}

// A Tree is a top-level session and everything spawned below it, folded from its journal. It is not
// safe for concurrent use: only its owner touches it. Make one with [New].
type Tree struct {
	opt *Options

	rules *policy.Rules // that decisions go by, see Heed

	epoch uint64
	root  *Run
	// firstSession is the session id that the top-level session had first, see FirstSession.
	firstSession string
	lastFound    *Run                       // by find; may be nil
	runs         few.Map[session.Key, *Run] // every session in the tree, the top-level one too
	spawned      map[spawnKey]spawnRef      // nil: none was yet
	names        map[nameKey]*Run           // that are called so, see Run.Name; nil: none was yet
	posts        few.Map[postKey, []seenPost]
	requests     few.Map[string, requestCount]
	outbox       outbox
	timers       timers
	total        uint32 // runs ever admitted
	live         int    // runs that are not terminal
	turns        int    // turns under way

	endedInTurn map[*Run][]endNote // during the turn under way, see noteEnd

	holds   map[*Run]hold  // of the turns with model calls under way, see decideHold
	reached map[*Run]reach // of the turns that are to end, see decideReach

	archiving      int // runs that the Executor is archiving
	archiveRetries map[*Run]archiveRetry
	deposits       map[session.Key]depositWork // of those on record; may lack some

	unbinding     []*Run // of which the Executor is unbinding a conversation
	unbindRetries map[*Run]archiveRetry

	sinceSnapshot int   // facts since the last snapshot
	textSince     int   // bytes of their texts, see textOf
	textSeen      int   // textSince when a snapshot was last found to have too much of it
	lastFact      int64 // the time of the last fact

	batches uint64 // calls of Take so far

	now  int64  // of the batch that is being decided
	rand uint64 // of it

	working *batch // see work; nil: a tree that rests has none
}

// A batch is what is being decided, and the memory for it and for the next one.
type batch struct {
	facts        []Fact
	factSlab     int // how many facts were allocated last
	effects      []Effect
	spareEffects []Effect // the memory of the effects before, which Take reuses
	touched      []*Run
	// The memory of turns that have ended and of completions that have arrived. Without it a child
	// allocates two more of 13 times.
	spareTurns   spare.List[OpenTurn]
	spareEntries spare.List[Entry]
	dueQueues    []*queue // destinations that settle looks at
	spoken       []*Entry // see TakeSpoken
	left         []*Run   // those that the batch has archived, see Described
	followed     []follow // the runs that the batch has followed by another, see RunAt
}

// work returns the batch that is being decided, or the memory for the next one.
func (t *Tree) work() *batch {
	if t.working == nil {
		t.working = new(batch)
	}
	return t.working
}

// A spawnKey is a spawn key with the session that used it. The keys that are made for the calls of
// models never meet those of the program: a model chooses the ids of its calls.
type spawnKey struct {
	parent  session.Key
	key     string
	byModel bool
}

// A spawnRef is the run that a spawn key made.
type spawnRef struct {
	Run    session.Key
	ID     string
	Digest string // of the request; empty: an earlier library admitted the run
	Until  int64  // Unix nanoseconds; 0: while the run is in the tree

	// spec and end are those of a run that has left the tree, see keepOutcome; nil: not known.
	spec *Spec
	end  *Past
}

// keyOf returns the spawn key of a run that has one.
func keyOf(s *Spec) spawnKey { return spawnKey{s.Parent, s.SpawnKey(), s.ByModel} }

// refOf returns the reference to a run in the tree.
func refOf(s *Spec) spawnRef { return spawnRef{Run: s.Key, ID: s.ID, Digest: s.Digest()} }

// New returns an empty tree. Nothing can be decided about it before an Open command.
func New(root session.Key, opt *Options) *Tree {
	top := &Spec{Key: root, Grant: opt.topGrant(root.Agent())}
	t := &Tree{opt: opt, root: NewRun(RunState{Spec: top, State: Waiting})}
	t.runs.Set(root, t.root)
	t.rules = opt.Rules
	if opt.RulesNow != nil {
		t.rules = opt.RulesNow()
	}
	return t
}

func (o *Options) topGrant(agent string) *Grant {
	if o.TopGrant != nil {
		return o.TopGrant(agent)
	}
	return NewTopGrant(agent)
}

// NewTopGrant returns what the top-level sessions of an agent have.
func NewTopGrant(agent string) *Grant { return &Grant{Agent: agent, Role: session.RoleMain} }

// Rules returns the rules that the tree goes by. The caller must not change them.
func (t *Tree) Rules() *policy.Rules { return t.rules }

// Heed has everything that is decided and read from now on go by the rules of now. If these are
// others than before, what was decided for a session under those is dropped, and what waits for the
// time of its archive waits for another one. The owner calls it at the beginning of each round, so
// that a round knows one set of rules.
func (t *Tree) Heed() {
	if t.opt.RulesNow == nil {
		return
	}
	now := t.opt.RulesNow()
	if now == t.rules {
		return
	}
	t.rules = now
	t.root.walk(true, func(r *Run) {
		r.rights = nil
		t.armTimer(r)
	})
}

// archiveAfter returns how long after its end a run is archived; 0: never.
func (t *Tree) archiveAfter() time.Duration {
	if t.opt.RulesNow == nil {
		return t.opt.ArchiveAfter
	}
	return t.rules.ArchiveAfter()
}

// maxDepth returns how deep the tree may be, which children are told.
func (t *Tree) maxDepth() int {
	if t.opt.RulesNow == nil {
		return t.opt.MaxDepth
	}
	return t.rules.MaxSpawnDepth()
}

// Root returns the top-level session.
func (t *Tree) Root() *Run { return t.root }

// Run returns a session of the tree, or nil.
func (t *Tree) Run(k session.Key) *Run { return t.find(k) }

// Described returns a session that a fact of the last batch is about: one of the tree, or one that
// the batch has archived. It returns nil if there is none.
func (t *Tree) Described(k session.Key) *Run {
	if r := t.find(k); r != nil {
		return r
	}
	for _, r := range t.work().left {
		if r.Key() == k {
			return r
		}
	}
	return nil
}

// LastFact returns the time of the last fact, in Unix nanoseconds; 0 of an empty tree.
func (t *Tree) LastFact() int64 { return t.lastFact }

// find returns a session of the tree, or nil. Consecutive facts are mostly about one run, so it
// remembers the run that it found last and saves a look-up in the map.
func (t *Tree) find(k session.Key) *Run {
	if k == t.root.key {
		return t.root
	}
	if t.lastFound != nil && t.lastFound.key == k {
		return t.lastFound
	}
	r := t.runs.Of(k)
	if r != nil {
		t.lastFound = r
	}
	return r
}

// Epoch returns a number that grows with each owner of the tree. It is how many the tree has had,
// or more if the journal was repaired.
func (t *Tree) Epoch() uint64 { return t.epoch }

// FirstSession returns the session id that the top-level session had first. The keys of what leaves
// the tree begin with it, so that they stay when the session gets another id.
func (t *Tree) FirstSession() string { return t.firstSession }

// Live returns how many runs are not terminal.
func (t *Tree) Live() int { return t.live }

// Runs returns how many runs the tree has, the top-level session not counted.
func (t *Tree) Runs() int { return t.runs.Len() - 1 }

// Total returns how many runs the tree has ever admitted.
func (t *Tree) Total() int { return int(t.total) }

// Walk calls f for every session of the tree, parents first and siblings oldest first.
func (t *Tree) Walk(f func(*Run)) { t.root.walk(false, f) }

// Sessions returns the keys of all runs, parents first.
func (t *Tree) Sessions() []session.Key {
	keys := make([]session.Key, 0, t.runs.Len()-1)
	t.Walk(func(r *Run) {
		if !r.IsRoot() {
			keys = append(keys, r.Key())
		}
	})
	return keys
}

// Idle reports whether nothing is under way: no turn, no live run, no input for a turn, and no
// delivery that is not blocked.
func (t *Tree) Idle() bool {
	return t.turns == 0 && t.live == 0 && t.outbox.pending == 0 &&
		!t.root.wantsTurn(t.now) && t.root.Cause == NoCause
}

// Quiet reports whether nothing is under way outside: no turn, no delivery, no archive, and no
// conversation that is being unbound.
func (t *Tree) Quiet() bool {
	return t.turns == 0 && t.archiving == 0 && len(t.unbinding) == 0 && !t.Calling()
}

// Archiving reports whether the Executor is archiving a run.
func (t *Tree) Archiving() bool { return t.archiving > 0 }

// Due returns when the tree next needs an owner. That is [DueNow] if something is in hand: a turn,
// a run, a delivery that is not blocked, an archive under way. Else it is when the next timer
// fires, which is that of an archive. The zero time means never.
func (t *Tree) Due() time.Time {
	if t.UnderWay() || t.outbox.pending > 0 {
		return DueNow
	}
	at := t.NextWake()
	for _, r := range t.unbinding { // this owner archives it after the unbinding
		if r.State.Terminal() && t.ripens(r) {
			at = earlier(at, t.archiveAt(r))
		}
	}
	if at > 0 {
		return time.Unix(0, at).UTC()
	}
	return time.Time{}
}

// UnderWay reports whether anything but a delivery is in hand that the next owner would go on with.
func (t *Tree) UnderWay() bool {
	return t.live > 0 || t.turns > 0 || t.archiving > 0 || t.root.owesTurn(t.now) ||
		len(t.root.Deposits) > 0 ||
		t.root.Cause != NoCause || slices.ContainsFunc(t.unbinding, t.owesUnbind)
}

// touch marks a run, which may be nil, to be settled.
func (t *Tree) touch(r *Run) {
	if r != nil && !r.touched {
		r.touched = true
		w := t.work()
		w.touched = append(w.touched, r)
	}
}

// emit records a fact and applies it at once, so that what is decided next sees it. After the first
// emit of a command its changes stand, even if Decide returns an error. A fact that cannot be
// applied is a defect of this package: emit panics, and the owner recovers.
func (t *Tree) emit(f Fact) {
	w := t.work()
	if len(w.facts) == 0 {
		w.spoken, w.left, w.followed = nil, nil, nil
	}
	w.facts = append(w.facts, f)
	if err := t.Apply(&w.facts[len(w.facts)-1]); err != nil {
		panic(fmt.Errorf("%w: deciding %v", err, f.Kind))
	}
}

// addEffect adds an effect. Of a turn the ordinal is that of the open turn of r.
func (t *Tree) addEffect(kind EffectKind, r *Run, ord uint32) {
	e := Effect{Kind: kind, Run: r, Ord: ord}
	if kind == EffectStartTurn || kind == EffectCancelTurn {
		e.Ord = r.Open.N
	}
	t.effect(e)
}

func (t *Tree) effect(e Effect) {
	w := t.work()
	w.effects = append(w.effects, e)
}

// nextNonce returns the next number of the sequence that the random number of the command seeds
// (splitmix64).
func (t *Tree) nextNonce() uint64 {
	t.rand += 0x9e3779b97f4a7c15
	z := t.rand
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// Replay folds a fact that was read from the journal, and decides nothing.
func (t *Tree) Replay(f *Fact) error {
	w := t.work()
	w.left, w.followed = nil, nil
	return t.ReplayNext(f)
}

// ReplayNext is Replay of a fact that is not the first of its batch.
func (t *Tree) ReplayNext(f *Fact) error {
	err := t.checkBegin(f)
	if err == nil {
		err = t.Apply(f)
	}
	w := t.work()
	for _, r := range w.touched {
		r.touched = false
	}
	for _, q := range w.dueQueues {
		q.marked = false
		t.armQueue(q)
	}
	w.touched, w.dueQueues, w.spoken = w.touched[:0], w.dueQueues[:0], nil
	return err
}

// checkBegin returns a *CorruptError if f is the first fact and cannot be: a journal begins with
// its first owner, or with a snapshot. What happened before another fact would be missing, and no
// later fact would tell.
func (t *Tree) checkBegin(f *Fact) error {
	if t.epoch > 0 || f.Kind == Snapshot || f.Kind == Opened && f.Num == 1 {
		return nil
	}
	return &CorruptError{f.Kind, t.root.Key(), "the first entry of the journal is missing"}
}

// Effects returns the effects since the last Take. Deciding appends to them.
func (t *Tree) Effects() []Effect { return t.work().effects }

// Take returns what was decided since the last Take. The caller may keep the facts; the effects are
// valid until the next Decide.
func (t *Tree) Take() ([]Fact, []Effect) {
	t.batches++
	w := t.work()
	n := len(w.facts)
	facts, effects := w.facts[:n:n], w.effects
	if w.facts = w.facts[n:]; cap(w.facts) < max(w.factSlab, firstSlab)/4 {
		w.factSlab = min(max(2*w.factSlab, firstSlab), slabSize)
		w.facts = make([]Fact, 0, w.factSlab)
	}
	w.effects, w.spareEffects = w.spareEffects[:0], effects
	return facts, effects
}

// DropSpare drops the memory that is kept for the next batches, and with it what earlier batches
// have in it.
func (t *Tree) DropSpare() {
	w := t.work()
	if len(w.facts)+len(w.effects)+len(w.touched)+len(w.dueQueues) == 0 {
		t.working = nil
		return
	}
	if len(w.facts) == 0 {
		w.facts, w.factSlab = nil, 0
	}
	if len(w.effects) == 0 {
		w.effects = nil
	}
	w.spareTurns, w.spareEntries = spare.List[OpenTurn]{}, spare.List[Entry]{}
	w.spareEffects = nil
	w.spoken, w.left, w.followed = nil, nil, nil
}

// slabSize is how many facts are allocated at a time; the batches are pieces of that memory. With
// the entries and names that the owner allocates likewise, this saves 4 of 21 allocations for each
// child of BenchmarkFlat in package spawn. A tree begins with firstSlab, because most have few
// facts, and doubles that.
const (
	firstSlab = 8
	slabSize  = 64
)
