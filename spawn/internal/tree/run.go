package tree

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Spec is what a run was admitted with. It never changes, except that of the top-level session.
// The SessionID of a run is its ID, so that its key tells where its transcript is. Earlier versions
// gave it one of its own.
type Spec struct {
	ID        string      `json:"id"`
	SessionID string      `json:"sessionId"`
	Key       session.Key `json:"key"`
	Parent    session.Key `json:"parent"`
	Task      Text        `json:"task"`
	Created   int64       `json:"created"`           // Unix nanoseconds
	ByModel   bool        `json:"byModel,omitempty"` // it counts against the limit of its request
	Announce  bool        `json:"announce,omitempty"`
	// Milestones says that the requester finds the milestones of the run in its inbox.
	Milestones bool `json:"milestones,omitempty"`
	// Thread says that a conversation was bound to the session at the spawn. With Session it stays
	// bound when a run has ended: what is said there begins another run.
	Thread    bool `json:"thread,omitempty"`
	Session   bool `json:"session,omitempty"`
	Delete    bool `json:"delete,omitempty"` // archived as soon as its end has arrived
	Step      bool `json:"step,omitempty"`   // its end is announced in a turn of its own
	Update    bool `json:"update,omitempty"` // its end is said to people, at its Route
	*SpecMore      // nil: it has nothing of that; Spec has methods that read it
	*Grant
}

// SpecMore is what most specifications that a program makes have nothing of, nor has that of a
// top-level session. It never changes: runs that differ in it do not share it.
type SpecMore struct {
	SpawnKey string         `json:"spawnKey,omitempty"`
	Digest   string         `json:"digest,omitempty"`  // of the request, if it has a SpawnKey
	Request  string         `json:"request,omitempty"` // see requestOf; empty: the run is its own
	Label    string         `json:"label,omitempty"`
	Name     string         `json:"name,omitempty"`  // for the requester, see Run.Name
	Extra    []byte         `json:"extra,omitempty"` // the caller's own, kept and not read
	Route    *session.Route `json:"route,omitempty"` // of what the requester answered, or asked for
	// Senders are the people for whom the first run works from its beginning on.
	Senders []policy.Sender `json:"senders,omitempty"`
}

var noSpecMore SpecMore // nothing writes to it: the methods of Spec return copies

func (s *Spec) more() *SpecMore {
	if s.SpecMore == nil {
		return &noSpecMore
	}
	return s.SpecMore
}

// The following methods return what SpecMore has, or zero values.

func (s *Spec) SpawnKey() string         { return s.more().SpawnKey }
func (s *Spec) Digest() string           { return s.more().Digest }
func (s *Spec) Request() string          { return s.more().Request }
func (s *Spec) Label() string            { return s.more().Label }
func (s *Spec) Name() string             { return s.more().Name }
func (s *Spec) Extra() []byte            { return s.more().Extra }
func (s *Spec) Route() *session.Route    { return s.more().Route }
func (s *Spec) Senders() []policy.Sender { return s.more().Senders }

// with returns a copy of s that has more.
func (s *Spec) with(more SpecMore) *Spec {
	if more.isZero() {
		own := *s
		own.SpecMore = nil
		return &own
	}
	own := &struct { // one allocation
		Spec
		more SpecMore
	}{*s, more}
	own.SpecMore = &own.more
	return &own.Spec
}

func (m *SpecMore) isZero() bool {
	return m.SpawnKey == "" && m.Digest == "" && m.Request == "" && m.Label == "" &&
		m.Name == "" && len(m.Extra) == 0 && m.Route == nil && len(m.Senders) == 0
}

// A Grant is what policy gave a run. It never changes; runs that got the same share one.
type Grant struct {
	Agent     string       `json:"agent"`
	Role      session.Role `json:"role"`
	Depth     int          `json:"depth"`
	MaxDepth  int          `json:"maxDepth,omitempty"`
	Sandboxed bool         `json:"sandboxed,omitempty"`
	Tools     []string     `json:"tools,omitempty"`
	Delegable []string     `json:"delegable,omitempty"` // the tools that it may hand down
	Asked     string       `json:"asked,omitempty"`     // the model that was requested
	Model     string       `json:"model,omitempty"`
	Thinking  string       `json:"thinking,omitempty"`
	Warnings  []string     `json:"warnings,omitempty"`
	Timeout   int64        `json:"timeout,omitempty"` // nanoseconds, 0: none
	Budget    Budget       `json:"budget,omitzero"`
}

