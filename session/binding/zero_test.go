package binding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// The zero Table is empty, and refuses every change.
func TestZeroTable(t *testing.T) {
	var table binding.Table
	now, ctx := time.Now(), t.Context()
	at, key := session.Route{Channel: "a", To: "b"}, session.Must(session.MainKey("main"))
	_, found := table.Find(at, now)
	require.False(t, found)
	require.Empty(t, table.All(now))
	require.Empty(t, table.Of(key, now))
	require.Empty(t, table.Owed())
	require.Empty(t, table.Former(at, now))
	require.Zero(t, table.Next())
	table.EachOwed(func(binding.Unbound) bool { t.Error("one is owed"); return true })
	require.ErrorIs(t, table.Touch(ctx, at, now), session.ErrNotFound)

	for name, change := range map[string]func() error{
		"refresh": func() error { return table.Refresh(ctx) },
		"settle":  func() error { return table.Settle(ctx, "1", now) },
		"bind": func() error {
			_, err := table.Bind(ctx, binding.Request{Conversation: at, Target: key, By: "x"}, now)
			return err
		},
		"unbind": func() error {
			_, err := table.Unbind(ctx, at, "x", binding.ReasonManual, now)
			return err
		},
		"release": func() error {
			_, err := table.Release(ctx, key, binding.ReasonManual, now)
			return err
		},
		"release one": func() error {
			_, err := table.ReleaseOne(ctx, key, at, binding.ReasonManual, now)
			return err
		},
		"expire": func() error { _, err := table.Expire(ctx, now); return err },
		"limit": func() error {
			_, err := table.SetLimit(ctx, at, "x", binding.Limit{}, now)
			return err
		},
	} {
		require.ErrorContains(t, change(), "does not come from Open", name)
	}
}
