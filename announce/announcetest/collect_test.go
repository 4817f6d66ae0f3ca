package announcetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// collector acts upon what parts makes of a call, once for each key.
func collector(parts func(spawn.Delivery) []spawn.Delivery) Receiver {
	seen, acted, failures := map[string]bool{}, 0, 0
	var mu sync.Mutex
	return Receiver{
		Collects: true,
		Deliver: func(_ context.Context, d spawn.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if failures > 0 {
				failures--
				return errors.New("no connection")
			}
			for _, one := range parts(d) {
				if !seen[one.Key] {
					seen[one.Key] = true
					acted++
				}
			}
			return nil
		},
		Acted: func() int { return acted },
		Fail:  func() { failures++ },
	}
}

func TestDeliverAcceptsAReceiverThatCollects(t *testing.T) {
	TestDeliver(t, func(*testing.T) Receiver { return collector(spawn.Delivery.All) })
}

// The kit finds receivers that do not know what comes in one call.
func TestDeliverRefusesReceiversThatCollectWrongly(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string]func(spawn.Delivery) []spawn.Delivery{
		"the first alone": func(d spawn.Delivery) []spawn.Delivery { return []spawn.Delivery{d} },
		"the last alone":  func(d spawn.Delivery) []spawn.Delivery { return d.All()[len(d.More):] },
		"all under the first key": func(d spawn.Delivery) []spawn.Delivery {
			list := d.All()
			for i := range list {
				list[i].Key = d.Key
			}
			return list
		},
		"the first where it may repeat": func(d spawn.Delivery) []spawn.Delivery {
			if d.MayRepeat {
				return d.All()[:1]
			}
			return d.All()
		},
	} {
		found := false
		for _, rule := range deliveryRules {
			r := collector(parts)
			if rule.lacks(r) == "" && rule.check(t.Context(), r) != nil {
				found = true
				require.Contains(t, rule.name, "collected", name)
			}
		}
		require.True(t, found, name)
	}
}
