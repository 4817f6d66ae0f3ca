package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A UsageBy is something by which a [UsageReport] tells usage apart. The zero UsageBy is not one.
type UsageBy uint8

// What a [UsageReport] can tell apart.
const (
	UsageByDay     UsageBy = iota + 1 // days of the Zone of the query
	UsageByTree                       // top-level sessions with everything below them
	UsageBySession                    // sessions by themselves; a run is one
	UsageByAgent                      // the agents that run the sessions
	UsageByModel                      // the models that were called
)

var usageByNames = [...]string{"none", "day", "tree", "session", "agent", "model"}

// String returns the word for b, such as "day".
func (b UsageBy) String() string { return enum.String(usageByNames[:], "UsageBy", b) }

// MarshalText returns the word for b. A value that is not a UsageBy is an error.
func (b UsageBy) MarshalText() ([]byte, error) {
	return enum.Marshal(usageByNames[:], "spawn", "usage dimension", b)
}

// UnmarshalText sets b to the UsageBy of that word, in any letter case of ASCII.
func (b *UsageBy) UnmarshalText(text []byte) error {
	return enum.Unmarshal(usageByNames[:], "spawn", "usage dimension", text, b)
}

// A UsageQuery selects usage. The zero UsageQuery selects all there is, and tells nothing apart.
type UsageQuery struct {
	// Session selects what one session has used. Zero: all sessions of all trees.
	Session session.Key
	// Below adds to that of Session what all runs below it have used, archived ones included.
	Below bool
	// Agent and Model select by name, in any letter case. Empty: all.
	Agent, Model string
	// Since and Until select what turns used that ended from one time on and before another. Zero:
	// without a bound. Times are kept by quarters of an hour: one that Since or Until lies in
	// counts as a whole, so that what was used just now is there; an Until at the very beginning of
	// one excludes it. What is older than 62 days is
	// kept by days of UTC: one counts if its middle lies within the bounds.
	Since, Until time.Time
	// Zone is where days begin at midnight. A day of UTC that is kept as a whole counts as the day
	// of the Zone that its middle lies in. Nil: UTC.
	Zone *time.Location
	// By says what the rows of the report tell apart, in any order. Empty: nothing, so that there
	// is one row at most.
	By []UsageBy
}

// A UsageReport is what was used. A turn counts when it ends, with what its Runner reported. What a
// turn had used that a crash interrupted, or that was given up, is not known and not in it.
type UsageReport struct {
	// Rows have what the By of the query tells apart, in the order of Day, Tree, Session, Agent and
	// Model. A combination of which nothing was used has none.
	Rows []UsageRow `json:"rows,omitempty"`
	// Total is the sum of the Rows. A sum that is out of range is the largest number there is.
	Total session.Usage `json:"total,omitzero"`
}

// A UsageRow is what was used together. A field that the By of the query does not name is zero.
type UsageRow struct {
	// Day is a date of the Zone of the query, such as "2026-01-31".
	Day string `json:"day,omitempty"`
	// Tree is the top-level session.
	Tree session.Key `json:"tree,omitzero"`
	// Session is the session that used it. It is zero for all runs that were archived together:
	// their names are not kept.
	Session session.Key `json:"session,omitzero"`
	// Run is the run of the Session. It is empty for a top-level session, and for one that has had
	// several runs: the row is of all of them. RunInfo.Result has the usage of each.
	Run RunID `json:"run,omitempty"`
	// Agent runs the session.
	Agent string `json:"agent,omitempty"`
	// Model is what the Runner says it called, else what policy resolved. It is empty where neither
	// is known, and [OtherModels] for those beyond the 256th that an agent has used in a tree.
	Model string        `json:"model,omitempty"`
	Usage session.Usage `json:"usage,omitzero"`
}

