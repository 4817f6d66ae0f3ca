package command_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/agent/command"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A bot hears people in the rooms and threads of a channel, and has their commands done.
type bot struct {
	*agenttest.Harness
	t    *testing.T
	chat *agenttest.FakeChannel
	opt  command.Options
	rt   *agent.Runtime // that of the handler
	h    *command.Handler
	ids  int
	last command.Answer
}

// worker answers a message with what it was told. A sub-agent whose task is to work goes on until
// it is stopped, and one that is to nest has a sub-agent that works.
var worker = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	in := tn.Input()
	switch {
	case tn.Run == "":
		return agent.Result{Text: "Hello."}, nil
	case tn.N == 1 && strings.Contains(in, "nest"):
		_, err := tn.Spawn(ctx, agent.Task{
			Text: "work", Label: "below " + tn.Label, Announce: true,
		})
		return agent.Result{Text: "It is at work."}, err
	case strings.Contains(in, "work"):
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	case strings.Contains(in, "fail"):
		return agent.Result{}, errors.New("it broke")
	}
	lines := strings.Split(in, "\n")
	return agent.Result{Text: tn.Label + " heard " + lines[len(lines)-1]}, nil
})

// play runs a bot of the worker, on which ann and bob write.
func play(t *testing.T, opt command.Options, f func(b *bot)) {
	t.Helper()
	playOf(t, agent.Config{Runner: worker}, opt, f)
}

// playOf is play with a Config.
func playOf(t *testing.T, cfg agent.Config, opt command.Options, f func(b *bot)) {
	t.Helper()
	cfg.Rules.Subagents = policy.Subagents{MaxSpawnDepth: 2, MaxChildren: 20}
	cfg.Rules.Agents = []policy.Agent{
		{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"*"}}}, {ID: "beta"},
	}
	playBy(t, cfg, opt, f)
}

// playBy is playOf with the rules of the Config.
func playBy(t *testing.T, cfg agent.Config, opt command.Options, f func(b *bot)) {
	t.Helper()
	chat := agenttest.NewFakeChannel("discord")
	chat.Connect(&cfg)
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		f(&bot{Harness: h, t: h.T().(*testing.T), chat: chat, opt: opt})
	})
}

// handler returns the handler of the process that runs now.
func (b *bot) handler() *command.Handler {
	if b.rt != b.Runtime() {
		var err error
		b.rt = b.Runtime()
		b.h, err = command.New(b.rt, b.opt)
		require.NoError(b.t, err)
	}
	return b.h
}

// message is what the say method returns for what is not a command.
const message = "(a message)"

// say has a person say something, and returns what the handler answers.
func (b *bot) say(at session.Route, who, said string) string {
	b.t.Helper()
	b.ids++
	return b.sayAs(at, who, said, fmt.Sprint(b.ids))
}

// sayAs is say with the transport's ID of the message.
func (b *bot) sayAs(at session.Route, who, said, id string) string {
	b.t.Helper()
	m := agent.Incoming{ID: id, Text: said, Route: at, From: session.Sender{ID: who}}
	answer, ok := b.handler().Handle(b.Context(), b.key(at), m)
	b.last = answer
	if !ok {
		require.Nil(b.t, answer)
		return message
	}
	require.LessOrEqual(b.t, len(answer.Text()), 20_000)
	return answer.Text()
}

func (b *bot) key(at session.Route) session.Key {
	key, err := b.chat.Key(at)
	require.NoError(b.t, err)
	return key
}

// spawn starts a sub-agent of a room's session, a second after what was before.
func (b *bot) spawn(at session.Route, label, task string) agent.RunInfo {
	b.t.Helper()
	time.Sleep(time.Second)
	child, err := b.Session(b.key(at)).Spawn(b.Context(), agent.Task{Text: task, Label: label})
	require.NoError(b.t, err)
	b.Pass(0)
	info, err := child.Info(b.Context())
	require.NoError(b.t, err)
	return info
}

func (b *bot) status(r agent.RunInfo) agent.Status {
	b.t.Helper()
	info, err := b.Session(r.Key).FindRun(b.Context(), r.ID)
	require.NoError(b.t, err)
	return info.Status
}

func room(b *bot) session.Route { return b.chat.At("general", "") }

// A list has what is active and what has ended in the last half hour, the newest first.
func TestList(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		const none = "active subagents:\n-----\n(none)\n\nrecent subagents (last 30m):\n-----\n(none)"
		require.Equal(t, none, b.say(general, "ann", "/subagents"))
		b.spawn(general, "alpha", "work hard")
		b.spawn(general, "beta", "say it")
		b.spawn(general, "", "work on what has no label")
		b.Pass(5 * time.Second)
		require.Equal(t, "active subagents:\n-----\n"+
			"1. work on what has no label (5s) running\n"+
			"2. alpha (7s) running - work hard\n\n"+
			"recent subagents (last 30m):\n-----\n"+
			"3. beta ok - say it", b.say(general, "ann", "/SUBAGENTS LIST"))
		require.Equal(t, none, b.say(b.chat.At("other", ""), "ann", "/subagents"), "another tree")
		b.Pass(31 * time.Minute)
		require.NotContains(t, b.say(general, "ann", "/subagents"), "beta")
		b.say(general, "ann", "/stop")
	})
}

// A list shows what the requester calls a run beside what people see of it.
func TestListHasNames(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		for _, task := range []agent.Task{
			{Text: "work hard", Label: "alpha", Name: "builder"},
			{Text: "work", Label: "tester", Name: "tester"},
			{Text: "work on it", Name: "writer"},
		} {
			_, err := b.Session(b.key(general)).Spawn(b.Context(), task)
			require.NoError(t, err)
			b.Pass(time.Second)
		}
		said := b.say(general, "ann", "/subagents list")
		require.Contains(t, said, "1. work on it, writer (1s) running\n")
		require.Contains(t, said, "2. tester (2s) running")
		require.Contains(t, said, "3. alpha, builder (3s) running - work hard\n")
		b.say(general, "ann", "/stop")
	})
}

