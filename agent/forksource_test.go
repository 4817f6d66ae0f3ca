package agent_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A compaction of the requester holds for the fork: it begins with the summary, also in its later
// turns, and has what follows. The code that fences the summary is the sub-agent's own.
func TestForkOfACompactedConversation(t *testing.T) {
	for keep, want := range map[int][]string{
		1: {"> assistant: answer 4", "task: do kid"},
		2: {"> user: question 4", "> assistant: answer 4", "task: do kid"},
	} {
		checkForkOfASummary(t, keep, want)
	}
}

// checkForkOfASummary forks a conversation of eight messages of which some are kept beside the
// summary, and checks what the sub-agent is shown behind that.
func checkForkOfASummary(t *testing.T, keep int, want []string) {
	chat := modelFunc(func(
		_ context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		if _, ok := req.Prompt.Section("summary"); ok {
			return &agent.ModelResponse{Text: "They counted."}, nil
		}
		return &agent.ModelResponse{Text: "Yes."}, nil
	})
	var shown [][]agent.Message
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			shown = append(shown, tn.Messages)
			return agent.Result{Text: "Done."}, nil
		}
		return agent.Result{Text: fmt.Sprint("answer ", tn.N)}, nil
	})
	cfg.Models.Window = func(string) agent.Window {
		return agent.Window{Keep: keep, Compact: agent.Summarize(chat)}
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for n := range 4 {
			h.Post(fmt.Sprint("question ", n+1))
			h.Pass(time.Minute)
		}
		require.NoError(h.T(), h.Main().Compact(h.Context()))
		_, err := h.Main().Spawn(h.Context(), forkTask("kid"))
		require.NoError(h.T(), err)
		h.Pass(time.Minute)
		require.Len(h.T(), shown, 1)
		said := forkedLines(shown[0])
		require.Contains(h.T(), said[0], "| They counted.")
		require.Contains(h.T(), said[0],
			fmt.Sprintf("The conversation began with %d messages more", 8-keep))
		require.Equal(h.T(), want, said[1:])
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{Raw: true})
		require.NoError(h.T(), err)
		require.Len(h.T(), page.Lines, 8)
	})
}

// counting returns a Config whose top-level session records lines, and whose sub-agents write down
// what they are shown.
func counting(lines []agent.Message, shown *[]agent.Message) agent.Config {
	return configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			*shown = tn.Messages
			return agent.Result{Text: "Done."}, nil
		}
		for _, m := range lines {
			if err := tn.Record(ctx, m); err != nil {
				return agent.Result{}, err
			}
		}
		return agent.Result{Text: "Counted."}, nil
	})
}

// What a fork reads and writes at a time does not grow with the conversation, which is copied line
// by line, with its order and its calls.
func TestForkOfALongConversation(t *testing.T) {
	const n = 10_000
	store := session.NewMemory()
	pages := &pageCounter{Transcripts: store.Transcripts}
	store.Transcripts = pages
	var lines []agent.Message
	for i := range n / 4 {
		id := fmt.Sprint("call ", i)
		lines = append(lines,
			agent.Message{Role: session.MessageUser, Text: fmt.Sprint("question ", i)},
			agent.Message{
				Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{{ID: id, Name: "x"}},
			},
			agent.Message{Role: session.MessageTool, ToolCallID: id, Text: id},
			agent.Message{Role: session.MessageAssistant, Text: strings.Repeat("word ", 40)})
	}
	var shown []agent.Message
	cfg := counting(lines, &shown)
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("count")
		h.Pass(time.Minute)
		pages.watch(topKey)
		_, err := h.Main().Spawn(h.Context(), forkTask("kid"))
		require.NoError(h.T(), err)
		h.Pass(time.Minute)
	})
	require.Len(t, shown, n+3)
	require.NoError(t, agenttest.CheckConversation(shown))
	require.Equal(t, "question 0", shown[1].Text)
	require.Equal(t, "Counted.", shown[n+1].Text)
	require.LessOrEqual(t, pages.read, 256)
	require.LessOrEqual(t, pages.written, 256)
}

