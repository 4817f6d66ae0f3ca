package tree

import (
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Kind says what a Fact records. The journal's word for TurnCancelled stays "halted", as in the
// journals of earlier versions. The journal holds the name of the kind, which never changes and
// is never used for something else.
type Kind uint8

const (
	Opened        Kind = iota + 1 // an owner took the tree over, which fences off the one before
	Admitted                      // a run was admitted and exists
	Posted                        // a session was told something
	TurnStarted                   // turn N of a session begins and consumes the inputs up to Ord
	Taken                         // the turn under way consumes the inputs up to Ord, too
	TurnEnded                     // the turn under way has returned, or was cut
	TurnCancelled                 // the turn is cancelled; the journal's word stays "halted"
	StopRequested                 // a run has a cause to end
	RunEnded                      // a run has ended; this is also the completion for its requester
	Recovered                     // a stopped top-level session is usable again
	Delivered                     // an entry of the outbox has arrived
	Deferred                      // an entry of the outbox is due again later
	Blocked                       // an entry of the outbox waits for a retry or a dismissal
	Revived                       // a blocked entry is due again
	Dismissed                     // a person has given a blocked entry up
	Redirected                    // a completion or an event moves to the inbox
	Archived                      // a run has left the tree
	Late                          // the answer of a turn that was cut before
	Reserved                      // the turn under way may use more of the budget
	Snapshot                      // the whole state; the facts before it may be removed

	// The kinds from here on are of version 2.

	ClockSetBack // the clock is behind the last fact; what waits for a time waits anew
	ShuttingDown // the owner ends in good order while a turn is under way
	Unsent       // the owner ends in good order and has not tried an entry of the outbox
	Repaired     // the journal was repaired before the owner took the tree over
	SkillsTaken  // a session has taken the skills that it keeps
	SetAside     // what a top-level session has not read no longer starts a turn
	Said         // the turn under way tells people something
	RouteSet     // a top-level session got the route that its answers go to
	Reset        // a top-level session goes on in a new conversation
	PutAway      // the conversation before a reset has been archived
	Reported     // the turn under way has reached a milestone
	Restarted    // a session whose run has ended begins another one, over an input
	Bound        // a conversation is bound to a session
	Unbound      // a conversation is no longer bound to a session
	ArchiveBegun // a session is archived from now on, and takes nothing more
	Unarchived   // a session that was archived is in use again
	Discarded    // a session is to be archived as soon as it may be
	AnnounceSet  // the requester of a run is to be told of its end
	Kept         // what a session keeps for its Runner
	ReviveBegun  // an archived session is in the tree, and takes nothing before it is Unarchived

	DepositBegun   // files are put for a session that is to be admitted
	DepositDropped // those files are removed, and the session was not admitted
	Heard          // the turn under way has read what another session says
	Sent           // a session writes to the top-level session of another tree
	kinds
)

var kindNames = [kinds]string{
	"none", "opened", "admitted", "posted", "turn_started", "taken", "turn_ended", "halted",
	"stop_requested", "run_ended", "recovered", "delivered", "deferred", "blocked", "revived",
	"dismissed", "redirected", "archived", "late", "reserved", "snapshot", "clock_set_back",
	"shutting_down", "unsent", "repaired", "skills_taken", "set_aside", "said", "route_set",
	"reset", "put_away", "reported", "restarted", "bound", "unbound", "archive_begun", "unarchived",
	"discarded", "announce_set", "kept", "revive_begun", "deposit_begun", "deposit_dropped",
	"heard", "sent",
}

func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return "unknown"
}

// Flags qualify a Fact. Each flag belongs to one kind. The journal holds the numbers, which never
// change.
type Flags uint16

// flagsOfVersion1 has every flag that a fact of version 1 may have.
const flagsOfVersion1 Flags = 0xff

