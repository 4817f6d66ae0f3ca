package sessiontest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A brokenFileStore is what one call of a FilesOpenFunc returns: files in memory with some methods
// replaced.
type brokenFileStore struct {
	session.Files
	nth     int // how many were opened before this one
	put     putFunc
	open    openFileFunc
	list    listFunc
	archive func(ctx context.Context, ref session.Ref, at time.Time) error
	remove  func(ctx context.Context, ref session.Ref) error
	restore func(ctx context.Context, ref session.Ref) error
}

type (
	putFunc      = func(context.Context, session.Ref, io.Reader, session.File) (session.File, error)
	openFileFunc = func(context.Context, session.Ref, string) (io.ReadCloser, error)
	listFunc     = func(context.Context, session.Ref) iter.Seq2[session.File, error]
)

func (s *brokenFileStore) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	if s.put != nil {
		return s.put(ctx, ref, r, want)
	}
	return s.Files.Put(ctx, ref, r, want)
}

func (s *brokenFileStore) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	if s.open != nil {
		return s.open(ctx, ref, hash)
	}
	return s.Files.Open(ctx, ref, hash)
}

func (s *brokenFileStore) List(
	ctx context.Context, ref session.Ref,
) iter.Seq2[session.File, error] {
	if s.list != nil {
		return s.list(ctx, ref)
	}
	return s.Files.List(ctx, ref)
}

func (s *brokenFileStore) Archive(ctx context.Context, ref session.Ref, at time.Time) error {
	if s.archive != nil {
		return s.archive(ctx, ref, at)
	}
	return s.Files.Archive(ctx, ref, at)
}

func (s *brokenFileStore) Restore(ctx context.Context, ref session.Ref) error {
	if s.restore != nil {
		return s.restore(ctx, ref)
	}
	return s.Files.Restore(ctx, ref)
}

func (s *brokenFileStore) Remove(ctx context.Context, ref session.Ref) error {
	if s.remove != nil {
		return s.remove(ctx, ref)
	}
	return s.Files.Remove(ctx, ref)
}

// count returns the number of files that ref has.
func (s *brokenFileStore) count(ref session.Ref) (n int) {
	for _, err := range s.Files.List(context.Background(), ref) {
		if err == nil {
			n++
		}
	}
	return n
}

// brokenFiles break one rule each.
var brokenFiles = map[string]func(s *brokenFileStore){
	"nothing":      func(s *brokenFileStore) { s.open = failsForX(s) },
	"put":          func(s *brokenFileStore) { s.put = stopsAtIdle(s) },
	"empty file":   func(s *brokenFileStore) { s.put = refusesEmpty(s) },
	"large file":   func(s *brokenFileStore) { s.put = cutsLarge(s) },
	"durable":      func(s *brokenFileStore) { s.open = losesOld(s) },
	"again":        func(s *brokenFileStore) { s.put = refusesKnown(s) },
	"same at once": func(s *brokenFileStore) { s.put = oneOfEach(s) },
	"at once":      func(s *brokenFileStore) { s.put = oneFileAtATime(s) },
	"size": func(s *brokenFileStore) {
		s.put = takesWant(s, func(f session.File) session.File { f.Size = 0; return f })
	},
	"hash": func(s *brokenFileStore) {
		s.put = takesWant(s, func(f session.File) session.File { f.Hash = ""; return f })
	},
	"reader error":    func(s *brokenFileStore) { s.put = keepsOnError(s) },
	"cut off":         func(s *brokenFileStore) { s.put = takesCutOff(s) },
	"whole":           func(s *brokenFileStore) { s.put = keepsPieces(s) },
	"list":            func(s *brokenFileStore) { s.list = listsFew(s) },
	"apart":           mixesCase,
	"archive":         hidesArchived,
	"archived":        func(s *brokenFileStore) { s.put = takesKnownLate(s) },
	"archive again":   removesAtSecond,
	"archive nothing": needsFiles,
	"archive durable": forgetsArchived,
	"restore":         restoresOneFile,
	"restore nothing": needsArchive,
	"restore durable": archivesAgain,
	"remove":          missesSecond,
	"remove archived": keepsArchived,
	"remove alone":    removesNeighbours,
	"early stop": func(s *brokenFileStore) {
		s.list = func(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
			return ignoreStop(s.Files.List(ctx, ref))
		}
	},
	"invalid": func(s *brokenFileStore) { s.open = takesUpper(s) },
	"context": func(s *brokenFileStore) {
		s.remove = func(ctx context.Context, ref session.Ref) error {
			return s.Files.Remove(context.WithoutCancel(ctx), ref)
		}
	},
	"context meanwhile": func(s *brokenFileStore) { s.put = looksOnce(s) },
	"closed":            nil, // see below
}

type closableFiles struct{ *brokenFileStore }

func (closableFiles) Close() error { return nil }

// cutsLarge keeps the beginning of a large file.
func cutsLarge(s *brokenFileStore) putFunc {
	return func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		return s.Files.Put(ctx, ref, io.LimitReader(r, int64(batchBytes)), want)
	}
}

