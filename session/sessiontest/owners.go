package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// An OwnersEngine is an engine that several processes share, for [TestOwners].
type OwnersEngine struct {
	// Lease is the lease of the processes that Fresh opens. The rules wait for several leases, so
	// one without a virtual clock is short: a second or two.
	Lease time.Duration
	// Virtual has each rule run in a bubble of testing/synctest. All that Fresh and Open start must
	// live in it and end when the Stores are closed.
	Virtual bool
	// Parallel has the rules run beside each other, as parallel subtests: they mostly wait. It is
	// not for Virtual.
	Parallel bool
	// Fresh returns an empty engine.
	Fresh func(t *testing.T) OwnersFixture
}

// An OwnersFixture is one engine that is empty at first.
type OwnersFixture struct {
	// Open opens the Store of another process of that name. Its Owners is set.
	Open func(name string) (*session.Store, error)
	// Cut cuts the process of a Store off from the engine, or ends that. What it asks meanwhile
	// waits or fails.
	Cut func(s *session.Store, cut bool)
}

// TestOwners runs every rule of [session.Owners] in a subtest, which quotes the rule if it fails.
// It calls Fresh once for each rule. Unlike the other kits it measures time, in leases.
func TestOwners(t *testing.T, e OwnersEngine) {
	t.Helper()
	for i, r := range ownersRules {
		t.Run(fmt.Sprintf("%02d_%s", i+1, r.name), func(t *testing.T) {
			if e.Parallel {
				t.Parallel()
			}
			if err := tryOwners(t, r, e); err != nil {
				t.Errorf("rule %d is broken: %s\n\t%v", i+1, r.sentence, err)
			}
		})
	}
}

// ownersLeases is how many leases a rule may take before it is taken to hang.
const ownersLeases = 20

// tryOwners runs one rule on a fresh engine.
func tryOwners(t *testing.T, r ownersRule, e OwnersEngine) (err error) {
	t.Helper()
	try := func(t *testing.T) {
		t.Helper()
		f := e.Fresh(t)
		err = r.try(t.Context(), func() (*cluster, error) {
			return &cluster{OwnersFixture: f, lease: e.Lease}, nil
		}, hangAfter+ownersLeases*e.Lease)
	}
	if e.Virtual {
		synctest.Test(t, try)
	} else {
		try(t)
	}
	return err
}

type (
	ownersRule  = rule[*cluster]
	ownersProbe = probe[*cluster]
)

