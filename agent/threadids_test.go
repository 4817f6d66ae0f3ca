package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// Conversations that count their messages from 1, and lead to one session, are each heard: their
// ids name messages of their own. What a transport posts again is told once all the same, whatever
// was bound or unbound since, and over a crash and a snapshot.
func TestConversationsWithTheSameIDs(t *testing.T) {
	irc := func(to string) session.Route { return session.Route{Channel: "irc", To: to} }
	for name, c := range map[string]struct {
		own   func(b threadBot, at session.Route) session.Key // of the conversations
		focus bool
		top   bool // the session that is focused is that of the tree
	}{
		"focused": {own: func(b threadBot, at session.Route) session.Key {
			key, err := b.chat.Key(at)
			require.NoError(b.T(), err)
			return key
		}, focus: true},
		"focused, of one main session": {
			own: func(threadBot, session.Route) session.Key { return topKey }, focus: true,
		},
		"focused on a top-level session": {own: func(b threadBot, at session.Route) session.Key {
			key, err := b.chat.Key(at)
			require.NoError(b.T(), err)
			return key
		}, focus: true, top: true},
		"of one main session": {own: func(threadBot, session.Route) session.Key { return topKey }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Runner: echoRunner}
			cfg.Threads.Channels = map[string]agent.ThreadChannel{"irc": {}}
			threadsOn(t, cfg, nil, func(b threadBot) {
				target := topKey
				if b.Post("hello"); !c.top && c.focus {
					target = b.worker("worker").Key()
				}
				b.Pass(time.Minute)
				places := []session.Route{
					b.chat.At("general", ""), b.chat.At("lounge", ""), irc("general"),
				}
				if c.focus {
					places = append(places,
						session.Route{Channel: "irc", Account: "second", To: "general"})
				}
				post := func(at session.Route) agent.Receipt {
					t.Helper()
					r, err := b.Session(c.own(b, at)).Post(b.Context(), agent.Incoming{
						ID: "1", Text: "from " + at.Channel + at.Account + at.To, Route: at,
					})
					require.NoError(t, err)
					return r
				}
				focus := func() {
					for _, at := range places {
						if _, err := b.focus(at, target, "alice"); c.focus {
							require.NoError(t, err)
						}
					}
				}
				if c.focus {
					focus()
				}
				if c.top { // its own chat counts from 1, too
					b.PostIncoming(topKey, agent.Incoming{ID: "1", Text: "from itself"})
				}
				for _, at := range places {
					require.False(t, post(at).Existing, at)
				}
				b.Pass(time.Minute)
				b.Crash()
				for _, at := range places {
					require.True(t, post(at).Existing, at)
					if !c.focus {
						continue
					}
					_, err := b.Runtime().Unfocus(b.Context(),
						agent.UnfocusRequest{Conversation: at, By: "alice"})
					require.NoError(t, err)
					require.True(t, post(at).Existing, at)
				}
				if c.focus {
					focus()
				}
				for _, at := range places {
					require.True(t, post(at).Existing, at)
				}
			})
		})
	}
}

// A caller that waits for the answer to a message hears that, and not the one to a message of
// another conversation with the same ID.
func TestPostAndWaitWithTheSameIDs(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		b.Post("hello")
		worker := b.worker("worker")
		answers := make(chan string)
		places := []session.Route{b.chat.At("general", ""), b.chat.At("lounge", "")}
		for _, at := range places {
			_, err := b.focus(at, worker.Key(), "alice")
			require.NoError(t, err)
		}
		for _, at := range places {
			key, err := b.chat.Key(at)
			require.NoError(t, err)
			go func() {
				r, err := b.Session(key).PostAndWait(b.Context(), agent.Incoming{
					ID: "1", Text: at.To, Route: at,
				})
				if err != nil || r.Route != at {
					answers <- "wrong"
					return
				}
				answers <- at.To + ": " + r.Text
			}()
		}
		require.ElementsMatch(t, []string{
			"general: worker heard general", "lounge: worker heard lounge",
		}, []string{<-answers, <-answers})
	})
}