// Authority returns what policy applies the present rules to.
func (g *Grant) Authority() policy.Authority {
	return policy.Authority{
		Agent: g.Agent, Role: g.Role, Depth: g.Depth, Sandboxed: g.Sandboxed, Model: g.Model,
		Tools: g.Tools, Delegable: g.Delegable,
	}
}

func (g *Grant) equal(h *Grant) bool {
	return g.Agent == h.Agent && g.Role == h.Role &&
		g.Depth == h.Depth && g.MaxDepth == h.MaxDepth &&
		g.Sandboxed == h.Sandboxed && g.Asked == h.Asked && g.Model == h.Model &&
		g.Thinking == h.Thinking &&
		g.Timeout == h.Timeout && g.Budget == h.Budget && slices.Equal(g.Tools, h.Tools) &&
		slices.Equal(g.Delegable, h.Delegable) && slices.Equal(g.Warnings, h.Warnings)
}

// sharedGrant returns a pointer to g, or the grant of the youngest child of r if that is equal. So
// the children of one fan-out share one grant.
func (r *Run) sharedGrant(g Grant) *Grant {
	if c := r.lastChild(); c != nil && c.Spec.Grant.equal(&g) {
		return c.Spec.Grant
	}
	own := new(Grant) // &g would move g to the heap even when it is shared
	*own = g
	return own
}

// Usage is what was consumed: tokens, and US dollars. Journals written before caches were counted
// have no cacheRead and cacheWrite.
type Usage struct {
	Input      int64   `json:"input,omitempty"`
	Output     int64   `json:"output,omitempty"`
	CacheRead  int64   `json:"cacheRead,omitempty"`
	CacheWrite int64   `json:"cacheWrite,omitempty"`
	Cost       float64 `json:"cost,omitempty"`
}

func (u Usage) add(v Usage) Usage {
	return Usage{
		sat.Add(u.Input, v.Input), sat.Add(u.Output, v.Output),
		sat.Add(u.CacheRead, v.CacheRead), sat.Add(u.CacheWrite, v.CacheWrite),
		sat.AddFloat(u.Cost, v.Cost),
	}
}

// A File is an artifact, by reference.
type File struct {
	Name      Text `json:"name"`
	Path      Text `json:"path,omitempty"`
	MediaType Text `json:"mediaType,omitempty"`
}

// A Result is what a turn returned. What is too long is in the files of the session's transcript:
// then Whole names all of the text, and Text is its beginning; WholeJSON names the JSON, and JSON
// is empty.
type Result struct {
	Text     Text   `json:"text,omitempty"`
	JSON     Text   `json:"json,omitempty"` // kept byte for byte, unlike a json.RawMessage
	Files    []File `json:"files,omitempty"`
	Model    Text   `json:"model,omitempty"`
	Usage    Usage  `json:"usage,omitzero"`
	Fallback Text   `json:"fallback,omitempty"` // what to announce if Text is blank
	Reply    Text   `json:"reply,omitempty"`    // what a top-level session says to people
	ReplyTo  Text   `json:"replyTo,omitempty"`  // the message that the Reply answers
	Voice    bool   `json:"voice,omitempty"`    // the Reply is to be spoken
	// nil: it has nothing of that. Result has methods that read it.
	*ResultMore
}

// ResultMore is what few results have. Its members are the last ones of a Result as JSON, as they
// always were.
type ResultMore struct {
	Refused Text `json:"refused,omitempty"` // why it is not a result of the run; see repair.go
	// ByModel adds up to Usage. Empty: all of that is of Model, or of what policy resolved.
	ByModel   []ModelUsage `json:"byModel,omitempty"`
	Whole     session.File `json:"whole,omitzero"`
	WholeJSON session.File `json:"wholeJSON,omitzero"`
}

var noResultMore ResultMore // nothing writes to it: the methods of Result return copies

func (a *Result) more() *ResultMore {
	if a.ResultMore == nil {
		return &noResultMore
	}
	return a.ResultMore
}

// The following methods return what ResultMore has, or zero values.

func (a *Result) Refused() Text           { return a.more().Refused }
func (a *Result) ByModel() []ModelUsage   { return a.more().ByModel }
func (a *Result) Whole() session.File     { return a.more().Whole }
func (a *Result) WholeJSON() session.File { return a.more().WholeJSON }

