package sessiontest

import (
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// wantOnly runs every rule against an implementation that breaks one of them.
func wantOnly[S any](t *testing.T, rules []rule[S], broken string, fresh func() func() (S, error)) {
	t.Helper()
	var failed []string
	for _, r := range rules {
		if err := r.try(t.Context(), fresh(), hangAfter); err != nil {
			failed = append(failed, r.name)
			t.Logf("%s: %v", r.name, err)
		}
	}
	if broken == "" {
		assert.Empty(t, failed)
		return
	}
	assert.Equal(t, []string{broken}, failed)
}

// breakEach runs the rules of a kit against an implementation that is right and against one for
// each rule that breaks it. The spoiler of a rule changes a handle; wrap then gives the handle the
// form that the rule sees. Under the race detector one rule of four is broken, and others each
// time.
func breakEach[S, H any](
	t *testing.T, rules []rule[S], spoilers map[string]func(H),
	fresh func() handleMaker[H], wrap func(rule string, h H) S,
) {
	t.Helper()
	wantAll(t, rules, spoilers)
	broken := func(rule string) func() func() (S, error) {
		return func() func() (S, error) {
			open, opened := fresh(), 0
			return func() (S, error) {
				h := open(opened)
				opened++
				if spoil := spoilers[rule]; spoil != nil {
					spoil(h)
				}
				return wrap(rule, h), nil
			}
		}
	}
	t.Run("nothing", func(t *testing.T) { wantOnly(t, rules, "", broken("")) })
	for rule := range spoilers {
		if underRace > 1 && rand.IntN(4) > 0 {
			continue
		}
		t.Run(rule, func(t *testing.T) { t.Parallel(); wantOnly(t, rules, rule, broken(rule)) })
	}
}

// A handleMaker returns a handle on one store; nth says how many were made before it.
type handleMaker[H any] = func(nth int) H

// changeSeq yields what f makes of all that seq yields up to its error, and then that error.
func changeSeq[E any](seq iter.Seq2[E, error], f func([]E) []E) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var all []E
		var failure error
		for e, err := range seq {
			if failure = err; err != nil {
				break
			}
			all = append(all, e)
		}
		for _, e := range f(all) {
			if !yield(e, nil) {
				return
			}
		}
		if failure != nil {
			var none E
			yield(none, failure)
		}
	}
}

// A busyGate counts what is under way, by key.
type busyGate[K comparable] struct {
	mu   sync.Mutex
	busy map[K]int
}

// enter lets a call pass, after a while, and reports whether calls with other keys are under way.
// The caller leaves by calling leave.
func (g *busyGate[K]) enter(key K) (others bool, leave func()) {
	g.mu.Lock()
	if g.busy == nil {
		g.busy = make(map[K]int)
	}
	g.busy[key]++
	others = len(g.busy) > 1
	g.mu.Unlock()
	yieldToOthers()
	return others, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.busy[key]--; g.busy[key] == 0 {
			delete(g.busy, key)
		}
	}
}

// ignoreStop yields all of seq, whether or not the consumer wants more.
func ignoreStop[E any](seq iter.Seq2[E, error]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		seq(func(e E, err error) bool {
			yield(e, err)
			return true
		})
	}
}

// wantAll checks that each rule has an implementation that breaks it, and that rules are told apart
// by their names.
func wantAll[S, B any](t *testing.T, rules []rule[S], broken map[string]B) {
	t.Helper()
	names := make(map[string]bool)
	for _, r := range rules {
		assert.Contains(t, broken, r.name, "nothing breaks the rule")
		assert.False(t, names[r.name], "two rules are called %q", r.name)
		names[r.name] = true
	}
	assert.Len(t, broken, len(rules))
}

// yieldToOthers gives other goroutines the time to get in between.
func yieldToOthers() {
	for range 20 {
		runtime.Gosched()
	}
}
