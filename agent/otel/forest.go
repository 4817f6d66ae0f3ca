package otel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"go.opentelemetry.io/otel/trace"
)

// maxTrees is how many trees a forest remembers; of more, those are forgotten that were still the
// longest. They begin anew with a snapshot.
const maxTrees = 10_000

// A kind is what a span is of.
type kind uint8

const (
	kindTree kind = iota + 1
	kindRun
	kindTurn
	kindCall
	kindModel
)

// A span is one that has ended.
type span struct {
	kind       kind
	root       session.Key
	id, parent trace.SpanID // parent is zero for that of a tree
	link       trace.SpanID // the turn that has spawned the run; zero: not known
	start, end time.Time
	guessed    bool // start is when this process has first seen it
	cut        bool // end is when what follows has begun: a process was killed before it
	status     agent.Status
	event      agent.TreeEvent // with which it has ended
	task       string          // or the arguments of a call
	reason     string          // why the call of a model failed; else the status says it
	ran        string          // the model that really ran
}

// A forest is the spans that are open, by tree. It is changed by one goroutine. It is saved as
// JSON.
type forest struct {
	Trees map[string]*grove `json:"trees"` // by the text of the top-level session's key
	// Since is from when on everything is to be exported of a tree that is not among Trees: when
	// the State was first used, or later, if trees were forgotten. Zero: there is no State.
	Since time.Time `json:"since,omitzero"`
	// Running says that a process has not ended yet, or was killed.
	Running bool `json:"running,omitempty"`
}

// A grove is the open spans of one tree.
type grove struct {
	Cursor   agent.Cursor          `json:"cursor,omitzero"`
	At       time.Time             `json:"at"`
	Sessions map[string]*openState `json:"sessions,omitempty"` // by key
	Told     bool                  `json:"told,omitempty"`     // the span of the tree is made
	Skip     time.Time             `json:"skip,omitzero"`      // what ended before is not exported

	root  session.Key
	held  *agent.TreeEvent    // the end of a turn; not saved, since Cursor is before it
	calls map[string]openCall // live, and so not saved
}

// An openState is a session with a run that has not ended, or the top-level one.
type openState struct {
	Run     agent.RunID `json:"run,omitempty"`
	Parent  string      `json:"parent,omitempty"` // the span of the run that it belongs to
	Link    string      `json:"link,omitempty"`   // the span of the turn that has spawned it
	Start   time.Time   `json:"start"`
	Guessed bool        `json:"guessed,omitempty"`
	Turn    int         `json:"turn,omitempty"` // under way; 0: none is
	TurnAt  time.Time   `json:"turnAt,omitzero"`

	task string // not saved: it is content
}

type openCall struct {
	start  time.Time
	parent trace.SpanID
	id     trace.SpanID
	args   string
}

// check returns an error unless the cursors are those of the trees that they stand with.
func (f *forest) check() error {
	for key, g := range f.Trees {
		if g == nil || !g.Cursor.IsZero() && g.Cursor.Root().String() != key {
			return fmt.Errorf("what it has of %q is not of that tree", key)
		}
	}
	return nil
}

// cursors returns where the streams of all trees go on.
func (f *forest) cursors() []agent.Cursor {
	var list []agent.Cursor
	for _, key := range slices.Sorted(maps.Keys(f.Trees)) {
		if g := f.Trees[key]; !g.Cursor.IsZero() {
			list = append(list, g.Cursor)
		}
	}
	return list
}

// active is how many runs of the tree have not ended.
func (g *grove) active() int {
	n := 0
	for _, s := range g.Sessions {
		if s.Run != "" {
			n++
		}
	}
	return n
}

// forget makes room for one more tree: it drops a tenth of maxTrees, those that were still the
// longest.
func (f *forest) forget() {
	if len(f.Trees) < maxTrees {
		return
	}
	keys := slices.SortedFunc(maps.Keys(f.Trees), func(a, b string) int {
		return cmp.Or(f.Trees[a].At.Compare(f.Trees[b].At), cmp.Compare(a, b))
	})
	for _, key := range keys[:maxTrees/10] {
		if at := f.Trees[key].At; !f.Since.IsZero() && !at.Before(f.Since) {
			f.Since = at.Add(1) // what it did before is not to be exported again
		}
		delete(f.Trees, key)
	}
}

// find takes a tree that is on record and was active since the state was first used. One that is
// not known is read from its beginning.
func (f *forest) find(root session.Key, active time.Time) {
	if f.Trees[root.String()] != nil || active.Before(f.Since) {
		return
	}
	g := f.grove(root)
	g.Cursor, g.At, g.Skip = beginning(root), active, f.Since
}

// beginning returns the Cursor before the first event of a tree, which is that of the snapshot of a
// tree that is new.
func beginning(root session.Key) (c agent.Cursor) {
	_ = c.UnmarshalText([]byte("0-00000000@" + root.String())) // zero for what is not a tree
	return c
}

