package agent

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Session is a handle on a session: an inbox and one turn at a time. Handles are cheap and safe
// for concurrent use.
type Session struct {
	rt   *Runtime
	key  session.Key
	root session.Key // zero: not looked for yet, as with a sub-agent's key
	turn *Turn       // the turn that the handle belongs to; nil: it outlives turns
}

// Key returns the key.
func (s *Session) Key() session.Key { return s.key }

// IsCallers reports whether the session is one that the caller runs in a loop of its own: it is
// top-level, and Config.Deliver is set. What is under way in that loop only the caller can end.
func (s *Session) IsCallers() bool { return s.rt.cfg().Deliver != nil && !s.key.IsSubagent() }

// tree returns the top-level session of the tree.
func (s *Session) tree(ctx context.Context) (session.Key, error) {
	return s.treeBy(ctx, (*spawn.Supervisor).RootOf)
}

// commandTree is tree for a command. If ctx ends first, the error says that nothing was recorded.
func (s *Session) commandTree(ctx context.Context) (session.Key, error) {
	root, err := s.tree(ctx)
	return root, unrecorded(ctx, err)
}

// present is treeBy, and an error that is [ErrNotFound] for a sub-agent that has left the tree
// which the handle knows.
func (s *Session) present(ctx context.Context, rootOf rootFunc) (session.Key, error) {
	root, err := s.treeBy(ctx, rootOf)
	if err == nil && s.key.IsSubagent() && s.root.IsValid() {
		_, err = s.rt.sup.OwnRuns(ctx, root, s.key)
	}
	return root, s.rt.orArchived(ctx, s.key, err)
}

// rootFunc is a method of a Supervisor that looks for a tree.
type rootFunc func(*spawn.Supervisor, context.Context, session.Key) (session.Key, error)

// treeBy returns the top-level session of the tree, which it looks for with rootOf if need be.
func (s *Session) treeBy(ctx context.Context, rootOf rootFunc) (session.Key, error) {
	if err := s.check(ctx); err != nil || s.root.IsValid() {
		return s.root, err
	}
	return rootOf(s.rt.sup, ctx, s.key)
}

// check returns why a call with ctx cannot be made of the handle, or nil.
func (s *Session) check(ctx context.Context) error {
	if err := s.rt.checked(ctx); err != nil {
		return err
	}
	if s.turn != nil {
		if err := s.turn.err(); err != nil {
			return err
		}
	}
	if !s.root.IsValid() && !s.key.IsValid() {
		return &spawn.InputError{
			Field: "session", Reason: strconv.Quote(s.key.String()) + " is not the key of a session",
		}
	}
	return nil
}

// Runs returns the sub-agents of this session that have not been archived, oldest first. The error
// is [ErrNotFound] for a sub-agent that is not on record, or one that every call that reads can
// return.
func (s *Session) Runs(ctx context.Context) ([]RunInfo, error) { return s.runs(ctx, false) }

// Tree returns the sub-agents of this session and theirs, parents before their children. The errors
// are those of [Session.Runs].
func (s *Session) Tree(ctx context.Context) ([]RunInfo, error) { return s.runs(ctx, true) }

func (s *Session) runs(ctx context.Context, deep bool) ([]RunInfo, error) {
	root, err := s.tree(ctx)
	if err != nil {
		return nil, err
	}
	return s.rt.sup.Runs(ctx, root, s.key, deep)
}

// Named returns the present run of the sub-agent of this session that has a [Task].Name. Messages
// go to the session of its Key, and [ChildOf] gives a handle on the run, also after a restart of
// the process. The error is [ErrNotFound] if no sub-agent that has not been archived has the name,
// or one of [Session.Runs].
func (s *Session) Named(ctx context.Context, name string) (RunInfo, error) {
	runs, err := s.Runs(ctx)
	if err != nil {
		return RunInfo{}, err
	}
	for _, r := range runs {
		if name != "" && r.Name == name {
			return r, nil
		}
	}
	return RunInfo{}, fmt.Errorf("agent: %w: a sub-agent of %s named %s", ErrNotFound, s.key,
		text.Quote(name))
}

// OwnRuns returns the runs of a sub-agent's session itself, oldest first, where [Session.Runs] has
// those of its sub-agents: the first run, the one that each message to the ended session has begun,
// and last the present one. Of the runs before that, the first, the last and those whose end is
// still to be read are kept; the others are not listed.
//
// The error is an *[InputError] for a top-level session, which has no runs, [ErrNotFound] for a
// sub-agent that is not on record, with [ErrArchived] for one that was archived, or one that every
// call that reads can return.
func (s *Session) OwnRuns(ctx context.Context) ([]RunInfo, error) {
	root, err := s.tree(ctx)
	if err != nil {
		return nil, s.rt.orArchived(ctx, s.key, err)
	}
	list, err := s.rt.sup.OwnRuns(ctx, root, s.key)
	if err != nil {
		return nil, s.rt.orArchived(ctx, s.key, err)
	}
	return shownIn(ctx, list, list...)
}

