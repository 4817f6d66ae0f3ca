package dirstore

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// Parsing a batch never panics. A batch that can be parsed is encoded as the same batch again.
func FuzzBatch(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseBatch(data, session.ParseRoot)
		if err != nil {
			return
		}
		again := session.Batch{ID: s.id, Due: s.due, Reset: s.reset}
		valid := true
		err = s.each(func(_ session.Seq, r session.Raw) bool {
			valid = valid && json.Valid(r) && !bytes.ContainsAny(r, "\r\n")
			again.Entries = append(again.Entries, session.Entry{Payload: r})
			return true
		})
		if err != nil || !valid {
			return
		}
		if len(again.Entries) != s.n {
			t.Fatalf("%d entries, but it says %d", len(again.Entries), s.n)
		}
		out, err := appendBatch(nil, s.root, s.after, again, wal.MaxPayload)
		if err != nil {
			t.Fatal(err)
		}
		r, err := parseBatch(out, session.ParseRoot)
		if err != nil || r.root != s.root || r.after != s.after || r.id != s.id ||
			r.reset != s.reset || !r.due.Equal(s.due) || !bytes.Equal(r.entries, s.entries) {
			t.Fatalf("%+v was written again as %+v: %v", s, r, err)
		}
	})
}
