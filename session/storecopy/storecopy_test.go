package storecopy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy"
)

func openDir(t testing.TB, dir string) *session.Store {
	t.Helper()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// copyOf copies a Store into an empty one, and fails the test unless that is what it was.
func copyOf(t testing.TB, from, to *session.Store) {
	t.Helper()
	want := contents(t, from)
	report, err := storecopy.Copy(t.Context(), from, to, storecopy.Options{})
	require.NoError(t, err)
	assert.Empty(t, report.Unknown)
	assert.Zero(t, report.Renumbered)
	require.Equal(t, want, contents(t, to))
	require.NoError(t, session.CheckCopy(t.Context(), to.Journal))
	verified, err := storecopy.Verify(t.Context(), from, to, storecopy.Options{})
	require.NoError(t, err)
	require.Equal(t, report, verified)
}

// Random histories are the same after they were copied from memory to memory, to a directory, from
// there to another one, and back, with a restart of each directory; and so is what is written to
// the copies after that.
func TestCopiesOfRandomHistories(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			from := session.NewMemory()
			fill(t, from, seed, 150)
			memory := session.NewMemory()
			copyOf(t, from, memory)
			dirs := []string{t.TempDir(), t.TempDir()}
			first := openDir(t, dirs[0])
			copyOf(t, memory, first)
			require.NoError(t, first.Close())
			first = openDir(t, dirs[0])
			require.Equal(t, contents(t, from), contents(t, first))
			second := openDir(t, dirs[1])
			copyOf(t, first, second)
			last := session.NewMemory()
			copyOf(t, second, last)
			for _, s := range []*session.Store{memory, first, second, last} {
				goOn(t, from, s)
			}
			require.Equal(t, contents(t, memory), contents(t, second))
			require.NoError(t, second.Close())
			view, err := dirstore.View(dirs[1])
			require.NoError(t, err)
			require.Equal(t, contents(t, memory), contents(t, view))
			for _, err := range dirstore.Verify(t.Context(), dirs[1]) {
				require.NoError(t, err)
			}
		})
	}
}

// goOn writes to every log and transcript of a copy, behind the end that it has in the original.
func goOn(t testing.TB, from, to *session.Store) {
	t.Helper()
	ctx := t.Context()
	for h, err := range from.Journal.Roots(ctx, session.RootQuery{}) {
		require.NoError(t, err)
		b := session.Batch{ID: "after", Entries: []session.Entry{{Payload: session.Raw(`"after"`)}}}
		at, err := to.Journal.Append(ctx, h.Root, h.Last, b)
		require.NoError(t, err)
		require.Equal(t, h.Last+1, at)
	}
	for ref, err := range from.Transcripts.(session.TranscriptsLister).Refs(ctx) {
		require.NoError(t, err)
		var end session.Pos
		for l, err := range from.Transcripts.Read(ctx, ref, session.LineQuery{}) {
			require.NoError(t, err)
			end = l.Pos
			requireLines(t, from, to, ref, l.Pos)
		}
		m := session.Message{Role: session.MessageUser, Text: "after"}
		at, err := to.Transcripts.Append(ctx, ref, end, m, m)
		require.NoError(t, err)
		require.Equal(t, end+2, at)
	}
}

// requireLines fails the test unless both have the same lines behind a position and at the end.
func requireLines(t testing.TB, from, to *session.Store, ref session.Ref, pos session.Pos) {
	t.Helper()
	for _, q := range []session.LineQuery{{After: pos}, {Last: 2}, {After: pos, Last: 1}} {
		require.Equal(t, positions(t, from, ref, q), positions(t, to, ref, q), "%v", q)
	}
}

func positions(t testing.TB, s *session.Store, ref session.Ref, q session.LineQuery) []session.Pos {
	t.Helper()
	var all []session.Pos
	for l, err := range s.Transcripts.Read(t.Context(), ref, q) {
		require.NoError(t, err)
		all = append(all, l.Pos)
	}
	return all
}

// A stopping fails the n-th write to a Store, and each after it, as if the process had died.
type stopping struct {
	left  int
	after bool // what fails was done
}

var errDied = errors.New("the process has died")

