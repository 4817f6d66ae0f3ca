package agenttest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// errKilled is what a process that was killed gets from the world.
var errKilled = errors.New("agenttest: this process was killed")

// gate is the store as one life of the process sees it. When that life is over nothing comes through any more, but one thing: what
// a former owner still tries to write to a tree that has another owner by then is let through, because the journal must refuse it.
type gate struct {
	h *Harness
	l *life
}

func (l *life) store(h *Harness) *session.Store {
	g := gate{h, l}
	return &session.Store{Journal: journalGate{g}, Transcripts: transcriptsGate{g}}
}

type journalGate struct{ gate }

// Append implements session.Journal.
func (g journalGate) Append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (seq session.Seq, err error) {
	if g.l.dead.Load() {
		return g.formerOwner(ctx, root, after, b)
	}
	err = g.h.write(g.l, fmt.Sprintf("journal of %s", root), func() error {
		seq, err = g.h.store.Journal.Append(ctx, root, after, b)
		if last := g.landed(ctx, root, after, b, seq, err); last > 0 {
			g.h.noteFacts(g.l, root, last, b)
		}
		return err
	})
	return seq, err
}

// landed returns the last sequence of a batch if it is in the journal, also where the journal did not say so.
func (g journalGate) landed(ctx context.Context, root session.Key, after session.Seq, b session.Batch, seq session.Seq, err error) (last session.Seq) {
	if err == nil {
		return seq
	}
	for e, err := range g.h.store.Journal.Read(ctx, root, after) {
		if err == nil && e.Batch == b.ID {
			last = e.Seq
		}
	}
	return last
}

func (g journalGate) formerOwner(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
	if g.h.ownerOf(root) == g.l {
		return 0, errKilled
	}
	seq, err := g.h.store.Journal.Append(ctx, root, after, b)
	if err == nil {
		g.h.t.Errorf("agenttest: a former owner of %s could append after entry %d", root, after)
	}
	return seq, err
}

// Read implements session.Journal.
func (g journalGate) Read(ctx context.Context, root session.Key, after session.Seq) iter.Seq2[session.Entry, error] {
	if g.l.dead.Load() {
		return refused[session.Entry]
	}
	return g.h.store.Journal.Read(ctx, root, after)
}

// Roots implements session.Journal.
func (g journalGate) Roots(ctx context.Context, q session.RootQuery) iter.Seq2[session.Head, error] {
	if g.l.dead.Load() {
		return func(func(session.Head, error) bool) {}
	}
	return g.h.store.Journal.Roots(ctx, q)
}

func refused[T any](yield func(T, error) bool) {
	var none T
	yield(none, errKilled)
}

type transcriptsGate struct{ gate }

// Append implements session.Transcripts.
func (g transcriptsGate) Append(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (pos session.Pos, err error) {
	err = g.h.write(g.l, fmt.Sprintf("transcript of %s", ref.Key), func() error {
		pos, err = g.h.store.Transcripts.Append(ctx, ref, after, m...)
		for line, err := range g.h.store.Transcripts.Read(ctx, ref, session.LineQuery{After: g.h.lastLine(ref)}) {
			if err == nil {
				g.h.noteLine(ref, line)
			}
		}
		return err
	})
	return pos, err
}

// Read implements session.Transcripts.
func (g transcriptsGate) Read(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
	if g.l.dead.Load() {
		return refused[session.Line]
	}
	return g.h.store.Transcripts.Read(ctx, ref, w)
}

// Archive implements session.Transcripts.
func (g transcriptsGate) Archive(ctx context.Context, ref session.Ref, at time.Time) (name string, err error) {
	err = g.h.write(g.l, fmt.Sprintf("archive of %s", ref.Key), func() error {
		name, err = g.h.store.Transcripts.Archive(ctx, ref, at)
		return err
	})
	return name, err
}

// Locate implements session.Transcripts.
func (g transcriptsGate) Locate(ref session.Ref) string { return g.h.store.Transcripts.Locate(ref) }

// crashPoint is a write at which the process is killed.
type crashPoint struct {
	at      int  // which write, from 1
	after   bool // the write has been made; only nobody hears of it
	reached string
}

func (p *crashPoint) String() string {
	if p.after {
		return fmt.Sprintf("after write %d", p.at)
	}
	return fmt.Sprintf("before write %d", p.at)
}

// write is the one way to the store.
func (h *Harness) write(l *life, what string, do func() error) error {
	if l.dead.Load() {
		return errKilled
	}
	h.mu.Lock()
	h.writes++
	p := h.crash
	if p != nil && (p.at != h.writes || h.over) {
		p = nil
	}
	if p != nil {
		p.reached = what
	}
	h.mu.Unlock()
	if p == nil {
		return do()
	}
	err := errKilled
	if p.after {
		err = errors.Join(err, do())
	}
	h.t.Logf("agenttest: killed %v, %s", p, what)
	h.kill(l)
	return err
}

// fact is an entry of a journal as the invariants see it.
type fact struct {
	root session.Key // of the tree
	spawntest.Fact
}

// noteFacts remembers what was written, and whose tree it is now.
func (h *Harness) noteFacts(l *life, root session.Key, last session.Seq, b session.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners[root] = l
	entries := slices.Clone(b.Entries)
	for i := range entries {
		entries[i].Seq, entries[i].Batch = last-session.Seq(len(entries)-1-i), b.ID
	}
	h.entries[root] = append(h.entries[root], entries...)
	for f, err := range spawntest.Facts(yielded(entries)) {
		if err != nil {
			h.t.Errorf("agenttest: entry %d of %s cannot be read: %v", f.Seq, root, err)
			continue
		}
		h.facts = append(h.facts, fact{root, f})
	}
	for f, err := range spawntest.Ends(yielded(entries)) {
		if err == nil {
			h.ended[f.Run] = true
		}
	}
}

// yielded yields entries as a journal does.
func yielded(entries []session.Entry) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (h *Harness) ownerOf(root session.Key) *life {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owners[root]
}

// noteLine remembers what was said. It is read back, because it may be there although nobody said so.
func (h *Harness) noteLine(ref session.Ref, line session.Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines[ref] = append(h.lines[ref], line)
}

func (h *Harness) lastLine(ref session.Ref) session.Pos {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.lines[ref]); n > 0 {
		return h.lines[ref][n-1].Pos
	}
	return 0
}
