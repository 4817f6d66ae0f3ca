package tree

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// MaxKept is how many bytes a session keeps for its Runner.
const MaxKept = 64 << 10

// A Keep says what a session keeps for its Runner from turn N on, in place of what it kept before.
// Empty: nothing. A turn that was cancelled may still say so: what a foreign agent has begun in it
// is found again.
type Keep struct {
	Run  session.Key
	N    uint32
	Kept Text
}

func (Keep) command() {}

// decideKeep records what a session keeps. What it keeps already is not recorded again.
func (t *Tree) decideKeep(c Keep) (Reply, error) {
	r, err := t.runInTurn(c.Run, c.N)
	switch n := len(c.Kept); {
	case err != nil:
		return Reply{}, err
	case n > MaxKept:
		return Reply{}, &LimitError{
			Field: "state", Size: n, Limit: MaxKept, Unit: "bytes", Path: "spawn.MaxState",
		}
	case r.Kept == c.Kept:
		return Reply{Run: r, Existing: true}, nil
	}
	t.emit(kept(t.now, r, c.Kept))
	return Reply{Run: r}, nil
}

// A Hear says that the turn that gives it is about to read what another session says now, which has
// worked for Senders. The turn works for them, too, from then on.
type Hear struct{ Senders []policy.Sender }

func (Hear) command() {}

// decideHear records for whom the turn of r works that reads what another session says. For whom it
// works already is not recorded again.
func (t *Tree) decideHear(r *Run, c Hear) (Reply, error) {
	if err := t.opt.Limits.checkSenders(c.Senders); err != nil {
		return Reply{}, err
	}
	if slices.Equal(policy.MergeSenders(r.Senders(), c.Senders), r.Senders()) {
		return Reply{Run: r, Existing: true}, nil
	}
	t.emit(heard(t.now, r, c.Senders))
	return Reply{Run: r}, nil
}
