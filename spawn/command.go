package spawn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/route"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Request asks for a child.
type Request struct {
	// Task is what the child is asked to do. It must not be blank.
	Task string
	// Label is a short name for people, in a line of its own. Characters that are not drawn are
	// taken out, and line breaks become spaces.
	Label string
	// Name is what the requester calls the child, among its own children: a letter from a to z,
	// then at most 63 of a-z, 0-9, "_" and "-". It is not "all" or "last", and does not have the
	// form of a RunID. It is refused while another child that has the Name has not ended. One that
	// has ended loses the Name to the new child; see [RunInfo].Name. Empty: it has none.
	Name string
	// Key makes the spawn idempotent. The same Key of the same requester gives the same run, over
	// restarts too and for seven days after the run has been archived: as long [Supervisor.Find]
	// and [Supervisor.Wait] know how it has ended, apart from its task. With an empty Key every
	// call gives another run.
	//
	// The same Key with another request is a [*KeyConflictError]: with another Task, Label,
	// Name, Announce, Milestones, Update, Thread, Session, Place, Delete or Variant, or another
	// Policy. Extra and Policy.Fork are not compared: the caller puts what was asked for into
	// Variant. A run that an earlier version has admitted has any Place. With Policy.ByModel it is
	// another Key than without: a program's keys and those made of the ids that models give to
	// their calls never meet.
	Key string
	// Again has the Key give another attempt, a new run of a new session, if the run that it gave
	// last was cut short: it was interrupted, or stopped because one above it was. Any other end,
	// and a run that is alive, is what the Key gives. It has no effect without a Key, nor with
	// Policy.ByModel, and is not compared.
	Again bool
	// Origin names what a session that the caller runs is answering, for the limit of runs that
	// models spawn for one request; see Policy.ByModel. It counts for top-level sessions only.
	// Empty: what the session's turn has read, or outside of a turn the run itself.
	Origin string
	// Variant is what else tells requests with the same Key apart. It is compared and not kept.
	Variant string
	// Policy is what the requester asks of policy: the agent, the model and so on.
	Policy policy.Request
	// Announce says that the requester is told of the end of the run. Where policy resolves the
	// announce step [policy.AnnounceTurn], what it is told is what the run says in one more turn;
	// see [TurnInput].Announces.
	Announce bool
	// Milestones says that the requester finds the milestones of the run, see [TurnInput.Report].
	Milestones bool
	// Update says that people are told of the end of the run, in a Delivery with Update, and the
	// requester is not: for what a person has asked for by hand. It is for top-level sessions and
	// for a Config with Replies, and excludes Announce. A follow-up to the run has none. The
	// announce step is taken for it as for Announce.
	Update bool
	// Route is where people are told, and where what the requester says over the end of the run
	// goes. Zero: where what it answers now goes. It is not compared.
	Route session.Route
	// Extra is kept with the run and given to each of its turns.
	Extra json.RawMessage
	// ID is the id of the run, a new UUID as [session.NewID] makes them. Empty: Spawn makes one.
	ID RunID
	// Thread says that the conversation Bind is bound to the session in the batch that admits the
	// run, as [Supervisor.Bind] would. It stays bound until the completion of the run has arrived.
	Thread bool
	Bind   session.Route
	// Session, beside Thread, says that the conversation stays bound when a run has ended. What is
	// posted there begins another run of the session.
	Session bool
	// Place, beside Thread or Update, is where the caller was asked for that, which may be another
	// conversation than Bind, or none. It tells requests with the same Key apart, and is not kept.
	Place session.Route
	// Delete says that the session is archived as soon as its end has arrived. With Session it has
	// no effect.
	Delete bool
	// Senders are people who bind the run, and all that it spawns, beside those who bind the turn
	// that spawns it: see [policy.Rules.ForSenders]. They are recorded with the run, and not
	// compared.
	Senders []policy.Sender
	// Asked says that a call with Dry has asked Config.Spawning, which is not asked again.
	Asked bool
	// Dry has all of this decided, and nothing admitted or recorded. Thread needs no Bind then. The
	// RunInfo is that of the run that the Key is known for, or zero.
	Dry bool
	// Files says that the child is given files: the function of [Supervisor.Deposit] spawns it,
	// with the ID of the Deposit. With Dry the Variant does not tell the files yet, so that what a
	// Key is known for is returned whatever was asked there.
	Files bool

	deposits bool // see tree.Spawn
}