func TestBrokenFiles(t *testing.T) {
	batchBytes = 3<<20 + 1<<10 // more than another rule puts, and less than readAhead reads
	fresh := func() handleMaker[*brokenFileStore] {
		inner := session.NewMemory().Files
		return func(nth int) *brokenFileStore { return &brokenFileStore{Files: inner, nth: nth} }
	}
	wrap := func(rule string, s *brokenFileStore) session.Files {
		if rule == "closed" {
			return closableFiles{s}
		}
		return s
	}
	breakEach(t, fileRules, brokenFiles, fresh, wrap)
}

// readAhead returns what r has, up to 4 MiB, and a reader that returns that again and ends as r
// does.
func readAhead(r io.Reader) ([]byte, io.Reader) {
	data, err := io.ReadAll(io.LimitReader(r, 4<<20))
	if err != nil {
		r = iotest.ErrReader(err)
	}
	return data, io.MultiReader(bytes.NewReader(data), r)
}

// onPut returns a Put that calls f with what was read ahead.
func onPut(
	s *brokenFileStore,
	f func(ref session.Ref, data []byte, put func() (session.File, error)) (session.File, error),
) putFunc {
	return func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		data, again := readAhead(r)
		return f(ref, data, func() (session.File, error) {
			return s.Files.Put(ctx, ref, again, want)
		})
	}
}

// notePuts calls f before each Put.
func notePuts(s *brokenFileStore, f func()) putFunc {
	return onPut(s, func(
		_ session.Ref, _ []byte, put func() (session.File, error),
	) (session.File, error) {
		f()
		return put()
	})
}

// noteArchived returns whether Archive has succeeded for a transcript through s.
func noteArchived(s *brokenFileStore) func(session.Ref) bool {
	archived := make(map[session.Ref]bool)
	s.archive = func(ctx context.Context, ref session.Ref, at time.Time) error {
		err := s.Files.Archive(ctx, ref, at)
		archived[ref] = archived[ref] || err == nil
		return err
	}
	return func(ref session.Ref) bool { return archived[ref] }
}

// takesWant returns a Put that does not know all of want.
func takesWant(s *brokenFileStore, f func(session.File) session.File) putFunc {
	return func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		_, again := readAhead(io.LimitReader(r, 4<<20))
		if want.Size >= 0 && (want.Hash == "" || session.File{Hash: want.Hash}.Validate() == nil) {
			want = f(want)
		}
		return s.Files.Put(ctx, ref, again, want)
	}
}

func failsForX(s *brokenFileStore) openFileFunc {
	return func(ctx context.Context, ref session.Ref, hash string) (io.ReadCloser, error) {
		if hash == fileOf([]byte("x")).Hash {
			return nil, io.ErrUnexpectedEOF
		}
		return s.Files.Open(ctx, ref, hash)
	}
}

func stopsAtIdle(s *brokenFileStore) putFunc {
	return func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		if idle, ok := r.(*idleReader); ok {
			r = io.LimitReader(idle.r, 1000)
		}
		return s.Files.Put(ctx, ref, r, want)
	}
}

func refusesEmpty(s *brokenFileStore) putFunc {
	return onPut(s, func(
		_ session.Ref, data []byte, put func() (session.File, error),
	) (session.File, error) {
		file, err := put()
		if err == nil && len(data) == 0 {
			err = io.ErrNoProgress
		}
		return file, err
	})
}

func losesOld(s *brokenFileStore) openFileFunc {
	return func(ctx context.Context, ref session.Ref, hash string) (io.ReadCloser, error) {
		if s.nth >= 2 {
			return nil, session.ErrNotFound
		}
		return s.Files.Open(ctx, ref, hash)
	}
}

func refusesKnown(s *brokenFileStore) putFunc {
	return func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		if want.Hash != "" && want.Size > 0 {
			if _, err := s.Files.Open(ctx, ref, want.Hash); err == nil {
				return session.File{}, session.ErrConflict
			}
		}
		return s.Files.Put(ctx, ref, r, want)
	}
}

func oneOfEach(s *brokenFileStore) putFunc {
	var busy sync.Map
	return onPut(s, func(
		_ session.Ref, data []byte, put func() (session.File, error),
	) (session.File, error) {
		hash := fileOf(data).Hash
		if _, other := busy.LoadOrStore(hash, true); other {
			return session.File{}, session.ErrConflict
		}
		defer busy.Delete(hash)
		for range 50 {
			yieldToOthers()
		}
		return put()
	})
}

func oneFileAtATime(s *brokenFileStore) putFunc {
	var gate busyGate[string]
	return onPut(s, func(
		_ session.Ref, data []byte, put func() (session.File, error),
	) (session.File, error) {
		others, leave := gate.enter(fileOf(data).Hash)
		defer leave()
		for range 50 {
			yieldToOthers()
		}
		if others {
			return session.File{}, session.ErrConflict
		}
		return put()
	})
}

func keepsOnError(s *brokenFileStore) putFunc {
	return onPut(s, func(
		ref session.Ref, data []byte, put func() (session.File, error),
	) (session.File, error) {
		file, err := put()
		if errors.Is(err, errReader) {
			_, _ = s.Files.Put(context.Background(), ref, bytes.NewReader(data), session.File{})
		}
		return file, err
	})
}

