package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// randomLine returns a message as a Runner may record it that sees to no order at all.
func randomLine(rng *rand.Rand) agent.Message {
	ids := []string{"", "a", "b", "c", "a_2"}
	m := agent.Message{
		Role: []session.MessageRole{
			session.MessageAssistant, session.MessageAssistant, session.MessageTool,
			session.MessageTool, session.MessageUser, session.MessageNote, "critic",
		}[rng.IntN(7)],
		Text: []string{"", "text", " \n"}[rng.IntN(3)],
	}
	switch m.Role {
	case session.MessageUser:
		m.Text = "more"
	case session.MessageTool:
		m.ToolCallID = ids[rng.IntN(len(ids))]
	default:
		for range rng.IntN(4) {
			m.ToolCalls = append(m.ToolCalls,
				agent.ToolCall{ID: ids[rng.IntN(len(ids))], Name: "ls", Args: []byte("{}")})
		}
		m.Raw = json.RawMessage(`{}`)
	}
	return m
}

// randomRunner records random lines and ends in a random way.
func randomRunner(seed uint64) agent.RunnerFunc {
	return func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		rng := rand.New(rand.NewPCG(seed, uint64(tn.N))) //nolint:gosec // repeatable
		for range rng.IntN(8) {
			err := tn.Record(ctx, randomLine(rng))
			if _, refused := errors.AsType[*agent.InputError](err); err != nil && !refused {
				return agent.Result{}, err
			}
			if rng.IntN(6) == 0 {
				if _, err := tn.Inbox(ctx); err != nil {
					return agent.Result{}, err
				}
			}
		}
		switch rng.IntN(5) {
		case 0:
			panic("oh no")
		case 1:
			return agent.Result{Text: "half"}, errors.New("boom")
		case 2:
			<-ctx.Done()
			return agent.Result{}, context.Cause(ctx)
		case 3:
			return agent.Result{}, nil
		}
		return textResult("done")
	}
}

// Decision 1.7: whatever a Runner records, and wherever the process dies, every committed prefix is
// a conversation that a provider accepts, and so is what the next turn is given. The harness checks
// both.
func TestEveryPrefixIsAConversation(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			cfg := agent.Config{Runner: randomRunner(seed), Store: session.NewMemory()}
			agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
				for i := range 4 {
					h.Post(fmt.Sprint("message ", i))
					time.Sleep(time.Second)
					require.NoError(t, h.Do(func(rt *agent.Runtime) error {
						if i%2 == 0 {
							return rt.Session(topKey).CancelTurn(h.Context())
						}
						return rt.Session(topKey).Stop(h.Context())
					}))
				}
			})
		})
	}
}

// Decision 1.7: more Runners than a crash at each write leaves time for.
func TestRandomRecordsAreConversations(t *testing.T) {
	skipUnderRace(t)
	for seed := range uint64(200) {
		cfg := agent.Config{Runner: randomRunner(1000 + seed)}
		agenttest.Run(t, cfg, nil, func(h *harness) {
			for i := range 6 {
				h.Post(fmt.Sprint("message ", i))
				time.Sleep(time.Second)
				require.NoError(t, h.Main().CancelTurn(h.Context()), "seed %d", seed)
			}
		})
	}
}

// Decision 1.7: a turn that is cancelled in a tool leaves a call without a result. The call gets a
// failed one, and the next turn is given both.
func TestTurnCancelledInATool(t *testing.T) {
	store, notes := newNotebook()
	hang := agent.Tool{
		Name: "hang",
		Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}),
	}
	s := script{"main": {call("ls", `{}`).And("hang", `{}`).And("ls", `{}`), say("Here I am.")}}
	cfg := agent.Config{Store: store, Tools: append(toolbox("ls"), hang)}
	agenttest.Run(t, cfg, s, func(h *harness) {
		h.Post("go")
		synctest.Wait()
		require.NoError(t, h.Main().CancelTurn(h.Context()))
		synctest.Wait()
		h.Post("hello?")
		h.Replied("Here I am.")
		require.Equal(t, []string{
			"user: go", "assistant calls ls calls hang calls ls:", "tool: ran ls",
			"tool: no result: the turn e", "tool: no result: the turn e", "user: hello?",
			"assistant: Here I am.",
		}, notes.shown(t, topKey))
		failed := notes.all(t, topKey)[3].Message
		require.True(t, failed.Failed)
		require.Equal(t, "no result: the turn ended", failed.Text)
	})
}

// cancelling is a notebook that cancels the turn of the main session when the turn writes what it
// has come to.
type cancelling struct {
	*notebook
	cancel func()
}

func (x *cancelling) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if m[0].Role == session.MessageTool || m[0].Text == "Nearly done." {
		x.cancel()
		time.Sleep(time.Millisecond)
	}
	return x.notebook.Append(ctx, ref, after, m...)
}

// Decision 1.7: so it is when the turn is cancelled at the moment at which its end is written.
func TestTurnCancelledAtItsEnd(t *testing.T) {
	for want, answer := range map[string]string{
		"tool: no result: the turn e": "", "assistant: Nearly done.": "Nearly done.",
	} {
		t.Run(want, func(t *testing.T) {
			store, notes := newNotebook()
			cancelled := &cancelling{notebook: notes}
			store.Transcripts = cancelled
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				m := agent.Message{Role: session.MessageAssistant, Text: "Let me see."}
				if answer == "" {
					m.ToolCalls = []agent.ToolCall{{ID: "1", Name: "ls"}}
				}
				return agent.Result{Text: answer}, tn.Record(ctx, m)
			})
			cfg.Store = store
			agenttest.Run(t, cfg, nil, func(h *harness) {
				cancelled.cancel = func() { _ = h.Main().CancelTurn(h.Context()) }
				h.Post("go")
				time.Sleep(time.Second)
				shown := notes.shown(t, topKey)
				require.Equal(t, want, shown[len(shown)-1])
			})
		})
	}
}

