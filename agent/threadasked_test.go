package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// places are the first words of what is written in each conversation of these tests.
var places = []string{"one", "two", "zero"}

// placesRunner does what the last words of its input ask for, and says which places it was told of.
func placesRunner(hangs *atomic.Int32) agent.Runner {
	return agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		heard := saidByLine.ReplaceAllString(tn.Input(), "")
		told := slices.DeleteFunc(slices.Clone(places), func(p string) bool {
			return !strings.Contains(heard, p+" ")
		})
		answer := agent.Result{Text: strings.Join(told, "+")}
		switch {
		case len(told) == 0 && strings.HasPrefix(heard, "[Offshoot] "):
			return agent.Result{Text: "time is up"}, nil
		case strings.HasSuffix(tn.Label, "helper"):
			return agent.Result{Text: answer.Text + " was found"}, pause(ctx, 10*time.Minute)
		case strings.Contains(heard, " was found"):
			return answer, nil
		case strings.Contains(heard, " research"):
			task := agent.Task{Text: told[0] + " question", Label: told[0] + " helper"}
			task.Announce = true
			_, err := tn.Spawn(ctx, task)
			tn.Yield(agent.JoinOptions{})
			return agent.Result{}, err
		case strings.Contains(heard, " patient"):
			_, err := tn.Spawn(ctx, agent.Task{Text: told[0] + " question", Label: told[0] + " helper"})
			tn.Yield(agent.JoinOptions{Within: time.Minute})
			return agent.Result{}, err
		case strings.Contains(heard, " interim"):
			return answer, tn.Say(ctx, "soon "+answer.Text)
		case strings.Contains(heard, " fail"):
			return agent.Result{}, errors.New("broken")
		case strings.Contains(heard, " hang") && hangs.Add(1) == 1:
			return answer, pause(ctx, time.Hour)
		case strings.Contains(heard, " silent"):
			return agent.Result{Text: "NO_REPLY"}, nil
		}
		return answer, nil
	})
}

// What one conversation waits for stays its own: whatever becomes of a message of another one, and
// of one to the session itself, ids, texts and routes never meet.
func TestConversationsAreAnsweredApart(t *testing.T) {
	type bot struct {
		threadBot
		target session.Key
	}
	sorry := "Sorry"
	for name, c := range map[string]struct {
		two string // what is asked for there while "one" waits for the answer of a child
		do  func(b bot)
		// want are the replies to the two, each with the ids that it names, of a top-level session
		// and of a sub-agent; one: of both.
		want, sub []string
		bound     bool // it is about conversations that are bound
	}{
		"a reply": {two: "hello", want: []string{"two two", "one one"}},
		"an interim text": {
			two: "interim", want: []string{"two soon two", "two two", "one one"},
		},
		"silence": {two: "silent", want: []string{"one one"}},
		"a failure": {
			two: "fail", want: []string{"two " + sorry, "one one"},
			sub: []string{"one " + sorry, "two " + sorry},
		},
		"a crash": {
			two: "hang", do: func(b bot) { b.Crash() }, want: []string{"two two", "one one"},
			sub: []string{"one " + sorry, "two " + sorry, "zero one"}, // the end of the child moves up
		},
		"another wait": {two: "research", want: []string{"one one", "two two"}},
		"a farewell": {
			two: "hello", want: []string{"two two", "one one"}, bound: true,
			do: func(b bot) {
				_, err := b.Runtime().Unfocus(b.Context(), agent.UnfocusRequest{
					Conversation: b.chat.At("one", ""), By: "alice",
				})
				require.NoError(b.T(), err)
				b.Pass(time.Second)
				require.Len(b.T(), b.chat.Farewells(b.chat.At("one", "")), 1)
				require.Empty(b.T(), b.chat.Farewells(b.chat.At("two", "")))
			},
		},
		"a message to the session itself": {
			two: "hello", want: []string{"two two", "zero zero", "one one"},
			sub:   []string{"two two", "one one"}, // its requester waits for the run
			bound: true,
			do: func(b bot) {
				_, err := b.Session(b.target).Post(b.Context(),
					agent.Incoming{ID: "zero-1", Text: "zero hello"})
				require.NoError(b.T(), err)
			},
		},
	} {
		for _, kind := range []string{"top-level", "sub-agent", "unbound"} {
			top := kind != "sub-agent"
			if kind == "unbound" && c.bound {
				continue
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				var hangs atomic.Int32
				cfg := agent.Config{Runner: placesRunner(&hangs)}
				cfg.Rules.Subagents.MaxSpawnDepth = 3
				threadsOn(t, cfg, nil, func(b threadBot) {
					b.Post("hello")
					x := bot{b, topKey}
					if !top {
						x.target = b.worker("worker").Key()
					}
					before := len(b.Replies())
					post := func(place, asks string) {
						at := b.chat.At(place, "")
						key, err := b.chat.Key(at)
						require.NoError(t, err)
						if kind == "unbound" {
							key = topKey
						}
						_, err = b.Session(key).Post(b.Context(), agent.Incoming{
							ID: place + "-1", Text: place + " " + asks, Route: at,
						})
						require.NoError(t, err)
						b.Pass(time.Second)
					}
					for _, place := range places[:2] {
						if kind == "unbound" {
							break
						}
						_, err := b.focus(b.chat.At(place, ""), x.target, "alice")
						require.NoError(t, err)
					}
					post("one", "research")
					if post("two", c.two); c.do != nil {
						c.do(x)
					}
					b.Pass(time.Hour)
					want := c.want
					if !top && c.sub != nil {
						want = c.sub
					}
					got := repliesByPlace(t, b.Replies()[before:])
					slices.Sort(got) // two destinations, at once
					want = slices.Sorted(slices.Values(want))
					require.Equal(t, want, got)
				})
			})
		}
	}
}

