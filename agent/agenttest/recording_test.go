package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// modelFunc is a Model.
type modelFunc func(ctx context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error)

func (f modelFunc) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	return f(ctx, req)
}

type asked = agent.ModelRequest

// A testOf is the test that a Replay belongs to.
type testOf struct {
	testing.TB
	skipped  bool
	failed   []string
	cleanups []func()
}

func (t *testOf) Helper()           {}
func (t *testOf) Failed() bool      { return len(t.failed) > 0 }
func (t *testOf) Skipped() bool     { return t.skipped }
func (t *testOf) Cleanup(f func())  { t.cleanups = append(t.cleanups, f) }
func (t *testOf) Error(args ...any) { t.failed = append(t.failed, fmt.Sprint(args...)) }
func (t *testOf) Errorf(format string, args ...any) {
	t.failed = append(t.failed, fmt.Sprintf(format, args...))
}
func (t *testOf) Fatalf(format string, args ...any) { t.Errorf(format, args...) }

// end ends the test.
func (t *testOf) end() {
	for _, f := range t.cleanups {
		f()
	}
}

func requestOf(text string) *agent.ModelRequest {
	return &agent.ModelRequest{
		Model: "test/model", Messages: []agent.Message{{Role: session.MessageUser, Text: text}},
	}
}

// record writes a file of what a model answers.
func record(
	t *testing.T, m modelFunc, plain func(string) string, asks ...*agent.ModelRequest,
) string {
	file := filepath.Join(t.TempDir(), "model.jsonl")
	of := &testOf{TB: t}
	model := agenttest.Replay(of, file, agenttest.ReplayOptions{Record: m, Plain: plain})
	for _, req := range asks {
		_, _ = model.Generate(t.Context(), req)
	}
	of.end()
	require.Empty(t, of.failed)
	return file
}

// What was recorded is answered: texts, calls, parts, usage and errors.
func TestReplay(t *testing.T) {
	answers := map[string]*agent.ModelResponse{
		"text": {Text: "<an answer>", Usage: agent.Usage{Input: 3, Output: 4}, Model: "test/real"},
		"calls": {
			ToolCalls: []agent.ToolCall{{ID: "1", Name: "look", Args: []byte("no {JSON")}},
			Raw:       []byte(`{"a": [1]}`),
		},
		"parts": {Parts: []agent.Part{{Kind: session.PartImage, Name: "x.png", Data: []byte{0, 255}}}},
		"empty": {},
	}
	failures := map[string]error{
		"broken":  errors.New("broken"),
		"busy":    agent.Retryable(errors.New("busy")),
		"limited": fmt.Errorf("x: %w", agent.RateLimited{After: time.Minute}),
		"long":    fmt.Errorf("x: %w", agent.ErrTooLong),
		"account": fmt.Errorf("x: %w", agent.ErrAccount),
	}
	model := modelFunc(func(_ context.Context, r *asked) (*agent.ModelResponse, error) {
		text := r.Messages[0].Text
		return answers[text], failures[text]
	})
	names := []string{
		"text", "calls", "parts", "empty", "broken", "busy", "limited", "long", "account", "none",
	}
	var asks []*agent.ModelRequest
	for _, name := range names {
		asks = append(asks, requestOf(name))
	}
	of := &testOf{TB: t}
	file := record(t, model, nil, asks...)
	replay := agenttest.Replay(of, file, agenttest.ReplayOptions{})
	for _, name := range names {
		got, err := replay.Generate(t.Context(), requestOf(name))
		switch want := failures[name]; {
		case name == "none":
			require.ErrorContains(t, err, agent.ErrNoResponse.Error())
		case want != nil:
			require.Equal(t, want.Error(), err.Error())
			require.Equal(t, agent.IsRetryable(want), agent.IsRetryable(err))
			require.Equal(t, errors.Is(want, agent.ErrTooLong), errors.Is(err, agent.ErrTooLong))
			require.Equal(t, errors.Is(want, agent.ErrAccount), errors.Is(err, agent.ErrAccount))
			var before, after agent.RateLimited
			require.Equal(t, errors.As(want, &before), errors.As(err, &after))
			require.Equal(t, before.After, after.After)
		default:
			require.NoError(t, err)
			require.Equal(t, answers[name], got)
		}
	}
	of.end()
	require.Empty(t, of.failed)
}

