package session_test

import (
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

var testNoon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func encodeMessage(t *testing.T, m session.Message) string {
	t.Helper()
	data, err := m.AppendJSON([]byte("> "))
	require.NoError(t, err)
	require.Equal(t, "> ", string(data[:2]))
	require.True(t, json.Valid(data[2:]), "%s", data)
	require.NotContains(t, string(data), "\n")
	return string(data[2:])
}

func decodeMessage(t *testing.T, s string) (m session.Message) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s), &m))
	return m
}

func TestMessageJSON(t *testing.T) {
	for want, m := range map[string]session.Message{
		`{}`: {},
		`{"id":"tg:1","role":"user","text":"a<b>&\n\u2028\u0001\u007f😀","time":"2026-03-04T12:00:00Z"}`: {ID: "tg:1", Role: session.MessageUser, Text: "a<b>&\n\u2028\x01\x7f😀", Time: testNoon},
		`{"role":"assistant","toolCalls":[{"id":"c","name":"read","args":{"p": 1.50}},{"name":"x"}],"model":"v/m","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cost":0.5}}`: {
			Role: session.MessageAssistant, Model: "v/m",
			ToolCalls: []session.ToolCall{
				{ID: "c", Name: "read", Args: json.RawMessage(`{"p": 1.50}`)}, {Name: "x"},
			},
			Usage: session.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Cost: 0.5},
		},
		`{"role":"tool","text":"no","toolCallId":"c","failed":true,"internal":true,"raw":{"b":1, "a":[ ]}}`: {
			Role: session.MessageTool, Text: "no", ToolCallID: "c", Failed: true, Internal: true,
			Raw: json.RawMessage(`{"b":1, "a":[ ]}`),
		},
		`{"raw64":"IHsKfQ=="}`: {Raw: json.RawMessage(" {\n}")},
		`{"raw64":"bnVsbA=="}`: {Raw: json.RawMessage("null")},
		`{"raw64":""}`:         {Raw: json.RawMessage{}},
		`{"role":"note","time":"2026-03-04T12:00:00Z","discard":0}`: session.Fence(0, testNoon),
		`{"role":"note","time":"2026-03-04T12:00:00Z","discard":7}`: session.Fence(7, testNoon),
	} {
		assert.Equal(t, want, encodeMessage(t, m))
		assert.Equal(t, m, decodeMessage(t, want))
	}
	var in struct {
		M session.Message
		C session.ToolCall
		U session.Usage
	}
	const whole = `{"M":{"role":"user","text":"x"},"C":{"name":"read","args":{}},"U":{"input":1}}`
	require.NoError(t, json.Unmarshal([]byte(whole), &in))
	data, err := json.Marshal(in)
	require.NoError(t, err)
	assert.Equal(t, whole, string(data))
	assert.Equal(t, `{"text":"a\ufffdb"}`, encodeMessage(t, session.Message{Text: "a\xffb"}))
	assert.Equal(
		t, int64(10), session.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}.Total(),
	)
	u := session.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Cost: 0.5}
	sum := session.Usage{Input: 2, Output: 4, CacheRead: 6, CacheWrite: 8, Cost: 1}
	assert.Equal(t, sum, u.Add(u))
	assert.Equal(t, u, u.Add(session.Usage{}))
	_, err = session.Message{Usage: session.Usage{Cost: math.NaN()}}.AppendJSON(nil)
	assert.ErrorContains(t, err, "cost")
	_, err = session.Message{Time: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}.AppendJSON(nil)
	assert.Error(t, err)
	for _, bad := range []string{``, `1`, `{"role":7}`, `{"usage":{"input":"x"}}`, `{"toolCalls":[{"id":1}]}`} {
		var m session.Message
		assert.Error(t, json.Unmarshal([]byte(bad), &m), bad)
	}
}

