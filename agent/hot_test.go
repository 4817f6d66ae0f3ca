package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
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

// jsonOf returns the lines that messages are in a transcript.
func jsonOf(t testing.TB, messages []agent.Message) (lines []string) {
	t.Helper()
	for _, m := range messages {
		line, err := m.AppendJSON(nil)
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	return lines
}

// givenAsRead fails unless a turn was given what a read of its transcript gives, byte for byte. It
// passes over a turn of a process that has lost the tree.
func givenAsRead(t testing.TB, notes *notebook, tn *agent.Turn, lost func() bool) {
	t.Helper()
	lines := notes.all(t, tn.Session.Key)
	for i, line := range lines {
		if file := line.Message.Whole; !file.IsZero() {
			in, err := tn.OpenFile(t.Context(), file)
			if lost() {
				return
			}
			require.NoError(t, err)
			text, err := io.ReadAll(in)
			require.NoError(t, errors.Join(err, in.Close()))
			lines[i].Message = agent.Message{}
			require.NoError(t, json.Unmarshal(text, &lines[i].Message))
		}
	}
	want := jsonOf(t, agent.ReadConversation(tn.Session.Key, lines))
	if lost() {
		return
	}
	if !assert.Equal(t, want, jsonOf(t, tn.Messages), "turn %d of %s", tn.N, tn.Session.Key) {
		return
	}
	assert.Equal(t, len(tn.Messages), cap(tn.Messages), "what a Runner appends is copied")
}

// hotTexts are what a transcript in a directory does not keep as it is, and what has no room in
// memory.
var hotTexts = []string{
	"text", "half \xff a \xff\xfe letter", "\u2028", strings.Repeat("long ", 400),
	strings.Repeat("too long ", 2_000), strings.Repeat("too long for a line ", 14_000),
}

// hotLine returns a line of randomLine with a text and a time that a transcript may change.
func hotLine(rng *rand.Rand) agent.Message {
	m := randomLine(rng)
	if m.Text == "text" {
		m.Text = hotTexts[rng.IntN(len(hotTexts))]
	}
	switch rng.IntN(4) {
	case 0:
		m.Time = time.Now().In(time.FixedZone("local", 3661))
	case 1:
		m.Model = "a/\xfeb"
	}
	return m
}

// hotRunner checks what each turn is given, records random lines and ends in a random way.
func hotRunner(
	t testing.TB, notes *notebook, rng func() *rand.Rand,
) func(context.Context, *agent.Turn, func() bool) (agent.Result, error) {
	return func(ctx context.Context, tn *agent.Turn, lost func() bool) (agent.Result, error) {
		givenAsRead(t, notes, tn, lost)
		rng := rng()
		for range rng.IntN(8) {
			_ = tn.Record(ctx, hotLine(rng)) // which may refuse it
			if rng.IntN(6) == 0 {
				if _, err := tn.Inbox(ctx); err != nil {
					return agent.Result{}, err
				}
			}
		}
		switch rng.IntN(12) {
		case 0:
			panic("oh no")
		case 1:
			return agent.Result{Text: "half"}, errors.New("boom")
		case 2:
			<-ctx.Done()
			return agent.Result{}, context.Cause(ctx)
		case 3: // it is given up
			time.Sleep(time.Minute)
			_ = tn.Record(context.WithoutCancel(ctx), hotLine(rng))
			return textResult([]string{"late", ""}[rng.IntN(2)])
		case 4:
			return agent.Result{}, nil
		}
		return textResult(hotTexts[rng.IntN(len(hotTexts))])
	}
}

// forked returns a function that returns sources of random numbers, and may be called concurrently.
func forked(rng *rand.Rand) func() *rand.Rand {
	var mu sync.Mutex
	return func() *rand.Rand {
		mu.Lock()
		defer mu.Unlock()
		return rand.New(rand.NewPCG(rng.Uint64(), 0)) //nolint:gosec // repeatable
	}
}

// hotLimits are large enough for some conversations.
var hotLimits = []agent.Limits{
	{},
	{Hot: 20_000, HotTotal: 30_000},
	{HotTotal: 15_000},
	{Hot: agent.NoLimit, HotTotal: agent.NoLimit},
}

// Decision 1.8: whatever happened before, a turn is given what a read of its transcript gives, byte
// for byte: crashes, turns that were given up, lines of a former owner, and no room in memory.
func TestHotHistoryIsWhatAReadGives(t *testing.T) {
	for seed := range uint64(40) {
		if !plays(int(seed)) {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			store, notes := newNotebook()
			rng := rand.New(rand.NewPCG(seed, 18)) //nolint:gosec // repeatable
			fork := forked(rng)
			run := hotRunner(t, notes, fork)
			cfg := agent.Config{
				Runner: agent.RunnerFunc(func(
					ctx context.Context, tn *agent.Turn,
				) (agent.Result, error) {
					return run(ctx, tn, func() bool { return false })
				}),
				Store:  store,
				Limits: hotLimits[seed%uint64(len(hotLimits))],
			}
			keys := []session.Key{
				topKey, session.Must(session.DirectKey("main", "irc", "a")),
				session.Must(session.GroupKey("main", "irc", "b")),
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				for i := range 25 {
					rng := fork()
					key := keys[rng.IntN(len(keys))]
					h.PostTo(key, fmt.Sprint("[message from ", i))
					time.Sleep(time.Duration(rng.IntN(40)) * time.Second)
					switch rng.IntN(6) {
					case 0:
						h.Crash()
					case 1, 2:
						_ = h.Session(key).CancelTurn(h.Context())
					case 3:
						time.Sleep(20 * time.Minute) // it rests
					case 4:
						_ = h.Session(key).CancelTurn(h.Context())
						time.Sleep(3 * time.Minute)
						notes.intrude(t, key)
					}
				}
				for _, key := range keys {
					_ = h.Session(key).Stop(h.Context()) // a turn that was given up may still run
				}
			})
		})
	}
}

