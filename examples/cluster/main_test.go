//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/offshoot-sdk/offshoot/session/pgstore/pgstoretest"
	"github.com/stretchr/testify/require"
)

// envDesk has the test binary be a desk: the flag of its engine, the address and its name, with
// spaces between them.
const envDesk = "OFFSHOOT_TEST_DESK"

func TestMain(m *testing.M) {
	if part := strings.Split(os.Getenv(envDesk), " "); len(part) == 3 {
		os.Args = []string{"cluster", part[0], part[1], "-name", part[2], "-work", "2s"}
		main()
		return
	}
	m.Run()
}

// A process is a desk that runs.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at its end
}

func start(t *testing.T, engine, name string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), envDesk+"="+engine+" "+name)
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-ended
		_ = p.cmd.Wait()
	})
	p.says(t, name+": the desk is open; type a question")
	return p
}

// says waits for a line of the process.
func (p *process) says(t *testing.T, want string) {
	t.Helper()
	var said []string
	for late := time.After(2 * time.Minute); ; {
		select {
		case line, ok := <-p.lines:
			require.True(t, ok, "the process has ended, and said %q", said)
			if said = append(said, line); line == want {
				return
			}
		case <-late:
			require.Fail(t, "it does not say "+want, "%q", said)
		}
	}
}

func (p *process) ask(t *testing.T, question string) {
	t.Helper()
	_, err := fmt.Fprintln(p.in, question)
	require.NoError(t, err)
}

// onPostgres returns the flag and the address of a PostgreSQL.
func onPostgres(t *testing.T) string {
	s, err := pgstoretest.New()
	if errors.Is(err, pgstoretest.ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(s.Remove)
	return "-postgres " + s.DSN()
}

// onNATS returns the flag and the address of a nats-server in this process.
func onNATS(t *testing.T) string {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		SyncAlways: true, NoLog: true, NoSigs: true,
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(time.Minute))
	return "-nats " + s.ClientURL()
}

func TestDeskIsTakenOver(t *testing.T) {
	t.Run("postgres", func(t *testing.T) { takeOver(t, onPostgres(t)) })
	t.Run("nats", func(t *testing.T) { takeOver(t, onNATS(t)) })
}

// takeOver has two desks share a server. One is killed while its clerk is at work: the other one
// takes the chat over and answers. It is then ended in order, and the third one answers at once.
func takeOver(t *testing.T, engine string) {
	left, right := start(t, engine, "left"), start(t, engine, "right")
	left.ask(t, "where is the stapler?")
	left.says(t, "left: where is the stapler? — it is in the second drawer")
	right.ask(t, "where is the glue?")
	right.says(t, "right: where is the glue? — it is in the second drawer")

	left.ask(t, "where is the key?")
	left.says(t, `left: a clerk looks up "where is the key?"`)
	require.NoError(t, left.cmd.Process.Kill())
	right.says(t, "right: took over agent:main:desk:direct:left")
	right.says(t, `right: a clerk looks up "where is the key?"`)
	right.says(t, "right: where is the key? — it is in the second drawer")

	third := start(t, engine, "third")
	require.NoError(t, right.cmd.Process.Signal(syscall.SIGINT))
	for range right.lines {
	}
	third.ask(t, "and the ruler?")
	third.says(t, "third: and the ruler? — it is in the second drawer")
}

// What cannot be is said, with the usage.
func TestArguments(t *testing.T) {
	cmd := exec.Command("go", "run", ".", "more")
	cmd.Env = append(os.Environ(), "DATABASE_URL=")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), `got ["more"]`)
	require.Contains(t, string(out), "usage: cluster")
}
