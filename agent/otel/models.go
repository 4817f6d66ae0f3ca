package otel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// maxWaiting is how many calls of models wait to be exported. Of more, those that come are lost.
const maxWaiting = 4096

// Models tells an [Exporter] of single calls of models: each try is a span below its turn. Events
// do not tell of them. The program makes one with [NewModels], wraps the Model of its Loop by
// [Models.Watch], and names it in [Config].Models.
//
// A call is not held up by what exports it: it leaves behind what is known of it, and the Exporter
// makes the span. Like calls of tools, those that are not exported when the process is killed are
// lost.
type Models struct {
	queue chan span
	lost  atomic.Int64
}

// NewModels makes a Models. It starts nothing.
func NewModels() *Models { return &Models{queue: make(chan span, maxWaiting)} }

// Watch returns a Model that does what another does, and tells of it. It is a StreamModel if that
// is one.
func (m *Models) Watch(next agent.Model) agent.Model {
	w := watched{models: m, next: next}
	if streams, ok := next.(agent.StreamModel); ok {
		return watchedStream{watched: w, streams: streams}
	}
	return w
}

// A watched Model tells of its calls.
type watched struct {
	models *Models
	next   agent.Model
}

// Generate makes the call.
func (w watched) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (resp *agent.ModelResponse, err error) {
	began := time.Now()
	over := false
	defer func() { w.models.tell(ctx, req, began, resp, err, over) }()
	resp, err = w.next.Generate(ctx, req)
	over = true
	return resp, err
}

// A watchedStream is a watched Model that streams.
type watchedStream struct {
	watched

	streams agent.StreamModel
}

// Stream makes the call.
func (w watchedStream) Stream(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return func(yield func(agent.ModelChunk, error) bool) {
		began := time.Now()
		var resp *agent.ModelResponse
		var failed error
		over := false
		defer func() { w.models.tell(ctx, req, began, resp, failed, over) }()
		for chunk, err := range w.streams.Stream(ctx, req) {
			if chunk.Response != nil {
				resp = chunk.Response
			}
			if err != nil {
				failed = err
			}
			over = resp != nil || failed != nil
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// tell keeps a call for the Exporter. A call that is not over was told to end, or has panicked.
func (m *Models) tell(
	ctx context.Context, req *agent.ModelRequest, began time.Time, resp *agent.ModelResponse,
	failed error, isOver bool,
) {
	s := callOf(req, began, time.Now())
	switch {
	case ctx.Err() != nil:
		s.status, s.reason = agent.StatusCancelled, "cancelled"
	case failed != nil:
		s.status, s.reason = agent.StatusFailed, reasonOf(failed)
	case !isOver:
		s.status, s.reason = agent.StatusCancelled, "cancelled"
	}
	if resp != nil {
		s.event.Usage, s.ran = resp.Usage, resp.Model
	}
	select {
	case m.queue <- s:
	default:
		m.lost.Add(1)
	}
}

// callOf returns the span of a call. A turn makes its calls one after the other, so that the time
// is enough to tell them apart.
func callOf(req *agent.ModelRequest, began, ended time.Time) span {
	of := req.Session
	s := span{
		kind: kindModel, root: of.Root, start: began, end: ended, status: agent.StatusOK,
		parent: runSpan(of.Root, req.Run),
		id: spanOf("model", of.Key.String(), fmt.Sprint(req.Turn), fmt.Sprint(req.New),
			began.UTC().Format(time.RFC3339Nano)),
		event: agent.TreeEvent{
			Session: of.Key, Depth: of.Depth, Run: req.Run, Turn: req.Turn, Agent: of.Key.Agent(),
			Model: req.Model, Time: ended,
		},
	}
	if req.Turn > 0 {
		s.parent = turnSpan(of.Key, req.Turn)
	}
	return s
}

// reasonOf returns what kind of error a call has failed with.
func reasonOf(err error) string {
	if _, ok := errors.AsType[agent.RateLimited](err); ok {
		return "rate_limited"
	}
	switch {
	case errors.Is(err, agent.ErrTooLong):
		return "too_long"
	case errors.Is(err, agent.ErrAccount):
		return "account"
	}
	return "_OTHER"
}

// calls returns where calls come from, which is never ready without a Models.
func (x *Exporter) calls() <-chan span {
	if x.cfg.Models == nil {
		return nil
	}
	return x.cfg.Models.queue
}

// takeCalls exports the calls that wait, when no more can come.
func (x *Exporter) takeCalls(ctx context.Context) error {
	for {
		select {
		case s := <-x.calls():
			if err := x.takeCall(ctx, s); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// takeCall exports a call of a model.
func (x *Exporter) takeCall(ctx context.Context, s span) error {
	x.dirty = true
	if n := x.cfg.Models.lost.Swap(0); n > 0 {
		x.cfg.Logger.Warn("otel: calls of models are lost: too many waited", "lost", n)
	}
	return x.finish(context.WithoutCancel(ctx), []span{s})
}