// intrude appends a line to a transcript, as a former owner does that does not know yet that it is
// one.
func (n *notebook) intrude(t testing.TB, key session.Key) {
	t.Helper()
	n.mu.Lock()
	ref, ok := n.refs[key]
	n.mu.Unlock()
	if !ok {
		return
	}
	lines := n.all(t, key)
	_, err := n.Transcripts.Append(context.Background(), ref, lines[len(lines)-1].Pos,
		agent.Message{Role: session.MessageAssistant, Text: "never said"})
	require.NoError(t, err)
}

// Decision 1.8: a tree goes from one process to the other and back, over a store in memory and one
// in a directory, where a line is not read as it was written.
func TestHotHistoryOfSeveralProcesses(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *session.Store{
		"memory": func(*testing.T) *session.Store { return session.NewMemory() },
		"disk": func(t *testing.T) *session.Store {
			store, err := dirstore.Open(t.TempDir())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store
		},
	} {
		only := rand.Uint64N(4)
		for seed := range uint64(4) {
			if underRace && seed != only { // the step large of .ci/run plays all of them
				continue
			}
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inner := open(t)
					notes := &notebook{
						Transcripts: inner.Transcripts, refs: map[session.Key]session.Ref{},
					}
					rng := rand.New(rand.NewPCG(seed, 19)) //nolint:gosec // repeatable
					fork := forked(rng)
					var last atomic.Int64
					var processes []*agent.Runtime
					run := hotRunner(t, notes, fork)
					for n := range int64(2) {
						cfg := configWith(func(
							ctx context.Context, tn *agent.Turn,
						) (agent.Result, error) {
							return run(ctx, tn, func() bool { return last.Load() != n })
						})
						cfg.Store = &session.Store{
							Journal: inner.Journal, Transcripts: writer{notes, n, &last},
							Files: inner.Files,
						}
						processes = append(processes, runUntilEnd(t, cfg))
					}
					for i := range 20 {
						s := processes[fork().IntN(2)].Session(topKey)
						m := agent.Incoming{Text: fmt.Sprint(i)}
						for errorOf(s.Post(t.Context(), m)) != nil {
							time.Sleep(time.Second)
						}
						time.Sleep(5 * time.Second)
						_ = s.CancelTurn(t.Context())
						time.Sleep(2 * time.Minute)
					}
					require.NotEmpty(t, notes.all(t, topKey))
				})
			})
		}
	}
}

// A writer notes which process was the last that tried to write.
type writer struct {
	*notebook
	process int64
	last    *atomic.Int64
}

func (w writer) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	w.last.Store(w.process)
	return w.notebook.Append(ctx, ref, after, m...)
}

// readCounter counts the reads of transcripts.
type readCounter struct {
	session.Transcripts
	reads atomic.Int64
}

func (c *readCounter) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	c.reads.Add(1)
	return c.Transcripts.Read(ctx, ref, q)
}

