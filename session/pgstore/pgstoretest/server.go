//go:build unix

package pgstoretest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrMissing says that the machine has no PostgreSQL.
var ErrMissing = errors.New("pgstoretest: PostgreSQL is not installed; .ci/postgres installs it")

var errSilent = errors.New("pgstoretest: the server does not answer")

// A Server is a PostgreSQL with data of its own, which [New] makes. Its methods are for one
// goroutine at a time.
type Server struct {
	bin, dir string
	options  []string
	cmd      *exec.Cmd
	exited   chan struct{}
}

// New makes the data of a server in a directory for temporary files, and starts it with options of
// its configuration, as name=value. The caller removes it. Its programs are those of the directory
// OFFSHOOT_POSTGRES_BIN, of the PATH, or the newest ones of Debian's packages. The user root has it
// run as postgres, since a server refuses root. The error is [ErrMissing] on a machine without one.
func New(options ...string) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgstoretest")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, options: options}
	if err = s.begin(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *Server) begin() error {
	cred, err := credential()
	if err != nil {
		return err
	}
	if cred != nil {
		if err := os.Chown(s.dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	out, err := s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8",
		"--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s.Start()
}

// find returns the directory of the server's programs.
func find() (string, error) {
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
		return "", ErrMissing
	}
	return best, nil
}

// credential returns the user that the server runs as, since it refuses root; nil for this one.
func credential() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err, err2)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cred, err := credential()
	if err == nil && cred != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	}
	return cmd
}

// Start starts the server, and waits until it answers. After a kill, what is left of the one before
// needs a moment to see that.
func (s *Server) Start() error {
	var err error
	for range 100 {
		if err = s.startOnce(); err == nil {
			return nil
		}
		<-time.After(100 * time.Millisecond)
	}
	return err
}

func (s *Server) startOnce() error {
	args := []string{
		"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200",
	}
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
		if s.isReady(cmd.Process.Pid) {
			return nil
		}
	}
	s.Kill()
	return errSilent
}

// isReady reports whether the process takes connections, as it says in the last line of its file.
func (s *Server) isReady(pid int) bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	lines := strings.Fields(string(text))
	return err == nil && len(lines) > 0 && lines[0] == strconv.Itoa(pid) &&
		lines[len(lines)-1] == "ready"
}

// DSN is the connection string of the server's superuser.
func (s *Server) DSN() string {
	q := url.Values{"host": {s.dir}, "user": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///postgres?" + q.Encode()
}

// Kill ends the server with SIGKILL, as a loss of its machine would but for the disk.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

// Stop ends the server, and every connection, in order.
func (s *Server) Stop() { s.signal(syscall.SIGINT) }

// signal sends a signal that ends the server to its first process, and waits for its end.
func (s *Server) signal(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(sig)
	<-s.exited
}

// Exited is closed when the first process of the server has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Remove ends the server, and removes its data.
func (s *Server) Remove() {
	s.signal(syscall.SIGQUIT)
	_ = os.RemoveAll(s.dir)
}

// PIDs returns the processes of the server, the first one first.
func (s *Server) PIDs() []int {
	pids := []int{s.cmd.Process.Pid}
	out, _ := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(pids[0])).Output()
	for field := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