const (
	// FlagQuiet, on StopRequested: the run is stopped because its requester ends, which is
	// therefore not told.
	FlagQuiet Flags = 1 << iota
	// FlagTell, on RunEnded and Reported: the requester is told.
	FlagTell
	// FlagOut, on RunEnded and Posted: the session is run by the caller and told through the
	// outbox.
	FlagOut
	// FlagSilent, on TurnEnded: the answer asks that nothing be announced.
	FlagSilent
	// FlagSkip, on TurnEnded with FlagSilent: an earlier answer is not announced either.
	FlagSkip
	// FlagCut, on TurnEnded: the turn has not returned in time and is no longer waited for.
	FlagCut
	// FlagReply, on TurnEnded, Said and RunEnded: the reply of the answer is delivered to people.
	FlagReply
	// FlagCrashed, on TurnEnded: the process that ran the turn is gone. The inputs of the turn are
	// not consumed.
	FlagCrashed
	// FlagGivenUp, on TurnEnded with FlagCrashed: the turn has crashed so often over the inputs up
	// to Ord that they are consumed. It is of version 2.
	FlagGivenUp
	// FlagCompact, on TurnStarted and TurnEnded: the turn compacts the conversation and does
	// nothing else. It is of version 2.
	FlagCompact
	// FlagAside, on TurnEnded with FlagCut: the conversation does not have the inputs of the turn
	// after Ord. They are not consumed and start no turn. It is of version 2.
	FlagAside
	// FlagThread, on Posted and Restarted: the message is of a conversation that is bound to the
	// session, and is answered there. It is of version 2.
	FlagThread
	// FlagUntouched, on TurnEnded: a shutdown has ended the turn before it did anything. Its inputs
	// are not consumed, and the next turn of the run reads them. It is of version 2.
	FlagUntouched
	// FlagRepair, on Posted: the run is to answer again, see [MaxRepairs]. It is of version 2.
	FlagRepair
	// FlagHook, on RunEnded: a hook is told of the end through the outbox. It is of version 2.
	FlagHook
	// FlagStep, on TurnStarted and TurnEnded: the turn is the announce step of a run, see
	// [Announcement]. It is of version 2.
	FlagStep
)

