package tree

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Spec is what a run was admitted with. It never changes.
type Spec struct {
	ID        string         `json:"id"`
	SessionID string         `json:"sessionId"`
	Key       session.Key    `json:"key"`
	Parent    session.Key    `json:"parent"`
	SpawnKey  string         `json:"spawnKey,omitempty"`
	Task      Text           `json:"task"`
	Label     string         `json:"label,omitempty"`
	Announce  bool           `json:"announce,omitempty"`
	Extra     []byte         `json:"extra,omitempty"` // the caller's own, such as the context specification
	Route     *session.Route `json:"route,omitempty"` // of what the requester was answering
	Created   int64          `json:"created"`
	*Grant
}

// A Grant is what policy gave a run. Runs that got the same share it; it never changes.
type Grant struct {
	Agent     string       `json:"agent"`
	Role      session.Role `json:"role"`
	Depth     int          `json:"depth"`
	MaxDepth  int          `json:"maxDepth,omitempty"`
	Sandboxed bool         `json:"sandboxed,omitempty"`
	Tools     []string     `json:"tools,omitempty"`
	Delegable []string     `json:"delegable,omitempty"` // what it may hand down
	Asked     string       `json:"asked,omitempty"`     // the model that was requested
	Model     string       `json:"model,omitempty"`
	Thinking  string       `json:"thinking,omitempty"`
	Warnings  []string     `json:"warnings,omitempty"`
	Timeout   int64        `json:"timeout,omitempty"` // nanoseconds, 0: none
	Budget    Budget       `json:"budget,omitzero"`
}

// Authority returns what policy applies today's rules to.
func (g *Grant) Authority() policy.Authority {
	return policy.Authority{
		Agent: g.Agent, Role: g.Role, Depth: g.Depth, Sandboxed: g.Sandboxed, Model: g.Model, Tools: g.Tools, Delegable: g.Delegable,
	}
}

func (g *Grant) equal(h *Grant) bool {
	return g.Agent == h.Agent && g.Role == h.Role && g.Depth == h.Depth && g.MaxDepth == h.MaxDepth &&
		g.Sandboxed == h.Sandboxed && g.Asked == h.Asked && g.Model == h.Model && g.Thinking == h.Thinking &&
		g.Timeout == h.Timeout && g.Budget == h.Budget && slices.Equal(g.Tools, h.Tools) &&
		slices.Equal(g.Delegable, h.Delegable) && slices.Equal(g.Warnings, h.Warnings)
}

// sharedGrant returns g, or the grant of a run beside it if that is the same.
func (r *Run) sharedGrant(g Grant) *Grant {
	if c := r.lastChild; c != nil && c.Spec.Grant.equal(&g) {
		return c.Spec.Grant
	}
	own := new(Grant) // not &g: that would cost the memory each time
	*own = g
	return own
}

// Usage is what was consumed: tokens, and US dollars. Journals written before caches were counted
// have no cacheRead and cacheWrite.
type Usage struct {
	Input      int64   `json:"input,omitempty"`
	Output     int64   `json:"output,omitempty"`
	CacheRead  int64   `json:"cacheRead,omitempty"`
	CacheWrite int64   `json:"cacheWrite,omitempty"`
	Cost       float64 `json:"cost,omitempty"`
}

func (u Usage) add(v Usage) Usage {
	return Usage{
		u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite,
		u.Cost + v.Cost,
	}
}

// A File is an artifact, by reference.
type File struct {
	Name      Text `json:"name"`
	Path      Text `json:"path,omitempty"`
	MediaType Text `json:"mediaType,omitempty"`
}

// A Result is what a turn came back with.
type Result struct {
	Text     Text   `json:"text,omitempty"`
	JSON     Text   `json:"json,omitempty"` // byte for byte, which a json.RawMessage would not be
	Files    []File `json:"files,omitempty"`
	Model    Text   `json:"model,omitempty"`
	Usage    Usage  `json:"usage,omitzero"`
	Fallback Text   `json:"fallback,omitempty"` // what to announce if Text is blank
	Reply    Text   `json:"reply,omitempty"`    // what a top-level session says to people
}

