package agenttest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// A Cluster runs a bot in several processes that share one engine in memory, as session.Owners has
// it: each tree is that of one of them, and another one takes it over when that has died. Its
// methods are [Run] and [EveryCrash] with so many processes. The zero Cluster has two.
//
//	agenttest.Cluster{}.EveryCrash(t, cfg, script, func(h *agenttest.Harness) {
//		h.Post("hello")
//		h.Pass(time.Minute) // whichever process dies: its lease lapses, and another one goes on
//		h.Replied("hello")
//	})
//
// The methods of the Harness use the process that was started first of those that live;
// [Harness.Runtimes] has all of them. A process that is killed cannot reach the engine from then
// on. The others take its trees over when its lease has lapsed, 30 seconds after its last beat or
// earlier. Another process is started in its place, under another name.
type Cluster struct {
	// Processes is how many live at a time. Zero: 2.
	Processes int
	// Engine says how the engine behaves, such as how long a lease is.
	Engine sessiontest.ClusterOptions
}

// Run is the function [Run] with several processes. The Store of cfg must be nil.
func (c Cluster) Run(t *testing.T, cfg agent.Config, s Script, f func(h *Harness)) {
	t.Helper()
	if cfg.Store != nil {
		t.Fatalf("agenttest: the Config has a Store, and a Cluster has one of its own; leave it nil")
	}
	runOutside(t, cfg, s, setup{cluster: &c}, f)
}

// EveryCrash is the function [EveryCrash] with several processes: whichever of them is about to
// write is killed.
func (c Cluster) EveryCrash(t *testing.T, cfg agent.Config, s Script, f func(h *Harness)) {
	t.Helper()
	everyCrash(t, &c, cfg, s, f)
}

// A setup says which processes a bot is run in, and when one is killed.
type setup struct {
	cluster *Cluster    // nil: one at a time
	crash   *crashPoint // nil: none is killed
}

// open makes the store, and returns how many processes there are.
func (h *Harness) open(by setup) (processes int) {
	h.crash = by.crash
	if by.cluster == nil {
		if h.store == nil {
			h.store = session.NewMemory()
		}
		return 1
	}
	h.engine = sessiontest.NewCluster(by.cluster.Engine)
	h.store = h.engine.Open("agenttest")
	return cmp.Or(by.cluster.Processes, 2)
}

// ownStore returns the store of another process.
func (h *Harness) ownStore() *session.Store {
	if h.engine == nil {
		return h.store
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened++
	return h.engine.Open(fmt.Sprintf("process-%d", h.opened))
}

// Runtimes returns the Runtimes of the processes that live, the one first that the methods of the
// Harness use. Without a [Cluster] there is one.
func (h *Harness) Runtimes() []*agent.Runtime {
	h.inUse()
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*agent.Runtime
	for _, proc := range h.processes {
		switch {
		case proc == h.running:
			list = slices.Insert(list, 0, proc.rt)
		case !proc.dead.Load():
			list = append(list, proc.rt)
		}
	}
	return list
}

// Cut cuts the process of a Runtime of a [Cluster] off from the engine, until Heal. Its calls of
// the store wait, and fail after a time. The process acts for its trees until shortly before the
// end of its lease; then the others take them over.
func (h *Harness) Cut(rt *agent.Runtime) { h.t.Helper(); h.setCut(rt, true) }

// Heal ends a Cut. The end of the test heals every process, too.
func (h *Harness) Heal(rt *agent.Runtime) { h.t.Helper(); h.setCut(rt, false) }

func (h *Harness) setCut(rt *agent.Runtime, cut bool) {
	h.t.Helper()
	h.inUse()
	h.mu.Lock()
	i := slices.IndexFunc(h.processes, func(p *process) bool { return p.rt == rt })
	var proc *process
	if i >= 0 {
		proc = h.processes[i]
	}
	h.mu.Unlock()
	switch {
	case h.engine == nil || proc == nil:
		h.t.Fatalf("agenttest: the Runtime is not one of a Cluster of this Harness")
	case cut:
		h.engine.Cut(proc.own)
	case !proc.dead.Load():
		h.engine.Heal(proc.own)
	}
}

// leave has a process that was killed reach the engine no more, and has the oldest of those that
// live take its place, if there is one. It reports whether there is. The caller holds the lock.
func (h *Harness) leave(proc *process) bool {
	if h.engine == nil {
		return false
	}
	h.engine.Cut(proc.own)
	i := slices.IndexFunc(h.processes, func(p *process) bool { return !p.dead.Load() })
	if i < 0 {
		return false
	}
	if h.running == proc {
		h.running = h.processes[i]
		for key := range h.watched {
			h.watch(h.t.Context(), h.running, key)
		}
	}
	return true
}

// healAll ends every Cut.
func (h *Harness) healAll() {
	h.mu.Lock()
	procs := slices.Clone(h.processes)
	h.mu.Unlock()
	for _, proc := range procs {
		if h.engine != nil && !proc.dead.Load() {
			h.engine.Heal(proc.own)
		}
	}
}

// bury has what a process that was killed still waits for at the engine return, at the end of the
// test.
func (h *Harness) bury(proc *process) {
	if h.engine == nil || !proc.dead.Load() {
		return
	}
	if c, ok := proc.own.Owners.(io.Closer); ok {
		_ = c.Close() // it returns nil
	}
}
