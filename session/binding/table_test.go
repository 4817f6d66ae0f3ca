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
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

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

func bind(t *testing.T, b *binding.Table, conversation session.Route, target session.Key, by string, now time.Time) binding.Binding {
	t.Helper()
	made, err := b.Bind(t.Context(), binding.Request{Conversation: conversation, Target: target, By: by, Idle: time.Hour}, now)
	require.NoError(t, err)
	return made
}

func TestExpiry(t *testing.T) {
	for what, c := range map[string]struct {
		idle, age time.Duration
		touched   time.Duration // after it was bound
		at        time.Duration
		why       binding.Reason
		never     bool
	}{
		"no limit":               {never: true},
		"idle":                   {idle: time.Hour, at: time.Hour, why: binding.ReasonIdle},
		"idle after a touch":     {idle: time.Hour, touched: 30 * time.Minute, at: 90 * time.Minute, why: binding.ReasonIdle},
		"an active one ends too": {age: time.Hour, touched: 59 * time.Minute, at: time.Hour, why: binding.ReasonMaxAge}, // 7.11
		"idle is earlier":        {idle: time.Hour, age: 2 * time.Hour, at: time.Hour, why: binding.ReasonIdle},         // 7.8
		"age is earlier":         {idle: 2 * time.Hour, age: time.Hour, at: time.Hour, why: binding.ReasonMaxAge},
		"idle off":               {age: time.Hour, at: time.Hour, why: binding.ReasonMaxAge}, // 7.13
	} {
		b := binding.Binding{Bound: noon, Touched: noon.Add(c.touched), Idle: c.idle, MaxAge: c.age}
		at, why, ok := b.Expiry()
		assert.Equal(t, !c.never, ok, what)
		if c.never {
			_, over := b.Expired(noon.AddDate(100, 0, 0))
			assert.False(t, over, what)
			continue
		}
		assert.Equal(t, noon.Add(c.at), at, what)
		assert.Equal(t, c.why, why, what)
		_, over := b.Expired(at.Add(-1))
		assert.False(t, over, what)
		why, over = b.Expired(at)
		assert.True(t, over, what)
		assert.Equal(t, c.why, why, what)
	}
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
		_, err := b.Bind(t.Context(), req, noon)
		assert.ErrorContains(t, err, what, what)
	}
	_, err := b.Bind(t.Context(), binding.Request{Conversation: thread1, Target: workerA, By: "a"}, time.Time{})
	assert.ErrorContains(t, err, "bound")
	assert.Empty(t, b.All(noon))
	_, err = binding.Open(t.Context(), nil)
	assert.Error(t, err)
}

func TestBindAndFind(t *testing.T) {
	j := session.NewMemory().Journal
	b := openTable(t, j)
	made := bind(t, b, session.Route{Channel: " Discord", Account: "bot", To: "general ", Thread: "1"}, workerA, "alice", noon)
	assert.Equal(t, thread1, made.Conversation)
	bind(t, b, thread2, workerA, binding.SystemOwner, noon)
	other := thread1
	other.Account = "other" // 7.15
	bind(t, b, other, workerB, "bob", noon)

	got, ok := b.Find(thread1, noon)
	assert.True(t, ok)
	assert.Equal(t, made, got)
	assert.Len(t, b.Of(workerA, noon), 2, "a session has many conversations")
	assert.Len(t, b.Of(workerB, noon), 1)
	assert.Len(t, b.All(noon), 3)
	assert.Equal(t, noon.Add(time.Hour), b.Next())

	_, ok = b.Find(thread1, noon.Add(time.Hour)) // 7.7, at routing time
	assert.False(t, ok)
	assert.Empty(t, b.All(noon.Add(time.Hour)))
	assert.Empty(t, b.Of(workerA, noon.Add(time.Hour)))

	again := openTable(t, j) // 7.23
	assert.Equal(t, b.All(noon), again.All(noon))
	for h, err := range j.Roots(t.Context(), session.RootQuery{DueBefore: noon.AddDate(1000, 0, 0)}) {
		require.NoError(t, err)
		t.Errorf("the log of bindings needs no owner: %+v", h)
	}
}