// repliesByPlace returns each reply as the place that it went to and what it says, and checks that
// it names the message of that place.
func repliesByPlace(t *testing.T, list []agent.Delivery) (out []string) {
	t.Helper()
	for _, d := range list {
		place := d.Reply.Route.To
		if place == "" || place == "general" {
			place = "zero"
		}
		if place != "zero" || len(d.Reply.InReplyTo) > 0 {
			require.Equal(t, []string{place + "-1"}, d.Reply.InReplyTo, d.Reply.Text)
		}
		text, _, _ := strings.Cut(d.Reply.Text, ",")
		out = append(out, place+" "+text)
	}
	return out
}

// A message of a session's own conversation that says nothing of where it came from is answered
// there, also after the session has answered in one that is bound to it.
func TestOwnConversationAfterABoundOne(t *testing.T) {
	cfg := agent.Config{Runner: echoRunner}
	threadsOn(t, cfg, nil, func(b threadBot) {
		own, bound := session.Route{Channel: "irc", To: "ann"}, b.chat.At("lounge", "")
		post := func(m agent.Incoming) {
			b.PostIncoming(topKey, m)
			b.Pass(time.Second)
		}
		post(agent.Incoming{ID: "1", Text: "hello", Route: own})
		_, err := b.focus(bound, topKey, "alice")
		require.NoError(t, err)
		b.write(bound, "bound")
		b.Pass(time.Second)
		post(agent.Incoming{ID: "2", Text: "private"})
		b.write(bound, "bound")
		b.Pass(time.Second)
		b.Crash()
		post(agent.Incoming{ID: "3", Text: "more", Route: session.Route{Channel: "irc"}})
		b.write(bound, "bound")
		b.Crash()
		post(agent.Incoming{ID: "4", Text: "again"})
		var went []session.Route
		for _, d := range b.Replies() {
			went = append(went, d.Reply.Route)
		}
		require.Equal(t, []session.Route{own, bound, own, bound, own, bound, own}, went)
	})
}

