package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// An Answer is what a person is told: one of the types of this file. The texts in it are those that
// people may see: credentials are masked, and what steers a terminal or is not drawn is left out.
type Answer interface {
	// Text returns the answer as a text of at most 20,000 bytes. It mentions no person, role or
	// channel, also in words that a person has typed: the signs of mentions are full-width. The
	// fields of an answer have the words as they are.
	Text() string
	answer()
}

// Bounds of what an answer says.
const (
	maxText     = 20_000 // bytes of a text
	maxRows     = 50     // rows of a list
	maxTask     = 110    // characters of a task in a row
	maxWhole    = 1000   // characters of a task or an error in [Described]
	maxSaid     = 500    // characters of a message in [Logged]
	maxReply    = 10_000 // bytes of the reply in [Sent]
	shortRunID  = 8      // characters of a run id where the whole would be in the way
	nothingHere = "(none)"
)

// withoutMentions returns a text of an answer without what a chat may take for a mention: a person
// who may not call everyone must not have the bot do it.
func withoutMentions(said string) string {
	return text.Bound(text.WithoutMentions(said), maxText)
}

// bounded returns a text that an answer may have.
func bounded(b *strings.Builder) string {
	return text.Bound(strings.TrimRight(b.String(), "\n"), maxText)
}

// shortID returns the beginning of a run id.
func shortID(id agent.RunID) string { return text.Cut(string(id), shortRunID) }

// stamp returns a moment as people read it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// A Row is what a list has of one sub-agent.
type Row struct {
	Number  int // in the list that the person was shown last; 0 but in a Listed and of candidates
	Run     agent.RunID
	Session session.Key
	Name    string // what its requester calls it, its Task.Name
	Label   string // of at most 48 characters; the beginning of the task if it has none
	Task    string // of at most 110 characters; empty if the Label says the same
	Agent   string
	Model   string // the one that ran, or is to run; empty: the default of the Runner
	Status  agent.Status
	Elapsed time.Duration // since it started, until its end
	Tokens  int64
	Nested  bool // it is a sub-agent of one of the session's
	// Conversations are those that are bound to it.
	Conversations []session.Route
}

// Text returns the row as lists show it.
func (r Row) Text() string { return withoutMentions(r.text()) }

func (r Row) text() string {
	var about []string
	if r.Model != "" {
		about = append(about, r.Model)
	}
	if r.Elapsed > 0 {
		about = append(about, announce.FormatDuration(r.Elapsed))
	}
	if r.Tokens > 0 {
		about = append(about, announce.FormatTokens(r.Tokens)+" tokens")
	}
	said := r.Label
	if r.Number > 0 {
		said = fmt.Sprintf("%d. %s", r.Number, r.Label)
	}
	if r.Name != "" && r.Name != r.Label {
		said += ", " + r.Name
	}
	if len(about) > 0 {
		said += " (" + strings.Join(about, ", ") + ")"
	}
	said += " " + r.Status.String()
	if r.Nested {
		said += ", below another one"
	}
	if r.Task != "" {
		said += " - " + r.Task
	}
	return said
}

// candidate returns the row as it stands among others that a target may mean.
func (r Row) candidate() string {
	said := "- "
	if r.Number > 0 {
		said = fmt.Sprintf("%d. ", r.Number)
	}
	said += r.Label
	if r.Name != "" && r.Name != r.Label {
		said += ", " + r.Name
	}
	return said + ", " + r.Status.String() + ", run " + string(r.Run)
}

// Failed is the answer to a command that was not done, or not all of it.
type Failed struct {
	Command string // as a person types it
	Err     error  // for the log; the Text says what people may know of it
}

// Denied is the answer to a person who may not give the command.
type Denied struct {
	Command string
	Err     error // what Options.Authorize returned
}

// Helped says how commands are written.
type Helped struct {
	Unknown string // the action that does not exist; empty: none
}

// Listed answers a List.
type Listed struct {
	Active []Row // have not ended, the newest first
	Recent []Row // ended in the last 30 minutes, the newest first
}

// Killed answers a Kill.
type Killed struct {
	All      bool  // the person asked for all of them
	Stopped  []Row // what was named, and had not ended
	Below    int   // how many below these ended with them
	Finished []Row // what was named, and had ended before
}

// A Said is one message of a Logged.
type Said struct {
	By   string // "User", "Assistant", "Tool" or "System"
	Text string // of at most 500 characters
}

// Logged answers a Log.
type Logged struct {
	Row  Row
	Said []Said // the oldest first
	More bool   // there are earlier ones
}

