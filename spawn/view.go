package spawn

import (
	"fmt"
	"iter"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A TreeView is what the journal of a tree says at one moment. It is a value and shares nothing
// with the journal or with an owner of the tree. The TreeView of a tree that was never written to
// has its Root and nothing else.
type TreeView struct {
	Root      session.Key `json:"root"`
	SessionID string      `json:"sessionId,omitempty"` // of the top-level session
	// Status is that of the top-level session. It is StatusRunning while a turn is under way, and
	// StatusStopping while the session and everything below it is being stopped. Otherwise it is
	// StatusWaiting, also if there is nothing to wait for.
	Status Status      `json:"status,omitzero"`
	Last   session.Seq `json:"last"`          // the last entry; 0: there is none
	Time   time.Time   `json:"time,omitzero"` // when the last entry was recorded
	Epoch  uint64      `json:"epoch"`         // that of the last owner, see Delivery
	Total  int         `json:"total"`         // runs ever admitted, archived ones included
	// Due is when the tree next needs an owner. It is Time itself if anything is under way, to be
	// delivered at once or to be unbound, or a session is deleted, and otherwise when a wait or the
	// pause of a delivery ends. It is zero if the tree never does. Due does not consider the
	// archive of runs that have ended, which is a matter of configuration, nor what no entry
	// records: a call of Config.Unbind that is not needed any more, and the pause after one, or
	// after an archive, that failed. The Due of [session.Head] does, and is a
	// fixed instant in the past if anything is in hand, a delivery that waits included.
	Due time.Time `json:"due,omitzero"`
	// Runs are what [Supervisor.Runs] returns for everything below the top-level session: parents
	// first, siblings oldest first. A TreeView knows no rules: Tools and Sandboxed of a RunInfo are
	// what was granted, and Revoked is empty.
	Runs []RunInfo `json:"runs,omitempty"`
	// Unread has the sessions with inputs that no turn has consumed: the top-level session first,
	// then in the order of Runs.
	Unread []Unread `json:"unread,omitempty"`
	// Outbox is what [Supervisor.Outbox] returns, oldest first.
	Outbox []OutboxEntry `json:"outbox,omitempty"`
}

// Unread counts the inputs of a session that no turn has consumed, by class. The task of a run that
// is queued is not counted.
type Unread struct {
	Session     session.Key `json:"session"`
	Messages    int         `json:"messages,omitempty"`    // InputUser
	Steers      int         `json:"steers,omitempty"`      // InputSteer
	Completions int         `json:"completions,omitempty"` // InputCompletion
	Milestones  int         `json:"milestones,omitempty"`  // InputMilestone
	Events      int         `json:"events,omitempty"`      // InputEvent
}

// An OutboxEntry is a delivery in a tree's outbox, with what the journal says of its next attempt.
// Attempt-1 attempts have failed.
type OutboxEntry struct {
	Delivery
	Created time.Time `json:"created"`
	// Due is when the next attempt may be made. If it is past, the attempt is still to be made or
	// is under way. Due is zero if the entry is blocked.
	Due time.Time `json:"due,omitzero"`
	// Busy says that the receiver asked for the delivery later. The attempt is made before Due if a
	// message is posted to the session that the delivery is for.
	Busy bool `json:"busy,omitempty"`
	// After is the Key of the delivery that holds this one back: it goes to the same session or
	// chat, and has failed or was asked for later. The attempt is made when that one has arrived or
	// is blocked, and not before Due. Empty: nothing holds it back.
	After string `json:"after,omitempty"`
}

// View returns what the journal of a tree says, for dashboards and tools. It takes the entries of
// the tree with the top-level session root as [session.Journal] yields them from the beginning:
//
//	v, err := spawn.View(root, store.Journal.Read(ctx, root, 0))
//
// View opens nothing, takes nothing over and changes nothing. It needs neither a [Supervisor] nor a
// configuration, and may be called beside a live owner, in another process, or after the last
// owner has died. The store may be one of dirstore.View. For pgstore, which has no view of its own,
// a dashboard opens a Store as one more process of those that share it (Options.Process), under a
// name of its own, and does not run a Supervisor.
//
// The view was true when the last entry was recorded. A live owner may be ahead by what it has
// appended since the entries were read, and by what it is about to append, of which nothing has
// left it. What no entry records is not seen: deltas, whether an attempt to deliver is under way,
// and whether an owner is alive at all. A run that was running when its process died is
// StatusRunning until the next owner opens the tree, which makes it StatusInterrupted. MayRepeat of
// an entry of the outbox that has never been tried may lack what was known before the last
// snapshot.
//
// View costs what opening the tree costs. It decodes every entry since the last snapshot once: a
// thousand, or some for each session that is still in the tree. The whole tree is in memory while
// it runs. It starts no goroutine, and ends with the entries or the first error.
//
// The error is an *[InputError] for a root that is not a top-level session, the error that entries
// yielded, or a *[JournalError]. A journal that ends too early gives the view as of its end, unless
// it ends in the middle of an entry.
func View(root session.Key, entries iter.Seq2[session.Entry, error]) (TreeView, error) {
	if !isTree(root) {
		return TreeView{}, &InputError{
			Field: "root", Reason: fmt.Sprintf("%q is not a top-level session", root),
		}
	}
	v := viewer{root: root}
	if err := v.read(entries); err != nil {
		return TreeView{}, err
	}
	return v.view(), nil
}

// viewer folds a journal into a tree without an owner.
type viewer struct {
	root     session.Key
	options  *tree.Options // nil: none, because folding reads none
	tree     *tree.Tree
	last     session.Seq
	lastTime int64            // of the last fact
	each     func(*tree.Tree) // called after each fact; may be nil
}

// read folds all entries of a journal.
func (v *viewer) read(entries iter.Seq2[session.Entry, error]) error {
	v.resetTree()
	return v.readAfter(entries)
}

// readAfter folds the entries of a journal behind those that v has.
func (v *viewer) readAfter(entries iter.Seq2[session.Entry, error]) error {
	all := func() iter.Seq2[session.Entry, error] { return entries }
	for e, err := range owner.GuardSeq(all) {
		if err != nil {
			return fmt.Errorf("spawn: reading the journal of %q: %w", v.root, err)
		}
		if _, err := v.fold(e, true); err != nil {
			return &JournalError{Root: v.root, Seq: e.Seq, Err: err}
		}
		if v.each != nil {
			v.each(v.tree)
		}
	}
	return nil
}

// resetTree makes the empty tree that the first fact is folded into.
func (v *viewer) resetTree() {
	opt := v.options
	if opt == nil {
		opt = &tree.Options{}
	}
	v.tree = tree.New(v.root, opt)
}

// fold takes the next entry, of which first says whether it begins a batch, and returns its fact.
// It contains panics, because a spoiled journal of another process must not end this one.
func (v *viewer) fold(e session.Entry, first bool) (f *tree.Fact, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = owner.NewPanic(p)
		}
	}()
	f, err = tree.FactOf(e.Payload)
	if err != nil {
		return nil, err
	}
	switch {
	case e.Seq <= v.last:
		return nil, fmt.Errorf("it comes after entry %d", v.last)
	case f.Kind == tree.Snapshot:
		if v.last > 0 { // an owner wrote it during the read: it replaces those before it
			v.resetTree()
		}
	case v.last == 0 && (f.Kind != tree.Opened || f.Num != 1):
		return nil, fmt.Errorf("it is the first one and no beginning, but %v", f.Kind)
	}
	replay := v.tree.Replay
	if !first {
		replay = v.tree.ReplayNext
	}
	if err := replay(f); err != nil {
		return nil, err
	}
	v.last, v.lastTime = e.Seq, f.At
	return f, nil
}

