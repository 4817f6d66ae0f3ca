package tree

import "github.com/offshoot-sdk/offshoot/session"

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
