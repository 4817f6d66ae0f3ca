package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestYieldWaitsWithoutCallingTheModel(t *testing.T) {
	s := script{
		"main": {andStart(andStart(startStep("a"), "b"), "c"), yieldStep(), echo()},
		"a":    {say("a is done").After(time.Minute)},
		"b":    {say("b is done").After(time.Hour)},
		"c":    {say("c is done").After(3 * time.Minute)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(59 * time.Minute)
		require.Equal(t, 2, h.Calls("main"))
		require.Empty(t, h.Replies())
		time.Sleep(2 * time.Minute)
		h.Replied("a is done\nc is done\nb is done")
	})
}

func TestYieldUntilEnoughOrLongEnough(t *testing.T) {
	for args, want := range map[string]struct {
		after time.Duration
		text  string
	}{
		`{"atLeast":2}`:                     {3 * time.Minute, "a is done\nc is done"},
		`{"at_least":1}`:                    {time.Minute, "a is done"},
		`{"withinSeconds":120}`:             {2 * time.Minute, "a is done"},
		`{"within_seconds":90,"atLeast":3}`: {90 * time.Second, "a is done"},
		``:                                  {time.Hour, "a is done\nc is done\nb is done"},
	} {
		t.Run(args, func(t *testing.T) {
			s := script{
				"main": {
					andStart(andStart(startStep("a"), "b"), "c"), call("sessions_yield", args),
					echo(),
				},
				"a": {say("a is done").After(time.Minute)},
				"b": {say("b is done").After(time.Hour)},
				"c": {say("c is done").After(3 * time.Minute)},
			}
			agenttest.Run(t, agent.Config{}, s, func(h *harness) {
				h.Post("go")
				time.Sleep(want.after - time.Second)
				require.Empty(t, h.Replies())
				time.Sleep(2 * time.Second)
				h.Replied(want.text)
			})
		})
	}
}

// A person is answered although the session waits, and the wait goes on after that.
func TestPersonWakesASessionThatWaits(t *testing.T) {
	s := script{
		"main": {andStart(startStep("a"), "b"), yieldStep(), echo()},
		"a":    {say("a is done").After(time.Minute)},
		"b":    {say("b is done").After(time.Hour)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(10 * time.Second)
		h.Post("are you there?")
		h.Replied("are you there?")
		time.Sleep(10 * time.Minute)
		h.Replied("are you there?") // the end of a alone does not wake the session
		time.Sleep(time.Hour)
		h.Replied("are you there?", "a is done\nb is done")
	})
}

// A yield with nothing to wait for does not end a run that has not answered.
func TestYieldWithNothingToWaitFor(t *testing.T) {
	s := script{
		"main":   {startStep("worker"), say("On it."), echo()},
		"worker": {yieldStep().After(time.Second), say("the answer")},
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Minute)
		h.Replied("On it.", "the answer")
		require.Equal(t, 1, h.Child("worker").Turns)
	})
}

// What the session tools answer is never taken for a result, however little else there is.
func TestAnswersOfSessionToolsAreNotAResult(t *testing.T) {
	s := script{
		"main":   {startStep("worker"), say("On it."), echo()},
		"worker": {startStep("helper"), yieldStep()},
		"helper": {agenttest.Hang()},
	}
	store, notes := newNotebook()
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2), Store: store}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		c := h.Child("worker")
		require.Equal(t, spawn.StatusWaiting, c.Status)
		require.NoError(t, h.Session(c.Key).Stop(h.Context()))
		h.Replied("On it.", "worker: cancelled")
		lines := notes.all(t, topKey)
		last := lines[len(lines)-2].Message.Text
		require.Contains(t, last, "(no output)")
		require.NotContains(t, last, "childSessionKey")
		require.NotContains(t, last, "yielded")
	})
}

// Silent children announce nothing, and still release who waits for them.
func TestSilentChildrenReleaseWhoWaits(t *testing.T) {
	for _, token := range []string{announce.AnnounceSkip, announce.NoReply} {
		t.Run(token, func(t *testing.T) {
			s := script{
				"main": {andStart(startStep("a"), "b"), yieldStep(), say("all of them are done")},
				"a":    {say(token).After(time.Minute)},
				"b":    {say(token).After(time.Hour)},
			}
			agenttest.Run(t, agent.Config{}, s, func(h *harness) {
				h.Post("go")
				time.Sleep(59 * time.Minute)
				require.Equal(t, 2, h.Calls("main"))
				time.Sleep(2 * time.Minute)
				h.Replied("all of them are done")
				require.Equal(t, spawn.StatusOK, h.Child("b").Status)
			})
		})
	}
}