// A Fact is one thing that happened to a tree. It is one struct for all kinds, so that a batch of
// facts is one allocation and the codec one function. Every fact has its Kind and At, the time of
// the command that it follows from. The table lists the other fields of each kind, by the journal's
// word for the kind; Halted is the word for TurnCancelled. A field that the table does not list for
// a kind is zero.
//
//	Opened         Num: the epoch, one more than that of the owner before
//	               Text: the name of the writer
//	               ID: the session id of the top-level session, taken if that has none yet
//	Admitted       Run: the new run, which is Spec.Key
//	               Spec: what it is to do and may do; At is Spec.Created
//	Posted         Run: the session that is told
//	               Class: User, Control or Event
//	               Ord: the ordinal of the input, one more than the last one of the session
//	               ID: the id of the message, by which a repeat is recognised; may be empty
//	               Text: the message
//	               From: the session that steers; of User zero, or with FlagThread the
//	               conversation's own session, which knows the ID from then on, too
//	               Route: where the answer goes; of User only, may be nil
//	               Mail: what the message has beside its text; of User only, may be nil
//	               Senders: the people who say it, or for whom the session works that does; of
//	               User and Control only. Empty: as the Mail and the Route say of a message of
//	               a person, see personOf; else none
//	               Flags: FlagThread; FlagRepair, then the Text says why the answer was refused;
//	               FlagOut, then it is an event for the outbox, and its Ord is 0
//	TurnStarted    Run: the session
//	               N: the number of the turn, one more than the last one of the session
//	               Ord: the last input that the turn consumes
//	               Until: when the run is out of time; of its first turn only, 0 for never; with
//	               FlagStep, when the step is
//	               Budget: what the turn reserves
//	               Flags: FlagCompact or FlagStep; then Ord is the last input that was consumed
//	               before
//	               Route: the At of the wait that the turn ends, if that has one
//	Taken          Run: the session
//	               N: the turn under way
//	               Ord: the last input that the turn consumes now
//	TurnEnded      Run: the session
//	               N: the turn that was under way
//	               State: OK, Failed, Cancelled or Interrupted
//	               Answer: what the Runner returned; may be nil; a long text or JSON is in a file
//	               that it names, which was put before
//	               Flags: FlagSilent, FlagSkip, FlagCut, FlagReply, FlagCrashed, FlagGivenUp,
//	               FlagCompact, FlagAside, FlagUntouched, FlagStep
//	               Ord: the last input that is given up, with FlagGivenUp; or the last one that
//	               is consumed, with FlagAside; or how many messages the summary stands for, with
//	               FlagCompact; else 0
//	               Num: the position in the transcript, with FlagCut the one that the turn has
//	               reached; 0 leaves it where it is
//	               Join: what the session waits for now, with the keys, and where the turn answers
//	               that the wait begins; nil for nothing
//	               Route: where the reply goes; with FlagReply only, may be nil
//	               Text: why the turn failed, or said nothing; of the top-level session, and with
//	               FlagReply or FlagStep; folded into the reply of a turn that failed
//	               Elsewhere: messages wait for an answer elsewhere, and go on doing so; of the
//	               top-level session only. An earlier library had the turn answer them, too
//	Halted         Run: the session
//	               N: the turn under way
//	               Until: when the turn is cut if it has not returned
//	StopRequested  Run: the session that is to end
//	               Cause: why
//	               Text: why in words
//	               Until: when a turn under way is cut if it has not returned; else unused
//	               Flags: FlagQuiet
//	RunEnded       Run: the run
//	               State: the terminal state
//	               Num: the nonce of the completion
//	               Flags: FlagTell, FlagOut, FlagReply, FlagHook
//	               N: 1 if people are told of the end, at the Route of its Spec; else 0
//	               Answer: the Reply to messages of bound conversations that the run leaves
//	               without an answer; may be nil
//	               Route: where that goes; with an Answer only, and without an Ord
//	               Ord: how many conversations are told, each of its own messages, in the order in
//	               which they began to wait; 0: one. With an Answer only
//	Recovered      Run: the top-level session
//	Delivered      Ord: the entry of the outbox
//	Deferred       Ord: the entry of the outbox
//	               Until: when it is due again
//	               Text: the error of the attempt
//	               N: the sum of 1 if the receiver is busy, which is not a failure, and of 2 if it
//	               has asked for the pause; else 0
//	Blocked        Ord: the entry of the outbox
//	               Text: the error of the last attempt
//	               N: 1 if that was not tried, because an earlier call hangs; else 0
//	Revived        Ord: the entry of the outbox, which is due at once
//	Dismissed      Ord: the entry of the outbox
//	Redirected     Ord: the entry of the outbox
//	Archived       Run: the run
//	Late           Run: the session
//	               N: the turn, which is no longer under way
//	               Text: what it answered
//	Reserved       Run: the session
//	               N: the turn under way
//	               Budget: what is reserved in addition
//	Snapshot       Image: the whole state
//	ClockSetBack   Num: by how much at least, in nanoseconds; 0 if that is not known
//	               Until: when a cancelled turn is cut at the latest
//	ShuttingDown   Run: the session
//	               N: the turn under way
//	Unsent         Ord: the entry of the outbox, which no attempt can have delivered
//	Repaired       ID: of the mark of the repair
//	               Num: the epoch from here on
//	SkillsTaken    Run: the session
//	               N: the turn under way
//	               Skills: what it keeps of them
//	SetAside       Run: the top-level session, which has no turn under way
//	               Ord: of the last input that its next turn reads and that does not start one
//	Said           Run: the session
//	               N: the turn under way
//	               ID: the name that the Runner gave to what is said; empty: see Ord
//	               Ord: which one it is of those without a name, from 1 on; 0 with an ID
//	               Answer: the Reply, with ReplyTo and Voice
//	               Flags: FlagReply
//	               Route: where it goes; with FlagReply only, may be nil
//	               Elsewhere: as for TurnEnded
//	RouteSet       Run: the top-level session
//	               Route: its route from now on; nil for none
//	Reset          Run: the top-level session, which has no turn under way and no child alive
//	               ID: its session id from now on
//	               Text: its session id until now, whose transcript is to be archived
//	               Begin: the ID of the message that asked for it; nil: none that has one did
//	PutAway        Run: the top-level session
//	               ID: the session id before a reset, whose transcript is archived
//	Reported       Run: the session
//	               N: the turn under way
//	               Ord: which milestone of the run it is, from 1 on; of a top-level session, of
//	               the turn
//	               Text: what has been reached
//	               Num: how many percent are done; 0: not known
//	               Flags: FlagTell
//	Restarted      Run: the session, whose run has ended
//	               Begin: what the new run begins with; At is Begin.Created
//	               Class: User
//	               Ord: the ordinal of its first input, one more than the last one of the session
//	               ID: the id of that message; may be empty
//	               Text: the message
//	               Route: where the answer goes; may be nil
//	               Mail: what the message has beside its text; may be nil
//	               From: the session that sent the input; zero for a person and the program; with
//	               FlagThread as for Posted
//	               Senders: the people of the message, as for Posted, and those for whom the
//	               session has worked before; an earlier library recorded those of the message
//	               alone
//	               Flags: FlagThread, if Begin.Thread is set
//	Bound          Run: the session
//	               Route: the conversation that is bound to it
//	Unbound        Run: the session
//	               Route: the conversation
//	               Text: why, in one word
//	ArchiveBegun   Run: the run, which has ended
//	Unarchived     Run: the session, whose revival has begun. An earlier library did not record
//	               that it begins, and this fact had the Image of ReviveBegun
//	Discarded      Run: the session; the top-level one goes on in a new conversation
//	AnnounceSet    Run: the session
//	               ID: the run, which has not ended
//	Kept           Run: the session
//	               N: the turn under way
//	               Text: what the session keeps for its Runner from now on; empty for nothing
//	ReviveBegun    Run: the session, which is not in the tree; its requester is
//	               Image: the state of the session, as the only one, which is being archived
//	DepositBegun   Run: the session, which is not in the tree; Admitted ends the deposit, too
//	               From: its requester
//	DepositDropped Run: the session, which is not in the tree
//	Heard          Run: the session
//	               N: the turn under way
//	               Senders: the people for whom that other session has worked
//	Sent           Run: the session that writes
//	               N: the turn under way, of whose Runner it comes; 0: it comes of none
//	               From: the session that is written to, the top-level one of another tree
//	               ID: the id that the other session knows the message by
//	               Text: the message
//	               Senders: the people for whom the writer works; nil for none
type Fact struct {
	Kind  Kind
	State State
	Cause Cause
	Class Class
	Flags Flags
	// Elsewhere tells the places apart to which a top-level session speaks otherwise than in bound
	// conversations: a reply to one answers only what was said there.
	Elsewhere bool
	N         uint32
	Ord       uint32
	At        int64 // Unix nanoseconds
	Until     int64 // Unix nanoseconds
	Num       uint64
	Run       session.Key
	Text      Text
	Spec      *Spec
	Answer    *Result
	Route     *session.Route
	*FactMore // nil: it has nothing of that; Fact has methods that read it
}

