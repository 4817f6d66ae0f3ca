package announcetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// collector acts upon what parts makes of a call, once for each key.
func collector(parts func(spawn.Delivery) []spawn.Delivery) Receiver {
	return collectorWith(func(d spawn.Delivery, seen map[string]bool) (keys []string) {
		for _, one := range parts(d) {
			if !seen[one.Key] {
				seen[one.Key] = true
				keys = append(keys, one.Key)
			}
		}
		return keys
	})
}

// collectorWith acts upon the keys that act makes of a call. act knows which keys were there.
func collectorWith(act func(d spawn.Delivery, seen map[string]bool) []string) Receiver {
	var acted []string
	seen, failures := map[string]bool{}, 0
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
			acted = append(acted, act(d, seen)...)
			return nil
		},
		Acted: func() int { return len(acted) },
		Keys:  func() []string { return acted },
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
		requireRefused(t, name, func() Receiver { return collector(parts) })
	}
}

// requireRefused fails unless a rule about collected deliveries, and no other one, refuses a
// receiver.
func requireRefused(t *testing.T, name string, fresh func() Receiver) {
	t.Helper()
	found := false
	for _, rule := range deliveryRules {
		r := fresh()
		if rule.lacks(r) == "" && rule.check(t.Context(), r) != nil {
			found = true
			require.Contains(t, rule.name, "collected", name)
		}
	}
	require.True(t, found, name)
}

// The kit finds receivers that act upon one delivery of a call twice, also where they act as often
// as they should.
func TestDeliverRefusesReceiversThatDoubleWithinACall(t *testing.T) {
	t.Parallel()
	fresh := func(d spawn.Delivery, seen map[string]bool) (list []spawn.Delivery) {
		for _, one := range d.All() {
			if !seen[one.Key] {
				list = append(list, one)
			}
		}
		for _, one := range list {
			seen[one.Key] = true
		}
		return list
	}
	for name, act := range map[string]func(spawn.Delivery, map[string]bool) []string{
		"the first of several for each of them": func(
			d spawn.Delivery, seen map[string]bool,
		) (keys []string) {
			for _, one := range d.All() {
				if !seen[one.Key] {
					seen[one.Key] = true
					keys = append(keys, d.All()[min(1, len(d.More))].Key)
				}
			}
			return keys
		},
		"the last one twice": func(d spawn.Delivery, seen map[string]bool) (keys []string) {
			list := fresh(d, seen)
			for _, one := range list {
				keys = append(keys, one.Key)
			}
			if len(list) > 1 {
				keys = append(keys, keys[len(keys)-1])
			}
			return keys
		},
		"the last one in the place of the first": func(
			d spawn.Delivery, seen map[string]bool,
		) (keys []string) {
			for i, one := range d.All() {
				if seen[one.Key] {
					continue
				}
				if seen[one.Key] = true; i == 0 {
					one = d.All()[len(d.More)]
				}
				keys = append(keys, one.Key)
			}
			return keys
		},
	} {
		requireRefused(t, name, func() Receiver { return collectorWith(act) })
	}
}

// A receiver without what every rule needs is refused with the name of the field.
func TestReceiverThatLacksAField(t *testing.T) {
	t.Parallel()
	whole := collector(spawn.Delivery.All)
	require.NoError(t, whole.Validate())
	whole.Restart = func() Receiver { return Receiver{Acted: whole.Acted} }
	restarted := 0
	for _, rule := range deliveryRules {
		for field, r := range map[string]Receiver{
			"Deliver": {Acted: whole.Acted}, "Acted": {Deliver: whole.Deliver},
		} {
			err := rule.check(t.Context(), r)
			require.EqualError(t, err, "announcetest: Receiver."+field+" is nil", rule.name)
		}
		if rule.lacks(whole) == "" && slices.ContainsFunc(rule.steps, func(s step) bool {
			return s.restart
		}) {
			err := rule.check(t.Context(), whole)
			require.ErrorContains(t, err, "announcetest: Receiver.Deliver is nil: it is one that Restart")
			restarted++
			whole = collector(spawn.Delivery.All)
			whole.Restart = func() Receiver { return Receiver{Acted: whole.Acted} }
		}
	}
	require.Positive(t, restarted)
}