func TestBindAgain(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	first := bind(t, b, thread1, workerA, "alice", noon)

	_, err := b.Bind(t.Context(), binding.Request{Conversation: thread1, Target: workerB, By: "alice"}, noon)
	var refused *binding.Error
	require.ErrorAs(t, err, &refused)
	assert.ErrorIs(t, err, binding.ErrBound)
	assert.Equal(t, binding.Error{Binding: first, By: "alice", Err: binding.ErrBound}, *refused)
	assert.ErrorContains(t, err, `"alice"`)

	for _, by := range []string{"bob", ""} { // 7.22: an empty name is not every owner
		_, err = b.Bind(t.Context(), binding.Request{Conversation: thread1, Target: workerB, By: by, Replace: true}, noon)
		assert.Error(t, err, by)
	}
	_, err = b.Bind(t.Context(), binding.Request{Conversation: thread1, Target: workerA, By: "bob"}, noon)
	assert.ErrorIs(t, err, binding.ErrNotOwner, "binding anew would take it over")
	_, err = b.Bind(t.Context(), binding.Request{Conversation: thread1, Target: workerB, By: "bob", Replace: true}, noon)
	assert.ErrorIs(t, err, binding.ErrNotOwner)

	_, err = b.Bind(t.Context(), binding.Request{Conversation: thread1, Target: workerB, By: "alice", Replace: true}, noon)
	require.NoError(t, err)
	assert.Empty(t, b.Of(workerA, noon), "7.16")
	assert.Len(t, b.Of(workerB, noon), 1)

	// What has expired is not in the way of a new binding.
	bind(t, b, thread2, workerA, "alice", noon)
	bind(t, b, thread2, workerB, "bob", noon.Add(time.Hour))
	got, ok := b.Find(thread2, noon.Add(time.Hour))
	assert.True(t, ok)
	assert.Equal(t, workerB, got.Target)
}

func TestUnbind(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	made := bind(t, b, thread1, workerA, "alice", noon)
	for _, by := range []string{"bob", ""} {
		_, err := b.Unbind(t.Context(), thread1, by, binding.ReasonManual, noon)
		assert.ErrorIs(t, err, binding.ErrNotOwner, by)
	}
	ended, err := b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, noon)
	require.NoError(t, err)
	assert.Equal(t, binding.Unbound{Binding: made, Reason: binding.ReasonManual}, ended)
	_, err = b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, noon)
	assert.ErrorIs(t, err, session.ErrNotFound)

	bind(t, b, thread1, workerA, binding.SystemOwner, noon)
	_, err = b.Unbind(t.Context(), thread1, "bob", binding.ReasonManual, noon) // 7.22
	require.NoError(t, err)
	bind(t, b, thread1, workerA, "alice", noon)
	_, err = b.Unbind(t.Context(), thread1, "alice", binding.ReasonManual, noon.Add(time.Hour))
	assert.ErrorIs(t, err, session.ErrNotFound, "it had expired")

	bind(t, b, thread1, workerA, "alice", noon.Add(time.Hour))
	bind(t, b, thread2, workerA, "bob", noon.Add(time.Hour))
	all, err := b.Release(t.Context(), workerA, binding.ReasonSubagentStopped, noon.Add(time.Hour)) // 7.19
	require.NoError(t, err)
	assert.Len(t, all, 2)
	assert.Equal(t, binding.ReasonSubagentStopped, all[0].Reason)
	all, err = b.Release(t.Context(), workerA, binding.ReasonSubagentStopped, noon)
	require.NoError(t, err)
	assert.Empty(t, all)
}

