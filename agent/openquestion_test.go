package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// openQuestions returns what people have said that no answer follows in a conversation, nor a line
// that says that it is not to be answered.
func openQuestions(messages []agent.Message) (open []string) {
	for _, m := range messages {
		switch {
		case m.Role == session.MessageAssistant && m.Text != "",
			m.Synthetic && strings.HasPrefix(m.Text, "[Offshoot] The turn over what stands above"):
			open = nil
		case m.Role == session.MessageUser && !m.Internal:
			open = append(open, m.Text)
		}
	}
	return open
}

// A part of an answer that is not told, because the turn is cancelled or stopped, closes nothing.
func TestPartOfAnAnswerClosesNoQuestion(t *testing.T) {
	for name, end := range map[string]func(h *harness, s *agent.Session) error{
		"cancelled": func(h *harness, s *agent.Session) error { return s.CancelTurn(h.Context()) },
		"stopped":   func(h *harness, s *agent.Session) error { return s.Stop(h.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			closed := 0
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Messages[len(tn.Messages)-1].Text == "in a" {
					err := tn.Record(ctx, agent.Message{
						Role: session.MessageAssistant, Text: "Let me look.",
						ToolCalls: []agent.ToolCall{{ID: "1", Name: "read"}},
					})
					<-ctx.Done()
					return agent.Result{Text: "Let me look."}, errors.Join(err, ctx.Err())
				}
				for _, m := range tn.Messages {
					if m.Synthetic && strings.HasPrefix(m.Text, "[Offshoot] The turn over what stands") {
						closed++
					}
				}
				return textResult("to b")
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				post := func(room, text string) {
					h.PostIncoming(topKey, agent.Incoming{
						ID: text, Text: text, Route: session.Route{Channel: "irc", To: room},
					})
					h.Pass(time.Second)
				}
				post("a", "in a")
				require.NoError(t, h.Do(func(rt *agent.Runtime) error {
					return end(h, rt.Session(topKey))
				}))
				h.Pass(time.Minute)
				post("b", "in b")
				h.Pass(time.Minute)
			})
			require.Equal(t, 1, closed)
		})
	}
}

// What a turn has not answered, because it failed or was cancelled, stands open in no turn of
// another place of the session, over a crash at every write; and the one who asked may ask again.
// In a session of one chat nothing is said about it.
func TestQuestionsDoNotCrossPlaces(t *testing.T) {
	chat := session.Must(session.GroupKey("main", "irc", "a"))
	for name, c := range map[string]struct {
		key   session.Key
		first func(ctx context.Context, tn *agent.Turn) (agent.Result, error)
		want  []string
	}{
		"failed": {topKey, func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{}, errors.New("broken")
		}, []string{"in b"}},
		"panics": {topKey, func(context.Context, *agent.Turn) (agent.Result, error) {
			panic("broken")
		}, []string{"in b"}},
		"cancelled": {topKey, func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}, []string{"in b"}},
		"failed amid a call": {topKey, func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			err := tn.Record(ctx, agent.Message{
				Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{{ID: "1", Name: "read"}},
			})
			return agent.Result{}, errors.Join(err, errors.New("broken"))
		}, []string{"in b"}},
		"one chat": {chat, func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{}, errors.New("broken")
		}, []string{"in a", "in b"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				said := tn.Messages[len(tn.Messages)-1].Text
				if strings.Contains(said, "in a") {
					return c.first(ctx, tn)
				}
				open := openQuestions(tn.Messages)
				if strings.Contains(said, "in b") {
					require.Equal(t, c.want, open)
				}
				return textResult("to " + said)
			})
			agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
				post := func(room, text string) {
					h.PostIncoming(c.key, agent.Incoming{
						ID: text, Text: text, Route: session.Route{Channel: "irc", To: room},
					})
					h.Pass(time.Second)
				}
				post("a", "in a")
				if name == "cancelled" {
					_ = h.Do(func(rt *agent.Runtime) error {
						return rt.Session(c.key).CancelTurn(h.Context())
					})
					h.Pass(time.Minute)
				}
				post("b", "in b")
				post("a", "again")
				h.Pass(time.Minute)
			})
		})
	}
}
