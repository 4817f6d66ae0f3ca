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

// memberOptions are those of one process of several on a schema.
func memberOptions(schema, process string, lease time.Duration) pgstore.Options {
	return pgstore.Options{Schema: schema, TrustSync: true, Process: process, Lease: lease}
}

func TestMemberOptions(t *testing.T) {
	for field, all := range map[string][]pgstore.Options{
		"Process": {
			{Process: strings.Repeat("a", 201)},
			{Process: "a\x00"},
			{Process: "a\n"},
			{Process: "\xff"},
			{Process: " "},
			{Process: "   "},
		},
		"Lease": {
			{Lease: time.Minute},
			{Process: "a", Lease: time.Millisecond},
			{Process: "a", Lease: -1},
			{Process: "a", Lease: pgstore.MaxLease + 1},
			{Process: "a", Lease: 1<<63 - 1},
		},
	} {
		for _, o := range all {
			_, err := pgstore.Open(t.Context(), "postgres:///x", o)
			var bad *pgstore.OptionError
			require.ErrorAs(t, err, &bad, "%+v", o)
			assert.Equal(t, field, bad.Field)
		}
	}
}

// TestMembersAndOneThatIsAlone opens a schema that one process has alone from a process that would
// share it, and the other way round.
func TestMembersAndOneThatIsAlone(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	alone := pgstore.Options{Schema: schema, TrustSync: true}
	first := s.open(t, alone)
	assert.Nil(t, first.Owners)
	_, err := pgstore.Open(t.Context(), s.DSN(), memberOptions(schema, "a", 0))
	var locked *pgstore.LockedError
	require.ErrorAs(t, err, &locked)
	assert.False(t, locked.Member)
	require.ErrorContains(t, err, "has it alone")
	require.NoError(t, first.Close())

	a, b := s.open(t, memberOptions(schema, "a", 0)), s.open(t, memberOptions(schema, "b", 0))
	require.NotNil(t, a.Owners)
	for _, store := range []*session.Store{a, b} {
		_, err = pgstore.Open(t.Context(), s.DSN(), alone)
		require.ErrorAs(t, err, &locked)
		assert.True(t, locked.Member)
		require.ErrorContains(t, err, "Options.Process")
		require.NoError(t, store.Health(t.Context()))
		require.NoError(t, store.Close())
	}
	s.open(t, alone)
}

// TestMembersKeepTheirLock cuts all connections of two processes, and no process that would have
// the schema alone comes between.
func TestMembersKeepTheirLock(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	a, b := s.open(t, memberOptions(schema, "a", 0)), s.open(t, memberOptions(schema, "b", 0))
	last := add(t, a, 0, entries("a", 1))
	for round := range 2 {
		s.query(t, `select pg_terminate_backend(pid) from pg_stat_activity
			where pid <> pg_backend_pid() and backend_type = 'client backend'`)
		last = appendUntilAdded(t, a, last, entries(fmt.Sprint("a", round), 1))
		last = appendUntilAdded(t, b, last, entries(fmt.Sprint("b", round), 1))
		alone := pgstore.Options{Schema: schema, TrustSync: true}
		_, err := pgstore.Open(t.Context(), s.DSN(), alone)
		require.ErrorIs(t, err, pgstore.ErrLocked)
	}
	_, err := engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
}

// TestTakenTreeIsFenced has a process lose a tree that it has claimed: its appends are refused from
// then on, although the log ends where it believes. So are a first append and a snapshot.
func TestTakenTreeIsFenced(t *testing.T) {
	t.Parallel()
	s, schema := theServer(t), freshSchema()
	const lease = time.Second
	a := s.open(t, memberOptions(schema, "a", lease))
	b := s.open(t, memberOptions(schema, "b", lease))
	empty := session.Must(session.NamedKey("main", "empty"))
	for _, root := range []session.Key{root, empty} {
		_, err := engine.Claim(t.Context(), a, root)
		require.NoError(t, err)
	}
	last := add(t, a, 0, entries("a", 1))
	time.Sleep(lease) // a does not serve
	last = add(t, a, last, entries("lapsed", 1))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- b.Owners.Serve(ctx, session.Member{}) }()
	for _, root := range []session.Key{root, empty} {
		_, err := engine.Claim(t.Context(), b, root)
		require.NoError(t, err)
	}
	snapshot := entries("late snapshot", 1)
	snapshot.Reset = true
	for _, batch := range []session.Batch{entries("late", 1), snapshot} {
		for root, after := range map[session.Key]session.Seq{root: last, empty: 0} {
			_, err := a.Journal.Append(t.Context(), root, after, batch)
			require.ErrorIs(t, err, session.ErrConflict, "%s of %q", batch.ID, root)
		}
	}
	last = add(t, b, last, entries("b", 1))
	snapshot.ID = "snapshot"
	last = add(t, b, last, snapshot)
	_, err := b.Journal.Append(t.Context(), empty, 0, snapshot)
	require.NoError(t, err)

	// One that has never had the tree may append, as a command does; the end of the log decides.
	c := s.open(t, memberOptions(schema, "c", lease))
	last = add(t, c, last, entries("c", 1))
	cancel()
	require.NoError(t, <-served)
	last = add(t, a, last, entries("free", 1)) // no process has it
	claim, err := engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
	last = add(t, a, last, entries("again", 1))
	require.NoError(t, a.Owners.Release(t.Context(), claim))
	add(t, a, last, entries("released", 1))
}

