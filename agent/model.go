package agent

import (
	"context"
	"encoding/json"
	"io"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Model is one call to a language model. It may be called from several goroutines at once.
//
// If the process dies in the middle of a turn, the calls of that turn are made again by the next
// process: a top-level session has three attempts at what people have said. What a Model does
// beside answering may so be done three times.
type Model interface {
	Generate(ctx context.Context, req *ModelRequest) (*ModelResponse, error)
}

// ModelFunc is a function that is a Model.
type ModelFunc func(ctx context.Context, req *ModelRequest) (*ModelResponse, error)

// Generate implements Model: it calls f.
func (f ModelFunc) Generate(ctx context.Context, req *ModelRequest) (*ModelResponse, error) {
	return f(ctx, req)
}

// A ModelRequest is one call.
type ModelRequest struct {
	Model    string // "provider/model"; empty: the model's own default
	Thinking string
	Prompt   agentctx.Prompt
	// Messages are the conversation, oldest first. Internal marks those that the library says: a
	// person can write a text that looks like one of them. A Model that can tells its provider of
	// the difference, for example by a name or a role that no message of a person gets.
	Messages []Message
	Tools    []Tool
	Schema   json.RawMessage // of the answer, if a typed one is wanted
	Session  session.Lineage // whose turn it is
	Run      spawn.RunID     // empty in a top-level session
	New      int             // how many of Messages, at the end, this turn has brought so far

	delta func(string)
	open  func(context.Context, session.File) (io.ReadCloser, error)
}

// Input returns the text of what the turn has brought so far, as [Turn.Input] does.
func (r *ModelRequest) Input() string {
	return inputText(r.Session.Key, r.Messages[max(len(r.Messages)-r.New, 0):])
}

// Delta shows text as it comes to those who watch the session.
func (r *ModelRequest) Delta(text string) {
	if r.delta != nil {
		r.delta(text)
	}
}

// A ModelResponse is what came back: text, calls of tools, Parts, or several of them.
type ModelResponse struct {
	Text      string
	ToolCalls []ToolCall
	// Parts are what the model made beside its text, such as pictures. They are kept in the
	// transcript; what cannot be kept is left out, as of a ToolResult, and the log says so. A
	// person gets the text alone.
	Parts []Part
	// Usage is that of this call. The Loop spends it and records it with the line; a Cost that is
	// zero is what Models.Prices give.
	Usage Usage
	Model string          // the one that really ran
	Raw   json.RawMessage // the provider's own form, kept in the transcript; see [Limits]
}