// The cases of the reference on targets: numbers, labels, run ids, keys, the newest.
func TestTargets(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		b.spawn(general, "Alpha Core", "work")
		b.spawn(general, "Alpha Orbit", "work")
		b.spawn(general, "x", "work")
		b.spawn(general, "x", "say it")
		beta := b.spawn(general, "beta-one", "work")
		label := func(target string) string {
			text := b.say(general, "ann", "/subagents info "+target)
			if _, ok := b.last.(command.Described); !ok {
				return text
			}
			return b.last.(command.Described).Row.Label
		}
		for target, want := range map[string]string{
			"1": "beta-one", "#1": "beta-one", "4": "Alpha Core", "5": "x", // the last one has ended
			" last ": "beta-one", "LAST": "beta-one", "beta": "beta-one", "Beta-One": "beta-one",
			"alpha core": "Alpha Core", "\"ALPHA  orbit\"": "Alpha Orbit",
			string(beta.ID): "beta-one", string(beta.ID)[:13]: "beta-one",
			beta.Key.String(): "beta-one", beta.SessionID: "beta-one",
		} {
			require.Equal(t, want, label(target), target)
		}
		for _, target := range []string{
			"9", "0", "#0", "-1", "gamma", "agent:main:subagent:missing", "1.5", "all", "*",
			"agent:main:main", b.key(general).String(), "\u202e",
		} {
			require.Contains(t, label(target), "is not a sub-agent of this conversation", target)
			var bad *command.TargetError
			require.ErrorAs(t, b.last.(command.Failed).Err, &bad, target)
			require.Empty(t, bad.Candidates)
		}
		require.Contains(t, label("alpha"), "may be any of these; name one by its number")
		require.Contains(t, label("alpha"), "3. Alpha Orbit, running, run ")
		require.Contains(t, label("alpha"), "4. Alpha Core, running, run ")
		var several *command.TargetError
		require.ErrorAs(t, b.last.(command.Failed).Err, &several)
		require.Len(t, several.Candidates, 2)
		require.Contains(t, label("x"), "5. x, ok, run ")
		b.Pass(31 * time.Minute)
		require.Contains(t, label("5"), "is not a sub-agent", "it ended more than 30 minutes ago")
		b.say(general, "ann", "/stop")
	})
}

// A number is that of the list that this person was shown last in this session, for 30 minutes.
func TestNumbersOfTheListThatWasShown(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		first := b.spawn(general, "first", "work")
		b.say(general, "ann", "/subagents")
		second := b.spawn(general, "second", "work")
		info := func(who string) string {
			b.say(general, who, "/subagents info 1")
			return b.last.(command.Described).Row.Label
		}
		require.Equal(t, "first", info("ann"))
		require.Equal(t, "second", info("bob"), "who was shown no list means the list of now")
		b.Pass(31 * time.Minute)
		require.Equal(t, "second", info("ann"))
		b.say(general, "ann", "/subagents")
		require.Equal(t, "Stopped second.", b.say(general, "ann", "/kill 1"))
		require.Equal(t, "second is already finished.", b.say(general, "ann", "/kill #1"))
		require.Equal(t, agent.StatusCancelled, b.status(second))
		require.Equal(t, agent.StatusRunning, b.status(first))
		b.say(general, "ann", "/stop")
	})
}

// An id is that of one person in one account of one channel: the numbers that another one was
// shown, who has the same id elsewhere and speaks to the same session, are not theirs.
func TestNumbersAreOfOnePerson(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		b.spawn(general, "first", "work")
		say := func(channel, account, who, said string) string {
			b.ids++
			answer, ok := b.handler().Handle(b.Context(), b.key(general), agent.Incoming{
				ID: fmt.Sprint(b.ids), Text: said, From: session.Sender{ID: who},
				Route: session.Route{Channel: channel, Account: account, To: general.To},
			})
			require.True(b.t, ok)
			if one, ok := answer.(command.Described); ok {
				return one.Row.Label
			}
			return ""
		}
		say("discord", "", "ann", "/subagents")
		b.spawn(general, "second", "work")
		for _, c := range []struct{ channel, account, who, want string }{
			{"discord", "", "ann", "first"},
			{"discord", "", "bob", "second"},
			{"irc", "", "ann", "second"},
			{"discord", "other", "ann", "second"},
			{"discord", "", "ann", "first"},
		} {
			require.Equal(b.t, c.want, say(c.channel, c.account, c.who, "/subagents info 1"), "%v", c)
		}
		b.say(general, "ann", "/stop")
	})
}

// A sub-agent is stopped with all below it, and what only looks like a command stops nothing.
func TestKill(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		alpha := b.spawn(general, "alpha", "nest")
		other := b.spawn(general, "other", "work")
		done := b.spawn(general, "done", "say it")
		require.Contains(t, b.say(general, "ann", "/subagents"), "below alpha (2s) running, below another one")
		for _, said := range []string{"/killall", "/kill1", "/killother"} {
			require.Equal(t, message, b.say(general, "ann", said))
		}
		require.Contains(t, b.say(general, "ann", "/kill"), "Usage: /kill <target|all>")
		require.Contains(t, b.say(general, "ann", "/kill nothing"), "is not a sub-agent")
		require.Equal(t, agent.StatusRunning, b.status(other))
		require.Equal(t, "done is already finished.", b.say(general, "ann", "/kill done"))
		require.Equal(t, "Stopped alpha and 1 sub-agent below it.", b.say(general, "ann", "/kill alpha"))
		require.Equal(t, agent.StatusCancelled, b.status(alpha))
		require.Equal(t, agent.StatusCancelled, b.status(b.Child("below alpha")))
		require.Equal(t, agent.StatusRunning, b.status(other))
		b.spawn(general, "gamma", "nest")
		require.Equal(t, "Stopped 3 sub-agents.", b.say(general, "ann", "/subagents kill *"))
		killed := b.last.(command.Killed)
		require.Len(t, killed.Stopped, 2)
		require.Equal(t, 1, killed.Below)
		require.Equal(t, agent.StatusCancelled, b.status(other))
		require.Equal(t, "No sub-agents are active.", b.say(general, "ann", "/subagents stop all"))
		require.Equal(t, agent.StatusOK, b.status(done))
	})
}

