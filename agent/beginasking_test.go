package agent_test

import (
	"context"
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

// rulesThatAsk are the ways in which rules begin to ask who speaks: each keeps bob from cron, and
// leaves it to ann.
func rulesThatAsk() map[string]func(*policy.Rules) {
	noCron := policy.ToolRules{Deny: []string{"cron"}}
	of := func(list ...policy.SenderTools) []policy.SenderTools {
		return append(list, policy.SenderTools{Person: policy.Person{ID: "*"}, Tools: noCron})
	}
	ann := policy.SenderTools{Person: policy.Person{ID: "ann"}}
	bob := policy.SenderTools{Person: policy.Person{ID: "bob", Channel: "telegram"}, Tools: noCron}
	return map[string]func(*policy.Rules){
		"owners":     func(r *policy.Rules) { r.Owners = []policy.Person{{ID: "ann"}} },
		"everyone":   func(r *policy.Rules) { r.Senders = of(ann) },
		"one person": func(r *policy.Rules) { r.Senders = []policy.SenderTools{bob} },
		"a chat": func(r *policy.Rules) {
			r.Chats = []policy.Chat{{Channel: "telegram", Peer: "-100", Senders: of(ann)}}
		},
	}
}

// beginAsking is a bot whose Config asks who speaks, and a script in which all that comes of bob's
// messages calls cron, a minute after it began or later. A process begins with the Rules of the
// Config, so that each crash is the beginning of rules that ask, too. Its times are short: a
// process that was killed goes on to try the store for as long as the test lasts.
func beginAsking(change func(*policy.Rules)) (agent.Config, agenttest.Script) {
	cfg := checkedConfig()
	cfg.Tools[1].OwnerOnly, cfg.Rules.Owners = false, nil
	cfg.Rules.Subagents.ArchiveAfter = 24 * time.Minute
	change(&cfg.Rules)
	later := call("cron", `{}`).After(time.Minute)
	var rest []agenttest.Step
	for range 12 {
		rest = append(rest, later, say("ok"))
	}
	return cfg, agenttest.Script{
		agenttest.Main: append([]agenttest.Step{startStep("outer"), later, say("begun")}, rest...),
		"outer": append([]agenttest.Step{
			startStep("inner"), later, call("sessions_yield", `{}`), later, say("outer done"),
		}, rest...),
		"inner": append([]agenttest.Step{later, say("inner done")}, rest...),
	}
}

// cronRan reports whether a model was told under a name that cron has run.
func cronRan(h *harness, name string) bool {
	return slices.ContainsFunc(h.Requests(name), func(r agent.ModelRequest) bool {
		return slices.ContainsFunc(r.Messages, func(m agent.Message) bool {
			return m.Role == session.MessageTool && strings.Contains(m.Text, "cron ran")
		})
	})
}

// playBeginAsking has bob speak under rules that do not ask, which ask from the call of begin on:
// to a turn that is under way then, to the message behind it, and to a sub-agent of a sub-agent.
// What comes of those later is played, too.
func playBeginAsking(h *harness, asks policy.Rules, begin func()) {
	free := asks
	free.Owners, free.Senders, free.Chats = nil, nil, nil
	require.NoError(h.T(), h.Runtime().SetRules(free))
	speak(h, "bob", "do it")
	h.Pass(time.Second)
	speak(h, "bob", "this, too")
	h.Pass(time.Second)
	outer := func() (key session.Key) {
		for _, run := range h.Runs() {
			if run.Label == "outer" {
				key = run.Key
			}
		}
		return key
	}
	key := outer()
	begin()
	h.Pass(10 * time.Minute)
	if key.IsZero() { // a crash has come before it was spawned
		return
	}
	follow := func(text string) { // by the program, which names no one
		ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
		defer cancel()
		_, err := h.Session(key).Post(ctx, agent.Incoming{ID: text, Text: text})
		if err == nil {
			h.Pass(6 * time.Minute)
		}
	}
	follow("go on")
	h.Pass(72 * time.Minute)
	require.True(h.T(), outer().IsZero(), "it is archived")
	ctx, cancel := context.WithTimeout(h.Context(), time.Minute) // a crash may come within
	defer cancel()
	if h.Session(key).Revive(ctx) == nil {
		follow("and on")
	}
}

// Rules that begin to ask who speaks bind what was written before: the turn under way, the message
// behind it, the sub-agents of both, what they report and are told later, over archive and revival;
// by SetRules and in the next process.
func TestRulesThatBeginToAskBindWhatWasWritten(t *testing.T) {
	for name, change := range rulesThatAsk() {
		for how, begin := range map[string]func(*harness, policy.Rules) error{
			"SetRules": func(h *harness, asks policy.Rules) error { return h.Runtime().SetRules(asks) },
			"restart":  func(h *harness, _ policy.Rules) error { h.Crash(); return nil },
		} {
			t.Run(name+" by "+how, func(t *testing.T) {
				cfg, script := beginAsking(change)
				agenttest.Run(t, cfg, script, func(h *harness) {
					playBeginAsking(h, cfg.Rules, func() {
						require.NoError(t, begin(h, cfg.Rules))
					})
					require.True(t, wasTold(h, agenttest.Main, "refused by"))
					require.True(t, wasTold(h, "outer", "refused by"))
					require.Equal(t, how == "SetRules", wasTold(h, "inner", "refused by"),
						"a restart ends it before it calls anything")
					for _, name := range []string{agenttest.Main, "outer", "inner"} {
						require.False(t, cronRan(h, name), name)
					}
					speak(h, "ann", "and for me?")
					h.Pass(3 * time.Minute)
					require.True(t, cronRan(h, agenttest.Main), "a chat is not bound for ever")
				})
			})
		}
	}
}

// So it is over a crash at every write, whose next process has the rules that ask.
func TestRulesThatBeginToAskOverEveryCrash(t *testing.T) {
	cfg, script := beginAsking(rulesThatAsk()["owners"])
	agenttest.EveryCrash(t, cfg, script, func(h *harness) {
		playBeginAsking(h, cfg.Rules, func() {
			require.NoError(h.T(), h.Runtime().SetRules(cfg.Rules))
		})
		for _, name := range []string{agenttest.Main, "outer", "inner"} {
			require.False(h.T(), cronRan(h, name), name)
		}
	})
}

// Rules that cease to ask give back what they took, and rules that ask again take it again: what is
// on record is not changed by either.
func TestRulesThatCeaseToAsk(t *testing.T) {
	asks := policy.Rules{Owners: []policy.Person{{ID: "ann"}}, DefaultDeny: []string{}}
	free := policy.Rules{DefaultDeny: []string{}}
	var seen []bool
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		for range 4 {
			_, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: "cron", Args: []byte(`{}`)})
			seen = append(seen, err == nil)
			time.Sleep(time.Hour)
		}
		require.Equal(t, []policy.Sender{{ID: "bob", Channel: "telegram", Peer: "-100"}}, tn.Senders())
		return textResult("ok")
	})
	cfg.Tools, cfg.Rules = toolbox("cron"), free
	agenttest.Run(t, cfg, nil, func(h *harness) {
		speak(h, "bob", "do it")
		for _, rules := range []policy.Rules{asks, free, asks} {
			h.Pass(59 * time.Minute)
			require.NoError(t, h.Runtime().SetRules(rules))
			h.Pass(time.Minute)
		}
		h.Pass(3 * time.Hour)
		require.Equal(t, []bool{true, false, true, false}, seen)
	})
}
