package binding_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// Every way in which a binding ends owes a farewell, over restarts and snapshots, until it is
// settled.
func TestEndsAreOwedUntilSettled(t *testing.T) {
	for why, end := range map[binding.Reason]func(t *testing.T, b *binding.Table) error{
		binding.ReasonManual: func(t *testing.T, b *binding.Table) error {
			_, err := b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, bindNoon)
			return err
		},
		binding.ReasonSubagentOK: func(t *testing.T, b *binding.Table) error {
			_, err := b.Release(t.Context(), workerA, binding.ReasonSubagentOK, bindNoon)
			return err
		},
		binding.ReasonStaleSession: func(t *testing.T, b *binding.Table) error {
			_, err := b.ReleaseOne(
				t.Context(), workerA, thread1, binding.ReasonStaleSession, bindNoon)
			return err
		},
		binding.ReasonReplaced: func(t *testing.T, b *binding.Table) error {
			_, err := b.Bind(t.Context(), binding.Request{
				Conversation: thread1, Target: workerB, By: "alice", Replace: true,
			}, bindNoon)
			return err
		},
		binding.ReasonIdle: func(t *testing.T, b *binding.Table) error {
			_, err := b.Expire(t.Context(), bindNoon.Add(time.Hour))
			return err
		},
		binding.ReasonMaxAge: func(t *testing.T, b *binding.Table) error {
			age := time.Minute
			_, err := b.SetLimit(
				t.Context(), thread1, "alice", binding.Limit{MaxAge: &age}, bindNoon)
			require.NoError(t, err)
			_, err = b.Bind(t.Context(), binding.Request{ // what has expired is not in the way
				Conversation: thread1, Target: workerB, By: "bob",
			}, bindNoon.Add(time.Hour))
			return err
		},
	} {
		t.Run(why.String(), func(t *testing.T) {
			j := &flakyJournal{Journal: session.NewMemory().Journal, bytes: true}
			b := openTable(t, j)
			made := bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
			require.Empty(t, b.Owed())
			require.NoError(t, end(t, b))
			for range 400 { // a snapshot comes in between
				bindForAnHour(t, b, thread2, workerA, "alice", bindNoon)
				ended, err := b.Unbind(
					t.Context(), thread2, "alice", binding.ReasonManual, bindNoon)
				require.NoError(t, err)
				require.NoError(t, b.Settle(t.Context(), ended.ID, bindNoon))
			}
			var ids []string
			for _, table := range []*binding.Table{b, openTable(t, j)} {
				owed := table.Owed()
				require.Len(t, owed, 1)
				require.Equal(t, why, owed[0].Reason)
				require.Equal(t, made.Target, owed[0].Binding.Target)
				require.Equal(t, owed, table.Former(thread1, bindNoon))
				ids = append(ids, owed[0].ID)
			}
			require.Equal(t, ids[0], ids[1])
			require.NoError(t, b.Settle(t.Context(), ids[0], bindNoon))
			require.NoError(t, b.Settle(t.Context(), ids[0], bindNoon), "again")
			require.NoError(t, b.Settle(t.Context(), "unknown", bindNoon))
			require.Empty(t, b.Owed())
			again := openTable(t, j)
			require.Empty(t, again.Owed())
			ended := again.Former(thread1, bindNoon)
			require.Len(t, ended, 1)
			soon := again.Former(thread2, bindNoon.Add(time.Hour))
			require.Len(t, soon, 400)
			require.Empty(t, again.Former(thread1, ended[0].At.Add(binding.Remembered)))
		})
	}
}

// What ended and is settled takes no memory and no place in the log for longer than it is of use.
func TestEndsAreForgotten(t *testing.T) {
	j := &flakyJournal{Journal: session.NewMemory().Journal, bytes: true}
	b := openTable(t, j)
	now := bindNoon
	for range 3000 {
		bindForAnHour(t, b, thread1, workerA, "alice", now)
		ended, err := b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, now)
		require.NoError(t, err)
		require.NoError(t, b.Settle(t.Context(), ended.ID, now))
		now = now.Add(time.Hour)
	}
	assert.Less(t, bindingsLogLen(t, j), 1100)
	assert.Len(t, openTable(t, j).Former(thread1, now), 7*24-1)
}

