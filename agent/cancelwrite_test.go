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