// apply takes an event, and returns the spans that have ended with it. What is durable always gives
// the same spans. The root is that of the event's tree.
func (f *forest) apply(root session.Key, e agent.TreeEvent) []span {
	g := f.grove(root)
	done := g.release(&e)
	if e.Kind == agent.EventTurnEnded && e.Run != "" && e.Error == "" {
		g.held = &e
		return done
	}
	return append(done, g.take(e)...)
}

// release takes the held end of a turn. If the turn was the last of its run, the next event of the
// tree says how the run ends, and so the turn. With nil it ended well.
func (g *grove) release(next *agent.TreeEvent) []span {
	if g.held == nil {
		return nil
	}
	e := *g.held
	g.held, e.Status = nil, agent.StatusOK
	if next != nil && next.Run == e.Run && next.Status.Terminal() &&
		(next.Kind == agent.EventStopping || next.Kind == agent.EventEnded) {
		e.Status = next.Status
	}
	return g.take(e)
}

// settle takes what is held in any tree, when the stream has ended.
func (f *forest) settle() []span {
	var done []span
	for _, key := range slices.Sorted(maps.Keys(f.Trees)) {
		done = append(done, f.Trees[key].release(nil)...)
	}
	return done
}

// take is apply without holding anything back.
func (g *grove) take(e agent.TreeEvent) []span {
	g.At = e.Time
	if e.Cursor.IsZero() {
		return g.change(e)
	}
	var done []span
	g.Cursor = e.Cursor
	if !g.Told && e.State == nil && !e.Time.Before(g.Skip) {
		g.Told = true
		first := agent.TreeEvent{Session: g.root, Time: e.Time}
		if e.Session == g.root {
			first.Agent = e.Agent
		}
		done = append(done, g.tree(first))
	}
	return slices.DeleteFunc(append(done, g.change(e)...), func(s span) bool {
		return s.end.Before(g.Skip)
	})
}

// change takes what an event says of the sessions of the tree.
func (g *grove) change(e agent.TreeEvent) []span {
	switch e.Kind {
	case agent.EventSnapshot, agent.EventGap:
		return g.snapshot(e)
	case agent.EventAdmitted, agent.EventRestarted:
		return g.begin(e)
	case agent.EventTurn:
		done := g.cutTurn(e, g.session(e))
		s := g.session(e)
		s.Turn, s.TurnAt = e.Turn, e.Time
		return done
	case agent.EventTurnEnded, agent.EventCompacted:
		return g.endTurn(e)
	case agent.EventEnded:
		return g.endRun(e)
	case agent.EventArchived:
		if e.Run != "" {
			delete(g.Sessions, e.Session.String())
		}
	case agent.EventTool:
		g.beginCall(e)
	case agent.EventToolEnded:
		return g.endCall(e)
	default:
	}
	return nil
}

// grove returns the tree of a top-level session.
func (f *forest) grove(root session.Key) *grove {
	if f.Trees == nil {
		f.Trees = map[string]*grove{}
	}
	key := root.String()
	g := f.Trees[key]
	if g == nil {
		f.forget()
		g = &grove{}
		f.Trees[key] = g
	}
	g.root = root
	if g.Sessions == nil {
		g.Sessions = map[string]*openState{}
	}
	if g.calls == nil {
		g.calls = map[string]openCall{}
	}
	return g
}

// session returns the state of an event's session, which begins here if it is not known.
func (g *grove) session(e agent.TreeEvent) *openState {
	key := e.Session.String()
	s := g.Sessions[key]
	if s == nil || s.Run != e.Run {
		s = &openState{
			Run: e.Run, Start: e.Time, Guessed: e.Run != "", Parent: g.parent(e.Parent).String(),
		}
		g.Sessions[key] = s
	}
	return s
}

// parent returns the span of the present run of a session, for what it has spawned.
func (g *grove) parent(key session.Key) trace.SpanID {
	if s := g.Sessions[key.String()]; s != nil {
		return runSpan(g.root, s.Run)
	}
	return treeSpan(g.root)
}

// begin takes the beginning of a run.
func (g *grove) begin(e agent.TreeEvent) []span {
	if e.Run == "" {
		return nil
	}
	s := &openState{Run: e.Run, Start: e.Time, Parent: g.parent(e.Parent).String(), task: e.Text}
	if p := g.Sessions[e.Parent.String()]; p != nil && p.Turn > 0 {
		s.Link = turnSpan(e.Parent, p.Turn).String()
	}
	g.Sessions[e.Session.String()] = s
	return nil
}

// turnSpan is the span of a turn.
func turnSpan(key session.Key, turn int) trace.SpanID {
	return spanOf("turn", key.String(), fmt.Sprint(turn))
}

