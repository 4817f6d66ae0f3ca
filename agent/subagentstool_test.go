package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// startThree starts three sub-agents that hang, two of them with the same label.
func startThree(h *harness) []agent.RunInfo {
	for i, label := range []string{"a", "b", "b"} {
		_, err := callTool(h, "sessions_spawn", fmt.Sprint(i),
			`{"task":"work","label":"`+label+`"}`)
		require.NoError(h.T(), err)
	}
	return h.Runs()
}

// newestFirst returns runs as lists show them.
func newestFirst(runs []agent.RunInfo) []agent.RunInfo {
	runs = slices.Clone(runs)
	slices.Reverse(runs)
	return runs
}

func TestSubagentsList(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		out, err := callTool(h, "subagents", "1", `{}`)
		require.NoError(t, err)
		require.Empty(t, out["subagents"], "a session that never was has no sub-agents")
		runs := newestFirst(startThree(h))
		time.Sleep(90 * time.Second)
		for _, args := range []string{``, `{}`, `{"action":"list"}`} {
			out, err := callTool(h, "subagents", "1", args)
			require.NoError(t, err)
			list := out["subagents"].([]any)
			require.Len(t, list, 3)
			for i, x := range list {
				line := x.(map[string]any)
				require.EqualValues(t, i+1, line["number"])
				require.Equal(t, string(runs[i].ID), line["runId"])
				require.Equal(t, runs[i].Key.String(), line["sessionKey"])
				require.Equal(t, runs[i].Label, line["label"])
				require.Equal(t, "running", line["status"])
				require.Equal(t, "1m30s", line["runtime"])
				require.NotContains(t, line, "task", "the list is short")
			}
		}
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

func TestSubagentsTarget(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		runs := newestFirst(startThree(h))
		tools := h.Main().Tools()
		_, err := callToolOf(h, tools, "subagents", "1", `{}`)
		require.NoError(t, err)
		for target, want := range map[string]agent.RunInfo{
			"1": runs[0], "#2": runs[1], "a": runs[2], "last": runs[0], string(runs[2].ID): runs[2],
			runs[1].Key.String(): runs[1],
		} {
			out, err := callToolOf(h, tools, "subagents", "1",
				`{"action":"info","target":"`+target+`"}`)
			require.NoError(t, err)
			require.Equal(t, string(want.ID), out["runId"], target)
			require.Equal(t, "work", out["task"])
			require.EqualValues(t, slices.IndexFunc(runs, func(r agent.RunInfo) bool {
				return r.ID == want.ID
			})+1, out["number"], "as in the list")
		}
		for args, want := range map[string]string{
			`{"action":"info"}`:                 `"target": it is required`,
			`{"action":"info","target":"b"}`:    `"b": it may be any of 2: #2, run `,
			`{"action":"info","target":"zzz"}`:  `"zzz": it names none of this session's sub-agents`,
			`{"action":"info","target":"4"}`:    `"4": it is not a number of the list, which has 3 sub-agents`,
			`{"action":"info","target":"0"}`:    `"0": it is not a number of the list`,
			`{"action":"info","target":"all"}`:  `"all": it is all of them`,
			`{"action":"steer","target":"all"}`: `"all": it is all of them`,
			`{"action":"dance","target":"1"}`:   `"dance", want one of`,
			`{"action":7}`:                      `want a string`,
			`x`:                                 `want a JSON object`,
		} {
			_, err := callToolOf(h, tools, "subagents", "1", args)
			bad, ok := errors.AsType[*agent.ArgumentError](err)
			require.True(t, ok, "%s: %v", args, err)
			require.Equal(t, "subagents", bad.Tool)
			require.ErrorContains(t, err, want)
		}
		other := h.Session(session.Must(session.NamedKey("main", "other"))).Tools()
		_, err = callToolOf(h, other, "subagents", "1",
			`{"action":"kill","target":"`+string(runs[0].ID)+`"}`)
		require.ErrorContains(t, err, "names none", "only one's own can be reached")
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

// A number is a place of the list that the session's model was shown last, whatever has left or
// come since, so that it never reaches another run than the one that the model has read about.
// After half an hour, and where no list was shown, it is a place of the list of now.
func TestNumbersOfAList(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		runs := newestFirst(startThree(h))
		do := func(tool, args string) (map[string]any, error) {
			return callTool(h, tool, args, args)
		}
		info := `{"action":"info","target":"%s"}`
		idOf := func(number string) string {
			out, err := do("subagents", fmt.Sprintf(info, number))
			require.NoError(t, err)
			return out["runId"].(string)
		}
		out, err := do("subagents", fmt.Sprintf(info, runs[1].ID))
		require.NoError(t, err)
		require.NotContains(t, out, "number", "no list was shown")
		require.Equal(t, string(runs[1].ID), idOf("2"), "the list of now")
		_, err = do("subagents", `{}`)
		require.NoError(t, err)
		_, err = callTool(h, "sessions_spawn", "new", `{"task":"work","label":"new"}`)
		require.NoError(t, err)
		require.NoError(t, h.Runtime().DeleteSession(h.Context(), runs[0].Key))
		h.Pass(time.Minute)

		require.Equal(t, string(runs[1].ID), idOf("2"))
		require.Equal(t, string(runs[2].ID), idOf("#3"))
		_, err = do("subagents", fmt.Sprintf(info, "1"))
		require.ErrorContains(t, err, "that number was run "+string(runs[0].ID))
		require.ErrorContains(t, err, "not on record any more")
		out, err = do("subagents", `{"action":"kill","target":"2"}`)
		require.NoError(t, err)
		require.Equal(t, []any{string(runs[1].ID)}, out["stopped"])

		_, err = h.Session(runs[2].Key).Post(h.Context(), agent.Incoming{ID: "m", Text: "more"})
		require.NoError(t, err)
		_, err = do("subagents", `{"action":"kill","target":"`+string(runs[2].ID)+`"}`)
		require.NoError(t, err)
		h.Pass(time.Minute)
		_, err = h.Session(runs[2].Key).Post(h.Context(), agent.Incoming{ID: "n", Text: "again"})
		require.NoError(t, err)
		h.Pass(time.Second)
		out, err = do("subagents", `{"action":"kill","target":"3"}`)
		require.NoError(t, err)
		require.Empty(t, out["stopped"], "what was shown has ended: its follow-up goes on")
		require.Contains(t, out["note"], "has followed it")
		now := h.Runs()
		h.Pass(30 * time.Minute)
		require.Equal(t, string(now[len(now)-1].ID), idOf("2"), "the follow-up is newer")
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

// Each person has numbers of their own in a session, the tree of a session has those of all its
// sub-agents, and a program finds what the tools find.
func TestFindTarget(t *testing.T) {
	agenttest.Run(t, configHanging(rulesForDepth(2)), nil, func(h *harness) {
		ctx, main := h.Context(), h.Main()
		none, err := main.ListRuns(ctx, agent.TargetQuery{})
		require.NoError(t, err, "a session that never was")
		require.Zero(t, none)
		mid, err := main.Spawn(ctx, agent.Task{Text: "x", Label: "mid", Name: "mid"})
		require.NoError(t, err)
		leaf, err := h.Session(mid.Key()).Spawn(ctx, agent.Task{Text: "y", Label: "Leaf One"})
		require.NoError(t, err)
		ann, bob := agent.TargetQuery{Viewer: "ann", Tree: true}, agent.TargetQuery{Viewer: "bob"}
		find := func(target string, q agent.TargetQuery) agent.RunID {
			found, err := main.FindTarget(ctx, target, q)
			require.NoError(t, err, target)
			require.Len(t, found, 1)
			return found[0].ID
		}
		list, err := main.ListRuns(ctx, ann)
		require.NoError(t, err)
		require.Equal(t, 2, list.Active)
		require.Equal(t, 2, list.Total)
		require.Equal(t, leaf.ID(), list.Runs[0].ID)
		_, err = main.ListRuns(ctx, bob)
		require.NoError(t, err)
		require.Equal(t, leaf.ID(), find("1", ann))
		require.Equal(t, mid.ID(), find("1", bob))
		require.Equal(t, leaf.ID(), find("leaf", ann))
		require.Equal(t, leaf.ID(), find("LAST", ann))
		require.Equal(t, mid.ID(), find("last", bob))
		_, err = main.FindTarget(ctx, "leaf", bob)
		require.ErrorIs(t, err, agent.ErrNotFound, "it is below a sub-agent")
		var bad *agent.TargetError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "leaf", bad.Target)
		require.Empty(t, bad.Candidates)
		all, err := main.FindTarget(ctx, "*", agent.TargetQuery{Tree: true, Many: true})
		require.NoError(t, err)
		require.Len(t, all, 2)
		_, err = h.Session(childKeyOf(t, topKey)).FindTarget(ctx, "1", agent.TargetQuery{})
		require.ErrorIs(t, err, agent.ErrNotFound)
		require.NoError(t, main.Stop(ctx))
		h.Pass(time.Hour)
		list, err = main.ListRuns(ctx, ann)
		require.NoError(t, err)
		require.Empty(t, list.Runs, "both ended an hour ago")
		_, err = main.FindTarget(ctx, "1", ann)
		require.ErrorIs(t, err, agent.ErrNotFound)
	})
}

// A target is what can be read of it: what cannot be seen does not make it a label instead of a
// name. A label that reads like a number is found where the list has no such number.
func TestTargetsAreWhatIsRead(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		for _, task := range []agent.Task{
			{Text: "x", Name: "one"}, {Text: "x", Label: "one"}, {Text: "x", Label: "4"},
		} {
			_, err := h.Main().Spawn(h.Context(), task)
			require.NoError(t, err)
		}
		tools, named := h.Main().Tools(), string(h.Runs()[0].ID)
		for _, target := range []string{"one", " one", "one\u200b", "\ufeffone\u2060", "one\u00a0"} {
			out, err := callToolOf(h, tools, "subagents", "1",
				`{"action":"info","target":"`+target+`"}`)
			require.NoError(t, err)
			require.Equal(t, named, out["runId"], "%+q", target)
		}
		out, err := callToolOf(h, tools, "subagents", "1", `{"action":"info","target":"3"}`)
		require.NoError(t, err)
		require.Equal(t, named, out["runId"], "the number hides the label")
		out, err = callToolOf(h, tools, "subagents", "1", `{"action":"info","target":"4"}`)
		require.NoError(t, err)
		require.Equal(t, string(h.Runs()[2].ID), out["runId"])
		for _, target := range []string{"5", "01", "+1"} {
			_, err := callToolOf(h, tools, "subagents", "1",
				`{"action":"info","target":"`+target+`"}`)
			require.Error(t, err, target)
		}
		require.NoError(t, h.Main().Stop(h.Context()))
	})
}

