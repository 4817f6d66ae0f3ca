package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// errProcessKilled is what a process that was killed gets from its store, tools and receivers.
var errProcessKilled = errors.New("agenttest: this process was killed")

// storeGate is the store as one process sees it. Once that process has been killed, its calls fail,
// with one exception: what it still writes to a tree that has another owner by then reaches the
// journal, because the journal must refuse it.
type storeGate struct {
	h    *Harness
	proc *process
}

func (proc *process) store(h *Harness) *session.Store {
	g := storeGate{h, proc}
	s := &session.Store{
		Journal: journalGate{g}, Transcripts: transcriptsGate{g}, Owners: proc.own.Owners,
	}
	if h.store.Files != nil {
		s.Files = filesGate{g}
	}
	return s
}

type journalGate struct{ storeGate }

// Append implements session.Journal.
func (g journalGate) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (seq session.Seq, err error) {
	if g.proc.dead.Load() {
		return g.formerOwner(ctx, root, after, b)
	}
	err = g.h.write(g.proc, fmt.Sprintf("journal of %s", root), func() error {
		seq, err = g.proc.own.Journal.Append(ctx, root, after, b)
		if last := g.lastAppended(ctx, root, after, b, seq, err); last > 0 {
			g.h.noteFacts(g.proc, root, last, b)
		}
		return err
	})
	return seq, err
}

// lastAppended returns the last sequence of a batch if it is in the journal, also where the journal
// did not say so.
func (g journalGate) lastAppended(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch, seq session.Seq,
	err error,
) (last session.Seq) {
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

func (g journalGate) formerOwner(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if owner := g.h.ownerOf(root); owner == nil || owner == g.proc {
		return 0, errProcessKilled // the tree does not have another owner yet
	}
	seq, err := g.h.store.Journal.Append(ctx, root, after, b)
	if err == nil {
		g.h.t.Errorf("agenttest: a former owner of %s could append after entry %d", root, after)
	}
	return seq, err
}

// Read implements session.Journal.
func (g journalGate) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if g.proc.dead.Load() {
		return failedRead[session.Entry]
	}
	return g.proc.own.Journal.Read(ctx, root, after)
}

// Roots implements session.Journal.
func (g journalGate) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	if g.proc.dead.Load() {
		return func(func(session.Head, error) bool) {}
	}
	return g.proc.own.Journal.Roots(ctx, q)
}

func failedRead[T any](yield func(T, error) bool) {
	var none T
	yield(none, errProcessKilled)
}

type transcriptsGate struct{ storeGate }

// Append implements session.Transcripts.
func (g transcriptsGate) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (pos session.Pos, err error) {
	err = g.h.write(g.proc, fmt.Sprintf("transcript of %s", ref.Key), func() error {
		pos, err = g.proc.own.Transcripts.Append(ctx, ref, after, m...)
		for line, err := range g.h.store.Transcripts.Read(ctx, ref,
			session.LineQuery{After: g.h.lastLine(ref)}) {
			if err == nil {
				g.h.noteLine(ref, line)
			}
		}
		return err
	})
	return pos, err
}

// Read implements session.Transcripts.
func (g transcriptsGate) Read(
	ctx context.Context, ref session.Ref, w session.LineQuery,
) iter.Seq2[session.Line, error] {
	if g.proc.dead.Load() {
		return failedRead[session.Line]
	}
	return g.proc.own.Transcripts.Read(ctx, ref, w)
}

// Archive implements session.Transcripts.
func (g transcriptsGate) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (name string, err error) {
	err = g.h.write(g.proc, fmt.Sprintf("archive of %s", ref.Key), func() error {
		name, err = g.proc.own.Transcripts.Archive(ctx, ref, at)
		return err
	})
	return name, err
}

// Restore implements session.Transcripts.
func (g transcriptsGate) Restore(ctx context.Context, ref session.Ref) error {
	return g.h.write(g.proc, fmt.Sprintf("restoring of %s", ref.Key), func() error {
		return g.proc.own.Transcripts.Restore(ctx, ref)
	})
}

// Archives implements session.Transcripts.
func (g transcriptsGate) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[session.Archived, error] {
	if g.proc.dead.Load() {
		return failedRead[session.Archived]
	}
	return g.proc.own.Transcripts.Archives(ctx, before)
}

// Remove implements session.Transcripts.
func (g transcriptsGate) Remove(ctx context.Context, ref session.Ref) error {
	return g.h.write(g.proc, fmt.Sprintf("removal of %s", ref.Key), func() error {
		g.h.notePurged(ref)
		return g.proc.own.Transcripts.Remove(ctx, ref)
	})
}

