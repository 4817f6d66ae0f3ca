package agent_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A deafRunner takes what comes within a minute and then ignores its context for an hour, over a
// message "deaf" and in a sub-agent. It leaves a call of a tool open. Other turns answer at once.
type deafRunner struct{ turn atomic.Pointer[heardTurn] }

// A heardTurn is what a deafRunner was shown.
type heardTurn struct {
	shown []string // the texts of the messages
	parts []string // the names of their parts
	fresh int      // how many were new
}

// last returns what the last turn was shown.
func (d *deafRunner) last() heardTurn {
	if turn := d.turn.Load(); turn != nil {
		return *turn
	}
	return heardTurn{}
}

func (d *deafRunner) Run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	turn := heardTurn{fresh: tn.New}
	for _, m := range tn.Messages {
		turn.shown = append(turn.shown, m.Text)
		for _, p := range m.Parts {
			turn.parts = append(turn.parts, p.Name)
		}
	}
	d.turn.Store(&turn)
	if last := turn.shown[len(turn.shown)-1]; last != "deaf" && tn.Run == "" {
		return textResult("heard")
	}
	time.Sleep(time.Minute)
	if _, err := tn.Inbox(ctx); err != nil {
		return agent.Result{}, err
	}
	for _, m := range []agent.Message{
		{Role: session.MessageAssistant, Text: "I have read it."},
		{
			Role: session.MessageAssistant, Text: "Looking.",
			ToolCalls: []agent.ToolCall{{ID: "1", Name: "look", Args: []byte(`{}`)}},
		},
	} {
		if err := tn.Record(ctx, m); err != nil {
			return agent.Result{}, err
		}
	}
	time.Sleep(time.Hour) // whatever ctx says
	return textResult("too late")
}

// heardIn returns the texts of the history of a session.
func heardIn(t *testing.T, s *agent.Session) (texts []string) {
	t.Helper()
	page, err := s.History(t.Context(), agent.HistoryQuery{})
	require.NoError(t, err)
	for _, line := range page.Lines {
		texts = append(texts, line.Message.Text)
	}
	return texts
}

// waysToCut are the ways in which a caller ends the turn of a session.
var waysToCut = map[string]func(s *agent.Session, ctx context.Context) error{
	"CancelTurn": (*agent.Session).CancelTurn, "Stop": (*agent.Session).Stop,
}

// overStores runs a test over a store in memory and one in a directory.
func overStores(t *testing.T, f func(t *testing.T, store *session.Store)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, session.NewMemory()) })
	})
	t.Run("disk", func(t *testing.T) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			store, err := dirstore.Open(dir)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			f(t, store)
		})
	})
}

// What a turn that is given up has read is in the conversation: messages that it began with and
// those that it took, with what belongs to them, and what it said as far as that is complete.
func TestTurnThatIsGivenUpLosesNothing(t *testing.T) {
	for name, cut := range waysToCut {
		t.Run(name, func(t *testing.T) {
			overStores(t, func(t *testing.T, store *session.Store) {
				var deaf deafRunner
				s := runUntilEnd(t, agent.Config{Runner: &deaf, Store: store}).Session(topKey)
				post := func(id, text string, parts ...agent.Part) {
					in := agent.Incoming{ID: id, Text: text, Parts: parts}
					require.NoError(t, errorOf(s.Post(t.Context(), in)))
					time.Sleep(time.Second)
				}
				post("1", "my order is 77")
				post("2", "deaf", picture("order.png", 100))
				post("3", "make that 78", picture("new.png", 200))
				time.Sleep(2 * time.Minute)
				_ = cut(s, t.Context()) // Stop names the Runner that hangs
				time.Sleep(time.Minute)
				want := []string{"my order is 77", "heard", "deaf", "make that 78", "I have read it."}
				require.Equal(t, want, heardIn(t, s))
				post("2", "deaf")
				post("4", "what is it?")
				time.Sleep(2 * time.Hour)
				want = append(want, "what is it?")
				require.Equal(t, want, deaf.last().shown)
				require.Equal(t, []string{"order.png", "new.png"}, deaf.last().parts)
				require.Equal(t, 1, deaf.last().fresh)
				require.Equal(t, append(want, "heard"), heardIn(t, s))
			})
		})
	}
}

