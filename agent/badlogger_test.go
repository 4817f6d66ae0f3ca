package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// badHandler is a slog.Handler that misbehaves in one method.
type badHandler struct {
	slog.Handler
	in  string
	act func()
}

func (h badHandler) call(method string) {
	if h.in == method {
		h.act()
	}
}

func (h badHandler) Enabled(context.Context, slog.Level) bool { h.call("Enabled"); return true }

func (h badHandler) Handle(context.Context, slog.Record) error { h.call("Handle"); return nil }

func (h badHandler) WithAttrs([]slog.Attr) slog.Handler { h.call("WithAttrs"); return h }

func (h badHandler) WithGroup(string) slog.Handler { h.call("WithGroup"); return h }

// loggedFailures are the answers of turns of which the Logger is told.
var loggedFailures = map[string]func(t *agent.Turn) (agent.Result, error){
	"an error": func(*agent.Turn) (agent.Result, error) {
		return agent.Result{}, errors.New("boom")
	},
	"a text beside an error": func(*agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "half"}, errors.New("boom")
	},
	"a panic":         func(*agent.Turn) (agent.Result, error) { panic("boom") },
	"a goroutine":     func(*agent.Turn) (agent.Result, error) { runtime.Goexit(); panic("ended") },
	"a transcript":    func(*agent.Turn) (agent.Result, error) { return textResult("saved") },
	"nothing at all":  func(*agent.Turn) (agent.Result, error) { return textResult("fine") },
	"a lost delivery": func(*agent.Turn) (agent.Result, error) { return textResult("fine") },
}

// said is what people are told, and what became of the sub-agent.
type said struct {
	replies []string
	status  agent.Status
	result  string
	why     string
}

// sayWith runs a turn of a person and one of a sub-agent that end alike, with a Logger.
func sayWith(t *testing.T, how string, log *slog.Logger) (s said) {
	t.Helper()
	failing := how == "a lost delivery"
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" || tn.N == 1 {
			return loggedFailures[how](tn)
		}
		if tn.N == 2 {
			_, err := tn.Spawn(ctx, agent.Task{Text: "x", Label: "child", Announce: true})
			return agent.Result{Text: "spawned"}, err
		}
		return textResult("told")
	})
	cfg.Logger = log
	cfg.Reply = func(context.Context, agent.Delivery) error {
		if failing {
			failing = false
			panic("boom")
		}
		return nil
	}
	cfg.Store = session.NewMemory()
	if how == "a transcript" {
		once := &badOnce{how: func() error { return errors.New("unreadable") }}
		cfg.Store.Transcripts = badTranscripts{
			cfg.Store.Transcripts, once.call, func() error { return nil },
		}
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("one")
		time.Sleep(time.Minute)
		h.Post("two")
		time.Sleep(time.Minute)
		for _, d := range h.Replies() {
			s.replies = append(s.replies, d.Reply.Text)
		}
		run := h.Child("child")
		s.status, s.result, s.why = run.Status, run.Result.Text, run.Error
		h.Crash() // which opens a Runtime
		h.Post("three")
		time.Sleep(time.Minute)
		require.Len(t, h.Replies(), len(s.replies)+1, "the session goes on")
	})
	return s
}

// R12: a Logger that panics changes nothing of what turns come to, whatever it is told of. One that
// ends its goroutine breaks off a turn that is still under way, and a person is answered.
func TestLoggersThatMisbehave(t *testing.T) {
	for how := range loggedFailures {
		want := sayWith(t, how, slog.New(slog.DiscardHandler))
		for act, do := range map[string]func(){
			"panic": func() { panic("no log") }, "exit": runtime.Goexit,
		} {
			for _, method := range []string{"Handle", "Enabled", "WithAttrs", "WithGroup"} {
				t.Run(how+", "+act+" in "+method, func(t *testing.T) {
					log := slog.New(badHandler{slog.DiscardHandler, method, do})
					got := sayWith(t, how, log)
					if how == "a transcript" && act == "exit" && got.replies[0] != want.replies[0] {
						require.Contains(t, got.replies[0], "Sorry")
						return
					}
					require.Equal(t, want, got)
				})
			}
		}
	}
}
