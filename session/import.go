package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// A JournalImporter is a [Journal] that takes a log of another Journal at its sequences, so that a
// sequence which a reader of the log has kept stays good. Package
// [github.com/offshoot-sdk/offshoot/session/storecopy] uses it.
type JournalImporter interface {
	// Import is [Journal.Append] of a batch whose entries get the sequences from first on. A log
	// may begin at any sequence: its first batch has replaced what was before. Behind that, first
	// is one more than after. Any other first is an error that is [ErrInvalidBatch].
	Import(ctx context.Context, root Key, after, first Seq, b Batch) (Seq, error)
}

// ValidateImport returns an error that wraps [ErrInvalidBatch] unless a batch may begin at first
// in a log that ends at after. Every implementation of [JournalImporter] calls it.
func (b Batch) ValidateImport(after, first Seq) error {
	end := first + Seq(len(b.Entries))
	if first > after && end >= first && (after == 0 || first == after+1) {
		return nil
	}
	return fmt.Errorf("%w %q: it cannot begin at %d in a log that ends at %d",
		ErrInvalidBatch, b.ID, first, after)
}

// A TranscriptsImporter is a [Transcripts] that takes the lines of another Transcripts at their
// positions. Positions are more than an order: a journal names them, and so do notes, and a
// program may know a call of a tool by the position of its line.
type TranscriptsImporter interface {
	// Import is [Transcripts.Append] of lines that have positions, which grow and are greater than
	// after. Else the error is [ErrInvalidLine]. What is appended later comes behind them.
	Import(ctx context.Context, ref Ref, after Pos, lines ...Line) (Pos, error)
}

// ValidateImport returns an error that wraps [ErrInvalidLine] unless lines may follow a position.
// Every implementation of [TranscriptsImporter] calls it.
func ValidateImport(after Pos, lines []Line) error {
	for i, line := range lines {
		if line.Pos <= after {
			return fmt.Errorf("%w: line %d of %d has the position %d, and the one before it %d",
				ErrInvalidLine, i, len(lines), line.Pos, after)
		}
		after = line.Pos
	}
	return nil
}

// A TranscriptsLister is a [Transcripts] that knows which transcripts there are.
type TranscriptsLister interface {
	// Refs yields the transcripts that are in use, each once and in any order. [Transcripts]
	// yields the archived ones. An error is yielded once, with the zero Ref, after all that could
	// be read, and ends the sequence.
	Refs(ctx context.Context) iter.Seq2[Ref, error]
}

// A FilesLister is a [Files] that knows of which transcripts it has files.
type FilesLister interface {
	// Refs yields each transcript that has files, archived or not, once and in any order. The
	// transcript itself need not exist.
	//
	// A Files may keep a sum of the key alone, and then looks among known, which are sessions of
	// the same Store. Of files whose session is not among them it yields a Ref without a Key. An
	// error is yielded once, with the zero Ref, after all that could be read, and ends the
	// sequence.
	Refs(ctx context.Context, known []Key) iter.Seq2[Ref, error]
}

// ErrUnfinishedCopy is returned for a [Store] into which another one was being copied when that was
// cut off: it has a part of the other one. The copy is begun again, see
// [github.com/offshoot-sdk/offshoot/session/storecopy.Copy].
var ErrUnfinishedCopy = errors.New("session: the store is an unfinished copy of another one; " +
	"give the copy command again")

// Import implements [JournalImporter].
func (j *memoryJournal) Import(
	ctx context.Context, root Key, after, first Seq, b Batch,
) (Seq, error) {
	if err := b.ValidateImport(after, first); err != nil {
		return 0, fmt.Errorf("session: import to %q: %w", root, err)
	}
	return j.add(ctx, root, after, first, b)
}

// Import implements [TranscriptsImporter].
func (t *memoryTranscripts) Import(
	ctx context.Context, ref Ref, after Pos, lines ...Line,
) (Pos, error) {
	if err := ValidateImport(after, lines); err != nil {
		return 0, fmt.Errorf("session: transcript %q of %q: import: %w", ref.SessionID, ref.Key, err)
	}
	messages, places := make([]Message, len(lines)), make([]Pos, len(lines))
	for i, line := range lines {
		messages[i], places[i] = line.Message, line.Pos
	}
	return t.add(ctx, ref, after, messages, places)
}

// Refs implements [TranscriptsLister].
func (t *memoryTranscripts) Refs(ctx context.Context) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		if err := t.checkOpen(ctx); err != nil {
			yield(Ref{}, fmt.Errorf("session: transcripts: %w", err))
			return
		}
		t.mu.RLock()
		refs := make([]Ref, 0, len(t.live))
		for ref := range t.live {
			refs = append(refs, ref)
		}
		t.mu.RUnlock()
		for _, ref := range refs {
			if !yield(ref, nil) {
				return
			}
		}
	}
}

// Refs implements [FilesLister].
func (f *memoryFiles) Refs(ctx context.Context, _ []Key) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		err := ctx.Err()
		if f.closed.Load() {
			err = ErrClosed
		}
		if err != nil {
			yield(Ref{}, fmt.Errorf("session: files: %w", err))
			return
		}
		f.mu.Lock()
		refs := make([]Ref, 0, len(f.sets))
		for ref, set := range f.sets {
			if len(set.files) > 0 {
				refs = append(refs, ref)
			}
		}
		f.mu.Unlock()
		for _, ref := range refs {
			if !yield(ref, nil) {
				return
			}
		}
	}
}

// memoryLines are the lines of a transcript. Neither slice is changed in place, so that a reader
// may keep them.
type memoryLines struct {
	messages []Message
	// placed has the positions of the first lines, if they were imported. A line behind them is at
	// the position after that of the line before it.
	placed []Pos
}

// pos returns the position of line i.
func (m memoryLines) pos(i int) Pos {
	switch n := len(m.placed); {
	case i < n:
		return m.placed[i]
	case n > 0:
		return m.placed[n-1] + Pos(i-n) + 1
	}
	return Pos(i) + 1
}

// end returns the position of the last line, or 0.
func (m memoryLines) end() Pos {
	if len(m.messages) == 0 {
		return 0
	}
	return m.pos(len(m.messages) - 1)
}

// behind returns how many lines are not behind a position.
func (m memoryLines) behind(after Pos) int {
	n := len(m.placed)
	switch {
	case n > 0 && after < m.placed[n-1]:
		at, found := slices.BinarySearch(m.placed, after)
		if found {
			at++
		}
		return at
	case n > 0:
		after -= m.placed[n-1]
	}
	return n + int(min(after, Pos(len(m.messages)-n)))
}

// with returns m and more lines, which are at places; nil: each at the next position.
func (m memoryLines) with(messages []Message, places []Pos) memoryLines {
	if places != nil {
		for i := len(m.placed); i < len(m.messages); i++ {
			m.placed = append(m.placed, m.pos(i))
		}
		m.placed = append(m.placed, places...)
	}
	if m.messages == nil { // what is asked and what is answered, in one array
		m.messages = make([]Message, 0, max(2, len(messages)))
	}
	m.messages = append(m.messages, messages...)
	return m
}
