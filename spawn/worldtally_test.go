package spawn_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// tally counts what happens in histories. It is safe for concurrent use.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[fmt.Sprintf(format, args...)]++
}

// wanted is what histories must reach: a rule is not proved by histories that never meet it.
var wanted = []string{
	"cause crashed", "cause runner_failed", "cause stopped", "cause timeout",
	"end cancelled", "end failed", "end interrupted", "end ok", "end timed_out",
	"fact admitted", "fact archive_begun", "fact archived", "fact blocked", "fact bound",
	"fact clock_set_back", "fact deferred", "fact delivered", "fact discarded", "fact halted",
	"fact late", "fact opened", "fact posted", "fact put_away", "fact recovered", "fact reserved",
	"fact reset", "fact restarted", "fact revived", "fact run_ended", "fact said",
	"fact stop_requested", "fact taken", "fact turn_ended", "fact turn_started",
	"fact unarchived", "fact unbound",
	"unbound manual", "unbound session-delete", "unbound subagent-complete",
	"unbound subagent-error", "unbound subagent-killed",
	"at archive_begun: archived", "at archived: not found", "at bound: begins a run",
	"at bound: read", "at discarded: archived", "at discarded: stopping", "at run_ended: archived",
	"at run_ended: begins a run", "at run_ended: ended", "at run_ended: stopping",
	"at stop_requested: begins a run", "at stop_requested: stopping",
	"at unarchived: begins a run", "at unbound: not bound",
	"step said", "step silent", "step failed", "step cancelled", "step interrupted", "step cut",
	"collected", "act spawn", "act hello", "act more", "act steer", "act stop", "act cancel", "act wait",
	"act retry", "act wish", "act bind", "act unbind", "act talk", "act delete", "act revive",
}

// addFacts counts the facts of a log, the causes of ends and the reasons of unbindings.
func (c *tally) addFacts(entries func(func(session.Entry, error) bool)) {
	for e, err := range entries {
		f, factErr := tree.FactOf(e.Payload)
		if err != nil || factErr != nil {
			continue
		}
		c.add("fact %v", f.Kind)
		switch f.Kind {
		case tree.StopRequested:
			c.add("cause %v", f.Cause)
		case tree.RunEnded:
			c.add("end %v", f.State)
		case tree.TurnEnded:
			c.addStep(f)
		case tree.Unbound:
			c.add("unbound %s", f.Text)
		default: // its kind says it all
		}
	}
}

// addStep counts what an announce step has come to.
func (c *tally) addStep(f *tree.Fact) {
	switch {
	case f.Flags&tree.FlagStep == 0:
	case f.Flags&tree.FlagCut != 0:
		c.add("step cut")
	case f.State != tree.OK:
		c.add("step %v", f.State)
	case f.Flags&tree.FlagSilent != 0:
		c.add("step silent")
	default:
		c.add("step said")
	}
}

// check logs the counts and fails for what was wanted and did not happen.
func (c *tally) check(t *testing.T, wanted []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c.n)) {
		fmt.Fprintf(&b, "\n%8d %s", c.n[what], what)
	}
	t.Log(b.String())
	for _, what := range wanted {
		if c.n[what] == 0 {
			t.Errorf("%q did not happen", what)
		}
	}
}
