package spawntest

import (
	"fmt"
	"iter"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// AuditSent checks what trees write to each other, see [spawn.Supervisor.SendOut], over the
// journals of all of them: entries returns that of a root. Of every message that has left the
// outbox of its sender, and was not dismissed, the journal of the receiver has one post, with the
// same text and from the same session. No journal has two posts of one message within the time for
// which an ID is known. What was never blocked is posted in the order in which it was sent.
//
// The journals must be read when nothing is under way. A journal that begins with a snapshot does
// not have what was sent and posted before; so give it [Recorder.History]. The error is
// [session.ErrCorrupt], or that of a journal which cannot be read or which [Audit] refuses.
func AuditSent(
	roots []session.Key, entries func(root session.Key) iter.Seq2[session.Entry, error],
) error {
	there := make(map[session.Key]map[messageName]*posted)
	for _, root := range roots {
		var err error
		if there[root], err = postsOf(entries(root)); err != nil {
			return err
		}
	}
	for _, root := range roots {
		a := newAuditor()
		if _, err := a.inspect(entries(root)); err != nil {
			return err
		}
		last, before := make(map[session.Key]session.Seq), make(map[*posted]bool)
		for _, m := range a.messages {
			m.late = m.late || a.partial // it may have been sent before the snapshot, too
			if fault := m.check(there[m.to], last, before); fault != "" {
				return &violation{
					Run: m.from, Rule: "messages",
					What: fmt.Sprintf("message %q to %q: %s", m.id, m.to, fault),
				}
			}
		}
	}
	return nil
}

// A messageName is what the journal of a receiver has of a message: who sends it, and its id.
type messageName struct {
	from session.Key
	id   string
}

// posted is a message in the journal of its receiver.
type posted struct {
	seq  session.Seq // of the first post
	at   int64       // of the last one
	text tree.Text
	soon bool // it was posted twice within the time for which an ID is known
}

// postsOf returns the messages of other sessions that a journal has, by name.
func postsOf(entries iter.Seq2[session.Entry, error]) (map[messageName]*posted, error) {
	list := make(map[messageName]*posted)
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		f, err := tree.FactOf(e.Payload)
		if err != nil {
			return nil, err
		}
		if f.Kind != tree.Posted || f.Class != tree.User || !f.From().IsValid() {
			continue
		}
		name := messageName{f.From(), f.ID()}
		p := list[name]
		if p == nil {
			p = &posted{seq: e.Seq, text: f.Text, at: f.At - int64(tree.KeyWindow)}
			list[name] = p
		}
		p.soon = p.soon || f.At-p.at < int64(tree.KeyWindow)
		p.at = f.At
	}
	return list, nil
}

// check returns what is wrong with a message, of which list has what its receiver was told. Before
// has the posts that earlier messages of the sender were found in, and last the last entry of them
// for each receiver.
func (m *message) check(
	list map[messageName]*posted, last map[session.Key]session.Seq, before map[*posted]bool,
) string {
	p := list[messageName{m.from, m.id}]
	switch {
	case p == nil && m.arrived:
		return "it has arrived, and is not there"
	case p == nil:
		return ""
	case p.soon:
		return "it was posted twice"
	case p.text != m.text:
		return fmt.Sprintf("it was %q, and is %q there", m.text, p.text)
	case m.late || before[p]:
		return ""
	case p.seq < last[m.to]:
		return "one that was sent later was posted before it"
	}
	last[m.to], before[p] = p.seq, true
	return ""
}
