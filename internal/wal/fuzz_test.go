package wal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// Open replays the intact frames of any file, or returns the reason why not. It never panics. A log
// that opens accepts appends.
func FuzzOpen(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		d := disktest.New()
		writeFile(t, d, logName, b)
		var r replayedFrames
		l, report, err := wal.Open(d, "/", r.frame)
		if err != nil {
			var corrupt *wal.CorruptError
			var format *wal.FormatError
			if !errors.As(err, &corrupt) && !errors.As(err, &format) {
				t.Fatalf("neither a CorruptError nor a FormatError: %v", err)
			}
			if now := readFile(t, d, logName); !bytes.Equal(now, b) {
				t.Fatal("Open changed a log that it refused")
			}
			return
		}
		for i, at := range r.spans {
			end := at.Off + at.Size()
			if end > report.Bytes || !bytes.Equal(b[at.Off+40:end], []byte(r.texts[i])) {
				t.Fatalf("frame %d is not at its place", i)
			}
		}
		require.NoError(t, l.Append(t.Context(), textRecords("on"), ignoreResult))
		require.NoError(t, l.Close())
		_, texts := mustOpen(t, d, "/")
		require.Equal(t, append(r.texts, "on"), texts)
	})
}