// FindRun returns a run of a sub-agent's session by its id. The empty id is that of the present
// run. The error is [ErrNotFound] for a run that the session has never had, or that it does not
// keep any more, see [Session.OwnRuns]. It is [ErrArchived], which is ErrNotFound too, once the
// sub-agent has been archived, or one that every call that reads can return.
func (s *Session) FindRun(ctx context.Context, id RunID) (RunInfo, error) {
	root, err := s.tree(ctx)
	if err != nil {
		return RunInfo{}, s.rt.orArchived(ctx, s.key, err)
	}
	info, err := s.rt.sup.Find(ctx, root, spawn.RunRef{Session: s.key, Run: id})
	if err != nil {
		return RunInfo{}, s.rt.orArchived(ctx, s.key, err)
	}
	return shownIn(ctx, info, info)
}

// Spawn starts a sub-agent of this session and returns at once. The function [Spawn] takes a
// Session, too, for results of another type than string. The errors are those of that function.
func (s *Session) Spawn(ctx context.Context, task Task) (*Child[string], error) {
	return Spawn[string](ctx, s, task)
}

// Wait waits for sub-agents of the session's tree: it is [Join] from the session. The errors are
// those of Join.
func (s *Session) Wait(
	ctx context.Context, children []*Child[string], opt JoinOptions,
) ([]Outcome[string], error) {
	return Join(ctx, s, children, opt)
}

// Steer gives a sub-agent below this session a message without restarting it, as [Child.Steer]
// does. It does from Go what the tool subagents does, so that the pause between two steers of one
// sub-agent counts for both. The error is [ErrNotFound] for a session that is not below this one,
// and else one of Child.Steer.
func (s *Session) Steer(ctx context.Context, key session.Key, text string) error {
	err := s.rt.commandOrArchived(ctx, key, s.steer(ctx, key, text))
	return orWrong(err, func() error {
		return spawn.Incoming{Text: text}.ValidateSteer(s.rt.cfg().Limits.spawn())
	})
}

func (s *Session) steer(ctx context.Context, key session.Key, text string) error {
	root, err := s.commandTree(ctx)
	if err != nil {
		return err
	}
	if s.key != root { // below the root is everything
		runs, err := s.rt.sup.Runs(ctx, root, s.key, true)
		if err != nil {
			return unrecorded(ctx, err)
		}
		if !slices.ContainsFunc(runs, func(r RunInfo) bool { return r.Key == key }) {
			return fmt.Errorf("agent: %w: %q below %q", ErrNotFound, key, s.key)
		}
	}
	to := spawn.RunRef{Session: key}
	return s.rt.sup.Steer(ctx, root, s.key, to, spawn.Incoming{Text: text})
}

// CancelTurn cancels the turn of the session that is under way. It returns when that is durable,
// and does not wait for the Runner. The context of the turn ends with the cause [ErrTurnCancelled].
// A Runner that does not return within Config.Grace is given up: what the turn has read and
// recorded by then stays in the conversation, up to the first tool call without a result. The
// sub-agents of the session go on. A top-level session says nothing about the turn and takes
// further messages. A sub-agent that has nothing else to do ends as [spawn.StatusCancelled], and
// its requester is told.
//
// A turn of a top-level session that has not begun, because other sessions have all slots or
// because Runtime.Run has not been called, does not begin. What it was to read is not lost, and not
// answered by itself: the next turn reads it with what starts that turn, such as the next message.
//
// A session that wants no turn is not changed, and the error is nil. It is [ErrNotFound] for a
// sub-agent that is not on record, or one that every command can return.
func (s *Session) CancelTurn(ctx context.Context) error {
	root, err := s.commandTree(ctx)
	if err != nil {
		return err
	}
	return s.rt.sup.CancelTurn(ctx, root, s.key)
}

// Stop ends the turn under way and everything below the session, and for a sub-agent its run. It is
// for a person who wants all of that to end: a session is not told of the ends of what was stopped
// with it, nor, if it is a top-level one, of what had ended before and it has not read. What people
// have written stays, as [Session.CancelTurn] says, which ends the turn alone.
//
// Stop returns nil when nothing of that is alive, and a *StillRunningError if Runners had to be
// given up because they did not return within the grace period. Else the error is [ErrNotFound] for
// a sub-agent that is not on record, or one that every command can return. If ctx or a shutdown
// ends the wait, that is [ErrUnconfirmed] beside the cause.
func (s *Session) Stop(ctx context.Context) error {
	root, err := s.commandTree(ctx)
	if err != nil {
		return err
	}
	return s.rt.sup.Stop(ctx, root, s.key, "stopped by the caller")
}