// Described answers an Info.
type Described struct {
	Row        Row
	Task       string // of at most 1,000 characters
	SessionID  string
	Transcript string // where it is kept; empty: the Store has no paths
	Created    time.Time
	Started    time.Time // zero: it has not
	Ended      time.Time // zero: it has not
	Deadline   time.Time // zero: it has none, or has not started
	Now        time.Time
	Cleanup    agent.Cleanup
	Waits      string // for what, if it has not ended
	Outcome    string // how it ended; empty: it has not
	Thinking   string
	Turns      int
	Missed     int     // steers that it has not read at its end
	Cost       float64 // US dollars
	// For are the people for whom it works, each as "telegram 815": the channel, and the ID there.
	// They are there under all Rules. Empty: it works for the program.
	For []string
	// Withheld are the tools that it has otherwise, and that those may not use for whom it works.
	Withheld []string
}

// Sent answers a Send.
type Sent struct {
	Row     Row
	Run     agent.RunID // the one that has the message
	Began   bool        // the message has begun it
	Running bool        // it has not ended in the time of Options.Wait
	Reply   string      // of at most 10,000 bytes; empty: it said nothing, or has not ended
	Problem string      // why it did not end well; empty: it did, or has not ended
}

// Steered answers a Steer.
type Steered struct{ Row Row }

// Spawned answers a Spawn.
type Spawned struct {
	Agent    string
	Run      agent.RunID
	Session  session.Key
	Warnings []string // what was passed over, such as a model that is not valid
}

// Focused answers a Focus.
type Focused struct {
	Binding binding.Binding
	Label   string // of what the conversation speaks to now
	Created bool   // the conversation is a thread that was created for it
}

// Unfocused answers an Unfocus.
type Unfocused struct{ Binding binding.Binding }

// Bound answers an Agents.
type Bound struct {
	Rows []Row // the newest first
	// Here are the conversations that are bound to the session itself, other than its own.
	Here []session.Route
}

// Limited answers a Limit.
type Limited struct {
	Kind     LimitKind
	Set      bool              // the limit was changed
	Bindings []binding.Binding // that have it
}

// Stopped answers a Stop.
type Stopped struct {
	// AbortRequester says that the session is run by the caller: its Offshoot part is stopped, and
	// the program now ends what its own loop has under way for it.
	AbortRequester bool
	Runs           int // how many sub-agents were stopped with it
	// Err is why it is not known that all has ended. Do returns it too.
	Err error
}

// Begun answers a Reset.
type Begun struct {
	Posted bool // what the person said first was posted
}

// Compacted answers a Compact.
type Compacted struct{}

// Text implements [Answer].
func (a Failed) Text() string { return withoutMentions(a.text()) }

func (a Failed) text() string { return words(a.Err) }

// Text implements [Answer].
func (a Denied) Text() string { return "You may not use " + a.Command + " here." }

// Text implements [Answer].
func (a Helped) Text() string { return withoutMentions(a.text()) }

func (a Helped) text() string {
	said := help
	if a.Unknown != "" {
		said = text.Quote(text.Line(a.Unknown)) + " is not an action.\n" + said
	}
	return said
}

// help says how all commands are written.
const help = `Commands:
/subagents [list]
/subagents kill <target|all>, or /kill
/subagents log <target> [limit] [tools]
/subagents info <target>
/subagents send <target> <message>
/subagents steer <target> <message>, or /steer, /tell
/subagents spawn <agent> <task> [--model <model>] [--thinking <level>]
/focus <target>, /unfocus, /agents
/session idle|max-age [duration|off]
/stop, /new, /reset, /compact
A target is a number of the list, a label, a run id or its beginning, a session key, or last.`

// Text implements [Answer].
func (a Listed) Text() string { return withoutMentions(a.text()) }

func (a Listed) text() string {
	var b strings.Builder
	b.WriteString("active subagents:\n-----\n")
	writeRows(&b, a.Active)
	b.WriteString("\nrecent subagents (last 30m):\n-----\n")
	writeRows(&b, a.Recent)
	return bounded(&b)
}

func writeRows(b *strings.Builder, rows []Row) {
	if len(rows) == 0 {
		b.WriteString(nothingHere + "\n")
	}
	for i, r := range rows {
		if i == maxRows {
			fmt.Fprintf(b, "and %d more\n", len(rows)-i)
			break
		}
		b.WriteString(r.text() + "\n")
	}
}

