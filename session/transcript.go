package session

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// A Pos is the position of a line in one transcript. Positions grow along a transcript and are opaque beyond that. Zero is before the
// first line.
type Pos uint64

// A Ref names one transcript. A session may begin again under the same key, with another session id and so another transcript.
type Ref struct {
	Key       Key
	SessionID string // a UUID, and the name of the transcript; see [NewID]
}

// Validate returns an error that is [ErrInvalidKey] if r names no session or if its id cannot be a name: letters, digits, - _ and .
// of ASCII, starting with a letter or digit, of 128 bytes at most. A Transcripts calls it first.
func (r Ref) Validate() error {
	if !r.Key.IsValid() {
		return fmt.Errorf("session: transcript %q: key %q: %w", r.SessionID, r.Key, ErrInvalidKey)
	}
	bad := r.SessionID == "" || len(r.SessionID) > 128
	for i := range len(r.SessionID) {
		c := r.SessionID[i]
		word := isAlnum(c) || 'A' <= c && c <= 'Z'
		bad = bad || !word && (i == 0 || c != '-' && c != '_' && c != '.')
	}
	if bad {
		return fmt.Errorf("session: transcript of %q: session id %q is no file name: %w", r.Key, r.SessionID, ErrInvalidKey)
	}
	return nil
}

// ArchiveName returns what a transcript called name is called after it was archived at a time: <name>.deleted.<timestamp>, in UTC with
// milliseconds and without colons, such as "x.jsonl.deleted.2026-03-04T05-06-07.089Z".
func ArchiveName(name string, at time.Time) string {
	return name + ".deleted." + at.UTC().Format("2006-01-02T15-04-05.000Z")
}

// A Line is a message and where it stands.
type Line struct {
	Pos     Pos
	Message Message
}

// A LineQuery selects lines of a transcript. The zero Window selects all.
type LineQuery struct {
	After Pos // only lines after this one
	Last  int // of these at most so many, the last ones; 0 for all. Less than 0 is an error.
}

// Validate returns an error if w cannot select anything.
func (w LineQuery) Validate() error {
	if w.Last < 0 {
		return fmt.Errorf("session: window: last %d is negative", w.Last)
	}
	return nil
}

// Transcripts keep the conversation of each session, one message a line.
//
// A transcript has one writer at a time, and Append refuses a writer that does not know where it ends, so that a former owner cannot
// mix its lines with those of the present one. The journal says which position the last whole turn reached; lines beyond it are those
// of a turn that is under way or was interrupted, which the next writer says with a [Fence].
//
// Methods may be called from many goroutines at once. They return early with the error of ctx once it is done, and [ErrClosed] after
// the Transcripts were closed, if they can be. Package sessiontest has the kit.
type Transcripts interface {
	// Append adds the messages if the last position of the transcript is after, and else adds nothing and returns ErrConflict. A
	// transcript that does not exist ends at zero; an archived one takes nothing more and returns ErrArchived. It returns the last
	// position, and once it has returned, the lines are durable and every Read sees them. After a crash in between, a part of the
	// messages may be there, always the first ones and always whole. No messages are no error, and ask whether after is right.
	Append(ctx context.Context, ref Ref, after Pos, messages ...Message) (Pos, error)

	// Read yields the lines that w selects, the oldest first; none for a transcript that does not exist or has been archived. An
	// error is yielded once, beside the zero Line, and ends the sequence.
	Read(ctx context.Context, ref Ref, w LineQuery) iter.Seq2[Line, error]

	// Archive takes the transcript away under another name, ArchiveName, and returns that name. Doing it again changes nothing and
	// returns the same name, whatever the time; a transcript that does not exist has none, which is "" and no error.
	Archive(ctx context.Context, ref Ref, at time.Time) (string, error)

	// Locate returns the path at which a person finds the transcript, archived or not, "" where there is no such thing.
	Locate(ref Ref) string
}

// Committed yields the lines that are part of the conversation: all but the fences, and but those that a [Fence] discards. It holds
// the lines back until it has seen all of them. After an error it yields those that it has seen, then the error.
func Committed(lines iter.Seq2[Line, error]) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var kept []Line
		var failed error
		for line, err := range lines {
			if err != nil {
				failed = err
				break
			}
			if line.Message.Role != MessageNote {
				kept = append(kept, line)
				continue
			}
			for len(kept) > 0 && kept[len(kept)-1].Pos > line.Message.Discard {
				kept = kept[:len(kept)-1]
			}
		}
		for _, line := range kept {
			if !yield(line, nil) {
				return
			}
		}
		if failed != nil {
			yield(Line{}, failed)
		}
	}
}
