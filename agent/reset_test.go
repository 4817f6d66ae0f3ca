package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// repeating is a bot that says what it was told, with the bytes of pictures, and how many messages
// it sees before that. A turn takes a second.
func repeating() agent.Config {
	return saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		before := len(tn.Messages) - tn.New
		var said []string
		for _, m := range tn.Messages[before:] {
			said = append(said, m.Text)
			for _, p := range m.Parts {
				in, err := tn.OpenFile(ctx, p.File)
				if err != nil {
					return "", err
				}
				data, err := io.ReadAll(in)
				if err = errors.Join(err, in.Close()); err != nil {
					return "", err
				}
				said = append(said, string(data[len(pngBytes):]))
			}
		}
		return fmt.Sprintf("%s after %d", strings.Join(said, " "), before), pause(ctx, time.Second)
	})
}

// 1.11: a session is reset during a turn, while a message with a picture waits. Wherever the
// process dies, the turn ends in the old conversation, what waits is answered in the new one with
// its picture, and the old one is archived with its files.
func TestResetOverEveryCrash(t *testing.T) {
	cfg := repeating()
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		h.PostIncoming(topKey, agent.Incoming{Text: "one", Parts: []agent.Part{picture("a", 9)}})
		h.Pass(time.Minute)
		h.Post("two")
		h.Pass(time.Second / 2)
		h.PostIncoming(topKey, agent.Incoming{Text: "three", Parts: []agent.Part{picture("b", 10)}})
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			return rt.Session(topKey).Reset(h.Context())
		}))
		h.Pass(time.Minute)
		h.Post("four")
		h.Pass(time.Minute)
		var told []string
		for _, d := range h.Replies() {
			text, _, _ := strings.Cut(d.Reply.Text, " after")
			told = append(told, text)
		}
		require.Equal(h.T(), "one x two three xx four", strings.Join(told, " "))
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{Raw: true})
		require.NoError(h.T(), err)
		texts := strings.Join(textsOfPage(page), "; ")
		require.NotContains(h.T(), texts, "one")
		require.Contains(h.T(), texts, "four after ")
	})
}

// windowed gives a bot a window by which two messages stay beside a summary, and notes what its
// summaries are of.
func windowed(cfg agent.Config, compact func(agent.CompactRequest) (string, error)) agent.Config {
	cfg.Models.Window = func(string) agent.Window {
		return agent.Window{
			Tokens: 1_000_000, Keep: 2,
			Compact: func(_ context.Context, req agent.CompactRequest) (string, error) {
				return compact(req)
			},
		}
	}
	return cfg
}

// 1.11: a conversation is compacted while a message waits. Wherever the process dies, the message
// is answered once, by a turn that sees the summary, and the compaction is not an attempt at it. A
// turn that a crash cuts off is not under way in the next process: it may be repeated on either
// side of the compaction, and that alone says what the later turn sees.
func TestCompactOverEveryCrash(t *testing.T) {
	cfg := windowed(repeating(), func(req agent.CompactRequest) (string, error) {
		return fmt.Sprintf("%d were said", len(req.Messages)), nil
	})
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		for _, text := range []string{"one", "two", "three"} {
			h.Post(text)
			h.Pass(10 * time.Second)
		}
		h.Post("four")
		h.Pass(time.Second / 2)
		err := h.Do(func(rt *agent.Runtime) error {
			return rt.Session(topKey).Compact(h.Context())
		})
		if !errors.Is(err, agent.ErrNothing) { // the process that asked may not have learned of it
			require.NoError(h.T(), err)
		}
		h.Post("five")
		h.Pass(10 * time.Second)
		var told []string
		for _, d := range h.Replies() {
			told = append(told, d.Reply.Text)
		}
		require.Len(h.T(), told, 5, "%q", told)
		switch told[3] {
		case "four after 6":
			require.Equal(h.T(), "five after 3", told[4], "the summary, and two messages")
		case "four after 3":
			require.Equal(h.T(), "five after 5", told[4], "and the fourth with its answer")
		default:
			require.Fail(h.T(), told[3])
		}
	})
}