// Usage reports what sessions have used. It is the same after archives, snapshots and restarts.
//
// A tree that is in memory is asked. Every other one is read from its journal, which costs what
// opening it costs, and is neither taken over nor kept in memory. A query with a Session reads one
// tree, another one all trees, one after the other.
//
// The report beside an error lacks the trees that cannot be read. The error joins those of the
// trees, each [ErrUnreadable], as is that of a journal that cannot list them. It is [ErrNotFound]
// for a run that is not on record, an *[InputError] for an unknown By, [ErrShutdown], or the cause
// of ctx.
func (s *Supervisor) Usage(ctx context.Context, q UsageQuery) (UsageReport, error) {
	sum, err := newUsageSum(q, s.rules.Load().AgentOf)
	if err != nil {
		return UsageReport{}, err
	}
	if q.Session.IsZero() {
		err := s.eachTree(ctx, func(t *tree.Tree) bool {
			t.Walk(func(r *tree.Run) { sum.addSession(t, r, true) })
			return true
		})
		return sum.report(), err
	}
	root, err := s.RootOf(ctx, q.Session)
	if err != nil {
		return UsageReport{}, err
	}
	found := q.Session == root // which need not have been written to
	err = s.readTree(ctx, root, func(t *tree.Tree) {
		top := t.Run(q.Session)
		if found = top != nil; !found {
			return
		}
		sum.addSession(t, top, q.Below)
		if q.Below {
			top.Descend(func(r *tree.Run) { sum.addSession(t, r, true) })
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: usage of %q", ErrNotFound, q.Session)
	}
	return sum.report(), err
}

// A usageSum adds up what a query selects. It decides only.
type usageSum struct {
	q       UsageQuery
	by      [len(usageByNames)]bool
	agentOf func(session.Key) string
	rows    map[UsageRow]session.Usage // by rows without Usage
}

func newUsageSum(q UsageQuery, agentOf func(session.Key) string) (*usageSum, error) {
	sum := &usageSum{q: q, agentOf: agentOf, rows: make(map[UsageRow]session.Usage)}
	for i, b := range q.By {
		if b == 0 || int(b) >= len(usageByNames) {
			return nil, &InputError{
				Field: fmt.Sprintf("By[%d]", i), Reason: b.String() + " is not known",
			}
		}
		sum.by[b] = true
	}
	if q.Zone == nil {
		sum.q.Zone = time.UTC
	}
	return sum, nil
}

// addSession adds what a session has used, and with archived what archived runs below it had.
func (sum *usageSum) addSession(t *tree.Tree, r *tree.Run, archived bool) {
	r.Expenses(func(x tree.Expense, gone bool) {
		if !gone && r.IsRoot() {
			x.Agent = sum.agentOf(r.Key())
		}
		if gone && !archived || !sum.selects(x) {
			return
		}
		var row UsageRow
		if sum.by[UsageByDay] {
			row.Day = x.Middle.In(sum.q.Zone).Format(time.DateOnly)
		}
		if sum.by[UsageByTree] {
			row.Tree = t.Root().Key()
		}
		if sum.by[UsageBySession] && !gone {
			row.Session = r.Key()
			if r.Begin == nil { // else it has had several
				row.Run = RunID(r.Spec.ID)
			}
		}
		if sum.by[UsageByAgent] {
			row.Agent = x.Agent
		}
		if sum.by[UsageByModel] {
			row.Model = x.Model
		}
		sum.rows[row] = sum.rows[row].Add(usageOf(x.Usage))
	})
}

// selects reports whether the query selects an expense.
func (sum *usageSum) selects(x tree.Expense) bool {
	q := &sum.q
	since, until := q.Since, q.Until
	if x.Length < 24*time.Hour { // outward, to where pieces of that length begin
		since = since.Truncate(x.Length)
		if begin := until.Truncate(x.Length); !begin.Equal(until) {
			until = begin.Add(x.Length)
		}
	}
	return (q.Agent == "" || strings.EqualFold(q.Agent, x.Agent)) &&
		(q.Model == "" || strings.EqualFold(q.Model, x.Model)) &&
		(q.Since.IsZero() || !x.Middle.Before(since)) &&
		(q.Until.IsZero() || x.Middle.Before(until))
}

// report returns the rows in their order, and their sum.
func (sum *usageSum) report() (report UsageReport) {
	for row, used := range sum.rows {
		row.Usage = used
		report.Rows = append(report.Rows, row)
	}
	slices.SortFunc(report.Rows, func(a, b UsageRow) int {
		return cmp.Or(
			cmp.Compare(a.Day, b.Day), compareKeys(a.Tree, b.Tree),
			compareKeys(a.Session, b.Session), cmp.Compare(a.Agent, b.Agent),
			cmp.Compare(a.Model, b.Model),
		)
	})
	for i := range report.Rows {
		report.Total = report.Total.Add(report.Rows[i].Usage)
	}
	return report
}

func compareKeys(a, b session.Key) int { return strings.Compare(a.String(), b.String()) }

// distinct sorts keys, and leaves each there once.
func distinct(keys []session.Key) []session.Key {
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

// A SessionQuery selects sessions. The zero SessionQuery selects every session on record.
type SessionQuery struct {
	// TopLevel leaves out sub-agents.
	TopLevel bool
	// Root selects the sessions of the tree of a top-level session, and reads no other tree. Zero:
	// those of all trees.
	Root session.Key
	// Kinds are those of the sessions. Empty: all.
	Kinds []session.Kind
	// Agent is what runs the sessions, in any letter case. Empty: any.
	Agent string
	// ActiveSince leaves out sessions that were last active before it. Zero: none.
	ActiveSince time.Time
	// Limit is how many sessions are listed at most: those that were active last. 0: all.
	Limit int
}

// SessionInfo is what is known of a session at one moment. It is a value.
type SessionInfo struct {
	Key       session.Key `json:"key"`
	SessionID string      `json:"sessionId,omitempty"` // names the transcript
	Root      session.Key `json:"root"`                // the top-level session of its tree
	Parent    session.Key `json:"parent,omitzero"`     // zero for a top-level session
	Depth     int         `json:"depth"`
	Agent     string      `json:"agent"`
	// Run is the present run of the session, or the last one, and Label that of the session. They
	// are empty for a top-level session.
	Run   RunID  `json:"run,omitempty"`
	Label string `json:"label,omitempty"`
	// Status is where the session stands. A top-level session is StatusRunning, StatusStopping, or
	// else StatusWaiting, also if there is nothing to wait for.
	Status Status `json:"status"`
	// Route is where the answer to what the session has read last goes. Zero: that is not known.
	Route session.Route `json:"route,omitzero"`
	Turns int           `json:"turns"` // how many have started
	// Created is when the session first came to be on record.
	Created time.Time `json:"created"`
	// LastActive is when a message last came to the session, it spawned a run, or a turn of it
	// started or ended. Of what an earlier version has recorded it may be earlier.
	LastActive time.Time `json:"lastActive"`
	// Usage is what the turns of the session that have ended have used, without those below it.
	Usage session.Usage `json:"usage,omitzero"`
}

// Sessions lists the sessions on record: top-level ones, and runs that are not archived. Those that
// were active last come first, and of equal ones the order is that of the keys. Nothing that is not
// a session is listed, such as the log of a binding.
//
// Like [Supervisor.Usage] it reads every tree that is not in memory from its journal, one after the
// other, and neither takes it over nor keeps it. The list beside an error lacks the trees that
// cannot be read. The error joins those of the trees, each [ErrUnreadable], as is that of a journal
// that cannot list them. It is an *[InputError] for a negative Limit, [ErrShutdown], or the cause
// of ctx.
func (s *Supervisor) Sessions(ctx context.Context, q SessionQuery) ([]SessionInfo, error) {
	if q.Limit < 0 {
		return nil, &InputError{Field: "Limit", Reason: fmt.Sprintf("%d is negative", q.Limit)}
	}
	var list []SessionInfo
	add := func(t *tree.Tree) {
		t.Walk(func(r *tree.Run) {
			if info := sessionOf(t, r, s.rules.Load().AgentOf); q.selects(&info) {
				list = append(list, info)
			}
		})
	}
	if q.Root.IsValid() {
		err := s.closedBefore(ctx)
		if err == nil {
			err = s.readTree(ctx, q.Root, add)
		}
		return newestFirst(list, q.Limit), err
	}
	err := s.eachTree(ctx, func(t *tree.Tree) bool {
		add(t)
		if beyond := len(list) - q.Limit; q.Limit > 0 && beyond >= max(q.Limit, 1000) {
			list = newestFirst(list, q.Limit)
		}
		return true
	})
	return newestFirst(list, q.Limit), err
}

// sessionOf returns what is known of a session.
func sessionOf(t *tree.Tree, r *tree.Run, agentOf func(session.Key) string) SessionInfo {
	s := r.Spec
	info := SessionInfo{
		Key: s.Key, SessionID: s.SessionID, Root: t.Root().Key(), Parent: s.Parent,
		Depth: s.Depth, Agent: s.Agent, Run: RunID(r.RunID()), Label: s.Label(),
		Status: Status(r.State), Turns: int(r.Turns), Created: timeOf(s.Created),
		LastActive: timeOf(r.LastActive()), Usage: usageOf(r.SessionUsage()),
	}
	if r.IsRoot() {
		info.Agent = agentOf(s.Key)
	}
	if r.Route != nil {
		info.Route = *r.Route
	}
	return info
}

// selects reports whether the query selects a session.
func (q *SessionQuery) selects(s *SessionInfo) bool {
	return (!q.TopLevel || s.Key == s.Root) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, s.Key.Kind())) &&
		(q.Agent == "" || strings.EqualFold(q.Agent, s.Agent)) &&
		!s.LastActive.Before(q.ActiveSince)
}

// newestFirst sorts a list, and cuts it if limit is not 0.
func newestFirst(list []SessionInfo, limit int) []SessionInfo {
	slices.SortFunc(list, func(a, b SessionInfo) int {
		return cmp.Or(b.LastActive.Compare(a.LastActive), compareKeys(a.Key, b.Key))
	})
	if limit > 0 && len(list) > limit {
		clear(list[limit:])
		list = list[:limit]
	}
	return list
}

// treeLimit is how long a call that reads all trees waits for one of them at most: a journal that
// does not answer for one tree does not hide the others.
const treeLimit = 10 * time.Second

// eachTree calls f with each tree on record, in the order of their keys, until f returns false. The
// error joins those of the trees that cannot be read within the treeLimit. f must not keep the
// tree.
func (s *Supervisor) eachTree(ctx context.Context, f func(*tree.Tree) bool) error {
	if err := s.closedBefore(ctx); err != nil {
		return err
	}
	var errs []error
	var roots []session.Key
	open, cancel := s.untilClosed(ctx)
	defer cancel()
	for head, err := range s.reads.Roots(open, session.RootQuery{}) {
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%w: listing the trees: %w", ErrUnreadable, err))
		case isTree(head.Root):
			roots = append(roots, head.Root)
		}
	}
	if err := s.closedBefore(ctx); err != nil {
		return err
	}
	slices.SortFunc(roots, compareKeys)
	for _, root := range roots {
		more := true
		short, cancel := context.WithTimeoutCause(ctx, treeLimit, errSlowTree)
		err := s.readTree(short, root, func(t *tree.Tree) { more = f(t) })
		cancel()
		if errors.Is(err, errSlowTree) {
			err = fmt.Errorf("%w: tree %q has not answered in %s", ErrUnreadable, root, treeLimit)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if err := s.closedBefore(ctx); err != nil {
			return err
		}
		if !more {
			break
		}
	}
	return errors.Join(errs...)
}

// errSlowTree is the cause of the end of a context after the treeLimit.
var errSlowTree = errors.New("spawn: the tree has not answered in time")

// apart returns a goroutine that reads the store for a caller whose ctx this is, or nil for a call
// by what has a goroutine of the Supervisor: that one is contained, and ends with it.
func (s *Supervisor) apart(ctx context.Context) *owner.Helper {
	if turnOf(ctx) != nil || markOf(ctx) != nil {
		return nil
	}
	m := new(mark)
	return &owner.Helper{
		Start: func(f func(context.Context)) bool {
			return s.workers.startLast(s.workers.markedWith(ctx, m, f))
		},
		Waits:   func(on bool) { s.workers.change(m, func() { m.hangs = on }) },
		Leaving: s.workCtx.Done(),
	}
}

// closedBefore returns why nothing can be read any more: the Supervisor is closed, or ctx has
// ended.
func (s *Supervisor) closedBefore(ctx context.Context) error {
	select {
	case <-s.closed:
		return ErrShutdown
	default:
		return context.Cause(ctx)
	}
}

// untilClosed returns a ctx that ends with ctx, and at the end of a shutdown: a store that does not
// answer then is not waited for.
func (s *Supervisor) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.closedCtx, cancel)
	return ctx, func() {
		unlink()
		cancel()
	}
}

// readTree calls f with a tree on record: by its owner if the tree is in memory, else as its
// journal has it. f must not keep the tree. It is not called for a tree that was never written to.
func (s *Supervisor) readTree(ctx context.Context, root session.Key, f func(*tree.Tree)) error {
	s.mu.Lock()
	sh := s.shells[root]
	s.mu.Unlock()
	if sh != nil {
		there, err := sh.owner.Peek(ctx, f)
		if there || err != nil && !errors.Is(err, owner.ErrRetired) {
			return err
		}
	}
	v := viewer{root: root}
	open, cancel := s.untilClosed(ctx)
	defer cancel()
	if err := v.read(s.reads.Read(open, root, 0)); err != nil {
		if ended := s.closedBefore(ctx); ended != nil {
			return ended
		}
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if v.last > 0 {
		f(v.tree)
	}
	return nil
}
