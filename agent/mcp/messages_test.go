package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/stretchr/testify/require"
)

// readMessages reads a stream with a limit.
func readMessages(from io.Reader, limit int) (string, error) {
	in := &messages{
		from: bufio.NewReaderSize(from, 16), limit: limit, log: slog.New(slog.DiscardHandler),
	}
	got, err := io.ReadAll(in)
	return string(got), err
}

// What fits passes as it is. What does not is replaced by what is told to the call that it belongs
// to, wherever its id stands.
func TestMessages(t *testing.T) {
	long := strings.Repeat(`{"id":1,\"`, 20)
	text := fmt.Sprintf("%q", long)
	answer := func(id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"%s"}}`+"\n", id,
			codeTooLarge, "mcp: the server has sent more than 100 bytes, which is the limit")
	}
	for name, tt := range map[string]struct {
		line string
		want string // "too large": the connection breaks
	}{
		"it fits":              {`{"id":1,"result":{}}` + "\n", `{"id":1,"result":{}}` + "\n"},
		"it has the limit":     {strings.Repeat("x", 100) + "\n", strings.Repeat("x", 100) + "\n"},
		"without a line break": {strings.Repeat("x", 100), strings.Repeat("x", 100)},
		"id first":             {`{"id":7,"result":` + text + "}\n", answer("7")},
		"id last":              {`{"result":` + text + `,"id":7}` + "\n", answer("7")},
		"id in the middle":     {`{"result":` + text + `, "id" : 7 ,"x":{}}` + "\r\n", answer("7")},
		"id of text":           {`{"id":"a,\"}b","result":` + text + "}\n", answer(`"a,\"}b"`)},
		"ids that are inside": {
			`{"x":{"id":1,"y":[{"id":2}]},"id":3,"z":["id",4,"id"],"result":` + text + "}\n", answer("3"),
		},
		"a value that is id": {`{"x":"id","id":3,"y":"id","result":` + text + "}\n", answer("3")},
		"a request": {
			`{"method":"m","id":"q","params":` + text + "}\n",
			`{"jsonrpc":"2.0","id":"q","method":"offshoot/left_out"}` + "\n",
		},
		"a notification":        {`{"method":"m","params":` + text + "}\n", ""},
		"no id":                 {`{"result":` + text + "}\n", "too large"},
		"an id that is nothing": {`{"id":null,"error":` + text + "}\n", "too large"},
		"an id that is broken":  {`{"id":1x,"error":` + text + "}\n", "too large"},
		"an id that is long":    {`{"id":` + text + `,"result":` + text + "}\n", "too large"},
		"a batch":               {`[{"id":1,"result":` + text + "}]\n", "too large"},
		"no JSON":               {strings.Repeat("y", 200) + "\n", "too large"},
	} {
		const before, after = `{"id":0}` + "\n", `{"id":9}` + "\n"
		stream := before + tt.line
		want := stream
		if strings.HasSuffix(tt.line, "\n") {
			stream += after
			want = before + tt.want + after
		}
		for _, from := range []io.Reader{
			strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream)),
		} {
			got, err := readMessages(from, 100)
			if tt.want == "too large" {
				var size *provider.SizeError
				require.ErrorAs(t, err, &size, name)
				require.EqualValues(t, 100, size.Limit, name)
				require.Equal(t, before, got, name)
				continue
			}
			require.NoError(t, err, name)
			require.Equal(t, want, got, name)
		}
	}
}

// A message without an end is read up to a limit, whether it has an id or not.
func TestMessageWithoutAnEnd(t *testing.T) {
	for _, begin := range []string{`{"id":7,"result":"`, `{"result":"`} {
		endless := &repeated{text: strings.Repeat("y", 1<<16)}
		in := &messages{
			from:  bufio.NewReaderSize(io.MultiReader(strings.NewReader(begin), endless), 1<<16),
			limit: 100, log: slog.New(slog.DiscardHandler),
		}
		got, err := io.ReadAll(in)
		var size *provider.SizeError
		require.ErrorAs(t, err, &size)
		require.Equal(t, strings.Contains(begin, "id"), strings.Contains(string(got), `"id":7`))
		require.Less(t, endless.n, maxSkipped+1<<20)
	}
}

// repeated is a text again and again.
type repeated struct {
	text string
	n    int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text)
	r.n += n
	return n, nil
}

// The id of a message is found as encoding/json finds it, whatever else is in the message.
func TestHead(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		raw, err := json.Marshal(anyValue(r, 3))
		require.NoError(t, err)
		var h head
		h.read(raw[:len(raw)/2])
		h.read(raw[len(raw)/2:])
		var want struct {
			ID     json.RawMessage `json:"id"`
			Method json.RawMessage `json:"method"`
		}
		if json.Unmarshal(raw, &want) != nil {
			want.ID, want.Method = nil, nil // it is not an object
		}
		if len(want.ID) > 0 && strings.ContainsAny(string(want.ID[:1]), "{[") {
			want.ID = nil // it is not an id
		}
		require.Equal(t, string(want.ID), h.id, "%s", raw)
		require.Equal(t, want.Method != nil, h.isRequest, "%s", raw)
	}
}

// anyValue returns a value of JSON that goes so deep.
func anyValue(r *rand.Rand, depth int) any {
	words := []string{"id", "method", `"`, `\`, "{", `"id":1`, "", "x,y", "ü"}
	word := func() string { return words[r.IntN(len(words))] }
	kind := r.IntN(6)
	if depth == 3 {
		kind = 0
	}
	switch {
	case kind < 2 && depth > 0:
		object := map[string]any{}
		for range r.IntN(5) {
			object[word()] = anyValue(r, depth-1)
		}
		return object
	case kind == 2 && depth > 0:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, anyValue(r, depth-1))
		}
		return list
	case kind == 3:
		return r.IntN(1000)
	case kind == 4:
		return word() + word()
	}
	return r.IntN(2) == 0
}
