package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// post is a receiver that checks every call: calls for one destination do not overlap within a
// process, and a delivery is tried only when those before it have arrived. It remembers what has
// arrived by destination.
type post struct {
	t       *testing.T
	store   *session.Store
	trouble func(ctx context.Context, s *spawn.Supervisor) error // may be nil

	sup  *spawn.Supervisor
	stop func()

	mu       sync.Mutex
	sent     map[string]int      // deliveries by destination
	arrived  map[string][]string // texts by destination
	failures map[string]int      // by key
	calls    int                 // of all
}

func newPost(t *testing.T) *post {
	return &post{
		t: t, store: session.NewMemory(), sent: make(map[string]int),
		arrived: make(map[string][]string), failures: make(map[string]int),
	}
}

// start begins a process.
func (p *post) start() {
	calling := make(map[string]bool)
	var sup *spawn.Supervisor
	sup, err := spawn.Open(p.t.Context(), spawn.Config{
		Store: p.store, CallerRun: true, Replies: true,
		Runner: runnerFunc(func(_ context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
			text := t.Inputs[0].Text
			return spawn.TurnResult{Result: spawn.Result{Text: text}, Reply: text}, nil
		}),
		Deliver: func(ctx context.Context, out spawn.Delivery) error {
			return p.deliver(ctx, sup, calling, out)
		},
	})
	require.NoError(p.t, err)
	done := make(chan error, 1)
	go func() { done <- sup.Run(context.WithoutCancel(p.t.Context())) }()
	p.sup = sup
	p.stop = sync.OnceFunc(func() {
		now, cancel := context.WithCancel(p.t.Context())
		cancel()
		var still *spawn.StillRunningError
		if err := sup.Shutdown(now); err != nil {
			require.ErrorAs(p.t, err, &still)
		}
		require.NoError(p.t, <-done)
	})
	p.t.Cleanup(p.stop) // of a test that has failed
}

// of returns the destination and the text of a delivery.
func (p *post) of(out spawn.Delivery) (to, text string) {
	if out.Completion != nil {
		return "completions", out.Completion.Run.Result.Text
	}
	return "replies " + out.Reply.Route.Channel, out.Reply.Text
}

func (p *post) deliver(
	ctx context.Context, s *spawn.Supervisor, calling map[string]bool, out spawn.Delivery,
) error {
	to, text := p.of(out)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if calling[to] {
		p.t.Errorf("%s: a call for %s begins before the one before it has returned", to, text)
	}
	calling[to] = true
	defer func() { calling[to] = false }()
	if next := fmt.Sprint(len(p.arrived[to]) + 1); text > next && !out.Late {
		p.t.Errorf("%s: %s is tried before %s has arrived", to, text, next)
	}
	if p.trouble != nil && (text == "1" || text == "3") && p.failures[out.Key] < 3 {
		p.failures[out.Key]++
		if err := p.inTrouble(ctx, s); err != nil {
			return err
		}
	}
	if !slices.Contains(p.arrived[to], text) {
		p.arrived[to] = append(p.arrived[to], text)
	}
	return nil
}

// inTrouble has the trouble happen without the lock.
func (p *post) inTrouble(ctx context.Context, s *spawn.Supervisor) error {
	trouble := p.trouble
	p.mu.Unlock()
	defer p.mu.Lock()
	return trouble(ctx, s)
}

// complete sends a completion.
func (p *post) complete() {
	p.sent["completions"]++
	_, err := p.sup.Spawn(p.t.Context(), topKey, topKey, spawn.Request{
		Task: fmt.Sprint(p.sent["completions"]), Announce: true,
	})
	require.NoError(p.t, err)
	synctest.Wait()
}

// reply sends a reply to a channel; "" is a reply without a route.
func (p *post) reply(channel string) {
	to := "replies " + channel
	p.sent[to]++
	if channel == "" { // the session has that of the message before
		require.NoError(p.t, p.sup.SetRoute(p.t.Context(), topKey, topKey, session.Route{}))
	}
	require.NoError(p.t, errorOf(p.sup.Post(p.t.Context(), topKey, topKey, spawn.Incoming{
		Text: fmt.Sprint(p.sent[to]), Route: session.Route{Channel: channel},
	})))
	synctest.Wait()
}

