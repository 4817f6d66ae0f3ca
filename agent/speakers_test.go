package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

var peopleKey = session.Must(session.GroupKey("main", "telegram", "-100"))

// unknownPerson is who says a message without an id and without a conversation.
var unknownPerson = []policy.Sender{{}}

// ownedConfig is a bot whose owner is ann. Owners alone may use cron, and deploy, which is marked.
func ownedConfig() agent.Config {
	cfg := agent.Config{Tools: toolbox("cron", "deploy", "read")}
	cfg.Tools[1].OwnerOnly = true
	cfg.Rules.Owners = []policy.Person{{Channel: "telegram", ID: "ann"}}
	cfg.Rules.DefaultDeny = []string{}
	cfg.Rules.Tools.Deny = []string{"agents_list", "sessions_list", "sessions_history"}
	cfg.Rules.Subagents.MaxSpawnDepth = 2
	return cfg
}

// offered returns the tools of the program that the newest request under a name had.
func offered(h *harness, name string) (list []string) {
	all := h.Requests(name)
	for _, tool := range all[len(all)-1].Tools {
		if slices.Contains([]string{"cron", "deploy", "read"}, tool.Name) {
			list = append(list, tool.Name)
		}
	}
	return list
}

func speak(h *harness, who, text string) {
	h.PostIncoming(peopleKey, agent.Incoming{ID: text, Text: text, From: session.Sender{ID: who}})
}

// A stranger's message binds the turn that answers it, the sub-agents that this spawns, at any
// depth, the turn over what comes back of them, and all of that over a crash at every write.
func TestStrangerBindsWhatComesOfIt(t *testing.T) {
	all, few := []string{"cron", "deploy", "read"}, []string{"read"}
	script := agenttest.Script{
		agenttest.Main: {
			agenttest.Call("sessions_spawn", `{"task":"outer","label":"outer"}`), agenttest.Say("begun"),
			agenttest.Say("back"), agenttest.Say("to an owner"),
		},
		"outer": {
			agenttest.Call("sessions_spawn", `{"task":"inner","label":"inner"}`),
			agenttest.Call("sessions_yield", `{}`), agenttest.Say("outer done"),
		},
		"inner": {agenttest.Say("inner done")},
	}
	agenttest.EveryCrash(t, ownedConfig(), script, func(h *harness) {
		speak(h, "bob", "do it")
		h.Pass(time.Minute)
		require.Equal(h.T(), few, offered(h, agenttest.Main))
		whole := true
		for _, run := range h.Runs() {
			if len(h.Requests(run.Label)) > 0 {
				require.Equal(h.T(), few, offered(h, run.Label))
			}
			require.NotContains(h.T(), run.Tools, "cron")
			require.Equal(h.T(), []policy.Sender{{ID: "bob", Channel: "telegram", Peer: "-100"}}, run.Senders)
			whole = whole && run.Status == agent.StatusOK
		}
		speak(h, "ann", "and me")
		h.Pass(time.Minute)
		if whole && len(h.Runs()) == 2 { // nothing was interrupted
			require.Equal(h.T(), all, offered(h, agenttest.Main))
		}
	})
}

// A message of a stranger that comes within a turn binds it from then on, and what the model calls
// all the same is refused with the sentence of policy.
func TestStrangerWithinATurn(t *testing.T) {
	var seen []string
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		call := func(name string) error {
			_, err := tn.Call(ctx, agent.ToolCall{ID: name, Name: name, Args: json.RawMessage(`{}`)})
			return err
		}
		require.NoError(t, call("cron"))
		time.Sleep(time.Minute) // until both have spoken
		_, err := tn.Inbox(ctx)
		require.NoError(t, err)
		require.Len(t, tn.Senders(), 2)
		err = call("cron")
		require.ErrorIs(t, err, &policy.Refusal{Op: "tool call", Rule: policy.RuleSender})
		require.ErrorContains(t, err, `for owners of the bot alone`)
		require.ErrorContains(t, err, `Config.Rules.OwnerOnly (tools.ownerOnly)`)
		require.NotContains(t, err.Error(), "bob")
		require.Error(t, call("deploy"))
		require.NoError(t, call("read"))
		child, err := tn.Spawn(ctx, agent.Task{Text: "x"})
		require.NoError(t, err)
		info, err := child.Info(ctx)
		require.NoError(t, err)
		seen = info.Tools
		status, err := tn.Call(ctx, agent.ToolCall{ID: "s", Name: "session_status", Args: json.RawMessage(`{}`)})
		require.NoError(t, err)
		require.Contains(t, status.Text, `"withheld":["tool \"cron\" is for owners of the bot alone`)
		return agent.Result{Text: "ok"}, nil
	})
	owned := ownedConfig()
	cfg.Tools, cfg.Rules = owned.Tools, owned.Rules
	cfg.Runners.Agents = map[string]agent.Runner{}
	cfg.Rules.Subagents.MaxConcurrent = 1
	first := cfg.Runner
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" || tn.N > 1 {
			return agent.Result{Text: "ok"}, nil
		}
		return first.Run(ctx, tn)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		speak(h, "ann", "begin")
		h.Pass(time.Second)
		speak(h, "bob", "and deploy")
		h.Pass(2 * time.Minute)
		require.Contains(t, seen, "read")
		require.NotContains(t, seen, "cron")
		require.NotContains(t, seen, "deploy")
	})
}

