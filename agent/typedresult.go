package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/jsonscan"
	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// maxDecoding is how many bytes the error of a decoder has at most that is repeated: it may repeat
// the value, which has any length.
const maxDecoding = 1000

// decoderSaid returns the error of a decoder, or how long it is: a part of it could have a part of
// a secret, which nothing that shows it would know.
func decoderSaid(err error) string {
	said := err.Error()
	if len(said) > maxDecoding {
		return "an error of " + text.Count(len(said), "byte", "bytes")
	}
	return said
}

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
	if len(e.member) > text.MaxQuoted {
		return text.QuoteWhole(e.member) + " " + e.reason
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
	return decodeChecked[T](data)
}

// decodeChecked is decodeTyped for a text that was checked.
func decodeChecked[T any](data []byte) (v T, err error) {
	v, err = unmarshal[T](data)
	if err == nil {
		return v, nil
	}
	var zero T
	bad := &memberError{err: err}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		bad.member, bad.reason = e.Field, fmt.Sprintf("is %s: want %v", text.QuoteWhole(e.Value), e.Type)
		return zero, bad
	}
	bad.member = wrongMember[T](data)
	bad.reason = "cannot be decoded"
	if _, panicked := errors.AsType[*spawn.PanicError](err); !panicked {
		bad.reason += ": " + decoderSaid(err)
	}
	return zero, bad
}

