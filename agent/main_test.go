package agent_test

import (
	"log/slog"
	"testing"
)

// TestMain keeps the output of the tests quiet: a Config without a Logger logs to slog.Default.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	m.Run()
}

// errorOf returns the error of a call alone.
func errorOf[T any](_ T, err error) error { return err }
