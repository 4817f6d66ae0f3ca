package agent_test

import (
	"log/slog"
	"os"
	"testing"
)

// everyCrash is the environment variable that agenttest.EveryCrash reads.
const everyCrash = "OFFSHOOT_CRASHES"

// TestMain keeps the output of the tests quiet: a Config without a Logger logs to slog.Default.
// Under the race detector every 16th crash is played where the environment does not say how many;
// the step large of .ci/run plays all of them without it.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if underRace && os.Getenv(everyCrash) == "" {
		if err := os.Setenv(everyCrash, "16"); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// errorOf returns the error of a call alone.
func errorOf[T any](_ T, err error) error { return err }
