package storecopy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy"
	"github.com/offshoot-sdk/offshoot/session/storecopy/storecopytest"
)

func openDir(t testing.TB, dir string) *session.Store {
	t.Helper()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Random histories are the same after they were copied from memory to memory, to a directory, from
// there to another one, and back, with a restart of each directory; and so is what is written to
// the copies after that.
func TestCopiesOfRandomHistories(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			from := session.NewMemory()
			storecopytest.Fill(t, from, seed, 150)
			memory := session.NewMemory()
			storecopytest.CopyAll(t, from, memory)
			dirs := []string{t.TempDir(), t.TempDir()}
			first := openDir(t, dirs[0])
			storecopytest.CopyAll(t, memory, first)
			require.NoError(t, first.Close())
			first = openDir(t, dirs[0])
			require.Equal(t, storecopytest.Contents(t, from), storecopytest.Contents(t, first))
			second := openDir(t, dirs[1])
			storecopytest.CopyAll(t, first, second)
			last := session.NewMemory()
			storecopytest.CopyAll(t, second, last)
			for _, s := range []*session.Store{memory, first, second, last} {
				storecopytest.GoOn(t, from, s)
			}
			require.Equal(t, storecopytest.Contents(t, memory), storecopytest.Contents(t, second))
			require.NoError(t, second.Close())
			view, err := dirstore.View(dirs[1])
			require.NoError(t, err)
			require.Equal(t, storecopytest.Contents(t, memory), storecopytest.Contents(t, view))
			for _, err := range dirstore.Verify(t.Context(), dirs[1]) {
				require.NoError(t, err)
			}
		})
	}
}

// A copy that is cut off at any write is told by its mark, and goes on to the same end.
func TestCopyThatIsCutOff(t *testing.T) {
	memory := func(*testing.T) *session.Store { return session.NewMemory() }
	t.Run("memory", func(t *testing.T) { storecopytest.TestCutOff(t, 1, memory) })
	t.Run("directory", func(t *testing.T) {
		storecopytest.TestCutOff(t, 9, func(t *testing.T) *session.Store {
			return openDir(t, t.TempDir())
		})
	})
}

// A target that has anything is refused, and nothing is written to it.
func TestTargetIsNotEmpty(t *testing.T) {
	memory := func(*testing.T) *session.Store { return session.NewMemory() }
	t.Run("memory", func(t *testing.T) { storecopytest.TestNotEmpty(t, memory) })
	t.Run("directory", func(t *testing.T) {
		storecopytest.TestNotEmpty(t, func(t *testing.T) *session.Store {
			return openDir(t, t.TempDir())
		})
	})
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
	storecopytest.Fill(t, from, 5, 100)
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
		seq: 7, due: storecopytest.Begun, batch: "b", payload: fmt.Sprintf("%q", child),
		members: []session.Key{child}, pos: 5, text: "hello", file: "bytes",
		archived: storecopytest.Begun,
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
