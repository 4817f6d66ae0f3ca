package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// A server is a PostgreSQL of this test, on a socket in a directory of its own.
type server struct {
	bin, dir string
	options  []string // -c name=value
	cmd      *exec.Cmd
	exited   chan struct{}
}

var shared struct {
	sync.Once
	s   *server
	err error
}

var errNoPostgres = errors.New("PostgreSQL is not installed; .ci/postgres installs it")

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	code := m.Run()
	if shared.s != nil {
		shared.s.remove()
	}
	os.Exit(code) //nolint:forbidigo // that of a test
}

// theServer returns the server that tests share. A test that stops or kills one has its own.
func theServer(t testing.TB) *server {
	t.Helper()
	shared.Do(func() { shared.s, shared.err = newServer("fsync=off") })
	if errors.Is(shared.err, errNoPostgres) {
		t.Skip(shared.err)
	}
	require.NoError(t, shared.err)
	return shared.s
}

// ownServer returns a server for one test.
func ownServer(t testing.TB, options ...string) *server {
	t.Helper()
	s, err := newServer(options...)
	if errors.Is(err, errNoPostgres) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(s.remove)
	return s
}

// findPostgres returns the directory of the server's programs: OFFSHOOT_POSTGRES_BIN, that of the
// PATH, or the newest of Debian's packages.
func findPostgres() (string, error) {
	if dir := os.Getenv("OFFSHOOT_POSTGRES_BIN"); dir != "" {
		return dir, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	best, bestVersion := "", 0
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	for _, path := range found {
		dir := filepath.Dir(path)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && v > bestVersion {
			best, bestVersion = dir, v
		}
	}
	if best == "" {
		return "", errNoPostgres
	}
	return best, nil
}

func newServer(options ...string) (*server, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgstore")
	if err != nil {
		return nil, err
	}
	s := &server{bin: bin, dir: dir, options: options}
	if cred, err := credential(); err != nil {
		return nil, err
	} else if cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return nil, err
		}
	}
	out, err := s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8",
		"--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s, s.start()
}

// credential returns the user that the server runs as, since it refuses root; nil for this one.
func credential() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoPostgres, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err, err2)
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cred, err := credential()
	if err == nil && cred != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	}
	return cmd
}

// start starts the server and waits until it answers. After a kill, what is left of the one before
// needs a moment to see that.
func (s *server) start() error {
	var err error
	for range 100 {
		if err = s.startOnce(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func (s *server) startOnce() error {
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200"}
	for _, o := range s.options {
		args = append(args, "-c", o)
	}
	cmd := s.command("postgres", args...)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	for range 300 {
		select {
		case <-exited:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the server has ended: %s", text)
		case <-time.After(50 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, s.dsn())
		if err == nil {
			_ = conn.Close(ctx)
			cancel()
			return nil
		}
		cancel()
	}
	s.kill()
	return errors.New("the server does not answer")
}

// dsn is the connection string, for a pool of at most n connections if it is given.
func (s *server) dsn() string {
	q := url.Values{"host": {s.dir}, "user": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///postgres?" + q.Encode()
}

// kill ends the server with SIGKILL, as a loss of its machine would but for the disk.
func (s *server) kill() { s.signal(syscall.SIGKILL) }

// stop ends the server, and every connection, in order.
func (s *server) stop() { s.signal(syscall.SIGINT) }

func (s *server) signal(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(sig)
	<-s.exited
}

func (s *server) remove() {
	s.signal(syscall.SIGQUIT)
	_ = os.RemoveAll(s.dir)
}

// pids returns the processes of the server, the first one first.
func (s *server) pids() []int {
	pids := []int{s.cmd.Process.Pid}
	out, _ := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(pids[0])).Output()
	for field := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

var schemas atomic.Int64

// freshSchema returns the name of a schema that no other test has.
func freshSchema() string { return fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1)) }

// open opens a Store, which is closed at the end of the test.
func (s *server) open(t testing.TB, o pgstore.Options) *session.Store {
	t.Helper()
	store, err := pgstore.Open(t.Context(), s.dsn(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// query runs a statement beside every Store and returns the first value of its first row.
func (s *server) query(t testing.TB, sql string, args ...any) (value any) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.dsn())
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