func TestSubagentsKill(t *testing.T) {
	agenttest.Run(t, configHanging(policy.Rules{}), nil, func(h *harness) {
		runs := startThree(h)
		out, err := callTool(h, "subagents", "1", `{"action":"kill","target":"a"}`)
		require.NoError(t, err)
		require.Equal(t, []any{string(runs[0].ID)}, out["stopped"])
		out, err = callTool(h, "subagents", "1", `{"action":"kill","target":"a"}`)
		require.NoError(t, err)
		require.Empty(t, out["stopped"], "it has ended")
		out, err = callTool(h, "subagents", "1", `{"action":"kill","target":"all"}`)
		require.NoError(t, err)
		require.Len(t, out["stopped"], 2)
		for _, r := range h.Runs() {
			require.Equal(t, spawn.StatusCancelled, r.Status)
		}
	})
}

func TestSubagentsSteer(t *testing.T) {
	s := script{
		"main": {
			startStep("a"), say("On it."),
			call("subagents", `{"action":"steer","target":"a","message":"use the other file"}`),
			say("Told it."), echo(),
		},
		"a": {call("ls", `{}`).After(time.Minute), echo()},
	}
	agenttest.Run(t, agent.Config{Tools: toolbox("ls")}, s, func(h *harness) {
		h.Post("go")
		time.Sleep(time.Second)
		h.Post("it is the other file")
		time.Sleep(time.Hour / 2)
		h.Replied("On it.", "Told it.", "ran ls\nuse the other file")
	})
}

