package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// bot runs a bot for a time on a directory. Its children say what they were told, or never come to an end, and nobody takes deliveries.
func bot(t *testing.T, dir string, lifetime time.Duration, deliver func(agent.Delivery) error, live func(*agent.Runtime)) {
	t.Helper()
	store, err := session.OpenDir(dir)
	require.NoError(t, err)
	rt, err := agent.Open(t.Context(), agent.Config{
		Store: store,
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			if strings.Contains(turn.Input(), "for ever") {
				<-ctx.Done()
			}
			return agent.Result{Text: "done \x1b[31m"}, ctx.Err()
		}),
		Deliver: func(_ context.Context, d agent.Delivery) error { return deliver(d) },
	})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
	live(rt)
	time.Sleep(lifetime)
	synctest.Wait()
	// Beside the bot, everything but what changes something works.
	code, out, errs := state(t, "-state", dir)
	require.Zero(t, code, errs)
	assert.Contains(t, out, "1 trees")
	code, _, errs = state(t, "-state", dir, "-retry", "x")
	assert.Equal(t, exitError, code)
	assert.Contains(t, errs, "is locked by process")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := rt.Shutdown(ctx); err != nil { // something never comes to an end
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, <-done)
	require.NoError(t, store.Close())
}

func state(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = runState(t.Context(), args, time.Now(), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func spawnTask(t *testing.T, rt *agent.Runtime, task agent.Task) {
	t.Helper()
	task.Announce = true
	_, err := agent.Spawn[string](t.Context(), rt.Session(session.Main("main")), task)
	require.NoError(t, err)
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		refuse := func(agent.Delivery) error { return errors.New("no connection") }
		bot(t, dir, 2*time.Hour, refuse, func(rt *agent.Runtime) {
			spawnTask(t, rt, agent.Task{Text: "report", Label: "first"})
			spawnTask(t, rt, agent.Task{Text: "report", Label: "second"})
			time.Sleep(time.Hour)
			spawnTask(t, rt, agent.Task{Text: "wait for ever", Label: "endless"})
		})
		code, out, errs := state(t, "-state", dir)
		require.Zero(t, code, errs)
		assert.Contains(t, out, "agent:main:main: 1 of 3 runs alive")
		assert.Contains(t, out, "2 of them blocked")
		assert.Regexp(t, `ok +0s +first +agent:main:subagent:`, out)
		assert.Regexp(t, `under way +2h1m0s +endless`, out)
		keys := make(map[string]string)
		for _, m := range regexp.MustCompile(`delivery (\S+) +of (\S+) +to agent:main:main +blocked since \S+ no connection`).FindAllStringSubmatch(out, -1) {
			keys[m[2]] = m[1]
		}
		require.Len(t, keys, 2)

		code, out, _ = state(t, "-state", dir, "-tree", "agent:main:main")
		require.Zero(t, code)
		assert.Contains(t, out, "ended ok")
		assert.NotContains(t, out, "\x1b")

		code, out, errs = state(t, "-state", dir, "-verify")
		require.Zero(t, code, errs)
		assert.Contains(t, out, "1 trees: 0 bad")

		code, out, errs = state(t, "-state", dir, "-retry", keys["first"])
		require.Zero(t, code, errs)
		assert.Contains(t, out, "tried again")
		code, _, errs = state(t, "-state", dir, "-dismiss", keys["second"])
		require.Zero(t, code, errs)
		code, _, errs = state(t, "-state", dir, "-dismiss", keys["second"])
		assert.Equal(t, exitError, code)
		assert.Contains(t, errs, "inspect: ")

		var got []string
		accept := func(d agent.Delivery) error {
			got = append(got, d.Run.Label)
			return nil
		}
		bot(t, dir, time.Minute, accept, func(*agent.Runtime) {})
		assert.Contains(t, got, "first")
		assert.NotContains(t, got, "second")
	})
}

func TestStateSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := state(t, "-state", filepath.Join(dir, "none"))
	assert.Equal(t, exitError, code)
	assert.Contains(t, errs, "none")
	for _, args := range [][]string{{"-state", ""}, {"-state", dir, "x"}, {"-state", dir, "-verify", "-retry", "x"}, {"-state", dir, "-tree", "nonsense"}} {
		code, _, errs = state(t, args...)
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, errs, "inspect: ")
	}
	code, out, _ := state(t, "-state", dir, "-h")
	assert.Zero(t, code)
	assert.Contains(t, out, "-dismiss")

	store, err := session.OpenDir(dir)
	require.NoError(t, err)
	for i := range 3 {
		_, err = store.Journal.Append(t.Context(), session.Main("main"), session.Seq(i), session.Batch{Entries: []session.Entry{{Payload: session.Raw(`"x"`)}}})
		require.NoError(t, err)
	}
	require.NoError(t, store.Close())
	code, out, _ = state(t, "-state="+dir, "-verify")
	assert.Equal(t, exitError, code, "what is no fact is no tree")
	assert.Contains(t, out, "bad ")

	name := filepath.Join(dir, "journal", "00000001.wal")
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[120] ^= 1
	require.NoError(t, os.WriteFile(name, b, 0o600))
	code, _, errs = state(t, "-state", dir, "-verify")
	assert.Equal(t, exitError, code)
	assert.Contains(t, errs, "00000001.wal: at byte ")
}
