package tree

import (
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Command asks something of a tree or tells it what has happened outside. Ids and random numbers
// are part of it, so that deciding is deterministic. Times are passed beside it.
type Command interface{ command() }

// Open takes the tree over from the owner before, whose turns have ended with its process.
type Open struct {
	Writer    string
	SessionID string // of the top-level session, used if it has none yet
	Rand      uint64
	// Repair is the ID of the last mark of a repair of the journal, or empty. RepairEpoch is more
	// than every epoch of the time before that repair.
	Repair      string
	RepairEpoch uint64
	// NotBegun are turns that have not begun, see [NotBegun]: the owner before is this one.
	NotBegun []TurnRef
}

// A TurnRef names a turn.
type TurnRef struct {
	Run session.Key
	N   uint32
}

// NotBegun says that turns which are on record as started have not begun, and will not, or that a
// shutdown has ended them before they did anything: the append that has them, or their end, did not
// return.
type NotBegun struct {
	Turns []TurnRef
	// Cut are turns that have begun, and that the shutdown has cancelled, see [ShutDown].
	Cut []TurnRef
}

// A Spawn asks for a child of Parent. A Key that is known returns the run that it made.
type Spawn struct {
	Parent   session.Key
	ID       string // of the run, a UUID; also its session id and the last segment of its key
	Turn     uint32 // of Parent, which must be under way; 0: Parent needs no turn
	Key      string // the same key of the same Parent gives the same run
	Task     Text
	Label    string
	Shown    string // the Label as the run has it; empty: the Label, on one line
	Name     string // what the requester calls the child, see Run.Name; empty: nothing
	Request  policy.Request
	Announce bool
	Origin   string  // the request, of a session that the caller runs; empty: as the tree knows it
	Variant  string  // what else tells requests with the same Key apart; compared, not kept
	Again    bool    // the Key gives another attempt if the last one was cut short
	Extra    []byte  // the caller's own, kept and not read
	Answers  Answers // to the questions of an earlier decision of the command

	Milestones bool // the requester finds those of the run in its inbox
	// Update says that people are told of the end of the run, at Route, in place of the requester,
	// which is the top-level session.
	Update bool
	Route  *session.Route // where answers over its end go; nil: as those of Parent now

	// Thread says that the conversation Bind is bound to the session from its beginning on. With
	// Session it stays bound when a run has ended.
	Thread  bool
	Bind    *session.Route
	Session bool
	// Place, beside Thread or Update, is where that was asked for: it is compared, as Variant is,
	// and not kept. Nil: in no place of its own.
	Place  *session.Route
	Delete bool // the session is archived as soon as its end has arrived
	// Asked says that it is known that the run may be admitted, as far as that is a Question.
	Asked bool
	// AskedOf are the rules under which that is known. Nil: under all.
	AskedOf *policy.Rules
	// Dry has the command decided without consequences. Its reply names a run if the Key is known.
	Dry bool
	// Files says that the run has files, which a deposit is to have. With Dry the Variant does not
	// have them yet, so that a Key that is known is not compared.
	Files bool
	// Senders are people for whom the run works, beside those for whom Turn does.
	Senders []policy.Sender
	// Deposits, beside Dry and Files, begins the deposit of the run, unless the Key is known.
	Deposits bool
}

// A Post tells a session something on behalf of a person or of the caller. A Post with an ID that
// is known is accepted and changes nothing.
type Post struct {
	To    session.Key
	ID    string
	Text  Text
	Route *session.Route // what it lacks is filled in from that of the message before
	Mail  *Mail          // what the message has beside its text; may be nil
	// SessionID is that of the transcript that has the bytes of Mail. Empty: it has none there.
	SessionID string

	// Event says that the Text is an event of the program, for a top-level session: no message of a
	// person, and known by an ID of its own kind. It has neither a Route nor a Mail.
	Event bool

	// What follows is of use if the session has ended, and begins another run.

	RunID    string      // of that run, a UUID
	From     session.Key // the session that sends it; zero: a person or the program
	Asks     bool        // From, in another process, asks for the answer when it knows of the post
	Announce bool        // the requester, see Tree.requester, is told of the end of the run
	ByModel  bool        // a model sends it, so that the run counts against its request
	Origin   string      // of From, see Spawn
	Thread   bool        // it is of the conversation Route, which is bound to the session
	Own      session.Key // with Thread: the conversation's own session, in this tree; may be zero

	Senders []policy.Sender // the people who say it, or for whom the session From works
	Answers Answers         // to the questions of an earlier decision of the command
}

// Ensure asks for a session that a message with an ID is for, and whether the ID is known. It puts
// the tree on record if it is not. A run must not have ended.
type Ensure struct {
	Run session.Key
	ID  string
	Of  *Post // the message, if it is to be posted then; may be nil
}

// SetRoute sets where the answers of a top-level session go, until a message says otherwise.
type SetRoute struct {
	Run   session.Key
	Route session.Route // zero: nowhere
}

// Restart has a top-level session go on in a new conversation, once no turn is under way. Its
// answer is an EffectAnswer with SessionID.
type Restart struct {
	Run       session.Key
	SessionID string // from then on; a new one
	ID        string // of the message that asks for it: a reset with it is done once; may be empty
	Withdraw  bool   // the caller no longer waits: nothing is to happen, if it has not yet
}

// Condense has a top-level session compact its conversation in a turn of its own. Its answer is an
// EffectAnswer with ID.
type Condense struct {
	Run      session.Key
	ID       string // of the wish; a new one
	Withdraw bool   // the caller no longer waits: nothing is to happen, if it has not begun
}

// A Say tells people something before turn N of a top-level session has ended. A name that is known
// is accepted and changes nothing. It is the command of an InTurn.
type Say struct {
	Run    session.Key
	N      uint32
	ID     string // the name of what is said; empty: see Num
	Num    uint32 // counts those of the turn without an ID, from 1; 0 with an ID
	Answer Result // its Reply, ReplyTo and Voice
}

// A Steer tells a run that is alive something that its turn reads. It does not start a turn of a
// run that has nothing else to do, unless the run waits for a join.
type Steer struct {
	From, To session.Key
	RunID    string // of the run that is meant; empty: the present one
	ID       string
	Text     Text
	Senders  []policy.Sender // as of a Post
}

// InTurn is the command of a turn that may begin something: turn N of the session Run must be under
// way, and neither it nor the session may be ending. Cmd may be a Take, a Say or a Report, or a
// Steer or Stop of a session below. With a nil Cmd the reply has the session.
type InTurn struct {
	Run session.Key
	N   uint32
	Cmd Command
}

// Granted says that the lane has a slot for a run that asked for one.
type Granted struct{ Run session.Key }

// TurnDone says that the Runner has returned from turn N of a run, and with what.
type TurnDone struct {
	Run    session.Key
	N      uint32
	Failed string // why the turn failed; empty: it did not
	Budget bool   // with Failed: the turn ended because the budget is exhausted
	Note   string // without Failed: why the turn said nothing; empty: it has nothing to explain
	Answer *Result
	Silent bool           // the answer asks that nothing be announced
	Skip   bool           // with Silent: nor an earlier answer
	Pos    uint64         // the end of the transcript; 0 leaves it where it is
	Yield  *Join          // what the session waits for; nil: nothing
	Route  *session.Route // of the input that the turn answers
	Rand   uint64
	// Compacted is how many messages the summary of a turn that compacts stands for. Err is why it
	// failed, for those who have asked for it.
	Compacted uint32
	Err       error
	// Untouched says that a shutdown has ended the turn before it did anything.
	Untouched bool
}

// Take consumes the inputs that have arrived since turn N of a run began.
type Take struct {
	Run session.Key
	N   uint32
}

// Reserve asks for more of the budget for turn N of a run, which has used Used so far.
type Reserve struct {
	Run  session.Key
	N    uint32
	Used Budget
}

// Hold says what the model calls under way in turn N of a run, which has used Used so far, are
// expected to use together: Expect. With Begins another call is to begin, and all of them but that
// one are expected to use Before. Then the command is refused if a budget does not have room for
// it, and the calls before count on.
type Hold struct {
	Run                  session.Key
	N                    uint32
	Used, Expect, Before Budget
	Begins               bool
}

// Reach says how far the transcript of turn N of a run is a complete conversation: up to Pos, with
// the inputs up to Through. It counts if the turn is cut.
type Reach struct {
	Run     session.Key
	N       uint32
	Pos     uint64
	Through uint32
}

// KeepSkills says which skills turn N of a session has taken, if that has not taken any before.
type KeepSkills struct {
	Run    session.Key
	N      uint32
	Skills *SkillSet
}

// CancelTurn ends the turn under way of a session, and nothing else.
type CancelTurn struct {
	Run  session.Key
	Rand uint64
}

// Stop ends a run and everything below it. Of a top-level session it ends the turn under way and
// everything below; the session itself goes on.
type Stop struct {
	Run    session.Key
	RunID  string // of the run that is meant, if it is not followed; empty: the present one
	Reason string
	Rand   uint64
}

// Settle says how an attempt to deliver an entry of the outbox went. With Hangs it is over without
// the receiver having returned. Another Settle for the same entry follows when it has returned.
type Settle struct {
	Ord uint32
	// More are entries of the same destination that the receiver was given in the same call, in
	// their order, each after Ord.
	More  []uint32
	Error string // empty: it has arrived
	Busy  bool   // with Error: the receiver wants it later
	Hangs bool   // with Error: the time is up, and the receiver has not returned
	Never bool   // with Error: no later attempt would arrive, so that none is made
	Wait  int64  // with Error: nanoseconds before which the receiver wants no other; 0: any
	Rand  uint64
}

// Ready says that a session is free: what its receiver was too busy for is due now.
type Ready struct{ To session.Key }

// Retry makes a blocked entry of the outbox due again.
type Retry struct{ Ord uint32 }

// Dismiss gives a blocked entry of the outbox up.
type Dismiss struct{ Ord uint32 }

// AnnounceRest has the requesters told of the ends of those of some runs that have not ended. Runs
// has the id of the run of each of the Keys: one that a later run has followed has ended.
type AnnounceRest struct {
	Keys []session.Key
	Runs []string
}

// ArchiveDone says that the transcript of a run has been archived, or that this failed.
type ArchiveDone struct {
	Run     session.Key
	Session string // the session id before a reset; empty: the run itself is archived
	Failed  bool
}

// RestoreDone says that the archive of a session is in use again, or that this failed.
type RestoreDone struct {
	Run    session.Key
	Failed bool
}

// Tick says that time has passed.
type Tick struct{ Rand uint64 }

// ShutDown says that the owner ends in good order, and cancels the turns under way.
type ShutDown struct{}

// Leave says that the owner ends in good order: no turn and no delivery is under way any more. Of
// the entries that were handed to the Executor, it has not called the receiver for the Queued ones.
type Leave struct{ Queued []uint32 }

// Compact replaces the journal by a snapshot.
type Compact struct{}

func (*Open) command()        {}
func (*Spawn) command()       {}
func (*Post) command()        {}
func (Ensure) command()       {}
func (SetRoute) command()     {}
func (Restart) command()      {}
func (Condense) command()     {}
func (*Say) command()         {}
func (*Report) command()      {}
func (*Steer) command()       {}
func (InTurn) command()       {}
func (Granted) command()      {}
func (*TurnDone) command()    {}
func (Take) command()         {}
func (Reserve) command()      {}
func (Hold) command()         {}
func (Reach) command()        {}
func (CancelTurn) command()   {}
func (KeepSkills) command()   {}
func (*Stop) command()        {}
func (*Settle) command()      {}
func (Ready) command()        {}
func (Retry) command()        {}
func (Dismiss) command()      {}
func (ArchiveDone) command()  {}
func (AnnounceRest) command() {}
func (RestoreDone) command()  {}
func (Tick) command()         {}
func (Compact) command()      {}
func (ShutDown) command()     {}
func (NotBegun) command()     {}
func (Leave) command()        {}

// A Reply answers a command. Fields that a command does not answer are zero.
type Reply struct {
	Run      *Run
	Ref      session.Key // of the run, also where it has left the tree
	ID       string
	RunID    string  // of the run that takes a Post; empty: a top-level session does
	Began    bool    // a Post has begun that run
	Existing bool    // the key or the id was known
	Inputs   []Input // of Take
	Grant    Budget  // of Reserve
	Stood    []*Run  // of AnnounceRest: copies, as the runs stood then; nil for one that is gone
}

const (
	// MaxSteer is how long a steer may be, in runes.
	MaxSteer = 4000
	// SteerPause is the time that must pass between two steers of one run by one session.
	SteerPause = 2 * time.Second
)

// An EffectKind says what an Effect asks of the owner.
type EffectKind uint8

const (
	EffectAskSlot    EffectKind = iota + 1 // ask the lane for a slot for the run
	EffectFreeSlot                         // give the slot of the turn Ord back; 0: it was not used
	EffectStartTurn                        // start the turn Ord of the run
	EffectCancelTurn                       // cancel the turn Ord of the run
	EffectDeliver                          // deliver the entry Ord of the outbox, then send Settle
	EffectArchive                          // archive the run's transcript, then send ArchiveDone
	EffectRecall                           // drop the entries for the destination To
	EffectAnswer                           // tell the caller of the wish ID that it came to Err
	EffectUnbind                           // unbind To.Route from Run for ID, then send UnbindDone
	EffectTidy                             // remove what was made for the ended run elsewhere
	EffectRestore                          // take the run's archive into use, then send RestoreDone
	EffectDrop                             // remove the files of Deposit, then send DropDone
)

var effectNames = [...]string{
	"none", "ask_slot", "free_slot", "start_turn", "cancel_turn", "deliver", "archive", "recall",
	"answer", "unbind", "tidy", "restore", "drop",
}

func (k EffectKind) String() string { return enum.String(effectNames[:], "EffectKind", k) }

// An Effect is something that the owner does once the facts that it follows from are durable.
type Effect struct {
	Kind EffectKind
	Run  *Run   // nil for EffectDeliver, EffectRecall and EffectAnswer
	Ord  uint32 // of a turn or of an entry of the outbox, see EffectKind
	To   *Destination
	ID   string // of a wish, or the reason of EffectUnbind
	Err  error

	Deposit *DroppedDeposit // of EffectDrop
}

// A DroppedDeposit is a deposit whose files are removed. Own says that this owner has begun it, so
// that no more of them is put. A former owner still may, until it learns that it is one.
type DroppedDeposit struct {
	Deposit
	Own bool
}
