package announcetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// receiver acts on a delivery unless it has seen what id makes of it.
func receiver(id func(spawn.Delivery) any) Receiver {
	seen := map[any]bool{}
	return Receiver{
		Deliver: func(_ context.Context, d spawn.Delivery) error {
			seen[id(d)] = true
			return nil
		},
		Acted: func() int { return len(seen) },
	}
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
		}, []string{"repeat", "restart", "others"}},
		"by attempt": {func() Receiver {
			return receiver(func(d spawn.Delivery) any { return d.Attempt })
		}, []string{"repeat", "others"}},
		"by epoch": {func() Receiver {
			return receiver(func(d spawn.Delivery) any { return d.Epoch })
		}, []string{"restart", "others"}},
		"by content": {func() Receiver {
			return receiver(func(d spawn.Delivery) any {
				return announce.NewEvent(d.Completion).ForModel()
			})
		}, []string{"others"}},
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
		}, []string{"may-repeat"}},
		"fails": {func() Receiver {
			return Receiver{
				Deliver: func(context.Context, spawn.Delivery) error { return refused },
				Acted:   func() int { return 0 },
			}
		}, []string{"once", "repeat", "restart", "may-repeat", "others"}},
	}
	for name, tt := range tests {
		var failed []string
		for _, rule := range deliveryRules {
			if rule.check(t.Context(), tt.receiver()) != nil {
				failed = append(failed, rule.name)
			}
		}
		require.Equal(t, tt.fails, failed, name)
	}
}