// A message with a part of a route is of the session's own conversation, also where one of a bound
// conversation in the same channel came last and no turn has read that yet.
func TestOwnMessageBehindAnUnreadBoundOne(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if err := pause(ctx, time.Minute); err != nil {
				return agent.Result{}, err
			}
			return echoRunner.Run(ctx, tn)
		},
	)}
	threadsOn(t, cfg, nil, func(b threadBot) {
		bound := b.chat.At("lounge", "")
		own := session.Route{Channel: bound.Channel, To: "ann"}
		b.PostIncoming(topKey, agent.Incoming{ID: "1", Text: "hello", Route: own})
		_, err := b.focus(bound, topKey, "alice")
		require.NoError(t, err)
		b.Pass(time.Second)
		b.write(bound, "bound")
		b.PostIncoming(topKey, agent.Incoming{
			ID: "2", Text: "private", Route: session.Route{Channel: bound.Channel},
		})
		b.Pass(10 * time.Minute)
		found := false
		for _, d := range b.Replies() {
			if slices.Contains(d.Reply.InReplyTo, "2") {
				found = true
				require.Equal(t, own, d.Reply.Route)
			}
		}
		require.True(t, found)
	})
}

// A caller that waits for the answer to a message which a turn has left to the end of a child is
// not held up by a message of another conversation with the same ID, nor told of that.
func TestPostAndWaitWithKeptIDs(t *testing.T) {
	var hangs atomic.Int32
	threadsOn(t, agent.Config{Runner: placesRunner(&hangs)}, nil, func(b threadBot) {
		b.Post("hello")
		answers := make(chan string, 2)
		wait := func(place, asks string) {
			at := b.chat.At(place, "")
			_, err := b.focus(at, topKey, "alice")
			require.NoError(t, err)
			key, err := b.chat.Key(at)
			require.NoError(t, err)
			go func() {
				r, err := b.Session(key).PostAndWait(b.Context(),
					agent.Incoming{ID: "1", Text: place + " " + asks, Route: at})
				if errors.Is(err, agent.ErrAnswered) {
					r.Text = "nothing"
				}
				answers <- place + ": " + r.Text
			}()
			b.Pass(time.Second)
		}
		wait("one", "research")
		for _, want := range []string{"two: two", "two: nothing"} { // it has been answered
			wait("two", "hello")
			require.Len(t, answers, 1)
			require.Equal(t, want, <-answers)
		}
		b.Pass(time.Hour)
		require.Equal(t, "one: one", <-answers)
	})
}

// Nor is one told of what is answered in another place of a session to which people write from
// several, none of which is bound, whether the two messages have one ID or not. A caller who asks
// again waits for its own answer.
func TestPostAndWaitInSeveralPlaces(t *testing.T) {
	for name, ids := range map[string]map[string]string{
		"one id": {"one": "1", "two": "1"}, "two ids": {"one": "1", "two": "2"},
	} {
		t.Run(name, func(t *testing.T) {
			var hangs atomic.Int32
			agenttest.Run(t, agent.Config{Runner: placesRunner(&hangs)}, nil, func(h *harness) {
				ask := func(place, asks string) *awaited {
					return await(h.Context(), h.Main(), agent.Incoming{
						ID: ids[place], Text: place + " " + asks,
						Route: session.Route{Channel: "irc", To: place},
					})
				}
				answered := func(a *awaited, place, text string) {
					t.Helper()
					require.True(t, a.over())
					require.NoError(t, a.err)
					require.Equal(t, text, a.reply.Text)
					require.Equal(t, place, a.reply.Route.To)
					require.Equal(t, []string{ids[place]}, a.reply.InReplyTo)
				}
				one := ask("one", "research")
				require.False(t, one.over())
				two := ask("two", "interim")
				answered(two, "two", "two")
				again := ask("one", "research")
				require.False(t, again.over() || one.over())
				h.Pass(time.Hour)
				answered(one, "one", "one")
				answered(again, "one", "one")
				h.Replied("soon two", "two", "one")
				h.Crash()
				known := ask("two", "interim")
				require.True(t, known.over())
				require.ErrorIs(t, known.err, agent.ErrAnswered)
			})
		})
	}
}