// ownersRules are the rules of [session.Owners], in the order of their numbers.
var ownersRules = []ownersRule{
	{"claim", "Claim takes a tree and returns who has it.", checkClaim},
	{"claim again", "A second Claim returns the claim that holds.", checkClaimAgain},
	{"owned", "A Claim on the tree of another process is an OwnedError that names it.", checkOwned},
	{"one claimer", "Of 16 processes that claim one tree at once, exactly one gets it.", checkOneClaimer},
	{"epoch", "Each claim on a tree has a higher Epoch than those before.", checkEpoch},
	{"release", "After Release another process can claim the tree at once.", checkRelease},
	{"stale release", "The Release of a claim that does not hold changes nothing.", checkStaleRelease},
	{"trees apart", "Claims on trees with similar keys are kept apart.", checkTreesApart},
	{"beat", "A process that serves keeps its claims beyond a lease.", checkBeat},
	{
		"lapse",
		"The claim of a process that is cut off holds until its lease lapses, and is free after that.",
		checkLapse,
	},
	{
		"back",
		"A claim that none has taken comes back as it was, when its process does.",
		checkBack,
	},
	{
		"taken",
		"A process that comes back is told which claims others have taken, and does not have them.",
		checkTaken,
	},
	{
		"until",
		"A claim is not taken before the time that its process knows as the end of its lease.",
		checkUntil,
	},
	{"lease length", "A process is told how long its lease is.", checkLeaseLength},
	{"leave", "When Serve ends, the claims of its process are free at once.", checkLeave},
	{
		"replaced",
		"Another process of the same name takes the place of the first, whose Serve and Claim are ErrReplaced.",
		checkReplaced,
	},
	{"serving", "The second of two calls of Serve returns ErrServing.", checkServing},
	{"call", "Call brings a request to the owner and its answer back, both as they are.", checkCall},
	{"call oneself", "Call reaches the process itself if that has the tree.", checkCallOneself},
	{"no owner", "Call returns ErrNoOwner where no claim holds, and does not wait.", checkNoOwner},
	{"once", "A repeated request is handled once, and has the same answer.", checkOnce},
	{"call waits", "Call waits for an owner that does not serve yet.", checkCallWaits},
	{
		"unanswered",
		"Call returns ErrUnanswered if the owner took the request and is gone.",
		checkUnanswered,
	},
	{
		"attempt",
		"The next owner handles what a former one took, and knows that from the Attempt.",
		checkAttempt,
	},
	{"bad request", "A request without an ID or a tree, or that is too large, is ErrInvalidRequest.", checkBadRequest},
	{
		"large request",
		"A body up to session.RequestLimit comes through as it is, and so does its answer.",
		checkLargeRequest,
	},
	{"orphans", "Orphans yields the trees that are due and that no process has.", checkOrphans},
	{
		"orphans all",
		"Orphans yields every tree, however many there are, also if its caller claims none.",
		checkOrphansAll,
	},
	{
		"orphans once",
		"A tree that none claims is not yielded again before OrphanAgain.",
		checkOrphansOnce,
	},
	{
		"orphans anew",
		"A tree that had an owner meanwhile is yielded anew, without waiting for OrphanAgain.",
		checkOrphansAnew,
	},
	{
		"orphans met",
		"A tree whose claim was refused is yielded anew, however short another process had it.",
		checkOrphansMet,
	},
	{"orphaned", "Orphans yields a tree when its owner has left, or its lease has lapsed.", checkOrphaned},
	{"no stampede", "Processes that look for orphans at once share them.", checkNoStampede},
	{"lane limit", "At most as many tickets as the limit have a slot, over all processes.", checkLaneLimit},
	{"lane turns", "Requesters take turns, over all processes.", checkLaneTurns},
	{"lane class", "Tickets of a lower class come first.", checkLaneClass},
	{"lane withdraw", "A ticket that was freed before it had a slot gets none.", checkLaneWithdraw},
	{"lane lapse", "The slots of a process whose lease lapses go to others.", checkLaneLapse},
	{"lane back", "A process that comes back has its slots again.", checkLaneBack},
	{
		"lane pause",
		"A provider pauses in all processes, which are told, and others do not.",
		checkLanePause,
	},
	{"lanes apart", "Lanes of different names are kept apart.", checkLanesApart},
	{"lane again", "A second Lane of a name is the same one, with the limit and user of the first.", checkLaneAgain},
	{"lane anew", "After Serve has ended a Lane of a name is another one, and the tickets are gone.", checkLaneAnew},
	{"handle panics", "A Handle that panics ends nothing, and has not answered.", checkHandlePanics},
	{
		"callback panics",
		"A Lease, Granted or Paused that panics or ends its goroutine ends nothing.",
		checkCallbackPanics,
	},
	{
		"bad ticket",
		"A ticket or a lane with a name that is too long, or no UTF-8, is ErrInvalidTicket.",
		checkBadTicket,
	},
	{"lane set limit", "SetLimit counts for the tickets that wait.", checkLaneSetLimit},
	{"owners context", "A method returns the error of a ctx that is done.", checkOwnersContext},
	{"owners closed", "After Close every method returns ErrClosed.", checkOwnersClosed},
}

// A cluster is what a rule of session.Owners works with.
type cluster struct {
	OwnersFixture
	lease     time.Duration
	processes []*process
}

// Close ends all processes.
func (c *cluster) Close() error {
	var errs []error
	for _, p := range c.processes {
		c.Cut(p.store, false)
	}
	for _, p := range c.processes {
		_ = p.stop() // a rule that wants its error has looked
		errs = append(errs, p.store.Close())
	}
	c.processes = nil
	return errors.Join(errs...)
}

// pass lets so many tenths of a lease pass.
func (c *cluster) pass(tenths int) { time.Sleep(c.lease * time.Duration(tenths) / 10) }

// until waits until ready returns true, and fails the rule after so many tenths of a lease.
func (c *cluster) until(p *ownersProbe, what string, tenths int, ready func() bool) {
	end := time.Now().Add(c.lease * time.Duration(tenths) / 10)
	for !ready() {
		if time.Now().After(end) {
			p.fail("%s: not within %d tenths of a lease", what, tenths)
		}
		time.Sleep(c.lease / 100)
	}
}

