package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// echoRunner answers each turn with whom it was and what it was told, without who said it.
var echoRunner = agent.RunnerFunc(
	func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		heard := saidByLine.ReplaceAllString(tn.Input(), "")
		return agent.Result{Text: tn.Label + " heard " + heard}, nil
	})

// saidByLine is a line that says who speaks.
var saidByLine = regexp.MustCompile(`(?m)^\[message from .*\]\n`)

// focus binds a conversation.
func (b threadBot) focus(at session.Route, to session.Key, by string) (binding.Binding, error) {
	b.T().Helper()
	return b.Runtime().Focus(b.Context(), agent.FocusRequest{
		Conversation: at, Session: to, By: by,
	})
}

// worker spawns a sub-agent of the main session, and waits for its end.
func (b threadBot) worker(label string) *agent.Child[string] {
	b.T().Helper()
	child, err := b.Main().Spawn(b.Context(), agent.Task{Text: "begin", Label: label})
	require.NoError(b.T(), err)
	_, err = child.Wait(b.Context())
	require.NoError(b.T(), err)
	return child
}

// A message that a transport posts again goes to the session that knows it, whatever became of the
// binding since: it is told once.
func TestMessageIsToldOnceOverBinds(t *testing.T) {
	type change func(b threadBot, at session.Route, worker, other session.Key)
	for name, between := range map[string]change{
		"nothing": func(threadBot, session.Route, session.Key, session.Key) {},
		"unfocus": func(b threadBot, at session.Route, _, _ session.Key) {
			_, err := b.Runtime().Unfocus(b.Context(),
				agent.UnfocusRequest{Conversation: at, By: "alice"})
			require.NoError(b.T(), err)
		},
		"unfocus and settled": func(b threadBot, at session.Route, _, _ session.Key) {
			_, err := b.Runtime().Unfocus(b.Context(),
				agent.UnfocusRequest{Conversation: at, By: "alice"})
			require.NoError(b.T(), err)
			b.Pass(time.Minute)
		},
		"expiry": func(b threadBot, _ session.Route, _, _ session.Key) { b.Pass(25 * time.Hour) },
		"expiry in the same instant": func(b threadBot, _ session.Route, _, _ session.Key) {
			time.Sleep(24 * time.Hour)
		},
		"another session": func(b threadBot, at session.Route, _, other session.Key) {
			_, err := b.focus(at, other, "alice")
			require.NoError(b.T(), err)
		},
		"crash": func(b threadBot, _ session.Route, _, _ session.Key) { b.Crash() },
	} {
		t.Run(name, func(t *testing.T) {
			threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
				worker, other := b.worker("worker"), b.worker("other")
				at := b.chat.At("general", "7")
				_, err := b.focus(at, worker.Key(), "alice")
				require.NoError(t, err)
				require.Equal(t, worker.Key(), b.write(at, "one").Session)
				between(b, at, worker.Key(), other.Key())
				again, err := b.chat.WriteAgain(b.Context(), b.Runtime())
				require.NoError(t, err)
				require.True(t, again.Existing)
				require.Equal(t, worker.Key(), again.Session)
				b.Pass(time.Minute)
				told := slices.DeleteFunc(b.chat.Said(at), func(s string) bool {
					return !strings.Contains(s, "one")
				})
				require.Equal(t, []string{"worker heard one"}, told)
			})
		})
	}
}

// slowAppend is a Journal whose appends to one tree take a second.
type slowAppend struct {
	session.Journal
	root session.Key
}

func (j *slowAppend) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if root == j.root {
		time.Sleep(time.Second)
	}
	return j.Journal.Append(ctx, root, after, b)
}

