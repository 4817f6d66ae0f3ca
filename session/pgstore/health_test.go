package pgstore_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// A server that answers, and refuses to write, is not healthy: one whose disk is full, and one that
// has become a copy that is only read. It is again once it writes, also if nothing was written
// since, and what is refused for what it is says nothing.
func TestHealthOfAServerThatRefusesToWrite(t *testing.T) {
	s := theServer(t)
	schema := freshSchema()
	store := s.open(t, pgstore.Options{Schema: schema, TrustSync: true})
	last := add(t, store, 0, entries("a", 1))
	ref := session.Ref{Key: root, SessionID: "x"}
	put := func() error {
		_, err := store.Files.Put(
			t.Context(), ref, bytes.NewReader(make([]byte, 100_000)), session.File{})
		return err
	}
	s.query(t, `create function `+schema+`.full() returns trigger language plpgsql as
		$$ begin raise exception 'no space left' using errcode = '53100'; end $$`)
	tables := []string{"batches", "lines", "chunks"}
	fill := func() {
		for _, table := range tables {
			s.query(t, `create trigger full_disk before insert on `+schema+`.`+table+
				` execute function `+schema+`.full()`)
		}
	}
	empty := func() {
		for _, table := range tables {
			s.query(t, `drop trigger full_disk on `+schema+`.`+table)
		}
	}
	for name, write := range map[string]func() error{
		"batches": func() error {
			_, err := store.Journal.Append(t.Context(), root, last, entries("b", 1))
			return err
		},
		"lines": func() error {
			_, err := store.Transcripts.Append(
				t.Context(), ref, 0, session.Message{Role: session.MessageUser, Text: "x"})
			return err
		},
		"chunks": put,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, store.Health(t.Context()))
			fill()
			require.Error(t, write())
			for range 2 {
				err := store.Health(t.Context())
				require.ErrorContains(t, err, "no space left")
				require.ErrorContains(t, err, "is its disk full?")
				var refused *pgconn.PgError
				require.ErrorAs(t, err, &refused)
			}
			empty()
			require.NoError(t, store.Health(t.Context()))
			fill()
			require.NoError(t, store.Health(t.Context()), "nothing was refused since")
			empty()
		})
	}
	require.EqualValues(t, 0, s.query(t, `select count(*) from `+schema+`.blobs`),
		"a probe leaves nothing")
	_, err := store.Journal.Append(t.Context(), root, 0, entries("c", 1))
	require.ErrorIs(t, err, session.ErrConflict)
	require.NoError(t, store.Health(t.Context()))
}
