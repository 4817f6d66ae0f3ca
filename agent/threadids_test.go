package agent_test

import (
	"fmt"
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

// A message to a sub-agent is one message, whether the program posts it to the session or its
// conversation does, whichever comes first: at once, after the run that took it, after a crash, and
// after the binding.
func TestMessageOfOneIDWhicheverWayItComes(t *testing.T) {
	for name, boundFirst := range map[string]bool{"bound first": true, "direct first": false} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", to a run that has ended ", ended), func(t *testing.T) {
				threadsOn(t, agent.Config{Runner: agent.RunnerFunc(meetingTurn)}, nil,
					func(b threadBot) { postBothWays(b, boundFirst, ended) })
			})
		}
	}
}

func postBothWays(b threadBot, boundFirst, ended bool) {
	child, at := b.spawnThread(agent.Task{Text: "work"})
	if ended {
		b.Pass(2 * time.Minute)
	}
	own, err := b.chat.Key(at)
	require.NoError(b.T(), err)
	bound := func() (agent.Receipt, error) {
		return b.Session(own).Post(b.Context(),
			agent.Incoming{ID: "1", Text: "hello", Route: at})
	}
	direct := func() (agent.Receipt, error) {
		return b.Session(child.Key()).Post(b.Context(), agent.Incoming{ID: "1", Text: "hello"})
	}
	ways := []func() (agent.Receipt, error){bound, direct}
	if !boundFirst {
		ways = []func() (agent.Receipt, error){direct, bound}
	}
	first, err := ways[0]()
	require.NoError(b.T(), err)
	require.Equal(b.T(), child.Key(), first.Session)
	require.Equal(b.T(), ended, first.Began)
	look := func(when string) {
		b.T().Helper()
		for _, way := range ways {
			again, err := way()
			require.NoError(b.T(), err, when)
			require.Equal(b.T(), agent.Receipt{
				Session: first.Session, Run: first.Run, Existing: true,
			}, again, when)
		}
	}
	look("at once")
	b.Pass(2 * time.Minute) // what no turn has read when its run is cut off is a new message
	look("after the run")
	b.Crash()
	look("after a crash")
	_, err = b.Runtime().Unfocus(b.Context(),
		agent.UnfocusRequest{Conversation: at, By: "alice"})
	require.NoError(b.T(), err)
	look("after the binding")
	b.Crash()
	look("after the binding, and a crash")
}