// A message that a transport posts twice at once, while its conversation is unbound, is told once:
// the second one waits for the first, however long that takes to be recorded.
func TestMessagePostedTwiceAtOnce(t *testing.T) {
	memory := session.NewMemory()
	store, slow := *memory, &slowAppend{Journal: memory.Journal}
	store.Journal = slow
	threadsOn(t, agent.Config{Runner: echoRunner, Store: &store}, nil, func(b threadBot) {
		worker := b.worker("worker")
		at := b.chat.At("general", "7")
		_, err := b.focus(at, worker.Key(), "alice")
		require.NoError(t, err)
		b.write(at, "zero")
		b.Pass(time.Minute)
		own, err := b.chat.Key(at)
		require.NoError(t, err)
		slow.root = b.Main().Key()
		m := agent.Incoming{ID: "twice", Text: "one", Route: at}
		var posts sync.WaitGroup
		for _, f := range []func(){
			func() {
				_, err := b.Session(own).Post(b.Context(), m)
				assert.NoError(t, err)
			}, func() {
				time.Sleep(100 * time.Millisecond)
				_, err := b.Runtime().Unfocus(b.Context(),
					agent.UnfocusRequest{Conversation: at, By: "alice"})
				assert.NoError(t, err)
			}, func() {
				time.Sleep(200 * time.Millisecond)
				again, err := b.Session(own).Post(b.Context(), m)
				assert.NoError(t, err)
				assert.True(t, again.Existing)
				assert.Equal(t, worker.Key(), again.Session)
			},
		} {
			posts.Go(f)
		}
		posts.Wait()
		slow.root = session.Key{}
		b.Pass(time.Minute)
		told := slices.DeleteFunc(b.chat.Said(at), func(s string) bool {
			return !strings.Contains(s, "heard one")
		})
		require.Equal(t, []string{"worker heard one"}, told)
	})
}

// slowRead is a Journal whose reads of one tree take a second.
type slowRead struct {
	session.Journal
	root session.Key
}

func (j *slowRead) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if root == j.root {
		time.Sleep(time.Second)
	}
	return j.Journal.Read(ctx, root, after)
}

// Two messages of one conversation are told in the order in which they came, also where it has to
// be looked up for the first one alone whether a session knows it.
func TestMessagesOfAConversationInOrder(t *testing.T) {
	memory := session.NewMemory()
	store, slow := *memory, &slowRead{Journal: memory.Journal}
	store.Journal = slow
	threadsOn(t, agent.Config{Runner: echoRunner, Store: &store}, nil, func(b threadBot) {
		worker := b.worker("worker")
		at := b.chat.At("general", "7")
		_, err := b.focus(at, worker.Key(), "alice")
		require.NoError(t, err)
		b.write(at, "zero")
		_, err = b.Runtime().Unfocus(b.Context(),
			agent.UnfocusRequest{Conversation: at, By: "alice"})
		require.NoError(t, err)
		b.Pass(time.Minute)
		b.Crash() // the trees sleep then, and the binding is remembered
		own, err := b.chat.Key(at)
		require.NoError(t, err)
		slow.root = b.Main().Key()
		var posts sync.WaitGroup
		for i, m := range []agent.Incoming{
			{ID: "first", Text: "one", Route: at}, {Text: "two", Route: at},
		} {
			posts.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				_, err := b.Session(own).Post(b.Context(), m)
				assert.NoError(t, err)
			})
		}
		began := time.Now()
		posts.Wait()
		require.Equal(t, time.Second, time.Since(began), "it is looked up")
		slow.root = session.Key{}
		b.Pass(time.Minute)
		said := b.chat.Said(at)
		require.Equal(t, []string{"heard one", "heard two"}, said[len(said)-2:])
	})
}

