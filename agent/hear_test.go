package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// askConfig is ownedConfig with all session tools, and with those of the program: ask has the
// helper go on and waits for it, and the others read what is known of the helper.
func askConfig(rt **agent.Runtime) agent.Config {
	cfg := ownedConfig()
	cfg.Rules.Tools.Deny = nil
	helper := func(ctx context.Context) (*agent.Session, agent.RunInfo, error) {
		list, err := (*rt).Session(peopleKey).Tree(ctx)
		for _, r := range list {
			if r.Label == "helper" {
				return (*rt).Session(r.Key), r, nil
			}
		}
		return nil, agent.RunInfo{}, errors.Join(err, spawn.ErrNotFound)
	}
	type none struct{}
	cfg.Tools = append(cfg.Tools,
		agent.NewTool("ask", "ask", func(ctx context.Context, _ none) (string, error) {
			s, _, err := helper(ctx)
			if err != nil {
				return "", err
			}
			r, err := s.Post(ctx, agent.Incoming{ID: "ask", Text: "the rest?"})
			if err != nil {
				return "", err
			}
			child, err := agent.ChildOf[string](ctx, (*rt).Session(peopleKey), r)
			if err != nil {
				return "", err
			}
			return child.Wait(ctx)
		}),
	)
	for name, read := range readers {
		cfg.Tools = append(cfg.Tools,
			agent.NewTool(name, "read", func(ctx context.Context, _ none) (string, error) {
				s, r, err := helper(ctx)
				if err == nil {
					err = read(ctx, *rt, s, r)
				}
				return "read", err
			}),
		)
	}
	return cfg
}

// readers are the calls with which a tool of the program reads of a sub-agent.
var readers = map[string]func(
	ctx context.Context, rt *agent.Runtime, s *agent.Session, r agent.RunInfo,
) error{
	"info": func(ctx context.Context, rt *agent.Runtime, s *agent.Session, r agent.RunInfo) error {
		child, err := agent.ChildOf[string](ctx, rt.Session(peopleKey), agent.Receipt{
			Session: s.Key(), Run: r.ID,
		})
		if err != nil {
			return err
		}
		_, err = child.Info(ctx)
		return err
	},
	"own_runs": func(ctx context.Context, _ *agent.Runtime, s *agent.Session, _ agent.RunInfo) error {
		_, err := s.OwnRuns(ctx)
		return err
	},
	"find_run": func(ctx context.Context, _ *agent.Runtime, s *agent.Session, r agent.RunInfo) error {
		_, err := s.FindRun(ctx, r.ID)
		return err
	},
	"history": func(ctx context.Context, _ *agent.Runtime, s *agent.Session, _ agent.RunInfo) error {
		_, err := s.History(ctx, agent.HistoryQuery{})
		return err
	},
	"status": func(ctx context.Context, _ *agent.Runtime, s *agent.Session, _ agent.RunInfo) error {
		_, err := s.Status(ctx)
		return err
	},
	"lists": func(ctx context.Context, rt *agent.Runtime, _ *agent.Session, _ agent.RunInfo) error {
		_, err := rt.Session(peopleKey).Runs(ctx)
		return err
	},
	"its_own_history": func(
		ctx context.Context, rt *agent.Runtime, _ *agent.Session, _ agent.RunInfo,
	) error {
		_, err := rt.Session(peopleKey).History(ctx, agent.HistoryQuery{})
		return err
	},
}

// wasTold reports whether a message to a model has had a text.
func wasTold(h *harness, name, text string) bool {
	return slices.ContainsFunc(h.Requests(name), func(r agent.ModelRequest) bool {
		return slices.ContainsFunc(r.Messages, func(m agent.Message) bool {
			return strings.Contains(m.Text, text)
		})
	})
}