func (s *stopping) write(f func() error) error {
	if s.left--; s.left < 0 {
		if s.left == -1 && s.after {
			_ = f()
		}
		return errDied
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

// A copy that is cut off at any write is told by its mark, and goes on to the same end. Without its
// first mark the target is empty.
func TestCopyThatIsCutOff(t *testing.T) {
	from := session.NewMemory()
	fill(t, from, 7, 60)
	want := contents(t, from)
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			to := session.NewMemory()
			s := &stopping{n, after}
			broken := &session.Store{
				Journal:     stoppingJournal{to.Journal, s},
				Transcripts: stoppingTranscripts{to.Transcripts, s},
				Files:       stoppingFiles{to.Files, s},
			}
			_, err := storecopy.Copy(t.Context(), from, broken, storecopy.Options{})
			if err == nil {
				require.Greater(t, n, 30)
				break
			}
			require.ErrorIs(t, err, errDied)
			switch whole := contents(t, to) == want; {
			case n == 0 && !after:
				require.NoError(t, session.CheckCopy(t.Context(), to.Journal))
				require.Empty(t, contents(t, to))
			case !whole || session.CheckCopy(t.Context(), to.Journal) != nil:
				require.ErrorIs(t, session.CheckCopy(t.Context(), to.Journal),
					session.ErrUnfinishedCopy)
				_, err = storecopy.Copy(t.Context(), to, session.NewMemory(), storecopy.Options{})
				require.ErrorIs(t, err, session.ErrUnfinishedCopy)
			default: // the last mark was written
				continue
			}
			copyOf(t, from, to)
		}
	}
}

// A target that has anything is refused, and nothing is written to it.
func TestTargetIsNotEmpty(t *testing.T) {
	from := session.NewMemory()
	fill(t, from, 3, 20)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "one"}
	m := session.Message{Role: session.MessageUser}
	for name, put := range map[string]func(*session.Store) error{
		`the log of "agent:main:main"`: func(s *session.Store) error {
			b := session.Batch{Entries: []session.Entry{{Payload: session.Raw(`1`)}}}
			_, err := s.Journal.Append(t.Context(), ref.Key, 0, b)
			return err
		},
		`the transcript "one" of "agent:main:main"`: func(s *session.Store) error {
			_, err := s.Transcripts.Append(t.Context(), ref, 0, m)
			return err
		},
		`transcript "one" of "agent:main:main"`: func(s *session.Store) error {
			_, err := s.Transcripts.Append(t.Context(), ref, 0, m)
			if err == nil {
				_, err = s.Transcripts.Archive(t.Context(), ref, begun)
			}
			return err
		},
		`"one"`: func(s *session.Store) error {
			_, err := s.Files.Put(t.Context(), ref, strings.NewReader("x"), session.File{})
			return err
		},
		`a copy into it ended at`: func(s *session.Store) error {
			_, err := storecopy.Copy(t.Context(), session.NewMemory(), s, storecopy.Options{})
			return err
		},
	} {
		for _, to := range []*session.Store{session.NewMemory(), openDir(t, t.TempDir())} {
			require.NoError(t, put(to), name)
			before := contents(t, to)
			_, err := storecopy.Copy(t.Context(), from, to, storecopy.Options{})
			var full *storecopy.NotEmptyError
			require.ErrorAs(t, err, &full, name)
			require.ErrorContains(t, err, name)
			require.Equal(t, before, contents(t, to))
			_, err = storecopy.Verify(t.Context(), from, to, storecopy.Options{})
			var other *storecopy.DifferenceError
			require.ErrorAs(t, err, &other, name)
		}
	}
}

// A Store that lacks what a copy needs is refused, with the name of that.
func TestStoreThatCannotBeCopied(t *testing.T) {
	whole := session.NewMemory()
	type journal struct{ session.Journal }
	type transcripts struct{ session.Transcripts }
	type files struct{ session.Files }
	type listed struct {
		session.Transcripts
		session.TranscriptsLister
	}
	lister := whole.Transcripts.(session.TranscriptsLister)
	for want, pair := range map[string][2]*session.Store{
		"the source has no Journal":     {{}, whole},
		"the target has no Transcripts": {whole, {Journal: whole.Journal}},
		"the Transcripts of the source is not a session.TranscriptsLister": {
			{Journal: whole.Journal, Transcripts: transcripts{whole.Transcripts}}, whole,
		},
		"the Files of the target is not a session.FilesLister": {
			whole,
			{Journal: whole.Journal, Transcripts: whole.Transcripts, Files: files{whole.Files}},
		},
		"the Transcripts of the target is not a session.TranscriptsImporter": {
			whole, {Journal: whole.Journal, Transcripts: listed{whole.Transcripts, lister}},
		},
	} {
		for _, f := range []func(
			context.Context, *session.Store, *session.Store, storecopy.Options,
		) (storecopy.Report, error){storecopy.Copy, storecopy.Verify} {
			_, err := f(t.Context(), pair[0], pair[1], storecopy.Options{})
			var missing *storecopy.UnsupportedError
			require.ErrorAs(t, err, &missing)
			require.ErrorContains(t, err, want)
		}
	}

	from := session.NewMemory()
	fill(t, from, 5, 100)
	to := session.NewMemory()
	to.Files = nil
	_, err := storecopy.Copy(t.Context(), from, to, storecopy.Options{})
	require.ErrorContains(t, err, "the target has no Files")

	// A Journal that gives sequences of its own: everything else is the same.
	to = session.NewMemory()
	to.Journal = journal{to.Journal}
	report, err := storecopy.Copy(t.Context(), from, to, storecopy.Options{})
	require.NoError(t, err)
	require.NotZero(t, report.Renumbered)
	require.NotZero(t, report.Members)
}

