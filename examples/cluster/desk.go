package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/natsstore"
	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// A desk is one process of the help desk: people ask it in a chat of their own, which has its name.
type desk struct {
	name string
	work time.Duration // of a clerk, for one question
	out  io.Writer     // each line is one Write
}

// lease is how long the chats of a desk wait that has died. It is 30 seconds unless set: a takeover
// that one can watch is sooner.
const lease = 5 * time.Second

// An engine is where the store is that all desks share: an address in one of the two.
type engine struct{ postgres, nats, monitor string }

// open opens the store for the desk of a name. That is the whole difference between the two.
func (e engine) open(ctx context.Context, name string) (*session.Store, error) {
	if e.nats == "" {
		return pgstore.Open(ctx, e.postgres, pgstore.Options{
			Schema: "offshoot_desk", Process: name, Lease: lease,
		})
	}
	o := natsstore.Options{Name: "offshoot_desk", Process: name, Lease: lease}
	if o.TrustSync = e.monitor == ""; !o.TrustSync {
		o.Monitor = []string{e.monitor}
	}
	return natsstore.Open(ctx, e.nats, o)
}

// open opens the store, and the Runtime on it.
func (d desk) open(ctx context.Context, e engine) (*agent.Runtime, *session.Store, error) {
	store, err := e.open(ctx, d.name)
	if err != nil {
		return nil, nil, err
	}
	rt, err := agent.Open(ctx, agent.Config{
		Store: store, Runner: agent.RunnerFunc(d.answer), Reply: d.reply,
		Drain: 10 * time.Second, // for questions that are being answered at the end
	})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return rt, store, nil
}

// run answers questions until its input ends, or ctx does, and then hands over.
func (d desk) run(ctx context.Context, e engine, in io.Reader) (err error) {
	rt, store, err := d.open(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ctx, end := context.WithCancel(ctx)
	go func() {
		defer end()
		d.listen(ctx, rt, in)
	}()
	d.say("the desk is open; type a question")
	return rt.Run(ctx)
}

// listen posts what people type.
func (d desk) listen(ctx context.Context, rt *agent.Runtime, in io.Reader) {
	chat := rt.Session(session.Must(session.DirectKey("main", "desk", d.name)))
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20) // room for a question of 1,000,000 bytes
	for lines.Scan() {
		question := strings.TrimSpace(lines.Text())
		if question == "" {
			continue
		}
		if _, err := chat.Post(ctx, agent.Incoming{Text: question}); err != nil {
			d.say("cannot take %q: %v", question, err)
		}
	}
	if err := lines.Err(); err != nil {
		d.say("the input cannot be read any further: %v", err)
	}
}

// answer is the Runner. It runs in whichever process has the chat: the one that was asked, or the
// one that has taken over.
func (d desk) answer(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	if t.Run != "" {
		return d.clerk(ctx, t)
	}
	if chat := t.Session.Key.String(); !strings.HasSuffix(chat, ":"+d.name) {
		d.say("took over %s", chat)
	}
	var answers []string
	for _, m := range t.Messages[len(t.Messages)-t.New:] {
		if m.Internal {
			continue
		}
		// The key makes it one clerk for a question, also in a turn that is repeated. Again has
		// another one begin where the one before died with its process.
		clerk, err := t.Spawn(ctx, agent.Task{
			Text: m.Text, Label: m.Text, Key: fmt.Sprint("question ", m.Ord), Again: true,
		})
		if err != nil {
			return agent.Result{}, err
		}
		found, err := clerk.Wait(ctx)
		if err != nil {
			return agent.Result{}, err
		}
		answers = append(answers, fmt.Sprintf("%s — %s", m.Text, found))
	}
	return agent.Result{Text: strings.Join(answers, "\n")}, nil
}

// clerk is the sub-agent that looks a question up.
func (d desk) clerk(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	d.say("a clerk looks up %q", t.Label)
	select {
	case <-time.After(d.work):
		return agent.Result{Text: "it is in the second drawer"}, nil
	case <-ctx.Done():
		return agent.Result{}, ctx.Err()
	}
}

// reply is the transport: it says an answer where the process is that has the chat now.
func (d desk) reply(_ context.Context, delivery agent.Delivery) error {
	d.say("%s", delivery.Reply.Text)
	return nil
}

func (d desk) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, "%s: %s\n", d.name, fmt.Sprintf(format, args...))
}
