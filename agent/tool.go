package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A ToolCall is a model's request to call a tool.
type ToolCall = session.ToolCall

// A Tool is something that a model may call.
type Tool struct {
	// Name is what the model calls; unique among the tools of a Config.
	Name string
	// Description says what the tool does. Its first line stands in the prompt.
	Description string
	// Schema is the JSON Schema of the arguments; nil: an object without properties.
	Schema json.RawMessage
	// Call runs the tool and returns what the model is told. An error is told to the model too. It
	// may be called from several goroutines at once.
	Call func(ctx context.Context, c ToolCall) (string, error)
}

// NewTool makes a Tool of a function. The schema of the arguments is that of In: a struct whose
// fields have json tags, and doc tags as descriptions; fields with omitempty or omitzero, and
// pointers, are optional. It panics if In has no schema, which is a mistake of the program.
// Arguments that cannot be decoded into In give the model an error and do not reach the function.
// What decodes does reach it, also where a required member is missing or one is unknown.
func NewTool[In any](
	name, description string, f func(ctx context.Context, in In) (string, error),
) Tool {
	schema, err := jsonschema.For[In]()
	if err != nil {
		panic(fmt.Sprintf("agent: NewTool %q: %v", name, err))
	}
	return Tool{
		Name: name, Description: description, Schema: schema,
		Call: func(ctx context.Context, c ToolCall) (string, error) {
			in, err := decodeArgs[In](c.Args)
			if err != nil {
				return "", fmt.Errorf("agent: arguments of %q: %w", name, err)
			}
			return f(ctx, in)
		},
	}
}

func decodeArgs[In any](args json.RawMessage) (in In, err error) {
	if len(strings.TrimSpace(string(args))) == 0 {
		args = json.RawMessage("{}")
	}
	return in, json.Unmarshal(args, &in)
}

// recovering returns the tool with its panics turned into errors.
func (t Tool) recovering() Tool {
	call := t.Call
	t.Call = func(ctx context.Context, c ToolCall) (out string, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("agent: tool %q: %w", t.Name,
					&spawn.PanicError{Value: p, Stack: debug.Stack()})
			}
		}()
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		return call(ctx, c)
	}
	return t
}

// A Caller is the session for which a tool is called, and its turn.
type Caller struct {
	// Session is where the session stands in its tree.
	Session session.Lineage
	// Run names the run; empty in a top-level session.
	Run RunID
	// Turn is the number of the turn, [Turn.N].
	Turn int
	// Sandboxed says that the tool must work in the sandbox of the session; see [Turn.Sandboxed].
	Sandboxed bool
}

// callerKey is the key under which the context of a tool's call holds its Caller.
type callerKey struct{}

// CallerOf returns the session for which a tool is called, from the context that the tool got. It
// returns false for a context that is not of a call through [Turn.Tools]; a tool that must not work
// outside a sandbox by mistake then refuses.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(*Caller)
	if !ok {
		return Caller{}, false
	}
	return *c, true
}

// ownTool returns the tool for a turn: it is told who calls, and ends with the turn.
func (t *Turn) ownTool(tool Tool) Tool {
	call := tool.Call
	caller := &Caller{
		Session: t.Session, Run: t.Run, Turn: t.N, Sandboxed: t.spawn.Authority.Sandboxed,
	}
	tool.Call = func(ctx context.Context, c ToolCall) (string, error) {
		if err := t.err(); err != nil {
			return "", err
		}
		ctx, done := t.spawn.Within(context.WithValue(ctx, callerKey{}, caller))
		defer done()
		return call(ctx, c)
	}
	return tool
}

// firstLine returns the first line of a description.
func (t Tool) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
	return line
}
