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

// A Runtime does nothing with a Store into which another one was being copied when that was cut
// off: Run and everything that would write say so. When the copy is whole it runs.
func TestUnfinishedCopyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		mark := session.CopyMark{ID: "x", Begun: time.Now()}
		at, err := store.Journal.Append(t.Context(), session.CopiesRoot(), 0, mark.Batch())
		require.NoError(t, err)
		chat := session.Must(session.DirectKey("main", "term", "me"))
		open := func() *agent.Runtime {
			rt, err := agent.Open(t.Context(), agent.Config{
				Store: store, Reply: func(context.Context, agent.Delivery) error { return nil },
				Runner: agent.RunnerFunc(
					func(context.Context, *agent.Turn) (agent.Result, error) {
						return agent.Result{Text: "yes"}, nil
					}),
			})
			require.NoError(t, err)
			return rt
		}
		for _, first := range []string{"Run", "Post"} {
			rt := open()
			if first == "Post" {
				_, err = rt.Session(chat).Post(t.Context(), agent.Incoming{Text: "hello"})
				require.ErrorIs(t, err, session.ErrUnfinishedCopy)
			}
			require.ErrorIs(t, rt.Run(t.Context()), session.ErrUnfinishedCopy)
			_, err = rt.Session(chat).Post(t.Context(), agent.Incoming{Text: "hello"})
			require.Error(t, err)
		}
		for e, err := range store.Journal.Read(t.Context(), chat, 0) {
			require.NoError(t, err)
			require.Fail(t, "something was written", "%v", e)
		}
		mark.Ended = time.Now()
		_, err = store.Journal.Append(t.Context(), session.CopiesRoot(), at, mark.Batch())
		require.NoError(t, err)
		rt := open()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- rt.Run(ctx) }()
		reply, err := rt.Session(chat).PostAndWait(t.Context(), agent.Incoming{Text: "hello"})
		require.NoError(t, err)
		require.Equal(t, "yes", reply.Text)
		stop()
		require.NoError(t, <-ended)
	})
}