func TestSteer(t *testing.T) {
	var got []agent.Message
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (res agent.Result, err error) {
		for range 2 {
			time.Sleep(time.Minute)
			more, err := tn.Inbox(ctx)
			if err != nil {
				return res, err
			}
			for _, m := range more {
				got = append(got, m)
				res.Text += m.Text + " "
			}
		}
		return res, nil
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "work"})
		require.NoError(t, err)
		synctest.Wait()
		require.ErrorContains(t, c.Steer(h.Context(), "  "), "empty")
		require.ErrorContains(t, c.Steer(h.Context(), string(make([]rune, 4001))),
			"4001 characters, the limit is 4000")
		require.NoError(t, c.Steer(h.Context(), "left"))
		err = c.Steer(h.Context(), "right")
		refusal, ok := errors.AsType[*policy.Refusal](err)
		require.True(t, ok, "%v", err)
		require.Contains(t, refusal.Limit, "2s")
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Steer(h.Context(), "right"))
		time.Sleep(time.Hour)
		result, err := c.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "left right ", result)
		require.Len(t, got, 2)
		for _, m := range got {
			require.True(t, m.Internal)
			require.Equal(t, session.MessageUser, m.Role)
		}
		require.ErrorIs(t, c.Steer(h.Context(), "too late"), agent.ErrEnded)
		info, err := c.Info(h.Context())
		require.NoError(t, err)
		require.Equal(t, 1, info.Turns, "a steer never makes a run start over")
	})
}

