package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strconv"
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

func TestMemoryClosed(t *testing.T) {
	ctx, store := context.Background(), session.NewMemory()
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: uuid1}
	require.NoError(t, store.Close())
	_, err := store.Journal.Append(
		ctx, ref.Key, 0, session.Batch{Entries: []session.Entry{{Payload: emptyPayload{}}}},
	)
	assert.ErrorIs(t, err, session.ErrClosed)
	_, err = store.Transcripts.Append(ctx, ref, 0, session.Message{})
	assert.ErrorIs(t, err, session.ErrClosed)
	_, err = store.Transcripts.Archive(ctx, ref, testNoon)
	assert.ErrorIs(t, err, session.ErrClosed)
	for _, err := range store.Journal.Read(ctx, ref.Key, 0) {
		assert.ErrorIs(t, err, session.ErrClosed)
	}
	for _, err := range store.Journal.Roots(ctx, session.RootQuery{}) {
		assert.ErrorIs(t, err, session.ErrClosed)
	}
	for _, err := range store.Transcripts.Read(ctx, ref, session.LineQuery{}) {
		assert.ErrorIs(t, err, session.ErrClosed)
	}
}

type journalCloser struct {
	session.Journal
	err error
}

func (c journalCloser) Close() error { return c.err }

type transcriptsCloser struct {
	session.Transcripts
	err error
}

func (c transcriptsCloser) Close() error { return c.err }

func TestStoreClose(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	store := session.Store{
		Journal: journalCloser{err: one}, Transcripts: transcriptsCloser{err: two},
	}
	err := store.Close()
	assert.ErrorIs(t, err, one)
	assert.ErrorIs(t, err, two)
	assert.NoError(t, (&session.Store{}).Close())
}

// A query for due logs yields exactly those, however many other logs there are.
func TestMemoryDueAtOnce(t *testing.T) {
	ctx, j := context.Background(), session.NewMemory().Journal
	due := func(root session.Key, after session.Seq, at time.Time) session.Seq {
		last, err := j.Append(
			ctx, root, after,
			session.Batch{Entries: []session.Entry{{Payload: emptyPayload{}}}, Due: at},
		)
		require.NoError(t, err)
		return last
	}
	want := map[session.Key]bool{}
	for i := range 500 {
		root := session.Must(session.NamedKey("main", "log"+strings.Repeat("x", i)))
		last := due(root, 0, testNoon.Add(time.Duration(i%50)*time.Minute))
		switch i % 4 {
		case 0:
			due(root, last, time.Time{})
		case 1:
			due(root, last, testNoon.Add(24*time.Hour))
		case 2:
			due(root, last, testNoon.Add(-time.Hour))
			want[root] = true
		default:
			if i%50 < 10 {
				want[root] = true
			}
		}
	}
	for range 3 {
		got := map[session.Key]bool{}
		query := session.RootQuery{DueBefore: testNoon.Add(10 * time.Minute)}
		for h, err := range j.Roots(ctx, query) {
			require.NoError(t, err)
			got[h.Root] = true
		}
		assert.Equal(t, want, got, "in memory, exactly what is due")
	}
}

func TestMemoryAppendAllocations(t *testing.T) {
	ctx, j, root := context.Background(), session.NewMemory().Journal, session.Must(
		session.MainKey("main"),
	)
	entries := []session.Entry{{Payload: emptyPayload{}}, {Payload: emptyPayload{}}}
	var last session.Seq
	allocs := testing.AllocsPerRun(2000, func() {
		next, err := j.Append(
			ctx, root, last, session.Batch{ID: "b", Entries: entries, Due: testNoon},
		)
		if err != nil {
			panic(err)
		}
		last = next
	})
	assert.LessOrEqual(t, allocs, 1.0, "growing the slice of batches and nothing else")
}

