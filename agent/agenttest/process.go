package agenttest

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/agent"
)

// process is one simulated process: a Runtime that lives until it is killed or shut down.
type process struct {
	rt     *agent.Runtime
	cancel context.CancelFunc
	done   chan error
	dead   atomic.Bool
	next   chan struct{} // closed when the process after it runs
}

// startProcess starts a process.
func (h *Harness) startProcess(ctx context.Context) bool {
	proc := &process{done: make(chan error, 1), next: make(chan struct{})}
	cfg := h.cfg
	cfg.Store = proc.store(h)
	cfg.Runner = scriptRunner{h, proc}
	cfg.Tools = slices.Clone(cfg.Tools)
	for i, tool := range cfg.Tools {
		if tool.Call != nil {
			cfg.Tools[i].Call = whileAlive(proc, tool.Call)
		}
	}
	cfg.Reply = func(ctx context.Context, d agent.Delivery) error {
		if proc.dead.Load() {
			return errProcessKilled
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
			if proc.dead.Load() {
				return errProcessKilled
			}
			if err := h.cfg.Deliver(ctx, d); err != nil {
				return err
			}
			h.noteDelivery(d)
			return nil
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(processLog{h.t.Output(), proc},
			&slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	rt, err := agent.Open(ctx, cfg)
	if err != nil {
		h.t.Errorf("agenttest: opening the Runtime: %v", err)
		return false
	}
	proc.rt = rt
	ctx, proc.cancel = context.WithCancel(ctx)
	go func() { proc.done <- rt.Run(ctx) }()
	h.mu.Lock()
	before := h.running
	h.running = proc
	h.processes = append(h.processes, proc)
	h.mu.Unlock()
	if before != nil {
		close(before.next)
	}
	return true
}

func whileAlive(
	proc *process, call func(context.Context, agent.ToolCall) (string, error),
) func(context.Context, agent.ToolCall) (string, error) {
	return func(ctx context.Context, c agent.ToolCall) (string, error) {
		if proc.dead.Load() {
			return "", errProcessKilled
		}
		return call(ctx, c)
	}
}

// processLog is the log of the test for as long as a process lives.
type processLog struct {
	io.Writer
	proc *process
}

// Write implements io.Writer.
func (w processLog) Write(p []byte) (int, error) {
	if w.proc.dead.Load() {
		return len(p), nil
	}
	return w.Writer.Write(p)
}

// kill ends a life. The goroutines of the process cannot be ended, so they go on as those of a
// former owner: nothing that they do reaches the world.
func (h *Harness) kill(proc *process) {
	if proc.dead.Swap(true) {
		return
	}
	go func() {
		if !h.startProcess(h.Context()) {
			close(proc.next)
		}
	}()
}