// pageCounter counts the lines of the largest page that is read of one session, and of the largest
// that is written to others.
type pageCounter struct {
	session.Transcripts
	mu            sync.Mutex
	of            session.Key // zero: it does not count
	read, written int
}

func (p *pageCounter) watch(of session.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of = of
}

func (p *pageCounter) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	p.mu.Lock()
	if p.of.IsValid() && ref.Key != p.of {
		p.written = max(p.written, len(messages))
	}
	p.mu.Unlock()
	return p.Transcripts.Append(ctx, ref, after, messages...)
}

// A requester whose turn is cut off by a crash may lose what the turn has said. A sub-agent that
// was spawned by then, and has not begun, begins with it all the same.
func TestForkOfATurnThatIsCutOff(t *testing.T) {
	var shown []string
	attempts := 0
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		switch {
		case tn.Label == "kid":
			shown = forkedLines(tn.Messages)
			return agent.Result{Text: "Done."}, nil
		case tn.Label == "busy":
			return agent.Result{Text: "Done."}, pause(ctx, time.Hour)
		case tn.N == 1:
			_, err := tn.Spawn(ctx, agent.Task{Text: "x", Label: "busy"})
			return agent.Result{Text: "Yes."}, err
		}
		if attempts++; attempts > 1 {
			return agent.Result{Text: "Again."}, nil
		}
		err := tn.Record(ctx, agent.Message{Role: session.MessageAssistant, Text: "Hm."})
		if err != nil {
			return agent.Result{}, err
		}
		if _, err = tn.Spawn(ctx, forkTask("kid")); err != nil {
			return agent.Result{}, err
		}
		return agent.Result{}, pause(ctx, time.Hour)
	})
	cfg.Rules.Subagents.MaxConcurrent = 1
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("one")
		h.Pass(time.Minute)
		h.Post("two")
		time.Sleep(time.Minute)
		h.Crash()
		h.Pass(time.Hour)
		require.Equal(h.T(), 2, attempts)
		require.Equal(h.T(), []string{
			"> user: one", "> assistant: Yes.", "> user: two", "> assistant: Hm.", "task: do kid",
		}, shown)
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{})
		require.NoError(h.T(), err)
		for _, line := range page.Lines {
			require.NotEqual(h.T(), "Hm.", line.Message.Text, "the requester has lost it")
		}
	})
}

// A sub-agent that was to begin with a conversation that is not there any more has failed, and the
// model is not called: its task may make no sense.
func TestForkOfAConversationThatIsGone(t *testing.T) {
	store := session.NewMemory()
	calls := 0
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			calls++
		}
		return agent.Result{Text: "Yes."}, nil
	})
	cfg.Store = &session.Store{
		Journal: store.Journal, Files: store.Files,
		Transcripts: &forgetful{Transcripts: store.Transcripts},
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		_, err := h.Main().Spawn(h.Context(), forkTask("kid"))
		require.NoError(h.T(), err)
		h.Pass(time.Minute)
		kid := h.Child("kid")
		require.Equal(h.T(), spawn.StatusFailed, kid.Status)
		require.Contains(h.T(), kid.Error, "that the sub-agent was to begin with")
		require.Zero(h.T(), calls)
	})
}