// endTurn takes the end of a turn.
func (g *grove) endTurn(e agent.TreeEvent) []span {
	s := g.session(e)
	start, guessed := s.TurnAt, false
	if s.Turn != e.Turn || start.IsZero() {
		start, guessed = e.Time, true
	}
	s.Turn, s.TurnAt = 0, time.Time{}
	maps.DeleteFunc(g.calls, func(_ string, c openCall) bool { // whose end was not seen
		return c.parent == turnSpan(e.Session, e.Turn)
	})
	status := agent.StatusOK
	switch {
	case e.Crashed:
		status = agent.StatusInterrupted
	case e.Error != "":
		status = agent.StatusFailed
	case e.Run != "" && e.Status.Terminal():
		status = e.Status
	}
	return []span{{
		kind: kindTurn, root: g.root, id: turnSpan(e.Session, e.Turn),
		parent: runSpan(g.root, e.Run), start: start, end: e.Time, guessed: guessed,
		status: status, event: e, cut: status == agent.StatusInterrupted,
	}}
}

// cutTurn ends a turn that is still open when something follows that cannot happen during one: a
// crash has cut it off.
func (g *grove) cutTurn(e agent.TreeEvent, s *openState) []span {
	if s.Turn == 0 || e.Kind == agent.EventTurn && s.Turn == e.Turn {
		return nil
	}
	cut := e
	cut.Turn, cut.Usage, cut.Text, cut.Error = s.Turn, session.Usage{}, "", ""
	done := span{
		kind: kindTurn, root: g.root, id: turnSpan(e.Session, s.Turn),
		parent: runSpan(g.root, s.Run), start: s.TurnAt, end: e.Time,
		status: agent.StatusInterrupted, event: cut, cut: true,
	}
	s.Turn, s.TurnAt = 0, time.Time{}
	return []span{done}
}

// endRun takes the end of a run.
func (g *grove) endRun(e agent.TreeEvent) []span {
	if e.Run == "" {
		return nil
	}
	s := g.session(e)
	done := g.cutTurn(e, s)
	delete(g.Sessions, e.Session.String())
	return append(done, span{
		kind: kindRun, root: g.root, id: runSpan(g.root, e.Run), parent: parsed(s.Parent),
		link: parsed(s.Link), start: s.Start, end: e.Time, guessed: s.Guessed, status: e.Status,
		event: e, task: s.task,
	})
}

func parsed(hex string) trace.SpanID {
	id, err := trace.SpanIDFromHex(hex)
	if err != nil {
		return trace.SpanID{}
	}
	return id
}

// snapshot takes what a tree is like: runs that are not known begin here. The span of a tree that
// is not known is made here, because a top-level session has no end. That of a new tree is made
// with its first event, whose time the journal has: it is the same if that is read again.
func (g *grove) snapshot(e agent.TreeEvent) []span {
	var live []string
	for i := range e.State.Sessions { // parents come before their children
		s := &e.State.Sessions[i]
		if s.Run == "" || s.Status.Terminal() {
			continue
		}
		key := s.Session.String()
		live = append(live, key)
		if known := g.Sessions[key]; known == nil || known.Run != s.Run {
			g.Sessions[key] = &openState{
				Run: s.Run, Start: e.Time, Guessed: true, Parent: g.parent(s.Parent).String(),
			}
		}
	}
	for key, s := range g.Sessions {
		if s.Run != "" && !slices.Contains(live, key) && e.State.Omitted == 0 {
			delete(g.Sessions, key) // its end is among the events that are gone
		}
	}
	if g.Told || e.Cursor == beginning(g.root) || e.Time.Before(g.Skip) {
		return nil
	}
	g.Told = true
	return []span{g.tree(e)}
}

// tree is the span of the tree, which has a moment and no length.
func (g *grove) tree(e agent.TreeEvent) span {
	return span{
		kind: kindTree, root: g.root, id: treeSpan(g.root), start: e.Time, end: e.Time, event: e,
		status: agent.StatusOK,
	}
}

// callKey names a call that is under way.
func callKey(e agent.TreeEvent) string {
	return fmt.Sprintf("%s %d %s %s", e.Session, e.Turn, e.Tool.Call, e.Tool.Name)
}

func (g *grove) beginCall(e agent.TreeEvent) {
	if e.Tool == nil {
		return
	}
	g.calls[callKey(e)] = openCall{
		start: e.Time, parent: turnSpan(e.Session, e.Turn), args: e.Text,
		id: spanOf("call", callKey(e), e.Time.UTC().Format(time.RFC3339Nano)),
	}
}

func (g *grove) endCall(e agent.TreeEvent) []span {
	if e.Tool == nil {
		return nil
	}
	key := callKey(e)
	c, ok := g.calls[key]
	if !ok {
		c = openCall{
			start: e.Time.Add(-e.Tool.Took), parent: turnSpan(e.Session, e.Turn),
			id: spanOf("call", key, e.Time.UTC().Format(time.RFC3339Nano)),
		}
	}
	delete(g.calls, key)
	return []span{{
		kind: kindCall, root: g.root, id: c.id, parent: c.parent, start: c.start, end: e.Time,
		status: e.Tool.Outcome, event: e, task: c.args,
	}}
}
