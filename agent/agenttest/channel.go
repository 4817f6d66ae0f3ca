package agenttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A FakeChannel is a channel of the world in memory, with threads: people write to a bot in its
// conversations, and the bot answers, creates threads and says farewell there. It outlives the
// processes of a [Harness]. It is an [agent.ThreadHost] that keeps to the contract, and its methods
// are safe for concurrent use.
//
// A test connects it to a Config, has people write with [FakeChannel.Write], and looks at what was
// said with [FakeChannel.Said]:
//
//	chat := agenttest.NewFakeChannel("discord")
//	chat.Connect(&cfg)
//	agenttest.Run(t, cfg, script, func(h *agenttest.Harness) {
//		general := chat.At("general", "")
//		_, err := chat.Write(h.Context(), h.Runtime(), general, "alice", "Start a worker.")
//		thread := chat.Threads()[0]
//		...
//	})
type FakeChannel struct {
	name string

	mu        sync.Mutex
	intercept func(ctx context.Context, c FakeCall) error
	created   map[string]session.Route // by the key of a NewThread
	threads   []session.Route
	asked     []agent.NewThread
	state     map[session.Route]agent.ThreadState
	said      map[session.Route][]string
	farewells map[session.Route][]agent.Farewell
	heard     map[string]bool // the keys of what was said
	written   int
	last      fakeMessage
}

// A FakeCall is a call that a FakeChannel gets from the bot, for [FakeChannel.Intercept].
type FakeCall struct {
	Op string        // "create", "farewell", "probe" or "reply"
	At session.Route // the conversation; of "create", the one that gets the thread
	// Done says that the call has had its effect: an error then loses the answer. Before that an
	// error is a failure.
	Done bool
}

// A fakeMessage is something that a person has written.
type fakeMessage struct {
	to session.Key
	m  agent.Incoming
}

// NewFakeChannel returns a channel without threads, on which nothing was said.
func NewFakeChannel(name string) *FakeChannel {
	return &FakeChannel{
		name: name, created: make(map[string]session.Route),
		state:     make(map[session.Route]agent.ThreadState),
		said:      make(map[session.Route][]string),
		farewells: make(map[session.Route][]agent.Farewell), heard: make(map[string]bool),
	}
}

// Connect makes c a channel of the bot: it sets the Host in cfg.Threads.Channels, and has
// cfg.Reply give c what is for it and the Reply that was there before the rest.
func (c *FakeChannel) Connect(cfg *agent.Config) {
	channels := maps.Clone(cfg.Threads.Channels)
	if channels == nil {
		channels = make(map[string]agent.ThreadChannel)
	}
	own := channels[c.name]
	own.Host = c
	channels[c.name], cfg.Threads.Channels = own, channels
	others := cfg.Reply
	cfg.Reply = func(ctx context.Context, d agent.Delivery) error {
		switch {
		case d.Reply.Route.Channel == c.name:
			return c.reply(ctx, d)
		case others != nil:
			return others(ctx, d)
		}
		return nil
	}
}

// At names a conversation of the channel. An empty thread is the conversation itself, which is
// always there. At makes no thread: one is there from when the bot has created it, a person has
// written in it, or [FakeChannel.Set] has said that it is open. Before that a probe finds it gone.
func (c *FakeChannel) At(to, thread string) session.Route {
	return session.Route{Channel: c.name, To: to, Thread: thread}
}

// Key returns the key of a conversation's own session, of the default agent.
func (c *FakeChannel) Key(at session.Route) (session.Key, error) {
	key, err := session.ChannelKey(session.DefaultAgent, at.Channel, at.To)
	if err != nil || at.Thread == "" {
		return key, err
	}
	return key.Thread(at.Thread)
}

// Write has a person write in a conversation: the transport posts that to the conversation's own
// session, under an ID that is unique among all conversations of the channel. A thread that was not
// there is one that the person has opened. It is an error in a thread that was archived or deleted.
func (c *FakeChannel) Write(
	ctx context.Context, rt *agent.Runtime, at session.Route, from, text string,
) (agent.Receipt, error) {
	key, err := c.Key(at)
	if err != nil {
		return agent.Receipt{}, err
	}
	return c.WriteTo(ctx, rt, key, at, from, text)
}

// WriteTo is [FakeChannel.Write] with another session as the conversation's own.
func (c *FakeChannel) WriteTo(
	ctx context.Context, rt *agent.Runtime, own session.Key, at session.Route, from, text string,
) (agent.Receipt, error) {
	c.mu.Lock()
	if state, ok := c.state[at]; ok && state != agent.ThreadOpen {
		c.mu.Unlock()
		return agent.Receipt{}, fmt.Errorf("agenttest: the thread %q is %v", at.Thread, state)
	}
	if isThread(at) {
		c.state[at] = agent.ThreadOpen
	}
	c.written++
	m := agent.Incoming{
		ID: c.name + "-" + strconv.Itoa(c.written), Text: text, Route: at,
		From: session.Sender{ID: from, Name: from},
	}
	c.last = fakeMessage{own, m}
	c.mu.Unlock()
	return rt.Session(own).Post(ctx, m)
}

