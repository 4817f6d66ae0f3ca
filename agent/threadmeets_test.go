package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// slowTrees is a Journal whose appends to trees take a second while slow is set.
type slowTrees struct {
	session.Journal

	slow atomic.Bool
}

func (j *slowTrees) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if j.slow.Load() && root != session.BindingsRoot() {
		time.Sleep(time.Second)
	}
	return j.Journal.Append(ctx, root, after, b)
}

// An endOfThread is one way in which a binding ends.
type endOfThread struct {
	reason binding.Reason
	quiet  bool // people are not told
	bind   func(b meetingBot) meeting
	before time.Duration // how long the binding stands before the messages come
}

// A meeting is a conversation that is bound to a session, and what ends that.
type meeting struct {
	at  session.Route
	of  session.Key
	end func() error
}

// byItself is the end of a binding that comes by itself.
func byItself() error { return nil }

// A meetingBot is a bot whose conversations end while people write in them.
type meetingBot struct {
	threadBot

	journal *slowTrees
}

// stopped binds a conversation to a sub-agent that works for a minute, and is stopped.
func (b meetingBot) stopped(task agent.Task) meeting {
	task.Text = "work"
	child, at := b.spawnThread(task)
	return meeting{at, child.Key(), func() error { return child.Stop(b.Context()) }}
}

// ending binds a conversation to a sub-agent of mode run, which ends after a minute.
func (b meetingBot) ending(task agent.Task) meeting {
	task.Mode, task.Announce = agent.TaskModeRun, true
	m := b.stopped(task)
	m.end = byItself
	return m
}

// focused binds a conversation to a session whose run has ended.
func (b meetingBot) focused(end func(at session.Route) error) meeting {
	of, at := b.worker("worker").Key(), b.chat.At("general", "7")
	_, err := b.focus(at, of, "alice")
	require.NoError(b.T(), err)
	return meeting{at, of, func() error { return end(at) }}
}

// unfocused binds a conversation, which is unbound for a reason.
func (b meetingBot) unfocused(by string, why binding.Reason) meeting {
	return b.focused(func(at session.Route) error {
		_, err := b.Runtime().Unfocus(b.Context(),
			agent.UnfocusRequest{Conversation: at, By: by, Reason: why})
		return err
	})
}

// limited binds a conversation with a limit.
func (b meetingBot) limited(limit binding.Limit) meeting {
	m := b.focused(func(session.Route) error { return nil })
	_, err := b.Runtime().LimitFocus(b.Context(), m.at, "alice", limit)
	require.NoError(b.T(), err)
	return m
}

// below binds a conversation to a sub-agent of one that works for a minute.
func (b meetingBot) below(stops bool) meeting {
	above, err := b.Main().Spawn(b.Context(), agent.Task{Text: "work", Label: "above"})
	require.NoError(b.T(), err)
	child, err := b.Session(above.Key()).Spawn(b.Context(), agent.Task{
		Text: "rest", Thread: true, Conversation: b.general,
	})
	require.NoError(b.T(), err)
	threads := b.chat.Threads()
	m := meeting{threads[len(threads)-1], child.Key(), byItself}
	if stops {
		m.end = func() error { return above.Stop(b.Context()) }
	}
	return m
}

// takeSlots has two sub-agents work, which have all slots and spend the budget of their tree.
func (b meetingBot) takeSlots() {
	key, err := b.chat.Key(b.general)
	require.NoError(b.T(), err)
	for range 2 {
		_, err := b.Session(key).Spawn(b.Context(), agent.Task{Text: "work", Label: "spends"})
		require.NoError(b.T(), err)
	}
}

var meetingLimit = time.Minute

// endsOfThreads are the ends of a binding that is there, for every reason of one that a session
// knows. A session that does not know its binding is in TestMessageToASessionThatIsGone.
var endsOfThreads = map[string]endOfThread{
	"unfocus": {reason: binding.ReasonManual, bind: func(b meetingBot) meeting {
		return b.unfocused("alice", binding.ReasonManual)
	}},
	"archived by the channel": {
		reason: binding.ReasonThreadArchived, bind: func(b meetingBot) meeting {
			return b.unfocused(binding.SystemOwner, binding.ReasonThreadArchived)
		},
	},
	"deleted by the channel": {
		reason: binding.ReasonThreadDeleted, quiet: true, bind: func(b meetingBot) meeting {
			return b.unfocused(binding.SystemOwner, binding.ReasonThreadDeleted)
		},
	},
	"another session": {
		reason: binding.ReasonReplaced, quiet: true, bind: func(b meetingBot) meeting {
			other := b.worker("other").Key()
			return b.focused(func(at session.Route) error {
				_, err := b.focus(at, other, "alice")
				return err
			})
		},
	},
	"idle": {
		reason: binding.ReasonIdle, before: time.Minute, bind: func(b meetingBot) meeting {
			return b.limited(binding.Limit{Idle: &meetingLimit})
		},
	},
	"greatest age": {
		reason: binding.ReasonMaxAge, before: 59 * time.Second,
		bind: func(b meetingBot) meeting { return b.limited(binding.Limit{MaxAge: &meetingLimit}) },
	},
	"stop": {reason: binding.ReasonSubagentStopped, bind: func(b meetingBot) meeting {
		return b.stopped(agent.Task{})
	}},
	"stop of a run": {reason: binding.ReasonSubagentStopped, bind: func(b meetingBot) meeting {
		return b.stopped(agent.Task{Mode: agent.TaskModeRun})
	}},
	"end of a run": {
		reason: binding.ReasonSubagentOK, before: 59 * time.Second,
		bind: func(b meetingBot) meeting { return b.ending(agent.Task{}) },
	},
	"failure of a run": {
		reason: binding.ReasonSubagentError, before: 59 * time.Second,
		bind: func(b meetingBot) meeting { return b.ending(agent.Task{Label: "fails"}) },
	},
	"timeout of a run": {reason: binding.ReasonSubagentError, bind: func(b meetingBot) meeting {
		return b.ending(agent.Task{Timeout: 2 * time.Second})
	}},
	"stop before the first turn": {
		reason: binding.ReasonSubagentStopped, bind: func(b meetingBot) meeting {
			b.takeSlots()
			return b.stopped(agent.Task{})
		},
	},
	"no budget for the first turn": {
		reason: binding.ReasonSpawnFailed, before: 59 * time.Second,
		bind: func(b meetingBot) meeting {
			b.takeSlots()
			m := b.stopped(agent.Task{})
			m.end = byItself
			return m
		},
	},
	"end above": {
		reason: binding.ReasonSubagentOK, before: 59 * time.Second,
		bind: func(b meetingBot) meeting { return b.below(false) },
	},
	"stop above": {reason: binding.ReasonSubagentStopped, bind: func(b meetingBot) meeting {
		return b.below(true)
	}},
	"delete": {reason: binding.ReasonSessionDeleted, bind: func(b meetingBot) meeting {
		m := b.stopped(agent.Task{})
		m.end = func() error { return b.Runtime().DeleteSession(b.Context(), m.of) }
		return m
	}},
}