// A process that dies after the turn was given up has lost nothing. One that dies before that, in
// the grace period, leaves what the turn had read to the next turn.
func TestCrashAroundATurnThatIsGivenUp(t *testing.T) {
	for when, wait := range map[string]time.Duration{"before": time.Second, "after": time.Minute} {
		for how, cut := range waysToCut {
			t.Run(when+" "+how, func(t *testing.T) {
				var deaf deafRunner
				agenttest.Run(t, agent.Config{Runner: &deaf}, nil, func(h *harness) {
					h.Post("my order is 77")
					h.Pass(time.Second)
					h.Post("deaf")
					h.Pass(time.Second)
					h.Post("make that 78")
					h.Pass(2 * time.Minute)
					go func() { _ = cut(h.Main(), h.Context()) }()
					h.Pass(wait)
					h.Crash()
					h.Post("what is it?")
					h.Replied("heard", "heard")
					want := []string{"my order is 77", "heard", "deaf", "make that 78"}
					fresh := 3
					if when == "after" {
						want, fresh = append(want, "I have read it."), 1
					}
					require.Equal(t, append(want, "what is it?"), deaf.last().shown)
					require.Equal(t, fresh, deaf.last().fresh)
					h.Pass(2 * time.Hour)
				})
			})
		}
	}
}

// A shutdown interrupts a turn that hangs, also one that was cancelled before. The next process
// repeats the former, and has what the latter had read in its next turn.
func TestShutdownOfATurnThatHangs(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprint("cancelled ", cancelled), func(t *testing.T) {
			overStores(t, func(t *testing.T, store *session.Store) {
				var deaf deafRunner
				rt, err := agent.Open(t.Context(), agent.Config{Runner: &deaf, Store: store})
				require.NoError(t, err)
				go func() { _ = rt.Run(t.Context()) }()
				require.NoError(
					t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "deaf"})),
				)
				time.Sleep(2 * time.Minute)
				if cancelled {
					require.NoError(t, rt.Session(topKey).CancelTurn(t.Context()))
				}
				now, end := context.WithCancel(t.Context())
				end()
				var still *agent.StillRunningError
				require.ErrorAs(t, rt.Shutdown(now), &still)
				time.Sleep(2 * time.Hour)
				s := runUntilEnd(t, agent.Config{Runner: &deaf, Store: store}).Session(topKey)
				time.Sleep(3 * time.Hour) // the turn that is repeated takes one
				require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "what is it?"})))
				time.Sleep(3 * time.Hour)
				require.Contains(t, deaf.last().shown, "deaf")
				require.Equal(t, "what is it?", deaf.last().shown[len(deaf.last().shown)-1])
				require.Contains(t, heardIn(t, s), "deaf")
			})
		})
	}
}

