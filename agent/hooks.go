package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Hooks are functions of the program that hear of the life of sub-agents. They may call the
// Runtime. The zero Hooks are none. docs/hooks.md says more.
type Hooks struct {
	// Spawning is asked before a sub-agent exists, for every spawn of a program and of a model that
	// the Rules admit. An error refuses the spawn: a program gets a *[VetoError], and a model is
	// told the reason in one sentence. A spawn whose Key is known is not asked again, and neither
	// is a message that begins a later run of a sub-agent.
	//
	// ctx is that of the spawn, and ends after 10 seconds. If Spawning has not returned then, or
	// panics or ends its goroutine, the spawn is refused with a *[spawn.CallbackError]. Several
	// spawns are asked at the same time. Nil: what the Rules admit is spawned.
	Spawning func(ctx context.Context, h SpawningHook) error
	// Ended is told of the end of every run of every sub-agent, whether it was announced or not and
	// however it ended. It is told at least once under one Key, over crashes too, in the order in
	// which the runs of a tree end, and never delays what a requester or a person is told. A
	// sub-agent is archived after Ended has heard of it.
	//
	// It returns nil once the end can no longer be lost. ctx ends after 10 seconds. After an error,
	// a panic, a runtime.Goexit or that time Ended is called again, with pauses, and the ends
	// behind it wait. After half an hour the end is blocked until [Runtime.Retry] or
	// [Runtime.Dismiss], as deliveries are, and [Runtime.Blocked] lists it. Nil: nothing is told,
	// and what an earlier process has left is dropped.
	Ended func(ctx context.Context, h EndedHook) error
}

// A SpawningHook is a sub-agent that may be spawned. Run is what it would be: who asks for it, its
// agent, label, task, model and tools, after the Rules. Its ID and Key are those that it will have.
type SpawningHook = spawn.SpawningRun

// A VetoError says that [Hooks].Spawning has refused a spawn. It wraps what that returned.
type VetoError = spawn.VetoError

// An EndedHook is the end of one run.
type EndedHook struct {
	// Key names the end. It is the same in every call for it: a receiver that acts only on keys it
	// has not seen acts once.
	Key string
	// Attempt counts the calls from 1, those that are on record as failed. MayRepeat says that an
	// earlier one may have arrived: it failed, or the process that made it died.
	Attempt   int
	MayRepeat bool
	// Run has the id, key, parent, root, agent, label, status, result, usage and times of the run,
	// and in Error the reason. Of a long Result it has the beginning, which [spawn.Result.Load]
	// completes.
	Run RunInfo
	// Requester is the session that asked for the run, or one above it if that one has ended.
	Requester session.Key
	// Transcript names the conversation in the Store. Where that is, such as the path of a file,
	// only the Store knows.
	Transcript session.Ref
}

// Outcome returns how the run has ended in a word of the field: "ok", "error", "timeout", "killed",
// "interrupted" for one whose process died, or "incomplete" for one whose budget was spent.
func (h *EndedHook) Outcome() string {
	switch h.Run.Status {
	case spawn.StatusFailed:
		return "error"
	case spawn.StatusTimedOut:
		return "timeout"
	case spawn.StatusCancelled:
		return "killed"
	default:
		return h.Run.Status.String()
	}
}

// asked calls a function of the Config that a spawn of a session asks, within
// Config.DeliverTimeout. If the function does not return, Shutdown names the session, and the spawn
// goes on: with an error that is ErrNotRecorded and the cause of ctx when that ends, else with
// another one.
func asked[T any](
	ctx context.Context, rt *Runtime, of session.Key, field string,
	f func(context.Context) (T, error),
) (T, error) {
	var answer, zero T
	call := rt.bindings.call(ctx, of, false, field, func(ctx context.Context) (err error) {
		answer, err = f(ctx)
		return err
	})
	err := call.WaitFor(ctx)
	stopped := rt.bindings.ended()
	switch { // after an error answer may still be written to
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return zero, fmt.Errorf("%w: %w", ErrNotRecorded, context.Cause(ctx))
	case stopped != nil:
		return zero, stopped
	case errors.Is(err, thread.ErrHangs):
		return zero, &CallbackError{Field: field, Err: err}
	}
	return zero, err
}

// hookEnded calls Hooks.Ended.
func (rt *Runtime) hookEnded(ctx context.Context, out spawn.Delivery) error {
	return deliveryError(rt.cfg.Hooks.Ended(ctx, EndedHook{
		Key: out.Key, Attempt: out.Attempt, MayRepeat: out.MayRepeat,
		Run: out.Ended.Run, Requester: out.Ended.Requester,
		Transcript: session.Ref{Key: out.Ended.Run.Key, SessionID: out.Ended.Run.SessionID},
	}))
}
