package agent

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"strings"

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

// A StreamModel is a Model that can show its answer as it comes. A Loop whose Model has Stream
// calls it, and not Generate.
type StreamModel interface {
	Model
	// Stream makes the call and yields the answer piece by piece. The Loop shows the Text of each
	// chunk to those who watch the session, as [ModelRequest.Delta] does; Stream itself need not.
	// The last chunk has the Response, behind which the Loop takes nothing. A Response without a
	// Text gets the Texts of the chunks, up to the Limits.
	//
	// An error that is yielded is that of the call, with what was shown so far left as it is. A
	// stream that ends before a Response is [ErrNoResponse]. When ctx ends the stream should end
	// soon. It is called for one pass, in the goroutine of the Loop, and may not yield after yield
	// has returned false.
	Stream(ctx context.Context, req *ModelRequest) iter.Seq2[ModelChunk, error]
}

// A ModelChunk is a piece of the answer of a [StreamModel].
type ModelChunk struct {
	Text     string         // what has come since the chunk before
	Response *ModelResponse // the whole answer, with its Usage; nil: there is more to come
}

// generate calls the model, and shows its answer as it comes if the model can do that.
func (l *Loop) generate(
	ctx context.Context, t *Turn, req *ModelRequest,
) (resp *ModelResponse, err error) {
	streaming, ok := l.Model.(StreamModel)
	if ok {
		resp, err = readStream(ctx, req, streaming.Stream(ctx, req), t.rt.cfg.Limits.Reply)
	} else {
		resp, err = l.Model.Generate(ctx, req)
	}
	if err == nil && resp == nil {
		err = ErrNoResponse
	}
	return resp, err
}

// readStream reads a stream until it has a response or an error, or ctx ends, and shows its text on
// the way. It keeps little more of the text than limit bytes; negative: all of it. A stream that
// goes on although it was told to end is not listened to.
func readStream(
	ctx context.Context, req *ModelRequest, stream iter.Seq2[ModelChunk, error], limit int,
) (resp *ModelResponse, err error) {
	if stream == nil {
		return nil, nil //nolint:nilnil // it is what such a stream is
	}
	var said strings.Builder
	over := false
	stream(func(chunk ModelChunk, failed error) bool {
		if over {
			return false
		}
		if err = failed; err == nil && ctx.Err() != nil && chunk.Response == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			over = true
			return false
		}
		if chunk.Text != "" {
			req.Delta(chunk.Text)
			if limit < 0 || said.Len() <= limit {
				said.WriteString(chunk.Text)
			}
		}
		resp, over = chunk.Response, chunk.Response != nil
		return !over
	})
	over = true // a yield that the stream has kept is not listened to either
	if resp != nil && resp.Text == "" && said.Len() > 0 {
		whole := *resp
		whole.Text = said.String()
		resp = &whole
	}
	return resp, err
}
