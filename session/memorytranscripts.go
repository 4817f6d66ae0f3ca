package session

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// maxTombstones is how many archived transcripts are remembered by name, the latest. Their lines are not kept.
const maxTombstones = 1 << 14

// memoryTranscripts are [Transcripts] that live and die with the process. An archived transcript is gone but for its name.
type memoryTranscripts struct {
	closed atomic.Bool

	mu       sync.RWMutex // held to read while lines are appended, so that nothing is appended to what has been archived
	live     map[Ref]*memoryTranscript
	archived map[Ref]string
	buried   []Ref // the keys of archived, the oldest first
}

type memoryTranscript struct {
	mu    sync.Mutex
	lines []Message // only ever appended to, so a reader may keep what it saw; line i has the position i+1
}

func newMemoryTranscripts() *memoryTranscripts {
	return &memoryTranscripts{live: make(map[Ref]*memoryTranscript), archived: make(map[Ref]string)}
}

// Close makes every later call fail with [ErrClosed].
func (t *memoryTranscripts) Close() error {
	t.closed.Store(true)
	return nil
}

// check says why nothing can be done now with ref.
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

func (t *memoryTranscripts) Append(ctx context.Context, ref Ref, after Pos, messages ...Message) (Pos, error) {
	if err := t.check(ctx, ref); err != nil {
		return 0, err
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
		return 0, fmt.Errorf("session: transcript %q of %q: append: %w as %q", ref.SessionID, ref.Key, ErrArchived, name)
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
	return fmt.Errorf("session: transcript %q of %q: append after %d, which ends at %d: %w", ref.SessionID, ref.Key, after, end, ErrConflict)
}

func (t *memoryTranscripts) Read(ctx context.Context, ref Ref, w LineQuery) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		err := t.check(ctx, ref)
		if err == nil {
			err = w.Validate()
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
		first := min(w.After, Pos(len(lines)))
		if left := len(lines) - int(first); w.Last > 0 && left > w.Last {
			first += Pos(left - w.Last)
		}
		for i, m := range lines[first:] {
			if err := ctx.Err(); err != nil {
				yield(Line{}, fmt.Errorf("session: transcript %q of %q: read: %w", ref.SessionID, ref.Key, err))
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