func TestSilentChildIsNotAnnounced(t *testing.T) {
	s := script{"main": {startStep("a"), say("On it.")}, "a": {say(announce.AnnounceSkip)}}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Hour)
		h.Replied("On it.")
		require.Equal(t, 2, h.Calls("main"), "nobody is woken")
	})
}

// A main session may choose to stay silent too.
func TestSilentReply(t *testing.T) {
	agenttest.Run(t, agent.Config{},
		script{"main": {say(announce.NoReply), say("Done.\n\n" + announce.NoReply), echo()}},
		func(h *harness) {
			h.Post("psst")
			synctest.Wait()
			require.Empty(t, h.Replies())
			h.Post("psst")
			h.Replied("Done.")
		})
}

// A poller is a model that spawns a sub-agent of an hour and then yields in each turn, with a text
// for people, until the sub-agent has ended.
type poller struct {
	args string // of sessions_yield

	mu    sync.Mutex
	polls []poll
}

// A poll is a turn that yields.
type poll struct {
	at   time.Time
	told time.Duration // how long the wait before it takes, as the model was told
}

func (p *poller) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	if req.Run != "" {
		return &agent.ModelResponse{Text: "kid"}, pause(ctx, time.Hour)
	}
	if len(req.Messages) == 1 {
		return &agent.ModelResponse{ToolCalls: []agent.ToolCall{spawnCallOf("s", "kid")}}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := req.Messages[len(req.Messages)-1].Text
	if len(p.polls) > 0 && strings.Contains(last, "kid") || len(p.polls) == 100 {
		return &agent.ModelResponse{Text: "done"}, nil
	}
	p.polls = append(p.polls, poll{time.Now(), lastWait(req.Messages)})
	return &agent.ModelResponse{Text: "spam", ToolCalls: []agent.ToolCall{
		{ID: "y", Name: "sessions_yield", Args: []byte(p.args)},
	}}, nil
}

func (p *poller) all() []poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.polls)
}

// A model does not choose how often it is called. One that asks for a moment each time, with a text
// for people, is called a bounded number of times, is told how long it really waits, and is begun
// anew by what a person says.
func TestModelThatAsksForAMoment(t *testing.T) {
	for args, first := range map[string]time.Duration{
		`{"within_seconds":1,"atLeast":1}`:    time.Second,
		`{"withinSeconds":1.5,"at_least":20}`: 1500 * time.Millisecond,
		`{"withinSeconds":30}`:                30 * time.Second,
	} {
		t.Run(args, func(t *testing.T) {
			model := &poller{args: args}
			cfg := agent.Config{Runner: &agent.Loop{Model: model}}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				time.Sleep(30*time.Minute - time.Millisecond)
				require.Less(t, len(h.Replies()), 14)
				h.Post("are you there?")
				synctest.Wait()
				asked := len(model.all())
				time.Sleep(time.Hour)
				polls := model.all()
				require.Equal(t, first, polls[1].told)
				require.Equal(t, first, polls[asked].told, "a person starts anew")
				for i := 1; i < len(polls); i++ {
					require.LessOrEqual(t, polls[i].told, 10*time.Minute)
					if i != asked-1 { // which the person has begun
						require.Equal(t, polls[i].told, polls[i].at.Sub(polls[i-1].at))
					}
				}
				require.Less(t, len(h.Replies()), 30)
				require.Equal(t, "done", h.Replies()[len(h.Replies())-1].Reply.Text)
			})
		})
	}
}

// lastWait returns the withinSeconds that the last answer of sessions_yield told.
func lastWait(messages []agent.Message) time.Duration {
	for _, m := range slices.Backward(messages) {
		var reply struct{ WithinSeconds float64 }
		if m.Role == session.MessageTool && json.Unmarshal([]byte(m.Text), &reply) == nil {
			return time.Duration(reply.WithinSeconds * float64(time.Second))
		}
	}
	return 0
}

