package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// writers is the number of trees that a child writes to at once.
const writers = 4

// writerChild appends to trees, transcripts and files without an end, and says what was
// acknowledged. Its arguments are the connection string and the schema.
func writerChild(ctx context.Context, args []string) {
	store, err := pgstore.Open(ctx, args[0], pgstore.Options{Schema: args[1]})
	if err != nil {
		enginetest.Say("failed: %v", err)
		return
	}
	for i := range writers {
		go write(ctx, store, i)
	}
	enginetest.Say("begun")
	select {}
}

func write(ctx context.Context, store *session.Store, i int) {
	root := session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
	ref := session.Ref{Key: root, SessionID: "one"}
	last, pos := enginetest.EndOf(ctx, store, root), endOfLines(ctx, store, ref)
	for n := int(last) + 1; ; n++ {
		b := session.Batch{ID: session.BatchID(fmt.Sprint(n)), Reset: n%25 == 0}
		b.Entries = []session.Entry{{Payload: session.Raw(fmt.Sprint(n))}}
		next, err := store.Journal.Append(ctx, root, last, b)
		if err != nil {
			enginetest.Say("failed: %v", err)
			return
		}
		last = next
		enginetest.Say("entry %d %d", i, n)
		text := fmt.Sprint(int(pos) + 1)
		m := session.Message{Role: session.MessageUser, Text: text}
		if pos, err = store.Transcripts.Append(ctx, ref, pos, m); err != nil {
			enginetest.Say("failed: %v", err)
			return
		}
		enginetest.Say("line %d %s", i, text)
		if n%10 == 0 {
			file, err := store.Files.Put(ctx, ref, strings.NewReader(strings.Repeat(text, 1<<19)),
				session.File{})
			if err != nil {
				enginetest.Say("failed: %v", err)
				return
			}
			enginetest.Say("file %d %s", i, file.Hash)
		}
	}
}

// endOfLines returns the position at which a transcript ends.
func endOfLines(ctx context.Context, store *session.Store, ref session.Ref) (last session.Pos) {
	for line, err := range store.Transcripts.Read(ctx, ref, session.LineQuery{Last: 1}) {
		if err == nil {
			last = line.Pos
		}
	}
	return last
}

// An acknowledged is what children have said.
type acknowledged struct {
	entry, line [writers]int
	files       [writers][]string
	n           int
}

// take notes a line of a child. It returns the error that the line says.
func (a *acknowledged) take(line string) error {
	var what, hash string
	var i, n int
	if strings.HasPrefix(line, "failed") {
		return fmt.Errorf("the child has %s", line) //nolint:err113 // that of a test
	}
	if c, _ := fmt.Sscanf(line, "file %d %s", &i, &hash); c == 2 {
		a.files[i] = append(a.files[i], hash)
		a.n++
	} else if c, _ := fmt.Sscanf(line, "%s %d %d", &what, &i, &n); c == 3 {
		a.n++
		if what == "entry" {
			a.entry[i] = n
		} else {
			a.line[i] = n
		}
	}
	return nil
}

// takeMore notes so many lines of a child that works.
func (a *acknowledged) takeMore(t *testing.T, lines <-chan string, n int) {
	t.Helper()
	for want := a.n + n; a.n < want; {
		line, ok := <-lines
		require.True(t, ok, "the child has ended")
		require.NoError(t, a.take(line))
	}
}

// verify fails the test unless the Store has what was acknowledged, whole and in order.
func (a *acknowledged) verify(t *testing.T, store *session.Store) {
	t.Helper()
	for i := range writers {
		root := session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
		ref := session.Ref{Key: root, SessionID: "one"}
		var last session.Seq
		for e, err := range store.Journal.Read(t.Context(), root, 0) {
			require.NoError(t, err)
			if last > 0 {
				require.Equal(t, last+1, e.Seq)
			}
			last = e.Seq
			require.Equal(t, fmt.Sprint(e.Seq), string(e.Payload.(session.Raw)))
			require.Equal(t, fmt.Sprint(e.Seq), string(e.Batch))
		}
		require.GreaterOrEqual(t, int(last), a.entry[i], "an acknowledged entry is lost")
		require.LessOrEqual(t, int(last), a.entry[i]+1)
		n := 0
		for line, err := range store.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
			require.NoError(t, err)
			n++
			require.Equal(t, fmt.Sprint(n), line.Message.Text)
		}
		require.GreaterOrEqual(t, n, a.line[i], "an acknowledged line is lost")
		for _, hash := range a.files[i] {
			file := fileNamed(t, store, ref, hash)
			_, err := session.ReadFile(t.Context(), store.Files, ref, file)
			require.NoError(t, err, "an acknowledged file is lost")
		}
		a.entry[i], a.line[i] = int(last), n
	}
}

func fileNamed(t *testing.T, store *session.Store, ref session.Ref, hash string) session.File {
	t.Helper()
	for f, err := range store.Files.List(t.Context(), ref) {
		require.NoError(t, err)
		if f.Hash == hash {
			return f
		}
	}
	t.Fatalf("file %s is not there", hash)
	return session.File{}
}

// startWriter starts a child and returns what it says, line by line.
func startWriter(t *testing.T, s *server, schema string) (*enginetest.Process, <-chan string) {
	t.Helper()
	lines := make(chan string, 10_000)
	p := enginetest.Start(t, func(line string) { lines <- line }, "writer", s.DSN(), schema)
	go func() {
		<-p.Ended()
		close(lines)
	}()
	return p, lines
}

// TestKilledWriter kills a process that writes: what it has acknowledged is there, and the next one
// opens at once.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	s, schema := ownServer(t), freshSchema()
	var said acknowledged
	for round := range enginetest.Rounds(10, 50) {
		p, lines := startWriter(t, s, schema)
		said.takeMore(t, lines, 40+13*round)
		p.Kill()
		for line := range lines {
			_ = said.take(line)
		}
		store := s.openSoon(t, pgstore.Options{Schema: schema})
		said.verify(t, store)
		require.NoError(t, store.Close())
	}
	assert.Positive(t, said.n)
}

// TestKilledServer kills the server with all its processes under a process that writes: what was
// acknowledged is there when it has recovered.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s, schema := ownServer(t), freshSchema()
	var said acknowledged
	for round := range enginetest.Rounds(5, 50) {
		p, lines := startWriter(t, s, schema)
		said.takeMore(t, lines, 40+13*round)
		s.killAll()
		failed := 0
		for line := range lines {
			if said.take(line) != nil {
				if failed++; failed == writers {
					p.Kill()
				}
			}
		}
		require.NoError(t, s.Start())
		store := s.openSoon(t, pgstore.Options{Schema: schema})
		said.verify(t, store)
		require.NoError(t, store.Close())
	}
}

// openSoon opens a Store whose owner was killed: the server needs a moment to see that.
func (s *server) openSoon(t *testing.T, o pgstore.Options) *session.Store {
	t.Helper()
	var err error
	for range 100 {
		var store *session.Store
		if store, err = pgstore.Open(t.Context(), s.DSN(), o); err == nil {
			return store
		}
		require.ErrorIs(t, err, pgstore.ErrLocked)
		time.Sleep(50 * time.Millisecond)
	}
	require.NoError(t, err)
	return nil
}