// Sub-agents that do not end when they are told so are stopped at the same time, and the answer
// does not wait longer than it may.
func TestKillOfWhatHangs(t *testing.T) {
	hangs := agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		time.Sleep(2 * time.Minute)
		return agent.Result{Text: "late"}, nil
	})
	cfg := agent.Config{Runner: hangs, Grace: 20 * time.Second}
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		key := session.Must(session.DirectKey("main", "irc", "ann"))
		handler, err := command.New(h.Runtime(), command.Options{})
		require.NoError(t, err)
		for range 3 {
			_, err := h.Session(key).Spawn(h.Context(), agent.Task{Text: "x"})
			require.NoError(t, err)
		}
		h.Pass(time.Second)
		begin := time.Now()
		a, ok := handler.Handle(h.Context(), key, agent.Incoming{Text: "/kill all"})
		require.True(t, ok)
		require.Equal(t, 20*time.Second, time.Since(begin))
		require.Equal(t, "It was stopped, but 1 part of it did not end in time.", a.Text())
		quick, err := command.New(h.Runtime(), command.Options{Wait: time.Second})
		require.NoError(t, err)
		_, err = h.Session(key).Spawn(h.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
		h.Pass(time.Second)
		a, ok = quick.Handle(h.Context(), key, agent.Incoming{Text: "/stop"})
		require.True(t, ok)
		require.Contains(t, a.Text(), "That takes long. It may still happen")
		require.Error(t, a.(command.Stopped).Err)
		time.Sleep(5 * time.Minute)
	})
}

// A log has the messages of people and the agent, and of tools if that is asked for.
func TestLog(t *testing.T) {
	runner := agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run == "" {
			return agent.Result{Text: "Hello."}, nil
		}
		call := agent.ToolCall{ID: "1", Name: "read", Args: []byte(`{"token":"sk-abcdefghijklmnopqrstuv"}`)}
		if tn.N == 1 {
			for _, m := range []agent.Message{
				{Role: session.MessageAssistant, Text: "I look.\x1b[2J", ToolCalls: []agent.ToolCall{call}},
				{Role: session.MessageTool, ToolCallID: "1", Text: "the file"},
			} {
				if err := tn.Record(ctx, m); err != nil {
					return agent.Result{}, err
				}
			}
		}
		return agent.Result{Text: fmt.Sprintf("answer %d", tn.N)}, nil
	})
	agenttest.Run(t, agent.Config{Runner: runner}, nil, func(h *agenttest.Harness) {
		key := session.Must(session.DirectKey("main", "irc", "ann"))
		handler, err := command.New(h.Runtime(), command.Options{})
		require.NoError(t, err)
		say := func(said string) string {
			a, ok := handler.Handle(h.Context(), key, agent.Incoming{Text: said})
			require.True(t, ok, said)
			return a.Text()
		}
		child, err := h.Session(key).Spawn(h.Context(), agent.Task{Text: "look", Label: "alpha"})
		require.NoError(t, err)
		h.Pass(time.Minute)
		first := say("/subagents log 1")
		require.Contains(t, first, "Log of alpha, ok:\nUser: ")
		require.Contains(t, first, "\nAssistant: I look.\nAssistant: answer 1")
		require.NotContains(t, first, "Tool")
		tools := say("/subagents log alpha 500 tools")
		require.Contains(t, tools, "\nTool: calls read {\"token\":\"")
		require.Contains(t, tools, "\nTool: the file\n")
		require.NotContains(t, tools, "klmnopqrst")
		for i := range 30 {
			_, err := child.Post(h.Context(), agent.Incoming{Text: fmt.Sprint("question ", i)})
			require.NoError(t, err)
			h.Pass(time.Minute)
		}
		some := say("/subagents log 1")
		require.Contains(t, some, "(there are earlier messages)")
		require.Len(t, strings.Split(some, "\n"), 22)
		require.True(t, strings.HasSuffix(some, "Assistant: answer 31"))
		require.Len(t, strings.Split(say("/subagents log 1 2"), "\n"), 4)
		all := say("/subagents log 1 200")
		require.NotContains(t, all, "earlier")
		require.Contains(t, all, "question 0")
		require.Contains(t, say("/subagents log 2"), "is not a sub-agent")
		_, err = h.Session(key).Spawn(h.Context(), agent.Task{Text: "look", Label: "beta"})
		require.NoError(t, err)
		h.Pass(time.Second)
		require.Equal(t, some, say("/subagents log 2"), "the number is no limit")
	})
}

// What is known of a sub-agent, and for what it waits.
func TestInfo(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		alpha := b.spawn(general, "alpha", "nest")
		b.spawn(general, "bad", "fail at once")
		info := b.say(general, "ann", "/subagents info alpha")
		for _, want := range []string{
			"Status: waiting\nWaits for: 1 sub-agent\nLabel: alpha\nTask: nest\nAgent: main\n",
			"Run: " + string(alpha.ID) + "\nSession: " + alpha.Key.String() + "\n",
			"SessionId: " + alpha.SessionID + "\n", "Runtime: 1s\nTurns: 1\n",
			"Created: 2000-01-01T00:00:01Z (1s ago)\nStarted: 2000-01-01T00:00:01Z (1s ago)\n",
			"Cleanup: keep",
		} {
			require.Contains(t, info, want)
		}
		require.NotContains(t, info, "Outcome")
		require.NotContains(t, info, "Ended")
		bad := b.say(general, "ann", "/subagents info bad")
		require.Contains(t, bad, "Status: failed\nLabel: bad\n")
		require.Contains(t, bad, "Ended: 2000-01-01T00:00:02Z (now)\n")
		require.Contains(t, bad, "Outcome: failed: ")
		b.say(general, "ann", "/stop")
	})
}

// A message to a sub-agent begins another run of it if it has ended, and its answer is told.
func TestSend(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		b.spawn(general, "done", "say it")
		b.spawn(general, "busy", "work")
		require.Equal(t, "done heard how\n", b.say(general, "ann", "/subagents send done how")+"\n")
		require.True(t, b.last.(command.Sent).Began)
		require.Contains(t, b.say(general, "ann", "/subagents send done again"), "one message in 2 seconds")
		b.Pass(2 * time.Second)
		_, ok := b.handler().Handle(b.Context(), b.key(general), agent.Incoming{
			ID: "early", Text: "/subagents send done x", Route: general, At: time.Unix(-1e11, 0),
			From: session.Sender{ID: "ann"},
		})
		require.True(t, ok, "a message that is refused does not count")
		id := "the same"
		require.Contains(t, b.sayAs(general, "ann", "/subagents send done twice", id), "heard twice")
		run := b.last.(command.Sent).Run
		b.Pass(time.Minute)
		require.Contains(t, b.sayAs(general, "ann", "/subagents send done twice", id), "heard twice")
		require.Equal(t, run, b.last.(command.Sent).Run, "a message that is repeated is sent once")
		begin := time.Now()
		require.Regexp(t, `^busy is still running \(run [0-9a-f]{8}\)\.$`,
			b.say(general, "ann", "/subagents send busy hurry up"))
		require.Equal(t, command.DefaultWait, time.Since(begin))
		b.Pass(time.Minute)
		require.Regexp(t, `^error: failed: `, b.say(general, "ann", "/subagents send done fail now"))
		require.Contains(t, b.say(general, "ann", "/subagents send nothing x"), "is not a sub-agent")
		b.say(general, "ann", "/stop")
	})
}

