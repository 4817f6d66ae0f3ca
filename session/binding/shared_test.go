package binding_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// Each change of a Table that comes from OpenShared is decided by what others have recorded, also
// where it would find nothing to do by what the Table knew.
func TestSharedTable(t *testing.T) {
	ctx, now := t.Context(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := session.Route{Channel: "c", To: "1"}
	of := session.Must(session.MainKey("main"))
	bind := func(table *binding.Table) {
		_, err := table.Bind(ctx, binding.Request{
			Conversation: at, Target: of, By: "a", Idle: time.Hour,
		}, now)
		require.NoError(t, err)
	}
	for name, change := range map[string]struct {
		do    func(*binding.Table) error
		bound bool
	}{
		"Unbind": {do: func(table *binding.Table) error {
			_, err := table.Unbind(ctx, at, "a", binding.ReasonManual, now)
			return err
		}},
		"Release": {do: func(table *binding.Table) error {
			_, err := table.Release(ctx, of, binding.ReasonManual, now)
			return err
		}},
		"ReleaseOne": {do: func(table *binding.Table) error {
			_, err := table.ReleaseOne(ctx, of, at, binding.ReasonManual, now)
			return err
		}},
		"Expire": {do: func(table *binding.Table) error {
			_, err := table.Expire(ctx, now.Add(time.Hour))
			return err
		}},
		"SetLimit": {func(table *binding.Table) error {
			_, err := table.SetLimit(ctx, at, "a", binding.Limit{Idle: new(time.Minute)}, now)
			return err
		}, true},
		"Bind": {func(table *binding.Table) error {
			_, err := table.Bind(ctx, binding.Request{
				Conversation: at, Target: session.Must(session.MainKey("x")), By: "b",
			}, now)
			if errors.Is(err, binding.ErrBound) {
				return nil
			}
			return errors.New("it was bound")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := session.NewMemory().Journal
			one, err := binding.OpenShared(ctx, j)
			require.NoError(t, err)
			other, err := binding.OpenShared(ctx, j)
			require.NoError(t, err)
			bind(one)
			require.NoError(t, change.do(other))
			_, bound := other.Find(at, now)
			require.Equal(t, change.bound, bound)
			require.NoError(t, one.Confirm(ctx))
			require.Equal(t, other.All(now), one.All(now))
			require.Equal(t, other.Owed(), one.Owed())
			for _, u := range one.Owed() {
				require.NoError(t, other.Settle(ctx, u.ID, now))
				require.True(t, one.Owes(u.ID), "it is not read yet")
				require.NoError(t, one.Settle(ctx, u.ID, now), "nothing is left to settle")
				require.False(t, one.Owes(u.ID))
			}
		})
	}
}

// A log that cannot be read refuses every change of such a Table, and nothing is recorded.
func TestSharedTableThatCannotBeRead(t *testing.T) {
	j := &unread{Journal: session.NewMemory().Journal}
	table, err := binding.OpenShared(t.Context(), j)
	require.NoError(t, err)
	j.err = errors.New("away")
	q := binding.Request{
		Conversation: session.Route{Channel: "c", To: "1"}, By: "a",
		Target: session.Must(session.MainKey("main")),
	}
	_, err = table.Bind(t.Context(), q, time.Now())
	require.ErrorIs(t, err, binding.ErrUnreadable)
	require.ErrorIs(t, table.Confirm(t.Context()), j.err)
	j.err = nil
	require.NoError(t, table.Confirm(t.Context()))
	require.Empty(t, table.All(time.Now()))
}

// unread is a journal that cannot be read while it has an error.
type unread struct {
	session.Journal
	err error
}

func (j *unread) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if j.err == nil {
		return j.Journal.Read(ctx, root, after)
	}
	return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, j.err) }
}