// readsOf returns how often transcripts are read while a bot runs whose answers have 7,000 bytes.
func readsOf(t *testing.T, limits agent.Limits, use func(t *testing.T, rt *agent.Runtime)) int {
	t.Helper()
	memory := session.NewMemory()
	counter := &readCounter{Transcripts: memory.Transcripts}
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult(strings.Repeat("answer ", 1_000))
	})
	cfg.Limits = limits
	cfg.Threads.Channels = map[string]agent.ThreadChannel{"chat": {}}
	cfg.Store = &session.Store{Journal: memory.Journal, Transcripts: counter}
	synctest.Test(t, func(t *testing.T) { use(t, runUntilEnd(t, cfg)) })
	return int(counter.reads.Load())
}

// takeTurns has sessions have turns, one after the other, for so many rounds.
func takeTurns(t *testing.T, rt *agent.Runtime, rounds int, names ...string) {
	t.Helper()
	for range rounds {
		for _, name := range names {
			s := rt.Session(session.Must(session.DirectKey("main", "irc", name)))
			require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "hello"})))
			require.NoError(t, s.Idle(t.Context()))
		}
	}
}

// followUps has a sub-agent, with a conversation or without, take so many follow-ups.
func followUps(t *testing.T, rt *agent.Runtime, n int, bound bool) {
	t.Helper()
	main := session.Must(session.DirectKey("main", "irc", "a"))
	task := agent.Task{Text: "work", Thread: bound}
	if bound {
		task.Conversation = session.Route{Channel: "chat", To: "1", Thread: "2"}
	}
	child, err := rt.Session(main).Spawn(t.Context(), task)
	require.NoError(t, err)
	for range n {
		require.NoError(t, rt.Session(main).Idle(t.Context()))
		m := agent.Incoming{Text: "more", Route: task.Conversation}
		if bound {
			require.NoError(t, errorOf(rt.Session(main).Post(t.Context(), m)))
		} else {
			require.NoError(t, errorOf(child.Post(t.Context(), m)))
		}
	}
	require.NoError(t, rt.Session(main).Idle(t.Context()))
}

// R17: a turn reads nothing of what the session has in memory. That is bounded for a session and
// for all of them, and gone when the tree rests.
func TestTurnsDoNotReadTheirTranscript(t *testing.T) {
	for name, test := range map[string]struct {
		limits agent.Limits
		use    func(t *testing.T, rt *agent.Runtime)
		want   int
	}{
		"one session": {
			use:  func(t *testing.T, rt *agent.Runtime) { takeTurns(t, rt, 20, "a") },
			want: 1,
		},
		"several sessions": {
			use:  func(t *testing.T, rt *agent.Runtime) { takeTurns(t, rt, 20, "a", "b", "c") },
			want: 3,
		},
		"nothing is kept": {
			limits: agent.Limits{Hot: 1},
			use:    func(t *testing.T, rt *agent.Runtime) { takeTurns(t, rt, 20, "a") },
			want:   20,
		},
		"room for one of two": { // the one that was used last
			limits: agent.Limits{HotTotal: 20_000},
			use: func(t *testing.T, rt *agent.Runtime) {
				takeTurns(t, rt, 1, "a", "b") // reads both
				takeTurns(t, rt, 1, "b")
				takeTurns(t, rt, 1, "a") // reads
			},
			want: 3,
		},
		"without a bound": {
			limits: agent.Limits{Hot: agent.NoLimit, HotTotal: agent.NoLimit},
			use:    func(t *testing.T, rt *agent.Runtime) { takeTurns(t, rt, 100, "a", "b") },
			want:   2,
		},
		"follow-ups": { // the first of them reads: until then the sub-agent had ended
			use:  func(t *testing.T, rt *agent.Runtime) { followUps(t, rt, 20, false) },
			want: 1,
		},
		"a thread": {
			use:  func(t *testing.T, rt *agent.Runtime) { followUps(t, rt, 20, true) },
			want: 0,
		},
		"follow-ups of which nothing is kept": {
			limits: agent.Limits{HotTotal: 1},
			use:    func(t *testing.T, rt *agent.Runtime) { followUps(t, rt, 20, false) },
			want:   20,
		},
		"after a rest": {
			use: func(t *testing.T, rt *agent.Runtime) {
				takeTurns(t, rt, 5, "a")
				time.Sleep(9 * time.Minute)
				takeTurns(t, rt, 5, "a")
				time.Sleep(12 * time.Minute)
				takeTurns(t, rt, 5, "a")
			},
			want: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, readsOf(t, test.limits, test.use))
		})
	}
}