func TestSteer(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		b.spawn(general, "done", "say it")
		b.spawn(general, "busy", "work")
		require.Regexp(t, `^steered busy \(run [0-9a-f]{8}\)\.$`,
			b.say(general, "ann", "/steer busy look left"))
		require.Contains(t, b.say(general, "ann", "/tell busy look right"), "one message in 2 seconds")
		b.Pass(2 * time.Second)
		require.Contains(t, b.say(general, "ann", "/tell 1 look right"), "steered busy")
		require.Equal(t, "That sub-agent is already finished.",
			b.say(general, "ann", "/subagents steer done x"))
		require.NotContains(t, b.say(general, "ann", "/subagents info busy"), "Not read")
		b.say(general, "ann", "/stop")
		b.Pass(time.Minute)
		require.Contains(t, b.say(general, "ann", "/subagents info busy"),
			"Not read: 2 steers, too late")
	})
}

// A steer that the transport hands over again is given once, and answered as the first time,
// however soon it comes, after the end of the run, and by a process that knows nothing of the first
// one.
func TestSteerAgain(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		busy := b.spawn(general, "busy", "work")
		same := func() {
			for _, said := range []string{
				"/steer busy look left", "/tell busy look left", "/subagents steer busy look left",
			} {
				require.Contains(t, b.sayAs(general, "ann", said, "m1"), "steered busy")
			}
			b.rt = nil // the next handler remembers nothing
		}
		same()
		same()
		b.Pass(3 * time.Second)
		same()
		b.say(general, "ann", "/kill busy")
		same()
		info, err := b.Session(busy.Key).FindRun(b.Context(), busy.ID)
		require.NoError(t, err)
		require.Equal(t, 1, info.Missed)
	})
}

// What a person has started by hand ends with one update to the chat, and no turn of the session.
func TestSpawn(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general, other := room(b), b.chat.At("other", "")
		said := b.say(general, "ann", "/subagents spawn beta say\n this --model a/b --thinking low")
		require.Regexp(t, `^Spawned subagent beta \(session agent:beta:subagent:[0-9a-f-]+, run [0-9a-f]{8}\)\.`, said)
		b.Pass(time.Minute)
		require.Equal(t, []string{"say this is done.\n\nheard  this"}, b.chat.Said(general))
		require.Empty(t, b.chat.Said(other))
		run := b.Runs()[0]
		require.Equal(t, "a/b", run.Model.Requested)
		require.Equal(t, "low", run.Thinking)
		require.Equal(t, "say\n this", run.Task)
		require.Contains(t, b.say(general, "ann", "/subagents spawn gamma x"), "refused by the rule")
		require.Contains(t, b.say(general, "ann", "/subagents spawn"), "Usage: /subagents spawn")
		b.sayAs(general, "ann", "/subagents spawn beta once", "7")
		b.sayAs(general, "ann", "/subagents spawn beta once", "7")
		b.Pass(time.Minute)
		require.Len(t, b.Runs(), 2, "a message that is repeated starts one sub-agent")
	})
}

// A session that the caller runs is told of the end by Deliver where nothing speaks to people, and
// its program is told to end its own loop.
func TestSessionOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 1)
		rt, err := agent.Open(t.Context(), agent.Config{
			Runner: worker, Deliver: func(_ context.Context, d agent.Delivery) error {
				told <- d.Completion.Run.Result.Text
				return nil
			},
		})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- rt.Run(t.Context()) }()
		key := session.Must(session.DirectKey("main", "irc", "ann"))
		handler, err := command.New(rt, command.Options{})
		require.NoError(t, err)
		say := func(said string) command.Answer {
			a, ok := handler.Handle(t.Context(), key, agent.Incoming{Text: said})
			require.True(t, ok, said)
			return a
		}
		_, spawned := say("/subagents spawn main say it").(command.Spawned)
		require.True(t, spawned)
		require.Contains(t, <-told, "say it")
		say("/subagents spawn main work")
		time.Sleep(time.Second)
		require.Equal(t, command.Stopped{AbortRequester: true, Runs: 1}, say("please stop!!"))
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-ended)
	})
}

// Stop ends the session's turn and all below it, and reset begins a new conversation, which
// sub-agents that are at work prevent.
func TestStopAndReset(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		require.Equal(t, "Agent was aborted.", b.say(general, "ann", "/stop"))
		_, err := b.chat.Write(b.Context(), b.Runtime(), general, "ann", "hi")
		require.NoError(t, err)
		b.spawn(general, "alpha", "nest")
		require.Contains(t, b.say(general, "ann", "/new"), "Sub-agents of this conversation are at work")
		require.Equal(t, "Agent was aborted. Stopped 2 sub-agents.", b.say(general, "ann", "please stop!!"))
		require.Equal(t, "A new conversation has begun.", b.say(general, "ann", "/reset"))
		require.Equal(t, "A new conversation has begun.", b.say(general, "ann", "/new Who are you?"))
		b.Pass(time.Minute)
		require.Equal(t, []string{"Hello.", "Hello."}, b.allReplies())
		page, err := b.Session(b.key(general)).History(b.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.Equal(t, "Who are you?", page.Lines[0].Message.Text)
		require.Contains(t, b.say(general, "ann", "/compact"), "cannot be done here")
	})
}

// A command that the transport hands over again does nothing twice: the conversation that a reset
// has begun stays, also after a crash, and what was begun since is not stopped.
func TestCommandsAgain(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		lines := func() (said []string) {
			page, err := b.Session(b.key(general)).History(b.Context(), agent.HistoryQuery{})
			require.NoError(t, err)
			for _, line := range page.Lines {
				if line.Message.Role == session.MessageUser {
					said = append(said, line.Message.Text)
				}
			}
			return said
		}
		for i, said := range []string{"/new Let us plan a trip", "/new", "/reset Hi", "/reset"} {
			b.say(general, "ann", said[:4]+" ")
			want := b.sayAs(general, "ann", said, fmt.Sprint("n", i))
			_, err := b.chat.Write(b.Context(), b.Runtime(), general, "ann", "to Rome")
			require.NoError(t, err)
			b.Pass(time.Minute)
			kept := lines()
			require.Contains(t, strings.Join(kept, " "), "to Rome", said)
			for range 2 {
				require.Equal(t, want, b.sayAs(general, "ann", said, fmt.Sprint("n", i)))
				b.Pass(time.Minute)
				require.Equal(t, kept, lines(), said)
				b.Crash()
			}
		}
		require.NotEmpty(t, b.say(general, "ann", "/new"))
		require.Empty(t, lines(), "another message begins another conversation")

		one := b.spawn(general, "one", "work")
		killed := b.sayAs(general, "ann", "/kill last", "k")
		two := b.spawn(general, "two", "work")
		require.Equal(t, killed, b.sayAs(general, "ann", "/kill last", "k"))
		require.Equal(t, agent.StatusCancelled, b.status(one))
		require.Equal(t, agent.StatusRunning, b.status(two))
		stopped := b.sayAs(general, "ann", "/stop", "s")
		three := b.spawn(general, "three", "work")
		require.Equal(t, stopped, b.sayAs(general, "ann", "/stop", "s"))
		require.Equal(t, agent.StatusRunning, b.status(three))
		require.Equal(t, "Agent was aborted. Stopped 1 sub-agent.", b.say(general, "ann", "/stop"))
	})
}

