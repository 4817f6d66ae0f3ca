package agent_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/spawn"
)

type (
	namedText  string
	listValue  struct{ Next *listValue }
	panickingE struct{}
)

func (panickingE) MarshalJSON() ([]byte, error) { panic(panicSecret) }

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func answerOf[Out any](out Out) agent.Tool {
	return agent.NewTool("t", "", func(context.Context, struct{}) (Out, error) { return out, nil })
}

// Issue 12: what the function of a NewTool returns is told to the model: a text as it is, and any
// other value as JSON.
func TestAnswersOfNewTool(t *testing.T) {
	for want, tool := range map[string]agent.Tool{
		"plain <b>":                answerOf("plain <b>"),
		"named":                    answerOf(namedText("named")),
		"a result":                 answerOf(agent.ToolResult{Text: "a result"}),
		`{"Next":{"Next":null}}`:   answerOf(listValue{Next: &listValue{}}),
		`{"a":"<b> & é"}`:          answerOf(map[string]string{"a": "<b> & é"}),
		`[]`:                       answerOf([]int(nil)),
		`{}`:                       answerOf(map[string]int(nil)),
		`""`:                       answerOf([]byte(nil)),
		`7`:                        answerOf[any](7),
		`"2026-01-02T03:04:05Z"`:   answerOf(someTime),
		`error: agent: the answer`: answerOf[any](nil),
		`error: agent: the answer of tool "t": it is nil`:            answerOf[*int](nil),
		`error: agent: the answer of tool "t": it cannot be encoded`: answerOf(math.NaN()),
	} {
		answer := answerOfTool(t, tool, `{}`)
		require.True(t, strings.HasPrefix(answer, want), "%q is not %q", answer, want)
	}
	for _, tool := range []agent.Tool{
		answerOf[any](nil), answerOf[any](func() {}), answerOf(panickingE{}), answerOf(math.Inf(1)),
	} {
		out, err := tool.Call(t.Context(), agent.ToolCall{})
		require.Empty(t, out)
		bad, ok := errors.AsType[*agent.ToolValueError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "t", bad.Tool)
		require.NotContains(t, err.Error(), panicSecret)
		require.Less(t, len(err.Error()), 2000)
	}
	_, err := answerOf(panickingE{}).Call(t.Context(), agent.ToolCall{})
	_, ok := errors.AsType[*spawn.PanicError](err)
	require.True(t, ok, "%v", err)
}

// Issue 12: what has no JSON form is a mistake that Open reports, and so is a Part whose bytes
// JSON would leave out.
func TestAnswersThatHaveNoJSON(t *testing.T) {
	type withPart struct{ P []agent.ToolResult }
	for want, tool := range map[string]agent.Tool{
		"chan int has no JSON form":           answerOf(make(chan int)),
		"field C: chan int has no JSON form":  answerOf(channelArgs{}),
		"func() has no JSON form":             answerOf([]func(){nil}),
		"complex128 has no JSON form":         answerOf(map[string]complex128{}),
		"the keys of an object are strings":   answerOf(map[bool]int{}),
		"JSON leaves out the bytes of a Part": answerOf([]agent.Part{}),
		"field P: field Parts: JSON leaves":   answerOf(withPart{}),
		"return a ToolResult":                 answerOf(&agent.ToolResult{}),
	} {
		requireMistake(t, "Config.Tools[0].Call: tool \"t\": what it returns: ", tool)
		requireMistake(t, want, tool)
		_, err := tool.Call(t.Context(), agent.ToolCall{})
		require.ErrorContains(t, err, want)
	}
	requireNoMistake(t, answerOf(listValue{}))
}
