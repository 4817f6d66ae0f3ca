package agenttest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// maxRequests is how many requests are kept for each name.
const maxRequests = 100

// Requests returns what the model was given under a name of the script, oldest first, the newest
// 100, when everything that can happen now has happened. Without a script the Runner of the Config
// takes the place of the model, and each request is what a turn began with.
func (h *Harness) Requests(name string) []agent.ModelRequest {
	h.inUse()
	h.wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests[name])
}

// lastRequest returns the newest request under a name. It fails the test if there is none.
func (h *Harness) lastRequest(name string) agent.ModelRequest {
	h.t.Helper()
	all := h.Requests(name)
	if len(all) == 0 {
		h.t.Fatalf("agenttest: the model has not been called as %q", name)
	}
	return all[len(all)-1]
}

// Prompted fails unless the newest prompt under a name of the script has each of the texts.
func (h *Harness) Prompted(name string, want ...string) {
	h.t.Helper()
	prompt := h.lastRequest(name).Prompt.String()
	for _, part := range want {
		if !strings.Contains(prompt, part) {
			h.t.Fatalf("agenttest: the prompt of %q lacks %q; it is\n%s", name, part, prompt)
		}
	}
}

// NotPrompted fails if the newest prompt under a name of the script has one of the texts.
func (h *Harness) NotPrompted(name string, unwanted ...string) {
	h.t.Helper()
	prompt := h.lastRequest(name).Prompt.String()
	for _, part := range unwanted {
		if strings.Contains(prompt, part) {
			h.t.Fatalf("agenttest: the prompt of %q has %q; it is\n%s", name, part, prompt)
		}
	}
}

// Offered fails unless the newest request under a name of the script had exactly these tools, in
// this order.
func (h *Harness) Offered(name string, want ...string) {
	h.t.Helper()
	var got []string
	for _, tool := range h.lastRequest(name).Tools {
		got = append(got, tool.Name)
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("agenttest: offered to %q\n     %q\nwant %q", name, got, want)
	}
}

// Told fails unless what was new in the newest request under a name of the script, since the model
// spoke last, is as many messages as there are texts, and each has its text in it, in this order.
func (h *Harness) Told(name string, want ...string) {
	h.t.Helper()
	var got []string
	for _, m := range fresh(h.lastRequest(name).Messages) {
		got = append(got, m.Text)
	}
	if !slices.EqualFunc(got, want, strings.Contains) {
		h.t.Fatalf("agenttest: told to %q\n     %q\nwant %q", name, got, want)
	}
}

// noteRequest remembers what a model is given.
func (h *Harness) noteRequest(proc *process, name string, req *agent.ModelRequest) error {
	kept := *req
	kept.Messages, kept.Tools = slices.Clone(req.Messages), slices.Clone(req.Tools)
	return h.note(proc, func() {
		all := append(h.requests[name], kept)
		h.requests[name] = all[max(0, len(all)-maxRequests):]
	})
}

// Now is the clock of the prompts if the Config has none: virtual time, which begins with the year
// 2000, unless SetNow has set it.
func (h *Harness) Now() time.Time {
	h.inUse()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clockSet.IsZero() {
		return time.Now()
	}
	return h.clock.Add(time.Since(h.clockSet))
}

// SetNow sets the clock of the prompts, which goes on with virtual time from there. It fails the
// test if the Config has a clock of its own. What time.Now returns stays.
func (h *Harness) SetNow(now time.Time) {
	h.t.Helper()
	h.inUse()
	if h.cfg.Now != nil {
		h.t.Fatalf("agenttest: SetNow sets the clock of the Harness, and the Config has a Now of its own")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock, h.clockSet = now, time.Now()
}

// Files returns the files that the store has for transcripts, archived ones too. A transcript
// without files is not in the map.
func (h *Harness) Files() map[session.Ref][]session.File {
	h.t.Helper()
	h.inUse()
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[session.Ref][]session.File)
	for ref := range h.filed {
		for f, err := range h.store.Files.List(h.t.Context(), ref) {
			if err != nil {
				h.t.Fatalf("agenttest: the files of %s: %v", ref.Key, err)
			}
			all[ref] = append(all[ref], f)
		}
	}
	return all
}

// Watch collects the events of the tree of a top-level session from here on: those that
// [agent.Session.Events] yields, without the state of the tree. After a crash they go on behind the
// last one that was collected, so that what a killed process had written is told by the next one.
// Events returns them.
func (h *Harness) Watch(key session.Key) {
	h.t.Helper()
	h.inUse()
	h.mu.Lock()
	if _, ok := h.watched[key]; !ok {
		h.watched[key] = agent.Cursor{}
		h.watch(h.Context(), h.running, key)
	}
	h.mu.Unlock()
	h.wait() // until the state of the tree has come, behind which its events begin
}

// watch collects the events of a tree as one process sees them, behind those that were collected
// of earlier ones. The lock is held.
func (h *Harness) watch(ctx context.Context, proc *process, key session.Key) {
	q := agent.EventQuery{Root: key, Deltas: agent.DeltasShown}
	if after := h.watched[key]; !after.IsZero() {
		q.After = []agent.Cursor{after}
	}
	events := proc.rt.Events(ctx, q)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			if h.note(proc, func() { h.noteEvent(key, e) }) != nil {
				return
			}
		}
	}()
}

// noteEvent remembers an event, and where the events behind it begin. The lock is held.
func (h *Harness) noteEvent(key session.Key, e agent.TreeEvent) {
	if !e.Cursor.IsZero() {
		h.watched[key] = e.Cursor
	}
	if e.Kind != agent.EventSnapshot {
		h.events = append(h.events, e)
	}
}

// Events returns the events of the trees that are watched, oldest first, when everything that can
// happen now has happened.
func (h *Harness) Events() []agent.TreeEvent {
	h.inUse()
	h.wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Happened fails unless the trees that are watched had events of these kinds, in this order. Others
// may be between them.
func (h *Harness) Happened(want ...agent.EventKind) {
	h.t.Helper()
	var got []agent.EventKind
	left := want
	for _, e := range h.Events() {
		got = append(got, e.Kind)
		if len(left) > 0 && e.Kind == left[0] {
			left = left[1:]
		}
	}
	if len(left) > 0 {
		h.t.Fatalf("agenttest: %v has not happened after what comes before it; happened\n     %v\nwant %v",
			left[0], got, want)
	}
}
