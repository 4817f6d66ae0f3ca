package sessiontest

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A cutJournal is the session.Journal of a process.
type cutJournal struct{ m *member }

func (j cutJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (seq session.Seq, err error) {
	if err := j.m.reach(ctx, nil); err != nil {
		return 0, err
	}
	seq, err = j.m.cluster.store.Journal.Append(ctx, root, after, b)
	if c := j.m.cluster; err == nil && !b.Due.IsZero() {
		c.mu.Lock()
		if _, owned := c.state.Owner(root, c.o.Clock()); !owned {
			c.broadcast() // it may be an orphan
		}
		c.mu.Unlock()
	}
	return seq, err
}

func (j cutJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return cutSeq(ctx, j.m, func() iter.Seq2[session.Entry, error] {
		return j.m.cluster.store.Journal.Read(ctx, root, after)
	})
}

func (j cutJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return cutSeq(ctx, j.m, func() iter.Seq2[session.Head, error] {
		return j.m.cluster.store.Journal.Roots(ctx, q)
	})
}

// cutSeq yields what f yields, or why the process cannot reach the engine.
func cutSeq[E any](
	ctx context.Context, m *member, f func() iter.Seq2[E, error],
) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		if err := m.reach(ctx, nil); err != nil {
			var none E
			yield(none, err)
			return
		}
		f()(yield)
	}
}

// A cutTranscripts is the session.Transcripts of a process.
type cutTranscripts struct {
	session.Transcripts
	m *member
}

func (t cutTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	if err := t.m.reach(ctx, nil); err != nil {
		return 0, err
	}
	return t.Transcripts.Append(ctx, ref, after, messages...)
}

func (t cutTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return cutSeq(ctx, t.m, func() iter.Seq2[session.Line, error] {
		return t.Transcripts.Read(ctx, ref, q)
	})
}

func (t cutTranscripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	if err := t.m.reach(ctx, nil); err != nil {
		return "", err
	}
	return t.Transcripts.Archive(ctx, ref, at)
}

func (t cutTranscripts) Restore(ctx context.Context, ref session.Ref) error {
	if err := t.m.reach(ctx, nil); err != nil {
		return err
	}
	return t.Transcripts.Restore(ctx, ref)
}

func (t cutTranscripts) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[session.Archived, error] {
	return cutSeq(ctx, t.m, func() iter.Seq2[session.Archived, error] {
		return t.Transcripts.Archives(ctx, before)
	})
}

func (t cutTranscripts) Remove(ctx context.Context, ref session.Ref) error {
	if err := t.m.reach(ctx, nil); err != nil {
		return err
	}
	return t.Transcripts.Remove(ctx, ref)
}

// A cutFiles is the session.Files of a process.
type cutFiles struct {
	session.Files
	m *member
}

func (f cutFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	if err := f.m.reach(ctx, nil); err != nil {
		return session.File{}, err
	}
	return f.Files.Put(ctx, ref, r, want)
}

func (f cutFiles) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	if err := f.m.reach(ctx, nil); err != nil {
		return nil, err
	}
	return f.Files.Open(ctx, ref, hash)
}

func (f cutFiles) List(
	ctx context.Context, ref session.Ref,
) iter.Seq2[session.File, error] {
	return cutSeq(ctx, f.m, func() iter.Seq2[session.File, error] { return f.Files.List(ctx, ref) })
}

func (f cutFiles) Archive(ctx context.Context, ref session.Ref, at time.Time) error {
	if err := f.m.reach(ctx, nil); err != nil {
		return err
	}
	return f.Files.Archive(ctx, ref, at)
}

func (f cutFiles) Restore(ctx context.Context, ref session.Ref) error {
	if err := f.m.reach(ctx, nil); err != nil {
		return err
	}
	return f.Files.Restore(ctx, ref)
}

func (f cutFiles) Remove(ctx context.Context, ref session.Ref) error {
	if err := f.m.reach(ctx, nil); err != nil {
		return err
	}
	return f.Files.Remove(ctx, ref)
}