// record is what a Runner of TestOrderOfRecords records, and whether that is refused.
type record struct {
	m       agent.Message
	refused bool
}

func calling(ids ...string) record {
	m := agent.Message{Role: session.MessageAssistant, Raw: json.RawMessage(`{}`)}
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, agent.ToolCall{ID: id, Name: "ls"})
	}
	return record{m: m}
}

func answering(id, text string) record {
	return record{m: agent.Message{Role: session.MessageTool, ToolCallID: id, Text: text}}
}

// Decision 1.7: what is between a call and its result comes behind the result, ids are those of one
// call each, and what does not fit is refused by name.
func TestOrderOfRecords(t *testing.T) {
	user := record{m: agent.Message{Role: session.MessageUser, Text: "wait"}}
	refused := func(r record) record { r.refused = true; return r }
	for name, c := range map[string]struct {
		records []record
		want    []string
	}{
		"in order": {
			[]record{calling("a", "b"), answering("b", "2"), answering("a", "1")},
			[]string{"assistant a b {}", "tool b 2", "tool a 1"},
		},
		"a message in between": {
			[]record{calling("a"), user, answering("a", "1")},
			[]string{"assistant a {}", "tool a 1", "user wait"},
		},
		"calls in messages of their own": {
			[]record{calling("a"), calling("b"), answering("b", "2"), answering("a", "1")},
			[]string{"assistant a {}", "tool a 1", "assistant b {}", "tool b 2"},
		},
		"one id twice": {
			[]record{calling("a", "a"), answering("a", "1"), answering("a", "2")},
			[]string{"assistant a a_2", "tool a 1", "tool a_2 2"},
		},
		"without ids": {
			[]record{calling("", ""), answering("", "1"), answering("", "2")},
			[]string{"assistant _1 _2", "tool _1 1", "tool _2 2"},
		},
		"an id that comes again": {
			[]record{calling("a"), answering("a", "1"), calling("a"), answering("a", "2")},
			[]string{"assistant a {}", "tool a 1", "assistant a {}", "tool a 2"},
		},
		"one of two": {
			[]record{calling("a", "b"), answering("b", "2"), user},
			[]string{"assistant a b {}", "tool b 2", "tool a no result: the turn ended", "user wait"},
		},
		"a result without a call": {[]record{refused(answering("a", "1"))}, nil},
		"a second result": {
			[]record{calling("a"), answering("a", "1"), refused(answering("a", "2"))},
			[]string{"assistant a {}", "tool a 1"},
		},
		"nothing said": {[]record{{m: agent.Message{Role: session.MessageAssistant}}}, nil},
		"a fence":      {[]record{refused(record{m: session.Fence(0, time.Now())})}, nil},
		"another role": {[]record{refused(record{m: agent.Message{Role: "critic"}})}, nil},
		"calls of a person": {
			[]record{refused(record{m: agent.Message{
				Role: session.MessageUser, Text: "x", ToolCalls: calling("a").m.ToolCalls,
			}})}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, notes := newNotebook()
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				for _, r := range c.records {
					err := tn.Record(ctx, r.m)
					_, refused := errors.AsType[*agent.InputError](err)
					assert.Equal(t, r.refused, refused, "%v", err)
				}
				return agent.Result{}, nil
			})
			cfg.Store = store
			agenttest.Run(t, cfg, nil, func(h *harness) {
				postEach(h, "go", "on")
				var got []string
				for _, line := range notes.all(t, topKey)[1:] {
					m := line.Message
					if m.Text == "on" {
						break
					}
					s := string(m.Role)
					for _, c := range m.ToolCalls {
						s += " " + c.ID
					}
					for _, more := range []string{m.ToolCallID, m.Text, string(m.Raw)} {
						if more != "" {
							s += " " + more
						}
					}
					got = append(got, s)
				}
				require.Equal(t, c.want, got)
			})
		})
	}
}

// A Runner that goes on after its turn records nothing more.
func TestRecordAfterTheTurn(t *testing.T) {
	var turn *agent.Turn
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		turn = tn
		return textResult("done")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Replied("done")
		err := turn.Record(h.Context(), calling("a").m)
		require.ErrorIs(t, err, spawn.ErrStale)
	})
}

// disorderly is a transcript in which another program has written, in no order.
type disorderly struct {
	session.Transcripts
	rng *rand.Rand
}

func (d disorderly) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	lines := slices.Clone(m)
	for range d.rng.IntN(6) {
		if line := randomLine(d.rng); line.Role != session.MessageNote && line.Role != "critic" {
			lines = append(lines, line)
		}
	}
	return d.Transcripts.Append(ctx, ref, after, lines...)
}

// Decision 1.7: a transcript that is not a conversation, such as one of an earlier version, is
// given to a Runner as one.
func TestDisorderlyTranscript(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable
			store := session.NewMemory()
			store.Transcripts = disorderly{store.Transcripts, rng}
			var mu sync.Mutex
			turns := 0
			cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				turns++
				assert.NoError(t, agenttest.CheckConversation(tn.Messages), "seed %d", seed)
				assert.Equal(t, "go", tn.Input())
				return textResult("done")
			})
			cfg.Store = store
			s := runUntilEnd(t, cfg).Session(topKey)
			for range 10 {
				require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "go"})))
				synctest.Wait()
			}
			assert.Equal(t, 10, turns)
		})
	}
}
