package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// The test binary is also the bot and the other program.
func TestMain(m *testing.M) {
	switch os.Getenv("HARNESS") {
	case "main":
		main()
	case "cues":
		if err := serve(context.Background(), os.Getenv("HARNESS_DIR"), play, os.Stdin,
			os.Stdout); err != nil {
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// play is the mind of a program that does as the kit says.
func play(ctx context.Context, told []string, say func(string)) (string, agent.Usage, error) {
	cues := agenttest.Cues(told...)
	if cues[len(cues)-1].Do == agenttest.CueExit {
		os.Exit(0)
	}
	answer, err := agenttest.Play(ctx, cues, say)
	return answer, cues[len(cues)-1].Usage, err
}

// The Runner keeps every rule, with a process that works, fails, panics, exits and is killed.
func TestRunnerKeepsToTheContract(t *testing.T) {
	agenttest.TestRunner(t, func(t testing.TB) func() agent.Runner {
		dir := t.TempDir()
		return func() agent.Runner {
			return &Runner{
				Command: []string{os.Args[0]},
				Env: []string{
					"HARNESS=cues", "HARNESS_DIR=" + dir, "GORACE=atexit_sleep_ms=0",
				},
			}
		}
	}, agenttest.RunnerOptions{
		Memory: true, Resume: true, Deltas: true, Usage: true, Partial: true,
	})
}

// bot starts the bot on a directory.
func bot(t *testing.T, state string) (cmd *exec.Cmd, say func(string), next func() string) {
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-state", state)
	cmd.Env = append(os.Environ(), "HARNESS=main")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	return cmd, func(line string) {
			_, err := in.Write([]byte(line + "\n"))
			require.NoError(t, err)
		}, func() string {
			require.True(t, lines.Scan(), "%v", lines.Err())
			return lines.Text()
		}
}

// The bot is killed with SIGKILL while the other program works. Its successor repeats the turn in
// the same foreign session, which is told no message twice.
func TestKillInTheMiddle(t *testing.T) {
	state := t.TempDir()
	memories := func() []string {
		found, err := filepath.Glob(filepath.Join(state, "foreign", "*.json"))
		require.NoError(t, err)
		return found
	}
	cmd, say, _ := bot(t, state)
	say("slow")
	for begun := time.Now(); len(memories()) == 0; {
		require.Less(t, time.Since(begun), 30*time.Second)
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	cmd, say, next := bot(t, state)
	require.Equal(t, "You told me: slow.", next())
	say("two")
	require.Equal(t, "You told me: slow, two.", strings.TrimSpace(next()))
	require.Len(t, memories(), 1, "one foreign session")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
}