// steerTree is a tree of a session that is steered from: a root with a sub-agent and its sibling,
// which runs for ever, and a sub-agent of the first.
type steerTree struct {
	h              *harness
	turn           *agent.Turn // of mid
	mid, sib, leaf *agent.Child[string]
	steer          map[string]func(key session.Key, text string) error
}

// inSteerTree calls f with a tree while the turn of mid is under way.
func inSteerTree(t *testing.T, f func(x *steerTree)) {
	t.Helper()
	turns := make(chan *agent.Turn, 1)
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Label == "mid" {
			turns <- tn
		}
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	})
	cfg.Rules = rulesForDepth(2)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		x := &steerTree{h: h}
		spawnFrom := func(from agent.Requester, label string) *agent.Child[string] {
			c, err := agent.Spawn[string](h.Context(), from, agent.Task{Text: "x", Label: label})
			require.NoError(t, err)
			return c
		}
		x.mid, x.sib = spawnFrom(h.Main(), "mid"), spawnFrom(h.Main(), "sib")
		x.turn = <-turns
		x.leaf = spawnFrom(h.Session(x.mid.Key()), "leaf")
		synctest.Wait()
		ctx := h.Context()
		x.steer = map[string]func(key session.Key, text string) error{
			"Session.Steer": func(key session.Key, text string) error {
				return h.Session(x.mid.Key()).Steer(ctx, key, text)
			},
			"Turn.Steer": func(key session.Key, text string) error {
				return x.turn.Steer(ctx, key, text)
			},
			"Session.Steer of a Child": func(key session.Key, text string) error {
				return x.mid.Session().Steer(ctx, key, text)
			},
			"subagents": func(key session.Key, text string) error {
				args, err := json.Marshal(map[string]string{
					"action": "steer", "target": key.String(), "message": text,
				})
				require.NoError(t, err)
				_, err = x.turn.Call(ctx, agent.ToolCall{ID: "1", Name: "subagents", Args: args})
				return err
			},
		}
		f(x)
		require.NoError(t, h.Main().Stop(ctx))
	})
}

// badText returns what the error is of a text that cannot be sent. For a model it names the
// argument.
func badText(how string) any {
	if how == "subagents" {
		return new(*agent.ArgumentError)
	}
	return new(*agent.InputError)
}