// usageAlone returns a Result that has what a has used, and nothing else of it.
func (a *Result) usageAlone() *Result {
	own := &Result{Model: a.Model, Usage: a.Usage}
	if models := a.ByModel(); models != nil {
		own.Own().ByModel = models
	}
	return own
}

// Own returns what the Result alone has of ResultMore, while it is being made.
func (a *Result) Own() *ResultMore {
	if a.ResultMore == nil {
		a.ResultMore = new(ResultMore)
	}
	return a.ResultMore
}

// An Input is something that a session was told and that a turn will consume.
type Input struct {
	Ord   uint32         `json:"ord"`
	Class Class          `json:"class"`
	At    int64          `json:"at"`
	ID    string         `json:"id,omitempty"`
	Text  Text           `json:"text,omitempty"`
	From  session.Key    `json:"from,omitzero"` // the child, or the session that steers
	Route *session.Route `json:"route,omitempty"`
	Mail  *Mail          `json:"mail,omitempty"` // what a message has beside its text; may be nil
	// Percent is of the work that a child has done at a milestone; 0: not known.
	Percent uint8 `json:"percent,omitempty"`
	// RunID is the run of From that a completion or a milestone is of; empty: the first one.
	RunID string `json:"runId,omitempty"`
	// Thread says that a message came from a conversation that was bound, and is answered there.
	Thread bool `json:"thread,omitempty"`
	Repair bool `json:"repair,omitempty"` // of class Control: the answer before was refused
	// Senders are the people who say it, or for whom the session that says it works.
	Senders []policy.Sender `json:"senders,omitempty"`
}

// An OpenTurn is the turn that is under way. It consumes the inputs First to Through.
type OpenTurn struct {
	N       uint32 `json:"n"`
	Through uint32 `json:"through"` // ordinal of the last input that it consumes
	First   uint32 `json:"first"`   // ordinal of the first one; a repeated turn has the same
	Reserve Budget `json:"reserve,omitzero"`
	Started int64  `json:"started"`
	// Shutdown says that the owner has begun to shut down: if the turn does not come back, that is
	// not a crash.
	Shutdown bool `json:"shutdown,omitempty"`
	// Compact says that it compacts the conversation and consumes nothing.
	Compact bool `json:"compact,omitempty"`
	// Step says that it is the announce step of a run, whose time is over at Until.
	Step  bool  `json:"step,omitempty"`
	Until int64 `json:"until,omitempty"`
	// Shares has the requests that the turn of a top-level session was at before the one that it is
	// at, oldest first.
	Shares []Share `json:"shares,omitempty"`
	// Wait is the wait that the turn has ended, if that has an At.
	Wait *Join `json:"wait,omitempty"`
	// Empty says that it began without an input, to end a wait.
	Empty bool `json:"empty,omitempty"`

	// startedIn is the batch in which it started, as Tree.batches counts them. It is not kept: a
	// new owner ends the turn.
	startedIn uint64
}

