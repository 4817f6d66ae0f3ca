package provider

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestName(t *testing.T) {
	for _, test := range []struct{ name, usual, want, wrong string }{
		{"p/m", "", "m", ""},
		{"P/m", "", "m", ""},
		{"m", "", "m", ""},
		{"p/of/m", "", "of/m", ""},
		{"", "p/usual", "usual", ""},
		{"", "usual", "usual", ""},
		{"", "", "", "it is empty"},
		{"q/m", "", "", `of the provider "q"`},
		{"p/", "", "", "names no model"},
		{"p/" + strings.Repeat("m", MaxName-2), "", strings.Repeat("m", MaxName-2), ""},
		{"p/" + strings.Repeat("m", MaxName-1), "", "", "more than 512 bytes"},
		{"p/m\nX: y", "", "", "a line break"},
		{"p/m\x00", "", "", "another control character"},
		{"m\u2028", "", "", "a line break"},
		{"m\u202e", "", "", "another control character"},
		{"m\xff", "", "", "another control character"},
		{"", "m\r", "", "a line break"},
	} {
		got, err := Name("p", test.name, test.usual)
		require.Equal(t, test.want, got, test.name)
		if test.wrong == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, test.wrong)
		var bad *spawn.InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "ModelRequest.Model", bad.Field)
	}
}

func TestRan(t *testing.T) {
	for _, test := range []struct{ asked, ran, want string }{
		{"m", "m", "p/m"},
		{"m", "", "p/m"},
		{"m", "m-2026-11-27", "p/m"},
		{"m", "m-20261127", "p/m"},
		{"m", "m-2026112", "p/m-2026112"},
		{"m", "m-mini-2026-11-27", "p/m-mini-2026-11-27"},
		{"m", "m-2026-11-2x", "p/m-2026-11-2x"},
		{"m", "n", "p/n"},
		{"m", "n\nINFO", "p/m"},
		{"m", "n\x1b[31m", "p/m"},
		{"m", strings.Repeat("n", MaxName+1), "p/m"},
	} {
		require.Equal(t, test.want, Ran("p", test.asked, test.ran), test.ran)
	}
}

// A level is known in each spelling, and one that is not is an error that says so.
func TestThinking(t *testing.T) {
	for _, level := range policy.ThinkingLevels() {
		got, err := Thinking(level)
		require.NoError(t, err)
		require.Equal(t, level, got)
	}
	for said, want := range map[string]string{"": "", "Think-Harder": "medium", "max": "high"} {
		got, err := Thinking(said)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, odd := range []string{"turbo", " ", "12", "high\nx", strings.Repeat("x", 9999)} {
		_, err := Thinking(odd)
		var bad *spawn.InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "ModelRequest.Thinking", bad.Field)
		require.Contains(t, bad.Reason, "is not one of off, minimal, low, medium, high, xhigh, adaptive")
		require.Less(t, len(err.Error()), 500)
		require.False(t, agent.IsRetryable(err))
	}
}

// Numbers that cannot be are ones that can.
func TestUsage(t *testing.T) {
	const most = math.MaxInt64
	for _, test := range []struct{ said, want, uncached agent.Usage }{
		{},
		{
			agent.Usage{Input: 9, Output: 4, CacheRead: 3, CacheWrite: 2},
			agent.Usage{Input: 9, Output: 4, CacheRead: 3, CacheWrite: 2},
			agent.Usage{Input: 4, Output: 4, CacheRead: 3, CacheWrite: 2},
		},
		{
			agent.Usage{Input: -9, Output: -4, CacheRead: math.MinInt64, CacheWrite: -1},
			agent.Usage{},
			agent.Usage{},
		},
		{
			agent.Usage{Input: most, Output: most, CacheRead: most, CacheWrite: most},
			agent.Usage{
				Input: MaxTokens, Output: MaxTokens, CacheRead: MaxTokens, CacheWrite: MaxTokens,
			},
			agent.Usage{Output: MaxTokens, CacheRead: MaxTokens, CacheWrite: MaxTokens},
		},
	} {
		require.Equal(t, test.want, Usage(test.said))
		require.Equal(t, test.uncached, Uncached(test.said))
	}
}

