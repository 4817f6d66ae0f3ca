package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"
)

// An Owners says which of several processes on one engine has a tree, brings that process what
// others ask of it, and gives out the slots that all processes share. A value of it belongs to one
// process. A [Store] whose Owners is nil belongs to one process alone, which has every tree.
//
// Owners is experimental. Package spawn says what a program in several processes can rely on, and
// package agent runs on such a Store. Beside trees they claim [ConversationRoot] and
// [FarewellsRoot], which have no log: such a claim is given up without a trace, but for what an
// engine keeps of it for a day.
//
// Owners is about liveness and about who is asked. Safety is that of [Journal.Append], which
// refuses a writer that another one has overtaken, whatever an Owners says. Beside that, the
// Journal of a Store may refuse, with ErrConflict, what a process appends to a tree that it has
// claimed and that another one has taken since, although the log ends where the writer believes.
//
//	process a: Serve ---- beat every third of a lease ---> engine: leases, claims,
//	           Claim(tree) ----------------------------->          requests, tickets
//	process b: Call(tree, request) --> engine --> Serve of a: Handle --> answer
//	           Orphans <-- engine, when a has left or its lease has lapsed
//
// The rules, which [github.com/offshoot-sdk/offshoot/session/sessiontest.TestOwners] tests one by
// one:
//
//  1. A process has one lease, by the clock of the engine. Serve begins it and renews it. A Claim
//     by a process that does not serve renews it, too, so that such a claim holds for one lease.
//  2. A claim holds as long as the lease of its process, whatever the clocks of the processes say.
//     At most one claim on a tree holds at a time.
//  3. A claim whose lease has lapsed is free to be taken. Until it is, it comes back with the
//     lease: the same Claim, as if nothing had been.
//  4. Each claim has an Epoch that is higher than those of all claims of that tree before. What
//     leaves a process can carry it, so that a receiver knows an owner that has been overtaken.
//  5. A process that joins under a name takes the place of the one that had it. The claims of that
//     one are free at once, and its Serve returns [ErrReplaced].
//  6. Call brings a request to the process that has the tree. An ID is handled once for as long as
//     that process lives: for [RequestMemory] a repeated one gets the answer of the first. A later
//     owner that gets it knows by Request.Attempt that it may have been handled.
//  7. Call returns [ErrNoOwner] only if the request has been handled by no process and will not be,
//     and [ErrUnanswered] if the process that took it is gone: what became of it is not known.
//  8. Orphans yields each tree that is due and on which no claim holds: at once, but for a spread
//     over [OrphanSpread] that differs by process and tree, and for the time of a look.
//  9. The tickets of a lane that have a slot are at most as many as the limit. A process whose
//     lease lapses loses its slots to others. When it comes back it is given them again at once,
//     because its turns are still there: only then the limit can be exceeded.
//  10. Of the tickets that wait, those of the lowest class come first, and within a class the
//     requesters take turns.
//
// All methods may be called concurrently. A method returns early with the error of ctx once ctx is
// done. After the Owners was closed, every method that returns an error returns [ErrClosed].
type Owners interface { //nolint:interfacebloat // one engine does all of it
	// Claim takes the tree of root for this process, and returns the claim that holds: a second
	// Claim returns the same one. It is an *[OwnedError] if a claim of another process holds, and
	// [ErrReplaced] if another process has the name of this one.
	Claim(ctx context.Context, root Key) (Claim, error)

	// Release gives a claim up. A claim that does not hold any more is left as it is, so that a
	// Release whose outcome is not known can be repeated.
	Release(ctx context.Context, c Claim) error

	// Call asks the process that has the tree of r.Root, which may be this one, and returns its
	// answer. It waits for that process, also while it does not serve, until ctx ends. The caller
	// repeats a Call whose outcome is not known under the same ID. Call ignores r.Attempt. A
	// request without an ID or a root, or with a Body above [RequestLimit], is [ErrInvalidRequest].
	Call(ctx context.Context, r Request) ([]byte, error)

	// Serve has this process take part until ctx ends. It renews the lease, calls the functions of
	// m, and looks after the lanes. When ctx ends it waits for the calls of Handle, gives up all
	// claims and slots of the process, and returns nil, or why it could not: then they end with the
	// lease. It returns an error that is [ErrReplaced] and has the name if another process has
	// joined under the same one, [ErrSync] if the Store must be opened again, and ErrClosed. An
	// engine that is out of reach does not end it. Of two calls at a time the second one returns
	// [ErrServing].
	Serve(ctx context.Context, m Member) error

	// Orphans yields the trees that are due, by the clock of the engine, and on which no claim
	// holds. It goes on until ctx ends or the caller breaks. The caller claims a tree at once or
	// leaves it: one that is still an orphan after [OrphanAgain] is yielded again, and none is left
	// out because others before it are not claimed. A tree that Orphans has seen with an owner
	// meanwhile, or whose Claim by this process has met one, is a new orphan, so that a caller may
	// get it twice within a minute. After each 16 trees the engine is asked anew, so that what
	// others have claimed meanwhile is left out. An engine that is out of reach does not end it.
	Orphans(ctx context.Context) iter.Seq2[Key, error]

	// Lane returns this process's part in the lane of that name. Its tickets are granted while
	// Serve runs, and end with it. Until then a process takes each lane once: a second call of a
	// name returns the same Lane, and leaves the limit and the user of the first. A lane of a name
	// above 256 bytes takes no ticket, see Lane.Ask.
	//
	// Engines may keep a lane as one document, which each grant reads and writes: its cost grows
	// with the tickets that wait in all processes. A process asks for those that are next, and
	// keeps the others to itself: with 10,000 in a lane 30 grants took seconds, and more.
	Lane(name string, limit int, u LaneUser) Lane
}