// Reset has a top-level session go on in a new conversation, as a person asks for with /reset. It
// returns when that is durable. A turn that is under way comes to its end first, in the old
// conversation. So does a Stop.
//
// What people have posted and the session has not read is answered in the new conversation, with
// its pictures and files, and so are the ends of sub-agents that it has not read. The session takes
// its skills anew. Its route, its usage and its budget stay.
//
// The transcript of the old conversation is archived with its files at once, whatever
// Rules.Subagents.ArchiveAfter says, or as soon as what was posted before the reset has been
// answered. It is read with its session id, which EventReset has as Former, and
// [session.LineQuery.Archived].
//
// A crash while Reset waits leaves the session as it is, and one after it has returned does not
// undo it. Conversations that are bound to the session stay bound: the session goes on, and answers
// there in its new conversation.
//
// The error is a *[ChildrenError] while a sub-agent of the session has not ended, also one that the
// turn under way has spawned: its result belongs to the conversation. Stop it, or wait for it. It
// is [ErrNotTopLevel] for a sub-agent, which has one conversation, and an *[InputError] for the
// session whose own turn calls Reset. If ctx or a shutdown ends the wait, the error is the cause
// and [spawn.ErrUnconfirmed]: the reset is taken back, unless it happens at that moment. Else the
// error is one that every command can return.
func (s *Session) Reset(ctx context.Context) error { return s.ResetOnce(ctx, "") }

// ResetOnce is [Session.Reset] with an id of the message that asks for it: one that the transport
// hands over again within seven days begins no other conversation, and the error is nil. The id is
// apart from those of what is posted, by a prefix for example. Of several resets that become one,
// the first with an id makes that known. An empty id is that of no other reset. The errors are
// those of Reset, and an *[InputError] for an id that cannot be one.
func (s *Session) ResetOnce(ctx context.Context, id string) error {
	root, err := s.wishOf(ctx)
	if err != nil {
		return err
	}
	return s.rt.sup.ResetOnce(ctx, root, s.key, id)
}

// Revive brings a sub-agent back that was archived, for the caller alone: no tool does it. Its
// conversation, its files and its runs are as they were, and [Session.Post] begins another run. It
// may do what it was granted, under the rules of today. What it has used stays counted once. It is
// archived again after Rules.Subagents.ArchiveAfter, also if its Task said CleanupDelete. Its Key
// leads to it again, unless another run has got that meanwhile.
//
// Revive returns when that is durable, and waits for an archive that is under way. For a session
// that is in its tree, as every top-level one is, it does nothing. After a call that has failed, or
// whose process has died, the session is in its tree or archived, and the call may be repeated. One
// whose ctx ends goes on.
//
// The error is [ErrNotFound] for a session that never was, or whose archive was purged;
// an [EndedError] if a session above it has ended, and [ErrArchived] if one is archived, which it
// names: revive that one first; if it names the session itself, that was deleted meanwhile;
// [ErrNoRecord] if the archive does not say what the session was,
// because an earlier version wrote it, or the Store had no Files; that of the Store, or one that
// every command can return.
func (s *Session) Revive(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	if !s.key.IsSubagent() {
		return cmp.Or(endedBefore(ctx), unrecorded(ctx, s.rt.bindings.ended()))
	}
	return s.rt.sup.Revive(ctx, s.key)
}

// wishOf returns the tree of a session that is to be reset or compacted.
func (s *Session) wishOf(ctx context.Context) (root session.Key, err error) {
	if root, err = s.commandTree(ctx); err == nil && s.key.IsSubagent() {
		err = fmt.Errorf("agent: %w: %q", ErrNotTopLevel, s.key)
	}
	return root, err
}

// Idle waits until nothing is under way in the session's tree: every message answered, every run
// ended, everything delivered that is not blocked. It is for programs that end when their work is
// done, and for tests. The error is [ErrNotFound] for a sub-agent that is not on record, an
// *[InputError] under the ctx of a turn of the tree, of a delivery or of a hook, for whose end Idle
// would wait, or one that every call that waits can return.
func (s *Session) Idle(ctx context.Context) error {
	root, err := s.present(ctx, (*spawn.Supervisor).WaitRootOf)
	if err != nil {
		return err
	}
	s.rt.expectRun()
	return s.rt.sup.Idle(ctx, root)
}