// classOf returns what an error is to those who called.
func classOf(err error) Class {
	_, limited := errors.AsType[agent.RateLimited](err)
	switch {
	case errors.Is(err, agent.ErrTooLong):
		return ClassTooLong
	case errors.Is(err, agent.ErrAccount):
		return ClassAccount
	case limited:
		return ClassRate
	case agent.IsRetryable(err):
		return ClassRetryable
	}
	return ClassRefused
}

func TestErrorIsWhatItsStatusSays(t *testing.T) {
	for _, test := range []struct {
		e    Error
		want Class
	}{
		{Error{Status: 400}, ClassRefused},
		{Error{Status: 400, Message: "Prompt is too long: 9 tokens"}, ClassTooLong},
		{Error{Status: 400, Message: "This model's maximum context length is 9"}, ClassTooLong},
		{Error{Status: 401}, ClassAccount},
		{Error{Status: 402}, ClassAccount},
		{Error{Status: 403}, ClassAccount},
		{Error{Status: 404}, ClassRefused},
		{Error{Status: 404, Class: ClassAccount}, ClassAccount},
		{Error{Status: 408}, ClassRetryable},
		{Error{Status: 413}, ClassTooLong},
		{Error{Status: 422}, ClassRefused},
		{Error{Status: 429}, ClassRate},
		{Error{Status: 429, Class: ClassAccount}, ClassAccount},
		{Error{Status: 500}, ClassRetryable},
		{Error{Status: 503}, ClassRetryable},
		{Error{Status: 503, After: time.Second}, ClassRate},
		{Error{Status: 529}, ClassRetryable},
		{Error{Status: 529, After: time.Second}, ClassRate},
		{Error{Status: 529, After: time.Second, Class: ClassRetryable}, ClassRate},
		{Error{After: time.Second, Class: ClassRetryable}, ClassRate},
		{Error{Status: 401, After: time.Second}, ClassAccount},
		{Error{Status: 400, After: time.Second, Class: ClassRefused}, ClassRefused},
		{Error{}, ClassRetryable},
		{Error{Message: "the context window is full"}, ClassTooLong},
		{Error{Class: ClassRefused}, ClassRefused},
	} {
		require.Equal(t, test.want, classOf(&test.e), "%v", test.e)
	}
	e := &Error{Client: "c", Status: 418, Code: "tea", Message: strings.Repeat("é", 5000)}
	require.Less(t, len(e.Error()), 1200)
	require.True(t, strings.HasPrefix(e.Error(), "c: the provider answers 418 I'm a teapot (tea): "))
	require.Equal(t, "retryable", ClassRetryable.String())
	require.Equal(t, "Class(77)", Class(77).String())
}

func TestAfter(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for said, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 0.5 ": time.Second / 2, "-3": 0, "soon": 0, "NaN": 0,
		"1e300": 24 * time.Hour, "Fri, 27 Nov 2026 12:00:09 GMT": 9 * time.Second,
		"Fri, 27 Nov 2026 11:00:00 GMT": 0, "86401": MaxAfter, "Sun, 29 Nov 2026 12:00:00 GMT": MaxAfter,
	} {
		require.Equal(t, want, After(http.Header{"Retry-After": {said}}, now), said)
	}
	both := http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"1500"}}
	require.Equal(t, 1500*time.Millisecond, After(both, now))
}

