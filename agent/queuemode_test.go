package agent_test

import (
	"context"
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

// A callerLoop is a loop of a caller's own that runs sessions: it has a turn at most under way, of
// a minute, and does with a delivery what docs/delivery.md says of its mode.
type callerLoop struct {
	ready func()

	mu    sync.Mutex
	until time.Time // the end of the turn under way
	turns []string  // what each has read, with commas; "+" before what was put into it
	keys  []string
}

// deliver is Config.Deliver.
func (l *callerLoop) deliver(_ context.Context, d agent.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tasks []string
	for _, one := range d.All() {
		tasks = append(tasks, one.Completion.Run.Task)
	}
	busy := time.Now().Before(l.until)
	switch {
	case busy && d.Mode == agent.QueueSteer:
		l.turns[len(l.turns)-1] += "+" + strings.Join(tasks, ",")
	case busy && d.Mode != agent.QueueInterrupt:
		return agent.ErrBusy
	default:
		l.turns = append(l.turns, strings.Join(tasks, ","))
		l.until = time.Now().Add(time.Minute)
		time.AfterFunc(time.Minute, func() { l.ready() })
	}
	for _, one := range d.All() {
		l.keys = append(l.keys, one.Key)
	}
	return nil
}

// Config.Queue says for each session how it is told of what ends during its turn.
func TestQueueModes(t *testing.T) {
	other := session.Must(session.DirectKey("main", "irc", "ann"))
	for name, tt := range map[string]struct {
		queue func(of session.Key) agent.QueueMode
		want  []string
	}{
		"none":      {nil, []string{"a", "b", "c", "d"}},
		"followup":  {alwaysQueue(agent.QueueFollowup), []string{"a", "b", "c", "d"}},
		"collect":   {alwaysQueue(agent.QueueCollect), []string{"a", "b,c,d"}},
		"steer":     {alwaysQueue(agent.QueueSteer), []string{"a+b+c+d"}},
		"interrupt": {alwaysQueue(agent.QueueInterrupt), []string{"a", "b", "c", "d"}},
		"of another session": {func(of session.Key) agent.QueueMode {
			if of == other {
				return agent.QueueCollect
			}
			return agent.QueueFollowup
		}, []string{"a", "b", "c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &callerLoop{}
			cfg := configAnswering(asText)
			cfg.Deliver, cfg.Queue = l.deliver, tt.queue
			agenttest.Run(t, cfg, nil, func(h *harness) {
				ctx, main := h.Context(), h.Main()
				l.ready = func() { _ = main.Ready(ctx) }
				began := time.Now()
				for _, task := range []string{"a", "b", "c", "d"} {
					_, err := main.Spawn(ctx, agent.Task{Text: task, Announce: true})
					require.NoError(t, err)
					synctest.Wait()
				}
				if name == "interrupt" {
					require.Equal(t, began, time.Now(), "no turn was waited for")
					l.mu.Lock()
					require.Equal(t, tt.want, l.turns)
					l.mu.Unlock()
				}
				h.Pass(10 * time.Minute)
				l.mu.Lock()
				defer l.mu.Unlock()
				require.Equal(t, tt.want, l.turns)
				require.Len(t, l.keys, 4)
				keys := make(map[string]bool)
				for _, key := range l.keys {
					keys[key] = true
				}
				require.Len(t, keys, 4, "each has its own key")
			})
		})
	}
}

func alwaysQueue(mode agent.QueueMode) func(session.Key) agent.QueueMode {
	return func(session.Key) agent.QueueMode { return mode }
}
