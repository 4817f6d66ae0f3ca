package spawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// HookTimeout is how long a call of Config.Spawning or Config.Ended may take. Then its ctx ends:
// the spawn is refused, or the attempt has failed.
const HookTimeout = 10 * time.Second

// A SpawningRun is a run that the rules have admitted, and that does not exist yet.
type SpawningRun struct {
	// Run is what it would be: its Status is StatusQueued. No other call knows it.
	Run RunInfo `json:"run"`
	// ByModel says that a model asks for it, and Thread that a conversation is to be bound to it.
	ByModel bool `json:"byModel,omitempty"`
	Thread  bool `json:"thread,omitempty"`
}

// An EndedRun is the end of a run for Config.Ended, whether another receiver is told of it or not.
type EndedRun struct {
	// Run is frozen when the run ends. Of a long Result it has the beginning, see [Result].
	Run RunInfo `json:"run"`
	// Requester is the session that asked for the run, or one above it if that one has ended.
	Requester session.Key `json:"requester"`
}

// maxReason is how many bytes of a reason are told.
const maxReason = 1000

// A VetoError says that Config.Spawning has refused a spawn. Nothing has happened. It is not a
// *[policy.Refusal]: no rule of the configuration has refused, and none can be changed for it.
type VetoError struct {
	// Reason is the text of Err in one line, with its credentials masked and in at most 1,000
	// bytes. A model may be told of it.
	Reason string
	Err    error // what the function returned
}

func (e *VetoError) Error() string { return "spawn: the spawn is refused: " + e.Reason }

// Unwrap returns Err, which says nothing of the spawn: it is neither [ErrUnconfirmed] nor another
// of the errors of a command for errors.Is, also if the function returned one of another call.
func (e *VetoError) Unwrap() error {
	return contain.Foreign(e.Err,
		ErrUnconfirmed, ErrNotRecorded, ErrShutdown, ErrStale, ErrNotFound)
}

// errHookHangs is the Err of a CallbackError.
var errHookHangs = fmt.Errorf("spawn: the function has not returned within %v: %w", HookTimeout,
	context.DeadlineExceeded)

// askSpawning asks Config.Spawning on behalf of a requester. The function has a goroutine of its
// own: it may end it, hang, and call back. The error is a *VetoError, a *CallbackError, or the
// cause of ctx.
func (s *Supervisor) askSpawning(ctx context.Context, of session.Key, run SpawningRun) error {
	call := newCallContext(ctx, HookTimeout)
	timer := time.AfterFunc(HookTimeout, func() { call.end(context.DeadlineExceeded) })
	answer := make(chan error, 1)
	started := s.workers.start(taskFunc(func() { //nolint:contextcheck // its parent is ctx
		failed := error(&CallbackError{Callback: "Spawning", Err: errCallbackExited})
		returned := s.asked.begin(AskedFunction{"Spawning", of})
		defer func() {
			returned()
			if p := recover(); p != nil {
				failed = &CallbackError{Callback: "Spawning", Err: owner.NewPanic(p)}
			}
			timer.Stop()
			s.workers.markOver(&call.mark)
			call.end(context.Canceled)
			answer <- failed
		}()
		if err := contain.Read(s.cfg.Spawning(call, run)); err != nil {
			reason := text.Bound(text.Line(s.errorText(err)), maxReason)
			failed = &VetoError{Reason: reason, Err: err}
			return
		}
		failed = nil
	}))
	if !started {
		timer.Stop()
		return owner.ErrShutdown
	}
	var err error
	select {
	case err = <-answer:
	case <-call.Done():
		if err = s.hookCut(ctx, call, answer); err == nil {
			return nil
		}
	case <-s.workCtx.Done():
		return owner.ErrShutdown
	}
	if failed, ok := errors.AsType[*CallbackError](err); ok {
		s.log.Error("offshoot: a function of the Config failed", "function", failed.Callback,
			"error", failed.Err.Error())
	}
	return err
}

// hookCut returns what a call of Spawning comes to whose context has ended: its answer if there is
// one, else why there is none.
func (s *Supervisor) hookCut(ctx context.Context, call *callContext, answer chan error) error {
	select {
	case err := <-answer:
		return err
	default:
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if time.Now().Before(call.deadline) {
		return <-answer // the function has returned, and says so next
	}
	s.workers.markHangs(&call.mark)
	return &CallbackError{Callback: "Spawning", Err: errHookHangs}
}

// endedOf returns the end of a run for a hook.
func endedOf(t *tree.Tree, e *tree.Entry) *EndedRun {
	ended := &EndedRun{Requester: e.To}
	r := t.Run(e.Run)
	if r == nil {
		return ended // it stays in the tree for the entry
	}
	if of, kept := r.RunOf(e.RunID); kept {
		ended.Run = runInfoOf(t, r, &of)
	}
	return ended
}

// A TidyRequest says that what was made for a sub-agent outside of the Store may go, see
// Config.Tidy.
type TidyRequest struct {
	Root, Session session.Key
	// Extra is that of the Request that the sub-agent was spawned with.
	Extra json.RawMessage
	// Delete says that its session goes as soon as it may.
	Delete bool
	// Archive says that the session is archived now. A next run follows only after a Revive.
	Archive bool
}

var errTidyExited = errors.New("spawn: Config.Tidy ended its goroutine")

// Tidy implements owner.Executor.
func (sh *treeShell) Tidy(r *tree.Run) {
	q := TidyRequest{
		Root: sh.owner.Root(), Session: r.Key(), Extra: r.Spec.Extra(), Delete: r.Spec.Delete,
	}
	sh.beside(sh.hold(), func(ctx context.Context, may error) {
		if may != nil {
			return
		}
		if err := sh.sup.tidy(ctx, q); err != nil && ctx.Err() == nil { // the archive does it again
			sh.sup.log.Warn("offshoot: what was made for a sub-agent was not removed",
				"session", q.Session.String(), "error", sh.sup.errorText(err))
		}
	})
}

// tidy calls Config.Tidy, if there is something for it to do.
func (s *Supervisor) tidy(ctx context.Context, q TidyRequest) error {
	if s.cfg.Tidy == nil || len(q.Extra) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DeliverTimeout)
	defer cancel()
	return contain.Call(func() error {
		return s.cfg.Tidy(ctx, q)
	}, errTidyExited, func(value any, stack []byte) error {
		return &PanicError{Value: value, Stack: stack}
	})
}
