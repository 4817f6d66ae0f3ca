package binding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// What a process has of a binding that it has made, touched, limited and ended is what the next
// process reads: no time has the reading of a monotonic clock, or a zone of its own.
func TestTimesAreThoseOfTheLog(t *testing.T) {
	journal := &flakyJournal{Journal: session.NewMemory().Journal, bytes: true}
	table := openTable(t, journal)
	now := time.Now()
	same := func(what string) {
		t.Helper()
		mine, next := table.All(now), openTable(t, journal).All(now)
		require.Len(t, mine, 1)
		require.Equal(t, next, mine, what)
	}
	made, err := table.Bind(t.Context(), binding.Request{
		Conversation: thread1, Target: workerA, By: "me", Idle: time.Minute,
	}, now)
	require.NoError(t, err)
	require.Equal(t, made, openTable(t, journal).All(now)[0])
	same("bound")
	now = now.Add(30 * time.Second)
	require.NoError(t, table.Touch(t.Context(), thread1, now))
	same("touched")
	hour := time.Hour
	_, err = table.SetLimit(t.Context(), thread1, "me", binding.Limit{MaxAge: &hour}, now)
	require.NoError(t, err)
	same("limited")
	ended, err := table.Unbind(t.Context(), thread1, "me", binding.ReasonManual, now)
	require.NoError(t, err)
	require.Equal(t, []binding.Unbound{ended}, openTable(t, journal).Owed())
}