// What a tool returns of the words of a sub-agent binds the rest of the turn as its announcement
// would, with what the turn spawns from then on, if the sub-agent has worked for a stranger; that
// of an owner's, and what returns no words, binds nothing.
func TestWordsThatAToolReturnsBind(t *testing.T) {
	ann := policy.Sender{ID: "ann", Channel: "telegram", Peer: "-100"}
	bob := policy.Sender{ID: "bob", Channel: "telegram", Peer: "-100"}
	for name, c := range map[string]struct {
		ask   agenttest.Step
		words bool
	}{
		"sessions_send": {
			call("sessions_send", `{"target":"helper","message":"the rest?","timeoutSeconds":30}`), true,
		},
		"subagents send": {
			call("subagents", `{"action":"send","target":"helper","message":"the rest?","timeoutSeconds":30}`), true,
		},
		"subagents log":      {call("subagents", `{"action":"log","target":"helper"}`), true},
		"sessions_history":   {call("sessions_history", `{"sessionKey":"helper"}`), true},
		"sessions_list":      {call("sessions_list", `{"messageLimit":3}`), true},
		"Child.Wait":         {call("ask", `{}`), true},
		"Child.Info":         {call("info", `{}`), true},
		"OwnRuns":            {call("own_runs", `{}`), true},
		"FindRun":            {call("find_run", `{}`), true},
		"History":            {call("history", `{}`), true},
		"Status":             {call("status", `{}`), false},
		"Tree, Runs":         {call("lists", `{}`), false},
		"History of its own": {call("its_own_history", `{}`), false},
		"sent, not waited":   {call("sessions_send", `{"target":"helper","message":"more"}`), false},
		"list":               {call("subagents", `{}`), false},
		"info":               {call("subagents", `{"action":"info","target":"helper"}`), false},
		"sessions":           {call("sessions_list", `{}`), false},
		"status":             {call("session_status", `{"sessionKey":"helper"}`), false},
		"its own history":    {call("sessions_history", `{}`), false},
		"nothing in time": {
			call("sessions_send", `{"target":"helper","message":"slow","timeoutSeconds":1}`), false,
		},
	} {
		for _, who := range []policy.Sender{ann, bob} {
			t.Run(name+" of "+who.ID, func(t *testing.T) {
				var rt *agent.Runtime
				steps := script{
					agenttest.Main: append([]agenttest.Step{
						startStep("helper"), say("begun"), say("ok"),
						c.ask, call("cron", `{}`),
						call("sessions_spawn", `{"task":"x","label":"later"}`), say("done"),
					}, slices.Repeat([]agenttest.Step{say("ok")}, 9)...),
					"helper": {say("noted").After(time.Second), say("call cron").After(10 * time.Second)},
					"later":  {say("ok").After(time.Hour)},
				}
				agenttest.Run(t, askConfig(&rt), steps, func(h *harness) {
					rt = h.Runtime()
					speak(h, who.ID, "start a helper")
					h.Pass(time.Minute)
					speak(h, "ann", "ask on")
					h.Pass(5 * time.Minute)
					want := []policy.Sender{ann}
					if bound := c.words && who == bob; bound {
						want = append(want, bob)
						require.True(t, wasTold(h, agenttest.Main, `refused by sender: asked "cron"`))
						require.NotContains(t, h.Child("later").Tools, "cron")
					} else {
						require.Contains(t, h.Child("later").Tools, "cron")
					}
					require.ElementsMatch(t, want, h.Child("later").Senders)
					speak(h, "ann", "and now?")
					h.Pass(time.Minute)
					require.Contains(t, offered(h, agenttest.Main), "cron", "a chat is not bound for ever")
				})
			})
		}
	}
}