func (p *post) outbox() []spawn.Delivery {
	list, err := p.sup.Outbox(p.t.Context(), topKey)
	require.NoError(p.t, err)
	return list
}

// troubles are what a receiver may do instead of taking a delivery.
// unreadable is an error whose nil pointer cannot be read.
type unreadable struct{ text string }

func (e *unreadable) Error() string { return e.text }

var troubles = map[string]func(ctx context.Context, s *spawn.Supervisor) error{
	"fails":  func(context.Context, *spawn.Supervisor) error { return errors.New("down") },
	"busy":   func(context.Context, *spawn.Supervisor) error { return spawn.ErrBusy },
	"panics": func(context.Context, *spawn.Supervisor) error { panic("down") },
	"fails unreadably": func(context.Context, *spawn.Supervisor) error {
		return (*unreadable)(nil)
	},
	"exits": func(context.Context, *spawn.Supervisor) error {
		runtime.Goexit()
		return nil
	},
	"hangs until its time is up": func(ctx context.Context, _ *spawn.Supervisor) error {
		<-ctx.Done()
		return ctx.Err()
	},
	"hangs and fails": func(context.Context, *spawn.Supervisor) error {
		time.Sleep(3 * time.Minute)
		return errors.New("down")
	},
	"hangs and panics": func(context.Context, *spawn.Supervisor) error {
		time.Sleep(3 * time.Minute)
		panic("down")
	},
	"hangs and exits": func(context.Context, *spawn.Supervisor) error {
		time.Sleep(3 * time.Minute)
		runtime.Goexit()
		return nil
	},
	"hangs and arrives": func(context.Context, *spawn.Supervisor) error {
		time.Sleep(3 * time.Minute)
		return nil
	},
	"calls back": func(ctx context.Context, s *spawn.Supervisor) error {
		other := session.Must(session.NamedKey("main", "other"))
		err := s.Steer(ctx, other, other, refOf(other), spawn.Incoming{Text: "x"})
		_, listed := s.Outbox(ctx, topKey)
		return errors.Join(errors.New("down"), err, listed, s.Stop(ctx, topKey, topKey, "enough"))
	},
}

// D1, D2, R7: whatever a receiver does, deliveries for one destination arrive in order, those for
// others are not held up, and a restart in the middle of it changes nothing.
func TestOrderWithinADestination(t *testing.T) {
	for name, trouble := range troubles {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restart=%v", name, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPost(t)
					p.trouble = trouble
					p.start()
					for range 5 {
						p.complete()
						p.reply("telegram")
						p.reply("")
					}
					for range 3 {
						time.Sleep(time.Minute)
						if restart {
							p.stop()
							p.start()
						}
					}
					require.NoError(t, p.sup.Idle(t.Context(), topKey))
					for to := range p.sent {
						require.Equal(t, []string{"1", "2", "3", "4", "5"}, p.arrived[to], to)
					}
					require.Empty(t, p.outbox())
					p.stop()
					time.Sleep(time.Hour)
				})
			})
		}
	}
}

// D1: what fails at one destination holds up no other one.
func TestDestinationsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t)
		p.trouble = func(context.Context, *spawn.Supervisor) error { return errors.New("down") }
		p.start()
		p.sent["replies telegram"] = 1
		for range 3 {
			p.reply("slack")
			p.complete()
		}
		p.arrived["replies telegram"] = []string{"1"}
		p.reply("telegram")
		synctest.Wait()
		require.Equal(t, []string{"1", "2"}, p.arrived["replies telegram"])
		require.Empty(t, p.arrived["replies slack"])
		require.Empty(t, p.arrived["completions"])
		p.stop()
	})
}