// Session.Steer and Turn.Steer do from Go what the tool subagents does: with the same limits and
// the same errors, and only below the session.
func TestSteerFromGo(t *testing.T) {
	for _, how := range []string{
		"Session.Steer", "Turn.Steer", "Session.Steer of a Child", "subagents",
	} {
		t.Run(how, func(t *testing.T) {
			inSteerTree(t, func(x *steerTree) {
				steer, leaf := x.steer[how], x.leaf.Key()
				require.ErrorAs(t, steer(leaf, " \u200b"), badText(how))
				err := steer(leaf, strings.Repeat("ä", 4001))
				require.ErrorAs(t, err, badText(how))
				require.ErrorContains(t, err, "4001 characters, the limit is 4000")
				require.NoError(t, steer(leaf, strings.Repeat("ä", 4000)))
				for other, again := range x.steer {
					refusal, ok := errors.AsType[*policy.Refusal](again(leaf, "again"))
					require.True(t, ok, other)
					require.Contains(t, refusal.Limit, "one in 2s", other)
				}
				for name, key := range map[string]session.Key{
					"itself": x.mid.Key(), "its sibling": x.sib.Key(), "the root": topKey,
					"another tree": childKeyOf(t, session.Must(session.MainKey("other"))),
					"no session":   {},
				} {
					err := steer(key, "x")
					if how == "subagents" {
						_, ok := errors.AsType[*agent.ArgumentError](err)
						require.True(t, ok, "%s: %v", name, err)
						continue
					}
					require.ErrorIs(t, err, agent.ErrNotFound, name)
				}
				time.Sleep(2 * time.Second)
				require.NoError(t, x.leaf.Stop(x.h.Context()))
				require.ErrorIs(t, steer(leaf, "x"), agent.ErrEnded)
			})
		})
	}
	inSteerTree(t, func(x *steerTree) {
		require.NoError(t, x.h.Main().Steer(x.h.Context(), x.leaf.Key(), "from the root"))
		require.ErrorIs(t, x.h.Main().Steer(x.h.Context(), topKey, "x"), agent.ErrNotFound)
		none := x.h.Session(childKeyOf(t, topKey))
		require.ErrorIs(t, none.Steer(x.h.Context(), x.leaf.Key(), "x"), agent.ErrNotFound)
	})
}

// Pain 32: a steer that a Runner does not take is missed: it never wakes a run whose turn is over,
// and the end of the run says so, to the program, in the tool, and to the requester, also after a
// crash. One that is taken is not missed, and one that comes after the end is refused.
func TestSteerThatIsMissed(t *testing.T) {
	for name, taken := range map[string]bool{"missed": false, "taken": true} {
		t.Run(name, func(t *testing.T) {
			var told string
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if !tn.Session.Key.IsSubagent() {
					told += tn.Input()
					return textResult("ok")
				}
				if err := pause(ctx, time.Minute); err != nil || !taken {
					return agent.Result{Text: "found"}, err
				}
				in, err := tn.Inbox(ctx)
				require.Len(t, in, 1)
				return agent.Result{Text: "found"}, err
			})
			agenttest.Run(t, cfg, nil, func(h *harness) { testMissedSteer(t, h, taken) })
			require.Equal(t, !taken, strings.Contains(told, " • steersMissed 1"), told)
		})
	}
}

func testMissedSteer(t *testing.T, h *harness, taken bool) {
	t.Helper()
	c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
		Text: "look", Label: "a", Announce: true,
	})
	require.NoError(t, err)
	h.Pass(time.Second)
	require.NoError(t, c.Steer(h.Context(), "hurry"))
	info, err := c.Info(h.Context())
	require.NoError(t, err)
	require.Zero(t, info.Missed, "it may still be read")
	h.Pass(time.Hour)
	for range 2 { // over a crash
		info = h.Child("a")
		require.Equal(t, agent.StatusOK, info.Status)
		require.Equal(t, "found", info.Result.Text)
		require.Equal(t, 1, info.Turns)
		require.Equal(t, !taken, info.Missed == 1)
		shown, err := callTool(h, "subagents", "1", `{"action":"info","target":"a"}`)
		require.NoError(t, err)
		require.Equal(t, !taken, shown["steersMissed"] == 1.0)
		require.ErrorIs(t, h.Main().Steer(h.Context(), info.Key, "x"), agent.ErrEnded)
		_, err = callTool(h, "subagents", "2", `{"action":"steer","target":"a","message":"x"}`)
		require.ErrorIs(t, err, agent.ErrEnded)
		h.Crash()
	}
}