// A session whose conversation grows over the bound reads it at each turn from then on.
func TestLongHistoryIsNotKept(t *testing.T) {
	reads := readsOf(t, agent.Limits{Hot: 100_000}, func(t *testing.T, rt *agent.Runtime) {
		takeTurns(t, rt, 40, "a")
	})
	require.Greater(t, reads, 40-100_000/7_000, "its answers alone have no room")
	require.Less(t, reads, 40-100_000/14_000, "it is kept while there is room")
}

// An oldVersion writes lines of its own, in any order, behind those of a turn.
type oldVersion struct {
	*notebook
	rng *rand.Rand
}

func (v oldVersion) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	for range v.rng.IntN(4) {
		m = append(m, randomLine(v.rng))
	}
	return v.notebook.Append(ctx, ref, after, m...)
}

// Decision 1.8: a transcript that another program has written, in which results and calls stand in
// any order, is given as a read gives it, at each turn.
func TestHotHistoryOfAnOldTranscript(t *testing.T) {
	skipUnderRace(t)
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			store, notes := newNotebook()
			rng := rand.New(rand.NewPCG(seed, 20)) //nolint:gosec // repeatable
			quiet := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
				return textResult("done")
			})
			quiet.Store = &session.Store{
				Journal: store.Journal, Transcripts: oldVersion{notes, rng},
			}
			quiet.Limits.Hot = 1
			before, err := agent.Open(t.Context(), quiet)
			require.NoError(t, err)
			ran := make(chan error, 1)
			go func() { ran <- before.Run(t.Context()) }()
			takeTurns(t, before, 3, "a")
			require.NoError(t, before.Shutdown(t.Context()))
			require.NoError(t, <-ran)
			committed := 0
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				lines := notes.all(t, tn.Session.Key)
				want := agent.ReadConversation(tn.Session.Key, lines[:committed])
				for _, line := range lines[committed:] {
					want = append(want, line.Message)
				}
				require.Equal(t, jsonOf(t, want), jsonOf(t, tn.Messages), "seed %d", seed)
				for range rng.IntN(8) {
					_ = tn.Record(ctx, hotLine(rng)) // which may refuse it
				}
				return textResult("done")
			})
			cfg.Store = store
			rt := runUntilEnd(t, cfg)
			for range 6 {
				committed = len(notes.all(t, session.Must(session.DirectKey("main", "irc", "a"))))
				takeTurns(t, rt, 1, "a")
			}
		})
	}
}

// A failingAppend is a store that takes no lines for a while.
type failingAppend struct {
	*notebook
	failing atomic.Bool
}

func (f *failingAppend) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if f.failing.Load() {
		return 0, errors.New("the disk is full")
	}
	return f.notebook.Append(ctx, ref, after, m...)
}

// A turn whose calls could not be given a result at its end leaves nothing to the next one.
func TestHistoryWithOpenCallsIsNotKept(t *testing.T) {
	store, notes := newNotebook()
	failing := &failingAppend{notebook: notes}
	var last []agent.Message
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		givenAsRead(t, notes, tn, func() bool { return false })
		last = tn.Messages
		if tn.N > 1 {
			return textResult("done")
		}
		err := tn.Record(ctx, agent.Message{
			Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{{ID: "1", Name: "ls"}},
		})
		require.NoError(t, err)
		failing.failing.Store(true)
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	})
	cfg.Store = &session.Store{Journal: store.Journal, Transcripts: failing}
	synctest.Test(t, func(t *testing.T) {
		s := runUntilEnd(t, cfg).Session(topKey)
		require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "a"})))
		synctest.Wait()
		require.NoError(t, s.CancelTurn(t.Context()))
		require.NoError(t, s.Idle(t.Context()))
		failing.failing.Store(false)
		require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "b"})))
		require.NoError(t, s.Idle(t.Context()))
		require.Equal(t, []string{"a", "", "no result: the turn ended", "b"}, saidIn(last))
	})
}

// A turn that was given up has written what is not committed when its Runner returns at last. The
// turn after it is given what it would read.
func TestHistoryOfATurnThatWasGivenUpIsNotUsed(t *testing.T) {
	given := func(limits agent.Limits) (saw [][]string) {
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			saw = append(saw, saidIn(tn.Messages))
			if tn.N != 2 {
				return textResult("done")
			}
			err := tn.Record(ctx, agent.Message{
				Role: session.MessageAssistant, Text: "half",
				ToolCalls: []agent.ToolCall{{ID: "1", Name: "ls"}},
			})
			time.Sleep(time.Minute)
			return agent.Result{}, err
		})
		cfg.Limits = limits
		synctest.Test(t, func(t *testing.T) {
			s := runUntilEnd(t, cfg).Session(topKey)
			for _, text := range []string{"a", "b", "c", "d"} {
				require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: text})))
				time.Sleep(time.Second)
				_ = s.CancelTurn(t.Context())
				time.Sleep(2 * time.Minute)
			}
		})
		return saw
	}
	cold := given(agent.Limits{Hot: 1})
	require.Len(t, cold, 4)
	require.Equal(t, cold, given(agent.Limits{}))
	require.Equal(t, []string{"a", "done", "b", "c"}, cold[2])
}

