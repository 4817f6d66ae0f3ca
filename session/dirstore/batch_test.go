package dirstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A batch that is too large or cannot be encoded is refused. Nothing is written, and the log goes
// on.
func TestRefusedBatchWritesNothing(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	assert.Equal(t, wal.MaxPayload, dirstore.SetMaxBatch(s, 200))
	r := newJournalRun()
	root := treeKey(1)
	require.NoError(t, r.append(t.Context(), s, root, batchOf(testTime, false, "before")))
	size, _ := dirstore.LogSize(s)
	for range 2 {
		for _, c := range []struct {
			root  session.Key
			batch session.Batch
		}{
			{root, batchOf(testTime, false, strings.Repeat("x", 200))},
			{root, batchOf(testTime, true, "fits", strings.Repeat("x", 200), "fits")},
			// The refusal does not begin the tree.
			{treeKey(2), batchOf(testTime, false, strings.Repeat("x", 200))},
		} {
			err := r.append(t.Context(), s, c.root, c.batch)
			var refused *dirstore.BatchSizeError
			require.ErrorAs(t, err, &refused)
			require.ErrorIs(t, err, session.ErrInvalidBatch)
			assert.Equal(t, c.batch.ID, refused.ID)
			assert.Equal(t, 200, refused.Limit)
			assert.Greater(t, refused.Size, 200)
			assert.Equal(t, min(2, len(c.batch.Entries)), refused.Entries)
			assert.ErrorContains(t, err, "at most 200")
			assert.ErrorContains(t, err, c.root.String())
		}
		for _, p := range []session.Payload{unwritablePayload{}, blankPayload{}} {
			err := r.append(t.Context(), s, root,
				session.Batch{ID: "bad", Entries: []session.Entry{{Payload: p}}})
			require.ErrorIs(t, err, session.ErrInvalidBatch)
			assert.ErrorContains(t, err, "entry 0 of 1")
		}
	}
	after, _ := dirstore.LogSize(s)
	assert.Equal(t, size, after)
	r.batch = session.Batch{}
	r.m.verify(t, s, "refused")
	exact := batchOf(testTime, false, "y")
	text := strings.Repeat("y", 200-batchOverhead(root, exact)-2)
	exact.Entries[0].Payload = session.Raw(`"` + text + `y"`)
	require.ErrorIs(t, r.append(t.Context(), s, root, exact), session.ErrInvalidBatch)
	exact.Entries[0].Payload = session.Raw(`"` + text + `"`)
	require.NoError(t, r.append(t.Context(), s, root, exact))
	require.NoError(t, r.append(t.Context(), s, treeKey(2), batchOf(testTime, false, "goes on")))
	r.m.verify(t, s, "afterwards")
	require.NoError(t, s.Close())
	s = openOn(t, d)
	r.m.verify(t, s, "opened again")
	require.NoError(t, s.Close())
}

// batchOverhead returns the bytes of a batch of one entry without its JSON.
func batchOverhead(root session.Key, b session.Batch) int {
	b.Entries = []session.Entry{{Payload: session.Raw("1")}}
	return len(dirstore.EncodeBatch(root, 1, b)) - 1
}

// An unwritablePayload cannot be encoded.
type unwritablePayload struct{}

func (unwritablePayload) AppendJSON(b []byte) ([]byte, error) {
	return b, errors.New("it cannot be written")
}

// A blankPayload encodes as nothing.
type blankPayload struct{}

func (blankPayload) AppendJSON(b []byte) ([]byte, error) { return b, nil }

// Open and View refuse the log of a newer version, with file and offset, and leave it as it is.
func TestNewerLogIsRefused(t *testing.T) {
	known := dirstore.EncodeBatch(treeKey(1), 0, batchOf(testTime, false, "known"))
	newer := dirstore.EncodeBatch(treeKey(2), 0, batchOf(testTime, false, "newer"))
	newer[0] |= 0x80
	for what, r := range map[string]wal.Record{
		"frame kind":     {Kind: wal.FirstKind + 9, Payload: known},
		"batch flag 0x8": {Kind: wal.FirstKind, Payload: newer},
	} {
		d := disktest.New()
		require.NoError(t, openOn(t, d).Close())
		l, _, err := wal.Open(d, "/journal", func(wal.Span, wal.Kind, []byte) error { return nil })
		require.NoError(t, err)
		records := []wal.Record{{Kind: wal.FirstKind, Payload: known}, r}
		var at []wal.Span
		require.NoError(t, l.Append(t.Context(), records, func(s []wal.Span, _ error) { at = s }))
		require.NoError(t, l.Close())
		name := "/journal/00000001.wal"
		before := readAll(t, d, name)
		for _, open := range []func(disk.FS, string) (*session.Store, error){
			dirstore.OpenOn, dirstore.ViewOn,
		} {
			_, err = open(d, "/")
			require.ErrorIs(t, err, session.ErrFormat, what)
			require.ErrorContains(t, err, what)
			require.ErrorContains(t, err, fmt.Sprintf("%s: at byte %d", name, at[1].Off))
		}
		assert.Equal(t, before, readAll(t, d, name))
	}
}
