package announcetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Receiver is what takes deliveries, and a way to see what it did.
type Receiver struct {
	// Deliver is the function under test. It is given deliveries that carry a completion: those of
	// one requester one call at a time, and in one rule those of several requesters at once, as
	// the library does it.
	Deliver func(ctx context.Context, d spawn.Delivery) error
	// Acted returns how often the receiver has acted so far, in earlier processes too: an act that
	// is repeated counts twice. It is called between deliveries.
	Acted func() int
	// Keys returns the key of the delivery of each act so far, in earlier processes too, in any
	// order. It is called between deliveries. A count does not tell a receiver that acts upon one
	// of several deliveries twice, and never upon another. Nil: that is not tested.
	Keys func() []string
	// Fail has the next act come to nothing, such as a message that cannot be sent. Deliver is to
	// return an error then. Nil: that is not tested.
	Fail func()
	// Collects says that Deliver is for a Config.Queue which collects: it acts upon each of
	// [spawn.Delivery].All whose key is new. Without it that is not tested.
	Collects bool
	// Restart returns the receiver of the next process, after that of this one was killed. It has
	// what this one keeps over its end, and nothing else. Nil: restarts are not tested.
	Restart func() Receiver
}

// Validate returns an error that names the field without which a receiver cannot be tested, or nil.
func (r Receiver) Validate() error {
	switch {
	case r.Deliver == nil:
		return errors.New("announcetest: Receiver.Deliver is nil")
	case r.Acted == nil:
		return errors.New("announcetest: Receiver.Acted is nil")
	}
	return nil
}

