package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A collector is a receiver that notes what comes in each call. It answers as told, and nil when
// that has run out.
type collector struct {
	t       *testing.T
	sup     *spawn.Supervisor
	answers []func(ctx context.Context) error

	mu    sync.Mutex
	calls []string // the tasks of each, with commas
	outs  []spawn.Delivery
}

func (c *collector) deliver(ctx context.Context, out spawn.Delivery) error {
	var tasks []string
	for _, d := range out.All() {
		require.Empty(c.t, d.More)
		require.Equal(c.t, out.Mode, d.Mode)
		tasks = append(tasks, d.Completion.Run.Task)
	}
	c.mu.Lock()
	c.calls = append(c.calls, strings.Join(tasks, ","))
	c.outs = append(c.outs, out)
	var answer func(ctx context.Context) error
	if len(c.answers) > 0 {
		answer, c.answers = c.answers[0], c.answers[1:]
	}
	c.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

// collects runs a test with a collector under a mode.
func collects(
	t *testing.T, queue func(of session.Key) spawn.QueueMode, test func(c *collector),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t}
		sup, err := spawn.Open(t.Context(), spawn.Config{
			Store: session.NewMemory(), Runner: instantRunner, CallerRun: true, Deliver: c.deliver,
			Queue: queue, DeliverTimeout: time.Minute,
		})
		require.NoError(t, err)
		c.sup = sup
		done := make(chan error, 1)
		go func() { done <- sup.Run(context.WithoutCancel(t.Context())) }()
		test(c)
		require.NoError(t, sup.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

// A receiver that keeps the context of its call does not keep what was delivered.
func TestContextOfACallKeepsNoDelivery(t *testing.T) {
	for name, answer := range map[string]error{"arrives": nil, "fails": spawn.Permanent(io.EOF)} {
		t.Run(name, func(t *testing.T) {
			var kept context.Context
			var gone weak.Pointer[spawn.Completion]
			synctest.Test(t, func(t *testing.T) {
				s, err := spawn.Open(t.Context(), spawn.Config{
					Store: session.NewMemory(), Runner: instantRunner, CallerRun: true,
					Deliver: func(ctx context.Context, out spawn.Delivery) error {
						kept, gone = ctx, weak.Make(out.Completion) //nolint:fatcontext // kept on purpose
						return answer
					},
				})
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() { done <- s.Run(context.WithoutCancel(t.Context())) }()
				_, err = s.Spawn(
					t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
				require.NoError(t, err)
				synctest.Wait()
				require.NoError(t, s.Shutdown(t.Context()))
				require.NoError(t, <-done)
			})
			runtime.GC()
			require.Nil(t, gone.Value())
			runtime.KeepAlive(kept)
		})
	}
}

func always(m spawn.QueueMode) func(session.Key) spawn.QueueMode {
	return func(session.Key) spawn.QueueMode { return m }
}

// spawn spawns runs that end at once, named by their number.
func (c *collector) spawn(from, to int) {
	for n := from; n <= to; n++ {
		_, err := c.sup.Spawn(c.t.Context(), topKey, topKey, spawn.Request{
			Task: fmt.Sprint(n), Announce: true,
		})
		require.NoError(c.t, err)
		synctest.Wait()
	}
}

func returns(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

func (c *collector) isEmpty() {
	out, err := c.sup.Outbox(c.t.Context(), topKey)
	require.NoError(c.t, err)
	require.Empty(c.t, out)
}

// What has come while a session was busy comes in one call when it is free, and what it was not
// told of in that call comes after it.
func TestCollectAfterBusy(t *testing.T) {
	for name, free := range map[string]func(c *collector){
		"told":    func(c *collector) { require.NoError(c.t, c.sup.Ready(c.t.Context(), topKey)) },
		"in time": func(*collector) { time.Sleep(16 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			collects(t, always(spawn.QueueCollect), func(c *collector) {
				c.answers = append(c.answers, returns(spawn.ErrBusy))
				c.spawn(1, 5)
				free(c)
				synctest.Wait()
				require.Equal(t, []string{"1", "1,2,3,4,5"}, c.calls)
				require.Equal(t, 1, c.outs[1].Attempt)
				for _, d := range c.outs[1].All() {
					require.False(t, d.MayRepeat)
					require.Equal(t, "done", d.Completion.Run.Result.Text)
				}
				c.isEmpty()
				c.spawn(6, 6)
				require.Equal(t, "6", c.calls[2])
			})
		})
	}
}

// A call has at most MaxCollected deliveries. Nothing is dropped.
func TestCollectIsBounded(t *testing.T) {
	collects(t, always(spawn.QueueCollect), func(c *collector) {
		c.answers = append(c.answers, returns(spawn.ErrBusy))
		for n := 1; n <= 45; n += 5 { // five at a time may run
			c.spawn(n, n+4)
		}
		require.NoError(t, c.sup.Ready(c.t.Context(), topKey))
		synctest.Wait()
		total := 0
		for _, out := range c.outs[1:] {
			require.LessOrEqual(t, len(out.All()), spawn.MaxCollected)
			total += len(out.All())
		}
		require.Equal(t, 45, total)
		require.Len(t, c.outs[1].All(), spawn.MaxCollected)
		c.isEmpty()
	})
}

// What a call comes to counts for all that was in it: each is tried again, in order, and says that
// it may repeat.
func TestCollectedCallThatFails(t *testing.T) {
	for name, trouble := range map[string]func(ctx context.Context) error{
		"fails":  returns(errors.New("down")),
		"panics": func(context.Context) error { panic("down") },
		"exits":  func(context.Context) error { runtime.Goexit(); return nil },
		"hangs until its time is up": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"hangs and fails": func(context.Context) error {
			time.Sleep(3 * time.Minute)
			return errors.New("down")
		},
		"asks for a pause": returns(spawn.RetryAfter(10*time.Minute, errors.New("slow down"))),
		"never":            returns(spawn.Permanent(errors.New("gone"))),
	} {
		t.Run(name, func(t *testing.T) {
			collects(t, always(spawn.QueueCollect), func(c *collector) {
				c.answers = append(c.answers, returns(spawn.ErrBusy), trouble)
				c.spawn(1, 4)
				require.NoError(t, c.sup.Ready(c.t.Context(), topKey))
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				require.Equal(t, "1,2,3,4", c.calls[1])
				want := []string{"1", "2,3,4"}
				if name == "never" {
					want = []string{"2", "3,4"}
				}
				require.Equal(t, want, c.calls[2:])
				for _, d := range append(c.outs[2].All(), c.outs[3].All()...) {
					require.True(t, d.MayRepeat, d.Key)
				}
				if name != "never" {
					c.isEmpty()
					return
				}
				blocked, err := c.sup.Blocked(c.t.Context())
				require.NoError(t, err)
				require.Len(t, blocked, 1)
				require.Equal(t, "1", blocked[0].Completion.Run.Task)
			})
		})
	}
}

// A call that returns well after its time has arrived, with all that was in it.
func TestCollectedCallThatArrivesLate(t *testing.T) {
	collects(t, always(spawn.QueueCollect), func(c *collector) {
		c.answers = append(c.answers, returns(spawn.ErrBusy), func(context.Context) error {
			time.Sleep(3 * time.Minute)
			return nil
		})
		c.spawn(1, 4)
		require.NoError(t, c.sup.Ready(c.t.Context(), topKey))
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"1", "1,2,3,4"}, c.calls)
		c.isEmpty()
	})
}

// The other modes hand over one by one, and say what the loop is to do.
func TestQueueModesOneByOne(t *testing.T) {
	for _, m := range []spawn.QueueMode{
		spawn.QueueFollowup, spawn.QueueSteer, spawn.QueueInterrupt,
	} {
		t.Run(m.String(), func(t *testing.T) {
			collects(t, always(m), func(c *collector) {
				c.answers = append(c.answers, returns(spawn.ErrBusy))
				c.spawn(1, 3)
				require.NoError(t, c.sup.Ready(c.t.Context(), topKey))
				synctest.Wait()
				require.Equal(t, []string{"1", "1", "2", "3"}, c.calls)
				for _, out := range c.outs {
					require.Equal(t, m, out.Mode)
				}
			})
		})
	}
}

// A Queue that fails loses nothing.
func TestQueueThatMisbehaves(t *testing.T) {
	for name, queue := range map[string]func(n int) spawn.QueueMode{
		"panics":           func(int) spawn.QueueMode { panic("no mode") },
		"no mode":          func(int) spawn.QueueMode { return 77 },
		"exits once":       func(n int) spawn.QueueMode { return exitAt(n, 1) },
		"hangs once":       func(n int) spawn.QueueMode { return hangAt(n, 1) },
		"changes its mind": func(n int) spawn.QueueMode { return spawn.QueueMode(n % 4) },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			n := 0
			collects(t, func(of session.Key) spawn.QueueMode {
				require.Equal(t, topKey, of)
				mu.Lock()
				n++
				now := n
				mu.Unlock()
				return queue(now)
			}, func(c *collector) {
				c.spawn(1, 5)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				require.Equal(t, "1,2,3,4,5", strings.Join(c.calls, ","))
				c.isEmpty()
			})
		})
	}
}

func exitAt(n, at int) spawn.QueueMode {
	if n == at {
		runtime.Goexit()
	}
	return spawn.QueueCollect
}

func hangAt(n, at int) spawn.QueueMode {
	if n == at {
		time.Sleep(2 * time.Minute)
		panic("late")
	}
	return spawn.QueueCollect
}

// The words of the modes are those of the field.
func TestQueueModeWords(t *testing.T) {
	var m spawn.QueueMode
	require.NoError(t, m.UnmarshalText([]byte("Collect")))
	require.Equal(t, spawn.QueueCollect, m)
	require.Error(t, m.UnmarshalText([]byte("later")))
	require.Equal(t, spawn.QueueCollect, m)
	_, err := spawn.QueueMode(9).MarshalText()
	require.Error(t, err)
	require.Equal(t, "QueueMode(9)", spawn.QueueMode(9).String())
}