// view describes the tree as it stands.
func (v *viewer) view() TreeView {
	if v.last == 0 {
		return TreeView{Root: v.root}
	}
	t := v.tree
	view := TreeView{
		Root: v.root, SessionID: t.Root().Spec.SessionID, Status: Status(t.Root().State),
		Last: v.last, Time: timeOf(v.lastTime), Epoch: t.Epoch(), Total: t.Total(), Due: v.due(),
		Runs: runsBelow(t, t.Root(), true, nil),
	}
	t.Walk(func(r *tree.Run) {
		if u := unreadOf(r); u != (Unread{Session: r.Key()}) {
			view.Unread = append(view.Unread, u)
		}
	})
	t.Outbox(func(e *tree.Entry) {
		view.Outbox = append(view.Outbox, OutboxEntry{
			Delivery: deliveryOf(t, e), Created: timeOf(e.Created), Due: timeOf(e.Due),
			Busy: e.Busy, After: heldBy(t, e),
		})
	})
	return view
}

// heldBy returns OutboxEntry.After.
func heldBy(t *tree.Tree, e *tree.Entry) string {
	if first := e.HeldBy(); first != nil {
		return deliveryKey(t, first.Ord)
	}
	return ""
}

// due returns TreeView.Due.
func (v *viewer) due() time.Time {
	if v.tree.UnderWay() {
		return timeOf(v.lastTime)
	}
	at := v.tree.WakeOfAll()
	v.tree.Outbox(func(e *tree.Entry) {
		if e.Blocked == 0 && (at == 0 || e.Due < at) {
			at = e.Due
		}
	})
	if at == 0 {
		return time.Time{}
	}
	return timeOf(max(at, v.lastTime))
}

// unreadOf counts what no turn of a session has consumed.
func unreadOf(r *tree.Run) Unread {
	u := Unread{Session: r.Key()}
	after := r.Consumed
	if r.Open != nil {
		after = r.Open.Through
	}
	r.Unread(after, r.NextOrd, func(in tree.Input) {
		switch in.Class {
		case tree.User:
			u.Messages++
		case tree.Control:
			u.Steers++
		case tree.Completion:
			u.Completions++
		case tree.Milestone:
			u.Milestones++
		case tree.Event:
			u.Events++
		default: // the task is in the RunInfo
		}
	})
	return u
}

// Describe returns one line, for people, that says what an entry of a tree's journal records: its
// sequence, its time in UTC, and what happened. An entry that this version does not understand is
// described by its error. Texts that a model or a person has chosen are quoted unless they are
// plain words, and no character of the line breaks it or turns its direction. The text may change
// from version to version: programs must not parse it.
func Describe(e session.Entry) string {
	f, err := tree.FactOf(e.Payload)
	if err != nil {
		return fmt.Sprintf("%d %s", e.Seq, text.Escape(err.Error()))
	}
	at := time.Unix(0, f.At).UTC().Format("2006-01-02T15:04:05.000Z")
	return fmt.Sprintf("%d %s %v", e.Seq, at, f)
}
