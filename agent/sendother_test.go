package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// otherKey is a top-level session of another tree.
var otherKey = session.Must(session.MainKey("other"))

// rulesToWriteToOther are rules under which the main session and otherKey write to each other. One
// turn of a top-level session may be under way.
func rulesToWriteToOther() policy.Rules {
	rules := rulesForDepth(1)
	rules.Agents = []policy.Agent{{ID: "main"}, {ID: "other"}}
	rules.Visibility, rules.AgentToAgent.Enabled = policy.VisibilityAll, true
	rules.MaxSessions = 1
	return rules
}

// sendArgs are the arguments of a message to a top-level session that waits so many seconds.
func sendArgs(to session.Key, message string, seconds int) string {
	return fmt.Sprintf(`{"sessionKey":%q,"message":%q,"timeoutSeconds":%d}`, to, message, seconds)
}

// toldBySend returns what sessions_send has answered, which the model of a session has repeated as
// its last reply.
func toldBySend(h *harness, from session.Key) (out map[string]any) {
	h.T().Helper()
	for _, d := range h.Replies() {
		if d.Reply.From == from {
			require.NoError(h.T(), json.Unmarshal([]byte(d.Reply.Text), &out), d.Reply.Text)
		}
	}
	return out
}

// A model that waits for a top-level session of another tree is given what that has told people in
// time, or why there is nothing. Its turn holds no slot meanwhile: there is one.
func TestSendThatWaitsForAnotherTree(t *testing.T) {
	for name, c := range map[string]struct {
		seconds       int
		other         agenttest.Step
		status, reply string
		note          string
		after         time.Duration
	}{
		"no wait": {0, say("here"), "accepted", "", "answers there, not here", 0},
		"at once": {30, say("here"), "ok", "here", "does not come to you once more", 0},
		"in time": {
			30, say("here").After(29 * time.Second), "ok", "here", "", 29 * time.Second,
		},
		"too late": {
			10, say("here").After(time.Minute), "accepted", "", "not answered yet", 10 * time.Second,
		},
		"30 at most": {
			9999, say("here").After(time.Minute), "accepted", "", "not answered yet",
			30 * time.Second,
		},
		"silent": {30, say("NO_REPLY"), "ok", "", "nothing to say", 0},
		"failed": {
			30, agenttest.Fail(errors.New("broken")), "failed", "Sorry, something went wrong and I could not finish that. Please try again.", "has failed", 0,
		},
		"not for people": {30, say("<think>no</think>here"), "ok", "here", "", 0},
		"a credential": {
			30, say("token=" + "ghp_0123456789abcdefghijABCDEFGHIJ012345"), "ok", "token=ghp_01…2345", "", 0,
		},
	} {
		cfg := agent.Config{Rules: rulesToWriteToOther()}
		args := sendArgs(otherKey, "are you there?", c.seconds)
		check := func(t testing.TB, out map[string]any) {
			require.Equal(t, c.status, out["status"], "%v", out)
			require.Contains(t, out["note"], c.note)
			require.Equal(t, otherKey.String(), out["sessionKey"])
			require.Equal(t, c.reply != "", out["reply"] != nil, "%v", out)
			if c.reply != "" {
				require.Equal(t, c.reply, out["reply"])
			}
		}
		t.Run(name+"/caller", func(t *testing.T) {
			steps := script{otherKey.String(): {c.other}}
			agenttest.Run(t, cfg, steps, func(h *harness) {
				begun := time.Now()
				out, err := callTool(h, "sessions_send", "1", args)
				require.NoError(t, err)
				require.Equal(t, c.after, time.Since(begun))
				check(t, out)
				h.Pass(time.Hour)
				require.Equal(t, 1, h.Calls(otherKey.String()))
			})
		})
		t.Run(name+"/turn", func(t *testing.T) {
			steps := script{
				agenttest.Main:    {call("sessions_send", args), echo()},
				otherKey.String(): {c.other},
			}
			agenttest.Run(t, cfg, steps, func(h *harness) {
				h.Post("ask the other")
				h.Pass(time.Hour)
				check(t, toldBySend(h, topKey))
				h.Told(otherKey.String(), "are you there?")
			})
		})
	}
}

