package tree

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// A request is what a person asked for with one message, and everything that comes of it. Its name
// is the ordinal of the message in the top-level session, the id of a run that a program spawned
// outside of any turn, or what a caller that runs the top-level session itself calls it.

// requestCount is what a tree knows of one request.
type requestCount struct {
	byModel uint32 // runs that models have spawned for it
	present int    // runs of it that are in the tree, and one if the top-level session is at it
}

// RequestCount is how many runs models have spawned for a request, and what its runs were charged.
type RequestCount struct {
	Request string `json:"request"`
	ByModel uint32 `json:"byModel"`
	Charged Budget `json:"charged,omitzero"`
}

// requestOf returns the request that a session is at: for a run that of its spawn, for the
// top-level session that of what its last turn has read.
func requestOf(r *Run) string {
	if r.IsRoot() {
		return r.Request
	}
	of := r.Present()
	return r.requestOf(&of)
}

// requestOf returns the request of a run of r, which is not the top-level session.
func (r *Run) requestOf(run *Past) string {
	if run.Begin != nil {
		return cmp.Or(run.Begin.Request, run.Begin.ID)
	}
	return cmp.Or(r.Spec.Request, r.Spec.ID)
}

// OriginOf returns the Origin of spawns which a session that the caller runs makes in answer to the
// end of a run of r.
func (r *Run) OriginOf(of *Past) string { return r.requestOf(of) }

// originPrefix begins the names of requests that callers have named. No other name begins so.
const originPrefix = "o:"

// requestFor returns the request that a spawn belongs to; empty: the run begins its own.
func (c *Spawn) requestFor(parent *Run) string {
	switch {
	case !parent.IsRoot():
		return requestOf(parent)
	case strings.HasPrefix(c.Origin, originPrefix): // as Run.Origin has named it
		return c.Origin
	case c.Origin != "":
		return originPrefix + c.Origin
	case c.Turn > 0 || c.Request.ByModel:
		return cmp.Or(requestOf(parent), parent.Spec.SessionID)
	}
	return ""
}

// keepRequest counts something that is present of a request, or takes it off with -1. The tree
// forgets a request of which nothing is present.
func (t *Tree) keepRequest(name string, by int) {
	if name == "" {
		return
	}
	n := t.requests[name]
	if n.present += by; n.present <= 0 {
		delete(t.requests, name)
		return
	}
	t.requests[name] = n
}

// beginsRequest reports whether a run has a request of its own, which goes by the id of the run.
func (r *Run) beginsRequest() bool { return r.begunBy(r.Begin) }

// begunBy reports whether the run of r with a Begin, which may be nil, has a request of its own.
func (r *Run) begunBy(b *Begin) bool {
	if b != nil {
		return b.Request == ""
	}
	return !r.IsRoot() && r.Spec.Request == ""
}

// keepBegun counts a run that begins a request, once, when there is something else of the request.
// A tree may have a great many such runs which spawn nothing.
func (t *Tree) keepBegun(r *Run) {
	if r.beginsRequest() && !r.keptRequest {
		r.keptRequest = true
		t.keepRequest(r.RunID(), 1)
	}
}

// keepBegunOf is keepBegun for the run of r with a name, if that is known.
func (t *Tree) keepBegunOf(r *Run, name string) {
	if name == r.runName() {
		t.keepBegun(r)
		return
	}
	if i := r.pastIndex(name); i >= 0 && r.begunBy(r.Past[i].Begin) && !r.Past[i].keptRequest {
		r.Past[i].keptRequest = true
		t.keepRequest(r.requestOf(&r.Past[i]), 1)
	}
}

// holdRequest counts a run that is at a request which something else has begun.
func (t *Tree) holdRequest(r *Run) {
	if !r.beginsRequest() {
		t.keepRequest(requestOf(r), 1)
		if !r.IsRoot() {
			t.keepBegun(r.Parent)
		}
	}
}

// leaveRequest takes off the runs of a session that leaves the tree.
func (t *Tree) leaveRequest(r *Run) {
	of := r.Present()
	t.leaveRequestOf(r, &of)
	for i := range r.Past {
		t.leaveRequestOf(r, &r.Past[i])
	}
}

// leaveRequestOf takes off a run of r that is forgotten.
func (t *Tree) leaveRequestOf(r *Run, run *Past) {
	if !r.begunBy(run.Begin) || run.keptRequest {
		t.keepRequest(r.requestOf(run), -1)
	}
}

// admitRequest counts a run that has been admitted.
func (t *Tree) admitRequest(r *Run) {
	t.holdRequest(r)
	byModel := r.Spec.ByModel
	if r.Begin != nil {
		byModel = r.Begin.ByModel
	}
	if byModel {
		t.keepBegun(r)
		name := requestOf(r)
		n := t.requests[name]
		n.byModel++
		t.requests[name] = n
	}
}