// Equal requests get the answers in their order, then the last of them again.
func TestReplayOfEqualRequests(t *testing.T) {
	n := 0
	file := record(t, func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
		n++
		return &agent.ModelResponse{Text: fmt.Sprint(n)}, nil
	}, nil, requestOf("a"), requestOf("a"), requestOf("b"))
	of := &testOf{TB: t}
	model := agenttest.Replay(of, file, agenttest.ReplayOptions{})
	for _, x := range []struct{ ask, want string }{
		{"a", "1"}, {"b", "3"}, {"a", "2"}, {"a", "2"}, {"b", "3"},
	} {
		got, err := model.Generate(t.Context(), requestOf(x.ask))
		require.NoError(t, err)
		require.Equal(t, x.want, got.Text)
	}
	of.end()
	require.Empty(t, of.failed)
}

// The mark of a completion is a number whose zeros at the beginning are not written.
func TestReplayOfShortMarks(t *testing.T) {
	const run = "2f1b7c1e-3d52-4c1c-9d53-0a4a7f0e2b11"
	told := func(mark, other string) *asked {
		return requestOf("<<<completion " + mark + ">>>\nrun " + run + "\n<<<end of completion " + mark +
			">>>\n<<<completion " + other + ">>>\n<<<end of completion " + other + ">>>")
	}
	answers := modelFunc(func(_ context.Context, r *asked) (*agent.ModelResponse, error) {
		_, mark, _ := strings.Cut(r.Messages[0].Text, "completion ")
		return &agent.ModelResponse{Text: mark[:8]}, nil
	})
	file := record(t, answers, nil, told("e425df78042cb7aa", "1425df78042cb7aa"))
	for _, mark := range []string{"0fff425df78042cb"[1:], "a425df78042c", "b425df78042cb7aa", "cafe0123"} {
		of := &testOf{TB: t}
		model := agenttest.Replay(of, file, agenttest.ReplayOptions{})
		got, err := model.Generate(t.Context(), told(mark, "77df78042cb7aa"))
		require.NoError(t, err, mark)
		require.Equal(t, mark[:8], got.Text)
		of.end()
		require.Empty(t, of.failed)
	}
}

// What is nil where a Model or a request belongs is an error, and nothing is recorded.
func TestReplayOfNothing(t *testing.T) {
	for name, m := range map[string]agent.Model{"a function": modelFunc(nil), "a pointer": (*aModel)(nil)} {
		of := &testOf{TB: t}
		file := filepath.Join(t.TempDir(), "model.jsonl")
		model := agenttest.Replay(of, file, agenttest.ReplayOptions{Record: m})
		require.Len(t, of.failed, 1, name)
		require.Contains(t, of.failed[0], "ReplayOptions.Record is a")
		require.Contains(t, of.failed[0], "that is nil")
		_, err := model.Generate(t.Context(), requestOf("a"))
		require.Error(t, err)
		of.end()
		require.NoFileExists(t, file)
	}
	of := &testOf{TB: t}
	answers := modelFunc(func(context.Context, *asked) (*agent.ModelResponse, error) {
		return &agent.ModelResponse{Text: "yes"}, nil
	})
	file := record(t, answers, nil, nil, requestOf("a"), nil)
	model := agenttest.Replay(of, file, agenttest.ReplayOptions{})
	_, err := model.Generate(t.Context(), nil)
	require.EqualError(t, err, "agenttest: Replay: the request is nil")
	_, err = model.Generate(t.Context(), requestOf("a"))
	require.NoError(t, err)
	of.end()
	require.Empty(t, of.failed)
}

