package spawn_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// chatKey returns the key of a conversation with a person.
func chatKey(n int) session.Key {
	return session.Must(session.DirectKey("main", "telegram", fmt.Sprint("peer", n)))
}

// crowd counts Runners under way and keeps the order in which they began.
type crowd struct {
	mu             sync.Mutex
	now, most      int
	mostGoroutines int
	began          []string
}

func (c *crowd) enter(name string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.most, c.mostGoroutines = max(c.most, c.now), max(c.mostGoroutines, runtime.NumGoroutine())
	c.began = append(c.began, name)
	return func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}
}

// order returns the names of the Runners in the order in which they began.
func (c *crowd) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.began)
}

// R13: with 5,000 chats that wait after a restart, 64 Runners work at a time, and the others cost
// no goroutine. All are answered.
func TestChatsThatWaitAfterARestart(t *testing.T) {
	const limit = 64
	chats := 5000
	if underRace { // the step large of .ci/run has them all
		chats = 1000
	}
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		cfg := spawn.Config{Store: store, Runner: runnerFunc(workOn)}
		before, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		for n := range chats {
			key := chatKey(n)
			require.NoError(
				t, errorOf(before.Post(t.Context(), key, key, spawn.Incoming{Text: "hello"})),
			)
		}
		require.NoError(t, before.Shutdown(t.Context()))

		var c crowd
		var mu sync.Mutex
		answered := map[session.Key]int{}
		cfg.Replies = true
		cfg.Deliver = func(_ context.Context, d spawn.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			answered[d.To]++
			return nil
		}
		cfg.Runner = runnerFunc(
			func(_ context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				defer c.enter(tn.Session.Key.String())()
				time.Sleep(time.Second)
				return spawn.TurnResult{Reply: "hi"}, nil
			},
		)
		goroutines := runtime.NumGoroutine()
		s := openSupervisor(t, cfg)
		time.Sleep(time.Duration(chats/limit+1) * time.Second)
		synctest.Wait()
		require.Len(t, answered, chats)
		for key, n := range answered {
			require.Equal(t, 1, n, key)
		}
		require.Equal(t, limit, c.most)
		require.Less(t, c.mostGoroutines, goroutines+16*limit, "not one for each chat")
		require.Zero(t, s.SlotsUsed())
	})
}

// R13: a turn of a top-level session that waits for its child gives its slot back meanwhile, and
// goes on before turns that would start. People are answered before completions are read.
func TestTopLevelTurnsShareTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		released := make(chan struct{})
		s := openSupervisor(t, spawn.Config{
			Rules: policy.Rules{MaxSessions: 1},
			Runner: runnerFunc(
				func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					switch first := tn.Inputs[0]; {
					case tn.Session.Depth > 0:
						<-released
					case first.Text == "wait":
						q := spawn.Request{Task: "work"}
						child, err := tn.Spawn(ctx, q)
						require.NoError(t, err)
						_, err = tn.Wait(ctx, refsOf(child.Key), spawn.JoinOptions{})
						require.NoError(t, err)
						defer c.enter("goes on")()
						time.Sleep(time.Second)
					case first.Class == spawn.InputCompletion:
						defer c.enter("completion")()
					default:
						defer c.enter(first.Text)()
						time.Sleep(time.Minute)
					}
					return spawn.TurnResult{}, nil
				},
			),
		})
		post := func(n int, text string) {
			key := chatKey(n)
			require.NoError(t, errorOf(s.Post(t.Context(), key, key, spawn.Incoming{Text: text})))
			synctest.Wait()
		}
		announced := chatKey(9)
		ask := spawn.Request{Task: "work", Announce: true}
		_, err := s.Spawn(t.Context(), announced, announced, ask)
		require.NoError(t, err)
		post(0, "wait")
		post(1, "one")
		post(2, "two")
		require.Equal(t, []string{"one"}, c.order())
		close(released) // both children end: one turn goes on, one would read a completion
		synctest.Wait()
		post(3, "three")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"one", "goes on", "two", "three", "completion"}, c.order())
		require.Equal(t, 1, c.most)
		require.Zero(t, s.SlotsUsed())
	})
}

// R13: CancelTurn and Stop end a turn that waits for its slot: no Runner is called for it, and its
// slot goes to the next. What it was to read is not lost: the next turn reads it.
func TestTurnThatWaitsForItsSlotIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		s := openSupervisor(t, spawn.Config{
			Rules: policy.Rules{MaxSessions: 1},
			Runner: runnerFunc(
				func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					var texts []string
					for _, in := range tn.Inputs {
						texts = append(texts, in.Text)
					}
					defer c.enter(strings.Join(texts, " "))()
					time.Sleep(time.Minute)
					return spawn.TurnResult{}, nil
				},
			),
		})
		for n, text := range []string{"first", "cancelled", "stopped", "last"} {
			key := chatKey(n)
			require.NoError(t, errorOf(s.Post(t.Context(), key, key, spawn.Incoming{Text: text})))
			synctest.Wait()
		}
		require.NoError(t, s.CancelTurn(t.Context(), chatKey(1), chatKey(1)))
		require.NoError(t, s.Stop(t.Context(), chatKey(2), chatKey(2), "enough"))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"first", "last"}, c.order())
		for n := range 4 {
			require.NoError(t, s.Idle(t.Context(), chatKey(n)))
		}
		for n := 1; n <= 2; n++ {
			key := chatKey(n)
			require.NoError(t, errorOf(s.Post(t.Context(), key, key, spawn.Incoming{Text: "again"})))
			time.Sleep(time.Hour)
		}
		require.Equal(t, []string{"first", "last", "cancelled again", "stopped again"}, c.order())
		require.Zero(t, s.SlotsUsed())
	})
}
