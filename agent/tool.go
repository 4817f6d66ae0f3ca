package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
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

// firstLine returns the first line of a description.
func (t Tool) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
	return line
}
