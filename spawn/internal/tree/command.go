package tree

import (
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Command is something that the world wants of a tree. Ids and random numbers are inside, so that deciding is deterministic.
type Command interface{ command() }

// Open takes the tree over from the owner before, whose turns are gone.
type Open struct {
	Writer    string
	SessionID string // of the top-level session, used if it has none yet
	Rand      uint64
}

// A Spawn asks for a child of Parent.
type Spawn struct {
	Parent    session.Key
	ID        string // of the run, a UUID; also the last segment of the child's key
	SessionID string
	Turn      uint32 // of the requester, which must be under way; 0: whether it has one or not
	Key       string // the same key of the same requester gives the same run
	Task      Text
	Label     string
	Request   policy.Request
	Announce  bool
	Extra     []byte
}

// A Post tells a session something on behalf of a person or of the caller. A known ID is accepted and changes nothing.
type Post struct {
	To    session.Key
	ID    string
	Text  Text
	Route *session.Route
}

// A Steer nudges a run that is alive. It never starts a turn of one that has finished its own.
type Steer struct {
	From, To session.Key
	ID       string
	Text     Text
}

// Granted says that the lane has a slot for a run that asked for one.
type Granted struct{ Run session.Key }

// TurnDone says that a turn is back.
type TurnDone struct {
	Run    session.Key
	N      uint32
	Failed string // why, if it failed
	Budget bool   // with Failed: the budget forbade to go on
	Answer *Result
	Silent bool // the answer asks that nothing be announced
	Skip   bool // with Silent: not even an earlier answer
	Pos    uint64
	Yield  *Join
	Route  *session.Route // of the input that the turn answers
	Rand   uint64
}

// Take consumes what has arrived since the turn began.
type Take struct {
	Run session.Key
	N   uint32
}

// Reserve asks for more of the budget for the turn under way, which has used so much so far.
type Reserve struct {
	Run  session.Key
	N    uint32
	Used Budget
}

// CancelTurn ends the turn under way, and only it.
type CancelTurn struct {
	Run  session.Key
	Rand uint64
}

// Stop ends a run and everything below it; of a top-level session the turn under way and everything below it.
type Stop struct {
	Run    session.Key
	Reason string
	Rand   uint64
}

// Settle says how an attempt to hand over an entry of the outbox went.
type Settle struct {
	Ord   uint32
	Error string // empty: it has arrived
	Busy  bool   // with Error: the receiver wants it later
	Rand  uint64
}

// Retry makes a blocked entry due again.
type Retry struct{ Ord uint32 }

// Dismiss gives a blocked entry up.
type Dismiss struct{ Ord uint32 }

// ArchiveDone says that the transcript of a run has been put away, or could not be.
type ArchiveDone struct {
	Run    session.Key
	Failed bool
}

// Tick says that time has passed.
type Tick struct{ Rand uint64 }

// Compact writes a snapshot.
type Compact struct{}

func (*Open) command()       {}
func (*Spawn) command()      {}
func (*Post) command()       {}
func (*Steer) command()      {}
func (Granted) command()     {}
func (*TurnDone) command()   {}
func (Take) command()        {}
func (Reserve) command()     {}
func (CancelTurn) command()  {}
func (*Stop) command()       {}
func (*Settle) command()     {}
func (Retry) command()       {}
func (Dismiss) command()     {}
func (ArchiveDone) command() {}
func (Tick) command()        {}
func (Compact) command()     {}

// A Reply answers a command.
type Reply struct {
	Run      *Run
	Ref      session.Key // of the run, also where it has left the tree
	ID       string
	Existing bool    // the key was known
	Inputs   []Input // of Take
	Grant    Budget  // of Reserve
}

const (
	// MaxSteer is how long a steer may be, in runes.
	MaxSteer = 4000
	// SteerPause is how long a steer must come after the one before.
	SteerPause = 2 * time.Second
)

// An EffectKind says what an Effect wants from the world.
type EffectKind uint8

const (
	EffectAskSlot    EffectKind = iota + 1 // the run wants a turn: ask the lane
	EffectFreeSlot                         // the run's slot is free
	EffectStartTurn                        // start the turn Ord of the run
	EffectCancelTurn                       // cancel the turn Ord of the run
	EffectDeliver                          // hand over the entry Ord of the outbox
	EffectArchive                          // put the run's transcript away, then tell the tree
)

var effectNames = [...]string{"none", "ask_slot", "free_slot", "start_turn", "cancel_turn", "deliver", "archive"}

func (k EffectKind) String() string { return enum.String(effectNames[:], "EffectKind", k) }

// An Effect is something that the owner does once the facts it follows from are durable.
type Effect struct {
	Kind EffectKind
	Run  *Run
	Ord  uint32
}