func (b *bot) allReplies() (texts []string) {
	for _, d := range b.Replies() {
		texts = append(texts, d.Reply.Text)
	}
	return texts
}

// Who may not is told so in one sentence, whatever the command, and nothing is done.
func TestAuthorize(t *testing.T) {
	opt := command.Options{Authorize: func(_ context.Context, r command.Request) error {
		switch r.Message.From.ID {
		case "eve":
			return errors.New("eve is a stranger")
		case "mallory":
			panic("mallory")
		}
		return nil
	}}
	play(t, opt, func(b *bot) {
		general := room(b)
		alpha := b.spawn(general, "alpha", "work")
		for _, who := range []string{"eve", "mallory"} {
			for said, name := range map[string]string{
				"/kill all": "/kill", "/kill": "/kill", "/subagents stop 1": "/subagents stop",
				"/Subagents KILL 1": "/subagents kill", "/tell 1 x": "/tell", "/steer: 1 x": "/steer",
				"/reset": "/reset", "/subagents steer 1 x": "/subagents steer", "/subagents": "/subagents list",
				"/stop": "/stop", "/focus alpha": "/focus", "/new": "/new", "/session idle x": "/session idle",
			} {
				require.Equal(t, "You may not use "+name+" here.", b.say(general, who, said))
				require.Error(t, b.last.(command.Denied).Err)
			}
			require.Equal(t, message, b.say(general, who, "please stop"), "it is a message like any other")
		}
		require.Equal(t, agent.StatusRunning, b.status(alpha))
		require.Equal(t, "Agent was aborted. Stopped 1 sub-agent.", b.say(general, "ann", "please stop"))
	})
}

// The answer of a function of the Options is never missed for the end of its ctx.
func TestAuthorizeIsHeard(t *testing.T) {
	opt := command.Options{
		Authorize: func(context.Context, command.Request) error { return nil },
	}
	play(t, opt, func(b *bot) {
		general := room(b)
		for range 3000 {
			require.NotContains(t, b.say(general, "ann", "/subagents list"), "You may not")
		}
	})
}

// A function of the Options that hangs means no after Wait, or when ctx ends.
func TestAuthorizeThatHangs(t *testing.T) {
	var goOn chan struct{}
	hang := func() { <-goOn }
	var asked atomic.Int64
	opt := command.Options{
		Wait: 3 * time.Second,
		Authorize: func(_ context.Context, r command.Request) error {
			if r.Message.From.ID == "eve" {
				hang()
			}
			return nil
		},
		Reach: func(context.Context, command.Request, session.Key) error {
			asked.Add(1)
			hang()
			return nil
		},
	}
	play(t, opt, func(b *bot) {
		goOn = make(chan struct{}) // of the bubble
		defer func() { close(goOn) }()
		general, other := room(b), room(b)
		other.To = "other"
		b.write(other, "ann", "hello")
		b.spawn(general, "alpha", "work")
		for said, name := range map[string]string{
			"/kill all": "/kill", "/subagents": "/subagents list", "/session idle x": "/session idle",
		} {
			began := time.Now()
			answer := b.say(general, "eve", said)
			require.Equal(t, opt.Wait, time.Since(began), said)
			require.Contains(t, answer, name)
			require.Error(t, b.last.(command.Denied).Err)
		}
		ctx, done := context.WithTimeout(b.Context(), time.Second)
		defer done()
		began := time.Now()
		_, err := b.handler().Do(ctx, command.Request{
			Session: b.key(general), Command: command.List{}, Message: agent.Incoming{
				Text: "/subagents", Route: general, From: session.Sender{ID: "eve"},
			},
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		began = time.Now()
		answer := b.say(general, "ann", "/focus "+b.key(other).String())
		require.Contains(t, answer, "is not a sub-agent of this conversation")
		require.Positive(t, asked.Load())
		require.Equal(t, time.Duration(asked.Load())*opt.Wait, time.Since(began))
	})
}

// A person whose id Post refuses, since it would pass for that of another, gives no command.
func TestPersonWhoPassesForAnother(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		alpha := b.spawn(general, "alpha", "work")
		for _, who := range []string{"a\u200bnn", "ann ", "\u202eann", "ann\n"} {
			for _, said := range []string{
				"/kill all", "/subagents spawn beta x", "/steer 1 x", "/subagents", "/stop",
				"/subagents send 1 x", "/focus 1", "please stop",
			} {
				require.Equal(t, "That cannot be done here.", b.say(general, who, said), "%q", said)
				bad, ok := errors.AsType[*agent.InputError](b.last.(command.Failed).Err)
				require.True(t, ok)
				require.Equal(t, "Request.Message.From.ID", bad.Field)
			}
			_, err := b.Session(b.key(general)).Spawn(b.Context(), agent.Task{
				Text: "x", Senders: []policy.Sender{{ID: who, Channel: "discord"}},
			})
			bad, ok := errors.AsType[*agent.InputError](err)
			require.True(t, ok, "%v", err)
			require.Contains(t, bad.Field, "enders[0].ID")
		}
		require.Equal(t, agent.StatusRunning, b.status(alpha))
		runs, err := b.Session(b.key(general)).Tree(b.Context())
		require.NoError(t, err)
		require.Len(t, runs, 1)
	})
}

