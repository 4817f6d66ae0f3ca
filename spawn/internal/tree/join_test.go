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
	require.Equal(t, 1, (&Fact{Kind: TurnEnded, FactMore: &FactMore{Join: old.Join()}}).version())
}

// 2.7: what AnnounceRest says of a run is how it stood then, whatever is decided in the same batch:
// a run that ends meanwhile is said to be alive and announced, and not both.
func TestRestStandsAsItWasDecided(t *testing.T) {
	s := newScene()
	for _, c := range []string{"open", "spawn top a collect", "spawn top b collect", "grant a", "grant b", "done b"} {
		require.NotContains(t, s.run(c), "refused", c)
	}
	a, b := s.names["a"], s.names["b"]
	reply, err := s.tree.Decide(AnnounceRest{
		Keys: []session.Key{a, b, session.Must(top.Child("main", "gone"))}, Runs: []string{"a", "b", "gone"},
	}, s.now)
	require.NoError(t, err)
	_, err = s.tree.Decide(&TurnDone{Run: a, N: 1, Answer: &Result{Text: "late"}}, s.now)
	require.NoError(t, err)
	require.Equal(t, OK, s.tree.Run(a).State)

	require.Len(t, reply.Stood, 3)
	require.Equal(t, Running, reply.Stood[0].State)
	require.Nil(t, reply.Stood[0].Answer)
	require.EqualValues(t, 1, reply.Stood[0].Open.N)
	require.Equal(t, OK, reply.Stood[1].State)
	require.Nil(t, reply.Stood[2])
	require.False(t, s.tree.Run(b).Announce)
	require.True(t, s.tree.Root().hasCompletion())
	require.Len(t, s.tree.Root().Inbox, 1, "b was there to be seen")
}