// aModel is a Model.
type aModel struct{ text string }

func (m *aModel) Generate(context.Context, *asked) (*agent.ModelResponse, error) {
	return &agent.ModelResponse{Text: m.text}, nil
}

// What of a request differs makes another one; its times and its usage do not.
func TestReplayComparesRequests(t *testing.T) {
	fresh := func() *agent.ModelRequest {
		return &agent.ModelRequest{
			Model: "m", Thinking: "low", Schema: []byte("{}"),
			Prompt: agentctx.Prompt{Sections: []agentctx.Section{{ID: "a", Text: "be good"}}},
			Messages: []agent.Message{
				{Role: session.MessageUser, Text: "hello", From: session.Sender{Name: "Ann"}},
				{Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{{
					ID: "1", Name: "look", Args: []byte("{}"),
				}}},
				{Role: session.MessageTool, ToolCallID: "1", Text: "seen"},
			},
			Tools: []agent.Tool{{Name: "look", Description: "looks", Schema: []byte("{}")}},
		}
	}
	file := record(t, func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
		return &agent.ModelResponse{Text: "yes"}, nil
	}, nil, fresh())
	for name, c := range map[string]struct {
		change func(r *asked)
		same   bool
	}{
		"nothing":     {func(*asked) {}, true},
		"time":        {func(r *asked) { r.Messages[0].Time = time.Now() }, true},
		"usage":       {func(r *asked) { r.Messages[1].Usage.Input = 9 }, true},
		"raw":         {func(r *asked) { r.Messages[1].Raw = []byte("{}") }, true},
		"model":       {func(r *asked) { r.Model = "n" }, false},
		"thinking":    {func(r *asked) { r.Thinking = "high" }, false},
		"schema":      {func(r *asked) { r.Schema = nil }, false},
		"prompt":      {func(r *asked) { r.Prompt.Sections[0].Text = "be bad" }, false},
		"text":        {func(r *asked) { r.Messages[0].Text = "hallo" }, false},
		"speaker":     {func(r *asked) { r.Messages[0].From.Name = "Bob" }, false},
		"role":        {func(r *asked) { r.Messages[0].Role = session.MessageTool }, false},
		"internal":    {func(r *asked) { r.Messages[0].Internal = true }, false},
		"arguments":   {func(r *asked) { r.Messages[1].ToolCalls[0].Args = nil }, false},
		"tool":        {func(r *asked) { r.Messages[1].ToolCalls[0].Name = "x" }, false},
		"failed":      {func(r *asked) { r.Messages[2].Failed = true }, false},
		"of":          {func(r *asked) { r.Messages[2].ToolCallID = "2" }, false},
		"part":        {func(r *asked) { r.Messages[2].Parts = []agent.Part{{}} }, false},
		"shorter":     {func(r *asked) { r.Messages = r.Messages[:2] }, false},
		"tools":       {func(r *asked) { r.Tools = nil }, false},
		"description": {func(r *asked) { r.Tools[0].Description = "sees" }, false},
		"its schema":  {func(r *asked) { r.Tools[0].Schema = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			of := &testOf{TB: t}
			model := agenttest.Replay(of, file, agenttest.ReplayOptions{})
			req := fresh()
			c.change(req)
			_, err := model.Generate(t.Context(), req)
			of.end()
			if c.same {
				require.NoError(t, err)
				require.Empty(t, of.failed)
				return
			}
			require.ErrorContains(t, err, "line 1")
			require.Equal(t, []string{err.Error()}, of.failed)
		})
	}
}

