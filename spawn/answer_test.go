package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// answers is a receiver that gives each text its answers, one an attempt, and then takes it. It
// remembers when each attempt was.
type answers struct {
	mu    sync.Mutex
	began time.Time
	of    map[string][]error
	at    map[string][]time.Duration
	late  map[string]bool
	takes time.Duration // each call
}

// tried returns when the attempts at a text were.
func (a *answers) tried(text string) []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.at[text])
}

// wasLate reports whether the last attempt at a text was late.
func (a *answers) wasLate(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.late[text]
}

func newAnswers(of map[string][]error) *answers {
	return &answers{
		began: time.Now(), of: of,
		at: make(map[string][]time.Duration), late: make(map[string]bool),
	}
}

// open returns a Supervisor that runs, whose receiver answers so.
func (a *answers) open(t *testing.T, store *session.Store) *spawn.Supervisor {
	return openSupervisor(t, spawn.Config{
		Store: store, CallerRun: true,
		Runner: runnerFunc(func(_ context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
			return spawn.TurnResult{Result: spawn.Result{Text: t.Inputs[0].Text}}, nil
		}),
		Deliver: func(_ context.Context, out spawn.Delivery) error {
			at := time.Since(a.began)
			time.Sleep(a.takes)
			a.mu.Lock()
			defer a.mu.Unlock()
			text := out.Completion.Run.Result.Text
			a.at[text] = append(a.at[text], at)
			a.late[text] = out.Late
			if len(a.of[text]) == 0 {
				return nil
			}
			err := a.of[text][0]
			a.of[text] = a.of[text][1:]
			return err
		},
	})
}

// sendAll has one completion after the other leave the tree.
func sendAll(t *testing.T, s *spawn.Supervisor, texts ...string) {
	for _, text := range texts {
		mustSpawn(t, s, spawn.Request{Task: text, Announce: true})
		synctest.Wait()
	}
}

var errDown = errors.New("down")

// What can never arrive is blocked at the first attempt, and holds nothing back. A person may still
// retry it.
func TestPermanentIsBlockedAtOnce(t *testing.T) {
	gone := spawn.Permanent(fmt.Errorf("chat 7: %w", errDown))
	require.ErrorIs(t, gone, spawn.ErrPermanent)
	require.ErrorIs(t, gone, errDown)
	require.ErrorIs(t, spawn.Permanent(nil), spawn.ErrPermanent)
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(map[string][]error{
			"1": {fmt.Errorf("sending: %w", gone)}, "3": {gone, gone},
		})
		s := a.open(t, session.NewMemory())
		sendAll(t, s, "1", "2", "3", "4")
		for _, text := range []string{"1", "2", "3", "4"} {
			require.Equal(t, []time.Duration{0}, a.tried(text), "each has one attempt, at once")
		}
		blocked, err := s.Blocked(t.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 2)
		require.Equal(t, "sending: chat 7: down (no later attempt would arrive)", blocked[0].Error)
		time.Sleep(time.Hour)
		for _, out := range blocked {
			require.NoError(t, s.Retry(t.Context(), out.Key))
		}
		synctest.Wait()
		require.Equal(t, []time.Duration{0, time.Hour}, a.tried("1"))
		require.True(t, a.wasLate("1"))
		blocked, err = s.Blocked(t.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 1, "one was refused again")
		require.NoError(t, s.Dismiss(t.Context(), blocked[0].Key))
	})
}

// A panic is a failure, whatever it is with: the next attempt comes as after any other, and counts.
func TestPanicIsAFailure(t *testing.T) {
	for name, value := range map[string]any{
		"plain": "x", "busy": spawn.ErrBusy, "never": spawn.Permanent(errDown),
		"later": spawn.RetryAfter(time.Hour, errDown),
		"both":  fmt.Errorf("%w: %w", spawn.ErrBusy, spawn.RetryAfter(time.Hour, errDown)),
	} {
		synctest.Test(t, func(t *testing.T) {
			var attempts []int
			began := time.Now()
			s := openSupervisor(t, spawn.Config{
				Store: session.NewMemory(), CallerRun: true, Runner: instantRunner,
				Deliver: func(_ context.Context, d spawn.Delivery) error {
					if attempts = append(attempts, d.Attempt); len(attempts) == 1 {
						panic(value)
					}
					return nil
				},
			})
			_, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
			require.NoError(t, err)
			require.NoError(t, s.Idle(t.Context(), topKey))
			require.Equal(t, []int{1, 2}, attempts, name)
			require.Less(t, time.Since(began), time.Minute, name)
		})
	}
}

