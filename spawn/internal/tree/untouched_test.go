package tree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
)

// What a turn did before it began is not counted, and what it did in it is: it steered or stopped a
// run below, or asked to.
func TestTurnThatDidSomethingIsNotUntouched(t *testing.T) {
	for name, act := range map[string]func(child *Run) Command{
		"nothing": nil,
		"steer": func(child *Run) Command {
			return &Steer{From: child.Spec.Parent, To: child.Key(), Text: "faster"}
		},
		"stop": func(child *Run) Command { return &Stop{Run: child.Key()} },
		"read": func(*Run) Command { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(top, &Options{
				Rules: &policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
			})
			decide := func(c Command) Reply {
				reply, err := tr.Decide(c, 1)
				require.NoError(t, err)
				return reply
			}
			decide(&Open{SessionID: "s"})
			run := decide(&Spawn{Parent: top, ID: "a", Task: "x"}).Run
			decide(Granted{Run: run.Key()})
			child := decide(&Spawn{Parent: run.Key(), ID: "b", Task: "y", Turn: 1}).Run
			decide(&TurnDone{Run: run.Key(), N: 1, Yield: &Join{}})
			decide(&Post{To: run.Key(), Text: "and?"})
			decide(Granted{Run: run.Key()})
			if act != nil {
				decide(InTurn{Run: run.Key(), N: 2, Cmd: act(child)})
			}
			decide(ShutDown{})
			decide(&TurnDone{Run: run.Key(), N: 2, Untouched: true})
			if name == "nothing" || name == "read" {
				require.Nil(t, run.Open)
				require.Equal(t, Waiting, run.State, "it has had a turn")
				require.True(t, run.wantsTurn(1))
				return
			}
			require.NotNil(t, run.Open, "the next owner interrupts it")
		})
	}
}