// Text implements [Answer].
func (a Killed) Text() string { return withoutMentions(a.text()) }

func (a Killed) text() string {
	switch n := len(a.Stopped); {
	case a.All && n == 0:
		return "No sub-agents are active."
	case a.All:
		return "Stopped " + text.Count(n+a.Below, "sub-agent", "sub-agents") + "."
	case n == 0 && len(a.Finished) > 0:
		return a.Finished[0].Label + " is already finished."
	case n == 0:
		return "Nothing was stopped."
	case a.Below > 0:
		return "Stopped " + a.Stopped[0].Label + " and " +
			text.Count(a.Below, "sub-agent", "sub-agents") + " below it."
	}
	return "Stopped " + a.Stopped[0].Label + "."
}

// Text implements [Answer].
func (a Logged) Text() string { return withoutMentions(a.text()) }

func (a Logged) text() string {
	var b strings.Builder
	b.WriteString("Log of " + a.Row.Label + ", " + a.Row.Status.String() + ":\n")
	if a.More {
		b.WriteString("(there are earlier messages)\n")
	}
	if len(a.Said) == 0 {
		b.WriteString("(no messages)\n")
	}
	// Of what is too long the end stays, which is the newest.
	size, from := b.Len(), len(a.Said)
	for from > 0 && size+len(a.Said[from-1].By)+len(a.Said[from-1].Text)+3 < maxText-100 {
		from--
		size += len(a.Said[from].By) + len(a.Said[from].Text) + 3
	}
	if from > 0 {
		fmt.Fprintf(&b, "(%d messages are left out)\n", from)
	}
	for _, m := range a.Said[from:] {
		b.WriteString(m.By + ": " + m.Text + "\n")
	}
	return bounded(&b)
}

// Text implements [Answer].
func (a Described) Text() string { return withoutMentions(a.text()) }

func (a Described) text() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			b.WriteString(name + ": " + value + "\n")
		}
	}
	moment := func(name string, at time.Time) {
		if !at.IsZero() {
			line(name, stamp(at)+" ("+age(a.Now.Sub(at))+")")
		}
	}
	line("Status", a.Row.Status.String())
	line("Waits for", a.Waits)
	line("Label", a.Row.Label)
	line("Name", a.Row.Name)
	line("Task", a.Task)
	line("Agent", a.Row.Agent)
	line("Model", a.Row.Model)
	line("Thinking", a.Thinking)
	line("Run", string(a.Row.Run))
	line("Session", a.Row.Session.String())
	line("SessionId", a.SessionID)
	line("Transcript", a.Transcript)
	line("Runtime", announce.FormatDuration(a.Row.Elapsed))
	line("Turns", fmt.Sprint(a.Turns))
	if a.Missed > 0 {
		line("Not read", text.Count(a.Missed, "steer", "steers")+", too late")
	}
	if a.Row.Tokens > 0 {
		line("Tokens", announce.FormatTokens(a.Row.Tokens))
	}
	if a.Cost > 0 {
		line("Cost", announce.FormatUSD(a.Cost))
	}
	moment("Created", a.Created)
	moment("Started", a.Started)
	moment("Ended", a.Ended)
	moment("Deadline", a.Deadline)
	line("Cleanup", a.Cleanup.String())
	line("For", strings.Join(a.For, ", "))
	line("Withheld for who speaks", strings.Join(a.Withheld, ", "))
	for _, at := range a.Row.Conversations {
		line("Conversation", conversation(at))
	}
	line("Outcome", a.Outcome)
	return bounded(&b)
}

// age says how long ago a moment was, or how far off it is.
func age(d time.Duration) string {
	switch {
	case d <= -time.Second:
		return "in " + announce.FormatDuration(-d)
	case d < time.Second:
		return "now"
	}
	return announce.FormatDuration(d) + " ago"
}

// Text implements [Answer].
func (a Sent) Text() string { return withoutMentions(a.text()) }

func (a Sent) text() string {
	switch {
	case a.Running:
		return a.Row.Label + " is still running (run " + shortID(a.Run) + ")."
	case a.Problem != "" && a.Reply != "":
		return "error: " + a.Problem + "\n" + a.Reply
	case a.Problem != "":
		return "error: " + a.Problem
	case a.Reply != "":
		return a.Reply
	}
	return "Sent to " + a.Row.Label + "."
}

// Text implements [Answer].
func (a Steered) Text() string { return withoutMentions(a.text()) }

func (a Steered) text() string {
	return "steered " + a.Row.Label + " (run " + shortID(a.Row.Run) + ")."
}