func TestExpire(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	bind(t, b, thread1, workerA, "alice", noon)
	_, err := b.Bind(t.Context(), binding.Request{Conversation: thread2, Target: workerA, By: "alice", MaxAge: 2 * time.Hour}, noon)
	require.NoError(t, err)
	assert.Equal(t, noon.Add(time.Hour), b.Next())
	ended, err := b.Expire(t.Context(), noon.Add(time.Hour))
	require.NoError(t, err)
	require.Len(t, ended, 1)
	assert.Equal(t, binding.ReasonIdle, ended[0].Reason)
	ended, err = b.Expire(t.Context(), noon.Add(2*time.Hour))
	require.NoError(t, err)
	require.Len(t, ended, 1)
	assert.Equal(t, binding.ReasonMaxAge, ended[0].Reason)
	assert.True(t, b.Next().IsZero())
}

func TestTouch(t *testing.T) {
	j := session.NewMemory().Journal
	b := openTable(t, j)
	bind(t, b, thread1, workerA, "alice", noon)
	entriesBefore := logLen(t, j)
	require.NoError(t, b.Touch(t.Context(), thread1, noon.Add(5*time.Second)))
	assert.Equal(t, entriesBefore, logLen(t, j), "a touch every few seconds is not worth an entry")
	got, _ := b.Find(thread1, noon)
	assert.Equal(t, noon.Add(5*time.Second), got.Touched, "but it counts at once")
	require.NoError(t, b.Touch(t.Context(), thread1, noon.Add(40*time.Minute)))
	assert.Equal(t, entriesBefore+1, logLen(t, j))
	require.NoError(t, b.Touch(t.Context(), thread1, noon.Add(time.Minute))) // 7.10
	got, ok := b.Find(thread1, noon.Add(99*time.Minute))
	assert.True(t, ok)
	assert.Equal(t, noon.Add(40*time.Minute), got.Touched)

	ended, err := b.Expire(t.Context(), noon.Add(99*time.Minute)) // 7.9
	require.NoError(t, err)
	assert.Empty(t, ended)
	assert.ErrorIs(t, b.Touch(t.Context(), thread1, noon.Add(100*time.Minute)), session.ErrNotFound, "a touch revives nothing")
	assert.ErrorIs(t, b.Touch(t.Context(), thread2, noon), session.ErrNotFound)

	// A touch that was not written is not lost by what another process wrote about the same
	// binding.
	require.NoError(t, b.Touch(t.Context(), thread1, noon.Add(40*time.Minute+5*time.Second)))
	other, limit := openTable(t, j), 2*time.Hour
	_, err = other.SetLimit(t.Context(), thread1, "alice", binding.Limit{Idle: &limit}, noon.Add(40*time.Minute))
	require.NoError(t, err)
	require.NoError(t, b.Refresh(t.Context()))
	got, _ = b.Find(thread1, noon.Add(time.Hour))
	assert.Equal(t, noon.Add(40*time.Minute+5*time.Second), got.Touched)
}

// A binding that is made anew does not keep the touches of the one that it replaces.
func TestTouchesAreOfOneBinding(t *testing.T) {
	b := openTable(t, session.NewMemory().Journal)
	bind(t, b, thread1, workerA, "alice", noon)
	require.NoError(t, b.Touch(t.Context(), thread1, noon.Add(5*time.Second)))
	bind(t, b, thread1, workerA, "alice", noon.Add(-time.Minute))
	got, _ := b.Find(thread1, noon)
	assert.Equal(t, noon.Add(-time.Minute), got.Touched)

	bind(t, b, thread2, workerA, "alice", noon)
	require.NoError(t, b.Touch(t.Context(), thread2, noon.Add(5*time.Second)))
	_, err := b.Bind(t.Context(), binding.Request{Conversation: thread2, Target: workerB, By: "alice", Replace: true}, noon)
	require.NoError(t, err)
	got, _ = b.Find(thread2, noon)
	assert.Equal(t, noon, got.Touched)
	assert.False(t, binding.Binding{}.MayChange(""))
}

