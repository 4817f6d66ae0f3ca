package binding_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

var (
	bindNoon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

	thread1 = session.Route{Channel: "discord", Account: "bot", To: "general", Thread: "1"}
	thread2 = session.Route{Channel: "discord", Account: "bot", To: "general", Thread: "2"}
	workerA = session.Must(session.Parse("agent:main:subagent:a"))
	workerB = session.Must(session.Parse("agent:main:subagent:b"))
)

func openTable(t *testing.T, j session.Journal) *binding.Table {
	t.Helper()
	b, err := binding.Open(t.Context(), j)
	require.NoError(t, err)
	return b
}

func bindForAnHour(
	t *testing.T, b *binding.Table, conversation session.Route, target session.Key, by string,
	now time.Time,
) binding.Binding {
	t.Helper()
	made, err := b.Bind(
		t.Context(),
		binding.Request{Conversation: conversation, Target: target, By: by, Idle: time.Hour}, now,
	)
	require.NoError(t, err)
	return made
}

func TestRefuses(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	for what, req := range map[string]binding.Request{
		"channel":      {Conversation: session.Route{To: "x"}, Target: workerA, By: "a"},
		"no recipient": {Conversation: session.Route{Channel: "x"}, Target: workerA, By: "a"},
		"target":       {Conversation: thread1, By: "a"},
		"by":           {Conversation: thread1, Target: workerA},
		"idle":         {Conversation: thread1, Target: workerA, By: "a", Idle: -1},
		"max age":      {Conversation: thread1, Target: workerA, By: "a", MaxAge: -1},
	} {
		_, err := b.Bind(t.Context(), req, bindNoon)
		assert.ErrorContains(t, err, what, what)
	}
	_, err := b.Bind(
		t.Context(), binding.Request{Conversation: thread1, Target: workerA, By: "a"}, time.Time{},
	)
	assert.ErrorContains(t, err, "bound")
	assert.Empty(t, b.All(bindNoon))
	_, err = binding.Open(t.Context(), nil)
	assert.Error(t, err)
}