func TestBroken(t *testing.T) {
	err := Broken(t.Context(), "c", io.ErrUnexpectedEOF)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.True(t, agent.IsRetryable(err))
	err = Broken(t.Context(), "c", fmt.Errorf("reading: %w", bufio.ErrTooLong))
	require.ErrorIs(t, err, bufio.ErrTooLong)
	require.Equal(t, &SizeError{Client: "c", Limit: MaxLine, Line: true}, err)
	require.False(t, agent.IsRetryable(err))

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	err = Broken(ctx, "c", io.ErrUnexpectedEOF)
	require.EqualError(t, err, "enough")
	require.False(t, agent.IsRetryable(err))
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := Begin(t.Context(), "c", time.Minute)
		for range 5 {
			time.Sleep(50 * time.Second)
			require.NoError(t, ctx.Err())
			w.Heard()
		}
		time.Sleep(61 * time.Second)
		require.Error(t, ctx.Err())
		require.True(t, agent.IsRetryable(context.Cause(ctx)))
		require.ErrorContains(t, context.Cause(ctx), "told c nothing for 1m0s")
		w.End()

		ctx, w = Begin(t.Context(), "c", -1)
		time.Sleep(1000 * time.Hour)
		w.Heard()
		require.NoError(t, ctx.Err())
		w.End()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)

		ctx, w = Begin(t.Context(), "c", 0) // that of a Config which does not say it
		time.Sleep(10*time.Minute - 1)
		require.NoError(t, ctx.Err())
		time.Sleep(2 * time.Nanosecond)
		require.ErrorContains(t, context.Cause(ctx), "told c nothing for 10m0s")
		w.End()

		for idle, limit := range map[time.Duration]time.Duration{
			-1: behind, 0: behind, time.Minute: behind, time.Second: time.Second,
		} {
			ctx, w := Begin(t.Context(), "c", idle)
			w.Complete()
			for range 3 {
				time.Sleep(limit - 1)
				require.NoError(t, ctx.Err(), idle)
				w.Heard()
			}
			time.Sleep(limit + 1)
			require.ErrorContains(t, context.Cause(ctx), "told c nothing for "+limit.String())
			w.End()
		}
	})
}

// The text of an error is one line, with the first 1000 bytes of the words.
func TestErrorIsOneLine(t *testing.T) {
	e := &Error{Client: "c", Status: 500, Message: strings.Repeat("a\n", 600)}
	require.Equal(t, "c: the provider answers 500 Internal Server Error: "+
		strings.TrimSpace(strings.Repeat("a ", 500)), strings.TrimSpace(e.Error()))
}

func TestReadPart(t *testing.T) {
	types := []string{"image/png", "image/jpeg"}
	req := &agent.ModelRequest{}
	for name, test := range map[string]struct {
		part agent.Part
		want Content
	}{
		"bytes": {
			agent.Part{Kind: "image", MediaType: "image/JPG; q=1", Data: []byte("x")},
			Content{MediaType: "image/jpeg", Data: []byte("x")},
		},
		"an address": {
			agent.Part{Kind: "image", URL: "https://example.com/x"},
			Content{URL: "https://example.com/x"},
		},
		"the address of a film": {
			agent.Part{Kind: "video", URL: "https://example.com/x"},
			Content{Note: `[video "" (of unknown type) is not shown: it is at https://example.com/x]`},
		},
		"another type": {
			agent.Part{Kind: "image", MediaType: "image/x-odd", Data: []byte("x")},
			Content{
				MediaType: "image/x-odd",
				Note:      `[image "" (image/x-odd) is not shown: its type cannot be shown]`,
			},
		},
		"too large": {
			agent.Part{Kind: "image", MediaType: "image/png", File: session.File{Size: MaxPart + 1}},
			Content{
				MediaType: "image/png",
				Note:      `[image "" (image/png) is not shown: it is too large to be shown]`,
			},
		},
		"gone": {
			agent.Part{Kind: "image", MediaType: "image/png", Name: "a", File: session.File{Size: 1}},
			Content{
				MediaType: "image/png", Name: "a",
				Note: `[image "a" (image/png) is not shown: it is gone]`,
			},
		},
	} {
		got, err := ReadPart(t.Context(), req, test.part, types)
		require.NoError(t, err, name)
		require.Equal(t, test.want, got, name)
	}
}

func TestStrict(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{},"required":[],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}},` +
			`"required":["a"],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},` +
			`"required":["a"],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`: false,
		`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],` +
			`"additionalProperties":false}`: false,
		`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"],` +
			`"additionalProperties":false}`: false,
		`{"type":"object"}`:                          false,
		`{"type":"array","items":{"type":"string"}}`: false,
		`{"$ref":"#/x"}`:                             false,
		`[]`:                                         false,
		`x`:                                          false,
	} {
		require.Equal(t, want, Strict([]byte(schema)), schema)
	}
}

