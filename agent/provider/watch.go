package provider

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// DefaultIdle is how long a provider may be silent in the middle of a call, unless a client says
// otherwise.
const DefaultIdle = 10 * time.Minute

// behind is how long a provider may be silent behind an answer that is complete.
const behind = 10 * time.Second

// A Watch ends a call whose provider has gone silent, or says nothing that is of an answer. [Begin]
// makes one.
type Watch struct {
	timer *time.Timer  // nil: the provider may be silent for as long as it likes
	idle  atomic.Int64 // how long it may be silent
	end   func()       // since it has been silent for so long
	over  context.CancelCauseFunc
	bytes atomic.Int64 // that a Transport has read since the last Heard
}

// watchKey is the key under which a context has the Watch of its call.
type watchKey struct{}

// watchOf returns the Watch of a call, or nil.
func watchOf(ctx context.Context) *Watch {
	w, _ := ctx.Value(watchKey{}).(*Watch)
	return w
}

// Begin returns a context for a call that ends when the provider has said nothing of an answer for
// so long, and the Watch. 0: [DefaultIdle]; negative: the provider may be silent for as long as it
// likes. The cause of the end is an error that is Retryable. It says how many bytes have come in
// that time, if the requests of the call go through a [Transport].
//
// The caller calls End when the call is over.
func Begin(ctx context.Context, client string, idle time.Duration) (context.Context, *Watch) {
	if idle == 0 {
		idle = DefaultIdle
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watch{over: cancel}
	w.end = func() { cancel(agent.Retryable(w.silence(client))) }
	w.idle.Store(int64(idle))
	if idle > 0 {
		w.timer = time.AfterFunc(idle, w.end)
	}
	return context.WithValue(ctx, watchKey{}, w), w
}

// silence returns what is wrong with a call that has ended.
func (w *Watch) silence(client string) error {
	idle := time.Duration(w.idle.Load())
	if n := w.bytes.Load(); n > 0 {
		return fmt.Errorf("provider: %s has got %d bytes in %v, and nothing of an answer in them",
			client, n, idle)
	}
	return fmt.Errorf("provider: it has told %s nothing for %v", client, idle)
}

// Heard says that the provider has said something of its answer. What adds nothing to that, such as
// an empty piece of a text or a sign of life, is not worth a Heard: a server that sends such things
// without end would hold the call as long.
func (w *Watch) Heard() {
	w.bytes.Store(0)
	if w.timer != nil {
		w.timer.Reset(time.Duration(w.idle.Load()))
	}
}

// Complete says that the provider has told the end of its answer, behind which only what the call
// has used is to come. From now on it may be silent for ten seconds at most: a server that keeps
// the connection open does not hold an answer back that is there.
func (w *Watch) Complete() {
	if w.timer == nil {
		w.idle.Store(int64(behind))
		w.timer = time.AfterFunc(behind, w.end)
		return
	}
	w.idle.Store(min(w.idle.Load(), int64(behind)))
	w.Heard()
}

// End ends the Watch, and with it the context of the call.
func (w *Watch) End() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.over(nil)
}