// TestDeliver checks a receiver against the promise that it is given, which is at least once under
// a stable key. Each rule runs in a subtest of its own, on a receiver that fresh makes for it. The
// rules that need Fail or Restart are skipped for a receiver without it.
func TestDeliver(t *testing.T, fresh func(t *testing.T) Receiver) {
	for _, rule := range deliveryRules {
		t.Run(rule.name, func(t *testing.T) {
			r := fresh(t)
			if lacks := rule.lacks(r); lacks != "" && r.Validate() == nil {
				t.Skip("announcetest: Receiver." + lacks + " is not set")
			}
			if err := rule.check(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A deliveryRule is one thing that the promise asks of a receiver.
type deliveryRule struct {
	name, why string
	steps     []step
	atOnce    bool // deliveries to several requesters at once, in the place of steps
}

// lacks returns the field that the rule needs and a receiver has not, or "".
func (rule deliveryRule) lacks(r Receiver) string {
	for _, s := range rule.steps {
		switch {
		case s.fails && r.Fail == nil:
			return "Fail"
		case s.restart && r.Restart == nil:
			return "Restart"
		case s.more != "" && !r.Collects:
			return "Collects"
		}
	}
	return ""
}

func (rule deliveryRule) check(ctx context.Context, r Receiver) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if rule.atOnce {
		return rule.checkAtOnce(ctx, r)
	}
	given := map[string]bool{}
	for _, s := range rule.steps {
		if s.restart {
			r = r.Restart()
			if err := r.Validate(); err != nil {
				return fmt.Errorf("%w: it is one that Restart has returned", err)
			}
		}
		if s.fails {
			r.Fail()
		}
		err := r.Deliver(ctx, handedOver(s))
		switch {
		case s.fails && err == nil:
			return fmt.Errorf("%s: key %q, attempt %d: Deliver returned nil", rule.why, s.key, s.attempt)
		case !s.fails && err != nil:
			return fmt.Errorf("%s: key %q, attempt %d: %w", rule.why, s.key, s.attempt, err)
		}
		if got := r.Acted(); got != s.acted {
			return fmt.Errorf("%s: after key %q, attempt %d, the receiver has acted %d times, want %d",
				rule.why, s.key, s.attempt, got, s.acted)
		}
		if s.fails || r.Keys == nil {
			continue
		}
		for _, d := range handedOver(s).All() {
			given[d.Key] = true
		}
		if err := sameKeys(r.Keys(), given); err != nil {
			return fmt.Errorf("%s: after key %q, attempt %d, the receiver has acted %w",
				rule.why, s.key, s.attempt, err)
		}
	}
	return nil
}

// sameKeys returns an error unless each of the keys that were given was acted upon once, and no
// other one.
func sameKeys(acted []string, given map[string]bool) error {
	times := map[string]int{}
	for _, key := range acted {
		times[key]++
	}
	for key := range given {
		if times[key] != 1 {
			return fmt.Errorf("%d times upon key %q, want once", times[key], key)
		}
	}
	for key := range times {
		if !given[key] {
			return fmt.Errorf("upon key %q, which it was not given", key)
		}
	}
	return nil
}

// checkAtOnce delivers to 16 requesters at once, 4 deliveries to each, one after the other. What
// the receiver answers with [spawn.ErrBusy] it gets again when the others are done.
func (rule deliveryRule) checkAtOnce(ctx context.Context, r Receiver) error {
	const requesters, each = 16, 4
	failed := make([]error, requesters)
	busy := make([][]step, requesters)
	var wg sync.WaitGroup
	for n := range requesters {
		wg.Go(func() {
			for i := range each {
				s := step{key: fmt.Sprintf("%d-%d", n, i), attempt: 1, epoch: 1, peer: 100 + n}
				switch err := r.Deliver(ctx, handedOver(s)); {
				case errors.Is(err, spawn.ErrBusy):
					busy[n] = append(busy[n], s)
				case err != nil:
					failed[n] = err
				}
			}
		})
	}
	wg.Wait()
	for n, waiting := range busy {
		for _, s := range waiting {
			if err := r.Deliver(ctx, handedOver(s)); err != nil {
				failed[n] = err
			}
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("%s: %w", rule.why, err)
	}
	if got := r.Acted(); got != requesters*each {
		return fmt.Errorf("%s: the receiver has acted %d times, want %d",
			rule.why, got, requesters*each)
	}
	return nil
}

// A step is one delivery to the receiver.
type step struct {
	key     string
	more    string // the keys of those in the same call, a letter each
	attempt int
	epoch   uint64
	maybe   bool
	acted   int // in all, after this step
	fails   bool
	restart bool // before this step
	peer    int  // of the requester; 0: 42
}

var deliveryRules = []deliveryRule{
	{name: "once", why: "a delivery is acted upon", steps: []step{
		{key: "a", attempt: 1, epoch: 1, acted: 1},
	}},
	{name: "repeat", why: "the same key is acted upon once, whichever attempt arrives first", steps: []step{
		{key: "a", attempt: 1, epoch: 1, acted: 1},
		{key: "a", attempt: 2, epoch: 1, maybe: true, acted: 1},
		{key: "a", attempt: 3, epoch: 1, maybe: true, acted: 1},
	}},
	{name: "restart", why: "a later owner repeats under the same key", steps: []step{
		{key: "a", attempt: 1, epoch: 1, acted: 1},
		{key: "a", attempt: 1, epoch: 2, maybe: true, acted: 1},
	}},
	{name: "may-repeat", why: "an attempt that may be a repeat, and is not, is acted upon", steps: []step{
		{key: "a", attempt: 2, epoch: 1, maybe: true, acted: 1},
	}},
	{name: "others", why: "other keys are other completions, also of the same child", steps: []step{
		{key: "a", attempt: 1, epoch: 1, acted: 1},
		{key: "b", attempt: 1, epoch: 1, acted: 2},
		{key: "a", attempt: 2, epoch: 1, maybe: true, acted: 2},
		{key: "c", attempt: 1, epoch: 1, acted: 3},
	}},
	{name: "late", why: "one that was blocked comes after younger ones, and from an older time", steps: []step{
		{key: "b", attempt: 1, epoch: 2, acted: 1},
		{key: "a", attempt: 9, epoch: 2, maybe: true, acted: 2},
		{key: "b", attempt: 1, epoch: 3, maybe: true, acted: 2},
	}},
	{name: "at-once", why: "several requesters are told at once", atOnce: true},
	{name: "failure", why: "what could not be done is an error, and is done when it comes again", steps: []step{
		{key: "a", attempt: 1, epoch: 1, fails: true},
		{key: "a", attempt: 2, epoch: 1, maybe: true, acted: 1},
		{key: "a", attempt: 3, epoch: 1, maybe: true, acted: 1},
		{key: "b", attempt: 1, epoch: 1, fails: true, acted: 1},
		{key: "b", attempt: 2, epoch: 1, maybe: true, acted: 2},
	}},
	{name: "kept", why: "what was acted upon is known to the next process", steps: []step{
		{key: "a", attempt: 1, epoch: 1, acted: 1},
		{key: "a", attempt: 1, epoch: 2, maybe: true, acted: 1, restart: true},
		{key: "b", attempt: 1, epoch: 2, acted: 2},
		{key: "b", attempt: 1, epoch: 3, maybe: true, acted: 2, restart: true},
		{key: "a", attempt: 1, epoch: 3, maybe: true, acted: 2},
		{key: "c", attempt: 1, epoch: 3, acted: 3},
	}},
	{name: "collected", why: "of several in one call each is acted upon once, by its own key", steps: []step{
		{key: "a", attempt: 1, epoch: 1, acted: 1},
		{key: "b", more: "cd", attempt: 1, epoch: 1, acted: 4},
		{key: "b", more: "cd", attempt: 2, epoch: 1, maybe: true, acted: 4},
		{key: "a", more: "e", attempt: 1, epoch: 2, maybe: true, acted: 5},
		{key: "f", more: "e", attempt: 1, epoch: 2, maybe: true, acted: 6},
		{key: "e", attempt: 1, epoch: 2, maybe: true, acted: 6},
	}},
	{name: "collected-failure", why: "of several in one call that failed each is acted upon later", steps: []step{
		{key: "a", more: "b", attempt: 1, epoch: 1, fails: true},
		{key: "a", attempt: 2, epoch: 1, maybe: true, acted: 1},
		{key: "b", more: "c", attempt: 2, epoch: 1, maybe: true, acted: 3},
	}},
	{name: "failure-kept", why: "what could not be done is done in the next process", steps: []step{
		{key: "a", attempt: 1, epoch: 1, fails: true},
		{key: "a", attempt: 2, epoch: 2, maybe: true, acted: 1, restart: true},
	}},
}

// handedOver is the delivery of a step, under keys of the form that keys have.
func handedOver(s step) spawn.Delivery {
	d := delivery(s)
	d.Key = keyOf(d.Key, s.peer)
	for i := range d.More {
		d.More[i].Key = keyOf(d.More[i].Key, s.peer)
	}
	return d
}

// keyOf returns the key for the name of one: the id of a tree, which is that of the peer, and the
// number of a delivery. So those of one tree differ only behind the last dot, where one is the
// beginning of another, and two end alike.
func keyOf(name string, peer int) string {
	numbers := map[string]int{"a": 1, "b": 11, "c": 111, "d": 2, "e": 21, "f": 211}
	number, ok := numbers[name]
	if !ok {
		_, i, _ := strings.Cut(name, "-")
		number, _ = strconv.Atoi(i)
		number++
	}
	return fmt.Sprintf("3b44b4f0-1078-4652-884e-%012x.%d", peer, number)
}

// delivery makes what a step hands over. The deliveries of all steps have the same content, so only
// the key tells them apart.
func delivery(s step) spawn.Delivery {
	peer := 42
	if s.peer > 0 {
		peer = s.peer
	}
	var more []spawn.Delivery
	for key := range strings.SplitSeq(s.more, "") {
		next := s
		next.key, next.more = key, ""
		more = append(more, delivery(next))
	}
	requester := session.Must(session.DirectKey("main", "telegram", strconv.Itoa(peer)))
	child := session.Must(session.Parse("agent:main:subagent:0b6e4d5c-1f2a-4c3b-8d9e-0a1b2c3d4e5f"))
	return spawn.Delivery{
		Key: s.key, Attempt: s.attempt, Epoch: s.epoch, MayRepeat: s.maybe, To: requester,
		More: more,
		Completion: &spawn.Completion{
			Run: spawn.RunInfo{
				Key: child, Task: "count", Status: spawn.StatusOK, Result: spawn.Result{Text: "42"},
			},
			Nonce:     "n0nce",
			Requester: requester,
		},
	}
}