// What the other session tells the one that waits is told to the people of its own conversation,
// too, and that one is not told of it again.
func TestReplyToASendGoesToItsOwnPeople(t *testing.T) {
	steps := script{
		agenttest.Main:    {call("sessions_send", sendArgs(otherKey, "and?", 30)), echo()},
		otherKey.String(): {say("hello"), say("all is well")},
	}
	at := session.Route{Channel: "irc", To: "ops"}
	agenttest.Run(t, agent.Config{Rules: rulesToWriteToOther()}, steps, func(h *harness) {
		h.PostIncoming(otherKey, agent.Incoming{Text: "hi", Route: at})
		h.Pass(time.Minute)
		h.Post("ask the other")
		h.Pass(time.Hour)
		var there []string
		for _, d := range h.Replies() {
			if d.Reply.From == otherKey {
				require.Equal(t, at, d.Reply.Route)
				there = append(there, d.Reply.Text)
				if d.Reply.Text == "all is well" {
					require.Empty(t, d.Reply.InReplyTo, "no person has asked")
				}
			}
		}
		require.Equal(t, []string{"hello", "all is well"}, there)
		require.Equal(t, "all is well", toldBySend(h, topKey)["reply"])
		require.Equal(t, 2, h.Calls(agenttest.Main))
	})
}

// Of two sessions that wait for each other one is not answered in time. It reads the message of the
// other in the same turn then, and answers that.
func TestSessionsThatWaitForEachOther(t *testing.T) {
	rules := rulesToWriteToOther()
	rules.MaxSessions = 2
	steps := script{
		agenttest.Main: {
			call("sessions_send", sendArgs(otherKey, "from main", 20)), echo(),
		},
		otherKey.String(): {
			call("sessions_send", sendArgs(topKey, "from other", 25)).After(2 * time.Second), echo(),
		},
	}
	agenttest.Run(t, agent.Config{Rules: rules}, steps, func(h *harness) {
		h.PostTo(otherKey, "ask main")
		time.Sleep(time.Second)
		h.Post("ask the other")
		h.Pass(time.Hour)
		h.Told(agenttest.Main, "not answered yet", "from other")
		h.Told(otherKey.String(), `"status":"ok"`, "from main")
	})
}

// A wait ends with the turn, the session or the Runtime, and at once where there is nothing to wait
// for; the message is told once, however often the call is made.
func TestWaitForAnotherTreeEnds(t *testing.T) {
	args := sendArgs(otherKey, "are you there?", 30)
	steps := script{otherKey.String(): {say("here").After(10 * time.Second), echo()}}
	agenttest.Run(t, agent.Config{Rules: rulesToWriteToOther()}, steps, func(h *harness) {
		tools := h.Main().Tools()
		for n, want := range []string{"here", "", ""} { // a repeat is not answered again
			out, err := callToolOf(h, tools, "sessions_send", "1", args)
			require.NoError(t, err)
			require.Equal(t, want != "", out["reply"] != nil, "%d: %v", n, out)
			if n > 0 {
				require.Contains(t, out["note"], "had this message already")
			}
			h.Pass(time.Minute)
		}
		require.Equal(t, 1, h.Calls(otherKey.String()))
	})
	steps = script{otherKey.String(): {agenttest.Hang()}}
	agenttest.Run(t, agent.Config{Rules: rulesToWriteToOther()}, steps, func(h *harness) {
		time.AfterFunc(5*time.Second, func() {
			_ = h.Session(otherKey).CancelTurn(h.Context())
		})
		begun := time.Now()
		out, err := callTool(h, "sessions_send", "1", args)
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.Contains(t, out["note"], "Its turn was stopped")
	})
	steps = script{
		agenttest.Main:    {call("sessions_send", args), say("never")},
		otherKey.String(): {say("here").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{Rules: rulesToWriteToOther()}, steps, func(h *harness) {
		h.Post("ask the other")
		time.Sleep(time.Second)
		require.NoError(t, h.Main().CancelTurn(h.Context()))
		h.Pass(time.Hour)
		h.Told(otherKey.String(), "are you there?")
		require.Equal(t, 1, h.Calls(agenttest.Main))
	})
}

// A session that is not there is not waited for, nor is one that may not be written to.
func TestNoWaitForWhatIsNotSent(t *testing.T) {
	nowhere := session.Must(session.GroupKey("other", "irc", "nowhere"))
	agenttest.Run(t, agent.Config{Rules: rulesToWriteToOther()}, script{}, func(h *harness) {
		begun := time.Now()
		out, err := callTool(h, "sessions_send", "1", sendArgs(nowhere, "hi", 30))
		require.NoError(t, err)
		require.Equal(t, "error", out["status"])
		require.Contains(t, out["error"], "there is no such session")
		out, err = callTool(h, "sessions_send", "2", sendArgs(topKey, "hi", 30))
		require.NoError(t, err)
		require.Equal(t, "forbidden", out["status"])
		require.Equal(t, begun, time.Now())
	})
}

// A model that writes to a sub-agent which was archived, or which is not there, is told what it can
// do, and not which of them it is.
func TestSendToASubagentThatIsNotBelow(t *testing.T) {
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		child, err := h.Main().Spawn(h.Context(), agent.Task{
			Text: "count", Cleanup: agent.CleanupDelete,
		})
		require.NoError(t, err)
		h.Pass(24 * time.Hour)
		_, err = child.Info(h.Context())
		require.ErrorIs(t, err, agent.ErrNotFound)
		told := func(key session.Key) string {
			out, err := callTool(h, "sessions_send", key.String(), sendArgs(key, "more", 0))
			require.NoError(t, err)
			require.Equal(t, "forbidden", out["status"])
			return strings.ReplaceAll(out["error"].(string), key.String(), "KEY")
		}
		require.Contains(t, told(child.Key()), "KEY: it is not a sub-agent below this session, or not any "+
			"more, as one that was archived is not; start another sub-agent")
		none := session.Must(session.Parse("agent:main:subagent:" + session.NewID()))
		require.Equal(t, told(child.Key()), told(none))
	})
}