func TestCallIDs(t *testing.T) {
	var ids CallIDs
	require.Equal(t, "call_1", ids.Call("call_1"))
	require.Equal(t, "call_1", ids.Result("call_1"))
	require.Equal(t, "call_1_2", ids.Call("call_1"))
	require.Equal(t, "call_1_2", ids.Result("call_1"))
	require.Equal(t, "call_1_3", ids.Call("call_1"))
	odd := ids.Call("functions.now:0")
	require.Regexp(t, `^call_[0-9a-f]{24}$`, odd)
	require.Equal(t, odd, ids.Result("functions.now:0"))
	long := strings.Repeat("x", 64)
	require.Equal(t, long, ids.Call(long))
	again := ids.Call(long)
	require.NotEqual(t, long, again)
	require.LessOrEqual(t, len(again), 64)
	require.LessOrEqual(t, len(ids.Call(long+"x")), 64)
	require.NotEmpty(t, ids.Call(""))
	unknown := ids.Result("unknown")
	require.Equal(t, unknown, ids.Result("unknown"))
}

// Calls of one message that have the same id, or the one that another is sent under, have their
// own, and so have their results, in order. A message takes the place of the one before.
func TestCallIDsOfOneMessage(t *testing.T) {
	for _, test := range []struct{ calls, sent, results, of string }{
		{"x", "x", "x", "x"},
		{"x x", "x x_2", "x x", "x x_2"},
		{"x x x", "x x_2 x_3", "x x x x", "x x_2 x_3 x_3"},
		{"x x_2 x", "x x_2 x_3", "x x_2 x", "x x_2 x_3"},
		{"x y x y", "x y x_2 y_2", "y x y x", "y x y_2 x_2"},
		{"x x|x", "x x_2 x_3", "x", "x_3"},
	} {
		var ids CallIDs
		var sent, of []string
		for message := range strings.SplitSeq(test.calls, "|") {
			var calls []agent.ToolCall
			for id := range strings.FieldsSeq(message) {
				calls = append(calls, agent.ToolCall{ID: id})
			}
			next := ids.Calls(calls)
			for _, asked := range calls {
				sent = append(sent, next(asked.ID))
			}
			require.Empty(t, next("unknown"))
		}
		for id := range strings.FieldsSeq(test.results) {
			of = append(of, ids.Result(id))
		}
		require.Equal(t, test.sent, strings.Join(sent, " "), test.calls)
		require.Equal(t, test.of, strings.Join(of, " "), test.calls)
	}
}

func TestArgs(t *testing.T) {
	for args, want := range map[string]string{
		"": "{}", " ": "{}", ` {"a": 1} `: `{"a": 1}`, `{"a":`: `{"invalid_arguments":"{\"a\":"}`,
		`[1]`: `{"invalid_arguments":"[1]"}`, `"x"`: `{"invalid_arguments":"\"x\""}`,
	} {
		require.Equal(t, want, string(Args([]byte(args))))
	}
}

// A schema that is not an object, or is too deep for a request, is refused with the tool's name.
func TestToolSchema(t *testing.T) {
	deep := func(levels int) string {
		return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
	}
	for schema, want := range map[string]string{
		"": `{"type":"object","properties":{}}`, `{}`: `{}`, ` {"type":"object"}`: ` {"type":"object"}`,
		`{"anyOf":[{"type":"object"}]}`: `{"anyOf":[{"type":"object"}]}`,
		"{\"a\":\"\xff\"}":              "{\"a\":\"\uFFFD\"}",
		deep(9000):                      deep(9000),
	} {
		got, err := ToolSchema(agent.Tool{Name: "now", Schema: json.RawMessage(schema)})
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for _, schema := range []string{
		"true", "false", "null", " null", "[]", `"object"`, "7", `{"bad":`, "{}{}", " ", "\xff",
		deep(9990), deep(20_000),
	} {
		_, err := ToolSchema(agent.Tool{Name: "now", Schema: json.RawMessage(schema)})
		var input *spawn.InputError
		require.ErrorAs(t, err, &input, "%.20s", schema)
		require.ErrorContains(t, err, `the tool "now"`)
		require.False(t, agent.IsRetryable(err))
	}
}
