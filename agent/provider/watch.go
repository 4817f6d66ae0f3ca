package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// DefaultIdle is how long a provider may be silent in the middle of a call, unless a client says
// otherwise.
const DefaultIdle = 10 * time.Minute

// A Watch ends a call whose provider has gone silent. [Begin] makes one.
type Watch struct {
	timer *time.Timer
	idle  time.Duration
	end   context.CancelCauseFunc
}

// Begin returns a context for a call that ends when the provider has been silent for so long, and
// the Watch. 0: [DefaultIdle]; negative: the provider may be silent for as long as it likes. The
// cause of the end is an error that is Retryable.
//
// The caller calls End when the call is over.
func Begin(ctx context.Context, client string, idle time.Duration) (context.Context, *Watch) {
	if idle == 0 {
		idle = DefaultIdle
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watch{idle: idle, end: cancel}
	if idle > 0 {
		w.timer = time.AfterFunc(idle, func() {
			cancel(agent.Retryable(fmt.Errorf("provider: it has told %s nothing for %v", client,
				idle)))
		})
	}
	return ctx, w
}

// Heard says that the provider has said something.
func (w *Watch) Heard() {
	if w.timer != nil {
		w.timer.Reset(w.idle)
	}
}

// End ends the Watch, and with it the context of the call.
func (w *Watch) End() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.end(nil)
}