// Validate returns the error that [Supervisor.Spawn] returns for q whatever is on record and
// whatever the rules say, under the Limits of a [Config]: an *[InputError] for a field that cannot
// be accepted, which is a *[LimitError] for one that is too long. It returns nil if those decide.
func (q Request) Validate(l Limits) error {
	cmd := q.command(session.Key{}, string(q.ID))
	return cmd.Check(l)
}

// command returns the command of a spawn by a requester, of a run with an id.
func (q *Request) command(requester session.Key, id string) tree.Spawn {
	cmd := tree.Spawn{
		Parent: requester, ID: id, Key: q.Key,
		Task: tree.Text(q.Task), Label: q.Label, Name: q.Name, Request: q.Policy,
		Announce: q.Announce, Milestones: q.Milestones, Update: q.Update, Origin: q.Origin,
		Variant: q.Variant,
		Extra:   q.Extra, Thread: q.Thread, Session: q.Session, Delete: q.Delete,
		Dry: q.Dry, Again: q.Again, Asked: q.Asked, Files: q.Files, Deposits: q.deposits,
		Senders: q.Senders,
	}
	if clean := q.Route.Clean(); !clean.IsZero() {
		route := clean // &clean would move one to the heap also where there is none
		cmd.Route = &route
	}
	if clean := q.Place.Clean(); !clean.IsZero() {
		place := clean // likewise
		cmd.Place = &place
	}
	if !q.Bind.IsZero() {
		route := q.Bind // &q.Bind would move every request to the heap
		cmd.Bind = &route
	}
	return cmd
}

// Spawn admits a child of the session requester, in the tree of the top-level session root. It
// returns as soon as the run is recorded, without waiting for a turn.
//
// The error is a *[policy.Refusal] if a rule refuses the request or the requester is not on record,
// [ErrEnded] or [ErrStopping] for a requester that has ended or is to end, an *[InputError] for a
// field that cannot be accepted, which is a *[LimitError] for one that is too long, a
// *[CallbackError] if a function of the Config that it asks fails, a *[KeyConflictError] if its Key
// is that of another request, a *[NameTakenError] if its Name is that of another child which has
// not ended, or one that every command can return: after [ErrUnconfirmed] spawn
// again with the same Key.
func (s *Supervisor) Spawn(
	ctx context.Context, root, requester session.Key, q Request,
) (RunInfo, error) {
	if s.cluster != nil && q.ID == "" {
		q.ID = RunID(s.ids.newID()) // so that it is known in each process that is asked
	}
	info, err := withShell(s, root, func(sh *treeShell) (RunInfo, error) {
		return sh.spawn(ctx, requester, q, nil)
	})
	if s.elsewhere(ctx, root, err) {
		return s.spawnThere(ctx, root, requester, q, err)
	}
	return info, err
}

// spawn admits a child. by is the turn of the requester that asks for it, or nil.
func (sh *treeShell) spawn(
	ctx context.Context, requester session.Key, q Request, by *TurnInput,
) (info RunInfo, err error) {
	call := newSpawnCall()
	id := string(q.ID)
	if id == "" {
		id = sh.sup.ids.newRunID()
	}
	call.cmd = q.command(requester, id)
	call.cmd.Shown = sh.sup.shownLabel(q.Label)
	call.cmd.Senders = sendersIn(ctx, q.Senders)
	if by != nil {
		call.cmd.Turn = uint32(by.N)
	}
	return sh.admit(ctx, call, by)
}

// shownLabel returns a label as a run has it.
func (s *Supervisor) shownLabel(label string) string {
	return secret.Line(redactBy(s.cfg.Redact), label)
}