// Likewise where the conversation's own session is the requester of the one that is bound: both
// know the message, and the receipt names the one that has it.
func TestMessageToASubagentOfTheConversation(t *testing.T) {
	for name, between := range map[string]func(b threadBot, other session.Key){
		"nothing": func(threadBot, session.Key) {},
		"unfocus": func(b threadBot, _ session.Key) {
			_, err := b.Runtime().Unfocus(b.Context(),
				agent.UnfocusRequest{Conversation: b.general, By: "alice"})
			require.NoError(b.T(), err)
		},
		"another sub-agent": func(b threadBot, other session.Key) {
			_, err := b.focus(b.general, other, "alice")
			require.NoError(b.T(), err)
		},
		"another tree": func(b threadBot, _ session.Key) {
			_, err := b.focus(b.general, b.worker("far").Key(), "alice")
			require.NoError(b.T(), err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
				worker, _ := b.spawnThread(agent.Task{Text: "x", Label: "worker"})
				other, _ := b.spawnThread(agent.Task{Text: "x", Label: "other"})
				_, err := b.focus(b.general, worker.Key(), "alice")
				require.NoError(t, err)
				own, err := b.chat.Key(b.general)
				require.NoError(t, err)
				m := agent.Incoming{ID: "1", Text: "one", Route: b.general}
				receipt, err := b.Session(own).Post(b.Context(), m)
				require.NoError(t, err)
				require.Equal(t, worker.Key(), receipt.Session)
				b.Pass(time.Minute)
				between(b, other.Key())
				again, err := b.Session(own).Post(b.Context(), m)
				require.NoError(t, err)
				receipt.Existing, receipt.Began = true, again.Began
				require.Equal(t, receipt, again)
				_, err = b.Session(own).PostAndWait(b.Context(), m)
				require.ErrorContains(t, err, "dealt with before")
				require.ErrorContains(t, err, worker.Key().String(), "which has answered it")
			})
		})
	}
}

// A message without a Route is one of the conversation that the key of its session names: it goes
// to the session that is bound there, is answered there, and is told once after the end of that.
func TestMessageWithoutARoute(t *testing.T) {
	must := session.Must
	channel := must(session.ChannelKey("main", "discord", "general"))
	for name, own := range map[string]session.Key{
		"channel":  channel,
		"thread":   must(channel.Thread("7")),
		"group":    must(session.GroupKey("main", "discord", "team")),
		"topic":    must(must(session.GroupKey("main", "discord", "team")).Topic("7")),
		"direct":   must(session.DirectKey("main", "discord", "alice")),
		"capitals": must(session.ChannelKey("main", "discord", "C0AB")),
		"account":  must(session.DirectAccountKey("main", "discord", "work", "alice")),
	} {
		t.Run(name, func(t *testing.T) {
			threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
				worker := b.worker("worker")
				at := own.Route()
				_, err := b.focus(at, worker.Key(), "alice")
				require.NoError(t, err)
				m := agent.Incoming{ID: "1", Text: "one"}
				receipt, err := b.Session(own).Post(b.Context(), m)
				require.NoError(t, err)
				require.Equal(t, worker.Key(), receipt.Session)
				reply, err := b.Session(own).PostAndWait(b.Context(), agent.Incoming{Text: "two"})
				require.NoError(t, err)
				require.Equal(t, worker.Key(), reply.From)
				require.Equal(t, at, reply.Route)
				b.Pass(time.Minute)
				require.Len(t, b.chat.Said(at), 2)

				_, err = b.Runtime().Unfocus(b.Context(),
					agent.UnfocusRequest{Conversation: at, By: "alice"})
				require.NoError(t, err)
				again, err := b.Session(own).Post(b.Context(), m)
				require.NoError(t, err)
				require.True(t, again.Existing)
				require.Equal(t, worker.Key(), again.Session)
				receipt, err = b.Session(own).Post(b.Context(), agent.Incoming{Text: "three"})
				require.NoError(t, err)
				require.Equal(t, own, receipt.Session)
			})
		})
	}
}

// The other way round: what the conversation's own session knows is not told to a session that was
// bound since.
func TestMessageBeforeABindIsToldOnce(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		worker := b.worker("worker")
		at := b.chat.At("general", "7")
		own := b.write(at, "one").Session
		_, err := b.focus(at, worker.Key(), "alice")
		require.NoError(t, err)
		again, err := b.chat.WriteAgain(b.Context(), b.Runtime())
		require.NoError(t, err)
		require.Equal(t, agent.Receipt{Session: own, Existing: true}, again)
		b.Pass(time.Minute)
		told := b.chat.Said(at)
		require.Len(t, told, 1)
		require.NotContains(t, told[0], "worker")
	})
}

