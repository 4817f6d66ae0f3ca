package command

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/internal/target"
	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// line returns what people may see of a text that a model may have chosen, on one line and without
// what a channel would read as a mention, a link or mark-up.
func (h *Handler) line(s string, most int) string {
	shown := secret.OneLine(h.rt.Shown, secret.Head(h.rt.Shown, s, 16*most))
	return text.Shorten(text.Line(thread.Plain(shown)), most)
}

// row returns what lists have of a run, without a number.
func (p *place) row(r *agent.RunInfo) Row {
	row := Row{
		Run: r.ID, Session: r.Key, Name: r.Name, Agent: r.Agent, Status: r.Status,
		Label: p.line(target.Called(r), text.ShownLabel), Task: p.line(r.Task, maxTask),
		Model: r.Model.Actual, Elapsed: r.Elapsed(time.Now()), Tokens: r.Result.Usage.Total(),
		Conversations: r.Conversations,
	}
	if row.Model == "" {
		row.Model = r.Model.Resolved
	}
	row.Model = p.line(row.Model, text.MaxName)
	if row.Label == "" {
		row.Label = "run " + shortID(r.ID)
	}
	if row.Task == row.Label || r.Label == "" {
		row.Task = ""
	}
	row.Nested = r.Parent != p.here.Key()
	return row
}

func (p *place) list(ctx context.Context) (Answer, error) {
	list, err := p.here.ListRuns(ctx, p.query(false))
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(list.Runs))
	for i := range list.Runs {
		rows[i] = p.row(&list.Runs[i])
		rows[i].Number = i + 1
	}
	return Listed{Active: rows[:list.Active], Recent: rows[list.Active:]}, nil
}

// atOnce is how many sub-agents are stopped at the same time.
const atOnce = 16

func (p *place) kill(ctx context.Context, c Kill) (Answer, error) {
	found, err := p.find(ctx, p.here, c.Target, true)
	if err != nil {
		return nil, err
	}
	all, err := runs(ctx, p.here)
	if err != nil {
		return nil, err
	}
	a := Killed{All: len(found) != 1 || c.Target == "*" || strings.EqualFold(c.Target, "all")}
	named := make(map[session.Key]bool)
	var stop []agent.RunInfo // without those that end with one above them
	for i := range found {
		r := &found[i]
		switch {
		case r.Status.Terminal():
			a.Finished = append(a.Finished, p.row(r))
		case named[r.Parent]:
			named[r.Key] = true
			a.Below++
		default:
			named[r.Key] = true
			stop = append(stop, *r)
			a.Stopped = append(a.Stopped, p.row(r))
		}
	}
	for i := range all { // parents stand before their children
		if r := &all[i]; named[r.Parent] && !named[r.Key] && !r.Status.Terminal() {
			named[r.Key] = true
			a.Below++
		}
	}
	ctx, cancel := p.patience(ctx)
	defer cancel()
	return a, p.stopAll(ctx, stop)
}

// stopAll stops runs, and returns why not all of them are over.
func (p *place) stopAll(ctx context.Context, list []agent.RunInfo) error {
	failed := make([]error, len(list))
	slots := make(chan struct{}, atOnce)
	var work sync.WaitGroup
	for i := range list {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			child, err := p.child(ctx, &list[i])
			if err == nil {
				err = child.Stop(ctx)
			}
			if !errors.Is(err, agent.ErrEnded) { // it has ended meanwhile
				failed[i] = err
			}
		})
	}
	work.Wait()
	return errors.Join(failed...)
}