func logLen(t *testing.T, j session.Journal) int {
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
	later := noon.Add(30 * time.Minute)
	other := session.Route{Channel: "telegram", To: "1"}
	_, err := b.Bind(t.Context(), binding.Request{Conversation: thread1, Target: workerA, By: "alice"}, noon)
	require.NoError(t, err)
	bind(t, b, thread2, workerA, "bob", noon)
	bind(t, b, other, workerA, "alice", noon)

	hour := time.Hour
	changed, err := b.SetLimit(t.Context(), thread1, "alice", binding.Limit{MaxAge: &hour}, later) // 7.12
	require.NoError(t, err)
	require.Len(t, changed, 1, "not that of bob, not that on another channel")
	at, why, _ := changed[0].Expiry()
	assert.Equal(t, later.Add(hour), at)
	assert.Equal(t, binding.ReasonMaxAge, why)

	changed, err = b.SetLimit(t.Context(), thread1, binding.SystemOwner, binding.Limit{Idle: &hour}, later)
	require.NoError(t, err)
	assert.Len(t, changed, 2)
	assert.Equal(t, later, changed[0].Touched)

	var off time.Duration
	negative := -hour
	_, err = b.SetLimit(t.Context(), thread1, "bob", binding.Limit{Idle: &off}, later)
	assert.ErrorIs(t, err, binding.ErrNotOwner)
	_, err = b.SetLimit(t.Context(), thread1, "alice", binding.Limit{Idle: &negative}, later)
	assert.ErrorContains(t, err, "idle")
	_, err = b.SetLimit(t.Context(), session.Route{Channel: "x", To: "y"}, "alice", binding.Limit{}, later)
	assert.ErrorIs(t, err, session.ErrNotFound)
	_, err = b.SetLimit(t.Context(), thread1, "alice", binding.Limit{Idle: &off, MaxAge: &off}, later)
	require.NoError(t, err)
	got, _ := b.Find(thread1, noon.AddDate(9, 0, 0))
	assert.Equal(t, workerA, got.Target)
}

// Of many that bind one conversation at once, through many handles as of many processes, one wins
// and the others are told.
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
			target := session.Must(session.Must(session.MainKey("main")).Child("main", fmt.Sprint("w", i)))
			_, err := b.Bind(t.Context(), binding.Request{Conversation: thread1, Target: target, By: binding.SystemOwner}, noon)
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
		got, ok := b.Find(thread1, noon)
		assert.True(t, ok)
		assert.Equal(t, fmt.Sprint("w", winner), got.Target.ID())
	}
}

// flaky is a journal whose answers to Append get lost, after the append or instead of it.
type flaky struct {
	session.Journal
	lose  bool // the answer
	drop  bool // the append
	bytes bool // payloads are read back as bytes, as from a disk
}

var errLost = errors.New("connection lost")

func (f *flaky) Append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
	if f.drop {
		return 0, errLost
	}
	seq, err := f.Journal.Append(ctx, root, after, b)
	if f.lose && err == nil {
		return 0, errLost
	}
	return seq, err
}

func (f *flaky) Read(ctx context.Context, root session.Key, after session.Seq) iter.Seq2[session.Entry, error] {
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
	f := &flaky{Journal: session.NewMemory().Journal, lose: true, bytes: true}
	b := openTable(t, f)
	bind(t, b, thread1, workerA, "alice", noon) // was made: its id is in the log
	_, ok := b.Find(thread1, noon)
	assert.True(t, ok)
	f.drop = true
	_, err := b.Bind(t.Context(), binding.Request{Conversation: thread2, Target: workerA, By: "alice"}, noon)
	assert.ErrorIs(t, err, errLost)
	_, ok = b.Find(thread2, noon)
	assert.False(t, ok)
	f.drop, f.lose = false, false
	bind(t, b, thread2, workerA, "alice", noon)
	assert.Equal(t, b.All(noon), openTable(t, f).All(noon))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, b.Refresh(ctx), context.Canceled)
	_, err = b.Unbind(ctx, thread2, "alice", binding.ReasonManual, noon)
	assert.ErrorIs(t, err, context.Canceled)
	_, ok = b.Find(thread2, noon)
	assert.True(t, ok)
}

