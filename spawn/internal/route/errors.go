package route

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// An Error is an error on its way from one process to another: its text, the codes of the sentinels
// that it is, and the types that are in it.
type Error struct {
	Text  string                     `json:"text"`
	Is    []string                   `json:"is,omitempty"`
	Types map[string]json.RawMessage `json:"types,omitempty"`
}

// An ErrorRow is one kind of error that crosses. A code that was in use is not used for anything
// else.
type ErrorRow struct {
	Code     string
	Sentinel error // nil: it is a type

	find func(error) (any, bool)
	read func(json.RawMessage) (error, error)
}

// Is returns the row of a sentinel.
func Is(code string, sentinel error) ErrorRow { return ErrorRow{Code: code, Sentinel: sentinel} }

// As returns the row of a type of errors that has all that it says in fields which encode
// themselves. E is a pointer to T.
func As[T any, E interface {
	*T
	error
}](code string) ErrorRow {
	return Via(code, func(e E) *T { return e }, func(w *T) E { return w })
}

// Via returns the row of a type of errors that crosses in the form W.
func Via[E error, W any](code string, to func(E) *W, from func(*W) E) ErrorRow {
	return ErrorRow{
		Code: code,
		find: func(err error) (any, bool) {
			if e, ok := errors.AsType[E](err); ok {
				return to(e), true
			}
			return nil, false
		},
		read: func(data json.RawMessage) (error, error) {
			w := new(W)
			if err := json.Unmarshal(data, w); err != nil {
				return nil, err
			}
			return from(w), nil
		},
	}
}

// Errors are all kinds of errors that cross. What is not among them crosses as its text.
type Errors []ErrorRow

// Encode returns an error for another process; nil for nil.
func (t Errors) Encode(err error) *Error {
	if err == nil {
		return nil
	}
	e := &Error{Text: err.Error()}
	for _, r := range t {
		if r.Sentinel != nil {
			if errors.Is(err, r.Sentinel) {
				e.Is = append(e.Is, r.Code)
			}
			continue
		}
		found, ok := r.find(err)
		if !ok {
			continue
		}
		if data, err := json.Marshal(found); err == nil {
			if e.Types == nil {
				e.Types = make(map[string]json.RawMessage)
			}
			e.Types[r.Code] = data
		}
	}
	return e
}

// Decode returns the error of another process, for errors.Is and errors.As; nil for nil. A code
// that is not known, as of a later version, is left out.
func (t Errors) Decode(e *Error) error {
	if e == nil {
		return nil
	}
	err := &remoteError{text: e.Text}
	for _, r := range t {
		if r.Sentinel != nil {
			if slices.Contains(e.Is, r.Code) {
				err.of = append(err.of, r.Sentinel)
			}
			continue
		}
		if data, ok := e.Types[r.Code]; ok {
			if of, rerr := r.read(data); rerr == nil {
				err.of = append(err.of, of)
				err.take(of)
			}
		}
	}
	return err
}

// A remoteError is an error of another process.
type remoteError struct {
	text string
	of   []error // the sentinels and types in it

	// said is the one of them whose text stands between the offsets; nil: none does.
	said     error
	from, to int
}

// take notes where the text of a type is. The longest one that there is has the others in it.
func (e *remoteError) take(of error) {
	text := of.Error()
	if i := strings.Index(e.text, text); i >= 0 && len(text) > e.to-e.from {
		e.said, e.from, e.to = of, i, i+len(text)
	}
}

// Error returns the text that the error has there, in which the field of a refusal is called what
// the package that has changed it calls it.
func (e *remoteError) Error() string {
	if e.said == nil {
		return e.text
	}
	return e.text[:e.from] + e.said.Error() + e.text[e.to:]
}

// Unwrap returns what the error is.
func (e *remoteError) Unwrap() []error { return e.of }
