package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A presetBot is a bot of a preset whose people write to its main session in a channel.
type presetBot struct {
	*harness
	chat  *agenttest.FakeChannel
	place session.Route
	down  *atomic.Bool // nothing can be said in the channel
}

// playPreset runs a bot of a preset with all files of a workspace and a few tools.
func playPreset(
	t *testing.T, preset, change func(*agent.Config), s script,
	f func(b presetBot),
) {
	var cfg agent.Config
	preset(&cfg)
	cfg.Workspace = workspace("says")
	cfg.Models.Model = "acme/large"
	cfg.Models.Prices = map[string]agent.Price{"acme/large": {Input: 1, Output: 10}}
	answer := func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Text: "ok"}, nil
	}
	for name := range strings.FieldsSeq("read exec cron gateway") {
		cfg.Tools = append(cfg.Tools, agent.Tool{Name: name, Call: answer})
	}
	if change != nil {
		change(&cfg)
	}
	chat := agenttest.NewFakeChannel("discord")
	chat.Connect(&cfg)
	down := &atomic.Bool{}
	chat.Intercept(func(_ context.Context, call agenttest.FakeCall) error {
		if down.Load() && call.Op == "reply" && !call.Done {
			return errors.New("the channel is down")
		}
		return nil
	})
	agenttest.Run(t, cfg, s, func(h *harness) {
		f(presetBot{h, chat, chat.At("general", ""), down})
	})
}

// write has a person write to the main session.
func (b presetBot) write(text string) {
	b.T().Helper()
	_, err := b.chat.WriteTo(b.Context(), b.Runtime(), topKey, b.place, "ann", text)
	require.NoError(b.T(), err)
}

// said fails unless exactly this was said in the channel.
func (b presetBot) said(want ...string) {
	b.T().Helper()
	b.Pass(0)
	require.Equal(b.T(), want, b.chat.Said(b.place))
}

// restartWhileDown has the channel fail as the sub-agent ends, and the process die before it works
// again.
func (b presetBot) restartWhileDown(d time.Duration) {
	b.down.Store(true)
	b.Pass(d)
	b.Crash()
	b.down.Store(false)
	b.Pass(time.Hour)
}

func spawnCall(args string) agenttest.Step { return agenttest.Call("sessions_spawn", args) }

// The zero Config: the end of a sub-agent is an event for the session, whose model tells people. A
// channel that is down and a process that dies between the two lose nothing of it.
func TestScenarioOpenClaw(t *testing.T) {
	s := script{
		"main": {
			spawnCall(`{"task":"Count the boats.","label":"boats"}`), say("I let it be counted."),
			say("There are twelve boats."),
		},
		"boats": {say("12 boats").After(5*time.Minute + 12*time.Second).
			Spending(agent.Usage{Input: 1000, Output: 200})},
	}
	zero := func(*agent.Config) {}
	playPreset(t, zero, nil, s, func(b presetBot) {
		b.write("How many boats are there?")
		b.said("I let it be counted.")
		child := b.Child("boats")
		require.Regexp(t, `^agent:main:subagent:[0-9a-f-]{36}$`, child.Key.String())
		require.Equal(t, agent.StatusRunning, child.Status, "the spawn did not wait")

		b.Offered("boats", "read", "exec")
		b.Prompted("boats", "says AGENTS.md", "says TOOLS.md", "## Safety", "## Runtime")
		for _, name := range workspaceNames {
			if name != "AGENTS.md" && name != "TOOLS.md" {
				b.NotPrompted("boats", "says "+name)
			}
			b.Prompted("main", "says "+name)
		}
		b.Told("boats", "[Subagent Task]: Count the boats.")

		b.restartWhileDown(6 * time.Minute)
		b.said("I let it be counted.", "There are twelve boats.")
		require.Equal(t, 3, b.Calls("main"))
		event := b.Requests("main")[2].Input()
		for _, part := range []string{
			"status: success", "12 boats", child.Key.String(), "runtime 5m12s",
			"1.2k (in 1.0k / out 200)", "est $0.0030", "sessionId",
		} {
			require.Contains(t, event, part)
		}
	})
}