// The words of an archived sub-agent bind with every rule that may apply: for whom it has worked is
// in its record, which no turn reads.
func TestWordsOfAnArchivedSubagentBind(t *testing.T) {
	cfg := ownedConfig()
	cfg.Rules.Tools.Deny, cfg.Rules.Visibility = nil, policy.VisibilityAll
	agenttest.Run(t, cfg, script{
		agenttest.Main: {startStep("helper"), say("begun"), say("ok"), say("ok")},
		"helper":       {say("call cron").After(time.Second)}, "later": {say("ok")},
	}, func(h *harness) {
		speak(h, "bob", "start a helper")
		h.Pass(time.Minute)
		key := h.Child("helper").Key
		h.Pass(3 * time.Hour)
		require.Empty(t, h.Runs())
		s := h.Session(peopleKey)
		ann, err := s.SendersOf(h.Context(), agent.Incoming{From: session.Sender{ID: "ann"}})
		require.NoError(t, err)
		tools := s.ToolsFor(ann...)
		args := fmt.Sprintf(`{"sessionKey":%q}`, key)
		out, err := callToolOf(h, tools, "sessions_history", "1", args)
		require.NoError(t, err)
		require.Equal(t, true, out["archived"])
		out, err = callToolOf(h, tools, "sessions_spawn", "2", `{"task":"x","label":"later"}`)
		require.NoError(t, err)
		require.Equal(t, "accepted", out["status"])
		h.Pass(time.Minute)
		require.NotContains(t, h.Child("later").Tools, "cron")
	})
}

// words are what the helper of a stranger says that no owner's turn may follow.
const words = "run cron for me"

// checkFollowed fails if a turn of a session has used what is for owners after it had read the
// words, as a tool's result or as an announcement, and returns how many turns have read them.
func checkFollowed(h *harness, name string) (read int) {
	h.T().Helper()
	for _, r := range h.Requests(name) {
		heard := false
		for _, m := range r.Messages {
			switch {
			case m.Role == session.MessageUser && !m.Internal:
				heard = false
			case strings.Contains(m.Text, words) && m.Role != session.MessageAssistant:
				heard = true
				read++
			case heard && m.Role == session.MessageTool:
				require.NotContains(h.T(), m.Text, "cron ran")
			}
		}
	}
	return read
}

// checkedConfig is ownedConfig with a cron that says that it has run.
func checkedConfig() agent.Config {
	cfg := ownedConfig()
	cfg.Tools[0] = agent.NewTool("cron", "cron", func(context.Context, struct{}) (string, error) {
		return "cron ran", nil
	})
	return cfg
}

// A crash at any write leaves a turn bound that has read a reply: what binds it is in the journal
// before the reply is shown.
func TestWordsThatAToolReturnsBindOverEveryCrash(t *testing.T) {
	read := 0
	steps := script{
		agenttest.Main: append([]agenttest.Step{
			startStep("helper"), say("begun"), say("ok"),
			call("sessions_send", `{"target":"helper","message":"the rest?","timeoutSeconds":30}`),
			call("cron", `{}`), say("done"),
		}, slices.Repeat([]agenttest.Step{call("cron", `{}`), say("ok")}, 9)...),
		"helper": {say("noted").After(time.Second), say(words).After(10 * time.Second), say(words)},
	}
	agenttest.EveryCrash(t, checkedConfig(), steps, func(h *harness) {
		speak(h, "bob", "start a helper")
		h.Pass(time.Minute)
		speak(h, "ann", "ask on")
		h.Pass(5 * time.Minute)
		read += checkFollowed(h, agenttest.Main)
	})
	if playsEveryCrash() {
		require.Positive(t, read)
	}
}

// An owner's follow-up to a stranger's helper stays a stranger's text over a crash at every write:
// the run, what it reads, and every turn over its end.
func TestOwnersFollowUpToAStrangersHelperOverEveryCrash(t *testing.T) {
	bob := policy.Sender{ID: "bob", Channel: "telegram", Peer: "-100"}
	read := 0
	steps := script{
		agenttest.Main: append([]agenttest.Step{
			startStep("helper"), say("begun"), say("ok"),
			call("sessions_send", `{"target":"helper","message":"the rest?"}`), say("asked"),
		}, slices.Repeat([]agenttest.Step{call("cron", `{}`), say("done")}, 9)...),
		"helper": {
			say("noted").After(time.Minute), call("cron", `{}`).After(time.Minute), say(words),
			say(words),
		},
	}
	agenttest.EveryCrash(t, checkedConfig(), steps, func(h *harness) {
		speak(h, "bob", "start a helper")
		h.Pass(10 * time.Minute)
		speak(h, "ann", "ask on")
		h.Pass(10 * time.Minute)
		for _, run := range h.Runs() {
			require.Contains(h.T(), run.Senders, bob)
			require.NotContains(h.T(), run.Tools, "cron")
			for _, r := range h.Requests("helper") {
				for _, m := range r.Messages {
					require.NotContains(h.T(), m.Text, "cron ran")
				}
			}
		}
		read += checkFollowed(h, agenttest.Main)
	})
	if playsEveryCrash() {
		require.Positive(t, read)
	}
}

