package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// receiver is a Deliver or Reply whose attempts are answered one by one; the last answer is that of
// all further ones.
type receiver struct {
	answers []func(ctx context.Context) error

	mu       sync.Mutex
	attempts []time.Duration // when, since the beginning
	began    time.Time
}

// tried returns when the attempts were.
func (r *receiver) tried() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.attempts)
}

func (r *receiver) take(ctx context.Context) error {
	r.mu.Lock()
	if r.began.IsZero() {
		r.began = time.Now()
	}
	n := len(r.attempts)
	r.attempts = append(r.attempts, time.Since(r.began).Round(time.Second))
	r.mu.Unlock()
	return r.answers[min(n, len(r.answers)-1)](ctx)
}

func (r *receiver) deliver(ctx context.Context, _ agent.Delivery) error { return r.take(ctx) }
func (r *receiver) reply(ctx context.Context, _ agent.Delivery) error   { return r.take(ctx) }

func acceptDelivery(context.Context) error  { return nil }
func refuseDelivery(context.Context) error  { return errors.New("no connection") }
func panicInDelivery(context.Context) error { panic("oh no") }
func busyReceiver(context.Context) error    { return fmt.Errorf("chat 7: %w", agent.ErrBusy) }

func slowDelivery(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestDeliveryIsTriedAgain(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"refused": refuseDelivery,
		"panics":  panicInDelivery,
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{answers: []func(context.Context) error{fail, fail, fail, acceptDelivery}}
			cfg := configAnswering(asText)
			cfg.Deliver = r.deliver
			agenttest.Run(t, cfg, nil, func(h *harness) {
				_, err := callTool(h, "sessions_spawn", "1", `{"task":"42"}`)
				require.NoError(t, err)
				time.Sleep(10 * time.Minute)
				h.Delivered("42")
				require.Len(t, r.tried(), 4)
				for i, pause := range []time.Duration{15, 30, 60} { // seconds, less up to a fifth
					got := (r.tried()[i+1] - r.tried()[i]).Seconds()
					require.LessOrEqual(t, got, float64(pause)+1)
					require.GreaterOrEqual(t, got, 0.8*float64(pause)-1)
				}
				require.Equal(t, 4, h.Deliveries()[0].Attempt)
				require.True(t, h.Deliveries()[0].MayRepeat)
			})
		})
	}
}

// After half an hour a delivery is blocked: it is kept, and the caller retries or dismisses it.
func TestDeliveryIsBlocked(t *testing.T) {
	var open atomic.Bool
	cfg := configAnswering(asText)
	cfg.Deliver = func(context.Context, agent.Delivery) error {
		if !open.Load() {
			return errors.New("no connection")
		}
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, task := range []string{"41", "42"} {
			_, err := callTool(h, "sessions_spawn", "1", `{"task":"`+task+`"}`)
			require.NoError(t, err)
			synctest.Wait()
		}
		time.Sleep(29 * time.Minute)
		blocked, err := h.Runtime().Blocked(h.Context())
		require.NoError(t, err)
		require.Empty(t, blocked)
		time.Sleep(2 * time.Hour)
		blocked, err = h.Runtime().Blocked(h.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 2)
		for i, text := range []string{"41", "42"} {
			require.Equal(t, text, blocked[i].Completion.Run.Result.Text)
			require.Equal(t, "no connection", blocked[i].Error)
			require.False(t, blocked[i].Blocked.IsZero())
		}
		require.Len(t, h.Runs(), 2, "what has not arrived is not archived")

		h.Crash()
		open.Store(true)
		time.Sleep(24 * time.Hour)
		h.Delivered()
		require.ErrorIs(t, h.Runtime().Retry(h.Context(), "nonsense"), agent.ErrNotFound)
		require.NoError(t, h.Runtime().Retry(h.Context(), blocked[1].Key))
		h.Delivered("42")
		require.NoError(t, h.Runtime().Dismiss(h.Context(), blocked[0].Key))
		require.ErrorIs(t, h.Runtime().Dismiss(h.Context(), blocked[0].Key), agent.ErrNotFound)
		time.Sleep(24 * time.Hour)
		h.Delivered("42")
		blocked, err = h.Runtime().Blocked(h.Context())
		require.NoError(t, err)
		require.Empty(t, blocked)
		require.Empty(t, h.Runs(), "archived at last")
	})
}

// takers have one function of cfg that takes deliveries call take.
var takers = map[string]func(cfg *agent.Config, take func() error){
	"Reply": func(cfg *agent.Config, take func() error) {
		cfg.Reply = func(context.Context, agent.Delivery) error { return take() }
	},
	"Deliver": func(cfg *agent.Config, take func() error) {
		cfg.Deliver = func(context.Context, agent.Delivery) error { return take() }
	},
	"Ended": func(cfg *agent.Config, take func() error) {
		cfg.Hooks.Ended = func(context.Context, agent.EndedHook) error { return take() }
	},
}

