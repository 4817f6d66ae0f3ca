package agent_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// A deafStore is a store whose methods ignore their ctx. From the call of arm on one of them, or
// all, do not return before the call of free.
type deafStore struct {
	*session.Store

	method string // "all": each of them

	mu    sync.Mutex
	armed bool
	met   map[string]bool
	gate  chan struct{}
}

// deaf returns a store in memory whose method is deaf.
func deaf(method string) (*session.Store, *deafStore) {
	d := &deafStore{
		Store: session.NewMemory(), method: method, met: map[string]bool{},
		gate: make(chan struct{}),
	}
	return &session.Store{
		Journal:     deafJournal{d.Journal, d},
		Transcripts: deafTranscripts{d.Transcripts, d},
		Files:       deafFiles{d.Files, d},
	}, d
}

func (d *deafStore) arm() {
	d.mu.Lock()
	d.armed = true
	d.mu.Unlock()
}

func (d *deafStore) free() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.gate:
	default:
		close(d.gate)
	}
}

// in is called by each method.
func (d *deafStore) in(method string) {
	d.mu.Lock()
	hangs := d.armed && (d.method == method || d.method == "all")
	d.met[method] = d.met[method] || hangs
	d.mu.Unlock()
	if hangs {
		<-d.gate
	}
}

// has reports whether the method has hung, or any of them.
func (d *deafStore) has() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.met[d.method] || d.method == "all" && len(d.met) > 0
}

// deafSeq asks first whether it may yield.
func deafSeq[T any](d *deafStore, method string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		d.in(method)
		seq(yield)
	}
}

type deafJournal struct {
	session.Journal

	d *deafStore
}

func (j deafJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.d.in("Journal.Append")
	return j.Journal.Append(context.WithoutCancel(ctx), root, after, b)
}

func (j deafJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	seq := j.Journal.Read(context.WithoutCancel(ctx), root, after)
	return deafSeq(j.d, "Journal.Read", seq)
}

func (j deafJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return deafSeq(j.d, "Journal.Roots", j.Journal.Roots(context.WithoutCancel(ctx), q))
}

func (j deafJournal) Health(context.Context) error { j.d.in("Health"); return nil }

type deafTranscripts struct {
	session.Transcripts

	d *deafStore
}

func (x deafTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	x.d.in("Transcripts.Append")
	return x.Transcripts.Append(context.WithoutCancel(ctx), ref, after, m...)
}

func (x deafTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	seq := x.Transcripts.Read(context.WithoutCancel(ctx), ref, q)
	return deafSeq(x.d, "Transcripts.Read", seq)
}

func (x deafTranscripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	x.d.in("Transcripts.Archive")
	return x.Transcripts.Archive(context.WithoutCancel(ctx), ref, at)
}

func (x deafTranscripts) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[session.Archived, error] {
	seq := x.Transcripts.Archives(context.WithoutCancel(ctx), before)
	return deafSeq(x.d, "Transcripts.Archives", seq)
}

type deafFiles struct {
	session.Files

	d *deafStore
}

func (f deafFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	f.d.in("Files.Put")
	return f.Files.Put(context.WithoutCancel(ctx), ref, r, want)
}

func (f deafFiles) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	f.d.in("Files.Open")
	return f.Files.Open(context.WithoutCancel(ctx), ref, hash)
}

// deafMethods are the methods of a store that hang in TestShutdownOverADeafStore.
var deafMethods = []string{
	"Journal.Append", "Journal.Read", "Journal.Roots", "Health", "Transcripts.Append",
	"Transcripts.Read", "Transcripts.Archive", "Transcripts.Archives", "Files.Put", "all",
}

// deafEnds are the ways to end a Runtime at once. Each returns what its last call has come to, when
// all have returned.
var deafEnds = map[string]func(rt *agent.Runtime, gone context.Context, stop func()) error{
	"Shutdown": func(rt *agent.Runtime, gone context.Context, _ func()) error {
		return rt.Shutdown(gone)
	},
	"Shutdown twice": func(rt *agent.Runtime, gone context.Context, _ func()) error {
		first := rt.Shutdown(gone)
		return errors.Join(first, rt.Shutdown(gone))
	},
	"two Shutdowns": func(rt *agent.Runtime, gone context.Context, _ func()) error {
		first := make(chan error, 1)
		go func() { first <- rt.Shutdown(context.WithoutCancel(gone)) }()
		synctest.Wait()
		second := rt.Shutdown(gone)
		return errors.Join(<-first, second)
	},
	"the end of Run": func(_ *agent.Runtime, _ context.Context, stop func()) error {
		stop()
		return nil
	},
	"the end of Run in a Shutdown": func(
		rt *agent.Runtime, gone context.Context, stop func(),
	) error {
		first := make(chan error, 1)
		go func() { first <- rt.Shutdown(context.WithoutCancel(gone)) }()
		synctest.Wait()
		stop()
		return <-first
	},
}

