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

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/session"
)

// A request is what a person asked for with one message, and everything that comes of it. Its name
// is the ordinal of the message in the top-level session, the id of a run that a program spawned
// outside of any turn, or what a caller that runs the top-level session itself calls it.

// requestCount is what a tree knows of one request.
type requestCount struct {
	byModel uint32 // runs that models have spawned for it
	present int    // runs of it that are in the tree, and one if the top-level session is at it
	charged Budget // to its runs, and to the turns of the top-level session for it
}

// RequestCount is how many runs models have spawned for a request, and what its runs were charged.
type RequestCount struct {
	Request string `json:"request"`
	ByModel uint32 `json:"byModel"`
	Charged Budget `json:"charged,omitzero"`
	// Uncharged says that Charged is zero and not unknown, as it is in the images of an earlier
	// library.
	Uncharged bool `json:"uncharged,omitempty"`
}

// IsKnown reports whether the image says what the request was charged.
func (c *RequestCount) IsKnown() bool {
	return c.Uncharged || c.ByModel == 0 || c.Charged != Budget{}
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
	return cmp.Or(r.Spec.Request(), r.Spec.ID)
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
	n := t.requests.Of(name)
	if n.present += by; n.present <= 0 {
		t.requests.Delete(name)
		return
	}
	t.requests.Set(name, n)
}

// beginsRequest reports whether a run has a request of its own, which goes by the id of the run.
func (r *Run) beginsRequest() bool { return r.begunBy(r.Begin) }

// begunBy reports whether the run of r with a Begin, which may be nil, has a request of its own.
func (r *Run) begunBy(b *Begin) bool {
	if b != nil {
		return b.Request == ""
	}
	return !r.IsRoot() && r.Spec.Request() == ""
}