// Locate implements session.Transcripts.
func (g transcriptsGate) Locate(ref session.Ref) string {
	return g.proc.own.Transcripts.Locate(ref)
}

type filesGate struct{ storeGate }

// Put implements session.Files.
func (g filesGate) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (file session.File, err error) {
	err = g.h.write(g.proc, fmt.Sprintf("file of %s", ref.Key), func() error {
		g.h.noteFiles(ref)
		file, err = g.proc.own.Files.Put(ctx, ref, r, want)
		return err
	})
	return file, err
}

// Open implements session.Files.
func (g filesGate) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	if g.proc.dead.Load() {
		return nil, errProcessKilled
	}
	return g.proc.own.Files.Open(ctx, ref, hash)
}

// List implements session.Files.
func (g filesGate) List(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
	if g.proc.dead.Load() {
		return failedRead[session.File]
	}
	return g.proc.own.Files.List(ctx, ref)
}

// Archive implements session.Files.
func (g filesGate) Archive(ctx context.Context, ref session.Ref, at time.Time) error {
	return g.h.write(g.proc, fmt.Sprintf("archive of the files of %s", ref.Key), func() error {
		return g.proc.own.Files.Archive(ctx, ref, at)
	})
}

// Restore implements session.Files.
func (g filesGate) Restore(ctx context.Context, ref session.Ref) error {
	return g.h.write(g.proc, fmt.Sprintf("restoring of the files of %s", ref.Key), func() error {
		return g.proc.own.Files.Restore(ctx, ref)
	})
}

// Remove implements session.Files.
func (g filesGate) Remove(ctx context.Context, ref session.Ref) error {
	return g.h.write(g.proc, fmt.Sprintf("removal of the files of %s", ref.Key), func() error {
		g.h.notePurged(ref)
		return g.proc.own.Files.Remove(ctx, ref)
	})
}

// notePurged notes that what was archived is removed for good.
func (h *Harness) notePurged(ref session.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.purged[ref] = true
}

// crashPoint is a write at which the process is killed.
type crashPoint struct {
	at      int  // which write, from 1
	after   bool // the write has been made, but the process does not learn of it
	reached string
}

func (p *crashPoint) String() string {
	if p.after {
		return fmt.Sprintf("after write %d", p.at)
	}
	return fmt.Sprintf("before write %d", p.at)
}

// write is the one way to the store.
func (h *Harness) write(proc *process, what string, do func() error) error {
	var p *crashPoint
	err := h.note(proc, func() {
		h.writes++
		if h.crash != nil && h.crash.at == h.writes && !h.over {
			p = h.crash
			p.reached = what
		}
	})
	if err != nil {
		return err
	}
	if p == nil {
		return do()
	}
	err = errProcessKilled
	if p.after {
		err = errors.Join(err, do())
	}
	h.t.Logf("agenttest: killed %v, %s", p, what)
	h.kill(proc)
	return err
}

// fact is an entry of a journal as the invariants see it.
type fact struct {
	root session.Key // of the tree
	spawntest.Fact
}

// noteFacts remembers what was written, and whose tree it is now.
func (h *Harness) noteFacts(proc *process, root session.Key, last session.Seq, b session.Batch) {
	if !root.IsValid() {
		return // it is not the log of a tree
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners[root] = proc
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
		switch f.Kind {
		case "reset":
			h.left[session.Ref{Key: root, SessionID: f.Former}] = true
		case "run_ended":
			h.ended[f.Run] = true
		case "restarted": // another run of the session has begun
			delete(h.ended, f.Run)
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

func (h *Harness) ownerOf(root session.Key) *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owners[root]
}

// noteLine remembers a line of a transcript. Lines are read back, because one may be there although
// its append returned an error. A process and its successor may both have read the line back.
func (h *Harness) noteLine(ref session.Ref, line session.Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if line.Pos > endOf(h.lines[ref]) {
		if h.left[ref] && line.Message.Role != session.MessageNote {
			h.t.Errorf("agenttest: %s was written to session %s after its reset: %q", ref.Key,
				ref.SessionID, line.Message.Text)
		}
		h.lines[ref] = append(h.lines[ref], line)
	}
}

// noteFiles remembers that bytes were put for a transcript.
func (h *Harness) noteFiles(ref session.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.filed[ref] = true
}

func (h *Harness) lastLine(ref session.Ref) session.Pos {
	h.mu.Lock()
	defer h.mu.Unlock()
	return endOf(h.lines[ref])
}

func endOf(lines []session.Line) session.Pos {
	if len(lines) == 0 {
		return 0
	}
	return lines[len(lines)-1].Pos
}
