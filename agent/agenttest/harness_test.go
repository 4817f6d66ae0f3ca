package agenttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// listFiles is the Call of a tool.
func listFiles(context.Context, agent.ToolCall) (agent.ToolResult, error) {
	return agent.ToolResult{Text: "a.txt"}, nil
}

func TestEchoSaysWhatIsNew(t *testing.T) {
	s := agenttest.Script{
		"main": {
			agenttest.Call("ls", `{}`), agenttest.Say("one moment"),
			agenttest.Call("sessions_spawn", `{"task":"a","label":"good"}`).And("sessions_spawn",
				`{"task":"the bad one"}`).And("sessions_yield", `{}`),
			agenttest.Echo(), agenttest.Say("never reached"),
		},
		"good":        {agenttest.Say("42").After(time.Minute)},
		"the bad one": {agenttest.Fail(errors.New("boom")).After(time.Second)},
	}
	ls := agent.Tool{
		Name: "ls",
		Call: listFiles,
	}
	agenttest.Run(t, agent.Config{Tools: []agent.Tool{ls}}, s, func(h *agenttest.Harness) {
		h.Post("go")
		h.Replied("one moment")
		h.Post("go on")
		time.Sleep(time.Hour / 2)
		h.Replied("one moment", "the bad one: failed\n42")
		h.Post("hello")
		synctest.Wait()
		h.Post("again")
		require.Equal(t, "again", h.Replies()[3].Reply.Text)
		require.Equal(t, 6, h.Calls("main"))
		require.Equal(t, 1, h.Calls("good"))
	})
}

func TestStepsOfASessionOfItsOwn(t *testing.T) {
	s := agenttest.Script{
		"agent:ops:main": {agenttest.Say("ops here")},
		"main": {
			agenttest.Fail(errors.New("boom")),
			agenttest.Say("main here").Spending(agent.Usage{Input: 7}),
		},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *agenttest.Harness) {
		h.PostTo(session.Must(session.MainKey("ops")), "who is there?")
		synctest.Wait()
		h.Post("who is there?")
		synctest.Wait()
		h.Post("who else?")
		replies := h.Replies()
		require.Equal(t, "ops here", replies[0].Reply.Text)
		require.Equal(t, session.Must(session.MainKey("ops")), replies[0].To)
		require.True(t, replies[1].Reply.Failed)
		require.Equal(t, "main here", replies[2].Reply.Text)
	})
}

func TestMainSessionIsThatOfTheDefaultAgent(t *testing.T) {
	cfg := agent.Config{Rules: policy.Rules{Agents: []policy.Agent{{ID: "Butler"}}}}
	agenttest.Run(t, cfg, agenttest.Script{"main": {agenttest.Echo()}}, func(h *agenttest.Harness) {
		h.Post("tea?")
		require.Equal(t, session.Must(session.MainKey("butler")), h.Replies()[0].To)
		require.Equal(t, session.Must(session.MainKey("butler")), h.Main().Key())
	})
}

func TestDoGoesOnWithTheNextProcess(t *testing.T) {
	s := agenttest.Script{"slow": {agenttest.Say("done").After(time.Minute)}}
	agenttest.Run(t, agent.Config{}, s, func(h *agenttest.Harness) {
		go func() {
			time.Sleep(10 * time.Second)
			h.Runtime() // may be called from anywhere
		}()
		crashed := make(chan struct{})
		time.AfterFunc(20*time.Second, func() { close(crashed) })
		var got []error
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			err := h.Do(func(rt *agent.Runtime) error {
				c, err := agent.Spawn[string](h.Context(), rt.Session(h.Main().Key()),
					agent.Task{Text: "x", Label: "slow", Key: "k"})
				if err == nil {
					_, err = c.Wait(h.Context())
				}
				got = append(got, err)
				return err
			})
			var failed *agent.RunError
			if !errors.As(err, &failed) || failed.Run.Status != spawn.StatusInterrupted {
				t.Errorf("waited for: %v", err)
			}
		}()
		<-crashed
		h.Crash()
		<-waiting
		require.Len(t, got, 2, "once at each process")
		// What it was told first: that its process ends, or that the next one has the tree.
		ends := errors.Is(got[0], spawn.ErrShutdown) || errors.Is(got[0], spawn.ErrUnconfirmed)
		require.True(t, ends, "%v", got[0])
		require.ErrorContains(t, h.Do(func(*agent.Runtime) error { return errors.New("no") }), "no")
	})
}

func TestChildIsTheNewest(t *testing.T) {
	s := agenttest.Script{"a": {agenttest.Echo()}}
	agenttest.Run(t, agent.Config{}, s, func(h *agenttest.Harness) {
		var last spawn.RunID
		for range 3 {
			c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Label: "a"})
			require.NoError(t, err)
			last = c.ID()
			time.Sleep(time.Second)
		}
		require.Equal(t, last, h.Child("a").ID)
		require.Len(t, h.Runs(), 3)
	})
}

// A former owner that comes back cannot write, and nothing that it says is heard.
func TestFormerOwnerIsNotHeard(t *testing.T) {
	s := agenttest.Script{
		"main": {agenttest.Say("first").After(time.Minute), agenttest.Say("second")},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *agenttest.Harness) {
		h.Post("go")
		time.Sleep(30 * time.Second)
		h.Crash()
		h.Crash()
		time.Sleep(45 * time.Second) // both former turns are back
		require.Empty(t, h.Replies())
		time.Sleep(time.Minute)
		h.Replied("first")
	})
}

// A turn over the end of a sub-agent that ends three processes is given up, with that end: it is
// documented, and no loss. People get the apology, and the bot goes on.
func TestEndThatEndsThreeProcesses(t *testing.T) {
	s := agenttest.Script{
		"main":  {agenttest.Say("never said").After(time.Hour), agenttest.Echo()},
		"quick": {agenttest.Say("done")},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *agenttest.Harness) {
		_, err := h.Main().Spawn(h.Context(),
			agent.Task{Text: "x", Label: "quick", Announce: true})
		require.NoError(t, err)
		for range 3 {
			h.Pass(time.Minute)
			h.Crash()
		}
		h.Pass(2 * time.Hour)
		require.Len(t, h.Replies(), 1)
		require.True(t, h.Replies()[0].Reply.Failed)
		h.Post("are you there?")
		h.Pass(2 * time.Hour)
		require.Len(t, h.Replies(), 2, "the bot goes on")
	})
}

// Every write is a point to crash at: before it and after it, until there is none left.
func TestEveryCrashReachesEveryWrite(t *testing.T) {
	t.Setenv("OFFSHOOT_CRASHES", "")
	all := crashesOfAnAnswer(t)
	require.GreaterOrEqual(t, all, 2*4,
		"post and start, what is new, the answer, the end of the turn")

	t.Setenv("OFFSHOOT_CRASHES", "3") // some of them, and others each time
	for range 60 {
		n := crashesOfAnAnswer(t)
		require.GreaterOrEqual(t, n, all/3)
		require.LessOrEqual(t, n, all/3+1)
	}
}

// crashesOfAnAnswer returns how many crashes there were in all runs of a test with one answer.
func crashesOfAnAnswer(t *testing.T) (crashed int) {
	agenttest.EveryCrash(t, agent.Config{}, agenttest.Script{"main": {agenttest.Echo()}},
		func(h *agenttest.Harness) {
			before := h.Runtime()
			h.Post("hello")
			h.Replied("hello")
			if h.Runtime() != before {
				crashed++
			}
		})
	return crashed
}