// A binding that has expired is a former one before its end is recorded.
func TestExpiredIsFormer(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	assert.Empty(t, b.Former(thread1, bindNoon.Add(time.Hour-1)))
	for range 2 {
		former := b.Former(thread1, bindNoon.Add(time.Hour))
		require.Len(t, former, 1)
		assert.Equal(t, workerA, former[0].Binding.Target)
		assert.Equal(t, binding.ReasonIdle, former[0].Reason)
		_, err := b.Expire(t.Context(), bindNoon.Add(time.Hour))
		require.NoError(t, err)
	}
}

// A session may leave a conversation that has gone to another one.
func TestReleaseOne(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	bindForAnHour(t, b, thread2, workerA, "alice", bindNoon)
	for _, of := range []struct {
		target session.Key
		route  session.Route
		want   int
	}{
		{workerB, thread1, 0},
		{workerA, session.Route{Channel: "x", To: "y"}, 0},
		{workerA, thread1, 1},
	} {
		ended, err := b.ReleaseOne(
			t.Context(), of.target, of.route, binding.ReasonSubagentOK, bindNoon)
		require.NoError(t, err)
		require.Len(t, ended, of.want)
	}
	require.Len(t, b.All(bindNoon), 1)
}

// A binding leads to the tree of its session. One of an earlier version does not, and what it says
// is read and written as it was.
func TestRootOfABinding(t *testing.T) {
	j := &flakyJournal{Journal: session.NewMemory().Journal, bytes: true}
	old := `{"v":1,"kind":"bound","binding":{"conversation":{"channel":"discord","account":"bot",` +
		`"to":"general","thread":"1"},"target":"agent:main:subagent:a","by":"alice",` +
		`"bound":"2026-03-04T12:00:00Z","touched":"2026-03-04T12:00:00Z"},` +
		`"at":"2026-03-04T12:00:00Z"}`
	_, err := j.Append(t.Context(), session.BindingsRoot(), 0, session.Batch{
		Entries: []session.Entry{{Payload: session.Raw(old)}},
	})
	require.NoError(t, err)
	b := openTable(t, j)
	got, ok := b.Find(thread1, bindNoon)
	require.True(t, ok)
	require.True(t, got.Root.IsZero())
	_, err = b.Bind(t.Context(), binding.Request{
		Conversation: thread1, Target: workerA, By: "alice",
	}, bindNoon)
	require.NoError(t, err)
	var texts []string
	for e, err := range j.Read(t.Context(), session.BindingsRoot(), 0) {
		require.NoError(t, err)
		data, err := e.Payload.AppendJSON(nil)
		require.NoError(t, err)
		texts = append(texts, string(data))
	}
	require.Equal(t, []string{old, old}, texts)

	main := session.Must(session.MainKey("main"))
	made, err := b.Bind(t.Context(), binding.Request{
		Conversation: thread1, Target: workerA, Root: main, By: "alice", Created: true,
	}, bindNoon)
	require.NoError(t, err)
	require.Equal(t, main, made.Root)
	got, _ = openTable(t, j).Find(thread1, bindNoon)
	require.Equal(t, made, got)
	data, err := json.Marshal(made)
	require.NoError(t, err)
	require.Contains(t, string(data), `"root":"agent:main:main"`)

	_, err = b.Bind(t.Context(), binding.Request{
		Conversation: thread1, Target: workerA, Root: workerB, By: "alice",
	}, bindNoon)
	require.ErrorContains(t, err, "root")
}

