package vectors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// Read returns the rows of the file testdata/vectors/name of the package under test. The test fails
// at once if the file cannot be read, if a row has a field that T does not have, or if the file
// does not have exactly want rows.
func Read[T any](t testing.TB, name string, want int) []T {
	t.Helper()
	rows, err := decode[T](os.DirFS("."), name, want)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func decode[T any](fsys fs.FS, name string, want int) ([]T, error) {
	data, err := fs.ReadFile(fsys, path.Join("testdata/vectors", name))
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	var rows []T
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&rows); err != nil {
		return nil, fmt.Errorf("vectors: %s: %w", name, err)
	}
	if len(rows) != want {
		return nil, fmt.Errorf("vectors: %s has %d rows, want %d", name, len(rows), want)
	}
	return rows, nil
}

// A Text is a string with two forms in JSON. One form is a string. The other form is a list of
// parts that are joined. A part is a string, or an object for a string that repeats: ["<",
// {"repeat": "a", "times": 3}, ">"] is "<aaa>".
type Text string

// UnmarshalJSON reads both forms. It returns an error for a part that repeats less than once.
func (t *Text) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if json.Unmarshal(data, &parts) != nil {
		return json.Unmarshal(data, (*string)(t))
	}
	var b strings.Builder
	for _, raw := range parts {
		part := struct {
			Repeat string
			Times  int
		}{Times: 1}
		if json.Unmarshal(raw, &part.Repeat) != nil {
			if err := json.Unmarshal(raw, &part); err != nil {
				return err
			}
		}
		if part.Times < 1 {
			return fmt.Errorf("vectors: %d times %q, want 1 or more", part.Times, part.Repeat)
		}
		b.WriteString(strings.Repeat(part.Repeat, part.Times))
	}
	*t = Text(b.String())
	return nil
}