// admit has a spawn decided, and gives the call back.
func (sh *treeShell) admit(
	ctx context.Context, call *spawnCall, by *TurnInput,
) (info RunInfo, err error) {
	err = sh.submitSpawn(ctx, call, by)
	if errors.Is(err, tree.ErrNoDeposit) {
		err = fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	if err == nil {
		info = call.info
		call.recycle()
		return info, nil
	}
	// The owner may still use call, so that its memory is not used again.
	if by == nil && sh.sup.elsewhere(ctx, sh.owner.Root(), err) {
		return RunInfo{}, err // another process is asked
	}
	cmd := &call.cmd
	err = repeatable(err, (&Request{Key: cmd.Key}).repeat())
	e := TreeEvent{
		Kind: EventRefused, Time: time.Now(), Session: cmd.Parent, Depth: cmd.Parent.Depth(),
	}
	if by != nil {
		e = by.event(EventRefused)
	}
	mask := redactBy(sh.sup.cfg.Redact)
	e.Agent = secret.Bound(mask, cmd.Request.Agent, secret.MaxText)
	e.Label = secret.Line(mask, secret.Cut(mask, cmd.Label, secret.MaxText))
	e.Text = secret.Bound(mask, string(cmd.Task), secret.MaxText)
	e.Error = sh.sup.errorText(err)
	sh.notifyWatchers(e)
	return RunInfo{}, err
}

// spawnCall is the command of a spawn and its answer in one piece of memory, which is used again.
type spawnCall struct {
	cmd    tree.Spawn
	info   RunInfo
	reader func(*tree.Tree, tree.Reply) // the method read, bound once
}

var spawnCalls sync.Pool

func newSpawnCall() *spawnCall {
	c, ok := spawnCalls.Get().(*spawnCall)
	if !ok {
		c = new(spawnCall)
		c.reader = c.read
	}
	return c
}

// recycle puts c back into the pool. The caller must be the last user of c.
func (c *spawnCall) recycle() {
	c.cmd, c.info = tree.Spawn{}, RunInfo{}
	spawnCalls.Put(c)
}

// read takes the answer. The owner of the tree calls it.
func (c *spawnCall) read(t *tree.Tree, r tree.Reply) {
	if r.Run != nil {
		c.info = infoOf(t, r.Run)
		first, kept := r.Run.RunOf(r.Run.Spec.ID)
		if kept && first.Begin != r.Run.Begin { // the spawn made that one, whatever has followed
			c.info = runInfoOf(t, r.Run, &first)
		}
		return
	}
	if c.cmd.Dry && !r.Existing {
		c.info.Key = r.Ref // of a deposit
		return
	}
	var kept bool
	if c.info, kept = findRun(t, RunRef{r.Ref, RunID(r.ID)}); !kept {
		// An earlier library has archived the run: the tree knows nothing else of it.
		c.info = RunInfo{
			ID: RunID(r.ID), Key: r.Ref, Root: t.Root().Key(), Parent: c.cmd.Parent,
		}
	}
}

// SendOptions say on whose behalf a session sends a message, see [Supervisor.Send]. They matter if
// the message begins a run.
type SendOptions struct {
	// Announce says that the sender is told of the end of that run, if it is above the receiver,
	// and else the session that the receiver was spawned from.
	Announce bool
	// ByModel says that a model sends the message: the run counts against Rules.MaxRunsPerRequest,
	// and a top-level session that never was is [ErrNotFound], unless it is the main one of its
	// agent: a model writes to no chat that the program does not have.
	ByModel bool
	// Origin is as in a [Request].
	Origin string
	// Within is how long [Supervisor.SendAndWait] waits for the reply, from when the message is
	// recorded. 0 or less: without limit. Send does not read it.
	Within time.Duration
}

// Send posts a message that one session has for another, as [Supervisor.Post] does: the receiver
// finds it with Input.From. The Supervisor does not ask whether the sender may:
// [policy.Rules.Authorize] says that. An ID names the message among those of the sender.
//
// The sender need not be in the tree of the receiver. The errors are those of Post.
func (s *Supervisor) Send(
	ctx context.Context, root, from, to session.Key, m Incoming, opt SendOptions,
) (Receipt, error) {
	if err := s.maySend(ctx, root, from, to, &m, opt); err != nil {
		return Receipt{}, err
	}
	return s.send(ctx, root, from, to, &m, opt, s.asker(root))
}

// SendAndWait sends a message to a top-level session, as [Supervisor.Send] does, and returns the
// reply with which a turn ends that answers it, as [Supervisor.PostAndWait] does. People get that
// reply, too. Under the context of a Runner it gives the slot of the turn back while it waits.
//
// The Receipt is zero if the message is not recorded, or it is not known whether it is: then the
// errors are those of Send. Beside any other Receipt an error says why there is no reply: it is
// [context.DeadlineExceeded] if none has come within opt.Within, and else one of PostAndWait.
func (s *Supervisor) SendAndWait(
	ctx context.Context, root, from, to session.Key, m Incoming, opt SendOptions,
) (Receipt, Reply, error) {
	short, cancel := ctx, context.CancelFunc(func() {})
	if opt.Within > 0 {
		short, cancel = context.WithTimeout(ctx, opt.Within)
	}
	err := s.maySend(short, root, from, to, &m, opt)
	cancel()
	if err != nil {
		return Receipt{}, Reply{}, err
	}
	got, err := s.postAndWait(ctx, root, to, m.sentBy(from), opt.of(from), opt.Within)
	return got.receipt, got.reply, err
}

// maySend returns an error if a session does not write to another because that never was. The
// journal of the receiver holds the sender up until ctx ends.
func (s *Supervisor) maySend(
	ctx context.Context, root, from, to session.Key, m *Incoming, opt SendOptions,
) error {
	if !opt.ByModel || to != root || from == to || to.IsMain() {
		return nil
	}
	look := func(ctx context.Context) error { return s.onRecord(ctx, to) }
	return orWrong(unrecorded(ctx, s.inStore(ctx, look, nil)), func() error {
		return m.Validate(s.cfg.Limits)
	})
}

// onRecord returns an error that is [ErrNotFound] for a top-level session that never was.
func (s *Supervisor) onRecord(ctx context.Context, root session.Key) error {
	err := fmt.Errorf("%w: session %q", ErrNotFound, root)
	if rerr := s.readTree(ctx, root, func(*tree.Tree) { err = nil }); rerr != nil {
		return rerr
	}
	return err
}

// send is Send, with a way to ask the owner.
func (s *Supervisor) send(
	ctx context.Context, root, from, to session.Key, m *Incoming, opt SendOptions, ask askFunc,
) (Receipt, error) {
	return s.post(ctx, root, to, m.sentBy(from), opt.of(from), ask)
}

// sentBy returns m as a session sends it. No message of a person has its ID, and no reply shows it.
func (m *Incoming) sentBy(from session.Key) *Incoming {
	sent := *m
	if sent.ID != "" {
		sum := sha256.Sum256([]byte(from.String() + " " + sent.ID))
		sent.ID = madeID + hex.EncodeToString(sum[:])[:36-len(madeID)]
	}
	return &sent
}

// of returns what the options say of a message that a session sends.
func (opt *SendOptions) of(from session.Key) func(*tree.Post) {
	return func(cmd *tree.Post) {
		cmd.From, cmd.Announce = from, opt.Announce
		cmd.ByModel, cmd.Origin = opt.ByModel, opt.Origin
	}
}

// Steer sends a message from one session to a run of its tree that is under way. The run reads it
// when its Runner takes the inbox, or in its next turn. A steer never makes a run that has finished
// its turn start another. So nil says that the run had not ended, and has the message.
// [RunInfo].Missed says at its end how many messages it has not read.
//
// The errors are those of [Supervisor.Post], [ErrEnded] for a run that has ended or that another
// one of its session has followed, ErrNotFound also for a top-level session, and a
// *[policy.Refusal] for a steer that comes too soon after the last one of the same session.
func (s *Supervisor) Steer(
	ctx context.Context, root, from session.Key, to RunRef, m Incoming,
) error {
	return repeatable(s.do(ctx, root, s.steerOf(ctx, from, to, &m), nil), m.repeat())
}

// steerOf returns the command that steers a run.
func (s *Supervisor) steerOf(
	ctx context.Context, from session.Key, to RunRef, m *Incoming,
) *tree.Steer {
	return &tree.Steer{
		From: from, To: to.Session, RunID: string(to.Run), ID: s.messageID(*m),
		Text: tree.Text(m.Text), Senders: sendersIn(ctx, m.Senders),
	}
}

// madeID begins the ids of messages that came without one. With it they are as long as a UUID.
const madeID = "offshoot-"

// messageID returns the ID of a message, or a new one if it has none.
func (s *Supervisor) messageID(m Incoming) string {
	if m.ID == "" {
		return madeID + strings.ReplaceAll(s.ids.newID(), "-", "")[:36-len(madeID)]
	}
	return m.ID
}

// givenID returns the ID that the caller gave to a message, or "".
func givenID(id string) string {
	if len(id) == 36 && strings.HasPrefix(id, madeID) {
		return ""
	}
	return id
}

// CancelTurn cancels the turn of the session key that is under way, and nothing else. A turn that a
// top-level session wants and that has not begun, because there is no slot for it yet or because
// Run has not been called, does not begin: what it was to read stays in the inbox, and the next
// turn, which the next message or the end of a run starts, reads it with that. A session without a
// turn is not changed. The error is [ErrNotFound] for a run that is not on record, or one that
// every command can return.
func (s *Supervisor) CancelTurn(ctx context.Context, root, key session.Key) error {
	cmd := tree.CancelTurn{Run: key, Rand: s.ids.rand()}
	return repeatable(s.do(ctx, root, cmd, nil), repeatAsIs)
}

// Stop stops the session key and everything below it. Of a top-level session it stops the turn
// under way, or as CancelTurn the one that has not begun, and all sub-agents; the session itself
// stays usable.
// Of a run it stops the run too. No session is told of the end of what was stopped with it, and a
// top-level session not of what had ended before and its turns have not read.
//
// Of a reason the first 10,000 bytes are kept.
//
// Stop returns nil when nothing of what it stopped is alive, and a *[StillRunningError] if turns
// had to be given up. Else the error is [ErrNotFound] for a run that is not on record, or one that
// every command can return. It is [ErrUnconfirmed] if ctx, a shutdown or another owner ends the
// wait.
func (s *Supervisor) Stop(ctx context.Context, root, key session.Key, reason string) error {
	return s.StopRun(ctx, root, RunRef{Session: key}, reason)
}

// StopRun is [Supervisor.Stop] of one run of a session. It does nothing, and returns nil, if
// another run of the session has followed that one: then nothing of it is alive. The errors are
// those of Stop.
func (s *Supervisor) StopRun(
	ctx context.Context, root session.Key, run RunRef, reason string,
) error {
	err := s.stopHere(ctx, root, run, reason)
	if s.elsewhere(ctx, root, err) {
		op := &route.Stop{Session: run.Session, Run: string(run.Run)}
		op.Reason = tree.Text(text.Bound(reason, secret.MaxText))
		defer turnOf(ctx).pause()()
		_, err = s.cluster.route(ctx, root, op, err, nil, func(bool) error {
			return s.stopHere(ctx, root, run, reason)
		})
	}
	return repeatable(err, repeatAsIs)
}

// stopHere is StopRun of a tree of this process.
func (s *Supervisor) stopHere(
	ctx context.Context, root session.Key, run RunRef, reason string,
) error {
	_, err := withShell(s, root, func(sh *treeShell) (struct{}, error) {
		return struct{}{}, sh.stop(ctx, run, reason, sh.owner.Do)
	})
	return err
}

// Wait waits for runs of one tree and returns how each of them stands then, in the order of runs.
// Before [Supervisor.Run] has been called it waits for that too. Which runs are waited for is fixed
// when Wait is called: a later run of the same session does not count.
//
// If ctx ends first, the error is its cause, and the runs are returned beside it if the tree can be
// read at once. Else the error is [ErrNotFound] if the tree does not have one of the runs,
// [ErrUnconfirmed] if another owner takes the tree, [ErrUnreadable] if a result that is in a file
// cannot be loaded, or one that every call that waits can return. With RestStop it may be one of
// [Supervisor.Stop], with RestAnnounce one that every command can return: after [ErrUnconfirmed]
// wait again. An opt.AtLeast below zero, and an opt.Rest that is not one, give an *[InputError], as
// does a wait without a limit, under the context of a turn, for the run of that turn or one above
// it: that ends after the turn.
func (s *Supervisor) Wait(
	ctx context.Context, root session.Key, runs []RunRef, opt JoinOptions,
) ([]RunInfo, error) {
	begun, refs := time.Now(), slices.Clone(runs)
	infos, err := withShell(s, root, func(sh *treeShell) ([]RunInfo, error) {
		return sh.wait(ctx, refs, opt)
	})
	if s.elsewhere(ctx, root, err) {
		if opt.Within > 0 { // less than no time is over at once
			opt.Within = cmp.Or(opt.Within-time.Since(begun), -1)
		}
		infos, err = s.waitThere(ctx, root, refs, opt)
		return s.heard(ctx, infos, err)
	}
	return infos, err
}

// JoinOptions say when a wait for children is over. The zero JoinOptions wait until all of them
// have ended.
type JoinOptions struct {
	// AtLeast is how many must have ended well. Zero: all must have ended, well or not. The wait is
	// also over when all have ended and fewer than AtLeast have ended well. A negative AtLeast is
	// refused by the calls that wait, and means zero to Yield, which returns no error.
	AtLeast int
	// Within is how long to wait from now on. Zero: without limit. A negative one, as of a deadline
	// that has passed, is over at once.
	Within time.Duration
	// Rest is what becomes of the runs that have not ended when the wait is over. It counts for a
	// wait that is over as AtLeast and Within say, and not for one that ends with an error, such as
	// the cause of its context: the runs then go on, as with RestKeep.
	Rest Rest
}

// A Rest says what becomes of the runs that a wait leaves over. The zero Rest is RestKeep. The
// names are stable: they are the text form, in JSON too.
type Rest uint8

const (
	// RestKeep has them go on, and spend. A call that waits returns them as they stand.
	RestKeep Rest = iota
	// RestStop stops them, and everything below them. A call that waits returns when they have
	// ended; a turn that comes of [TurnInput.Yield] begins at once.
	RestStop
	// RestAnnounce has the requester of each told of its end, as if it had been spawned with
	// Request.Announce, over restarts too. A call that waits returns them as they stand: a run is
	// either returned as ended or announced later, never both and never neither. An answer that
	// asks for silence stays silent.
	RestAnnounce
)

var restNames = [...]string{"keep", "stop", "announce"}

// String returns the name, such as "announce".
func (r Rest) String() string { return enum.String(restNames[:], "Rest", r) }

// MarshalText returns the name. A value that is not a Rest is an error.
func (r Rest) MarshalText() ([]byte, error) {
	return enum.Marshal(restNames[:], "spawn", "rest", r)
}

// UnmarshalText sets r to the Rest of that name, in any letter case of ASCII.
func (r *Rest) UnmarshalText(text []byte) error {
	return enum.Unmarshal(restNames[:], "spawn", "rest", text, r)
}

// check returns the error of a call that waits with o.
func (o *JoinOptions) check() error {
	if o.AtLeast < 0 {
		return &InputError{Field: "AtLeast", Reason: fmt.Sprintf("%d is negative", o.AtLeast)}
	}
	if int(o.Rest) >= len(restNames) {
		return &InputError{Field: "Rest", Reason: o.Rest.String() + " is not a Rest"}
	}
	return nil
}

// rest returns what becomes of what the wait of a tree leaves over; RestKeep for an unknown value.
func (o *JoinOptions) rest() tree.Rest {
	if int(o.Rest) >= len(restNames) {
		return tree.RestKeep
	}
	return tree.Rest(o.Rest)
}

// need returns how many must end well for the wait of a tree to be over; zero is all.
func (o *JoinOptions) need() uint32 { return uint32(min(max(0, o.AtLeast), math.MaxInt32)) }

// within returns how long the wait of a tree takes at most; zero is without limit.
func (o *JoinOptions) within() int64 {
	if o.Within < 0 {
		return 1
	}
	return int64(o.Within)
}
