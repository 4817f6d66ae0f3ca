package session

import (
	"context"
	"strings"
	"time"
)

// A Mender is a [Transcripts] that can go on after damage. Package agent calls it if [ErrCorrupt]
// keeps a turn from reading its conversation. The Transcripts of a directory is a Mender. One that
// cannot be damaged by a disk or an editor, or that has a way of its own, need not be.
type Mender interface {
	// Mend puts the damaged parts of a transcript aside, where a person finds them. All lines that
	// are intact stay, each at its position. In the place of the others is a note of [LostLines].
	// If the transcript cannot be told from that of another session any more, Mend puts all of it
	// aside, and it ends at zero then.
	//
	// Mend does nothing for a transcript that is intact or does not exist. After a crash another
	// Mend completes what the first one began. Mend returns [ErrFormat] for what a newer version
	// wrote, which is not damage.
	Mend(ctx context.Context, ref Ref) (Mended, error)
}

// A Mended says what [Mender.Mend] has put aside. The zero Mended says that nothing was damaged.
type Mended struct {
	Bytes int64    // how many
	Aside []string // the paths of the files that have them now
}

// lostText is the beginning of the text of LostLines.
const lostText = "Lines have been lost here."

// LostLines returns a note that takes the place of lines that were lost behind the position after.
// As a [Fence], it also discards what an interrupted turn has left there.
func LostLines(after Pos, at time.Time) Message {
	note := Fence(after, at)
	note.Text = lostText
	return note
}

// IsLostLines reports whether m is a note of [LostLines].
func (m Message) IsLostLines() bool {
	return m.Role == MessageNote && strings.HasPrefix(m.Text, lostText)
}
