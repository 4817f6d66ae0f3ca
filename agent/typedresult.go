package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
	"github.com/offshoot-sdk/offshoot/internal/text"
)

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