// unmarshal decodes a JSON text. The methods of T that decode may panic, which is a
// *[spawn.PanicError].
func unmarshal[T any](data []byte) (v T, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = newPanic(value)
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

// A ResultError is a run whose result is not of the type asked for. The raw text is in Run.Result.
//
// Mostly the run has failed with it, after two repairs. It has ended well if the result fits the
// schema, and a method of T that decodes it refuses it, or if it was spawned for another T, and it
// may have in a journal of an earlier version.
type ResultError struct {
	Run    RunInfo
	Schema json.RawMessage // what the result must fit
	Err    error           // what is wrong with it
}

// Error returns the reason, and the text of the result if it is short.
func (e *ResultError) Error() string {
	said := fmt.Sprintf("agent: result of run %s: %v", e.Run.ID, e.Err)
	if res := e.Run.Result.Text; len(res) <= text.MaxQuoted {
		if res = text.Quote(res); !strings.Contains(said, res) {
			said += ": " + res
		}
	}
	return said + "; the schema is " + text.Quote(string(e.Schema))
}

// Unwrap returns what is wrong with the result.
func (e *ResultError) Unwrap() error { return e.Err }

// typedResult returns the T that a result is, and the zero T with an error for another result.
func typedResult[T any](res Result) (v T, err error) {
	_, schema, err := jsonschema.For[T]()
	if err != nil {
		return v, err
	}
	data, err := typedJSON(schema, res)
	if err != nil {
		return v, err
	}
	return decodeChecked[T](data)
}

// typedJSON returns the JSON of a result that fits a schema: its JSON, or else what its text holds.
func typedJSON(schema *jsonschema.Schema, res Result) ([]byte, error) {
	if len(res.JSON) > 0 {
		return res.JSON, schema.Validate(res.JSON)
	}
	return findJSON(schema, withoutThoughts(res.Text))
}

// resultTypes are the types of results that a program has asked for since it was started. The
// journal has the schemas: a method of a type that decodes, and may refuse what fits the schema, is
// known only here. The zero value knows none. It is safe for concurrent use.
type resultTypes struct {
	mu    sync.Mutex
	known map[resultType]resultCheck
}

// A resultType names a type of results in a journal.
type resultType struct{ name, schema string }

type resultCheck struct {
	of     reflect.Type
	decode func([]byte) error // nil: several types have the name and the schema
}

// learnType notes that the results with a schema are to be decoded as a T, and returns its name.
func learnType[T any](types *resultTypes, schema json.RawMessage) (name string) {
	of := reflect.TypeFor[T]()
	if schema == nil {
		return ""
	}
	x := resultType{of.PkgPath() + " " + of.String(), string(schema)}
	types.mu.Lock()
	defer types.mu.Unlock()
	switch known, ok := types.known[x]; {
	case !ok:
		if types.known == nil {
			types.known = make(map[resultType]resultCheck)
		}
		types.known[x] = resultCheck{of, func(data []byte) error {
			_, err := decodeChecked[T](data)
			return err
		}}
	case known.of != of:
		types.known[x] = resultCheck{}
	}
	return x.name
}

// refusal returns why a result is not one that the run takes which was spawned with extra, or "".
// JSON that is not JSON becomes the text of a result that has none.
func (types *resultTypes) refusal(extra runExtra, res *Result) string {
	if len(res.JSON) > 0 {
		if err := json.Unmarshal(res.JSON, new(json.RawMessage)); err != nil {
			res.Text, res.JSON = cmp.Or(res.Text, string(res.JSON)), nil
			return "Result.JSON: " + err.Error()
		}
	}
	schema, err := jsonschema.Compile(extra.Schema)
	if err != nil {
		return "" // an earlier version has kept it: the program finds out
	}
	data, err := typedJSON(schema, *res)
	if err == nil {
		types.mu.Lock()
		check := types.known[resultType{extra.Type, string(extra.Schema)}]
		types.mu.Unlock()
		if check.decode != nil {
			err = check.decode(data)
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// repairText is what a sub-agent is told whose result was refused, and why.
func repairText(st *spawn.TurnInput, why string) string {
	extra, err := decodeRunExtra(st.Extra)
	if err != nil || len(extra.Schema) == 0 {
		return why // a turn does not begin with one that is not readable
	}
	return "[Offshoot] Your report was not accepted. A program reads it, and this is wrong with it: " +
		text.Line(why) + "\n\nReport again, as one JSON value and nothing else. What you have done " +
		"stays done. The JSON Schema that your report must fit:\n" +
		agentctx.Fenced(string(extra.Schema)) + "\n\nIf you cannot give such a report, say why in one " +
		"sentence in its place: the program gets that as an error."
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

// findJSON returns the JSON of a text that fits a schema: the whole of the text, the inside of the
// fenced block that it is, or the one value in its prose that fits. In prose only objects and lists
// are looked for, as far as the schema takes them. The error of a text without such a value says
// what is wrong with the value that there is, or has the head of the text.
func findJSON(schema *jsonschema.Schema, said string) ([]byte, error) {
	said = trimFence(said)
	if json.Valid([]byte(said)) || strings.TrimSpace(said) == "" {
		return []byte(said), schema.Validate([]byte(said))
	}
	values := jsonValues(said, schema.Opens())
	var found []byte
	var wrong error // with the first value
	for _, value := range values {
		switch err := schema.Validate(value); {
		case err != nil && wrong == nil:
			wrong = err
		case err != nil:
		case found != nil && isSameJSON(found, value):
		case found != nil:
			return nil, fmt.Errorf("it holds several JSON values that fit: %s", text.QuoteWhole(said))
		default:
			found = value
		}
	}
	switch {
	case found != nil:
		return found, nil
	case len(values) > 1:
		return nil, fmt.Errorf("none of its %d JSON values fits: in the first one %w",
			len(values), wrong)
	case wrong != nil:
		return nil, wrong
	}
	why := errors.New("not JSON")
	if err := json.Unmarshal([]byte(said), new(json.RawMessage)); err != nil {
		why = fmt.Errorf("not JSON: %w", err)
	}
	return nil, fmt.Errorf("%w: %s", why, text.QuoteWhole(said))
}

// jsonValues returns the JSON values in a text that begin with one of the opening characters. One
// that comes again, with other blanks or not, counts once, and so do those within another.
func jsonValues(said, opening string) (values [][]byte) {
	known := make(map[string]bool)
	for value := range jsonscan.Values(said, opening) {
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(value)) == nil && !known[compact.String()] {
			known[compact.String()] = true
			values = append(values, []byte(value))
		}
	}
	return values
}

// isSameJSON reports whether two JSON texts are the same value: blanks, escapes and the order of
// members do not count. Numbers are compared as they are written.
func isSameJSON(a, b []byte) bool {
	return bytes.Equal(canonicalJSON(a), canonicalJSON(b))
}

// canonicalJSON returns a JSON text with its members in order, or as it is if that cannot be.
func canonicalJSON(data []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return data
	}
	canonical, err := json.Marshal(v)
	if err != nil {
		return data
	}
	return canonical
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