// A follow-up of a stranger to what an owner's turn spawned binds that run and all that follow it.
func TestSendersOfFollowUps(t *testing.T) {
	script := agenttest.Script{
		agenttest.Main: {
			agenttest.Call("sessions_spawn", `{"task":"x","label":"anns"}`), agenttest.Say("begun"),
			agenttest.Say("ok"), agenttest.Say("ok"),
		},
		"anns": {agenttest.Say("1"), agenttest.Say("2"), agenttest.Say("3")},
	}
	agenttest.Run(t, ownedConfig(), script, func(h *harness) {
		speak(h, "ann", "do it")
		h.Pass(time.Minute)
		require.Equal(t, []string{"cron", "deploy", "read"}, offered(h, "anns"))
		key := h.Child("anns").Key
		bob := []policy.Sender{{ID: "bob", Channel: "telegram", Peer: "-100"}}
		_, err := h.Session(key).Post(h.Context(), agent.Incoming{Text: "more", Senders: bob})
		require.NoError(t, err)
		h.Pass(time.Minute)
		require.Equal(t, []string{"read"}, offered(h, "anns"))
		_, err = h.Session(key).Post(h.Context(), agent.Incoming{Text: "of the program"})
		require.NoError(t, err)
		h.Pass(time.Minute)
		require.Equal(t, []string{"read"}, offered(h, "anns"))
	})
}

// A stranger has a helper begin with a task of the stranger's. An owner has it go on, and the turn
// over the end of that is still one over a stranger's text: by whichever call the owner's message
// came to the helper, with a steer between, over a yield, a restart, and a revival.
func TestOwnersFollowUpToAStrangersHelper(t *testing.T) {
	ann := policy.Sender{ID: "ann", Channel: "telegram", Peer: "-100"}
	bob := policy.Sender{ID: "bob", Channel: "telegram", Peer: "-100"}
	all, few := []string{"cron", "deploy", "read"}, []string{"read"}
	send := call("sessions_send", `{"target":"helper","message":"the rest?"}`)
	speaks := func(h *harness, _ session.Key) { speak(h, "ann", "ask on") }
	post := func(h *harness, key session.Key) agent.Receipt {
		r, err := h.Session(key).Post(h.Context(), agent.Incoming{
			Text: "the rest?", Senders: []policy.Sender{ann},
		})
		require.NoError(h.T(), err)
		return r
	}
	for name, c := range map[string]struct {
		asks []agenttest.Step // what the model does with the owner's message; nil: there is none
		ask  func(h *harness, helper session.Key)
	}{
		"model":            {[]agenttest.Step{send, say("asked")}, speaks},
		"model that waits": {[]agenttest.Step{send, yieldStep()}, speaks},
		"restart": {[]agenttest.Step{send, say("asked")}, func(h *harness, key session.Key) {
			h.Crash()
			speaks(h, key)
			h.Pass(time.Second)
			h.Crash()
		}},
		"program": {nil, func(h *harness, key session.Key) { post(h, key) }},
		"steer": {nil, func(h *harness, key session.Key) {
			r := post(h, key)
			h.Pass(time.Second)
			child, err := agent.ChildOf[string](h.Context(), h.Session(peopleKey), r)
			require.NoError(h.T(), err)
			require.NoError(h.T(), child.SteerFor(h.Context(), "faster", ann))
		}},
		"revival": {nil, func(h *harness, key session.Key) {
			h.Pass(3 * time.Hour)
			require.Empty(h.T(), h.Runs(), "it is archived")
			require.NoError(h.T(), h.Session(key).Revive(h.Context()))
			post(h, key)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			steps := script{
				agenttest.Main: slices.Concat([]agenttest.Step{
					call("sessions_spawn", `{"task":"x","label":"helper"}`), say("begun"), say("ok"),
				}, c.asks, []agenttest.Step{call("cron", `{}`), say("done"), say("to an owner")}),
				"helper": {
					say("noted").After(time.Minute), say("now call cron").After(time.Minute),
					say("call cron"),
				},
			}
			agenttest.Run(t, ownedConfig(), steps, func(h *harness) {
				speak(h, "bob", "start a helper")
				h.Pass(10 * time.Minute)
				key := h.Child("helper").Key
				c.ask(h, key)
				h.Pass(10 * time.Minute)
				require.ElementsMatch(t, []policy.Sender{bob, ann}, h.Child("helper").Senders)
				require.Equal(t, few, offered(h, "helper"))
				if c.asks == nil {
					return
				}
				require.Equal(t, few, offered(h, agenttest.Main))
				h.Told(agenttest.Main, `tool call refused by sender: asked "cron"`)
				speak(h, "ann", "and now?")
				h.Pass(time.Minute)
				require.Equal(t, all, offered(h, agenttest.Main), "a chat is not bound for ever")
			})
		})
	}
}

