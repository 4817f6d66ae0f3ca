package agent_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

const (
	idleChats = 5_000
	// maxIdleBytes is what a chat may take of memory while it rests, beside the index of the store.
	maxIdleBytes = 200
)

// R8: after 24 hours, chats that were used once take next to nothing of memory. So do sessions that
// do not exist and were asked for.
func TestSessionsAtRestTakeNoMemory(t *testing.T) {
	skipUnderRace(t)
	for name, use := range map[string]func(testing.TB, *agent.Session){
		"used once": useOnce,
		"read": func(t testing.TB, s *agent.Session) {
			runs, err := s.Runs(t.Context())
			require.NoError(t, err)
			require.Empty(t, runs)
		},
		"waited for": func(t testing.TB, s *agent.Session) {
			require.NoError(t, s.Idle(t.Context()))
		},
		"watched": func(t testing.TB, s *agent.Session) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for _, err := range s.Events(ctx) {
				t.Error("an event", err)
			}
		},
		"stopped": func(t testing.TB, s *agent.Session) {
			require.NoError(t, s.Stop(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held, _ := idleBytes(t, session.NewMemory(), use, 24*time.Hour)
				require.Less(t, held, int64(maxIdleBytes*idleChats))
			})
		})
	}
}

// R8: a session that rested goes on where it was, and knows the messages that it has had.
func TestSessionGoesOnAfterRest(t *testing.T) {
	answers := script{"main": {say("a"), say("b"), say("c"), say("d")}}
	agenttest.Run(t, agent.Config{}, answers, func(h *harness) {
		post := func(m agent.Incoming) {
			require.NoError(t, errorOf(h.Main().Post(h.Context(), m)))
			require.NoError(t, h.Main().Idle(h.Context()))
			time.Sleep(time.Hour)
		}
		for range 3 {
			post(agent.Incoming{ID: "1", Text: "known"})
			post(agent.Incoming{Text: "hello"})
		}
		h.Replied("a", "b", "c", "d")
	})
}

// R8: a chat that was answered keeps of what was said what Limits.HotTotal has room for, and
// nothing when its tree is unloaded. The store is in a directory and keeps no text in memory.
func TestAnsweredSessionsKeepNoText(t *testing.T) {
	skipUnderRace(t)
	for name, test := range map[string]struct {
		chats, bytes int
		hot          int
		reply        string
		rest         time.Duration
		most         int64 // bytes of a chat
	}{
		"long messages": {chats: 20, bytes: 999_999, rest: 12 * time.Minute, most: 100_000},
		// As 1,000 chats of a megabyte would have under 300 MB, within 256 MiB.
		"long messages while awake": {chats: 20, bytes: 999_999, hot: 5_120_000, most: 300_000},
		// A tree in memory has its last answer, too.
		"long answers": {
			chats: 20, reply: strings.Repeat("r", 999_999), rest: 12 * time.Minute, most: 100_000,
		},
		// Lines that have been said this second are in memory until they are in their files, and a
		// tree has the person who spoke last.
		"short messages": {chats: 500, bytes: 2, rest: 2 * time.Second, most: 9_000},
		// The memory for the next batches is gone, and the state of the tree is left.
		"short messages a while ago": {chats: 500, bytes: 2, rest: 2 * time.Minute, most: 6_500},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				store, err := dirstore.Open(dir)
				require.NoError(t, err)
				cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
					return textResult(strings.Clone(test.reply))
				})
				cfg.Store, cfg.Limits.HotTotal = store, test.hot
				cfg.Reply = func(context.Context, agent.Delivery) error { return nil }
				rt, err := agent.Open(t.Context(), cfg)
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() { done <- rt.Run(context.Background()) }()
				use := func(i int) {
					key := session.Must(session.DirectKey("main", "irc", fmt.Sprint("chat-", i)))
					text := strings.Repeat("m", test.bytes) + "!"
					in := agent.Incoming{Text: text}
					require.NoError(t, errorOf(rt.Session(key).Post(t.Context(), in)))
					require.NoError(t, rt.Session(key).Idle(t.Context()))
				}
				use(0)
				synctest.Wait()
				empty := heapBytes()
				for i := range test.chats {
					use(1 + i)
				}
				time.Sleep(test.rest)
				synctest.Wait()
				held := heapBytes() - empty
				assert.Less(t, held, test.most*int64(test.chats))
				require.NoError(t, rt.Shutdown(context.Background()))
				require.NoError(t, <-done)
				require.NoError(t, store.Close())
			})
		})
	}
}

