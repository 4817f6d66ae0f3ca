package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var errDisk = errors.New("disk full")

// faulty is a store whose writes fail as the function says, which is asked with the number of the
// write.
type faulty struct {
	session.Journal
	session.Transcripts
	mu      sync.Mutex
	journal func(n int) fault
	lines   func(n int) fault
	nj, nl  int
}

// fault is how a write goes wrong.
type fault int

const (
	faultNone        fault = iota
	faultRefused           // nothing is written
	faultUnconfirmed       // it is written, and an error is returned
	faultPanic             // nothing is written
	faultLost              // nothing is written, nor ever will be
)

func newFaulty(journal, lines func(n int) fault) *session.Store {
	return faultyStore(session.NewMemory(), journal, lines)
}

func faultyStore(store *session.Store, journal, lines func(n int) fault) *session.Store {
	f := &faulty{
		Journal: store.Journal, Transcripts: store.Transcripts, journal: journal,
		lines: lines,
	}
	return &session.Store{Journal: faultyJournal{f}, Transcripts: faultyTranscripts{f}}
}

func noFault(int) fault { return faultNone }

// faultAt is a fault of one write.
func faultAt(n int, f fault) func(int) fault {
	return func(i int) fault { return map[bool]fault{true: f}[i == n] }
}

func (f fault) around(write func() error) error {
	switch f {
	case faultNone:
	case faultRefused:
		return errDisk
	case faultLost:
		return fmt.Errorf("disk gone: %w", session.ErrSync)
	case faultPanic:
		panic(errDisk)
	case faultUnconfirmed:
		return errors.Join(write(), errDisk)
	}
	return write()
}

type faultyJournal struct{ f *faulty }