// The times of an Owners.
const (
	// DefaultLease is how long a process that cannot be heard keeps what it has claimed.
	DefaultLease = 30 * time.Second
	// RequestMemory is how long the ID of a request is known.
	RequestMemory = 10 * time.Minute
	// OrphanSpread is the time over which processes look at one orphan, each at a moment of its
	// own.
	OrphanSpread = 2 * time.Second
	// OrphanAgain is when a tree is yielded again that is still an orphan.
	OrphanAgain = time.Minute
	// RequestLimit is the greatest length of the body of a request, and of its answer, in bytes:
	// what a batch may have, so that a command which the log of a tree takes can be asked for.
	RequestLimit = BatchLimit
)

// A Process is one process of a cluster, from the opening of its Store until it is closed.
type Process struct {
	Name        string // of the place where it runs, for people; another of this name replaces it
	Incarnation uint64 // grows from one process of that name to the next
}

// String returns the name and the incarnation of p, such as "worker-1#4".
func (p Process) String() string { return fmt.Sprintf("%s#%d", p.Name, p.Incarnation) }

// A Claim says that a process has a tree. It is a value, and comparable.
type Claim struct {
	Root  Key
	Owner Process
	Epoch uint64 // higher than that of every claim on this tree before
}

// A Request is what one process asks of the owner of a tree.
type Request struct {
	ID      string // unique; a repeated request has the ID of the first
	Root    Key
	Body    []byte
	Attempt int // set by the Owners; above 1: an earlier owner of the tree took it, and is gone
}

// Validate returns an error that is [ErrInvalidRequest] if no Owners takes r.
func (r Request) Validate() error {
	switch {
	case r.ID == "" || len(r.ID) > maxRequestID:
		return fmt.Errorf("%w: its id has %d bytes, and may have 1 to %d",
			ErrInvalidRequest, len(r.ID), maxRequestID)
	case r.Root.IsZero():
		return fmt.Errorf("%w %q: it names no tree", ErrInvalidRequest, r.ID)
	case len(r.Body) > RequestLimit:
		return fmt.Errorf("%w %q: its body has %d bytes, and may have %d",
			ErrInvalidRequest, r.ID, len(r.Body), RequestLimit)
	}
	return nil
}

// maxRequestID is the greatest length of the ID of a request, in bytes.
const maxRequestID = 256

// A Member is what a process does in a cluster while its Serve runs.
type Member struct {
	// Handle answers a request to a tree that this process has claimed. It is called in a goroutine
	// of its own. Its ctx ends with that of Serve. A Handle that panics, or ends its goroutine, is
	// logged by slog.Default, and counts as one that has not answered: the caller waits on, until
	// its ctx ends or this process is gone.
	Handle func(ctx context.Context, r Request) []byte

	// Lease is told each time the lease was renewed, first when it begins. It must return soon, and
	// is not called again meanwhile. A process that has not been told of a longer lease shortly
	// before the time Until stops to act for its trees, and goes on when it is, see Lease.Length. A
	// Lease that panics, or ends its goroutine, is logged by slog.Default, and counts as told.
	Lease func(l Lease)

	// Failed is told why the lease could not be renewed, each time, for a log. It is called as
	// Lease is, and may be nil. An Owners that does not know why leaves it out.
	Failed func(err error)

	// Trouble is told of work that the engine fails at and that no call returns the error of, for a
	// log: "lanes", whose turns do not begin meanwhile, "requests" of other processes, which wait,
	// or "answers" to them. It is told once when the work has failed for a third of the lease, and
	// with nil when it goes on. It must return soon, may be called by several goroutines at once,
	// and may be nil. An Owners without such work leaves it out.
	Trouble func(work string, err error)
}

// A Lease is what a process knows of its lease after a beat.
type Lease struct {
	// Until is when the lease ends at the earliest: one lease after the beat was sent, by the
	// monotonic clock of this process.
	Until time.Time
	// Length is how long a lease lasts. A process stops to act a while before Until, one second or
	// a third of Length if that is less. Zero counts as long.
	Length time.Duration
	// Taken are the claims of this process that others have taken while the lease had lapsed. What
	// is not among them still holds.
	Taken []Claim
}