// FactMore is what few facts have. The journal in memory keeps every fact, so that the six of a
// child take 0.7 KB less without it (BenchmarkDeliver in package spawn). Copies of a Fact share it,
// so it never changes once the fact is made.
type FactMore struct {
	ID      string
	From    session.Key
	Begin   *Begin
	Join    *Join
	Skills  *SkillSet
	Mail    *Mail
	Budget  Budget
	Image   *Image
	Senders []policy.Sender
}

// What facts share. Nothing writes to it: the methods of Fact return copies, and Own copies.
var (
	noFactMore FactMore
	oneTurn    = FactMore{Budget: Budget{Turns: 1}} // all that most turns reserve
)

func (f *Fact) more() *FactMore {
	if f.FactMore == nil {
		return &noFactMore
	}
	return f.FactMore
}

// The following methods return what FactMore has, or zero values.

func (f *Fact) ID() string               { return f.more().ID }
func (f *Fact) From() session.Key        { return f.more().From }
func (f *Fact) Begin() *Begin            { return f.more().Begin }
func (f *Fact) Join() *Join              { return f.more().Join }
func (f *Fact) Skills() *SkillSet        { return f.more().Skills }
func (f *Fact) Mail() *Mail              { return f.more().Mail }
func (f *Fact) Budget() Budget           { return f.more().Budget }
func (f *Fact) Image() *Image            { return f.more().Image }
func (f *Fact) Senders() []policy.Sender { return f.more().Senders }

// Own returns what the Fact alone has of FactMore, while it is being made.
func (f *Fact) Own() *FactMore {
	if f.FactMore == nil || f.FactMore == &oneTurn {
		own := *f.more()
		f.FactMore = &own
	}
	return f.FactMore
}

// setMail sets the Mail of a fact that is being made. Nil takes no memory, as with setSenders.
func (f *Fact) setMail(m *Mail) {
	if m != f.Mail() {
		f.Own().Mail = m
	}
}

func (f *Fact) setSenders(list []policy.Sender) {
	if len(list)+len(f.Senders()) > 0 {
		f.Own().Senders = list
	}
}

func (m *FactMore) isZero() bool {
	return m.ID == "" && m.From.IsZero() && m.Begin == nil && m.Join == nil && m.Skills == nil &&
		m.Mail == nil && m.Budget == (Budget{}) && m.Image == nil && m.Senders == nil
}