// A shutdown ends after one grace period, whatever method of the store does not return, in the time
// or at all, and whatever ends it.
func TestShutdownOverADeafStore(t *testing.T) {
	const grace = time.Second
	for _, method := range deafMethods {
		for _, threads := range []string{"", " with threads", " with threads that hang"} {
			for how, end := range deafEnds {
				for late, after := range map[string]time.Duration{
					"": 0, " nearly": grace * 9 / 10, " just": grace - 50*time.Millisecond,
				} {
					if !playsOneOf(4) {
						continue
					}
					t.Run(method+" "+how+late+threads, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							c := &deafCase{method: method, grace: grace, threads: threads}
							c.test(t, end, after)
						})
					})
				}
			}
		}
	}
}

// A deafCase is a Runtime over a deaf store.
type deafCase struct {
	method  string
	grace   time.Duration
	threads string // "": there are none

	store *deafStore
	chat  *agenttest.FakeChannel
	rt    *agent.Runtime
	asked sync.WaitGroup
}

// open opens the Runtime.
func (c *deafCase) open(t *testing.T) {
	t.Helper()
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		return textResult(conversation(tn))
	})
	cfg.Store, c.store = deaf(c.method)
	cfg.Grace = c.grace
	cfg.Rules.Subagents.ArchiveAfter = 90 * time.Second
	cfg.Rules.KeepArchives = time.Minute
	c.chat = agenttest.NewFakeChannel("discord")
	c.chat.Set(c.chat.At("general", "1"), agent.ThreadOpen)
	c.chat.Set(c.chat.At("general", "2"), agent.ThreadOpen)
	if c.threads != "" {
		c.chat.Connect(&cfg)
	}
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	c.rt = rt
}

// hang has the farewells to threads not return before the end, if they are to hang.
func (c *deafCase) hang(t *testing.T) {
	t.Helper()
	if c.threads != " with threads that hang" {
		return
	}
	release := make(chan struct{})
	t.Cleanup(func() { close(release); synctest.Wait() })
	c.chat.Intercept(func(_ context.Context, call agenttest.FakeCall) error {
		if call.Op == "farewell" && !call.Done {
			<-release
		}
		return nil
	})
}

// work has the Runtime use its store in every way, in goroutines of callers that may have to wait.
func (c *deafCase) work(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	main, other := c.rt.Session(topKey), c.rt.Session(session.Must(
		session.Parse("agent:main:hook:other")))
	for _, f := range []func(){
		func() {
			_, _ = main.Post(ctx, agent.Incoming{ID: "2", Text: "and this?", Parts: []agent.Part{
				{Kind: agent.PartImage, MediaType: "image/png", Data: []byte("png")},
			}})
		},
		func() { _, _ = main.Post(ctx, agent.Incoming{ID: "3", Text: "well?"}) },
		func() { _, _ = other.Post(ctx, agent.Incoming{ID: "1", Text: "hello"}) },
		func() { _, _ = main.Spawn(ctx, agent.Task{Text: "x", Announce: true}) },
		func() { _, _ = main.History(ctx, agent.HistoryQuery{}) },
		func() {
			if c.threads != "" {
				_, _ = c.rt.Focus(ctx, agent.FocusRequest{
					Conversation: c.chat.At("general", "2"), Session: topKey, By: "alice",
				})
			}
		},
		func() {
			if c.threads != "" {
				_, _ = c.rt.Unfocus(ctx, agent.UnfocusRequest{
					Conversation: c.chat.At("general", "1"), By: "alice",
				})
			}
		},
	} {
		c.asked.Go(f)
	}
	time.Sleep(5 * time.Minute) // in which it looks around, archives and purges
}

func (c *deafCase) test(
	t *testing.T, end func(*agent.Runtime, context.Context, func()) error, after time.Duration,
) {
	t.Helper()
	c.open(t)
	defer synctest.Wait()
	defer c.store.free()
	life, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- c.rt.Run(life) }()
	synctest.Wait()
	require.NoError(t, errorOf(c.rt.Session(topKey).Post(t.Context(), agent.Incoming{
		ID: "1", Text: "hello",
	})))
	_, err := c.rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "x"})
	require.NoError(t, err)
	if c.threads != "" {
		require.NoError(t, errorOf(c.rt.Focus(t.Context(), agent.FocusRequest{
			Conversation: c.chat.At("general", "1"), Session: topKey, By: "alice",
		})))
	}
	synctest.Wait()
	c.store.arm()
	c.hang(t)
	c.work(t)
	require.True(t, c.store.has(), "it is not called")

	began := time.Now()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if after > 0 {
		time.AfterFunc(after, c.store.free)
	}
	err = end(c.rt, gone, stop)
	err = errors.Join(err, <-ran)
	took := time.Since(began)
	require.LessOrEqual(t, took, c.grace+200*time.Millisecond)
	if after == 0 && took >= c.grace {
		require.ErrorAs(t, err, new(*agent.StillRunningError))
	}
	c.store.free()
	c.asked.Wait()
}
