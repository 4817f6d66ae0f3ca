package session_test

import (
	"encoding/json"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

func compactionOf(through session.Pos, n int) session.Message {
	return session.Compaction("id", "they met", session.Compacted{Through: through, Messages: n},
		testNoon)
}

// The note has structured members, which later versions may add to, and which a version that does
// not know them keeps.
func TestCompactionJSON(t *testing.T) {
	note := compactionOf(7, 3)
	const want = `{"id":"id","role":"note","text":"they met","time":"2026-03-04T12:00:00Z",` +
		`"discard":18446744073709551615,"compaction":{"through":7,"messages":3}}`
	require.Equal(t, want, encodeMessage(t, note))
	require.Equal(t, note, decodeMessage(t, want))
	require.True(t, note.IsCompaction())
	require.False(t, session.Fence(7, testNoon).IsCompaction())
	note.Compacted.Omitted = 2
	require.Equal(t, note, decodeMessage(t, encodeMessage(t, note)))
	note.Compacted.Omitted = 0
	newer := strings.Replace(want, `"messages":3`, `"messages":3,"later":[1]`, 1)
	require.Equal(t, newer, encodeMessage(t, decodeMessage(t, newer)))
	data, err := json.Marshal(note.Compacted)
	require.NoError(t, err)
	require.JSONEq(t, `{"through":7,"messages":3}`, string(data))
	var bad session.Compacted
	require.Error(t, json.Unmarshal([]byte(`{"through":-1}`), &bad))
	require.NoError(t, note.Validate())
}

// numbered returns messages as the lines of a transcript, at positions with gaps.
func numbered(messages ...session.Message) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		for i, m := range messages {
			if !yield(session.Line{Pos: session.Pos(10 * (i + 1)), Message: m}, nil) {
				return
			}
		}
	}
}

// readsOf returns the texts of lines; a compaction is its text in brackets.
func readsOf(t *testing.T, lines iter.Seq2[session.Line, error]) (texts []string) {
	t.Helper()
	for line, err := range lines {
		require.NoError(t, err)
		if line.Message.IsCompaction() {
			line.Message.Text = "[" + line.Message.Text + "]"
		}
		texts = append(texts, line.Message.Text)
	}
	return texts
}

// What was said stays in the conversation, and a model is shown the last compaction in its place.
func TestView(t *testing.T) {
	u := func(text string) session.Message {
		return session.Message{Role: session.MessageUser, Text: text}
	}
	later := compactionOf(40, 3)
	later.Text = "later"
	for name, c := range map[string]struct {
		lines     []session.Message
		said, see string
	}{
		"none":     {[]session.Message{u("a"), u("b")}, "a b", "a b"},
		"all":      {[]session.Message{u("a"), u("b"), compactionOf(20, 2)}, "a b", "[they met]"},
		"the last": {[]session.Message{u("a"), u("b"), compactionOf(10, 1), u("c")}, "a b c", "[they met] b c"},
		"two": {
			[]session.Message{u("a"), u("b"), compactionOf(10, 1), u("c"), later, u("d")},
			"a b c d", "[later] d",
		},
		"fenced": {
			[]session.Message{
				u("a"), u("b"), compactionOf(10, 1), u("c"), session.Fence(20, testNoon), u("d"),
			},
			"a b d", "a b d",
		},
		"fenced behind": {
			[]session.Message{
				u("a"), u("b"), compactionOf(10, 1), u("c"), session.Fence(30, testNoon), u("d"),
			},
			"a b d", "[they met] b d",
		},
		"not among the lines": {[]session.Message{compactionOf(5, 1), u("c")}, "c", "[they met] c"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := numbered(c.lines...)
			require.Equal(t, c.said, strings.Join(readsOf(t, session.Committed(lines)), " "))
			require.Equal(t, c.see, strings.Join(readsOf(t, session.View(lines)), " "))
			for _, err := range session.View(lines) { // a reader may leave
				require.NoError(t, err)
				break
			}
		})
	}
	failing := func(yield func(session.Line, error) bool) {
		_ = yield(session.Line{Pos: 1, Message: u("a")}, nil) &&
			yield(session.Line{}, errors.New("disk"))
	}
	var last error
	for _, err := range session.View(failing) {
		last = err
	}
	require.EqualError(t, last, "disk")
}

// A version that does not know compactions reads the same conversation.
func TestCompactionIsAFenceThatDiscardsNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var with, without []session.Message
		for i := range 12 {
			m := session.Message{Role: session.MessageUser, Text: string(rune('a' + i))}
			switch rng.IntN(6) {
			case 0:
				m = session.Fence(session.Pos(10*rng.IntN(i+1)), testNoon)
			case 1:
				m = compactionOf(session.Pos(10*rng.IntN(i+1)), i)
			}
			with = append(with, m)
			m.Compacted = session.Compacted{}
			without = append(without, m)
		}
		said := readsOf(t, session.Committed(numbered(with...)))
		require.Equal(t, readsOf(t, session.Committed(numbered(without...))), said)
		seen := readsOf(t, session.View(numbered(with...)))
		if len(seen) > 0 && strings.HasPrefix(seen[0], "[") {
			seen = seen[1:]
		}
		require.True(t, slices.Equal(seen, said[len(said)-len(seen):]), "a view is the end of it")
	}
}
