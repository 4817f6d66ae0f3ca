package spawntest

import "github.com/offshoot-sdk/offshoot/spawn/internal/tree"

// eventLeaves adds an event for a session that the caller runs to the outbox.
func (a *auditor) eventLeaves(r *run, f *tree.Fact) {
	if f.Class != tree.Event || f.Ord != 0 {
		a.fail(r, "inputs", "a post of class %v leaves through the outbox", f.Class)
	}
	a.toldOnce(r, f)
	a.out++
	a.outbox[a.out] = &parcel{event: &f.ID}
}

// eventComesBack puts an event that was in the outbox into the inbox of the top-level session.
func (a *auditor) eventComesBack(p *parcel) {
	a.root.next++
	a.root.inbox = append(a.root.inbox, input{
		ord: a.root.next, class: tree.Event, id: *p.event,
	})
}