// WriteAgain has the transport post what was written last again, under the same ID. In
// [Harness.Do], the second call of the function does that where the first one has called Write.
func (c *FakeChannel) WriteAgain(ctx context.Context, rt *agent.Runtime) (agent.Receipt, error) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	return rt.Session(last.to).Post(ctx, last.m)
}

// Said returns what the bot has said in a conversation, farewells included, each text once.
func (c *FakeChannel) Said(at session.Route) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.said[at])
}

// Farewells returns the farewells that were said in a conversation, each once.
func (c *FakeChannel) Farewells(at session.Route) []agent.Farewell {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.farewells[at])
}

// Threads returns the threads that the bot has created, oldest first, also those that are gone.
func (c *FakeChannel) Threads() []session.Route {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.threads)
}

// Asked returns what the bot has asked for when it created the Threads.
func (c *FakeChannel) Asked() []agent.NewThread {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// Set says what has become of a thread, as a person does who archives or deletes it. The bot learns
// of that only when it asks.
func (c *FakeChannel) Set(at session.Route, state agent.ThreadState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state[at] = state
}

// Intercept calls f before and after the effect of each call that the channel gets from now on,
// from the goroutine of the call. With it the channel fails, hangs, panics or loses answers. Nil:
// none.
func (c *FakeChannel) Intercept(f func(ctx context.Context, call FakeCall) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.intercept = f
}

// call calls f, which is the effect of a call and gets the lock, between two calls of the
// interceptor.
func (c *FakeChannel) call(ctx context.Context, op string, at session.Route, f func()) error {
	c.mu.Lock()
	intercept := c.intercept
	c.mu.Unlock()
	if intercept != nil {
		if err := intercept(ctx, FakeCall{Op: op, At: at}); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	f()
	c.mu.Unlock()
	if intercept != nil {
		return intercept(ctx, FakeCall{Op: op, At: at, Done: true})
	}
	return nil
}

// CreateThread implements [agent.ThreadHost].
func (c *FakeChannel) CreateThread(
	ctx context.Context, t agent.NewThread,
) (made session.Route, err error) {
	if t.In.Channel != c.name {
		return made, fmt.Errorf("agenttest: %q is not the channel %q", t.In.Channel, c.name)
	}
	if t.Key == "" {
		return made, errors.New("agenttest: the key of the thread is empty")
	}
	err = c.call(ctx, "create", t.In, func() {
		var ok bool
		if made, ok = c.created[t.Key]; ok {
			return
		}
		made = t.In
		made.Thread = "thread-" + strconv.Itoa(len(c.threads)+1)
		c.created[t.Key], c.threads = made, append(c.threads, made)
		c.asked, c.state[made] = append(c.asked, t), agent.ThreadOpen
	})
	return made, err
}

// Farewell implements [agent.ThreadHost].
func (c *FakeChannel) Farewell(ctx context.Context, f agent.Farewell) error {
	return c.call(ctx, "farewell", f.Route, func() {
		if c.heard[f.Key] || c.state[f.Route] == agent.ThreadGone {
			return
		}
		c.heard[f.Key] = true
		c.farewells[f.Route] = append(c.farewells[f.Route], f)
		c.said[f.Route] = append(c.said[f.Route], f.Text)
	})
}

// ProbeThread implements [agent.ThreadHost]. A conversation of the channel that is not a thread is
// open. A thread is what [FakeChannel.Set] has said last, else it is open from when it is there,
// see [FakeChannel.At], and gone before.
func (c *FakeChannel) ProbeThread(
	ctx context.Context, at session.Route,
) (state agent.ThreadState, err error) {
	err = c.call(ctx, "probe", at, func() {
		state = agent.ThreadOpen
		if set, known := c.state[at]; known {
			state = set
		} else if isThread(at) {
			state = agent.ThreadGone
		}
	})
	return state, err
}

// isThread reports whether a conversation is a thread.
func isThread(at session.Route) bool { return strings.TrimSpace(at.Thread) != "" }

// reply is the Reply of the channel.
func (c *FakeChannel) reply(ctx context.Context, d agent.Delivery) error {
	at := d.Reply.Route
	return c.call(ctx, "reply", at, func() {
		if c.heard[d.Key] {
			return
		}
		c.heard[d.Key] = true
		c.said[at] = append(c.said[at], d.Reply.Text)
	})
}
