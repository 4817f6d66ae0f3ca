package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// maxDecoding is how many bytes of the error of a decoder are repeated: it may repeat the value,
// which has any length.
const maxDecoding = 1000

// A memberError is a JSON text that fits its schema and cannot be decoded.
type memberError struct {
	member string // the path of the member; empty: it is not known
	reason string
	err    error
}

func (e *memberError) Error() string {
	if e.member == "" {
		return "the value " + e.reason
	}
	return text.Word(e.member) + " " + e.reason
}

// Unwrap returns the error of the decoder, which may be long.
func (e *memberError) Unwrap() error { return e.err }

// decodeTyped decodes a JSON text that fits a schema. What is still wrong with one that does is a
// *memberError.
func decodeTyped[T any](schema *jsonschema.Schema, data []byte) (v T, err error) {
	if err = schema.Validate(data); err != nil {
		return v, err
	}
	v, err = unmarshal[T](data)
	if err == nil {
		return v, nil
	}
	var zero T
	bad := &memberError{err: err}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		bad.member, bad.reason = e.Field, fmt.Sprintf("is %s: want %v", text.Quote(e.Value), e.Type)
		return zero, bad
	}
	bad.member = wrongMember[T](data)
	bad.reason = "cannot be decoded"
	if _, panicked := errors.AsType[*spawn.PanicError](err); !panicked {
		bad.reason += ": " + text.Bound(err.Error(), maxDecoding)
	}
	return zero, bad
}

// unmarshal decodes a JSON text. The methods of T that decode may panic, which is a
// *[spawn.PanicError].
func unmarshal[T any](data []byte) (v T, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &spawn.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	err = json.Unmarshal(data, &v)
	return v, err
}

// wrongMember returns the first member of an object that cannot be decoded on its own, or "". The
// errors of methods that decode do not name it.
func wrongMember[T any](data []byte) string {
	if reflect.TypeFor[*T]().Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return "" // it sees the object as a whole
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		alone, err := json.Marshal(map[string]json.RawMessage{name: members[name]})
		if err != nil {
			return ""
		}
		if _, err = unmarshal[T](alone); err != nil {
			return name
		}
	}
	return ""
}

// repeatedMember returns the name of a member that stands twice in one object of a JSON text, at
// any depth, and false if there is none. Decoders take the last one, and a reader who checks the
// first one, such as a filter or a person who approves the call, sees something else.
func repeatedMember(text []byte) (name string, found bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type container struct {
		names map[string]bool // nil for a list
		value bool            // the value of a member comes next
	}
	var open []container
	for {
		token, err := d.Token()
		if err != nil { // the end, or the decoder of the text says what is wrong
			return "", false
		}
		if n := len(open); n > 0 && open[n-1].names != nil {
			in := &open[n-1]
			if key, ok := token.(string); ok && !in.value {
				if in.names[key] {
					return key, true
				}
				in.names[key], in.value = true, true
				continue
			}
			in.value = false
		}
		switch token {
		case json.Delim('{'):
			open = append(open, container{names: make(map[string]bool)})
		case json.Delim('['):
			open = append(open, container{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}

// typedResult returns the T that a result is, and the zero T with an error for another result.
func typedResult[T any](res Result) (v T, err error) {
	_, schema, err := jsonschema.For[T]()
	if err != nil {
		return v, err
	}
	data := []byte(res.JSON)
	if len(data) == 0 {
		if data, err = findJSON(withoutThoughts(res.Text), schema.Opens()); err != nil {
			return v, err
		}
	}
	if v, err = decodeTyped[T](schema, data); err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// withoutThoughts returns a text that is not JSON as people would read it, where it has the tags of
// reasoning: a value inside a thought is not the result.
func withoutThoughts(said string) string {
	if json.Valid([]byte(said)) ||
		!strings.Contains(said, "<think") && !strings.Contains(said, "<final>") {
		return said
	}
	return announce.Sanitize(said)
}

// maxStarts is how many places of a text are tried for the beginning of a JSON value.
const maxStarts = 32

// findJSON returns the JSON of a text: the whole of it, the inside of the fenced block that it is,
// or the one value in its prose that begins with one of the opening characters. The error of a text
// without one has its head, and so has that of a text with several, which leave open what is meant.
func findJSON(said, opening string) ([]byte, error) {
	said = trimFence(said)
	if json.Valid([]byte(said)) || strings.TrimSpace(said) == "" {
		return []byte(said), nil
	}
	var found []byte
	rest := said
	for range maxStarts {
		at := strings.IndexAny(rest, opening)
		if at < 0 {
			break
		}
		rest = rest[at:]
		var value json.RawMessage
		if json.NewDecoder(strings.NewReader(rest)).Decode(&value) != nil {
			rest = rest[1:]
			continue
		}
		if rest = rest[len(value):]; found != nil && !bytes.Equal(found, value) {
			return nil, fmt.Errorf("it holds several JSON values: %s", text.Quote(said))
		}
		found = value
	}
	if found != nil {
		return found, nil
	}
	why := errors.New("not JSON")
	if err := json.Unmarshal([]byte(said), new(json.RawMessage)); err != nil {
		why = fmt.Errorf("not JSON: %w", err)
	}
	return nil, fmt.Errorf("%w: %s", why, text.Quote(said))
}

// trimFence returns the inside of a text that is one fenced code block, as models like to answer,
// else the text.
func trimFence(said string) string {
	said = strings.TrimSpace(said)
	inner, ok := strings.CutPrefix(said, "```")
	if !ok {
		return said
	}
	if inner, ok = strings.CutSuffix(inner, "```"); !ok {
		return said
	}
	if _, rest, ok := strings.Cut(inner, "\n"); ok {
		return strings.TrimSpace(rest)
	}
	return said
}