// A wait whose time is up is answered where it began, in whatever place the session has answered
// meanwhile, and a caller that waits for it is told.
func TestWaitIsAnsweredWhereItBegan(t *testing.T) {
	for name, c := range map[string]struct {
		bound, crash bool
		meanwhile    []string // places that write as the time is up
	}{
		"one place has been answered":               {},
		"a conversation that is bound":              {bound: true},
		"a message as the time is up":               {meanwhile: []string{"two"}},
		"a crash":                                   {crash: true},
		"a crash, and a conversation that is bound": {bound: true, crash: true},
	} {
		t.Run(name, func(t *testing.T) {
			var hangs atomic.Int32
			threadsOn(t, agent.Config{Runner: placesRunner(&hangs)}, nil, func(b threadBot) {
				before := len(b.Replies())
				session := func(place string) *agent.Session {
					if !c.bound {
						return b.Main()
					}
					key, err := b.chat.Key(b.chat.At(place, ""))
					require.NoError(t, err)
					return b.Session(key)
				}
				ask := func(place, id, asks string) *awaited {
					return await(b.Context(), session(place), agent.Incoming{
						ID: id, Text: place + " " + asks, Route: b.chat.At(place, ""),
					})
				}
				for _, place := range places[:2] {
					if c.bound {
						_, err := b.focus(b.chat.At(place, ""), topKey, "alice")
						require.NoError(t, err)
					}
				}
				one := ask("one", "one-1", "patient")
				require.False(t, one.over())
				two := ask("two", "two-1", "hello")
				require.True(t, two.over())
				require.NoError(t, two.err)
				if c.crash {
					b.Crash()
				}
				b.Pass(time.Minute - time.Nanosecond)
				for _, place := range c.meanwhile {
					ask(place, place+"-2", "hello")
				}
				b.Pass(5 * time.Minute)
				if !c.crash {
					require.True(t, one.over())
					require.NoError(t, one.err)
					require.Equal(t, "one", one.reply.Route.To)
				}
				var late []agent.Delivery
				for _, d := range b.Replies()[before:] {
					if slices.Contains(d.Reply.InReplyTo, "one-1") {
						late = append(late, d)
					}
				}
				require.Len(t, late, 1)
				if !c.crash { // which ends the sub-agent, too
					require.Equal(t, "time is up", late[0].Reply.Text)
				}
				require.Equal(t, "one", late[0].Reply.Route.To)
			})
		})
	}
}

// A person is answered where they are, also if a sub-agent has ended meanwhile that was asked for
// in another conversation, which is not bound any more. There it is said what came of it.
func TestAnswerStaysWhereItWasAsked(t *testing.T) {
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			heard := tn.Input()
			switch {
			case tn.Label == "helper":
				return agent.Result{Text: "found"}, pause(ctx, 10*time.Minute)
			case strings.Contains(heard, "research"):
				_, err := tn.Spawn(ctx, agent.Task{Text: "x", Label: "helper", Announce: true})
				return agent.Result{Text: "begun"}, err
			case strings.Contains(heard, "slow"):
				return agent.Result{Text: "slow"}, pause(ctx, 20*time.Minute)
			}
			var said []string
			for _, word := range []string{"found", "my name"} {
				if strings.Contains(heard, word) {
					said = append(said, word)
				}
			}
			return agent.Result{Text: strings.Join(said, "+")}, nil
		},
	)}
	threadsOn(t, cfg, nil, func(b threadBot) {
		own, bound := b.chat.At("general", ""), b.chat.At("one", "")
		_, err := b.focus(bound, topKey, "alice")
		require.NoError(t, err)
		key, err := b.chat.Key(bound)
		require.NoError(t, err)
		_, err = b.Session(key).Post(b.Context(), agent.Incoming{Text: "research", Route: bound})
		require.NoError(t, err)
		b.Pass(time.Minute)
		_, err = b.Runtime().Unfocus(b.Context(), agent.UnfocusRequest{
			Conversation: bound, By: "alice",
		})
		require.NoError(t, err)
		b.PostIncoming(topKey, agent.Incoming{Text: "slow", Route: own})
		b.Pass(time.Minute)
		b.PostIncoming(topKey, agent.Incoming{Text: "what is my name?", Route: own})
		b.Pass(time.Hour)
		var said []string
		for _, d := range b.Replies() {
			said = append(said, d.Reply.Route.To+" "+d.Reply.Text)
		}
		require.ElementsMatch(t, []string{
			"one begun", "general slow", "general my name", "one found",
		}, said)
	})
}