// An answer names the ids of today. Short ones too; and an id that the model has made up stays.
func TestReplayTranslatesIDs(t *testing.T) {
	const (
		old   = "79a38a19-1f31-4f0d-a361-ecf0075b813e"
		today = "bf5f6bf4-d966-4e13-b2d1-8416c1f85ebb"
		other = "11111111-2222-4333-8444-555555555555"
	)
	model := modelFunc(func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
		return &agent.ModelResponse{
			Text: "I stop 79a38a19.",
			ToolCalls: []agent.ToolCall{
				{ID: "1", Name: "subagents", Args: []byte(`{"target":"` + old + `"}`)},
				{ID: "2", Name: "subagents", Args: []byte(`{"target":"` + other + `"}`)},
			},
		}, nil
	})
	file := record(t, model, nil, requestOf("79a38a19, I mean "+old))
	of := &testOf{TB: t}
	replay := agenttest.Replay(of, file, agenttest.ReplayOptions{})
	got, err := replay.Generate(t.Context(), requestOf("bf5f6bf4, I mean "+today))
	require.NoError(t, err)
	require.Equal(t, "I stop bf5f6bf4.", got.Text)
	require.Equal(t, `{"target":"`+today+`"}`, string(got.ToolCalls[0].Args))
	require.Equal(t, `{"target":"`+other+`"}`, string(got.ToolCalls[1].Args))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(data), "79a38a19")
}

// Plain says what counts for nothing.
func TestReplayOfPlainTexts(t *testing.T) {
	plain := func(text string) string { return strings.TrimRight(text, "0123456789") }
	file := record(t, func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
		return &agent.ModelResponse{Text: "yes"}, nil
	}, plain, requestOf("it is 12"))
	of := &testOf{TB: t}
	model := agenttest.Replay(of, file, agenttest.ReplayOptions{Plain: plain})
	_, err := model.Generate(t.Context(), requestOf("it is 13"))
	require.NoError(t, err)
	_, err = model.Generate(t.Context(), requestOf("it was 13"))
	require.ErrorContains(t, err, "was")
}

// A file that is missing, broken, or not used up fails the test; a test that has failed keeps it.
func TestReplayFailsTheTest(t *testing.T) {
	file := record(t, func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
		return &agent.ModelResponse{Text: "yes"}, nil
	}, nil, requestOf("a"), requestOf("b"))
	before, err := os.ReadFile(file)
	require.NoError(t, err)

	of := &testOf{TB: t}
	model := agenttest.Replay(of, file, agenttest.ReplayOptions{})
	_, err = model.Generate(t.Context(), requestOf("a"))
	require.NoError(t, err)
	of.end()
	require.Len(t, of.failed, 1)
	require.Contains(t, of.failed[0], "line 2")

	of = &testOf{TB: t, failed: []string{"it has failed"}}
	agenttest.Replay(of, file, agenttest.ReplayOptions{
		Record: modelFunc(func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
			return nil, nil
		}),
	})
	of.end()
	require.Len(t, of.failed, 1)
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	for name, text := range map[string]string{
		"no JSON": "x\n", "neither": `{"request":{}}` + "\n",
		"both": `{"request":{},"response":{},"error":{"text":"x"}}` + "\n",
		"took": `{"request":{},"response":{},"took":-1}` + "\n",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		of = &testOf{TB: t}
		agenttest.Replay(of, file, agenttest.ReplayOptions{})
		require.Len(t, of.failed, 1, name)
		require.Contains(t, of.failed[0], "model.jsonl:1", name)
	}
	of = &testOf{TB: t}
	agenttest.Replay(of, file+".none", agenttest.ReplayOptions{})
	require.Contains(t, of.failed[0], "ReplayOptions.Record")

	of = &testOf{TB: t}
	agenttest.Replay(of, filepath.Join(file, "none"), agenttest.ReplayOptions{
		Record: modelFunc(func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
			return nil, nil
		}),
	})
	of.end()
	require.Len(t, of.failed, 1)
}