// bulkyImage is what a snapshot counts as, whose size is not known before it is encoded.
const bulkyImage = 1 << 20

// bytes returns how many bytes the texts of a, which may be nil, take.
func (a *Result) bytes() int {
	if a == nil {
		return 0
	}
	n := len(a.Text) + len(a.JSON) + len(a.Reply) + len(a.ReplyTo) + len(a.Fallback) +
		len(a.Refused())
	for i := range a.Files {
		n += len(a.Files[i].Name) + len(a.Files[i].Path) + len(a.Files[i].MediaType)
	}
	return n
}

// TextBytes returns how many bytes the texts of a fact take that may be long.
func (f *Fact) TextBytes() int {
	n := len(f.Text) + f.Skills().bytes() + f.Mail().bytes()
	if f.Spec != nil {
		n += len(f.Spec.Task) + len(f.Spec.Extra())
	}
	n += f.Answer.bytes()
	if f.Image() != nil {
		n += bulkyImage
	}
	return n
}

func opened(at int64, epoch uint64, writer, sessionID string) Fact {
	return Fact{
		Kind: Opened, At: at, Num: epoch, Text: Text(writer), FactMore: &FactMore{ID: sessionID},
	}
}

func admitted(s *Spec) Fact { return Fact{Kind: Admitted, At: s.Created, Run: s.Key, Spec: s} }

func posted(
	at int64, to *Run, class Class, id string, text Text, from session.Key,
) Fact {
	f := Fact{
		Kind: Posted, At: at, Run: to.Key(), Class: class, Ord: to.NextOrd + 1, Text: text,
	}
	if id != "" || !from.IsZero() {
		f.FactMore = &FactMore{ID: id, From: from}
	}
	return f
}

func turnStarted(at int64, r *Run, through uint32, deadline int64, reserve Budget) Fact {
	f := Fact{
		Kind: TurnStarted, At: at, Run: r.Key(), N: r.Turns + 1, Ord: through, Until: deadline,
	}
	if f.FactMore = &oneTurn; reserve != oneTurn.Budget {
		f.Own().Budget = reserve
	}
	return f
}

func taken(at int64, r *Run, through uint32) Fact {
	return Fact{Kind: Taken, At: at, Run: r.Key(), N: r.Turns, Ord: through}
}

func turnEnded(
	at int64, r *Run, s State, a *Result, flags Flags, pos uint64, join *Join,
) Fact {
	f := Fact{
		Kind: TurnEnded, At: at, Run: r.Key(), N: r.Open.N, State: s, Answer: a,
		Flags: flags, Num: pos,
	}
	if join != nil {
		f.FactMore = &FactMore{Join: join}
	}
	return f
}

func turnCancelled(at int64, r *Run, grace int64) Fact {
	return Fact{Kind: TurnCancelled, At: at, Run: r.Key(), N: r.Turns, Until: grace}
}

func stopRequested(
	at int64, r *Run, c Cause, reason string, grace int64, flags Flags,
) Fact {
	return Fact{
		Kind: StopRequested, At: at, Run: r.Key(), Cause: c, Text: Text(reason),
		Until: grace, Flags: flags,
	}
}

func runEnded(at int64, r *Run, s State, nonce uint64, flags Flags) Fact {
	return Fact{Kind: RunEnded, At: at, Run: r.Key(), State: s, Num: nonce, Flags: flags}
}

func recovered(at int64, r *Run) Fact { return Fact{Kind: Recovered, At: at, Run: r.Key()} }

func outboxFact(k Kind, at int64, ord uint32, due int64, text string) Fact {
	return Fact{Kind: k, At: at, Ord: ord, Until: due, Text: Text(text)}
}

func archived(at int64, r *Run) Fact { return Fact{Kind: Archived, At: at, Run: r.Key()} }

func late(at int64, r *Run, n uint32, text Text) Fact {
	return Fact{Kind: Late, At: at, Run: r.Key(), N: n, Text: text}
}

func reserved(at int64, r *Run, by Budget) Fact {
	return Fact{Kind: Reserved, At: at, Run: r.Key(), N: r.Turns, FactMore: &FactMore{Budget: by}}
}

func shuttingDown(at int64, r *Run) Fact {
	return Fact{Kind: ShuttingDown, At: at, Run: r.Key(), N: r.Open.N}
}

func clockSetBack(at, by, grace int64) Fact {
	return Fact{Kind: ClockSetBack, At: at, Num: uint64(by), Until: grace}
}

