package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// What Config.Redact names is masked in the texts of errors of the caller's functions, wherever
// these are shown: in Blocked, in the next attempt of a delivery, and in what a model is told of a
// spawn that a hook has refused.
func TestSecretsInErrorsOfTheCallersFunctions(t *testing.T) {
	const own = "QwErTyUiOpAsDfGh#1234567890"
	const token = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	bad := errors.New("the channel said: key " + own + " and " + token + " are not valid")
	var attempts []string
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "an answer"}, nil
	})
	cfg.Redact = announce.Redaction{Secrets: []string{own}}
	cfg.Reply = func(_ context.Context, d agent.Delivery) error {
		if attempts = append(attempts, d.Error); len(attempts) == 2 {
			return agent.Permanent(bad)
		}
		return bad
	}
	cfg.Hooks.Spawning = func(context.Context, agent.SpawningHook) error { return bad }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		time.Sleep(time.Hour)
		blocked, err := h.Runtime().Blocked(h.Context())
		require.NoError(h.T(), err)
		require.Len(h.T(), blocked, 1)
		require.Len(h.T(), attempts, 2)
		_, err = agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.ErrorContains(h.T(), err, "the channel said")
		for _, shown := range []string{blocked[0].Error, attempts[1], err.Error()} {
			require.Contains(h.T(), shown, "the channel said")
			require.NotContains(h.T(), shown, own)
			require.NotContains(h.T(), shown, token)
		}
	})
}

// The files of a sub-agent's result have their secrets masked where its requester reads of them.
func TestSecretsInTheNamesOfFiles(t *testing.T) {
	const own = "QwErTyUiOpAsDfGh#1234567890"
	var read []string
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key.IsSubagent() {
			return agent.Result{Text: "done", Files: []spawn.File{
				{Name: own + ".txt", Path: "/x/" + own, MediaType: "text/" + own},
			}}, nil
		}
		for _, m := range tn.Messages {
			read = append(read, m.Text)
		}
		return agent.Result{Text: "an answer"}, nil
	})
	cfg.Redact = announce.Redaction{Secrets: []string{own}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Announce: true})
		require.NoError(h.T(), err)
		time.Sleep(time.Minute)
		synctest.Wait()
		all := strings.Join(read, "\n")
		require.Contains(h.T(), all, ".txt")
		require.NotContains(h.T(), all, own)
	})
}

// The label of a sub-agent is masked before it is cut or becomes the name of a thread.
func TestSecretsInTheNameOfAThread(t *testing.T) {
	const token = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "an answer"}, nil
		})
		chat.Connect(&cfg)
		rt := runUntilEnd(t, cfg)
		at := chat.At("general", "")
		_, err := chat.Write(t.Context(), rt, at, "ann", "hello")
		require.NoError(t, err)
		synctest.Wait()
		key, err := chat.Key(at)
		require.NoError(t, err)
		label := strings.Repeat("x", 20) + " " + token // a list shows 48 characters
		_, err = rt.Session(key).Spawn(t.Context(), agent.Task{
			Text: "x", Label: label, Thread: true,
		})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, chat.Asked(), 1)
		asked := chat.Asked()[0]
		for _, shown := range []string{asked.Name, asked.Intro} {
			require.Contains(t, shown, "xxxx")
			require.NotContains(t, shown, token[:8])
		}
		_, err = rt.Unfocus(t.Context(), agent.UnfocusRequest{
			Conversation: chat.Threads()[0], By: "ann",
		})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Len(t, chat.Farewells(chat.Threads()[0]), 1)
		said := chat.Farewells(chat.Threads()[0])[0]
		require.NotContains(t, said.Text+said.Label, token[:8])
	})
}