// So it is where the owner's message comes from another agent, to which the owner has spoken.
func TestOwnersFollowUpFromAnotherAgent(t *testing.T) {
	cfg := ownedConfig()
	cfg.Rules.Agents = []policy.Agent{{ID: "main"}, {ID: "other"}}
	cfg.Rules.Visibility, cfg.Rules.AgentToAgent.Enabled = policy.VisibilityAll, true
	steps := script{
		peopleKey.String(): {
			call("sessions_spawn", `{"task":"x","label":"helper"}`), say("begun"), say("ok"),
			call("sessions_send", `{"target":"helper","message":"the rest?"}`), say("asked"),
			call("cron", `{}`), say("done"),
		},
		"helper": {
			say("noted").After(time.Minute), say("now call cron").After(time.Minute),
		},
	}
	agenttest.Run(t, cfg, steps, func(h *harness) {
		speak(h, "bob", "start a helper")
		h.Pass(10 * time.Minute)
		s := h.Session(session.Must(session.GroupKey("other", "telegram", "-200")))
		people, err := s.SendersOf(h.Context(), agent.Incoming{From: session.Sender{ID: "ann"}})
		require.NoError(t, err)
		args := sendArgs(peopleKey, "have the helper go on", 0)
		_, err = callToolOf(h, s.ToolsFor(people...), "sessions_send", "1", args)
		require.NoError(t, err)
		h.Pass(10 * time.Minute)
		require.Len(t, h.Child("helper").Senders, 2)
		require.Equal(t, []string{"read"}, offered(h, "helper"))
		require.Equal(t, []string{"read"}, offered(h, peopleKey.String()))
		h.Told(peopleKey.String(), `tool call refused by sender: asked "cron"`)
	})
}

// Config.Owner is asked when a message is posted, and what it has said is kept; where it fails the
// person is not an owner.
func TestConfigOwner(t *testing.T) {
	cfg := ownedConfig()
	cfg.Rules.Owners = nil
	cfg.Owner = func(_ context.Context, in session.Key, from session.Sender) (bool, error) {
		switch from.ID {
		case "eve":
			panic("no")
		case "mallory":
			return true, errors.New("unsure")
		}
		return in == peopleKey && from.ID == "ann", nil
	}
	five := slices.Repeat([]agenttest.Step{agenttest.Say("ok")}, 5)
	script := agenttest.Script{agenttest.Main: five}
	agenttest.Run(t, cfg, script, func(h *harness) {
		for _, who := range []string{"bob", "eve", "mallory", "", "ann"} {
			speak(h, who, "hello from "+who)
			h.Pass(time.Minute)
			want := []string{"read"}
			if who == "ann" {
				want = []string{"cron", "deploy", "read"}
			}
			require.Equal(t, want, offered(h, agenttest.Main), who)
			m := agent.Incoming{Text: "x", From: session.Sender{ID: who}}
			owner, err := h.Session(peopleKey).IsOwner(h.Context(), m)
			require.NoError(t, err)
			require.Equal(t, who == "ann", owner)
		}
	})
}

// Where nothing in the Config depends on who speaks, it is on record all the same, and everyone
// counts as an owner. A tool that is marked then is a mistake, as is a list that would have no
// effect.
func TestOwnersUnset(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Tools = toolbox("cron")
	agenttest.Run(t, cfg, nil, func(h *harness) {
		list, err := h.Main().SendersOf(h.Context(), agent.Incoming{From: session.Sender{ID: "x"}})
		require.NoError(t, err)
		require.Equal(t, []policy.Sender{{ID: "x"}}, list)
		owner, err := h.Main().IsOwner(h.Context(), agent.Incoming{})
		require.NoError(t, err)
		require.True(t, owner)
	})
	cfg.Tools[0].OwnerOnly, cfg.Rules.OwnerOnly = true, []string{"cron"}
	_, err := agent.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "Config.Tools[0].OwnerOnly")
	require.ErrorContains(t, err, "Config.Rules.OwnerOnly (tools.ownerOnly)")
	require.ErrorContains(t, err, "no one is known to be an owner")
}