// A fact that an earlier version would misread says so; it cannot be passed over in silence.
func TestVersionOfFacts(t *testing.T) {
	j := session.NewMemory().Journal
	b := openTable(t, j)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	ended, err := b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, bindNoon)
	require.NoError(t, err)
	require.NoError(t, b.Settle(t.Context(), ended.ID, bindNoon))
	_, err = b.Bind(t.Context(), binding.Request{
		Conversation: thread1, Target: workerA, By: "alice", Created: true,
	}, bindNoon)
	require.NoError(t, err)
	var versions []int
	for e, err := range j.Read(t.Context(), session.BindingsRoot(), 0) {
		require.NoError(t, err)
		data, err := e.Payload.AppendJSON(nil)
		require.NoError(t, err)
		var f struct{ V int }
		require.NoError(t, json.Unmarshal(data, &f))
		versions = append(versions, f.V)
	}
	require.Equal(t, []int{1, 2, 2, 2}, versions)
}

// What is begun binds nothing and ends nothing, is owed over restarts and snapshots until it has
// come about or is settled, and is then as if it had never been.
func TestBegin(t *testing.T) {
	q := binding.Request{
		Conversation: thread1, Target: workerB, By: "alice", Replace: true, Begun: "begun",
	}
	for name, c := range map[string]struct {
		then func(t *testing.T, b *binding.Table)
		to   session.Key
	}{
		"bound": {func(t *testing.T, b *binding.Table) {
			_, err := b.Bind(t.Context(), q, bindNoon)
			require.NoError(t, err)
			ended := b.Owed()
			require.Len(t, ended, 1)
			require.Equal(t, workerA, ended[0].Binding.Target)
			require.Equal(t, binding.ReasonReplaced, ended[0].Reason)
			require.NoError(t, b.Settle(t.Context(), ended[0].ID, bindNoon))
		}, workerB},
		"settled": {func(t *testing.T, b *binding.Table) {
			require.NoError(t, b.Settle(t.Context(), q.Begun, bindNoon))
			_, err := b.Bind(t.Context(), q, bindNoon)
			require.ErrorIs(t, err, session.ErrConflict, "it was given up")
		}, workerA},
	} {
		t.Run(name, func(t *testing.T) {
			j := &flakyJournal{Journal: session.NewMemory().Journal, bytes: true}
			b := openTable(t, j)
			made := bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
			for range 2 {
				require.NoError(t, b.Begin(t.Context(), q, binding.ReasonBindFailed, bindNoon))
			}
			for range 400 { // a snapshot comes in between
				bindForAnHour(t, b, thread2, workerA, "alice", bindNoon)
				_, err := b.Unbind(t.Context(), thread2, "alice", binding.ReasonManual, bindNoon)
				require.NoError(t, err)
				require.NoError(t, b.Settle(t.Context(), b.Owed()[1].ID, bindNoon))
			}
			b = openTable(t, j)
			found, ok := b.Find(thread1, bindNoon)
			require.True(t, ok)
			require.Equal(t, made, found)
			owed := b.Owed()
			require.Len(t, owed, 1)
			require.True(t, b.Owes(q.Begun))
			require.Equal(t, binding.Unbound{
				ID: q.Begun, Reason: binding.ReasonBindFailed, At: bindNoon, Begun: true,
				Binding: binding.Binding{
					Conversation: thread1, Target: workerB, By: "alice", Bound: bindNoon,
					Touched: bindNoon,
				},
			}, owed[0])
			c.then(t, b)
			b = openTable(t, j)
			require.Empty(t, b.Owed())
			require.False(t, b.Owes(q.Begun))
			found, _ = b.Find(thread1, bindNoon)
			require.Equal(t, c.to, found.Target)
			for _, u := range b.Former(thread1, bindNoon) {
				require.False(t, u.Begun, "the session was never bound")
			}
		})
	}
}

// What Bind would refuse, Begin refuses, and so it does a begin without a name.
func TestBeginRefuses(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	for want, q := range map[error]binding.Request{
		binding.ErrNotOwner: {Conversation: thread1, Target: workerB, By: "bob", Replace: true},
		binding.ErrBound:    {Conversation: thread1, Target: workerB, By: "alice"},
	} {
		q.Begun = "x"
		require.ErrorIs(t, b.Begin(t.Context(), q, binding.ReasonBindFailed, bindNoon), want)
	}
	q := binding.Request{Conversation: thread2, Target: workerB, By: "bob"}
	require.ErrorContains(t, b.Begin(t.Context(), q, binding.ReasonBindFailed, bindNoon), "begun")
	q.Conversation.To = strings.Repeat("x", session.MaxKeyLen+1)
	require.ErrorContains(t, b.Begin(t.Context(), q, binding.ReasonBindFailed, bindNoon), "limit")
	require.Empty(t, b.Owed())
}

