package tree

import (
	"errors"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Deposit is a session that is to be admitted, whose files are being put where they will be its
// own. It is on record before the first byte is, so that a crash at any moment leaves nothing that
// no tree knows of.
//
// It ends when the session is admitted. Else it is given up, by the caller that began it or by the
// next owner, and ends when its files are removed.
type Deposit struct {
	Run session.Key `json:"run"`
	At  int64       `json:"at"`
}

// ErrNoDeposit refuses a spawn whose files are not where they are to be: another owner has given
// its deposit up, or none was begun.
var ErrNoDeposit = errors.New("spawn: the files of the run are gone")

// A depositWork is what this owner does for a deposit. The zero depositWork is that of one which an
// owner before has begun.
type depositWork struct {
	own      bool // this owner has begun it
	held     bool // the caller that began it may still spawn
	dropping bool // the Executor removes its files
	retry    archiveRetry
}

// An Abandon says that the caller that began a deposit does not spawn any more. It changes nothing
// once the session has been admitted. The caller need not know whether there is such a deposit.
type Abandon struct{ ID string } // of the run

// A DropDone says that the files of a deposit are removed, or could not be.
type DropDone struct {
	Run    session.Key
	Failed bool
}

func (Abandon) command()  {}
func (DropDone) command() {}

// deposit returns the index of the deposit of a session, or -1.
func (t *Tree) deposit(k session.Key) int {
	return slices.IndexFunc(t.root.Deposits, func(d Deposit) bool { return d.Run == k })
}

// holdsDeposit reports whether a session may be admitted with the files that were put for it.
func (t *Tree) holdsDeposit(k session.Key) bool {
	return t.deposit(k) >= 0 && t.deposits[k].held
}

// Depositing reports whether a caller puts files for a session that it is about to spawn.
func (t *Tree) Depositing() bool {
	return slices.ContainsFunc(t.root.Deposits, func(d Deposit) bool {
		return t.deposits[d.Run].held
	})
}

// beginDeposit records that files for the session of a spawn that may be admitted are put.
func (t *Tree) beginDeposit(spec *Spec) (Reply, error) {
	if t.deposit(spec.Key) >= 0 {
		return Reply{}, &InputError{"id", text.Quote(spec.ID) + " is the id of another run"}
	}
	t.setDeposit(spec.Key, depositWork{own: true, held: true})
	t.emit(depositBegun(t.now, spec))
	return Reply{Ref: spec.Key, ID: spec.ID}, nil
}

func (t *Tree) setDeposit(k session.Key, w depositWork) {
	if t.deposits == nil {
		t.deposits = make(map[session.Key]depositWork)
	}
	t.deposits[k] = w
}

// decideOver hears of the end of what was begun outside.
func (t *Tree) decideOver(c Command) {
	switch c := c.(type) {
	case ArchiveDone:
		t.decideArchiveDone(c)
	case Abandon:
		t.decideAbandon(c)
	case DropDone:
		t.decideDropDone(c)
	}
}

// decideAbandon has settle remove the files of a deposit that the caller no longer needs.
func (t *Tree) decideAbandon(c Abandon) {
	for _, d := range t.root.Deposits {
		if w := t.deposits[d.Run]; w.held && d.Run.ID() == c.ID {
			w.held = false
			t.setDeposit(d.Run, w)
			t.touch(t.root)
		}
	}
}

// settleDeposits has the files of deposits removed that no caller holds.
func (t *Tree) settleDeposits() {
	for _, d := range t.root.Deposits {
		w := t.deposits[d.Run]
		if w.held || w.dropping || w.retry.at > t.now {
			continue
		}
		w.dropping = true
		t.setDeposit(d.Run, w)
		t.archiving++
		t.effect(Effect{
			Kind: EffectDrop, Run: t.root, Deposit: &DroppedDeposit{d, w.own},
		})
	}
}

// wakeOfDeposits returns when the files of a deposit are to be removed, in Unix nanoseconds; 0 is
// never.
func (t *Tree) wakeOfDeposits() (at int64) {
	for _, d := range t.root.Deposits {
		if w := t.deposits[d.Run]; !w.held && !w.dropping {
			at = earlier(at, max(w.retry.at, 1))
		}
	}
	return at
}

// decideDropDone forgets a deposit whose files are removed. What has failed is tried again, as an
// archive is.
func (t *Tree) decideDropDone(c DropDone) {
	w := t.deposits[c.Run]
	if !w.dropping || t.deposit(c.Run) < 0 {
		return
	}
	if !c.Failed {
		t.emit(depositDropped(t.now, c.Run))
		return
	}
	w.dropping, w.retry = false, w.retry.next(t.now)
	t.archiving--
	t.setDeposit(c.Run, w)
	t.armTimer(t.root)
}

func (t *Tree) applyDepositBegun(f *Fact) error {
	switch {
	case !f.Run.IsSubagent() || t.find(f.Run) != nil:
		return &CorruptError{f.Kind, f.Run, "it is in the tree, or cannot be"}
	case t.deposit(f.Run) >= 0:
		return &CorruptError{f.Kind, f.Run, "it has begun before"}
	}
	t.root.ownRare().Deposits = append(slices.Clip(t.root.Deposits), Deposit{f.Run, f.At})
	t.touch(t.root)
	return nil
}

func (t *Tree) applyDepositDropped(f *Fact) error {
	if t.deposit(f.Run) < 0 {
		return &CorruptError{f.Kind, f.Run, "nothing was put for it"}
	}
	t.endDeposit(f.Run)
	return nil
}

// endDeposit forgets the deposit of a session, if there is one.
func (t *Tree) endDeposit(k session.Key) {
	i := t.deposit(k)
	if i < 0 {
		return
	}
	if t.deposits[k].dropping {
		t.archiving--
	}
	delete(t.deposits, k)
	// A new list: an image may share the old one.
	rest := slices.Delete(slices.Clone(t.root.Deposits), i, i+1)
	if len(rest) == 0 {
		rest = nil
	}
	t.root.ownRare().Deposits = rest
	t.armTimer(t.root)
}