// S10: no text of a binding is without a bound, and a label stands on one line.
func TestTextsAreBounded(t *testing.T) {
	good := binding.Request{
		Conversation: session.Route{Channel: "c", Account: "a", To: "1", Thread: "t"},
		Target:       session.Must(session.MainKey("main")), By: "me", Label: "l",
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, part := range map[string]func(q *binding.Request) *string{
		"conversation.channel": func(q *binding.Request) *string { return &q.Conversation.Channel },
		"conversation.account": func(q *binding.Request) *string { return &q.Conversation.Account },
		"conversation.to":      func(q *binding.Request) *string { return &q.Conversation.To },
		"conversation.thread":  func(q *binding.Request) *string { return &q.Conversation.Thread },
		"by":                   func(q *binding.Request) *string { return &q.By },
		"label":                func(q *binding.Request) *string { return &q.Label },
	} {
		limit := session.MaxKeyLen
		if name == "label" {
			limit = 200
		}
		table, err := binding.Open(t.Context(), session.NewMemory().Journal)
		require.NoError(t, err)
		q := good
		*part(&q) = strings.Repeat("x", limit)
		_, err = table.Bind(t.Context(), q, now)
		require.NoError(t, err, name)
		*part(&q) += "x"
		_, err = table.Bind(t.Context(), q, now)
		require.ErrorContains(t, err, fmt.Sprintf("binding: %s has %d ", name, limit+1))
		*part(&q) = "a\xffb"
		if bound, err := table.Bind(t.Context(), q, now); name == "label" {
			require.NoError(t, err)
			require.Equal(t, "ab", bound.Label)
		} else {
			require.ErrorContains(t, err, "binding: "+name+" is not UTF-8")
		}
	}
	table, err := binding.Open(t.Context(), session.NewMemory().Journal)
	require.NoError(t, err)
	long := session.Route{Channel: "c", To: strings.Repeat("x", 1_000_000)}
	_, err = table.Unbind(t.Context(), long, "me", binding.ReasonManual, now)
	require.ErrorIs(t, err, session.ErrNotFound)
	require.Less(t, len(err.Error()), 500)
}

func TestBindAndFind(t *testing.T) {
	j := session.NewMemory().Journal
	b := openTable(t, j)
	made := bindForAnHour(
		t, b, session.Route{Channel: " Discord", Account: "bot", To: "general ", Thread: "1"},
		workerA, "alice", bindNoon,
	)
	assert.Equal(t, thread1, made.Conversation)
	bindForAnHour(t, b, thread2, workerA, binding.SystemOwner, bindNoon)
	other := thread1
	other.Account = "other" // 7.15
	bindForAnHour(t, b, other, workerB, "bob", bindNoon)

	got, ok := b.Find(thread1, bindNoon)
	assert.True(t, ok)
	assert.Equal(t, made, got)
	assert.Len(t, b.Of(workerA, bindNoon), 2, "a session has many conversations")
	assert.Len(t, b.Of(workerB, bindNoon), 1)
	assert.Len(t, b.All(bindNoon), 3)
	assert.Equal(t, bindNoon.Add(time.Hour), b.Next())

	_, ok = b.Find(thread1, bindNoon.Add(time.Hour)) // 7.7, at routing time
	assert.False(t, ok)
	assert.Empty(t, b.All(bindNoon.Add(time.Hour)))
	assert.Empty(t, b.Of(workerA, bindNoon.Add(time.Hour)))

	again := openTable(t, j) // 7.23
	assert.Equal(t, b.All(bindNoon), again.All(bindNoon))
	query := session.RootQuery{DueBefore: bindNoon.AddDate(1000, 0, 0)}
	for h, err := range j.Roots(t.Context(), query) {
		require.NoError(t, err)
		t.Errorf("the log of bindings needs no owner: %+v", h)
	}
}

func TestBindAgain(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	first := bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)

	_, err := b.Bind(
		t.Context(), binding.Request{Conversation: thread1, Target: workerB, By: "alice"}, bindNoon,
	)
	var refused *binding.Error
	require.ErrorAs(t, err, &refused)
	assert.ErrorIs(t, err, binding.ErrBound)
	assert.Equal(t, binding.Error{Binding: first, By: "alice", Err: binding.ErrBound}, *refused)
	assert.ErrorContains(t, err, `"alice"`)

	for _, by := range []string{"bob", ""} { // 7.22: an empty name is not every owner
		_, err = b.Bind(
			t.Context(),
			binding.Request{Conversation: thread1, Target: workerB, By: by, Replace: true},
			bindNoon,
		)
		assert.Error(t, err, by)
	}
	_, err = b.Bind(
		t.Context(), binding.Request{Conversation: thread1, Target: workerA, By: "bob"}, bindNoon,
	)
	assert.ErrorIs(t, err, binding.ErrNotOwner, "binding anew would take it over")
	_, err = b.Bind(
		t.Context(),
		binding.Request{Conversation: thread1, Target: workerB, By: "bob", Replace: true}, bindNoon,
	)
	assert.ErrorIs(t, err, binding.ErrNotOwner)

	_, err = b.Bind(
		t.Context(),
		binding.Request{Conversation: thread1, Target: workerB, By: "alice", Replace: true},
		bindNoon,
	)
	require.NoError(t, err)
	assert.Empty(t, b.Of(workerA, bindNoon), "7.16")
	assert.Len(t, b.Of(workerB, bindNoon), 1)

	// What has expired is not in the way of a new binding.
	bindForAnHour(t, b, thread2, workerA, "alice", bindNoon)
	bindForAnHour(t, b, thread2, workerB, "bob", bindNoon.Add(time.Hour))
	got, ok := b.Find(thread2, bindNoon.Add(time.Hour))
	assert.True(t, ok)
	assert.Equal(t, workerB, got.Target)
}

