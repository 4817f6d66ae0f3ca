package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

func TestRoleAt(t *testing.T) {
	for _, c := range []struct {
		depth, limit int
		want         session.Role
	}{
		{-1, 5, session.RoleUnknown},
		{0, 1, session.RoleMain},
		{0, 0, session.RoleMain},
		{1, 1, session.RoleLeaf},         // SA 4.1
		{1, 2, session.RoleOrchestrator}, // 4.2
		{2, 2, session.RoleLeaf},         // 4.3
		{2, 3, session.RoleOrchestrator}, // 4.4
		{3, 3, session.RoleLeaf},
		{9, 5, session.RoleLeaf},
	} {
		assert.Equal(
			t, c.want, session.RoleAt(c.depth, c.limit), "depth %d of %d", c.depth, c.limit,
		)
	}
}

// The stored role is a ceiling: a lower limit demotes, a higher one never promotes, and nothing
// makes a sub-agent a main session.
func TestRoleCeiling(t *testing.T) {
	roles := []session.Role{
		session.RoleUnknown, session.RoleMain, session.RoleOrchestrator, session.RoleLeaf,
	}
	for _, stored := range roles {
		for _, now := range roles {
			got := stored.Ceiling(now)
			assert.Equal(t, got, now.Ceiling(stored))
			assert.False(
				t, got.MaySpawn() && !(stored.MaySpawn() && now.MaySpawn()), "%v and %v give %v",
				stored, now, got,
			)
			assert.Equal(
				t, got == session.RoleMain, stored == session.RoleMain && now == session.RoleMain,
			)
		}
	}
	assert.Equal(t, session.RoleLeaf, session.RoleLeaf.Ceiling(session.RoleOrchestrator))
	assert.Equal(t, session.RoleLeaf, session.RoleOrchestrator.Ceiling(session.RoleLeaf))
	assert.Equal(t, session.RoleUnknown, session.RoleMain.Ceiling(session.RoleLeaf))
}

// chain returns the lineages of a main session and of n sub-agents, each below the one before.
func lineageChain(t *testing.T, n, limit int) []session.Lineage {
	t.Helper()
	top, err := session.Top(session.Must(session.MainKey("main")))
	require.NoError(t, err)
	all := []session.Lineage{top}
	for i := range n {
		above := all[len(all)-1]
		next, err := above.Child(session.Must(above.Key.Child("main", fmt.Sprint("id", i))), limit)
		require.NoError(t, err)
		all = append(all, next)
	}
	return all
}

func lineageFinder(all []session.Lineage) func(session.Key) (session.Lineage, bool, error) {
	return func(k session.Key) (session.Lineage, bool, error) {
		for _, l := range all {
			if l.Key == k {
				return l, true, nil
			}
		}
		return session.Lineage{}, false, nil
	}
}

func TestLineage(t *testing.T) {
	all := lineageChain(t, 3, 2)
	for i, l := range all {
		assert.NoError(t, l.Validate())
		assert.Equal(t, i, l.Depth)
		assert.Equal(t, session.Must(session.MainKey("main")), l.Root)
		assert.Equal(t, session.RoleAt(i, 2), l.Role)
		assert.Equal(t, i == 0, l.Parent.IsZero())
		got, err := session.Trace(l.Key, lineageFinder(all[1:])) // the main session needs no record
		require.NoError(t, err)
		assert.Equal(t, l, got)
	}
	assert.Equal(
		t, session.RoleLeaf, all[1].Role.Ceiling(session.RoleAt(1, 1)),
		"a lower limit demotes at once",
	)
	assert.Equal(
		t, session.RoleLeaf, all[2].Role.Ceiling(session.RoleAt(2, 5)),
		"a higher one never promotes",
	)

	data, err := json.Marshal(all[1])
	require.NoError(t, err)
	assert.JSONEq(
		t,
		`{"key":"agent:main:subagent:id0","root":"agent:main:main","parent":"agent:main:main","depth":1,"role":"orchestrator"}`,
		string(data),
	)
	var back session.Lineage
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, all[1], back)
	data, err = json.Marshal(all[0])
	require.NoError(t, err)
	assert.NotContains(t, string(data), "parent")
}