// A conflict with nothing is an error, and not another attempt for ever.
func TestConflictWithNothing(t *testing.T) {
	b := openTable(t, conflicting{session.NewMemory().Journal})
	_, err := b.Bind(t.Context(), binding.Request{
		Conversation: thread1, Target: workerA, By: "alice",
	}, bindNoon)
	require.ErrorIs(t, err, session.ErrConflict)
}

type conflicting struct{ session.Journal }

func (conflicting) Append(
	context.Context, session.Key, session.Seq, session.Batch,
) (session.Seq, error) {
	return 0, session.ErrConflict
}

// A clock that goes back makes a binding live longer by as much, and brings none back whose end is
// recorded. What is said then is before the last touch, and changes nothing.
func TestClockThatGoesBack(t *testing.T) {
	j := session.NewMemory().Journal
	b := openTable(t, j)
	bindForAnHour(t, b, thread1, workerA, "a", bindNoon)
	bindForAnHour(t, b, thread2, workerB, "a", bindNoon)
	require.NoError(t, b.Touch(t.Context(), thread1, bindNoon.Add(30*time.Minute)))
	back := bindNoon.Add(-2 * time.Hour)
	require.NoError(t, b.Touch(t.Context(), thread1, back))
	for _, table := range []*binding.Table{b, openTable(t, j)} {
		for at, want := range map[time.Time]bool{
			back: true, bindNoon.Add(89 * time.Minute): true, bindNoon.Add(90 * time.Minute): false,
		} {
			_, bound := table.Find(thread1, at)
			require.Equal(t, want, bound, "%v", at)
		}
	}
	_, bound := b.Find(thread2, bindNoon.Add(time.Hour))
	require.False(t, bound)
	_, bound = b.Find(thread2, back)
	require.True(t, bound, "its end is not recorded")
	ended, err := b.Expire(t.Context(), bindNoon.Add(time.Hour))
	require.NoError(t, err)
	require.Len(t, ended, 1)
	_, bound = b.Find(thread2, back)
	require.False(t, bound, "its end is recorded")
	ended, err = b.Expire(t.Context(), back)
	require.NoError(t, err)
	require.Empty(t, ended)
	require.Equal(t, bindNoon.Add(90*time.Minute), b.Next())
}

// A binding that has expired has ended by then: what ends it later, before that is on record, gives
// it no other reason.
func TestEndOfWhatHasExpired(t *testing.T) {
	for name, end := range map[string]func(
		t *testing.T, b *binding.Table, now time.Time,
	) ([]binding.Unbound, error){
		"release": func(t *testing.T, b *binding.Table, now time.Time) ([]binding.Unbound, error) {
			return b.Release(t.Context(), workerA, binding.ReasonSubagentStopped, now)
		},
		"release one": func(
			t *testing.T, b *binding.Table, now time.Time,
		) ([]binding.Unbound, error) {
			return b.ReleaseOne(t.Context(), workerA, thread1, binding.ReasonStaleSession, now)
		},
		"expire": func(t *testing.T, b *binding.Table, now time.Time) ([]binding.Unbound, error) {
			return b.Expire(t.Context(), now)
		},
		"bind": func(t *testing.T, b *binding.Table, now time.Time) ([]binding.Unbound, error) {
			bindForAnHour(t, b, thread1, workerB, "bob", now)
			return b.Owed(), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := session.NewMemory().Journal
			b := openTable(t, j)
			bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
			ended, err := end(t, b, bindNoon.Add(time.Hour))
			require.NoError(t, err)
			require.Len(t, ended, 1)
			require.Equal(t, binding.ReasonIdle, ended[0].Reason)
			require.Equal(t, ended, openTable(t, j).Owed())
		})
	}
}