// Everything that may be different in a copy is found.
func TestDifferencesAreFound(t *testing.T) {
	ctx := t.Context()
	key := session.Must(session.MainKey("main"))
	child := session.Must(session.Parse("agent:main:subagent:00000000-0000-4000-8000-000000000000"))
	ref, old := session.Ref{Key: key, SessionID: "one"}, session.Ref{Key: key, SessionID: "old"}
	type contents struct {
		seq      session.Seq
		due      time.Time
		batch    session.BatchID
		payload  string
		members  []session.Key
		pos      session.Pos
		text     string
		archived time.Time
		file     string
		more     bool
	}
	whole := contents{
		seq: 7, due: begun, batch: "b", payload: fmt.Sprintf("%q", child),
		members: []session.Key{child}, pos: 5, text: "hello", archived: begun, file: "bytes",
	}
	build := func(c contents) *session.Store {
		s := session.NewMemory()
		_, err := s.Journal.(session.JournalImporter).Import(ctx, key, 0, c.seq, session.Batch{
			ID: c.batch, Due: c.due, Members: c.members,
			Entries: []session.Entry{{Payload: session.Raw(c.payload)}},
		})
		require.NoError(t, err)
		for _, r := range []session.Ref{ref, old} {
			_, err = s.Transcripts.(session.TranscriptsImporter).Import(ctx, r, 0, session.Line{
				Pos: c.pos, Message: session.Message{Role: session.MessageUser, Text: c.text},
			})
			require.NoError(t, err)
		}
		if c.file != "" {
			_, err = s.Files.Put(ctx, ref, strings.NewReader(c.file), session.File{})
			require.NoError(t, err)
		}
		if !c.archived.IsZero() {
			_, err = s.Transcripts.Archive(ctx, old, c.archived)
			require.NoError(t, err)
		}
		if c.more {
			b := session.Batch{ID: "c", Entries: []session.Entry{{Payload: session.Raw("1")}}}
			b.Due = c.due
			_, err = s.Journal.Append(ctx, key, c.seq, b)
			require.NoError(t, err)
		}
		return s
	}
	_, err := storecopy.Verify(ctx, build(whole), build(whole), storecopy.Options{})
	require.NoError(t, err)
	for name, change := range map[string]func(*contents){
		"sequence": func(c *contents) { c.seq++ },
		"due":      func(c *contents) { c.due = c.due.Add(1) },
		"not due":  func(c *contents) { c.due = time.Time{} },
		"batch":    func(c *contents) { c.batch = "a" },
		"payload":  func(c *contents) { c.payload = "1" },
		"member":   func(c *contents) { c.members = nil },
		"position": func(c *contents) { c.pos++ },
		"line":     func(c *contents) { c.text += "!" },
		"archive":  func(c *contents) { c.archived = c.archived.Add(time.Hour) },
		"in use":   func(c *contents) { c.archived = time.Time{} },
		"file":     func(c *contents) { c.file += "!" },
		"no file":  func(c *contents) { c.file = "" },
		"entry":    func(c *contents) { c.more = true },
	} {
		changed := whole
		change(&changed)
		for i, pair := range [][2]contents{{whole, changed}, {changed, whole}} {
			if name == "member" && i == 1 {
				continue // a journal may lead to a log by more than its members
			}
			_, err := storecopy.Verify(ctx, build(pair[0]), build(pair[1]), storecopy.Options{})
			var other *storecopy.DifferenceError
			require.ErrorAs(t, err, &other, "%s, %d", name, i)
		}
	}
}