// Twenty posts of one message, while the conversation is bound and unbound, are one message.
func TestMessageIsToldOnceInTheSameInstant(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		worker := b.worker("worker")
		at := b.chat.At("general", "7")
		own, err := b.chat.Key(at)
		require.NoError(t, err)
		for round := range 10 {
			var wg sync.WaitGroup
			var mu sync.Mutex
			told := 0
			for range 20 {
				wg.Go(func() {
					receipt, err := b.Session(own).Post(b.Context(), agent.Incoming{
						ID: fmt.Sprint("round-", round), Text: "hello", Route: at,
					})
					mu.Lock()
					defer mu.Unlock()
					if err == nil && !receipt.Existing {
						told++
					}
				})
			}
			wg.Go(func() {
				_, _ = b.focus(at, worker.Key(), "alice")
				_, _ = b.Runtime().Unfocus(b.Context(),
					agent.UnfocusRequest{Conversation: at, By: "alice"})
			})
			wg.Wait()
			require.Equal(t, 1, told)
			b.Pass(time.Minute)
		}
	})
}

// A message to a session that is not there any more is the conversation's own session's: it is not
// lost, the binding ends, and people are told. It does not need Run.
func TestMessageToASessionThatIsGone(t *testing.T) {
	main := session.Must(session.MainKey("main"))
	gone := session.Must(main.Child("main", "gone"))
	for name, q := range map[string]binding.Request{
		"not on record":                        {Target: gone, Root: main},
		"not on record, of an earlier version": {Target: gone},
		"not bound in its tree":                {Target: main, Root: main},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				table, err := binding.Open(t.Context(), store.Journal)
				require.NoError(t, err)
				chat := agenttest.NewFakeChannel("discord")
				at := chat.At("general", "7")
				q.Conversation, q.By = at, binding.SystemOwner
				_, err = table.Bind(t.Context(), q, time.Now())
				require.NoError(t, err)
				cfg := agent.Config{Runner: echoRunner, Store: store}
				chat.Connect(&cfg)
				rt, err := agent.Open(t.Context(), cfg)
				require.NoError(t, err)
				own, err := chat.Key(at)
				require.NoError(t, err)
				for range 2 {
					receipt, err := chat.Write(t.Context(), rt, at, "alice", "hello")
					require.NoError(t, err)
					require.Equal(t, own, receipt.Session)
				}
				list, err := rt.Bindings(t.Context())
				require.NoError(t, err)
				require.Empty(t, list)
				done := make(chan error, 1)
				go func() { done <- rt.Run(t.Context()) }()
				time.Sleep(time.Minute)
				told := chat.Farewells(at)
				require.Len(t, told, 1)
				require.Equal(t, binding.ReasonStaleSession, told[0].Reason)
				require.Equal(t, 2, strings.Count(strings.Join(chat.Said(at), ""), "hello"))
				require.NoError(t, rt.Shutdown(t.Context()))
				require.NoError(t, <-done)
			})
		})
	}
}

// What the session writes in its conversation counts, too: a long piece of work does not expire.
func TestAnswersTouchTheBinding(t *testing.T) {
	hours := 2.0
	cfg := agent.Config{Runner: agent.RunnerFunc(
		func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if strings.Contains(tn.Input(), "long") {
				return agent.Result{Text: "done"}, pause(ctx, 90*time.Minute)
			}
			return agent.Result{Text: "ok"}, nil
		})}
	cfg.Threads.Bindings.IdleHours = &hours
	threadsOn(t, cfg, nil, func(b threadBot) {
		child, thread := b.spawnThread(agent.Task{Text: "x"})
		b.Pass(time.Minute)
		b.write(thread, "a long one")
		b.Pass(3 * time.Hour) // after the message, and less than two after the answer
		require.Equal(t, []string{"done"}, b.chat.Said(thread))
		require.Equal(t, child.Key(), b.write(thread, "and now?").Session)
	})
}