// What is kept in memory is counted, within its bounds, and is what was used last. What was dropped
// or taken by another turn is not taken back.
func TestHotHistories(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 21)) //nolint:gosec // repeatable
		hot := agent.NewHot(10_000, 30_000)
		roots := []session.Key{topKey, session.Must(session.DirectKey("main", "irc", "a"))}
		gives := map[session.Key][]func(agent.Message) bool{}
		for range 300 {
			root := roots[rng.IntN(2)]
			ref := session.Ref{Key: root, SessionID: fmt.Sprint(rng.IntN(8))}
			switch rng.IntN(8) {
			case 0:
				hot.Drop(root)
				for _, give := range gives[root] {
					require.False(t, give(agent.Message{}), "it was dropped")
				}
				gives[root] = nil
			case 1:
				_, give := hot.Take(root, ref)
				_, newer := hot.Take(root, ref)
				require.False(t, give(agent.Message{}), "a newer turn has it")
				require.True(t, newer(agent.Message{}))
				require.False(t, newer(agent.Message{}), "it was given back")
			default:
				had, give := hot.Take(root, ref)
				size := rng.IntN(7_000)
				require.LessOrEqual(t, had, 10_000)
				if give(agent.Message{Text: strings.Repeat("x", size)}) {
					again, give := hot.Take(root, ref)
					require.Greater(t, again, had+size, "the one that was used last stays")
					gives[root] = append(gives[root], give)
				}
			}
			require.LessOrEqual(t, hot.Check(t), 30_000)
		}
	}
}

// Decision 1.8: what a Runner appends to its Messages, or replaces them by, changes nothing of what
// the next turn is given. A Loop works with the messages that its Turn has.
func TestMessagesOfATurnAreItsOwn(t *testing.T) {
	store, notes := newNotebook()
	var saw [][]string
	loop := &agent.Loop{Model: modelFunc(
		func(_ context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
			saw = append(saw, saidIn(req.Messages))
			_ = append(req.Messages, agent.Message{Text: "of the model"})
			if len(saw)%2 == 1 {
				return &agent.ModelResponse{
					ToolCalls: []agent.ToolCall{{ID: "1", Name: "ls", Args: []byte("{}")}},
				}, nil
			}
			return &agent.ModelResponse{Text: fmt.Sprint("answer ", len(saw)/2)}, nil
		})}
	var kept [][]agent.Message
	cfg := agent.Config{Store: store, Tools: toolbox("ls")}
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		givenAsRead(t, notes, tn, func() bool { return false })
		kept = append(kept, tn.Messages)
		_ = append(tn.Messages, agent.Message{Text: "of the Runner"})
		if tn.N%2 == 1 {
			return loop.Run(ctx, tn)
		}
		own := append(tn.Messages[len(tn.Messages)-2:], agent.Message{Text: "of the Runner"})
		tn.Messages = own[:2]
		defer func() { require.Equal(t, "of the Runner", own[2].Text) }()
		return loop.Run(ctx, tn)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		postEach(h, "a", "b", "c", "d")
		require.Equal(t, [][]string{
			{"a"},
			{"a", "", "ran ls"},
			{"answer 1", "b"},
			{"answer 1", "b", "", "ran ls"},
			{"a", "", "ran ls", "answer 1", "b", "", "ran ls", "answer 2", "c"},
			{"a", "", "ran ls", "answer 1", "b", "", "ran ls", "answer 2", "c", "", "ran ls"},
			{"answer 3", "d"},
			{"answer 3", "d", "", "ran ls"},
		}, saw)
		all := jsonOf(t, agent.ReadConversation(topKey, notes.all(t, topKey)))
		for _, messages := range kept {
			require.Equal(t, all[:len(messages)], jsonOf(t, messages), "it stays as it was")
		}
	})
}

func saidIn(messages []agent.Message) (texts []string) {
	for _, m := range messages {
		texts = append(texts, m.Text)
	}
	return texts
}