// A spawn that was edited, and comes under the ID that it had, says what to do.
func TestSpawnThatWasEdited(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		b.say(general, "ann", "hello")
		first := b.sayAs(general, "ann", "/subagents spawn beta work", "e")
		require.Equal(t, first, b.sayAs(general, "ann", "/subagents spawn beta work", "e"))
		for _, said := range []string{
			"/subagents spawn beta work hard", "/subagents spawn beta --thinking high work",
			"/subagents spawn main work",
		} {
			require.Equal(t,
				"That message was done already, as it was said first. Say it in a new one.",
				b.sayAs(general, "ann", said, "e"))
		}
		b.say(general, "ann", "/stop")
	})
}

// Do refuses what Parse would not have made, and a request that cannot be.
func TestDoMistakes(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		key := b.key(general)
		b.spawn(general, "alpha", "say it")
		long := strings.Repeat("x", 4001)
		for _, r := range []command.Request{
			{Session: key},
			{Command: command.List{}},
			{Session: key, Command: command.Log{Target: "1", Limit: 201}},
			{Session: key, Command: command.Log{Target: "1", Limit: -1}},
			{Session: key, Command: command.Send{Target: "1"}},
			{Session: key, Command: command.Send{Target: "1", Text: long}},
			{Session: key, Command: command.Steer{Target: "1", Text: long}},
			{Session: key, Command: command.Spawn{Agent: "beta"}},
			{Session: key, Command: command.Kill{}},
			{Session: key, Command: &command.Kill{Target: "all"}},
			{Session: key, Command: command.Limit{Kind: 7}},
			{Session: key, Command: command.Limit{Set: true, Value: -1}},
		} {
			_, err := b.handler().Do(b.Context(), r)
			require.Error(t, err, "%+v", r)
			require.NotEmpty(t, command.Failed{Err: err}.Text())
		}
		help := command.Request{Session: key, Command: command.Help{}}
		a, err := b.handler().Do(b.Context(), help)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(a.Text(), "Commands:"))
		require.Contains(t, b.say(general, "ann", "/subagents foo"), "\"foo\" is not an action.")
	})
	_, err := command.New(nil, command.Options{})
	require.ErrorContains(t, err, "Runtime")
}

// Many people give commands at the same time.
func TestCommandsAtTheSameTime(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		for i := range 5 {
			b.spawn(general, fmt.Sprint("job ", i), "work")
		}
		h := b.handler()
		var work sync.WaitGroup
		for i := range 50 {
			work.Go(func() {
				said := [...]string{
					"/subagents", "/kill job 1", "/subagents info last", "/steer 1 x",
					"/subagents send 2 x", "/agents", "/subagents log 1", "please stop",
				}[i%8]
				m := agent.Incoming{
					Text: said, Route: general, From: session.Sender{ID: fmt.Sprint("p", i)},
				}
				a, ok := h.Handle(b.Context(), b.key(general), m)
				if !ok || a.Text() == "" {
					t.Errorf("%q: %v %v", said, a, ok)
				}
			})
		}
		work.Wait()
		require.Equal(t, "No sub-agents are active.", b.say(general, "ann", "/kill all"))
	})
}

func TestOptions(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		for field, o := range map[string]command.Options{
			"Options.Wait":              {Wait: -1},
			"Options.Syntax.Bot":        {Syntax: command.Syntax{Bot: "@me"}},
			"Options.Syntax.Phrases[1]": {Syntax: command.Syntax{Phrases: []string{"x", "!"}}},
		} {
			_, err := command.New(b.Runtime(), o)
			var bad *command.OptionError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, field, bad.Field)
		}
	})
}

// Owners let an owner give commands, and refuse another person, of whom nothing is done.
func TestOwnersGiveCommands(t *testing.T) {
	cfg := agent.Config{Runner: worker, Rules: policy.Rules{Owners: []policy.Person{{ID: "ann"}}}}
	playOf(t, cfg, command.Options{}, func(b *bot) {
		b.opt.Authorize = command.Owners(b.Runtime())
		general := room(b)
		b.say(general, "bob", "/subagents spawn beta work")
		denied, ok := b.last.(command.Denied)
		require.True(t, ok, "%#v", b.last)
		require.ErrorIs(t, denied.Err, command.ErrNotOwner)
		b.say(general, "ann", "/subagents list")
		require.IsType(t, command.Listed{}, b.last)
		require.Empty(t, b.last.(command.Listed).Active, "bob's command did nothing")
	})
}

// A compact makes the conversation shorter, and says so.
func TestCompactIsAnswered(t *testing.T) {
	summed := 0
	cfg := agent.Config{Runner: worker}
	cfg.Models.Window = func(string) agent.Window {
		return agent.Window{Tokens: 100_000, Keep: 2, Compact: func(
			context.Context, agent.CompactRequest,
		) (string, error) {
			summed++
			return "There was much talk.", nil
		}}
	}
	playOf(t, cfg, command.Options{}, func(b *bot) {
		general := room(b)
		for i := range 10 {
			b.PostIncoming(b.key(general), agent.Incoming{
				ID: fmt.Sprint(i), Text: strings.Repeat("Tell me more. ", 80), Route: general,
			})
			b.Pass(time.Minute)
		}
		require.Zero(t, summed)
		require.Equal(t, "The conversation was made shorter.", b.say(general, "ann", "/compact"))
		require.Equal(t, command.Compacted{}, b.last)
		require.Equal(t, 1, summed)
	})
}

// An info says for whom a sub-agent works, where the rules have it depend on who speaks.
func TestInfoSaysForWhom(t *testing.T) {
	cfg := agent.Config{Runner: worker, Rules: policy.Rules{
		Owners: []policy.Person{{ID: "ann"}},
	}}
	cfg.Redact.Secrets = []string{"hunter2-hunter2"}
	playOf(t, cfg, command.Options{}, func(b *bot) {
		general := room(b)
		info := func() []string {
			said := b.say(general, "ann", "/subagents info last")
			list := b.last.(command.Described).For
			require.Equal(t, len(list) > 0, strings.Contains(said+"\n", "\nFor: "+strings.Join(list, ", ")+"\n"))
			return list
		}
		b.spawn(general, "alpha", "work")
		require.Empty(t, info(), "the program has asked for it")
		b.Pass(time.Second)
		b.say(general, "bob", "/subagents spawn beta rest")
		require.Equal(t, []string{"discord bob"}, info())
		b.Pass(time.Second)
		b.say(general, "ann", "/subagents send last more")
		require.Equal(t, []string{"discord bob", "discord ann"}, info(), "another run")
		b.Pass(time.Second)
		b.say(general, "hunter2-hunter2", "/subagents spawn main work")
		require.NotContains(t, info()[0], "hunter2-hunter2", "it is masked as all that is shown")
		b.Pass(time.Second)
		b.say(general, "", "/subagents spawn main work")
		require.Equal(t, []string{"discord a person without an ID"}, info())
		b.Pass(time.Second)
		many := make([]policy.Sender, policy.MaxSenders+1)
		for i := range many {
			many[i] = policy.Sender{ID: fmt.Sprint(i), Channel: "irc"}
		}
		_, err := b.Session(b.key(general)).Spawn(b.Context(),
			agent.Task{Text: "work", Senders: many})
		require.NoError(t, err)
		require.Equal(t, []string{"irc more people than are kept"}, info())
		b.say(general, "ann", "/stop")
	})
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		b.say(general, "bob", "/subagents spawn beta work")
		said := b.say(general, "ann", "/subagents info last")
		require.Contains(t, said+"\n", "\nFor: discord bob\n", "also where no rule asks")
		b.say(general, "ann", "/stop")
	})
}