// 7.15: the same thread id in two accounts, and on two channels, is two conversations.
func TestConversationsAreIsolated(t *testing.T) {
	threadsOn(t, agent.Config{
		Runner: echoRunner,
		Threads: agent.Threads{Channels: map[string]agent.ThreadChannel{
			"irc": {Host: agenttest.NewFakeChannel("irc")},
		}},
	}, nil, func(b threadBot) {
		one, two, three := b.worker("one"), b.worker("two"), b.worker("three")
		first := session.Route{Channel: "discord", Account: "a", To: "general", Thread: "1"}
		second, third := first, first
		second.Account = "b"
		third.Channel = "irc"
		for at, to := range map[session.Route]session.Key{
			first: one.Key(), second: two.Key(), third: three.Key(),
		} {
			_, err := b.focus(at, to, "alice")
			require.NoError(t, err)
		}
		require.Equal(t, one.Key(), b.write(first, "x").Session)
		require.Equal(t, two.Key(), b.write(second, "x").Session)
		require.Equal(t, three.Key(), b.write(third, "x").Session)
		_, err := b.Runtime().Unfocus(b.Context(),
			agent.UnfocusRequest{Conversation: first, By: "alice"})
		require.NoError(t, err)
		require.Equal(t, two.Key(), b.write(second, "y").Session)
		require.NotEqual(t, one.Key(), b.write(first, "y").Session)
	})
}

// A session may have several conversations, each of which it answers.
func TestSessionWithTwoConversations(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		worker := b.worker("worker")
		one, two := b.chat.At("general", "1"), b.chat.At("random", "2")
		for _, at := range []session.Route{one, two} {
			_, err := b.focus(at, worker.Key(), "alice")
			require.NoError(t, err)
		}
		require.Equal(t, worker.Key(), b.write(one, "first").Session)
		b.Pass(time.Minute)
		require.Equal(t, worker.Key(), b.write(two, "second").Session)
		b.Pass(time.Minute)
		require.Equal(t, []string{"worker heard first"}, b.chat.Said(one))
		require.Equal(t, []string{"worker heard second"}, b.chat.Said(two))
	})
}

// 7.16, 7.22: the owner moves a binding, and another person does not; each owner moves what the
// system has bound. The session that lost it does not get its messages any more.
func TestOwnersOfBindings(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		one, two := b.worker("one"), b.worker("two")
		at := b.chat.At("general", "1")
		_, err := b.focus(at, one.Key(), binding.SystemOwner)
		require.NoError(t, err)
		_, err = b.focus(at, two.Key(), "alice")
		require.NoError(t, err)
		_, err = b.focus(at, one.Key(), "bob")
		require.ErrorIs(t, err, binding.ErrNotOwner)
		_, err = b.focus(at, one.Key(), "")
		bad := new(agent.InputError)
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "By", bad.Field)
		require.Equal(t, two.Key(), b.write(at, "x").Session)
		b.Pass(time.Minute)
		require.Empty(t, b.chat.Farewells(at), "another session speaks there now")
		half := 30 * time.Minute
		_, err = b.Runtime().LimitFocus(b.Context(), at, "bob", binding.Limit{Idle: &half})
		require.ErrorIs(t, err, binding.ErrNotOwner)
		changed, err := b.Runtime().LimitFocus(b.Context(), at, "alice", binding.Limit{Idle: &half})
		require.NoError(t, err)
		require.Len(t, changed, 1)
		b.Pass(31 * time.Minute)
		require.Len(t, b.chat.Farewells(at), 1)
		_, err = b.Runtime().LimitFocus(b.Context(), at, "alice", binding.Limit{Idle: &half})
		require.ErrorIs(t, err, agent.ErrNotFound)
	})
}

// The owner of a binding that would pass for another is refused, as the sender of a message is, and
// nothing changes.
func TestOwnersThatPassForAnother(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		one, at := b.worker("one"), b.chat.At("general", "1")
		half := 30 * time.Minute
		acts := map[string]func(by string) error{
			"Focus": func(by string) error {
				_, err := b.focus(at, one.Key(), by)
				return err
			},
			"Unfocus": func(by string) error {
				_, err := b.Runtime().Unfocus(b.Context(),
					agent.UnfocusRequest{Conversation: at, By: by})
				return err
			},
			"LimitFocus": func(by string) error {
				_, err := b.Runtime().LimitFocus(b.Context(), at, by, binding.Limit{Idle: &half})
				return err
			},
		}
		for _, bound := range []string{"", binding.SystemOwner, "alice"} {
			if bound != "" {
				_, err := b.focus(at, one.Key(), bound)
				require.NoError(t, err)
			}
			before := b.bindings()
			for _, by := range idsThatPassForAnother {
				for name, act := range acts {
					bad := new(agent.InputError)
					require.ErrorAs(t, act(by), &bad, "%s by %q", name, by)
					require.Equal(t, "By", bad.Field)
				}
			}
			require.Equal(t, before, b.bindings())
		}
		for _, by := range []string{"alice", "+49 30  1", "a@b.c", "李"} {
			_, err := b.focus(b.chat.At("general", "by "+by), one.Key(), by)
			require.NoError(t, err, by)
		}
	})
}

