package agent_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// orderedFiles fails the test for files of a session that has no transcript.
type orderedFiles struct {
	session.Files
	t           *testing.T
	transcripts session.Transcripts
	puts        atomic.Int32
}

func (f *orderedFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	f.puts.Add(1)
	lines := 0
	for line, err := range f.transcripts.Read(ctx, ref, session.LineQuery{Last: 1}) {
		assert.NoError(f.t, err)
		if line.Pos > 0 {
			lines++
		}
	}
	assert.Positive(f.t, lines, "%s has files and no transcript", ref.Key)
	return f.Files.Put(ctx, ref, r, want)
}

// 2.4: files belong to a transcript at every moment, also those of a session that never wrote one:
// it was stopped before its first turn.
func TestRecordFollowsItsTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		files := &orderedFiles{Files: store.Files, t: t, transcripts: store.Transcripts}
		cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		})
		cfg.Rules.Subagents.MaxConcurrent = 1
		store.Files = files
		cfg.Store = store
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
		s := rt.Session(topKey)
		var last *agent.Child[string]
		for _, text := range []string{"works", "waits"} {
			last, err = agent.Spawn[string](t.Context(), s, agent.Task{Text: text})
			require.NoError(t, err)
		}
		require.NoError(t, s.Stop(t.Context()))
		time.Sleep(3 * time.Hour)
		require.EqualValues(t, 2, files.puts.Load(), "a record of each")
		require.NoError(t, last.Session().Revive(t.Context()), "the record was found")
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}
