package agent_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// streamFunc is a StreamModel of one function. A Loop must not call its Generate.
type streamFunc func(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error]

func (f streamFunc) Stream(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return f(ctx, req)
}

func (f streamFunc) Generate(
	context.Context, *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	return nil, errors.New("Generate was called")
}

// A piece is what a stream does next.
type piece = func(ctx context.Context, yield func(agent.ModelChunk, error) bool) bool

// chunk yields a text.
func chunk(text string) piece {
	return func(_ context.Context, yield func(agent.ModelChunk, error) bool) bool {
		return yield(agent.ModelChunk{Text: text}, nil)
	}
}

// last yields the response.
func last(resp agent.ModelResponse) piece {
	return func(_ context.Context, yield func(agent.ModelChunk, error) bool) bool {
		return yield(agent.ModelChunk{Response: &resp}, nil)
	}
}

// What a stream comes to, however it behaves: it has ended when the turn has, and people and the
// caller are told as of a model without a stream.
func TestStreams(t *testing.T) {
	broken := func(_ context.Context, yield func(agent.ModelChunk, error) bool) bool {
		return yield(agent.ModelChunk{Text: "lost"}, errBad)
	}
	usage := agent.Usage{Input: 3, Output: 4}
	for name, c := range map[string]struct {
		stream []piece
		want   string // the text of the reply
		err    string // in the error of the turn
		deltas string
	}{
		"texts": {[]piece{
			chunk("one "), chunk(""), chunk("two"), last(agent.ModelResponse{Usage: usage}),
		}, "one two", "", "one two"},
		"a text of the response": {[]piece{
			chunk("one "), last(agent.ModelResponse{Text: "whole", Usage: usage}),
		}, "whole", "", "one"}, // as Visible, a Stream shows no blank at the end
		"one piece": {[]piece{
			last(agent.ModelResponse{Text: "whole", Usage: usage}),
		}, "whole", "", ""},
		"goes on behind the response": {[]piece{
			chunk("one"), last(agent.ModelResponse{Usage: usage}), chunk("two"), broken,
			last(agent.ModelResponse{Text: "other"}),
		}, "one", "", "one"},
		"nothing":     {nil, "Sorry", agent.ErrNoResponse.Error(), ""},
		"no response": {[]piece{chunk("one")}, "Sorry", agent.ErrNoResponse.Error(), "one"},
		"breaks":      {[]piece{chunk("one"), broken, chunk("two")}, "Sorry", "bad", "one"},
		"goes on behind an error": {[]piece{
			broken, chunk("two"), last(agent.ModelResponse{Text: "other"}),
		}, "Sorry", "bad", ""},
		"panics": {[]piece{
			chunk("one"), func(context.Context, func(agent.ModelChunk, error) bool) bool { panic("oh no") },
		}, "Sorry", "agent: Runner.Model: panic: oh no", "one"},
		"ends its goroutine": {[]piece{
			chunk("one"), func(context.Context, func(agent.ModelChunk, error) bool) bool {
				runtime.Goexit()
				return false
			},
		}, "Sorry", "agent: Runner.Model: it ended its goroutine", "one"},
		"is empty twice": {
			[]piece{last(agent.ModelResponse{})}, "Sorry", agent.ErrEmptyAnswer.Error(), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			open := 0
			model := streamFunc(func(
				ctx context.Context, _ *agent.ModelRequest,
			) iter.Seq2[agent.ModelChunk, error] {
				return func(yield func(agent.ModelChunk, error) bool) {
					open++
					defer func() { open-- }()
					for _, p := range c.stream {
						_ = p(ctx, yield) // it goes on whatever yield says
					}
				}
			})
			cfg := agent.Config{Runner: &agent.Loop{Model: model}}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				seen := watchEvents(h)
				h.Post("go")
				require.NoError(t, h.Main().Idle(h.Context()))
				require.Zero(t, open)
				require.Len(t, h.Replies(), 1)
				reply := h.Replies()[0].Reply
				require.Contains(t, reply.Text, c.want)
				require.Equal(t, c.err != "", reply.Failed)
				require.Contains(t, reply.Err, c.err)
				require.Equal(t, c.deltas, deltasOf(seen()))
				if c.err == "" {
					report, err := h.Runtime().Usage(h.Context(), agent.UsageQuery{})
					require.NoError(t, err)
					require.Equal(t, usage, report.Total)
				}
			})
		})
	}
}

