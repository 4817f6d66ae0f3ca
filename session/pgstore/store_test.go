package pgstore_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

var root = session.Must(session.MainKey("main"))

// entries returns a batch of so many entries.
func entries(id string, n int) session.Batch {
	b := session.Batch{ID: session.BatchID(id)}
	for i := range n {
		text := session.Raw(fmt.Sprintf("%q", fmt.Sprint(id, i)))
		b.Entries = append(b.Entries, session.Entry{Payload: text})
	}
	return b
}

// add appends a batch, and returns where the log ends.
func add(t *testing.T, s *session.Store, after session.Seq, b session.Batch) session.Seq {
	t.Helper()
	last, err := s.Journal.Append(t.Context(), root, after, b)
	require.NoError(t, err)
	return last
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]pgstore.Options{
		"Schema":  {Schema: "Upper"},
		"Timeout": {Timeout: time.Millisecond},
	} {
		_, err := pgstore.Open(t.Context(), "postgres:///x", o)
		var bad *pgstore.OptionError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, name, bad.Field)
	}
	for _, schema := range []string{
		"1a", "pg_x", "a b", `a"b`, "a;b", "ä", strings.Repeat("a", 64), "a-b", "a.b", "a\x00",
		"information_schema",
	} {
		_, err := pgstore.Open(t.Context(), "postgres:///x", pgstore.Options{Schema: schema})
		var bad *pgstore.OptionError
		require.ErrorAs(t, err, &bad, schema)
	}
	_, err := pgstore.Open(t.Context(), "postgres://u:secret@/x?sslmode=wrong", pgstore.Options{})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
	_, err = pgstore.OpenPool(t.Context(), nil, pgstore.Options{})
	require.Error(t, err)
}

// TestSchemaThatIsAWord opens a schema whose name is a word of SQL.
func TestSchemaThatIsAWord(t *testing.T) {
	s := theServer(t)
	store := s.open(t, pgstore.Options{Schema: "select", TrustSync: true})
	add(t, store, 0, entries("a", 1))
}

func TestNoServer(t *testing.T) {
	began := time.Now()
	_, err := pgstore.Open(t.Context(), "postgres://u:secret@/x?host="+t.TempDir(),
		pgstore.Options{Timeout: time.Second})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
	assert.Less(t, time.Since(began), time.Minute)
}

// TestSettings opens servers that acknowledge what they may lose.
func TestSettings(t *testing.T) {
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		t.Run(setting, func(t *testing.T) {
			s := ownServer(t, setting+"=off")
			_, err := pgstore.Open(t.Context(), s.DSN(), pgstore.Options{})
			var bad *pgstore.SettingError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, setting, bad.Name)
			require.ErrorIs(t, err, session.ErrUnsafe)
			s.open(t, pgstore.Options{TrustSync: true})
		})
	}
	s := theServer(t)
	s.query(t, `create database latin encoding 'LATIN1' template template0`)
	_, err := pgstore.Open(t.Context(), strings.Replace(s.DSN(), "/postgres?", "/latin?", 1),
		pgstore.Options{TrustSync: true})
	var bad *pgstore.SettingError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, "server_encoding", bad.Name)
}

// TestLock opens a schema twice. Another schema, and a shared one, are free.
func TestLock(t *testing.T) {
	s, o := theServer(t), pgstore.Options{Schema: freshSchema(), TrustSync: true}
	first := s.open(t, o)
	_, err := pgstore.Open(t.Context(), s.DSN(), o)
	var locked *pgstore.LockedError
	require.ErrorAs(t, err, &locked)
	require.ErrorIs(t, err, pgstore.ErrLocked)
	assert.Positive(t, locked.PID)
	assert.Contains(t, locked.Name, "offshoot ")
	assert.WithinDuration(t, time.Now(), locked.Since, time.Minute)
	other := o
	other.Schema = freshSchema()
	s.open(t, other)
	shared := o
	shared.Shared = true
	second := s.open(t, shared)

	// What two writers do is refused, not mixed.
	last := add(t, first, 0, entries("a", 2))
	_, err = second.Journal.Append(t.Context(), root, 0, entries("b", 1))
	require.ErrorIs(t, err, session.ErrConflict)
	add(t, second, last, entries("c", 1))
	_, err = first.Journal.Append(t.Context(), root, last, entries("d", 1))
	require.ErrorIs(t, err, session.ErrConflict)

	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second Close")
	for range 100 { // the lock is free when Close has returned
		require.NoError(t, s.open(t, o).Close())
	}
}

