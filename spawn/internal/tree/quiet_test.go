package tree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
)

// 5.20: of what ends with the session above it no requester is told, whatever ends that one:
// neither that session nor the one at the top, which has sent the run its message itself and goes
// on. It is told of the uppermost run that ends alone.
func TestWhatEndsWithItsRequesterIsNotTold(t *testing.T) {
	const second = int64(1e9)
	for name, c := range map[string]struct {
		end func(tr *Tree, a *Run) Command
		now int64
	}{
		"a kill":         {func(_ *Tree, a *Run) Command { return &Stop{Run: a.Key()} }, 3},
		"its time is up": {func(*Tree, *Run) Command { return Tick{} }, 61 * second},
		"its turn fails": {func(_ *Tree, a *Run) Command {
			return &TurnDone{Run: a.Key(), N: 1, Failed: "broken"}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(top, &Options{
				Rules: &policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
			})
			decide := func(c Command, now int64) Reply {
				reply, err := tr.Decide(c, now)
				require.NoError(t, err)
				return reply
			}
			decide(&Open{SessionID: "s"}, 1)
			a := decide(&Spawn{
				Parent: top, ID: "a", Task: "x", Announce: true,
				Request: policy.Request{Timeout: 60e9},
			}, 1).Run
			decide(Granted{Run: a.Key()}, 1)
			b := decide(&Spawn{
				Parent: a.Key(), ID: "b", Task: "y", Turn: 1, Announce: true,
			}, 1).Run
			decide(Granted{Run: b.Key()}, 1)
			decide(&TurnDone{Run: b.Key(), N: 1, Answer: &Result{Text: "ok"}}, 2)
			decide(&Post{
				To: b.Key(), ID: "m", Text: "more", From: top, Announce: true, RunID: "c",
			}, 2)
			decide(Granted{Run: b.Key()}, 2)
			require.Equal(t, Running, b.State)
			require.Equal(t, top, tr.requester(b).Key())
			tr.Take()
			decide(c.end(tr, a), c.now)
			if b.Open != nil {
				decide(&TurnDone{Run: b.Key(), N: b.Open.N, Answer: &Result{Text: "half"}}, c.now)
			}
			if a.Open != nil {
				decide(&TurnDone{Run: a.Key(), N: 1, Answer: &Result{}}, c.now)
			}
			require.True(t, a.State.Terminal(), a.State)
			require.Equal(t, Cancelled, b.State)
			facts, _ := tr.Take()
			told := map[string]bool{}
			for _, f := range facts {
				if f.Kind == RunEnded {
					told[f.Run.ID()] = f.Flags&FlagTell != 0
				}
			}
			require.Equal(t, map[string]bool{a.Key().ID(): true, b.Key().ID(): false}, told)
		})
	}
}