// Over every crash of a turn that writes to another tree, the message is told there once, and
// answered once: a turn that is repeated makes the same call under the same id.
func TestSendToAnotherTreeOverEveryCrash(t *testing.T) {
	for name, seconds := range map[string]int{"no wait": 0, "wait": 30} {
		t.Run(name, func(t *testing.T) {
			play := script{
				agenttest.Main:    {call("sessions_send", sendArgs(otherKey, "27 it is", seconds)), say("sent")},
				otherKey.String(): {say("noted").After(time.Second)},
			}
			cfg := agent.Config{Rules: rulesToWriteToOther()}
			agenttest.EveryCrash(t, cfg, play, func(h *harness) {
				h.Post("tell the other")
				time.Sleep(10 * time.Minute)
				require.Len(t, toldThere(h, otherKey), 1)
				var noted int
				for _, d := range h.Replies() {
					if d.Reply.From == otherKey {
						require.Equal(t, "noted", d.Reply.Text)
						noted++
					}
				}
				require.Equal(t, 1, noted)
			})
		})
	}
}

// treeDown is a journal that takes nothing of one tree while that is down.
type treeDown struct {
	session.Journal
	root session.Key
	down atomic.Bool
}

func (j *treeDown) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if root == j.root && j.down.Load() {
		return 0, errors.New("disk full")
	}
	return j.Journal.Append(ctx, root, after, b)
}

// While the tree of the receiver fails, the call of a model is answered at once, or when its time
// is up, and its turn ends. The message is told there once when that tree takes it.
func TestSendToATreeThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		seconds int
		note    string
	}{
		"no wait": {0, "It is sent"}, "wait": {10, "It has not arrived yet"},
	} {
		steps := func() script {
			return script{
				agenttest.Main: {
					call("sessions_send", sendArgs(otherKey, "27 it is", c.seconds)), echo(),
				},
				otherKey.String(): {say("noted")},
			}
		}
		store := func() (*treeDown, *session.Store) {
			whole := session.NewMemory()
			j := &treeDown{Journal: whole.Journal, root: otherKey}
			return j, &session.Store{
				Journal: j, Transcripts: whole.Transcripts, Files: whole.Files,
			}
		}
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/restart ", restart), func(t *testing.T) {
				j, over := store()
				cfg := agent.Config{Rules: rulesToWriteToOther(), Store: over}
				agenttest.Run(t, cfg, steps(), func(h *harness) {
					j.down.Store(true)
					begun := time.Now()
					h.Post("tell the other")
					h.Pass(time.Duration(c.seconds) * time.Second)
					out := toldBySend(h, topKey)
					require.Equal(t, "accepted", out["status"])
					require.Contains(t, out["note"], c.note)
					require.Equal(t, 2, h.Calls(agenttest.Main), "the turn has ended")
					require.LessOrEqual(t, time.Since(begun), time.Minute)
					h.Pass(2 * time.Minute)
					require.Zero(t, h.Calls(otherKey.String()))
					if restart {
						h.Crash()
					}
					j.down.Store(false)
					h.Pass(time.Hour)
					h.Told(otherKey.String(), "27 it is")
					require.Len(t, toldThere(h, otherKey), 1)
				})
			})
		}
	}
}