// RunState is the folded state of one session: of a run, or of the top-level session. It is the
// form that images and archives have; a tree keeps each session as a Run. Everything in it survives
// a snapshot; the other fields of Run are derived or volatile. Times are Unix nanoseconds, and 0 if
// the event has not happened. The task of a run is its input 1 and is not in the Inbox but in the
// Spec. Quiet is set on a run that was stopped because its requester ends. A turn that has not
// returned by Grace is cut. Siblings is how many other children of the requester were alive when
// the run ended.
type RunState struct {
	Spec          *Spec `json:"spec"`
	State         State `json:"state"`
	Cause         Cause `json:"cause,omitempty"`
	Reason        Text  `json:"reason,omitempty"`
	Silent        bool  `json:"silent,omitempty"` // the last answer asked for silence
	TurnCancelled bool  `json:"halted,omitempty"` // the turn under way was cancelled
	Quiet         bool  `json:"quiet,omitempty"`  // its requester is not told
	Retry         bool  `json:"retry,omitempty"`  // a turn is owed: one crashed, or was untouched
	// Crashes has what each turn consumed that crashed since one came to its end, oldest first.
	Crashes     []uint32       `json:"crashes,omitempty"`
	Open        *OpenTurn      `json:"open,omitempty"`    // nil: no turn is under way
	Turns       uint32         `json:"turns,omitempty"`   // turns started so far
	NextOrd     uint32         `json:"nextOrd,omitempty"` // ordinal of the last input
	Consumed    uint32         `json:"consumed,omitempty"`
	Aside       uint32         `json:"aside,omitempty"` // inputs up to it start no turn; 0: all do
	Inbox       []Input        `json:"inbox,omitempty"` // not consumed, in order
	Join        *Join          `json:"join,omitempty"`
	Missed      uint32         `json:"missed,omitempty"` // steers that no turn has read, at its end
	Waits       uint32         `json:"waits,omitempty"`  // in a row, see Tree.ModelWait
	Answer      *Result        `json:"answer,omitempty"` // of the last turn that had one
	Usage       Usage          `json:"usage,omitzero"`   // of all turns
	Charged     Budget         `json:"charged,omitzero"` // of this run and everything below it
	Route       *session.Route `json:"route,omitempty"`  // where answers to its inputs go
	Pos         uint64         `json:"pos,omitempty"`    // committed end of the transcript
	Started     int64          `json:"started,omitempty"`
	Deadline    int64          `json:"deadline,omitempty"`
	Grace       int64          `json:"grace,omitempty"` // when the turn is cut
	Ended       int64          `json:"ended,omitempty"`
	ArchiveFrom int64          `json:"archiveFrom,omitempty"` // see setBack; 0: from Ended
	Nonce       uint64         `json:"nonce,omitempty"`
	Siblings    uint32         `json:"siblings,omitempty"` // alive when it ended
	Spawned     uint32         `json:"spawned,omitempty"`  // children so far
	Request     string         `json:"request,omitempty"`  // of the top-level session, see requestOf
	Steers      []Steered      `json:"steers,omitempty"`   // see recordSteer
	Skills      *SkillSet      `json:"skills,omitempty"`   // nil: it has not taken any
	Ledger      *Ledger        `json:"ledger,omitempty"`   // nil: nothing was used
	Active      int64          `json:"active,omitempty"`   // see LastActive; 0: not known
	Asked       []Asked        `json:"askedBy,omitempty"`  // see keepAsked
	Said        []Saying       `json:"said,omitempty"`     // since inputs were last consumed
	// WasAsked is what an earlier library kept in the place of Asked. It is read, and not written.
	WasAsked *Asked `json:"asked,omitempty"`
	// Home is the Route of a top-level session before that of a bound conversation, or of another
	// place where the end of a sub-agent is told, which is the Route now: zero if there was none.
	// Nil: the Route is the session's own.
	Home *session.Route `json:"home,omitempty"`
	// Former has the conversations before resets that are still to be archived, oldest first.
	Former []Former `json:"former,omitempty"`
	// Deposits has the sessions for which files are put before they are admitted, oldest first.
	Deposits []Deposit `json:"deposits,omitempty"`
	// Milestones counts those of the run, or of the last turn of the top-level session.
	Milestones uint32 `json:"milestones,omitempty"`
	Kept       Text   `json:"kept,omitempty"` // for the Runner, see Keep
	// Begin is what the present run began with; nil: it is the first one, see Spec.
	Begin *Begin `json:"begin,omitempty"`
	// Past has runs that ended before, oldest first: the first one, the last one, and those that
	// something still names.
	Past []Past `json:"past,omitempty"`
	// Bound has the conversations that are bound to the session.
	Bound []Conversation `json:"bound,omitempty"`
	// Archiving is when it was decided to archive the session, which takes nothing from then on; 0:
	// it was not.
	Archiving int64 `json:"archiving,omitempty"`
	Announce  bool  `json:"announce,omitempty"` // the requester is told of the end of this run
	Discard   bool  `json:"discard,omitempty"`  // it is archived as soon as that may be
	Repairs   uint8 `json:"repairs,omitempty"`  // how often the run was told to answer again
	Unnamed   bool  `json:"unnamed,omitempty"`  // a younger session has been given its name
	// Announced is what the announce step came to; nil: there was none since the last turn.
	Announced *Announcement `json:"announced,omitempty"`
	// Senders are the people for whom the session has worked up to its present run, or for whom
	// the last turn of the top-level session did; see readSenders.
	Senders []policy.Sender `json:"senders,omitempty"`
}

// Steered records when a session last steered another.
type Steered struct {
	From session.Key `json:"from"`
	At   int64       `json:"at"`
}