// deltasOf joins the deltas among events.
func deltasOf(events []agent.TreeEvent) string {
	var b strings.Builder
	for _, e := range events {
		if e.Kind == agent.EventDelta {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// A stream that is nil is one without a response.
func TestStreamThatIsNil(t *testing.T) {
	model := streamFunc(func(
		context.Context, *agent.ModelRequest,
	) iter.Seq2[agent.ModelChunk, error] {
		return nil
	})
	agenttest.Run(t, agent.Config{Runner: &agent.Loop{Model: model}}, nil, func(h *harness) {
		h.Post("go")
		require.Equal(t, agent.ErrNoResponse.Error(), h.Replies()[0].Reply.Err)
	})
}

// A stream that never ends ends with its turn, with what it has yielded bounded in memory. One that
// hangs without a look at its context is given up as any Runner, and named.
func TestStreamsThatNeverEnd(t *testing.T) {
	for name, c := range map[string]struct {
		next  func(ctx context.Context)
		takes time.Duration
	}{
		"babbles": {func(context.Context) { time.Sleep(time.Second) }, time.Second / 2},
		"hangs":   {func(ctx context.Context) { <-ctx.Done() }, 0},
		"is deaf": {func(context.Context) { time.Sleep(time.Hour) }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var open atomic.Int32
			model := streamFunc(func(
				ctx context.Context, _ *agent.ModelRequest,
			) iter.Seq2[agent.ModelChunk, error] {
				return func(yield func(agent.ModelChunk, error) bool) {
					open.Add(1)
					defer func() { open.Add(-1) }()
					for yield(agent.ModelChunk{Text: strings.Repeat("x", 1000)}, nil) {
						c.next(ctx)
					}
				}
			})
			cfg := agent.Config{
				Runner: &agent.Loop{Model: model}, Grace: time.Minute,
				Limits: agent.Limits{Reply: 2000},
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				time.Sleep(10*time.Minute + time.Second/2)
				began := time.Now()
				require.NoError(t, h.Main().CancelTurn(h.Context()))
				require.NoError(t, h.Main().Idle(h.Context()))
				require.Equal(t, c.takes, time.Since(began))
				require.Equal(t, btoi(name == "is deaf"), int(open.Load()))
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				require.Zero(t, open.Load())
				require.Empty(t, h.Replies())
			})
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// What streams beyond the Limits is cut with a note, as a text that comes whole.
func TestStreamedTextIsBounded(t *testing.T) {
	texts := make(map[bool]string)
	for _, streams := range []bool{false, true} {
		var model agent.Model = modelFunc(func(
			context.Context, *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			return &agent.ModelResponse{Text: strings.Repeat("x", 5000)}, nil
		})
		if streams {
			model = streamFunc(func(
				context.Context, *agent.ModelRequest,
			) iter.Seq2[agent.ModelChunk, error] {
				return func(yield func(agent.ModelChunk, error) bool) {
					for range 50 {
						if !yield(agent.ModelChunk{Text: strings.Repeat("x", 100)}, nil) {
							return
						}
					}
					yield(agent.ModelChunk{Response: &agent.ModelResponse{}}, nil)
				}
			})
		}
		store := session.NewMemory()
		agenttest.Run(t, agent.Config{
			Runner: &agent.Loop{Model: model}, Limits: agent.Limits{Reply: 2000}, Store: store,
		}, nil, func(h *harness) {
			h.Post("go")
			require.Less(t, len(h.Replies()[0].Reply.Text), 2001)
			texts[streams] = linesOf(t, store)[1].Message.Text[:1900]
		})
	}
	require.Equal(t, texts[false], texts[true])
}

// What a sub-agent had said of its answer is there when it is cut off. What a call had said that
// was to be made again is not.
func TestCutStreamIsTheResult(t *testing.T) {
	hang := func(ctx context.Context, _ func(agent.ModelChunk, error) bool) bool {
		<-ctx.Done()
		return false
	}
	again := func(_ context.Context, yield func(agent.ModelChunk, error) bool) bool {
		return yield(agent.ModelChunk{}, agent.Retryable(errBad))
	}
	for name, c := range map[string]struct {
		stream []piece
		want   string
	}{
		"in a stream":               {[]piece{chunk("one "), chunk("two"), hang}, "one two"},
		"before a text":             {[]piece{hang}, ""},
		"in the pause before a try": {[]piece{chunk("lost"), again}, ""},
	} {
		model := streamFunc(func(
			ctx context.Context, _ *agent.ModelRequest,
		) iter.Seq2[agent.ModelChunk, error] {
			return func(yield func(agent.ModelChunk, error) bool) {
				for _, p := range c.stream {
					if !p(ctx, yield) {
						return
					}
				}
			}
		})
		cfg := agent.Config{Runner: &agent.Loop{Model: model, Retries: 1}}
		for how, end := range map[string]func(h *harness, c *agent.Child[string]) error{
			"stopped": func(h *harness, c *agent.Child[string]) error {
				return c.Stop(h.Context())
			},
			"timed out": func(*harness, *agent.Child[string]) error {
				time.Sleep(time.Second)
				return nil
			},
		} {
			t.Run(name+" and "+how, func(t *testing.T) {
				agenttest.Run(t, cfg, nil, func(h *harness) {
					task := agent.Task{Text: "work", Timeout: 300 * time.Millisecond}
					child, err := h.Main().Spawn(h.Context(), task)
					require.NoError(t, err)
					time.Sleep(100 * time.Millisecond)
					require.NoError(t, end(h, child))
					info, err := child.Info(h.Context())
					require.NoError(t, err)
					require.True(t, info.Status.Terminal(), info.Status)
					require.Equal(t, c.want, info.Result.Text)
				})
			})
		}
	}
}
