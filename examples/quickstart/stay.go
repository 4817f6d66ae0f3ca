package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// durableThinkTime is how long the script thinks for each call when a person watches, so that there
// is time to kill the process.
const durableThinkTime = 700 * time.Millisecond

// A durableBot is the bot without the story: one request over a directory that outlives the
// process.
type durableBot struct {
	mu        sync.Mutex
	out       io.Writer
	unwatched bool // the output is not a terminal, so the script does not pause
}

func (c *durableBot) print(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

// answerDurably answers one request with everything durable in a directory. Killed at any moment
// and run again, it goes on from there: the request has an id, so it is asked once however often it
// is posted.
func answerDurably(ctx context.Context, o options, w workspace, stdout io.Writer) (err error) {
	_, watched := newPaper(stdout)
	c := &durableBot{out: stdout, unwatched: !watched}
	store, err := dirstore.Open(o.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	rt, err := agent.Open(ctx, c.config(o, w, store))
	if err != nil {
		return err
	}
	desk := rt.Session(chatKey)
	known, err := desk.Tree(ctx)
	if err != nil {
		return err
	}
	if len(known) > 0 {
		c.print("found in %s, from another life:", o.state)
		for _, r := range known {
			c.print("  %-12s %s", r.Status, stripControls(r.Label))
		}
	}
	c.print("process %d; kill -9 it at any moment and run it again", os.Getpid())

	ctx, cancel := context.WithCancel(ctx)
	events := desk.Events(ctx) // from here on
	var watching sync.WaitGroup
	watching.Go(func() { c.watch(events) })
	running := make(chan error, 1)
	go func() { running <- rt.Run(ctx) }()
	if _, err = desk.Post(ctx, agent.Incoming{ID: "request: " + o.task, Text: o.task}); err == nil {
		err = desk.Idle(ctx)
	}
	cancel()
	err = errors.Join(err, <-running)
	watching.Wait()
	if err == nil {
		c.print(
			"nothing is pending; ask something else with -task, or begin again without %s", o.state,
		)
	}
	return err
}

func (c *durableBot) config(o options, w workspace, store *session.Store) agent.Config {
	think := func(ctx context.Context) error {
		if c.unwatched {
			return ctx.Err()
		}
		t := time.NewTimer(durableThinkTime)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	cfg := newConfig(&agent.Loop{Model: script{think: think}}, newDesk().tools(), w, o.depth)
	cfg.Store = store
	cfg.Reply = func(_ context.Context, d agent.Delivery) error {
		again := ""
		if d.MayRepeat { // a program that keeps the keys it has shown would show it once
			again = " (perhaps you have read it already)"
		}
		c.print("\nto you%s:\n%s\n", again, stripControls(d.Reply.Text))
		return nil
	}
	return cfg
}

// watch prints what happens to the sub-agents.
func (c *durableBot) watch(events iter.Seq2[agent.TreeEvent, error]) {
	for e, err := range events {
		if err != nil {
			c.print("  the sub-agents cannot be watched: %v", err)
		}
		if e.Run != "" && (e.Kind == agent.EventAdmitted || e.Kind == agent.EventEnded) {
			c.print("  %-12s %s", e.Status, stripControls(e.Label))
		}
	}
}
