package agent

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/sender"
	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// maxHeld is how many messages wait at most for the results of the tool calls before them.
const maxHeld = 64

// noResultText is the result of a tool call that a turn left without one.
const noResultText = "no result: the turn ended"

// A conversation puts messages into an order that providers of models accept: each call of a tool
// has one result, and the results of a message stand right behind it. What comes before a result
// that is still missing waits in a queue.
//
// A message is accepted, then it is taken for writing, in the order of take. A conversation decides
// only: it writes nothing. The zero conversation is empty.
type conversation struct {
	calls   int        // numbers calls, so that an id may come again
	waiting []openCall // calls that were accepted, without the result
	open    []openCall // the calls of what was taken last, without the result
	queue   []accepted
}

// openCall is a call without its result.
type openCall struct {
	n      int
	id     string // in the transcript
	called string // as the Runner knows it
}

// accepted is a message that waits to be taken.
type accepted struct {
	m       Message
	calls   []openCall // its ToolCalls
	answers int        // the number of the call that it is the result of
}

// clone returns a copy that shares nothing that either changes.
func (c *conversation) clone() conversation {
	return conversation{
		calls: c.calls, waiting: slices.Clone(c.waiting), open: slices.Clone(c.open),
		queue: slices.Clone(c.queue),
	}
}

// isClosed reports whether each call has its result and no message waits. What follows is put into
// order as it would be in an empty conversation.
func (c *conversation) isClosed() bool { return len(c.waiting)+len(c.open)+len(c.queue) == 0 }

