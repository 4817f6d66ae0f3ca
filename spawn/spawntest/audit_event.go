package spawntest

import (
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// eventLeaves adds an event for a session that the caller runs to the outbox.
func (a *auditor) eventLeaves(r *run, f *tree.Fact) {
	if f.Class != tree.Event || f.Ord != 0 {
		a.fail(r, "inputs", "a post of class %v leaves through the outbox", f.Class)
	}
	a.toldOnce(r, f)
	a.out++
	id := f.ID()
	a.outbox[a.out] = &parcel{event: &id}
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

// A message is one to the top-level session of another tree.
type message struct {
	from, to session.Key
	id       string
	text     tree.Text
	late     bool // it was blocked, so that others may have overtaken it
	arrived  bool
}

// is reports whether an entry of the outbox has the message m, which is nil for other entries.
func (m *message) is(e tree.Entry) bool {
	if m == nil {
		return !e.Sends
	}
	return e.Sends && m.to == e.To && m.id == e.RunID && m.text == e.Text
}

// writes adds a message to another tree to the outbox.
func (a *auditor) writes(r *run, f *tree.Fact) {
	if f.N > 0 && (r.turn == nil || r.turn.n != f.N) {
		a.fail(r, "one turn at a time", "turn %d sends, and is not under way", f.N)
		return
	}
	m := &message{from: f.Run, to: f.From(), id: f.ID(), text: f.Text}
	switch {
	case m.id == "" || !m.to.IsValid() || m.to.IsSubagent() || m.to == a.root.spec.Key:
		a.fail(r, "messages", "message %q goes to %q", m.id, m.to)
	case f.N > 0 && (r.turn.compact || r.turn.step):
		a.fail(r, "messages", "turn %d compacts or announces, and sends", f.N)
	}
	for ord, p := range a.outbox {
		if p.message != nil && p.message.to == m.to && p.message.id == m.id {
			a.fail(r, "messages", "message %q is in the outbox, as entry %d", m.id, ord)
		}
	}
	if f.N > 0 {
		r.turn.worked = f.Kind.String()
	}
	a.out++
	a.outbox[a.out] = &parcel{message: m}
	a.messages = append(a.messages, m)
}