// The tools of a session that the caller runs are those of the people for whom its loop works, and
// what they spawn is bound by them, and by those whose result is delivered.
func TestToolsForPeople(t *testing.T) {
	cfg := configAnswering(asText)
	owned := ownedConfig()
	cfg.Tools, cfg.Rules = owned.Tools, owned.Rules
	cfg.Rules.OwnerOnly = []string{"sessions_send", "cron"}
	var refused error
	var rt *agent.Runtime
	cfg.Deliver = func(ctx context.Context, _ agent.Delivery) error {
		send := findTool(t, rt.Session(peopleKey).Tools(), "sessions_send")
		_, refused = send.Call(ctx, agent.ToolCall{Args: json.RawMessage(`{}`)})
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		rt = h.Runtime()
		s := h.Session(peopleKey)
		bob, err := s.SendersOf(h.Context(), agent.Incoming{From: session.Sender{ID: "bob"}})
		require.NoError(t, err)
		require.Len(t, bob, 1)
		has := func(list []agent.Tool) bool {
			return slices.ContainsFunc(list, func(x agent.Tool) bool { return x.Name == "sessions_send" })
		}
		require.True(t, has(s.Tools()))
		require.False(t, has(s.ToolsFor(bob...)))
		_, err = findTool(t, s.ToolsFor(bob...), "sessions_spawn").Call(h.Context(), agent.ToolCall{
			ID: "1", Args: json.RawMessage(`{"task":"x","label":"bobs"}`),
		})
		require.NoError(t, err)
		h.Pass(time.Minute)
		runs, err := s.Tree(h.Context())
		require.NoError(t, err)
		require.NotContains(t, runs[0].Tools, "cron")
		require.ErrorIs(t, refused, &policy.Refusal{Rule: policy.RuleSender})
	})
}

// The status of a sub-agent names what its people keep from it: what its spawn has not granted for
// their sake, at any depth, what they keep from it later, and nothing that its role keeps from it.
func TestWithheldOfASubagent(t *testing.T) {
	cfg := ownedConfig()
	cfg.Rules.SubagentTools.Deny = []string{"deploy"}
	script := agenttest.Script{
		agenttest.Main: {
			agenttest.Call("sessions_spawn", `{"task":"outer","label":"outer"}`),
			agenttest.Say("1"), agenttest.Say("2"), agenttest.Say("3"), agenttest.Say("4"),
		},
		"outer": {
			agenttest.Call("sessions_spawn", `{"task":"inner","label":"inner"}`),
			agenttest.Call("sessions_yield", `{}`), agenttest.Say("outer done"),
		},
		"inner": {agenttest.Say("inner done").After(time.Minute)},
	}
	for who, want := range map[string][]string{"bob": {"cron"}, "ann": nil} {
		agenttest.Run(t, cfg, script, func(h *harness) {
			speak(h, who, "begin")
			h.Pass(time.Second)
			require.Len(t, h.Runs(), 2)
			for _, run := range h.Runs() {
				status, err := h.Session(run.Key).Status(h.Context())
				require.NoError(t, err)
				var got []string
				for _, v := range status.Withheld {
					got = append(got, v.Tool)
				}
				require.Equal(t, want, got, "%s of %s", run.Label, who)
			}
		})
	}
}

// A parameter of a spawn that is not known is refused with those that this session is offered.
func TestUnknownParametersOfASpawn(t *testing.T) {
	for name, c := range map[string]struct {
		set       func(*agent.Config)
		has, lack []string
	}{
		"nothing is set up": {
			func(*agent.Config) {},
			[]string{"task", "agentId", "taskName", "cleanup"},
			[]string{"thread", "runtime", "cwd", "attachments", "streamTo", "agent_id"},
		},
		"directories and files": {
			func(c *agent.Config) {
				dir := t.TempDir()
				c.WorkDir = func(string) string { return dir }
				c.Rules.Attachments.Enabled = true
			},
			[]string{"cwd", "attachments", "attachAs"},
			[]string{"thread", "runtime"},
		},
	} {
		cfg := configAnswering(asText)
		c.set(&cfg)
		agenttest.Run(t, cfg, nil, func(h *harness) {
			_, err := callTool(h, "sessions_spawn", "1", `{"task":"x","wibble":1}`)
			_, listed, ok := strings.Cut(err.Error(), "it is not known; the arguments are ")
			require.True(t, ok, "%s: %v", name, err)
			list := strings.Split(listed, ", ")
			require.Subset(t, list, c.has, name)
			for _, lacks := range c.lack {
				require.NotContains(t, list, lacks, name)
			}
		})
	}
}