// A reset waits for the turn under way and for a stop. What was posted meanwhile is answered in the
// new conversation. The session keeps its route and its usage; skills are taken anew; no key of a
// delivery, and no number of a turn, comes again.
func TestReset(t *testing.T) {
	inStores(t, func(t *testing.T, open func() *session.Store) {
		sources := skillFiles()
		var turns []string
		var ref session.Ref
		cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
			if ref.SessionID == "" {
				ref = session.Ref{Key: topKey, SessionID: agent.SessionIDOf(tn)}
			}
			turns = append(turns, fmt.Sprint(tn.N, " ", listedSkills(tn.Prompt)))
			err := tn.Say(ctx, "well")
			tn.Spend(ctx, agent.Usage{Input: 7}) //nolint:errcheck // there is no budget
			return fmt.Sprint("answer to ", tn.Input()), errors.Join(err, pause(ctx, time.Second))
		})
		cfg.Prompts.Skills = []agentctx.SkillSource{{FS: sources, Path: "skills"}}
		cfg.Tools = toolbox("read")
		var replies []agent.Delivery
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			replies = append(replies, d)
			return nil
		}
		cfg.Store = open()
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
		s, ctx, events := rt.Session(topKey), t.Context(), []agent.TreeEvent(nil)
		go func() {
			for e, err := range s.Events(ctx) {
				if err == nil {
					events = append(events, e)
				}
			}
		}()
		to := session.Route{Channel: "irc", To: "ann"}
		require.NoError(t, errorOf(s.Post(ctx, agent.Incoming{ID: "m1", Text: "one", Route: to})))
		require.NoError(t, s.Idle(ctx))
		require.NoError(t, errorOf(s.Post(ctx, agent.Incoming{ID: "m0", Text: "again"})))
		time.Sleep(time.Second / 2)
		sources["delta/SKILL.md"] = skillFile("delta", "one", "")
		reset := make(chan error)
		go func() { reset <- s.Reset(ctx) }()
		synctest.Wait()
		require.NoError(t, errorOf(s.Post(ctx, agent.Incoming{ID: "m2", Text: "two"})))
		require.NoError(t, <-reset)
		require.NoError(t, s.Idle(ctx))
		synctest.Wait()

		page, err := s.History(ctx, agent.HistoryQuery{})
		require.NoError(t, err)
		require.Equal(t, []string{"user: two", "assistant: answer to two"}, textsOfPage(page))
		require.Equal(t, []string{"1 alpha beta", "2 alpha beta", "3 alpha beta delta"}, turns)
		var old []string
		all := session.LineQuery{Archived: true}
		for line, err := range cfg.Store.Transcripts.Read(ctx, ref, all) {
			require.NoError(t, err)
			old = append(old, line.Message.Text)
		}
		require.Equal(t, []string{"one", "answer to one", "again", "answer to again"}, old)
		keys := make(map[string]bool)
		for _, d := range replies {
			keys[d.Key] = true
			require.Equal(t, to, d.Reply.Route)
			require.True(t, strings.HasPrefix(d.Key, ref.SessionID), d.Key)
		}
		require.Len(t, keys, 6)
		usage, err := rt.Usage(ctx, agent.UsageQuery{})
		require.NoError(t, err)
		require.EqualValues(t, 21, usage.Total.Input)
		var former []string
		for _, e := range events {
			if e.Kind == agent.EventReset {
				former = append(former, e.Former)
			}
		}
		require.Equal(t, []string{ref.SessionID}, former)
		require.NoError(t, rt.Shutdown(ctx))
		require.NoError(t, <-done)
	})
}

// Each reason for which a session is neither reset nor compacted has an error of its own.
func TestResetAndCompactErrors(t *testing.T) {
	type call = func(context.Context, *agent.Session) error
	reset, compact := (*agent.Session).Reset, (*agent.Session).Compact
	flip := func(f func(*agent.Session, context.Context) error) call {
		return func(ctx context.Context, s *agent.Session) error { return f(s, ctx) }
	}
	both := map[string]call{"Reset": flip(reset), "Compact": flip(compact)}
	for name, f := range both {
		t.Run(name, func(t *testing.T) {
			var own error
			var main *agent.Session
			cfg := windowed(saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
				if tn.Input() == "own" {
					own = errors.Join(f(ctx, main), f(context.WithoutCancel(ctx), main))
				}
				return "ok", pause(ctx, time.Minute)
			}), func(agent.CompactRequest) (string, error) { return "x", nil })
			agenttest.Run(t, cfg, nil, func(h *harness) {
				ctx := h.Context()
				main = h.Main()
				h.Post("own")
				h.Pass(2 * time.Minute)
				var bad *agent.InputError
				require.ErrorAs(t, own, &bad)
				require.Len(t, own.(interface{ Unwrap() []error }).Unwrap(), 2)
				child, err := main.Spawn(ctx, agent.Task{Text: "x"})
				require.NoError(t, err)
				require.ErrorIs(t, f(ctx, h.Session(child.Key())), agent.ErrNotTopLevel)
				h.Pass(10 * time.Minute)
				h.Post("hello")
				h.Pass(time.Second)
				brief, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				err = f(brief, main)
				require.ErrorIs(t, err, agent.ErrUnconfirmed)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				h.Pass(10 * time.Minute)
				page, err := main.History(ctx, agent.HistoryQuery{Raw: true})
				require.NoError(t, err)
				require.NotEmpty(t, page.Lines, "the wish was taken back")
				h.Post("hello")
				h.Pass(time.Second)
				over := make(chan error)
				rt := h.Runtime()
				go func() { over <- f(ctx, rt.Session(topKey)) }()
				h.Pass(time.Second)
				require.NoError(t, rt.Shutdown(ctx))
				if err := <-over; name == "Compact" || err != nil {
					require.ErrorIs(t, err, agent.ErrShutdown)
				}
				require.ErrorIs(t, f(ctx, rt.Session(topKey)), agent.ErrShutdown)
				h.Crash()
			})
		})
	}
}

