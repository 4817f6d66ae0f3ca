package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// errOuterContext is what a call gets that is given the context of the test around the bubble.
var errOuterContext = errors.New("agenttest: this context is that of the test outside, or another one " +
	"that was made outside, or derived from it, and virtual time cannot pass while it is waited for: " +
	"use Harness.Context in the function that Run got")

// checkContext fails the test at once for a context of the test around the bubble.
func (h *Harness) checkContext(ctx context.Context) error {
	if h.t == h.outer || !derivesFrom(ctx, h.outer.Context()) && !hasOuterDeadline(ctx) {
		return nil
	}
	h.t.Helper()
	if goroutineID() == h.goroutine {
		h.t.Fatalf("%v", errOuterContext)
	}
	h.t.Errorf("%v", errOuterContext)
	return errOuterContext
}

// checkOuterContext says why the binary will die, while it can be said: the context of the test
// around the bubble will close a channel that the bubble has made.
func (h *Harness) checkOuterContext(before contextState) {
	if stateOf(h.outer.Context()) == before || h.t == h.outer {
		return
	}
	panic(errOuterContext)
}

// stallPause is how often a stallGuard looks, in real time.
const stallPause = 2 * time.Second

// A stallGuard ends the program, with a sentence that says why, when a goroutine of a bubble waits
// for a channel from outside: then virtual time stands still and the test would never end.
type stallGuard struct{ bubble atomic.Pointer[string] }

// enter notes the bubble, from inside.
func (g *stallGuard) enter() {
	buf := make([]byte, 128)
	name := bubbleName(string(buf[:runtime.Stack(buf, false)]))
	g.bubble.Store(&name)
}

// start starts the guard, from outside. The caller calls the function that it returns.
func (g *stallGuard) start(pause time.Duration) (stop func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for seen := ""; ; {
			select {
			case <-ended:
				return
			case <-ticker.C:
			}
			before := seen
			if seen = g.stalled(); seen != "" && seen == before {
				panic(fmt.Errorf("%w\n\n%s", errOuterContext, seen))
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}

// stalled returns the goroutines of the bubble that wait for a channel from outside.
func (g *stallGuard) stalled() string {
	bubble := g.bubble.Load()
	if bubble == nil || *bubble == "" {
		return ""
	}
	buf := make([]byte, 1<<20)
	return stalledIn(string(buf[:runtime.Stack(buf, true)]), *bubble)
}

// stalledIn returns the goroutines of a stack dump that are of a bubble and wait for a channel from
// outside. The runtime says of those that wait for one of their bubble that they wait durably.
func stalledIn(dump, bubble string) string {
	var found []string
	for g := range strings.SplitSeq(dump, "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		_, state, _ := strings.Cut(head, " [")
		waits := strings.HasPrefix(state, "select") || strings.HasPrefix(state, "chan receive")
		if waits && !strings.Contains(state, "durable") && bubbleName(g) == bubble {
			// How long it waits is not compared.
			id, _, _ := strings.Cut(head, " [")
			_, frames, _ := strings.Cut(g, "\n")
			found = append(found, id+":\n"+frames)
		}
	}
	return strings.Join(found, "\n\n")
}

// goroutineID returns what names the goroutine in a stack dump.
func goroutineID() string {
	buf := make([]byte, 64)
	head, _, _ := bytes.Cut(buf[:runtime.Stack(buf, false)], []byte(" ["))
	return string(head)
}

// derivesFrom reports whether ctx is the other context, or one that the functions of package
// context have made of it. Contexts hold the one that they were made of in a field called Context,
// directly or in an embedded struct.
func derivesFrom(ctx, from context.Context) bool {
	want := reflect.ValueOf(from)
	if want.Kind() != reflect.Pointer {
		return false
	}
	for v := reflect.ValueOf(ctx); v.IsValid(); v = parentOf(v) {
		if v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.Kind() == reflect.Pointer && v.Pointer() == want.Pointer() {
			return true
		}
	}
	return false
}

// hasOuterDeadline reports whether ctx, or one that it was made of, has a deadline that was made
// outside of the bubble: times of a bubble have no monotonic clock.
func hasOuterDeadline(ctx context.Context) bool {
	for v := reflect.ValueOf(ctx); v.IsValid(); v = parentOf(v) {
		if !v.CanInterface() {
			return false
		}
		c, ok := reflect.TypeAssert[context.Context](v)
		if !ok {
			return false
		}
		deadline, ok := c.Deadline()
		if !ok {
			return false
		}
		if deadline != deadline.Round(0) { // Equal ignores that clock
			return true
		}
	}
	return false
}

// parentOf returns the context that a context was made of, and the zero Value if it has none.
func parentOf(v reflect.Value) (parent reflect.Value) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	if parent = v.FieldByName("Context"); parent.IsValid() {
		return parent
	}
	return v.FieldByName("c") // of context.WithoutCancel
}

// A contextState says what others have made of a context: the channel of Done, and contexts that
// end with it.
type contextState struct {
	done     bool
	children int
}

// stateOf returns the state of a context of package context, and the zero state of another one.
func stateOf(ctx context.Context) (s contextState) {
	v := reflect.ValueOf(ctx)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return s
	}
	if done := v.FieldByName("done"); done.Kind() == reflect.Struct && done.NumField() == 1 {
		s.done = !done.Field(0).IsNil()
	}
	if children := v.FieldByName("children"); children.Kind() == reflect.Map {
		s.children = children.Len()
	}
	return s
}
