package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// viewTeam are agents of which main may spawn coder, and no other.
func viewTeam(r *policy.Rules) {
	r.Agents = []policy.Agent{
		{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"Coder"}}},
		{ID: "coder", Name: "Ada", Model: "acme/small", Subagents: policy.Subagents{Model: "acme/code"}},
		{ID: "ops"},
	}
}

// agents_list has what the function that admits spawns says, and so has the schema of a spawn.
func TestAgentsList(t *testing.T) {
	for name, c := range map[string]struct {
		rules func(r *policy.Rules)
		want  string
		enum  string
	}{
		"none configured": {
			func(*policy.Rules) {},
			`{"agents":[{"id":"main","model":"acme/large"}],"allowAny":false,"requester":"main"}`,
			`["main"]`,
		},
		"a list": {
			viewTeam,
			`{"agents":[{"id":"main","model":"acme/large"},` +
				`{"id":"coder","name":"Ada","model":"acme/code"}],"allowAny":false,"requester":"main"}`,
			`["main","coder"]`,
		},
		"any": {
			func(r *policy.Rules) {
				viewTeam(r)
				r.Agents[0].Subagents.AllowAgents = []string{"*"}
			},
			`{"agents":[{"id":"main","model":"acme/large"},` +
				`{"id":"coder","name":"Ada","model":"acme/code"},{"id":"ops","model":"acme/large"}],` +
				`"allowAny":true,"requester":"main"}`,
			`["main","coder","ops"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configHanging(policy.Rules{})
			c.rules(&cfg.Rules)
			cfg.Models.Model = "acme/large"
			agenttest.Run(t, cfg, nil, func(h *harness) {
				tools := h.Main().Tools()
				answer, err := findTool(t, tools, "agents_list").Call(h.Context(), agent.ToolCall{})
				require.NoError(t, err)
				require.JSONEq(t, c.want, answer.Text)
				require.Contains(t, string(findTool(t, tools, "sessions_spawn").Schema),
					`"agentId":{"type":"string","enum":`+c.enum+`,`)
				for _, id := range []string{"main", "coder", "ops", "gone"} {
					out, err := callTool(h, "sessions_spawn", id, `{"task":"x","agentId":"`+id+`"}`)
					require.NoError(t, err)
					require.Equal(t, strings.Contains(c.enum, `"`+id+`"`), out["status"] == "accepted", id)
				}
				require.NoError(t, h.Main().Stop(h.Context()))
			})
		})
	}
}

// viewBot has a session main with a sub-agent that has one of its own, and two other sessions.
type viewBot struct {
	*harness
	mid, leaf    *agent.Child[string]
	named, other session.Key // of agent main, of agent coder
	call         func(tool, args string) (string, error)
}

func inViewBot(t *testing.T, sees policy.Visibility, f func(b *viewBot)) {
	t.Helper()
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key.IsSubagent() {
			if err := tn.Record(ctx, agent.Message{
				Role: session.MessageAssistant, Text: "I look.",
				ToolCalls: []agent.ToolCall{{ID: "1", Name: "ls", Args: json.RawMessage(`{}`)}},
			}); err != nil {
				return agent.Result{}, err
			}
			err := tn.Record(ctx, agent.Message{
				Role: session.MessageTool, ToolCallID: "1", Text: "sk-abcdefghijklmnopqrstuvwx",
			})
			if err == nil {
				err = pause(ctx, time.Second)
			}
			usage := agent.Usage{Input: 100, Output: 10, Cost: 0.25}
			return agent.Result{Text: fmt.Sprint("answer ", tn.N), Usage: usage}, err
		}
		return textResult("hello")
	})
	cfg.Tools = toolbox("ls")
	cfg.Rules = rulesForDepth(2)
	cfg.Rules.Visibility = sees
	cfg.Rules.Budget = policy.Budget{Cost: 2}
	cfg.Models.Model, cfg.Models.Thinking = "acme/large", "low"
	agenttest.Run(t, cfg, nil, func(h *harness) {
		b := &viewBot{
			harness: h, named: session.Must(session.NamedKey("main", "batch")),
			other: session.Must(session.MainKey("coder")),
		}
		for _, key := range []session.Key{topKey, b.named, b.other} {
			h.PostTo(key, "hi")
		}
		var err error
		task := agent.Task{Text: "work", Label: "mid", Budget: policy.Budget{Turns: 10}}
		b.mid, err = h.Main().Spawn(h.Context(), task)
		require.NoError(t, err)
		b.leaf, err = h.Session(b.mid.Key()).Spawn(h.Context(), agent.Task{Text: "deep"})
		require.NoError(t, err)
		h.Pass(time.Minute)
		tools := h.Main().Tools()
		b.call = func(tool, args string) (string, error) {
			answer, err := findTool(t, tools, tool).Call(h.Context(),
				agent.ToolCall{ID: args, Name: tool, Args: json.RawMessage(args)})
			return answer.Text, err
		}
		f(b)
	})
}

func TestSessionsList(t *testing.T) {
	for sees, want := range map[policy.Visibility]string{
		policy.VisibilitySelf:    "main",
		policy.VisibilityDefault: "main mid leaf",
		policy.VisibilityTree:    "main mid leaf",
		policy.VisibilityAgent:   "main mid leaf batch",
		policy.VisibilityAll:     "main mid leaf batch",
	} {
		t.Run(sees.String(), func(t *testing.T) {
			inViewBot(t, sees, func(b *viewBot) {
				names := map[string]string{
					topKey.String(): "main", b.mid.Key().String(): "mid", b.leaf.Key().String(): "leaf",
					b.named.String(): "batch", b.other.String(): "other",
				}
				list := func(args string) (seen []string, out map[string]any) {
					answer, err := b.call("sessions_list", args)
					require.NoError(t, err, args)
					require.NoError(t, json.Unmarshal([]byte(answer), &out))
					for _, x := range out["sessions"].([]any) {
						seen = append(seen, names[x.(map[string]any)["sessionKey"].(string)])
					}
					return seen, out
				}
				seen, out := list(`{}`)
				require.ElementsMatch(t, strings.Fields(want), seen)
				require.EqualValues(t, len(seen), out["total"])
				seen, _ = list(`{"kinds":["main"]}`)
				require.Equal(t, []string{"main"}, seen)
				seen, out = list(`{"limit":1,"messageLimit":5}`)
				require.Len(t, seen, 1)
				require.NotEmpty(t, out["sessions"].([]any)[0].(map[string]any)["messages"])
				require.EqualValues(t, len(strings.Fields(want)), out["total"])
				b.Pass(time.Hour)
				b.PostTo(topKey, "again")
				b.Pass(time.Second)
				seen, _ = list(`{"activeMinutes":2}`)
				require.Equal(t, []string{"main"}, seen)
			})
		})
	}
}

// What a session may not see is told apart from what is not there by nothing.
func TestUnseenSessions(t *testing.T) {
	inViewBot(t, policy.VisibilityTree, func(b *viewBot) {
		ctx := b.Context()
		childOfOther, err := b.Session(b.named).Spawn(ctx, agent.Task{Text: "theirs", Label: "secret"})
		require.NoError(t, err)
		b.Pass(time.Second)
		info, err := childOfOther.Info(ctx)
		require.NoError(t, err)
		there := []string{
			b.named.String(), b.other.String(), childOfOther.Key().String(), string(info.ID),
			info.SessionID, "secret",
		}
		missing := []string{
			session.Must(session.NamedKey("main", "none")).String(),
			session.Must(session.MainKey("none")).String(), childKeyOf(t, topKey).String(),
			session.NewID(), session.NewID(), "terces",
		}
		for _, tool := range []string{"session_status", "sessions_history"} {
			for i := range there {
				_, err1 := b.call(tool, fmt.Sprintf(`{"sessionKey":%q}`, there[i]))
				_, err2 := b.call(tool, fmt.Sprintf(`{"sessionKey":%q}`, missing[i]))
				bad, ok := errors.AsType[*agent.ArgumentError](err1)
				require.True(t, ok, "%s %s: %v", tool, there[i], err1)
				require.Equal(t, "sessionKey", bad.Argument)
				require.EqualError(t, err2, strings.ReplaceAll(err1.Error(), there[i], missing[i]))
				require.NotContains(t, err1.Error(), "tools.sessions", "no setting of the program")
			}
		}
		for i := range there[:3] {
			sent := func(key string) string {
				answer, err := b.call("sessions_send", fmt.Sprintf(`{"sessionKey":%q,"message":"x"}`, key))
				require.NoError(t, err)
				require.Contains(t, answer, `"status":"forbidden"`)
				return answer
			}
			want := strings.ReplaceAll(sent(there[i]), there[i], missing[i])
			require.Equal(t, want, sent(missing[i]))
		}
		for _, tool := range []string{"kill", "steer", "send", "log", "info"} {
			_, err := b.call("subagents",
				fmt.Sprintf(`{"action":%q,"target":%q,"message":"x"}`, tool, childOfOther.Key()))
			require.ErrorContains(t, err, "it names none of this session's sub-agents", tool)
		}
	})
	inViewBot(t, policy.VisibilityAgent, func(b *viewBot) {
		answer, err := b.call("sessions_history", fmt.Sprintf(`{"sessionKey":%q}`, b.named))
		require.NoError(t, err)
		require.Contains(t, answer, "hello")
		theirs, err := b.Session(b.named).Spawn(b.Context(), agent.Task{Text: "x", Label: "Their One"})
		require.NoError(t, err)
		b.Pass(time.Minute)
		info, err := theirs.Info(b.Context())
		require.NoError(t, err)
		for _, name := range []string{info.Key.String(), info.SessionID, "their one"} {
			for _, tool := range []string{"session_status", "sessions_history"} {
				answer, err = b.call(tool, fmt.Sprintf(`{"sessionKey":%q}`, name))
				require.NoError(t, err, "%s %s", tool, name)
				require.Contains(t, answer, `"sessionKey":"`+info.Key.String()+`"`)
			}
		}
		for _, key := range []session.Key{b.other, session.Must(session.NamedKey("main", "none"))} {
			for _, tool := range []string{"session_status", "sessions_history"} {
				_, err = b.call(tool, fmt.Sprintf(`{"sessionKey":%q}`, key))
				require.ErrorContains(t, err, "you can see no session", key)
			}
		}
	})
}

// A session of an agent that is not configured is told apart from one that is not there by nothing,
// whatever the session sees, and no answer names an agent that it has not asked for.
func TestSessionsOfAnAgentThatIsNotThere(t *testing.T) {
	rules := rulesToWriteToOther()
	rules.Agents = append(rules.Agents, policy.Agent{ID: "unasked"})
	missing := session.Must(session.GroupKey("other", "irc", "nowhere"))
	key := session.Must(session.GroupKey("stray", "irc", "nowhere"))
	for sees, want := range map[policy.Visibility]string{
		policy.VisibilityAll: "there is no such session", policy.VisibilityTree: "forbidden",
	} {
		rules.Visibility = sees
		agenttest.Run(t, agent.Config{Rules: rules}, script{}, func(h *harness) {
			for _, tool := range []string{"sessions_send", "session_status", "sessions_history"} {
				told := func(key session.Key) string {
					args := fmt.Sprintf(`{"sessionKey":%q}`, key)
					if tool == "sessions_send" {
						args = sendArgs(key, "hi", 0)
					}
					answer, err := findTool(t, h.Main().Tools(), tool).Call(h.Context(),
						agent.ToolCall{ID: key.String(), Name: tool, Args: json.RawMessage(args)})
					if err != nil {
						return err.Error()
					}
					return answer.Text
				}
				got, other := told(key), told(missing)
				require.Equal(t, strings.ReplaceAll(other, missing.String(), key.String()), got)
				require.NotContains(t, got, "unasked")
				if tool == "sessions_send" {
					require.Contains(t, got, want)
				} else {
					require.Contains(t, got, "you can see no session")
				}
			}
		})
	}
}

// Sessions of another agent are seen with VisibilityAll where AgentToAgent has both agents.
func TestSessionsListOfOtherAgents(t *testing.T) {
	own, both := []string{"agent:main:main"}, []string{"agent:main:main", "agent:other:main"}
	for name, c := range map[string]struct {
		rule policy.AgentToAgent
		want []string
	}{
		"off":      {policy.AgentToAgent{}, own},
		"on":       {policy.AgentToAgent{Enabled: true}, both},
		"one only": {policy.AgentToAgent{Enabled: true, Allow: []string{"main"}}, own},
	} {
		rules := rulesToWriteToOther()
		rules.AgentToAgent = c.rule
		agenttest.Run(t, agent.Config{Rules: rules}, script{
			agenttest.Main: {say("hello")}, otherKey.String(): {say("hello")},
		}, func(h *harness) {
			h.Post("hi")
			h.PostTo(otherKey, "hi")
			h.Pass(time.Minute)
			out, err := callTool(h, "sessions_list", "1", `{}`)
			require.NoError(t, err)
			var seen []string
			for _, x := range out["sessions"].([]any) {
				seen = append(seen, x.(map[string]any)["sessionKey"].(string))
			}
			require.ElementsMatch(t, c.want, seen, name)
			require.EqualValues(t, len(c.want), out["total"], name)
		})
	}
}

// A session that has had no conversation yet reads an empty history of its own.
func TestHistoryBeforeTheFirstMessage(t *testing.T) {
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		answer, err := findTool(t, h.Main().Tools(), "sessions_history").Call(h.Context(),
			agent.ToolCall{Args: json.RawMessage(`{}`)})
		require.NoError(t, err)
		require.JSONEq(t, `{"sessionKey":"agent:main:main","messages":[]}`, answer.Text)
	})
}

func TestSessionsHistory(t *testing.T) {
	inViewBot(t, policy.VisibilityTree, func(b *viewBot) {
		read := func(args string) (texts []string, out map[string]any) {
			answer, err := b.call("sessions_history", args)
			require.NoError(t, err, args)
			require.NotContains(t, answer, "sk-abcdefgh", "credentials are masked")
			require.NoError(t, json.Unmarshal([]byte(answer), &out))
			for _, x := range out["messages"].([]any) {
				text, _ := x.(map[string]any)["message"].(map[string]any)["text"].(string)
				texts = append(texts, text)
			}
			return texts, out
		}
		texts, out := read(`{}`)
		require.Contains(t, texts, "hello")
		require.Equal(t, topKey.String(), out["sessionKey"])
		info, err := b.mid.Info(b.Context())
		require.NoError(t, err)
		for _, name := range []string{"mid", "#1", info.SessionID, b.mid.Key().String()} {
			texts, out = read(`{"sessionKey":"` + name + `"}`)
			require.Equal(t, b.mid.Key().String(), out["sessionKey"], name)
			require.Equal(t, []string{"I look.", "answer 1"}, texts[1:3], name)
		}
		leaf, err := b.leaf.Info(b.Context())
		require.NoError(t, err)
		_, out = read(`{"sessionKey":"` + leaf.SessionID + `"}`)
		require.Equal(t, leaf.Key.String(), out["sessionKey"], "of a sub-agent's sub-agent")
		with, _ := read(`{"sessionKey":"mid","includeTools":true}`)
		require.Equal(t, "I look.", with[1])
		require.Len(t, with, len(texts)+strings.Count(strings.Join(with, " "), "sk-abc"),
			"the results of tools")

		var paged []string
		before := ""
		for range len(texts) + 1 {
			page, out := read(`{"sessionKey":"mid","limit":1` + before + `}`)
			require.LessOrEqual(t, len(page), 1)
			paged = append(page, paged...)
			earlier, more := out["earlier"].(float64)
			if !more {
				break
			}
			before = fmt.Sprintf(`,"before":%d`, int(earlier))
		}
		require.Equal(t, texts, paged)
	})
}

func TestSessionStatus(t *testing.T) {
	inViewBot(t, policy.VisibilityTree, func(b *viewBot) {
		status := func(args string) (out map[string]any) {
			answer, err := b.call("session_status", args)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal([]byte(answer), &out))
			return out
		}
		own := status(`{}`)
		require.Equal(t, "acme/large", own["model"])
		require.Equal(t, "low", own["thinking"])
		require.Contains(t, own["time"], "Saturday 2000-01-01T")
		require.InDelta(t, 0.75, own["cost"], 0.3)
		require.Equal(t, "tree", own["budgets"].([]any)[0].(map[string]any)["of"])
		left := own["budgets"].([]any)[0].(map[string]any)["left"].(map[string]any)["cost"].(float64)
		require.InDelta(t, 2-own["cost"].(float64), left, 1e-9)

		mid := status(`{"sessionKey":"mid"}`)
		require.Equal(t, "mid", mid["label"])
		require.Equal(t, "ok", mid["status"])
		require.Zero(t, mid["activeChildren"])
		var budgets []any
		for _, x := range mid["budgets"].([]any) {
			budgets = append(budgets, x.(map[string]any)["of"])
		}
		require.Equal(t, []any{"session", "tree"}, budgets)
		got, err := b.mid.Session().Status(b.Context())
		require.NoError(t, err)
		require.Equal(t, []session.Key{topKey}, got.Above)
		require.Equal(t, 10, got.Budgets[0].Limit.Turns)
		require.Equal(t, 10-got.Turns-1, got.Budgets[0].Left.Turns, "its sub-agent had one turn")
		require.Greater(t, got.Total.Cost, got.Usage.Cost)
		_, err = b.Session(childKeyOf(t, topKey)).Status(b.Context())
		require.ErrorIs(t, err, agent.ErrNotFound)
	})
}

// In a turn a session has the model and the thinking level of that turn, and the models of the
// agents that it lists follow from them. The sub-agents that it has at work are counted.
func TestStatusWithinATurn(t *testing.T) {
	var status, agents map[string]any
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Depth == 1 && tn.N == 1 {
			for range 2 {
				if _, err := tn.Spawn(ctx, agent.Task{Text: "x"}); err != nil {
					return agent.Result{}, err
				}
			}
			for name, into := range map[string]*map[string]any{
				"session_status": &status, "agents_list": &agents,
			} {
				answer, err := tn.Call(ctx, agent.ToolCall{ID: name, Name: name})
				if err != nil {
					return agent.Result{}, err
				}
				if err := json.Unmarshal([]byte(answer.Text), into); err != nil {
					return agent.Result{}, err
				}
			}
		}
		return agent.Result{Text: "x"}, pause(ctx, time.Minute)
	})
	cfg.Rules = rulesForDepth(2)
	cfg.Rules.SubagentTools.AlsoAllow = []string{"session_status", "agents_list"}
	cfg.Models.Model, cfg.Models.Thinking = "acme/large", "low"
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := h.Main().Spawn(h.Context(), agent.Task{
			Text: "x", Label: "mid", Model: "acme/small", Thinking: "high",
		})
		require.NoError(t, err)
		h.Pass(time.Second)
		require.Equal(t, "acme/small", status["model"])
		require.Equal(t, "high", status["thinking"])
		require.EqualValues(t, 2, status["activeChildren"])
		require.Equal(t, []any{map[string]any{"id": "main", "model": "acme/small"}}, agents["agents"])
		of, err := callTool(h, "session_status", "1", `{"sessionKey":"mid"}`)
		require.NoError(t, err)
		require.EqualValues(t, 2, of["activeChildren"])
		h.Pass(time.Hour)
	})
}

// log and send of the tool subagents obey the same rules as steer: 4,000 characters and a pause of
// two seconds. A message that is repeated counts once.
func TestSubagentsLogAndSend(t *testing.T) {
	toolCallers(t, func(h *harness, use toolCaller) {
		t := h.T()
		child := startAll(h, "work")[0]
		h.Pass(time.Hour / 4)
		answer, err := use("subagents", `{"action":"log","target":"work"}`)
		require.NoError(t, err)
		require.Contains(t, answer, "answer 1")
		for args, want := range map[string]string{
			`{"action":"send","target":"work"}`:                         `"message": it is required`,
			`{"action":"send","target":"work","message":"\u200b"}`:      `"message": it is required`,
			`{"action":"log","target":"work","limit":0}`:                `"limit": it is 0`,
			`{"action":"send","message":"x"}`:                           `"target": it is required`,
			`{"action":"send","target":"all","message":"x"}`:            `it is all of them`,
			`{"action":"send","target":"work","timeoutSeconds":"soon"}`: `want a number from 0 to 30`,
			`{"action":"send","target":"work","message":"` + strings.Repeat("é", 4001) + `"}`: `4001 ` +
				`characters, the limit is 4000`,
		} {
			_, err := use("subagents", args)
			bad, ok := errors.AsType[*agent.ArgumentError](err)
			require.True(t, ok, "%s: %v", args, err)
			require.ErrorContains(t, bad, want)
		}
		message := strings.Repeat("é", 4000)
		answer, err = use("subagents", `{"action":"send","target":"work","message":"`+message+`"}`)
		require.NoError(t, err)
		require.Contains(t, answer, `"status":"accepted"`)
		h.Pass(time.Hour / 4)
		info, err := child.Session().FindRun(h.Context(), "")
		require.NoError(t, err)
		require.Equal(t, "answer 2", info.Result.Text)
	})
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		startAll(h, "a", "b")
		send := func(id, target string) string {
			out, err := callTool(h, "subagents", id,
				`{"action":"send","message":"more","target":"`+target+`"}`)
			require.NoError(t, err)
			return out["status"].(string)
		}
		require.Equal(t, "accepted", send("1", "a"))
		require.Equal(t, "accepted", send("1", "b"), "another pair")
		require.Equal(t, "rate_limited", send("2", "a"))
		time.Sleep(2 * time.Second)
		require.Equal(t, "accepted", send("2", "a"))
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

// What models send, with either tool and to every session, has the bounds of a steer.
func TestSendIsBounded(t *testing.T) {
	rules := policy.Rules{Visibility: policy.VisibilityAll}
	agenttest.Run(t, configHanging(rules), nil, func(h *harness) {
		t := h.T()
		startAll(h, "a")
		tools := h.Main().Tools() // the calls of one turn
		send := func(id, args string) string {
			name := "sessions_send"
			if strings.Contains(args, "action") {
				name = "subagents"
			}
			out, err := callToolOf(h, tools, name, id, args)
			require.NoError(t, err)
			return out["status"].(string)
		}
		const below = `{"sessionKey":"a","message":"more"}`
		const other = `{"sessionKey":"agent:main:telegram:group:1","message":"more"}`
		_, err := h.Runtime().Session(session.Must(session.Parse("agent:main:telegram:group:1"))).
			Post(h.Context(), agent.Incoming{Text: "x"})
		require.NoError(t, err)
		for i, args := range []string{below, other} {
			id := strconv.Itoa(i)
			require.Equal(t, "accepted", send(id, args))
			require.Equal(t, "accepted", send(id, args), "the same call again")
			for range 10 {
				require.Equal(t, "rate_limited", send("x", args))
			}
		}
		both := `{"action":"send","target":"a","message":"more"}`
		require.Equal(t, "rate_limited", send("2", both), "by the other tool")
		time.Sleep(2 * time.Second)
		require.Equal(t, "accepted", send("3", both))
		require.Equal(t, "rate_limited", send("4", below))
		require.Equal(t, "accepted", send("4", other))

		long := strings.Repeat("é", 4001)
		for name, want := range map[string]string{
			`{"sessionKey":"a","message":"` + long + `"}`: `"message": it has 4001 characters`,
			`{"sessionKey":"nope","message":"x"}`:         `"sessionKey": "nope"`,
			`{"session_key":"nope","message":"x"}`:        `"session_key": "nope"`,
			`{"target":"nope","message":"x"}`:             `"target": "nope"`,
			`{"label":"nope","message":"x"}`:              `"label": "nope"`,
			`{"label":" ","message":"x"}`:                 `"label": it is required`,
		} {
			_, err := callToolOf(h, tools, "sessions_send", "5", name)
			_, ok := errors.AsType[*agent.ArgumentError](err)
			require.True(t, ok, "%v", err)
			require.ErrorContains(t, err, want)
		}
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

// A message that was not taken does not count: the next one may come at once.
func TestSendThatFailsDoesNotCount(t *testing.T) {
	rules := policy.Rules{Visibility: policy.VisibilityAll}
	agenttest.Run(t, configHanging(rules), nil, func(h *harness) {
		t := h.T()
		tools := h.Main().Tools()
		other := session.Must(session.Parse("agent:main:telegram:group:1"))
		send := func(id string) string {
			out, err := callToolOf(h, tools, "sessions_send", id,
				`{"sessionKey":"`+other.String()+`","message":"`+id+`"}`)
			require.NoError(t, err)
			return out["status"].(string)
		}
		require.Equal(t, "error", send("1"), "it has never had a message")
		require.Equal(t, "error", send("2"))
		_, err := h.Runtime().Session(other).Post(h.Context(), agent.Incoming{Text: "x"})
		require.NoError(t, err)
		require.Equal(t, "accepted", send("3"))
		require.Equal(t, "rate_limited", send("4"))
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

// A model that waits for an answer is given it, and what has not come in time comes later.
func TestSendThatWaits(t *testing.T) {
	toolCallers(t, func(h *harness, use toolCaller) {
		t := h.T()
		startAll(h, "work")
		h.Pass(time.Hour / 4)
		begun := time.Now()
		answer, err := use("sessions_send",
			`{"sessionKey":"work","message":"quick","timeoutSeconds":10}`)
		require.NoError(t, err)
		if time.Since(begun) < 10*time.Second { // the turn goes on behind the call
			h.Pass(time.Minute)
			return
		}
		require.Contains(t, answer, "It has not answered yet")
		h.Pass(time.Hour)
		answer, err = use("sessions_send",
			`{"sessionKey":"work","message":"and now","timeoutSeconds":99999}`)
		require.NoError(t, err)
		require.Contains(t, answer, "It has not answered yet", "30 seconds at most")
		h.Pass(time.Hour)
	})
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("at once")
	})
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		startAll(h, "work")
		h.Pass(time.Second)
		out, err := callTool(h, "sessions_send", "1",
			`{"sessionKey":"work","message":"x","timeoutSeconds":5}`)
		require.NoError(t, err)
		require.Equal(t, "ok", out["status"])
		require.Equal(t, "at once", out["reply"])
	})
}

// A file of a message is shown by its hash, if the conversation has it: a text with its credentials
// masked, and another one as it is, beside the answer.
func TestFileOfAHistory(t *testing.T) {
	secret := "token=" + strings.Repeat("x1y2", 10)
	picture := []byte("\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 20))
	agenttest.Run(t, configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("seen")
	}), nil, func(h *harness) {
		h.PostIncoming(topKey, agent.Incoming{Text: "look", Parts: []agent.Part{
			{Kind: agent.PartFile, MediaType: "text/plain", Name: "notes.txt", Data: []byte(secret)},
			{Kind: agent.PartImage, MediaType: "image/png", Name: "a.png", Data: picture},
		}})
		h.Pass(time.Minute)
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		parts := page.Lines[0].Message.Parts
		require.Len(t, parts, 2)
		tool := findTool(t, h.Main().Tools(), "sessions_history")
		show := func(hash string) (agent.ToolResult, error) {
			args := fmt.Sprintf(`{"file":%q}`, hash)
			return tool.Call(h.Context(), agent.ToolCall{Args: json.RawMessage(args)})
		}
		answer, err := show(parts[0].File.Hash)
		require.NoError(t, err)
		require.Contains(t, answer.Text, "notes.txt")
		require.NotContains(t, answer.Text, secret)
		answer, err = show(parts[1].File.Hash)
		require.NoError(t, err)
		require.Len(t, answer.Parts, 1)
		require.Equal(t, picture, answer.Parts[0].Data)
		for _, none := range []string{strings.Repeat("0", 64), "../../etc/passwd", "x"} {
			_, err = show(none)
			require.ErrorContains(t, err, "no message of this conversation has a file with this hash")
		}
	})
}

// A note of a model that yields stands in the answer of the tool, which its next turn reads.
func TestYieldWithANote(t *testing.T) {
	s := script{
		"main": {
			startStep("a"), call("sessions_yield", `{"message":"then compare the two"}`), echo(),
		},
		"a": {say("done").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Hour)
		requests := h.Requests("main")
		var read strings.Builder
		for _, m := range requests[len(requests)-1].Messages {
			read.WriteString(m.Text)
		}
		require.Contains(t, read.String(), `"message":"then compare the two"`)
	})
}

// What a model gives that no tool takes is refused by its name, and begins nothing.
func TestHostileArgumentsOfViews(t *testing.T) {
	inViewBot(t, policy.VisibilityAll, func(b *viewBot) {
		for _, c := range []struct{ tool, args, want string }{
			{"agents_list", `{"agent":"x"}`, "the tool takes none"},
			{"agents_list", `[]`, "the arguments: they are a list, want a JSON object"},
			{"sessions_list", `{"kinds":"main"}`, "want a list of words, each one of "},
			{"sessions_list", `{"kinds":["main","node"]}`, `"node", want a list of words, each one of`},
			{"sessions_list", `{"limit":0}`, "it is 0, want a whole number from 1 to "},
			{"sessions_list", `{"limit":-1}`, "it is -1, want a whole number from 1 to "},
			{"sessions_list", `{"limit":"9"}`, `it is "9", want a whole number from 1 to `},
			{"sessions_list", `{"limit":1,"limit":2}`, "there twice"},
			{"sessions_list", `{"activeMinutes":-1e400}`, "it is -1e400, want a whole number from 0 to "},
			{"sessions_history", `{"limit":0.5}`, "want a whole number from 1 to "},
			{"sessions_history", `{"includeTools":"yes"}`, "want true or false"},
			{"sessions_history", `{"before":-5}`, "want a whole number, 0 or more"},
			{"sessions_history", `{"sessionKey":7}`, "it is 7, want a string"},
			{"sessions_history", `{"sessionKey":"agent:main:\u0000"}`, "you can see no session"},
			{"sessions_history", `{"sessionKey":"../../etc"}`, "you can see no session"},
			{"session_status", `{"sessionKey":"all"}`, "you can see no session"},
			{"session_status", `{"sessionKey":"a","session_key":"b"}`, "is there too"},
			{"subagents", `{"action":"list","recentMinutes":"x"}`, "want a whole number"},
			{"subagents", `{"action":"stop","target":"1"}`, `it is "stop", want one of list, info`},
		} {
			_, err := b.call(c.tool, c.args)
			bad, ok := errors.AsType[*agent.ArgumentError](err)
			require.True(t, ok, "%s %s: %v", c.tool, c.args, err)
			require.ErrorContains(t, bad, c.want, c.args)
			require.Less(t, len(bad.Error()), 1000)
		}
		for _, args := range []string{
			`{"limit":1e300}`, `{"activeMinutes":1e300}`, `{"messageLimit":1e300,"kinds":[]}`,
		} {
			_, err := b.call("sessions_list", args)
			require.NoError(t, err, args)
		}
		_, err := b.call("sessions_history", `{"limit":1e300,"before":1e300}`)
		require.NoError(t, err)
	})
}

// The numbers of every session tool obey one rule, which the schema tells: what is below the
// minimum is refused, and for an integer what is not whole. What is above a maximum counts as that.
func TestNumbersObeyTheirSchema(t *testing.T) {
	required := map[string]map[string]any{
		"sessions_spawn": {"task": "x"},
		"sessions_send":  {"sessionKey": "agent:main:nowhere", "message": "x"},
	}
	seen := map[string]bool{}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key != topKey {
			return textResult("done")
		}
		for _, tool := range tn.Tools {
			var schema struct {
				Properties map[string]struct {
					Type             string
					Minimum, Maximum *float64
				}
			}
			require.NoError(t, json.Unmarshal(tool.Schema, &schema), tool.Name)
			for name, p := range schema.Properties {
				if p.Type != "integer" && p.Type != "number" {
					continue
				}
				seen[tool.Name+"."+name] = true
				require.NotNil(t, p.Minimum, "%s.%s", tool.Name, name)
				try := func(x float64, accepted bool) {
					args := map[string]any{name: x}
					maps.Copy(args, required[tool.Name])
					raw, err := json.Marshal(args)
					require.NoError(t, err)
					c := agent.ToolCall{ID: session.NewID(), Name: tool.Name, Args: raw}
					_, err = tn.Call(ctx, c)
					bad, wrong := errors.AsType[*agent.ArgumentError](err)
					require.Equal(t, accepted, !wrong, "%s %s: %v", tool.Name, raw, err)
					if wrong {
						require.Equal(t, name, bad.Argument)
					}
				}
				whole := p.Type == "integer"
				try(*p.Minimum-1, false)
				try(*p.Minimum-0.5, false)
				try(*p.Minimum+0.5, !whole)
				try(*p.Minimum, true)
				try(1e15+1, true)
				if p.Maximum != nil {
					try(*p.Maximum+1, true)
					try(*p.Maximum+0.5, !whole)
				}
			}
		}
		return textResult("done")
	})
	cfg.Rules.Subagents.MaxChildren = 20
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Pass(time.Hour)
		require.Len(t, seen, 12, "%v", seen)
	})
}

// Every argument of every session tool may be written with underscores, and not in both ways.
func TestArgumentsWithUnderscores(t *testing.T) {
	upper := regexp.MustCompile("[A-Z]")
	seen := 0
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		for _, tool := range tn.Tools {
			var schema struct{ Properties map[string]any }
			require.NoError(t, json.Unmarshal(tool.Schema, &schema), tool.Name)
			for name := range schema.Properties {
				other := upper.ReplaceAllStringFunc(name, func(s string) string {
					return "_" + strings.ToLower(s)
				})
				if other == name {
					continue
				}
				seen++
				call := func(args string) error {
					c := agent.ToolCall{ID: session.NewID(), Name: tool.Name, Args: []byte(args)}
					_, err := tn.Call(ctx, c)
					return err
				}
				if err := call(`{"` + other + `":null}`); err != nil {
					require.NotContains(t, err.Error(), "not known", "%s.%s", tool.Name, other)
				}
				err := call(`{"` + name + `":null,"` + other + `":null}`)
				if err != nil {
					require.NotContains(t, err.Error(), "not known", "%s.%s", tool.Name, other)
				}
			}
		}
		return textResult("done")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Pass(time.Hour)
		require.GreaterOrEqual(t, seen, 15)
	})
}

// The schema of sessions_spawn names the agents that the session may spawn, unless the names depend
// on more than the session: on the runtime that a call asks for, or on what Sandbox.Decide says of
// the child. Each agent of the enum is admitted, and without it the answer says who is not.
func TestEnumOfAgentsInTheSchemaOfASpawn(t *testing.T) {
	runner := agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "x"}, nil
	})
	for name, c := range map[string]struct {
		set  func(cfg *agent.Config)
		enum bool
	}{
		"rules alone": {func(*agent.Config) {}, true},
		"a sandbox by mode": {func(cfg *agent.Config) {
			cfg.Rules.Sandbox.Mode = policy.SandboxAll
		}, true},
		"runtimes": {func(cfg *agent.Config) {
			cfg.Runners.Runtimes = map[string]agent.ExternalRuntime{"ext": {Runner: runner}}
		}, false},
		"a function on sandboxes": {func(cfg *agent.Config) {
			cfg.Rules.Sandbox.Decide = func(string, session.Key) bool { return false }
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Runner: runner}
			viewTeam(&cfg.Rules)
			c.set(&cfg)
			agenttest.Run(t, cfg, nil, func(h *harness) {
				schema := string(findTool(t, h.Main().Tools(), "sessions_spawn").Schema)
				require.Equal(t, c.enum, strings.Contains(schema,
					`"agentId":{"type":"string","enum":["main","coder"],`), schema)
				require.True(t, json.Valid([]byte(schema)))
				for _, id := range []string{"main", "coder", "ops"} {
					out, err := callTool(h, "sessions_spawn", id, `{"task":"x","agentId":"`+id+`"}`)
					require.NoError(t, err)
					want := map[bool]string{true: "accepted", false: "forbidden"}[id != "ops"]
					require.Equal(t, want, out["status"], "%s: %v", id, out)
				}
			})
		})
	}
}

// What a tool does without its optional arguments, and at most with them: 50 sessions and no
// messages of theirs, 200 messages without tools, and no wait for an answer, or 30 seconds.
func TestDefaultsOfSessionTools(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Depth > 0 {
			return agent.Result{Text: "x"}, pause(ctx, time.Hour)
		}
		call := agent.ToolCall{ID: "1", Name: "read", Args: []byte(`{}`)}
		for _, m := range []agent.Message{
			{Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{call}},
			{Role: session.MessageTool, ToolCallID: "1", Text: "the file"},
		} {
			if err := tn.Record(ctx, m); err != nil {
				return agent.Result{}, err
			}
		}
		return agent.Result{Text: "answer"}, nil
	})
	cfg.Rules.Visibility = policy.VisibilityAgent
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for i := range 60 {
			h.PostTo(session.Must(session.GroupKey("main", "irc", fmt.Sprint("room-", i))), "hello")
		}
		for range 110 {
			h.Post("hello")
			h.Pass(time.Second)
		}
		n := 0
		use := func(tool, args string) map[string]any {
			n++
			out, err := callTool(h, tool, fmt.Sprint(n), args)
			require.NoError(t, err, args)
			return out
		}
		for args, want := range map[string]int{`{}`: 50, `{"limit":55}`: 55, `{"limit":999}`: 61} {
			out := use("sessions_list", args)
			require.Len(t, out["sessions"], want, args)
			require.EqualValues(t, 61, out["total"])
			require.NotContains(t, out["sessions"].([]any)[0], "messages")
		}
		line := use("sessions_list", `{"messageLimit":99}`)["sessions"].([]any)[0].(map[string]any)
		require.Len(t, line["messages"], 20)
		for args, want := range map[string]int{
			`{}`: 200, `{"limit":5}`: 5, `{"limit":9999}`: 220,
			`{"includeTools":false,"limit":9999}`: 220, `{"includeTools":true,"limit":9999}`: 440,
		} {
			require.Len(t, use("sessions_history", args)["messages"], want, args)
		}
		use("sessions_spawn", `{"task":"work","label":"work"}`)
		for args, want := range map[string]time.Duration{
			`{"sessionKey":"work","message":"a"}`:                       0,
			`{"sessionKey":"work","message":"b","timeoutSeconds":0}`:    0,
			`{"sessionKey":"work","message":"c","timeoutSeconds":2.5}`:  5 * time.Second / 2,
			`{"sessionKey":"work","message":"d","timeoutSeconds":3600}`: 30 * time.Second,
		} {
			h.Pass(3 * time.Second)
			begun := time.Now()
			require.Equal(t, "accepted", use("sessions_send", args)["status"], args)
			require.Equal(t, want, time.Since(begun), args)
		}
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}