func TestUnbind(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	made := bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	for _, by := range []string{"bob", ""} {
		_, err := b.Unbind(t.Context(), thread1, by, binding.ReasonManual, bindNoon)
		assert.ErrorIs(t, err, binding.ErrNotOwner, by)
	}
	ended, err := b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, bindNoon)
	require.NoError(t, err)
	assert.NotEmpty(t, ended.ID)
	assert.Equal(t, binding.Unbound{
		ID: ended.ID, Binding: made, Reason: binding.ReasonManual, At: bindNoon,
	}, ended)
	_, err = b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, bindNoon)
	assert.ErrorIs(t, err, session.ErrNotFound)

	bindForAnHour(t, b, thread1, workerA, binding.SystemOwner, bindNoon)
	_, err = b.Unbind(t.Context(), thread1, "bob", binding.ReasonManual, bindNoon) // 7.22
	require.NoError(t, err)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	_, err = b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, bindNoon.Add(time.Hour))
	assert.ErrorIs(t, err, session.ErrNotFound, "it had expired")

	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon.Add(time.Hour))
	bindForAnHour(t, b, thread2, workerA, "bob", bindNoon.Add(time.Hour))
	all, err := b.Release(
		t.Context(), workerA, binding.ReasonSubagentStopped, bindNoon.Add(time.Hour),
	) // 7.19
	require.NoError(t, err)
	assert.Len(t, all, 2)
	assert.Equal(t, binding.ReasonSubagentStopped, all[0].Reason)
	all, err = b.Release(t.Context(), workerA, binding.ReasonSubagentStopped, bindNoon)
	require.NoError(t, err)
	assert.Empty(t, all)
}

func TestExpire(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	_, err := b.Bind(
		t.Context(),
		binding.Request{Conversation: thread2, Target: workerA, By: "alice", MaxAge: 2 * time.Hour},
		bindNoon,
	)
	require.NoError(t, err)
	assert.Equal(t, bindNoon.Add(time.Hour), b.Next())
	ended, err := b.Expire(t.Context(), bindNoon.Add(time.Hour))
	require.NoError(t, err)
	require.Len(t, ended, 1)
	assert.Equal(t, binding.ReasonIdle, ended[0].Reason)
	ended, err = b.Expire(t.Context(), bindNoon.Add(2*time.Hour))
	require.NoError(t, err)
	require.Len(t, ended, 1)
	assert.Equal(t, binding.ReasonMaxAge, ended[0].Reason)
	assert.True(t, b.Next().IsZero())
}

func TestTouch(t *testing.T) {
	j := session.NewMemory().Journal
	b := openTable(t, j)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	entriesBefore := bindingsLogLen(t, j)
	require.NoError(t, b.Touch(t.Context(), thread1, bindNoon.Add(5*time.Second)))
	assert.Equal(
		t, entriesBefore, bindingsLogLen(t, j), "a touch every few seconds is not worth an entry",
	)
	got, _ := b.Find(thread1, bindNoon)
	assert.Equal(t, bindNoon.Add(5*time.Second), got.Touched, "but it counts at once")
	require.NoError(t, b.Touch(t.Context(), thread1, bindNoon.Add(40*time.Minute)))
	assert.Equal(t, entriesBefore+1, bindingsLogLen(t, j))
	require.NoError(t, b.Touch(t.Context(), thread1, bindNoon.Add(time.Minute))) // 7.10
	got, ok := b.Find(thread1, bindNoon.Add(99*time.Minute))
	assert.True(t, ok)
	assert.Equal(t, bindNoon.Add(40*time.Minute), got.Touched)

	ended, err := b.Expire(t.Context(), bindNoon.Add(99*time.Minute)) // 7.9
	require.NoError(t, err)
	assert.Empty(t, ended)
	assert.ErrorIs(
		t, b.Touch(t.Context(), thread1, bindNoon.Add(100*time.Minute)), session.ErrNotFound,
		"a touch revives nothing",
	)
	assert.ErrorIs(t, b.Touch(t.Context(), thread2, bindNoon), session.ErrNotFound)

	// A touch that was not written is not lost by what another process wrote about the same
	// binding.
	require.NoError(t, b.Touch(t.Context(), thread1, bindNoon.Add(40*time.Minute+5*time.Second)))
	other, limit := openTable(t, j), 2*time.Hour
	_, err = other.SetLimit(
		t.Context(), thread1, "alice", binding.Limit{Idle: &limit}, bindNoon.Add(40*time.Minute),
	)
	require.NoError(t, err)
	require.NoError(t, b.Refresh(t.Context()))
	got, _ = b.Find(thread1, bindNoon.Add(time.Hour))
	assert.Equal(t, bindNoon.Add(40*time.Minute+5*time.Second), got.Touched)
}