// A flat key below a sub-agent is as deep as its record says, not as its key does.
func TestFlatKeys(t *testing.T) {
	all := lineageChain(t, 1, 3)
	flat, err := all[1].Child(session.Must(session.Parse("agent:main:subagent:flat")), 3)
	require.NoError(t, err)
	assert.Equal(t, 2, flat.Depth)
	acp, err := all[1].Child(session.Must(session.ACPKey("main", "x")), 3)
	require.NoError(t, err)
	assert.Equal(t, 2, acp.Depth)
}

func TestLineageRefuses(t *testing.T) {
	main, sub := session.Must(
		session.MainKey("main"),
	), session.Must(
		session.Parse("agent:main:subagent:a"),
	)
	deep := session.Must(sub.Child("main", "b"))
	good := session.Lineage{Key: deep, Root: main, Parent: sub, Depth: 2, Role: session.RoleLeaf}
	require.NoError(t, good.Validate())
	top := session.Lineage{Key: main, Root: main, Role: session.RoleMain}
	require.NoError(t, top.Validate())
	other, reserved := session.Must(session.MainKey("x")), session.BindingsRoot()
	for what, l := range map[string]session.Lineage{
		"zero":                     {},
		"reserved":                 {Key: reserved, Root: reserved, Role: session.RoleMain},
		"no root":                  {Key: deep, Parent: sub, Depth: 2, Role: session.RoleLeaf},
		"root is a sub-agent":      {Key: deep, Root: sub, Parent: sub, Depth: 2, Role: session.RoleLeaf},
		"depth below the key's":    {Key: deep, Root: main, Parent: main, Depth: 1, Role: session.RoleLeaf},
		"stored zero":              {Key: sub, Root: main, Parent: main, Depth: 0, Role: session.RoleMain},
		"negative":                 {Key: main, Root: main, Depth: -1, Role: session.RoleMain},
		"parent of a main session": {Key: other, Root: main, Parent: main, Depth: 1, Role: session.RoleLeaf},
		"own parent":               {Key: sub, Root: main, Parent: sub, Depth: 2, Role: session.RoleLeaf},
		"depth 2 below the root":   {Key: deep, Root: main, Parent: main, Depth: 2, Role: session.RoleLeaf},
		"depth 1 not below it":     {Key: sub, Root: main, Parent: deep, Depth: 1, Role: session.RoleLeaf},
		"main role":                {Key: sub, Root: main, Parent: main, Depth: 1, Role: session.RoleMain},
		"no role":                  {Key: sub, Root: main, Parent: main, Depth: 1},
		"sub-agent without parent": {Key: sub, Root: main, Depth: 1, Role: session.RoleLeaf},
		"top of another root":      {Key: main, Root: session.Must(session.MainKey("x")), Role: session.RoleMain},
		"depth without a parent":   {Key: main, Root: main, Depth: 1, Role: session.RoleMain},
		"leaf at the top":          {Key: main, Root: main, Role: session.RoleLeaf},
		"reserved parent":          {Key: sub, Root: main, Parent: reserved, Depth: 2, Role: session.RoleLeaf},
	} {
		err := l.Validate()
		assert.ErrorIs(t, err, session.ErrCorruptLineage, what)
		assert.NotErrorIs(t, err, session.ErrNotFound, what)
		_, err = l.Child(session.Must(session.Parse("agent:main:subagent:z")), 5)
		assert.Error(t, err, what)
	}
	_, err := session.Top(sub)
	assert.ErrorIs(t, err, session.ErrNotFound)
	assert.NotErrorIs(t, err, session.ErrCorruptLineage)
	_, err = session.Top(session.Key{})
	assert.ErrorIs(t, err, session.ErrCorruptLineage)
	_, err = top.Child(session.Must(session.CronKey("main", "j")), 5)
	assert.ErrorIs(t, err, session.ErrCorruptLineage)
	_, err = top.Child(deep, 5)
	assert.ErrorIs(t, err, session.ErrCorruptLineage, "the key says two, the record one")
}