// A reset is refused while a sub-agent lives, also one that the turn under way spawns.
func TestResetWithChildren(t *testing.T) {
	cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		if tn.Run == "" && tn.Input() == "spawn" {
			for range 2 {
				if _, err := agent.Spawn[string](ctx, tn, agent.Task{Text: "x"}); err != nil {
					return "", err
				}
			}
		}
		return "ok", pause(ctx, time.Minute)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("spawn")
		h.Pass(30 * time.Second)
		for range 2 {
			var alive *agent.ChildrenError
			require.ErrorAs(t, h.Main().Reset(h.Context()), &alive)
			require.Equal(t, agent.ChildrenError{Session: topKey, Live: 2}, *alive)
			require.Equal(t, `spawn: resetting "agent:main:main": 2 sub-agents have not ended: `+
				"stop them, or wait for them", alive.Error())
		}
		stopped := make(chan error)
		go func() { stopped <- h.Main().Stop(h.Context()) }()
		h.Pass(0)
		require.NoError(t, h.Main().Reset(h.Context()), "it waits for the stop")
		require.NoError(t, <-stopped)
	})
}

// A compaction needs a window and something to compact, and is a turn that people can cancel and
// that a budget may forbid.
func TestCompactRefused(t *testing.T) {
	answering := func() agent.Config {
		return saying(func(context.Context, *agent.Turn) (string, error) { return "ok", nil })
	}
	none := func(agent.CompactRequest) (string, error) { return "x", nil }
	agenttest.Run(t, answering(), nil, func(h *harness) {
		var bad *agent.InputError
		require.ErrorAs(t, h.Main().Compact(h.Context()), &bad)
		require.Equal(t, "Models.Window", bad.Field)
	})
	zero := answering()
	zero.Models.Window = func(string) agent.Window { return agent.Window{} }
	agenttest.Run(t, zero, nil, func(h *harness) {
		h.Post("one")
		h.Pass(time.Second)
		var bad *agent.InputError
		require.ErrorAs(t, h.Main().Compact(h.Context()), &bad)
		require.Equal(t, "Models.Window", bad.Field)
	})
	agenttest.Run(t, windowed(answering(), none), nil, func(h *harness) {
		require.ErrorIs(t, h.Main().Compact(h.Context()), agent.ErrNothing, "it is new")
		h.Post("one")
		h.Pass(time.Second)
		require.ErrorIs(t, h.Main().Compact(h.Context()), agent.ErrNothing, "all of it stays")
		h.Replied("ok")
	})
	few := windowed(answering(), none)
	few.Rules.Budget.Turns = 2
	agenttest.Run(t, few, nil, func(h *harness) {
		h.Post("one")
		h.Pass(time.Second)
		h.Post("two")
		h.Pass(time.Second)
		require.ErrorIs(t, h.Main().Compact(h.Context()), agent.ErrBudget)
	})
	hangs := answering()
	hangs.Models.Window = func(string) agent.Window {
		return agent.Window{Keep: 2, Compact: func(
			ctx context.Context, _ agent.CompactRequest,
		) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}}
	}
	for name, end := range map[string]func(*agent.Session, context.Context) error{
		"CancelTurn": (*agent.Session).CancelTurn, "Stop": (*agent.Session).Stop,
	} {
		agenttest.Run(t, hangs, nil, func(h *harness) {
			for range 3 {
				h.Post("hello")
				h.Pass(time.Second)
			}
			over := make(chan error)
			go func() { over <- h.Main().Compact(h.Context()) }()
			h.Pass(time.Second)
			require.NoError(t, end(h.Main(), h.Context()), name)
			require.ErrorIs(t, <-over, agent.ErrTurnCancelled, name)
			h.Post("hello")
			h.Pass(time.Second)
			h.Replied("ok", "ok", "ok", "ok")
		})
	}
}