func (j faultyJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (seq session.Seq, err error) {
	j.f.mu.Lock()
	j.f.nj++
	fault := j.f.journal(j.f.nj)
	j.f.mu.Unlock()
	err = fault.around(func() error {
		seq, err = j.f.Journal.Append(ctx, root, after, b)
		return err
	})
	return seq, err
}

func (j faultyJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return j.f.Journal.Read(ctx, root, after)
}

func (j faultyJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return j.f.Journal.Roots(ctx, q)
}

type faultyTranscripts struct{ f *faulty }

func (x faultyTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (pos session.Pos, err error) {
	x.f.mu.Lock()
	x.f.nl++
	fault := x.f.lines(x.f.nl)
	x.f.mu.Unlock()
	err = fault.around(func() error {
		pos, err = x.f.Transcripts.Append(ctx, ref, after, m...)
		return err
	})
	return pos, err
}

func (x faultyTranscripts) Read(
	ctx context.Context, ref session.Ref, w session.LineQuery,
) iter.Seq2[session.Line, error] {
	return x.f.Transcripts.Read(ctx, ref, w)
}

func (x faultyTranscripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	return x.f.Transcripts.Archive(ctx, ref, at)
}

func (x faultyTranscripts) Restore(ctx context.Context, ref session.Ref) error {
	return x.f.Transcripts.Restore(ctx, ref)
}

func (x faultyTranscripts) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[session.Archived, error] {
	return x.f.Transcripts.Archives(ctx, before)
}

func (x faultyTranscripts) Remove(ctx context.Context, ref session.Ref) error {
	return x.f.Transcripts.Remove(ctx, ref)
}

func (x faultyTranscripts) Locate(ref session.Ref) string { return x.f.Transcripts.Locate(ref) }

// A journal that fails once, anywhere, loses nothing: the tree is read again, and a caller that was
// refused asks again.
func TestJournalThatFailsOnce(t *testing.T) {
	s := script{
		"main":  {startStep("count"), say("On it."), echo()},
		"count": {say("42").After(10 * time.Minute)},
	}
	for _, f := range []fault{faultRefused, faultUnconfirmed, faultPanic} {
		for n := 1; n <= 8; n++ {
			t.Run(fmt.Sprint(f, " ", n), func(t *testing.T) {
				agenttest.Run(t, agent.Config{Store: newFaulty(faultAt(n, f), noFault)}, s,
					func(h *harness) {
						for {
							_, err := h.Main().Post(h.Context(),
								agent.Incoming{ID: "1", Text: "How many files?"})
							if err == nil {
								break
							}
							unconfirmed := errors.Is(err, agent.ErrUnconfirmed)
							require.True(t, unconfirmed || errors.Is(err, agent.ErrNotRecorded))
							require.ErrorContains(t, err, errDisk.Error())
							time.Sleep(time.Second)
						}
						time.Sleep(20 * time.Minute)
						replies := h.Replies()
						require.Equal(t, "On it.", replies[0].Reply.Text)
						// else the turn that was repeated has read the end of its sub-agent too
						if len(replies) > 1 {
							require.Contains(t, []string{"42", "count: interrupted"}, replies[1].Reply.Text)
						}
					})
			})
		}
	}
}

// With a journal that is gone nothing is accepted; nothing that was accepted before is lost when it
// comes back, nor is what was done meanwhile.
func TestJournalThatIsGone(t *testing.T) {
	var gone atomic.Bool
	store := newFaulty(func(int) fault { return map[bool]fault{true: faultRefused}[gone.Load()] },
		noFault)
	s := script{
		"main":  {startStep("count"), say("On it."), echo()},
		"count": {say("42").After(10 * time.Minute)},
	}
	agenttest.Run(t, agent.Config{Store: store}, s, func(h *harness) {
		h.Post("How many files?")
		h.Replied("On it.")
		gone.Store(true)
		time.Sleep(20 * time.Minute)
		require.ErrorIs(t, errorOf(h.Main().Post(h.Context(), agent.Incoming{Text: "hello?"})),
			agent.ErrNotRecorded)
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		gone.Store(false)
		time.Sleep(time.Minute)
		h.Replied("On it.", "42")
	})
}

// deadJournal takes nothing any more from the moment dead is set. An append to the tree that hangs
// does not return until the end of the test, whatever becomes of its ctx.
type deadJournal struct {
	session.Journal
	dead  atomic.Bool
	hangs session.Key
	free  chan struct{}
}

func (j *deadJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	switch {
	case !j.dead.Load():
	case root == j.hangs:
		<-j.free
		fallthrough
	default:
		return 0, fmt.Errorf("disk gone: %w", session.ErrSync)
	}
	return j.Journal.Append(ctx, root, after, b)
}

// A journal that takes nothing any more ends Run with the reason also where an append to another
// tree hangs: Run returns both, after one grace period.
func TestRunNamesADeadJournalThatHangs(t *testing.T) {
	store := session.NewMemory()
	hangs, other := session.Must(session.Parse("agent:main:hangs")), session.Must(session.MainKey("main"))
	j := &deadJournal{Journal: store.Journal, hangs: hangs, free: make(chan struct{})}
	store.Journal = j
	cfg := agent.Config{
		Store: store, Grace: time.Second,
		Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "ok"}, nil
		}),
	}
	synctest.Test(t, func(t *testing.T) {
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		j.free = make(chan struct{})
		ran := make(chan error, 1)
		go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
		for _, s := range []*agent.Session{rt.Session(hangs), rt.Session(other)} {
			require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "hello"})))
		}
		synctest.Wait()
		j.dead.Store(true)
		var asked sync.WaitGroup
		asked.Go(func() {
			_, err := rt.Session(hangs).Post(t.Context(), agent.Incoming{Text: "hang"})
			require.ErrorIs(t, err, agent.ErrUnconfirmed)
		})
		synctest.Wait()
		began := time.Now()
		require.Error(t, errorOf(rt.Session(other).Post(t.Context(), agent.Incoming{Text: "x"})))
		err = <-ran
		require.ErrorIs(t, err, session.ErrSync)
		still, ok := errors.AsType[*agent.StillRunningError](err)
		require.True(t, ok, "%v", err)
		require.Empty(t, still.Sessions, "it is the store that hangs")
		require.LessOrEqual(t, time.Since(began), cfg.Grace+200*time.Millisecond)
		close(j.free)
		asked.Wait()
	})
}

