package agent_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// BenchmarkFloor is what the same job costs with a bare goroutine, a channel, an id and a map: what
// every figure below is compared with.
func BenchmarkFloor(b *testing.B) {
	b.ReportAllocs()
	done := make(chan string, 64)
	var mu sync.Mutex
	running := map[string]bool{}
	for b.Loop() {
		id := session.NewID()
		mu.Lock()
		running[id] = true
		mu.Unlock()
		go func() { done <- id }()
		id = <-done
		mu.Lock()
		delete(running, id)
		mu.Unlock()
	}
}

// runForBench runs a Runtime for a benchmark.
func runForBench(b *testing.B, cfg agent.Config) *agent.Runtime {
	b.Helper()
	if cfg.Workspace == nil {
		cfg.Workspace = workspace("a line of")
	}
	cfg.Tools = toolbox("read", "write", "exec")
	cfg.Rules.Subagents = policy.Subagents{
		MaxChildren:  policy.MaxChildren,
		ArchiveAfter: policy.Off,
	}
	rt, err := agent.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.WithoutCancel(b.Context())) }()
	b.Cleanup(func() {
		if err := rt.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return rt
}

// BenchmarkDeliver is from Spawn to Deliver, per child, with prompt, transcript and announcement,
// for so many children at a time: in memory, with a workspace there and in a directory, and with a
// store in a directory, where the transcript of a child is a file of its own.
func BenchmarkDeliver(b *testing.B) {
	for _, where := range []string{"memory", "dirfs", "disk"} {
		for _, children := range []int{1, policy.MaxChildren} {
			b.Run(fmt.Sprintf("%s/children=%d", where, children), func(b *testing.B) {
				cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
					return textResult("done")
				})
				if where == "dirfs" {
					dir := b.TempDir()
					if err := os.CopyFS(dir, workspace("a line of")); err != nil {
						b.Fatal(err)
					}
					cfg.Workspace = os.DirFS(dir)
				}
				if where == "disk" {
					store, err := dirstore.Open(b.TempDir())
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() { _ = store.Close() })
					cfg.Store = store
				}
				deliverAll(b, cfg, children)
			})
		}
	}
}

// deliverAll has one session spawn so many children at a time and wait until all are delivered.
func deliverAll(b *testing.B, cfg agent.Config, children int) {
	b.ReportAllocs()
	var wg sync.WaitGroup
	cfg.Deliver = func(context.Context, agent.Delivery) error { wg.Done(); return nil }
	rt := runForBench(b, cfg)
	requester := rt.Session(session.Must(session.NamedKey("main", "bench")))
	b.ResetTimer()
	for n := 0; n < b.N; n += children {
		wg.Add(children)
		for range children {
			if _, err := agent.Spawn[string](b.Context(), requester,
				agent.Task{Text: "count the files", Announce: true}); err != nil {
				b.Fatal(err)
			}
		}
		wg.Wait()
	}
}

// BenchmarkManaged is from the Spawn of a managed turn to the turn that consumes the completion,
// per child. Each round is a session of its own, so that conversations stay short.
func BenchmarkManaged(b *testing.B) {
	for _, children := range []int{1, policy.MaxChildren} {
		b.Run(fmt.Sprintf("children=%d", children), func(b *testing.B) {
			b.ReportAllocs()
			consumed := make(chan struct{}, 1)
			cfg := configWith(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
				switch {
				case t.Run != "":
					return textResult("done")
				case t.N > 1:
					consumed <- struct{}{}
					return textResult("NO_REPLY")
				}
				for range children {
					if _, err := t.Spawn(ctx, agent.Task{
						Text:     "count the files",
						Announce: true,
					}); err != nil {
						return agent.Result{}, err
					}
				}
				t.Yield(agent.JoinOptions{})
				return agent.Result{}, nil
			})
			rt := runForBench(b, cfg)
			b.ResetTimer()
			for n := 0; n < b.N; n += children {
				s := rt.Session(session.Must(session.NamedKey("main", fmt.Sprint("bench-", n))))
				if _, err := s.Post(b.Context(), agent.Incoming{Text: "go"}); err != nil {
					b.Fatal(err)
				}
				<-consumed
			}
		})
	}
}

// BenchmarkBacklog is the time from the end of a turn to the next one, per message that came
// meanwhile. It is the same for many messages as for few.
func BenchmarkBacklog(b *testing.B) {
	for _, messages := range []int{1_000, 30_000} {
		b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) {
			turns := make(chan chan struct{})
			cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
				end := make(chan struct{})
				turns <- end
				<-end
				return textResult("NO_REPLY")
			})
			rt := runForBench(b, cfg)
			var took time.Duration
			for n := range b.N {
				s := rt.Session(session.Must(session.NamedKey("main", fmt.Sprint("bench-", n))))
				post := func() {
					if _, err := s.Post(b.Context(), agent.Incoming{Text: "x"}); err != nil {
						b.Fatal(err)
					}
				}
				post()
				end := <-turns
				for range messages {
					post()
				}
				start := time.Now()
				close(end)
				end = <-turns
				took += time.Since(start)
				close(end)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*messages), "ns/message")
		})
	}
}

