package agent

import (
	"bytes"
	"context"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// MaxState is how many bytes a session keeps for its Runner; see [Turn.SetState].
const MaxState = spawn.MaxState

// State returns what the session keeps for its Runner, as [Turn.SetState] has set it in this turn,
// or in an earlier one, of whatever run of the session and in whatever process; nil for nothing.
// The caller may change what it gets. State works after the turn, too.
func (t *Turn) State() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.state)
}

// SetState has the session keep something for its Runner, such as the id that a foreign agent has
// given to its side of the conversation. It takes the place of what the session kept before. Nil
// and empty: the session keeps nothing.
//
// It is durable when SetState returns, and stands whatever becomes of the turn: after a crash the
// turn that repeats it has it. A Runner sets the id as soon as it has it, so that no crash makes
// the foreign agent begin anew. A turn that was cancelled can set it within its grace period.
//
// Later runs of the session have it, and so has a session that [Session.Revive] brings back.
// [Session.Reset] and [Runtime.DeleteSession] begin a new conversation, which has none. A sub-agent
// has nothing of its requester, also if it begins with a copy of the conversation. The state is
// shown to no model and to no person, and stands in the journal as it is: it is not for secrets.
//
// The error is a *[LimitError] for more than [MaxState] bytes, [ErrStale] after the turn, or one
// that every command can return; then the state may be set again.
func (t *Turn) SetState(ctx context.Context, state []byte) error {
	if err := t.rt.checked(ctx); err != nil {
		return err
	}
	if t.over.Load() {
		return t.stale()
	}
	t.worked.Store(true)
	if err := t.spawn.SetState(ctx, state); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = nil
	if len(state) > 0 {
		t.state = bytes.Clone(state)
	}
	return nil
}