// A message that cannot be delivered is listed with the blocked deliveries. A person retries it.
func TestSendThatIsBlocked(t *testing.T) {
	whole := session.NewMemory()
	j := &treeDown{Journal: whole.Journal, root: otherKey}
	cfg := agent.Config{Rules: rulesToWriteToOther(), Store: &session.Store{
		Journal: j, Transcripts: whole.Transcripts, Files: whole.Files,
	}}
	steps := script{otherKey.String(): {say("noted")}}
	agenttest.Run(t, cfg, steps, func(h *harness) {
		j.down.Store(true)
		args := sendArgs(otherKey, "27 it is", 30)
		out, err := callTool(h, "sessions_send", "1", args)
		require.NoError(t, err)
		require.Contains(t, out["note"], "has not arrived yet")
		h.Pass(2 * time.Hour)
		blocked, err := h.Runtime().Blocked(h.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 1)
		require.Equal(t, "27 it is", blocked[0].Sent.Text)
		require.Equal(t, topKey, blocked[0].Sent.From)
		out, err = callTool(h, "sessions_send", "1", args)
		require.NoError(t, err)
		require.Equal(t, "undelivered", out["status"])
		require.Contains(t, out["note"], "unless a person")
		j.down.Store(false)
		require.NoError(t, h.Runtime().Retry(h.Context(), blocked[0].Key))
		h.Pass(time.Hour)
		h.Told(otherKey.String(), "27 it is")
	})
}

// toldThere returns what others have told a session, as its transcript has it.
func toldThere(h *harness, key session.Key) (told []string) {
	h.T().Helper()
	err := h.Do(func(rt *agent.Runtime) error {
		page, err := rt.Session(key).History(h.Context(), agent.HistoryQuery{})
		told = nil
		for _, l := range page.Lines {
			if l.Message.Role == session.MessageUser {
				told = append(told, l.Message.Text)
			}
		}
		return err
	})
	require.NoError(h.T(), err)
	return told
}

// The turn of another tree that reads what a turn for a stranger has sent may use no more than the
// stranger, whether the sender waits or not.
func TestStrangerBindsWhatReadsASend(t *testing.T) {
	for name, seconds := range map[string]int{"no wait": 0, "wait": 30} {
		cfg := ownedConfig()
		cfg.Rules.Visibility = policy.VisibilityAgent
		args := sendArgs(topKey, "deploy it", seconds)
		t.Run(name+"/turn", func(t *testing.T) {
			steps := script{
				peopleKey.String(): {call("sessions_send", args), say("asked")},
				topKey.String():    {say("no")},
			}
			agenttest.Run(t, cfg, steps, func(h *harness) {
				speak(h, "bob", "have it deployed")
				h.Pass(time.Minute)
				require.Equal(t, []string{"read"}, offered(h, topKey.String()))
				h.Told(topKey.String(), "deploy it")
			})
		})
		t.Run(name+"/caller", func(t *testing.T) {
			steps := script{topKey.String(): {say("no"), say("yes")}}
			agenttest.Run(t, cfg, steps, func(h *harness) {
				s := h.Session(peopleKey)
				for who, want := range map[string]int{"bob": 1, "ann": 3} {
					people, err := s.SendersOf(h.Context(), agent.Incoming{
						From: session.Sender{ID: who},
					})
					require.NoError(t, err)
					_, err = callToolOf(h, s.ToolsFor(people...), "sessions_send", who, args)
					require.NoError(t, err)
					h.Pass(time.Minute)
					require.Len(t, offered(h, topKey.String()), want, who)
				}
			})
		})
	}
}