// A pause that a receiver asks for is kept, over a restart as well, and does not count to the half
// hour. What is behind it waits. Its length has limits.
func TestRetryAfter(t *testing.T) {
	pause := func(d time.Duration) error {
		return fmt.Errorf("chat 7: %w", spawn.RetryAfter(d, errDown))
	}
	require.ErrorIs(t, pause(time.Second), errDown)
	require.Equal(t, "down (to be tried again after 1s)", spawn.RetryAfter(time.Second, errDown).Error())
	require.Error(t, spawn.RetryAfter(time.Second, nil))
	for name, c := range map[string]struct {
		answers []error
		want    []time.Duration // pauses, each of which may be 15 s longer
		blocked bool
	}{
		"seconds": {[]error{pause(40 * time.Second)}, []time.Duration{40 * time.Second}, false},
		"hours, repeatedly": {
			[]error{pause(3 * time.Hour), pause(time.Hour)},
			[]time.Duration{3 * time.Hour, time.Hour},
			false,
		},
		"too short": {
			[]error{pause(1), pause(1)}, []time.Duration{time.Second, time.Second}, false,
		},
		"too long": {[]error{pause(1 << 62)}, []time.Duration{spawn.MaxRetryAfter}, false},
		"after failures of half an hour": {
			[]error{errDown, pause(29 * time.Minute), pause(5 * time.Minute), errDown},
			[]time.Duration{0, 29 * time.Minute, 5 * time.Minute, 0},
			false,
		},
		"none":      {[]error{pause(0), pause(-time.Hour)}, []time.Duration{0, 0}, false},
		"and never": {[]error{spawn.Permanent(pause(time.Hour))}, nil, true},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restart=%v", name, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := session.NewMemory()
					a := newAnswers(map[string][]error{"1": slices.Clone(c.answers)})
					s := a.open(t, store)
					sendAll(t, s, "1", "2")
					if restart {
						require.NoError(t, s.Shutdown(t.Context()))
						s = a.open(t, store)
					}
					time.Sleep(7 * 24 * time.Hour)
					at := a.tried("1")
					require.Len(t, at, len(c.want)+1)
					for i, want := range c.want {
						got := at[i+1] - at[i]
						require.GreaterOrEqual(t, got, want)
						require.LessOrEqual(t, got, max(want+15*time.Second, 2*time.Minute))
					}
					require.Len(t, a.tried("2"), 1)
					require.GreaterOrEqual(t, a.tried("2")[0], at[len(at)-1], "in order")
					blocked, err := s.Blocked(t.Context())
					require.NoError(t, err)
					require.Equal(t, c.blocked, len(blocked) > 0)
				})
			})
		}
	}
}

// A requester that becomes free while its receiver is being called is asked again as soon as the
// call has said that it is busy, and once. What has failed is not tried sooner.
func TestReadyDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := fmt.Errorf("chat 7: %w", spawn.ErrBusy)
		a := newAnswers(map[string][]error{
			"1": {busy, busy}, "2": {errDown}, "4": {busy},
			"5": {spawn.RetryAfter(time.Hour, busy)},
		})
		a.takes = 2 * time.Second
		s := a.open(t, session.NewMemory())
		send := func(text string, ready ...time.Duration) (tried []time.Duration) {
			before := time.Since(a.began)
			sendAll(t, s, text)
			for _, after := range ready {
				time.Sleep(after)
				require.NoError(t, s.Ready(t.Context(), topKey))
			}
			time.Sleep(5 * time.Minute)
			for _, at := range a.tried(text) {
				tried = append(tried, at-before)
			}
			return tried
		}
		const second = time.Second
		require.Equal(t, []time.Duration{0, 2 * second, 19 * second}, send("1", second))
		require.Len(t, send("2", second), 2)
		require.Greater(t, a.tried("2")[1]-a.tried("2")[0], 10*second)
		require.Equal(t, []time.Duration{0}, send("3", second), "it has arrived")
		require.Equal(t, []time.Duration{0, 17 * second}, send("4"), "what was said before is over")
		require.Equal(t, []time.Duration{0, 2 * second}, send("5", second, second/2))
	})
}

// A requester that is busy is asked again when its program says that it is free, and else after 15
// seconds, or the pause that the receiver asked for.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := fmt.Errorf("chat 7: %w", spawn.ErrBusy)
		long := spawn.RetryAfter(time.Hour, spawn.Permanent(busy))
		store := session.NewMemory()
		a := newAnswers(map[string][]error{
			"1": {busy, busy, busy}, "2": {long, long}, "3": {errDown},
		})
		s := a.open(t, store)
		never := session.Must(session.NamedKey("main", "never"))
		require.NoError(t, s.Ready(t.Context(), never), "nothing waits for it")
		for head, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
			require.NoError(t, err)
			require.NotEqual(t, never, head.Root, "nor does it exist now")
		}
		sendAll(t, s, "1")
		ready := func(after time.Duration) {
			time.Sleep(after)
			require.NoError(t, s.Ready(t.Context(), topKey))
			synctest.Wait()
		}
		ready(time.Second)
		ready(time.Second)
		time.Sleep(time.Minute)
		seconds := func(list ...int) (want []time.Duration) {
			for _, n := range list {
				want = append(want, time.Duration(n)*time.Second)
			}
			return want
		}
		require.Equal(t, seconds(0, 1, 2, 17), a.tried("1"), "without a word it is asked after 15 s")
		sendAll(t, s, "2", "3")
		ready(10 * time.Minute)
		require.Len(t, a.tried("2"), 2)
		time.Sleep(59 * time.Minute)
		require.Len(t, a.tried("2"), 2, "its receiver asked for an hour")
		time.Sleep(2 * time.Minute)
		require.Len(t, a.tried("2"), 3)
		require.Len(t, a.tried("3"), 2)
		ready(0)
		require.Len(t, a.tried("3"), 2, "what has failed is not tried sooner")
		blocked, err := s.Blocked(t.Context())
		require.NoError(t, err)
		require.Empty(t, blocked)
		time.Sleep(time.Minute)
		require.Len(t, a.tried("3"), 2)
	})
}
