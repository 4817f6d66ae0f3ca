package session

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
)

// maxTombstones is the number of archived transcripts whose names are remembered, the latest ones.
const maxTombstones = 1 << 14

// maxArchivedBytes is how much the lines of archived transcripts may take. The oldest ones go
// first. Only their names are kept then.
const maxArchivedBytes = 64 << 20

// memoryTranscripts is a [Transcripts] in memory.
type memoryTranscripts struct {
	closed atomic.Bool

	// mu is held for reading while lines are appended, so that no line is appended to a transcript
	// that has been archived.
	mu       sync.RWMutex
	live     map[Ref]*memoryTranscript
	archived map[Ref]*archivedLines
	buried   []Ref // keys of archived, the oldest first
	emptied  int   // of them have no lines any more
	bytes    int   // of the lines of archived
}

// An archivedLines is an archived transcript.
type archivedLines struct {
	name  string
	lines memoryLines
	bytes int  // of the lines, about
	gone  bool // the lines are not kept any more
}

// A memoryTranscript is one transcript that is not archived.
type memoryTranscript struct {
	mu    sync.Mutex
	lines memoryLines
}

func newMemoryTranscripts() *memoryTranscripts {
	return &memoryTranscripts{
		live: make(map[Ref]*memoryTranscript), archived: make(map[Ref]*archivedLines),
	}
}

// Steady says that no method of t calls code of the program's, see [contain.IsSteady].
func (t *memoryTranscripts) Steady(contain.Witness) any { return t }

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
	if err := t.checkOpen(ctx); err != nil {
		return fmt.Errorf("session: transcript %q of %q: %w", ref.SessionID, ref.Key, err)
	}
	return nil
}

// checkOpen returns ErrClosed if t is closed, or the error of ctx.
func (t *memoryTranscripts) checkOpen(ctx context.Context) error {
	if t.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

func (t *memoryTranscripts) Append(
	ctx context.Context, ref Ref, after Pos, messages ...Message,
) (Pos, error) {
	return t.add(ctx, ref, after, messages, nil)
}

// add adds lines at places; nil: each at the next position.
func (t *memoryTranscripts) add(
	ctx context.Context, ref Ref, after Pos, messages []Message, places []Pos,
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
		return live.append(ref, after, messages, places)
	}
	t.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.archived[ref]; a != nil {
		return 0, archivedError(ref, "append", a)
	}
	if live = t.live[ref]; live == nil {
		live = new(memoryTranscript)
	}
	last, err := live.append(ref, after, messages, places)
	if last > 0 {
		t.live[ref] = live
	}
	return last, err
}

func (m *memoryTranscript) append(
	ref Ref, after Pos, messages []Message, places []Pos,
) (Pos, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if end := m.lines.end(); end != after {
		return 0, conflict(ref, after, end)
	}
	if len(messages) > 0 {
		m.lines = m.lines.with(messages, places)
	}
	return m.lines.end(), nil
}

func conflict(ref Ref, after, end Pos) error {
	return fmt.Errorf("session: transcript %q of %q: append after %d, which ends at %d: %w",
		ref.SessionID, ref.Key, after, end, ErrConflict)
}

func archivedError(ref Ref, doing string, a *archivedLines) error {
	why := ""
	if a.gone {
		why = ", and its lines are not kept any more"
	}
	return fmt.Errorf("session: transcript %q of %q: %s: %w as %q%s",
		ref.SessionID, ref.Key, doing, ErrArchived, a.name, why)
}

// lines returns the lines of a transcript that a query with or without archived ones may read.
func (t *memoryTranscripts) lines(ref Ref, archived bool) (memoryLines, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	live, buried := t.live[ref], t.archived[ref]
	switch {
	case live != nil:
		live.mu.Lock()
		defer live.mu.Unlock()
		return live.lines, nil
	case buried == nil:
		return memoryLines{}, nil
	case !archived || buried.gone:
		return memoryLines{}, archivedError(ref, "read", buried)
	}
	return buried.lines, nil
}

