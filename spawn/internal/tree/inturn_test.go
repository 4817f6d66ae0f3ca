package tree

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// R5: the tree refuses what a turn asks for once it is over, or ends, however late the command
// comes. What it names must be below its session.
func TestTurnThatEnds(t *testing.T) {
	root := session.Must(session.MainKey("main"))
	tr := New(root, &Options{
		Rules: &policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}}, Grace: time.Second,
	})
	now := int64(time.Hour)
	do := func(c Command) error {
		now += int64(time.Minute)
		_, err := tr.Decide(c, now)
		tr.Take()
		return err
	}
	require.NoError(t, do(&Open{Writer: "w", SessionID: "s"}))
	require.NoError(t, do(&Spawn{Parent: root, ID: "a", Task: "x"}))
	require.NoError(t, do(&Spawn{Parent: root, ID: "b", Task: "x"}))
	a, b := session.Must(root.Child("main", "a")), session.Must(root.Child("main", "b"))
	require.NoError(t, do(&Spawn{Parent: a, ID: "c", Task: "x"}))
	c := session.Must(a.Child("main", "c"))
	require.NoError(t, do(Granted{Run: a}))
	inTurn := func(n uint32, cmd Command) error { return do(InTurn{Run: a, N: n, Cmd: cmd}) }
	steer := func(to session.Key) Command { return &Steer{From: a, To: to, Text: "x"} }
	commands := func(n uint32) map[string]error {
		return map[string]error{
			"read": inTurn(n, nil), "take": inTurn(n, Take{Run: a, N: n}),
			"steer": inTurn(n, steer(c)), "stop": inTurn(n, &Stop{Run: c}),
			"spawn": do(&Spawn{Parent: a, ID: session.NewID(), Turn: n, Task: "x"}),
		}
	}
	for what, err := range commands(1) {
		require.NoError(t, err, what)
	}
	for _, other := range []session.Key{root, a, b} {
		require.ErrorIs(t, inTurn(1, steer(other)), ErrNotFound, other.String())
		require.ErrorIs(t, inTurn(1, &Stop{Run: other}), ErrNotFound, other.String())
	}
	require.Error(t, inTurn(1, &Post{To: root, Text: "x"}), "a turn does not post")
	for what, err := range commands(2) {
		require.ErrorIs(t, err, ErrStale, what)
	}
	require.NoError(t, do(CancelTurn{Run: a}))
	for what, err := range commands(1) {
		require.ErrorIs(t, err, ErrStale, what)
	}
}
