package wal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// Whatever a file holds, opening it says what is in frames that are whole, or why not, and never panics; and if it opens, it goes on.
func FuzzOpen(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		d := disktest.New()
		put(t, d, logName, b)
		var r replayed
		l, report, err := wal.Open(d, "/", r.frame)
		if err != nil {
			var corrupt *wal.CorruptError
			var format *wal.FormatError
			if !errors.As(err, &corrupt) && !errors.As(err, &format) {
				t.Fatalf("an error of no type: %v", err)
			}
			if now := contents(t, d, logName); !bytes.Equal(now, b) {
				t.Fatal("a log that is refused was changed")
			}
			return
		}
		for i, at := range r.spans {
			if !bytes.Equal(b[at.Off+40:at.Off+at.Size()], []byte(r.texts[i])) || at.Off+at.Size() > report.Bytes {
				t.Fatalf("frame %d is not where it is said to be", i)
			}
		}
		require.NoError(t, l.Append(t.Context(), records("on"), ignore))
		require.NoError(t, l.Close())
		_, texts := mustOpen(t, d, "/")
		require.Equal(t, append(r.texts, "on"), texts)
	})
}
