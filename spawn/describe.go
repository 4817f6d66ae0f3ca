package spawn

import (
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Describe returns one line, for people, that says what an entry of a tree's journal records: its sequence, its time in UTC, and
// what happened. An entry that this version does not understand is described by its error. The text is no format: it may
// change.
func Describe(e session.Entry) string {
	f, err := tree.FactOf(e.Payload)
	if err != nil {
		return fmt.Sprintf("%d %v", e.Seq, err)
	}
	return fmt.Sprintf("%d %s %v", e.Seq, time.Unix(0, f.At).UTC().Format("2006-01-02T15:04:05.000Z"), f)
}
