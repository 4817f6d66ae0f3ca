package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// outage is a journal of which one kind of call, or both, fails for now.
type outage struct {
	session.Journal
	appends, reads atomic.Pointer[error] // what they fail with; nil: they do not
}

func (j *outage) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if err := j.appends.Load(); err != nil {
		return 0, *err
	}
	return j.Journal.Append(ctx, root, after, b)
}

func (j *outage) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if err := j.reads.Load(); err != nil {
		return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, *err) }
	}
	return j.Journal.Read(ctx, root, after)
}

// fail has the calls of the kinds "append", "read" or "both" fail with err; nil: it is over.
func (j *outage) fail(what string, err error) {
	set := func(p *atomic.Pointer[error]) {
		if p.Store(&err); err == nil {
			p.Store(nil)
		}
	}
	if what != "read" {
		set(&j.appends)
	}
	if what != "append" {
		set(&j.reads)
	}
}

// waitCase is a call that waits for the store: the outage, and what is known when it begins.
type waitCase struct {
	t      *testing.T
	what   string // of the journal fails
	opened bool   // the tree has been opened in this process
	runs   bool   // Run has been called

	j   *outage
	s   *spawn.Supervisor
	ran chan error
	run session.Key // a run of a minute
	// release has the Runner return.
	release chan struct{}
}

// waits are the calls that wait, each for something that comes when the journal works again.
var waits = map[string]func(context.Context, *waitCase) error{
	"Idle": func(ctx context.Context, c *waitCase) error { return c.s.Idle(ctx, topKey) },
	"Wait": func(ctx context.Context, c *waitCase) error {
		return errorOf(c.s.Wait(ctx, topKey, refsOf(c.run), spawn.JoinOptions{}))
	},
	"Wait and stop": func(ctx context.Context, c *waitCase) error {
		opt := spawn.JoinOptions{Within: time.Second, Rest: spawn.RestStop}
		return errorOf(c.s.Wait(ctx, topKey, refsOf(c.run), opt))
	},
	"WaitRootOf": func(ctx context.Context, c *waitCase) error {
		return errorOf(c.s.WaitRootOf(ctx, c.run))
	},
}

var errDisk = errors.New("disk full")

// start begins a process over a store that has a tree with a message that is not read and a run,
// and lets the journal fail.
func (c *waitCase) start() {
	t := c.t
	c.j = &outage{Journal: session.NewMemory().Journal}
	c.release, c.ran = make(chan struct{}), make(chan error, 1)
	cfg := spawn.Config{
		Store: &session.Store{Journal: c.j}, Grace: time.Second,
		Runner: runnerFunc(func(ctx context.Context, _ *spawn.TurnInput) (spawn.TurnResult, error) {
			select {
			case <-ctx.Done():
			case <-c.release:
			}
			return sayText("x")
		}),
	}
	first, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, errorOf(first.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})))
	c.run = mustSpawn(t, first, spawn.Request{Task: "x"})
	require.NoError(t, first.Shutdown(t.Context()))

	c.s, err = spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	if c.opened {
		require.NoError(t, errorOf(c.s.Find(t.Context(), topKey, refOf(c.run))))
	}
	c.j.fail(c.what, errDisk)
	if c.opened { // a stall of a tree in memory
		_, _ = c.s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "y"})
	}
	if c.runs {
		c.begin()
		synctest.Wait() // Run knows of the tree
	} else if !c.opened {
		_ = errorOf(c.s.Find(t.Context(), topKey, refOf(c.run))) // a tree that is known
	}
}

func (c *waitCase) begin() {
	go func() { c.ran <- c.s.Run(context.WithoutCancel(c.t.Context())) }()
}

// end shuts down, if the case has not.
func (c *waitCase) end() {
	c.j.fail("both", nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), time.Second)
	defer cancel()
	require.NoError(c.t, c.s.Shutdown(ctx))
}

// forEveryWait runs f in a bubble for every call that waits, and every way in which it meets a
// journal that fails, with the call under way for an hour. A call that may end, because what it
// asks for can be read, is left out.
func forEveryWait(
	t *testing.T, f func(c *waitCase, done chan error, cancel context.CancelFunc),
) {
	for name, call := range waits {
		for _, what := range []string{"append", "read", "both"} {
			for n := range 4 {
				c := &waitCase{what: what, opened: n&1 != 0, runs: n&2 != 0}
				if c.opened && what == "read" {
					continue // the tree in memory is not read
				}
				if !playsOneOf(4) {
					continue
				}
				at := fmt.Sprintf("%s, %s fails, opened %t, runs %t", name, what, c.opened, c.runs)
				t.Run(at, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c.t = t
						c.start()
						defer c.end()
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						done := make(chan error, 1)
						go func() { done <- call(ctx, c) }()
						for range 60 {
							time.Sleep(time.Minute)
							require.Empty(t, done, "it has ended while the journal fails")
						}
						f(c, done, cancel)
					})
				})
			}
		}
	}
}