// The half hour counts the time of processes: a receiver that failed once in the evening is tried
// again in the morning, and what it fails to take then is not blocked.
func TestNightDoesNotBlockADelivery(t *testing.T) {
	for name, set := range takers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				for life := 1; life <= 3; life++ {
					var calls, arrived atomic.Int32
					cfg := agent.Config{Store: store, Runner: sayOK}
					set(&cfg, func() error {
						if calls.Add(1) == 1 || life < 3 {
							return errors.New("no network yet")
						}
						arrived.Add(1)
						return nil
					})
					liveThroughADay(t, cfg, life == 1)
					require.Positive(t, calls.Load())
					require.Equal(t, life == 3, arrived.Load() > 0)
					time.Sleep(8 * time.Hour)
				}
			})
		})
	}
}

// liveThroughADay runs a process for ten minutes in which no delivery is blocked. The first one has
// something to deliver.
func liveThroughADay(t *testing.T, cfg agent.Config, first bool) {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(t.Context()) }()
	if top := rt.Session(topKey); first {
		_, err = top.Post(t.Context(), agent.Incoming{Text: "hello"})
		require.NoError(t, err)
		_, err = top.Spawn(t.Context(), agent.Task{Text: "x", Announce: true})
		require.NoError(t, err)
	}
	time.Sleep(10 * time.Minute)
	blocked, err := rt.Blocked(t.Context())
	require.NoError(t, err)
	require.Empty(t, blocked)
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-ran)
}

// Too many of them refuse new spawns, and say why.
func TestBlockedDeliveriesRefuseSpawns(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Rules.Subagents.MaxBlocked = 2
	cfg.Deliver = func(context.Context, agent.Delivery) error { return errors.New("no connection") }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for range 2 {
			_, err := callTool(h, "sessions_spawn", "1", `{"task":"x"}`)
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleBlocked})
	})
}

// A receiver that hangs holds up its own chat alone, and a shutdown.
func TestDeliveryThatHangs(t *testing.T) {
	cfg := configAnswering(asText)
	other := session.Must(session.MainKey("other"))
	var began []string
	cfg.Deliver = func(ctx context.Context, d agent.Delivery) error {
		began = append(began, d.Completion.Run.Result.Text)
		if d.To == topKey {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, task := range []string{"1", "2"} {
			_, err := callTool(h, "sessions_spawn", "1", `{"task":"`+task+`"}`)
			require.NoError(t, err)
			synctest.Wait()
		}
		_, err := callToolOf(h, h.Session(other).Tools(), "sessions_spawn", "1", `{"task":"3"}`)
		require.NoError(t, err)
		h.Delivered("3")
		require.Equal(t, []string{"1", "3"}, began, "calls for one chat never overlap")
		time.Sleep(24 * time.Hour)
		h.Delivered("3")
	})
}

func TestDeliveriesOfOneChatNeverOverlap(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Rules = rulesForDepth(1)
	underWay := 0
	cfg.Deliver = func(ctx context.Context, d agent.Delivery) error {
		underWay++
		require.Equal(t, 1, underWay)
		time.Sleep(time.Minute)
		underWay--
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		var want []string
		for i := range 10 {
			_, err := callTool(h, "sessions_spawn", "1", fmt.Sprintf(`{"task":"%d"}`, i))
			require.NoError(t, err)
			synctest.Wait()
			want = append(want, fmt.Sprint(i))
		}
		time.Sleep(time.Hour)
		h.Delivered(want...)
	})
}

// That a receiver is busy is not a failure: it gets the completion with its next post, or a little
// later.
func TestDeliveryToABusyChat(t *testing.T) {
	cfg := configAnswering(asText)
	var attempts []int
	var isBusy atomic.Bool
	isBusy.Store(true)
	cfg.Deliver = func(ctx context.Context, d agent.Delivery) error {
		attempts = append(attempts, d.Attempt)
		if isBusy.Load() {
			return busyReceiver(ctx)
		}
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"42"}`)
		require.NoError(t, err)
		time.Sleep(3 * time.Hour)
		blocked, err := h.Runtime().Blocked(h.Context())
		require.NoError(t, err)
		require.Empty(t, blocked, "who is busy is never given up")
		isBusy.Store(false)
		time.Sleep(time.Minute)
		h.Delivered("42")
		for _, n := range attempts {
			require.Equal(t, 1, n, "being busy is no attempt that failed")
		}
	})
}

// A receiver whose acknowledgement is lost gets the same delivery again, under the same key, marked
// as one that it may know.
func TestAcknowledgementIsLost(t *testing.T) {
	var got []agent.Delivery
	cfg := configAnswering(asText)
	cfg.Deliver = func(_ context.Context, d agent.Delivery) error {
		got = append(got, d)
		if len(got) == 1 {
			return errors.New("the answer got lost")
		}
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"42"}`)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, got, 2)
		require.Equal(t, got[0].Key, got[1].Key)
		require.Equal(t, got[0].Completion, got[1].Completion)
		require.False(t, got[0].MayRepeat)
		require.True(t, got[1].MayRepeat)
	})
}