// readRequest sets the request that the top-level session r is at when a turn reads its inputs
// after one ordinal and up to another: that of the newest message of a person among them, else that
// of the newest completion, unless the turn is at one already.
func (t *Tree) readRequest(r *Run, after, through uint32, begins bool) {
	if !r.IsRoot() {
		return
	}
	person, child := "", ""
	var begun *Run
	run := ""
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Ord <= after || in.Ord > through {
			continue
		}
		switch in.Class {
		case User:
			person = strconv.FormatUint(uint64(in.Ord), 10)
		case Completion:
			c := t.find(in.From)
			if c == nil || !begins {
				continue
			}
			if of, ok := c.RunOf(in.RunID); ok {
				child, begun, run = c.requestOf(&of), c, in.RunID
			}
		default: // a top-level session gets no others
		}
	}
	if name := cmp.Or(person, child); name != "" && name != r.Request {
		t.keepRequest(name, 1)
		t.keepRequest(r.Request, -1)
		r.Request = name
		if name == child {
			t.keepBegunOf(begun, run)
		}
	}
}

// requestCounts returns the requests of an image.
func (t *Tree) requestCounts() (list []RequestCount) {
	for _, name := range slices.Sorted(maps.Keys(t.requests)) {
		if n := t.requests[name]; n.byModel > 0 {
			list = append(list, RequestCount{Request: name, ByModel: n.byModel})
		}
	}
	return list
}

// restoreRequests counts what an image has of requests.
func (t *Tree) restoreRequests(m *Image) {
	for _, c := range m.Requests {
		t.requests[c.Request] = requestCount{byModel: c.ByModel}
	}
	t.Walk(func(r *Run) {
		t.holdRequest(r)
		for i := range r.Past {
			if !r.begunBy(r.Past[i].Begin) {
				t.keepRequest(r.requestOf(&r.Past[i]), 1)
			}
		}
	})
	if len(t.requests) == 0 {
		return
	}
	t.Walk(func(r *Run) {
		if _, ok := t.requests[r.RunID()]; ok {
			t.keepBegun(r)
		}
		for i := range r.Past {
			if _, ok := t.requests[r.requestOf(&r.Past[i])]; ok {
				t.keepBegunOf(r, r.Past[i].name())
			}
		}
	})
	maps.DeleteFunc(t.requests, func(_ string, n requestCount) bool { return n.present == 0 })
}

// ErrKeyConflict is what a [*KeyConflictError] is.
var ErrKeyConflict = fmt.Errorf("spawn: the key is that of another request")

// A KeyConflictError refuses a spawn whose key the requester has used for another request.
type KeyConflictError struct {
	Requester session.Key // who spawns
	Key       string      // the spawn key
	Run       string      // the id of the run that has the key
	Session   session.Key // the session key of that run
}

func (e *KeyConflictError) Error() string {
	const format = "spawn: the key %q of %q is that of run %s, which was another request; " +
		"use a key of its own for each request"
	return fmt.Sprintf(format, e.Key, e.Requester, e.Run)
}

// Is reports whether target is [ErrKeyConflict].
func (e *KeyConflictError) Is(target error) bool { return target == ErrKeyConflict }

// digest returns a digest of everything that the requester asked for, so that the same key can be
// told from the same request. It is not a digest of what policy made of that, which may differ from
// one moment to the next. A change of what is written here would make old requests other ones.
func (c *Spawn) digest() string {
	q := &c.Request
	h := sha256.New()
	fmt.Fprintf(h, "%x,%x,%t,%x;", string(c.Task), c.Label, c.Announce, c.Variant)
	fmt.Fprintf(h, "%x,%x,%x,%d,%d;", q.Agent, q.Model, q.Thinking, q.Timeout, uint8(q.Announce))
	fmt.Fprintf(h, "%d,%x,%d;", q.Budget.Tokens, q.Budget.Cost, q.Budget.Turns)
	fmt.Fprintf(h, "%t,%x,%t,%t;", q.Tools == nil, q.Tools, q.RequireSandbox, q.Strict)
	if c.Milestones {
		fmt.Fprint(h, "milestones;")
	}
	if c.Thread || c.Session || c.Delete {
		fmt.Fprintf(h, "thread %t, session %t, delete %t;", c.Thread, c.Session, c.Delete)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// conflict returns an error if a spawn is not the one that ref, which has its key, was made by. A
// run of version 1 has no digest, and every request with its key is the same.
func (c *Spawn) conflict(ref spawnRef) error {
	if ref.Digest == "" || ref.Digest == c.digest() {
		return nil
	}
	return &KeyConflictError{Requester: c.Parent, Key: c.Key, Run: ref.ID, Session: ref.Run}
}

// spawnedBy returns the run that has the key of a spawn. A run of version 1, which has no digest,
// does not say whether a model asked for it, and is that of either.
func (t *Tree) spawnedBy(c *Spawn) (ref spawnRef, ok bool) {
	k := spawnKey{c.Parent, c.Key, c.Request.ByModel}
	if ref, ok = t.spawned[k]; !ok && k.byModel {
		k.byModel = false
		ref, ok = t.spawned[k]
		ok = ok && ref.Digest == ""
	}
	return ref, ok
}
