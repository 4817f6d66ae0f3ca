package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
)

// leakyError is what a provider answers that repeats the key it was called with.
const leakyError = "POST /v1: 401: Authorization: Bearer sk-ant-0123456789abcdefghijklmnop is not valid"

// loggingTo returns a Config that logs to a text.
func loggingTo(log *bytes.Buffer) agent.Config {
	return agent.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}
}

// lastTurnError returns the Error of the newest event of the end of a turn of the main session.
func lastTurnError(events []agent.TreeEvent) (text string) {
	for _, e := range events {
		if e.Kind == agent.EventTurnEnded && e.Run == "" {
			text = e.Error
		}
	}
	return text
}

// A4: why a turn failed stands in the Err of its reply, in the event of its end and in one line of
// the log at level Error, with credentials masked, and not in what people read.
func TestFailedTurnsSayWhy(t *testing.T) {
	var log bytes.Buffer
	s := script{"main": {agenttest.Fail(errors.New(leakyError))}}
	agenttest.Run(t, loggingTo(&log), s, func(h *harness) {
		seen := watchEvents(h)
		h.Post("hello")
		replies := h.Replies()
		require.Len(t, replies, 1)
		reply := replies[0].Reply
		require.True(t, reply.Failed)
		require.Equal(t, announce.Redact(leakyError), reply.Err)
		require.NotContains(t, reply.Text, "401")
		require.Equal(t, reply.Err, lastTurnError(seen()))
	})
	requireOneErrorLine(t, log.String(), "401")
}

// A4: so it is with a turn of a sub-agent, whose requester is told.
func TestFailedRunsSayWhy(t *testing.T) {
	var log bytes.Buffer
	s := script{"find it": {agenttest.Fail(errors.New(leakyError))}}
	agenttest.Run(t, loggingTo(&log), s, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "find it"})
		require.NoError(t, err)
		_, err = child.Wait(h.Context())
		failed, ok := errors.AsType[*agent.RunError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, announce.Redact(leakyError), failed.Run.Error)
	})
	requireOneErrorLine(t, log.String(), "401")
}

func requireOneErrorLine(t *testing.T, log, want string) {
	t.Helper()
	require.Equal(t, 1, strings.Count(log, "level=ERROR"), log)
	require.Contains(t, log, want)
	require.NotContains(t, log, "0123456789abcdefghijklmnop")
}

// A4: the error of a Runner is still that error to the library, whatever its text: one that is
// masked ends a run over its budget as it would without a mask.
func TestMaskedErrorsKeepTheirIdentity(t *testing.T) {
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "half"}, errors.Join(errors.New(leakyError), agent.ErrBudget)
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = child.Wait(h.Context())
		require.Error(t, err)
		info, err := child.Info(h.Context())
		require.NoError(t, err)
		require.Equal(t, agent.StatusIncomplete, info.Status)
	})
}

// A4: without a Logger, failures are told to slog.Default.
func TestDefaultLogger(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	rt, err := agent.Open(t.Context(), agent.Config{Runner: agent.RunnerFunc(
		func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{}, errors.New("the model is away")
		})})
	require.NoError(t, err)
	ended := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- rt.Run(ctx) }()
	require.NoError(t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "hello"})))
	require.NoError(t, rt.Session(topKey).Idle(t.Context()))
	stop()
	require.NoError(t, <-ended)
	require.Contains(t, log.String(), "the model is away")
}

// A6: a model that answers with nothing, twice, leaves lines in the log, and the event of the turn
// says so. A person is not left without an answer.
func TestEmptyResponseIsTold(t *testing.T) {
	const why = "the model returned an empty response"
	for name, answer := range map[string]string{"nothing": "", "blank": " \n\u200b"} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := script{"main": {say(answer), say(answer)}}
			agenttest.Run(t, loggingTo(&log), s, func(h *harness) {
				seen := watchEvents(h)
				h.Post("hello")
				require.Len(t, h.Replies(), 1)
				require.True(t, h.Replies()[0].Reply.Failed)
				require.Contains(t, h.Replies()[0].Reply.Text, "Sorry")
				require.Contains(t, lastTurnError(seen()), why)
			})
			require.Contains(t, log.String(), why)
		})
	}
}

// A failed turn tells people what they can do, by what the Model says of its error, and never what
// the provider has said.
func TestFailedTurnsSayWhatPeopleCanDo(t *testing.T) {
	const provider = "HTTP 400 from provider x"
	said := errors.New(provider)
	for want, err := range map[string]error{
		"too long for me":           fmt.Errorf("%w: %w", agent.ErrTooLong, said),
		"does not accept":           fmt.Errorf("%w: %w", agent.ErrAccount, said),
		"again in a few minutes.":   agent.RateLimited{Err: said},
		"again in a minute.":        &agent.RateLimited{After: time.Second, Err: said},
		"again in 5 minutes.":       agent.RateLimited{After: 4*time.Minute + 1, Err: said},
		"again in 90 minutes.":      agent.RateLimited{After: 90 * time.Minute, Err: said},
		"again in 2 hours.":         agent.RateLimited{After: 91 * time.Minute, Err: said},
		"cannot be reached":         agent.Retryable(said),
		"something went wrong":      said,
		"what I may spend":          fmt.Errorf("%w: %w", agent.ErrBudget, said),
		"begin a new one, or send ": fmt.Errorf("%w: %w", agent.ErrWindow, said),
		"again in 26 hours.":        agent.RateLimited{After: 26 * time.Hour, Err: said},
		"again in 48 hours.":        agent.RateLimited{After: 48 * time.Hour, Err: said},
		"again in 3 days.":          agent.RateLimited{After: 48*time.Hour + 1, Err: said},
		"again in 365 days.":        agent.RateLimited{After: 365 * 24 * time.Hour, Err: said},
		"again much later.":         agent.RateLimited{After: 1<<63 - 1, Err: said},
		"requests have come to my ": agent.RateLimited{After: -time.Hour, Err: said},
	} {
		t.Run(want, func(t *testing.T) {
			cfg := agent.Config{Runner: agent.RunnerFunc(
				func(context.Context, *agent.Turn) (agent.Result, error) {
					return agent.Result{}, err
				},
			)}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("hello")
				reply := h.Replies()[0].Reply
				require.True(t, reply.Failed)
				require.Contains(t, reply.Text, want)
				require.NotContains(t, reply.Text, provider)
				require.Contains(t, reply.Err, provider)
			})
		})
	}
}
