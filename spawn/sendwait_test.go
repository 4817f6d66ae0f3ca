package spawn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Receipt says of a send that waits whether the message is recorded, and an error beside it why
// there is no reply.
func TestSendAndWait(t *testing.T) {
	other := session.Must(session.MainKey("other"))
	chat := session.Must(session.DirectKey("other", "irc", "ann"))
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				if tn.Inputs[0].Text == "say nothing" {
					return spawn.TurnResult{}, nil
				}
				time.Sleep(time.Minute)
				return spawn.TurnResult{Reply: tn.Inputs[0].Text}, nil
			},
		)})
		send := func(
			ctx context.Context, to session.Key, m spawn.Incoming, opt spawn.SendOptions,
		) (spawn.Receipt, spawn.Reply, time.Duration, error) {
			begun := time.Now()
			r, said, err := s.SendAndWait(ctx, to, topKey, to, m, opt)
			return r, said, time.Since(begun), err
		}
		receipt, said, took, err := send(t.Context(), other, spawn.Incoming{Text: "one"},
			spawn.SendOptions{})
		require.NoError(t, err)
		require.Equal(t, spawn.Receipt{Session: other}, receipt)
		require.Equal(t, "one", said.Text)
		require.Empty(t, said.InReplyTo, "no person has asked")
		require.Equal(t, time.Minute, took)

		two := spawn.Incoming{ID: "2", Text: "two"}
		receipt, said, took, err = send(t.Context(), other, two,
			spawn.SendOptions{Within: time.Second})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, spawn.Receipt{Session: other}, receipt)
		require.Zero(t, said)
		require.Equal(t, time.Second, took)
		receipt, said, took, err = send(t.Context(), other, two, spawn.SendOptions{})
		require.NoError(t, err, "it waits for the turn under way")
		require.True(t, receipt.Existing)
		require.Equal(t, "two", said.Text)
		require.Equal(t, 59*time.Second, took)
		receipt, _, took, err = send(t.Context(), other, two, spawn.SendOptions{})
		require.ErrorIs(t, err, spawn.ErrAnswered)
		require.True(t, receipt.Existing)
		require.Zero(t, took)

		receipt, _, _, err = send(t.Context(), other, spawn.Incoming{Text: "say nothing"},
			spawn.SendOptions{})
		require.ErrorIs(t, err, spawn.ErrSilent)
		require.Equal(t, other, receipt.Session)

		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		receipt, _, took, err = send(ctx, other, spawn.Incoming{Text: "three"},
			spawn.SendOptions{Within: time.Hour})
		require.ErrorIs(t, err, enough)
		require.Equal(t, other, receipt.Session)
		require.Equal(t, time.Second, took)
		time.Sleep(time.Hour)

		receipt, _, _, err = send(t.Context(), chat, spawn.Incoming{Text: "x"},
			spawn.SendOptions{ByModel: true})
		require.ErrorIs(t, err, spawn.ErrNotFound)
		require.Zero(t, receipt)
		receipt, _, _, err = send(t.Context(), other, spawn.Incoming{}, spawn.SendOptions{})
		require.ErrorContains(t, err, "text")
		require.Zero(t, receipt)
		child := mustSpawn(t, s, spawn.Request{Task: "work"})
		receipt, _, err = s.SendAndWait(t.Context(), topKey, topKey, child,
			spawn.Incoming{Text: "x"}, spawn.SendOptions{})
		require.ErrorIs(t, err, spawn.ErrNoConversation)
		require.Zero(t, receipt)
	})
}

// A Shutdown ends the wait. The message stays recorded.
func TestSendAndWaitEndsWithAShutdown(t *testing.T) {
	other := session.Must(session.MainKey("other"))
	synctest.Test(t, func(t *testing.T) {
		s, ran := runUntil(forADay(t), t, spawn.Config{Runner: runnerFunc(workOn)})
		var receipt spawn.Receipt
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			receipt, _, err = s.SendAndWait(t.Context(), other, topKey, other,
				spawn.Incoming{Text: "x"}, spawn.SendOptions{})
		}()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Shutdown(short)
		require.NoError(t, <-ran)
		<-done
		require.Error(t, err)
		require.Equal(t, other, receipt.Session)
	})
}