// A new binding does not keep the touches of the binding that it replaces.
func TestTouchesAreOfOneBinding(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon)
	require.NoError(t, b.Touch(t.Context(), thread1, bindNoon.Add(5*time.Second)))
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon.Add(-time.Minute))
	got, _ := b.Find(thread1, bindNoon)
	assert.Equal(t, bindNoon.Add(-time.Minute), got.Touched)

	bindForAnHour(t, b, thread2, workerA, "alice", bindNoon)
	require.NoError(t, b.Touch(t.Context(), thread2, bindNoon.Add(5*time.Second)))
	_, err := b.Bind(
		t.Context(),
		binding.Request{Conversation: thread2, Target: workerB, By: "alice", Replace: true},
		bindNoon,
	)
	require.NoError(t, err)
	got, _ = b.Find(thread2, bindNoon)
	assert.Equal(t, bindNoon, got.Touched)
}

func bindingsLogLen(t *testing.T, j session.Journal) int {
	t.Helper()
	n := 0
	for _, err := range j.Read(t.Context(), session.BindingsRoot(), 0) {
		require.NoError(t, err)
		n++
	}
	return n
}

func TestSetLimit(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	later := bindNoon.Add(30 * time.Minute)
	other := session.Route{Channel: "telegram", To: "1"}
	_, err := b.Bind(
		t.Context(), binding.Request{Conversation: thread1, Target: workerA, By: "alice"}, bindNoon,
	)
	require.NoError(t, err)
	bindForAnHour(t, b, thread2, workerA, "bob", bindNoon)
	bindForAnHour(t, b, other, workerA, "alice", bindNoon)

	hour := time.Hour
	changed, err := b.SetLimit(
		t.Context(), thread1, "alice", binding.Limit{MaxAge: &hour}, later,
	) // 7.12
	require.NoError(t, err)
	require.Len(t, changed, 1, "not that of bob, not that on another channel")
	at, why, _ := changed[0].Expiry()
	assert.Equal(t, later.Add(hour), at)
	assert.Equal(t, binding.ReasonMaxAge, why)

	changed, err = b.SetLimit(
		t.Context(), thread1, binding.SystemOwner, binding.Limit{Idle: &hour}, later,
	)
	require.NoError(t, err)
	assert.Len(t, changed, 2)
	assert.Equal(t, later, changed[0].Touched)

	var off time.Duration
	negative := -hour
	_, err = b.SetLimit(t.Context(), thread1, "bob", binding.Limit{Idle: &off}, later)
	assert.ErrorIs(t, err, binding.ErrNotOwner)
	_, err = b.SetLimit(t.Context(), thread1, "alice", binding.Limit{Idle: &negative}, later)
	assert.ErrorContains(t, err, "idle")
	_, err = b.SetLimit(
		t.Context(), session.Route{Channel: "x", To: "y"}, "alice", binding.Limit{}, later,
	)
	assert.ErrorIs(t, err, session.ErrNotFound)
	_, err = b.SetLimit(
		t.Context(), thread1, "alice", binding.Limit{Idle: &off, MaxAge: &off}, later,
	)
	require.NoError(t, err)
	got, _ := b.Find(thread1, bindNoon.AddDate(9, 0, 0))
	assert.Equal(t, workerA, got.Target)
}

// If many tables, as of many processes, bind one conversation at once, exactly one succeeds. The
// others get ErrBound.
func TestSimultaneousBinds(t *testing.T) {
	j := session.NewMemory().Journal
	const rivals = 32
	won := make([]bool, rivals)
	handles := make([]*binding.Table, rivals)
	for i := range handles {
		handles[i] = openTable(t, j)
	}
	var wg sync.WaitGroup
	for i, b := range handles {
		wg.Go(func() {
			target := session.Must(
				session.Must(session.MainKey("main")).Child("main", fmt.Sprint("w", i)),
			)
			_, err := b.Bind(
				t.Context(),
				binding.Request{Conversation: thread1, Target: target, By: binding.SystemOwner},
				bindNoon,
			)
			won[i] = err == nil
			if err != nil {
				assert.ErrorIs(t, err, binding.ErrBound)
			}
		})
	}
	wg.Wait()
	winner := -1
	for i := range won {
		if won[i] {
			assert.Equal(t, -1, winner, "two won")
			winner = i
		}
	}
	require.NotEqual(t, -1, winner)
	for _, b := range handles {
		require.NoError(t, b.Refresh(t.Context()))
		got, ok := b.Find(thread1, bindNoon)
		assert.True(t, ok)
		assert.Equal(t, fmt.Sprint("w", winner), got.Target.ID())
	}
}