func (t *memoryTranscripts) Read(ctx context.Context, ref Ref, q LineQuery) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		err := t.check(ctx, ref)
		if err == nil {
			err = q.Validate()
		}
		var lines memoryLines
		if err == nil {
			lines, err = t.lines(ref, q.Archived)
		}
		if err != nil {
			yield(Line{}, err)
			return
		}
		first := lines.behind(q.After)
		if q.Last > 0 {
			first = max(first, len(lines.messages)-q.Last)
		}
		for i, m := range lines.messages[first:] {
			if err := ctx.Err(); err != nil {
				err = fmt.Errorf(
					"session: transcript %q of %q: read: %w", ref.SessionID, ref.Key, err,
				)
				yield(Line{}, err)
				return
			}
			if !yield(Line{Pos: lines.pos(first + i), Message: m}, nil) {
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
		if a := t.archived[ref]; a != nil {
			return a.name, nil
		}
		return "", nil
	}
	delete(t.live, ref)
	if len(t.buried) == maxTombstones {
		t.forget(0)
	}
	a := &archivedLines{name: ArchiveName(ref.SessionID+".jsonl", at), lines: live.lines}
	for i := range a.lines.messages {
		a.bytes += lineBytes(&a.lines.messages[i])
	}
	t.archived[ref], t.buried = a, append(t.buried, ref)
	for t.bytes += a.bytes; t.bytes > maxArchivedBytes; t.emptied++ {
		t.empty(t.archived[t.buried[t.emptied]])
	}
	return a.name, nil
}

// lineBytes returns about how much a message takes of memory.
func lineBytes(m *Message) int {
	const fields = 300
	n := fields + len(m.ID) + len(m.Text) + len(m.Raw)
	for _, c := range m.ToolCalls {
		n += fields + len(c.Args)
	}
	return n
}

// empty drops the lines of an archived transcript. The caller holds the lock.
func (t *memoryTranscripts) empty(a *archivedLines) {
	t.bytes -= a.bytes
	*a = archivedLines{name: a.name, gone: true}
}

// forget drops the archived transcript with an index in buried. The caller holds the lock.
func (t *memoryTranscripts) forget(at int) {
	ref := t.buried[at]
	t.bytes -= t.archived[ref].bytes
	delete(t.archived, ref)
	t.buried = slices.Delete(t.buried, at, at+1)
	if at < t.emptied {
		t.emptied--
	}
}

func (t *memoryTranscripts) Restore(ctx context.Context, ref Ref) error {
	if err := t.check(ctx, ref); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.archived[ref]
	switch {
	case t.live[ref] != nil:
		return nil
	case a == nil || a.gone:
		return fmt.Errorf("session: transcript %q of %q: restore: %w",
			ref.SessionID, ref.Key, ErrNotFound)
	}
	t.live[ref] = &memoryTranscript{lines: a.lines}
	t.forget(slices.Index(t.buried, ref))
	return nil
}

func (t *memoryTranscripts) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		if err := t.checkOpen(ctx); err != nil {
			yield(Archived{}, fmt.Errorf("session: archived transcripts: %w", err))
			return
		}
		for _, a := range t.archives(before) {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// archives returns what was archived before a time, or all for the zero time.
func (t *memoryTranscripts) archives(before time.Time) (list []Archived) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, ref := range t.buried {
		at, _ := ArchiveTime(t.archived[ref].name)
		if before.IsZero() || at.Before(before) {
			list = append(list, Archived{ref, at})
		}
	}
	return list
}

func (t *memoryTranscripts) Remove(ctx context.Context, ref Ref) error {
	if err := t.check(ctx, ref); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live[ref] != nil {
		return fmt.Errorf("session: transcript %q of %q: remove: %w",
			ref.SessionID, ref.Key, ErrNotArchived)
	}
	if at := slices.Index(t.buried, ref); at >= 0 {
		t.forget(at)
	}
	return nil
}

func (t *memoryTranscripts) Locate(Ref) string { return "" }

// isArchived reports whether a transcript is known to be archived.
func (t *memoryTranscripts) isArchived(ref Ref) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.archived[ref] != nil
}