// Of many that bind one conversation at once, as different owners, one succeeds.
func TestTwoBindsAtOnce(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		var workers []session.Key
		for i := range 5 {
			workers = append(workers, b.worker(fmt.Sprint("w", i)).Key())
		}
		at := b.chat.At("general", "1")
		var wg sync.WaitGroup
		won := make([]error, len(workers))
		for i, key := range workers {
			wg.Go(func() { _, won[i] = b.focus(at, key, fmt.Sprint("person ", i)) })
		}
		wg.Wait()
		list := b.bindings()
		require.Len(t, list, 1)
		for i, err := range won {
			if workers[i] == list[0].Target {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, binding.ErrNotOwner)
			}
		}
		require.Equal(t, list[0].Target, b.write(at, "x").Session)
	})
}

// Two spawns under one key have one thread and one sub-agent.
func TestOneThreadForOneKey(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		keys := make([]session.Key, 5)
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() {
				child, err := b.Main().Spawn(b.Context(), agent.Task{
					Text: "x", Key: "k", Thread: true, Conversation: b.general,
				})
				if err == nil {
					keys[i] = child.Key()
				}
			})
		}
		wg.Wait()
		require.Len(t, b.chat.Threads(), 1)
		require.Len(t, b.Runs(), 1)
		for _, key := range keys {
			require.Equal(t, b.Runs()[0].Key, key)
		}
		require.Len(t, b.bindings(), 1)
		require.Equal(t, keys[0], b.write(b.chat.Threads()[0], "hello").Session)
	})
}

// A spawn binds a conversation that is there, and leaves one that has a session alone.
func TestSpawnIntoAConversation(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		at := b.chat.At("general", "7")
		child, err := b.Main().Spawn(b.Context(), agent.Task{
			Text: "x", Label: "one", Thread: true, Conversation: at,
		})
		require.NoError(t, err)
		require.Empty(t, b.chat.Threads())
		require.Equal(t, child.Key(), b.write(at, "hello").Session)
		_, err = b.Main().Spawn(b.Context(), agent.Task{
			Text: "y", Label: "two", Thread: true, Conversation: at,
		})
		require.ErrorIs(t, err, binding.ErrBound)
		b.Pass(time.Minute)
		require.Equal(t, []string{"one heard hello"}, b.chat.Said(at))
		require.Len(t, b.Runs(), 1)
	})
}

// PostAndWait of the conversation's own session waits for the answer of the bound one.
func TestPostAndWaitInAThread(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		worker := b.worker("worker")
		at := b.chat.At("general", "7")
		own, err := b.chat.Key(at)
		require.NoError(t, err)
		_, err = b.focus(at, worker.Key(), "alice")
		require.NoError(t, err)
		reply, err := b.Session(own).PostAndWait(b.Context(), agent.Incoming{
			ID: "1", Text: "hello", Route: at,
		})
		require.NoError(t, err)
		require.Equal(t, "worker heard hello", reply.Text)
		require.Equal(t, worker.Key(), reply.From)
		require.Equal(t, at, reply.Route)
	})
}

