package agent

import (
	"context"
	"iter"
	"strconv"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Names of other packages that users of this one need.
type (
	// Message is one line of a conversation.
	Message = session.Message
	// Result is what a turn or a run produced.
	Result = spawn.Result
	// Usage is what was consumed.
	Usage = spawn.Usage
	// RunInfo is what is known of a run at one moment.
	RunInfo = spawn.RunInfo
	// TreeEvent is one thing that happened in a tree.
	TreeEvent = spawn.TreeEvent
	// JoinOptions say when a wait for sub-agents is over.
	JoinOptions = spawn.JoinOptions
	// Delivery1 is a delivery or reply that has not arrived.
	Delivery1 = spawn.Delivery
	// Delivery is a completion on its way to a session that the caller runs.
	Delivery = announce.Delivery
	// Reply is what a session run by Offshoot says to people.
	Reply = announce.Reply
	// StillRunningError names sessions whose Runner has not returned.
	StillRunningError = spawn.StillRunningError
)

// Errors of other packages that users of this one meet.
var (
	// ErrBudget says that a budget does not allow what was asked.
	ErrBudget = spawn.ErrBudget
	// ErrNotFound says that a session, run or delivery is not on record.
	ErrNotFound = spawn.ErrNotFound
	// ErrEnded says that a run has ended.
	ErrEnded = spawn.ErrEnded
	// ErrUnconfirmed says that it is not certain that a command is durable; see [spawn.ErrUnconfirmed].
	ErrUnconfirmed = spawn.ErrUnconfirmed
	// ErrBusy may be returned by Deliver for a requester that is in the middle of something.
	ErrBusy = announce.ErrBusy
)

// A Session is a handle on a session: an inbox and one turn at a time. Handles are cheap and safe
// for concurrent use.
type Session struct {
	rt   *Runtime
	key  session.Key
	root session.Key // zero: not looked for yet, as with a sub-agent's key
}

// Key returns the key.
func (s *Session) Key() session.Key { return s.key }

// tree returns the top-level session of the tree.
func (s *Session) tree(ctx context.Context) (session.Key, error) {
	switch {
	case s.root.IsValid():
		return s.root, nil
	case !s.key.IsValid():
		return s.root, &spawn.InputError{
			Field: "session", Reason: strconv.Quote(s.key.String()) + " is not the key of a session",
		}
	}
	return s.rt.sup.RootOf(ctx, s.key)
}

// Post puts a message into the inbox and returns when that is durable. A session that is not in a
// turn starts one; the answer comes to Config.Reply. Of the message ID and Text count. A message
// whose ID the session has seen in the last seven days is accepted and changes nothing; one without
// an ID is always new.
func (s *Session) Post(ctx context.Context, m Message) error {
	root, err := s.tree(ctx)
	if err != nil {
		return err
	}
	msg := spawn.Incoming{ID: m.ID, Text: m.Text}
	if s.key.Channel() != "" {
		msg.Route = &session.Route{
			Channel: s.key.Channel(), Account: s.key.Account(), To: s.key.Peer(),
			Thread: s.key.ThreadID(),
		}
	}
	return s.rt.sup.Post(ctx, root, s.key, msg)
}

// Runs returns the sub-agents of this session that have not been archived, oldest first.
func (s *Session) Runs(ctx context.Context) ([]RunInfo, error) { return s.runs(ctx, false) }

// Tree returns the sub-agents of this session and theirs, parents before their children.
func (s *Session) Tree(ctx context.Context) ([]RunInfo, error) { return s.runs(ctx, true) }

func (s *Session) runs(ctx context.Context, deep bool) ([]RunInfo, error) {
	root, err := s.tree(ctx)
	if err != nil {
		return nil, err
	}
	return s.rt.sup.Runs(ctx, root, s.key, deep)
}

// CancelTurn ends the turn under way, if any, and nothing else: sub-agents go on.
func (s *Session) CancelTurn(ctx context.Context) error {
	root, err := s.tree(ctx)
	if err != nil {
		return err
	}
	return s.rt.sup.CancelTurn(ctx, root, s.key)
}

// Stop ends the turn under way and everything below the session, and for a sub-agent its run. It
// returns nil when nothing of that is alive, and a *StillRunningError if Runners had to be given up
// because they did not return within the grace period.
func (s *Session) Stop(ctx context.Context) error {
	root, err := s.tree(ctx)
	if err != nil {
		return err
	}
	return s.rt.sup.Stop(ctx, root, s.key, "stopped by the caller")
}

// Idle waits until nothing is under way in the session's tree: every message answered, every run
// ended, everything delivered that is not blocked. It is for programs that end when their work is
// done, and for tests.
func (s *Session) Idle(ctx context.Context) error {
	root, err := s.tree(ctx)
	if err != nil {
		return err
	}
	return s.rt.sup.Idle(ctx, root)
}

// Events yields what happens in the session's tree from the call on, until ctx ends, the loop
// breaks or the Runtime is shut down. A loop that is slow misses deltas, never events. There are
// none for a sub-agent that is not on record.
func (s *Session) Events(ctx context.Context) iter.Seq[TreeEvent] {
	root, err := s.tree(ctx)
	if err != nil {
		return func(func(TreeEvent) bool) {}
	}
	return s.rt.sup.Events(ctx, root)
}

// Tools returns the session tools that policy gives this session, such as sessions_spawn, for
// callers with a loop of their own. Take them anew for every turn: within one set, the same tool
// call id spawns the same sub-agent, so that a call that is repeated does no harm.
func (s *Session) Tools() []Tool {
	host := toolHost{rt: s.rt, session: s, token: session.NewID()}
	names := s.rt.cfg.toolNames(s.key)
	var tools []Tool
	for _, t := range host.tools() {
		for _, name := range names {
			// A caller with a loop of its own has nothing to yield.
			if t.Name == name && t.Name != toolYield {
				tools = append(tools, t)
			}
		}
	}
	return tools
}

func turnToken(first int) string { return strconv.Itoa(first) }