func repaired(at int64, id string, epoch uint64) Fact {
	return Fact{Kind: Repaired, At: at, Num: epoch, FactMore: &FactMore{ID: id}}
}

func skillsTaken(at int64, r *Run, s *SkillSet) Fact {
	return Fact{
		Kind: SkillsTaken, At: at, Run: r.Key(), N: r.Open.N, FactMore: &FactMore{Skills: s},
	}
}

func setAside(at int64, r *Run) Fact {
	return Fact{Kind: SetAside, At: at, Run: r.Key(), Ord: r.NextOrd}
}

func said(at int64, r *Run, c *Say) Fact {
	f := Fact{
		Kind: Said, At: at, Run: r.Key(), N: r.Open.N, Ord: c.Num, Answer: &c.Answer,
		Elsewhere: r.asksElsewhere(r.Inbox, r.Open.Through),
	}
	if c.ID != "" {
		f.FactMore = &FactMore{ID: c.ID}
	}
	return f
}

func routeSet(at int64, r *Run, route *session.Route) Fact {
	return Fact{Kind: RouteSet, At: at, Run: r.Key(), Route: route}
}

func reset(at int64, r *Run, sessionID, message string) Fact {
	f := Fact{
		Kind: Reset, At: at, Run: r.Key(), Text: Text(r.Spec.SessionID),
		FactMore: &FactMore{ID: sessionID},
	}
	if message != "" {
		f.Own().Begin = &Begin{ID: message}
	}
	return f
}

func putAway(at int64, r *Run, sessionID string) Fact {
	return Fact{Kind: PutAway, At: at, Run: r.Key(), FactMore: &FactMore{ID: sessionID}}
}

func bound(at int64, r *Run, route *session.Route) Fact {
	return Fact{Kind: Bound, At: at, Run: r.Key(), Route: route}
}

func unbound(at int64, r *Run, route *session.Route, reason Text) Fact {
	return Fact{Kind: Unbound, At: at, Run: r.Key(), Route: route, Text: reason}
}

func archiveBegun(at int64, r *Run) Fact { return Fact{Kind: ArchiveBegun, At: at, Run: r.Key()} }

func discarded(at int64, r *Run) Fact { return Fact{Kind: Discarded, At: at, Run: r.Key()} }

func reviveBegun(at int64, k session.Key, m *Image) Fact {
	return Fact{Kind: ReviveBegun, At: at, Run: k, FactMore: &FactMore{Image: m}}
}

func unarchived(at int64, r *Run) Fact { return Fact{Kind: Unarchived, At: at, Run: r.Key()} }

func restarted(at int64, r *Run, c *Post, b *Begin) Fact {
	f := posted(at, r, User, c.ID, c.Text, c.From)
	f.Kind, f.Own().Begin = Restarted, b
	f.setMail(c.Mail)
	return f
}

func reported(at int64, r *Run, c *Report) Fact {
	return Fact{
		Kind: Reported, At: at, Run: r.Key(), N: r.Open.N, Ord: r.Milestones + 1, Text: c.Text,
		Num: uint64(c.Percent),
	}
}

func announceSet(at int64, r *Run) Fact {
	return Fact{Kind: AnnounceSet, At: at, Run: r.Key(), FactMore: &FactMore{ID: r.RunID()}}
}

func kept(at int64, r *Run, value Text) Fact {
	return Fact{Kind: Kept, At: at, Run: r.Key(), N: r.Open.N, Text: value}
}

func heard(at int64, r *Run, of []policy.Sender) Fact {
	return Fact{Kind: Heard, At: at, Run: r.Key(), N: r.Open.N, FactMore: &FactMore{Senders: of}}
}

func sentOut(at int64, r *Run, n uint32, c *SendOut) Fact {
	return Fact{
		Kind: Sent, At: at, Run: r.Key(), N: n, Text: c.Text,
		FactMore: &FactMore{From: c.To, ID: c.ID, Senders: c.Senders},
	}
}

func depositBegun(at int64, of *Spec) Fact {
	return Fact{Kind: DepositBegun, At: at, Run: of.Key, FactMore: &FactMore{From: of.Parent}}
}

func depositDropped(at int64, k session.Key) Fact {
	return Fact{Kind: DepositDropped, At: at, Run: k}
}

func snapshot(at int64) Fact { return Fact{Kind: Snapshot, At: at} }