// The transcript of a run keeps its task, however its last turn was given up.
func TestRunWhoseTurnIsGivenUpKeepsItsTask(t *testing.T) {
	for name, cut := range map[string]func(s *agent.Session, ctx context.Context) error{
		"CancelTurn": (*agent.Session).CancelTurn, "Stop": (*agent.Session).Stop,
		"timeout": func(*agent.Session, context.Context) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			overStores(t, func(t *testing.T, store *session.Store) {
				var deaf deafRunner
				rt := runUntilEnd(t, agent.Config{Runner: &deaf, Store: store})
				child, err := agent.Spawn[string](t.Context(), rt.Session(topKey), agent.Task{
					Text: "count the orders", Timeout: 10 * time.Minute,
				})
				require.NoError(t, err)
				time.Sleep(2 * time.Minute)
				s := rt.Session(child.Key())
				_ = cut(s, t.Context())
				time.Sleep(15 * time.Minute)
				texts := heardIn(t, s)
				require.Len(t, texts, 2)
				require.Contains(t, texts[0], "count the orders")
				require.Equal(t, "I have read it.", texts[1])
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// A turn that is given up before its messages are written has not read them: they start no turn,
// and the next one reads them.
func TestTurnThatIsGivenUpBeforeItHasWritten(t *testing.T) {
	for name, cut := range waysToCut {
		t.Run(name, func(t *testing.T) {
			overStores(t, func(t *testing.T, store *session.Store) {
				var deaf deafRunner
				lines := &badLines{Transcripts: store.Transcripts}
				held := *store
				held.Transcripts = lines
				s := runUntilEnd(t, agent.Config{Runner: &deaf, Store: &held}).Session(topKey)
				hang := make(chan struct{})
				stuck := func(context.Context) error { <-hang; return errDisk }
				lines.do.Store(&stuck)
				require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{
					Text: "my order is 77", Parts: []agent.Part{picture("order.png", 100)},
				})))
				time.Sleep(time.Second)
				_ = cut(s, t.Context())
				time.Sleep(time.Minute)
				lines.do.Store(nil)
				close(hang)
				time.Sleep(time.Minute)
				require.Empty(t, deaf.last().shown, "what was cancelled starts no turn")
				require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "what is it?"})))
				time.Sleep(time.Minute)
				require.Equal(t, []string{"my order is 77", "what is it?"}, deaf.last().shown)
				require.Equal(t, []string{"order.png"}, deaf.last().parts)
			})
		})
	}
}

// A wait for an answer ends with the turn that was to give it, also if that has written nothing.
func TestPostAndWaitOfATurnThatIsGivenUp(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var deaf deafRunner
			store := session.NewMemory()
			lines := &badLines{Transcripts: store.Transcripts}
			store.Transcripts = lines
			s := runUntilEnd(t, agent.Config{Runner: &deaf, Store: store}).Session(topKey)
			hang := make(chan struct{})
			if wait := func(context.Context) error { <-hang; return errDisk }; stuck {
				lines.do.Store(&wait)
			}
			a := await(t.Context(), s, agent.Incoming{ID: "1", Text: "deaf"})
			time.Sleep(2 * time.Minute)
			require.NoError(t, s.CancelTurn(t.Context()))
			time.Sleep(time.Minute)
			require.True(t, a.over())
			require.ErrorIs(t, a.err, agent.ErrTurnCancelled)
			lines.do.Store(nil)
			close(hang)
			time.Sleep(2 * time.Hour)
		})
	}
}

// A turn that compacts reads nothing, so that it loses nothing when it is given up.
func TestCompactionThatIsGivenUp(t *testing.T) {
	for name, cut := range waysToCut {
		t.Run(name, func(t *testing.T) {
			overStores(t, func(t *testing.T, store *session.Store) {
				var deaf deafRunner
				cfg := agent.Config{Runner: &deaf, Store: store}
				cfg.Models.Window = func(string) agent.Window {
					return agent.Window{Keep: 1, Compact: func(
						context.Context, agent.CompactRequest,
					) (string, error) {
						time.Sleep(time.Hour)
						return "too late", nil
					}}
				}
				s := runUntilEnd(t, cfg).Session(topKey)
				for _, text := range []string{"one", "two"} {
					require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: text})))
					time.Sleep(time.Second)
				}
				over := make(chan error, 1)
				go func() { over <- s.Compact(t.Context()) }()
				time.Sleep(time.Second)
				require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "three"})))
				_ = cut(s, t.Context())
				require.ErrorIs(t, <-over, agent.ErrTurnCancelled)
				require.Equal(t, []string{"one", "heard", "two", "heard"}, heardIn(t, s))
				time.Sleep(2 * time.Hour)
				require.Equal(t, []string{"one", "heard", "two", "heard", "three"}, deaf.last().shown)
			})
		})
	}
}