func (p *place) info(ctx context.Context, c Info) (Answer, error) {
	r, row, err := p.one(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	a := Described{
		Row: row, Task: p.line(r.Task, maxWhole), SessionID: r.SessionID,
		Transcript: p.rt.Transcript(session.Ref{Key: r.Key, SessionID: r.SessionID}),
		Created:    r.Created, Started: r.Started, Ended: r.Ended, Deadline: r.Deadline,
		Now: time.Now(), Waits: waitsFor(&r), Thinking: r.Thinking, Turns: r.Turns,
		Cost: r.Result.Usage.Cost, Missed: r.Missed,
	}
	if r.Delete {
		a.Cleanup = agent.CleanupDelete
	}
	for _, s := range r.Senders {
		a.For = append(a.For, p.person(s))
	}
	if now, err := p.rt.Session(r.Key).Status(ctx); err == nil {
		for _, v := range now.Withheld {
			a.Withheld = append(a.Withheld, v.Tool)
		}
	}
	if r.Status.Terminal() {
		a.Outcome = r.Status.String()
		if why := p.line(r.Error, maxWhole); why != "" {
			a.Outcome += ": " + why
		}
	}
	return a, nil
}

// person names one of the people for whom a run works.
func (h *Handler) person(s policy.Sender) string {
	who, of := h.line(s.ID, text.MaxName), h.line(s.Channel, text.MaxName)
	switch s.ID {
	case "":
		who = "a person without an ID"
	case "*": // of a Sender, and of its channel
		who = "more people than are kept"
	}
	if of == "" || s.Channel == "*" {
		return who
	}
	return of + " " + who
}

// waitsFor says what a run waits for.
func waitsFor(r *agent.RunInfo) string {
	subagents := text.Count(r.Children, "sub-agent", "sub-agents")
	switch {
	case r.Status == agent.StatusQueued:
		return "a free slot"
	case r.Status == agent.StatusWaiting && r.Children > 0:
		return subagents
	case r.Status == agent.StatusWaiting:
		return "its next turn"
	case r.Status == agent.StatusStopping && r.Children > 0:
		return "the end of " + subagents
	case r.Status == agent.StatusStopping:
		return "the end of its turn"
	}
	return ""
}

// maxPages is how many pages of a history are read for one log.
const maxPages = 5

func (p *place) log(ctx context.Context, c Log) (Answer, error) {
	if c.Limit < 0 || c.Limit > maxLines {
		return nil, usageError(c.Name(), "limit", "", "the limit is from 1 to 200 messages")
	}
	limit := c.Limit
	if limit == 0 {
		limit = someLines
	}
	r, row, err := p.one(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	a := Logged{Row: row}
	var newest []Said // the newest first
	q := agent.HistoryQuery{Last: maxLines}
	for range maxPages {
		page, err := p.rt.Session(r.Key).History(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := len(page.Lines) - 1; i >= 0 && len(newest) <= limit; i-- {
			said := saidOf(&page.Lines[i], c.Tools)
			slices.Reverse(said)
			newest = append(newest, said...)
		}
		a.More = page.Earlier != 0
		if !a.More || len(newest) > limit {
			break
		}
		q.Before = page.Earlier
	}
	if len(newest) > limit {
		newest, a.More = newest[:limit], true
	}
	slices.Reverse(newest)
	a.Said = newest
	return a, nil
}

// saidOf returns what a log has of a line: what it says, and the tools that it calls.
func saidOf(line *agent.HistoryLine, tools bool) (said []Said) {
	m := &line.Message
	by := map[session.MessageRole]string{
		session.MessageUser: "User", session.MessageAssistant: "Assistant",
		session.MessageTool: "Tool",
	}[m.Role]
	switch {
	case by == "", by == "Tool" && !tools:
		return nil
	case m.Internal, m.Synthetic && m.Role == session.MessageUser:
		by = "System"
	}
	if !text.IsBlank(m.Text) {
		head := text.Head
		if line.Cut {
			head = text.Rehead
		}
		said = append(said, Said{By: by, Text: head(strings.TrimSpace(m.Text), maxSaid)})
	}
	for _, c := range m.ToolCalls {
		if tools {
			said = append(said, Said{
				By:   "Tool",
				Text: text.Head("calls "+text.Word(c.Name)+" "+string(c.Args), maxSaid),
			})
		}
	}
	return said
}

func (p *place) steer(ctx context.Context, c Steer) (Answer, error) {
	r, row, err := p.one(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	child, err := p.child(ctx, &r)
	if err != nil {
		return nil, err
	}
	senders, err := p.senders(ctx)
	if err == nil {
		err = child.SteerOnce(ctx, p.id("steer"), c.Text, senders...)
	}
	if err != nil {
		return nil, err
	}
	return Steered{Row: row}, nil
}

func (p *place) send(ctx context.Context, c Send) (Answer, error) {
	if n := utf8.RuneCountInString(c.Text); n > maxMessage || text.IsBlank(c.Text) {
		return nil, usageError(c.Name(), "message", "", "it has from 1 to 4000 characters")
	}
	r, row, err := p.one(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	m := agent.Incoming{
		ID: p.id("send"), Text: c.Text, From: p.Message.From, At: p.Message.At,
	}
	if m.Senders, err = p.senders(ctx); err != nil {
		return nil, err
	}
	unsent, ok := p.pace.Pass(target.Pair{To: r.Key}, m.ID, minPause, time.Now())
	if !ok {
		return nil, ErrSlow
	}
	receipt, err := p.rt.Session(r.Key).Post(ctx, m)
	if err != nil {
		if !errors.Is(err, agent.ErrUnconfirmed) && ctx.Err() == nil {
			unsent()
		}
		return nil, err
	}
	a := Sent{Row: row, Run: receipt.Run, Began: receipt.Began}
	child, err := agent.ChildOf[string](ctx, p.here, receipt)
	if err != nil {
		return nil, err
	}
	wait, cancel := p.patience(ctx)
	defer cancel()
	said, err := child.Wait(wait)
	ended, failed := errors.AsType[*agent.RunError](err)
	switch {
	case errors.Is(err, errWaited) || err != nil && context.Cause(wait) != nil && ctx.Err() == nil:
		a.Running = true
		return a, nil
	case failed:
		said = ended.Run.Result.Text
		a.Problem = p.line(ended.Run.Status.String()+": "+ended.Run.Error, maxWhole)
	case err != nil: // the message is there
		return a, nil
	}
	a.Reply = text.Bound(strings.TrimSpace(p.rt.Shown(said)), maxReply)
	return a, nil
}

func (p *place) spawn(ctx context.Context, c Spawn) (Answer, error) {
	// A secret of several words is torn by the flags, and what is kept of it could not be masked.
	mask := p.masker(p.Message.Text)
	for _, word := range [...]struct{ field, value string }{
		{"agent", c.Agent}, {"--model", c.Model}, {"--thinking", c.Thinking},
	} {
		if seen := mask(word.value); seen != word.value {
			return nil, usageError(c.Name(), word.field, seen, "it has a credential, or a part of one")
		}
	}
	from, err := p.spawner(ctx)
	if err != nil {
		return nil, err
	}
	task := agent.Task{
		Text: c.Task, Agent: c.Agent, Model: c.Model, Thinking: c.Thinking,
		Key: p.id("spawn"), Update: true, Conversation: p.at,
	}
	if task.Senders, err = p.senders(ctx); err != nil {
		return nil, err
	}
	child, err := from.Spawn(ctx, task)
	if bad, ok := errors.AsType[*agent.InputError](err); ok && bad.Field == "Task.Update" {
		// Nothing says replies of this bot to people: the program is told of the end.
		task.Update, task.Announce, task.Conversation = false, true, session.Route{}
		child, err = from.Spawn(ctx, task)
	}
	if err != nil {
		return nil, err
	}
	a := Spawned{Agent: p.line(c.Agent, text.MaxName), Run: child.ID(), Session: child.Key()}
	if r, err := child.Info(ctx); err == nil {
		for _, w := range r.Warnings {
			a.Warnings = append(a.Warnings, p.line(w, maxWhole))
		}
	}
	return a, nil
}

// spawner returns the session that spawns what the person asks for: the one that the conversation
// speaks to, or the top-level one of its tree, since only that can have people told of the end.
func (p *place) spawner(ctx context.Context) (*agent.Session, error) {
	if !p.here.Key().IsSubagent() {
		return p.here, nil
	}
	own, err := p.here.OwnRuns(ctx)
	if err != nil {
		return nil, err
	}
	return p.rt.Session(own[0].Root), nil
}