// An Input is something that a session has been told and that a turn will consume.
type Input struct {
	Ord   uint32         `json:"ord"`
	Class Class          `json:"class"`
	At    int64          `json:"at"`
	ID    string         `json:"id,omitempty"`
	Text  Text           `json:"text,omitempty"`
	From  session.Key    `json:"from,omitzero"` // of a completion the child, of a steer who steers
	Route *session.Route `json:"route,omitempty"`
}

// An OpenTurn is the turn that is under way.
type OpenTurn struct {
	N       uint32 `json:"n"`
	Through uint32 `json:"through"` // it consumes the inputs up to this ordinal
	First   uint32 `json:"first"`   // ordinal of the first of them: a retried turn has the same one
	Reserve Budget `json:"reserve,omitzero"`
	Started int64  `json:"started"`
}

// RunState is the folded state of one session: a run, or the top-level session of the tree. Apply
// is its only writer. Everything in it survives a snapshot; everything beside it in Run is derived
// or volatile.
type RunState struct {
	Spec          *Spec          `json:"spec"`
	State         State          `json:"state"`
	Cause         Cause          `json:"cause,omitempty"`
	Reason        Text           `json:"reason,omitempty"`
	Silent        bool           `json:"silent,omitempty"`  // the last answer asked that nothing be announced
	TurnCancelled bool           `json:"halted,omitempty"`  // the turn under way was cancelled
	Quiet         bool           `json:"quiet,omitempty"`   // stopped from within a stopped subtree: nobody is told
	Retry         bool           `json:"retry,omitempty"`   // the next turn repeats one that a crash interrupted
	Open          *OpenTurn      `json:"open,omitempty"`    // nil: no turn is under way
	Turns         uint32         `json:"turns,omitempty"`   // turns started so far
	NextOrd       uint32         `json:"nextOrd,omitempty"` // ordinal of the last input
	Consumed      uint32         `json:"consumed,omitempty"`
	Inbox         []Input        `json:"inbox,omitempty"` // not consumed yet, in order; the task of a run is in its Spec
	Join          *Join          `json:"join,omitempty"`
	Answer        *Result        `json:"answer,omitempty"` // of the last turn that had one
	Usage         Usage          `json:"usage,omitzero"`   // of all turns
	Charged       Budget         `json:"charged,omitzero"` // of this run and everything below it
	Route         *session.Route `json:"route,omitempty"`  // where answers go
	Pos           uint64         `json:"pos,omitempty"`    // committed end of the transcript
	Started       int64          `json:"started,omitempty"`
	Deadline      int64          `json:"deadline,omitempty"`
	Grace         int64          `json:"grace,omitempty"` // when a turn that does not come back is cut
	Ended         int64          `json:"ended,omitempty"`
	Nonce         uint64         `json:"nonce,omitempty"`
	Siblings      uint32         `json:"siblings,omitempty"` // of the requester, active when this one ended
	Spawned       uint32         `json:"spawned,omitempty"`  // children ever
	Steers        []Steered      `json:"steers,omitempty"`   // the last one of each session that steered it a moment ago
}

// Steered is when a session steered another.
type Steered struct {
	From session.Key `json:"from"`
	At   int64       `json:"at"`
}

// lastSteer returns when from steered r last, if that was a moment ago, else 0.
func (r *Run) lastSteer(from session.Key) int64 {
	for _, s := range r.Steers {
		if s.From == from {
			return s.At
		}
	}
	return 0
}

// recordSteer notes a steer and forgets those that no longer hold up another. The slice may be
// shared with an image.
func (r *Run) recordSteer(from session.Key, at int64) {
	list := make([]Steered, 0, len(r.Steers)+1)
	for _, s := range r.Steers {
		if s.From != from && s.At+int64(SteerPause) > at {
			list = append(list, s)
		}
	}
	r.Steers = append(list, Steered{from, at})
}