// An info names the tools that a stranger's sub-agent has not been granted for who spoke, and none
// of an owner's.
func TestInfoNamesWithheldTools(t *testing.T) {
	cfg := agent.Config{Runner: worker, Rules: policy.Rules{
		Owners: []policy.Person{{ID: "ann"}}, DefaultDeny: []string{}, OwnerOnly: []string{"deploy"},
	}, Tools: []agent.Tool{agent.NewTool("deploy", "deploy",
		func(context.Context, struct{}) (string, error) { return "", nil })}}
	playOf(t, cfg, command.Options{}, func(b *bot) {
		general := room(b)
		b.say(general, "bob", "/subagents spawn beta work")
		require.Contains(t, b.say(general, "ann", "/subagents info last"),
			"\nWithheld for who speaks: deploy")
		b.Pass(time.Second)
		b.say(general, "ann", "/subagents spawn beta work")
		require.NotContains(t, b.say(general, "ann", "/subagents info last"), "Withheld")
		b.say(general, "ann", "/stop")
	})
}

// placedTranscripts are transcripts that have a path.
type placedTranscripts struct{ session.Transcripts }

func (placedTranscripts) Locate(ref session.Ref) string {
	return "state/sessions/" + ref.SessionID + ".jsonl"
}

// info shows where the transcript of the run is that is meant, if the Store has paths.
func TestInfoHasTheTranscript(t *testing.T) {
	for _, has := range []bool{true, false} {
		store := session.NewMemory()
		if has {
			store.Transcripts = placedTranscripts{store.Transcripts}
		}
		playOf(t, agent.Config{Runner: worker, Store: store}, command.Options{}, func(b *bot) {
			general := room(b)
			first := b.spawn(general, "first", "say it")
			b.spawn(general, "second", "say it")
			said := b.say(general, "ann", "/subagents info first")
			path := "state/sessions/" + first.SessionID + ".jsonl"
			require.Equal(t, has, strings.Contains(said, "\nTranscript: "+path+"\n"), said)
			require.Equal(t, has, b.last.(command.Described).Transcript == path)
			require.Equal(t, has, strings.Contains(said, "Transcript"))
		})
	}
}

// A talkativeJournal takes nothing once it is told to, and says what it must not.
type talkativeJournal struct {
	session.Journal

	fails atomic.Bool
}

func (j *talkativeJournal) Append(
	ctx context.Context, root session.Key, last session.Seq, batch session.Batch,
) (session.Seq, error) {
	if j.fails.Load() {
		return 0, errors.New("dial postgres://bot:k3J9x8Qp2zz@db/x refused")
	}
	return j.Journal.Append(ctx, root, last, batch)
}

// What a store says is masked in the errors of commands, which are for the log.
func TestErrorsOfTheStoreAreMasked(t *testing.T) {
	store := session.NewMemory()
	journal := &talkativeJournal{Journal: store.Journal}
	store.Journal = journal
	playOf(t, agent.Config{Runner: worker, Store: store}, command.Options{}, func(b *bot) {
		general := room(b)
		b.spawn(general, "first", "say it")
		journal.fails.Store(true)
		_, err := b.handler().Do(b.Context(), command.Request{
			Session: b.key(general), Command: command.Send{Target: "1", Text: "more"},
		})
		require.ErrorIs(t, err, spawn.ErrNotRecorded)
		require.ErrorContains(t, err, "dial postgres")
		require.NotContains(t, err.Error(), "k3J9x8Qp2zz")
		b.say(general, "ann", "/subagents send 1 more")
		failed, ok := b.last.(command.Failed)
		require.True(t, ok)
		require.NotContains(t, failed.Err.Error(), "k3J9x8Qp2zz")
		journal.fails.Store(false)
	})
}

// info shows all that is known of a run, while it is at work and after its end, in the text and in
// the structured reply.
func TestInfoShowsAll(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(func(
		ctx context.Context, tn *agent.Turn,
	) (agent.Result, error) {
		out, err := worker(ctx, tn)
		out.Usage = agent.Usage{Input: 1200, Output: 300, Cost: 0.25}
		return out, err
	})}
	playOf(t, cfg, command.Options{}, func(b *bot) {
		general := room(b)
		begun := time.Now().UTC()
		child, err := b.Session(b.key(general)).Spawn(b.Context(), agent.Task{
			Text: "nest", Label: "alpha", Name: "alpha_1", Agent: "beta", Model: "acme/small",
			Thinking: "high", Timeout: time.Hour, Cleanup: agent.CleanupDelete,
		})
		require.NoError(t, err)
		b.Pass(10 * time.Second)
		run, err := child.Info(b.Context())
		require.NoError(t, err)
		said := b.say(general, "ann", "/subagents info alpha")
		for _, want := range []string{
			"Status: waiting\nWaits for: 1 sub-agent\nLabel: alpha\nName: alpha_1\nTask: nest\n" +
				"Agent: beta\nModel: acme/small\nThinking: high\nRun: " + string(run.ID) + "\n" +
				"Session: " + run.Key.String() + "\nSessionId: " + run.SessionID + "\n" +
				"Runtime: 10s\nTurns: 1\n",
			"Cost: $0.25\n", "(10s ago)\n",
			"\nDeadline: 2000-01-01T01:00:00Z (in 59m50s)\nCleanup: delete",
		} {
			require.Contains(t, said, want)
		}
		require.NotContains(t, said, "Ended")
		require.NotContains(t, said, "Outcome")
		require.Contains(t, b.say(general, "ann", "/subagents"),
			". alpha, alpha_1 (acme/small, 10s, 1.5k tokens) waiting - nest\n")
		b.say(general, "ann", "/subagents info alpha")
		got := b.last.(command.Described)
		got.Now = got.Now.UTC()
		require.Equal(t, command.Described{
			Row: got.Row, Task: "nest", SessionID: run.SessionID, Created: begun, Started: begun,
			Deadline: begun.Add(time.Hour), Now: begun.Add(10 * time.Second),
			Cleanup: agent.CleanupDelete, Waits: "1 sub-agent", Thinking: "high", Turns: 1,
			Cost: 0.25,
		}, got)
		require.Equal(t, command.Row{
			Run: run.ID, Session: run.Key, Label: "alpha", Name: "alpha_1", Task: "nest",
			Agent: "beta", Status: agent.StatusWaiting, Model: "acme/small",
			Elapsed: 10 * time.Second, Tokens: 1500,
		}, got.Row)

		b.spawn(general, "gamma", "say it")
		said = b.say(general, "ann", "/subagents info gamma")
		got = b.last.(command.Described)
		require.Equal(t, agent.StatusOK, got.Row.Status)
		require.Equal(t, "ok", got.Outcome)
		require.Equal(t, agent.CleanupKeep, got.Cleanup)
		require.True(t, got.Ended.Equal(got.Now))
		require.Empty(t, got.Waits)
		require.Zero(t, got.Deadline)
		require.Contains(t, said, "\nCleanup: keep\nOutcome: ok")
		require.NotContains(t, said, "Deadline")
		b.say(general, "ann", "/stop")
	})
}

