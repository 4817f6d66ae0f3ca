package agent_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// longAnswer is above what a tree keeps and what a model is shown.
var longAnswer = "begin " + strings.Repeat("x", 100_000) + " end"

// configOfLongAnswer has the main session spawn a sub-agent that returns longAnswer, and note what
// it is told of the end of that.
func configOfLongAnswer(told *atomic.Value) agent.Config {
	return configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			return textResult(longAnswer)
		}
		last := tn.Messages[len(tn.Messages)-1]
		if !last.Internal {
			_, err := tn.Spawn(ctx, agent.Task{Text: "go on", Key: "once", Announce: true})
			return agent.Result{Text: "started"}, err
		}
		told.Store(last.Text)
		return textResult("told")
	})
}

// Decision 1.2: wherever the process dies around a long result, the file of the result is there
// before the tree names it, the model is told both ends, and nothing is left that belongs to no
// session. The harness audits the files.
func TestEveryCrashAroundALongResult(t *testing.T) {
	var told atomic.Value
	agenttest.EveryCrash(t, configOfLongAnswer(&told), nil, func(h *harness) {
		h.Post("go")
		h.Pass(time.Minute)
		text, _ := told.Load().(string)
		if strings.Contains(text, "status: unknown, interrupted") { // its turn was interrupted
			return
		}
		require.Contains(h.T(), text, "| begin xxx")
		require.Contains(h.T(), text, "xxx end\n")
		require.Contains(h.T(), text, "\n[cut here: the whole result has 100010 bytes, SHA-256 ")
		require.Less(h.T(), len(text), 18_000)
	})
}

// A long result names sessions_history to a session that has the tool, and to no other.
func TestLongResultNamesTheHistory(t *testing.T) {
	for _, has := range []bool{true, false} {
		var told atomic.Value
		cfg := configOfLongAnswer(&told)
		if !has {
			cfg.Rules.Tools.Deny = []string{"sessions_history"}
		}
		agenttest.Run(t, cfg, nil, func(h *harness) {
			h.Post("go")
			h.Pass(time.Minute)
			text, _ := told.Load().(string)
			require.Contains(h.T(), text, "\n[cut here: the whole result has 100010 bytes, SHA-256 ")
			require.Equal(h.T(), has, strings.Contains(text, "; sessions_history with "), text[:200])
		})
	}
}

// unreadableFiles are files that cannot be opened until readable is set.
type unreadableFiles struct {
	session.Files
	readable atomic.Bool
}

func (f *unreadableFiles) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	if !f.readable.Load() {
		return nil, errors.New("the disk does not answer")
	}
	return f.Files.Open(ctx, ref, hash)
}

// A model is told the beginning of a result that cannot be loaded, with the same line.
func TestModelIsToldTheBeginningOfALostResult(t *testing.T) {
	var told atomic.Value
	cfg := configOfLongAnswer(&told)
	store := session.NewMemory()
	files := &unreadableFiles{Files: store.Files}
	cfg.Store = &session.Store{Journal: store.Journal, Transcripts: store.Transcripts, Files: files}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Pass(time.Minute)
		text, _ := told.Load().(string)
		require.Contains(h.T(), text, "| begin xxx")
		require.NotContains(h.T(), text, "xxx end\n")
		require.Contains(h.T(), text, "\n[cut here: the whole result has 100010 bytes, SHA-256 ")
		files.readable.Store(true) // for the audit of the harness
	})
}

// Child.Wait and Join return the whole, and an error in the place of what cannot be loaded.
func TestChildOfALongAnswer(t *testing.T) {
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult(longAnswer)
	})
	store := session.NewMemory()
	files := &unreadableFiles{Files: store.Files}
	files.readable.Store(true)
	cfg.Store = &session.Store{Journal: store.Journal, Transcripts: store.Transcripts, Files: files}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "go"})
		require.NoError(h.T(), err)
		got, err := child.Wait(h.Context())
		require.NoError(h.T(), err)
		require.Equal(h.T(), longAnswer, got)
		children := []*agent.Child[string]{child}
		all, err := agent.Join(h.Context(), h.Main(), children, agent.JoinOptions{})
		require.NoError(h.T(), err)
		require.Equal(h.T(), longAnswer, all[0].Value)
		runs, err := h.Main().Runs(h.Context())
		require.NoError(h.T(), err)
		require.Len(h.T(), runs[0].Result.Text, 4096)

		files.readable.Store(false)
		_, err = child.Wait(h.Context())
		require.ErrorIs(h.T(), err, agent.ErrUnreadable)
		files.readable.Store(true)
	})
}
