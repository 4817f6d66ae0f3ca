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

// A turn of a top-level session that a shutdown has ended before it did anything leaves what it has
// read to the next one, pays nothing, and is not one that the next one repeats. One that compacts,
// has done something, or works for others than its inputs say is left to the next owner.
func TestTurnOfAChatIsUntouched(t *testing.T) {
	bob := []policy.Sender{{ID: "bob", Channel: "irc", Peer: "room"}}
	for name, c := range map[string]struct {
		act    Command // in the turn
		before func(decide func(Command) Reply)
		stays  bool // for the next owner
	}{
		"nothing": {},
		"read": {before: func(decide func(Command) Reply) {
			decide(&Post{To: top, Text: "and?"})
		}},
		"heard":    {act: Hear{Senders: bob}, stays: true},
		"reported": {act: &Report{Run: top, N: 1, Text: "half"}, stays: true},
		"spawned": {before: func(decide func(Command) Reply) {
			decide(&Spawn{Parent: top, ID: "a", Task: "x", Turn: 1})
		}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(top, &Options{
				Rules: &policy.Rules{Budget: policy.Budget{Turns: 100, Tokens: 1e6}},
				Chunk: Budget{Tokens: 100},
			})
			decide := func(c Command) Reply {
				reply, err := tr.Decide(c, 1)
				require.NoError(t, err)
				return reply
			}
			decide(&Open{SessionID: "s"})
			decide(&Post{To: top, Text: "go"})
			root := decide(Granted{Run: top}).Run
			if c.before != nil {
				c.before(decide)
				decide(InTurn{Run: top, N: 1})
			}
			if c.act != nil {
				decide(InTurn{Run: top, N: 1, Cmd: c.act})
			}
			require.Positive(t, root.Charged.Turns)
			decide(ShutDown{})
			decide(&TurnDone{Run: top, N: 1, Untouched: true})
			if c.stays {
				require.NotNil(t, root.Open)
				return
			}
			require.Nil(t, root.Open)
			require.False(t, root.Retry)
			require.Zero(t, root.Charged)
			require.Zero(t, root.Consumed)
			require.True(t, root.wantsTurn(1))
			decide(&Open{SessionID: "s"})
			decide(Granted{Run: top})
			require.Equal(t, root.NextOrd, root.Open.Through)
		})
	}
}