// Of two processes that own the same tree the second wins; the first one's turns are cancelled and
// its callers hear of it.
func TestAnotherProcessTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configHanging(rulesForDepth(1))
		cfg.Store = session.NewMemory()
		first := runUntilEnd(t, cfg)
		c, err := agent.Spawn[string](t.Context(), first.Session(topKey),
			agent.Task{Text: "x", Announce: true})
		require.NoError(t, err)
		synctest.Wait()
		waited := make(chan error, 1)
		go func() { _, err := c.Wait(t.Context()); waited <- err }()
		synctest.Wait()

		second := runUntilEnd(t, cfg)
		synctest.Wait()
		info, err := second.Session(topKey).Runs(t.Context())
		require.NoError(t, err)
		require.Equal(t, spawn.StatusInterrupted, info[0].Status)

		err = c.Stop(t.Context())
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		require.ErrorIs(t, err, session.ErrConflict)
		require.ErrorIs(t, <-waited, agent.ErrUnconfirmed, "who waits at the former owner is told")
		again, err := second.Session(topKey).Runs(t.Context())
		require.NoError(t, err)
		require.Equal(t, info, again)
	})
}

// Transcripts that fail once cost a moment: no turn and no message is lost.
func TestTranscriptsThatFailOnce(t *testing.T) {
	s := script{
		"main":  {startStep("count"), say("On it."), say("It is 42."), echo()},
		"count": {call("ls", `{}`).After(time.Minute), say("42").After(10 * time.Minute)},
	}
	for _, f := range []fault{faultRefused, faultUnconfirmed, faultPanic} {
		for n := 1; n <= 12; n++ {
			t.Run(fmt.Sprint(f, " ", n), func(t *testing.T) {
				store, notes := newNotebook()
				store = faultyStore(store, noFault, faultAt(n, f))
				agenttest.Run(t, agent.Config{Store: store, Tools: toolbox("ls")}, s,
					func(h *harness) {
						h.Post("How many files?")
						time.Sleep(20 * time.Minute)
						h.Replied("On it.", "It is 42.")
						require.Len(t, notes.all(t, topKey), 6)
						require.Len(t, notes.all(t, h.Child("count").Key), 4)
					})
			})
		}
	}
}

func TestTranscriptsThatAreGoneForAWhile(t *testing.T) {
	var gone atomic.Bool
	store, notes := newNotebook()
	store = faultyStore(store, noFault,
		func(int) fault { return map[bool]fault{true: faultRefused}[gone.Load()] })
	agenttest.Run(t, agent.Config{Store: store}, script{"main": {echo()}}, func(h *harness) {
		h.Post("a")
		h.Replied("a")
		gone.Store(true)
		h.Post("b")
		time.Sleep(time.Hour)
		h.Replied("a")
		gone.Store(false)
		time.Sleep(10 * time.Second)
		h.Replied("a", "b")
		require.Equal(t, []string{"user: a", "assistant: a", "user: b", "assistant: b"},
			notes.shown(t, topKey))
		gone.Store(true)
		h.Post("c")
		synctest.Wait()
		require.NoError(t, h.Main().CancelTurn(h.Context()),
			"a turn that waits for its transcript can be ended")
		gone.Store(false)
		time.Sleep(time.Minute)
		h.Replied("a", "b")
	})
}

// What will not go away ends the turn, and who waits for it is told.
func TestTranscriptsThatAreClosed(t *testing.T) {
	memory := session.NewMemory()
	cfg := agent.Config{Store: &session.Store{
		Journal:     memory.Journal,
		Transcripts: closedTranscripts{memory.Transcripts},
	}}
	agenttest.Run(t, cfg, script{"main": {echo()}, "count": {say("42")}}, func(h *harness) {
		h.Post("hello")
		replies := h.Replies()
		require.Len(t, replies, 1)
		require.True(t, replies[0].Reply.Failed)
		c, err := agent.Spawn[string](h.Context(), h.Main(),
			agent.Task{Text: "work", Label: "count"})
		require.NoError(t, err)
		_, err = c.Wait(h.Context())
		e, ok := errors.AsType[*agent.RunError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, spawn.StatusFailed, e.Run.Status)
		require.Contains(t, e.Run.Error, "store is closed")
	})
}

type closedTranscripts struct{ session.Transcripts }

func (closedTranscripts) Append(
	context.Context, session.Ref, session.Pos, ...session.Message,
) (session.Pos, error) {
	return 0, session.ErrClosed
}

