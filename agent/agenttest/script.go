package agenttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// Main is the name in a [Script] of every top-level session that is not named otherwise.
const Main = "main"

// A Script says what the model answers, step by step. Its keys name sessions: [Main] is every
// top-level session, another one is named by its key; a sub-agent by its label, or by its task if
// it has no label.
//
// A conversation is at the step that follows what the model has said in it so far. So a turn that
// is repeated after a crash gets the same answers again, with the same ids of tool calls, and two
// sub-agents with one label each start at the first step. A call for which there is no step fails
// the test, also when the function that Run got has returned.
type Script map[string][]Step

// A Step is one model call.
type Step struct {
	kind  stepKind
	calls []agent.ToolCall
	parts []agent.Part
	text  string
	err   error
	value any
	after time.Duration
	usage agent.Usage
}

type stepKind uint8

const (
	saying stepKind = iota
	calling
	echoing
	failing
	hanging
	stuck
	panicking
)

// Say answers with text.
func Say(text string) Step { return Step{kind: saying, text: text} }

// Call answers with a tool call; args is JSON. What the tool returns is new in the next step.
func Call(tool, args string) Step {
	return Step{kind: calling, calls: []agent.ToolCall{{Name: tool, Args: json.RawMessage(args)}}}
}

// Echo answers with the text of what is new: what a person said, what a tool returned, the result
// of a sub-agent. It does so any number of times; the steps after it are never reached. Of a
// sub-agent that did not end well it says the label and the status.
func Echo() Step { return Step{kind: echoing} }

// Fail answers with an error. The next call is at the next step.
func Fail(err error) Step { return Step{kind: failing, err: err} }

// Hang does not answer, until the turn is cancelled.
func Hang() Step { return Step{kind: hanging} }

// Stuck does not answer, and not even a cancelled turn makes it return before the test is over.
func Stuck() Step { return Step{kind: stuck} }

// Panic panics.
func Panic(value any) Step { return Step{kind: panicking, value: value} }

// After delays the step.
func (s Step) After(d time.Duration) Step { s.after = d; return s }

// And adds another tool call to the same answer.
func (s Step) And(tool, args string) Step {
	s.calls = append(slices.Clip(s.calls), agent.ToolCall{Name: tool, Args: json.RawMessage(args)})
	return s
}

// With adds parts to the answer, such as a picture that the model made.
func (s Step) With(parts ...agent.Part) Step {
	s.parts = append(slices.Clip(s.parts), parts...)
	return s
}

// Spending says what the call consumes.
func (s Step) Spending(u agent.Usage) Step { s.usage = u; return s }

// next returns the step of a conversation in which the model has spoken so many times.
func (s Script) next(name string, spoken int) (Step, error) {
	steps, ok := s[name]
	if !ok {
		names := slices.Sorted(maps.Keys(s))
		return Step{}, fmt.Errorf("the script has nothing for %q, only for %q", name, names)
	}
	for i, step := range steps {
		if i == spoken || step.kind == echoing {
			return step, nil
		}
	}
	return Step{}, fmt.Errorf("the script has %d steps for %q, and this is model call %d",
		len(steps), name, spoken+1)
}

// nameOf returns the name of a session in the script.
func (s Script) nameOf(t *agent.Turn) string {
	key := t.Session.Key.String()
	if _, ok := s[key]; ok {
		return key
	}
	if t.Run == "" {
		return Main
	}
	if t.Label != "" {
		return t.Label
	}
	return taskOf(t)
}

// taskOf returns the task of a sub-agent as one of its first messages has it.
func taskOf(t *agent.Turn) string {
	for _, m := range t.Messages {
		if m.Copied {
			continue // the task of its requester
		}
		if _, task, ok := strings.Cut(m.Text, "[Subagent Task]:"); ok {
			return strings.TrimSpace(task)
		}
	}
	return ""
}

// spoken counts the model's own messages in this session.
func spoken(messages []agent.Message) (n int) {
	for _, m := range messages {
		if m.Role == session.MessageAssistant && !m.Copied {
			n++
		}
	}
	return n
}

// fresh returns what has come since the model last spoke.
func fresh(messages []agent.Message) []agent.Message {
	for i, m := range slices.Backward(messages) {
		if m.Role == session.MessageAssistant {
			return messages[i+1:]
		}
	}
	return messages
}