// A copy that was not made is made by the first turn that can, whatever has become of the
// requester's conversation: here it was reset and archived.
func TestForkAfterAReset(t *testing.T) {
	store := session.NewMemory()
	lost := &forgetful{Transcripts: store.Transcripts}
	var shown []string
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			shown = forkedLines(tn.Messages)
		}
		return agent.Result{Text: "Yes."}, nil
	})
	cfg.Store = &session.Store{Journal: store.Journal, Files: store.Files, Transcripts: lost}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		kid, err := h.Main().Spawn(h.Context(), forkTask("kid"))
		require.NoError(h.T(), err)
		h.Pass(time.Minute)
		require.Nil(h.T(), shown)
		lost.found.Store(true)
		require.NoError(h.T(), h.Main().Reset(h.Context()))
		h.Pass(time.Minute)
		h.Post("a new conversation")
		h.Pass(time.Minute)
		h.PostTo(kid.Key(), "try again")
		h.Pass(time.Minute)
		require.Equal(h.T(), []string{
			"> user: hello", "> assistant: Yes.", "user: try again",
		}, shown)
		h.PostTo(kid.Key(), "and again")
		h.Pass(time.Minute)
		require.Equal(h.T(), []string{
			"> user: hello", "> assistant: Yes.", "user: try again", "assistant: Yes.",
			"user: and again",
		}, shown)
	})
}

// forgetful has lost what is read of archived transcripts, as after they were removed, until it is
// found again.
type forgetful struct {
	session.Transcripts
	found atomic.Bool
}

// What a sub-agent that was archived has begun with is kept with it.
func TestForkIsArchived(t *testing.T) {
	agenttest.Run(t, agent.Config{}, script{
		"main": {say("Yes.")}, "kid": {say("Done.")},
	}, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		child, err := h.Main().Spawn(h.Context(), forkTask("kid"))
		require.NoError(h.T(), err)
		h.Pass(3 * time.Hour)
		page, err := h.Session(child.Key()).History(h.Context(), agent.HistoryQuery{})
		require.NoError(h.T(), err)
		require.True(h.T(), page.Archived)
		var messages []agent.Message
		for _, line := range page.Lines {
			messages = append(messages, line.Message)
		}
		require.Equal(h.T(), []string{
			"> user: hello", "> assistant: Yes.", "task: do kid", "assistant: Done.",
		}, forkedLines(messages))
	})
}

