package session

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// maxTombstones is the number of archived transcripts whose names are remembered, the latest ones.
// Their lines are not kept.
const maxTombstones = 1 << 14

// memoryTranscripts is a [Transcripts] in memory. Of an archived transcript it keeps the name
// alone.
type memoryTranscripts struct {
	closed atomic.Bool

	// mu is held for reading while lines are appended, so that no line is appended to a transcript
	// that has been archived.
	mu       sync.RWMutex
	live     map[Ref]*memoryTranscript
	archived map[Ref]string
	buried   []Ref // keys of archived, the oldest first
}

// A memoryTranscript is one transcript that is not archived.
type memoryTranscript struct {
	mu    sync.Mutex
	lines []Message // line i has the position i+1; never changed in place, so readers keep it
}

func newMemoryTranscripts() *memoryTranscripts {
	return &memoryTranscripts{live: make(map[Ref]*memoryTranscript), archived: make(map[Ref]string)}
}

// Close makes every later call fail with [ErrClosed].
func (t *memoryTranscripts) Close() error {
	t.closed.Store(true)
	return nil
}

// check returns the error of ref, ErrClosed if t is closed, or the error of ctx.
func (t *memoryTranscripts) check(ctx context.Context, ref Ref) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	err := ctx.Err()
	if t.closed.Load() {
		err = ErrClosed
	}
	if err != nil {
		return fmt.Errorf("session: transcript %q of %q: %w", ref.SessionID, ref.Key, err)
	}
	return nil
}

func (t *memoryTranscripts) Append(
	ctx context.Context, ref Ref, after Pos, messages ...Message,
) (Pos, error) {
	if err := t.check(ctx, ref); err != nil {
		return 0, err
	}
	for i := range messages {
		if err := messages[i].Validate(); err != nil {
			return 0, fmt.Errorf("session: transcript %q of %q: append: message %d of %d: %w",
				ref.SessionID, ref.Key, i, len(messages), err)
		}
	}
	t.mu.RLock()
	live := t.live[ref]
	if live != nil {
		defer t.mu.RUnlock()
		return live.append(ref, after, messages)
	}
	t.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if name := t.archived[ref]; name != "" {
		return 0, fmt.Errorf("session: transcript %q of %q: append: %w as %q",
			ref.SessionID, ref.Key, ErrArchived, name)
	}
	if live = t.live[ref]; live == nil {
		live = new(memoryTranscript)
	}
	last, err := live.append(ref, after, messages)
	if last > 0 {
		t.live[ref] = live
	}
	return last, err
}

func (m *memoryTranscript) append(ref Ref, after Pos, messages []Message) (Pos, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if end := Pos(len(m.lines)); end != after {
		return 0, conflict(ref, after, end)
	}
	m.lines = append(m.lines, messages...)
	return Pos(len(m.lines)), nil
}

func conflict(ref Ref, after, end Pos) error {
	return fmt.Errorf("session: transcript %q of %q: append after %d, which ends at %d: %w",
		ref.SessionID, ref.Key, after, end, ErrConflict)
}

func (t *memoryTranscripts) Read(ctx context.Context, ref Ref, q LineQuery) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		err := t.check(ctx, ref)
		if err == nil {
			err = q.Validate()
		}
		if err != nil {
			yield(Line{}, err)
			return
		}
		t.mu.RLock()
		live := t.live[ref]
		t.mu.RUnlock()
		if live == nil {
			return
		}
		live.mu.Lock()
		lines := live.lines
		live.mu.Unlock()
		first := min(q.After, Pos(len(lines)))
		if left := len(lines) - int(first); q.Last > 0 && left > q.Last {
			first += Pos(left - q.Last)
		}
		for i, m := range lines[first:] {
			if err := ctx.Err(); err != nil {
				err = fmt.Errorf(
					"session: transcript %q of %q: read: %w", ref.SessionID, ref.Key, err,
				)
				yield(Line{}, err)
				return
			}
			if !yield(Line{Pos: first + Pos(i) + 1, Message: m}, nil) {
				return
			}
		}
	}
}

func (t *memoryTranscripts) Archive(ctx context.Context, ref Ref, at time.Time) (string, error) {
	if err := t.check(ctx, ref); err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live[ref] == nil {
		return t.archived[ref], nil
	}
	delete(t.live, ref)
	if len(t.buried) == maxTombstones {
		delete(t.archived, t.buried[0])
		t.buried = t.buried[1:]
	}
	t.archived[ref] = ArchiveName(ref.SessionID+".jsonl", at)
	t.buried = append(t.buried, ref)
	return t.archived[ref], nil
}

func (t *memoryTranscripts) Locate(Ref) string { return "" }

// isArchived reports whether a transcript is known to be archived.
func (t *memoryTranscripts) isArchived(ref Ref) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.archived[ref] != ""
}
