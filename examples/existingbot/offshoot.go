package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// addSubagents gives the bot sub-agents. The bot keeps its chats, its loop and its model client.
func addSubagents(ctx context.Context, b *Bot) (err error) {
	b.sub, err = agent.Open(ctx, agent.Config{
		Runner:    agent.RunnerFunc(b.runChild),
		Deliver:   b.deliver,
		Tools:     toOffshoot(b.tools),
		Workspace: agentctx.Templates(), // or os.DirFS("workspace")
		Drain:     5 * time.Second,      // sub-agents under way may finish
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

// deliver gives the result of a sub-agent to the chat that asked for it, as a turn like any other.
// While the chat is busy, the result waits, and Offshoot calls again in a few seconds. A delivery
// whose key the chat has had is a repeat. The chat has a key once the turn has ended well. A bot
// that keeps its chats over a restart keeps the keys in the same place.
func (b *Bot) deliver(ctx context.Context, d agent.Delivery) error {
	id, err := strconv.ParseInt(d.To.Peer(), 10, 64)
	if err != nil {
		return err
	}
	c := b.chat(id)
	if !c.mu.TryLock() {
		return agent.ErrBusy
	}
	defer c.mu.Unlock()
	if c.had[d.Key] {
		return nil
	}
	event, _ := announce.EventOf(d) // the end of a sub-agent, or what the program announces
	// The result is as the sub-agent wrote it. An announce.Redactor masks credentials in it.
	if err := b.answer(ctx, c, event.ForModel()); err != nil {
		return err
	}
	c.had[d.Key] = true
	return nil
}

// toolsOf returns the bot's own tools and those by which the model of a chat uses sub-agents, such
// as sessions_spawn and subagents.
func (b *Bot) toolsOf(chat int64) ([]Tool, error) {
	key, err := session.DirectKey("main", "telegram", strconv.FormatInt(chat, 10))
	if err != nil {
		return nil, err
	}
	return slices.Concat(b.tools, fromOffshoot(b.sub.Session(key).Tools())), nil
}

// toOffshoot makes tools of Offshoot of the bot's tools.
func toOffshoot(in []Tool) (out []agent.Tool) {
	for _, t := range in {
		out = append(out, agent.Tool{
			Name: t.Name, Description: t.Doc, Schema: t.Schema,
			Call: func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
				out, err := t.Fn(ctx, Call{ID: c.ID, Name: c.Name, Args: c.Args})
				return agent.ToolResult{Text: out}, err
			},
		})
	}
	return out
}

// fromOffshoot makes tools of the bot of Offshoot's tools.
func fromOffshoot(in []agent.Tool) (out []Tool) {
	for _, t := range in {
		out = append(out, Tool{
			Name: t.Name, Doc: t.Description, Schema: t.Schema,
			Fn: func(ctx context.Context, c Call) (string, error) {
				out, err := t.Call(ctx, agent.ToolCall{ID: c.ID, Name: c.Name, Args: c.Args})
				return out.Text, err
			},
		})
	}
	return out
}
