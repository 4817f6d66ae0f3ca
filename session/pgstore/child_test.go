package pgstore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// childEnv makes the test binary a child that writes: its value is the connection string, a space
// and the schema. With a space and a name after that it is one of several processes.
const childEnv = "PGSTORE_TEST_CHILD"

// writers is the number of trees that a child writes to at once.
const writers = 4

// child appends to trees, transcripts and files without an end, and says on its standard output
// what was acknowledged.
func child() {
	dsn, schema, _ := strings.Cut(os.Getenv(childEnv), " ")
	ctx := context.Background()
	if schema, name, ok := strings.Cut(schema, " "); ok {
		memberChild(ctx, dsn, schema, name)
		return
	}
	store, err := pgstore.Open(ctx, dsn, pgstore.Options{Schema: schema})
	if err != nil {
		fmt.Println("failed:", err) //nolint:forbidigo // that of a child process
		return
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...) //nolint:forbidigo // that of a child process
	}
	for i := range writers {
		go write(ctx, store, i, say)
	}
	say("begun")
	select {}
}

func write(ctx context.Context, store *session.Store, i int, say func(string, ...any)) {
	root := session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
	ref := session.Ref{Key: root, SessionID: "one"}
	last, pos := endOf(ctx, store, root), endOfLines(ctx, store, ref)
	for n := int(last) + 1; ; n++ {
		b := session.Batch{ID: session.BatchID(fmt.Sprint(n)), Reset: n%25 == 0}
		b.Entries = []session.Entry{{Payload: session.Raw(fmt.Sprint(n))}}
		next, err := store.Journal.Append(ctx, root, last, b)
		if err != nil {
			say("failed: %v", err)
			return
		}
		last = next
		say("entry %d %d", i, n)
		text := fmt.Sprint(int(pos) + 1)
		m := session.Message{Role: session.MessageUser, Text: text}
		if pos, err = store.Transcripts.Append(ctx, ref, pos, m); err != nil {
			say("failed: %v", err)
			return
		}
		say("line %d %s", i, text)
		if n%10 == 0 {
			file, err := store.Files.Put(ctx, ref, strings.NewReader(strings.Repeat(text, 1<<19)),
				session.File{})
			if err != nil {
				say("failed: %v", err)
				return
			}
			say("file %d %s", i, file.Hash)
		}
	}
}

// endOf returns the sequence at which a log ends.
func endOf(ctx context.Context, store *session.Store, root session.Key) (last session.Seq) {
	for e, err := range store.Journal.Read(ctx, root, 0) {
		if err == nil {
			last = e.Seq
		}
	}
	return last
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

// startChild starts a child and returns what it says, line by line.
func startChild(t *testing.T, s *server, schema string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+s.DSN()+" "+schema)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return cmd, lines
}

// TestKilledWriter kills a process that writes: what it has acknowledged is there, and the next one
// opens at once.
func TestKilledWriter(t *testing.T) {
	s, schema := ownServer(t), freshSchema()
	var said acknowledged
	for round := range rounds(10, 50) {
		cmd, lines := startChild(t, s, schema)
		said.takeMore(t, lines, 40+13*round)
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		for line := range lines {
			_ = said.take(line)
		}
		_ = cmd.Wait()
		store := s.openSoon(t, pgstore.Options{Schema: schema})
		said.verify(t, store)
		require.NoError(t, store.Close())
	}
	assert.Positive(t, said.n)
}

// TestKilledServer kills the server with all its processes under a process that writes: what was
// acknowledged is there when it has recovered.
func TestKilledServer(t *testing.T) {
	s, schema := ownServer(t), freshSchema()
	var said acknowledged
	for round := range rounds(5, 50) {
		cmd, lines := startChild(t, s, schema)
		said.takeMore(t, lines, 40+13*round)
		for _, pid := range s.PIDs() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-s.Exited()
		failed := 0
		for line := range lines {
			if said.take(line) != nil {
				if failed++; failed == writers {
					_ = cmd.Process.Kill()
				}
			}
		}
		_ = cmd.Wait()
		require.NoError(t, s.Start())
		store := s.openSoon(t, pgstore.Options{Schema: schema})
		said.verify(t, store)
		require.NoError(t, store.Close())
	}
}

// rounds is how often a test kills: more often if it is asked to.
func rounds(usual, long int) int {
	switch {
	case os.Getenv("OFFSHOOT_KILLS") != "":
		return long
	case testing.Short():
		return 1
	}
	return usual
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
