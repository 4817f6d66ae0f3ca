package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// This file has the tools with which a model looks at agents and sessions. Each asks policy at
// every call. What a session may not see is answered as what is not there.

var (
	agentsSchema       = json.RawMessage(`{"type":"object","properties":{}}`)
	sessionsListSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"kinds":{"type":"array","items":{"type":"string","enum":` + kindEnum() + `},` +
		`"description":"default: all"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":200,"description":"those that were active last; default: 50"},` +
		`"activeMinutes":{"type":"integer","minimum":0,"description":"only those that were active so many minutes ago or later; 0 and default: all"},` +
		`"messageLimit":{"type":"integer","minimum":0,"maximum":20,"description":"how many of the last messages to show of each; default: 0"}` +
		`}}`)
	historySchema = json.RawMessage(`{"type":"object","properties":{` +
		`"sessionKey":{"type":"string","description":"the key or the id of a session, or a sub-agent as in subagents; default: this session"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"messages; default: 200"},` +
		`"includeTools":{"type":"boolean","description":"show tool calls and their results; default: false"},` +
		`"before":{"type":"integer","minimum":0,"description":"only messages before this position: what an answer calls earlier; 0 (default): the last ones"},` +
		`"file":{"type":"string","description":"the hash of a file of a message, to be shown in place of messages"}` +
		`}}`)
	statusSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"sessionKey":{"type":"string","description":"the key or the id of a session, or a sub-agent as in subagents; default: this session"}` +
		`}}`)
)

// Bounds of what the tools that look at sessions answer.
const (
	sessionsShown    = 50  // unless the model says otherwise
	maxSessionsShown = 200 // sessions in a list
	maxActiveMinutes = 1e6 // about two years
	maxListMessages  = 20  // of each session in a list
	maxShownFile     = 64 << 10
	maxHistoryPages  = 8 // that are read for one answer
)

// viewKinds are the kinds that a session can have.
func viewKinds() (kinds []string) {
	for k := session.KindMain; k <= session.KindGlobal; k++ {
		kinds = append(kinds, k.String())
	}
	return kinds
}

func kindEnum() string {
	data, _ := json.Marshal(viewKinds()) // a list of words
	return string(data)
}

// agentLine is what a model is told of an agent that it may spawn.
type agentLine struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Model string `json:"model,omitempty"`
}

// agents is the tool agents_list.
func (h toolHost) agents(ctx context.Context, c ToolCall) (string, error) {
	if _, err := readArguments(toolAgents, c.Args); err != nil {
		return "", err
	}
	caller, rules, err := h.caller(ctx)
	if err != nil {
		return "", err
	}
	if _, err := h.runs(ctx); err != nil && !errors.Is(err, ErrNotFound) {
		return "", err // a turn that is over, or a shutdown
	}
	caller.Model = h.rt.cfg().model(h.session.key)
	if h.turn != nil {
		caller.Model = h.turn.Model
	}
	agents := []agentLine{}
	for _, id := range rules.Targets(caller) {
		agents = append(agents, agentLine{
			ID: id, Name: rules.AgentName(id), Model: rules.ModelFor(caller, id),
		})
	}
	return jsonReply(map[string]any{
		"requester": rules.AgentOf(h.session.key), "allowAny": rules.AllowsAny(h.session.key),
		"agents": agents,
	})
}

// withAgents returns the schema of sessions_spawn with the agents that a session may spawn, as
// policy decides it. Where external runtimes are, others may run what they run, and where a
// function decides on sandboxes, it is asked for a child alone.
func (c *Config) withAgents(schema json.RawMessage, caller policy.Caller) json.RawMessage {
	if len(c.Runners.Runtimes) > 0 || c.Rules.Sandbox.Decide != nil {
		return schema
	}
	ids, err := json.Marshal(c.Rules.Targets(caller))
	if err != nil || string(ids) == "null" || string(ids) == "[]" {
		return schema
	}
	const is = `"agentId":{"type":"string",`
	return bytes.Replace(schema, []byte(is), []byte(is+`"enum":`+string(ids)+`,`), 1)
}

// policyCaller returns a session with such rights as policy is asked for it.
func policyCaller(key session.Key, now *policy.Authority) policy.Caller {
	return policy.Caller{Key: key, Role: now.Role, Depth: now.Depth, Sandboxed: now.Sandboxed}
}

// caller returns the session as policy is asked for it, under the rules that are to be asked: those
// of now. What comes of both is a decision of one set of rules.
func (h toolHost) caller(ctx context.Context) (policy.Caller, *policy.Rules, error) {
	for {
		rules := &h.rt.cfg().Rules
		switch {
		case h.turn != nil:
			now := h.turn.spawn.Rights(ctx, rules)
			return policyCaller(h.session.key, &now), rules, nil
		case !h.session.key.IsSubagent():
			now := h.rt.cfg().authority(h.session.key)
			return policyCaller(h.session.key, &now), rules, nil
		}
		before := h.rt.sup.Rules()
		info, err := h.find(ctx, spawn.RunRef{Session: h.session.key})
		if err != nil || before == rules && h.rt.sup.Rules() == rules {
			return policy.Caller{
				Key: h.session.key, Role: info.Role, Depth: info.Depth, Sandboxed: info.Sandboxed,
			}, rules, err
		}
	}
}

// root returns the tree of the session.
func (h toolHost) root(ctx context.Context) (session.Key, error) {
	if h.turn != nil {
		if err := h.turn.err(); err != nil {
			return session.Key{}, err
		}
		return h.turn.Session.Root, nil
	}
	return h.session.tree(ctx)
}

// visible returns the sessions that the session may do v with, those that were active last first.
// unread says that trees could not be read.
func (h toolHost) visible(
	ctx context.Context, v policy.Verb,
) (list []SessionInfo, unread bool, err error) {
	caller, rules, err := h.caller(ctx)
	if err != nil {
		return nil, false, err
	}
	var q SessionQuery
	if rules.Sees(caller) < policy.VisibilityAgent {
		if q.Root, err = h.root(ctx); err != nil {
			return nil, false, err
		}
	}
	all, err := h.rt.sup.Sessions(ctx, q)
	if errors.Is(err, spawn.ErrShutdown) || ctx.Err() != nil {
		return nil, false, err
	}
	unread = err != nil
	above := make(map[session.Key]session.Key, len(all))
	for i := range all {
		above[all[i].Key] = all[i].Parent
	}
	for i := range all {
		to := policy.Target{Key: all[i].Key}
		for p := all[i].Parent; p.IsValid(); p = above[p] {
			to.Ancestors = append(to.Ancestors, p)
		}
		if rules.Authorize(caller, v, to) == nil {
			list = append(list, all[i])
		}
	}
	return list, unread, nil
}

// sessionLine is what a model is told of a session in a list.
type sessionLine struct {
	Key        string        `json:"sessionKey"`
	SessionID  string        `json:"sessionId,omitempty"`
	Kind       string        `json:"kind"`
	Agent      string        `json:"agent"`
	Label      string        `json:"label,omitempty"`
	Channel    string        `json:"channel,omitempty"`
	Parent     string        `json:"parent,omitempty"`
	Status     string        `json:"status"`
	Turns      int           `json:"turns"`
	LastActive time.Time     `json:"lastActive"`
	Usage      session.Usage `json:"usage,omitzero"`
	Messages   []HistoryLine `json:"messages,omitempty"`
}

func (h toolHost) sessionLine(s *SessionInfo) sessionLine {
	return sessionLine{
		Key: s.Key.String(), SessionID: s.SessionID, Kind: s.Key.Kind().String(), Agent: s.Agent,
		Label: h.shownLine(s.Label), Channel: s.Key.Channel(), Parent: s.Parent.String(),
		Status: s.Status.String(), Turns: s.Turns, LastActive: s.LastActive, Usage: s.Usage,
	}
}

// shownLine returns what a model is told of a label or a task of another session.
func (h toolHost) shownLine(s string) string {
	return text.Label(shownLine(h.rt.redactor, s))
}

// sessions is the tool sessions_list.
func (h toolHost) sessions(ctx context.Context, c ToolCall) (string, error) {
	a, err := readArguments(toolSessions, c.Args, "kinds", "limit", "activeMinutes",
		"messageLimit")
	if err != nil {
		return "", err
	}
	kinds := a.words("kinds", viewKinds())
	limit := a.count(sessionsShown, maxSessionsShown, "limit")
	active := a.minutes(maxActiveMinutes, "activeMinutes")
	messages := a.whole(0, maxListMessages, "", "messageLimit")
	if a.err != nil {
		return "", a.err
	}
	since := time.Now().Add(-active)
	list, unread, err := h.visible(ctx, policy.VerbList)
	if err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list, func(s SessionInfo) bool {
		return len(kinds) > 0 && !slices.Contains(kinds, s.Key.Kind().String()) ||
			active > 0 && s.LastActive.Before(since)
	})
	lines := make([]sessionLine, 0, limit)
	size := 0 // of the messages
	for i := range list[:min(len(list), limit)] {
		line := h.sessionLine(&list[i])
		if messages > 0 && size < maxHistoryBytes {
			line.Messages, size = h.lastMessages(ctx, list[i], messages, size)
		}
		lines = append(lines, line)
	}
	reply := map[string]any{"sessions": lines, "count": len(lines), "total": len(list)}
	if unread {
		reply["note"] = "Some sessions cannot be read now, and are not in the list."
	}
	return jsonReply(reply)
}

// lastMessages returns the last messages of a session that the session may read, and size with what
// they have.
func (h toolHost) lastMessages(
	ctx context.Context, s SessionInfo, n, size int,
) ([]HistoryLine, int) {
	to, err := h.target(ctx, s.Key)
	if err != nil || h.authorizeFor(ctx, policy.VerbHistory, to) != nil {
		return nil, size
	}
	page, err := h.readHistory(ctx, h.rt.sessionIn(s.Key, s.Root), HistoryQuery{Last: n}, false)
	if err != nil {
		return nil, size
	}
	for i := range page.Lines {
		size += page.Lines[i].size()
	}
	return page.Lines, size
}

// target returns a session as policy is asked for it.
func (h toolHost) target(ctx context.Context, key session.Key) (to policy.Target, err error) {
	to.Key = key
	info, err := h.below(ctx, key)
	switch {
	case err == nil:
		to.Ancestors = []session.Key{info.Parent, h.session.key, info.Root}
	case errors.Is(err, ErrNotFound): // policy says whether the session may be seen
		err = nil
	}
	return to, err
}

// A sessionName is an argument of a tool that names a session.
type sessionName struct {
	tool, argument string
	text           string // empty: the session of the model
}

// session reads an argument that names a session.
func (a *arguments) session(names ...string) sessionName {
	_, as := a.value(names...)
	return sessionName{a.tool, cmp.Or(as, names[0]), a.text(names...)}
}

// fail returns what is wrong with the session that is named.
func (h toolHost) fail(n sessionName, reason string) *ArgumentError {
	return newArgumentError(n.tool, n.argument, h.rt.quote(n.text)+": "+reason)
}

// errUnseen is what becomes of a session that the model may not see, or that is not there.
func (h toolHost) errUnseen(n sessionName) error {
	return h.fail(n, "you can see no session with this key, id or name; "+toolSessions+
		" has those that you can see")
}

// seen returns the session that a model names and may do v with.
func (h toolHost) seen(
	ctx context.Context, n sessionName, v policy.Verb,
) (key session.Key, err error) {
	if n.text == "" {
		return h.session.key, h.authorizeFor(ctx, v, policy.Target{Key: h.session.key})
	}
	key, err = session.Parse(n.text)
	if err != nil {
		key, err = h.byName(ctx, n, v)
	}
	if bad, unknown := errors.AsType[*TargetError](err); unknown && len(bad.Candidates) == 0 {
		return key, h.errUnseen(n)
	}
	if err != nil {
		return key, err
	}
	to, err := h.target(ctx, key)
	if err == nil {
		err = h.authorizeFor(ctx, v, to)
	}
	if _, refused := errors.AsType[*policy.Refusal](err); refused {
		err = h.errUnseen(n)
	}
	return key, err
}

// byName returns the session that a model means by what is not a key: a target of the tool
// subagents, or the id or the whole label of a session that it may do v with. The error of one that
// is not there has a *TargetError without Candidates. Policy is not asked for a sub-agent of its
// own.
func (h toolHost) byName(
	ctx context.Context, n sessionName, v policy.Verb,
) (key session.Key, err error) {
	runs, err := h.runs(ctx)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return key, err
	}
	chosen, none := h.choose(ctx, n.tool, n.argument, runs, n.text, false)
	if none == nil {
		return chosen[0].Key, nil
	}
	if bad, ok := errors.AsType[*TargetError](none); !ok || len(bad.Candidates) > 0 {
		return key, none
	}
	list, _, err := h.visible(ctx, v)
	if err != nil {
		return key, err
	}
	for i := range list {
		if list[i].SessionID != "" && list[i].SessionID == n.text {
			return list[i].Key, nil
		}
	}
	labelled := slices.DeleteFunc(list, func(s SessionInfo) bool {
		return s.Label == "" || !strings.EqualFold(h.shownLine(s.Label), n.text)
	})
	switch len(labelled) {
	case 0:
		return key, none
	case 1:
		return labelled[0].Key, nil
	}
	keys := text.Listed(labelled, func(s SessionInfo) string { return s.Key.String() })
	return key, h.fail(n, "it may mean "+strings.Join(keys, ", ")+
		"; give the key of the one that you mean")
}

// history is the tool sessions_history.
func (h toolHost) history(ctx context.Context, c ToolCall) (ToolResult, error) {
	a, err := readArguments(toolHistory, c.Args, "sessionKey", "limit", "includeTools",
		"before", "file")
	if err != nil {
		return ToolResult{}, err
	}
	named := a.session("sessionKey")
	q := HistoryQuery{Last: a.count(historyLast, maxHistoryLast, "limit")}
	q.Before = session.Pos(a.whole(0, math.MaxInt/2, "", "before"))
	includeTools, file := a.flag("includeTools"), a.text("file")
	if a.err != nil {
		return ToolResult{}, a.err
	}
	key, err := h.seen(ctx, named, policy.VerbHistory)
	if err != nil {
		return ToolResult{}, err
	}
	s := h.rt.Session(key)
	if file != "" {
		return h.historyFile(ctx, s, named, file)
	}
	page, err := h.readHistory(ctx, s, q, includeTools)
	if err != nil {
		return ToolResult{}, h.unseen(ctx, named, key, err)
	}
	reply := map[string]any{"sessionKey": key.String(), "messages": page.Lines}
	if page.Earlier > 0 {
		reply["earlier"] = page.Earlier
		reply["note"] = "There are earlier messages: call this again with before set to earlier."
	}
	if page.Archived {
		reply["archived"] = true
	}
	answer, err := jsonReply(reply)
	return ToolResult{Text: answer}, err
}

// unseen returns the error of reading a session as the model is told it: one of a session that is
// not there does not differ from one of a session that it may not see. Of its own session, which it
// has not named, it is told what every tool says.
func (h toolHost) unseen(ctx context.Context, n sessionName, key session.Key, err error) error {
	switch {
	case isLate(ctx, err), n.text == "":
		return err
	case errors.Is(err, ErrNotFound):
		return h.errUnseen(n)
	}
	h.rt.log.Warn("offshoot: a session cannot be shown to a model",
		"session", key.String(), "error", redact(err).Error())
	return h.fail(n, "it cannot be read now")
}

// readHistory returns lines of a conversation. Without tools it leaves out what calls them and what
// they answer, and reads on for the lines that are missing then.
func (h toolHost) readHistory(
	ctx context.Context, s *Session, q HistoryQuery, tools bool,
) (page HistoryPage, err error) {
	if err := h.hearSession(ctx, s.key); err != nil {
		return page, err
	}
	want, size := q.Last, 0
	for range maxHistoryPages {
		next, err := h.pageOf(ctx, s, q)
		if err != nil {
			return page, err
		}
		page.Archived = next.Archived
		var kept []HistoryLine
		full := false
		for _, line := range slices.Backward(next.Lines) {
			if !tools && !line.withoutTools() {
				continue
			}
			n := line.size()
			if full = len(page.Lines)+len(kept) == want || size+n > maxHistoryBytes; full {
				break
			}
			size += n
			kept = append(kept, line)
		}
		slices.Reverse(kept)
		page.Lines = append(kept, page.Lines...)
		if full {
			page.Earlier = page.Lines[0].Pos
			return page, nil
		}
		if page.Earlier = next.Earlier; page.Earlier == 0 || len(page.Lines) == want {
			break
		}
		q.Before = next.Earlier
	}
	page.Lines = append([]HistoryLine{}, page.Lines...)
	return page, nil
}

// pageOf returns a page of a conversation. That of the model's own top-level session has no lines
// while nothing of it is on record.
func (h toolHost) pageOf(
	ctx context.Context, s *Session, q HistoryQuery,
) (page HistoryPage, err error) {
	page, err = s.history(ctx, q)
	if s.key == h.session.key && !s.key.IsSubagent() && errors.Is(err, ErrNotFound) {
		return page, nil
	}
	return page, err
}

// withoutTools takes the calls of tools out of a line, and reports whether something is left.
func (l *HistoryLine) withoutTools() bool {
	if l.Message.Role == session.MessageTool {
		return false
	}
	l.Message.ToolCalls = nil
	return l.Message.Text != "" || len(l.Message.Parts) > 0
}

// historyFile returns a file of a message that a page of the history has.
func (h toolHost) historyFile(
	ctx context.Context, s *Session, named sessionName, hash string,
) (ToolResult, error) {
	page, err := h.pageOf(ctx, s, HistoryQuery{Last: maxHistoryLast})
	if err == nil {
		err = h.hearSession(ctx, s.key)
	}
	if err != nil {
		return ToolResult{}, h.unseen(ctx, named, s.key, err)
	}
	var part Part
	for i := range page.Lines {
		for _, p := range page.Lines[i].Message.Parts {
			if p.File.Hash == hash && !p.File.IsZero() {
				part = p
			}
		}
	}
	if part.File.IsZero() {
		return ToolResult{}, newArgumentError(toolHistory, "file",
			h.rt.quote(hash)+": no message of this conversation has a file with this hash")
	}
	limit := int64(maxShownFile)
	isText := strings.HasPrefix(part.MediaType, "text/")
	if most := int64(h.rt.cfg().Limits.Part); !isText && most > 0 {
		limit = most
	}
	if part.File.Size > limit {
		return ToolResult{}, newArgumentError(toolHistory, "file", fmt.Sprintf(
			"%s: it has %d bytes, the limit is %d", h.rt.quote(hash), part.File.Size, limit))
	}
	in, err := s.OpenFile(ctx, part.File)
	if err != nil {
		return ToolResult{}, h.unseen(ctx, named, s.key, err)
	}
	data, err := io.ReadAll(in)
	err = errors.Join(err, in.Close())
	if err != nil {
		return ToolResult{}, h.unseen(ctx, named, s.key, err)
	}
	if isText {
		said := shownText(h.rt.redactor, string(bytes.ToValidUTF8(data, nil)))
		answer, err := jsonReply(map[string]any{
			"sessionKey": s.key.String(), "name": part.Name, "mediaType": part.MediaType,
			"text": said,
		})
		return ToolResult{Text: answer}, err
	}
	shown := Part{Kind: part.Kind, MediaType: part.MediaType, Name: part.Name, Data: data}
	return ToolResult{Text: "The file is beside this text.", Parts: []Part{shown}}, nil
}

// statusReply is what a model is told of how a session stands.
type statusReply struct {
	Key       string        `json:"sessionKey"`
	SessionID string        `json:"sessionId,omitempty"`
	Agent     string        `json:"agent"`
	Label     string        `json:"label,omitempty"`
	Status    string        `json:"status"`
	Time      string        `json:"time"` // now, in the zone of the prompt
	Model     string        `json:"model,omitempty"`
	Thinking  string        `json:"thinking,omitempty"`
	Turns     int           `json:"turns"`
	Usage     session.Usage `json:"usage"` // of the session alone, with its cost
	Total     session.Usage `json:"total"` // with all below it
	Cost      float64       `json:"cost"`  // of the Total
	Budgets   []budgetLine  `json:"budgets,omitempty"`
	Children  int           `json:"activeChildren"`
	// Withheld are tools that it has otherwise, with why who speaks keeps it from them.
	Withheld []string  `json:"withheld,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Active   time.Time `json:"lastActive,omitzero"`
}

