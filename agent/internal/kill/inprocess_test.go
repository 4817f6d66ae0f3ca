package kill

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// An inProcessBot is a bot under load in this very process, and what the world has heard of it.
type inProcessBot struct {
	*witness

	keep bool // see load

	store   *session.Store
	rt      *agent.Runtime
	load    *workload
	running chan error
	stop    context.CancelFunc // of the load
	stopped chan struct{}
	lives   int

	heard    arrivalLog
	failMu   sync.Mutex
	failures []failure
}

// A failure is something that could not be done.
type failure struct {
	what string
	err  error
}

func newInProcessBot(t *testing.T, w world, dir string) *inProcessBot {
	b := &inProcessBot{witness: newWitness(t, w)}
	b.dir = dir
	return b
}

func (b *inProcessBot) fail(what string, err error) {
	b.failMu.Lock()
	defer b.failMu.Unlock()
	b.failures = append(b.failures, failure{what, err})
}

// failed returns how often something could not be done for a reason.
func (b *inProcessBot) failed(why error) (n int) {
	b.failMu.Lock()
	defer b.failMu.Unlock()
	for _, f := range b.failures {
		if errors.Is(f.err, why) {
			n++
		}
	}
	return n
}

// takeFailures returns what could not be done since it was last called.
func (b *inProcessBot) takeFailures() []failure {
	b.failMu.Lock()
	defer b.failMu.Unlock()
	f := b.failures
	b.failures = nil
	return f
}

// appends returns how many appends were acknowledged.
func (b *inProcessBot) appends() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sum.appends
}

// open begins a life, and runs what there is to do.
func (b *inProcessBot) open(t *testing.T) {
	t.Helper()
	var err error
	b.store, err = dirstore.Open(b.dir)
	require.NoError(t, err)
	b.lives++
	b.load = &workload{
		world: b.world, life: strconv.Itoa(b.lives), modest: true, keep: b.keep,
		arrive: b.heard.arrive, fail: b.fail, tell: func(format string, args ...any) {
			_ = b.readLine(fmt.Sprintf(format, args...)) // what the load tells can be read
		},
	}
	b.rt, err = agent.Open(t.Context(), b.load.config(b.store))
	require.NoError(t, err)
	b.running = make(chan error, 1)
	go func() { b.running <- b.rt.Run(context.WithoutCancel(t.Context())) }()
}

// work puts it under load, until idle is called.
func (b *inProcessBot) work(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b.stop, b.stopped = cancel, make(chan struct{})
	go func() {
		defer close(b.stopped)
		b.load.work(ctx, b.rt)
	}()
}

func (b *inProcessBot) idle() {
	b.stop()
	<-b.stopped
}

// close ends a life, under ctx softly.
func (b *inProcessBot) close(ctx context.Context) error {
	err := b.rt.Shutdown(ctx)
	return errors.Join(err, <-b.running, b.store.Close())
}

// endState lets everything come to its end and looks at what has become of it.
func (b *inProcessBot) end(t *testing.T) {
	t.Helper()
	require.NoError(t, b.load.waitIdle(t.Context(), b.rt))
	require.NoError(t, b.close(t.Context()))
	b.checkEnd(t, b.heard.keys)
	t.Logf("%+v", b.sum)
}
