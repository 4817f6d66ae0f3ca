package agent_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// modelOf is a Model that gives one answer after the other.
func modelOf(t *testing.T, list ...agent.ModelResponse) (model agent.Model, calls *int) {
	calls = new(int)
	return modelFunc(func(
		_ context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		if err := agenttest.CheckConversation(req.Messages); err != nil {
			t.Errorf("what the model was told: %v", err)
		}
		*calls++
		if *calls > len(list) {
			t.Errorf("call %d of the model", *calls)
			return &agent.ModelResponse{Text: "too many"}, nil
		}
		return &list[*calls-1], nil
	}), calls
}

// An answer with nothing is asked for once more, and a second one in a row fails the turn. A person
// gets the apology. What is left of it is a conversation that providers accept.
func TestEmptyAnswerIsAskedForOnceMore(t *testing.T) {
	const sorry = "Sorry"
	none, blank := agent.ModelResponse{}, agent.ModelResponse{Text: " \n\u200b"}
	onlyRaw := agent.ModelResponse{Raw: json.RawMessage(`{"thinking":"hm"}`)}
	thinks := agent.ModelResponse{Text: "<think>hm</think>"}
	text, silent := agent.ModelResponse{Text: "hello"}, agent.ModelResponse{Text: "NO_REPLY"}
	calls := agent.ModelResponse{Text: "Let me look.", ToolCalls: callsOf("look")}
	says := agent.ModelResponse{ToolCalls: callsOf("say")}
	yields := agent.ModelResponse{ToolCalls: []agent.ToolCall{
		spawnCallOf("call_0", "work"), {ID: "call_1", Name: "sessions_yield"},
	}}
	picture := agent.ModelResponse{Parts: []agent.Part{{Kind: agent.PartImage, Data: photo}}}
	spends := agent.ModelResponse{Usage: agent.Usage{Input: 1}}
	for name, c := range map[string]struct {
		answers []agent.ModelResponse
		steps   int
		want    string // in the reply; empty: there is none
		err     string
	}{
		"nothing, text":             {[]agent.ModelResponse{none, text}, 0, "hello", ""},
		"blank, text":               {[]agent.ModelResponse{blank, text}, 0, "hello", ""},
		"thinks, text":              {[]agent.ModelResponse{thinks, text}, 0, "hello", ""},
		"raw thinking, text":        {[]agent.ModelResponse{onlyRaw, text}, 0, "hello", ""},
		"nothing, silence":          {[]agent.ModelResponse{none, silent}, 0, "", ""},
		"silence":                   {[]agent.ModelResponse{silent}, 0, "", ""},
		"a picture":                 {[]agent.ModelResponse{picture}, 0, "", ""},
		"nothing, a picture":        {[]agent.ModelResponse{none, picture}, 0, "", ""},
		"nothing twice":             {[]agent.ModelResponse{none, blank}, 0, sorry, "empty response"},
		"thinks twice":              {[]agent.ModelResponse{thinks, thinks}, 0, sorry, "empty response"},
		"a call, nothing twice":     {[]agent.ModelResponse{calls, none, none}, 0, sorry, "empty response"},
		"nothing, a call, text":     {[]agent.ModelResponse{none, calls, text}, 0, "hello", ""},
		"nothing around a call":     {[]agent.ModelResponse{none, calls, none, text}, 0, "hello", ""},
		"nothing behind a Say":      {[]agent.ModelResponse{says, none}, 0, "said", ""},
		"nothing at the last step":  {[]agent.ModelResponse{none}, 1, sorry, "empty response"},
		"nothing, then a wait":      {[]agent.ModelResponse{none, yields, text}, 0, "hello", ""},
		"nothing beyond the budget": {[]agent.ModelResponse{spends, none}, 0, sorry, "empty response"},
	} {
		t.Run(name, func(t *testing.T) {
			store := session.NewMemory()
			model, n := modelOf(t, c.answers...)
			loop := &agent.Loop{Model: model, MaxSteps: c.steps}
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Run != "" {
					return agent.Result{Text: "worked"}, pause(ctx, time.Minute)
				}
				tn.Tools = append(tn.Tools, agent.Tool{Name: "say", Call: textCall(func(
					ctx context.Context, _ agent.ToolCall,
				) (string, error) {
					return "ok", tn.Say(ctx, "said")
				})})
				return loop.Run(ctx, tn)
			})
			cfg.Store, cfg.Rules = store, rulesForDepth(1)
			cfg.Tools = []agent.Tool{{Name: "look", Call: toolSaying("nothing there")}}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				h.Pass(time.Hour)
				require.Equal(t, len(c.answers), *n)
				if c.want == "" {
					require.Empty(t, h.Replies())
				} else {
					require.Len(t, h.Replies(), 1)
					require.Contains(t, h.Replies()[0].Reply.Text, c.want)
					require.Equal(t, c.err != "", h.Replies()[0].Reply.Failed)
					require.Contains(t, h.Replies()[0].Reply.Err, c.err)
				}
				for _, line := range linesOf(t, store) {
					require.False(t, line.Message.Synthetic && !line.Message.Internal)
				}
			})
		})
	}
}

// The empty answer of a sub-agent fails its run, with what it has recorded as what there is. It is
// not told that it may be silent: its answer is owed.
func TestEmptyAnswerOfASubagent(t *testing.T) {
	var told string
	cfg := agent.Config{
		Tools: []agent.Tool{{Name: "look", Call: toolSaying("nothing there")}},
		Runner: &agent.Loop{Model: modelFunc(func(
			_ context.Context, req *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			last := req.Messages[len(req.Messages)-1]
			if last.Synthetic {
				told = last.Text
			}
			if last.Role != session.MessageTool && !last.Synthetic {
				return &agent.ModelResponse{Text: "Let me look.", ToolCalls: callsOf("look")}, nil
			}
			return &agent.ModelResponse{}, nil
		})},
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = child.Wait(h.Context())
		require.ErrorContains(t, err, agent.ErrEmptyAnswer.Error())
		require.Contains(t, told, "neither a visible text")
		require.NotContains(t, told, "NO_REPLY")
	})
}

// A repeated turn makes its calls in the same places, whether or not an answer before them was
// empty: it finds the sub-agents of the first attempt.
func TestEmptyAnswersDoNotMoveSpawns(t *testing.T) {
	var attempts atomic.Int32 // the sub-agents ask their model meanwhile
	cfg := agent.Config{Rules: rulesForDepth(1), Runner: &agent.Loop{Model: modelFunc(func(
		ctx context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		said := 0
		for _, m := range req.Messages[len(req.Messages)-req.New:] {
			said += btoi(m.Role == session.MessageAssistant)
		}
		asked := req.Messages[len(req.Messages)-1].Synthetic
		if req.Run == "" && said == 0 {
			attempts.Add(1)
		}
		switch {
		case req.Run != "":
			return &agent.ModelResponse{Text: "done"}, pause(ctx, time.Hour)
		case said == 1 && !asked && attempts.Load() == 1:
			return &agent.ModelResponse{}, nil
		case said < 2:
			return &agent.ModelResponse{
				ToolCalls: []agent.ToolCall{spawnCallOf("call_0", string(rune('a'+said)))},
			}, nil
		}
		return &agent.ModelResponse{Text: "done"}, pause(ctx, time.Minute)
	})}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		h.Pass(30 * time.Second)
		want := map[string]int{"a": 1, "b": 1}
		require.Equal(t, want, countLabels(h.Runs()))
		h.Crash()
		h.Pass(30 * time.Second)
		require.EqualValues(t, 2, attempts.Load())
		require.Equal(t, want, countLabels(h.Runs()))
	})
}
