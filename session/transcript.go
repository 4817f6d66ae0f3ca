package session

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// A Pos is the position of a line in one transcript. Positions grow along a transcript, and may
// have gaps. A Pos says nothing beyond its order. Zero is the position before the first line.
type Pos uint64

// A Ref names one transcript. A session that begins anew keeps its key and gets another session id,
// and so has another transcript.
type Ref struct {
	Key       Key
	SessionID string // a UUID; see [NewID]
}

// Validate returns an error that wraps [ErrInvalidKey] if r does not name a session, or if its
// session id cannot be a file name. A session id has 1 to 128 bytes: letters and digits of ASCII,
// and after the first byte also - _ and a full stop. Every implementation of Transcripts calls
// Validate at the start of Append, Read, Archive, Restore and Remove.
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
		return fmt.Errorf("session: transcript of %q: session id %q is not a file name: %w",
			r.Key, r.SessionID, ErrInvalidKey)
	}
	return nil
}

// ArchiveName returns the name that [Transcripts.Archive] gives to the transcript called name:
// <name>.deleted.<timestamp>. The timestamp is in UTC, with milliseconds and without colons, as in
// "x.jsonl.deleted.2026-03-04T05-06-07.089Z".
func ArchiveName(name string, at time.Time) string {
	return name + ".deleted." + at.UTC().Format(archiveTime)
}

// An Archived is a transcript that has been archived.
type Archived struct {
	Ref Ref
	At  time.Time // as its name says it, in UTC and with milliseconds
}

// archiveTime is the layout of the timestamp of an archive.
const archiveTime = "2006-01-02T15-04-05.000Z"

// ArchiveTime returns when a transcript was archived, as the name that [ArchiveName] has made says
// it. It returns false for a name of another form.
func ArchiveTime(name string) (at time.Time, ok bool) {
	const mark = ".deleted."
	i := strings.LastIndex(name, mark)
	if i < 0 {
		return at, false
	}
	at, err := time.Parse(archiveTime, name[i+len(mark):])
	return at, err == nil
}

// A Line is one message of a transcript, with its position.
type Line struct {
	Pos     Pos
	Message Message
}

// A LineQuery selects lines of a transcript. The zero LineQuery selects every line of a transcript
// that is not archived.
type LineQuery struct {
	After Pos // only lines after this position
	Last  int // of those, at most this many, counted from the end; 0: all; negative: an error

	// Archived selects the lines of a transcript that has been archived, too. Without it such a
	// transcript is ErrArchived.
	Archived bool
}

// Validate returns an error if q.Last is negative.
func (q LineQuery) Validate() error {
	if q.Last < 0 {
		return fmt.Errorf("session: line query: last %d is negative", q.Last)
	}
	return nil
}

