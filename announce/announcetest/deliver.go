package announcetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Receiver is what takes deliveries, and a way to see what it did.
type Receiver struct {
	// Deliver is the function under test. It is given deliveries that carry a completion, one call
	// at a time.
	Deliver func(ctx context.Context, d spawn.Delivery) error
	// Acted returns how many deliveries have been acted upon so far. It is called between
	// deliveries.
	Acted func() int
}

// TestDeliver checks a receiver against the promise that it is given, which is at least once under
// a stable key. Each rule runs in a subtest of its own, on a receiver that fresh makes for it.
func TestDeliver(t *testing.T, fresh func(t *testing.T) Receiver) {
	for _, rule := range deliveryRules {
		t.Run(rule.name, func(t *testing.T) {
			if err := rule.check(t.Context(), fresh(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A deliveryRule is one thing that the promise asks of a receiver.
type deliveryRule struct {
	name, why string
	steps     []step
}

func (rule deliveryRule) check(ctx context.Context, r Receiver) error {
	for _, s := range rule.steps {
		if err := r.Deliver(ctx, delivery(s)); err != nil {
			return fmt.Errorf("%s: key %q, attempt %d: %w", rule.why, s.key, s.attempt, err)
		}
		if got := r.Acted(); got != s.acted {
			return fmt.Errorf("%s: after key %q, attempt %d, the receiver has acted %d times, want %d",
				rule.why, s.key, s.attempt, got, s.acted)
		}
	}
	return nil
}

// A step is one delivery to the receiver.
type step struct {
	key     string
	attempt int
	epoch   uint64
	maybe   bool
	acted   int // in all, after this step
}

var deliveryRules = []deliveryRule{
	{"once", "a delivery is acted upon", []step{{"a", 1, 1, false, 1}}},
	{
		"repeat", "the same key is acted upon once, whichever attempt arrives first",
		[]step{{"a", 1, 1, false, 1}, {"a", 2, 1, true, 1}, {"a", 3, 1, true, 1}},
	},
	{
		"restart", "a later owner repeats under the same key",
		[]step{{"a", 1, 1, false, 1}, {"a", 1, 2, true, 1}},
	},
	{
		"may-repeat", "an attempt that may be a repeat, and is not, is acted upon",
		[]step{{"a", 2, 1, true, 1}},
	},
	{
		"others", "other keys are other completions, also of the same child",
		[]step{
			{"a", 1, 1, false, 1}, {"b", 1, 1, false, 2}, {"a", 2, 1, true, 2}, {"c", 1, 1, false, 3},
		},
	},
}

// delivery makes what a step hands over. The deliveries of all steps have the same content, so only
// the key tells them apart.
func delivery(s step) spawn.Delivery {
	requester := session.Must(session.Parse("agent:main:telegram:direct:42"))
	child := session.Must(session.Parse("agent:main:subagent:0b6e4d5c-1f2a-4c3b-8d9e-0a1b2c3d4e5f"))
	return spawn.Delivery{
		Key: s.key, Attempt: s.attempt, Epoch: s.epoch, MayRepeat: s.maybe, To: requester,
		Completion: &spawn.Completion{
			Run: spawn.RunInfo{
				Key: child, Task: "count", Status: spawn.StatusOK, Result: spawn.Result{Text: "42"},
			},
			Nonce:     "n0nce",
			Requester: requester,
		},
	}
}
