package agenttest

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/agent"
)

// life is one process.
type life struct {
	rt     *agent.Runtime
	cancel context.CancelFunc
	done   chan error
	dead   atomic.Bool
	next   chan struct{} // closed when the process after it runs
}

// begin starts a process.
func (h *Harness) begin(ctx context.Context) bool {
	l := &life{done: make(chan error, 1), next: make(chan struct{})}
	cfg := h.cfg
	cfg.Store = l.store(h)
	cfg.Runner = actor{h, l}
	cfg.Tools = slices.Clone(cfg.Tools)
	for i, tool := range cfg.Tools {
		if tool.Call != nil {
			cfg.Tools[i].Call = alive(l, tool.Call)
		}
	}
	cfg.Reply = func(ctx context.Context, d agent.Delivery) error {
		if l.dead.Load() {
			return errKilled
		}
		if h.cfg.Reply != nil {
			if err := h.cfg.Reply(ctx, d); err != nil {
				return err
			}
		}
		h.noteReply(d)
		return nil
	}
	if h.cfg.Deliver != nil {
		cfg.Deliver = func(ctx context.Context, d agent.Delivery) error {
			if l.dead.Load() {
				return errKilled
			}
			if err := h.cfg.Deliver(ctx, d); err != nil {
				return err
			}
			h.noteDelivery(d)
			return nil
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(lastWords{h.t.Output(), l}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	rt, err := agent.Open(ctx, cfg)
	if err != nil {
		h.t.Errorf("agenttest: opening the Runtime: %v", err)
		return false
	}
	l.rt = rt
	ctx, l.cancel = context.WithCancel(ctx)
	go func() { l.done <- rt.Run(ctx) }()
	h.mu.Lock()
	before := h.life
	h.life = l
	h.lives = append(h.lives, l)
	h.mu.Unlock()
	if before != nil {
		close(before.next)
	}
	return true
}

func alive(l *life, call func(context.Context, agent.ToolCall) (string, error)) func(context.Context, agent.ToolCall) (string, error) {
	return func(ctx context.Context, c agent.ToolCall) (string, error) {
		if l.dead.Load() {
			return "", errKilled
		}
		return call(ctx, c)
	}
}

// lastWords is the log of the test for as long as a process lives.
type lastWords struct {
	io.Writer
	l *life
}

// Write implements io.Writer.
func (w lastWords) Write(p []byte) (int, error) {
	if w.l.dead.Load() {
		return len(p), nil
	}
	return w.Writer.Write(p)
}

// kill ends a life. The goroutines of the process cannot be ended, so they go on as those of a former owner: nothing that they do
// reaches the world.
func (h *Harness) kill(l *life) {
	if l.dead.Swap(true) {
		return
	}
	go func() {
		if !h.begin(h.Context()) {
			close(l.next)
		}
	}()
}
