package tree

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// 2.7: a join over all children that an earlier library wrote counts every end, as it did there.
func TestJoinOfVersion1(t *testing.T) {
	opt := &Options{Rules: &policy.Rules{}, Grace: time.Second}
	tr := New(top, opt)
	key := func(id string) session.Key { return session.Must(top.Child("main", id)) }
	spec := func(id string) *Spec {
		return &Spec{ID: id, Key: key(id), Parent: top, Task: "x", Created: 1, Grant: &Grant{}}
	}
	old, err := DecodeFact([]byte(`{"v":1,"kind":"turn_ended","at":3,"run":"agent:main:main",` +
		`"state":5,"n":1,"join":{"left":1,"good":0}}`))
	require.NoError(t, err)
	for _, f := range []*Fact{
		{Kind: Opened, Num: 1, At: 1},
		{Kind: Admitted, At: 1, Run: key("a"), Spec: spec("a")},
		{Kind: Posted, At: 1, Run: top, Class: User, Ord: 1, Text: "go"},
		{Kind: TurnStarted, At: 2, Run: top, N: 1, Ord: 1},
		old,
		{Kind: Admitted, At: 4, Run: key("b"), Spec: spec("b")},
		{Kind: StopRequested, At: 5, Run: key("b"), Cause: Stopped},
		{Kind: RunEnded, At: 5, Run: key("b"), State: Cancelled},
	} {
		require.NoError(t, tr.Replay(f), "%v", f)
	}
	require.Zero(t, tr.Root().Join.Left)
	require.Equal(t, 1, (&Fact{Kind: TurnEnded, Join: old.Join}).version())
}