func TestCompact(t *testing.T) {
	f := &flaky{Journal: session.NewMemory().Journal, bytes: true}
	b, behind := openTable(t, f), openTable(t, f)
	bind(t, b, thread2, workerB, "bob", noon)
	for i := range 1500 {
		bind(t, b, thread1, workerA, "alice", noon.Add(time.Duration(i)*time.Second))
	}
	assert.Less(t, logLen(t, f), 1100, "what was replaced goes")
	now := noon.Add(1500 * time.Second)
	require.Len(t, b.All(now), 2)
	assert.Equal(t, b.All(now), openTable(t, f).All(now))
	require.NoError(t, behind.Refresh(t.Context()))
	assert.Equal(t, b.All(now), behind.All(now))
}

func TestRefuseNewer(t *testing.T) {
	for _, fact := range []string{`{"v":2,"kind":"bound"}`, `{"v":1,"kind":"moved"}`, `{"v":1,"kind":"bound"}`, `[]`, `{}`} {
		j := session.NewMemory().Journal
		_, err := j.Append(t.Context(), session.BindingsRoot(), 0, session.Batch{Entries: []session.Entry{{Payload: session.Raw(fact)}}})
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
		"built in":              {want: builtin},
		"session":               {all: settings{IdleHours: h(2)}, want: with(func(p *binding.Policy) { p.Idle = 2 * time.Hour })},
		"3.11 idle off":         {all: settings{IdleHours: h(0)}, want: with(func(p *binding.Policy) { p.Idle = 0 })},
		"3.12 half an hour":     {channel: settings{IdleHours: h(0.5)}, want: with(func(p *binding.Policy) { p.Idle = 30 * time.Minute })},
		"3.13 falls through":    {channel: settings{IdleHours: h(-1)}, all: settings{IdleHours: h(6)}, want: with(func(p *binding.Policy) { p.Idle = 6 * time.Hour })},
		"not hidden":            {account: settings{IdleHours: h(math.NaN())}, channel: settings{IdleHours: h(3)}, all: settings{IdleHours: h(6)}, want: with(func(p *binding.Policy) { p.Idle = 3 * time.Hour })},
		"3.16 account":          {account: settings{Enabled: &yes}, channel: settings{Enabled: &no}, want: builtin},
		"3.17 disabled":         {all: settings{Enabled: &no}, want: with(func(p *binding.Policy) { p.Enabled, p.Spawn = false, false })},
		"no spawns":             {channel: settings{SpawnSubagentSessions: &no}, want: with(func(p *binding.Policy) { p.Spawn = false })},
		"greatest age":          {account: settings{MaxAgeHours: h(1)}, all: settings{MaxAgeHours: h(9)}, want: with(func(p *binding.Policy) { p.MaxAge = time.Hour })},
		"never rounds to never": {all: settings{IdleHours: h(1e-15)}, want: with(func(p *binding.Policy) { p.Idle = 1 })},
		"infinite":              {all: settings{IdleHours: h(math.Inf(1))}, want: builtin},
	} {
		assert.Equal(t, c.want, binding.Resolve(c.account, c.channel, c.all), what)
	}
	assert.Equal(t, builtin, binding.Resolve())
	assert.NoError(t, settings{IdleHours: h(0), MaxAgeHours: h(1e6)}.Validate("session.threadBindings"))
	err := settings{IdleHours: h(-1), MaxAgeHours: h(math.NaN())}.Validate("session.threadBindings")
	assert.ErrorContains(t, err, "session.threadBindings.idleHours: -1")
	assert.ErrorContains(t, err, "session.threadBindings.maxAgeHours: NaN")
	var s settings
	require.NoError(t, json.NewDecoder(strings.NewReader(`{"enabled":false,"idleHours":0}`)).Decode(&s))
	assert.False(t, *s.Enabled)
	assert.Nil(t, s.MaxAgeHours)
}
