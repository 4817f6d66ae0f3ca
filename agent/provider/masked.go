package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
)

// maxSaid is how many bytes of what a provider says Masked looks at, and maxTail how many at their
// end it leaves out then: half a secret may stand there.
const (
	maxSaid = 64 << 10
	maxTail = 16 << 10
)

// Masked returns the error of a call without the secrets that the call was made with, such as its
// key: a server may repeat them in what it answers. They are masked in each spelling that
// [announce.Redaction] knows, and so is what [announce.Redact] takes for a credential. A secret of
// less than 4 bytes is not. One of more than 4,096 is masked as it is.
//
// An *[Error] stays one, without the secrets in its Code and Message. Of a longer Message the first
// 48 KB are left. An error whose text changes loses what it wraps, which may have the text as well,
// and stays what it is for the Loop. The cause of a ctx that has ended is not the provider's, and
// is returned as it is.
func Masked(ctx context.Context, err error, secrets ...string) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	mask := maskOf(secrets)
	if said, ok := errors.AsType[*Error](err); ok && said.Error() == err.Error() {
		e := *said
		e.Code, e.Message = mask(e.Code), mask(e.Message)
		return &e
	}
	text := err.Error()
	if clean := mask(text); clean != text {
		return &maskedError{text: clean, is: meaningOf(err)}
	}
	return err
}

// MaskedPanic returns what code of the program panicked with in a call, such as the Transport of
// its client, without the secrets that the call was made with, see [Masked]. The caller panics with
// it. A value whose text has none is returned as it is, and of another one the text is left.
func MaskedPanic(value any, secrets ...string) any {
	text := fmt.Sprint(value)
	if clean := maskOf(secrets)(text); clean != text {
		return clean
	}
	return value
}

// maskOf returns what masks some secrets in a text.
func maskOf(secrets []string) func(string) string {
	var r announce.Redactor
	var long []string
	for _, s := range secrets {
		s = strings.TrimSpace(s)
		r.Learn(s)
		if len(s) > 4096 { // the Redactor passes it over
			long = append(long, s)
		}
	}
	return func(text string) string {
		isCut := len(text) > maxSaid
		text = text[:min(len(text), maxSaid)]
		for _, s := range long {
			text = strings.ReplaceAll(text, s, "***")
		}
		text = r.Redact(text)
		if isCut {
			text = strings.ToValidUTF8(text[:max(len(text)-maxTail, 0)], "")
		}
		return text
	}
}

// A maskedError is an error in whose text something was masked.
type maskedError struct {
	text string
	is   error
}

// Error implements error.
func (e *maskedError) Error() string { return e.text }

// Unwrap returns the error of package agent that e is, or nil.
func (e *maskedError) Unwrap() error { return e.is }

// meaningOf returns what an error is for the Loop, without its text.
func meaningOf(err error) error {
	limited, isLimited := errors.AsType[agent.RateLimited](err)
	switch {
	case isLimited:
		return agent.RateLimited{After: limited.After}
	case errors.Is(err, agent.ErrTooLong):
		return agent.ErrTooLong
	case errors.Is(err, agent.ErrAccount):
		return agent.ErrAccount
	case agent.IsRetryable(err):
		return errAgain
	}
	return nil
}