// Ready says that a top-level session which the caller runs is free: a completion that Deliver has
// answered with [ErrBusy] is handed over now, instead of up to 15 seconds later. Call it when a
// turn of that session has ended. It returns when that is durable. If Deliver is being called
// meanwhile, and answers ErrBusy, it is called again at once: a Ready from within Deliver says that
// the session is free although it is not. For a session that nothing waits for, or that never was,
// it does nothing.
//
// The error is [ErrNotTopLevel] for a sub-agent, [ErrNotFound] for one that is not on record, or
// one that every command can return.
func (s *Session) Ready(ctx context.Context) error {
	root, err := s.wishOf(ctx)
	if err != nil {
		return err
	}
	return s.rt.sup.Ready(ctx, root)
}

// Events yields what happens in the session's tree from the call on, deltas too, until ctx ends,
// the loop breaks or the Runtime is shut down. A loop that is slow misses deltas, never events that
// are kept. The first event shows the tree as it is, see [spawn.Supervisor.Events], which also says
// what an error is. It is [ErrNotFound] for a sub-agent that is not on record.
func (s *Session) Events(ctx context.Context) iter.Seq2[TreeEvent, error] {
	root, err := s.present(ctx, (*spawn.Supervisor).RootOf)
	if err != nil {
		return func(yield func(TreeEvent, error) bool) { yield(TreeEvent{}, err) }
	}
	return s.rt.Events(ctx, EventQuery{Root: root, Deltas: DeltasShown})
}

// Tools returns the session tools that policy gives this session, such as sessions_spawn, for
// callers with a loop of their own. Take them anew for every turn: within one set, the same tool
// call with the same id spawns the same sub-agent, so that a call that is repeated does no harm.
//
// For the limit of runs that models spawn for one message of a person, each set stands for a
// message of its own. A tool that is called with the context of a call to [Config.Deliver], or with
// one derived from it, such as by context.WithoutCancel, counts for the message that the delivered
// result belongs to. A program whose model answers results must call the tools with it, since
// otherwise nothing stops a model that answers each result with another spawn.
//
// The tools that it lacks which depend on who speaks are those of [Session.ToolsFor] for no one.
func (s *Session) Tools() []Tool { return s.ToolsFor() }

// ToolsFor is Tools in answer to people, which [Session.SendersOf] returns: those tools are left
// which the least of them may use, and what the tools spawn and send is bound by them. A tool that
// is called with the context of a call to [Config.Deliver] works for those, too, for whom the
// sub-agent worked whose result that delivers. Once a tool has returned what another session says,
// such as a reply, the tools of the set work for those, too, for whom that session has worked.
func (s *Session) ToolsFor(senders ...policy.Sender) []Tool {
	if !s.key.IsValid() {
		return nil
	}
	host := toolHost{
		rt: s.rt, session: s, token: session.NewID(), from: slices.Clone(senders),
		heard: new(heard),
	}
	cfg := s.rt.cfg()
	now := cfg.authority(s.key)
	known := &now
	if s.key.IsSubagent() {
		known = nil
	} else {
		now = cfg.Rules.ForSenders(now, s.key, host.from)
	}
	names := callerRunTools(now.Tools)
	var tools []Tool
	for _, t := range host.tools(cfg, known, names) {
		tools = append(tools, s.ownTool(t, host))
	}
	return tools
}

// ownTool returns a session tool that obeys the Limits. If the session is a sub-agent, the tool
// asks at each call what is left to it: what was granted to it is in the journal.
func (s *Session) ownTool(tool Tool, host toolHost) Tool {
	call := tool.Call
	tool.Call = func(ctx context.Context, c ToolCall) (ToolResult, error) {
		if err := s.rt.cfg().Limits.checkArgs(c); err != nil {
			return ToolResult{}, err
		}
		if !s.key.IsSubagent() {
			cfg := s.rt.cfg()
			now := cfg.authority(s.key)
			if !slices.Contains(now.Tools, tool.Name) { // the rules have changed
				return ToolResult{}, cfg.removedError(s.key, &now, tool.Name, nil)
			}
			v, kept := cfg.Rules.Withheld(s.key, session.RoleMain, host.senders(ctx), tool.Name)
			if kept {
				return ToolResult{}, withheldError(v)
			}
			return call(ctx, c)
		}
		root, err := s.tree(ctx)
		if err != nil {
			return ToolResult{}, err
		}
		info, err := s.rt.sup.Find(ctx, root, spawn.RunRef{Session: s.key})
		if err != nil {
			return ToolResult{}, err
		}
		if !slices.Contains(info.Tools, tool.Name) {
			return ToolResult{}, &policy.Refusal{
				Op: "tool call", Rule: policy.RuleTools, Asked: tool.Name,
				Limit: strings.Join(info.Tools, ", "), Path: "the grant of " + s.key.String(),
			}
		}
		return call(ctx, c)
	}
	return tool
}

func turnToken(first int) string { return strconv.Itoa(first) }