// A former owner that gets a last line into a transcript, before the first of the present one,
// costs that one nothing: it is fenced off. Later its appends are refused.
func TestFormerOwnerWritesLate(t *testing.T) {
	for _, n := range []int{1, 5} { // the first write of each of the two turns
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			store, notes := newNotebook()
			store.Transcripts = &intruding{notebook: notes, at: n}
			s := script{
				"main":  {startStep("count"), say("On it."), say("It is 42."), echo()},
				"count": {say("42").After(time.Minute)},
			}
			agenttest.Run(t, agent.Config{Store: store}, s, func(h *harness) {
				h.Post("How many files?")
				time.Sleep(10 * time.Minute)
				h.Post("thank you")
				h.Replied("On it.", "It is 42.", "thank you")
				shown := notes.shown(t, topKey)
				require.Equal(t, []string{"assistant: a last word", "note:"}, shown[n-1:n+1])
				require.Len(t, shown, 10)
			})
		})
	}
}

// intruding is a notebook into which a former owner writes right before a write of ours to the main
// session.
type intruding struct {
	*notebook
	at, n int
}

func (x *intruding) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if ref.Key == topKey {
		if x.n++; x.n == x.at {
			if _, err := x.notebook.Append(ctx, ref, after,
				session.Message{
					Role: session.MessageAssistant, Text: "a last word",
					Time: time.Now(),
				}); err != nil {
				return 0, err
			}
		}
	}
	return x.notebook.Append(ctx, ref, after, m...)
}

// oddTranscripts are Transcripts of which one method misbehaves in its first calls.
type oddTranscripts struct {
	session.Transcripts

	method string
	act    func()
	left   *atomic.Int64
}

func (x oddTranscripts) in(method string) {
	if x.method == method && x.left.Add(-1) >= 0 {
		x.act()
	}
}

func (x oddTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	x.in("Append")
	pos, err := x.Transcripts.Append(ctx, ref, after, m...)
	x.in("Append that was done")
	return pos, err
}

func (x oddTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	x.in("Read")
	return func(yield func(session.Line, error) bool) {
		for line, err := range x.Transcripts.Read(ctx, ref, q) {
			if !yield(line, err) {
				return
			}
			x.in("Read half way")
		}
		x.in("Read at the end")
	}
}

// R9: transcripts that panic, or end the goroutine that asks them, have failed: the turn tries
// again, and no message is lost or told twice.
func TestTranscriptsThatMisbehave(t *testing.T) {
	for how, act := range map[string]func(){
		"panic":               func() { panic("disk on fire") },
		"panic with an error": func() { panic(session.ErrConflict) },
		"end the goroutine":   runtime.Goexit,
	} {
		for _, method := range []string{
			"Append", "Append that was done", "Read", "Read half way", "Read at the end",
		} {
			t.Run(method+" "+how, func(t *testing.T) {
				store := session.NewMemory()
				left := new(atomic.Int64)
				store.Transcripts = oddTranscripts{store.Transcripts, method, act, left}
				cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
					return textResult(conversation(tn))
				})
				cfg.Store = store
				agenttest.Run(t, cfg, nil, func(h *harness) {
					h.Post("one")
					synctest.Wait()
					left.Store(2)
					h.Post("two")
					time.Sleep(time.Hour)
					replies := h.Replies()
					require.Len(t, replies, 2)
					require.Equal(t, "one\none\ntwo", replies[1].Reply.Text)
					require.LessOrEqual(t, left.Load(), int64(0))
				})
			})
		}
	}
}

// R10: a journal that was repaired may have lost the first turn of a sub-agent, whose transcript
// goes on. The turn begins again, and what it finds is fenced off.
func TestFirstTurnFencesWhatIsThere(t *testing.T) {
	store, notes := newNotebook()
	store.Transcripts = &haunted{notebook: notes}
	s := script{
		"main":  {startStep("count"), say("On it."), say("It is 42.")},
		"count": {say("42").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{Store: store}, s, func(h *harness) {
		h.Post("How many files?")
		time.Sleep(10 * time.Minute)
		h.Replied("On it.", "It is 42.")
		shown := notes.shown(t, h.Child("count").Key)
		require.Equal(t, []string{"assistant: a forgotten turn", "note:"}, shown[:2])
		require.Len(t, shown, 4)
	})
}

// haunted is a notebook in which the transcript of each sub-agent has a line before its first turn.
type haunted struct{ *notebook }

func (x *haunted) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if ref.Key.IsSubagent() && after == 0 {
		old := session.Message{Role: session.MessageAssistant, Text: "a forgotten turn"}
		if _, err := x.notebook.Append(ctx, ref, 0, old); err != nil {
			return 0, err
		}
	}
	return x.notebook.Append(ctx, ref, after, m...)
}