// D2: a call that does not return has failed when its time is up. No other begins for its
// destination. What waits is blocked after half an hour, with the reason. In the end the call may
// return well, which is an arrival.
func TestCallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t)
		release := make(chan struct{})
		var ended time.Time
		began := time.Now()
		p.trouble = func(ctx context.Context, _ *spawn.Supervisor) error {
			<-ctx.Done()
			ended = time.Now()
			require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			<-release
			return nil
		}
		p.start()
		for range 3 {
			p.complete()
		}
		p.sent["replies telegram"] = 3 // they are not those that hang
		p.arrived["replies telegram"] = []string{"1", "2", "3"}
		p.reply("telegram")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, spawn.DefaultDeliverTimeout, ended.Sub(began))
		require.Equal(t, 2, p.calls)
		require.Len(t, p.arrived["replies telegram"], 4)
		out := p.outbox()
		require.Len(t, out, 3)
		require.Equal(t, 2, out[0].Attempt)
		require.Contains(t, out[0].Error, "has not returned within 2m0s")
		require.True(t, out[0].Blocked.IsZero())
		require.Equal(t, 1, out[1].Attempt)
		require.Empty(t, out[1].Error)

		time.Sleep(time.Hour)
		synctest.Wait()
		require.NoError(t, p.sup.Idle(t.Context(), topKey))
		out = p.outbox()
		for i, d := range out {
			require.Equal(t, began.Add(32*time.Minute+time.Second).UTC(), d.Blocked)
			require.Contains(t, d.Error, "has not returned within 2m0s")
			require.Equal(t, i == 0, d.MayRepeat, "the others were not tried")
		}
		require.NoError(t, p.sup.Dismiss(t.Context(), out[2].Key))
		p.complete()
		require.Equal(t, 2, p.calls, "a new one waits as well")

		close(release)
		synctest.Wait()
		require.Equal(t, []string{"1"}, p.arrived["completions"][:1])
		require.NoError(t, p.sup.Retry(t.Context(), out[1].Key))
		p.sent["completions"]++
		synctest.Wait()
		require.Len(t, p.outbox(), 1, "blocked while it waited")
		p.stop()
	})
}

// D2: a shutdown does not wait for a call whose time is up longer than the grace period.
func TestShutdownWithACallThatHangs(t *testing.T) {
	for name, before := range map[string]time.Duration{
		"its time is up": time.Hour, "its time is not up": time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				s, err := spawn.Open(t.Context(), spawn.Config{
					Store: session.NewMemory(), Runner: instantRunner, CallerRun: true,
					DeliverTimeout: time.Minute,
					Deliver: func(context.Context, spawn.Delivery) error {
						<-release
						return nil
					},
				})
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() { done <- s.Run(t.Context()) }()
				ask := spawn.Request{Task: "x", Announce: true}
				_, err = s.Spawn(t.Context(), topKey, topKey, ask)
				require.NoError(t, err)
				time.Sleep(before)
				began := time.Now()
				var still *spawn.StillRunningError
				require.ErrorAs(t, s.Shutdown(t.Context()), &still)
				require.Equal(t, []session.Key{topKey}, still.Deliveries)
				left := max(0, time.Minute-before)
				require.WithinDuration(
					t, began.Add(left+spawn.DefaultGrace), time.Now(), 2*time.Second,
				)
				require.NoError(t, <-done)
				close(release)
			})
		})
	}
}

// D2: a receiver may shut the Supervisor down that calls it.
func TestReceiverThatShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *spawn.Supervisor
		ended := make(chan error, 1)
		s, err := spawn.Open(t.Context(), spawn.Config{
			Store: session.NewMemory(), Runner: instantRunner, CallerRun: true,
			Deliver: func(ctx context.Context, _ spawn.Delivery) error {
				ended <- s.Shutdown(ctx)
				return nil
			},
		})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		_, err = s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
		require.NoError(t, err)
		var still *spawn.StillRunningError
		if err := <-ended; err != nil {
			require.ErrorAs(t, err, &still)
		}
		require.NoError(t, <-done)
	})
}

