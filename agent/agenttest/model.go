package agenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// scriptRunner is a Runner: the script, as the model of a Loop, or the Runner of the Config,
// watched.
type scriptRunner struct {
	h    *Harness
	proc *process
	own  agent.Runner // of the Config, for the agent of the session
	// external: own runs an external runtime, which no script plays.
	external bool
}

// Run implements agent.Runner.
func (a scriptRunner) Run(ctx context.Context, t *agent.Turn) (res agent.Result, err error) {
	if err := a.h.noteTurnBegin(a.proc, t); err != nil {
		return res, err
	}
	defer a.h.noteTurnEnd(a.proc, t)
	a.h.notePlace(t)
	defer a.h.checkMessages(t, t.Messages, sumOf(t.Messages))
	if err := CheckConversation(t.Messages); err != nil {
		a.h.t.Errorf("agenttest: what turn %d of %s was given: %v", t.N, t.Session.Key, err)
	}
	if a.external {
		return a.own.Run(ctx, t)
	}
	name := a.h.script.nameOf(t)
	if a.h.script == nil {
		if err := a.h.noteCall(a.proc, name); err != nil {
			return res, err
		}
		req := &agent.ModelRequest{
			Model: t.Model, Thinking: t.Thinking, Prompt: t.Prompt, Messages: t.Messages,
			Tools: t.Tools, Schema: t.Schema, Session: t.Session, Run: t.Run, New: t.New,
		}
		if err := a.h.noteRequest(a.proc, name, req); err != nil {
			return res, err
		}
		return a.own.Run(ctx, t)
	}
	loop := &agent.Loop{Model: scriptModel{scriptRunner: a, turn: t, name: name, began: new(bool)}}
	if own, ok := a.own.(*agent.Loop); ok {
		loop.MaxSteps, loop.Parallel = own.MaxSteps, own.Parallel
	}
	return loop.Run(ctx, t)
}

// scriptModel is the model of one turn.
type scriptModel struct {
	scriptRunner
	turn  *agent.Turn
	name  string
	began *bool // the model has been called in this turn
}

// Generate implements agent.Model.
func (p scriptModel) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	if err := p.h.noteCall(p.proc, p.name); err != nil {
		return nil, err
	}
	if err := p.h.noteRequest(p.proc, p.name, req); err != nil {
		return nil, err
	}
	news := p.news(req.Messages)
	key := p.turn.Session.Key
	at := spoken(req.Messages) + p.h.failures(key)
	step, err := p.h.script.next(p.name, at)
	if err != nil {
		return p.unscripted(news, err)
	}
	if err := sleep(ctx, step.after); err != nil {
		return nil, err
	}
	if step.kind == hanging {
		<-ctx.Done()
	}
	if p.proc.dead.Load() {
		return nil, errProcessKilled
	}
	switch step.kind {
	case failing, panicking, hanging:
		if err := p.h.noteFailure(p.proc, key); err != nil {
			return nil, err
		}
		return nil, step.fail(ctx)
	case saying, calling, echoing:
	case stuck:
		<-p.h.released
		return nil, errors.New("agenttest: the test is over")
	}
	resp := &agent.ModelResponse{Text: step.text, Usage: step.usage, Parts: step.parts}
	if step.kind == echoing {
		if resp.Text, err = p.echo(ctx, news); err != nil {
			return nil, err
		}
	}
	for i, c := range step.calls {
		c.ID = fmt.Sprintf("call_%d_%d", at, i)
		resp.ToolCalls = append(resp.ToolCalls, c)
	}
	if strings.TrimSpace(resp.Text) == "" && len(resp.ToolCalls) == 0 && len(resp.Parts) == 0 {
		if err := p.h.noteFailure(p.proc, key); err != nil { // it is not in the conversation
			return nil, err
		}
	}
	if resp.Text != "" {
		req.Delta(resp.Text)
	}
	return resp, nil
}

// fail fails as the step says.
func (s Step) fail(ctx context.Context) error {
	switch s.kind {
	case failing:
		return s.err
	case panicking:
		panic(s.value)
	default:
		return context.Cause(ctx)
	}
}

// news returns what has come since the model last spoke. What a tool returned in an earlier turn is
// not new.
func (p scriptModel) news(messages []agent.Message) []agent.Message {
	list := fresh(messages)
	if !*p.began {
		*p.began = true
		list = slices.DeleteFunc(slices.Clone(list),
			func(m agent.Message) bool { return m.Role == session.MessageTool })
	}
	return list
}

// unscripted fails the test, also when f has returned. The turn of a process that was killed is
// repeated by its successor.
func (p scriptModel) unscripted(news []agent.Message, err error) (*agent.ModelResponse, error) {
	if p.proc.dead.Load() {
		return nil, errProcessKilled
	}
	texts := make([]string, 0, 1)
	for _, m := range news {
		texts = append(texts, m.Text)
	}
	p.h.t.Errorf("agenttest: %v; new in %s: %q", err, p.turn.Session.Key, texts)
	return nil, fmt.Errorf("agenttest: %w", err)
}

// echo returns the text of what is new.
func (p scriptModel) echo(ctx context.Context, news []agent.Message) (string, error) {
	var below []agent.RunInfo
	var texts []string
	for _, m := range news {
		text := m.Text
		if m.Internal && m.ID != "" {
			if below == nil {
				var err error
				if below, err = p.proc.rt.Session(p.turn.Session.Root).Tree(ctx); err != nil {
					return "", fmt.Errorf("agenttest: looking for what has ended: %w", err)
				}
			}
			text = completionText(below, m)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n"), nil
}

// completionText returns what the completion that m carries says.
func completionText(runs []agent.RunInfo, m agent.Message) string {
	for _, r := range runs {
		if string(r.ID) != m.ID {
			continue
		}
		text, ok := announce.Visible(cmp.Or(r.Announcement, r.Result.Text))
		if ok && r.Status == spawn.StatusOK {
			return text
		}
		name := r.Label
		if name == "" {
			name = r.Task
		}
		return name + ": " + r.Status.String()
	}
	return m.Text
}

// sleep lets virtual time pass.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
