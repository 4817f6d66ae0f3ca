package agent_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// notebook is a memory store that can be read by key.
type notebook struct {
	session.Transcripts
	mu   sync.Mutex
	refs map[session.Key]session.Ref
}

func newNotebook() (*session.Store, *notebook) {
	memory := session.NewMemory()
	n := &notebook{Transcripts: memory.Transcripts, refs: map[session.Key]session.Ref{}}
	return &session.Store{Journal: memory.Journal, Transcripts: n}, n
}

func (n *notebook) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	n.mu.Lock()
	n.refs[ref.Key] = ref
	n.mu.Unlock()
	return n.Transcripts.Append(ctx, ref, after, m...)
}

// all returns every line of a transcript.
func (n *notebook) all(t testing.TB, key session.Key) (lines []session.Line) {
	t.Helper()
	n.mu.Lock()
	ref := n.refs[key]
	n.mu.Unlock()
	for line, err := range n.Read(context.Background(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		lines = append(lines, line)
	}
	return lines
}

// shown returns what stands in a transcript, one short line for each message.
func (n *notebook) shown(t testing.TB, key session.Key) (list []string) {
	t.Helper()
	for _, line := range n.all(t, key) {
		m := line.Message
		s := string(m.Role)
		if m.Internal {
			s = "internal"
		}
		for _, c := range m.ToolCalls {
			s += " calls " + c.Name
		}
		text, _, _ := strings.Cut(m.Text, "\n")
		if len(text) > 21 {
			text = text[:21]
		}
		list = append(list, strings.TrimSpace(s+": "+text))
	}
	return list
}

func TestTranscripts(t *testing.T) {
	store, notes := newNotebook()
	s := script{
		"main":  {startStep("count"), say("On it."), say("It is 42.")},
		"count": {call("ls", `{}`), say("42").After(time.Minute)},
	}
	cfg := agent.Config{Store: store, Tools: toolbox("ls")}
	agenttest.Run(t, cfg, s, func(h *harness) {
		h.Post("How many files?")
		time.Sleep(time.Hour / 2)
		require.Equal(t, []string{
			"user: How many files?", "assistant calls sessions_spawn:",
			`tool: {"status":"accepted",`, "assistant: On it.",
			"internal: " + firstLine(notes.all(t, topKey)[4].Message.Text), "assistant: It is 42.",
		}, notes.shown(t, topKey))
		child := h.Child("count")
		require.Equal(t, []string{
			"user: [Subagent Context] Yo", "assistant calls ls:", "tool: ran ls", "assistant: 42",
		}, notes.shown(t, child.Key))
		require.Contains(t, notes.all(t, child.Key)[0].Message.Text, "[Subagent Task]: do count")
		for _, key := range []session.Key{topKey, child.Key} {
			for _, line := range notes.all(t, key) {
				require.False(t, line.Message.Time.IsZero(), "every line has its time")
			}
		}
		require.Equal(t, "message-1", notes.all(t, topKey)[0].Message.ID)
		completion := notes.all(t, topKey)[4].Message
		require.Equal(t, string(child.ID), completion.ID)
		require.Contains(t, completion.Text, "42")
	})
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 21 {
		s = s[:21]
	}
	return s
}

// postEach posts texts, each after what the one before has caused.
func postEach(h *harness, texts ...string) {
	for _, s := range texts {
		h.Post(s)
		synctest.Wait()
	}
}

// A Runner that records nothing leaves what it was told and what it returned; one that has recorded
// its answer, not twice.
func TestTranscriptsOfPlainRunners(t *testing.T) {
	store, notes := newNotebook()
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.N == 2 {
			if err := tn.Record(ctx, agent.Message{
				Role: session.MessageAssistant,
				Text: "answer",
			}); err != nil {
				return agent.Result{}, err
			}
		}
		return textResult("answer")
	})
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		postEach(h, "a", "b")
		require.Equal(t, []string{"user: a", "assistant: answer", "user: b", "assistant: answer"},
			notes.shown(t, topKey))
	})
}

// An interrupted turn stays in the transcript behind a fence; the conversation of the next one does
// not hold it.
func TestInterruptedTurnIsFenced(t *testing.T) {
	store, notes := newNotebook()
	var turns []string
	var retries []bool
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		said := ""
		for _, m := range tn.Messages {
			said += string(m.Role) + ":" + m.Text + " "
		}
		turns, retries = append(turns, said), append(retries, tn.Retry)
		if len(turns) == 2 {
			if err := tn.Record(ctx, agent.Message{
				Role: session.MessageAssistant,
				Text: "half an answer",
			}); err != nil {
				return agent.Result{}, err
			}
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}
		return textResult("answer")
	})
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		postEach(h, "a", "b")
		h.Crash()
		h.Replied("answer", "answer")
		require.Equal(t, []string{
			"user:a ", "user:a assistant:answer user:b ",
			"user:a assistant:answer user:b ",
		}, turns)
		require.Equal(t, []bool{false, false, true}, retries)
		require.Equal(t, []string{
			"user: a", "assistant: answer", "user: b", "assistant: half an answer", "note:",
			"user: b", "assistant: answer",
		}, notes.shown(t, topKey))
		h.Post("c")
		synctest.Wait()
		require.Equal(t, "user:a assistant:answer user:b assistant:answer user:c ", turns[3])
		require.False(t, retries[3])
	})
}
