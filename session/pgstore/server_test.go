package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
	"github.com/offshoot-sdk/offshoot/session/pgstore/pgstoretest"
)

// A server is a PostgreSQL of this test.
type server struct{ *pgstoretest.Server }

func newServer(options ...string) (s *server, err error) {
	s = new(server)
	s.Server, err = pgstoretest.New(options...)
	return s, err
}

var shared struct {
	sync.Once
	s   *server
	err error
}

// engine is how tests of several processes use a server.
var engine = enginetest.Engine{
	Open: func(
		ctx context.Context, at enginetest.Place, process string, lease time.Duration,
	) (*session.Store, error) {
		return pgstore.Open(ctx, at.URL, memberOptions(at.Name, process, lease))
	},
	Timeout: pgstore.ErrTimeout, Lease: 3 * time.Second, Dense: true,
}

func TestMain(m *testing.M) {
	roles := map[string]enginetest.Role{"writer": writerChild, "load": loadChild}
	//nolint:forbidigo // that of a test
	os.Exit(enginetest.Main(context.Background(), m, engine, roles, func() {
		if shared.err == nil && shared.s != nil {
			shared.s.Remove()
		}
	}))
}

// theServer returns the server that tests share. A test that stops or kills one has its own.
func theServer(t testing.TB) *server {
	t.Helper()
	shared.Do(func() { shared.s, shared.err = newServer("fsync=off") })
	if errors.Is(shared.err, pgstoretest.ErrMissing) {
		t.Skip(shared.err)
	}
	require.NoError(t, shared.err)
	return shared.s
}

// ownServer returns a server for one test.
func ownServer(t testing.TB, options ...string) *server {
	t.Helper()
	s, err := newServer(options...)
	if errors.Is(err, pgstoretest.ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(s.Remove)
	return s
}

var schemas atomic.Int64

// freshSchema returns the name of a schema that no other test has.
func freshSchema() string { return fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1)) }

// schema returns the name of a schema that no other test has, which goes at the end of the test.
func (s *server) schema(t testing.TB) string {
	name := freshSchema()
	t.Cleanup(func() { s.query(t, `drop schema if exists `+name+` cascade`) })
	return name
}

// place returns a schema that no other test has.
func (s *server) place() enginetest.Place {
	return enginetest.Place{URL: s.DSN(), Name: freshSchema()}
}

// killAll kills the server with all its processes.
func (s *server) killAll() {
	for _, pid := range s.PIDs() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.Exited()
}

// open opens a Store, which is closed at the end of the test. It has more than one try of the time
// that the Options give a call.
func (s *server) open(t testing.TB, o pgstore.Options) *session.Store {
	t.Helper()
	store, err := pgstore.Open(t.Context(), s.DSN(), o)
	for range 20 {
		if !errors.Is(err, pgstore.ErrTimeout) {
			break
		}
		store, err = pgstore.Open(t.Context(), s.DSN(), o)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// query runs a statement beside every Store and returns the first value of its first row.
func (s *server) query(t testing.TB, sql string, args ...any) (value any) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.DSN())
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, sql, args...)
	require.NoError(t, err)
	defer rows.Close()
	if rows.Next() {
		values, err := rows.Values()
		require.NoError(t, err)
		if len(values) > 0 {
			value = values[0]
		}
	}
	rows.Close()
	require.NoError(t, rows.Err())
	return value
}
