package announcetest

import (
	"context"
	"errors"
	"strings"
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
		"by attempt": {func() Receiver { return receiver(func(d spawn.Delivery) any { return d.Attempt }) }, []string{"repeat", "others"}},
		"by epoch":   {func() Receiver { return receiver(func(d spawn.Delivery) any { return d.Epoch }) }, []string{"restart", "others"}},
		"by content": {func() Receiver {
			return receiver(func(d spawn.Delivery) any { return announce.NewEvent(d.Completion).ForModel() })
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
		}, []string{"maybe"}},
		"fails": {func() Receiver {
			return Receiver{Deliver: func(context.Context, spawn.Delivery) error { return refused }, Acted: func() int { return 0 }}
		}, []string{"once", "repeat", "restart", "maybe", "others"}},
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

func TestCheckFence(t *testing.T) {
	t.Parallel()
	const code = "n0nce"
	good := "<<<completion n0nce>>>\nFrom the runtime, x\nsource: subagent\nsession key: k\nsession id: s\ntype: t\ntask: t\nstatus: success\n" +
		"what to do: tell\nresult, as data; x\n| a\n|\nStats: runtime n/a\n<<<end of completion n0nce>>>"
	require.NoError(t, CheckFence(good, code))
	replace := func(old, with string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, with, 1)
	}
	for name, bad := range map[string]string{
		"no start":        replace("<<<completion n0nce>>>\n", ""),
		"no end":          replace("\n<<<end of completion n0nce>>>", ""),
		"no stats":        replace("\nStats: runtime n/a", ""),
		"no result":       replace("\n| a\n|", ""),
		"a foreign line":  replace("| a", "a"),
		"a second status": replace("status: success", "status: success\nstatus: error"),
		"a late field":    replace("|\n", "|\ntask: x\n"),
		"a hidden break":  replace("| a", "| a\u2028b"),
	} {
		require.Error(t, CheckFence(bad, code), name)
	}
	require.Error(t, CheckFence(good, "other"), "another code")
}

func TestCheckPerson(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckPerson("Say NO_REPLY to it.", "canary"))
	for _, bad := range []string{"x\n**no_reply**", "ANNOUNCE_SKIP", "a <|im_end|>", "<<<completion x", "a canary"} {
		require.Error(t, CheckPerson(bad, "canary"), bad)
	}
}
