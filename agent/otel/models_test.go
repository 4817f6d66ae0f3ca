package otel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/offshoot-sdk/offshoot/agent/otel"
)

// script is a Model that plays answers, one a call.
type script struct {
	calls   int
	answers []func() (*agent.ModelResponse, error)
}

func (s *script) Generate(
	context.Context, *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	s.calls++
	return s.answers[s.calls-1]()
}

// streamed is a script that streams.
type streamed struct{ *script }

func (s streamed) Stream(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return func(yield func(agent.ModelChunk, error) bool) {
		resp, err := s.Generate(ctx, req)
		if err == nil && !yield(agent.ModelChunk{Text: resp.Text}, nil) {
			return
		}
		yield(agent.ModelChunk{Response: resp}, err)
	}
}

// digging is a script that fails once, calls a tool and answers.
func digging() *script {
	return &script{answers: []func() (*agent.ModelResponse, error){
		func() (*agent.ModelResponse, error) {
			return nil, agent.RateLimited{Err: errors.New(secret)}
		},
		func() (*agent.ModelResponse, error) {
			return &agent.ModelResponse{
				Usage: agent.Usage{Input: 10, CacheRead: 5, Output: 2}, Model: "acme/large-2",
				ToolCalls: []agent.ToolCall{{
					ID: "1", Name: "dig", Args: json.RawMessage(`{"Where":"` + secret + `"}`),
				}},
			}, nil
		},
		func() (*agent.ModelResponse, error) {
			return &agent.ModelResponse{Text: secret, Usage: agent.Usage{Input: 20}}, nil
		},
	}}
}

// Each try of a call of a model is a span below its turn, with the names of the convention and
// without content, whether the Model streams or not.
func TestCallsOfModelsAreSpans(t *testing.T) {
	for name, model := range map[string]agent.Model{
		"whole": digging(), "streamed": streamed{digging()},
	} {
		t.Run(name, func(t *testing.T) {
			models := otel.NewModels()
			cfg := botConfig(nil)
			watched := models.Watch(model)
			_, isStream := watched.(agent.StreamModel)
			require.Equal(t, name == "streamed", isStream)
			cfg.Runner = &agent.Loop{Model: watched}
			w := play(t, cfg, func(c *otel.Config) { c.Models = models })
			checkTrace(t, w.lines())
			ids := map[trace.SpanID]bool{}
			var got []string
			for _, s := range w.spans.GetSpans().Snapshots() {
				for _, kv := range s.Attributes() {
					require.NotContains(t, kv.Value.String(), secret)
				}
				if strings.HasPrefix(s.Name(), "chat") {
					require.Equal(t, trace.SpanKindClient, s.SpanKind())
					ids[s.SpanContext().SpanID()] = true
					got = append(got, said(s))
				}
			}
			require.Equal(t, []string{
				"chat large: chat acme large <> <> <> rate_limited",
				"chat large: chat acme large <large-2> <15> <2> ",
				"chat large: chat acme large <> <20> <0> ",
			}, got)
			require.Len(t, ids, 3)
		})
	}
}

// said returns what a span of a call says.
func said(s sdktrace.ReadOnlySpan) string {
	of := map[string]string{}
	for _, kv := range s.Attributes() {
		of[string(kv.Key)] = kv.Value.String()
	}
	return fmt.Sprintf("%s: %s %s %s <%s> <%s> <%s> %s", s.Name(), of["gen_ai.operation.name"],
		of["gen_ai.provider.name"], of["gen_ai.request.model"], of["gen_ai.response.model"],
		of["gen_ai.usage.input_tokens"], of["gen_ai.usage.output_tokens"], of["error.type"])
}

// What a Model does is what its caller sees: calls are not held up when no Exporter takes them, and
// an end, an error and a panic come through.
func TestModelsThatAreNotRead(t *testing.T) {
	models := otel.NewModels()
	fails := errors.New("no")
	m := models.Watch(agent.ModelFunc(
		func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
			return nil, fails
		}))
	for range 10_000 {
		_, err := m.Generate(t.Context(), &agent.ModelRequest{})
		require.ErrorIs(t, err, fails)
	}
	bad := models.Watch(agent.ModelFunc(
		func(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) { panic("boom") }))
	require.PanicsWithValue(t, "boom", func() {
		_, _ = bad.Generate(t.Context(), &agent.ModelRequest{})
	})
	ends := models.Watch(streamed{digging()}).(agent.StreamModel)
	for _, err := range ends.Stream(t.Context(), &agent.ModelRequest{}) {
		require.Error(t, err)
		break
	}
	var log strings.Builder
	play(t, botConfig(dig), func(c *otel.Config) {
		c.Models, c.Logger = models, slog.New(slog.NewTextHandler(&log, nil))
	})
	require.Contains(t, log.String(), "calls of models are lost")
}
