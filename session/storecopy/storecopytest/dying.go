package storecopytest

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// ErrDied is the error of a write to a Store of [Dying].
var ErrDied = errors.New("storecopytest: the process has died")

// Dying returns a Store which fails a write to another one, after n, and each behind that, as if
// the process had died. With late the first that fails has had its effect.
func Dying(s *session.Store, n int, late bool) *session.Store {
	d := &stopping{n, late}
	return &session.Store{
		Journal:     stoppingJournal{s.Journal, d},
		Transcripts: stoppingTranscripts{s.Transcripts, d},
		Files:       stoppingFiles{s.Files, d},
	}
}

// A stopping fails the n-th write to a Store, and each after it.
type stopping struct {
	left  int
	after bool // what fails was done
}

func (s *stopping) write(f func() error) error {
	if s.left--; s.left < 0 {
		if s.left == -1 && s.after {
			_ = f()
		}
		return ErrDied
	}
	return f()
}

type stoppingJournal struct {
	session.Journal
	s *stopping
}

func (j stoppingJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (at session.Seq, err error) {
	err = j.s.write(func() (err error) {
		at, err = j.Journal.Append(ctx, root, after, b)
		return err
	})
	return at, err
}

func (j stoppingJournal) Import(
	ctx context.Context, root session.Key, after, first session.Seq, b session.Batch,
) (at session.Seq, err error) {
	err = j.s.write(func() (err error) {
		at, err = j.Journal.(session.JournalImporter).Import(ctx, root, after, first, b)
		return err
	})
	return at, err
}

type stoppingTranscripts struct {
	session.Transcripts
	s *stopping
}

func (x stoppingTranscripts) Import(
	ctx context.Context, ref session.Ref, after session.Pos, lines ...session.Line,
) (at session.Pos, err error) {
	err = x.s.write(func() (err error) {
		at, err = x.Transcripts.(session.TranscriptsImporter).Import(ctx, ref, after, lines...)
		return err
	})
	return at, err
}

func (x stoppingTranscripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (name string, err error) {
	err = x.s.write(func() (err error) {
		name, err = x.Transcripts.Archive(ctx, ref, at)
		return err
	})
	return name, err
}

func (x stoppingTranscripts) Refs(ctx context.Context) iter.Seq2[session.Ref, error] {
	return x.Transcripts.(session.TranscriptsLister).Refs(ctx)
}

type stoppingFiles struct {
	session.Files
	s *stopping
}

func (x stoppingFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (f session.File, err error) {
	err = x.s.write(func() (err error) {
		f, err = x.Files.Put(ctx, ref, r, want)
		return err
	})
	return f, err
}

func (x stoppingFiles) Archive(ctx context.Context, ref session.Ref, at time.Time) error {
	return x.s.write(func() error { return x.Files.Archive(ctx, ref, at) })
}

func (x stoppingFiles) Refs(
	ctx context.Context, known []session.Key,
) iter.Seq2[session.Ref, error] {
	return x.Files.(session.FilesLister).Refs(ctx, known)
}