// A program's own Yield is not slowed.
func TestProgramYieldsForAMoment(t *testing.T) {
	var turns atomic.Int64
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			return agent.Result{Text: "kid"}, pause(ctx, time.Hour)
		}
		if tn.N == 1 {
			if _, err := tn.Spawn(ctx, agent.Task{Text: "x"}); err != nil {
				return agent.Result{}, err
			}
		}
		turns.Add(1)
		tn.Yield(agent.JoinOptions{Within: 10 * time.Second})
		return agent.Result{}, nil
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(10*time.Minute + time.Second)
		require.EqualValues(t, 61, turns.Load())
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

// A6: what the schema says of a number holds: less than one is refused, under every name, before
// the turn ends, and the model is told what it gets if it leaves the argument out.
func TestYieldForNothingIsRefused(t *testing.T) {
	var schema struct {
		Properties map[string]struct{ Minimum int }
	}
	for args, want := range map[string]string{
		`{"withinSeconds":0}`:             `"withinSeconds": it is 0, want a number, 1 or more; leave it out to wait without limit`,
		`{"within_seconds":0.0}`:          `"within_seconds": it is 0`,
		`{"withinSeconds":-0}`:            `"withinSeconds": it is -0`,
		`{"withinSeconds":1e-400}`:        `"withinSeconds": it is 1e-400`,
		`{"withinSeconds":1e-300}`:        `"withinSeconds": it is 1e-300, want a number, 1 or more`,
		`{"within_seconds":0.5}`:          `"within_seconds": it is 0.5, want a number, 1 or more`,
		`{"atLeast":1.5}`:                 `"atLeast": it is 1.5, want a whole number`,
		`{"withinSeconds":-1}`:            `"withinSeconds": it is -1`,
		`{"atLeast":0}`:                   `"atLeast": it is 0, want a whole number, 1 or more; leave it out to wait for all`,
		`{"at_least":0}`:                  `"at_least": it is 0`,
		`{"atLeast":-1}`:                  `"atLeast": it is -1`,
		`{"atLeast":1,"withinSeconds":0}`: `"withinSeconds": it is 0`,
	} {
		s := script{
			"main": {startStep("a"), call("sessions_yield", args), echo()},
			"a":    {say("a is done").After(time.Hour)},
		}
		agenttest.Run(t, agent.Config{}, s, func(h *harness) {
			h.Post("go")
			require.Len(t, h.Replies(), 1, args)
			require.Contains(t, h.Replies()[0].Reply.Text, "sessions_yield: argument "+want)
			for _, tool := range h.Requests("main")[0].Tools {
				if tool.Name == "sessions_yield" {
					require.NoError(t, json.Unmarshal(tool.Schema, &schema))
				}
			}
		})
	}
	delete(schema.Properties, "message")
	require.Len(t, schema.Properties, 2)
	for name, p := range schema.Properties {
		require.Equal(t, 1, p.Minimum, name)
	}
}

// A turn that a crash has cut short finds the sub-agent that it had spawned ended, and waits for it
// all the same: the person is answered, whether the end is announced or not. So is one who asks
// again later. A Runner that spawns and yields in every turn comes to rest.
func TestYieldForWhatHasEnded(t *testing.T) {
	for _, announced := range []bool{false, true} {
		for _, least := range []int{0, 1} {
			for _, restless := range []bool{false, true} {
				name := fmt.Sprintf("announced %t, at least %d, restless %t", announced, least, restless)
				t.Run(name, func(t *testing.T) {
					yieldForWhatHasEnded(t, announced, least, restless)
				})
			}
		}
	}
}

func yieldForWhatHasEnded(t *testing.T, announced bool, least int, restless bool) {
	t.Helper()
	var turns atomic.Int64
	run := agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}
		n, person := turns.Add(1), false
		for _, m := range tn.Messages[len(tn.Messages)-tn.New:] {
			person = person || !m.Internal
		}
		if !person && !restless {
			return agent.Result{Text: "final"}, nil
		}
		_, err := tn.Spawn(ctx, agent.Task{Text: "w", Key: "K", Announce: announced})
		if err != nil {
			return agent.Result{}, err
		}
		if n == 1 {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}
		tn.Yield(agent.JoinOptions{AtLeast: least})
		return agent.Result{}, nil
	})
	agenttest.Run(t, agent.Config{Runner: run}, nil, func(h *harness) {
		h.Post("go")
		h.Pass(time.Minute)
		h.Crash()
		h.Pass(time.Minute)
		if restless {
			require.LessOrEqual(t, turns.Load(), int64(4))
			return
		}
		h.Replied("final")
		h.Post("and now?")
		h.Pass(time.Minute)
		h.Replied("final", "final")
	})
}
