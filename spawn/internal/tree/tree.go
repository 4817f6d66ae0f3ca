package tree

import (
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// KeyWindow is how long a spawn key is recognised after its run has left the tree, and the id of a
// message after it came.
const KeyWindow = 7 * 24 * time.Hour

// Options are what the decisions depend on beside the tree, the command and the time. They come
// from the configuration and are not recorded; what follows from them is.
type Options struct {
	Rules        *policy.Rules
	ValidModel   func(string) bool // nil: what is well formed is valid
	CallerRun    bool              // completions for the top-level session leave the tree
	Replies      bool              // what the top-level session answers leaves the tree
	Grace        time.Duration     // how long a turn may take to come back once it is cancelled
	ArchiveAfter time.Duration     // after the end of a run; 0: never
	Chunk        Budget            // what a turn reserves at a time where a budget is set
	MaxDepth     int               // tellsRequester to children in their first message

	// Of top-level sessions, which policy has not granted anything.
	Model, Thinking string
	Tools           []string // the names that there are; policy says which of them they may hand down
}

// A Tree is a top-level session and everything spawned below it, folded from its journal. It is not
// safe for concurrent use: its owner alone touches it.
type Tree struct {
	opt *Options
	top policy.Authority // of the top-level session

	epoch     uint64
	root      *Run
	lastFound *Run                 // the one that was found last
	runs      map[session.Key]*Run // every session in the tree, the top-level one too
	spawned   map[spawnKey]spawnRef
	posts     map[postKey]int64 // until when it is recognised
	outbox    outbox
	timers    timers
	total     uint32 // runs ever admitted
	live      int    // runs that are not terminal
	turns     int    // turns under way

	archiving      int // runs that the shell is putting away
	archiveRetries map[*Run]archiveRetry

	sinceSnapshot int // facts since the last snapshot

	// Of the batch that is being decided.
	now          int64
	rand         uint64
	facts        []Fact
	effects      []Effect
	spareEffects []Effect // what the effects before are in
	touched      []*Run
	dueEntries   []uint32 // entries of the outbox to look at
}

type spawnKey struct {
	parent session.Key
	key    string
}

type postKey struct {
	to session.Key
	id string
}

type spawnRef struct {
	Run   session.Key
	ID    string
	Until int64 // 0: while the run is in the tree
}

// New returns an empty tree. Nothing can be decided about it before an Open command.
func New(root session.Key, opt *Options) *Tree {
	t := &Tree{
		opt:     opt,
		top:     opt.Rules.TopAuthority(root, opt.Model, opt.Tools),
		root:    &Run{RunState: RunState{Spec: &Spec{Key: root, Grant: &Grant{Agent: root.Agent(), Role: session.RoleMain}}, State: Waiting}},
		runs:    make(map[session.Key]*Run),
		spawned: make(map[spawnKey]spawnRef),
		posts:   make(map[postKey]int64),
	}
	t.outbox.entries = make(map[uint32]*Entry)
	t.runs[root] = t.root
	return t
}

// Root returns the top-level session.
func (t *Tree) Root() *Run { return t.root }

// Run returns a session of the tree, or nil.
func (t *Tree) Run(k session.Key) *Run { return t.find(k) }

// find returns a session of the tree, or nil. What happens happens to one run after the other, so
// that the run before is most often the one that is wanted.
func (t *Tree) find(k session.Key) *Run {
	if k == t.root.Spec.Key {
		return t.root
	}
	if t.lastFound != nil && t.lastFound.Spec.Key == k {
		return t.lastFound
	}
	r := t.runs[k]
	if r != nil {
		t.lastFound = r
	}
	return r
}

// Epoch returns how many owners the tree has had.
func (t *Tree) Epoch() uint64 { return t.epoch }

// Live returns how many runs are not terminal.
func (t *Tree) Live() int { return t.live }

// Total returns how many runs the tree has ever admitted.
func (t *Tree) Total() int { return int(t.total) }

// Walk calls f for every session of the tree, parents first, siblings oldest first.
func (t *Tree) Walk(f func(*Run)) { t.root.walk(false, f) }

// Idle reports whether nothing is under way that anybody waits for: no turn, no live run, no
// delivery that is not blocked.
func (t *Tree) Idle() bool {
	return t.turns == 0 && t.live == 0 && t.outbox.pending == 0 && !t.root.wantsTurn(t.now) && t.root.Cause == NoCause
}

// Archiving reports whether the shell is putting a run away.
func (t *Tree) Archiving() bool { return t.archiving > 0 }

// Due returns when the tree next needs an owner: now if something is under way, a delivery or an
// archive too, else when its transitions timer fires, else never, which is the zero time.
func (t *Tree) Due() time.Time {
	if t.live > 0 || t.turns > 0 || t.root.wantsTurn(t.now) || t.root.Cause != NoCause || t.outbox.ready > 0 || t.archiving > 0 {
		return time.Unix(0, t.now).UTC()
	}
	if at := t.NextWake(); at > 0 {
		return time.Unix(0, at).UTC()
	}
	return time.Time{}
}

func (t *Tree) touch(r *Run) {
	if r != nil && !r.touched {
		r.touched = true
		t.touched = append(t.touched, r)
	}
}

// emit records a fact and applies it at once, so that what is decided next sees it. After the first
// emit of a command nothing can be refused any more; a fact that cannot be applied is a defect of
// ours and panics, which the owner contains.
func (t *Tree) emit(f Fact) {
	t.facts = append(t.facts, f)
	if err := t.Apply(&t.facts[len(t.facts)-1]); err != nil {
		panic(fmt.Errorf("%w: deciding %v", err, f.Kind))
	}
}

func (t *Tree) addEffect(kind EffectKind, r *Run, ord uint32) {
	e := Effect{Kind: kind, Run: r, Ord: ord}
	if kind == EffectStartTurn || kind == EffectCancelTurn {
		e.Ord = r.Open.N
	}
	t.effects = append(t.effects, e)
}

// nextNonce returns the next number of the sequence that the command's random number starts
// (splitmix64).
func (t *Tree) nextNonce() uint64 {
	t.rand += 0x9e3779b97f4a7c15
	z := t.rand
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// Replay folds a fact that was read from the journal.
func (t *Tree) Replay(f *Fact) error {
	err := t.Apply(f)
	for _, r := range t.touched {
		r.touched = false
	}
	t.touched, t.dueEntries = t.touched[:0], t.dueEntries[:0]
	return err
}

// Watch folds a fact for somebody who looks on and will not open the tree. What an owner notes
// beside the facts when it takes the tree over, that what was in the outbox then may have arrived,
// is noted here too.
func (t *Tree) Watch(f *Fact) error {
	if err := t.Replay(f); err != nil {
		return err
	}
	if f.Kind == Opened {
		for _, e := range t.outbox.entries {
			e.mayRepeat = true
		}
	}
	return nil
}

// Effects returns the effects since the last Take. Deciding appends to them.
func (t *Tree) Effects() []Effect { return t.effects }

// Bulky reports whether the log holds so much more than a snapshot would that one is worth writing.
//
// What a snapshot keeps for the sake of its window alone counts for one fact, not four: a chat adds
// one such id with every three or four facts, and ids are only forgotten by a snapshot.
func (t *Tree) Bulky() bool {
	return t.sinceSnapshot > 1000 && t.sinceSnapshot > 4*(len(t.runs)+len(t.outbox.entries))+len(t.spawned)+len(t.posts)
}

// Take returns what was decided since the last Take. The facts are the caller's; the effects are
// valid until the next Decide.
func (t *Tree) Take() ([]Fact, []Effect) {
	n := len(t.facts)
	facts, effects := t.facts[:n:n], t.effects
	if t.facts = t.facts[n:]; cap(t.facts) < slabSize/4 {
		t.facts = make([]Fact, 0, slabSize)
	}
	t.effects, t.spareEffects = t.spareEffects[:0], effects
	return facts, effects
}

// slabSize is for how many facts memory is taken at a time. Batches are pieces of it.
const slabSize = 64
