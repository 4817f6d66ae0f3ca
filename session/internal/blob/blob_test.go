package blob_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/blob"
)

func fileOf(data []byte) session.File {
	sum := sha256.Sum256(data)
	return session.File{Hash: hex.EncodeToString(sum[:]), Size: int64(len(data))}
}

// reader returns a reader of chunks for a file.
func reader(file session.File, chunks [][]byte) io.ReadCloser {
	return blob.NewReader(file, func(n int) ([]byte, bool, error) {
		if n >= len(chunks) {
			return nil, false, nil
		}
		return chunks[n], true, nil
	})
}

// Bytes of every size around that of a chunk come back as they were, however they are read.
func TestCopyAndRead(t *testing.T) {
	const size = 8
	for n := range 4*size + 2 {
		data := bytes.Repeat([]byte("abc"), n)[:n]
		var chunks [][]byte
		in := iotest.HalfReader(bytes.NewReader(data))
		last, err := blob.Copy(in, size, func(b []byte) error {
			require.Len(t, b, size)
			chunks = append(chunks, bytes.Clone(b))
			return nil
		})
		require.NoError(t, err)
		require.Less(t, len(last), size)
		if len(last) > 0 {
			chunks = append(chunks, last)
		}
		r := reader(fileOf(data), chunks)
		got, err := io.ReadAll(iotest.OneByteReader(r))
		require.NoError(t, err)
		require.Equal(t, string(data), string(got))
		require.NoError(t, r.Close())
		_, err = r.Read(make([]byte, 1))
		require.ErrorIs(t, err, blob.ErrClosed)
	}
}

// A chunk that is missing, cut, changed, or too much is found before the last byte is given out.
func TestDamage(t *testing.T) {
	data := []byte("abcdefgh")
	whole := [][]byte{[]byte("abc"), []byte("def"), []byte("gh")}
	for i := range whole {
		for name, chunks := range map[string][][]byte{
			"missing": slices.Delete(slices.Clone(whole), i, i+1),
			"cut":     slices.Replace(slices.Clone(whole), i, i+1, whole[i][1:]),
			"changed": slices.Replace(slices.Clone(whole), i, i+1, bytes.ToUpper(whole[i])),
			"twice":   slices.Insert(slices.Clone(whole), i, whole[i]),
		} {
			if name == "twice" && i == len(whole)-1 {
				continue // all bytes are there before it
			}
			got, err := io.ReadAll(reader(fileOf(data), chunks))
			require.ErrorIs(t, err, session.ErrCorrupt, name)
			require.Less(t, len(got), len(data), name)
		}
	}
	var corrupt *session.CorruptError
	_, err := io.ReadAll(reader(fileOf(data), nil))
	require.ErrorAs(t, err, &corrupt)
}

// The errors of a source, of what takes the chunks and of what has them end the work.
func TestErrors(t *testing.T) {
	failed := errors.New("failed")
	_, err := blob.Copy(iotest.ErrReader(failed), 2, func([]byte) error { return nil })
	require.ErrorIs(t, err, failed)
	_, err = blob.Copy(bytes.NewReader(make([]byte, 5)), 2, func([]byte) error { return failed })
	require.ErrorIs(t, err, failed)
	_, err = io.ReadAll(blob.NewReader(session.File{Size: 1},
		func(int) ([]byte, bool, error) { return nil, false, failed }))
	require.ErrorIs(t, err, failed)
}