// D2: a call that hangs outlives the incarnation of the tree that has sent it. The next one learns
// that nothing can be delivered, and makes a call of its own when the old one has returned.
func TestCallThatOutlivesItsTree(t *testing.T) {
	for name, lost := range map[string]time.Duration{
		"lost before its time is up": time.Minute, "lost afterwards": 3 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPost(t)
				p.trouble = func(context.Context, *spawn.Supervisor) error {
					time.Sleep(10 * time.Minute)
					return nil
				}
				p.start()
				p.complete()
				p.complete()
				time.Sleep(lost)
				synctest.Wait()
				other, err := spawn.Open(t.Context(), spawn.Config{
					Store: p.store, Runner: instantRunner, CallerRun: true,
					Deliver: func(context.Context, spawn.Delivery) error { return nil },
				})
				require.NoError(t, err)
				_, err = other.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "3"})
				require.NoError(t, err)
				require.NoError(t, other.Shutdown(t.Context()))
				m := spawn.Incoming{Text: "0"}
				require.Error(t, errorOf(p.sup.Post(t.Context(), topKey, topKey, m)))
				require.NoError(t, errorOf(p.sup.Post(t.Context(), topKey, topKey, m)))
				time.Sleep(5*time.Minute - lost)
				synctest.Wait()
				out := p.outbox()
				require.Len(t, out, 2)
				require.Contains(t, out[0].Error, "has not returned within 2m0s")
				require.Equal(t, 1, p.failures[out[0].Key], "the second call waits for the first")

				p.mu.Lock()
				p.trouble = nil
				p.mu.Unlock()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				synctest.Wait()
				require.Equal(t, []string{"1", "2"}, p.arrived["completions"])
				require.NoError(t, p.sup.Idle(t.Context(), topKey))
				require.Empty(t, p.outbox())
				p.stop()
			})
		})
	}
}

// D1: what is blocked and tried again because a person asked for it may come late, and says so.
func TestLateDeliverySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, open := session.NewMemory(), false
		var got []string
		cfg := spawn.Config{
			Store: store, Runner: instantRunner, CallerRun: true,
			Deliver: func(_ context.Context, out spawn.Delivery) error {
				if strings.HasPrefix(out.Completion.Run.Task, "bad") && !open {
					return errors.New("it is too long")
				}
				got = append(got, fmt.Sprint(out.Completion.Run.Task, " ", out.Late))
				return nil
			},
		}
		s := openSupervisor(t, cfg)
		for _, task := range []string{"bad", "good"} {
			ask := spawn.Request{Task: task, Announce: true}
			_, err := s.Spawn(t.Context(), topKey, topKey, ask)
			require.NoError(t, err)
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"good false"}, got)
		blocked, err := s.Blocked(t.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 1)
		require.False(t, blocked[0].Late, "it is not tried yet")
		open = true
		require.NoError(t, s.Retry(t.Context(), blocked[0].Key))
		synctest.Wait()
		require.Equal(t, []string{"good false", "bad true"}, got)
	})
}

// D2: the limit of a call is checked and has a default.
func TestDeliverTimeout(t *testing.T) {
	cfg := spawn.Config{Store: session.NewMemory(), Runner: instantRunner, DeliverTimeout: -1}
	_, err := spawn.Open(t.Context(), cfg)
	var input *spawn.InputError
	require.ErrorAs(t, err, &input)
	require.Equal(t, "DeliverTimeout", input.Field)
	require.EqualError(t, err, "spawn: DeliverTimeout: it is negative: -1ns")
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{1, time.Hour, 1<<63 - 1} {
			deadline := make(chan time.Time, 1)
			s := openSupervisor(t, spawn.Config{
				Runner: instantRunner, CallerRun: true, DeliverTimeout: limit,
				Deliver: func(ctx context.Context, _ spawn.Delivery) error {
					at, _ := ctx.Deadline()
					deadline <- at
					return nil
				},
			})
			began := time.Now()
			_, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
			require.NoError(t, err)
			require.True(t, began.Add(limit).Equal(<-deadline))
		}
	})
}