// flaky is a journal whose answers to Append get lost, after the append or instead of it.
type flakyJournal struct {
	session.Journal
	lose  bool // the answer
	drop  bool // the append
	bytes bool // payloads are read back as bytes, as from a disk
}

var errLost = errors.New("connection lost")

func (f *flakyJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if f.drop {
		return 0, errLost
	}
	seq, err := f.Journal.Append(ctx, root, after, b)
	if f.lose && err == nil {
		return 0, errLost
	}
	return seq, err
}

func (f *flakyJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if !f.bytes {
		return f.Journal.Read(ctx, root, after)
	}
	return func(yield func(session.Entry, error) bool) {
		for e, err := range f.Journal.Read(ctx, root, after) {
			data, jsonErr := json.Marshal(e)
			if err = errors.Join(err, jsonErr, json.Unmarshal(data, &e)); !yield(e, err) {
				return
			}
		}
	}
}

func TestUnclearAppend(t *testing.T) {
	f := &flakyJournal{Journal: session.NewMemory().Journal, lose: true, bytes: true}
	b := openTable(t, f)
	bindForAnHour(t, b, thread1, workerA, "alice", bindNoon) // was made: its id is in the log
	_, ok := b.Find(thread1, bindNoon)
	assert.True(t, ok)
	f.drop = true
	_, err := b.Bind(
		t.Context(), binding.Request{Conversation: thread2, Target: workerA, By: "alice"}, bindNoon,
	)
	assert.ErrorIs(t, err, errLost)
	_, ok = b.Find(thread2, bindNoon)
	assert.False(t, ok)
	f.drop, f.lose = false, false
	bindForAnHour(t, b, thread2, workerA, "alice", bindNoon)
	assert.Equal(t, b.All(bindNoon), openTable(t, f).All(bindNoon))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, b.Refresh(ctx), context.Canceled)
	_, err = b.Unbind(ctx, thread2, "alice", binding.ReasonManual, bindNoon)
	assert.ErrorIs(t, err, context.Canceled)
	_, ok = b.Find(thread2, bindNoon)
	assert.True(t, ok)
}

func TestCompact(t *testing.T) {
	f := &flakyJournal{Journal: session.NewMemory().Journal, bytes: true}
	b, behind := openTable(t, f), openTable(t, f)
	bindForAnHour(t, b, thread2, workerB, "bob", bindNoon)
	for i := range 1500 {
		bindForAnHour(t, b, thread1, workerA, "alice", bindNoon.Add(time.Duration(i)*time.Second))
	}
	assert.Less(t, bindingsLogLen(t, f), 1100, "what was replaced goes")
	now := bindNoon.Add(1500 * time.Second)
	require.Len(t, b.All(now), 2)
	assert.Equal(t, b.All(now), openTable(t, f).All(now))
	require.NoError(t, behind.Refresh(t.Context()))
	assert.Equal(t, b.All(now), behind.All(now))
}

func TestRefuseNewer(t *testing.T) {
	for _, fact := range []string{`{"v":3,"kind":"bound"}`, `{"v":2,"kind":"settled"}`, `{"v":1,"kind":"moved"}`, `{"v":1,"kind":"bound"}`, `[]`, `{}`} {
		j := session.NewMemory().Journal
		_, err := j.Append(
			t.Context(), session.BindingsRoot(), 0,
			session.Batch{Entries: []session.Entry{{Payload: session.Raw(fact)}}},
		)
		require.NoError(t, err)
		_, err = binding.Open(t.Context(), j)
		assert.Error(t, err, fact)
	}
}