// A softReader takes every error that wraps io.EOF for the end.
type softReader struct{ r io.Reader }

func (r softReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if errors.Is(err, io.EOF) {
		err = io.EOF
	}
	return n, err
}

func takesCutOff(s *brokenFileStore) putFunc {
	return func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		return s.Files.Put(ctx, ref, softReader{r}, want)
	}
}

func keepsPieces(s *brokenFileStore) putFunc {
	return func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		if spy, ok := r.(spyReader); ok {
			look, n, all := spy.look, 0, new(bytes.Buffer)
			spy.r = io.TeeReader(spy.r, all)
			spy.look = func() {
				if n++; n == 3 {
					_, _ = s.Files.Put(ctx, ref, bytes.NewReader(all.Bytes()), session.File{})
				}
				look()
			}
			r = spy
		}
		return s.Files.Put(ctx, ref, r, want)
	}
}

func listsFew(s *brokenFileStore) listFunc {
	return func(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
		return changeSeq(s.Files.List(ctx, ref), func(all []session.File) []session.File {
			return all[:min(len(all), 25)]
		})
	}
}

func mixesCase(s *brokenFileStore) {
	fold := func(ref session.Ref) session.Ref {
		ref.SessionID = strings.ToLower(ref.SessionID)
		return ref
	}
	s.put = func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		return s.Files.Put(ctx, fold(ref), r, want)
	}
	s.open = func(ctx context.Context, ref session.Ref, hash string) (io.ReadCloser, error) {
		return s.Files.Open(ctx, fold(ref), hash)
	}
	s.list = func(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
		return s.Files.List(ctx, fold(ref))
	}
}

func hidesArchived(s *brokenFileStore) {
	isArchived := noteArchived(s)
	s.open = func(ctx context.Context, ref session.Ref, hash string) (io.ReadCloser, error) {
		if isArchived(ref) && hash == fileOf(fileBytes("y", 100_000)).Hash {
			return nil, session.ErrNotFound
		}
		return s.Files.Open(ctx, ref, hash)
	}
}

func takesKnownLate(s *brokenFileStore) putFunc {
	return onPut(s, func(
		ref session.Ref, data []byte, put func() (session.File, error),
	) (session.File, error) {
		file, err := put()
		if errors.Is(err, session.ErrArchived) {
			known := fileOf(data)
			if _, openErr := s.Files.Open(context.Background(), ref, known.Hash); openErr == nil {
				return known, nil
			}
		}
		return file, err
	})
}

func removesAtSecond(s *brokenFileStore) {
	s.archive = func(ctx context.Context, ref session.Ref, at time.Time) error {
		if err := s.Files.Archive(ctx, ref, at); err != nil || at.Equal(kitNoon) {
			return err
		}
		return s.Files.Remove(ctx, ref)
	}
}

func needsFiles(s *brokenFileStore) {
	s.archive = func(ctx context.Context, ref session.Ref, at time.Time) error {
		err := s.Files.Archive(ctx, ref, at)
		if err == nil && s.count(ref) == 0 {
			err = session.ErrNotFound
		}
		return err
	}
}

// forgetsArchived lists nothing of a transcript with one file until something is put.
func forgetsArchived(s *brokenFileStore) {
	var began atomic.Bool
	s.put = notePuts(s, func() { began.Store(true) })
	s.list = func(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
		return changeSeq(s.Files.List(ctx, ref), func(all []session.File) []session.File {
			if s.nth > 0 && !began.Load() && len(all) == 1 {
				return nil
			}
			return all
		})
	}
}

func missesSecond(s *brokenFileStore) {
	s.remove = func(ctx context.Context, ref session.Ref) error {
		n := s.count(ref)
		err := s.Files.Remove(ctx, ref)
		if err == nil && n > 1 {
			_, err = s.Files.Put(ctx, ref, strings.NewReader("left"), session.File{})
		}
		return err
	}
}

func keepsArchived(s *brokenFileStore) {
	isArchived := noteArchived(s)
	s.remove = func(ctx context.Context, ref session.Ref) error {
		if isArchived(ref) {
			return nil
		}
		return s.Files.Remove(ctx, ref)
	}
}

func removesNeighbours(s *brokenFileStore) {
	s.remove = func(ctx context.Context, ref session.Ref) error {
		err := s.Files.Remove(ctx, ref)
		if err == nil && ref == refA {
			err = s.Files.Remove(ctx, refB)
		}
		return err
	}
}

func takesUpper(s *brokenFileStore) openFileFunc {
	return func(ctx context.Context, ref session.Ref, hash string) (io.ReadCloser, error) {
		return s.Files.Open(ctx, ref, strings.ToLower(hash))
	}
}

func looksOnce(s *brokenFileStore) putFunc {
	return func(
		ctx context.Context, ref session.Ref, r io.Reader, want session.File,
	) (session.File, error) {
		if ctx.Err() == nil {
			ctx = context.WithoutCancel(ctx)
		}
		return s.Files.Put(ctx, ref, r, want)
	}
}
