package agent_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

const ignoresItsTime = "hangs and ignores that its time is up"

// failingAttempts are what a Deliver or a Reply may do instead of taking what it is given.
var failingAttempts = map[string]func(context.Context) error{
	"refused": refuseDelivery,
	"busy":    busyReceiver,
	"panics":  panicInDelivery,
	"exits": func(context.Context) error {
		runtime.Goexit()
		return nil
	},
	"hangs": func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	},
	ignoresItsTime: func(context.Context) error {
		time.Sleep(5 * time.Minute)
		return nil
	},
}

// D1, D2, R7: whatever Reply does with an answer, people read the answers in the order in which
// they were given. An answer to another chat does not wait.
func TestRepliesArriveInOrder(t *testing.T) {
	for name, fail := range failingAttempts {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			cfg := agent.Config{Reply: func(ctx context.Context, d agent.Delivery) error {
				if d.Reply.Text != "1" {
					return nil
				}
				if attempts++; attempts < 3 {
					return fail(ctx)
				}
				return nil
			}}
			chat := session.Must(session.DirectKey("main", "telegram", "4711"))
			agenttest.Run(t, cfg, script{"main": {echo()}}, func(h *harness) {
				for _, text := range []string{"1", "2", "3"} {
					h.PostTo(chat, text)
					synctest.Wait()
				}
				h.Post("meanwhile")
				synctest.Wait()
				if name != ignoresItsTime { // else the dead process would take the reply as well
					h.Crash()
				}
				time.Sleep(time.Hour)
				var got []string
				for _, d := range h.Replies() {
					if d.To == chat {
						got = append(got, d.Reply.Text)
					}
				}
				require.Equal(t, []string{"1", "2", "3"}, got)
				require.Len(t, h.Replies(), 4)
			})
		})
	}
}

// D1, D2, R7: the completions for a session of the caller's arrive in the order of the ends.
func TestCompletionsArriveInOrder(t *testing.T) {
	for name, fail := range failingAttempts {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			cfg := configAnswering(asText)
			cfg.Deliver = func(ctx context.Context, d agent.Delivery) error {
				if d.Completion.Run.Task != "2" {
					return nil
				}
				if attempts++; attempts < 4 {
					return fail(ctx)
				}
				return nil
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				for _, task := range []string{"1", "2", "3", "4"} {
					_, err := callTool(h, "sessions_spawn", task, `{"task":"`+task+`"}`)
					require.NoError(t, err)
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				if name != ignoresItsTime {
					h.Crash()
				}
				time.Sleep(time.Hour)
				h.Delivered("1", "2", "3", "4")
			})
		})
	}
}

// D2: Config.DeliverTimeout bounds a call. A Reply that never returns holds back its own chat,
// whose answers are listed as blocked after half an hour, with the reason. Post answers all the
// while.
func TestReplyThatNeverReturns(t *testing.T) {
	var release chan struct{}
	cfg := agent.Config{DeliverTimeout: time.Minute}
	cfg.Reply = func(_ context.Context, d agent.Delivery) error {
		if d.Reply.Text == "1" {
			<-release
		}
		return nil
	}
	agenttest.Run(t, cfg, script{"main": {echo()}}, func(h *harness) {
		release = make(chan struct{})
		for _, text := range []string{"1", "2", "3"} {
			h.Post(text)
			synctest.Wait()
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		blocked, err := h.Runtime().Blocked(h.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 3)
		for _, d := range blocked {
			require.Contains(t, d.Error, "has not returned within 1m0s")
		}
		close(release)
		synctest.Wait()
		for _, d := range blocked[1:] {
			require.NoError(t, h.Runtime().Retry(h.Context(), d.Key))
		}
		h.Replied("1", "2", "3")
		require.False(t, h.Replies()[0].Late)
		require.True(t, h.Replies()[1].Late)
	})
}

// D2: a Reply may call the Runtime that calls it.
func TestReplyThatCallsBack(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, rt *agent.Runtime) error{
		"Post": func(ctx context.Context, rt *agent.Runtime) error {
			return errorOf(rt.Session(topKey).Post(ctx, agent.Incoming{ID: "again", Text: "again"}))
		},
		"Stop": func(ctx context.Context, rt *agent.Runtime) error {
			return rt.Session(topKey).Stop(ctx)
		},
		"Blocked": func(ctx context.Context, rt *agent.Runtime) error {
			_, err := rt.Blocked(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var rt *agent.Runtime
			cfg := agent.Config{Reply: func(ctx context.Context, d agent.Delivery) error {
				if strings.HasPrefix(d.Reply.Text, "again") {
					return nil
				}
				return call(ctx, rt)
			}}
			agenttest.Run(t, cfg, script{"main": {echo()}}, func(h *harness) {
				rt = h.Runtime()
				h.Post("1")
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, "1", h.Replies()[0].Reply.Text)
				require.Equal(t, 1, h.Replies()[0].Attempt)
			})
		})
	}
}
