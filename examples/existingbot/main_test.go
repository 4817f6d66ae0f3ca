package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// chat remembers what it was sent.
type chat struct{ sent []string }

func (*chat) Updates(context.Context, func(int64, string)) {}

func (c *chat) Send(_ context.Context, _ int64, text string) error {
	c.sent = append(c.sent, text)
	return nil
}

func TestBotAnswersWhenItsSubagentHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &chat{}
		bot := &Bot{llm: dialLLM(), telegram: seen, history: map[int64][]Msg{}}
		require.NoError(t, addSubagents(t.Context(), bot))
		done := make(chan error, 1)
		go func() { done <- bot.sub.Run(t.Context()) }()

		require.NoError(t, bot.turn(t.Context(), 4711, "How many files are there?"))
		synctest.Wait()
		require.Equal(t, []string{"I am looking into it.", "There are 42 files."}, seen.sent)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, bot.sub.Shutdown(ctx))
		require.NoError(t, <-done)
	})
}