// accept takes a message in. An assistant's message that says and calls nothing, and has no Parts,
// is left out: providers refuse it. A result goes to the newest call of that id that has none.
func (c *conversation) accept(m Message) error {
	a := accepted{m: m}
	switch m.Role { //nolint:exhaustive // the others are as they are
	case session.MessageAssistant:
		if strings.TrimSpace(m.Text) == "" && len(m.ToolCalls) == 0 && len(m.Parts) == 0 {
			return nil
		}
		a.m, a.calls = c.number(m)
	case session.MessageTool:
		i := slices.IndexFunc(c.waiting, func(w openCall) bool {
			return m.ToolCallID == w.called || m.ToolCallID == w.id
		})
		if i < 0 {
			return &spawn.InputError{
				Field: "Message.ToolCallID",
				Reason: text.Quote(m.ToolCallID) +
					" does not name a tool call that waits for its result",
			}
		}
		a.answers, a.m.ToolCallID = c.waiting[i].n, c.waiting[i].id
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.queue = append(c.queue, a)
	return nil
}

// passes reports whether a message that is accepted now is what is taken next, as it is, and the
// conversation is then as it was: most messages are such.
func (c *conversation) passes(m *Message) bool {
	switch {
	case !c.isClosed(), len(m.ToolCalls) > 0, m.Role == session.MessageTool:
		return false
	case m.Role == session.MessageAssistant:
		return strings.TrimSpace(m.Text) != "" || len(m.Parts) > 0
	}
	return true
}

// lossOf returns why the provider's form of a message is not in what a conversation has accepted of
// it, or "".
func lossOf(m Message, queued []accepted) string {
	switch {
	case m.Raw == nil:
		return ""
	case len(queued) == 0:
		return "the message has neither a text nor calls nor parts, and providers refuse it"
	case queued[0].m.Raw == nil:
		return "calls have other ids than in it"
	}
	return ""
}

// number numbers the calls of a message. Calls of one message that share an id, or have none, get
// ids of their own, and the provider's form, which would contradict these, is left out. A call of
// an earlier message that has an id of this one and still waits is given up: what comes now is the
// result of this one.
func (c *conversation) number(m Message) (Message, []openCall) {
	for _, call := range m.ToolCalls {
		c.waiting = slices.DeleteFunc(c.waiting,
			func(w openCall) bool { return w.called == call.ID })
	}
	given := m.ToolCalls
	taken := make(map[string]bool, len(given)) // the ids; true for those of the calls so far
	for _, call := range given {
		taken[call.ID] = false
	}
	numbered := make([]openCall, len(given))
	for i, call := range given {
		id := call.ID
		for distinct := id != "" && !taken[id]; !distinct; {
			id += "_" + strconv.Itoa(i+1)
			_, other := taken[id]
			distinct = !other
		}
		taken[id] = true
		if id != call.ID {
			if &m.ToolCalls[0] == &given[0] {
				m.ToolCalls, m.Raw = slices.Clone(given), nil
			}
			m.ToolCalls[i].ID = id
		}
		c.calls++
		numbered[i] = openCall{n: c.calls, id: id, called: call.ID}
	}
	c.waiting = append(c.waiting, numbered...)
	return m, numbered
}

// take returns the next message to write, and false if there is none: the queue is empty, or what
// comes next is the result of a call that is missing.
func (c *conversation) take() (m Message, ok bool) {
	next := 0
	if len(c.open) > 0 {
		next = slices.IndexFunc(c.queue, func(a accepted) bool {
			return slices.ContainsFunc(c.open, func(o openCall) bool { return o.n == a.answers })
		})
	}
	if next < 0 || len(c.queue) == 0 {
		return m, false
	}
	a := c.queue[next]
	switch {
	case len(c.queue) == 1:
		c.queue[0] = accepted{}
		c.queue = c.queue[:0] // the next message needs no new one
	case next == 0: // a long queue is not moved for each message
		c.queue[0] = accepted{}
		c.queue = c.queue[1:]
	default:
		c.queue = slices.Delete(c.queue, next, next+1)
	}
	if a.m.Role == session.MessageTool {
		c.open = slices.DeleteFunc(c.open, func(o openCall) bool { return o.n == a.answers })
	} else {
		c.open = slices.Clone(a.calls)
	}
	return a.m, true
}

// takeAll returns what is to be written now, at most limit messages. Calls without a result get a
// failed one if fill is set, or if more than maxHeld messages wait for it.
func (c *conversation) takeAll(fill bool, now time.Time, limit int) (lines []Message) {
	for len(lines) < limit {
		m, ok := c.take()
		switch {
		case ok:
			lines = append(lines, m)
		case len(c.open) > 0 && (fill || len(c.queue) > maxHeld):
			lines = append(lines, c.fillOne(now))
		default:
			return lines
		}
	}
	return lines
}

// fillOne returns a failed result of the first open call.
func (c *conversation) fillOne(now time.Time) Message {
	o := c.open[0]
	c.open = c.open[1:]
	c.waiting = slices.DeleteFunc(c.waiting, func(w openCall) bool { return w.n == o.n })
	return noResult(o.id, now)
}

// noResult returns the result of a call that has none.
func noResult(id string, at time.Time) Message {
	return Message{
		Role: session.MessageTool, ToolCallID: id, Text: noResultText, Failed: true, Time: at,
		Synthetic: true,
	}
}

// readConversation returns the conversation of a transcript as a provider accepts it, and the state
// at its end: only the last message may have calls without results. What an earlier version or
// another program has written in another order is put into order. Results of no call are left out.
// It reports whether the lines are closed, see isClosed: what is written behind them is then read
// as it was written.
func readConversation(lines []session.Line) (view []Message, c conversation, closed bool) {
	view = make([]Message, 0, len(lines))
	for _, line := range lines {
		if err := c.accept(line.Message); err == nil {
			view = append(view, c.takeAll(false, line.Message.Time, len(lines))...)
		}
	}
	closed = c.isClosed()
	for len(c.queue) > 0 {
		view = append(view, c.fillOne(c.queue[0].m.Time))
		view = append(view, c.takeAll(false, time.Time{}, len(lines))...)
	}
	return view, c, closed
}

// taskFirst returns the inputs of a turn with the task before what has come since: the prompt says
// that it is the first message, and what else a sub-agent is told adds to it.
func taskFirst(inputs []spawn.Input) []spawn.Input {
	i := slices.IndexFunc(inputs, func(in spawn.Input) bool { return in.Class == spawn.InputTask })
	if i <= 0 {
		return inputs
	}
	return slices.Concat(inputs[i:i+1], inputs[:i], inputs[i+1:])
}

// messagesOf returns inputs of the session of a turn as messages of the conversation.
func (rt *Runtime) messagesOf(ctx context.Context, t *Turn, inputs []spawn.Input) []Message {
	st := t.spawn
	messages := make([]Message, 0, len(inputs))
	for _, in := range taskFirst(inputs) {
		m := Message{
			ID: in.ID, Role: session.MessageUser, Text: in.Text, Time: in.Time,
			From: in.Sender, Parts: in.Parts, Ord: in.Ord,
		}
		switch in.Class {
		case spawn.InputUser:
			if in.From.IsValid() {
				m.Internal, m.Text = true, rt.sentText(st, in)
			}
		case spawn.InputTask:
			m.Text = agentctx.TaskMessage(subagentOf(st), in.Text)
		case spawn.InputSteer:
			m.Internal = true
			if m.Text = sender.QuoteForged(in.Text); in.Repair {
				m.Text = repairText(st, in.Text)
			}
		case spawn.InputCompletion:
			m.Internal = true
			if in.Completion != nil {
				m.ID = string(in.Completion.Run.ID)
				m.Text = rt.eventOf(ctx, t, in.Completion).ForModel()
			}
		case spawn.InputEvent:
			m.Internal = true
			if e, ok := announce.ParseEvent(in.Text); ok {
				m.Text = rt.eventToModels(e).ForModel()
			}
		case spawn.InputMilestone:
			m.Internal, m.Text = true, milestoneText(rt.redactor, in)
		}
		messages = append(messages, m)
	}
	return messages
}

// eventOf returns the event of a completion for the session of a turn, with the path of the child's
// transcript, and with what the session may use to read on. A session in a sandbox is not told
// paths of the host.
func (rt *Runtime) eventOf(ctx context.Context, t *Turn, c *spawn.Completion) announce.Event {
	shown := *c // others read it, too
	shown.Run.Name, shown.Run.Label = rt.toModels(c.Run.Name), rt.lineToModels(c.Run.Label)
	e := rt.eventToModels(announce.NewEvent(&shown))
	e.History = slices.Contains(t.spawn.Rights(ctx, &rt.cfg().Rules).Tools, toolHistory)
	if !t.Sandboxed {
		ref := session.Ref{Key: c.Run.Key, SessionID: c.Run.SessionID}
		e.Stats.Transcript = rt.cfg().Store.Transcripts.Locate(ref)
	}
	return e
}

// eventToModels returns an event of which a model may read every text. What ForModel removes is
// removed first, so that it hides no secret.
func (rt *Runtime) eventToModels(e announce.Event) announce.Event {
	e.Reason = announce.Sanitize(e.Reason)
	e.Files = slices.Clone(e.Files) // others read them, too
	said := []*string{
		&e.Name, &e.Task, &e.Reason, &e.Result, &e.SessionID, &e.Whole.Hash,
		&e.Model.Requested, &e.Model.Resolved, &e.Model.Actual,
		&e.Stats.SessionID, &e.Stats.Transcript,
	}
	for i := range e.Files {
		f := &e.Files[i]
		said = append(said, &f.Name, &f.Path, &f.MediaType)
	}
	for _, s := range said {
		*s = rt.toModels(*s)
	}
	return e
}

// sentText is what a session is told that another one has sent. A sub-agent hears from the sessions
// above it alone, whose words are its task; to a top-level session they are another's. To neither
// can it pass for what a person says.
func (rt *Runtime) sentText(st *spawn.TurnInput, in spawn.Input) string {
	if st.Session.Key.IsSubagent() {
		return sender.QuoteForged(in.Text)
	}
	shown := rt.toModels(in.Text)
	return "[Offshoot] The session " + in.From.String() + " has sent you a message:\n" +
		agentctx.Fenced(sender.QuoteForged(shown))
}

// firstMessages returns what is new when a turn begins. One that nothing has woken but the end of a
// wait is told of that.
func (rt *Runtime) firstMessages(ctx context.Context, t *Turn) []Message {
	st := t.spawn
	if st.Announces {
		words := cmp.Or(rt.cfg().AnnounceTurn.Words, announceWords)
		return []Message{{
			Role: session.MessageUser, Text: "[Offshoot] " + words + "\n\n" + announceRules,
			Internal: true, Synthetic: true,
		}}
	}
	messages := rt.messagesOf(ctx, t, st.Inputs)
	woken := slices.ContainsFunc(st.Inputs, func(in spawn.Input) bool {
		return in.Class != spawn.InputMilestone
	})
	if woken || st.N == 1 {
		return messages
	}
	over := waitOverText(st.Waited, st.Active, rt.cfg().tellsChat(t.Session.Key))
	return append(messages, Message{
		Role: session.MessageUser, Text: over, Internal: true, Synthetic: true,
	})
}

// What a sub-agent is told in its announce step: what to do, unless the Config has words for that,
// and what holds whatever these are.
const (
	announceWords = "Your work on this task is done. Now announce its result where the task came " +
		"from, where nothing of this conversation was seen: say in a few sentences what came of " +
		"it, what of that matters, where it is to be found, and what is uncertain or left undone."
	announceRules = "Your answer to this message is the announcement, and nothing else is. Write " +
		"it as plain text. No tool can be called now. Answer with only " + announce.AnnounceSkip +
		" if there is nothing to announce."
)

// waitOverText is what a session is told whose wait is over without anything new to report: why it
// is over, and how many of its sub-agents are still active. tellsChat says that people are told of
// what these come to.
func waitOverText(w *spawn.Waited, active int, tellsChat bool) string {
	if tellsChat {
		return "[Offshoot] Your wait for sub-agents is over. What they had to report was said to " +
			"the people of this conversation." + stillAtWork(active, tellsChat)
	}
	return "[Offshoot] " + whyWaitIsOver(w) + stillAtWork(active, tellsChat)
}

// whyWaitIsOver says why a wait is over; w is nil if that is not known.
func whyWaitIsOver(w *spawn.Waited) string {
	switch {
	case w == nil:
		return "Your wait for sub-agents is over."
	case w.Left == 0 && w.Told == 0:
		return "The sub-agents you were waiting for have ended. None of them had anything to report."
	case w.Left == 0:
		return "The sub-agents you were waiting for have ended. " +
			"What they had to report has been reported to you."
	}
	why := "The time for which you wanted to wait is up."
	if w.Enough {
		why = "As many of the sub-agents you were waiting for as you asked for have ended."
	}
	if w.Told == 0 && (w.Enough || w.Ended > 0) {
		why += " None of those that have ended had anything to report."
	}
	return why
}

// stillAtWork says how many sub-agents of a session have not ended. It is empty if none is left.
func stillAtWork(active int, tellsChat bool) string {
	switch {
	case active == 0:
		return ""
	case active == 1 && tellsChat:
		return " 1 sub-agent of yours is still at work."
	case tellsChat:
		return " " + strconv.Itoa(active) + " sub-agents of yours are still at work."
	case active == 1:
		return " 1 sub-agent of yours is still at work. " +
			"If it has something to report, that comes to you automatically."
	}
	return " " + strconv.Itoa(active) + " sub-agents of yours are still at work. " +
		"What they have to report comes to you automatically."
}