// What a receiver says of a delivery that it does not take has the same meaning for completions,
// replies and the ends that a hook is told of.
func TestWhatReceiversSay(t *testing.T) {
	gone := func(context.Context) error { return agent.Permanent(errors.New("gone")) }
	limited := func(err error) func(context.Context) error {
		return func(context.Context) error { return fmt.Errorf("sending: %w", err) }
	}
	wait := func(least, most time.Duration) func(*testing.T, *harness, *receiver) {
		return func(t *testing.T, h *harness, r *receiver) {
			h.Pass(2 * time.Hour)
			require.Len(t, r.tried(), 2)
			require.GreaterOrEqual(t, r.tried()[1], least)
			require.LessOrEqual(t, r.tried()[1], most)
		}
	}
	for name, c := range map[string]struct {
		says  func(context.Context) error
		check func(*testing.T, *harness, *receiver)
	}{
		"never": {gone, func(t *testing.T, h *harness, r *receiver) {
			blocked, err := h.Runtime().Blocked(h.Context())
			require.NoError(t, err)
			require.Len(t, blocked, 1)
			require.Contains(t, blocked[0].Error, "gone")
			require.NoError(t, h.Runtime().Retry(h.Context(), blocked[0].Key))
			h.Pass(time.Second)
			require.Len(t, r.tried(), 2)
		}},
		"in an hour": {
			limited(agent.RetryAfter(time.Hour, errors.New("slow down"))),
			wait(time.Hour, time.Hour+15*time.Second),
		},
		"what a provider said": {
			limited(agent.RateLimited{After: 50 * time.Minute}),
			wait(50*time.Minute, 51*time.Minute),
		},
		"a provider, and in an hour": {
			limited(agent.RetryAfter(time.Hour, agent.RateLimited{After: time.Minute})),
			wait(time.Hour, time.Hour+15*time.Second),
		},
	} {
		for _, to := range []string{"Deliver", "Reply", "Ended"} {
			t.Run(name+"/"+to, func(t *testing.T) {
				r := &receiver{answers: []func(context.Context) error{c.says, acceptDelivery}}
				cfg := configAnswering(asText)
				cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
				switch to {
				case "Deliver":
					cfg.Deliver = r.deliver
				case "Reply":
					cfg = agent.Config{Reply: r.reply}
				default:
					cfg.Hooks.Ended = func(ctx context.Context, _ agent.EndedHook) error {
						return r.take(ctx)
					}
				}
				var steps script
				if to == "Reply" {
					steps = script{"main": {echo()}}
				}
				agenttest.Run(t, cfg, steps, func(h *harness) {
					if to == "Reply" {
						h.Post("hello")
					} else {
						_, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Announce: true})
						require.NoError(t, err)
					}
					h.Pass(time.Second)
					require.Len(t, r.tried(), 1)
					c.check(t, h, r)
				})
			})
		}
	}
}

// A program says that its session is free, and gets at once what it was too busy for.
func TestSessionIsReady(t *testing.T) {
	r := &receiver{answers: []func(context.Context) error{busyReceiver, acceptDelivery}}
	cfg := configAnswering(asText)
	cfg.Deliver = r.deliver
	agenttest.Run(t, cfg, nil, func(h *harness) {
		require.NoError(t, h.Main().Ready(h.Context()), "it never was")
		child, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Announce: true})
		require.NoError(t, err)
		h.Pass(3 * time.Second)
		require.NoError(t, h.Main().Ready(h.Context()))
		h.Pass(0)
		require.Equal(t, []time.Duration{0, 3 * time.Second}, r.tried())
		require.NoError(t, h.Main().Ready(h.Context()), "nothing waits")
		require.ErrorIs(t, child.Session().Ready(h.Context()), agent.ErrNotTopLevel)
		var input *agent.InputError
		require.ErrorAs(t, h.Session(session.Key{}).Ready(h.Context()), &input)
	})
}

func TestRepliesAreTriedAgain(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"refused": refuseDelivery,
		"panics":  panicInDelivery,
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{answers: []func(context.Context) error{
				fail, fail,
				slowDelivery(time.Minute),
			}}
			agenttest.Run(t, agent.Config{Reply: r.reply}, script{"main": {echo()}},
				func(h *harness) {
					h.Post("a")
					synctest.Wait()
					h.Post("b")
					time.Sleep(time.Hour / 2)
					require.Len(t, h.Replies(), 2)
					require.Len(t, r.tried(), 4)
				})
		})
	}
}