func TestTraceRefuses(t *testing.T) {
	all := lineageChain(t, 4, 5)
	_, err := session.Trace(all[4].Key, lineageFinder(all[2:]))
	assert.ErrorIs(t, err, session.ErrNotFound, "a record above is missing")
	_, err = session.Trace(
		session.Must(session.Parse("agent:main:subagent:unknown")), lineageFinder(all),
	)
	assert.ErrorIs(t, err, session.ErrNotFound)

	wrong := errors.New("disk")
	_, err = session.Trace(
		all[2].Key,
		func(session.Key) (session.Lineage, bool, error) { return session.Lineage{}, false, wrong },
	)
	assert.ErrorIs(t, err, wrong, "a record that cannot be read is not a missing one")

	_, err = session.Trace(
		all[2].Key, func(session.Key) (session.Lineage, bool, error) { return all[3], true, nil },
	)
	assert.ErrorIs(t, err, session.ErrCorruptLineage, "the record of another session")
	assert.ErrorContains(t, err, "the record is that of")

	bad := all[2]
	bad.Depth, bad.Parent = 3, all[1].Key
	_, err = session.Trace(bad.Key, lineageFinder([]session.Lineage{all[1], bad}))
	assert.ErrorIs(t, err, session.ErrCorruptLineage)
	other := all[2]
	other.Root = session.Must(session.MainKey("other"))
	_, err = session.Trace(other.Key, lineageFinder([]session.Lineage{all[1], other}))
	assert.ErrorIs(t, err, session.ErrCorruptLineage)
}

// Records that were changed at random never give a lesser depth than the chain had, and never run
// for ever.
func TestTraceProperty(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		all := lineageChain(t, 1+rng.IntN(5), 5)
		want := all[len(all)-1]
		hurt := &all[1+rng.IntN(len(all)-1)]
		pick := all[rng.IntN(len(all))]
		switch rng.IntN(4) {
		case 0:
			hurt.Parent = pick.Key
		case 1:
			hurt.Depth = rng.IntN(6)
		case 2:
			hurt.Root = pick.Key
		case 3:
			hurt.Role = session.Role(rng.IntN(5))
		}
		got, err := session.Trace(want.Key, lineageFinder(all))
		if err == nil {
			assert.Equal(t, want.Depth, got.Depth)
			assert.Equal(t, want.Root, got.Root)
			assert.NotEqual(t, session.RoleMain, got.Role.Ceiling(session.RoleAt(got.Depth, 5)))
		}
	}
}

func TestRecord(t *testing.T) {
	testNoon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	r := session.Record{
		Lineage: lineageChain(t, 1, 2)[1], SessionID: uuid1, Label: "research",
		Route: session.Route{Channel: "telegram", To: "-1"},
		Model: "vendor/model", Thinking: "high", Workdir: "/srv/work", Sandboxed: true,
		Created: testNoon, Ended: testNoon.Add(time.Minute), Archived: testNoon.Add(time.Hour),
	}
	require.NoError(t, r.Validate())
	assert.Equal(t, session.Ref{Key: r.Key, SessionID: uuid1}, r.Ref())
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var back session.Record
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, r, back)
	for what, spoil := range map[string]func(*session.Record){
		"lineage": func(r *session.Record) { r.Depth = 0 },
		"id":      func(r *session.Record) { r.SessionID = "a/b" },
		"created": func(r *session.Record) { r.Created = time.Time{} },
		"ended":   func(r *session.Record) { r.Ended = testNoon.Add(-1) },
		"archive": func(r *session.Record) { r.Ended = time.Time{} },
		"before":  func(r *session.Record) { r.Archived = testNoon },
	} {
		bad := r
		spoil(&bad)
		assert.Error(t, bad.Validate(), what)
	}
}