// BenchmarkBound is what a conversation costs, of so many that are bound to one session: to focus
// it, a message to the session from it, and to unbind it when the session is deleted. It is the
// same for many as for few.
func BenchmarkBound(b *testing.B) {
	for _, of := range []string{"session", "subagent"} {
		for _, n := range []int{1_000, 4_000} {
			b.Run(fmt.Sprintf("%s/conversations=%d", of, n), func(b *testing.B) {
				cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
					return textResult("NO_REPLY")
				})
				cfg.Threads.Channels = map[string]agent.ThreadChannel{"discord": {}}
				rt := runForBench(b, cfg)
				for round := range b.N {
					bindForBench(b, rt, fmt.Sprint(round), of == "subagent", n)
				}
				for _, m := range []string{"focus", "message", "delete"} {
					b.ReportMetric(took[m].Seconds()*1e9/float64(b.N*n), m+"-ns")
					delete(took, m)
				}
			})
		}
	}
}

// took is what the parts of bindForBench took.
var took = make(map[string]time.Duration)

func bindForBench(b *testing.B, rt *agent.Runtime, name string, child bool, n int) {
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	key := session.Must(session.NamedKey("main", name))
	postForBench(b, rt.Session(key), 1)
	if child {
		c, err := rt.Session(key).Spawn(b.Context(), agent.Task{Text: "x"})
		must(err)
		_, err = c.Wait(b.Context())
		must(err)
		key = c.Key()
	}
	must(rt.Session(key).Idle(b.Context()))
	room := func(i int) session.Route {
		return session.Route{Channel: "discord", To: fmt.Sprint(name, "-", i)}
	}
	measured := func(what string, f func()) {
		start := time.Now()
		f()
		took[what] += time.Since(start)
	}
	measured("focus", func() {
		for i := range n {
			_, err := rt.Focus(b.Context(), agent.FocusRequest{
				Conversation: room(i), Session: key, By: "p",
			})
			must(err)
		}
	})
	measured("message", func() {
		own := rt.Session(session.Must(session.Parse("agent:main:discord:group:own")))
		for i := range n {
			_, err := own.Post(b.Context(), agent.Incoming{Text: "x", Route: room(i)})
			must(err)
		}
		must(rt.Session(key).Idle(b.Context()))
	})
	measured("delete", func() { must(rt.DeleteSession(b.Context(), key)) })
}

// BenchmarkConversation is a turn of a Runner that does nothing, from Post to its end, in
// conversations of so many messages. The ratio is that of the longest to the shortest one: a turn
// takes the same time in both. A cold one keeps nothing between its turns, as after a restart. The
// last figure is 2,000 turns of one chat, one after the other.
func BenchmarkConversation(b *testing.B) {
	sizes := []int{10, 100, 1_000, 10_000}
	for _, where := range []string{
		"memory", "disk", "memory/cold", "memory/window", "memory/window/cold",
	} {
		open := func(b *testing.B) (post func(name string, messages int)) {
			b.Helper()
			var first sync.Mutex // held while a new chat is posted to, so that one turn reads all
			cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.N == 1 {
					first.Lock()
					defer first.Unlock()
				}
				return textResult("NO_REPLY")
			})
			if where == "disk" {
				store, err := dirstore.Open(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = store.Close() })
				cfg.Store = store
			}
			if strings.Contains(where, "window") {
				cfg.Models.Window = func(string) agent.Window {
					return agent.Window{Tokens: 16_000}
				}
			}
			if strings.Contains(where, "cold") {
				cfg.Limits.Hot = 1
			}
			rt := runForBench(b, cfg)
			return func(name string, messages int) {
				s := rt.Session(session.Must(session.NamedKey("main", name)))
				if messages > 1 {
					first.Lock()
				}
				postForBench(b, s, messages)
				if messages > 1 {
					first.Unlock()
				}
				if err := s.Idle(b.Context()); err != nil {
					b.Error(err)
				}
			}
		}
		b.Run(where, func(b *testing.B) {
			post := open(b)
			took, turns := make([]time.Duration, len(sizes)), 0
			for b.Loop() {
				for i, size := range sizes {
					renewAfter := 1 + size/4 // a turn adds two messages
					name := fmt.Sprint("bench-", size, "-", turns/renewAfter)
					if turns%renewAfter == 0 {
						post(name, size)
					}
					start := time.Now()
					post(name, 1)
					took[i] += time.Since(start)
				}
				turns++
			}
			for i, size := range sizes {
				perTurn := float64(took[i].Nanoseconds()) / float64(b.N)
				b.ReportMetric(perTurn, fmt.Sprintf("ns/turn-at-%d", size))
			}
			b.ReportMetric(float64(took[len(sizes)-1])/float64(took[0]), "ratio")
		})
		b.Run(where+"/turns=2000", func(b *testing.B) {
			post := open(b)
			for n := 0; b.Loop(); n++ {
				for range 2_000 {
					post(fmt.Sprint("bench-", n), 1)
				}
			}
		})
	}
}

// postForBench posts so many messages to a session.
func postForBench(b *testing.B, s *agent.Session, messages int) {
	b.Helper()
	var wg sync.WaitGroup
	todo := make(chan struct{}, messages)
	for range messages {
		todo <- struct{}{}
	}
	close(todo)
	for range min(messages, 64) {
		wg.Go(func() {
			for range todo {
				if _, err := s.Post(b.Context(), agent.Incoming{Text: "a line of a chat"}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