// The zero Config with two levels: each level is told of its own sub-agents alone, and people hear
// the top-level session alone. A model that has answered already says NO_REPLY.
func TestScenarioOpenClawOrchestrator(t *testing.T) {
	deep := func(c *agent.Config) { c.Rules.Subagents.MaxSpawnDepth = 2 }
	s := script{
		"main": {
			spawnCall(`{"task":"Count.","label":"lead"}`), say("Wait."),
			say("Twenty-five in all."),
			spawnCall(`{"task":"Again.","label":"again"}`), say("All is said."), say("NO_REPLY"),
		},
		"lead": {
			spawnCall(`{"task":"North.","label":"north"}`),
			spawnCall(`{"task":"South.","label":"south"}`), yieldStep(), yieldStep(),
			say("12 and 13"),
		},
		"north": {say("12").After(time.Minute)},
		"south": {say("13").After(2 * time.Minute)},
		"again": {say("nothing new").After(time.Minute)},
	}
	playPreset(t, deep, nil, s, func(b presetBot) {
		b.write("How many boats are there?")
		b.said("Wait.")
		b.Offered("lead", "read", "exec", "sessions_spawn", "subagents", "sessions_yield",
			"sessions_list", "sessions_history")
		b.Offered("north", "read", "exec")
		require.Regexp(t, `^agent:main:subagent:[0-9a-f-]{36}:subagent:[0-9a-f-]{36}$`,
			b.Child("north").Key.String())
		b.restartWhileDown(3 * time.Minute)
		b.said("Wait.", "Twenty-five in all.")
		require.Contains(t, b.Requests("main")[2].Input(), "12 and 13")
		require.NotContains(t, b.Requests("main")[2].Input(), "North.")

		b.write("Once more.")
		b.Pass(time.Hour)
		b.said("Wait.", "Twenty-five in all.", "All is said.")
	})
}

// PresetGoClaw: a worker has the short prompt with its task last, and people are told by the main
// agent.
func TestScenarioGoClaw(t *testing.T) {
	const task = "Research the history of Johannesburg and write a 500 word summary."
	s := script{
		"main": {
			spawnCall(`{"task":"` + task + `","label":"history","model":"acme/small"}`),
			say("I have it researched."), agenttest.Echo(),
		},
		"history": {say("The city was founded in 1886.").After(10 * time.Minute)},
	}
	playPreset(t, agent.PresetGoClaw, nil, s, func(b presetBot) {
		b.write("Write about Johannesburg.")
		b.said("I have it researched.")

		main := b.Requests("main")[1].Prompt.String()
		require.True(t, strings.HasPrefix(main, "You are a personal assistant"), main)
		inOrder(t, main, "## Tooling", "## Safety", "# Project Context", "says AGENTS.md",
			"says SOUL.md", "says TOOLS.md", "says IDENTITY.md", "says USER.md",
			"says HEARTBEAT.md", "says BOOTSTRAP.md", "says MEMORY.md",
			"## Runtime\nmodel=acme/large")

		child := b.Child("history")
		worker := b.Requests("history")[0].Prompt.String()
		require.True(t, strings.HasPrefix(worker, "You are a worker agent"), worker)
		inOrder(t, worker, "## Tooling", "# Project Context", "says AGENTS.md", "says TOOLS.md",
			"## Runtime\nmodel=acme/small | session="+child.Key.String(), "## Task", task)
		for _, name := range workspaceNames {
			if name != "AGENTS.md" && name != "TOOLS.md" {
				require.NotContains(t, worker, name)
			}
		}
		require.NotContains(t, worker, "Safety")
		require.True(t, session.IsSubagentSession(child.Key.String()))

		b.restartWhileDown(11 * time.Minute)
		b.said("I have it researched.", "The city was founded in 1886.")
	})
}

// inOrder fails unless a text has the parts in this order.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		require.True(t, found, "%q is not where it should be in\n%s", part, text)
		rest = after
	}
}

// PresetClawdbot: a sub-agent words its announcement itself, and that is posted to the chat as
// status, result, notes and stats. The main session has no turn over it.
func TestScenarioClawdbot(t *testing.T) {
	s := script{
		"main": {
			spawnCall(`{"task":"Count the boats.","label":"boats"}`), say("I let it be counted."),
		},
		"boats": {
			say("I looked at the harbour, and counted.").After(5 * time.Minute).
				Spending(agent.Usage{Input: 800, Output: 100}),
			say("Status: failed\nResult:\nThere are 12 boats.\nNotes:\n- Two may be ships.").
				After(12 * time.Second).Spending(agent.Usage{Input: 200, Output: 100}),
		},
	}
	playPreset(t, agent.PresetClawdbot, nil, s, func(b presetBot) {
		b.write("How many boats are there?")
		b.said("I let it be counted.")
		child := b.Child("boats")
		require.Regexp(t, `^agent:main:subagent:[0-9a-f-]{36}$`, child.Key.String())
		b.Offered("main", "read", "exec", "cron", "gateway", "sessions_spawn", "subagents",
			"sessions_yield", "sessions_send", "agents_list", "sessions_list", "sessions_history",
			"session_status")
		b.Offered("boats", "read", "exec", "cron", "gateway", "subagents", "sessions_yield",
			"agents_list", "session_status")
		b.Prompted("main", "said to the people of this conversation when it has ended")
		b.NotPrompted("main", "comes back to you", "comes to you")

		b.restartWhileDown(6 * time.Minute)
		step := b.Requests("boats")[1]
		require.Contains(t, step.Input(), `begins with the line "Result:"`)
		require.Contains(t, step.Messages[1].Text, "I looked at the harbour",
			"it is taken in the session of the sub-agent")
		b.said("I let it be counted.", "Status: success\n\nResult:\nThere are 12 boats.\n\n"+
			"Notes:\n- Two may be ships.\n\n"+
			"Stats: runtime 5m12s • tokens 1.2k (in 1.0k / out 200) • est $0.0030")
		require.Equal(t, 2, b.Calls("main"), "its end is not a turn of the main session")
	})
}

