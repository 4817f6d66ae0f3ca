package agenttest

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/internal/ctxguard"
	"github.com/offshoot-sdk/offshoot/session"
)

// process is one simulated process: a Runtime that lives until it is killed or shut down.
type process struct {
	rt     *agent.Runtime
	own    *session.Store // of this process; that of the Harness, unless that has a Cluster
	cancel context.CancelFunc
	done   chan error
	dead   atomic.Bool   // set under the lock of the Harness
	next   chan struct{} // closed when the process after it runs
}

// startProcess starts a process.
func (h *Harness) startProcess(ctx context.Context) bool {
	proc := &process{own: h.ownStore(), done: make(chan error, 1), next: make(chan struct{})}
	cfg := h.cfg
	cfg.Store = proc.store(h)
	if cfg.Runner != nil || h.script != nil {
		cfg.Runner = scriptRunner{h: h, proc: proc, own: cfg.Runner}
	}
	cfg.Runners.Agents = maps.Clone(cfg.Runners.Agents)
	for id, own := range cfg.Runners.Agents {
		cfg.Runners.Agents[id] = scriptRunner{h: h, proc: proc, own: own}
	}
	cfg.Runners.Runtimes = maps.Clone(cfg.Runners.Runtimes)
	for name, x := range cfg.Runners.Runtimes {
		if x.Runner != nil {
			x.Runner = scriptRunner{h: h, proc: proc, own: x.Runner, external: true}
			cfg.Runners.Runtimes[name] = x
		}
	}
	cfg.Tools = slices.Clone(cfg.Tools)
	for i, tool := range cfg.Tools {
		if tool.Call != nil {
			cfg.Tools[i].Call = whileAlive(proc, tool.Call)
		}
	}
	cfg.Threads.Channels = maps.Clone(cfg.Threads.Channels)
	for name, channel := range cfg.Threads.Channels {
		if channel.Host != nil {
			channel.Host = livingHost{channel.Host, proc}
			cfg.Threads.Channels[name] = channel
		}
	}
	cfg.Reply = h.replyOf(proc)
	if h.cfg.Deliver != nil {
		cfg.Deliver = h.deliverOf(proc)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(processLog{h.t.Output(), proc},
			&slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if cfg.Now == nil {
		cfg.Now = h.Now
	}
	rt, err := agent.Open(ctxguard.With(ctx, h.checkContext), cfg)
	if err != nil {
		h.t.Errorf("agenttest: opening the Runtime: %v", err)
		return false
	}
	proc.rt = rt
	ctx, proc.cancel = context.WithCancel(ctx)
	h.mu.Lock()
	before := h.running
	follows := before == nil || before.dead.Load()
	if follows {
		for key := range h.watched {
			h.watch(ctx, proc, key)
		}
		// Before it runs: it may be killed, and have a successor, at its first write.
		h.running = proc
	}
	h.processes = append(h.processes, proc)
	h.mu.Unlock()
	go func() { proc.done <- rt.Run(ctx) }()
	if follows && before != nil {
		close(before.next)
	}
	return true
}

// replyOf returns the Reply of a process.
func (h *Harness) replyOf(proc *process) func(context.Context, agent.Delivery) error {
	return func(ctx context.Context, d agent.Delivery) error {
		return h.receive(ctx, proc, h.cfg.Reply, d, h.noteReply)
	}
}

// deliverOf returns the Deliver of a process.
func (h *Harness) deliverOf(proc *process) func(context.Context, agent.Delivery) error {
	return func(ctx context.Context, d agent.Delivery) error {
		return h.receive(ctx, proc, h.cfg.Deliver, d, h.noteDelivery)
	}
}

// receive gives a delivery of a process to the receiver of the Config, if there is one, and
// remembers it if that accepts it.
func (h *Harness) receive(
	ctx context.Context, proc *process, to func(context.Context, agent.Delivery) error,
	d agent.Delivery, note func(agent.Delivery),
) error {
	if proc.dead.Load() {
		return errProcessKilled
	}
	if to != nil {
		if err := to(ctx, d); err != nil {
			return err
		}
	}
	return h.note(proc, func() {
		for _, one := range d.All() {
			note(one)
		}
	})
}

func whileAlive(
	proc *process, call func(context.Context, agent.ToolCall) (agent.ToolResult, error),
) func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
	return func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
		if proc.dead.Load() {
			return agent.ToolResult{}, errProcessKilled
		}
		return call(ctx, c)
	}
}

// livingHost is a ThreadHost for as long as a process lives.
type livingHost struct {
	agent.ThreadHost

	proc *process
}

// CreateThread implements agent.ThreadHost.
func (h livingHost) CreateThread(
	ctx context.Context, t agent.NewThread,
) (session.Route, error) {
	if h.proc.dead.Load() {
		return session.Route{}, errProcessKilled
	}
	return h.ThreadHost.CreateThread(ctx, t)
}

// Farewell implements agent.ThreadHost.
func (h livingHost) Farewell(ctx context.Context, f agent.Farewell) error {
	if h.proc.dead.Load() {
		return errProcessKilled
	}
	return h.ThreadHost.Farewell(ctx, f)
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
	h.mu.Lock()
	dead, followed := proc.dead.Swap(true), false
	if !dead {
		followed = h.leave(proc)
	}
	h.mu.Unlock()
	if dead {
		return
	}
	if followed {
		close(proc.next)
	}
	go func() {
		if !h.startProcess(h.Context()) && !followed {
			close(proc.next)
		}
	}()
}
