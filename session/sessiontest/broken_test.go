package sessiontest

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// wantOnly runs every rule against an implementation that breaks one of them.
func wantOnly[S any](t *testing.T, rules []rule[S], broken string, fresh func() func() (S, error)) {
	t.Helper()
	var failed []string
	for _, r := range rules {
		if err := r.try(t.Context(), fresh()); err != nil {
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

// wantAll checks that each rule has an implementation that breaks it, and that rules are told apart by their names.
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

// dawdle gives other goroutines the time to get in between.
func dawdle() {
	for range 20 {
		runtime.Gosched()
	}
}