// PresetClawdbot: how a run ended is the runtime's word, silence is kept, and a session that waits
// goes on.
func TestScenarioClawdbotEnds(t *testing.T) {
	for name, c := range map[string]struct {
		child []agenttest.Step
		args  string
		want  string // "": nothing is posted
	}{
		"plain words": {
			[]agenttest.Step{say("done").After(time.Minute), say("There are 12.")},
			"",
			"Status: success\n\nResult:\nThere are 12.\n\nNotes:\n- (none)\n\nStats: runtime 1m0s",
		},
		"no words": {
			[]agenttest.Step{say("done").After(time.Minute), agenttest.Fail(errors.New("x"))},
			"",
			"Status: success\n\nResult:\ndone\n\nNotes:\n- (none)\n\nStats: runtime 1m0s",
		},
		"skip": {[]agenttest.Step{say("done").After(time.Minute), say("ANNOUNCE_SKIP")}, "", ""},
		"an error": {
			[]agenttest.Step{agenttest.Fail(errors.New("boom")).After(time.Minute)},
			"",
			"Status: error\n\nResult:\n(not available)\n\nNotes:\n- Error: ",
		},
		"a timeout": {
			[]agenttest.Step{agenttest.Hang()},
			`,"runTimeoutSeconds":60`,
			"Status: timeout\n\nResult:\n(not available)\n\nNotes:\n- Error: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := script{
				"main": {
					spawnCall(`{"task":"Count.","label":"boats"` + c.args + `}`), yieldStep(),
					agenttest.Echo(),
				},
				"boats": c.child,
			}
			playPreset(t, agent.PresetClawdbot, nil, s, func(b presetBot) {
				b.write("How many?")
				b.Pass(time.Hour)
				said := b.chat.Said(b.place)
				if c.want != "" {
					require.NotEmpty(t, said)
					require.True(t, strings.HasPrefix(said[0], c.want), said[0])
					said = said[1:]
				}
				require.Len(t, said, 1, "the wait is over, and the model answers")
				require.Contains(t, said[0], "Your wait for sub-agents is over.")
			})
		})
	}
}

// A session is told itself of the end of what its model spawns if there is no Reply, and a
// sub-agent always is.
func TestAnnounceToChatNeedsAChat(t *testing.T) {
	cfg := agent.Config{
		AnnounceTo: agent.AnnounceToChat,
		Rules:      policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
		Runner:     idleRunner{},
	}
	require.False(t, inputOf(t, cfg, topKey).ReportsToPeople)
	cfg.Reply = func(context.Context, agent.Delivery) error { return nil }
	require.True(t, inputOf(t, cfg, topKey).ReportsToPeople)
	require.False(t, inputOf(t, cfg, presetWorker).ReportsToPeople)
	cfg.AnnounceTo++
	_, err := agent.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "Config.AnnounceTo: AnnounceTo(2)")
	cfg.AnnounceTo, cfg.Runner, cfg.Reply = agent.AnnounceToChat, nil, nil

	s := script{
		"main": {startStep("lead"), say("on it")},
		"lead": {startStep("leaf"), yieldStep(), echo()},
		"leaf": {say("the report of the leaf").After(time.Minute)},
	}
	agenttest.Run(t, cfg, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Hour)
		require.Contains(t, h.Requests("lead")[2].Input(), "the report of the leaf")
		h.Prompted("lead", "comes to you automatically")
		replies := h.Replies()
		require.Len(t, replies, 2)
		require.Contains(t, replies[1].Reply.Text, "Status: success\n\nResult:\nthe report of the leaf")
	})
}
