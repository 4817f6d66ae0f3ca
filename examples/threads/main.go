// Threads is a chat server in the terminal, with rooms and threads: people talk to a bot, give its
// painter work, and speak to the painter in threads. Its model and its channel are fakes, so it
// needs no key and no network.
package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/command"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// agents are the bot and its painter.
var agents = []policy.Agent{
	{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"painter"}}}, {ID: "painter"},
}

// run is the server until its input ends, or ctx does. An empty state is forgotten at the end.
func run(ctx context.Context, state string, in io.Reader, out io.Writer) (err error) {
	store := session.NewMemory()
	if state != "" {
		if store, err = dirstore.Open(state); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	screen, err := newScreen(out, state)
	if err != nil {
		return err
	}
	rt, err := agent.Open(ctx, agent.Config{
		Store: store, Runner: &agent.Loop{Model: painter{}},
		Workspace: agentctx.Templates(), Rules: policy.Rules{Agents: agents},
		Reply:   screen.reply,
		Threads: agent.Threads{Channels: map[string]agent.ThreadChannel{channel: {Host: screen}}},
		Drain:   5 * time.Second, // for turns under way at the end
	})
	if err != nil {
		return err
	}
	commands, err := command.New(rt, command.Options{Authorize: mayCommand})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	go func() {
		defer end()
		screen.listen(in, func(own session.Key, m agent.Incoming) error {
			if answer, ok := commands.Handle(ctx, own, m); ok {
				return screen.show(m.Route, answer.Text())
			}
			// The Runtime finds out whether a sub-agent is bound there. A line that was typed has
			// no ID: a transport that may post it again gives it one.
			_, err := rt.Session(own).Post(ctx, m)
			return err
		})
	}()
	return rt.Run(ctx)
}

// mayCommand has guests look only.
func mayCommand(_ context.Context, r command.Request) error {
	switch r.Command.(type) {
	case command.List, command.Info, command.Log, command.Agents, command.Help:
		return nil
	}
	if r.Message.From.ID == "guest" {
		return errors.New("a guest looks only")
	}
	return nil
}