// join opens the Store of another process.
func (c *cluster) join(p *ownersProbe, name string) *process {
	s, err := c.Open(name)
	p.must("open "+name, err)
	if s.Owners == nil {
		p.fail("the Store of %s has no Owners", name)
	}
	pr := &process{store: s, Owners: s.Owners, p: p, ended: make(chan struct{})}
	c.processes = append(c.processes, pr)
	return pr
}

// serve opens the Store of another process and has it serve. handle may be nil.
func (c *cluster) serve(
	p *ownersProbe, name string, handle func(context.Context, session.Request) []byte,
) *process {
	pr := c.join(p, name)
	pr.serve(handle)
	c.until(p, name+" has a lease", 10, func() bool { return pr.leases() > 0 })
	return pr
}

// A process is one process of a cluster.
type process struct {
	session.Owners
	store *session.Store
	p     *ownersProbe

	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of Serve, after ended

	mu    sync.Mutex
	told  []session.Lease
	calls []session.Request
	slots []string // ids of tickets that were granted, in order
	pause time.Duration
}

// serve begins the Serve of a process. An empty answer is that of a nil handle.
func (pr *process) serve(handle func(context.Context, session.Request) []byte) {
	ctx, cancel := context.WithCancel(pr.p.ctx)
	pr.cancel = cancel
	go func() {
		defer close(pr.ended)
		pr.err = pr.Serve(ctx, session.Member{
			Handle: func(ctx context.Context, r session.Request) []byte {
				pr.mu.Lock()
				pr.calls = append(pr.calls, r)
				pr.mu.Unlock()
				if handle == nil {
					return nil
				}
				return handle(ctx, r)
			},
			Lease: func(l session.Lease) {
				pr.mu.Lock()
				defer pr.mu.Unlock()
				pr.told = append(pr.told, l)
			},
		})
	}()
}

// stop ends the Serve of a process, if there is one, and returns its error.
func (pr *process) stop() error {
	if pr.cancel == nil {
		return nil
	}
	pr.cancel()
	<-pr.ended
	return pr.err
}

func (pr *process) leases() int {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return len(pr.told)
}

func (pr *process) handled() []session.Request {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return append([]session.Request(nil), pr.calls...)
}

// granted returns the ids of the tickets that have been granted so far.
func (pr *process) granted() []string {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return append([]string(nil), pr.slots...)
}

// lane takes part in a lane, and keeps what it is told.
func (pr *process) lane(name string, limit int) ruleLane {
	return ruleLane{pr.Lane(name, limit, session.LaneUser{
		Granted: func(id string) {
			pr.mu.Lock()
			defer pr.mu.Unlock()
			pr.slots = append(pr.slots, id)
		},
		Paused: func(_ string, d time.Duration) {
			pr.mu.Lock()
			defer pr.mu.Unlock()
			pr.pause = d
		},
	}), pr.p}
}

// A ruleLane is a lane whose tickets are asked for without an error.
type ruleLane struct {
	session.Lane

	p *ownersProbe
}

func (l ruleLane) Ask(t session.Ticket) { l.p.must("ask for ticket "+t.ID, l.Lane.Ask(t)) }

// claimTries is how often a rule asks for a claim that an engine does not answer for: a busy
// machine may need longer than the engine waits.
const claimTries = 3

// claim claims a tree, which must work.
func (pr *process) claim(root session.Key) session.Claim {
	var c session.Claim
	var err error
	for range claimTries {
		c, err = pr.Claim(pr.p.ctx, root)
		if err == nil || errors.Is(err, session.ErrOwned) || errors.Is(err, session.ErrReplaced) {
			break
		}
	}
	pr.p.must(fmt.Sprintf("claim %q", root), err)
	return c
}

// isRefused fails the rule unless another process has a tree.
func (pr *process) isRefused(doing string, root session.Key) session.Claim {
	_, err := pr.Claim(pr.p.ctx, root)
	var owned *session.OwnedError
	if !errors.As(err, &owned) || !errors.Is(err, session.ErrOwned) {
		pr.p.fail("%s: got error %v, want an *OwnedError", doing, err)
	}
	return owned.Claim
}

// request returns a request to a tree.
func request(id string, root session.Key) session.Request {
	return session.Request{ID: id, Root: root, Body: []byte("body of " + id)}
}

// treeKey returns the key of a tree.
func treeKey(name string) session.Key { return session.Must(session.Parse("agent:main:" + name)) }

var _ io.Closer = (*cluster)(nil)