// A Run is one session of the tree.
type Run struct {
	RunState

	open OpenTurn // what RunState.Open points to

	Parent                   *Run // nil for the top-level session
	firstChild, lastChild    *Run
	prevSibling, nextSibling *Run

	live     int // children that are not terminal
	nUser    int // unread inputs that wake
	nComp    int
	nControl int
	held     bool // its completion waits in an inbox or in the outbox

	// Volatile: what this owner has already asked the world to do.
	touched, asked, slot, cancelled, cascaded, archiving bool
	gone                                                 bool // it has left the tree

	armedAt int64 // the earliest timer that the heap has for it; 0: none
}

// Key returns the session key.
func (r *Run) Key() session.Key { return r.Spec.Key }

// IsRoot reports whether r is the top-level session of the tree.
func (r *Run) IsRoot() bool { return r.Parent == nil }

// Live returns how many children are not terminal.
func (r *Run) Live() int { return r.live }

// Slot reports whether the run holds a slot of the lane.
func (r *Run) Slot() bool { return r.slot }

// Children calls f for each child that is still in the tree, oldest first, until f returns false.
func (r *Run) Children(f func(*Run) bool) {
	for c := r.firstChild; c != nil; {
		following := c.nextSibling
		if !f(c) {
			return
		}
		c = following
	}
}

// Newest calls f for each child that is still in the tree, newest first, until f returns false.
func (r *Run) Newest(f func(*Run) bool) {
	for c := r.lastChild; c != nil && f(c); {
		c = c.prevSibling
	}
}

// Below reports whether r is a or stands below it.
func (r *Run) Below(a *Run) bool {
	for x := r; x != nil; x = x.Parent {
		if x == a {
			return true
		}
	}
	return false
}

func (r *Run) addChild(c *Run) {
	c.Parent, c.prevSibling = r, r.lastChild
	if r.lastChild != nil {
		r.lastChild.nextSibling = c
	} else {
		r.firstChild = c
	}
	r.lastChild = c
}

func (r *Run) removeChild(c *Run) {
	if c.prevSibling != nil {
		c.prevSibling.nextSibling = c.nextSibling
	} else {
		r.firstChild = c.nextSibling
	}
	if c.nextSibling != nil {
		c.nextSibling.prevSibling = c.prevSibling
	} else {
		r.lastChild = c.prevSibling
	}
	c.prevSibling, c.nextSibling = nil, nil
}

// walk calls f for r and everything below it, children before their parents if deepest is set.
func (r *Run) walk(deepest bool, f func(*Run)) {
	if !deepest {
		f(r)
	}
	for c := r.firstChild; c != nil; {
		following := c.nextSibling
		c.walk(deepest, f)
		c = following
	}
	if deepest {
		f(r)
	}
}

// taskUnread reports whether the task, which is input 1 of a run, has not been consumed.
func (r *Run) taskUnread() bool { return r.Parent != nil && r.Consumed == 0 }

// Unread calls f for the inputs after one ordinal and up to another, those of the first classes
// first.
func (r *Run) Unread(after, through uint32, f func(Input)) {
	for class := User; class < classes; class++ {
		if class == Task && r.Parent != nil && after == 0 && through >= 1 {
			f(Input{Ord: 1, Class: Task, At: r.Spec.Created, ID: r.Spec.ID, Text: r.Spec.Task, From: r.Spec.Parent})
		}
		for i := range r.Inbox {
			if in := &r.Inbox[i]; in.Class == class && in.Ord > after && in.Ord <= through {
				f(*in)
			}
		}
	}
}

// recount sets what is derived from the folded state of this run alone.
func (r *Run) recount() {
	r.nUser, r.nComp, r.nControl = 0, 0, 0
	if r.taskUnread() {
		r.nUser++
	}
	through := r.Consumed
	for i := range r.Inbox {
		if in := &r.Inbox[i]; in.Ord > through {
			r.count(in.Class, 1)
		}
	}
}

func (r *Run) count(c Class, by int) {
	switch c {
	case User, Task:
		r.nUser += by
	case Completion:
		r.nComp += by
	case Control:
		r.nControl += by
	}
}
