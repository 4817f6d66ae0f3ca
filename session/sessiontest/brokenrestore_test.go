package sessiontest

import (
	"context"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// restored has what was restored of each store, over all handles on it.
var restored sync.Map // of a refIn

type refIn struct {
	store any
	ref   session.Ref
}

func isRestored(store any, ref session.Ref) bool {
	_, ok := restored.Load(refIn{store, ref})
	return ok
}

// addsLine adds a line to a longer transcript that it restores.
func addsLine(s *brokenTranscript) removeFunc {
	return func(ctx context.Context, ref session.Ref) error {
		err := s.inner.Restore(ctx, ref)
		if end := s.end(ref); err == nil && end == 4 {
			_, err = s.inner.Append(ctx, ref, end, messages("added", 1)...)
		}
		return err
	}
}

// restoresForOne archives what was restored again, when it is read through another handle.
func restoresForOne(s *brokenTranscript) {
	s.restore = func(ctx context.Context, ref session.Ref) error {
		err := s.inner.Restore(ctx, ref)
		if err == nil {
			restored.Store(refIn{s.inner, ref}, true)
		}
		return err
	}
	opened := s.nth
	s.read = func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		if opened > 1 && isRestored(s.inner, ref) {
			_, _ = s.inner.Archive(ctx, ref, kitNoon)
		}
		return s.inner.Read(ctx, ref, q)
	}
}

// refusesLive has an error for a transcript that is in use.
func refusesLive(s *brokenTranscript) removeFunc {
	return func(ctx context.Context, ref session.Ref) error {
		live := s.end(ref) > 0
		err := s.inner.Restore(ctx, ref)
		if err == nil && live {
			err = session.ErrConflict
		}
		return err
	}
}

// restoresOnce restores each transcript once.
func restoresOnce(s *brokenTranscript) removeFunc {
	done := make(map[session.Ref]bool)
	return func(ctx context.Context, ref session.Ref) error {
		if done[ref] {
			return session.ErrNotFound
		}
		err := s.inner.Restore(ctx, ref)
		done[ref] = err == nil
		return err
	}
}

// allArchives yields the archives of all times.
func allArchives(s *brokenTranscript) func(
	context.Context, time.Time,
) iter.Seq2[session.Archived, error] {
	return func(ctx context.Context, _ time.Time) iter.Seq2[session.Archived, error] {
		return s.inner.Archives(ctx, time.Time{})
	}
}

// restoresOneFile leaves the files archived if there are several.
func restoresOneFile(s *brokenFileStore) {
	s.restore = func(ctx context.Context, ref session.Ref) error {
		if ctx.Err() == nil && s.count(ref) > 1 {
			return nil
		}
		return s.Files.Restore(ctx, ref)
	}
}

func needsArchive(s *brokenFileStore) {
	s.restore = func(ctx context.Context, ref session.Ref) error {
		err := s.Files.Restore(ctx, ref)
		if err == nil && s.count(ref) == 0 {
			err = session.ErrNotFound
		}
		return err
	}
}

// archivesAgain archives restored files when some are put through another handle.
func archivesAgain(s *brokenFileStore) {
	s.restore = func(ctx context.Context, ref session.Ref) error {
		restored.Store(refIn{s.Files, ref}, true)
		return s.Files.Restore(ctx, ref)
	}
	opened := s.nth
	s.put = func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		if opened > 1 && isRestored(s.Files, ref) {
			_ = s.Files.Archive(ctx, ref, kitNoon)
		}
		return s.Files.Put(ctx, ref, r, want)
	}
}
