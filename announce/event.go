package announce

import (
	"encoding/json"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Source is what sort of run an event is the end of. The zero Source is a sub-agent.
type Source uint8

// The sorts of runs whose end is announced.
const (
	SourceSubagent Source = iota // a sub-agent
	SourceCron                   // a session of a cron job
	SourceProgram                // no run, but the program itself
)

var sourceNames = [...]string{
	SourceSubagent: "subagent", SourceCron: "cron", SourceProgram: "program",
}

// String returns the word for s, such as "cron".
func (s Source) String() string { return enum.String(sourceNames[:], "Source", s) }

// MarshalText returns the word for s. A value that is not a Source is an error.
func (s Source) MarshalText() ([]byte, error) {
	return enum.Marshal(sourceNames[:], "announce", "source", s)
}

// UnmarshalText sets s to the Source that text is the word for, in any letter case of ASCII.
func (s *Source) UnmarshalText(text []byte) error {
	return enum.Unmarshal(sourceNames[:], "announce", "source", text, s)
}

// Type returns the announce type: "subagent task", "cron job" or "event".
func (s Source) Type() string {
	switch s {
	case SourceCron:
		return "cron job"
	case SourceProgram:
		return "event"
	default:
		return "subagent task"
	}
}

// An Event is what the requester of a run is told of its end. [NewEvent] makes one. It is a plain
// value. Every field may hold any text, since both renderings escape.
type Event struct {
	Source    Source      `json:"source"`
	Child     session.Key `json:"child"`               // the session that ended its run
	SessionID string      `json:"sessionId,omitempty"` // of the child
	// Name is what the requester calls the child, see [spawn.Request].Name; empty: nothing.
	Name string `json:"name,omitempty"`
	// Task is the label as Sanitize and Redact leave it, of which it has at most 48 characters, or
	// the task without a label.
	Task string `json:"task"`
	// Status comes from the runtime, never from what the child says.
	Status spawn.Status `json:"status"`
	// Reason says why it did not end well. What renders it leaves out what Sanitize does.
	Reason string `json:"reason,omitempty"`
	// Result is the visible text to announce, whole unless Head is set; empty if there is none.
	Result string `json:"result,omitempty"`
	// Whole names all bytes of a result that is in a file of the child's transcript.
	Whole session.File `json:"whole,omitzero"`
	// Head says that Result is only the beginning of the bytes that Whole names: the completion was
	// not loaded, see [spawn.Result.Load].
	Head bool `json:"head,omitempty"`
	// Silent says that the child chose to report nothing. A requester that waits for it is still
	// released.
	Silent bool            `json:"silent,omitempty"`
	Files  []spawn.File    `json:"files,omitempty"`
	Model  spawn.ModelInfo `json:"model,omitzero"`
	Stats  Stats           `json:"stats,omitzero"`
	// Nested says that the requester is itself a sub-agent.
	Nested bool `json:"nested,omitempty"`
	// Cron says that the requester is a session of a cron job, where no person waits.
	Cron bool `json:"cron,omitempty"`
	// Siblings is how many other runs of the requester are still active.
	Siblings int `json:"siblings,omitempty"`
	// History says that the session that is told has the tool sessions_history. ForModel names the
	// tool where it leaves out a part of the result of a session. NewEvent does not know: package
	// agent sets it for the sessions that it runs.
	History bool `json:"history,omitempty"`
	// Nonce is in the lines that fence the rendering for a model. Characters other than the letters
	// and digits of ASCII, '-' and '_' are ignored.
	Nonce string `json:"nonce"`
}

// NewEvent makes the event of a completion. A receiver passes the Completion of its
// [spawn.Delivery]. NewEvent does not change it and depends on nothing else: the same completion
// always gives the same event. A nil completion gives the zero Event.
//
// The result is the visible part of what the Runner returned. If there is none, it is the typed
// result, and without one the visible part of the fallback.
//
// A child is silent if it ended ok and returned a silent token. A child that did not end ok is
// always reported.
//
// A completion does not name the transcript. A caller that knows its path sets Stats.Transcript, as
// package agent does for the sessions that it runs.
func NewEvent(c *spawn.Completion) Event {
	if c == nil {
		return Event{}
	}
	run := c.Run
	e := Event{
		Source: SourceSubagent, Child: run.Key, SessionID: run.SessionID, Name: run.Name,
		Task:   text.Label(secret.OneLine(shownLabel, run.Label)),
		Status: run.Status, Reason: run.Error, Files: run.Result.Files, Model: run.Model,
		Nested: c.Requester.IsSubagent(), Cron: c.Requester.Kind() == session.KindCron,
		Siblings: c.Siblings, Nonce: c.Nonce,
	}
	if run.Key.Kind() == session.KindCron {
		e.Source = SourceCron
	}
	if IsBlank(e.Task) {
		e.Task = run.Task
	}
	if run.Result.Model != "" {
		e.Model.Actual = run.Result.Model
	}
	e.Stats = Stats{
		Usage: run.Result.Usage, Key: run.Key, SessionID: run.SessionID, Missed: run.Missed,
	}
	if !run.Ended.IsZero() {
		e.Stats.Runtime = run.Elapsed(run.Ended)
	}
	e.selectResult(c)
	return e
}

// shownLabel returns what is shown of a label: what cuts it must cut through no secret.
func shownLabel(label string) string { return Redact(Sanitize(label)) }

// EventOf returns the event that a delivery brings: of a completion that of [NewEvent], and of
// something that the program has announced that of Runtime.Announce. ok is false for a reply, for
// the end of a run as a hook hears of it, and for a text that another program has announced.
func EventOf(d spawn.Delivery) (e Event, ok bool) {
	switch {
	case d.Completion != nil:
		return NewEvent(d.Completion), true
	case d.Event != nil:
		return ParseEvent(d.Event.Text)
	}
	return Event{}, false
}

// ParseEvent returns the Event whose JSON a text is, as Runtime.Announce writes it. ok is false for
// another text.
func ParseEvent(text string) (e Event, ok bool) {
	err := json.Unmarshal([]byte(text), &e)
	return e, err == nil
}

// selectResult sets the text to announce, or that the child chose to say nothing.
func (e *Event) selectResult(c *spawn.Completion) {
	r := &c.Run.Result
	if said, d := readReply(c.Run.Announcement); d == DecisionSpeak {
		e.Result = said
		return
	}
	text, d := readReply(r.Text)
	switch {
	case d == DecisionSpeak:
		e.Result, e.Whole, e.Head = text, r.Whole, r.Whole.Size > int64(len(r.Text))
	case d == DecisionSilent && c.Run.Status == spawn.StatusOK:
		e.Silent = true
	case len(r.JSON) > 0 || !r.WholeJSON.IsZero():
		e.Result, e.Whole = string(r.JSON), r.WholeJSON
		e.Head = r.WholeJSON.Size > int64(len(r.JSON))
	default:
		e.Result, _ = Visible(c.Fallback)
	}
}

// Outcome returns the status word: "success", "error", "timeout" or "unknown".
func (e Event) Outcome() string {
	word, _ := e.outcome()
	return word
}

// Phrase returns the status as a phrase: "completed successfully", "failed: reason", "timed out",
// "interrupted: reason" or "unknown".
func (e Event) Phrase() string {
	_, phrase := e.outcome()
	return phrase
}

// outcome returns the status word and the phrase.
func (e Event) outcome() (word, phrase string) {
	switch e.Status {
	case spawn.StatusOK:
		return "success", "completed successfully"
	case spawn.StatusFailed, spawn.StatusIncomplete:
		reason := shorten(Sanitize(e.Reason))
		if reason == "" {
			reason = "unknown error"
		}
		return "error", "failed: " + reason
	case spawn.StatusTimedOut:
		return "timeout", "timed out"
	case spawn.StatusCancelled:
		return "error", "failed: stopped"
	case spawn.StatusInterrupted:
		if reason := shorten(Sanitize(e.Reason)); reason != "" {
			return "unknown", "interrupted: " + reason
		}
		return "unknown", "interrupted"
	default: // not terminal, which the status of a completion never is
		return "unknown", "unknown"
	}
}

// ForPerson returns the result alone, sanitized. It has neither metadata nor control tokens. It is
// empty for a silent child.
func (e Event) ForPerson() string {
	if e.Silent {
		return ""
	}
	text, _ := Visible(e.Result)
	return text
}