// A Lane is the part of one process in a number of slots that all processes of a cluster share. No
// method waits for the engine: what it asks for reaches the engine as soon as that can be reached.
// Only tickets that wait or have a slot are known, so a Lane keeps nothing that must survive.
type Lane interface {
	// Ask asks for a slot for t, or does nothing if a ticket of this ID waits or has one. When it
	// has a slot, LaneUser.Granted is called. A ticket that no Lane takes, and any for a lane whose
	// name is too long, is [ErrInvalidTicket], and nothing comes of it.
	Ask(t Ticket) error
	// Free gives back the slot of a ticket, or the place of one that waits.
	Free(id string)
	// Pause has no ticket granted whose Provider is that one for a time from now, in any process.
	// Of several pauses the one that ends last stands. The zero duration does nothing.
	Pause(provider string, d time.Duration)
	// SetLimit has the tickets of this process be granted while fewer than so many slots of the
	// lane are in use. It takes no slot back.
	SetLimit(limit int)
}

// A LaneUser is told what becomes of the tickets of a process. Its functions are not called at the
// same time, and must return soon. They may call the Lane. Nil: what they would tell is not wanted.
// One that panics, or ends its goroutine, is logged by slog.Default, and counts as told.
type LaneUser struct {
	// Granted says that the ticket with this ID has a slot. A ticket that was freed meanwhile may
	// still be granted.
	Granted func(id string)
	// Paused says that a provider pauses for so long from now, by the word of any process.
	Paused func(provider string, d time.Duration)
}

// A Ticket asks for one slot of a lane.
type Ticket struct {
	ID        string `json:"id"` // unique within the lane, over all processes
	Requester string `json:"requester,omitempty"`
	Provider  string `json:"provider,omitempty"` // of models; see Lane.Pause
	Class     uint8  `json:"class,omitempty"`    // a lower one is served first
}

// The greatest lengths of what a ticket and the name of its lane have, in bytes.
const (
	maxTicketID   = 256
	maxTicketName = 1024
	maxLaneName   = 256
)

// Validate returns an error that is [ErrInvalidTicket] if the lane of that name does not take t:
// the ID has 1 to 256 bytes, the Requester and the Provider at most 1,024 each, and all are UTF-8.
// The name of the lane has at most 256 bytes, of any kind.
func (t Ticket) Validate(lane string) error {
	if len(lane) > maxLaneName {
		return fmt.Errorf("%w: the name of its lane has %d bytes, and may have %d",
			ErrInvalidTicket, len(lane), maxLaneName)
	}
	for _, f := range []struct {
		name, value string
		least, most int
	}{
		{"id", t.ID, 1, maxTicketID},
		{"requester", t.Requester, 0, maxTicketName},
		{"provider", t.Provider, 0, maxTicketName},
	} {
		if len(f.value) < f.least || len(f.value) > f.most {
			return fmt.Errorf("%w: its %s has %d bytes, and may have %d to %d",
				ErrInvalidTicket, f.name, len(f.value), f.least, f.most)
		}
		if !utf8.ValidString(f.value) {
			return fmt.Errorf("%w: its %s is not UTF-8", ErrInvalidTicket, f.name)
		}
	}
	return nil
}

var (
	// ErrOwned is what errors.Is finds in every *[OwnedError].
	ErrOwned = errors.New("session: another process has the tree")

	// ErrNoOwner is returned by [Owners.Call] if no claim on the tree holds. The request has not
	// been handled and will not be.
	ErrNoOwner = errors.New("session: no process has the tree")

	// ErrUnanswered is returned by [Owners.Call] if the process that took the request is gone, and
	// no other has the tree. The request may have been handled. It is repeated under the same ID.
	ErrUnanswered = errors.New("session: the owner took the request and is gone")

	// ErrReplaced is returned to a process of a cluster after another one has joined under its
	// name. That is final.
	ErrReplaced = errors.New("session: another process has joined under the name of this one")

	// ErrServing is returned by the second of two calls of [Owners.Serve].
	ErrServing = errors.New("session: Serve runs already")

	// ErrInvalidTicket is returned by [Lane.Ask] for a ticket that no Lane takes.
	ErrInvalidTicket = errors.New("session: invalid ticket")

	// ErrInvalidRequest is returned by [Owners.Call] for a request that no Owners takes.
	ErrInvalidRequest = errors.New("session: invalid request")
)

// An OwnedError says which process has a tree. It is [ErrOwned].
type OwnedError struct{ Claim Claim }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("session: process %s has the tree %q, with epoch %d",
		strings.ToValidUTF8(e.Claim.Owner.String(), "?"), e.Claim.Root, e.Claim.Epoch)
}

// Is reports whether target is ErrOwned.
func (e *OwnedError) Is(target error) bool { return target == ErrOwned }
