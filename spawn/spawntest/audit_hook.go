package spawntest

import (
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// tellHook puts the end of a run into the outbox, for a hook.
func (a *auditor) tellHook(r *run, f *tree.Fact) {
	if f.Flags&tree.FlagHook == 0 {
		return
	}
	a.out++
	a.outbox[a.out] = &parcel{hook: r.end()}
}

// archivedUntold checks that a hook has been told of all ends of a session that is archived, or
// that a person has given it up.
func (a *auditor) archivedUntold(r *run) {
	for ord, p := range a.outbox {
		if p.hook != nil && p.hook.of == r {
			a.fail(r, "hooks", "it is archived, and the entry %d of the outbox has its end", ord)
		}
	}
}
