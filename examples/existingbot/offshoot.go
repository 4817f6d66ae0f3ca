package main

import (
	"context"
	"os"
	"strconv"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
)

// addSubagents gives the bot sub-agents. The bot keeps its chats, its loop and its model client.
func addSubagents(ctx context.Context, b *Bot) (err error) {
	b.sub, err = agent.Open(ctx, agent.Config{
		Runner:    agent.RunnerFunc(b.runChild),
		Deliver:   b.deliver,
		Tools:     toOffshoot(b.tools),
		Workspace: os.DirFS("workspace"),
	})
	return err
}

// runChild runs one turn of a sub-agent on the loop that the bot already has.
func (b *Bot) runChild(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	msgs := []Msg{{Role: "system", Text: t.Prompt.String()}}
	for _, m := range t.Messages {
		msgs = append(msgs, Msg{Role: string(m.Role), Text: m.Text})
	}
	reply, err := b.loop(ctx, t.Model, msgs, fromOffshoot(t.Tools))
	return agent.Result{Text: reply}, err
}

// deliver gives a finished sub-agent to the chat that asked for it, as a turn like any other.
func (b *Bot) deliver(ctx context.Context, d agent.Delivery) error {
	chat, err := strconv.ParseInt(d.To.Peer(), 10, 64)
	if err != nil {
		return err
	}
	return b.turn(ctx, chat, announce.NewEvent(d.Completion).ForModel())
}

// sessionTools are what the model of a chat needs to use sub-agents: sessions_spawn, subagents and their like.
func (b *Bot) sessionTools(chat int64) []Tool {
	key := session.Must(session.DirectKey("main", "telegram", strconv.FormatInt(chat, 10)))
	return fromOffshoot(b.sub.Session(key).Tools())
}

func toOffshoot(in []Tool) (out []agent.Tool) {
	for _, t := range in {
		out = append(out, agent.Tool{
			Name: t.Name, Description: t.Doc, Schema: t.Schema,
			Call: func(ctx context.Context, c agent.ToolCall) (string, error) {
				return t.Fn(ctx, Call{ID: c.ID, Name: c.Name, Args: c.Args})
			},
		})
	}
	return out
}

func fromOffshoot(in []agent.Tool) (out []Tool) {
	for _, t := range in {
		out = append(out, Tool{
			Name: t.Name, Doc: t.Description, Schema: t.Schema,
			Fn: func(ctx context.Context, c Call) (string, error) {
				return t.Call(ctx, agent.ToolCall{ID: c.ID, Name: c.Name, Args: c.Args})
			},
		})
	}
	return out
}
