package tree

// Bulky reports whether the log is so much longer than a snapshot would be that a snapshot is worth
// writing: it has many more facts, or much more text.
//
// A key or an id that a snapshot keeps only because of KeyWindow counts as one fact, not as four: a
// chat adds one such id with every three or four facts, and only a snapshot forgets them.
func (t *Tree) Bulky() bool {
	return t.sinceSnapshot > 1000 &&
		t.sinceSnapshot > 4*(t.runs.Len()+len(t.outbox.entries))+len(t.spawned)+t.posts.Len() ||
		t.wordy()
}

// maxText is how many bytes of text a log may have before a snapshot is thought of. A message may
// have a million, and a chat few facts.
const maxText = 8 << 20

// wordy reports whether the log has much more text than a snapshot would have. To find that out, it
// looks at each session. It does so again when there is twice as much text, or when a good part of
// it was read since, which costs little for each message.
func (t *Tree) wordy() bool {
	if t.textSince < max(maxText, 2*t.textSeen) {
		return false
	}
	if t.textSince > 4*t.text() {
		return true
	}
	t.textSeen = t.textSince
	return false
}

// forgetText notes that a snapshot would have less text than before.
func (t *Tree) forgetText(n int) { t.textSeen = max(0, t.textSeen-2*n) }

// textOf returns how many bytes of text a fact has, as far as texts can be long.
func textOf(f *Fact) int {
	n := len(f.Text) + f.Answer.text()
	if f.Spec != nil {
		n += len(f.Spec.Task)
	}
	return n
}

func (r *Result) text() int {
	if r == nil {
		return 0
	}
	return len(r.Text) + len(r.JSON) + len(r.Fallback) + len(r.Reply)
}

// text returns how many bytes of text a snapshot would have, as far as texts can be long.
func (t *Tree) text() (n int) {
	for _, r := range t.runs.All() {
		n += len(r.Spec.Task) + r.Answer.text()
		for i := range r.Inbox {
			n += len(r.Inbox[i].Text)
		}
	}
	for i := range t.outbox.entries {
		n += len(t.outbox.entries[i].Text)
	}
	return n
}