// lastSteer returns when from last steered r, in Unix nanoseconds, or 0 if no steer is kept.
func (r *Run) lastSteer(from session.Key) int64 {
	for _, s := range r.Steers {
		if s.From == from {
			return s.At
		}
	}
	return 0
}

// recordSteer records a steer and drops those that are too old to delay another one. It makes a new
// slice, because an image may share the old one.
func (r *Run) recordSteer(from session.Key, at int64) {
	list := make([]Steered, 0, len(r.Steers)+1)
	for _, s := range r.Steers {
		if s.From != from && s.At+int64(SteerPause) > at {
			list = append(list, s)
		}
	}
	r.ownRare().Steers = append(list, Steered{from, at})
}

// A Run is one session of the tree, the top-level session included. It has what RunState has, which
// only Apply changes, in a form that takes less memory: there may be a great many runs that wait or
// have ended. The members of spent, rare and talk are read like those of the Run. They are changed
// by way of ownSpent, ownRare and ownTalk alone.
type Run struct {
	Spec *Spec
	Open *OpenTurn // nil: no turn is under way

	key session.Key // see Key

	Parent *Run // nil for the top-level session
	// prevSibling of the oldest child is the youngest one.
	firstChild, prevSibling, nextSibling *Run

	Inbox []Input

	Join    *Join
	Answer  *Result
	Route   *session.Route
	Skills  *SkillSet
	Charged Budget

	// Never nil, see ownRare.
	*spent
	*rare
	*talk

	rights *policy.Authority // see Tree.Authority; nil: not asked for yet

	Pos      uint64
	Nonce    uint64
	Started  int64
	Deadline int64
	Ended    int64
	Active   int64
	armedAt  int64 // the earliest timer that the heap has for the run; 0: none

	Turns, NextOrd, Consumed, Aside uint32
	Waits, Siblings, Spawned        uint32

	live     int32 // children that are not terminal
	stopping int32 // of those, the ones that have been told to end
	nUser    int32 // unread messages and events, and the task
	nComp    int32 // unread completions
	nControl int32 // unread steers and repairs
	nRepair  int32 // of those, repairs
	held     int32 // how many inputs and completions in the outbox name the present run
	hooks    int32 // how many entries for a hook do

	State         State
	Cause         Cause
	Repairs       uint8
	Silent        bool
	TurnCancelled bool
	Quiet         bool
	Retry         bool
	Announce      bool
	Discard       bool
	Unnamed       bool

	ownSenders bool // talk has the people for whom it works, and not the Spec

	keptRequest bool // the request that it begins is counted, see Tree.keepBegun

	// didWork says that the turn under way has done something that another turn would do again. It
	// is of use while the turn is under way, and so is not kept: a new owner ends the turn.
	didWork bool

	// What follows is volatile: what the present owner has already asked for.

	touched bool // in Tree.touched
	asked   bool // the lane was asked for a slot
	// askedForPeople says, beside asked, that the turn answers a person.
	askedForPeople bool
	slot           bool // the run holds a slot
	cancelled      bool // the turn under way was cancelled
	cascaded       bool // the children were stopped
	archiving      bool // the Executor is archiving the run, or restoring it
	restoring      bool // the Executor takes its archive into use again
	takenBack      bool // it is archived again as soon as that has been done
	unbinding      bool // the Executor is unbinding one of its conversations
	gone           bool // the run has left the tree
	tidied         bool // its Executor was told since its last turn, see mayTidy
	// hastened says that the children of the run were looked at since it has ended and was last
	// held or bound, see settleEnded.
	hastened bool
}

// spent is what a run has that has reported usage.
type spent struct {
	Usage  Usage
	Ledger *Ledger
	room   Ledger // what Ledger points to
}

// rare is what few runs have.
type rare struct {
	Reason      Text
	Crashes     []uint32
	Missed      uint32
	Milestones  uint32
	ArchiveFrom int64
	Archiving   int64
	Grace       int64
	Steers      []Steered
	Kept        Text
	Begin       *Begin
	Past        []Past
	Bound       []Conversation
	Announced   *Announcement
	Deposits    []Deposit

	// woke is the wait that the last turn ended. A turn that repeats it after a crash has the same,
	// except where the tree was read from an image in between: nil then.
	woke *Join

	bound *boundIndex // of Bound; nil: there are few, or it was not asked for yet
}