// Members that a newer version wrote are kept and written again, at every level.
func TestMessageUnknownMembers(t *testing.T) {
	const newer = `{"role":"user","text":"x","toolCalls":[{"id":"a","name":"b","kind":"mcp"}],"usage":{"input":1,"reasoning":7},"a":null,"later":{"z":[1,"<"]}}`
	m := decodeMessage(t, newer)
	assert.Equal(t, newer, encodeMessage(t, m))
	m.Text = ""
	assert.Equal(t, strings.Replace(newer, `"text":"x",`, "", 1), encodeMessage(t, m))
	m = decodeMessage(t, `{"only": 1}`)
	assert.Equal(t, `{"only":1}`, encodeMessage(t, m))
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"role":"user","text":"a\u0000<"}`, `{"raw":{"a": [1, 2]},"x":1}`, `{"raw64":"IHsKfQ=="}`, `{"usage":{"input":1,"q":2}}`,
		`{"toolCalls":[{"id":"a","args":"\ud800"}]}`, `{"time":"2026-03-04T12:00:00+02:00"}`, `{"discard":3,"role":"note"}`, "{\"raw\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m session.Message
		if json.Unmarshal(data, &m) != nil {
			return
		}
		text, err := m.AppendJSON(nil)
		if err != nil {
			t.Skip(err) // a time that cannot be written
		}
		assert.True(t, json.Valid(text))
		assert.NotContains(t, string(text), "\n")
		var again session.Message
		require.NoError(t, json.Unmarshal(text, &again))
		assert.Equal(t, []byte(m.Raw), []byte(again.Raw), "Raw keeps every byte")
		second, err := again.AppendJSON(nil)
		require.NoError(t, err)
		assert.Equal(t, string(text), string(second))
	})
}

func TestEntryJSON(t *testing.T) {
	e := session.Entry{Seq: 7, Batch: "b", Payload: session.Raw("{\n \"a\": 1 }")}
	data, err := json.Marshal(e)
	require.NoError(t, err)
	assert.Equal(t, `{"seq":7,"batch":"b","payload":{"a":1}}`, string(data))
	var back session.Entry
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, session.Entry{Seq: 7, Batch: "b", Payload: session.Raw(`{"a":1}`)}, back)
	_, err = json.Marshal(session.Entry{Payload: session.Raw("{")})
	assert.Error(t, err)
	assert.Error(t, json.Unmarshal([]byte(`{"seq":-1}`), &back))
	for in, want := range map[string]string{"": "", " 1 ": " 1 ", "[\r\n1]": "[1]"} {
		got, err := session.Raw(in).AppendJSON(nil)
		assert.Equal(t, want == "", err != nil, in)
		assert.Equal(t, want, string(got))
	}
	got, err := session.Raw(nil).AppendJSON([]byte("x"))
	require.NoError(t, err)
	assert.Equal(t, "xnull", string(got))
}

// lines yields messages with the positions 1, 2, ..., then an error if there is one.
func linesThen(failed error, messages ...session.Message) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		for i, m := range messages {
			if !yield(session.Line{Pos: session.Pos(i) + 1, Message: m}, nil) {
				return
			}
		}
		if failed != nil {
			yield(session.Line{}, failed)
		}
	}
}

func TestCommitted(t *testing.T) {
	says := func(s string) session.Message {
		return session.Message{Role: session.MessageUser, Text: s}
	}
	fence := func(after session.Pos) session.Message { return session.Fence(after, testNoon) }
	wrong := errors.New("disk")
	for _, c := range []struct {
		in     []session.Message
		failed error
		want   string
	}{
		{nil, nil, ""},
		{[]session.Message{says("a"), says("b")}, nil, "a b"},
		{[]session.Message{says("a"), says("b"), fence(1), says("c")}, nil, "a c"},
		{[]session.Message{says("a"), says("b"), fence(0)}, nil, ""},
		{[]session.Message{fence(0), says("a")}, nil, "a"},
		{[]session.Message{says("a"), says("b"), fence(1), says("c"), fence(1), says("d")}, nil, "a d"},
		{[]session.Message{says("a"), says("b"), fence(1), says("c"), fence(3), says("d")}, nil, "a d"},
		{[]session.Message{says("a"), fence(9), says("b")}, nil, "a b"},
		{[]session.Message{says("a"), says("b"), fence(1)}, wrong, "a disk"},
	} {
		var got []string
		for line, err := range session.Committed(linesThen(c.failed, c.in...)) {
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			got = append(got, line.Message.Text)
		}
		assert.Equal(t, c.want, strings.Join(got, " "))
	}
	for _, err := range session.Committed(linesThen(wrong, says("a"), says("b"))) {
		require.NoError(t, err)
		break // the rest is not asked for
	}
}

func TestArchiveName(t *testing.T) {
	at := time.Date(2026, 3, 4, 7, 6, 7, 89_900_000, time.FixedZone("", 2*60*60))
	assert.Equal(t, "x.jsonl.deleted.2026-03-04T05-06-07.089Z", session.ArchiveName("x.jsonl", at))
}

// R11: sums of usage stay within their range.
func TestUsageDoesNotWrap(t *testing.T) {
	most := session.Usage{
		Input: math.MaxInt64, Output: math.MaxInt64, CacheRead: math.MaxInt64,
		CacheWrite: math.MaxInt64, Cost: math.MaxFloat64,
	}
	require.Equal(t, most, most.Add(most))
	require.Equal(t, int64(math.MaxInt64), most.Total())
	one := session.Usage{Cost: 1}
	require.Equal(t, one, session.Usage{Cost: math.NaN()}.Add(one))
}
