package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// C1: what the section Reply Tags of a prompt says holds for the replies that people get.
func TestReplyTagsAreHonoured(t *testing.T) {
	const current, voice = "[[reply_to_current]] ", "[[audio_as_voice]] "
	for _, tt := range []struct {
		name, says string
		ids        []string // of the messages, "" for one without
		replyTo    string
		voice      bool
	}{
		{"the message at hand", current + "Hello", []string{"m1"}, "m1", false},
		{"the last of several", current + "Hello", []string{"m1", "m2"}, "m2", false},
		{"another message", "[[reply_to: m0 ]] Hello", []string{"m1"}, "m0", false},
		{"a message without an ID", current + "Hello", []string{""}, "", false},
		{"the last one without an ID", current + "Hello", []string{"m1", ""}, "", false},
		{"an id that is not a line", "[[reply_to:a\u2028b]] Hello", []string{"m1"}, "", false},
		{"spoken", voice + "Hello", []string{"m1"}, "", true},
		{"both", "[[ REPLY_TO_CURRENT ]]" + voice + "Hello", []string{"m1"}, "m1", true},
		{"no tag", "Hello", []string{"m1"}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
				return textResult(tt.says)
			})
			agenttest.Run(t, cfg, nil, func(h *harness) {
				for _, id := range tt.ids { // none of them is read before the last is there
					m := agent.Incoming{ID: id, Text: "hi"}
					require.NoError(t, errorOf(h.Main().Post(h.Context(), m)))
				}
				replies := h.Replies()
				last := replies[len(replies)-1].Reply
				require.Equal(t, agent.Reply{
					From: topKey, Text: "Hello", ReplyTo: tt.replyTo, Voice: tt.voice,
					InReplyTo: last.InReplyTo, Turn: last.Turn, Senders: unknownPerson,
				}, *last)
			})
		})
	}
}

// A message that the Runner takes in the middle of its turn is the one at hand. A turn over the
// result of a sub-agent has none.
func TestReplyToCurrentIsTheLastMessageThatWasConsumed(t *testing.T) {
	turns := 0
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			return textResult("42")
		}
		if turns++; turns == 1 {
			time.Sleep(time.Minute)
			if _, err := tn.Inbox(ctx); err != nil {
				return agent.Result{}, err
			}
			_, err := tn.Spawn(ctx, agent.Task{Text: "count", Announce: true})
			require.NoError(t, err)
		}
		return textResult("[[reply_to_current]] Hello")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, id := range []string{"m1", "m2"} {
			require.NoError(
				t, errorOf(h.Main().Post(h.Context(), agent.Incoming{ID: id, Text: "hi"})),
			)
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		h.Replied("Hello", "Hello")
		require.Equal(t, "m2", h.Replies()[0].Reply.ReplyTo)
		require.Empty(t, h.Replies()[1].Reply.ReplyTo)
	})
}

// The tags are in the journal: a later process hands them over as they were.
func TestReplyTagsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return textResult("[[reply_to_current]] [[audio_as_voice]] Hello")
		})
		inDir := func(f func(rt *agent.Runtime)) {
			store, err := dirstore.Open(dir)
			require.NoError(t, err)
			cfg.Store = store
			runFor(t, cfg, f)
			require.NoError(t, store.Close())
		}
		cfg.Reply = func(context.Context, agent.Delivery) error { return errors.New("offline") }
		inDir(func(rt *agent.Runtime) {
			m := agent.Incoming{ID: "m1", Text: "hi"}
			require.NoError(t, errorOf(rt.Session(topKey).Post(t.Context(), m)))
			synctest.Wait()
		})
		var got []agent.Reply
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			got = append(got, *d.Reply)
			return nil
		}
		inDir(func(rt *agent.Runtime) {
			require.NoError(t, rt.Session(topKey).Idle(t.Context()))
		})
		require.Equal(t, []agent.Reply{
			{
				From: topKey, Text: "Hello", ReplyTo: "m1", Voice: true, Turn: 1,
				InReplyTo: []string{"m1"}, Senders: unknownPerson,
			},
		}, got)
	})
}

// C1: the word that a prompt tells for heartbeats says nothing to people, and nothing to the
// requester of a sub-agent.
func TestHeartbeatAnswersAreSilent(t *testing.T) {
	s := script{
		"main":  {say("HEARTBEAT_OK"), say("done HEARTBEAT_OK"), startStep("quiet"), say("On it.")},
		"quiet": {say("HEARTBEAT_OK").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("Does anything need attention?")
		h.Replied()
		h.Post("And now?")
		h.Replied("done") // O12
		h.Post("Start a sub-agent.")
		time.Sleep(time.Hour)
		h.Replied("done", "On it.")
		require.Equal(t, agent.StatusOK, h.Child("quiet").Status)
	})
	caller := agent.Config{Deliver: func(context.Context, agent.Delivery) error { return nil }}
	agenttest.Run(t, caller, s, func(h *harness) {
		chat := session.Must(session.DirectKey("main", "telegram", "4711"))
		_, err := callToolOf(h, h.Session(chat).Tools(), "sessions_spawn", "1",
			`{"task":"look","label":"quiet"}`)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Empty(t, h.Deliveries())
	})
}