// budgetLine is a budget that a session counts against.
type budgetLine struct {
	Of    string             `json:"of"` // session, above, tree or request
	Limit map[string]float64 `json:"limit"`
	Left  map[string]float64 `json:"left"`
}

func newBudgetLine(of session.Key, b *BudgetStatus) budgetLine {
	l := budgetLine{Of: "above", Limit: map[string]float64{}, Left: map[string]float64{}}
	switch {
	case b.Session.IsZero():
		l.Of = "request"
	case !b.Session.IsSubagent():
		l.Of = "tree"
	case b.Session == of:
		l.Of = "session"
	}
	set := func(name string, limit, left float64) {
		if limit > 0 {
			l.Limit[name], l.Left[name] = limit, left
		}
	}
	set("tokens", float64(b.Limit.Tokens), float64(b.Left.Tokens))
	set("cost", b.Limit.Cost, b.Left.Cost)
	set("turns", float64(b.Limit.Turns), float64(b.Left.Turns))
	return l
}

// status is the tool session_status.
func (h toolHost) status(ctx context.Context, c ToolCall) (string, error) {
	a, err := readArguments(toolStatus, c.Args, "sessionKey")
	if err != nil {
		return "", err
	}
	named := a.session("sessionKey")
	if a.err != nil {
		return "", a.err
	}
	key, err := h.seen(ctx, named, policy.VerbStatus)
	if err != nil {
		return "", err
	}
	s := h.rt.Session(key)
	if !key.IsSubagent() && key != h.session.key {
		err = h.isOnRecord(ctx, key)
	}
	var now SessionStatus
	if err == nil {
		now, err = s.Status(ctx)
	}
	if err != nil {
		return "", h.unseen(ctx, named, key, err)
	}
	reply := statusReply{
		Key: key.String(), SessionID: now.SessionID, Agent: now.Agent,
		Label: h.shownLine(now.Label), Status: now.Status.String(), Time: h.rt.timeOfDay(),
		Model: now.Model, Thinking: now.Thinking, Turns: now.Turns,
		Usage: now.Usage, Total: now.Total, Cost: now.Total.Cost, Children: now.Children,
		Created: now.Created, Active: now.LastActive,
	}
	for _, v := range now.Withheld {
		reply.Withheld = append(reply.Withheld, v.String())
	}
	if h.turn != nil && key == h.session.key {
		reply.Model, reply.Thinking = h.turn.Model, h.turn.Thinking
	}
	reply.Model = text.Line(shownText(h.rt.redactor, reply.Model))
	for i := range now.Budgets {
		reply.Budgets = append(reply.Budgets, newBudgetLine(key, &now.Budgets[i]))
	}
	return jsonReply(reply)
}

// isOnRecord returns ErrNotFound for a top-level session that never was.
func (h toolHost) isOnRecord(ctx context.Context, key session.Key) error {
	list, err := h.rt.sup.Sessions(ctx, SessionQuery{Root: key, TopLevel: true})
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	return err
}

// timeOfDay returns what the clock shows in the zone of the prompt.
func (rt *Runtime) timeOfDay() string {
	now := rt.cfg().Now()
	if zone, err := time.LoadLocation(rt.cfg().Prompts.Input.Env.Zone); err == nil &&
		rt.cfg().Prompts.Input.Env.Zone != "" {
		now = now.In(zone)
	}
	return now.Format("Monday " + time.RFC3339)
}