func TestRouteOr(t *testing.T) {
	stored := session.Route{Channel: "telegram", Account: "bot", To: "-100", Thread: "42"}
	for _, c := range []struct{ r, want session.Route }{
		{session.Route{}, stored},
		{stored, stored},
		{session.Route{Channel: "telegram"}, stored},
		{
			session.Route{Channel: "telegram", Thread: "7"},
			session.Route{Channel: "telegram", Account: "bot", To: "-100", Thread: "7"},
		},
		{session.Route{Channel: "telegram", To: "-200"}, session.Route{Channel: "telegram", Account: "bot", To: "-200"}},
		{session.Route{To: "-200"}, session.Route{Channel: "telegram", Account: "bot", To: "-200"}},
		{session.Route{Channel: "discord"}, session.Route{Channel: "discord"}},
		{session.Route{Channel: "discord", To: "x"}, session.Route{Channel: "discord", To: "x"}},
		{session.Route{Channel: "telegram", Account: "other"}, session.Route{Channel: "telegram", Account: "other"}},
		{session.Route{Account: "other"}, session.Route{Account: "other"}},
	} {
		assert.Equal(t, c.want, c.r.Or(stored), "%+v", c.r)
	}
	assert.Equal(t, session.Route{Channel: "telegram", Account: "A", To: "X", Thread: "T"},
		session.Route{Channel: " Telegram ", Account: " A", To: "X ", Thread: "\tT"}.Clean())
	assert.True(t, stored.Complete())
	assert.False(t, session.Route{Channel: "telegram"}.Complete())
	for in, want := range map[string]session.Route{
		"agent:main:telegram:group:-100:topic:42":   {Channel: "telegram", To: "-100", Thread: "42"},
		"agent:main:discord:acc:direct:U1":          {Channel: "discord", Account: "acc", To: "U1"},
		"agent:main:direct:alice":                   {},
		"agent:main:main:thread:1":                  {},
		"agent:main:subagent:x:thread:1":            {},
		"agent:main:matrix:channel:!R:x.y:thread:$": {Channel: "matrix", To: "!R:x.y", Thread: "$"},
	} {
		assert.Equal(t, want, session.Must(session.Parse(in)).Route(), in)
	}
}

// Whatever is merged, a conversation is never put together from two channels, accounts or
// conversations.
func TestRouteOrProperty(t *testing.T) {
	values := []string{"", "a", "b"}
	var routes []session.Route
	for _, channel := range values {
		for _, account := range values {
			for _, to := range values {
				for _, thread := range values {
					routes = append(
						routes,
						session.Route{Channel: channel, Account: account, To: to, Thread: thread},
					)
				}
			}
		}
	}
	for _, r := range routes {
		for _, other := range routes {
			got := r.Or(other)
			taken := got != r
			assert.False(
				t, taken && r.Channel != "" && other.Channel != "" && r.Channel != other.Channel,
				"%+v or %+v", r, other,
			)
			assert.False(
				t, taken && r.Account != "" && other.Account != "" && r.Account != other.Account,
				"%+v or %+v", r, other,
			)
			assert.False(
				t, r.To != "" && got.Thread != r.Thread,
				"%+v or %+v takes a thread of another conversation", r, other,
			)
			assert.Equal(t, got, got.Or(other), "merging twice")
			for _, f := range [][2]string{
				{r.Channel, got.Channel},
				{r.Account, got.Account},
				{r.To, got.To},
				{r.Thread, got.Thread},
			} {
				assert.True(t, f[0] == "" || f[0] == f[1], "%+v or %+v loses a field", r, other)
			}
		}
	}
}