// talk is what a session has that talks to people or begins requests, which sub-agents seldom do.
type talk struct {
	Request string
	Asked   []Asked
	Said    []Saying
	Home    *session.Route
	Former  []Former
	senders []policy.Sender // see Run.Senders
	wishes  *wishes         // nil: there are none
}

// What runs share that have nothing of it. Nothing writes to them: TestSharedPartsAreNotWritten.
var (
	noSpent spent
	noRare  rare
	noTalk  talk
)

// ownSpent returns what r alone has of spent, for a change.
func (r *Run) ownSpent() *spent {
	if r.spent == &noSpent {
		r.spent = new(spent)
	}
	return r.spent
}

// ownRare returns what r alone has of rare, for a change.
func (r *Run) ownRare() *rare {
	if r.rare == &noRare {
		r.rare = new(rare)
	}
	return r.rare
}

// ownTalk returns what r alone has of talk, for a change.
func (r *Run) ownTalk() *talk {
	if r.talk == &noTalk {
		r.talk = new(talk)
	}
	return r.talk
}

// The following functions set members of rare and talk that are cleared far more often than they
// are set. To clear what is not there takes no memory.

func (r *Run) setReason(why Text) {
	if why != r.Reason {
		r.ownRare().Reason = why
	}
}

func (r *Run) setCrashes(list []uint32) {
	if list != nil || r.Crashes != nil {
		r.ownRare().Crashes = list
	}
}

func (r *Run) setMilestones(n uint32) {
	if n != r.Milestones {
		r.ownRare().Milestones = n
	}
}

func (r *Run) setGrace(until int64) {
	if until != r.Grace {
		r.ownRare().Grace = until
	}
}

func (r *Run) setKept(s Text) {
	if s != r.Kept {
		r.ownRare().Kept = s
	}
}

func (r *Run) setAnnounced(a *Announcement) {
	if a != r.Announced {
		r.ownRare().Announced = a
	}
}

func (r *Run) setWoke(j *Join) {
	if j != r.woke {
		r.ownRare().woke = j
	}
}

func (r *Run) setAsked(list []Asked) {
	if list != nil || r.Asked != nil {
		r.ownTalk().Asked = list
	}
}

func (r *Run) setSaid(list []Saying) {
	if list != nil || r.Said != nil {
		r.ownTalk().Said = list
	}
}

// Senders returns the people for whom the session works, see RunState. Most runs work for those for
// whom they were spawned.
func (r *Run) Senders() []policy.Sender {
	if r.ownSenders {
		return r.senders
	}
	return r.Spec.Senders()
}

func (r *Run) setSenders(list []policy.Sender) {
	if r.ownSenders = !slices.Equal(list, r.Spec.Senders()); !r.ownSenders {
		list = nil
	}
	if list != nil || r.senders != nil {
		r.ownTalk().senders = list
	}
}

func (r *Run) setHome(at *session.Route) {
	if at != r.Home {
		r.ownTalk().Home = at
	}
}

// NewRun returns a run in the state s, of which it has the key for good. It keeps what s has.
func NewRun(s RunState) *Run {
	r := &Run{key: s.Spec.Key}
	r.setState(&s)
	return r
}

// Key returns the session key. Any goroutine may ask for it, as for IsRoot, at any time: a reset
// replaces the specification of a run while turns that have ended, the lane and callers that wait
// still name it.
func (r *Run) Key() session.Key { return r.key }

// IsRoot reports whether r is the top-level session of the tree.
func (r *Run) IsRoot() bool { return r.Parent == nil }

// Live returns how many children are not terminal.
func (r *Run) Live() int { return int(r.live) }

// Working returns the number of children that have not ended, and that nothing has told to.
func (r *Run) Working() int { return int(r.live - r.stopping) }

// ForPeople reports whether the next turn of the session answers a person.
func (r *Run) ForPeople() bool { return r.nUser > 0 }

// Slot reports whether the run holds a slot of the lane.
func (r *Run) Slot() bool { return r.slot }

// Children calls f for each child that is in the tree, oldest first, until f returns false. f may
// remove the child.
func (r *Run) Children(f func(*Run) bool) {
	for c := r.firstChild; c != nil; {
		following := c.nextSibling
		if !f(c) {
			return
		}
		c = following
	}
}

// Newest calls f for each child that is in the tree, newest first, until f returns false.
func (r *Run) Newest(f func(*Run) bool) {
	for c := r.lastChild(); c != nil && f(c); {
		c = c.older()
	}
}