// A Transcripts keeps the conversations of sessions, one transcript for each [Ref] and one message
// for each line.
//
// A transcript has one writer at a time, but a Transcripts does not rely on that. Append refuses a
// writer that does not know where the transcript ends. So a former owner of a session cannot mix
// its lines with those of the present owner.
//
// The journal records which position the last complete turn has reached. Lines beyond that position
// belong to a turn that is still running or that was interrupted. In the second case the next
// writer appends a [Fence], and [Committed] then leaves those lines out. So does the owner of the
// session before it archives the transcript.
//
// All methods may be called concurrently. A method returns early with the error of ctx once ctx is
// done. If the Transcripts can be closed, every method that returns an error returns [ErrClosed]
// after that.
//
// Package [github.com/offshoot-sdk/offshoot/session/sessiontest] tests an implementation against
// these rules, one by one.
type Transcripts interface { //nolint:interfacebloat // a store is one thing, and its kit tests it
	// Append adds the messages, in order, if the last position of the transcript is after.
	// Otherwise it adds nothing and returns ErrConflict. A transcript that does not exist ends at
	// zero. An archived transcript accepts nothing more, and Append returns ErrArchived.
	//
	// Append adds nothing and returns ErrInvalidLine if one of the messages has no JSON form, see
	// [Message.Validate], or one that is longer than a line may be. Every Transcripts takes a line
	// of up to a kilobyte less than [BatchLimit], and says which limit a longer one exceeds in an
	// error type of its own.
	//
	// Append returns the position of the last line. Once it has returned without an error, the
	// lines are durable, and every Read that begins later sees them. If the process dies during the
	// call, a prefix of the messages may be stored, each of them whole.
	//
	// An Append without messages adds nothing. It returns ErrConflict if after is not the end, and
	// otherwise after itself.
	Append(ctx context.Context, ref Ref, after Pos, messages ...Message) (Pos, error)

	// Read yields the lines that q selects, the oldest first. For a transcript that does not exist,
	// it yields nothing. One that has been archived is the error ErrArchived, unless q.Archived is
	// set: then Read yields its lines, at the positions that they had. An error is yielded once,
	// with the zero Line, and ends the sequence.
	Read(ctx context.Context, ref Ref, q LineQuery) iter.Seq2[Line, error]

	// Archive takes the transcript out of use, and keeps it under another name, which ends as
	// ArchiveName says. It returns that name. A second call changes nothing and returns the name
	// that the first call gave, whatever the time at. For a transcript that does not exist Archive
	// returns "" without an error.
	Archive(ctx context.Context, ref Ref, at time.Time) (string, error)

	// Restore takes an archived transcript into use again, as it was: Read yields its lines at the
	// positions that they had, and Append adds to them. The next Archive gives it another name. For
	// a transcript that is not archived Restore changes nothing and returns nil, so a call whose
	// outcome is unknown is repeated. For one that does not exist, or whose lines are not kept any
	// more, it returns an error that is ErrNotFound.
	Restore(ctx context.Context, ref Ref) error

	// Archives yields the transcripts that were archived before a time, as their names say it, in
	// any order, each once; the zero time is after all of them. A file that cannot be read is an
	// error, and so is one whose name is that of an archive and that is none. An error is yielded
	// once, with the zero Archived, after all that could be read, and ends the sequence.
	Archives(ctx context.Context, before time.Time) iter.Seq2[Archived, error]

	// Remove removes an archived transcript for good: its lines, and its name. From then on it is a
	// transcript that does not exist. For a transcript that is not archived Remove changes nothing
	// and returns ErrNotArchived. For one that does not exist it returns nil, so a call whose
	// outcome is unknown is repeated.
	Remove(ctx context.Context, ref Ref) error

	// Locate returns the path at which a person finds the transcript, archived or not. It returns
	// "" where transcripts do not have a path.
	Locate(ref Ref) string
}

// Committed yields the lines that belong to the conversation: it leaves out every note, and the
// lines that a [Fence] discards. A later fence may discard any line, so Committed reads all of
// lines before it yields the first one. If lines ends with an error, Committed yields what remains
// of the lines before it, and then the error.
//
// What a [Compaction] stands for is part of the conversation; see [View].
func Committed(lines iter.Seq2[Line, error]) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		kept, failed := unfenced(lines)
		for _, line := range kept {
			if !line.Message.IsCompaction() && !yield(line, nil) {
				return
			}
		}
		if failed != nil {
			yield(Line{}, failed)
		}
	}
}

// View yields what a model is shown of a conversation. Unless a [Compaction] belongs to it, that is
// what [Committed] yields. Else it is the note of the last one, and behind it the lines that it
// does not stand for, in their order. The lines up to its Through need not be among lines.
func View(lines iter.Seq2[Line, error]) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		kept, failed := unfenced(lines)
		for _, note := range slices.Backward(kept) {
			if note.Message.IsCompaction() {
				kept = slices.DeleteFunc(kept, func(l Line) bool {
					return l.Pos <= note.Message.Compacted.Through || l.Message.IsCompaction()
				})
				kept = slices.Insert(kept, 0, note)
				break
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

// unfenced returns the lines that no fence discards, with the compactions and without the other
// notes, and the error with which lines ends. Nil has none.
func unfenced(lines iter.Seq2[Line, error]) (kept []Line, failed error) {
	if lines == nil {
		return nil, nil
	}
	for line, err := range lines {
		switch {
		case err != nil:
			return kept, err
		case line.Message.Role != MessageNote || line.Message.IsCompaction():
			kept = append(kept, line)
			continue
		}
		for len(kept) > 0 && kept[len(kept)-1].Pos > line.Message.Discard {
			kept = kept[:len(kept)-1]
		}
	}
	return kept, nil
}
