package agentctx

import (
	"errors"
	"fmt"
)

// A FieldError is a value without a meaning in a field of an [Input], [Spec] or [Limits].
type FieldError struct {
	Field  string // "Input.Limits.File"
	Reason string // "is -7, want ..."
}

func (e *FieldError) Error() string { return "agentctx: " + e.Field + " " + e.Reason }

// fieldErrors are the mistakes that a Validate method finds.
type fieldErrors []error

func (list *fieldErrors) add(field, format string, args ...any) {
	*list = append(*list, &FieldError{field, fmt.Sprintf(format, args...)})
}

// within adds the mistakes of a part under the name of the whole.
func (list *fieldErrors) within(whole string, err error) {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return
	}
	for _, err := range many.Unwrap() {
		if f, ok := errors.AsType[*FieldError](err); ok {
			*list = append(*list, &FieldError{whole + "." + f.Field, f.Reason})
		}
	}
}

// join returns the mistakes as one error, nil for none.
func (list fieldErrors) join() error { return errors.Join(list...) }