// Below reports whether r is a or a descendant of a.
func (r *Run) Below(a *Run) bool {
	for x := r; x != nil; x = x.Parent {
		if x == a {
			return true
		}
	}
	return false
}

// Descend calls f for everything below r, parents first and siblings oldest first.
func (r *Run) Descend(f func(*Run)) {
	r.Children(func(c *Run) bool {
		c.walk(false, f)
		return true
	})
}

func (r *Run) addChild(c *Run) {
	c.Parent = r
	if first := r.firstChild; first != nil {
		last := first.prevSibling
		last.nextSibling, c.prevSibling, first.prevSibling = c, last, c
	} else {
		r.firstChild, c.prevSibling = c, c
	}
}

func (r *Run) removeChild(c *Run) {
	first := r.firstChild
	if c.nextSibling != nil {
		c.nextSibling.prevSibling = c.prevSibling
	} else {
		first.prevSibling = c.prevSibling
	}
	if c == first {
		r.firstChild = c.nextSibling
	} else {
		c.prevSibling.nextSibling = c.nextSibling
	}
	c.prevSibling, c.nextSibling = nil, nil
}

// lastChild returns the youngest child in the tree, or nil.
func (r *Run) lastChild() *Run {
	if r.firstChild == nil {
		return nil
	}
	return r.firstChild.prevSibling
}

// older returns the next older child of the same requester, or nil.
func (r *Run) older() *Run {
	if r.Parent == nil || r == r.Parent.firstChild {
		return nil
	}
	return r.prevSibling
}

// walk calls f for r and everything below it: children before their parents with deepest, else
// after them.
func (r *Run) walk(deepest bool, f func(*Run)) {
	if !deepest {
		f(r)
	}
	for c := r.firstChild; c != nil; {
		following := c.nextSibling
		c.walk(deepest, f)
		c = following
	}
	if deepest {
		f(r)
	}
}

// taskUnread reports whether the task, which is input 1 of a run, has not been consumed.
func (r *Run) taskUnread() bool { return r.Parent != nil && r.Consumed == 0 }

// Unread calls f for the inputs after one ordinal and up to another, ordered as presented has their
// classes, and then by ordinal. The task of a run is its input 1.
func (r *Run) Unread(after, through uint32, f func(Input)) {
	for _, class := range presented {
		if class == Task && r.Parent != nil && after == 0 && through >= 1 {
			s := r.Spec
			f(Input{Ord: 1, Class: Task, At: s.Created, ID: s.ID, Text: s.Task, From: s.Parent})
		}
		for i := range r.Inbox {
			if in := &r.Inbox[i]; in.Class == class && in.Ord > after && in.Ord <= through {
				f(*in)
			}
		}
	}
}

// firstOrd returns the ordinal of the input with which the present run began.
func (r *Run) firstOrd() uint32 {
	if r.Begin != nil {
		return r.Begin.Ord
	}
	return 1
}

// RouteOf returns where the requester of a run of r was answering when it asked for it, or nil.
func (r *Run) RouteOf(runID string) *session.Route {
	if of, ok := r.RunOf(runID); ok && of.Begin != nil {
		return of.Begin.Route
	}
	return r.Spec.Route()
}

// hasCompletion reports whether the inbox holds a completion that no turn has read.
func (r *Run) hasCompletion() bool {
	return slices.ContainsFunc(r.Inbox, func(in Input) bool {
		return in.Class == Completion && in.Ord > r.Consumed
	})
}

// recount derives the counts of unread inputs from the folded state.
func (r *Run) recount() {
	r.nUser, r.nComp, r.nControl, r.nRepair = 0, 0, 0, 0
	if r.taskUnread() && r.Aside == 0 {
		r.nUser++
	}
	through := max(r.Consumed, r.Aside)
	for i := range r.Inbox {
		if in := &r.Inbox[i]; in.Ord > through {
			r.count(in, 1)
		}
	}
}

// count adds an input to the counts of unread inputs, or takes it off with -1.
func (r *Run) count(in *Input, by int32) {
	switch in.Class {
	case User, Task, Event:
		r.nUser += by
	case Completion:
		r.nComp += by
	case Control:
		r.nControl += by
		if in.Repair {
			r.nRepair += by
		}
	default: // a milestone starts no turn
	}
}
