package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// ponder is how long the script thinks when somebody is to have the time to kill it.
const ponder = 700 * time.Millisecond

// A counter is the bot without the story: one request over a directory that outlives the process.
type counter struct {
	mu   sync.Mutex
	out  io.Writer
	bare bool // nobody watches, so nothing takes time
}

func (c *counter) print(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

// stay answers one request with everything durable in a directory. Killed at any moment and run again, it goes on from there: the
// request has an id, so it is asked once however often it is posted.
func stay(ctx context.Context, o options, w workspace, stdout io.Writer) (err error) {
	_, watched := newPaper(stdout)
	c := &counter{out: stdout, bare: !watched}
	store, err := dirstore.Open(o.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	rt, err := agent.Open(ctx, c.config(o, w, store))
	if err != nil {
		return err
	}
	desk := rt.Session(chat)
	known, err := desk.Tree(ctx)
	if err != nil {
		return err
	}
	if len(known) > 0 {
		c.print("found in %s, from another life:", o.state)
		for _, r := range known {
			c.print("  %-12s %s", r.Status, clean(r.Label))
		}
	}
	c.print("process %d; kill -9 it at any moment and run it again", os.Getpid())

	ctx, cancel := context.WithCancel(ctx)
	events := desk.Events(ctx) // from here on
	var watching sync.WaitGroup
	watching.Go(func() { c.watch(events) })
	running := make(chan error, 1)
	go func() { running <- rt.Run(ctx) }()
	if err = desk.Post(ctx, agent.Message{ID: "request: " + o.task, Text: o.task}); err == nil {
		err = desk.Idle(ctx)
	}
	cancel()
	err = errors.Join(err, <-running)
	watching.Wait()
	if err == nil {
		c.print("nothing is pending; ask something else with -task, or begin again without %s", o.state)
	}
	return err
}

func (c *counter) config(o options, w workspace, store *session.Store) agent.Config {
	think := func(ctx context.Context) error {
		if c.bare {
			return ctx.Err()
		}
		t := time.NewTimer(ponder)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	cfg := configOf(&agent.Loop{Model: script{think: think}}, newDesk().tools(), w, o.depth)
	cfg.Store = store
	cfg.Reply = func(_ context.Context, d agent.Delivery) error {
		again := ""
		if d.MayRepeat { // a receiver that keeps the keys it has shown knows, and shows it once
			again = " (perhaps you have read it already)"
		}
		c.print("\nto you%s:\n%s\n", again, clean(d.Reply.Text))
		return nil
	}
	return cfg
}

// watch prints what happens to the sub-agents.
func (c *counter) watch(events func(func(agent.TreeEvent) bool)) {
	for e := range events {
		if e.Run != "" && (e.Kind == agent.EventAdmitted || e.Kind == agent.EventEnded) {
			c.print("  %-12s %s", e.Status, clean(e.Label))
		}
	}
}
