package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// childCalls are the calls of a sub-agent's handle, for a program that has kept its key.
var childCalls = map[string]func(ctx context.Context, s *agent.Session) error{
	"Post": func(ctx context.Context, s *agent.Session) error {
		return errorOf(s.Post(ctx, agent.Incoming{Text: "and then?"}))
	},
	"Runs": func(ctx context.Context, s *agent.Session) error {
		_, err := s.Runs(ctx)
		return err
	},
	"Tree": func(ctx context.Context, s *agent.Session) error {
		_, err := s.Tree(ctx)
		return err
	},
	"CancelTurn": func(ctx context.Context, s *agent.Session) error { return s.CancelTurn(ctx) },
	"Stop":       func(ctx context.Context, s *agent.Session) error { return s.Stop(ctx) },
	"Spawn": func(ctx context.Context, s *agent.Session) error {
		_, err := agent.Spawn[string](ctx, s, agent.Task{Text: "x"})
		return err
	},
	"Idle": func(ctx context.Context, s *agent.Session) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := s.Idle(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	},
}

// R18: right after a restart the key of a sub-agent works for every call, before its tree was
// touched, in memory and in a directory. A key that no run has is ErrNotFound.
func TestChildKeyAfterRestart(t *testing.T) {
	for name, call := range childCalls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := session.NewMemory()
				openMemory := func() *session.Store { return memory }
				testChildKey(t, call, openMemory, func(*session.Store) {})
				dir := t.TempDir()
				testChildKey(t, call, func() *session.Store {
					s, err := dirstore.Open(dir)
					require.NoError(t, err)
					return s
				}, func(s *session.Store) { require.NoError(t, s.Close()) })
			})
		})
	}
}

func testChildKey(
	t *testing.T, call func(context.Context, *agent.Session) error, open func() *session.Store,
	closeStore func(*session.Store),
) {
	cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	})
	cfg.Rules.Subagents.MaxSpawnDepth = 2
	start := func() (*agent.Runtime, func()) {
		cfg.Store = open()
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		return rt, func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, rt.Shutdown(ctx))
			closeStore(cfg.Store)
		}
	}
	rt, end := start()
	child, err := agent.Spawn[string](t.Context(), rt.Session(topKey), agent.Task{Text: "x"})
	require.NoError(t, err)
	end()
	for _, unknown := range []bool{true, false} {
		rt, end = start()
		if unknown {
			key := session.Must(topKey.Child("main", session.NewID()))
			require.ErrorIs(t, call(t.Context(), rt.Session(key)), agent.ErrNotFound)
		} else {
			require.NoError(t, call(t.Context(), rt.Session(child.Key())))
		}
		end()
	}
}

// R19: the transcript of a run that has been archived is found from the key of the run alone, and
// is not taken for one that never was.
func TestArchivedTranscriptIsReadByItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return textResult("done")
		})
		cfg.Store = store
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
		child, err := agent.Spawn[string](t.Context(), rt.Session(topKey), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = child.Wait(t.Context())
		require.NoError(t, err)
		time.Sleep(3 * time.Hour)
		ref := session.Ref{Key: child.Key(), SessionID: child.Key().ID()}
		for _, err := range store.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
			require.ErrorIs(t, err, session.ErrArchived)
		}
		last := ""
		q := session.LineQuery{Archived: true}
		for line, err := range store.Transcripts.Read(t.Context(), ref, q) {
			require.NoError(t, err)
			if line.Message.Role != session.MessageNote {
				last = line.Message.Text
			}
		}
		require.Equal(t, "done", last)
		page, err := rt.Session(child.Key()).History(t.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.True(t, page.Archived)
		require.NotEmpty(t, page.Lines)
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}