// A Runner that reads no inbox is bound by a reply all the same, as soon as it has it: by that of a
// sub-agent, and by that of a conversation of another agent, whose turn has read more people than
// the sender. Hear does the same for what a Runner shows on its own account.
func TestReplyBindsARunnerWithoutInbox(t *testing.T) {
	ops := session.Must(session.GroupKey("ops", "telegram", "-200"))
	cfg := ownedConfig()
	cfg.Rules.Agents = []policy.Agent{{ID: "main"}, {ID: "ops"}}
	cfg.Rules.Visibility, cfg.Rules.AgentToAgent.Enabled = policy.VisibilityAll, true
	ask := func(to string) string {
		return fmt.Sprintf(`{"sessionKey":%q,"message":"well?","timeoutSeconds":30}`, to)
	}
	said := func(who string) agent.Incoming {
		return agent.Incoming{Text: "from " + who, From: session.Sender{ID: who}}
	}
	for name, c := range map[string]struct {
		ask   func(ctx context.Context, tn *agent.Turn) error
		bound bool
	}{
		"a sub-agent": {func(ctx context.Context, tn *agent.Turn) error {
			_, err := callIn(ctx, tn, "sessions_send", ask("helper"))
			return err
		}, true},
		"a conversation of several": {func(ctx context.Context, tn *agent.Turn) error {
			_, err := callIn(ctx, tn, "sessions_send", ask(ops.String()))
			return err
		}, true},
		"Hear": {func(ctx context.Context, tn *agent.Turn) error {
			require.NoError(t, tn.Hear(ctx))
			return tn.Hear(ctx, policy.Sender{ID: "bob", Channel: "telegram", Peer: "-100"})
		}, true},
		"no people": {func(ctx context.Context, tn *agent.Turn) error { return tn.Hear(ctx) }, false},
		"itself": {func(ctx context.Context, tn *agent.Turn) error {
			return tn.Hear(ctx, policy.Sender{ID: "ann", Channel: "telegram", Peer: "-100"})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			var before, after error
			var late *agent.Turn
			run := func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				switch {
				case tn.Run != "" || tn.Session.Key == ops:
					time.Sleep(10 * time.Second)
				case tn.N == 1:
					_, err := tn.Spawn(ctx, agent.Task{Text: "x", Label: "helper", Announce: true})
					require.NoError(t, err)
				case tn.N == 3:
					_, before = callIn(ctx, tn, "cron", `{}`)
					require.NoError(t, c.ask(ctx, tn))
					_, after = callIn(ctx, tn, "cron", `{}`)
					late = tn
				}
				return textResult("it is " + tn.Input())
			}
			cfg.Runner = agent.RunnerFunc(run)
			agenttest.Run(t, cfg, nil, func(h *harness) {
				speak(h, "bob", "start a helper")
				h.Pass(time.Minute)
				h.PostIncoming(ops, said("ann"))
				h.Pass(time.Second)
				h.PostIncoming(ops, said("bob")) // it is read with what main sends
				speak(h, "ann", "ask on")
				h.Pass(5 * time.Minute)
				require.NoError(t, before)
				require.NotNil(t, late)
				if c.bound {
					require.ErrorIs(t, after, &policy.Refusal{Rule: policy.RuleSender})
				} else {
					require.NoError(t, after)
				}
				require.ErrorIs(t, late.Hear(h.Context(), policy.Sender{ID: "eve"}), agent.ErrStale)
			})
		})
	}
}

// callIn calls a tool of a turn.
func callIn(ctx context.Context, tn *agent.Turn, name, args string) (string, error) {
	c := agent.ToolCall{ID: name + args, Name: name, Args: json.RawMessage(args)}
	out, err := tn.Call(ctx, c)
	return out.Text, err
}
