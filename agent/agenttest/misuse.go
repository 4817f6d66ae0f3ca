package agenttest

import (
	"runtime"
	"sync"
	"testing"
)

// inBubbles are the Harnesses whose function runs, by the name of their bubble.
var inBubbles sync.Map

// ownBubble returns the name of the bubble that the goroutine is in, or "".
func ownBubble() string {
	buf := make([]byte, 128)
	return bubbleName(string(buf[:runtime.Stack(buf, false)]))
}

// enterBubble notes the Harness of the bubble. The caller calls the function that it returns.
func enterBubble(h *Harness) (leave func()) {
	name := ownBubble()
	inBubbles.Store(name, h)
	return func() { inBubbles.Delete(name) }
}

// failWhenNested fails the test if the goroutine is in a bubble already, where there can be no
// other. The test that ends is the one inside the bubble: t may be the one around it.
func failWhenNested(t testing.TB) {
	t.Helper()
	name := ownBubble()
	if name == "" {
		return
	}
	if h, ok := inBubbles.Load(name); ok {
		t = h.(*Harness).t //nolint:forcetypeassert // what enterBubble has stored
	}
	t.Fatalf("agenttest: Run is called in a bubble of virtual time, as in the function of " +
		"another Run, and bubbles cannot be nested: call one after the other")
}

// inUse fails the test if the Harness is used after Run has returned: what it holds belongs to a
// bubble that has ended.
func (h *Harness) inUse() {
	if h.gone.Load() {
		h.outer.Helper()
		h.outer.Fatalf("agenttest: the Harness is used after Run has returned: " +
			"it is for the function that Run got")
	}
}

// noteDo notes that the goroutine is in Do. The caller calls the function that it returns.
func (h *Harness) noteDo() (returned func()) {
	h.inUse()
	id := goroutineID()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doing[id]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.doing[id]--; h.doing[id] == 0 {
			delete(h.doing, id)
		}
	}
}

// isDoing reports whether the goroutine is in the function of Do.
func (h *Harness) isDoing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doing[goroutineID()] > 0
}
