package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
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
	// Call runs the tool and returns what the model is told. An error is told to the model too. A
	// panic fails the call: the model is told a plain sentence, and the log has the value and the
	// stack. Call may be called from several goroutines at once.
	Call func(ctx context.Context, c ToolCall) (string, error)
}

// NewTool makes a Tool of a function. The schema of the arguments is that of In: a struct whose
// fields have json tags, and doc tags as descriptions; fields with omitempty or omitzero, and
// pointers, are optional. It panics if In has no schema, which is a mistake of the program.
// Arguments that cannot be decoded into In give the model an error and do not reach the function.
// What decodes does reach it, also where a required member is missing or one is unknown. A member
// that stands twice in one object gives the model an error, and so do two names of the outermost
// object that differ in letter case only.
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
	if err = json.Unmarshal(args, &in); err != nil {
		return in, err
	}
	of := reflect.TypeFor[In]()
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if name, twice := repeatedMember(args, of.Kind() == reflect.Struct); twice {
		return in, fmt.Errorf("the member %s is there twice", text.Quote(name))
	}
	return in, nil
}

// toolError is a call of a tool that panicked. Its text is for the model, so that what the panic
// was about is not in it.
type toolError struct {
	name string
	err  *CallbackError
}

func (e *toolError) Error() string {
	return fmt.Sprintf("agent: the tool %q failed unexpectedly", e.name)
}

// Unwrap returns the *CallbackError.
func (e *toolError) Unwrap() error { return e.err }

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

// ownTool returns the tool for a turn: it is told who calls, obeys the Limits, and ends with the
// turn.
func (t *Turn) ownTool(tool Tool) Tool {
	call := t.containTool(tool)
	caller := &Caller{
		Session: t.Session, Run: t.Run, Turn: t.N, Sandboxed: t.spawn.Authority.Sandboxed,
	}
	tool.Call = func(ctx context.Context, c ToolCall) (string, error) {
		if err := t.err(); err != nil {
			return "", err
		}
		if err := t.rt.cfg.Limits.checkArgs(c); err != nil {
			return "", err
		}
		ctx, done := t.spawn.Within(context.WithValue(ctx, callerKey{}, caller))
		defer done()
		out, err := call(ctx, c)
		return text.Bound(out, t.rt.cfg.Limits.ToolResult), err
	}
	return tool
}

// containTool returns the Call of a tool with its panics turned into errors: the model is told a
// plain sentence, and the value is in the log.
func (t *Turn) containTool(
	tool Tool,
) func(ctx context.Context, c ToolCall) (string, error) {
	return func(ctx context.Context, c ToolCall) (out string, err error) {
		field := fmt.Sprintf("Tools[%q].Call", tool.Name)
		returned := false
		defer func() {
			if returned {
				return
			}
			value := recover()
			if value == nil { // the goroutine ends, and the turn with it if it is the Runner's
				t.entering(field)
				return
			}
			failed := newCallbackError(field, value)
			t.rt.log.Error("offshoot: a tool panicked", "session", t.Session.Key.String(),
				"turn", t.N, "tool", tool.Name, "error", failed.Error(),
				"stack", string(failed.Stack))
			out, err = "", &toolError{tool.Name, failed}
		}()
		out, err = tool.Call(ctx, c)
		returned = true
		return out, err
	}
}

// firstLine returns the first line of a description.
func (t Tool) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
	return line
}
