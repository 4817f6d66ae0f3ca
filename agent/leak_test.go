package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// deliveryCallbacks are what a Config holds of the caller's that deliveries and spawns call.
func deliveryCallbacks(deliver bool) func(cfg *agent.Config, call func() error) {
	return func(cfg *agent.Config, call func() error) {
		take := func(context.Context, agent.Delivery) error { return call() }
		if cfg.Reply = take; deliver {
			cfg.Deliver = take
		}
	}
}

// records is a slog.Handler that keeps the records.
type records struct {
	slog.Handler

	mu   sync.Mutex
	list bytes.Buffer
	most int // bytes of the longest
}

func (r *records) Handle(ctx context.Context, rec slog.Record) error {
	var line bytes.Buffer
	h := slog.NewTextHandler(&line, nil)
	_ = h.Handle(ctx, rec)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = max(r.most, line.Len())
	r.list.Write(line.Bytes())
	return nil
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

// A4: whatever a callback fails with, the records of the Logger, the events, the journal and what
// is known of a run are short and have no key.
func TestFailuresOfCallbacksAreMaskedAndBounded(t *testing.T) {
	const inner = "0123456789abcdefghijklmnop"
	huge := leakyError + strings.Repeat(" again", 40_000) + " api_key=sk-ant-" + inner
	all := map[string]func(cfg *agent.Config, call func() error){
		"reply": deliveryCallbacks(false), "deliver": deliveryCallbacks(true),
		"models": func(cfg *agent.Config, call func() error) {
			cfg.Models.Valid = func(string) bool { return call() == nil }
		},
		"sandbox": func(cfg *agent.Config, call func() error) {
			cfg.Rules.Sandbox.Decide = func(string, session.Key) bool { return call() == nil }
		},
	}
	for _, c := range callbacks {
		all[c.name] = c.set
	}
	for how, misbehave := range map[string]func() error{
		"error": func() error { return errors.New(huge) },
		"panic": func() error { panic(huge) },
	} {
		for name, set := range all {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				requireNoLeak(t, func(cfg *agent.Config) { set(cfg, misbehave) }, inner)
			})
		}
	}
}

// requireNoLeak runs a session and a sub-agent with a callback that fails, and looks at all that is
// known afterwards.
func requireNoLeak(t *testing.T, set func(cfg *agent.Config), inner string) {
	t.Helper()
	const most = 45_000 // a record has an error, a panic and a stack at most
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("answer")
	})
	log := &records{Handler: slog.DiscardHandler}
	cfg.Logger = slog.New(log)
	cfg.Store = session.NewMemory()
	store := cfg.Store
	set(&cfg)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		var shown []string
		ctx, cancel := context.WithCancel(h.Context())
		defer cancel()
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for e, err := range h.Main().Events(ctx) {
				if err != nil {
					t.Error(err)
				}
				shown = append(shown, eventText(e))
			}
		}()
		synctest.Wait()
		_, _ = h.Main().Post(h.Context(), agent.Incoming{Text: "hello"})
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Model: "m/x", Announce: true,
		})
		time.Sleep(50 * time.Minute) // a delivery is blocked, and a run not archived yet
		cancel()
		<-watched
		if err == nil {
			info, err := child.Info(h.Context())
			require.NoError(t, err)
			shown = append(shown, fmt.Sprintf("%+v", info))
		}
		blocked, err := h.Runtime().Blocked(h.Context())
		require.NoError(t, err)
		for _, out := range blocked {
			shown = append(shown, fmt.Sprintf("%+v", out))
		}
		for _, text := range shown {
			require.NotContains(t, text, inner)
			require.Less(t, len(text), most)
		}
	})
	require.NotContains(t, log.list.String(), inner)
	require.Less(t, log.most, most)
	size := 0
	for head, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, err)
		for entry, err := range store.Journal.Read(t.Context(), head.Root, 0) {
			require.NoError(t, err)
			data, err := json.Marshal(entry)
			require.NoError(t, err)
			require.NotContains(t, string(data), inner)
			size += len(data)
		}
	}
	require.Less(t, size, 1_000_000)
}

func eventText(e agent.TreeEvent) string {
	data, _ := json.Marshal(e)
	return string(data)
}
