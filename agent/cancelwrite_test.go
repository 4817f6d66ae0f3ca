package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// slowTranscripts takes a while for each write, and gives it up when ctx ends.
type slowTranscripts struct{ session.Transcripts }

func (s slowTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return s.Transcripts.Append(ctx, ref, after, messages...)
}

// What people have written is in the conversation, also if its turn is cancelled or its session
// stopped while that is being written down.
func TestCancelWhileTheInputIsWritten(t *testing.T) {
	for name, act := range map[string]func(context.Context, *agent.Session) error{
		"cancel": func(ctx context.Context, s *agent.Session) error { return s.CancelTurn(ctx) },
		"stop":   func(ctx context.Context, s *agent.Session) error { return s.Stop(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				store.Transcripts = slowTranscripts{store.Transcripts}
				cfg := agent.Config{Store: store, Runner: sayOK}
				rt, err := agent.Open(t.Context(), cfg)
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() { done <- rt.Run(t.Context()) }()
				s := rt.Session(topKey)
				_, err = s.Post(t.Context(), agent.Incoming{ID: "1", Text: "one"})
				require.NoError(t, err)
				time.Sleep(time.Second / 2)
				require.NoError(t, act(t.Context(), s))
				time.Sleep(time.Minute)
				page, err := s.History(t.Context(), agent.HistoryQuery{})
				require.NoError(t, err)
				require.Contains(t, textsOfPage(page), "user: one")
				require.NoError(t, rt.Shutdown(t.Context()))
				require.NoError(t, <-done)
			})
		})
	}
}

// keepingTranscripts keeps what its first append of a message of the assistant is given, and says
// only that its ctx has ended: the write may still be under way.
type keepingTranscripts struct {
	session.Transcripts

	kept []session.Message
}

func (k *keepingTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	if k.kept == nil && len(messages) == 1 && messages[0].Role == session.MessageAssistant {
		k.kept = messages
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	return k.Transcripts.Append(ctx, ref, after, messages...)
}

// What an append was given that was given up stays as it is: the store may write it later.
func TestMessageOfAnAppendThatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		k := &keepingTranscripts{Transcripts: store.Transcripts}
		store.Transcripts = k
		say := func(ctx context.Context, turn *agent.Turn, text string) error {
			return turn.Record(ctx, agent.Message{Role: session.MessageAssistant, Text: text})
		}
		running(t, agent.Config{
			Store: store,
			Runner: agent.RunnerFunc(func(
				ctx context.Context, turn *agent.Turn,
			) (agent.Result, error) {
				brief, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				require.ErrorIs(t, say(brief, turn, "first"), context.DeadlineExceeded)
				require.NoError(t, say(ctx, turn, "second"))
				return agent.Result{Text: "third"}, nil
			}),
		}, func(rt *agent.Runtime) {
			s := rt.Session(topKey)
			_, err := s.Post(t.Context(), agent.Incoming{ID: "1", Text: "one"})
			require.NoError(t, err)
			require.NoError(t, s.Idle(t.Context()))
			require.Len(t, k.kept, 1)
			require.Equal(t, "first", k.kept[0].Text)
			page, err := s.History(t.Context(), agent.HistoryQuery{})
			require.NoError(t, err)
			require.Contains(t, textsOfPage(page), "assistant: second")
		})
	})
}
