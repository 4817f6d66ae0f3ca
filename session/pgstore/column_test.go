package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// TestColumnsChangedByHand changes a column that the package keeps for itself: what reads it names
// the column, and does not return less than there is. The log begins with a snapshot at 3.
func TestColumnsChangedByHand(t *testing.T) {
	s := theServer(t)
	ref := session.Ref{Key: root, SessionID: "one"}
	for change, column := range map[string]string{
		"update {}.logs set last = 0":       "logs, log 1, column last",
		"update {}.logs set last = 3":       "logs, log 1, column last",
		"update {}.logs set last = 5":       "logs, log 1, column last",
		"delete from {}.batches":            "logs, log 1, column last",
		"update {}.logs set base = 2":       "logs, log 1, column base",
		"update {}.logs set base = 4":       "logs, log 1, column base",
		"update {}.logs set base = 9":       "logs, log 1, column base",
		"update {}.blobs set hash = null":   "blobs, blob 1, column hash",
		"update {}.blobs set hash = 'none'": "blobs, blob 1, column hash",
		"update {}.blobs set size = null":   "blobs, blob 1, column size",
		"update {}.blobs set size = -5":     "blobs, blob 1, column size",
		// Nothing is hidden by these.
		"update {}.logs set kept = 3":                                           "",
		"insert into {}.blobs (key, session) select key, session from {}.blobs": "",
	} {
		t.Run(change, func(t *testing.T) {
			schema := freshSchema()
			store := s.open(t, pgstore.Options{Schema: schema, TrustSync: true})
			last := add(t, store, 0, entries("old", 2))
			snapshot := entries("new", 2)
			snapshot.Reset = true
			add(t, store, last, snapshot)
			file, err := store.Files.Put(t.Context(), ref, strings.NewReader("a file"), session.File{})
			require.NoError(t, err)
			require.Empty(t, faults(t, store, ref, file))
			s.query(t, strings.ReplaceAll(change, "{}", schema))
			found := errors.Join(faults(t, store, ref, file)...)
			for _, err := range store.Files.List(t.Context(), ref) {
				found = errors.Join(found, err)
			}
			if column == "" {
				require.NoError(t, found)
				return
			}
			require.ErrorIs(t, found, session.ErrCorrupt)
			require.ErrorContains(t, found, "table "+column)
		})
	}
}