// A call that panics is recorded as one that has failed, a skipped test records nothing, and a
// directory that does not exist is found before the first call.
func TestReplayOfWhatGoesWrong(t *testing.T) {
	panics := modelFunc(func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
		panic("boom")
	})
	file := filepath.Join(t.TempDir(), "model.jsonl")
	of := &testOf{TB: t}
	model := agenttest.Replay(of, file, agenttest.ReplayOptions{Record: panics})
	require.PanicsWithValue(t, "boom", func() { _, _ = model.Generate(t.Context(), requestOf("a")) })
	of.end()
	require.Empty(t, of.failed)
	model = agenttest.Replay(&testOf{TB: t}, file, agenttest.ReplayOptions{})
	_, err := model.Generate(t.Context(), requestOf("a"))
	require.ErrorContains(t, err, "panicked")

	before, err := os.ReadFile(file)
	require.NoError(t, err)
	of = &testOf{TB: t, skipped: true}
	agenttest.Replay(of, file, agenttest.ReplayOptions{Record: panics})
	of.end()
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	of = &testOf{TB: t}
	agenttest.Replay(of, filepath.Join(file, "none"), agenttest.ReplayOptions{Record: panics})
	require.Len(t, of.failed, 1)
}

// A recording of today answers tomorrow, on a machine in another time zone, and in virtual time.
func TestReplayOnAnotherDay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "day.jsonl")
	model := modelFunc(func(_ context.Context, r *asked) (*agent.ModelResponse, error) {
		require.Contains(t, r.Prompt.String(), "\nDate: Saturday, 28 November 2026\n")
		return &agent.ModelResponse{Text: "It is done."}, nil
	})
	kathmandu := time.FixedZone("Asia/Kathmandu", 20700)
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		now  time.Time
		only agenttest.ReplayOptions
	}{
		{"record", noon, agenttest.ReplayOptions{Record: model}},
		{"tomorrow", noon.AddDate(0, 0, 1), agenttest.ReplayOptions{}},
		{"far away", noon.In(kathmandu), agenttest.ReplayOptions{}},
		{"long ago", time.Unix(0, 0).UTC(), agenttest.ReplayOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			agenttest.Run(t, agent.Config{
				Now:    func() time.Time { return c.now },
				Runner: &agent.Loop{Model: agenttest.Replay(t, file, c.only)},
			}, nil, func(h *agenttest.Harness) {
				h.Post("Do it.")
				h.Replied("It is done.")
			})
		})
	}
}

// A whole chat with a sub-agent is recorded in one bubble and replayed in another.
func TestReplayOfAChat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.jsonl")
	model := modelFunc(func(_ context.Context, r *asked) (*agent.ModelResponse, error) {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case r.Session.Key.IsSubagent():
			time.Sleep(time.Minute) // of virtual time, in the bubble that records
			return &agent.ModelResponse{Text: "There are 12."}, nil
		case last.Role == session.MessageTool:
			return &agent.ModelResponse{Text: "I am on it."}, nil
		case last.Internal:
			return &agent.ModelResponse{Text: "12, says the counter."}, nil
		}
		return &agent.ModelResponse{ToolCalls: []agent.ToolCall{{
			ID: "1", Name: "sessions_spawn", Args: []byte(`{"task":"count","label":"counter"}`),
		}}}, nil
	})
	chat := func(h *agenttest.Harness) {
		h.Post("How many are there?")
		time.Sleep(time.Hour)
		h.Replied("I am on it.", "12, says the counter.")
	}
	t.Run("record", func(t *testing.T) {
		agenttest.Run(t, agent.Config{Runner: &agent.Loop{
			Model: agenttest.Replay(t, file, agenttest.ReplayOptions{Record: model}),
		}}, nil, chat)
	})
	t.Run("replay", func(t *testing.T) {
		agenttest.Run(t, agent.Config{Runner: &agent.Loop{
			Model: agenttest.Replay(t, file, agenttest.ReplayOptions{}),
		}}, nil, chat)
	})
}
