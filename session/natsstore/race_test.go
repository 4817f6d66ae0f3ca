package natsstore_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// TestTakenTreeIsFenced has a process lose a tree that it has claimed: its appends are refused from
// then on, although the log ends where it believes, also of a process that has not seen the log.
func TestTakenTreeIsFenced(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true, Lease: time.Second}
	o.Process = "a"
	a := open(t, s, o)
	_, err := engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
	last := add(t, a, 0, entries("a", 1))
	time.Sleep(o.Lease) // a does not serve
	last = add(t, a, last, entries("lapsed", 1))
	o.Process = "b"
	b := open(t, s, o)
	_, err = engine.Claim(t.Context(), b, root)
	require.NoError(t, err)
	snapshot := entries("late snapshot", 1)
	snapshot.Reset = true
	for range 2 { // the second time it has seen the mark
		for _, batch := range []session.Batch{entries("late", 1), snapshot} {
			_, err = a.Journal.Append(t.Context(), root, last, batch)
			require.ErrorIs(t, err, session.ErrConflict, "%s", batch.ID)
		}
	}
	last = add(t, b, last, entries("b", 1))
	snapshot.ID = "snapshot"
	last = add(t, b, last, snapshot)

	// One that has never had the tree may append, as a command does; the end of the log decides.
	o.Process = "c"
	last = add(t, open(t, s, o), last, entries("c", 1))
	require.NoError(t, b.Close())
	claim, err := engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
	last = add(t, a, last, entries("again", 1))
	require.NoError(t, a.Owners.Release(t.Context(), claim))
	add(t, a, last, entries("released", 1))
}

// A lastReader calls f before its last bytes.
type lastReader struct {
	io.Reader
	f func()
}

func (r *lastReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.EOF && r.f != nil {
		r.f()
		r.f = nil
	}
	return n, err
}

// TestRemovedWhileOneIsPut removes the files of a transcript while one is put, whose chunks are
// written in part: the Put fails, or the file is whole.
func TestRemovedWhileOneIsPut(t *testing.T) {
	s := theServer(t)
	store := open(t, s, natsstore.Options{Name: freshName(), TrustSync: true})
	ref := session.Ref{Key: root, SessionID: "one"}
	for _, before := range []int{0, 1} {
		for range before {
			_, err := store.Files.Put(t.Context(), ref, bytes.NewReader([]byte("x")), session.File{})
			require.NoError(t, err)
		}
		data := bytes.Repeat([]byte("abc"), 1<<20)
		_, err := store.Files.Put(t.Context(), ref, &lastReader{bytes.NewReader(data), func() {
			require.NoError(t, store.Files.Remove(t.Context(), ref))
		}}, session.File{})
		require.Error(t, err)
		for f, err := range store.Files.List(t.Context(), ref) {
			require.NoError(t, err)
			_, err = session.ReadFile(t.Context(), store.Files, ref, f)
			require.NoError(t, err, "a file that is listed is whole")
		}
		file, err := store.Files.Put(t.Context(), ref, bytes.NewReader(data), session.File{})
		require.NoError(t, err)
		got, err := session.ReadFile(t.Context(), store.Files, ref, file)
		require.NoError(t, err)
		assert.Len(t, got, len(data))
	}
}

// TestConflictLeavesNothing has a writer whose log has moved leave nothing of what it has written
// before its message: no part, and nothing that leads to the log.
func TestConflictLeavesNothing(t *testing.T) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true}
	a, b := open(t, s, o), open(t, s, o)
	last := add(t, a, 0, entries("first", 1))
	add(t, b, last, entries("second", 1))
	late := entries("late", 1)
	late.Entries[0].Payload = endless(2 << 20)
	late.Due = time.Unix(1, 0)
	_, err := a.Journal.Append(t.Context(), root, last, late) // it believes that the log ends there
	require.ErrorIs(t, err, session.ErrConflict)
	js := jetStream(t, s.ClientURL())
	stream, err := js.Stream(t.Context(), o.Name+"_log")
	require.NoError(t, err)
	assert.EqualValues(t, 2, stream.CachedInfo().State.Msgs)
}

// TestLeftClaimsDoNotComeBack has a process leave and join again: the trees that it had are free.
func TestLeftClaimsDoNotComeBack(t *testing.T) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true, Process: "a"}
	a := open(t, s, o)
	left, err := engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, a.Owners.Serve(ctx, session.Member{}))
	other, err := engine.Claim(t.Context(), a, session.Must(session.NamedKey("main", "other")))
	require.NoError(t, err)
	o.Process = "b"
	b := open(t, s, o)
	taken, err := engine.Claim(t.Context(), b, root)
	require.NoError(t, err)
	assert.Greater(t, taken.Epoch, left.Epoch)
	_, err = engine.Claim(t.Context(), b, other.Root)
	require.ErrorIs(t, err, session.ErrOwned)
}