// R15: a call that waits for something waits for a failing journal, too, until that recovers.
func TestEveryWaitWaitsForTheStore(t *testing.T) {
	forEveryWait(t, func(c *waitCase, done chan error, _ context.CancelFunc) {
		close(c.release)
		c.j.fail("both", nil)
		if !c.runs {
			time.Sleep(time.Minute)
			c.begin()
		}
		require.NoError(c.t, <-done)
	})
}

// R15: before Run, a call that waits for what has happened already ends when the journal recovers:
// it needs no other call to try the journal.
func TestWaitBeforeRunEndsWhenTheStoreIsBack(t *testing.T) {
	for _, opened := range []bool{false, true} {
		for _, what := range []string{"append", "both"} {
			synctest.Test(t, func(t *testing.T) {
				c := &waitCase{t: t, what: what, opened: opened}
				c.start()
				c.j.fail("both", nil)
				c.begin()
				close(c.release)
				require.NoError(t, c.s.Idle(t.Context(), topKey))
				c.end()
				require.NoError(t, <-c.ran)

				s, err := spawn.Open(t.Context(), spawn.Config{
					Store: &session.Store{Journal: c.j}, Runner: instantRunner,
				})
				require.NoError(t, err)
				c.s = s
				defer c.end()
				if opened {
					require.NoError(
						t, errorOf(s.Find(t.Context(), topKey, refOf(c.run))),
					)
				}
				c.j.fail(what, errDisk)
				if opened { // what is not known to be recorded waits for the journal as well
					y := spawn.Incoming{Text: "y"}
					require.Error(t, errorOf(s.Post(t.Context(), topKey, topKey, y)))
				}
				done := make(chan error, 1)
				go func() { done <- waits["Wait"](t.Context(), c) }()
				time.Sleep(time.Hour)
				require.Empty(t, done)
				c.j.fail("both", nil)
				time.Sleep(time.Minute)
				require.NotEmpty(t, done, "nothing has tried the journal")
				require.NoError(t, <-done)
			})
		}
	}
}

// A call that waits for a failing journal ends with its ctx.
func TestEveryWaitEndsWithItsContext(t *testing.T) {
	forEveryWait(t, func(c *waitCase, done chan error, cancel context.CancelFunc) {
		began := time.Now()
		cancel()
		require.ErrorIs(c.t, <-done, context.Canceled)
		require.Less(c.t, time.Since(began), time.Second)
	})
}

// A call that waits for a failing journal ends with a shutdown, and does not hold it up.
func TestEveryWaitEndsWithAShutdown(t *testing.T) {
	forEveryWait(t, func(c *waitCase, done chan error, _ context.CancelFunc) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		defer cancel()
		_ = c.s.Shutdown(ctx)
		require.ErrorIs(c.t, <-done, spawn.ErrShutdown)
		if !c.opened { // else a batch waits for the journal
			require.Less(c.t, time.Since(began), 2*time.Second)
		}
	})
}

// A call that waits ends when the store will not take anything any more, and says why.
func TestEveryWaitEndsWithTheStore(t *testing.T) {
	for _, dead := range []error{session.ErrClosed, session.ErrSync} {
		forEveryWait(t, func(c *waitCase, done chan error, _ context.CancelFunc) {
			c.j.fail(c.what, fmt.Errorf("lost: %w", dead))
			require.Error(c.t, <-done)
		})
	}
}

// A call that waits ends if a person must repair the tree.
func TestEveryWaitEndsForABrokenTree(t *testing.T) {
	for _, broken := range []error{session.ErrCorrupt, session.ErrFormat} {
		forEveryWait(t, func(c *waitCase, done chan error, _ context.CancelFunc) {
			if c.opened || c.what == "append" {
				return // the tree is not read
			}
			c.j.fail("read", fmt.Errorf("broken: %w", broken))
			err := <-done
			require.ErrorIs(c.t, err, spawn.ErrUnreadable)
			require.ErrorIs(c.t, err, broken)
		})
	}
}