// R8: a sub-agent that has ended keeps nothing of its conversation.
func TestEndedSubagentsKeepNoText(t *testing.T) {
	const runs, bytes = 40, 500_000
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := dirstore.Open(dir)
		require.NoError(t, err)
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			err := tn.Record(ctx, agent.Message{
				Role: session.MessageAssistant, Text: strings.Repeat("x", bytes),
			})
			return agent.Result{Text: "done"}, err
		})
		cfg.Store = store
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(context.Background()) }()
		use := func() {
			c, err := agent.Spawn[string](t.Context(), rt.Session(topKey), agent.Task{Text: "x"})
			require.NoError(t, err)
			_, err = c.Wait(t.Context())
			require.NoError(t, err)
			synctest.Wait()
		}
		use()
		empty := heapBytes()
		for range runs {
			use()
		}
		assert.Less(t, heapBytes()-empty, int64(runs*bytes/10))
		require.NoError(t, rt.Shutdown(context.Background()))
		require.NoError(t, <-done)
		require.NoError(t, store.Close())
	})
}

// BenchmarkIdleChats reports what a chat takes that was used once: of the Runtime two minutes
// and 24 hours after its use, and of the index that a store in a directory keeps. The time is
// virtual.
func BenchmarkIdleChats(b *testing.B) {
	for _, idle := range []time.Duration{2 * time.Minute, 24 * time.Hour} {
		b.Run(fmt.Sprintf("idle=%v", idle), func(b *testing.B) {
			var held, index int64
			for range b.N {
				dir := b.TempDir()
				synctest.Test(new(testing.T), func(inner *testing.T) {
					store, err := dirstore.Open(dir)
					require.NoError(b, err)
					held, index = idleBytes(inBubble{b, inner}, store, useOnce, idle)
					require.NoError(b, store.Close())
				})
			}
			b.ReportMetric(float64(held)/idleChats, "B/chat")
			b.ReportMetric(float64(index)/idleChats, "B/index")
		})
	}
}

// inBubble is a benchmark whose Context is one of a bubble.
type inBubble struct {
	testing.TB
	inner *testing.T
}

func (b inBubble) Context() context.Context { return b.inner.Context() }

func useOnce(t testing.TB, s *agent.Session) {
	require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "hello"})))
	require.NoError(t, s.Idle(t.Context()))
}

// idleBytes uses many sessions, waits, and returns how many bytes a Runtime holds then and how many
// its store does.
func idleBytes(
	t testing.TB, store *session.Store, use func(testing.TB, *agent.Session), wait time.Duration,
) (held, index int64) {
	empty := heapBytes()
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("done")
	})
	cfg.Store = store
	rt, err := agent.Open(context.Background(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.Background()) }()
	for i := range idleChats {
		use(t, rt.Session(session.Must(session.DirectKey("main", "irc", fmt.Sprint("chat-", i)))))
		time.Sleep(10 * time.Millisecond) // a hundred chats in a second
	}
	time.Sleep(wait)
	full := heapBytes()
	require.NoError(t, rt.Shutdown(context.Background()))
	require.NoError(t, <-done)
	runtime.KeepAlive(rt)
	rt = nil
	kept := heapBytes()
	runtime.KeepAlive(store)
	return full - kept, kept - empty
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
