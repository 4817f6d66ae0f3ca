package tree

// The end of a run may be told to a hook of the program as well, whatever its requester is told.
// Such an entry of the outbox has a destination of its own, so that neither waits for the other.
// Until it has arrived or is dismissed, its run stays in the tree.

// tellHook adds the end of the present run of r to the outbox, for the hook.
func (t *Tree) tellHook(r *Run, f *Fact) {
	e := &Entry{
		Run: r.Key(), RunID: r.runName(), To: t.requester(r).Key(), Hook: true,
		Created: f.At, Due: f.At,
	}
	t.addEntry(e)
	t.holdEntry(e, 1)
}

// holdEntry counts an entry of the outbox that names a run, or takes it off with -1. One for a hook
// holds the archive of the run alone: its conversation is unbound when its end has arrived where it
// was asked for.
func (t *Tree) holdEntry(e *Entry, by int32) {
	r := t.find(e.Run)
	if r == nil || e.Reply || e.Event || e.Sends {
		return
	}
	if !e.Hook || e.RunID != r.runName() {
		t.hold(r, e.RunID, by)
		return
	}
	if r.hooks += by; by < 0 {
		t.armTimer(r)
		t.touch(r)
	}
}