// Text implements [Answer].
func (a Spawned) Text() string { return withoutMentions(a.text()) }

func (a Spawned) text() string {
	said := "Spawned subagent " + a.Agent + " (session " + a.Session.String() + ", run " +
		shortID(a.Run) + ")."
	return text.Bound(strings.Join(append([]string{said}, a.Warnings...), "\n"), maxText)
}

// Text implements [Answer].
func (a Focused) Text() string { return withoutMentions(a.text()) }

func (a Focused) text() string {
	where := "This conversation"
	switch {
	case a.Created:
		where = "The new thread " + text.Word(a.Binding.Conversation.Thread)
	case a.Binding.Conversation.Thread != "":
		where = "This thread"
	}
	return where + " now speaks to " + a.Label + "."
}

// Text implements [Answer].
func (a Unfocused) Text() string {
	if a.Binding.Conversation.Thread == "" {
		return "Conversation unfocused."
	}
	return "Thread unfocused."
}

// conversation names a conversation that is bound.
func conversation(at session.Route) string {
	if at.Thread == "" {
		return "chat:" + text.Word(at.To)
	}
	return "thread:" + text.Word(at.Thread)
}

// Text implements [Answer].
func (a Bound) Text() string { return withoutMentions(a.text()) }

func (a Bound) text() string {
	var b strings.Builder
	b.WriteString("agents:\n-----\n")
	if len(a.Rows) == 0 {
		b.WriteString(nothingHere + "\n")
	}
	for i, r := range a.Rows {
		if i == maxRows {
			fmt.Fprintf(&b, "and %d more\n", len(a.Rows)-i)
			break
		}
		bound := "unbound"
		if len(r.Conversations) > 0 {
			bound = text.List(r.Conversations, ", ", conversation)
		}
		fmt.Fprintf(&b, "%s (%s) %s %s\n", r.Label, r.Agent, r.Status, bound)
	}
	if len(a.Here) > 0 {
		b.WriteString("this session: " + text.List(a.Here, ", ", conversation) + "\n")
	}
	return bounded(&b)
}

// Text implements [Answer].
func (a Limited) Text() string { return withoutMentions(a.text()) }

func (a Limited) text() string {
	name := "Idle timeout"
	if a.Kind == LimitMaxAge {
		name = "Max age"
	}
	if len(a.Bindings) == 0 {
		return name + " is currently disabled."
	}
	value, ends := limitOf(&a.Bindings[0], a.Kind)
	n := text.Count(len(a.Bindings), "binding", "bindings")
	switch {
	case a.Set && value == 0:
		return name + " disabled for " + n + "."
	case value == 0:
		return name + " is currently disabled."
	case a.Set:
		return fmt.Sprintf("%s set to %s for %s (next auto-unfocus at %s).",
			name, formatLimit(value), n, stamp(ends))
	}
	return fmt.Sprintf("%s active: %s (next auto-unfocus at %s).",
		name, formatLimit(value), stamp(ends))
}

// limitOf returns a limit of a binding, and when the binding ends by itself.
func limitOf(b *binding.Binding, kind LimitKind) (time.Duration, time.Time) {
	ends, _, _ := b.Expiry()
	if kind == LimitMaxAge {
		return b.MaxAge, ends
	}
	return b.Idle, ends
}

// Text implements [Answer].
func (a Stopped) Text() string { return withoutMentions(a.text()) }

func (a Stopped) text() string {
	if a.Err != nil {
		return text.Bound(words(a.Err), maxText)
	}
	said := "Agent was aborted."
	if a.Runs > 0 {
		said += " Stopped " + text.Count(a.Runs, "sub-agent", "sub-agents") + "."
	}
	return said
}

// Text implements [Answer].
func (a Begun) Text() string { return "A new conversation has begun." }

// Text implements [Answer].
func (a Compacted) Text() string { return "The conversation was made shorter." }

func (Failed) answer()    {}
func (Denied) answer()    {}
func (Helped) answer()    {}
func (Listed) answer()    {}
func (Killed) answer()    {}
func (Logged) answer()    {}
func (Described) answer() {}
func (Sent) answer()      {}
func (Steered) answer()   {}
func (Spawned) answer()   {}
func (Focused) answer()   {}
func (Unfocused) answer() {}
func (Bound) answer()     {}
func (Limited) answer()   {}
func (Stopped) answer()   {}
func (Begun) answer()     {}
func (Compacted) answer() {}