// TestProcessThatStopsInATransaction has a process stand still while it holds the lock of a tree,
// as one does that is stopped in the middle of a snapshot. The server undoes what it has done, and
// another process can take the tree.
func TestProcessThatStopsInATransaction(t *testing.T) {
	t.Parallel()
	s, schema := theServer(t), freshSchema()
	const lease = time.Second
	a := s.open(t, memberOptions(schema, "a", lease))
	b := s.open(t, memberOptions(schema, "b", lease))
	require.Eventually(t, func() bool { // a busy server may not answer within a third of the lease
		_, err := engine.Claim(t.Context(), a, root)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	add(t, a, 0, entries("a", 1))
	const stopped = 8 * time.Second
	failed := make(chan error)
	go func() {
		failed <- pgstore.StopWhile(t.Context(), a, stopped, `select from {}.logs for update`)
	}()
	began := time.Now()
	require.Eventually(t, func() bool {
		_, err := engine.Claim(t.Context(), b, root)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	assert.Less(t, time.Since(began), stopped)
	require.Error(t, <-failed)
}

// TestFirstClaimsAtOnce has a process begin its lease by many claims and a beat at once: none of
// the claims counts as one of a lease before.
func TestFirstClaimsAtOnce(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	store := s.open(t, memberOptions(schema, "a", time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leases := make(chan session.Lease, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- store.Owners.Serve(ctx, session.Member{
			Lease: func(l session.Lease) { leases <- l },
		})
	}()
	done := make(chan error)
	const claims = 16
	for i := range claims {
		go func() {
			_, err := engine.Claim(ctx, store, enginetest.Numbered(i))
			done <- err
		}()
	}
	for range claims {
		require.NoError(t, <-done)
	}
	for range 3 {
		assert.Empty(t, (<-leases).Taken)
	}
	cancel()
	require.NoError(t, <-ended)
}

// TestClaimedTreeWithoutALog does not count as a log, and goes with its claim.
func TestClaimedTreeWithoutALog(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	a := s.open(t, memberOptions(schema, "a", 0))
	heads := func() (heads []session.Head) {
		for h, err := range a.Journal.Roots(t.Context(), session.RootQuery{}) {
			require.NoError(t, err)
			heads = append(heads, h)
		}
		return heads
	}
	claim, err := engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
	assert.Empty(t, heads())
	assert.Zero(t, enginetest.EndOf(t.Context(), a, root))
	_, err = a.Journal.Append(t.Context(), root, 1, entries("a", 1))
	require.ErrorIs(t, err, session.ErrConflict)
	require.NoError(t, a.Owners.Release(t.Context(), claim))
	assert.EqualValues(t, 0, s.query(t, `select count(*) from `+schema+`.logs`))

	_, err = engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	assert.EqualValues(t, 0, s.query(t, `select count(*) from `+schema+`.logs`))

	a = s.open(t, memberOptions(schema, "a", 0))
	_, err = engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
	add(t, a, 0, entries("a", 2))
	assert.Len(t, heads(), 1)
}

// TestEpochsGrowOverRestarts opens and closes processes of one name.
func TestEpochsGrowOverRestarts(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	var last session.Claim
	for range 4 {
		store := s.open(t, memberOptions(schema, "a", 0))
		c, err := engine.Claim(t.Context(), store, root)
		require.NoError(t, err)
		assert.Greater(t, c.Epoch, last.Epoch)
		assert.Greater(t, c.Owner.Incarnation, last.Owner.Incarnation)
		last = c
		require.NoError(t, store.Close())
	}
}

// TestOldTables opens a database of version 1 from several processes at once, and finds all that
// was in it. It is opened alone after that, too.
func TestOldTables(t *testing.T) {
	for name, process := range map[string]string{"alone": "", "shared": "p"} {
		t.Run(name, func(t *testing.T) {
			s, schema := theServer(t), freshSchema()
			oldTables(t, s, schema)
			o := pgstore.Options{Schema: schema, TrustSync: true, Shared: process == ""}
			opened := make(chan *session.Store, 6)
			for i := range cap(opened) {
				go func() {
					o := o
					if process != "" {
						o.Process = fmt.Sprint(process, i)
					}
					store, err := pgstore.Open(t.Context(), s.DSN(), o)
					assert.NoError(t, err)
					opened <- store
				}()
			}
			for range cap(opened) {
				store := <-opened
				require.NotNil(t, store)
				hasOldContents(t, store)
				require.NoError(t, store.Close())
			}
			assert.EqualValues(t, 3, s.query(t, `select n from `+schema+`.version`))
			store := s.open(t, pgstore.Options{Schema: schema, TrustSync: true})
			hasOldContents(t, store)
			add(t, store, 3, entries("c", 1))
		})
	}
}

// oldTables makes the tables of version 1 with what that has written: a log with two batches, a due
// time and a member, and a transcript.
func oldTables(t *testing.T, s *server, schema string) {
	t.Helper()
	s.query(t, `create schema `+schema)
	for statement := range strings.SplitSeq(pgstore.Schema1, ";\n") {
		s.query(t, strings.ReplaceAll(statement, "{}", schema))
	}
	for _, statement := range []string{
		`create table {}.version (n integer not null)`,
		`insert into {}.version values (1)`,
		`insert into {}.logs (root, last, due_sec, due_nsec)
			values ('agent:main:main', 3, 1000, 5)`,
		`insert into {}.batches values (1, 1, 2, 'a', 7, '"1"\012"2"'), (1, 3, 3, 'b', 3, '"3"')`,
		`insert into {}.members values ('agent:main:subagent:x', 1)`,
		`insert into {}.transcripts (key, session, last) values ('agent:main:main', 'one', 1)`,
		`insert into {}.lines values (1, 1, 30, '{"role":"user","text":"hello"}')`,
	} {
		statement = strings.ReplaceAll(statement, "{}.", schema+".")
		s.query(t, statement)
	}
}

// hasOldContents fails the test unless a Store has what oldTables has written.
func hasOldContents(t *testing.T, store *session.Store) {
	t.Helper()
	var got []string
	for e, err := range store.Journal.Read(t.Context(), root, 0) {
		require.NoError(t, err)
		got = append(got, fmt.Sprintf("%d %s %s", e.Seq, e.Batch, e.Payload))
	}
	assert.Equal(t, []string{`1 a "1"`, `2 a "2"`, `3 b "3"`}, got)
	for _, q := range []session.RootQuery{
		{},
		{DueBefore: time.Unix(1001, 0)},
		{Member: session.Must(session.Parse("agent:main:subagent:x"))},
	} {
		n := 0
		for h, err := range store.Journal.Roots(t.Context(), q) {
			require.NoError(t, err)
			assert.Equal(t, session.Head{Root: root, Last: 3, Due: time.Unix(1000, 5).UTC()}, h)
			n++
		}
		assert.Equal(t, 1, n, "%+v", q)
	}
	ref := session.Ref{Key: root, SessionID: "one"}
	for line, err := range store.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		assert.Equal(t, "hello", line.Message.Text)
	}
	_, err := store.Journal.Append(t.Context(), root, 2, entries("x", 1))
	require.ErrorIs(t, err, session.ErrConflict)
}

// TestMembersBehindAPooler share a schema without locks of sessions, hints and prepared statements.
func TestMembersBehindAPooler(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	open := func(name string) *session.Store {
		o := memberOptions(schema, name, 2*time.Second)
		o.Shared = true
		store, err := pgstore.Open(t.Context(), s.DSN()+"&default_query_exec_mode=exec", o)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	a, b := open("a"), open("b")
	for _, store := range []*session.Store{a, b} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- store.Owners.Serve(ctx, session.Member{
				Handle: func(_ context.Context, r session.Request) []byte {
					return append(r.Body, '!')
				},
			})
		}()
		t.Cleanup(func() { cancel(); assert.NoError(t, <-ended) })
	}
	_, err := engine.Claim(t.Context(), a, root)
	require.NoError(t, err)
	_, err = engine.Claim(t.Context(), b, root)
	require.ErrorIs(t, err, session.ErrOwned)
	request := session.Request{ID: "1", Root: root, Body: []byte("hey")}
	answer, err := b.Owners.Call(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, "hey!", string(answer))
	add(t, a, 0, entries("a", 2))

	granted := make(chan string, 2)
	user := session.LaneUser{Granted: func(id string) { granted <- id }}
	la, lb := a.Owners.Lane("l", 1, user), b.Owners.Lane("l", 1, user)
	require.NoError(t, la.Ask(session.Ticket{ID: "1"}))
	assert.Equal(t, "1", <-granted)
	require.NoError(t, lb.Ask(session.Ticket{ID: "2"}))
	la.Free("1")
	assert.Equal(t, "2", <-granted)
	require.Zero(t, s.query(t, `select count(*) from pg_locks where locktype = 'advisory'
		and classid::bigint =
			(hashtextextended('offshoot pgstore `+schema+`', 0) >> 32) & 4294967295`))
}

// TestFirstClaimsMeet has processes begin their lease by several claims that are at the server at
// the same moment: each of them begins it, or finds it begun.
func TestFirstClaimsMeet(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	const claims = 8
	for round := range enginetest.Rounds(20, 200) {
		store := s.open(t, memberOptions(schema, fmt.Sprint("p", round), time.Minute))
		begin, done := make(chan struct{}), make(chan error)
		for i := range claims {
			go func() {
				<-begin
				_, err := engine.Claim(t.Context(), store, enginetest.Numbered(claims*round+i))
				done <- err
			}()
		}
		close(begin)
		for range claims {
			require.NoError(t, <-done)
		}
		require.NoError(t, store.Close())
	}
}
