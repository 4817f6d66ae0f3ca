package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Retryable marks an error of a [Model] or a tool as worth another try: the provider is overloaded,
// or the connection broke. The text stays, and errors.Is and errors.As see err. Nil stays nil.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return &retryableError{err}
}

type retryableError struct{ err error }

func (e *retryableError) Error() string { return e.err.Error() }

// Unwrap returns the error that is marked.
func (e *retryableError) Unwrap() error { return e.err }

// RateLimited is the error of a [Model] whose provider takes no calls for now, as HTTP status 429
// says. It is worth another try, see [IsRetryable].
//
// A RateLimited and a pointer to one are both errors, and errors.As finds either as the other.
type RateLimited struct { //nolint:errname // it says what the provider did
	After time.Duration // from now until the provider takes calls again; 0 or less: not known
	Err   error         // what the provider answered; may be nil
}

func (e RateLimited) Error() string {
	text := "agent: the provider limits the rate of calls"
	if e.After > 0 {
		text += fmt.Sprintf(" for %v", e.After)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e RateLimited) Unwrap() error { return e.Err }

// As implements what errors.As asks: it sets target to e if that is one of the two forms.
func (e RateLimited) As(target any) bool {
	switch target := target.(type) {
	case *RateLimited:
		*target = e
	case **RateLimited:
		*target = &e
	default:
		return false
	}
	return true
}

// IsRetryable reports whether an error is worth another try: [Retryable] has marked it, or it is a
// [RateLimited], or it wraps one that is. No other error is, nor is nil.
func IsRetryable(err error) bool {
	_, marked := errors.AsType[*retryableError](err)
	_, limited := errors.AsType[RateLimited](err)
	return marked || limited
}

// callModel makes one call of the model with what the conversation has now.
func (l *Loop) callModel(ctx context.Context, t *Turn) (*ModelResponse, error) {
	messages, fresh, err := t.view(ctx)
	if err != nil {
		return nil, err
	}
	before := t.entering(t.runner + ".Model")
	t.deltas.void(t.spawn)
	resp, err := l.Model.Generate(ctx, &ModelRequest{
		Model: t.Model, Thinking: t.Thinking, Prompt: t.Prompt, Messages: messages,
		Tools: t.Tools, Schema: t.Schema, Session: t.Session, Run: t.Run,
		New: fresh, delta: t.Delta, open: t.OpenFile,
	})
	t.entering(before)
	if err == nil && resp == nil {
		err = errors.New("agent: the model returned neither a response nor an error")
	}
	return resp, err
}