// Messages that come in the instant in which a binding ends change nothing of that end: it comes
// once, for its own reason, and people are told that one. Each message is one of the session that
// is bound, or of the conversation's own.
func TestMessagesMeetTheEndOfAThread(t *testing.T) {
	for name, c := range endsOfThreads {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", waits ", waits), func(t *testing.T) {
				memory := session.NewMemory()
				store, journal := *memory, &slowTrees{Journal: memory.Journal}
				store.Journal = journal
				cfg := agent.Config{
					Store: &store, Runner: agent.RunnerFunc(meetingTurn),
					Rules: policy.Rules{
						Budget:    policy.Budget{Tokens: 1_000_000},
						Subagents: policy.Subagents{MaxSpawnDepth: 3, MaxConcurrent: 2},
					},
				}
				runThreads(t, agenttest.Run, cfg, nil, func(b threadBot) {
					meetTheEnd(meetingBot{b, journal}, c, waits)
				})
			})
		}
	}
}

// meetingTurn works for a minute on a task, and answers people at once.
func meetingTurn(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	if tn.Run == "" || !strings.Contains(tn.Input(), "work") {
		return agent.Result{Text: "I see."}, nil
	}
	err := pause(ctx, time.Minute)
	if err == nil && tn.Label == "fails" {
		err = errors.New("the tool is broken")
	}
	r := agent.Result{Text: "done"}
	if tn.Label == "spends" {
		r.Usage.Input = 1_000_000
	}
	return r, err
}

// meetTheEnd has people write while a binding ends, and looks at what has become of it.
func meetTheEnd(b meetingBot, c endOfThread, waits bool) {
	b.T().Helper()
	m := c.bind(b)
	own, err := b.chat.Key(m.at)
	require.NoError(b.T(), err)
	time.Sleep(c.before)
	b.journal.slow.Store(true)
	var mu sync.Mutex
	takenBy := make(map[session.Key]int)
	post := func(in agent.Incoming) {
		var by session.Key
		if waits { // its turn may be stopped, or say nothing of it
			reply, _ := b.Session(own).PostAndWait(b.Context(), in)
			by = reply.From
		} else {
			receipt, err := b.Session(own).Post(b.Context(), in)
			assert.NoError(b.T(), err)
			assert.False(b.T(), receipt.Existing)
			by = receipt.Session
		}
		mu.Lock()
		defer mu.Unlock()
		takenBy[by]++
	}
	const messages = 40
	var all sync.WaitGroup
	for i := range messages {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 100 * time.Millisecond)
			if i >= messages/2 {
				time.Sleep(time.Duration(i-messages/2) * 5 * time.Second)
			}
			post(agent.Incoming{ID: fmt.Sprint(i), Text: "hello", Route: m.at})
		})
	}
	all.Go(func() {
		time.Sleep(100 * time.Millisecond)
		assert.NoError(b.T(), m.end())
	})
	all.Wait()
	b.journal.slow.Store(false)
	b.Pass(10 * time.Minute)
	if !waits {
		require.Less(b.T(), takenBy[m.of], messages, "none came after the end")
	}
	b.ended(m, c)
}

// ended asserts that the binding of a conversation has ended once, for its own reason, and that
// people have read that.
func (b meetingBot) ended(m meeting, c endOfThread) {
	b.T().Helper()
	table, err := binding.Open(b.Context(), b.journal.Journal)
	require.NoError(b.T(), err)
	var ends []binding.Reason
	for _, u := range table.Former(m.at, time.Now()) {
		if u.Binding.Target == m.of {
			ends = append(ends, u.Reason)
		}
	}
	require.Equal(b.T(), []binding.Reason{c.reason}, ends)
	told := b.chat.Farewells(m.at)
	if c.quiet {
		require.Empty(b.T(), told)
		return
	}
	require.Len(b.T(), told, 1)
	require.Equal(b.T(), c.reason, told[0].Reason)
}