func TestResolve(t *testing.T) {
	yes, no := true, false
	h := func(v float64) *float64 { return &v }
	type settings = binding.Settings
	builtin := binding.Policy{Enabled: true, Spawn: true, Idle: 24 * time.Hour}
	with := func(f func(*binding.Policy)) binding.Policy { p := builtin; f(&p); return p }
	for what, c := range map[string]struct {
		account, channel, all settings
		want                  binding.Policy
	}{
		"built in": {want: builtin},
		"session": {
			all:  settings{IdleHours: h(2)},
			want: with(func(p *binding.Policy) { p.Idle = 2 * time.Hour }),
		},
		"3.11 idle off": {
			all:  settings{IdleHours: h(0)},
			want: with(func(p *binding.Policy) { p.Idle = 0 }),
		},
		"3.12 half an hour": {
			channel: settings{IdleHours: h(0.5)},
			want:    with(func(p *binding.Policy) { p.Idle = 30 * time.Minute }),
		},
		"3.13 falls through": {
			channel: settings{IdleHours: h(-1)},
			all:     settings{IdleHours: h(6)},
			want:    with(func(p *binding.Policy) { p.Idle = 6 * time.Hour }),
		},
		"not hidden": {
			account: settings{IdleHours: h(math.NaN())},
			channel: settings{IdleHours: h(3)},
			all:     settings{IdleHours: h(6)},
			want:    with(func(p *binding.Policy) { p.Idle = 3 * time.Hour }),
		},
		"3.16 account": {
			account: settings{Enabled: &yes},
			channel: settings{Enabled: &no},
			want:    builtin,
		},
		"3.17 disabled": {
			all:  settings{Enabled: &no},
			want: with(func(p *binding.Policy) { p.Enabled, p.Spawn = false, false }),
		},
		"no spawns": {
			channel: settings{SpawnSubagentSessions: &no},
			want:    with(func(p *binding.Policy) { p.Spawn = false }),
		},
		"greatest age": {
			account: settings{MaxAgeHours: h(1)},
			all:     settings{MaxAgeHours: h(9)},
			want:    with(func(p *binding.Policy) { p.MaxAge = time.Hour }),
		},
		"never rounds to never": {
			all:  settings{IdleHours: h(1e-15)},
			want: with(func(p *binding.Policy) { p.Idle = 1 }),
		},
		"infinite": {all: settings{IdleHours: h(math.Inf(1))}, want: builtin},
	} {
		assert.Equal(t, c.want, binding.Resolve(c.account, c.channel, c.all), what)
	}
	assert.Equal(t, builtin, binding.Resolve())
	assert.NoError(
		t, settings{IdleHours: h(0), MaxAgeHours: h(1e6)}.Validate("session.threadBindings"),
	)
	err := settings{IdleHours: h(-1), MaxAgeHours: h(math.NaN())}.Validate("session.threadBindings")
	assert.ErrorContains(t, err, "session.threadBindings.idleHours: -1")
	assert.ErrorContains(t, err, "session.threadBindings.maxAgeHours: NaN")
	var s settings
	require.NoError(
		t, json.NewDecoder(strings.NewReader(`{"enabled":false,"idleHours":0}`)).Decode(&s),
	)
	assert.False(t, *s.Enabled)
	assert.Nil(t, s.MaxAgeHours)
}

// C15: an error names the parts of a conversation, and those alone that are there.
func TestErrorsNameTheConversation(t *testing.T) {
	table := openTable(t, session.NewMemory().Journal)
	for want, r := range map[string]session.Route{
		`binding: the empty conversation has no channel or no recipient`:                       {},
		`binding: recipient "general" has no channel or no recipient`:                          {To: "general"},
		`binding: thread "1" of account "bot" of channel "irc" has no channel or no recipient`: {Channel: "irc", Account: "bot", Thread: "1"},
	} {
		q := binding.Request{Conversation: r, Target: workerA, By: "alice"}
		_, err := table.Bind(t.Context(), q, bindNoon)
		require.EqualError(t, err, want)
	}
	clash := &binding.Error{Err: binding.ErrBound, By: "bob", Binding: binding.Binding{
		Conversation: session.Route{Channel: "irc", To: "#a"}, Target: workerA, By: "alice",
	}}
	require.EqualError(t, clash, `binding: conversation is bound: recipient "#a" of channel "irc" goes to "`+
		workerA.String()+`", bound by "alice", asked by "bob"`)
}
