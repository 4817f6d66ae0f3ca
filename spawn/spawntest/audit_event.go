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

// update adds the end of a run that people are told of to the outbox: of the first run of a session
// that was spawned so, unless it was stopped with its requester or chose silence.
func (a *auditor) update(r *run, f *tree.Fact) {
	within := r.quiet || r.parent.cause == tree.Stopped
	silent := f.State == tree.OK && (r.silent || r.step.silent)
	switch told := f.N > 0; {
	case told && (!r.updates() || within || silent):
		a.fail(r, "announcements", "people are told of its end and should not be")
	case told && r.parent != a.root:
		a.fail(r, "announcements", "people are told of the end of what a sub-agent has spawned")
	case !told:
		return
	}
	child := r.end()
	a.move(child, nowhere, inOutbox)
	a.out++
	a.outbox[a.out] = &parcel{child: child}
}
