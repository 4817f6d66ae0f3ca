package announcetest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// receiver acts on a delivery unless it has seen what id makes of it. It forgets nothing.
func receiver(id func(spawn.Delivery) any) Receiver { return receiverWith(id, quirks{}) }

// quirks are mistakes of a receiver.
type quirks struct {
	forgets   bool // what it has seen is lost with its process
	first     bool // it remembers a key before it acts
	swallows  bool // it returns nil for a failure
	oneByOne  bool // it drops what comes while it is at work
	olderOnly bool // it drops what comes after a younger key
}

func receiverWith(id func(spawn.Delivery) any, q quirks) Receiver {
	seen, acted, failures := map[any]bool{}, 0, 0
	var mu sync.Mutex
	var newest string
	var r Receiver
	r = Receiver{
		Deliver: func(_ context.Context, d spawn.Delivery) error {
			if q.oneByOne && !mu.TryLock() {
				return nil
			} else if !q.oneByOne {
				mu.Lock()
			}
			defer mu.Unlock()
			if q.oneByOne {
				for range 10_000 {
					runtime.Gosched()
				}
			}
			if seen[id(d)] || q.olderOnly && strings.Contains(d.Key, "-000000000000.") && d.Key < newest {
				return nil
			}
			newest = max(newest, d.Key)
			seen[id(d)] = q.first
			if failures > 0 {
				failures--
				if q.swallows {
					return nil
				}
				return errors.New("no connection")
			}
			seen[id(d)] = true
			acted++
			return nil
		},
		Acted: func() int { return acted },
		Fail:  func() { failures++ },
		Restart: func() Receiver {
			if q.forgets {
				clear(seen)
			}
			return r
		},
	}
	return r
}

func byKey(d spawn.Delivery) any { return d.Key }

func TestDeliverAcceptsAReceiverThatKnowsKeys(t *testing.T) {
	TestDeliver(t, func(*testing.T) Receiver { return receiver(byKey) })
}

func TestDeliverRefusesOtherReceivers(t *testing.T) {
	t.Parallel()
	calls := 0
	refused := errors.New("refused")
	tests := map[string]struct {
		receiver func() Receiver
		fails    []string // the rules that find it out
	}{
		"acts each time": {func() Receiver {
			return receiver(func(spawn.Delivery) any { calls++; return calls })
		}, []string{"repeat", "restart", "others", "late", "failure", "kept"}},
		"by attempt": {func() Receiver {
			return receiver(func(d spawn.Delivery) any { return d.Attempt })
		}, []string{"repeat", "others", "at-once", "failure", "kept"}},
		"by epoch": {func() Receiver {
			return receiver(func(d spawn.Delivery) any { return d.Epoch })
		}, []string{"restart", "others", "late", "at-once", "failure", "kept"}},
		"by content": {func() Receiver {
			return receiver(func(d spawn.Delivery) any {
				return announce.NewEvent(d.Completion).ForModel()
			})
		}, []string{"others", "late", "at-once", "failure", "kept"}},
		"drops maybe": {func() Receiver {
			r := receiver(byKey)
			deliver := r.Deliver
			r.Deliver = func(ctx context.Context, d spawn.Delivery) error {
				if d.MayRepeat {
					return nil
				}
				return deliver(ctx, d)
			}
			return r
		}, []string{"may-repeat", "late", "failure"}},
		"cuts a key to a UUID": {func() Receiver {
			return receiver(func(d spawn.Delivery) any { return d.Key[:36] })
		}, []string{"others", "late", "at-once", "failure", "kept"}},
		"knows the end of a key": {func() Receiver {
			return receiver(func(d spawn.Delivery) any {
				return d.To.String() + d.Key[len(d.Key)-1:]
			})
		}, []string{"others", "late", "failure", "kept"}},
		"forgets": {
			func() Receiver { return receiverWith(byKey, quirks{forgets: true}) }, []string{"kept"},
		},
		"remembers first": {
			func() Receiver { return receiverWith(byKey, quirks{first: true}) },
			[]string{"failure", "failure-kept"},
		},
		"swallows failures": {
			func() Receiver { return receiverWith(byKey, quirks{swallows: true}) },
			[]string{"failure", "failure-kept"},
		},
		"drops what comes at once": {
			func() Receiver { return receiverWith(byKey, quirks{oneByOne: true}) }, []string{"at-once"},
		},
		"takes no older ones": {
			func() Receiver { return receiverWith(byKey, quirks{olderOnly: true}) },
			[]string{"late"},
		},
		"fails": {func() Receiver {
			return Receiver{
				Deliver: func(context.Context, spawn.Delivery) error { return refused },
				Acted:   func() int { return 0 },
			}
		}, []string{"once", "repeat", "restart", "may-repeat", "others", "late", "at-once"}},
	}
	for name, tt := range tests {
		var failed []string
		for _, rule := range deliveryRules {
			r := tt.receiver()
			if rule.lacks(r) == "" && rule.check(t.Context(), r) != nil {
				failed = append(failed, rule.name)
			}
		}
		require.Equal(t, tt.fails, failed, name)
	}
}