// A follow-up to a sub-agent that works is read by its next turn, and the run ends after that one.
func TestPostToASubagent(t *testing.T) {
	agenttest.Run(t, agent.Config{}, script{"a": {say("first").After(time.Minute), echo()}},
		func(h *harness) {
			c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "work", Label: "a"})
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, errorOf(c.Session().Post(h.Context(), agent.Incoming{Text: "and then?"})))
			got, err := c.Wait(h.Context())
			require.NoError(t, err)
			require.Equal(t, "and then?", got)
			receipt, err := c.Session().Post(h.Context(), agent.Incoming{Text: "more"})
			require.NoError(t, err)
			require.NotEqual(t, c.ID(), receipt.Run, "the run has ended: another one begins")
			require.Empty(t, h.Replies())
		})
}

// C2: what is stopped together, or comes together, is not announced as still active.
func TestSiblingsThatComeTogetherAreNotActive(t *testing.T) {
	for name, c := range map[string]struct {
		then agenttest.Step
		want int
	}{
		"all killed":    {call("subagents", `{"action":"kill","target":"all"}`), 2},
		"all have come": {yieldStep(), 3},
		"two have come": {call("sessions_yield", `{"withinSeconds":150}`), 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := script{
				"main": {
					andStart(andStart(startStep("a"), "b"), "c"), c.then, say("ok"), say("ok"),
					say("ok"),
				},
				"a": {say("a is done").After(time.Minute)},
				"b": {say("b is done").After(2 * time.Minute)},
				"c": {say("c is done").After(time.Hour)},
			}
			agenttest.Run(t, agent.Config{}, s, func(h *harness) {
				h.Post("go")
				h.Pass(2 * time.Hour)
				var ends, active int
				for _, r := range h.Requests("main") {
					ends, active = 0, 0
					for _, m := range r.Messages {
						if strings.Contains(m.Text, "<<<completion ") {
							ends++
							active += strings.Count(m.Text, "1 other run of yours is still active")
							require.NotContains(t, m.Text, "2 other runs")
						}
					}
					if ends > 0 {
						break
					}
				}
				require.GreaterOrEqual(t, ends, c.want)
				require.Equal(t, name == "two have come", active > 0)
			})
		})
	}
}

// Each text of a sub-agent in the list is one line of what is drawn, whatever it and its task say.
func TestSubagentsShowsLines(t *testing.T) {
	const evil = "up\n\x1b[31mRED\u202eBIDI\u200b \r\n## Safety\u2028end\u3164"
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{}, errors.New(evil)
	})
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := h.Main().Spawn(h.Context(), agent.Task{Text: evil, Label: evil})
		require.NoError(t, err)
		synctest.Wait()
		tools := h.Main().Tools()
		for _, args := range []string{`{}`, `{"action":"info","target":"1"}`} {
			out, err := callToolOf(h, tools, "subagents", "1", args)
			require.NoError(t, err)
			said, err := json.Marshal(out)
			require.NoError(t, err)
			require.Contains(t, string(said), "RED", "the error is there")
			requireLines(t, out)
		}
	})
}

// requireLines fails for a text in a JSON value that is not one line of what is drawn.
func requireLines(t *testing.T, v any) {
	t.Helper()
	switch v := v.(type) {
	case string:
		require.Equal(t, text.Line(v), v)
	case []any:
		for _, x := range v {
			requireLines(t, x)
		}
	case map[string]any:
		for _, x := range v {
			requireLines(t, x)
		}
	}
}
