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

	mu       sync.RWMutex
	live     map[Ref]*memoryTranscript
	archived map[Ref]string
	buried   []Ref // the keys of archived, the oldest first
}

type memoryTranscript struct {
	mu    sync.Mutex
	lines []Message // only ever appended to, so a reader may keep what it saw; line i has the position i+1
	gone  bool      // archived since the transcript was looked up
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

func (t *memoryTranscripts) find(ref Ref) (live *memoryTranscript, archived string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.live[ref], t.archived[ref]
}

// create returns the transcript, which it makes unless it is there or archived.
func (t *memoryTranscripts) create(ref Ref) (live *memoryTranscript, archived string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if name := t.archived[ref]; name != "" {
		return nil, name
	}
	if t.live[ref] == nil {
		t.live[ref] = new(memoryTranscript)
	}
	return t.live[ref], ""
}

func (t *memoryTranscripts) Append(ctx context.Context, ref Ref, after Pos, messages ...Message) (Pos, error) {
	if err := t.check(ctx, ref); err != nil {
		return 0, err
	}
	live, archived := t.find(ref)
	if live == nil && archived == "" && after == 0 {
		if len(messages) == 0 {
			return 0, nil
		}
		live, archived = t.create(ref)
	}
	if archived != "" {
		return 0, fmt.Errorf("session: transcript %q of %q: append: %w as %q", ref.SessionID, ref.Key, ErrArchived, archived)
	}
	if live == nil {
		return 0, conflict(ref, after, 0)
	}
	live.mu.Lock()
	defer live.mu.Unlock()
	if live.gone {
		return 0, fmt.Errorf("session: transcript %q of %q: append: %w", ref.SessionID, ref.Key, ErrArchived)
	}
	if end := Pos(len(live.lines)); end != after {
		return 0, conflict(ref, after, end)
	}
	live.lines = append(live.lines, messages...)
	return Pos(len(live.lines)), nil
}

func conflict(ref Ref, after, end Pos) error {
	return fmt.Errorf("session: transcript %q of %q: append after %d, which ends at %d: %w", ref.SessionID, ref.Key, after, end, ErrConflict)
}

func (t *memoryTranscripts) Read(ctx context.Context, ref Ref, w Window) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		err := t.check(ctx, ref)
		if err == nil {
			err = w.Validate()
		}
		if err != nil {
			yield(Line{}, err)
			return
		}
		live, _ := t.find(ref)
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
	live := t.live[ref]
	if live == nil {
		return t.archived[ref], nil
	}
	live.mu.Lock()
	live.gone = true
	live.mu.Unlock()
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
