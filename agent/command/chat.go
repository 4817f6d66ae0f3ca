package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// focus binds the thread that the person is in, or a new one in the conversation.
func (p *place) focus(ctx context.Context, c Focus) (Answer, error) {
	by, err := p.owner()
	if err != nil {
		return nil, err
	}
	to, label, err := p.focusOn(ctx, c)
	if err != nil {
		return nil, err
	}
	made, err := p.rt.Focus(ctx, agent.FocusRequest{
		Conversation: p.at, Session: to, By: by, NewThread: p.at.Thread == "", ID: p.id("focus"),
	})
	if err != nil {
		return nil, err
	}
	a := Focused{Binding: made, Label: label, Created: p.at.Thread == ""}
	if shown := p.line(made.Label, text.ShownLabel); shown != "" {
		a.Label = shown
	}
	return a, nil
}

// focusOn returns the session that a target of /focus means: a sub-agent of the session, of the
// conversation's own session or of the chat that its thread belongs to, else a session that
// Options.Reach allows.
func (p *place) focusOn(ctx context.Context, c Focus) (session.Key, string, error) {
	var first error
	for i, of := range p.around() {
		found, err := p.find(ctx, of, c.Target, false)
		if err == nil {
			return found[0].Key, p.row(&found[0]).Label, nil
		}
		bad, ok := errors.AsType[*TargetError](err)
		if !ok || len(bad.Candidates) > 0 {
			return session.Key{}, "", err
		}
		if i == 0 {
			first = err
		}
	}
	if p.opt.Reach == nil {
		return session.Key{}, "", first
	}
	list, err := p.rt.Sessions(ctx, agent.SessionQuery{})
	if len(list) == 0 && err != nil {
		return session.Key{}, "", err
	}
	var found []agent.SessionInfo
	for _, is := range []func(s *agent.SessionInfo) bool{
		func(s *agent.SessionInfo) bool { return s.Key.String() == c.Target },
		func(s *agent.SessionInfo) bool { return s.SessionID == c.Target },
		func(s *agent.SessionInfo) bool {
			return s.Label != "" && strings.EqualFold(text.Line(s.Label), text.Line(c.Target))
		},
	} {
		for i := range list {
			s := &list[i]
			if is(s) && p.permit(ctx, func(ctx context.Context) error {
				return p.opt.Reach(ctx, p.Request, s.Key)
			}) == nil {
				found = append(found, *s)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	switch len(found) {
	case 0:
		return session.Key{}, "", first
	case 1:
		label := p.line(found[0].Label, text.ShownLabel)
		if label == "" {
			label = text.Shorten(text.Line(found[0].Key.String()), maxTask)
		}
		return found[0].Key, label, nil
	}
	e := &TargetError{
		Command: c.Name(), Target: c.Target, err: fmt.Errorf("it may be any of %d", len(found)),
	}
	for _, s := range found {
		e.Candidates = append(e.Candidates, Row{
			Run: s.Run, Session: s.Key, Label: p.line(s.Label, text.ShownLabel), Agent: s.Agent,
			Status: s.Status,
		})
	}
	return session.Key{}, "", e
}

// around returns the sessions whose sub-agents a person in the conversation knows of.
func (p *place) around() []*agent.Session {
	list := []*agent.Session{p.here}
	if p.here.Key() != p.Session {
		list = append(list, p.rt.Session(p.Session))
	}
	if chat, _, ok := p.Session.CutThread(); ok {
		list = append(list, p.rt.Session(chat))
	}
	return list
}

func (p *place) unfocus(ctx context.Context) (Answer, error) {
	if p.bound.By == "" {
		return nil, ErrNotFocused
	}
	by, err := p.owner()
	if err != nil {
		return nil, err
	}
	ended, err := p.rt.Unfocus(ctx, agent.UnfocusRequest{Conversation: p.at, By: by})
	if errors.Is(err, agent.ErrNotFound) {
		return nil, errors.Join(ErrNotFocused, err)
	}
	if err != nil {
		return nil, err
	}
	return Unfocused{Binding: ended.Binding}, nil
}

func (p *place) agents(ctx context.Context) (Answer, error) {
	all, err := runs(ctx, p.here)
	if err != nil {
		return nil, err
	}
	var a Bound
	slices.SortStableFunc(all, func(x, y agent.RunInfo) int { return y.Created.Compare(x.Created) })
	for i := range all {
		if r := &all[i]; !r.Status.Terminal() || len(r.Conversations) > 0 {
			a.Rows = append(a.Rows, p.row(r))
		}
	}
	bound, err := p.rt.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range bound {
		if b.Target == p.here.Key() {
			a.Here = append(a.Here, b.Conversation)
		}
	}
	return a, nil
}

func (p *place) limit(ctx context.Context, c Limit) (Answer, error) {
	if c.Kind > LimitMaxAge || c.Value < 0 || c.Value > maxLimit {
		return nil, usageError("/session", "duration", "", "it is from 0 to 1,000,000 hours")
	}
	if p.bound.By == "" {
		return nil, ErrNotFocused
	}
	if !c.Set {
		return Limited{Kind: c.Kind, Bindings: []binding.Binding{p.bound}}, nil
	}
	by, err := p.owner()
	if err != nil {
		return nil, err
	}
	limit := binding.Limit{Idle: &c.Value}
	if c.Kind == LimitMaxAge {
		limit = binding.Limit{MaxAge: &c.Value}
	}
	changed, err := p.rt.LimitFocus(ctx, p.at, by, limit)
	if errors.Is(err, agent.ErrNotFound) {
		return nil, errors.Join(ErrNotFocused, err)
	}
	if err != nil {
		return nil, err
	}
	return Limited{Kind: c.Kind, Set: true, Bindings: changed}, nil
}

func (p *place) stop(ctx context.Context) (Answer, error) {
	all, err := runs(ctx, p.here)
	if err != nil {
		return nil, err
	}
	a := Stopped{AbortRequester: p.here.IsCallers()}
	for i := range all {
		if !all[i].Status.Terminal() {
			a.Runs++
		}
	}
	ctx, cancel := p.patience(ctx)
	defer cancel()
	a.Err = p.here.Stop(ctx)
	return a, a.Err
}

func (p *place) reset(ctx context.Context, c Reset) (Answer, error) {
	wait, cancel := p.patience(ctx)
	defer cancel()
	if err := p.here.ResetOnce(wait, p.id("reset")); err != nil {
		return nil, err
	}
	if text.IsBlank(c.Text) {
		return Begun{}, nil
	}
	m := p.Message
	m.Text = c.Text
	if _, err := p.rt.Session(p.Session).Post(ctx, m); err != nil {
		return nil, err
	}
	return Begun{Posted: true}, nil
}

func (p *place) compact(ctx context.Context) (Answer, error) {
	ctx, cancel := p.patience(ctx)
	defer cancel()
	if err := p.here.Compact(ctx); err != nil {
		return nil, err
	}
	return Compacted{}, nil
}