// keepBegun counts a run that begins a request, once, when there is something else of the request.
// A tree may have a great many such runs which spawn nothing.
func (t *Tree) keepBegun(r *Run) {
	if r.beginsRequest() && !r.keptRequest {
		r.keptRequest = true
		t.keepRequest(r.RunID(), 1)
		if r.Begin == nil { // the charge of a later one is kept from its beginning
			n := t.requests.Of(r.RunID())
			n.charged = n.charged.Add(r.Charged)
			t.requests.Set(r.RunID(), n)
		}
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

// chargedFor returns what a request has been charged that a session, which may be nil, or another
// one that it asks for works for. As long as the first run of a session is all there is of a
// request, that is what the session has been charged.
func (t *Tree) chargedFor(r *Run, request string) Budget {
	if r != nil && r.beginsRequest() && !r.keptRequest && request == requestOf(r) {
		return r.Charged
	}
	return t.requests.Of(request).charged
}

// chargeRequest adds an amount to what a request has been charged for which r works. What is
// charged to a request of which nothing is left is forgotten with it.
func (t *Tree) chargeRequest(r *Run, request string, by Budget) {
	if r.beginsRequest() && !r.keptRequest {
		return // r itself has been charged
	}
	if n, ok := t.requests.Get(request); ok {
		n.charged = n.charged.Add(by)
		t.requests.Set(request, n)
	}
}

// holdRequest counts a run that is at a request which something else has begun.
func (t *Tree) holdRequest(r *Run) {
	if !r.beginsRequest() {
		t.keepRequest(requestOf(r), 1)
	}
	if b := r.Begin; b != nil {
		t.keepBegun(r) // what the session was charged before is not of this request
		if from := t.find(b.From); from != nil {
			t.keepBegun(from)
		}
	}
	if !r.IsRoot() {
		t.keepBegun(r.Parent)
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
		n := t.requests.Of(name)
		n.byModel++
		t.requests.Set(name, n)
	}
}

// readRequest sets the request that the top-level session r is at when a turn reads its inputs
// after one ordinal and up to another: that of the newest message of a person among them, else that
// of the newest completion, unless the turn is at one already.
func (t *Tree) readRequest(r *Run, after, through uint32, begins bool) {
	if name, begun, run := t.nextRequest(r, after, through, begins); name != requestOf(r) {
		t.keepRequest(name, 1)
		t.keepRequest(r.Request, -1)
		r.ownTalk().Request = name
		if begun != nil {
			t.keepBegunOf(begun, run)
		}
	}
}

// nextRequest returns the request to which readRequest would set r, and of which run of which child
// the completion says so; nil: none does.
func (t *Tree) nextRequest(
	r *Run, after, through uint32, begins bool,
) (name string, begun *Run, run string) {
	if !r.IsRoot() {
		return requestOf(r), nil, ""
	}
	person, child, sender := "", "", ""
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Ord <= after || in.Ord > through {
			continue
		}
		switch in.Class {
		case User:
			if in.From.IsValid() && !in.Thread { // another session speaks, and not a person
				sender = sentPrefix + in.From.String()
				continue
			}
			person = strconv.FormatUint(uint64(in.Ord), 10)
		case Event:
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
	if person != "" {
		return person, nil, ""
	}
	return cmp.Or(child, r.Request, sender), begun, run
}

// sentPrefix begins the name of the request of a top-level session to which another session has
// sent a message while it was at none. A message of a session begins none beside that, so that two
// sessions which write to each other come to the limits of a request.
const sentPrefix = "s:"

// requestCounts returns the requests of an image: those for which models have spawned runs, and
// those that were charged something else than the run that begins them.
func (t *Tree) requestCounts() (list []RequestCount) {
	if t.requests.Len() == 0 {
		return nil
	}
	own := make(map[string]Budget)
	t.Walk(func(r *Run) {
		if r.keptRequest && r.Begin == nil {
			own[requestOf(r)] = r.Charged
		}
	})
	all := maps.Collect(t.requests.All())
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := all[name]; n.byModel > 0 || n.charged != own[name] {
			list = append(list, RequestCount{
				Request: name, ByModel: n.byModel, Charged: n.charged,
				Uncharged: n.byModel > 0 && n.charged == Budget{} && own[name] != Budget{},
			})
		}
	}
	return list
}

// holdRequests counts the runs of a session that was read from an image, as holdRequest does.
func (t *Tree) holdRequests(r *Run) {
	t.holdRequest(r)
	for i := range r.Past {
		if !r.begunBy(r.Past[i].Begin) {
			t.keepRequest(r.requestOf(&r.Past[i]), 1)
		}
	}
}

// keepBegunRuns counts those that begin a request of which there is something else, as keepBegun
// does.
func (t *Tree) keepBegunRuns(r *Run) {
	if t.requests.Has(r.RunID()) {
		t.keepBegun(r)
	}
	for i := range r.Past {
		if t.requests.Has(r.requestOf(&r.Past[i])) {
			t.keepBegunOf(r, r.Past[i].name())
		}
	}
}

// restoreRequests counts what an image has of requests. What it does not say of a request that a
// run begins is what the run was charged.
func (t *Tree) restoreRequests(m *Image) {
	for _, c := range m.Requests {
		t.requests.Set(c.Request, requestCount{byModel: c.ByModel})
	}
	t.Walk(t.holdRequests)
	if t.requests.Len() == 0 {
		return
	}
	t.Walk(t.keepBegunRuns)
	for _, c := range m.Requests {
		if n := t.requests.Of(c.Request); c.IsKnown() {
			n.charged = c.Charged
			t.requests.Set(c.Request, n)
		}
	}
	for name, n := range t.requests.All() {
		if n.present == 0 {
			t.requests.Delete(name)
		}
	}
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
	const format = "spawn: the key %q of %q is that of run %s, which was another request: " +
		"its task, an option of it, its conversation, its directory or a byte of its attachments " +
		"differs, and an " +
		"io.Reader that was read once has none left; use a key of its own for each request"
	return fmt.Sprintf(format, e.Key, e.Requester, e.Run)
}

// Is reports whether target is [ErrKeyConflict].
func (e *KeyConflictError) Is(target error) bool { return target == ErrKeyConflict }

// digest returns a digest of everything that the requester asked for, so that the same key can be
// told from the same request. It is not a digest of what policy made of that, which may differ from
// one moment to the next. A change of what is written here would make old requests other ones. The
// Place stands behind the rest, so that a digest without it can still be compared.
func (c *Spawn) digest() string {
	if !c.Thread && !c.Update && c.Place == nil {
		return c.digestWithoutPlace()
	}
	at := cmp.Or(c.Place, new(session.Route))
	sum := sha256.Sum256(fmt.Appendf(nil, "%x,%x,%x,%x", at.Channel, at.Account, at.To, at.Thread))
	return c.digestWithoutPlace() + "-" + hex.EncodeToString(sum[:8])
}

// digestWithoutPlace is digest as earlier libraries made it.
func (c *Spawn) digestWithoutPlace() string {
	q := &c.Request
	h := sha256.New()
	fmt.Fprintf(h, "%x,%x,%t,%x;", string(c.Task), c.Label, c.Announce, c.Variant)
	fmt.Fprintf(h, "%x,%x,%x,%d,%d;", q.Agent, q.Model, q.Thinking, q.Timeout, uint8(q.Announce))
	fmt.Fprintf(h, "%d,%x,%d;", q.Budget.Tokens, q.Budget.Cost, q.Budget.Turns)
	fmt.Fprintf(h, "%t,%x,%t,%t;", q.Tools == nil, q.Tools, q.RequireSandbox, q.Strict)
	if c.Milestones {
		fmt.Fprint(h, "milestones;")
	}
	if c.Update {
		fmt.Fprint(h, "update;")
	}
	if c.Thread || c.Session || c.Delete {
		fmt.Fprintf(h, "thread %t, session %t, delete %t;", c.Thread, c.Session, c.Delete)
	}
	if q.Runtime != "" {
		fmt.Fprintf(h, "runtime %x;", q.Runtime)
	}
	if c.Name != "" {
		fmt.Fprintf(h, "name %x;", c.Name)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// conflict returns an error if a spawn is not the one that ref, which has its key, was made by. A
// run of version 1 has no digest, and every request with its key is the same. Likewise every Place
// is that of a run of a library that did not compare it.
func (c *Spawn) conflict(ref spawnRef) error {
	if c.Files && c.Dry {
		return nil // it does not say yet which request it is
	}
	if ref.Digest == "" || ref.Digest == c.digest() {
		return nil
	}
	if ref.Digest == c.digestWithoutPlace() {
		return nil
	}
	return &KeyConflictError{Requester: c.Parent, Key: c.Key, Run: ref.ID, Session: ref.Run}
}

// spawnedBy returns the run that has the key of a spawn. A run of version 1, which has no digest,
// does not say whether a model asked for it, and is that of either.
func (t *Tree) spawnedBy(c *Spawn) (ref spawnRef, ok bool) {
	if c.Key == "" {
		return ref, false
	}
	k := spawnKey{c.Parent, c.Key, c.Request.ByModel}
	if ref, ok = t.spawned[k]; !ok && k.byModel {
		k.byModel = false
		ref, ok = t.spawned[k]
		ok = ok && ref.Digest == ""
	}
	return ref, ok && (ref.Until == 0 || ref.Until > t.now)
}

// keepOutcome keeps what has become of a run with a spawn key that leaves the tree, for the time
// for which the key is recognised: then the same spawn still gives its outcome. Of a run that a
// model has spawned the key alone is kept, because the model was told of the end. A later attempt
// under the same key has that for itself.
func (t *Tree) keepOutcome(r *Run, at int64) {
	if r.Spec.SpawnKey() == "" || t.spawned[keyOf(r.Spec)].Run != r.key {
		return
	}
	ref := refOf(r.Spec)
	ref.Until = sat.Add(at, int64(KeyWindow))
	if end, ok := r.RunOf(r.Spec.ID); ok && !r.Spec.ByModel {
		more := *r.Spec.more()
		more.Extra = nil
		more.Name = "" // it names what is in the tree
		spec := r.Spec.with(more)
		spec.Task = ""
		end.held, end.keptRequest = 0, false
		ref.spec, ref.end = spec, &end
	}
	few.Put(&t.spawned, keyOf(r.Spec), ref)
}

// Kept returns what is kept of a run that has left the tree, see keepOutcome: its specification
// without the task and the name, and how it has ended. It returns nil if nothing is.
func (t *Tree) Kept(k session.Key) (*Spec, *Past) {
	for _, ref := range t.spawned {
		if ref.Run == k && ref.end != nil {
			return ref.spec, ref.end
		}
	}
	return nil, nil
}

// crashedAbove is why a run is stopped below one whose process is gone.
const crashedAbove = "its requester ended: crashed"

// wasCutShort reports whether the run of a spawn key was cut short, as far as that is known.
func (t *Tree) wasCutShort(ref spawnRef) bool {
	end := ref.end
	if r := t.find(ref.Run); r != nil {
		if of, ok := r.RunOf(ref.ID); ok {
			end = &of
		}
	}
	return end != nil && end.CutShort()
}

// CutShort reports whether a run was interrupted, or stopped because one above it was.
func (p *Past) CutShort() bool {
	return p.State == Interrupted || p.State == Cancelled && p.Quiet && p.Reason == crashedAbove
}

// reindexKey has a key that is forgotten be that of an attempt before that is still in the tree, as
// it is in a tree that is read from a snapshot.
func (t *Tree) reindexKey(k spawnKey) {
	if p := t.find(k.parent); p != nil {
		p.Children(func(c *Run) bool {
			if c.Spec.SpawnKey() != "" && keyOf(c.Spec) == k {
				few.Put(&t.spawned, k, refOf(c.Spec))
			}
			return true
		})
	}
}
