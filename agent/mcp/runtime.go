package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// SessionIdle is how long the tools of [SessionTools] are not called until a new message begins.
const SessionIdle = 10 * time.Minute

// SessionTools returns the session tools of a session, such as sessions_spawn, for a [Service]: a
// loop that runs elsewhere gives out work with them, in the name of the session. The results of its
// sub-agents come to agent.Config.Deliver.
//
// A client does not say where a message of a person begins. So calls belong to one message until
// none has come for SessionIdle, and together they count against the limit of runs of one message.
func SessionTools(s *agent.Session) func(ctx context.Context) []agent.Tool {
	set := &toolSet{of: s, now: time.Now}
	return func(context.Context) []agent.Tool { return set.tools() }
}

// A toolSet is the tools of a session for the message that is under way.
type toolSet struct {
	of   *agent.Session
	now  func() time.Time
	mu   sync.Mutex
	last time.Time // when a tool was called
	list []agent.Tool
}

// tools returns the tools, each of which looks up, when it is called, what it is then.
func (s *toolSet) tools() []agent.Tool {
	tools := s.of.Tools()
	for i := range tools {
		tools[i].Call = func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
			for _, t := range s.called() {
				if t.Name == c.Name {
					return t.Call(ctx, c)
				}
			}
			return agent.ToolResult{}, fmt.Errorf("mcp: the session has no tool %q now", c.Name)
		}
	}
	return tools
}

// called returns the set for a call.
func (s *toolSet) called() []agent.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.list == nil || now.Sub(s.last) >= SessionIdle {
		s.list = s.of.Tools()
	}
	s.last = now
	return s.list
}

// Chats says which sessions of a Runtime the tools of [RuntimeTools] are for.
type Chats struct {
	// Agent is whose chats they are. Empty: "main".
	Agent string
	// Channel is the channel of their keys, so that a client sees no chat of another. Empty: "mcp".
	Channel string
}

// RuntimeTools returns the tools of a bot as a server: ask says something in a chat and waits for
// the answer, history shows what was said there, subagents shows the work that was given out, and
// cancel ends the turn under way.
//
// The client names the chat, and its name is the peer of the session's key: each client of the
// Service reaches each of the Chats. An answer that is not waited for is said all the same, and
// history has it. Texts are what people may see, with the credentials masked that
// [agent.Config].Redact says.
func RuntimeTools(rt *agent.Runtime, of Chats) func(ctx context.Context) []agent.Tool {
	chats := &chatTools{
		rt: rt, agent: cmp.Or(of.Agent, "main"), channel: cmp.Or(of.Channel, "mcp"),
	}
	tools := []agent.Tool{
		agent.NewTool("ask", "Says something to the bot and returns its answer. "+
			"The bot remembers what was said in the same chat before.", chats.ask),
		readOnly(agent.NewTool("history", "Shows the last messages of a chat.", chats.history)),
		readOnly(agent.NewTool("subagents", "Lists the work that the bot has given to sub-agents "+
			"in a chat: its state, what it is, and what came of it.", chats.subagents)),
		agent.NewTool("cancel", "Ends the answer that is under way in a chat. "+
			"Sub-agents go on.", chats.cancel),
	}
	return func(context.Context) []agent.Tool { return tools }
}

func readOnly(t agent.Tool) agent.Tool {
	t.Effect = agent.EffectReadOnly
	return t
}

// chatTools are the tools of RuntimeTools.
type chatTools struct {
	rt             *agent.Runtime
	agent, channel string
}

type askInput struct {
	Text string `json:"text" doc:"What is said."`
	Chat string `json:"chat,omitempty" doc:"The name of the chat. Without it: default."`
	ID   string `json:"id,omitempty" doc:"A name for the message. A message with a name that was used before is not said again."`
}

type chatInput struct {
	Chat string `json:"chat,omitempty" doc:"The name of the chat. Without it: default."`
}

type historyInput struct {
	Chat string `json:"chat,omitempty" doc:"The name of the chat. Without it: default."`
	Last int    `json:"last,omitempty" doc:"How many messages at most. Without it: 20."`
}

func (t *chatTools) session(chat string) (*agent.Session, error) {
	key, err := session.DirectKey(t.agent, t.channel, cmp.Or(chat, "default"))
	if err != nil {
		return nil, err
	}
	return t.rt.Session(key), nil
}

func (t *chatTools) ask(ctx context.Context, in askInput) (string, error) {
	s, err := t.session(in.Chat)
	if err != nil {
		return "", err
	}
	reply, err := s.PostAndWait(ctx, agent.Incoming{ID: in.ID, Text: in.Text})
	switch {
	case errors.Is(err, agent.ErrSilent):
		return "(The bot has read it and says nothing.)", nil
	case errors.Is(err, agent.ErrAnswered):
		return "(It was answered before; see history.)", nil
	case err != nil:
		return "", err
	case reply.Failed:
		return "", errors.New(reply.Text)
	}
	return reply.Text, nil
}

func (t *chatTools) history(ctx context.Context, in historyInput) (string, error) {
	s, err := t.session(in.Chat)
	if err != nil {
		return "", err
	}
	if in.Last <= 0 {
		in.Last = 20
	}
	page, err := s.History(ctx, agent.HistoryQuery{Last: in.Last})
	if err != nil && !errors.Is(err, spawn.ErrNotFound) { // nothing was ever said there
		return "", err
	}
	var b strings.Builder
	for _, line := range page.Lines {
		fmt.Fprintf(&b, "%s: %s\n", line.Message.Role, line.Message.Text)
	}
	return cmp.Or(strings.TrimSpace(b.String()), "(Nothing was said.)"), nil
}

// shownRun is a run as a client sees it.
type shownRun struct {
	Run    agent.RunID `json:"run"`
	Status string      `json:"status"`
	Label  string      `json:"label,omitempty"`
	Task   string      `json:"task"`
	Result string      `json:"result,omitempty"`
	Error  string      `json:"error,omitempty"`
}

// maxShown is how many bytes of a task and of a result a client sees.
const maxShown = 2000

func (t *chatTools) subagents(ctx context.Context, in chatInput) ([]shownRun, error) {
	s, err := t.session(in.Chat)
	if err != nil {
		return nil, err
	}
	runs, err := s.Tree(ctx)
	if err != nil && !errors.Is(err, spawn.ErrNotFound) {
		return nil, err
	}
	list := make([]shownRun, 0, len(runs))
	for _, r := range runs {
		list = append(list, shownRun{
			Run: r.ID, Status: r.Status.String(), Label: t.shown(r.Label), Task: t.shown(r.Task),
			Result: t.shown(r.Result.Text), Error: t.shown(r.Error),
		})
	}
	return list, nil
}

// shown returns what people may see of the beginning of a text.
func (t *chatTools) shown(text string) string { return bounded(t.rt.Shown(text), maxShown) }

func (t *chatTools) cancel(ctx context.Context, in chatInput) (string, error) {
	s, err := t.session(in.Chat)
	if err != nil {
		return "", err
	}
	if err := s.CancelTurn(ctx); err != nil && !errors.Is(err, spawn.ErrNotFound) {
		return "", err
	}
	return "Done.", nil
}
