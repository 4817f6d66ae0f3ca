package spawntest

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// completion is the end of one run of a session, from its beginning on.
type completion struct {
	of    *run
	id    string // of the run, as inputs and entries name it; empty: the first one
	where place

	request string // of the run
}

// session returns whose completion it is, for a violation; nil for nil.
func (c *completion) session() *run {
	if c == nil {
		return nil
	}
	return c.of
}

// runID returns the id of the present run.
func (r *run) runID() string {
	if r.begin != nil {
		return r.begin.ID
	}
	return r.spec.ID
}

// completionOf returns the completion of the run with a name.
func (r *run) completionOf(name string) *completion {
	for _, c := range r.ends {
		if c.id == name {
			return c
		}
	}
	return nil
}

// begins adds the completion of a run that begins.
func (r *run) begins(name string) {
	r.ends = append(r.ends, &completion{of: r, id: name, request: r.request()})
}

// end returns the completion of the present run.
func (r *run) end() *completion { return r.ends[len(r.ends)-1] }

// announced reports whether the end of the present run is to be told.
func (r *run) announced() bool {
	if r.begin != nil {
		return r.begin.Announce || r.announce
	}
	return r.spec.Announce || r.announce
}

// requester returns the session that is told of the end of the present run: the one that asked for
// it, if that is above, else the parent; and the next one above that has not ended.
func (a *auditor) requester(r *run) *run {
	to := r.parent
	if r.begin != nil && r.begin.From.IsValid() {
		for x := r.parent; x != nil; x = x.parent {
			if x.spec.Key == r.begin.From {
				to = x
			}
		}
	}
	for to.parent != nil && to.state.Terminal() {
		to = to.parent
	}
	return to
}

// restarted begins another run of a session.
func (a *auditor) restarted(r *run, f *tree.Fact) {
	b := f.Begin()
	switch {
	case r.parent == nil || !r.state.Terminal():
		a.fail(r, "runs", "it begins the run %q while it is %v", b.ID, r.state)
		return
	case r.turns == 0:
		a.fail(r, "runs", "it begins another run and has never had a turn")
	case b.ID == "" || b.ID == r.spec.ID || r.completionOf(b.ID) != nil:
		a.fail(r, "runs", "it has had the run %q", b.ID)
	case f.Ord != r.next+1 || f.Ord != b.Ord:
		a.fail(r, "ordinals", "input %d after %d", f.Ord, r.next)
	case b.Thread != (f.Flags&tree.FlagThread != 0) || b.Created != f.At:
		a.fail(r, "runs", "the run %q and its first input differ", b.ID)
	}
	for x := r.parent; x != nil; x = x.parent {
		if x.state.Terminal() {
			a.fail(r, "runs below what has ended", "it begins a run below %q, which is %v",
				x.spec.Key, x.state)
		} else if x.cause != tree.NoCause {
			a.fail(r, "admission", "it begins a run below %q, which is to end: %v", x.spec.Key,
				x.cause)
		}
	}
	a.keepsPeople(r, f)
	r.worksFor(f.Senders())
	a.sent(f)
	if b.ByModel {
		a.requests[requestOf(b.Request, b.ID)]++
	}
	if r.consumed > 0 {
		r.consumed = f.Ord - 1
	}
	r.begin, r.state, r.cause, r.quiet, r.silent = b, tree.Queued, tree.NoCause, false, false
	r.next, r.crashes, r.aside, r.said, r.reported = f.Ord, 0, 0, nil, 0
	r.started, r.announce, r.answer, r.step = false, false, answer{}, step{}
	r.inbox = []input{a.message(r, f)}
	r.begins(b.ID)
	a.total++
	a.report.Runs++
}

// sent notes that the turn under way of a session has sent a message.
func (a *auditor) sent(f *tree.Fact) {
	if from := a.runs[f.From()]; from != nil && from.turn != nil && f.Flags&tree.FlagThread == 0 {
		from.turn.worked = "a message of its own"
	}
}

// requestOf returns the name of the request of a run with an id.
func requestOf(request, id string) string {
	if request != "" {
		return request
	}
	return id
}

// archivedHeld checks that no completion of a session that is archived is still to be read.
func (a *auditor) archivedHeld(r *run) {
	for _, c := range r.ends {
		if c.where == inInbox || c.where == inOutbox {
			a.fail(r, "archive", "it is archived while its completion is %s", placeNames[c.where])
		}
	}
}

// alive returns how many of the runs that a join names are.
func (r *run) alive(j *tree.Join) (n uint32) {
	for k, c := range r.children {
		if c.state.Terminal() {
			continue
		}
		if len(j.Keys) == 0 || slices.ContainsFunc(namesOf(j, k), func(name string) bool {
			return name == c.end().id
		}) {
			n++
		}
	}
	return n
}

// namesOf returns the names of the runs of a child that a join names.
func namesOf(j *tree.Join, k session.Key) (names []string) {
	for i, key := range j.Keys {
		switch {
		case key != k:
		case i < len(j.Runs):
			names = append(names, j.Runs[i])
		default:
			names = append(names, "")
		}
	}
	return names
}