// People see how many messages a compaction has left to a summary, and its turn like any other one.
// What it has used counts.
func TestCompactIsSeen(t *testing.T) {
	cfg := windowed(repeating(), func(agent.CompactRequest) (string, error) { return "x", nil })
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for range 3 {
			h.Post("hello")
			h.Pass(10 * time.Second)
		}
		h.Watch(topKey)
		require.NoError(t, h.Main().Compact(h.Context()))
		h.Pass(time.Second)
		var seen []string
		for _, e := range h.Events() {
			seen = append(seen, fmt.Sprint(e.Kind, " ", e.Turn, " ", e.Messages))
		}
		require.Equal(t, []string{"turn 4 0", "compacted 4 4"}, seen)
	})
}

// What a turn that was given up has left behind what was committed does not count in the archive of
// its conversation.
func TestResetAfterATurnWasGivenUp(t *testing.T) {
	store := session.NewMemory()
	var id string
	cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
		id = agent.SessionIDOf(tn)
		if tn.Input() != "two" {
			return "ok", nil
		}
		err := tn.Record(ctx, agent.Message{
			Role: session.MessageAssistant, Text: "hm",
			ToolCalls: []agent.ToolCall{{ID: "1", Name: "look"}}, // which get no result
		})
		time.Sleep(time.Minute) // it does not hear of the end of ctx
		return "late", err
	})
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("one")
		h.Pass(time.Second)
		h.Post("two")
		h.Pass(time.Second)
		require.NoError(t, h.Main().CancelTurn(h.Context()))
		require.NoError(t, h.Main().Reset(h.Context()), "it waits until the turn is given up")
		h.Pass(2 * time.Minute)
		var old, all []string
		ref := session.Ref{Key: topKey, SessionID: id}
		lines := store.Transcripts.Read(h.Context(), ref, session.LineQuery{Archived: true})
		for line, err := range lines {
			require.NoError(t, err)
			all = append(all, line.Message.Text)
		}
		for line, err := range session.Committed(lines) {
			require.NoError(t, err)
			old = append(old, line.Message.Text)
		}
		require.Equal(t, []string{"one", "ok", "two"}, old)
		require.Contains(t, all, "hm")
	})
}

// A compaction that does not begin any more keeps no caller of Idle waiting.
func TestIdleAfterACompactionThatDidNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := windowed(saying(func(context.Context, *agent.Turn) (string, error) {
			return "ok", nil
		}), func(agent.CompactRequest) (string, error) { return "x", nil })
		cfg.Store = session.NewMemory()
		runTurns(t, cfg, "one", "two")
		rt, err := agent.Open(t.Context(), cfg) // its Run is not called
		require.NoError(t, err)
		s := rt.Session(topKey)
		for name, end := range map[string]func(left context.CancelFunc){
			"cancelled": func(context.CancelFunc) { require.NoError(t, s.CancelTurn(t.Context())) },
			"withdrawn": func(left context.CancelFunc) { left() },
		} {
			ctx, left := context.WithCancel(t.Context())
			over, idle := make(chan error), make(chan error)
			go func() { over <- s.Compact(ctx) }()
			synctest.Wait()
			go func() { idle <- s.Idle(t.Context()) }()
			synctest.Wait()
			require.Empty(t, idle, name)
			end(left)
			require.Error(t, <-over, name)
			require.NoError(t, <-idle, name)
			left()
		}
		require.NoError(t, rt.Shutdown(t.Context()))
	})
}

// slowFiles takes a second for each Put.
type slowFiles struct{ session.Files }

func (f slowFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, as session.File,
) (session.File, error) {
	time.Sleep(time.Second)
	return f.Files.Put(ctx, ref, r, as)
}

// A message with bytes that is posted while the session is reset is in the new conversation,
// whenever its bytes arrive.
func TestPostWithBytesDuringAReset(t *testing.T) {
	cfg := repeating()
	cfg.Store = session.NewMemory()
	cfg.Store.Files = slowFiles{cfg.Store.Files}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		posted := make(chan error, 1)
		go func() {
			posted <- errorOf(h.Main().Post(h.Context(), agent.Incoming{Parts: []agent.Part{{
				Kind: session.PartFile, Name: "a.txt", Data: []byte("text"),
			}}}))
		}()
		h.Pass(time.Second / 2)
		require.NoError(t, h.Main().Reset(h.Context()))
		require.NoError(t, <-posted)
		h.Pass(time.Minute)
		require.Len(t, h.Replies(), 2)
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.Len(t, page.Lines[0].Message.Parts, 1)
	})
}
