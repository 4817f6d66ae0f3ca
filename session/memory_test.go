package session_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

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
	_, err = store.Files.Put(ctx, ref, strings.NewReader("x"), session.File{})
	assert.ErrorIs(t, err, session.ErrClosed)
	_, err = store.Files.Open(ctx, ref, strings.Repeat("a", 64))
	assert.ErrorIs(t, err, session.ErrClosed)
	assert.ErrorIs(t, store.Files.Archive(ctx, ref, testNoon), session.ErrClosed)
	assert.ErrorIs(t, store.Files.Remove(ctx, ref), session.ErrClosed)
	for _, err := range store.Files.List(ctx, ref) {
		assert.ErrorIs(t, err, session.ErrClosed)
	}
}

// A Put for a transcript of which only the lines are archived so far is refused.
func TestMemoryPutForArchivedTranscript(t *testing.T) {
	ctx, store := t.Context(), session.NewMemory()
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: uuid1}
	_, err := store.Transcripts.Append(ctx, ref, 0, session.Message{Text: "x"})
	require.NoError(t, err)
	f, err := store.Files.Put(ctx, ref, strings.NewReader("before"), session.File{})
	require.NoError(t, err)
	_, err = store.Transcripts.Archive(ctx, ref, testNoon)
	require.NoError(t, err)
	_, err = store.Files.Put(ctx, ref, strings.NewReader("late"), session.File{})
	require.ErrorIs(t, err, session.ErrArchived)
	data, err := session.ReadFile(ctx, store.Files, ref, f)
	require.NoError(t, err)
	assert.Equal(t, "before", string(data))
	f.Size++
	_, err = session.ReadFile(ctx, store.Files, ref, f)
	require.ErrorIs(t, err, session.ErrCorrupt)
	_, err = session.ReadFile(ctx, nil, ref, f)
	require.ErrorIs(t, err, session.ErrNoFiles)
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