// SubagentSpecs may say that sub-agents are forked. Where that cannot be they begin with their
// tasks. What a spawn says comes first, but a model does not get what its owner keeps from it.
func TestForkBySubagentSpecs(t *testing.T) {
	fork := agentctx.Spec{History: agentctx.HistoryFork}
	isolated := agentctx.Spec{History: agentctx.HistoryIsolated}
	for name, c := range map[string]struct {
		specs   map[string]agentctx.Spec
		args    string
		want    int // messages that the sub-agent is shown
		context any // what the model is told
	}{
		"of all":     {map[string]agentctx.Spec{"": fork}, ``, 2, "fork"},
		"of its own": {map[string]agentctx.Spec{"main": fork, "": isolated}, ``, 2, "fork"},
		"of another": {map[string]agentctx.Spec{"coder": fork}, ``, 1, nil},
		"but not this time": {
			map[string]agentctx.Spec{"": fork}, `,"context":"isolated"`, 1, nil,
		},
		"not shared with another agent": {
			map[string]agentctx.Spec{"": fork}, `,"agentId":"coder"`, 1, nil,
		},
		"left open": {map[string]agentctx.Spec{"": {}}, `,"context":"fork"`, 2, "fork"},
		"kept from the model": {
			map[string]agentctx.Spec{"": isolated},
			`,"context":"fork"`, 0,
			`sessions_spawn: argument "context": sub-agents of agent "main" begin without a conversation`,
		},
		"not shared, and asked for": {
			nil, `,"agentId":"coder","context":"fork"`, 0, "shareHistory",
		},
		"a word that is not one": {
			nil, `,"context":"whole"`, 0, `it is "whole", want one of isolated, fork`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{
				Prompts: agent.Prompts{SubagentSpecs: c.specs},
				Rules:   policy.Rules{Agents: agentsAllowing([]string{"*"}, "coder")},
			}
			agenttest.Run(t, cfg, script{
				"main": {
					call("sessions_spawn", `{"task":"x","label":"kid"`+c.args+`}`), say("Asked."),
					echo(),
				},
				"kid": {say("Done.").After(time.Minute)},
			}, func(h *harness) {
				h.Post("hello")
				h.Pass(time.Hour)
				requests := h.Requests("main")
				answer := lastMessage(&requests[1]).Text
				if c.want == 0 {
					require.Contains(h.T(), strings.ReplaceAll(answer, `\`, ""), c.context)
					require.Empty(h.T(), h.Runs())
					return
				}
				require.Equal(h.T(), c.context == "fork", strings.Contains(answer, `"context":"fork"`))
				require.Len(h.T(), shownTo(h, "kid"), c.want)
			})
		})
	}
}

// Of a session that the program runs there is no conversation here: a model that asks for it is
// told so, a program too, and what SubagentSpecs say does not apply.
func TestForkOfACallerRunSession(t *testing.T) {
	cfg := agent.Config{
		Deliver: func(context.Context, agent.Delivery) error { return nil },
		Prompts: agent.Prompts{SubagentSpecs: map[string]agentctx.Spec{
			"": {History: agentctx.HistoryFork},
		}},
	}
	agenttest.Run(t, cfg, script{"kid": {say("Done.")}}, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"x","context":"fork"}`)
		require.ErrorContains(h.T(), err, "this conversation is not kept here")
		_, err = h.Main().Spawn(h.Context(), forkTask("kid"))
		require.ErrorAs(h.T(), err, new(*agent.InputError))
		require.Empty(h.T(), h.Runs())
		answer, err := callTool(h, "sessions_spawn", "2", `{"task":"x","label":"kid"}`)
		require.NoError(h.T(), err)
		require.NotContains(h.T(), answer, "context")
		h.Pass(time.Minute)
		require.Equal(h.T(), []string{"task: x"}, shownTo(h, "kid"))
		h.NotPrompted("kid", "copy of that")
		tool := findTool(h.T(), h.Main().Tools(), "sessions_spawn")
		require.NotContains(h.T(), string(tool.Schema), "isolated")
	})
}

func (p *pageCounter) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		n := 0
		for line, err := range p.Transcripts.Read(ctx, ref, q) {
			n++
			p.mu.Lock()
			if ref.Key == p.of {
				p.read = max(p.read, n)
			}
			p.mu.Unlock()
			if !yield(line, err) {
				return
			}
		}
	}
}

func (f *forgetful) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	if q.Archived && !f.found.Load() {
		return func(func(session.Line, error) bool) {}
	}
	return f.Transcripts.Read(ctx, ref, q)
}

// A copy that another has disturbed, as a former owner of the tree may, or that a crash has cut
// off, is fenced off, and the conversation is copied anew.
func TestForkIsCopiedAnew(t *testing.T) {
	store := session.NewMemory()
	disturbed := &disturber{Transcripts: store.Transcripts}
	store.Transcripts = disturbed
	var lines []agent.Message
	for i := range 600 {
		lines = append(lines, agent.Message{
			Role: session.MessageUser, Text: fmt.Sprint("line ", i),
		})
	}
	var shown []agent.Message
	cfg := counting(lines, &shown)
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("count")
		h.Pass(time.Minute)
		_, err := h.Main().Spawn(h.Context(), forkTask("kid"))
		require.NoError(h.T(), err)
		h.Pass(time.Minute)
	})
	require.True(t, disturbed.done)
	said := forkedLines(shown)
	require.Len(t, said, 603)
	for i := range 600 {
		require.Equal(t, fmt.Sprint("> user: line ", i), said[i+1])
	}
}

// disturber writes a line into the transcript of a sub-agent when that has some already.
type disturber struct {
	session.Transcripts
	done bool
}

func (d *disturber) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	if !d.done && ref.Key.IsSubagent() && after > 0 {
		d.done = true
		stray := session.Message{Role: session.MessageUser, Text: "stray"}
		if _, err := d.Transcripts.Append(ctx, ref, after, stray); err != nil {
			return 0, err
		}
	}
	return d.Transcripts.Append(ctx, ref, after, messages...)
}