// TestLostConnections cuts all connections of a Store, the lock's with them: it goes on.
func TestLostConnections(t *testing.T) {
	s, o := theServer(t), pgstore.Options{Schema: freshSchema(), TrustSync: true}
	store := s.open(t, o)
	last := add(t, store, 0, entries("a", 1))
	for round := range 3 {
		s.query(t, `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()
			and backend_type = 'client backend'`)
		last = appendUntilAdded(t, store, last, entries(fmt.Sprint("b", round), 1))
		require.NoError(t, store.Health(t.Context()))
		_, err := pgstore.Open(t.Context(), s.DSN(), o)
		require.ErrorIs(t, err, pgstore.ErrLocked, "the lock was taken again")
	}
}

// appendUntilAdded appends a batch as an owner does: it reads after an error, and tries again.
func appendUntilAdded(
	t *testing.T, store *session.Store, after session.Seq, b session.Batch,
) session.Seq {
	t.Helper()
	var last error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		seq, err := store.Journal.Append(t.Context(), root, after, b)
		if err == nil {
			return seq
		}
		last = err
		require.False(t, session.IsPermanent(err), "%v", err)
		for e, err := range store.Journal.Read(t.Context(), root, after) {
			if err == nil && e.Batch == b.ID {
				return e.Seq
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	require.NoError(t, last)
	return 0
}

// TestRestartedServer restarts the server under a Store, which goes on; and once more while another
// process takes the schema, to which it is lost then.
func TestRestartedServer(t *testing.T) {
	t.Parallel()
	s, o := ownServer(t), pgstore.Options{Schema: freshSchema(), Timeout: 2 * time.Second}
	store := s.open(t, o)
	last := add(t, store, 0, entries("a", 1))
	for round := range 2 {
		s.Stop()
		_, err := store.Journal.Append(t.Context(), root, last, entries("away", 1))
		require.Error(t, err)
		assert.False(t, session.IsPermanent(err), "%v", err)
		require.Error(t, store.Health(t.Context()))
		require.NoError(t, s.Start())
		last = appendUntilAdded(t, store, last, entries(fmt.Sprint("b", round), 1))
	}

	s.Stop()
	_, err := store.Journal.Append(t.Context(), root, last, entries("away", 1))
	require.Error(t, err)
	require.NoError(t, s.Start())
	thief := s.open(t, o)
	for range 2 {
		_, err = store.Journal.Append(t.Context(), root, last, entries("late", 1))
		var lost *pgstore.LostError
		require.ErrorAs(t, err, &lost)
		require.ErrorIs(t, err, session.ErrSync)
		require.ErrorIs(t, err, pgstore.ErrLocked)
		assert.True(t, session.IsPermanent(err))
		require.ErrorIs(t, store.Health(t.Context()), session.ErrSync)
	}
	add(t, thief, last, entries("c", 1))
	var texts []string
	for e, err := range store.Journal.Read(t.Context(), root, last) { // reading does no harm
		require.NoError(t, err)
		texts = append(texts, string(e.Batch))
	}
	assert.Equal(t, []string{"c"}, texts)
}

// TestServerThatHangs stops the server's processes: no call waits for longer than its time, nor for
// longer than its ctx.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	s, o := ownServer(t), pgstore.Options{Schema: freshSchema(), Timeout: 2 * time.Second}
	store := s.open(t, o)
	last := add(t, store, 0, entries("a", 1))
	pids := s.PIDs()
	for _, pid := range pids {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	goOn := func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	t.Cleanup(goOn)
	ref := session.Ref{Key: root, SessionID: "one"}
	calls := map[string]func(context.Context) error{
		"append": func(ctx context.Context) error {
			_, err := store.Journal.Append(ctx, root, last, entries("b", 1))
			return err
		},
		"read": func(ctx context.Context) (err error) {
			for _, err = range store.Journal.Read(ctx, root, 0) {
				break
			}
			return err
		},
		"line": func(ctx context.Context) error {
			m := session.Message{Role: session.MessageUser}
			_, err := store.Transcripts.Append(ctx, ref, 0, m)
			return err
		},
		"archive": func(ctx context.Context) error {
			_, err := store.Transcripts.Archive(ctx, ref, time.Now())
			return err
		},
		"put": func(ctx context.Context) error {
			_, err := store.Files.Put(ctx, ref, strings.NewReader("x"), session.File{})
			return err
		},
		"health": store.Health,
	}
	for name, call := range calls {
		began := time.Now()
		err := call(t.Context())
		require.ErrorIs(t, err, pgstore.ErrTimeout, name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: that is the caller's", name)
		assert.False(t, session.IsPermanent(err), name)
		assert.Less(t, time.Since(began), 10*time.Second, name)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.ErrorIs(t, call(ctx), context.DeadlineExceeded, name)
		cancel()
	}
	goOn()
	appendUntilAdded(t, store, last, entries("b", 1))
}

// TestNewerTables opens tables that a newer version has made.
func TestNewerTables(t *testing.T) {
	s, o := theServer(t), pgstore.Options{Schema: freshSchema(), TrustSync: true}
	require.NoError(t, s.open(t, o).Close())
	s.query(t, `update `+o.Schema+`.version set n = n + 1`)
	_, err := pgstore.Open(t.Context(), s.DSN(), o)
	require.ErrorIs(t, err, session.ErrFormat)
	assert.ErrorContains(t, err, o.Schema)
}

// TestOpenedAtOnce opens a new schema from many processes at once.
func TestOpenedAtOnce(t *testing.T) {
	s, o := theServer(t), pgstore.Options{Schema: freshSchema(), TrustSync: true, Shared: true}
	failed := make(chan error)
	const n = 8
	for range n {
		go func() {
			store, err := pgstore.Open(t.Context(), s.DSN(), o)
			if err == nil {
				err = store.Close()
			}
			failed <- err
		}()
	}
	for range n {
		require.NoError(t, <-failed)
	}
}

// TestRoleThatMayNotCreate opens a schema that an administrator has made.
func TestRoleThatMayNotCreate(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	role := "role_" + schema
	s.query(t, `create role `+role+` login`)
	dsn := strings.Replace(s.DSN(), "user=postgres", "user="+role, 1)
	o := pgstore.Options{Schema: schema, TrustSync: true}
	_, err := pgstore.Open(t.Context(), dsn, o)
	require.Error(t, err)
	s.query(t, `create schema `+schema+` authorization `+role)
	store, err := pgstore.Open(t.Context(), dsn, o)
	require.NoError(t, err)
	add(t, store, 0, entries("a", 1))
	require.NoError(t, store.Close())
}

// TestPool opens a Store on the pool of a program, which stays open.
func TestPool(t *testing.T) {
	s := theServer(t)
	pool, err := pgxpool.New(t.Context(), s.DSN()+"&pool_max_conns=1")
	require.NoError(t, err)
	defer pool.Close()
	store, err := pgstore.OpenPool(t.Context(), pool, pgstore.Options{
		Schema: freshSchema(), TrustSync: true,
	})
	require.NoError(t, err)
	last := add(t, store, 0, entries("a", 3))
	for _, err := range store.Journal.Read(t.Context(), root, 0) { // holds no connection
		require.NoError(t, err)
		last = add(t, store, last, entries("b", 1))
	}
	require.NoError(t, store.Close())
	require.NoError(t, pool.Ping(t.Context()))
	_, err = store.Journal.Append(t.Context(), root, last, entries("late", 1))
	require.ErrorIs(t, err, session.ErrClosed)
}

// TestSerializable works where the database prefers another isolation, and undoes what overlaps.
func TestSerializable(t *testing.T) {
	s := theServer(t)
	dsn := s.DSN() + "&options=" + `-c%20default_transaction_isolation%3Dserializable`
	store, err := pgstore.Open(t.Context(), dsn, pgstore.Options{
		Schema: freshSchema(), TrustSync: true,
	})
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	const trees = 8
	failed := make(chan error)
	for i := range trees {
		go func() {
			root := session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
			var last session.Seq
			var err error
			for n := 0; n < 10 && err == nil; n++ {
				b := entries(fmt.Sprint(n), 1)
				b.Members = []session.Key{session.Must(root.Child("main", fmt.Sprint(n)))}
				last, err = store.Journal.Append(t.Context(), root, last, b)
			}
			failed <- err
		}()
	}
	for range trees {
		err := <-failed
		if err != nil {
			assert.False(t, session.IsPermanent(err), "%v", err)
		}
	}
}

// TestReadMeetsResets replaces a log while it is read: what a loop has not seen is there for one
// snapshot more, and is missed with an error that passes after that.
func TestReadMeetsResets(t *testing.T) {
	s := theServer(t)
	store := s.open(t, pgstore.Options{Schema: freshSchema(), TrustSync: true})
	var last session.Seq
	const n = 3 * 512
	for i := range n {
		last = add(t, store, last, entries(fmt.Sprint(i, "-"), 1))
	}
	for resets := 1; resets <= 2; resets++ {
		seen, failed := 0, error(nil)
		for e, err := range store.Journal.Read(t.Context(), root, 0) {
			if failed = err; err != nil {
				break
			}
			if seen++; seen == 1 {
				for range resets {
					b := entries("snapshot", 1)
					b.Reset = true
					last = add(t, store, last, b)
				}
			}
			_ = e
		}
		if resets == 1 {
			require.NoError(t, failed)
			assert.Equal(t, n, seen)
			for i := range n { // and again
				last = add(t, store, last, entries(fmt.Sprint("again", i), 1))
			}
			continue
		}
		require.Error(t, failed)
		assert.False(t, session.IsPermanent(failed), "%v", failed)
	}
	var batches []string
	for e, err := range store.Journal.Read(t.Context(), root, 0) {
		require.NoError(t, err)
		batches = append(batches, string(e.Batch))
	}
	assert.Equal(t, []string{"snapshot"}, batches)
	assert.EqualValues(t, 2, s.query(t, `select count(*) from `+schemaOf(store)+`.batches`),
		"what two snapshots have replaced is gone")
}

// schemaOf returns the schema of a Store, which its errors name.
func schemaOf(store *session.Store) string { return pgstore.Schema(store) }

// TestDamage changes rows beside the Store: what is read is whole or an error.
func TestDamage(t *testing.T) {
	s := theServer(t)
	ref := session.Ref{Key: root, SessionID: "one"}
	for name, damage := range map[string]string{
		"missing batch":  `delete from %s.batches where last = 2`,
		"missing end":    `delete from %s.batches where last = 3`,
		"missing begin":  `delete from %s.batches where last = 1`,
		"cut batch":      `update %s.batches set entries = entries || '\x0a31'::bytea where last = 2`,
		"missing line":   `delete from %s.lines where pos = 2`,
		"missing last":   `delete from %s.lines where pos = 3`,
		"line":           `update %s.lines set line = 'x'::bytea where pos = 2`,
		"missing chunk":  `delete from %s.chunks`,
		"changed chunk":  `update %s.chunks set data = overlay(data placing 'z'::bytea from 2)`,
		"longer chunk":   `update %s.chunks set data = data || 'z'::bytea`,
		"added chunk":    `insert into %[1]s.chunks select blob, n + 1, data from %[1]s.chunks`,
		"root of a log":  `update %s.logs set root = 'nonsense'`,
		"archived key":   `update %s.transcripts set key = 'nonsense', archived = 1, name = 'x'`,
		"size of a blob": `update %s.blobs set size = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			store := s.open(t, pgstore.Options{Schema: freshSchema(), TrustSync: true})
			var last session.Seq
			var pos session.Pos
			for i := range 3 {
				last = add(t, store, last, entries(fmt.Sprint(i), 1))
				var err error
				pos, err = store.Transcripts.Append(t.Context(), ref, pos,
					session.Message{Role: session.MessageUser, Text: "x"})
				require.NoError(t, err)
			}
			file, err := store.Files.Put(t.Context(), ref, strings.NewReader("a file"), session.File{})
			require.NoError(t, err)
			require.Empty(t, faults(t, store, ref, file))
			s.query(t, fmt.Sprintf(damage, schemaOf(store)))
			found := faults(t, store, ref, file)
			require.NotEmpty(t, found)
			for _, err := range found {
				require.ErrorIs(t, err, session.ErrCorrupt)
			}
		})
	}
}

// faults returns the errors of reading everything.
func faults(
	t *testing.T, store *session.Store, ref session.Ref, file session.File,
) (found []error) {
	t.Helper()
	note := func(err error) {
		if err != nil {
			found = append(found, err)
		}
	}
	for _, err := range store.Journal.Read(t.Context(), root, 0) {
		note(err)
	}
	for _, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
		note(err)
	}
	for _, err := range store.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		note(err)
	}
	for _, err := range store.Transcripts.Archives(t.Context(), time.Time{}) {
		note(err)
	}
	r, err := store.Files.Open(t.Context(), ref, file.Hash)
	if err == nil {
		_, err = io.ReadAll(r)
		_ = r.Close()
	}
	note(err)
	return found
}

// TestSizes appends what is larger than a value may be.
func TestSizes(t *testing.T) {
	s := theServer(t)
	store := s.open(t, pgstore.Options{Schema: freshSchema(), TrustSync: true})
	big := session.Raw(`"` + strings.Repeat("x", 100<<20) + `"`)
	b := session.Batch{ID: "big"}
	for range 3 {
		b.Entries = append(b.Entries, session.Entry{Payload: big})
	}
	_, err := store.Journal.Append(t.Context(), root, 0, b)
	var large *pgstore.BatchSizeError
	require.ErrorAs(t, err, &large)
	require.ErrorIs(t, err, session.ErrInvalidBatch)
	assert.Equal(t, 3, large.Entries)
	ref := session.Ref{Key: root, SessionID: "one"}
	_, err = store.Transcripts.Append(t.Context(), ref, 0,
		session.Message{Role: session.MessageUser}, session.Message{
			Role: session.MessageUser, Text: strings.Repeat("x", 64<<20),
		})
	var long *pgstore.LineSizeError
	require.ErrorAs(t, err, &long)
	require.ErrorIs(t, err, session.ErrInvalidLine)
	assert.Equal(t, 1, long.Message)
}

// TestConversationIsReadable reads lines as a person does.
func TestConversationIsReadable(t *testing.T) {
	s := theServer(t)
	store := s.open(t, pgstore.Options{Schema: freshSchema(), TrustSync: true})
	ref := session.Ref{Key: root, SessionID: "one"}
	_, err := store.Transcripts.Append(t.Context(), ref, 0,
		session.Message{Role: session.MessageUser, Text: "grüße"})
	require.NoError(t, err)
	line := s.query(t, `select line from `+schemaOf(store)+`.conversation where key = 'agent:main:main'`)
	assert.Contains(t, line, "grüße")
}

// TestWritesThatFail has every write of every kind of change fail, in every way: a caller is told
// of it by an error that passes, and makes the change again, which comes once.
func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	faults := new(enginetest.Faults)
	config, err := pgxpool.ParseConfig(s.DSN())
	require.NoError(t, err)
	config.ConnConfig.DialFunc = faults.DialContext
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	store, err := pgstore.OpenPool(t.Context(), pool, memberOptions(s.schema(t), "a", 0))
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	enginetest.TestWritesThatFail(t, faults, store, false)
}
