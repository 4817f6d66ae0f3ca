package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Reset has a top-level session go on in a new conversation, as a person asks for with /reset. It
// returns when that is durable. A turn that is under way comes to its end first, in the old
// conversation. So does a Stop.
//
// What people have posted and the session has not read is answered in the new conversation, with
// its pictures and files, and so are the ends of sub-agents that it has not read. The session takes
// its skills anew. Its route, its usage and its budget stay.
//
// The transcript of the old conversation is archived with its files at once, whatever
// Rules.Subagents.ArchiveAfter says, or as soon as what was posted before the reset has been answered. It is
// read with its session id, which EventReset has as Former, and [session.LineQuery.Archived].
//
// A crash while Reset waits leaves the session as it is, and one after it has returned does not
// undo it.
//
// The error is a *[ChildrenError] while a sub-agent of the session has not ended, also one that the
// turn under way has spawned: its result belongs to the conversation. Stop it, or wait for it. It
// is [ErrNotTopLevel] for a sub-agent, which has one conversation, and an *[InputError] for the
// session whose own turn calls Reset. If ctx ends while it waits, the error is its cause and
// [spawn.ErrUnconfirmed]: the reset is taken back, unless it happens at that moment. Else the error
// is [ErrShutdown], or one that every command can return.
func (s *Session) Reset(ctx context.Context) error {
	root, err := s.wishOf(ctx)
	if err != nil {
		return err
	}
	return s.rt.sup.Reset(ctx, root, s.key)
}

// Compact has a top-level session replace the older messages of its conversation by a summary, as a
// person asks for with /compact: in a turn that does nothing else, by the [Window] of its model. It
// returns when the end of that turn is durable. A turn that is under way comes to its end first.
// What has not been read is answered afterwards. Every turn compacts by itself when the
// conversation is about to be too long for the window. Of a sub-agent that is the only way.
//
// The turn has a number and counts against budgets and limits of turns at once like every turn. The
// Runner is not called, and people are told nothing. A turn that a crash cuts off has compacted
// nothing and is not repeated.
//
// The error is an *[InputError] if Models.Window is nil or gives the zero Window for the model, so
// that it is not known what to keep, [ErrNothing] if all of the conversation is to be kept, the
// error of the summary if there is none, and then the conversation stays as it is,
// [ErrBudget] if a budget does not allow the turn, [spawn.ErrTurnCancelled] if a person cancels or
// stops it, [ErrNotTopLevel] for a sub-agent, and an *[InputError] for the session whose own turn
// calls Compact. If ctx ends while it waits, the error is its cause and [spawn.ErrUnconfirmed]; a
// turn that has begun goes on. Else the error is [ErrShutdown], or one that every command can
// return.
func (s *Session) Compact(ctx context.Context) error {
	root, err := s.wishOf(ctx)
	if err != nil {
		return err
	}
	if s.rt.cfg.Models.Window == nil {
		return noWindow("it is not set")
	}
	s.rt.expectRun()
	return s.rt.sup.Compact(ctx, root, s.key)
}

// noWindow returns the error of a compaction without a Window.
func noWindow(why string) error {
	return &InputError{
		Field: "Models.Window", Reason: why + ": a compaction needs to know what to keep",
	}
}

// wishOf returns the tree of a session that is to be reset or compacted.
func (s *Session) wishOf(ctx context.Context) (root session.Key, err error) {
	if root, err = s.tree(ctx); err == nil && s.key.IsSubagent() {
		err = fmt.Errorf("agent: %w: %q", ErrNotTopLevel, s.key)
	}
	return root, err
}

// compactTurn runs a turn that compacts the conversation.
func (b turnRunner) compactTurn(ctx context.Context, t *Turn) (out spawn.TurnResult, err error) {
	t.entering("Models.Window")
	before := t.log.compactions()
	switch {
	case t.spawn.Exhausted != "":
		err = fmt.Errorf("agent: %w: %s", ErrBudget, t.spawn.Exhausted)
	case b.rt.cfg.Models.Window == nil: // another process has taken the turn, with another Config
		err = noWindow("it is not set")
	default:
		if err = t.openWindow(); err != nil {
			break
		}
		if t.window.Tokens == 0 && t.window.Compact == nil {
			err = noWindow(fmt.Sprintf("it gives the zero Window for the model %q", t.Model))
		} else {
			err = t.compact(ctx)
		}
	}
	t.spawn.InStore(true)
	t.end()
	out.Result.Usage, out.Models = t.spawn.Spent(), t.spawn.SpentBy()
	after := t.log.compactions()
	if out.Pos, err = t.log.close(), redact(err); after.ID != before.ID && err == nil {
		out.Compacted = after.Compacted.Messages
	}
	if err != nil {
		t.decide(out, err)
		b.logFailure(ctx, t, err)
	}
	return out, err
}

// compactions returns the note of the last compaction, or the zero Message.
func (r *turnRecord) compactions() Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history.note
}

// bring copies files that messages name from the conversations before a reset. The messages were
// posted before it, and their bytes are where they were put. A file that is damaged is left there.
func (r *turnRecord) bring(ctx context.Context, former []string, messages []Message) error {
	if r.files == nil || len(former) == 0 {
		return nil
	}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.File.IsZero() {
				continue
			}
			err := r.retry(ctx, func() error {
				return attempt(func() error { return r.bringFile(ctx, former, p.File) })
			})
			if permanent(err) && ctx.Err() == nil {
				r.log.Warn("offshoot: a file from before a reset cannot be read",
					"session", r.ref.Key.String(), "file", p.File.Hash, "error", err.Error())
				err = nil
			}
			if err != nil {
				return fmt.Errorf("agent: copying a file of %q: %w", r.ref.Key, err)
			}
		}
	}
	return nil
}

// bringFile copies a file that the transcript does not have. One that no conversation has is left
// to those who open it.
func (r *turnRecord) bringFile(ctx context.Context, former []string, f session.File) error {
	for i := len(former); i >= 0; i-- {
		from := r.ref
		if i < len(former) {
			from.SessionID = former[i]
		}
		src, err := r.files.Open(ctx, from, f.Hash)
		switch {
		case errors.Is(err, session.ErrNotFound):
			continue
		case err != nil:
			return err
		case i < len(former):
			_, err = r.files.Put(ctx, r.ref, src, f)
		}
		return errors.Join(err, src.Close())
	}
	return nil
}