// What a person has said, and what a model has chosen, is masked in the answers to commands before
// it is cut, wherever in a secret a cut would be.
func TestAnswersMaskSecrets(t *testing.T) {
	for _, secret := range []string{
		"ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "QwErTyUiOpAsDfGh-1234567890",
	} {
		for _, before := range []int{0, 40, 60, 76, 92, 105, 190} {
			word := strings.Repeat("x", before) + "/" + secret
			label := word[max(0, len(word)-200):]
			cfg := agent.Config{Runner: worker}
			cfg.Redact = announce.Redaction{Secrets: []string{"QwErTyUiOpAsDfGh-1234567890"}}
			playBy(t, cfg, command.Options{}, func(b *bot) {
				general := room(b)
				b.say(general, "ann", "hello")
				for range 2 {
					_, err := b.Session(b.key(general)).Spawn(b.Context(), agent.Task{
						Text: "work " + word, Label: label, Model: label,
					})
					require.NoError(t, err)
				}
				for _, said := range []string{
					"/kill " + word, "/focus " + word, "/kill " + label, "/subagents " + word,
					"/session idle " + word, "/stop " + word, `/kill "` + word,
					"/subagents log 1 " + word, "/subagents info " + word + " more",
					"/subagents spawn " + word + " work", "/subagents info 1", "/subagents list",
					"/subagents spawn main work --model " + word, "/agents",
					"/subagents spawn main work --thinking " + word,
				} {
					answer := b.say(general, "ann", said)
					texts := []string{answer}
					if failed, ok := b.last.(command.Failed); ok {
						texts = append(texts, failed.Err.Error())
					}
					for _, text := range texts {
						requireNoPart(t, secret, text, said)
					}
				}
				require.NoError(t, b.Session(b.key(general)).Stop(b.Context()))
			})
		}
	}
}

// A secret of several words is masked where a command tears it into a target and a message, too.
func TestAnswersMaskSecretsOfSeveralWords(t *testing.T) {
	const secret = "Correct horse-battery 9staple"
	cfg := agent.Config{Runner: worker}
	cfg.Redact = announce.Redaction{Secrets: []string{secret}}
	playBy(t, cfg, command.Options{}, func(b *bot) {
		general := room(b)
		b.say(general, "ann", "hello")
		for _, said := range []string{
			"/kill " + secret, "/steer " + secret, "/steer " + secret + " hello",
			"/subagents " + secret, "/subagents send " + secret + " hello", "/focus " + secret,
			"/subagents log 1 " + secret, "/subagents info x " + secret, "/session " + secret,
			"/session idle " + secret, "/stop " + secret, "/agents " + secret, `/kill "` + secret,
			"/subagents spawn " + secret + " work", "/subagents spawn main x --model " + secret,
			"/subagents spawn main --thinking " + secret, "/subagents log " + secret + " tools 5",
			"/subagents spawn main --model " + secret + " do it", "/subagents spawn main --model=" + secret,
			"/subagents spawn main do it --thinking high --model " + secret,
			"/subagents spawn main --model " + secret + " --thinking low do it",
			"/subagents spawn main do it --model acme/" + secret,
			"/subagents info 1", "/subagents list", "/subagents log 1",
		} {
			texts := []string{b.say(general, "ann", said)}
			if failed, ok := b.last.(command.Failed); ok {
				texts = append(texts, failed.Err.Error())
			}
			for _, text := range texts {
				for word := range strings.FieldsSeq(strings.ToLower(secret)) {
					require.NotContains(t, strings.ToLower(text), word, said)
				}
			}
		}
		require.Contains(t, b.say(general, "ann", "/kill nobody"), "nobody")
		require.NoError(t, b.Session(b.key(general)).Stop(b.Context()))
	})
}

// requireNoPart requires that no part of a secret is in a text, in any case.
func requireNoPart(t *testing.T, secret, text, said string) {
	t.Helper()
	const part = 8
	for i := range len(secret) - part + 1 {
		require.NotContains(t, strings.ToLower(text), strings.ToLower(secret[i:i+part]), said)
	}
}

// Why a person may not is for the log, masked as the answers are: of a refusal, of a panic, and of
// a line without a command.
func TestDeniedIsMasked(t *testing.T) {
	cfg := agent.Config{Runner: worker}
	cfg.Redact.Secrets = []string{"correct horse battery"}
	opt := command.Options{Authorize: func(_ context.Context, r command.Request) error {
		if r.Message.From.ID == "mallory" {
			panic("boom correct horse battery")
		}
		return errors.New("no correct horse battery")
	}}
	playOf(t, cfg, opt, func(b *bot) {
		for _, who := range []string{"eve", "mallory"} {
			for _, said := range []string{"/kill all", "/stop", "/subagents nonsense"} {
				b.say(room(b), who, said)
				err := b.last.(command.Denied).Err
				require.NotContains(t, err.Error(), "horse", "%s", said)
				require.Contains(t, err.Error(), "***", "%s", said)
			}
		}
	})
}