// A Read yields the log as it was at the call, whatever is appended or reset during the loop.
func TestMemoryReadersKeepWhatTheySaw(t *testing.T) {
	ctx, j, root := context.Background(), session.NewMemory().Journal, session.Must(
		session.MainKey("main"),
	)
	last, err := j.Append(
		ctx, root, 0, session.Batch{ID: "a", Entries: []session.Entry{{Payload: emptyPayload{}}}},
	)
	require.NoError(t, err)
	last, err = j.Append(
		ctx, root, last,
		session.Batch{ID: "a2", Entries: []session.Entry{{Payload: emptyPayload{}}}},
	)
	require.NoError(t, err)
	var seen []session.BatchID
	for e, err := range j.Read(ctx, root, 0) {
		require.NoError(t, err)
		seen = append(seen, e.Batch)
		for _, reset := range []bool{true, false} {
			last, err = j.Append(
				ctx,
				root,
				last,
				session.Batch{
					ID: "b", Entries: []session.Entry{{Payload: emptyPayload{}}}, Reset: reset,
				},
			)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, []session.BatchID{"a", "a2"}, seen)
	n := 0
	for _, err := range j.Read(ctx, root, 0) {
		require.NoError(t, err)
		n++
	}
	assert.Equal(t, 2, n)
}

// A ctx that is cancelled during a loop ends the loop with its error.
func TestMemoryContextEndsLoops(t *testing.T) {
	store, ref := session.NewMemory(), session.Ref{
		Key: session.Must(session.MainKey("main")), SessionID: uuid1,
	}
	var last session.Seq
	for i := range 3 {
		var err error
		last, err = store.Journal.Append(
			t.Context(), ref.Key, last,
			session.Batch{Entries: []session.Entry{{Payload: emptyPayload{}}}, Due: testNoon},
		)
		require.NoError(t, err)
		_, err = store.Journal.Append(
			t.Context(), session.Must(session.NamedKey("main", "x"+strings.Repeat("x", i))), 0,
			session.Batch{Entries: []session.Entry{{Payload: emptyPayload{}}}, Due: testNoon},
		)
		require.NoError(t, err)
	}
	_, err := store.Transcripts.Append(
		t.Context(), ref, 0, session.Message{}, session.Message{}, session.Message{},
	)
	require.NoError(t, err)
	stops := func(what string, loop func(ctx context.Context, yield func(error) bool)) {
		ctx, cancel := context.WithCancel(t.Context())
		var errs []error
		loop(ctx, func(err error) bool {
			errs = append(errs, err)
			cancel()
			return true
		})
		assert.Equal(t, []bool{true, false}, []bool{errs[0] == nil, errs[len(errs)-1] == nil}, what)
		assert.Len(t, errs, 2, what)
	}
	stops("read", func(ctx context.Context, yield func(error) bool) {
		store.Journal.Read(ctx, ref.Key, 0)(
			func(_ session.Entry, err error) bool { return yield(err) },
		)
	})
	for _, q := range []session.RootQuery{{}, {DueBefore: testNoon.Add(1)}} {
		stops("roots", func(ctx context.Context, yield func(error) bool) {
			store.Journal.Roots(ctx, q)(func(_ session.Head, err error) bool { return yield(err) })
		})
	}
	stops("transcript", func(ctx context.Context, yield func(error) bool) {
		store.Transcripts.Read(ctx, ref, session.LineQuery{})(
			func(_ session.Line, err error) bool { return yield(err) },
		)
	})
}

// The names of archived transcripts are forgotten after a while, so that a bot which runs for years
// does not grow.
func TestMemoryForgetsArchives(t *testing.T) {
	ctx, s := t.Context(), session.NewMemory().Transcripts
	ref := func(i int) session.Ref {
		return session.Ref{
			Key: session.Must(session.MainKey("main")), SessionID: "id-" + strconv.Itoa(i),
		}
	}
	const n = 20_000
	for i := range n {
		_, err := s.Append(ctx, ref(i), 0, session.Message{Text: "x"})
		require.NoError(t, err)
		_, err = s.Archive(ctx, ref(i), testNoon)
		require.NoError(t, err)
	}
	first, err := s.Archive(ctx, ref(0), testNoon)
	require.NoError(t, err)
	assert.Empty(t, first)
	last, err := s.Archive(ctx, ref(n-1), testNoon)
	require.NoError(t, err)
	assert.NotEmpty(t, last)
}