// A store that fails loses no message: the caller is told, and posts it again.
func TestBindingsOfAStoreThatFails(t *testing.T) {
	store := session.NewMemory()
	broken := &brokenBindings{Journal: store.Journal}
	cfg := agent.Config{Runner: echoRunner, Store: &session.Store{
		Journal: broken, Transcripts: store.Transcripts, Files: store.Files,
	}}
	threadsOn(t, cfg, nil, func(b threadBot) {
		worker := b.worker("worker")
		at := b.chat.At("general", "7")
		broken.set(true)
		_, err := b.focus(at, worker.Key(), "alice")
		require.ErrorIs(t, err, errBindingsBroken)
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		_, err = b.Main().Spawn(b.Context(), agent.Task{
			Text: "x", Thread: true, Conversation: b.general,
		})
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		require.Len(t, b.Runs(), 1, "nothing was spawned")
		broken.set(false)
		_, err = b.focus(at, worker.Key(), "alice")
		require.NoError(t, err)
		require.Equal(t, worker.Key(), b.write(at, "hello").Session)
		broken.set(true)
		b.Pass(time.Hour)
		require.Equal(t, worker.Key(), b.write(at, "what is known is routed").Session)
		b.Pass(25 * time.Hour)
		require.NotEqual(t, worker.Key(), b.write(at, "it has expired").Session)
		require.Empty(t, b.chat.Farewells(at))
		broken.set(false)
		b.Pass(time.Hour)
		require.Len(t, b.chat.Farewells(at), 1)
	})
}

var errBindingsBroken = errors.New("the log of bindings cannot be written")

// brokenBindings is a Journal whose log of bindings takes nothing while it is broken.
type brokenBindings struct {
	session.Journal

	mu     sync.Mutex
	broken bool
}

func (j *brokenBindings) set(broken bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = broken
}

// Append implements session.Journal.
func (j *brokenBindings) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.mu.Lock()
	broken := j.broken
	j.mu.Unlock()
	if broken && root == session.BindingsRoot() {
		return 0, errBindingsBroken
	}
	return j.Journal.Append(ctx, root, after, b)
}

// TestFocusTakesTheLabelOfTheRun: a session is called by the label that a request gives it, else by
// that of the sub-agent, and a session without a label by its agent.
func TestFocusTakesTheLabelOfTheRun(t *testing.T) {
	long := strings.Repeat("ü", 300)
	for name, c := range map[string]struct{ label, asked, want string }{
		"of the run":     {"worker", "", "worker"},
		"of the request": {"worker", "the painter", "the painter"},
		"none":           {"", "", "main"},
		"a long one":     {long, "", string([]rune(long)[:47]) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Runner: echoRunner, Limits: agent.Limits{Label: 1000}}
			threadsOn(t, cfg, nil, func(b threadBot) {
				child := b.worker(c.label)
				for _, creates := range []bool{false, true} {
					at := b.general
					if !creates {
						at = b.chat.At("general", "7")
					}
					made, err := b.Runtime().Focus(b.Context(), agent.FocusRequest{
						Conversation: at, Session: child.Key(), By: "alice", Label: c.asked,
						NewThread: creates,
					})
					require.NoError(t, err)
					if creates {
						asked := b.chat.Asked()
						require.Contains(t, asked[len(asked)-1].Intro, "The agent \""+c.want+"\" works here")
					}
					_, err = b.Runtime().Unfocus(b.Context(), agent.UnfocusRequest{
						Conversation: made.Conversation, By: "alice",
					})
					require.NoError(t, err)
					b.Pass(time.Minute)
					said := b.chat.Farewells(made.Conversation)
					require.Len(t, said, 1)
					want := "The agent \"" + c.want + "\" was sent away"
					require.True(t, strings.HasPrefix(said[0].Text, want), said[0].Text)
				}
			})
		})
	}
}

// A limit that is negative is refused by its name, and neither limit of the binding changes.
func TestNegativeLimitsOfABinding(t *testing.T) {
	threadsOn(t, agent.Config{Runner: echoRunner}, nil, func(b threadBot) {
		at := b.chat.At("general", "1")
		_, err := b.focus(at, b.worker("one").Key(), "alice")
		require.NoError(t, err)
		before := b.bindings()
		half, negative := 30*time.Minute, -time.Nanosecond
		for field, limit := range map[string]binding.Limit{
			"Limit.Idle":   {Idle: &negative, MaxAge: &half},
			"Limit.MaxAge": {Idle: &half, MaxAge: &negative},
		} {
			_, err := b.Runtime().LimitFocus(b.Context(), at, "alice", limit)
			bad := new(agent.InputError)
			require.ErrorAs(t, err, &bad)
			require.Equal(t, field, bad.Field)
			require.ErrorContains(t, err, "-1ns")
		}
		require.Equal(t, before, b.bindings())
	})
}
